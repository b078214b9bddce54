/* info_operations.c - see info_operations.h.  The calls are those of weft-bench's table.  Operations that
 * answer alike share rows; so do types. */
#include "info_operations.h"
#include "bench_cases.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORIES = 2 /* host, device */, CASES_MAX = 32, LIST_BYTES = 512, ROOM = 4096, LEAVE_MS = 1000 };

/* Which reductions it takes, a bit each; what reduces nothing has bit 0. */
struct answers {
    unsigned of[WORD_DTYPES][MEMORIES];
    char refusal[MEMORIES][LIST_BYTES]; /* the last one */
};

struct trial {
    struct bench_job job;
    unsigned char in[ROOM], out[ROOM];
    struct answers answers[CASES_MAX];
};

/* ---- asking -------------------------------------------------------------------------------------------- */

static weft_status copy_own(void *state, const void *in, void *out, size_t bytes)
{
    (void)state;
    memcpy(out, in, bytes);
    return WEFT_OK;
}

static weft_status join_alone(struct bench_job *job)
{
    enum { JOIN_MS = 10000 };
    const weft_bootstrap alone = {NULL, 0, 1, copy_own};
    weft_config config = WEFT_CONFIG_INIT;
    weft_status status;
    config.bootstrap = &alone;
    config.timeout_ms = JOIN_MS;
    status = weft_init(&config, &job->ctx);
    if (status) return status;
    job->world = weft_world(job->ctx);
    job->rank = 0;
    job->ranks = 1;
    return WEFT_OK;
}

/* Device memory is asked without elements, hence without buffers: there need be no device. */
static weft_status call(struct trial *t, const struct bench_case *what, weft_dtype dtype, weft_op op,
                        bool device)
{
    struct bench_point point = {.what = what, .dtype = dtype, .op = op, .bytes = 1};
    struct bench_buffers buffers = {.in = device ? NULL : t->in, .out = device ? NULL : t->out};
    struct bench_run run;
    weft_status status;
    if (!bench_run_make(&run, &t->job, &point, &buffers)) return WEFT_ERR_MEMORY;
    run.call.memory = device ? WEFT_MEMORY_CUDA : WEFT_MEMORY_HOST;
    if (device)
        run.count = run.total = run.counts[0] = 0;
    else
        bench_run_fill(&run, 0);
    status = bench_run_once(&run);
    bench_run_free(&run);
    return status;
}

static void ask(struct trial *t, int which, weft_dtype dtype, int memory)
{
    const struct bench_case *what = &bench_cases[which];
    struct answers *a = &t->answers[which];
    for (int op = 0; op < (what->reduces ? WORD_REDUCTIONS : 1); op++) {
        if (call(t, what, dtype, (weft_op)op, memory == 1) == WEFT_OK)
            a->of[dtype][memory] |= 1U << op;
        else
            snprintf(a->refusal[memory], sizeof(a->refusal[memory]), "%s", weft_last_error());
    }
}

