/* bench_options.h - what weft-bench is asked to measure.  Every rank reads the same command line. */
#ifndef WEFT_TOOLS_BENCH_OPTIONS_H
#define WEFT_TOOLS_BENCH_OPTIONS_H
#include "bench_cases.h"
#include "bench_measure.h"
#include "words.h"

enum { BENCH_SIZES_MAX = 64, BENCH_CASES_MAX = 32 };

/* On a device alone, or beside NCCL; one algorithm beside the other; the reductions alone. */
enum bench_mode {
    BENCH_TIME,
    BENCH_RATE,
    BENCH_OVERLAP,
    BENCH_DEVICE,
    BENCH_COMPARE,
    BENCH_TUNE,
    BENCH_KERNELS
};

static inline bool bench_on_device(enum bench_mode mode)
{
    return mode == BENCH_DEVICE || mode == BENCH_COMPARE;
}

struct bench_options {
    enum bench_mode mode;
    bool cases[BENCH_CASES_MAX]; /* of bench_cases */
    bool all_cases;              /* what cannot be measured is left out; else it is an error */
    size_t sizes[BENCH_SIZES_MAX];
    int sizes_n;
    bool dtypes[WORD_DTYPES];
    bool all_dtypes; /* the same for types */
    weft_op op;
    bool all_reductions; /* BENCH_KERNELS; then op has no meaning */
    bool memories[2];    /* private, shared */
    bool calls[2];       /* request, blocking */
    bool in_place, help, version;
    struct bench_effort effort;
    int64_t timeout_ms;
    const char *csv, *json, *svg; /* paths, or NULL */
    char refusal[256];            /* why the command line makes no sense; "": it does */
};

extern const char *const bench_memories[2], *const bench_calls[2];

/* Refuses with a sentence in `refusal`; ends nothing and prints nothing. */
void bench_options_parse(struct bench_options *options, int argc, char **argv);
#endif
