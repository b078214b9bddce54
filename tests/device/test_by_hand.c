/* test_by_hand.c - in program order (WEFT_DEVICE_ORDER=program, which this program is run with) an operation beside the
 * same calls of CUDA and NCCL made by hand: which calls it makes, how often others look meanwhile, and the times. */
#include "sum.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { TIMES = 1000, AT_ONCE = 20, LOOK_NS = 20000 };

static uint64_t calls(const char *function)
{
    return device()->emu_calls(function);
}

typedef struct nccl_id {
    char bytes[128];
} nccl_id;

/* What is called of NCCL, without its header. */
typedef struct by_hand {
    int (*get_id)(nccl_id *id);
    int (*init)(void **comm, int ranks, nccl_id id, int rank);
    int (*all_reduce)(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*destroy)(void *comm);
    void *comm, *before, *after, *stream;
} by_hand;

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    CHECK(symbol);
    memcpy(function, &symbol, sizeof symbol);
}

static by_hand take_hand(job_rank *me)
{
    enum { WITHOUT_TIMES = 2 };
    by_hand h = {.stream = device_stream(1)};
    void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    nccl_id id = {{0}};
    CHECK(nccl);
    find(nccl, "ncclGetUniqueId", &h.get_id);
    find(nccl, "ncclCommInitRank", &h.init);
    find(nccl, "ncclAllReduce", &h.all_reduce);
    find(nccl, "ncclGroupStart", &h.group_start);
    find(nccl, "ncclGroupEnd", &h.group_end);
    find(nccl, "ncclCommDestroy", &h.destroy);
    if (me->rank == 0) CHECK_INT(h.get_id(&id), 0);
    CHECK_OK(weft_broadcast(me->world, &id, sizeof id, WEFT_UINT8, 0, NULL, NULL));
    CHECK_INT(h.init(&h.comm, me->size, id, me->rank), 0);
    DEVICE_OK(device()->cudaEventCreateWithFlags(&h.before, WITHOUT_TIMES));
    DEVICE_OK(device()->cudaEventCreateWithFlags(&h.after, WITHOUT_TIMES));
    return h;
}

/* What a loop that is written by hand does for each: after the caller's stream, on one of its own, and an event behind. */
static void sum_by_hand(const by_hand *h, operands o, void *stream)
{
    enum { INT32 = 2, SUM = 0 };
    device()->cudaEventRecord(h->before, stream);
    device()->cudaStreamWaitEvent(h->stream, h->before, 0);
    h->group_start();
    h->all_reduce(o.in, o.out, COUNT, INT32, SUM, h->comm, h->stream);
    h->group_end();
    device()->cudaEventRecord(h->after, h->stream);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *ns, int n)
{
    qsort(ns, (size_t)n, sizeof *ns, compare);
    const size_t middle = (size_t)n / 2;
    return (double)ns[middle] / 1e3;
}

static int64_t sum(const int64_t *ns)
{
    int64_t all = 0;
    for (int i = 0; i < TIMES; i++) all += ns[i];
    return all;
}

static const char *const counted[] = {"cudaEventRecord",
                                      "cudaStreamWaitEvent",
                                      "cudaStreamIsCapturing",
                                      "ncclGroupStart",
                                      "ncclAllReduce",
                                      "ncclGroupEnd",
                                      "cudaGetDevice",
                                      "cudaSetDevice",
                                      "cudaEventQuery",
                                      "background",
                                      "cudaPointerGetAttributes",
                                      "ncclCommGetAsyncError"};
enum { FUNCTIONS = sizeof counted / sizeof *counted };

static void time_by_hand(const by_hand *h, operands o, void *stream, int64_t *sums, int64_t *waits)
{
    for (int i = 0; i < TIMES; i++) {
        int64_t at = job_now_ns();
        sum_by_hand(h, o, stream);
        sums[i] = job_now_ns() - at;
        at = job_now_ns();
        device()->cudaStreamWaitEvent(stream, h->after, 0);
        waits[i] = job_now_ns() - at;
        if (i % AT_ONCE == AT_ONCE - 1) device_sync(h->stream);
    }
}

/* Adds to MADE what only the calls for a sum make. */
static void time_ours(job_rank *me, operands o, void *stream, int64_t *sums, int64_t *waits, uint64_t *made)
{
    weft_call call = {.stream = stream};
    weft_request *reqs[AT_ONCE];
    uint64_t before[FUNCTIONS] = {0};
    for (int i = 0; i < TIMES; i++) {
        for (int f = 0; f < FUNCTIONS && device_is_emulated(); f++) before[f] = calls(counted[f]);
        int64_t at = job_now_ns();
        reqs[i % AT_ONCE] = begin_sum(me->world, o, &call);
        sums[i] = job_now_ns() - at;
        for (int f = 0; f < FUNCTIONS && device_is_emulated(); f++) made[f] += calls(counted[f]) - before[f];
        at = job_now_ns();
        CHECK_OK(weft_stream_wait(reqs[i % AT_ONCE], stream));
        waits[i] = job_now_ns() - at;
        if (i % AT_ONCE == AT_ONCE - 1) {
            for (int r = 0; r < AT_ONCE; r++) WAIT_OK(reqs[r]);
        }
    }
}

/* A program's own loop first, then ours: in a call there is one of each call that the former makes, and the question
 * whether the stream is captured.  Times are told, and decide nothing. */
static void beside_a_hand_written_loop(job_rank *me)
{
    static int64_t hand[TIMES], ours[TIMES], waits[TIMES], orders[TIMES];
    uint64_t made[FUNCTIONS] = {0};
    int32_t image[COUNT] = {[0] = 1, [COUNT - 1] = 7};
    operands o = {job_buffer(me, bytes), job_buffer(me, bytes)};
    job_put(o.in, image, bytes);
    weft_request *first = begin_sum(me->world, o, NULL); /* in which NCCL connects */
    WAIT_OK(first);
    by_hand h = take_hand(me);
    time_by_hand(&h, o, device_stream(0), hand, orders);
    CHECK_INT(h.destroy(h.comm), 0);
    time_ours(me, o, device_stream(0), ours, waits, made);
    if (device_is_emulated()) {
        CHECK_INT(made[3], TIMES);
        CHECK_INT(made[4], TIMES); /* each of them in its call, on this thread */
        CHECK_INT(made[5], TIMES);
        CHECK_INT(made[9], 0);
        CHECK_INT(made[10], 0);
        CHECK(made[8] <= (uint64_t)sum(ours) / LOOK_NS + TIMES); /* nobody waits: looks are far between */
    }
    if (me->rank == 0)
        printf("program order, medians of %d: all_reduce %.2f us, by hand %.2f us; stream_wait %.2f us, "
               "cudaStreamWaitEvent %.2f us\n",
               TIMES, median_us(ours, TIMES), median_us(hand, TIMES), median_us(waits, TIMES),
               median_us(orders, TIMES));
    for (int f = 0; f < FUNCTIONS && me->rank == 0 && device_is_emulated(); f++)
        printf("  %s: %.3f a call\n", counted[f], (double)made[f] / TIMES);
    job_get(image, o.out, bytes);
    CHECK_INT(image[0], me->size);
    CHECK_INT(image[COUNT - 1], 7 * me->size);
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("beside a hand-written loop", .ranks = 2, .processes = true,
                 .body = beside_a_hand_written_loop),
    };
    return JOB_MAIN(tests, argc, argv);
}