static void ask_all(struct trial *t)
{
    for (int which = 0; which < bench_cases_n; which++)
        for (int dtype = 0; dtype < WORD_DTYPES; dtype++)
            for (int memory = 0; memory < MEMORIES; memory++) ask(t, which, (weft_dtype)dtype, memory);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static void append(char *list, const char *word)
{
    size_t n = strlen(list);
    snprintf(list + n, LIST_BYTES - n, "%s%s", n ? ", " : "", word);
}

static const char *calls_of(int which)
{
    return bench_cases[which].calls ? bench_cases[which].calls : bench_cases[which].name;
}

static bool alike(const struct trial *t, int a, int b)
{
    return bench_cases[a].reduces == bench_cases[b].reduces &&
           (bench_cases[a].layout == BENCH_NO_DATA) == (bench_cases[b].layout == BENCH_NO_DATA) &&
           !memcmp(t->answers[a].of, t->answers[b].of, sizeof(t->answers[a].of));
}

static bool nowhere(const struct trial *t, int which, int memory)
{
    for (int dtype = 0; dtype < WORD_DTYPES; dtype++)
        if (t->answers[which].of[dtype][memory]) return false;
    return true;
}

/* The operations that answer as `which` does, if it is the first of them. */
static bool list_operations(const struct trial *t, int which, char *list)
{
    *list = '\0';
    for (int i = 0; i < bench_cases_n; i++) {
        if (!alike(t, i, which)) continue;
        if (i < which) return false;
        append(list, calls_of(i));
    }
    return true;
}

/* The types of which it takes the same as of `dtype`, if that is the first of them. */
static bool list_types(const struct trial *t, int which, int dtype, char *list)
{
    const struct answers *a = &t->answers[which];
    int n = 0;
    *list = '\0';
    for (int i = 0; i < WORD_DTYPES; i++) {
        if (memcmp(a->of[i], a->of[dtype], sizeof(a->of[i])) != 0) continue;
        if (i < dtype) return false;
        append(list, word_dtypes[i]);
        n++;
    }
    if (bench_cases[which].layout == BENCH_NO_DATA)
        snprintf(list, LIST_BYTES, "no data");
    else if (n == WORD_DTYPES)
        snprintf(list, LIST_BYTES, "every type");
    return true;
}

static void list_taken(const struct trial *t, int which, int dtype, int memory, char *list)
{
    unsigned mask = t->answers[which].of[dtype][memory];
    *list = '\0';
    for (int op = 0; op < WORD_REDUCTIONS && bench_cases[which].reduces; op++)
        if (mask >> op & 1U) append(list, word_reductions[op]);
    if (!*list) snprintf(list, LIST_BYTES, "%s", mask ? "yes" : "no");
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static void print_rows(const struct trial *t, int which, enum info_form form)
{
    char operations[LIST_BYTES], types[LIST_BYTES], taken[MEMORIES][LIST_BYTES];
    if (!list_operations(t, which, operations)) return;
    if (form == INFO_TEXT) printf("  %s\n", operations);
    for (int dtype = 0; dtype < WORD_DTYPES; dtype++) {
        if (!list_types(t, which, dtype, types)) continue;
        for (int memory = 0; memory < MEMORIES; memory++) list_taken(t, which, dtype, memory, taken[memory]);
        if (form == INFO_TEXT)
            printf("    %s\n      host: %s; device: %s\n", types, taken[0], taken[1]);
        else
            printf("| %s | %s | %s | %s |\n", operations, types, taken[0], taken[1]);
    }
}

/* Whether the sentence of `which` has been printed for another operation, or for host memory. */
static bool said(const struct trial *t, int which, int memory)
{
    const char *sentence = t->answers[which].refusal[memory];
    for (int i = 0; i < which; i++)
        if (nowhere(t, i, memory) && !strcmp(t->answers[i].refusal[memory], sentence)) return true;
    return memory > 0 && nowhere(t, which, 0) && !strcmp(t->answers[which].refusal[0], sentence);
}

/* Why something is not there at all. */
static void print_refusals(const struct trial *t, enum info_form form)
{
    static const char *const memories[MEMORIES] = {"host", "device"};
    for (int memory = 0; memory < MEMORIES; memory++)
        for (int i = 0; i < bench_cases_n; i++)
            if (nowhere(t, i, memory) && !said(t, i, memory))
                printf("%snot in %s memory: %s\n", form == INFO_TEXT ? "  " : "\n", memories[memory],
                       t->answers[i].refusal[memory]);
}

static void print(const struct trial *t, enum info_form form)
{
    if (form == INFO_TEXT)
        puts("operations (each tried just now, in a job of one rank)");
    else
        puts("| operations | types | host memory | device memory |\n|---|---|---|---|");
    for (int which = 0; which < bench_cases_n; which++) print_rows(t, which, form);
    print_refusals(t, form);
}

bool info_operations(enum info_form form)
{
    struct trial *t = calloc(1, sizeof(*t));
    weft_status status = t ? join_alone(&t->job) : WEFT_ERR_MEMORY;
    if (status) {
        printf("operations\n  not tried: %s\n", t ? weft_last_error() : weft_status_text(status));
        free(t);
        return false;
    }
    ask_all(t);
    print(t, form);
    if (weft_finalize(t->job.ctx, LEAVE_MS)) weft_abort(t->job.ctx, "weft-info has seen enough");
    free(t);
    return true;
}
