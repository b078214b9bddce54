/* bench_tune.c - see bench_tune.h.  Failing: a child that fails ends the program with what it said; nothing
 * is written then. */
#include "bench_tune.h"
#include "bench_share.h"
#include "tuning.h"

#include "select.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

_Static_assert((int)SHARE_RIVALS_MOST >= (int)WEFT__CANDIDATES_MOST &&
                   (int)SHARE_SIZES_MOST == (int)BENCH_SIZES_MAX,
               "what is measured can be shared");

/* What a child finds out, and tells its parent as it is. */
struct finding {
    int rank, ranks;
    weft__medium medium;
};

struct timing {
    int candidate, size; /* weft__candidates, options->sizes */
    double microseconds;
};

struct tune {
    const struct bench_options *options;
    struct finding found;
    double times[WEFT__CANDIDATES][BENCH_SIZES_MAX]; /* 0: not measured */
    bool failed;
};

/* ---- what is measured ---------------------------------------------------------------------------------- */

static weft__way way_of(weft__kind kind, weft__medium medium)
{
    bool rounds = medium == WEFT__MEDIUM_MEMORY && !(weft__kind_traits(kind) & WEFT__UNEVEN);
    return rounds ? WEFT__ROUNDS : WEFT__MESSAGES;
}

/* The candidates that share the sizes of a kind, in order; fewer than two: there is nothing to tune. */
static int rivals_of(weft__kind kind, weft__medium medium, int rivals[WEFT__CANDIDATES_MOST])
{
    int n = 0;
    for (int i = 0; i < WEFT__CANDIDATES; i++) {
        const weft__candidate *c = &weft__candidates[i];
        if (c->kind == kind && c->way == way_of(kind, medium) && c->limit.reach != WEFT__REACH_NEVER)
            rivals[n++] = i;
    }
    return n;
}

/* The pass-th algorithm of every operation; false: no operation has so many. */
static bool list_pass(weft__medium medium, int pass, int tried[WEFT__KINDS_CHOSEN], char *list, size_t bytes)
{
    bool any = false;
    *list = '\0';
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++) {
        int rivals[WEFT__CANDIDATES_MOST], n = rivals_of((weft__kind)kind, medium, rivals);
        size_t at = strlen(list);
        tried[kind] = n > 1 && pass < n ? rivals[pass] : -1;
        if (tried[kind] < 0) continue;
        snprintf(list + at, bytes - at, "%s%s:%s", any ? "," : "", weft__kind_name((weft__kind)kind),
                 weft__candidates[rivals[pass]].name);
        any = true;
    }
    return any;
}

/* ---- in a child ---------------------------------------------------------------------------------------- */

static void tell(const struct bench_job *job, int fd, const void *what, size_t bytes)
{
    if (write(fd, what, bytes) != (ssize_t)bytes) bench_die(job, "telling a figure", strerror(errno));
}

static struct bench_job join(const struct bench_options *o, int pass)
{
    struct bench_job job = {0};
    weft_config config = WEFT_CONFIG_INIT;
    char name[32];
    snprintf(name, sizeof(name), "tune%d",
             pass); /* a rank may be quicker to join the next than one to leave */
    config.job = name;
    config.timeout_ms = o->timeout_ms;
    if (weft_init(&config, &job.ctx)) {
        fprintf(stderr, "weft-bench: the job cannot be joined: %s\n", weft_last_error());
        exit(BENCH_EXIT_FAILED);
    }
    job.world = weft_world(job.ctx);
    job.rank = weft_group_rank(job.world);
    job.ranks = weft_group_size(job.world);
    bench_must(&job, "setting the deadline", weft_group_set_timeout(job.world, o->timeout_ms));
    return job;
}

/* Ranks that share memory have a barrier without messages. */
static void look(const struct bench_job *job, int fd)
{
    struct finding found = {job->rank, job->ranks, WEFT__MEDIUM_MESSAGES};
    weft_request_info info;
    weft_request *req;
    bench_must(job, "a first barrier", weft_barrier(job->world, NULL, &req));
    bench_must(job, "a first barrier", weft_wait(req, WEFT_FOREVER));
    weft_request_get_info(req, &info);
    if (!strcmp(info.algorithm, "all_read")) found.medium = WEFT__MEDIUM_MEMORY;
    weft_release(req);
    tell(job, fd, &found, sizeof(found));
}

