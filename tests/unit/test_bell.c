/* test_bell.c - a rank that arms its bell sees what was published before, or is rung for it: litmus tests
 * (litmus.h tells how long they run) in both directions, between threads and between processes. */
#include "litmus.h"
#include "segment_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALARM_S = 600 };

typedef struct rank {
    weft__segment *segment;
    int self, other;
    unsigned seed;
} rank;

static weft__segment *join(int self)
{
    weft__segment_config config = segment_config(self, 2, 20000);
    weft__segment *segment;
    if (weft__segment_join(&config, &segment)) abort();
    return segment;
}

/* Publishes as rings do: a release store, then the bell. */
static void publish(const rank *r, uint64_t round)
{
    atomic_store_explicit(weft__segment_taken(r->segment, r->self, r->other), round, memory_order_release);
    weft__bell_ring(r->segment, r->other);
}

/* Goes to sleep as the progress thread does.  Returns whether it saw that of this round. */
static bool arm_and_look(const rank *r, uint64_t round)
{
    weft__bell_arm(r->segment);
    return atomic_load_explicit(weft__segment_taken(r->segment, r->other, r->self), memory_order_acquire) >=
           round;
}

static bool was_rung(const rank *r)
{
    uint64_t rung;
    bool armed = atomic_load(&r->segment->peers[r->self].control->armed);
    weft__bell_disarm(r->segment);
    return !armed && read(r->segment->peers[r->self].bell_fd, &rung, sizeof rung) == (ssize_t)sizeof rung;
}

/* The sides take turns, so each does both. */
static void take_turns(litmus *l, int who, weft__segment *segment)
{
    rank r = {.segment = segment, .self = who, .other = !who, .seed = (unsigned)who};
    for (uint64_t round = 1; litmus_meet(l, who, 2 * round - 1); round++) {
        bool sleeps = (round & 1) == (uint64_t)who, saw = true;
        litmus_stagger(&r.seed);
        if (sleeps)
            saw = arm_and_look(&r, round);
        else
            publish(&r, round);
        if (!litmus_meet(l, who, 2 * round)) break;
        if (sleeps && !was_rung(&r) && !saw) litmus_wrong(l);
    }
    weft__segment_free(segment);
}

static void hand_over(litmus *l, int who)
{
    take_turns(l, who, join(who));
}

/* What a program may do to itself after weft_init. */
static void hand_over_refused(litmus *l, int who)
{
    weft__segment *segment = join(who);
    litmus_refuse_membarrier(EPERM);
    take_turns(l, who, segment);
}

/* Ranks that the kernel refuses heavy fences from the beginning, so that others' do not reach them either. */
static void hand_over_whole(litmus *l, int who)
{
    litmus_refuse_membarrier(EPERM);
    take_turns(l, who, join(who));
}

static void hand_over_one_whole(litmus *l, int who)
{
    if (who == 0) litmus_refuse_membarrier(EPERM);
    take_turns(l, who, join(who));
}

static void test_whole(void **state)
{
    (void)state;
    assert_true(litmus_run("bell, whole fences", LITMUS_PROCESSES, NULL, hand_over_whole, hand_over_whole) ==
                0);
    assert_true(
        litmus_run("bell, one whole", LITMUS_PROCESSES, NULL, hand_over_one_whole, hand_over_one_whole) == 0);
}

static void test_refused(void **state)
{
    (void)state;
    litmus_need_filters();
    assert_true(litmus_run("bell, refused", LITMUS_PROCESSES, NULL, hand_over_refused, hand_over_refused) ==
                0);
}

static void test_processes(void **state)
{
    (void)state;
    assert_true(litmus_run("bell", LITMUS_PROCESSES, NULL, hand_over, hand_over) == 0);
}

static void test_threads(void **state)
{
    (void)state;
    assert_true(litmus_run("bell", LITMUS_THREADS, NULL, hand_over, hand_over) == 0);
}

int main(void)
{
    /* Processes first: a parent that has opened its fences would hand that on to them. */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes), cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_threads)};
    alarm(ALARM_S);
    segment_config(0, 2, 0); /* names the job before any fork */
    return cmocka_run_group_tests_name("bell", tests, NULL, NULL);
}
