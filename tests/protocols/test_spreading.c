/* test_spreading.c - what a game of chance comes to too rarely, of a lead's word that others pass on (runtime/group/spreading.h). */
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "peer.h"
#include "spreading.h"
#include "trace.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* A host each, in a tree in which each has one below it.  The lead asks last, and so says at once that the group is made. */
enum { LEAD, FIRST, SECOND, LAST, RANKS };

static weft_group *made[RANKS];
static weft_request *reqs[RANKS];

static void ask(int rank)
{
    static const int everybody[] = {LEAD, FIRST, SECOND, LAST};
    weft_group *all = world_group(rank, world_group_id(0), everybody, RANKS);
    assert_int_equal(weft_new_group(all, everybody, RANKS, NULL, &made[rank], &reqs[rank]), WEFT_OK);
}

/* That one says nothing from before the word on. */
static void begin(int stopped)
{
    trace_begin("spreading", 1);
    chance_seed(1);
    world_open_all(RANKS, weft__executors);
    for (int i = 0; i < RANKS; i++) world_rank(i)->fan_out = world_rank(i)->told_at_once = 1;
    for (int i = LEAD + 1; i < RANKS; i++) ask(i);
    world_settle_for(1 * WEFT__MS);
    world_away(stopped, 5000 * WEFT__MS);
    ask(LEAD);
    world_settle_for(1 * WEFT__MS);
}

static void end(void)
{
    assert_false(trace_blamed());
    for (int i = 0; i < RANKS; i++) {
        weft_release(reqs[i]);
        reqs[i] = NULL;
    }
    world_close();
}

static void leave(int rank)
{
    weft__engine_take(world_rank(rank));
    (void)weft__spreading_protocol.due(world_rank(rank), WEFT__NEVER);
    weft__engine_drop(world_rank(rank));
}

/* Which does not see what follows from that. */
static void hear_that_it_left(int rank, int gone)
{
    world_away(gone, 5000 * WEFT__MS);
    weft__engine_take(world_rank(rank));
    weft__peer_gone(world_rank(rank), gone, WEFT__LEFT, false, "has left");
    weft__engine_drop(world_rank(rank));
}

static void test_one_is_gone_past(void **state)
{
    (void)state;
    begin(FIRST);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_PENDING);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    assert_int_equal(weft_test(reqs[FIRST]), WEFT_PENDING);
    world_settle_for(5000 * WEFT__MS);
    world_settle_for(1 * WEFT__MS); /* it goes on */
    assert_int_equal(weft_test(reqs[FIRST]), WEFT_OK);
    end();
}

/* That is heard before it could be taken for silent. */
static void test_one_dies(void **state)
{
    (void)state;
    begin(FIRST);
    wires_kill(FIRST);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_OK);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* It does not wait for those that have not answered, nor leave them to themselves. */
static void test_the_lead_leaves(void **state)
{
    (void)state;
    begin(FIRST);
    leave(LEAD);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_OK);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* Its goodbye may come before what it had said. */
static void test_the_lead_has_left(void **state)
{
    (void)state;
    begin(SECOND);
    hear_that_it_left(LAST, LEAD);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_PENDING);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* Nothing comes any more: that it is gone is said after a while. */
static void test_the_word_is_lost(void **state)
{
    (void)state;
    begin(SECOND);
    world_away(FIRST, 5000 * WEFT__MS);
    hear_that_it_left(LAST, LEAD);
    world_settle_for(400 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_PENDING);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_PEER);
    assert_int_equal(reqs[LAST]->culprit, LEAD);
    end();
}

static bool is_refused(int rank, int by)
{
    return atomic_exchange(&world_rank(by)->peers[rank].refused, false);
}

/* The lead's: bytes that can be no word, whatever they say. */
static void test_what_is_no_word(void **state)
{
    static const unsigned char zeros[64],
        ones[64] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    (void)state;
    begin(SECOND);
    weft__engine_take(world_rank(LAST));
    for (size_t length = 0; length <= sizeof zeros; length++) {
        weft__spreading_protocol.message(world_rank(LAST), FIRST, WEFT__MESSAGE_SPREAD, zeros, length);
        assert_true(is_refused(FIRST, LAST));
        weft__spreading_protocol.message(world_rank(LAST), FIRST, WEFT__MESSAGE_SPREAD, ones, length);
        assert_true(is_refused(FIRST, LAST));
    }
    weft__spreading_protocol.message(world_rank(LAST), FIRST, WEFT__MESSAGE_SPREAD_TAKEN, zeros, 1);
    assert_true(is_refused(FIRST, LAST));
    weft__engine_drop(world_rank(LAST));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_is_gone_past),
                                       cmocka_unit_test(test_one_dies),
                                       cmocka_unit_test(test_the_lead_leaves),
                                       cmocka_unit_test(test_the_lead_has_left),
                                       cmocka_unit_test(test_the_word_is_lost),
                                       cmocka_unit_test(test_what_is_no_word)};
    setenv("WEFT_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
