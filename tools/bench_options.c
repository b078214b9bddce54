/* bench_options.c - see bench_options.h. */
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
    bool rate, overlap;
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
    if (op < 0)
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
    CHECK,
    NO_CHECK,
    TIMEOUT,
    CSV,
    JSON,
    SVG
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
                                      {"check", no_argument, NULL, CHECK},
                                      {"no-check", no_argument, NULL, NO_CHECK},
                                      {"timeout", required_argument, NULL, TIMEOUT},
                                      {"csv", required_argument, NULL, CSV},
                                      {"json", required_argument, NULL, JSON},
                                      {"svg", required_argument, NULL, SVG},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

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

static void finish(struct bench_options *o, struct raw *raw)
{
    static const size_t begins[] = {[BENCH_TIME] = 8, [BENCH_RATE] = 8, [BENCH_OVERLAP] = 1 << 20};
    static const size_t ends[] = {[BENCH_TIME] = 16 << 20, [BENCH_RATE] = 8, [BENCH_OVERLAP] = 16 << 20};
    if (raw->rate && raw->overlap) refuse(o, "--rate and --overlap exclude each other");
    o->mode = raw->rate ? BENCH_RATE : raw->overlap ? BENCH_OVERLAP : BENCH_TIME;
    if (o->mode == BENCH_RATE && (any(o->cases, bench_cases_n) || o->in_place))
        refuse(o, "--rate measures messages: --op and --in-place have no meaning there");
    if (o->mode == BENCH_OVERLAP && o->calls[1])
        refuse(o, "--overlap needs requests: --call blocking has no meaning there");
    if (o->csv && o->json && !strcmp(o->csv, "-") && !strcmp(o->json, "-"))
        refuse(o, "--csv and --json cannot both go to stdout");
    if (!raw->begin) raw->begin = begins[o->mode];
    if (!raw->end) raw->end = ends[o->mode] > raw->begin ? ends[o->mode] : raw->begin;
    make_sizes(o, raw);
    if (!any(o->cases, bench_cases_n)) o->all_cases = true;
    if (o->all_cases) memset(o->cases, true, sizeof(o->cases));
    if (o->all_dtypes) memset(o->dtypes, true, sizeof(o->dtypes));
    if (!any(o->dtypes, WORD_DTYPES)) o->dtypes[WEFT_FLOAT32] = true;
    if (!any(o->memories, 2)) o->memories[0] = true;
    if (!any(o->calls, 2)) o->calls[0] = true;
}

void bench_options_parse(struct bench_options *o, int argc, char **argv)
{
    struct raw raw = {.factor = FACTOR};
    int c;
    *o = (struct bench_options){.op = WEFT_SUM, .timeout_ms = TIMEOUT_S * 1000};
    o->effort = (struct bench_effort){.seconds = point_seconds, .warmup = WARMUP, .check = true};
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":b:e:f:h", names, NULL)) != -1)
        if (!take_what(o, &raw, c)) take_how(o, c, argv[optind - 1]);
    if (optind < argc) refuse(o, "\"%s\" is no option", argv[optind]);
    finish(o, &raw);
}

/* ---- help ---------------------------------------------------------------------------------------------- */

static void list(const char *const *words, int n)
{
    int column = 0;
    for (int i = 0; i < n; i++) {
        if (column > 60) column = 0;
        column += printf(column ? " %s" : "\n             %s", words[i]);
    }
}

