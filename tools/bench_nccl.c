/* bench_nccl.c - see bench_nccl.h.  The few functions and numbers are declared here as nccl.h has them. */
#include "bench_nccl.h"
#include "bench_cases.h"
#include "bench_cuda.h"

#include <stdio.h>
#include <string.h>

enum { BYTE = 0, NONE = -1, SENTENCE_BYTES = 256, WINDOWS_MOST = 2 };

/* As Weft registers its own (NCCL_WIN_DEFAULT), so that both sides work on memory that NCCL knows alike. */
enum { WINDOW_FLAGS = 0 };

struct id {
    char bytes[128];
};

#define FUNCTIONS(X)                                                                                      \
    X(ncclGetUniqueId, (struct id * id))                                                                  \
    X(ncclCommInitRank, (void **comm, int ranks, struct id id, int rank))                                 \
    X(ncclCommDestroy, (void *comm))                                                                      \
    X(ncclGroupStart, (void))                                                                             \
    X(ncclGroupEnd, (void))                                                                               \
    X(ncclSend, (const void *buf, size_t n, int type, int peer, void *comm, void *stream))                \
    X(ncclRecv, (void *buf, size_t n, int type, int peer, void *comm, void *stream))                      \
    X(ncclBroadcast, (const void *in, void *out, size_t n, int type, int root, void *comm, void *stream)) \
    X(ncclAllGather, (const void *in, void *out, size_t n, int type, void *comm, void *stream))           \
    X(ncclReduce,                                                                                         \
      (const void *in, void *out, size_t n, int type, int op, int root, void *comm, void *stream))        \
    X(ncclAllReduce, (const void *in, void *out, size_t n, int type, int op, void *comm, void *stream))   \
    X(ncclReduceScatter, (const void *in, void *out, size_t n, int type, int op, void *comm, void *stream))

/* From NCCL 2.27 (windows) and 2.28 on; else NULL. */
#define NEWER_FUNCTIONS(X)                                                                             \
    X(ncclCommWindowRegister, (void *comm, void *buf, size_t bytes, void **window, int flags))         \
    X(ncclCommWindowDeregister, (void *comm, void *window))                                            \
    X(ncclAlltoAll, (const void *in, void *out, size_t n, int type, void *comm, void *stream))         \
    X(ncclGather, (const void *in, void *out, size_t n, int type, int root, void *comm, void *stream)) \
    X(ncclScatter, (const void *in, void *out, size_t n, int type, int root, void *comm, void *stream))

static struct {
    void *comm;
    void *windows[WINDOWS_MOST];
    int windows_n;
#define DECLARE(name, arguments) int(*name) arguments;
    FUNCTIONS(DECLARE)
    NEWER_FUNCTIONS(DECLARE)
#undef DECLARE
    const char *(*ncclGetErrorString)(int error);
} nccl;

static void must(const struct bench_job *job, const char *what, int error)
{
    char sentence[SENTENCE_BYTES];
    if (!error) return;
    snprintf(sentence, sizeof(sentence), "NCCL says %s", nccl.ncclGetErrorString(error));
    bench_die(job, what, sentence);
}

bool bench_nccl_open(char *why, size_t bytes)
{
#define SYMBOL(name, arguments) {#name, (void *)&nccl.name},
    static const struct bench_symbol newer[] = {NEWER_FUNCTIONS(SYMBOL)};
    static const struct bench_symbol symbols[] = {
        FUNCTIONS(SYMBOL){"ncclGetErrorString", (void *)&nccl.ncclGetErrorString}};
#undef SYMBOL
    char missing[SENTENCE_BYTES / 2];
    if (!bench_cuda_library("libnccl.so.2", symbols, sizeof(symbols) / sizeof(symbols[0]), missing,
                            sizeof(missing))) {
        snprintf(why, bytes, "--compare nccl: NCCL cannot be used: %s", missing);
        return false;
    }
    for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
        (void)bench_cuda_library("libnccl.so.2", &newer[i], 1, missing, sizeof(missing));
    return true;
}

void bench_nccl_join(const struct bench_job *job)
{
    struct id id = {{0}};
    if (job->rank == 0) must(job, "making NCCL's unique id", nccl.ncclGetUniqueId(&id));
    bench_must(job, "sending NCCL's unique id",
               weft_broadcast(job->world, &id, sizeof(id), WEFT_INT8, 0, NULL, NULL));
    must(job, "making NCCL's communicator", nccl.ncclCommInitRank(&nccl.comm, job->ranks, id, job->rank));
}

void bench_nccl_register(const struct bench_job *job, void *buf, size_t bytes)
{
    void **window = &nccl.windows[nccl.windows_n];
    if (!nccl.comm || !nccl.ncclCommWindowRegister || nccl.windows_n == WINDOWS_MOST) return;
    must(job, "registering the shared buffers with NCCL",
         nccl.ncclCommWindowRegister(nccl.comm, buf, bytes, window, WINDOW_FLAGS));
    if (*window) nccl.windows_n++;
}

