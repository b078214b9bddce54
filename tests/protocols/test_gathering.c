/* test_gathering.c - what a game of chance comes to too rarely, of how the lead of a new group hears who has come
 * (runtime/group/gathering.h). */
#include "chance.h"
#include "create_attempt.h"
#include "engine.h"
#include "executors.h"
#include "protocol.h"
#include "rank_set.h"
#include "reserve.h"
#include "trace.h"
#include "wires_hearing.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A host each, in a tree in which each has one below it. */
enum { LEAD, FIRST, SECOND, LAST, RANKS };

static const int everybody[RANKS] = {LEAD, FIRST, SECOND, LAST};
static weft_group *worlds[RANKS], *made[RANKS];
static weft_request *reqs[RANKS];

static void ask_for(int rank, int64_t timeout_ms)
{
    const weft_call call = {.timeout_ms = timeout_ms};
    assert_int_equal(weft_new_group(worlds[rank], everybody, RANKS, &call, &made[rank], &reqs[rank]),
                     WEFT_OK);
}

static void ask(int rank)
{
    ask_for(rank, WEFT_FOREVER);
}

static void begin(void)
{
    trace_begin("gathering", 1);
    chance_seed(1);
    world_open_all(RANKS, weft__executors);
    for (int i = 0; i < RANKS; i++) {
        world_rank(i)->fan_out = world_rank(i)->told_at_once = 1;
        worlds[i] = world_group(i, world_group_id(0), everybody, RANKS);
    }
}

static void finish(void)
{
    assert_false(trace_blamed());
    for (int i = 0; i < RANKS; i++) {
        weft_release(reqs[i]);
        reqs[i] = NULL;
    }
    world_close();
}

static weft__create_key key_of(int rank)
{
    weft__create_key key;
    memcpy(&key, (const char *)reqs[rank]->u.creation + sizeof *reqs[rank]->u.creation, sizeof key);
    return key;
}

/* The lead has heard of some attempt that is not over. */
static bool has_attempts(void)
{
    return !weft__list_empty(world_rank(LEAD)->protocol_state[WEFT__PROTOCOL_CREATE]);
}

static bool lead_knows(int rank)
{
    const weft__create_key key = key_of(rank);
    const unsigned char *joined = weft__attempt_joined(world_rank(LEAD), &key);
    return joined && weft__set_has(joined, rank);
}

static bool is_missing(int asked, const char *who)
{
    return strstr(weft_request_message(reqs[asked]), who) != NULL;
}

/* The one below it goes past it, before the one below that has lost its patience. */
static void test_one_is_gone_past(void **state)
{
    (void)state;
    begin();
    for (int i = LEAD; i < LAST; i++) ask(i);
    world_settle_for(200 * WEFT__MS);
    world_away(FIRST, 5000 * WEFT__MS);
    ask(LAST);
    world_settle_for(280 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_PENDING);
    world_settle_for(40 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_OK);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    finish();
}

static void test_one_becomes_unreachable(void **state)
{
    (void)state;
    begin();
    world_away(FIRST, 5000 * WEFT__MS);
    ask(LAST);
    ask(SECOND);
    world_settle_for(1 * WEFT__MS);
    assert_false(lead_knows(SECOND));
    weft__engine_take(world_rank(SECOND));
    weft__gathering_protocol.peer_unreachable(world_rank(SECOND), FIRST, "");
    weft__engine_drop(world_rank(SECOND));
    world_settle_for(1 * WEFT__MS);
    assert_true(lead_knows(SECOND) && lead_knows(LAST));
    finish();
}

/* What it was told by then, for others, is not lost with it. */
static void test_one_leaves(void **state)
{
    (void)state;
    begin();
    ask(LAST);
    world_settle_for(1 * WEFT__MS);
    assert_false(lead_knows(LAST));
    weft__engine_take(world_rank(SECOND));
    (void)weft__gathering_protocol.due(world_rank(SECOND), WEFT__NEVER);
    weft__engine_drop(world_rank(SECOND));
    world_settle_for(1 * WEFT__MS);
    assert_true(lead_knows(LAST));
    finish();
}

/* Where the attempt has ended before the last one comes, those in between hold it up no more. */
static void test_one_has_died(void **state)
{
    (void)state;
    begin();
    for (int i = LEAD; i < LAST; i++) ask(i);
    world_settle_for(200 * WEFT__MS);
    wires_kill(FIRST);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_ERR_PEER);
    ask(LAST);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_PEER);
    assert_int_equal(reqs[LAST]->culprit, FIRST);
    finish();
}

/* Its name comes to the lead after its end. */
static void test_one_that_is_named_has_died(void **state)
{
    (void)state;
    begin();
    ask(LAST);
    ask(SECOND);
    world_away(FIRST, 100 * WEFT__MS);
    world_settle_for(1 * WEFT__MS);
    wires_kill(LAST);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_ERR_PEER);
    assert_int_equal(reqs[SECOND]->culprit, LAST);
    finish();
}