static void measure(const struct bench_job *job, const struct bench_options *o, int candidate, int size,
                    const struct bench_buffers *buffers, int fd)
{
    const weft__candidate *c = &weft__candidates[candidate];
    struct bench_point point = {.dtype = WEFT_FLOAT32, .op = WEFT_SUM, .bytes = o->sizes[size]};
    struct timing timing = {candidate, size, 0};
    struct bench_result result = {0};
    struct bench_run run;
    for (int i = 0; i < bench_cases_n; i++)
        if (!strcmp(bench_cases[i].name, weft__kind_name(c->kind))) point.what = &bench_cases[i];
    if (!bench_run_make(&run, job, &point, buffers)) bench_die(job, point.what->name, "out of memory");
    if (!bench_measure_time(&run, &o->effort, &result)) bench_die(job, point.what->name, weft_last_error());
    bench_run_free(&run);
    if (result.wrong > 0) bench_die(job, point.what->name, "elements were wrong");
    if (strcmp(result.algorithm, c->name) != 0) bench_die(job, point.what->name, "another algorithm has run");
    timing.microseconds = result.median;
    if (job->rank == 0) tell(job, fd, &timing, sizeof(timing));
}

static void measure_all(const struct bench_job *job, const struct bench_options *o,
                        const int tried[WEFT__KINDS_CHOSEN], int fd)
{
    size_t bytes = bench_run_room(o->sizes[o->sizes_n - 1], job->ranks);
    struct bench_buffers buffers = {.in = calloc(bytes, 1), .out = calloc(bytes, 1), .bytes = bytes};
    if (!buffers.in || !buffers.out) bench_die(job, "allocating the buffers", "out of memory");
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++)
        for (int size = 0; size < o->sizes_n && tried[kind] >= 0; size++)
            measure(job, o, tried[kind], size, &buffers, fd);
    free(buffers.in);
    free(buffers.out);
}

/* The whole life of a child.  tried NULL: it only looks around. */
static _Noreturn void child(const struct bench_options *o, int pass, const int *tried, const char *list,
                            int fd)
{
    enum { LEAVE_MS = 10000 };
    struct bench_job job;
    if (setenv("WEFT_ALGORITHM", list, 1)) exit(BENCH_EXIT_FAILED);
    job = join(o, pass);
    if (tried)
        measure_all(&job, o, tried, fd);
    else
        look(&job, fd);
    if (weft_finalize(job.ctx, LEAVE_MS)) weft_abort(job.ctx, "weft-bench is done");
    close(fd);
    exit(0);
}

/* ---- in the parent ------------------------------------------------------------------------------------- */

static void take_timings(struct tune *t, FILE *from)
{
    struct timing timing;
    while (fread(&timing, sizeof(timing), 1, from) == 1)
        t->times[timing.candidate][timing.size] = timing.microseconds;
}

/* Runs one child to its end. */
static void run_pass(struct tune *t, int pass, const int *tried, const char *list)
{
    int ends[2], how = 0;
    pid_t parent = getpid(), pid = pipe(ends) ? -1 : fork();
    FILE *from;
    if (pid < 0) {
        fprintf(stderr, "weft-bench: no child to measure in: %s\n", strerror(errno));
        t->failed = true;
        return;
    }
    if (pid == 0) {
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(BENCH_EXIT_FAILED); /* it was gone before that */
        child(t->options, pass, tried, list, ends[1]);
    }
    close(ends[1]);
    from = fdopen(ends[0], "r");
    if (from && tried) take_timings(t, from);
    if (!from || (!tried && fread(&t->found, sizeof(t->found), 1, from) != 1)) t->failed = true;
    if (from)
        fclose(from);
    else
        close(ends[0]);
    if (waitpid(pid, &how, 0) != pid || !WIFEXITED(how) || WEXITSTATUS(how)) t->failed = true;
}

