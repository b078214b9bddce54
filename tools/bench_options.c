/* bench_options.c - see bench_options.h; help/weft-bench.txt is the text of --help. */
#include "bench_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_memories[2] = {"private", "shared"};
const char *const bench_calls[2] = {"request", "blocking"};

enum { FACTOR = 8, WARMUP = 5, COUNT_MOST = 1000000, TIMEOUT_S = 60 };
static const size_t size_most = (size_t)1 << 40;
static const double point_seconds = 0.1, seconds_most = 1e6;

/* What parse has seen and finish puts together. */
struct raw {
    bool sizes_given, range_given;
    size_t begin, end, factor;
    bool rate, overlap, device, compare, tune, kernels;
};

static void __attribute__((format(printf, 2, 3))) refuse(struct bench_options *o, const char *format, ...)
{
    size_t room = *o->refusal ? 0 : sizeof(o->refusal); /* the first one is told */
    va_list args;
    va_start(args, format);
    vsnprintf(o->refusal, room, format, args);
    va_end(args);
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* Calls `take` with each word of a list "a,b,c"; an empty word is one too. */
static void each_word(struct bench_options *o, const char *list,
                      void (*take)(struct bench_options *o, const char *word, size_t n))
{
    for (;;) {
        size_t n = strcspn(list, ",");
        take(o, list, n);
        if (!list[n]) return;
        list += n + 1;
    }
}

static void take_case(struct bench_options *o, const char *word, size_t n)
{
    for (int i = 0; i < bench_cases_n; i++) {
        if (strlen(bench_cases[i].name) != n || strncmp(bench_cases[i].name, word, n)) continue;
        o->cases[i] = true;
        return;
    }
    if (n == 3 && !strncmp(word, "all", n))
        o->all_cases = true;
    else
        refuse(o, "--op: there is no operation \"%.*s\"; --help lists them", (int)n, word);
}

static void take_size(struct bench_options *o, const char *word, size_t n)
{
    if (o->sizes_n == BENCH_SIZES_MAX)
        refuse(o, "--sizes takes %d sizes at most", BENCH_SIZES_MAX);
    else if (!word_size(word, n, &o->sizes[o->sizes_n]) || o->sizes[o->sizes_n] > size_most)
        refuse(o, "--sizes takes sizes like 8, 4K or 16M, up to 1T, not \"%.*s\"", (int)n, word);
    else
        o->sizes_n++;
}

static void take_dtype(struct bench_options *o, const char *word, size_t n)
{
    int dtype = word_find(word_dtypes, WORD_DTYPES, word, n);
    if (n == 3 && !strncmp(word, "all", n)) {
        o->all_dtypes = true;
    } else if (dtype < 0) {
        refuse(o, "--dtype: there is no type \"%.*s\"; --help lists them", (int)n, word);
    } else {
        o->dtypes[dtype] = true;
    }
}

static void take_memory(struct bench_options *o, const char *word, size_t n)
{
    int memory = word_find(bench_memories, 2, word, n);
    if (memory < 0)
        refuse(o, "--memory takes private, shared or both, not \"%.*s\"", (int)n, word);
    else
        o->memories[memory] = true;
}

static void take_call(struct bench_options *o, const char *word, size_t n)
{
    int call = word_find(bench_calls, 2, word, n);
    if (call < 0)
        refuse(o, "--call takes request, blocking or both, not \"%.*s\"", (int)n, word);
    else
        o->calls[call] = true;
}

static void take_reduction(struct bench_options *o, const char *text)
{
    int op = word_find(word_reductions, WORD_REDUCTIONS, text, strlen(text));
    if (!strcmp(text, "all"))
        o->all_reductions = true;
    else if (op < 0)
        refuse(o, "--reduction: there is no reduction \"%s\"; --help lists them", text);
    else
        o->op = (weft_op)op;
}

static size_t one_size(struct bench_options *o, const char *name, const char *text)
{
    size_t bytes = 0;
    if (!word_size(text, strlen(text), &bytes) || bytes > size_most)
        refuse(o, "%s takes a size like 8, 4K or 16M, up to 1T, not \"%s\"", name, text);
    return bytes;
}

static size_t number(struct bench_options *o, const char *name, const char *text, long least)
{
    char *end;
    long n;
    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > COUNT_MOST) {
        refuse(o, "%s takes a number from %ld to %d, not \"%s\"", name, least, COUNT_MOST, text);
        return 1;
    }
    return (size_t)n;
}

