/* test_module_calls.c - what libweft_nccl.so makes of each operation: all kinds, with and without roots,
 * uneven blocks, in place, messages, several works in one group call. */
#include "module_ranks.h"

enum { N = 1000, SIZE_MAX_RANKS = 4 };

/* Element i of what rank `from` has for rank `to` (or for all: 0). */
static float value(int from, int to, size_t i)
{
    return (float)(from * 100 + to * 10) + (float)(i % 7);
}

static float *fill(int rank, int blocks, size_t count)
{
    float *host = malloc(sizeof *host * count * (size_t)blocks);
    float *device;
    for (int to = 0; to < blocks; to++)
        for (size_t i = 0; i < count; i++) host[(size_t)to * count + i] = value(rank, to, i);
    device = to_device(host, sizeof *host * count * (size_t)blocks);
    free(host);
    return device;
}

static float *fetch(const void *device, size_t count)
{
    float *host = malloc(sizeof *host * count);
    CUDA(cudaMemcpy(host, device, sizeof *host * count, cudaMemcpyDeviceToHost));
    return host;
}

static float sum_of(int ranks, int to, size_t i)
{
    float sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, to, i);
    return sum;
}

/* What block `block` of the result must hold on this rank. */
static float expected(const weft_backend_operation *op, const job_rank *me, int block, size_t i)
{
    switch (op->kind) {
    case WEFT_BACKEND_BROADCAST: return value(op->root, 0, i);
    case WEFT_BACKEND_REDUCE:
    case WEFT_BACKEND_ALL_REDUCE: return sum_of(me->size, 0, i);
    case WEFT_BACKEND_REDUCE_SCATTER: return sum_of(me->size, me->rank, i);
    case WEFT_BACKEND_ALL_GATHER:
    case WEFT_BACKEND_GATHER: return value(block, 0, i);
    case WEFT_BACKEND_SCATTER: return value(op->root, me->rank, i);
    default: return value(block, me->rank, i);
    }
}

static bool blocks_in(weft_backend_kind kind)
{
    return kind == WEFT_BACKEND_REDUCE_SCATTER || kind == WEFT_BACKEND_SCATTER ||
           kind == WEFT_BACKEND_ALL_TO_ALL;
}

static bool blocks_out(weft_backend_kind kind)
{
    return kind == WEFT_BACKEND_ALL_GATHER || kind == WEFT_BACKEND_GATHER || kind == WEFT_BACKEND_ALL_TO_ALL;
}

static bool rooted_out(weft_backend_kind kind)
{
    return kind == WEFT_BACKEND_REDUCE || kind == WEFT_BACKEND_GATHER;
}

static void check_result(const task *t, const job_rank *me, int blocks)
{
    const weft_backend_operation *op = &t->work.op;
    float *host = fetch(op->out, (size_t)blocks * N);
    for (int block = 0; block < blocks; block++)
        for (size_t i = 0; i < N; i++)
            if (host[(size_t)block * N + i] != expected(op, me, block, i))
                job_fail(__FILE__, __LINE__, "kind %d: element %zu of block %d is %g, expected %g",
                         (int)op->kind, i, block, (double)host[(size_t)block * N + i],
                         (double)expected(op, me, block, i));
    free(host);
}

static void one_even(job_rank *me, weft_backend *b, const owner *o, weft_backend_kind kind, int root,
                     bool in_place)
{
    task t = new_task(me, o, kind);
    weft_backend_operation *op = &t.work.op;
    int ins = blocks_in(kind) ? me->size : 1, outs = blocks_out(kind) ? me->size : 1;
    bool reads = kind != WEFT_BACKEND_SCATTER || me->rank == root,
         writes = !rooted_out(kind) || me->rank == root;
    float *in = fill(me->rank, ins, N), *out = to_device(NULL, sizeof *out * N * (size_t)outs);
    op->count = N;
    op->root = root;
    op->in = in;
    op->out = out;
    if (kind == WEFT_BACKEND_BROADCAST) op->out = in;
    if (in_place && ins == outs) op->out = in;
    if (in_place && ins > outs) op->out = in + (size_t)(kind == WEFT_BACKEND_SCATTER ? root : me->rank) * N;
    if (in_place && ins < outs) {
        op->in = out + (size_t)me->rank * N;
        CUDA(cudaMemcpy((void *)(uintptr_t)op->in, in, sizeof *in * N, cudaMemcpyDeviceToDevice));
        CUDA(cudaStreamSynchronize(NULL));
    }
    if (!reads) op->in = NULL;
    if (!reads && in_place) op->out = out;
    if (!writes) op->out = NULL;
    CHECK_OK(b->check(b, op));
    run_task(b, &t);
    if (writes) check_result(&t, me, outs);
    CUDA(cudaFree(in));
    CUDA(cudaFree(out));
}