void bench_nccl_leave(void)
{
    while (nccl.windows_n) nccl.ncclCommWindowDeregister(nccl.comm, nccl.windows[--nccl.windows_n]);
    if (nccl.comm) nccl.ncclCommDestroy(nccl.comm);
    nccl.comm = NULL;
}

/* ---- one point ----------------------------------------------------------------------------------------- */

/* What is reduced, in NCCL's numbers; an element of ours may be several of its. */
struct reduction {
    int type, op;
    size_t parts;
};

static struct reduction reduction_of(const struct bench_run *run)
{
    enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, E4M3, E5M2 };
    static const struct {
        int type;
        size_t parts;
    } types[] = {
        [WEFT_INT8] = {INT8, 1},         [WEFT_UINT8] = {UINT8, 1},    [WEFT_INT16] = {NONE, 1},
        [WEFT_UINT16] = {NONE, 1},       [WEFT_INT32] = {INT32, 1},    [WEFT_UINT32] = {UINT32, 1},
        [WEFT_INT64] = {INT64, 1},       [WEFT_UINT64] = {UINT64, 1},  [WEFT_FLOAT8_E4M3] = {E4M3, 1},
        [WEFT_FLOAT8_E5M2] = {E5M2, 1},  [WEFT_FLOAT16] = {HALF, 1},   [WEFT_BFLOAT16] = {BFLOAT16, 1},
        [WEFT_FLOAT32] = {FLOAT, 1},     [WEFT_FLOAT64] = {DOUBLE, 1}, [WEFT_COMPLEX64] = {FLOAT, 2},
        [WEFT_COMPLEX128] = {DOUBLE, 2}, [WEFT_BOOL] = {NONE, 1}};
    enum { SUM, PROD, MAX, MIN, AVG };
    static const int ops[] = {
        [WEFT_SUM] = SUM,   [WEFT_PROD] = PROD, [WEFT_MIN] = MIN,   [WEFT_MAX] = MAX,        [WEFT_AVG] = AVG,
        [WEFT_BAND] = NONE, [WEFT_BOR] = NONE,  [WEFT_BXOR] = NONE, [WEFT_PREMUL_SUM] = NONE};
    weft_dtype dtype = run->point.dtype;
    return (struct reduction){types[dtype].type, ops[run->point.op], types[dtype].parts};
}

static void *place_of(const struct bench_run *run, void *buf, size_t element)
{
    return (unsigned char *)buf + element * run->pattern.element;
}

static void *block_of(const struct bench_run *run, void *buf, int b)
{
    return place_of(run, buf, run->displs[b]);
}

/* Elements of any type go as bytes. */
static int send_to(const struct bench_run *run, const void *buf, size_t n, int peer)
{
    return nccl.ncclSend(buf, n * run->pattern.element, BYTE, peer, nccl.comm, bench_cuda_stream());
}

static int receive_from(const struct bench_run *run, void *buf, size_t n, int peer)
{
    return nccl.ncclRecv(buf, n * run->pattern.element, BYTE, peer, nccl.comm, bench_cuda_stream());
}

/* ---- operations: each returns NCCL's first error ------------------------------------------------------- */

static int broadcast(struct bench_run *run)
{
    void *buf = run->job->rank == run->root ? run->from : run->to;
    return nccl.ncclBroadcast(buf, buf, run->total * run->pattern.element, BYTE, run->root, nccl.comm,
                              bench_cuda_stream());
}

static int reduce(struct bench_run *run)
{
    struct reduction r = reduction_of(run);
    return nccl.ncclReduce(run->from, run->to, run->total * r.parts, r.type, r.op, run->root, nccl.comm,
                           bench_cuda_stream());
}

static int all_reduce(struct bench_run *run)
{
    struct reduction r = reduction_of(run);
    return nccl.ncclAllReduce(run->from, run->to, run->total * r.parts, r.type, r.op, nccl.comm,
                              bench_cuda_stream());
}

static int reduce_scatter(struct bench_run *run)
{
    struct reduction r = reduction_of(run);
    return nccl.ncclReduceScatter(run->from, run->to, run->count * r.parts, r.type, r.op, nccl.comm,
                                  bench_cuda_stream());
}

static int all_gather(struct bench_run *run)
{
    return nccl.ncclAllGather(run->from, run->to, run->count * run->pattern.element, BYTE, nccl.comm,
                              bench_cuda_stream());
}

static bool is_even(const struct bench_run *run)
{
    return run->point.what->layout == BENCH_EVEN;
}

static int gather(struct bench_run *run)
{
    size_t bytes = run->count * run->pattern.element;
    int me = run->job->rank, error = 0;
    bool kept = me == run->root && run->from == block_of(run, run->to, me); /* in place */
    if (is_even(run) && nccl.ncclGather)
        return nccl.ncclGather(run->from, run->to, bytes, BYTE, run->root, nccl.comm, bench_cuda_stream());
    if (!kept) error = send_to(run, run->from, run->counts[me], run->root);
    for (int b = 0; b < run->job->ranks && me == run->root && !error; b++)
        if (b != me || !kept) error = receive_from(run, block_of(run, run->to, b), run->counts[b], b);
    return error;
}

