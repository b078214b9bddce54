/* bench_kernels.c - see bench_kernels.h.  Failing: without memory the program ends with a sentence; what a
 * kernel gets wrong is told like any other wrong result. */
#include "bench_kernels.h"
#include "bench_report.h"

#include "reduce_levels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, TRACKS_MOST = 2 + 2 * WEFT__LEVELS_MOST };
static const double bunch_seconds = 2e-5; /* a clock shows in less */
static const int sources_measured[] = {2, 4};

/* What one processor level makes of a reduction, stored the usual way or streamed. */
struct rival {
    const char *level, *stores;
    const weft__kernel_table *kernels;
};

/* One point, in its memory: the sources, and the result behind them. */
struct point {
    weft_dtype dtype;
    weft_op op;
    int sources;
    size_t count, block; /* of each: elements, bytes */
    unsigned char *at;
    struct bench_pattern pattern;
};

/* What is timed by turns: a copy, a read, and the rivals. */
struct track {
    const struct rival *rival; /* NULL: one of those two */
    bool reads;
    size_t passes;   /* of a sample */
    double *samples; /* seconds of a pass */
};

struct kernels {
    const struct bench_options *options;
    struct bench_report report;
    struct rival rivals[2 * WEFT__LEVELS_MOST];
    int rivals_n, done, all;
    unsigned char *memory;
    double wrong;
};

static _Noreturn void out_of_memory(void)
{
    fputs("weft-bench: out of memory\n", stderr);
    exit(BENCH_EXIT_FAILED);
}

/* ---- one pass over the memory of a point --------------------------------------------------------------- */

/* Half a line, wherever it lies. */
typedef uint64_t lanes __attribute__((vector_size(LINE / 2), aligned(1), may_alias));

/* How many bytes of each block are read: two lines at a time. */
static size_t read_bytes(const struct point *p)
{
    return p->block / (2 * LINE) * (2 * LINE);
}

/* All blocks side by side, as a kernel reads its sources. */
static inline __attribute__((always_inline)) uint64_t read_blocks(const struct point *p)
{
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    size_t block = p->block, bytes = read_bytes(p), last = (size_t)p->sources * block;
    for (size_t i = 0; i < bytes; i += 2 * LINE)
        for (size_t at = i; at <= last + i; at += block) {
            const lanes *from = (const lanes *)(p->at + at);
            a ^= from[0], b ^= from[1], c ^= from[2], d ^= from[3];
        }
    a ^= b ^ c ^ d;
    return a[0] ^ a[1] ^ a[2] ^ a[3];
}