static void every_kind(job_rank *me)
{
    static const weft_backend_kind kinds[] = {WEFT_BACKEND_BROADCAST,  WEFT_BACKEND_REDUCE,
                                              WEFT_BACKEND_ALL_REDUCE, WEFT_BACKEND_REDUCE_SCATTER,
                                              WEFT_BACKEND_ALL_GATHER, WEFT_BACKEND_GATHER,
                                              WEFT_BACKEND_SCATTER,    WEFT_BACKEND_ALL_TO_ALL};
    weft_backend *b = module_load(me);
    owner o;
    join_all(me, b, &o, "every kind");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int root = 0; root < me->size; root++) {
            one_even(me, b, &o, kinds[k], root, false);
            if (kinds[k] != WEFT_BACKEND_ALL_TO_ALL) one_even(me, b, &o, kinds[k], root, true);
        }
    for (int i = 0; i < 3; i++) {
        task t = new_task(me, &o, WEFT_BACKEND_BARRIER);
        run_task(b, &t);
    }
    b->drop(o.comm);
    b->close(b);
}

static void blocking_mode(job_rank *me)
{
    job_setenv(me, "WEFT_NCCL_BLOCKING", "1");
    every_kind(me);
}

/* ---- uneven blocks: rank r has r + 1 times U elements, a gap before each; of the last rank, none ---- */

enum { U = 50, GAP = 3 };

static size_t uneven_count(int rank, int size)
{
    return rank == size - 1 && size > 1 ? 0 : (size_t)(rank + 1) * U;
}

typedef struct sides {
    size_t counts[SIZE_MAX_RANKS], displs[SIZE_MAX_RANKS], mine[SIZE_MAX_RANKS], packed[SIZE_MAX_RANKS];
    size_t extent;
} sides;

static void lay_out(sides *s, const job_rank *me)
{
    memset(s, 0, sizeof *s);
    for (int r = 0; r < me->size; r++) {
        s->counts[r] = uneven_count(r, me->size);
        s->displs[r] = s->extent + GAP;
        s->extent += GAP + s->counts[r];
        s->mine[r] = uneven_count(me->rank, me->size); /* all_to_all_v: what comes from r */
        s->packed[r] = (size_t)r * s->mine[r];
    }
}

static void check_uneven(const task *t, const job_rank *me)
{
    const weft_backend_operation *op = &t->work.op;
    for (int r = 0; r < me->size; r++) {
        size_t count = op->out_counts ? op->out_counts[r] : r ? 0 : op->count;
        float *host = fetch((float *)op->out + (op->out_counts ? op->out_displs[r] : 0), count ? count : 1);
        for (size_t i = 0; i < count; i++) {
            float want = op->kind == WEFT_BACKEND_SCATTER_V          ? value(op->root, me->rank, i)
                         : op->kind == WEFT_BACKEND_REDUCE_SCATTER_V ? sum_of(me->size, me->rank, i)
                         : op->kind == WEFT_BACKEND_ALL_TO_ALL_V     ? value(r, me->rank, i)
                                                                     : value(r, 0, i);
            if (host[i] != want)
                job_fail(__FILE__, __LINE__, "kind %d: element %zu of block %d is %g, expected %g",
                         (int)op->kind, i, r, (double)host[i], (double)want);
        }
        free(host);
    }
}

