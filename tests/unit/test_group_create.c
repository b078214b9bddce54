/* test_group_create.c - what a member says of an attempt to make a group whose lead it does not reach
 * (runtime/fault/heartbeats.md): the lead hears of it when the two reach each other again.  And what a lead does whose own
 * caller has not come. */
#include "create_message.h"
#include "engine.h"
#include "lone_rank.h"
#include "p2p_box.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LEAD = 0 };

static weft_context *ctx;
static int sent[WEFT__MESSAGE_CREATE_EXPIRED + 1]; /* by type */

static void (*at_failed)(
    void); /* in the middle of telling that an attempt has failed; NULL: nothing happens then */

static void note_sent(const weft__outgoing *out)
{
    int type = out->frame.tag;
    if (out->frame.kind != WEFT__FRAME_CONTROL || type <= 0 || type > WEFT__MESSAGE_CREATE_EXPIRED) return;
    sent[type]++;
    if (type == WEFT__MESSAGE_CREATE_FAILED && at_failed) at_failed();
}

/* In one word: between one that says that it has come and one that it has not, the attempt could succeed. */
static void test_a_failure_is_owed_and_told_at_once(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4};
    weft_group *world, *made = NULL;
    weft_request *req = NULL;
    (void)state;
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    weft__engine_take(ctx);
    assert_true(weft__peer_unreachable(ctx, LEAD, false, "is unreachable"));
    weft__engine_drop(ctx);
    memset(sent, 0, sizeof sent);
    assert_int_equal(weft_new_group(world, all, LONE_WORLD, NULL, &made, &req), WEFT_OK);
    assert_int_equal(weft_test(req), WEFT_ERR_PEER);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_JOIN], 0);
    weft__engine_take(ctx);
    ctx->p2p->sink.connected(&ctx->p2p->sink, LEAD);
    weft__engine_drop(ctx);
    assert_int_equal(atomic_load(&ctx->peers[LEAD].gone), WEFT__LIVES);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_JOIN], 1);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_EXPIRED], 0);
    weft_release(req);
    assert_int_equal(weft_group_free(made), WEFT_OK);
    lone_rank_close(ctx);
}

/* ---- at the lead, whose own caller has not come ---- */

enum { OTHER = 4, STRANGER = 1 }; /* rank 3 and the other one are all of the group */

static const weft__create_key key = {.parent = 1, .hash = {2, 3}, .occurrence = 1, .size = 2};

static void say(int peer, int type, const unsigned char *members, size_t length)
{
    weft__create_message *m = weft__create_message_new(&key, length);
    assert_non_null(m);
    if (length) memcpy(m->rest, members, length);
    weft__group_create_protocol.message(ctx, peer, type, m, sizeof *m + length);
    weft__reserve_give(m);
}

static bool is_refused(int peer)
{
    return atomic_exchange(&ctx->peers[peer].refused, false);
}

static const unsigned char both = 1U << LONE_ME | 1U << OTHER;

static void begin_as_lead(void)
{
    static const int all[] = {0, 1, 2, 3, 4};
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    memset(sent, 0, sizeof sent);
    weft__engine_take(ctx);
}

static void end_as_lead(void)
{
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
}

/* The first one tells who the members are; who is none of them is not counted, and may not come again. */
static void test_the_first_one_is_asked(void **state)
{
    (void)state;
    begin_as_lead();
    say(OTHER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_ASK], 1);
    say(STRANGER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_ASK], 1);
    assert_false(is_refused(STRANGER));
    say(OTHER, WEFT__MESSAGE_CREATE_MEMBERS, &both, 1);
    assert_true(is_refused(STRANGER));
    assert_false(is_refused(OTHER));
    say(STRANGER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0);
    assert_true(is_refused(STRANGER));
    say(OTHER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0);
    assert_true(is_refused(OTHER));
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_READY], 0);
    say(LONE_ME, WEFT__MESSAGE_CREATE_JOIN, &both, 1);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_READY], 1);
    end_as_lead();
}

/* Members that cannot be are refused, and so is who tells of them without having joined. */
static void test_members_that_cannot_be(void **state)
{
    static const unsigned char wrong[] = {1U << OTHER,             /* not this rank */
                                          both | 1U << STRANGER,   /* three; and this one is not the lowest */
                                          1U << LONE_ME | 1U << 2, /* not who says it */
                                          1U << LONE_ME | 1U << LONE_WORLD, /* no rank of the job */
                                          0};
    const unsigned char long_one[2] = {both};
    (void)state;
    begin_as_lead();
    say(OTHER, WEFT__MESSAGE_CREATE_MEMBERS, &both, 1);
    assert_false(is_refused(OTHER)); /* of what is over it may tell */
    say(OTHER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0);
    say(STRANGER, WEFT__MESSAGE_CREATE_MEMBERS, &both, 1);
    assert_true(is_refused(STRANGER));
    for (size_t i = 0; i < sizeof wrong; i++) {
        say(OTHER, WEFT__MESSAGE_CREATE_MEMBERS, &wrong[i], 1);
        assert_true(is_refused(OTHER));
    }
    say(OTHER, WEFT__MESSAGE_CREATE_MEMBERS, long_one, sizeof long_one);
    assert_true(is_refused(OTHER));
    say(LONE_ME, WEFT__MESSAGE_CREATE_JOIN, &both, 1);
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_READY], 1);
    end_as_lead();
}

static void join_too(void)
{
    at_failed = NULL;
    say(LONE_ME, WEFT__MESSAGE_CREATE_JOIN, &both, 1);
}

/* Telling one may find others gone, whose last words are taken then: the last one that was awaited joins. */
static void test_the_last_one_joins_amid_the_end(void **state)
{
    static const char why[] = "2.0 s passed";
    weft__create_message *m = weft__create_message_new(&key, sizeof why);
    (void)state;
    assert_non_null(m);
    m->status = WEFT_ERR_TIMEOUT;
    memcpy(m->rest, why, sizeof why);
    begin_as_lead();
    say(OTHER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0);
    at_failed = join_too;
    weft__group_create_protocol.message(ctx, OTHER, WEFT__MESSAGE_CREATE_EXPIRED, m, sizeof *m + sizeof why);
    assert_null(at_failed);
    say(OTHER, WEFT__MESSAGE_CREATE_JOIN, NULL, 0); /* it is over, so that is the first word of another one */
    assert_int_equal(sent[WEFT__MESSAGE_CREATE_ASK], 2);
    end_as_lead();
    weft__reserve_give(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_failure_is_owed_and_told_at_once),
                                       cmocka_unit_test(test_the_first_one_is_asked),
                                       cmocka_unit_test(test_members_that_cannot_be),
                                       cmocka_unit_test(test_the_last_one_joins_amid_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
