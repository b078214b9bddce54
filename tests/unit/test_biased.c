/* test_biased.c - the lock that its keeper takes without a locked instruction: one holder at a time, whoever
 * asks gets it, and what is left for the holder is never left lying. */
#include "biased.h"
#include "lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define EARNED 200 /* turns after which a lock is surely kept */
#define OTHERS 3
#if defined(__SANITIZE_THREAD__)
#define TURNS 20000
#else
#define TURNS 200000
#endif

static weft__biased lock;

static int fresh(void **state)
{
    (void)state;
    lock = (weft__biased){.cheap = weft__fence_open()};
    return 0;
}

static void need_heavy_fences(void)
{
    if (!lock.cheap) skip();
}

static void earn(void)
{
    for (int i = 0; i < EARNED; i++) {
        assert_true(weft__biased_try(&lock));
        weft__biased_drop(&lock);
    }
}

static void test_kept(void **state)
{
    (void)state;
    need_heavy_fences();
    assert_true(weft__biased_try(&lock));
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_HELD);
    weft__biased_drop(&lock);
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_FREE);
    earn();
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_KEPT);
    assert_true(weft__biased_try(&lock));
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_KEPT);
    weft__biased_drop(&lock);
    lock = (weft__biased){.cheap = false};
    earn();
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_FREE);
}

typedef struct other {
    pthread_t thread;
    _Atomic bool tried, got, drop;
    bool sleeps;
} other;

static void *ask(void *arg)
{
    other *o = arg;
    bool got = true;
    if (o->sleeps)
        weft__biased_take(&lock);
    else
        got = weft__biased_try(&lock);
    atomic_store(&o->got, got);
    atomic_store(&o->tried, true);
    while (!atomic_load(&o->drop)) sched_yield();
    if (got) weft__biased_drop(&lock);
    return NULL;
}

static void begin(other *o, bool sleeps)
{
    *o = (other){.sleeps = sleeps};
    assert_int_equal(pthread_create(&o->thread, NULL, ask, o), 0);
}

static void end(other *o)
{
    atomic_store(&o->drop, true);
    pthread_join(o->thread, NULL);
}

static void await(_Atomic bool *word)
{
    while (!atomic_load(word)) sched_yield();
}

static void test_taken_back(void **state)
{
    other o;
    (void)state;
    need_heavy_fences();
    earn();
    begin(&o, false);
    await(&o.tried);
    assert_true(atomic_load(&o.got));
    assert_false(weft__biased_try(&lock));
    end(&o);
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_FREE);
    earn();
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_KEPT);
}

static void test_keeper_is_inside(void **state)
{
    other tries, sleeps[2];
    (void)state;
    need_heavy_fences();
    earn();
    assert_true(weft__biased_try(&lock));
    begin(&tries, false);
    await(&tries.tried);
    assert_false(atomic_load(&tries.got));
    end(&tries);
    assert_true(weft__biased_wanted(&lock));
    for (int i = 0; i < 2; i++) begin(&sleeps[i], true);
    for (int i = 0; i < 1000; i++) sched_yield();
    assert_false(atomic_load(&sleeps[0].tried) || atomic_load(&sleeps[1].tried));
    weft__biased_drop(&lock);
    for (int i = 0; i < 2; i++) atomic_store(&sleeps[i].drop, true);
    for (int i = 0; i < 2; i++) end(&sleeps[i]);
    assert_true(atomic_load(&sleeps[0].got) && atomic_load(&sleeps[1].got));
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_FREE);
}

/* Not asked for: a keeper that comes in vain lets go of it too, or nobody would ever. */
static void test_keeper_comes_in_vain(void **state)
{
    other o;
    (void)state;
    need_heavy_fences();
    earn();
    begin(&o, false);
    await(&o.tried);
    for (int i = 0; i < 10; i++) assert_false(weft__biased_try(&lock));
    end(&o);
    assert_true(weft__biased_try(&lock));
    weft__biased_drop(&lock);
}

/* Under the lock alone. */
static uint64_t before, after, taken, wrong;
static _Atomic uint64_t left, given;
static _Atomic uint32_t kept;

