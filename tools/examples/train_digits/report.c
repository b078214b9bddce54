/* report.c - see report.h. */
#include "report.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What is gathered from a rank; int64_t only. */
struct row {
    int64_t dp, tp, preempted;
    struct traffic_account account;
};

static double ms(int64_t ns, size_t n)
{
    return n ? (double)ns * 1e-6 / (double)n : 0;
}

static double percent(int64_t part, int64_t whole)
{
    return whole ? 100 * (double)part / (double)whole : 0;
}

static void add(struct row *sum, const struct row *row)
{
    sum->preempted += row->preempted;
    sum->account.in_flight_ns += row->account.in_flight_ns;
    sum->account.exposed_ns += row->account.exposed_ns;
    for (int k = 0; k < SUM_KINDS; k++) {
        sum->account.kind[k].count += row->account.kind[k].count;
        sum->account.kind[k].bytes += row->account.kind[k].bytes;
        sum->account.kind[k].in_flight_ns += row->account.kind[k].in_flight_ns;
        sum->account.kind[k].exposed_ns += row->account.kind[k].exposed_ns;
    }
}

static void print_row(const char *name, const struct traffic_account *a, size_t n)
{
    int64_t hidden = a->in_flight_ns - a->exposed_ns;
    printf("%-16s %12.1f ms %10.1f ms %10.1f ms %7.0f %%\n", name, ms(a->in_flight_ns, n),
           ms(a->exposed_ns, n), ms(hidden, n), percent(hidden, a->in_flight_ns));
}

static void print_ranks(const struct row *rows, size_t ranks, const struct row *sum, size_t epochs)
{
    char name[64];
    printf("\nA rank's all_reduces in an overlapped epoch (mean of %zu): in flight = exposed + hidden\n",
           epochs);
    printf("%-16s %15s %13s %13s %9s\n", "rank", "in flight", "exposed", "hidden", "hidden");
    for (size_t r = 0; r < ranks; r++) {
        snprintf(name, sizeof(name), "%zu (dp %d, tp %d)", r, (int)rows[r].dp, (int)rows[r].tp);
        print_row(name, &rows[r].account, epochs);
    }
    print_row("all", &sum->account, epochs);
}

static void print_kinds(const struct row *sum, size_t ranks, size_t epochs)
{
    static const char *const names[SUM_KINDS] = {"outputs, tp", "input gradients, tp",
                                                 "weight gradients, dp"};
    printf("\n%-22s %9s %11s %14s %13s\n", "one all_reduce, mean", "an epoch", "size", "in flight",
           "exposed");
    for (int k = 0; k < SUM_KINDS; k++) {
        size_t n = (size_t)sum->account.kind[k].count;
        if (!n) continue;
        printf("%-22s %9zu %7.0f KiB %11.3f ms %10.3f ms\n", names[k], n / ranks / epochs,
               (double)sum->account.kind[k].bytes / (double)n / 1024,
               ms(sum->account.kind[k].in_flight_ns, n), ms(sum->account.kind[k].exposed_ns, n));
    }
}

static void print_paces(const struct measured *m)
{
    static const char *const names[PACES] = {"overlapped", "each waited for at once", "left out"};
    printf("\n%-24s %13s %13s\n", "an epoch, all_reduces", "median", "least");
    for (int p = 0; p < PACES; p++)
        printf("%-24s %10.1f ms %10.1f ms%s\n", names[p], ms(m->pace[p].median_ns, 1),
               ms(m->pace[p].least_ns, 1), p == PACE_LEFT_OUT ? "   computation only: learns nothing" : "");
}

/* What overlapping is worth, by the medians.  No sum can cost less than nothing: then it was the machine. */
static void print_verdict(const struct measured *m)
{
    int64_t bare = m->pace[PACE_LEFT_OUT].median_ns;
    int64_t at_once = m->pace[PACE_ONE_BY_ONE].median_ns - bare;
    int64_t overlapped = m->pace[PACE_OVERLAPPED].median_ns - bare, hidden = at_once - overlapped;
    printf(
        "\nThe all_reduces make an epoch longer by %.1f ms when each is waited for at once, by %.1f ms when\n"
        "overlapped: ",
        ms(at_once, 1), ms(overlapped, 1));
    if (at_once <= 0 || overlapped < 0)
        printf("less than nothing, as happens on a machine that is busy with other work; so nothing "
               "follows.\n");
    else if (hidden <= 0)
        printf("overlap hid nothing of it.\n");
    else
        printf("overlap hid %.1f ms of %.1f ms (%.0f %%).\n", ms(hidden, 1), ms(at_once, 1),
               percent(hidden, at_once));
}

/* More ranks than cores: then a rank also waits for its turn to compute, and the tables show that. */
static void print_cores(const struct trainer *t, const struct row *sum, size_t epochs)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int local = weft_local_size(t->layout.job);
    if (cores <= 0 || local <= cores) return;
    printf(
        "\n%d ranks on %ld cores: in an overlapped epoch the kernel took the core from a rank %.0f times.\n",
        local, cores, (double)sum->preempted / (double)t->layout.ranks / (double)epochs);
}

void report(const struct trainer *t, const struct measured *own)
{
    struct row mine = {(int64_t)t->layout.dp.at, (int64_t)t->layout.tp.at, own->preempted, own->account};
    struct row sum = {0, 0, 0, {0}};
    size_t ranks = (size_t)t->layout.ranks;
    struct row *rows = calloc(ranks, sizeof(*rows));
    if (!rows) fail("no memory for %zu ranks' times", ranks);
    check(weft_gather(t->layout.world, &mine, rows, sizeof(mine) / sizeof(int64_t), WEFT_INT64, 0, NULL,
                      NULL),
          "gathering the times");
    for (size_t r = 0; t->layout.rank == 0 && r < ranks; r++) add(&sum, &rows[r]);
    if (t->layout.rank == 0) {
        print_ranks(rows, ranks, &sum, own->epochs);
        print_kinds(&sum, ranks, own->epochs);
        print_paces(own);
        print_verdict(own);
        print_cores(t, &sum, own->epochs);
    }
    free(rows);
}
