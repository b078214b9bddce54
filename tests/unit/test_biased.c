/* test_biased.c - the lock that its keeper takes without a locked instruction: one holder at a time, whoever
 * asks gets it, and what is left for the holder is never left lying.
 * With light fences and with whole ones.  The litmus tests end by the clock: LITMUS_MS in litmus.h. */
#include "biased.h"
#include "litmus.h"
#include "lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
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
static bool refused;           /* heavy fences, to the thread that is not the keeper */
static _Atomic uint64_t asked; /* the last round in which something was left for the holder */

/* Kept with light fences; where the kernel has no heavy ones this is the same as fresh_whole. */
static int fresh(void **state)
{
    (void)state;
    lock = (weft__biased){.keeps = true, .fence = weft__fence_open()};
    atomic_store(&asked, 0);
    return 0;
}

/* Kept with whole fences, as locks go on to be when heavy ones are refused later. */
static int fresh_whole(void **state)
{
    (void)state;
    lock = (weft__biased){.keeps = true, .fence = WEFT__FENCE_WHOLE};
    atomic_store(&asked, 0);
    return 0;
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
    assert_true(weft__biased_try(&lock));
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_HELD);
    weft__biased_drop(&lock);
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_FREE);
    earn();
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_KEPT);
    assert_true(weft__biased_try(&lock));
    assert_int_equal(weft__biased_state_of(&lock), WEFT__LOCK_KEPT);
    weft__biased_drop(&lock);
    lock = (weft__biased){.keeps = false};
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
    assert_true(atomic_load(&kept) > 0);
}

/* ---- the fences it rests on: litmus.h ------------------------------------------------------------ */

static int got[2];

/* The other side may not have dropped it yet. */
static bool keep(void)
{
    for (int turns = 0; turns < EARNED;) {
        if (!weft__biased_try(&lock)) {
            sched_yield();
            continue;
        }
        weft__biased_drop(&lock);
        turns++;
        if (weft__biased_state_of(&lock) == WEFT__LOCK_KEPT) return true;
    }
    return false;
}

/* Both ask at once and hold what they got until both have asked. */
static void both_ask(litmus *l, int who)
{
    unsigned seed = (unsigned)who;
    if (who == 1 && refused) litmus_refuse_membarrier(EPERM);
    for (uint64_t round = 1;; round++) {
        if (who == 0 && !keep()) litmus_wrong(l);
        if (!litmus_meet(l, who, 2 * round - 1)) break;
        weft__biased_state_of(&lock); /* both have its line, so that the keeper's store takes a while */
        litmus_stagger(&seed);
        got[who] = weft__biased_try(&lock);
        if (!litmus_meet(l, who, 2 * round)) break;
        if (got[0] && got[1]) litmus_wrong(l);
        if (got[who]) weft__biased_drop(&lock);
    }
}

static void test_one_gets_it(void **state)
{
    (void)state;
    refused = false;
    assert_true(litmus_run("biased", LITMUS_THREADS, NULL, both_ask, both_ask) == 0);
}

/* What is left for the holder is seen: by whoever leaves it, with the lock, or by the
 * holder behind its drop. */
static bool saw;

static void drop_and_see(litmus *l, int who)
{
    unsigned seed = (unsigned)who;
    for (uint64_t round = 1;; round++) {
        if (lock.keeps && !keep()) litmus_wrong(l);
        while (!weft__biased_try(&lock)) sched_yield();
        if (!litmus_meet(l, who, 2 * round - 1)) break;
        weft__biased_state_of(&lock);
        litmus_stagger(&seed);
        weft__biased_drop(&lock);
        saw = atomic_load(&asked) == round;
        if (!litmus_meet(l, who, 2 * round)) break;
    }
}

static void leave_and_ask(litmus *l, int who)
{
    unsigned seed = (unsigned)who;
    if (refused) litmus_refuse_membarrier(EPERM);
    for (uint64_t round = 1; litmus_meet(l, who, 2 * round - 1); round++) {
        bool mine;
        weft__biased_state_of(&lock);
        litmus_stagger(&seed);
        atomic_exchange(&asked, round);
        mine = weft__biased_try(&lock);
        if (!litmus_meet(l, who, 2 * round)) break;
        if (!mine && !saw) litmus_wrong(l);
        if (mine) weft__biased_drop(&lock);
    }
}

static void test_one_sees_it(void **state)
{
    (void)state;
    refused = false;
    assert_true(litmus_run("dropped, kept", LITMUS_THREADS, NULL, drop_and_see, leave_and_ask) == 0);
}

static void test_one_sees_it_not_kept(void **state)
{
    (void)state;
    refused = false;
    lock.keeps = false;
    assert_true(litmus_run("dropped, not kept", LITMUS_THREADS, NULL, drop_and_see, leave_and_ask) == 0);
}

static void test_one_sees_it_refused(void **state)
{
    (void)state;
    litmus_need_filters();
    refused = true;
    assert_true(litmus_run("dropped, refused", LITMUS_THREADS, NULL, drop_and_see, leave_and_ask) == 0);
}

static void test_one_gets_it_refused(void **state)
{
    (void)state;
    litmus_need_filters();
    refused = true;
    assert_true(litmus_run("biased, refused", LITMUS_THREADS, NULL, both_ask, both_ask) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"kept", test_kept, fresh, NULL, NULL},
        {"taken back", test_taken_back, fresh, NULL, NULL},
        {"the keeper is inside", test_keeper_is_inside, fresh, NULL, NULL},
        {"the keeper comes in vain", test_keeper_comes_in_vain, fresh, NULL, NULL},
        {"nothing is left", test_nothing_is_left, fresh, NULL, NULL},
        {"one gets it", test_one_gets_it, fresh, NULL, NULL},
        {"one sees it", test_one_sees_it, fresh, NULL, NULL},
        {"one sees it, not kept", test_one_sees_it_not_kept, fresh, NULL, NULL},
        {"kept, whole fences", test_kept, fresh_whole, NULL, NULL},
        {"taken back, whole fences", test_taken_back, fresh_whole, NULL, NULL},
        {"the keeper is inside, whole fences", test_keeper_is_inside, fresh_whole, NULL, NULL},
        {"the keeper comes in vain, whole fences", test_keeper_comes_in_vain, fresh_whole, NULL, NULL},
        {"nothing is left, whole fences", test_nothing_is_left, fresh_whole, NULL, NULL},
        {"one gets it, whole fences", test_one_gets_it, fresh_whole, NULL, NULL},
        {"one sees it, whole fences", test_one_sees_it, fresh_whole, NULL, NULL},
        {"one sees it, refused", test_one_sees_it_refused, fresh, NULL, NULL},
        {"one gets it, refused", test_one_gets_it_refused, fresh, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
