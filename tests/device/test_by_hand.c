/* test_by_hand.c - in program order (WEFT_DEVICE_ORDER=program, which this program is run with) an operation beside the
 * same calls of CUDA and NCCL made by hand: which calls it makes, how often others look meanwhile, and the times. */
#include "sum.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { TIMES = 1000, AT_ONCE = 50, LOOK_NS = 20000, LATE_MS = 100 };

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

/* What a loop that is written by hand does for each: after the caller's stream, on one of its own, and an event behind;
 * it asks what a library that is called from anywhere has to ask. */
static void sum_by_hand(const by_hand *h, operands o, void *stream)
{
    enum { INT32 = 2, SUM = 0 };
    int capturing, current;
    device()->cudaStreamIsCapturing(stream, &capturing);
    device()->cudaEventRecord(h->before, stream);
    device()->cudaGetDevice(&current);
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

static double median_us(int64_t *ns)
{
    const size_t middle = TIMES / 2;
    qsort(ns, TIMES, sizeof *ns, compare);
    return (double)ns[middle] / 1e3;
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
                                      "cuPointerGetAttributes",
                                      "ncclCommGetAsyncError"};
enum { FUNCTIONS = sizeof counted / sizeof *counted };

typedef struct times {
    int64_t hand[TIMES], hand_above[TIMES], ours[TIMES], above[TIMES], orders[TIMES], waits[TIMES];
} times;

static int64_t since(int64_t *at)
{
    const int64_t before = *at;
    *at = job_now_ns();
    return *at - before;
}

/* On the emulation; else 0. */
static int64_t ns_inside(void)
{
    return device_is_emulated() ? (int64_t)device()->emu_ns_inside() : 0;
}

/* The other rank comes so much later to each group of calls; 0: at once. */
static void be_late(job_rank *me, int late_ms)
{
    job_meet(me);
    if (me->rank > 0) job_sleep_ms(late_ms);
}

/* One by hand and one of ours in turn, so that what else the process does meanwhile costs both alike. */
static void time_both(job_rank *me, const by_hand *h, operands o, void *stream, int late_ms, times *t)
{
    weft_call call = {.stream = stream};
    weft_request *reqs[AT_ONCE];
    for (int i = 0; i < TIMES; i++) {
        if (i % AT_ONCE == 0) be_late(me, late_ms);
        int64_t inside = ns_inside(), at = job_now_ns();
        sum_by_hand(h, o, stream);
        t->hand[i] = since(&at);
        t->hand_above[i] = t->hand[i] - (ns_inside() - inside);
        at = job_now_ns();
        device()->cudaStreamWaitEvent(stream, h->after, 0);
        t->orders[i] = since(&at);
        inside = ns_inside();
        at = job_now_ns();
        reqs[i % AT_ONCE] = begin_sum(me->world, o, &call);
        t->ours[i] = since(&at);
        t->above[i] = t->ours[i] - (ns_inside() - inside);
        at = job_now_ns();
        CHECK_OK(weft_stream_wait(reqs[i % AT_ONCE], stream));
        t->waits[i] = since(&at);
        if (i % AT_ONCE < AT_ONCE - 1) continue;
        device_sync(h->stream);
        for (int r = 0; r < AT_ONCE; r++) WAIT_OK(reqs[r]);
    }
}

/* Times are told, and decide nothing. */
static void tell_times(const char *how, times *t)
{
    printf("program order, %s, medians of %d: all_reduce %.2f us, of these above the calls of CUDA and NCCL "
           "%.2f us; by "
           "hand %.2f us, %.2f us; stream_wait %.2f us, cudaStreamWaitEvent %.2f us\n",
           how, TIMES, median_us(t->ours), median_us(t->above), median_us(t->hand), median_us(t->hand_above),
           median_us(t->waits), median_us(t->orders));
}

/* What only the calls for a sum make, one after the other as above; returns how long they took. */
static int64_t count_calls(job_rank *me, operands o, void *stream, uint64_t *made)
{
    weft_call call = {.stream = stream};
    weft_request *reqs[AT_ONCE];
    int64_t all = 0;
    for (int i = 0; i < TIMES; i++) {
        uint64_t before[FUNCTIONS];
        for (int f = 0; f < FUNCTIONS; f++) before[f] = calls(counted[f]);
        int64_t at = job_now_ns();
        reqs[i % AT_ONCE] = begin_sum(me->world, o, &call);
        all += since(&at);
        for (int f = 0; f < FUNCTIONS; f++) made[f] += calls(counted[f]) - before[f];
        CHECK_OK(weft_stream_wait(reqs[i % AT_ONCE], stream));
        if (i % AT_ONCE < AT_ONCE - 1) continue;
        for (int r = 0; r < AT_ONCE; r++) WAIT_OK(reqs[r]);
    }
    return all;
}

/* In a call of ours there is one of each call that a program's own loop makes, and the questions whether the stream is
 * captured and which device is current, which that loop asks too. */
static void check_calls(job_rank *me, operands o, void *stream)
{
    uint64_t made[FUNCTIONS] = {0};
    const int64_t all = count_calls(me, o, stream, made);
    CHECK_INT(made[3], TIMES);
    CHECK_INT(made[4], TIMES); /* each of them in its call, on this thread */
    CHECK_INT(made[5], TIMES);
    CHECK_INT(made[9], 0);
    CHECK_INT(made[10], 0);
    CHECK(made[8] <= (uint64_t)all / LOOK_NS + TIMES); /* nobody waits: looks are far between */
    for (int f = 0; f < FUNCTIONS && me->rank == 0; f++)
        printf("  %s: %.3f a call\n", counted[f], (double)made[f] / TIMES);
}

static void beside_a_hand_written_loop(job_rank *me)
{
    static times together, late;
    int32_t image[COUNT] = {[0] = 1, [COUNT - 1] = 7};
    operands o = {job_buffer(me, bytes), job_buffer(me, bytes)};
    job_put(o.in, image, bytes);
    weft_request *first = begin_sum(me->world, o, NULL); /* in which NCCL connects */
    WAIT_OK(first);
    by_hand h = take_hand(me);
    time_both(me, &h, o, device_stream(0), 0, &together);
    time_both(me, &h, o, device_stream(0), LATE_MS, &late);
    CHECK_INT(h.destroy(h.comm), 0);
    if (me->rank == 0) tell_times("together", &together);
    if (me->rank == 0) tell_times("the other rank late", &late);
    if (device_is_emulated()) check_calls(me, o, device_stream(0));
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