static int scatter(struct bench_run *run)
{
    size_t bytes = run->count * run->pattern.element;
    int me = run->job->rank, error = 0;
    bool kept = me == run->root && run->to == block_of(run, run->from, me); /* in place */
    if (is_even(run) && nccl.ncclScatter)
        return nccl.ncclScatter(run->from, run->to, bytes, BYTE, run->root, nccl.comm, bench_cuda_stream());
    for (int b = 0; b < run->job->ranks && me == run->root && !error; b++)
        if (b != me || !kept) error = send_to(run, block_of(run, run->from, b), run->counts[b], b);
    if (!kept && !error) error = receive_from(run, run->to, run->counts[me], run->root);
    return error;
}

static int all_to_all(struct bench_run *run)
{
    size_t bytes = run->count * run->pattern.element;
    int error = 0;
    if (is_even(run) && nccl.ncclAlltoAll)
        return nccl.ncclAlltoAll(run->from, run->to, bytes, BYTE, nccl.comm, bench_cuda_stream());
    for (int b = 0; b < run->job->ranks && !error; b++) {
        error = send_to(run, block_of(run, run->from, b), run->counts[b], b);
        if (!error) error = receive_from(run, block_of(run, run->to, b), run->counts[b], b);
    }
    return error;
}

static int all_gather_v(struct bench_run *run)
{
    int error = 0;
    for (int b = 0; b < run->job->ranks && !error; b++)
        error =
            nccl.ncclBroadcast(run->from, block_of(run, run->to, b), run->counts[b] * run->pattern.element,
                               BYTE, b, nccl.comm, bench_cuda_stream());
    return error;
}

static int reduce_scatter_v(struct bench_run *run)
{
    struct reduction r = reduction_of(run);
    int error = 0;
    for (int b = 0; b < run->job->ranks && !error; b++)
        error = nccl.ncclReduce(block_of(run, run->from, b), run->to, run->counts[b] * r.parts, r.type, r.op,
                                b, nccl.comm, bench_cuda_stream());
    return error;
}

static int send_recv(struct bench_run *run)
{
    int peer = bench_run_peer(run), error;
    if (peer < 0) return 0;
    error = send_to(run, run->from, run->total, peer);
    return error ? error : receive_from(run, run->to, run->total, peer);
}

static int ping_pong(struct bench_run *run)
{
    int peer = bench_run_peer(run), error;
    if (peer < 0) return 0;
    if (run->job->rank < peer) return send_recv(run);
    error = receive_from(run, run->to, run->total, peer);
    return error ? error : send_to(run, run->from, run->total, peer);
}

static int batch(struct bench_run *run)
{
    struct reduction r = reduction_of(run);
    int error = 0;
    for (size_t part = 0, done = 0; part < BENCH_BATCH_PARTS && !error; part++) {
        size_t end = run->total * (part + 1) / BENCH_BATCH_PARTS;
        error = nccl.ncclAllReduce(place_of(run, run->from, done), place_of(run, run->to, done),
                                   (end - done) * r.parts, r.type, r.op, nccl.comm, bench_cuda_stream());
        done = end;
    }
    return error;
}

static const struct call {
    const char *operation;
    int (*queue)(struct bench_run *run);
    bool grouped;
} calls[] = {{"broadcast", broadcast, false},      {"reduce", reduce, false},
             {"all_reduce", all_reduce, false},    {"reduce_scatter", reduce_scatter, false},
             {"all_gather", all_gather, false},    {"gather", gather, true},
             {"scatter", scatter, true},           {"all_to_all", all_to_all, true},
             {"send_recv", send_recv, true},       {"p2p", ping_pong, false},
             {"all_gather_v", all_gather_v, true}, {"gather_v", gather, true},
             {"scatter_v", scatter, true},         {"reduce_scatter_v", reduce_scatter_v, true},
             {"all_to_all_v", all_to_all, true},   {"batch", batch, true}};

static const struct call *call_of(const struct bench_run *run)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (!strcmp(calls[i].operation, run->point.what->name)) return &calls[i];
    return NULL;
}

bool bench_nccl_can(const struct bench_run *run)
{
    struct reduction r = reduction_of(run);
    if (!call_of(run)) return false;
    if (!run->point.what->reduces) return true;
    return r.type != NONE && r.op != NONE && (r.parts == 1 || run->point.op == WEFT_SUM);
}

void bench_nccl_queue(struct bench_run *run)
{
    const struct call *call = call_of(run);
    int error;
    bench_run_place(run);
    if (call->grouped) must(run->job, call->operation, nccl.ncclGroupStart());
    error = call->queue(run);
    if (call->grouped && !error) error = nccl.ncclGroupEnd();
    must(run->job, call->operation, error);
}
