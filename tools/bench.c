/* bench.c - weft-bench: how fast Weft is between the ranks of a job.
 *
 * Every rank reads the same command line, goes through the same points in the same order, and takes every
 * decision from numbers that all have agreed on.  Rank 0 reports.  Whatever fails ends the program on all
 * ranks with a sentence; operations have deadlines, so none waits for ever. */
#include "bench_cuda.h"
#include "bench_kernels.h"
#include "bench_nccl.h"
#include "bench_report.h"
#include "bench_tune.h"
#include "help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { JOIN_TO_REFUSE_MS = 10000, SENTENCE_BYTES = 160, REFUSAL_BYTES = 320 };

struct bench {
    struct bench_job job;
    struct bench_options options;
    struct bench_report report;
    struct bench_buffers buffers[2]; /* private, shared */
    int done, all;                   /* points */
    double wrong;
};

/* ---- the job ------------------------------------------------------------------------------------------- */

static bool join(struct bench_job *job, int64_t timeout_ms)
{
    weft_config config = WEFT_CONFIG_INIT;
    config.timeout_ms = timeout_ms;
    if (weft_init(&config, &job->ctx)) return false;
    job->world = weft_world(job->ctx);
    job->rank = weft_group_rank(job->world);
    job->ranks = weft_group_size(job->world);
    return true;
}

static void leave(struct bench_job *job)
{
    enum { LEAVE_MS = 10000 };
    if (weft_finalize(job->ctx, LEAVE_MS)) weft_abort(job->ctx, "weft-bench is done");
}

/* Once for the job, if there is one; the ranks end together, so that no launcher cuts the sentence off. */
static _Noreturn void refuse(struct bench_job *job, const char *sentence)
{
    bool joined = job->ctx || join(job, JOIN_TO_REFUSE_MS);
    if (!joined || job->rank == 0) fprintf(stderr, "weft-bench: %s\n", sentence);
    if (joined) {
        (void)weft_barrier(job->world, NULL, NULL);
        leave(job);
    }
    exit(BENCH_EXIT_USAGE);
}

/* Over what messages go: what a message to the next rank says, if that is the same for all. */
static const char *transport(const struct bench_job *job)
{
    static char name[24];
    char own[24] = "", byte = 0, got = 0;
    int n = job->ranks, to = (job->rank + 1) % n, from = (job->rank + n - 1) % n;
    weft_request *reqs[2];
    weft_request_info info;
    double same;
    bench_must(job, "a first message", weft_irecv(job->world, &got, 1, WEFT_INT8, from, 0, NULL, &reqs[0]));
    bench_must(job, "a first message", weft_isend(job->world, &byte, 1, WEFT_INT8, to, 0, NULL, &reqs[1]));
    bench_must(job, "a first message", weft_wait_all(reqs, 2, WEFT_FOREVER));
    weft_request_get_info(reqs[1], &info);
    snprintf(own, sizeof(own), "%s", info.algorithm ? info.algorithm : "");
    memcpy(name, own, sizeof(name));
    weft_release(reqs[0]);
    weft_release(reqs[1]);
    bench_must(job, "comparing transports",
               weft_broadcast(job->world, name, sizeof(name), WEFT_INT8, 0, NULL, NULL));
    same = bench_sum_of(job, strcmp(name, own) == 0);
    return (int)same == n ? name : "several transports";
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

static void *private_memory(const struct bench_job *job, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) bench_die(job, "allocating the buffers", "out of memory");
    return p;
}

static void *memory(const struct bench *b, bool shared, size_t bytes)
{
    bool device = bench_on_device(b->options.mode);
    void *p;
    if (!shared) return device ? bench_cuda_memory(bytes) : private_memory(&b->job, bytes);
    bench_must(&b->job, "allocating shared buffers",
               weft_mem_alloc(b->job.world, bytes, device ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST, &p));
    return p;
}

static void allocate(struct bench *b)
{
    const struct bench_options *o = &b->options;
    size_t largest = 0;
    for (int i = 0; i < o->sizes_n; i++)
        if (o->sizes[i] > largest) largest = o->sizes[i];
    largest = bench_run_room(largest, b->job.ranks) * (o->mode == BENCH_RATE ? BENCH_WINDOW : 1);
    for (int kind = 0; kind < 2; kind++) {
        struct bench_buffers *buffers = &b->buffers[kind];
        if (!o->memories[kind]) continue;
        *buffers = (struct bench_buffers){.in = memory(b, kind == 1, largest),
                                          .out = memory(b, kind == 1, largest),
                                          .bytes = largest};
        if (!bench_on_device(o->mode)) continue;
        if (kind == 1) {
            bench_nccl_register(&b->job, buffers->in, largest);
            bench_nccl_register(&b->job, buffers->out, largest);
        }
        buffers->near_in = private_memory(&b->job, largest);
        buffers->near_out = private_memory(&b->job, largest);
        buffers->copy = bench_cuda_copy;
    }
}