static const char help_head[] =
    "NAME\n"
    "  weft-bench - measure how fast Weft is between the ranks of a job\n"
    "\n"
    "SYNOPSIS\n"
    "  weft-run -n N weft-bench [OPTIONS]        or under any other launcher\n"
    "\n"
    "DESCRIPTION\n"
    "  Measures operations of different sizes and types, and checks what arrives.  Rank 0 prints a table.\n"
    "\n"
    "  Size      as nccl-tests counts it: bytes of the larger of a rank's two buffers, one element a rank "
    "at\n"
    "            least.\n"
    "  Time      A sample is one operation, or the mean of as many as last 10 us one after the other, behind "
    "a\n"
    "            barrier.  Of each sample the slowest rank counts.  Median, least and 99th percentile are "
    "over\n"
    "            samples.  (nccl-tests gives the mean over operations and ranks.)\n"
    "  algbw     algorithm bandwidth: size by time, in 10^9 bytes per second.\n"
    "  busbw     bus bandwidth: algbw times 2(n-1)/n for all_reduce, (n-1)/n for reduce_scatter, "
    "all_gather,\n"
    "            gather, scatter and all_to_all, 1 for the others.\n"
    "  wrong     elements that were not as they must be, on all ranks.  Inputs change from sample to "
    "sample.\n"
    "            In place the first operation of a point is checked, and each sample of one operation.\n"
    "\n"
    "OPTIONS\n"
    "  What is measured; a LIST is separated by commas:\n"
    "  --op LIST            operations (all that the library has)\n"
    "  --sizes LIST         sizes, like 8,4K,16M\n"
    "  -b, --begin SIZE     first size (8; with --overlap 1M)\n"
    "  -e, --end SIZE       last size (16M; with --rate 8)\n"
    "  -f, --factor N       from one size to the next (8)\n"
    "  --dtype LIST         types of the elements, or all (float32)\n"
    "  --reduction NAME     of the operations that reduce (sum)\n"
    "  --memory LIST        private: ordinary memory; shared: weft_mem_alloc (private)\n"
    "  --call LIST          request: submit, wait, release; blocking: no request (request)\n"
    "  --in-place           in and out are one buffer, where the operation has that form\n"
    "  --rate               the rate of messages instead: windows of 64 isends to the other rank of a pair\n"
    "  --overlap            how much of an operation is hidden behind computation instead\n"
    "\n"
    "  How long:\n"
    "  --time S             seconds for each point, about, with filling and checking (0.1)\n"
    "  --iterations N       operations for each point, instead of --time\n"
    "  --warmup N           operations before, at least (5); 0: only the first, which is checked\n"
    "  --check, --no-check  look at the results, or do not (--check)\n"
    "  --timeout S          deadline of each operation (60)\n"
    "\n"
    "  What becomes of it; a file is written when all has gone well, - is stdout instead of the table:\n"
    "  --csv FILE           comma-separated values, one line for each point\n"
    "  --json FILE          the same with the machine and the settings\n"
    "  --svg FILE           a picture: time and bandwidth against size\n"
    "  -h, --help           this text\n"
    "\n"
    "OVERLAP\n"
    "  t_comm     submit and wait\n"
    "  t_compute  arithmetic on the calling thread, as much as lasts about t_comm\n"
    "  t_total    submit, the same arithmetic, wait\n"
    "  OSU %      max(0, 100 (1 - (t_total - t_compute) / t_comm))\n"
    "  true %     100 (2 - t_total / t_comm)\n"
    "  stretch    the arithmetic during communication, by t_compute\n"
    "  CPU        cores that the process used beside its arithmetic, mean over ranks\n"
    "\n"
    "EXIT STATUS\n"
    "  0 all was measured and right; 1 something failed or was wrong; 2 the command line makes no sense.\n"
    "\n"
    "EXAMPLES\n"
    "  weft-run -n 2 --bind weft-bench --op all_reduce,p2p\n"
    "  weft-run -n 4 weft-bench --overlap --sizes 4M --svg overlap.svg --json overlap.json\n"
    "\n"
    "NAMES\n";

void bench_options_help(void)
{
    fputs(help_head, stdout);
    printf("  Operations");
    for (int i = 0; i < bench_cases_n; i++)
        printf(bench_cases[i].text ? "\n             %-17s %s" : "\n             %s", bench_cases[i].name,
               bench_cases[i].text);
    printf("\n  Types");
    list(word_dtypes, WORD_DTYPES);
    printf("\n  Reductions");
    list(word_reductions, WORD_REDUCTIONS);
    putchar('\n');
}
