/* test_ahead.c - in program order (WEFT_DEVICE_ORDER=program, which this program is run with), on one host, while the other
 * rank is late: what the submitting call itself sends, allocates and takes. */
#include "p2p.h"
#include "sum.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { AHEAD = 50, LATE_MS = 100, ROUNDS = 20 };
enum { SEEN }; /* marks: rank 0 has seen that its operations are under way, one per round */

/* ---- what this thread sends (the linker puts these in the place of the library's) ---- */

static _Thread_local bool inside; /* a call that is looked at */
static _Thread_local int messages;

#define CONTROL weft__p2p *p2p, int peer, int type, const void *data, size_t length
#define SEND \
    weft__p2p *p2p, const weft__envelope *to, const void *data, size_t length, weft__completion *completion

weft_status __real_weft__p2p_control(CONTROL);
weft_status __wrap_weft__p2p_control(CONTROL);
weft__send *__real_weft__p2p_send(SEND);
weft__send *__wrap_weft__p2p_send(SEND);

weft_status __wrap_weft__p2p_control(CONTROL)
{
    messages += inside;
    return __real_weft__p2p_control(p2p, peer, type, data, length);
}

weft__send *__wrap_weft__p2p_send(SEND)
{
    messages += inside;
    return __real_weft__p2p_send(p2p, to, data, length, completion);
}

/* ---- what it allocates, and for whom: CUDA's and NCCL's own stand-ins do in each call ---- */

enum { SEEN_MOST = 4096 };
static _Thread_local void *seen[SEEN_MOST];
static _Thread_local int seen_count;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNTED = 0 }; /* the sanitizer's own are in the place of these */
#else
enum { COUNTED = 1 };

void *__libc_malloc(size_t length);
void *__libc_calloc(size_t n, size_t length);
void *__libc_realloc(void *at, size_t length);

static void see(void *caller)
{
    if (inside && seen_count < SEEN_MOST) seen[seen_count++] = caller;
}

/* To the libraries too, in the place of libc's. */
#define SHOWN(name) __asm__(name) __attribute__((visibility("default")))
void *seen_malloc(size_t length) SHOWN("malloc");
void *seen_calloc(size_t n, size_t length) SHOWN("calloc");
void *seen_realloc(void *at, size_t length) SHOWN("realloc");

void *seen_malloc(size_t length)
{
    see(__builtin_return_address(0));
    return __libc_malloc(length);
}

void *seen_calloc(size_t n, size_t length)
{
    see(__builtin_return_address(0));
    return __libc_calloc(n, length);
}

void *seen_realloc(void *at, size_t length)
{
    see(__builtin_return_address(0));
    return __libc_realloc(at, length);
}
#endif

static bool is_of_weft(void *caller)
{
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname) return true;
    return !strstr(info.dli_fname, "libcudart") && !strstr(info.dli_fname, "libnccl");
}

/* Names each, once it is there to be looked up. */
static int allocations_of_weft(void)
{
    int n = 0;
    for (int i = 0; i < seen_count; i++) {
        Dl_info info = {.dli_fname = NULL};
        if (!is_of_weft(seen[i])) continue;
        dladdr(seen[i], &info);
        if (n++ == 0)
            fprintf(stderr, "allocated in %s, %s\n", info.dli_fname ? info.dli_fname : "?",
                    info.dli_sname ? info.dli_sname : "?");
    }
    return n;
}

/* ---- the calls ---- */

typedef struct times {
    int64_t sums[AHEAD * ROUNDS], waits[AHEAD * ROUNDS];
    int n;
} times;

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

static void begin_all(job_rank *me, operands o, weft_request **reqs, times *t)
{
    weft_call call = {.stream = device_stream(0)};
    for (int i = 0; i < AHEAD; i++) {
        weft_status status;
        int64_t at = job_now_ns(), between;
        inside = true;
        status = weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, &call, &reqs[i]);
        between = job_now_ns();
        if (status == WEFT_OK) status = weft_stream_wait(reqs[i], call.stream);
        inside = false;
        t->waits[t->n] = job_now_ns() - between;
        t->sums[t->n++] = between - at;
        CHECK_OK(status);
    }
}

static void end_all(weft_request **reqs)
{
    for (int i = 0; i < AHEAD; i++) {
        WAIT_OK(reqs[i]);
        weft_release(reqs[i]);
    }
}

/* Nothing is sent for it, and nothing allocated; the times are told, and decide nothing. */
static void while_the_other_is_late(job_rank *me)
{
    static times t;
    operands o = take_operands(me);
    weft_request *reqs[AHEAD];
    t.n = 0;
    begin_all(me, o, reqs, &t); /* what is made once */
    end_all(reqs);
    for (int round = 0; round < ROUNDS; round++) {
        job_meet(me);
        if (round == 0) t.n = messages = seen_count = 0;
        if (me->rank == 1) {
            job_sleep_ms(LATE_MS);
            job_await(me, SEEN, round + 1);
        }
        begin_all(me, o, reqs, &t);
        if (me->rank == 0) {
            CHECK_INT(weft_test(reqs[0]), WEFT_PENDING);
            job_mark(me, SEEN);
        }
        end_all(reqs);
    }
    check_sum(me->size, o.out);
    CHECK_INT(messages, 0);
    CHECK(!COUNTED ||
          (device_is_emulated() && seen_count > 0)); /* the stand-ins', which shows that they are seen */
    CHECK_INT(allocations_of_weft(), 0);
    if (me->rank == 0)
        printf("the other rank %d ms late, medians of %d: all_reduce %.2f us, stream_wait %.2f us\n", LATE_MS,
               t.n, median_us(t.sums, t.n), median_us(t.waits, t.n));
    job_meet(me);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("while the other is late", .ranks = 2, .processes = true, .body = while_the_other_is_late),
    };
    return JOB_MAIN(tests, argc, argv);
}