/* ---- points -------------------------------------------------------------------------------------------- */

/* Why an operation cannot be measured in this way; false: it can. */
static bool excluded(const struct bench *b, const struct bench_case *what, char *sentence, size_t bytes)
{
    const char *why = NULL;
    if (b->job.ranks < what->ranks_least)
        why = "needs two ranks";
    else if (b->options.in_place && !what->in_place)
        why = "has no form in place";
    else if (b->options.in_place && what->in_place_on_host && bench_on_device(b->options.mode))
        why = "has no form in place on a device";
    else if (b->options.mode == BENCH_OVERLAP && !what->start)
        why = "is no single operation that could overlap";
    if (why) snprintf(sentence, bytes, "%s %s", what->name, why);
    return why;
}

static void describe(const struct bench *b, const struct bench_run *run, struct bench_result *result)
{
    const struct bench_point *point = &run->point;
    size_t messages = b->options.mode == BENCH_RATE ? BENCH_WINDOW : 1, bytes = run->bytes / messages,
           count = run->count / messages;
    *result = (struct bench_result){.operation = point->what->name,
                                    .dtype = word_dtypes[point->dtype],
                                    .reduction = point->what->reduces ? word_reductions[point->op] : "",
                                    .memory = bench_memories[point->shared],
                                    .call = bench_calls[point->blocking],
                                    .in_place = point->in_place,
                                    .ranks = b->job.ranks,
                                    .bytes = (double)bytes,
                                    .count = (double)count};
}

/* False: the library does not do this, in any size. */
static bool measure(struct bench *b, const struct bench_point *point)
{
    const struct bench_options *o = &b->options;
    struct bench_result result;
    struct bench_run run;
    bool can;
    if (!bench_run_make(&run, &b->job, point, &b->buffers[point->shared]))
        bench_die(&b->job, point->what->name, "out of memory");
    describe(b, &run, &result);
    if (b->job.rank == 0) bench_report_progress(&b->report, b->done, b->all, &result);
    if (bench_on_device(o->mode))
        can = bench_measure_device(&run, &o->effort, o->mode == BENCH_COMPARE, &result);
    else if (o->mode == BENCH_OVERLAP)
        can = bench_measure_overlap(&run, &o->effort, &result);
    else
        can = bench_measure_time(&run, &o->effort, &result);
    bench_run_free(&run);
    if (!can) return false;
    /* The bandwidth of all pairs together, as the rate is. */
    if (o->mode == BENCH_RATE) result.algorithm_bandwidth = result.messages * result.bytes / 1e3;
    if (b->job.rank == 0) bench_report_add(&b->report, &result);
    b->wrong += result.wrong;
    return true;
}

static void measure_sizes(struct bench *b, struct bench_point point)
{
    const struct bench_options *o = &b->options;
    size_t element = weft_dtype_size(point.dtype);
    int sizes = point.what->layout == BENCH_NO_DATA ? 1 : o->sizes_n;
    for (int i = 0; i < sizes; i++, b->done++) {
        size_t elements = o->sizes[i] / element ? o->sizes[i] / element : 1;
        point.bytes = elements * element * (o->mode == BENCH_RATE ? BENCH_WINDOW : 1);
        if (measure(b, &point)) continue;
        if (!o->all_cases && !o->all_dtypes) refuse(&b->job, weft_last_error());
        if (b->job.rank == 0) bench_report_left_out(&b->report, weft_last_error());
        b->done += sizes - i;
        return;
    }
}

static void measure_case(struct bench *b, const struct bench_case *what)
{
    const struct bench_options *o = &b->options;
    struct bench_point point = {.what = what, .op = o->op, .in_place = o->in_place};
    bool once = what->layout == BENCH_NO_DATA, first = true;
    for (int dtype = 0; dtype < WORD_DTYPES; dtype++)
        for (int memory = 0; memory < 2; memory++)
            for (int call = 0; call < 2; call++) {
                if (!o->dtypes[dtype] || !o->memories[memory] || !o->calls[call]) continue;
                point.dtype = (weft_dtype)dtype;
                point.shared = memory == 1;
                point.blocking = call == 1;
                if (first || !once) measure_sizes(b, point);
                first = false;
            }
}