static void one_uneven(job_rank *me, weft_backend *b, const owner *o, weft_backend_kind kind)
{
    task t = new_task(me, o, kind);
    weft_backend_operation *op = &t.work.op;
    bool ins = kind == WEFT_BACKEND_SCATTER_V || kind == WEFT_BACKEND_REDUCE_SCATTER_V ||
               kind == WEFT_BACKEND_ALL_TO_ALL_V;
    bool outs = !ins || kind == WEFT_BACKEND_ALL_TO_ALL_V;
    float *host = calloc(SIZE_MAX_RANKS * (SIZE_MAX_RANKS + 1) * (U + GAP), sizeof *host), *in, *out;
    size_t room = SIZE_MAX_RANKS * (SIZE_MAX_RANKS + 1) * (U + GAP) * sizeof *host;
    sides s;
    lay_out(&s, me);
    op->uneven = true;
    if (ins) op->in_counts = s.counts, op->in_displs = s.displs;
    if (outs) op->out_counts = s.counts, op->out_displs = s.displs;
    if (kind == WEFT_BACKEND_ALL_TO_ALL_V) op->out_counts = s.mine, op->out_displs = s.packed;
    for (int to = 0; to < (ins ? me->size : 1); to++)
        for (size_t i = 0; i < (ins ? s.counts[to] : uneven_count(me->rank, me->size)); i++)
            host[(ins ? s.displs[to] : 0) + i] = value(me->rank, to, i);
    in = to_device(host, room);
    out = to_device(NULL, room);
    op->count = uneven_count(me->rank, me->size);
    op->root = me->size - 1;
    op->in = in;
    op->out = out;
    CHECK_OK(b->check(b, op));
    run_task(b, &t);
    if (kind != WEFT_BACKEND_GATHER_V || me->rank == op->root) check_uneven(&t, me);
    CUDA(cudaFree(in));
    CUDA(cudaFree(out));
    free(host);
}

static void every_uneven_kind(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o;
    join_all(me, b, &o, "uneven");
    one_uneven(me, b, &o, WEFT_BACKEND_ALL_GATHER_V);
    one_uneven(me, b, &o, WEFT_BACKEND_GATHER_V);
    one_uneven(me, b, &o, WEFT_BACKEND_SCATTER_V);
    one_uneven(me, b, &o, WEFT_BACKEND_REDUCE_SCATTER_V);
    one_uneven(me, b, &o, WEFT_BACKEND_ALL_TO_ALL_V);
    b->drop(o.comm);
    b->close(b);
}

/* ---- messages ---- */

static void messages(job_rank *me)
{
    weft_backend *b = module_load(me);
    int peer = 1 - me->rank;
    float *in = fill(me->rank, 1, N), *out = to_device(NULL, sizeof *out * N), *host;
    owner o;
    task one, two;
    join_all(me, b, &o, "a pair");
    one = new_task(me, &o, me->rank ? WEFT_BACKEND_IRECV : WEFT_BACKEND_ISEND);
    one.work.op.in = in;
    one.work.op.out = out;
    one.work.op.count = N;
    one.work.peer = peer;
    run_task(b, &one);
    two = new_task(me, &o, WEFT_BACKEND_SEND_RECV);
    two.work.op.in = in;
    two.work.op.out = out;
    two.work.op.count = N;
    two.work.peer = peer;
    run_task(b, &two);
    host = fetch(out, N);
    for (size_t i = 0; i < N; i++) CHECK(host[i] == value(peer, 0, i));
    free(host);
    CUDA(cudaFree(in));
    CUDA(cudaFree(out));
    b->drop(o.comm);
    b->close(b);
}

static void messages_to_oneself(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *in = fill(5, 1, N), *out = to_device(NULL, sizeof *out * N), *host;
    task send = new_task(me, NULL, WEFT_BACKEND_ISEND), receive = new_task(me, NULL, WEFT_BACKEND_IRECV);
    cudaStream_t stream = new_stream(me);
    CUDA(cudaMemsetAsync(in, 0, sizeof *in, stream));
    send.work.op.in = in;
    send.work.op.count = receive.work.op.count = N;
    receive.work.op.out = out;
    receive.work.owner = &receive;
    send.work.next = &receive.work;
    CHECK_OK(b->mark(b, stream, &send.work.marker));
    run_task(b, &send);
    poll_until_over(b, &receive);
    CHECK_INT(receive.status, WEFT_OK);
    host = fetch(out, N);
    for (size_t i = 0; i < N; i++) CHECK(host[i] == (i ? value(5, 0, i) : 0));
    free(host);
    b->close(b);
}

/* ---- several in one group call; scaling; windows ---- */

enum { MANY = 20 };

