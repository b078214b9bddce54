/* test_spreading.c - what a game of chance comes to too rarely, of a lead's word that others pass on (runtime/group/spreading.h). */
#include "chance.h"
#include "create_message.h"
#include "engine.h"
#include "executors.h"
#include "peer.h"
#include "reserve.h"
#include "spread_word.h"
#include "spreading.h"
#include "trace.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A host each, in a tree in which each has one below it.  The lead asks last, and so says at once that the group is made. */
enum { LEAD, FIRST, SECOND, LAST, RANKS, NEVER_ASKS = RANKS, MANY = 15 };

static weft_group *made[MANY];
static weft_request *reqs[MANY];

static void ask_of(int rank, int ranks, int64_t timeout_ms)
{
    const weft_call call = {.timeout_ms = timeout_ms};
    weft_group *all;
    int everybody[MANY];
    for (int i = 0; i < ranks; i++) everybody[i] = i;
    all = world_group(rank, world_group_id(0), everybody, ranks);
    assert_int_equal(weft_new_group(all, everybody, ranks, &call, &made[rank], &reqs[rank]), WEFT_OK);
}

static void open_world(int ranks, int fan_out)
{
    trace_begin("spreading", 1);
    chance_seed(1);
    world_open_all(ranks, weft__executors);
    for (int i = 0; i < ranks; i++) {
        world_rank(i)->fan_out = fan_out;
        world_rank(i)->told_at_once = 1;
    }
}

/* That one says nothing from before the word on; the last one waits for so long, if not for ever. */
static void begin_with(int stopped, int64_t last_ms)
{
    open_world(RANKS, 1);
    for (int i = LEAD + 1; i < RANKS; i++) ask_of(i, RANKS, i == LAST ? last_ms : WEFT_FOREVER);
    world_settle_for(1 * WEFT__MS);
    world_away(stopped, 5000 * WEFT__MS);
    ask_of(LEAD, RANKS, WEFT_FOREVER);
    world_settle_for(1 * WEFT__MS);
}

static void begin(int stopped)
{
    begin_with(stopped, WEFT_FOREVER);
}

static void end(void)
{
    assert_false(trace_blamed());
    for (int i = 0; i < MANY; i++) {
        weft_release(reqs[i]);
        reqs[i] = NULL;
    }
    world_close();
}

static void all_have_it(int from, int to)
{
    for (int rank = from; rank <= to; rank++) assert_int_equal(weft_test(reqs[rank]), WEFT_OK);
}

static void shrink_of(int rank)
{
    const weft_call call = {.timeout_ms = WEFT_FOREVER};
    weft_group *all;
    int everybody[RANKS];
    for (int i = 0; i < RANKS; i++) everybody[i] = i;
    all = world_group(rank, world_group_id(0), everybody, RANKS);
    assert_int_equal(weft_shrink_group(all, &call, &made[rank], &reqs[rank]), WEFT_OK);
}