static double seconds(struct bench_options *o, const char *name, const char *text)
{
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s > 0 && s <= seconds_most)) {
        refuse(o, "%s takes seconds, more than 0, not \"%s\"", name, text);
        return 1;
    }
    return s;
}

/* ---- the command line ---------------------------------------------------------------------------------- */

enum {
    OP = 256,
    SIZES,
    DTYPE,
    REDUCTION,
    ITERATIONS,
    WARM,
    TIME,
    MEMORY,
    CALL,
    IN_PLACE,
    RATE,
    OVERLAP,
    DEVICE,
    COMPARE,
    TUNE,
    KERNELS,
    CHECK,
    NO_CHECK,
    TIMEOUT,
    CSV,
    JSON,
    SVG,
    VERSION
};

static const struct option names[] = {{"op", required_argument, NULL, OP},
                                      {"sizes", required_argument, NULL, SIZES},
                                      {"begin", required_argument, NULL, 'b'},
                                      {"end", required_argument, NULL, 'e'},
                                      {"factor", required_argument, NULL, 'f'},
                                      {"dtype", required_argument, NULL, DTYPE},
                                      {"reduction", required_argument, NULL, REDUCTION},
                                      {"iterations", required_argument, NULL, ITERATIONS},
                                      {"warmup", required_argument, NULL, WARM},
                                      {"time", required_argument, NULL, TIME},
                                      {"memory", required_argument, NULL, MEMORY},
                                      {"call", required_argument, NULL, CALL},
                                      {"in-place", no_argument, NULL, IN_PLACE},
                                      {"rate", no_argument, NULL, RATE},
                                      {"overlap", no_argument, NULL, OVERLAP},
                                      {"device", no_argument, NULL, DEVICE},
                                      {"compare", required_argument, NULL, COMPARE},
                                      {"tune", no_argument, NULL, TUNE},
                                      {"kernels", no_argument, NULL, KERNELS},
                                      {"check", no_argument, NULL, CHECK},
                                      {"no-check", no_argument, NULL, NO_CHECK},
                                      {"timeout", required_argument, NULL, TIMEOUT},
                                      {"csv", required_argument, NULL, CSV},
                                      {"json", required_argument, NULL, JSON},
                                      {"svg", required_argument, NULL, SVG},
                                      {"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, VERSION},
                                      {NULL, 0, NULL, 0}};

/* True, whatever the word is: then it has been refused. */
static bool takes_nccl(struct bench_options *o, const char *word)
{
    if (strcmp(word, "nccl")) refuse(o, "--compare takes nccl, not \"%s\"", word);
    return true;
}

/* What to measure; false: `c` says something else. */
static bool take_what(struct bench_options *o, struct raw *raw, int c)
{
    switch (c) {
    case OP: each_word(o, optarg, take_case); return true;
    case SIZES: each_word(o, optarg, take_size); return raw->sizes_given = true;
    case 'b': raw->begin = one_size(o, "--begin", optarg); return raw->range_given = true;
    case 'e': raw->end = one_size(o, "--end", optarg); return raw->range_given = true;
    case 'f': raw->factor = number(o, "--factor", optarg, 2); return raw->range_given = true;
    case DTYPE: each_word(o, optarg, take_dtype); return true;
    case REDUCTION: take_reduction(o, optarg); return true;
    case MEMORY: each_word(o, optarg, take_memory); return true;
    case CALL: each_word(o, optarg, take_call); return true;
    case IN_PLACE: return o->in_place = true;
    case RATE: return raw->rate = true;
    case OVERLAP: return raw->overlap = true;
    case DEVICE: return raw->device = true;
    case COMPARE: return raw->compare = takes_nccl(o, optarg);
    case TUNE: return raw->tune = true;
    case KERNELS: return raw->kernels = true;
    default: return false;
    }
}

/* How long, and what becomes of it. */
static void take_how(struct bench_options *o, int c, const char *word)
{
    switch (c) {
    case ITERATIONS: o->effort.iterations = number(o, "--iterations", optarg, 1); break;
    case WARM: o->effort.warmup = number(o, "--warmup", optarg, 0); break;
    case TIME: o->effort.seconds = seconds(o, "--time", optarg); break;
    case CHECK: o->effort.check = true; break;
    case NO_CHECK: o->effort.check = false; break;
    case TIMEOUT: o->timeout_ms = (int64_t)ceil(seconds(o, "--timeout", optarg) * 1000); break;
    case CSV: o->csv = optarg; break;
    case JSON: o->json = optarg; break;
    case SVG: o->svg = optarg; break;
    case 'h': o->help = true; break;
    case VERSION: o->version = true; break;
    case ':': refuse(o, "%s needs a value", word); break;
    default: refuse(o, "there is no option %s; --help lists them", word);
    }
}

static void make_sizes(struct bench_options *o, const struct raw *raw)
{
    if (raw->sizes_given && raw->range_given) {
        refuse(o, "--sizes and --begin, --end, --factor exclude each other");
        return;
    }
    if (raw->sizes_given) return;
    if (raw->begin < 1 || raw->begin > raw->end) {
        refuse(o, "--begin must be from 1 to --end, not %zu (--end is %zu)", raw->begin, raw->end);
        return;
    }
    for (size_t size = raw->begin; size <= raw->end; size *= raw->factor) {
        if (o->sizes_n == BENCH_SIZES_MAX) {
            refuse(o, "from --begin to --end are more than %d sizes", BENCH_SIZES_MAX);
            return;
        }
        o->sizes[o->sizes_n++] = size;
        if (size > raw->end / raw->factor) return; /* before it overflows */
    }
}

static bool any(const bool *flags, int n)
{
    for (int i = 0; i < n; i++)
        if (flags[i]) return true;
    return false;
}

static void choose_mode(struct bench_options *o, const struct raw *raw)
{
    if (raw->rate + raw->overlap + raw->device + raw->tune + raw->kernels > 1)
        refuse(o, "--rate, --overlap, --device, --tune and --kernels exclude each other");
    if (raw->compare && !raw->device) refuse(o, "--compare nccl needs --device");
    if (o->all_reductions && !raw->kernels) refuse(o, "--reduction all needs --kernels");
    o->mode = raw->tune      ? BENCH_TUNE
              : raw->kernels ? BENCH_KERNELS
              : raw->rate    ? BENCH_RATE
              : raw->overlap ? BENCH_OVERLAP
              : raw->compare ? BENCH_COMPARE
              : raw->device  ? BENCH_DEVICE
                             : BENCH_TIME;
}

static bool concerns_operations(const struct bench_options *o)
{
    return o->all_cases || any(o->cases, bench_cases_n) || any(o->memories, 2) || any(o->calls, 2) ||
           o->in_place;
}

/* Limits are powers of two (runtime/job/tuning.h), and what is measured follows from the algorithms. */
static void check_tune(struct bench_options *o)
{
    enum { LEAST = 64, MOST = 1 << 30 };
    for (int i = 0; i < o->sizes_n; i++) {
        size_t size = o->sizes[i];
        if (size < LEAST || size > MOST || (size & (size - 1)) || (i && size <= o->sizes[i - 1]))
            refuse(o, "--tune takes sizes that are powers of two, from %d to 1G, each above the one before",
                   LEAST);
    }
    if (concerns_operations(o) || any(o->dtypes, WORD_DTYPES) || o->all_dtypes || o->csv || o->json || o->svg)
        refuse(o, "--tune measures what it has to, and prints it: it goes with sizes, --time, --iterations, "
                  "--warmup, --check and --timeout only");
}

static void check_kernels(struct bench_options *o)
{
    enum { LEAST = 1024 };
    for (int i = 0; i < o->sizes_n; i++)
        if (o->sizes[i] < LEAST) refuse(o, "--kernels takes sizes from %d on, not %zu", LEAST, o->sizes[i]);
    if (concerns_operations(o) || o->svg)
        refuse(o, "--kernels goes with --dtype, --reduction, sizes, --time, --iterations, --warmup, --check, "
                  "--csv and --json only");
    if (o->op == WEFT_PREMUL_SUM && !o->all_reductions)
        refuse(o, "--kernels has no premul_sum: its kernels are those of sum");
    if (!any(o->dtypes, WORD_DTYPES)) o->all_dtypes = true;
}

/* Where nothing else is said. */
static void make_range(struct raw *raw, enum bench_mode mode)
{
    size_t begin = 8, end = 16 << 20, factor = FACTOR;
    switch (mode) {
    case BENCH_RATE: end = 8; break;
    case BENCH_OVERLAP: begin = 1 << 20; break;
    case BENCH_TUNE: begin = 64, end = 4 << 20, factor = 2; break;
    case BENCH_KERNELS: begin = 16 << 10, end = 64 << 20, factor = 64; break;
    default: break;
    }
    if (!raw->factor) raw->factor = factor;
    if (!raw->begin) raw->begin = begin;
    if (!raw->end) raw->end = end > raw->begin ? end : raw->begin;
}

static void finish(struct bench_options *o, struct raw *raw)
{
    choose_mode(o, raw);
    if (o->mode == BENCH_RATE && (any(o->cases, bench_cases_n) || o->in_place))
        refuse(o, "--rate measures messages: --op and --in-place have no meaning there");
    if ((o->mode == BENCH_OVERLAP || bench_on_device(o->mode)) && o->calls[1])
        refuse(o, "--overlap and --device need requests: --call blocking has no meaning there");
    if (o->csv && o->json && !strcmp(o->csv, "-") && !strcmp(o->json, "-"))
        refuse(o, "--csv and --json cannot both go to stdout");
    make_range(raw, o->mode);
    make_sizes(o, raw);
    if (o->mode == BENCH_TUNE) check_tune(o);
    if (o->mode == BENCH_KERNELS) check_kernels(o);
    if (!any(o->cases, bench_cases_n)) o->all_cases = true;
    if (o->all_cases) memset(o->cases, true, sizeof(o->cases));
    if (o->all_dtypes) memset(o->dtypes, true, sizeof(o->dtypes));
    if (!any(o->dtypes, WORD_DTYPES)) o->dtypes[WEFT_FLOAT32] = true;
    if (!any(o->memories, 2)) o->memories[0] = true;
    if (!any(o->calls, 2)) o->calls[0] = true;
}

void bench_options_parse(struct bench_options *o, int argc, char **argv)
{
    struct raw raw = {.factor = 0};
    int c;
    *o = (struct bench_options){.op = WEFT_SUM, .timeout_ms = TIMEOUT_S * 1000};
    o->effort = (struct bench_effort){.seconds = point_seconds, .warmup = WARMUP, .check = true};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":b:e:f:h", names, NULL)) != -1)
        if (!take_what(o, &raw, c)) take_how(o, c, argv[optind - 1]);
    if (optind < argc) refuse(o, "\"%s\" is no option", argv[optind]);
    finish(o, &raw);
}