static void many_in_one_call(job_rank *me)
{
    weft_backend *b = module_load(me);
    task tasks[MANY];
    float *buffers[MANY], *host;
    owner o;
    join_all(me, b, &o, "many");
    for (int i = 0; i < MANY; i++) {
        buffers[i] = fill(me->rank + i, 1, N);
        tasks[i] = new_task(me, &o, WEFT_BACKEND_ALL_REDUCE);
        tasks[i].work.op.in = tasks[i].work.op.out = buffers[i];
        tasks[i].work.op.count = N;
        tasks[i].work.owner = &tasks[i];
        if (i) tasks[i - 1].work.next = &tasks[i].work;
    }
    start(b, &tasks[0]);
    for (int i = 0; i < MANY; i++) {
        CHECK(atomic_load(&tasks[i].issued));
        poll_until_over(b, &tasks[i]);
        CHECK_OK(tasks[i].status);
        host = fetch(buffers[i], N);
        for (size_t k = 0; k < N; k++) {
            float want = 0;
            for (int r = 0; r < me->size; r++) want += value(r + i, 0, k);
            CHECK(host[k] == want);
        }
        free(host);
    }
    b->drop(o.comm);
    b->close(b);
}

static void scaled(job_rank *me)
{
    weft_backend *b = module_load(me);
    task t;
    float *in = fill(0, 1, N), *host;
    owner o;
    join_all(me, b, &o, "scaled");
    t = new_task(me, &o, WEFT_BACKEND_ALL_REDUCE);
    t.work.op.reduction = WEFT_PREMUL_SUM;
    t.work.op.scale = me->rank + 0.5;
    t.work.op.in = t.work.op.out = in;
    t.work.op.count = N;
    run_task(b, &t);
    host = fetch(in, N);
    for (size_t i = 0; i < N; i++) CHECK(host[i] == value(0, 0, i) * 2); /* 0.5 + 1.5 */
    free(host);
    b->drop(o.comm);
    b->close(b);
}

static void allocates(job_rank *me)
{
    enum { BYTES = 1 << 20 };
    weft_backend *b = module_load(me);
    unsigned char *host = malloc(BYTES);
    void *memory = NULL, *again = NULL;
    bool owned = false;
    size_t held = 0;
    task t, sum;
    owner o;
    join_all(me, b, &o, "windows");
    CHECK_OK(b->mem_alloc(b, BYTES, &memory));
    CHECK_OK(b->owns(b, memory, &owned));
    CHECK(owned && (uintptr_t)memory % 64 == 0);
    CUDA(cudaMemcpy(host, memory, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++) CHECK(!host[i]);
    t = new_task(me, &o, WEFT_BACKEND_MEM_ALLOC);
    t.work.op.dtype = WEFT_UINT8;
    t.work.op.count = BYTES;
    t.work.op.out = memory;
    run_task(b, &t);
    sum = new_task(me, &o, WEFT_BACKEND_ALL_REDUCE);
    sum.work.op.in = sum.work.op.out = memory;
    sum.work.op.count = N;
    run_task(b, &sum);
    if (b->memory_held(b, &held) != WEFT_OK) CHECK_TEXT(last_failure, "2.29");
    CHECK_OK(b->mem_free(b, memory));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, b->mem_free(b, memory));
    CHECK_OK(b->mem_alloc(b, BYTES, &again)); /* what nobody frees goes with the backend */
    b->drop(o.comm);
    b->close(b);
    free(host);
}

/* ---- what cannot be ---- */