static int set_of(const bool *flags, int n)
{
    int set = 0;
    for (int i = 0; i < n; i++) set += flags[i];
    return set;
}

static int points_of(const struct bench *b, const struct bench_case *what)
{
    const struct bench_options *o = &b->options;
    char why[SENTENCE_BYTES];
    if (excluded(b, what, why, sizeof(why))) return 0;
    if (what->layout == BENCH_NO_DATA) return 1;
    return o->sizes_n * set_of(o->dtypes, WORD_DTYPES) * set_of(o->memories, 2) * set_of(o->calls, 2);
}

static void measure_all(struct bench *b)
{
    const struct bench_options *o = &b->options;
    char why[SENTENCE_BYTES];
    if (o->mode == BENCH_RATE) {
        b->all = points_of(b, &bench_rate_case);
        measure_case(b, &bench_rate_case);
        return;
    }
    for (int i = 0; i < bench_cases_n; i++)
        if (o->cases[i]) b->all += points_of(b, &bench_cases[i]);
    for (int i = 0; i < bench_cases_n; i++) {
        if (!o->cases[i]) continue;
        if (!excluded(b, &bench_cases[i], why, sizeof(why)))
            measure_case(b, &bench_cases[i]);
        else if (b->job.rank == 0)
            bench_report_left_out(&b->report, why);
    }
}

/* What was asked for by name and cannot be done is a mistake of the command line. */
static void check_cases(struct bench *b)
{
    const struct bench_options *o = &b->options;
    char why[SENTENCE_BYTES];
    if (o->mode == BENCH_RATE && excluded(b, &bench_rate_case, why, sizeof(why))) refuse(&b->job, why);
    for (int i = 0; i < bench_cases_n && o->mode != BENCH_RATE && !o->all_cases; i++)
        if (o->cases[i] && excluded(b, &bench_cases[i], why, sizeof(why))) refuse(&b->job, why);
}

/* Whether all ranks can; if not, the first that cannot tells all why. */
static void agree(struct bench *b, bool can, char why[REFUSAL_BYTES])
{
    struct bench_job *job = &b->job;
    int first = (int)-bench_greatest_of(job, can ? -job->ranks : -job->rank);
    if (first == job->ranks) return;
    bench_must(job, "telling why not",
               weft_broadcast(job->world, why, REFUSAL_BYTES, WEFT_INT8, first, NULL, NULL));
    refuse(job, why);
}

static void open_device(struct bench *b)
{
    char why[REFUSAL_BYTES] = "";
    if (!bench_on_device(b->options.mode)) return;
    agree(b, bench_cuda_open(&b->job, why, sizeof(why)), why);
    if (b->options.mode != BENCH_COMPARE) return;
    agree(b, bench_nccl_open(why, sizeof(why)), why);
    bench_nccl_join(&b->job);
}

static bool measure_and_report(struct bench *b)
{
    bool good = true;
    const char *over = bench_on_device(b->options.mode) ? bench_cuda_name() : transport(&b->job);
    if (b->job.rank == 0) good = bench_report_open(&b->report, &b->options, b->job.ranks, over);
    if (bench_sum_of(&b->job, good ? 0 : 1) > 0) return false;
    allocate(b);
    measure_all(b);
    if (b->job.rank == 0) good = bench_report_close(&b->report);
    if (b->wrong > 0 && b->job.rank == 0) fprintf(stderr, "weft-bench: %.0f elements were wrong\n", b->wrong);
    return bench_sum_of(&b->job, good ? 0 : 1) == 0 && b->wrong == 0;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct bench_options *o = &bench.options;
    bool good;
    bench_options_parse(o, argc, argv);
    if (o->help) {
        help_print();
        return 0;
    }
    if (o->version) {
        printf("weft-bench %d.%d.%d\n", weft_version() / 10000, weft_version() / 100 % 100,
               weft_version() % 100);
        return 0;
    }
    if (*o->refusal) refuse(&bench.job, o->refusal);
    if (o->mode == BENCH_TUNE) return bench_tune(o);
    if (o->mode == BENCH_KERNELS) return bench_kernels(o);
    if (!join(&bench.job, o->timeout_ms)) {
        fprintf(stderr, "weft-bench: the job cannot be joined: %s\n", weft_last_error());
        return BENCH_EXIT_FAILED;
    }
    check_cases(&bench);
    bench_must(&bench.job, "setting the deadline", weft_group_set_timeout(bench.job.world, o->timeout_ms));
    open_device(&bench);
    good = measure_and_report(&bench);
    bench_nccl_leave();
    leave(&bench.job);
    return good ? 0 : BENCH_EXIT_FAILED;
}
