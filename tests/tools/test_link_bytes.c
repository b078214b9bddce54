/* test_link_bytes.c - the bytes that collectives send over the links of hosts, by the counters of the hosts' interfaces: with all
 * that a network adds (heads, acknowledgements, tags), close to the least that the busiest link has to carry, whatever the
 * placement of ranks.  (test_seats.c counts them from the schedules.)  LINK_BYTES_TABLE=1 prints each, LINK_BYTES_MOST=n [1 MiB] leaves larger
 * buffers out: 16777216 has all. */
#include "cables.h"
#include "collective.h"
#include "job.h"
#include "link_layouts.h"
#include "skip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLES_MS = 60 }; /* the last acknowledgements */

/* Results of a rank: what its host's interface has counted. */
enum { HEARD, SENT };

static const struct {
    collective_kind kind;
    weft__kind as;
} kinds[] = {{ALL_REDUCE, WEFT__OP_ALL_REDUCE}, {ALL_TO_ALL, WEFT__OP_ALL_TO_ALL},
             {BROADCAST, WEFT__OP_BROADCAST},   {ALL_GATHER, WEFT__OP_ALL_GATHER},
             {REDUCE, WEFT__OP_REDUCE},         {REDUCE_SCATTER, WEFT__OP_REDUCE_SCATTER}};

static const struct {
    size_t bytes;
    int times;
} sizes[] = {{65536, 16}, {1048576, 4}, {16777216, 1}};

/* They are those of the namespace that this process is in. */
static void read_counters(int64_t counted[2])
{
    char line[512];
    FILE *f = fopen("/proc/net/dev", "r");
    bool found = false;
    CHECK(f);
    while (!found && fgets(line, sizeof line, f)) {
        long long heard, sent;
        const char *at = strstr(line, "cable:");
        found = at && sscanf(at, "cable: %lld %*s %*s %*s %*s %*s %*s %*s %lld", &heard, &sent) == 2;
        if (found) counted[HEARD] = heard, counted[SENT] = sent;
    }
    fclose(f);
    CHECK(found);
}

/* On all ranks; the busiest way of any host's link since `before`. */
static double busiest_since(job_rank *me, const int64_t before[2])
{
    int64_t now[2];
    double most = 0;
    job_sleep_ms(SETTLES_MS);
    read_counters(now);
    for (int way = 0; way < 2; way++) job_results(me, me->rank)[way] = now[way] - before[way];
    job_meet(me);
    for (int r = 0; r < me->size; r++)
        for (int way = 0; way < 2; way++)
            if ((double)job_results(me, r)[way] > most) most = (double)job_results(me, r)[way];
    job_meet(me);
    return most;
}

static void check(const link_layout *placed, const link_group *hosts, size_t k, size_t n, double counted)
{
    const double least = link_least(hosts, kinds[k].as, sizes[n].bytes);
    const double most = 1.1 * link_allowance(kinds[k].as) * least;
    const bool fits = hosts->hosts == 1 || counted <= most;
    if (getenv("LINK_BYTES_TABLE") || !fits)
        printf("%-32s %-14s %6zu KiB: %10.1f KiB over the busiest link, %.2f of the least\n", placed->name,
               collective_name(kinds[k].kind), sizes[n].bytes / 1024, counted / 1024,
               least > 0 ? counted / least : 0.0);
    CHECK(fits);
    CHECK(counted >= least); /* or the counter is another one */
}

static size_t most_bytes(void)
{
    const char *text = getenv("LINK_BYTES_MOST");
    return text ? strtoul(text, NULL, 10) : 1048576;
}

static void play(job_rank *me, weft_group *group, const link_layout *placed, size_t k, size_t n)
{
    const link_group hosts = link_group_of(placed);
    const bool in_blocks = weft__kind_traits(kinds[k].as) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS);
    const collective what = {.kind = kinds[k].kind,
                             .dtype = WEFT_FLOAT32,
                             .op = WEFT_SUM,
                             .count = sizes[n].bytes / 4 / (in_blocks ? (size_t)hosts.size : 1)};
    int64_t before[2];
    double counted;
    if (group) collective_run(group, &what); /* connections are made, and windows known */
    job_meet(me);
    job_sleep_ms(SETTLES_MS);
    read_counters(before);
    job_meet(me);
    for (int i = 0; i < sizes[n].times && group; i++) collective_run(group, &what);
    job_meet(me);
    counted = busiest_since(me, before) / sizes[n].times;
    if (!me->rank) check(placed, &hosts, k, n, counted);
}

static void count_bytes(job_rank *me)
{
    const link_layout *placed = me->arg;
    const link_group hosts = link_group_of(placed);
    const int step = placed->halved ? 2 : 1;
    weft_group *group = NULL;
    weft_request *req = NULL;
    int ranks[LINK_RANKS];
    cables_enter_job(me, hosts.host_of[me->rank]);
    job_join(me);
    for (int i = 0; i < hosts.size; i++) ranks[i] = i * step;
    if (me->rank % step == 0) {
        CHECK_OK(weft_new_group(me->world, ranks, hosts.size, NULL, &group, &req));
        WAIT_OK(req);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes && sizes[n].bytes <= most_bytes(); n++)
            play(me, group, placed, k, n);
    if (group) CHECK_OK(weft_group_free(group));
    job_meet(me);
    job_leave(me);
}

static void links(void **state)
{
    const link_layout *placed = *state;
    CABLES_OR_SKIP();
    job_run(&(
        job_plan){.ranks = LINK_RANKS, .body = count_bytes, .bare = true, .processes = true, .arg = placed});
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[LINK_LAYOUTS];
    for (int i = 0; i < LINK_LAYOUTS; i++)
        tests[i] = (struct CMUnitTest){.name = link_layouts[i].name,
                                       .test_func = links,
                                       .initial_state = (void *)(uintptr_t)&link_layouts[i]};
    return CABLES_MAIN(LINK_HOSTS_MOST, tests, argc, argv);
}