static void refusals(job_rank *me)
{
    weft_backend *b = module_load(me);
    task t = new_task(me, NULL, WEFT_BACKEND_ALL_REDUCE);
    weft_backend_operation *op = &t.work.op;
    bool old = strstr(b->describe(b), "NCCL 2.19");
    op->count = 1;
    for (int dtype = WEFT_INT8; dtype <= WEFT_BOOL; dtype++)
        for (int reduction = WEFT_SUM; reduction <= WEFT_PREMUL_SUM; reduction++) {
            bool integer = dtype <= WEFT_UINT64, wide = dtype != WEFT_INT16 && dtype != WEFT_UINT16;
            bool is_float = dtype >= WEFT_FLOAT8_E4M3 && dtype <= WEFT_FLOAT64;
            bool complex = dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
            bool can = (reduction <= WEFT_AVG && ((integer && wide) || is_float)) ||
                       ((reduction == WEFT_SUM || reduction == WEFT_AVG) && complex) ||
                       (is_float && reduction == WEFT_PREMUL_SUM);
            if (dtype == WEFT_BOOL)
                can = reduction == WEFT_MIN || reduction == WEFT_MAX || reduction == WEFT_BAND ||
                      reduction == WEFT_BOR;
            if (old && (dtype == WEFT_FLOAT8_E4M3 || dtype == WEFT_FLOAT8_E5M2)) can = false;
            op->dtype = (weft_dtype)dtype;
            op->reduction = (weft_op)reduction;
            CHECK_STATUS(can ? WEFT_OK : WEFT_ERR_UNSUPPORTED, b->check(b, op));
        }
    CHECK_TEXT(last_failure, "all_reduce: no premul_sum of bool in device memory");
    op->dtype = WEFT_FLOAT8_E4M3;
    op->reduction = WEFT_SUM;
    if (old) {
        CHECK_STATUS(WEFT_ERR_UNSUPPORTED, b->check(b, op));
        CHECK_TEXT(last_failure, "NCCL 2.19 does not reduce float8_e4m3 in device memory; 2.24 and later do");
    }
    op->kind = WEFT_BACKEND_ALL_GATHER; /* moves whatever it is */
    CHECK_OK(b->check(b, op));
    b->close(b);
}

static void nothing_there(job_rank *me)
{
    const char *why = "";
    job_setenv(me, "CUDA_EMULATION_DEVICES", "0");
    CHECK(!module_open_function()(&test_table, NULL, &why));
    CHECK_TEXT(why, "no CUDA device");
    CHECK_INT(emu_calls("ncclGetVersion"), 0); /* no call of NCCL before a device is seen */
}

static void probing(job_rank *me)
{
    weft_backend_open_fn *open = module_open_function();
    const weft_backend_runtime nothing = {.version = WEFT_BACKEND_VERSION}, other = {.version = -1};
    weft_backend_place place = {.device = 99};
    const char *why = "";
    weft_backend *b = open(&nothing, NULL, &why);
    (void)me;
    CHECK(b);
    CHECK_TEXT(b->describe(b), "NCCL 2.");
    CHECK_TEXT(b->describe(b), "device 0");
    b->close(b);
    CHECK(!open(&test_table, &place, &why));
    CHECK_TEXT(why, "device is 99, expected 0 to 7: there are 8 CUDA devices");
    CHECK(!open(&other, NULL, &why));
    CHECK_TEXT(why, "another version");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("it says what it runs on, and why it does not", .ranks = 1, .bare = true, .body = probing),
        JOB_TEST("no device", .ranks = 1, .bare = true, .body = nothing_there),
        JOB_TEST("in NCCL's blocking mode too", .ranks = 2, .bare = true, .processes = true,
                 .body = blocking_mode),
        JOB_TEST("what NCCL cannot reduce is refused", .ranks = 1, .bare = true, .body = refusals),
        JOB_TEST("every kind, alone", .ranks = 1, .bare = true, .body = every_kind),
        JOB_TEST("every kind, on 2 ranks", .ranks = 2, .bare = true, .body = every_kind),
        JOB_TEST("every kind, on 3 ranks that are threads", .ranks = 3, .bare = true, .threads = true,
                 .body = every_kind),
        JOB_TEST("uneven blocks, on 4 ranks", .ranks = 4, .bare = true, .body = every_uneven_kind),
        JOB_TEST("uneven blocks, alone", .ranks = 1, .bare = true, .body = every_uneven_kind),
        JOB_TEST("messages and exchanges", .ranks = 2, .bare = true, .body = messages),
        JOB_TEST("messages to oneself need no communicator", .ranks = 1, .bare = true,
                 .body = messages_to_oneself),
        JOB_TEST("many works in one group call", .ranks = 2, .bare = true, .body = many_in_one_call),
        JOB_TEST("factors that differ between ranks", .ranks = 2, .bare = true, .body = scaled),
        JOB_TEST("memory is zeroed, a window, and given back", .ranks = 2, .bare = true, .body = allocates),
    };
    return JOB_MAIN(tests, argc, argv);
}