/* All shrink a group; the last one says nothing for so long from before the lead's word on. */
static void begin_to_shrink(int64_t last_ms)
{
    open_world(RANKS, 1);
    for (int i = LEAD + 1; i < RANKS; i++) shrink_of(i);
    world_settle_for(1 * WEFT__MS);
    world_away(LAST, last_ms * WEFT__MS);
    shrink_of(LEAD);
    world_settle_for(1 * WEFT__MS);
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

/* Whom others were to tell hears it from the lead ahead of its goodbye, however long those are stopped. */
static void test_the_lead_has_left(void **state)
{
    (void)state;
    begin(SECOND);
    world_away(FIRST, 5000 * WEFT__MS);
    leave(LEAD);
    world_settle_for(1 * WEFT__MS);
    hear_that_it_left(LAST, LEAD);
    world_settle_for(1000 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    world_settle_for(5000 * WEFT__MS);
    world_settle_for(1 * WEFT__MS);
    all_have_it(LEAD, LAST);
    end();
}

/* Who has told it goes past it, as what was in its hands may have been on its way still. */
static void test_another_member_leaves(void **state)
{
    (void)state;
    begin(SECOND);
    hear_that_it_left(LAST, FIRST);
    hear_that_it_left(LEAD, FIRST);
    world_settle_for(2000 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* The lead, which lives, answers, and those that are stopped find that it is made. */
static void test_time_is_up_before_the_word_comes(void **state)
{
    (void)state;
    begin_with(SECOND, 1000);
    world_away(FIRST, 5000 * WEFT__MS);
    world_settle_for(2000 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    world_settle_for(5000 * WEFT__MS);
    world_settle_for(1 * WEFT__MS);
    all_have_it(LEAD, LAST);
    end();
}

/* One dies of those that pass it on and the other one is stopped: the lead is asked, and says what it has made. */
static void test_the_word_is_asked_for(void **state)
{
    (void)state;
    begin(SECOND);
    world_away(FIRST, 5000 * WEFT__MS);
    wires_kill(SECOND);
    world_settle_for(2000 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* Neither those nor the lead say anything: it is given up after a while, by the rank that has died. */
static void test_the_word_is_lost(void **state)
{
    (void)state;
    begin(SECOND);
    world_away(FIRST, 5000 * WEFT__MS);
    world_away(LEAD, 5000 * WEFT__MS);
    wires_kill(SECOND);
    world_settle_for(900 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_PENDING);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_PEER);
    assert_int_equal(reqs[LAST]->culprit, SECOND);
    end();
}

static void expires(int rank, int culprit)
{
    weft__create_message *m;
    const weft_request *req = reqs[rank];
    const weft__create_key *key =
        (const weft__create_key *)(const void *)((const char *)req->u.creation + sizeof *req->u.creation);
    m = weft__create_failure(key, WEFT_ERR_PEER, culprit, "is unreachable");
    assert_non_null(m);
    weft__engine_take(world_rank(rank));
    weft__create_send(world_rank(rank), LEAD, WEFT__MESSAGE_CREATE_EXPIRED, m);
    weft__engine_drop(world_rank(rank));
    weft__reserve_give(m);
}

/* Who does not reach another member says so when the group is made already. */
static void test_one_was_unreachable(void **state)
{
    (void)state;
    begin(SECOND);
    world_away(FIRST, 5000 * WEFT__MS);
    expires(LAST, FIRST);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* One does not come, and those that pass that on are stopped. */
static void test_who_is_missing_is_named(void **state)
{
    (void)state;
    open_world(RANKS + 1, 1);
    for (int i = LEAD + 1; i < RANKS; i++) ask_of(i, RANKS + 1, i == LAST ? 1200 : WEFT_FOREVER);
    ask_of(LEAD, RANKS + 1, 1000);
    world_settle_for(900 * WEFT__MS);
    world_away(SECOND, 5000 * WEFT__MS);
    world_settle_for(110 * WEFT__MS);
    world_away(FIRST, 5000 * WEFT__MS);
    world_settle_for(1500 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(weft_request_message(reqs[LAST]), "pid 4) has not been heard of"));
    end();
}

/* One that could not be told is when it is reached. */
static void test_one_is_reached_again(void **state)
{
    (void)state;
    begin(SECOND);
    weft__engine_take(world_rank(FIRST));
    weft__spreading_protocol.peer_returns(world_rank(FIRST), LAST);
    weft__engine_drop(world_rank(FIRST));
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    end();
}

/* It has passed on the word, and does not say any more that those below hold the group: these are asked by who is above. */
static void test_one_stops_that_counts_who_holds_it(void **state)
{
    (void)state;
    begin_to_shrink(100);
    world_away(FIRST, 5000 * WEFT__MS);
    world_settle_for(1500 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_OK);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_OK);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    assert_int_equal(weft_test(reqs[FIRST]), WEFT_PENDING);
    world_settle_for(5000 * WEFT__MS);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[FIRST]), WEFT_OK);
    end();
}

/* Who passes the word on to it takes it for gone, and the lead does not: it waits until that one says itself that it holds the
 * group. */
static void test_who_is_taken_for_gone_is_not_counted(void **state)
{
    (void)state;
    begin_to_shrink(5000);
    weft__engine_take(world_rank(SECOND));
    weft__peer_gone(world_rank(SECOND), LAST, WEFT__LEFT, true, "has left"); /* it alone hears so */
    weft__engine_drop(world_rank(SECOND));
    world_settle_for(1000 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_PENDING);
    world_settle_for(5000 * WEFT__MS);
    world_settle_for(1 * WEFT__MS);
    all_have_it(LEAD, LAST); /* that it is made, too */
    end();
}

/* Before the lead asks anybody itself.  When SECOND hears that it is made depends on the order in which messages come. */
static void test_who_is_taken_for_gone_is_told_by_who_is_above(void **state)
{
    (void)state;
    begin_to_shrink(300);
    weft__engine_take(world_rank(SECOND));
    weft__peer_gone(world_rank(SECOND), LAST, WEFT__LEFT, true, "has left");
    weft__engine_drop(world_rank(SECOND));
    world_settle_for(350 * WEFT__MS);
    all_have_it(LEAD, FIRST);
    end();
}

static bool is_refused(int rank, int by)
{
    return atomic_exchange(&world_rank(by)->peers[rank].refused, false);
}

static bool refuses_answer(const weft__spread_taken *t, size_t length)
{
    weft__spreading_protocol.message(world_rank(LAST), FIRST, WEFT__MESSAGE_SPREAD_TAKEN, t, length);
    return is_refused(FIRST, LAST);
}

/* With one byte for its ranks, and a bit for each. */
static void check_answers_with_a_set(void)
{
    enum { BYTES = sizeof(weft__spread_taken) + 1 };
    union {
        weft__spread_taken t;
        unsigned char bytes[BYTES];
    } u = {.t = {.number = 1, .answer = WEFT__ALL_HAVE, .holds = 1, .has_set = 1}};
    u.bytes[BYTES - 1] = 0xf;
    assert_false(refuses_answer(&u.t, BYTES));
    assert_true(refuses_answer(&u.t, BYTES - 1));
    u.bytes[BYTES - 1] = 0x10;
    assert_true(refuses_answer(&u.t, BYTES));
    u.bytes[BYTES - 1] = 0xf;
    u.t.answer = WEFT__HAS;
    assert_true(refuses_answer(&u.t, BYTES));
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
    weft__spreading_protocol.message(world_rank(LAST), FIRST, WEFT__MESSAGE_SPREAD_TAKEN, ones,
                                     sizeof(weft__spread_taken));
    assert_true(is_refused(FIRST, LAST));
    check_answers_with_a_set();
    weft__engine_drop(world_rank(LAST));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_is_gone_past),
                                       cmocka_unit_test(test_one_dies),
                                       cmocka_unit_test(test_the_lead_leaves),
                                       cmocka_unit_test(test_the_lead_has_left),
                                       cmocka_unit_test(test_another_member_leaves),
                                       cmocka_unit_test(test_time_is_up_before_the_word_comes),
                                       cmocka_unit_test(test_the_word_is_asked_for),
                                       cmocka_unit_test(test_the_word_is_lost),
                                       cmocka_unit_test(test_one_was_unreachable),
                                       cmocka_unit_test(test_who_is_missing_is_named),
                                       cmocka_unit_test(test_one_is_reached_again),
                                       cmocka_unit_test(test_one_stops_that_counts_who_holds_it),
                                       cmocka_unit_test(test_who_is_taken_for_gone_is_not_counted),
                                       cmocka_unit_test(test_who_is_taken_for_gone_is_told_by_who_is_above),
                                       cmocka_unit_test(test_what_is_no_word)};
    setenv("WEFT_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