/* Who is above it has been told before, and holds it up no more. */
static void test_the_last_one_is_in_between(void **state)
{
    (void)state;
    begin();
    ask(LEAD);
    ask(FIRST);
    ask(LAST);
    world_settle_for(200 * WEFT__MS);
    ask(SECOND);
    world_settle_for(1 * WEFT__MS);
    for (int i = LEAD; i < RANKS; i++) assert_int_equal(weft_test(reqs[i]), WEFT_OK);
    assert_false(has_attempts());
    finish();
}

/* It names one for whom it does not know who is above. */
static void test_one_does_not_come(void **state)
{
    (void)state;
    begin();
    ask_for(LEAD, 1000);
    ask_for(FIRST, 1000);
    ask_for(LAST, 1000);
    world_settle_for(60 * WEFT__MS);
    assert_true(lead_knows(LAST));
    world_settle_for(1000 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_TIMEOUT);
    assert_true(is_missing(LAST, "pid 2) has not been heard of"));
    assert_false(is_missing(LAST, "pid 1)") || is_missing(LAST, "pid 3)"));
    ask(SECOND);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_ERR_TIMEOUT);
    finish();
}

/* However short the time, those whom the missing one keeps are not blamed in its place. */
static void test_time_is_short(void **state)
{
    (void)state;
    begin();
    world_away(FIRST, 5000 * WEFT__MS);
    ask(LEAD);
    ask_for(SECOND, 100);
    ask_for(LAST, 80);
    world_settle_for(200 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_TIMEOUT);
    assert_true(is_missing(LAST, "pid 1) has not been heard of"));
    assert_false(is_missing(LAST, "pid 2)") || is_missing(LAST, "pid 3)"));
    finish();
}

/* Who gives up before anybody has named it names itself first: the lead ends the attempt for all. */
static void test_one_gives_up_at_once(void **state)
{
    (void)state;
    begin();
    world_away(FIRST, 5000 * WEFT__MS);
    ask(LEAD);
    ask(SECOND);
    world_settle_for(1 * WEFT__MS);
    weft_cancel(reqs[SECOND]);
    world_settle_for(1 * WEFT__MS);
    assert_int_equal(weft_test(reqs[SECOND]), WEFT_ERR_CANCELLED);
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_ERR_CANCELLED);
    finish();
}

static void part_from_lead(int rank, bool lost)
{
    wires_lose_way(LEAD, rank, lost);
    wires_lose_way(rank, LEAD, lost);
}

/* It is known, and what it says at its end goes by others too: it does not fail alone. */
static void test_one_gives_up_that_cannot_reach_the_lead(void **state)
{
    (void)state;
    begin();
    part_from_lead(LAST, true);
    ask(LEAD);
    ask(SECOND);
    ask_for(LAST, 1000);
    world_settle_for(400 * WEFT__MS);
    assert_true(lead_knows(LAST));
    world_settle_for(600 * WEFT__MS);
    world_settle_for(20 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_TIMEOUT);
    assert_true(is_missing(LAST, "pid 1) has not been heard of"));
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_ERR_TIMEOUT);
    ask(FIRST);
    world_settle_for(20 * WEFT__MS);
    assert_int_equal(weft_test(reqs[FIRST]), WEFT_ERR_TIMEOUT);
    part_from_lead(LAST, false);
    world_settle_for(20 * WEFT__MS);
    finish();
}

static void test_the_lead_is_unreachable_from_one(void **state)
{
    (void)state;
    begin();
    part_from_lead(LAST, true);
    ask(LEAD);
    ask(SECOND);
    ask(LAST);
    world_settle_for(200 * WEFT__MS);
    weft__engine_take(world_rank(LAST));
    weft__group_create_protocol.peer_unreachable(world_rank(LAST), LEAD, "the lead is out of reach");
    weft__engine_drop(world_rank(LAST));
    world_settle_for(20 * WEFT__MS);
    assert_int_equal(weft_test(reqs[LAST]), WEFT_ERR_PEER);
    assert_int_equal(weft_test(reqs[LEAD]), WEFT_ERR_PEER);
    assert_true(is_missing(LEAD, "the lead is out of reach"));
    ask(FIRST);
    world_settle_for(20 * WEFT__MS);
    assert_int_equal(weft_test(reqs[FIRST]), WEFT_ERR_PEER);
    part_from_lead(LAST, false);
    world_settle_for(20 * WEFT__MS);
    finish();
}

static void name(int by, const weft__create_key *key, int rank)
{
    unsigned char bytes[sizeof(weft__gather_word) + 1] = {0};
    weft__gather_word *w = (weft__gather_word *)(void *)bytes;
    w->key = *key;
    w->lead = LEAD;
    weft__set_add(w->set, rank);
    weft__engine_take(world_rank(LEAD));
    weft__gathering_protocol.message(world_rank(LEAD), by, WEFT__MESSAGE_GATHER_JOINS, w, sizeof bytes);
    weft__engine_drop(world_rank(LEAD));
}