/* Where the rule of each rival ends among the sizes. */
static void ends_by_rule(const struct tune *t, const int *rivals, int n, int ends[WEFT__CANDIDATES_MOST])
{
    const weft__group_params table = {.slot_bytes = UINT32_MAX};
    weft__selection rule;
    weft__selection_make(&rule, &table, t->found.ranks, t->found.medium == WEFT__MEDIUM_MEMORY);
    for (int i = 0; i < n; i++) {
        ends[i] = i ? ends[i - 1] : 0;
        while (ends[i] < t->options->sizes_n && t->options->sizes[ends[i]] <= rule.upto[rivals[i]]) ends[i]++;
    }
}

static uint64_t limit_of(const struct tune *t, const int *ends, int i)
{
    if (ends[i] == t->options->sizes_n) return WEFT__UPTO_ANY;
    return ends[i] > (i ? ends[i - 1] : 0) ? t->options->sizes[ends[i] - 1] : WEFT__UPTO_NEVER;
}

/* Limits that are about as good as those of the rule are not kept: the next measurement would find others. */
static void keep_limits(const struct tune *t, weft__kind kind, weft__choices *choices)
{
    int rivals[WEFT__CANDIDATES_MOST], ends[SHARE_RIVALS_MOST], rule[SHARE_RIVALS_MOST];
    int n = rivals_of(kind, t->found.medium, rivals), class = weft__size_class(t->found.ranks);
    struct share share = {.rivals = n, .sizes = t->options->sizes_n};
    bool pays;
    if (n < 2) return;
    for (int i = 0; i < n; i++) memcpy(share.times[i], t->times[rivals[i]], sizeof(share.times[i]));
    ends_by_rule(t, rivals, n, rule);
    pays = share_pays(&share, share_best(&share, ends), share_cost(&share, rule));
    for (int i = 0; i < n - 1; i++) { /* the last one does the rest */
        const weft__candidate *c = &weft__candidates[rivals[i]];
        int tunable = weft__tunable_find(weft__kind_name(kind), c->name);
        choices->upto[t->found.medium][class][tunable] = 0; /* by rule */
        if (pays)
            (void)weft__choices_set_limit(choices, t->found.medium, class, tunable, limit_of(t, ends, i));
    }
}

static void print(const struct tune *t, weft__kind kind)
{
    int rivals[WEFT__CANDIDATES_MOST], n = rivals_of(kind, t->found.medium, rivals);
    const struct bench_options *o = t->options;
    if (n < 2) return;
    printf("\n%s, microseconds\n%12s", weft__kind_name(kind), "bytes");
    for (int i = 0; i < n; i++) printf("  %18s", weft__candidates[rivals[i]].name);
    for (int size = 0; size < o->sizes_n; size++) {
        printf("\n%12zu", o->sizes[size]);
        for (int i = 0; i < n; i++) printf("  %18.2f", t->times[rivals[i]][size]);
    }
    putchar('\n');
}

static int keep(const struct tune *t)
{
    weft__choices choices;
    char path[WEFT__TUNING_PATH_BYTES];
    memset(&choices, 0, sizeof(choices));
    weft__tuning_path(path);
    /* What was measured for other ranks and transports stays. */
    if (*path && weft__tuning_read(path, &choices)) fprintf(stderr, "weft-bench: %s\n", weft_last_error());
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++) {
        print(t, (weft__kind)kind);
        keep_limits(t, (weft__kind)kind, &choices);
    }
    if (weft__tuning_write(path, &choices)) {
        fprintf(stderr, "weft-bench: %s\n", weft_last_error());
        return BENCH_EXIT_FAILED;
    }
    printf("\nkept in %s\nshown by weft-info --algorithms %d %s\n", path, t->found.ranks,
           weft__medium_name(t->found.medium));
    return 0;
}

int bench_tune(const struct bench_options *options)
{
    static struct tune t;
    int tried[WEFT__KINDS_CHOSEN];
    char list[1024];
    t.options = options;
    fflush(stdout);
    run_pass(&t, 0, NULL, "");
    if (!t.failed && t.found.ranks < 2) {
        fprintf(stderr, "weft-bench: --tune needs two ranks: weft-run -n 2 weft-bench --tune\n");
        return BENCH_EXIT_USAGE;
    }
    for (int pass = 0; !t.failed && list_pass(t.found.medium, pass, tried, list, sizeof(list)); pass++)
        run_pass(&t, pass + 1, tried, list);
    if (t.failed) return BENCH_EXIT_FAILED;
    return t.found.rank == 0 ? keep(&t) : 0;
}
