/* test_fence.c - of two sides that store and then load what the other stores, one sees the other: with heavy
 * and light fences, whole ones, and where the kernel refuses heavy ones from some moment on.  Litmus tests:
 * litmus.h tells how long they run. */
#include "clock.h"
#include "fence.h"
#include "litmus.h"
#include "skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALARM_S = 600 };

typedef struct words {
    struct {
        _Alignas(LITMUS_LINE) _Atomic uint64_t word;
    } often, rarely;
    _Alignas(LITMUS_LINE) _Atomic uint32_t kind;
    _Alignas(LITMUS_LINE) bool saw[2];
    void (*heavy)(_Atomic uint32_t *kind);
    bool refused; /* to both sides, from the beginning */
} words;

/* The sides take turns at storing often and rarely. */
static void store_and_load(litmus *l, int who)
{
    words *w = l->shared;
    unsigned seed = (unsigned)who;
    if (w->refused) litmus_refuse_membarrier(EPERM);
    for (uint64_t round = 1; litmus_meet(l, who, 2 * round - 1); round++) {
        bool rarely = (round & 1) == (uint64_t)who;
        litmus_stagger(&seed);
        if (rarely) {
            atomic_store_explicit(&w->rarely.word, round, memory_order_relaxed);
            w->heavy(&w->kind);
            w->saw[who] = atomic_load_explicit(&w->often.word, memory_order_relaxed) == round;
        } else {
            atomic_store_explicit(&w->often.word, round, memory_order_relaxed);
            weft__fence_light(&w->kind);
            w->saw[who] = atomic_load_explicit(&w->rarely.word, memory_order_relaxed) == round;
        }
        if (!litmus_meet(l, who, 2 * round)) break;
        if (who == 0 && !w->saw[0] && !w->saw[1]) litmus_wrong(l);
    }
}

static void one_sees(const char *name, litmus_place place, words start)
{
    words *w = litmus_share(sizeof *w);
    *w = start;
    assert_true(litmus_run(name, place, w, store_and_load, store_and_load) == 0);
}

/* What the rest rests on.  Where it is skipped, no test of this directory exercises light fences. */
static void need_heavy_fences(void)
{
    if (weft__fence_open() == WEFT__FENCE_HEAVY) return;
    SKIP("this system has no heavy fences (membarrier, expedited)");
}

static void test_threads(void **state)
{
    (void)state;
    need_heavy_fences();
    one_sees("threads' fence", LITMUS_THREADS,
             (words){.kind = WEFT__FENCE_HEAVY, .heavy = weft__fence_threads});
}

static void test_ranks(void **state)
{
    words w = {.kind = WEFT__FENCE_HEAVY, .heavy = weft__fence_ranks};
    (void)state;
    need_heavy_fences();
    one_sees("ranks' fence", LITMUS_THREADS, w);
    one_sees("ranks' fence", LITMUS_PROCESSES, w);
}

static void test_whole(void **state)
{
    (void)state;
    one_sees("whole fence", LITMUS_THREADS, (words){.kind = WEFT__FENCE_WHOLE, .heavy = weft__fence_threads});
}

static void only_whole(_Atomic uint32_t *kind)
{
    (void)kind;
    weft__fence();
}

/* A light side that comes while another settles makes a whole one. */
static void test_settling(void **state)
{
    (void)state;
    one_sees("while it settles", LITMUS_THREADS, (words){.kind = WEFT__FENCE_SETTLING, .heavy = only_whole});
}

static void test_refused(void **state)
{
    (void)state;
    litmus_need_filters();
    one_sees("refused", LITMUS_THREADS,
             (words){.kind = weft__fence_open(), .heavy = weft__fence_threads, .refused = true});
    one_sees("refused", LITMUS_PROCESSES,
             (words){.kind = weft__fence_open(), .heavy = weft__fence_ranks, .refused = true});
}

/* ---- the word and the waiting ------------------------------------------------------------------- */

typedef struct refusal {
    void (*heavy)(_Atomic uint32_t *kind);
    int error;
    uint32_t before, after;
    int64_t took_ns;
} refusal;

static void *be_refused(void *arg)
{
    refusal *r = arg;
    _Atomic uint32_t kind = r->before;
    int64_t began_ns = weft__now_ns();
    litmus_refuse_membarrier(r->error);
    r->heavy(&kind);
    r->took_ns = weft__now_ns() - began_ns;
    r->after = atomic_load(&kind);
    return NULL;
}

/* Whatever the error is, and also if another thread began to give it up a moment ago. */
static void test_refusal_is_seen(void **state)
{
    refusal all[] = {{weft__fence_threads, EPERM, WEFT__FENCE_HEAVY, 0, 0},
                     {weft__fence_threads, ENOSYS, WEFT__FENCE_HEAVY, 0, 0},
                     {weft__fence_threads, ENOMEM, WEFT__FENCE_HEAVY, 0, 0},
                     {weft__fence_threads, EPERM, WEFT__FENCE_SETTLING, 0, 0},
                     {weft__fence_ranks, EPERM, WEFT__FENCE_HEAVY, 0, 0},
                     {weft__fence_ranks, EPERM, WEFT__FENCE_SETTLING, 0, 0}};
    pthread_t thread;
    (void)state;
    litmus_need_filters();
    for (size_t i = 0; i < WEFT__LENGTH(all); i++) {
        assert_int_equal(pthread_create(&thread, NULL, be_refused, &all[i]), 0);
        pthread_join(thread, NULL);
        assert_int_equal(all[i].after, WEFT__FENCE_WHOLE);
        assert_true(all[i].took_ns >= WEFT__FENCE_SETTLE_MS * WEFT__MS);
    }
}

static void test_not_refused(void **state)
{
    _Atomic uint32_t kind = WEFT__FENCE_HEAVY;
    (void)state;
    need_heavy_fences();
    weft__fence_threads(&kind);
    assert_int_equal(atomic_load(&kind), WEFT__FENCE_HEAVY);
    weft__fence_ranks(&kind);
    assert_int_equal(atomic_load(&kind), WEFT__FENCE_HEAVY);
}

/* Before there is a context: light fences are whole from the beginning. */
static void test_refused_at_first(void **state)
{
    int status;
    pid_t pid;
    (void)state;
    litmus_need_filters();
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        litmus_refuse_membarrier(EPERM);
        _exit(weft__fence_open() == WEFT__FENCE_WHOLE ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(
                                           test_refused_at_first), /* before anything has opened */
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_settling),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_refusal_is_seen),
                                       cmocka_unit_test(test_not_refused)};
    alarm(ALARM_S);
    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