static uint64_t read_plain(const struct point *p)
{
    return read_blocks(p);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_wide(const struct point *p)
{
    return read_blocks(p);
}
#endif

static void read_all(const struct point *p)
{
    uint64_t seen;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        seen = read_wide(p);
    else
#endif
        seen = read_plain(p);
    __asm__ volatile("" : : "r"(seen)); /* else the compiler leaves it out */
}

/* An odd number of lines: two buffers then do not begin at the same place of a page, where loads wait for
 * stores that are not theirs. */
static size_t odd_lines(size_t bytes)
{
    return ((bytes / LINE - 1) | 1) * LINE;
}

/* One half of the memory to the other. */
static size_t copied_bytes(const struct point *p)
{
    return odd_lines((size_t)(p->sources + 1) * p->block / 2);
}

static void reduce(const struct point *p, const struct rival *rival)
{
    const void *in[WEFT__REDUCE_SOURCES];
    bool average = p->op == WEFT_AVG;
    weft__reduce_fn *kernel = (*rival->kernels)[p->dtype][average ? WEFT_SUM : p->op];
    for (int s = 0; s < p->sources; s++) in[s] = p->at + (size_t)s * p->block;
    kernel(p->at + (size_t)p->sources * p->block, in, p->sources, p->count, average ? 1.0 / p->sources : 1);
}

static void pass(const struct point *p, const struct track *t)
{
    if (t->rival)
        reduce(p, t->rival);
    else if (t->reads)
        read_all(p);
    else
        memcpy(p->at + copied_bytes(p), p->at, copied_bytes(p));
}

/* ---- measuring a point --------------------------------------------------------------------------------- */

static void fill(const struct point *p)
{
    for (int s = 0; s < p->sources; s++)
        bench_pattern_fill(&p->pattern, 0, s, 0, p->count, p->at + (size_t)s * p->block);
    memset(p->at + (size_t)p->sources * p->block, 0xa5, p->block);
}

/* Seconds of so many passes, behind one that brings the memory to where this track leaves it. */
static double seconds_of(const struct point *p, const struct track *t, size_t passes)
{
    double start;
    pass(p, t);
    start = bench_now();
    for (size_t i = 0; i < passes; i++) pass(p, t);
    return bench_now() - start;
}

/* Finds how many passes make a sample.  Seconds of a round of all. */
static double warm(const struct kernels *k, const struct point *p, struct track *tracks, int n)
{
    double round = 0;
    for (int i = 0; i < n; i++) {
        struct track *t = &tracks[i];
        double seconds;
        for (size_t w = 0; w < k->options->effort.warmup; w++) pass(p, t);
        for (t->passes = 1; (seconds = seconds_of(p, t, t->passes)) < bunch_seconds; t->passes *= 2) continue;
        round += seconds * (double)(t->passes + 1) / (double)t->passes;
    }
    return round;
}

static size_t wrong_elements(struct point *p, const struct rival *rival)
{
    fill(p);
    reduce(p, rival);
    return bench_pattern_wrong(&p->pattern, 0, BENCH_REDUCED, 0, p->count,
                               p->at + (size_t)p->sources * p->block);
}

static double gigabytes(size_t bytes, const struct track *t)
{
    return (double)bytes / t->samples[0] / 1e9;
}

/* Fills in a rival's figures from sorted samples; the first two tracks are the copy and the read. */
static void figures(const struct point *p, const struct track *tracks, const struct track *t,
                    struct bench_result *result)
{
    size_t all = (size_t)(p->sources + 1) * p->block;
    double reachable;
    result->level = t->rival->level;
    result->stores = t->rival->stores;
    result->bunch = (double)t->passes;
    result->least = t->samples[0] * 1e6;
    result->moved = gigabytes(all, t);
    result->copied = gigabytes(2 * copied_bytes(p), &tracks[0]);
    result->read = gigabytes((size_t)(p->sources + 1) * read_bytes(p), &tracks[1]);
    reachable = result->copied > result->read ? result->copied : result->read;
    result->share = 100 * result->moved / reachable;
}

static void sample_all(const struct point *p, struct track *tracks, int n, size_t samples)
{
    for (size_t at = 0; at < samples; at++)
        for (int i = 0; i < n; i++)
            tracks[i].samples[at] = seconds_of(p, &tracks[i], tracks[i].passes) / (double)tracks[i].passes;
}

static void measure(struct kernels *k, struct point *p, struct bench_result *result)
{
    struct track tracks[TRACKS_MOST] = {{.reads = false}, {.reads = true}};
    int n = 2;
    double *room;
    size_t samples;
    for (int i = 0; i < k->rivals_n; i++) tracks[n++].rival = &k->rivals[i];
    fill(p);
    samples = bench_measure_fit(&k->options->effort, warm(k, p, tracks, n) / k->rivals_n);
    room = calloc(samples * (size_t)n, sizeof(*room));
    if (!room) out_of_memory();
    for (int i = 0; i < n; i++) tracks[i].samples = room + (size_t)i * samples;
    sample_all(p, tracks, n, samples);
    result->samples = (double)samples;
    (void)bench_median(tracks[0].samples, samples); /* which sorts them */
    (void)bench_median(tracks[1].samples, samples);
    for (int i = 2; i < n; i++) {
        result->median = bench_median(tracks[i].samples, samples) * 1e6;
        figures(p, tracks, &tracks[i], result);
        result->wrong = k->options->effort.check ? (double)wrong_elements(p, tracks[i].rival) : 0;
        k->wrong += result->wrong;
        bench_report_add(&k->report, result);
    }
    free(room);
}

/* ---- all points ---------------------------------------------------------------------------------------- */

static void measure_point(struct kernels *k, weft_dtype dtype, weft_op op, size_t bytes, int sources)
{
    struct point p = {.dtype = dtype, .op = op, .sources = sources, .at = k->memory};
    struct bench_result result = {.operation = word_reductions[op],
                                  .reduction = word_reductions[op],
                                  .dtype = word_dtypes[dtype],
                                  .sources = sources,
                                  .bytes = (double)bytes};
    p.block = odd_lines(bytes / (size_t)(sources + 1));
    p.count = p.block / weft_dtype_size(dtype);
    result.count = (double)p.count;
    bench_report_progress(&k->report, k->done++, k->all, &result);
    if (!bench_pattern_make(&p.pattern, dtype, op, sources)) out_of_memory();
    measure(k, &p, &result);
    bench_pattern_free(&p.pattern);
}

static bool exists(weft_dtype dtype, weft_op op)
{
    return weft__reduce_kernel(dtype, op) != NULL;
}

/* False: this type has not what was asked for. */
static bool measure_reduction(struct kernels *k, weft_dtype dtype, weft_op op)
{
    const struct bench_options *o = k->options;
    if (!exists(dtype, op)) return false;
    for (int size = 0; size < o->sizes_n; size++)
        for (size_t i = 0; i < sizeof(sources_measured) / sizeof(sources_measured[0]); i++)
            measure_point(k, dtype, op, o->sizes[size], sources_measured[i]);
    return true;
}

/* PREMUL_SUM has the kernels of SUM. */
static bool is_asked_for(const struct bench_options *o, int op)
{
    return o->all_reductions ? op != WEFT_PREMUL_SUM : op == (int)o->op;
}

/* What was asked for by name and does not exist is a mistake of the command line. */
static bool refused(const struct bench_options *o)
{
    for (int dtype = 0; dtype < WORD_DTYPES && !o->all_dtypes && !o->all_reductions; dtype++) {
        if (!o->dtypes[dtype] || exists((weft_dtype)dtype, o->op)) continue;
        fprintf(stderr, "weft-bench: %s does not exist on %s\n", word_reductions[o->op], word_dtypes[dtype]);
        return true;
    }
    return false;
}

static int points_of(const struct bench_options *o)
{
    int n = 0;
    for (int dtype = 0; dtype < WORD_DTYPES; dtype++)
        for (int op = 0; op < WORD_REDUCTIONS; op++)
            n += o->dtypes[dtype] && is_asked_for(o, op) && exists((weft_dtype)dtype, (weft_op)op);
    return n * o->sizes_n * (int)(sizeof(sources_measured) / sizeof(sources_measured[0]));
}

static void measure_all(struct kernels *k)
{
    const struct bench_options *o = k->options;
    char sentence[96];
    k->all = points_of(o);
    for (int dtype = 0; dtype < WORD_DTYPES; dtype++)
        for (int op = 0; op < WORD_REDUCTIONS; op++) {
            if (!o->dtypes[dtype] || !is_asked_for(o, op)) continue;
            if (measure_reduction(k, (weft_dtype)dtype, (weft_op)op) || o->all_reductions) continue;
            snprintf(sentence, sizeof(sentence), "%s does not exist on %s", word_reductions[op],
                     word_dtypes[dtype]);
            bench_report_left_out(&k->report, sentence);
        }
}

static void list_rivals(struct kernels *k)
{
    const weft__level *levels[WEFT__LEVELS_MOST];
    int n = weft__reduce_levels(levels);
    for (int i = 0; i < n; i++) {
        k->rivals[k->rivals_n++] = (struct rival){levels[i]->name, "usual", levels[i]->kernels};
        if (levels[i]->streams)
            k->rivals[k->rivals_n++] = (struct rival){levels[i]->name, "streamed", levels[i]->streams};
    }
}

int bench_kernels(const struct bench_options *o)
{
    static struct kernels k;
    size_t largest = 0;
    bool good;
    k.options = o;
    for (int i = 0; i < o->sizes_n; i++)
        if (o->sizes[i] > largest) largest = o->sizes[i];
    if (refused(o)) return BENCH_EXIT_USAGE;
    if (!bench_report_open(&k.report, o, 1, "none")) return BENCH_EXIT_FAILED;
    k.memory = mmap(NULL, largest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (k.memory == MAP_FAILED) out_of_memory();
    list_rivals(&k);
    measure_all(&k);
    munmap(k.memory, largest);
    good = bench_report_close(&k.report);
    if (k.wrong > 0) fprintf(stderr, "weft-bench: %.0f elements were wrong\n", k.wrong);
    return good && k.wrong == 0 ? 0 : BENCH_EXIT_FAILED;
}