/* As the engine does: leave it, and take it away unless whoever holds the lock will look once more. */
static void leave_one(void)
{
    atomic_fetch_add(&left, 1);
    atomic_fetch_add(&given, 1);
    while (atomic_load(&left) && weft__biased_try(&lock)) {
        wrong += before != after;
        before++;
        taken += atomic_exchange(&left, 0);
        after++;
        weft__biased_drop(&lock);
    }
}

static void *disturb(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    for (int i = 0; i < TURNS / 100; i++) {
        for (unsigned pause = (seed = seed * 1103515245 + 12345) >> 22; pause; pause--) weft__pause();
        if (i % 3) {
            leave_one();
            continue;
        }
        weft__biased_take(&lock);
        wrong += before != after;
        before++;
        after++;
        weft__biased_drop(&lock);
        if (atomic_load(&left)) leave_one(); /* somebody may have counted on this thread's look */
    }
    return NULL;
}

static void test_nothing_is_left(void **state)
{
    pthread_t threads[OTHERS];
    unsigned seeds[OTHERS];
    (void)state;
    before = after = taken = wrong = 0;
    atomic_store(&left, 0);
    atomic_store(&given, 0);
    atomic_store(&kept, 0);
    earn();
    for (unsigned i = 0; i < OTHERS; i++) {
        seeds[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, disturb, &seeds[i]), 0);
    }
    for (int i = 0; i < TURNS; i++) {
        leave_one();
        kept += weft__biased_state_of(&lock) == WEFT__LOCK_KEPT;
    }
    for (int i = 0; i < OTHERS; i++) pthread_join(threads[i], NULL);
    assert_true(wrong == 0);
    assert_true(atomic_load(&left) == 0);
    assert_true(taken == atomic_load(&given));
    assert_true(!lock.cheap || atomic_load(&kept) > 0);
}

/* ---- the fences it rests on ---------------------------------------------------------------------- */

#define MEETINGS (TURNS / 4)

static _Atomic int arrived[2];
static _Atomic int often, rarely;
static int saw[2][MEETINGS];

static void meet(int who, int n)
{
    atomic_store(&arrived[who], n);
    for (int looks = 0; atomic_load(&arrived[!who]) < n; looks++)
        if (looks > 1000) sched_yield();
}

static void *store_often(void *arg)
{
    for (int n = 1; n <= MEETINGS; n++) {
        meet(0, n);
        atomic_store_explicit(&often, n, memory_order_relaxed);
        weft__fence_light(lock.cheap);
        saw[0][n - 1] = atomic_load_explicit(&rarely, memory_order_relaxed);
    }
    return arg;
}

static void meet_often(void (*heavy)(void))
{
    pthread_t thread;
    unsigned seed = 1;
    for (int i = 0; i < 2; i++) atomic_store(&arrived[i], 0);
    atomic_store(&often, 0);
    atomic_store(&rarely, 0);
    assert_int_equal(pthread_create(&thread, NULL, store_often, NULL), 0);
    for (int n = 1; n <= MEETINGS; n++) {
        meet(1, n);
        for (unsigned pause = (seed = seed * 1103515245 + 12345) >> 28; pause; pause--) weft__pause();
        atomic_store_explicit(&rarely, n, memory_order_relaxed);
        heavy();
        saw[1][n - 1] = atomic_load_explicit(&often, memory_order_relaxed);
    }
    pthread_join(thread, NULL);
    for (int n = 1; n <= MEETINGS; n++) assert_true(saw[0][n - 1] >= n || saw[1][n - 1] >= n);
}

static void test_fences(void **state)
{
    (void)state;
    meet_often(weft__fence_threads);
    meet_often(weft__fence_ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"kept", test_kept, fresh, NULL, NULL},
        {"taken back", test_taken_back, fresh, NULL, NULL},
        {"the keeper is inside", test_keeper_is_inside, fresh, NULL, NULL},
        {"the keeper comes in vain", test_keeper_comes_in_vain, fresh, NULL, NULL},
        {"nothing is left", test_nothing_is_left, fresh, NULL, NULL},
        {"fences", test_fences, fresh, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