/* By one that was stopped meanwhile. */
static void test_one_is_named_when_it_is_over(void **state)
{
    weft__create_key key;
    (void)state;
    begin();
    for (int i = LEAD; i < RANKS; i++) ask(i);
    world_settle_for(1 * WEFT__MS);
    key = key_of(LAST);
    name(FIRST, &key, LAST);
    assert_false(has_attempts());
    assert_int_equal(weft_test(reqs[LAST]), WEFT_OK);
    key.occurrence++; /* of another one it is the first word */
    name(FIRST, &key, LAST);
    assert_true(has_attempts());
    finish();
}

static bool is_refused(int rank, int by)
{
    return atomic_exchange(&world_rank(by)->peers[rank].refused, false);
}

static bool refuses(int type, const weft__gather_word *w, size_t length)
{
    weft__engine_take(world_rank(SECOND));
    weft__gathering_protocol.message(world_rank(SECOND), FIRST, type, w, length);
    weft__engine_drop(world_rank(SECOND));
    return is_refused(FIRST, SECOND);
}

static bool refuses_end(const weft__gather_end *end, size_t length)
{
    weft__engine_take(world_rank(SECOND));
    weft__gathering_protocol.message(world_rank(SECOND), FIRST, WEFT__MESSAGE_GATHER_GIVES_UP, end, length);
    weft__engine_drop(world_rank(SECOND));
    return is_refused(FIRST, SECOND);
}

static void test_what_is_no_end(void **state)
{
    const weft__gather_end sound = {.key = {.size = RANKS},
                                    .lead = LEAD,
                                    .rank = FIRST,
                                    .status = WEFT_ERR_TIMEOUT,
                                    .culprit = -1,
                                    .why = "a reason"};
    weft__gather_end end;
    (void)state;
    begin();
    assert_false(refuses_end(&sound, sizeof sound));
    assert_true(refuses_end(&sound, sizeof sound - 1));
#define IS_REFUSED(field, value)                    \
    do {                                            \
        end = sound;                                \
        end.field = (value);                        \
        assert_true(refuses_end(&end, sizeof end)); \
    } while (0)
    IS_REFUSED(key.size, 1);
    IS_REFUSED(key.size, RANKS + 1);
    IS_REFUSED(lead, RANKS);
    IS_REFUSED(lead, -1);
    IS_REFUSED(rank, RANKS);
    IS_REFUSED(rank, -1);
    IS_REFUSED(rank, LEAD);
    IS_REFUSED(status, WEFT_OK);
    IS_REFUSED(culprit, RANKS);
    IS_REFUSED(culprit, -2);
#undef IS_REFUSED
    end = sound;
    memset(end.why, 'x', sizeof end.why);
    assert_true(refuses_end(&end, sizeof end));
    world_settle_for(1 * WEFT__MS);
    finish();
}

static void test_what_is_no_word(void **state)
{
    unsigned char bytes[sizeof(weft__gather_word) + 2] = {0};
    weft__gather_word *w = (weft__gather_word *)(void *)bytes;
    const size_t length = sizeof *w + 1;
    (void)state;
    begin();
    w->key.size = RANKS;
    w->set[0] = 1u << LAST;
    for (size_t other = 0; other <= sizeof bytes; other++)
        if (other != length) assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, other));
    assert_false(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->lead = FIRST; /* it was another one before */
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->lead = RANKS;
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->lead = -1;
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->lead = SECOND;
    assert_true(refuses(WEFT__MESSAGE_GATHER_KNOWN, w, length));
    w->lead = LEAD;
    w->set[0] = 1u << RANKS;
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->set[0] = 1u << LEAD | 1u << LAST; /* whom nobody names */
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->set[0] = 0;
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->set[0] = 7;
    w->key.size = 2;
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    w->key.size = RANKS + 1;
    assert_true(refuses(WEFT__MESSAGE_GATHER_JOINS, w, length));
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_is_gone_past),
                                       cmocka_unit_test(test_one_becomes_unreachable),
                                       cmocka_unit_test(test_one_leaves),
                                       cmocka_unit_test(test_one_has_died),
                                       cmocka_unit_test(test_one_that_is_named_has_died),
                                       cmocka_unit_test(test_the_last_one_is_in_between),
                                       cmocka_unit_test(test_one_does_not_come),
                                       cmocka_unit_test(test_time_is_short),
                                       cmocka_unit_test(test_one_gives_up_at_once),
                                       cmocka_unit_test(test_one_gives_up_that_cannot_reach_the_lead),
                                       cmocka_unit_test(test_the_lead_is_unreachable_from_one),
                                       cmocka_unit_test(test_one_is_named_when_it_is_over),
                                       cmocka_unit_test(test_what_is_no_end),
                                       cmocka_unit_test(test_what_is_no_word)};
    setenv("WEFT_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
