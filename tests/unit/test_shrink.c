/* test_shrink.c - shrink_group message by message: who is told that it has failed, what a lead waits for, and ends that come
 * in the middle of something else.  What holds in whatever order messages come is played by
 * tests/protocols/shrink_game.c. */
#include "accused.h"
#include "engine.h"
#include "lone_rank.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "shrink.h"
#include "shrink_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { GROUP = 2, BEFORE = 0, OTHER = 2, LAST = 4, LIST_MOST = 16 };

static const uint64_t made_by_before = (uint64_t)(BEFORE + 1) << 40 | 7;

static weft_context *ctx;
static weft_group *group;
static weft_request *req;
static int sent[WEFT__MESSAGE_GO_TOGETHER + 1]; /* how often, by kind */
static void (*at_sent)(int type);               /* in the middle of sending; NULL: nothing happens then */

static void note_sent(const weft__outgoing *out)
{
    int type = out->frame.tag;
    if (out->frame.kind != WEFT__FRAME_CONTROL || type < 0 || type > WEFT__MESSAGE_GO_TOGETHER) return;
    sent[type]++;
    if (at_sent) at_sent(type);
}

/* Who is told of beside the members. */
typedef struct told {
    uint32_t survivors, presumed;
    int ranks[LIST_MOST];
} told;

static int sets_of(int type)
{
    if (type == WEFT__MESSAGE_SHRINK_JOIN) return WEFT__SHRINK_JOINED + 1;
    return type == WEFT__MESSAGE_SHRINK_READY ? WEFT__SHRINK_SETS : WEFT__SHRINK_MEMBERS + 1;
}

static weft__shrink_message *message_of(int type, weft_status status, const told *t)
{
    weft__shrink_message *m =
        weft__shrink_message_new(ctx, sets_of(type), status == WEFT_OK ? NULL : "2.0 s passed");
    assert_non_null(m);
    m->group = GROUP;
    m->id = made_by_before;
    m->occurrence = 1;
    m->size = (uint32_t)group->size;
    m->status = status;
    m->params = weft__own_params(ctx);
    for (int i = 0; i < group->size; i++)
        weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_MEMBERS), group->world[i]);
    for (uint32_t i = 0; i < t->survivors + t->presumed; i++)
        weft__set_add(weft__shrink_set(ctx, m,
                                       i < t->survivors ? WEFT__SHRINK_SURVIVORS : WEFT__SHRINK_PRESUMED),
                      t->ranks[i]);
    return m;
}

static void say(int from, int type, weft_status status, const told *t)
{
    weft__shrink_message *m = message_of(type, status, t);
    m->lead = LONE_ME;
    if (type == WEFT__MESSAGE_SHRINK_JOIN) weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_JOINED), from);
    ctx->p2p_events.control(&ctx->p2p_events, from, type, m, weft__shrink_message_bytes(m));
    weft__reserve_give(m);
}

static void turn(void)
{
    weft__engine_progress(ctx);
}

/* This rank shrinks the group of those. */
static void begin(const int *members, int size)
{
    static weft_group *left;
    memset(sent, 0, sizeof sent);
    at_sent = NULL;
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    ctx->quorum = WEFT__QUORUM_MAJORITY;
    group = lone_rank_group(ctx, members, size, "group", GROUP);
    assert_int_equal(weft_shrink_group(group, NULL, &left, &req), WEFT_OK);
    weft__engine_take(ctx);
    turn();
}

static void end(void)
{
    at_sent = NULL;
    weft__engine_drop(ctx);
    weft_release(req);
    lone_rank_close(ctx);
}

static weft_status end_of_request(void)
{
    weft_status status;
    turn();
    weft__engine_drop(ctx);
    status = weft_test(req);
    weft__engine_take(ctx);
    return status;
}

static const told nothing = {0};

/* The lead before is presumed dead, and no view can leave it out yet: LAST, which holds its group too, never joined this
 * rank. */
static void hold_with_last(void)
{
    static const int members[] = {BEFORE, LONE_ME, LAST};
    const told all = {.survivors = 3, .ranks = {BEFORE, LONE_ME, LAST}};
    begin(members, 3);
    say(BEFORE, WEFT__MESSAGE_SHRINK_READY, WEFT_OK, &all);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_STORED], 1);
    weft__peer_gone(ctx, BEFORE, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    say(LAST, WEFT__MESSAGE_SHRINK_READY, WEFT_OK, &all);
    assert_int_equal(end_of_request(), WEFT_PENDING);
}

static void test_who_holds_the_group_is_told_that_it_failed(void **state)
{
    (void)state;
    hold_with_last();
    say(LAST, WEFT__MESSAGE_SHRINK_EXPIRED, WEFT_ERR_TIMEOUT, &nothing);
    assert_int_equal(end_of_request(), WEFT_ERR_TIMEOUT);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 1);
    end();
}

/* Its word was on its way while the attempt ended. */
static void test_who_asks_late_is_told(void **state)
{
    (void)state;
    hold_with_last();
    say(LAST, WEFT__MESSAGE_SHRINK_EXPIRED, WEFT_ERR_TIMEOUT, &nothing);
    sent[WEFT__MESSAGE_SHRINK_FAILED] = 0;
    say(LAST, WEFT__MESSAGE_SHRINK_EXPIRED, WEFT_ERR_TIMEOUT, &nothing);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 1);
    say(LAST, WEFT__MESSAGE_SHRINK_STORED, WEFT_OK, &nothing);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 2);
    end();
}

/* OTHER is no member, and has lost LAST: which of the two goes is open until OTHER itself is gone. */
static void test_the_end_of_who_accuses_a_member(void **state)
{
    static const int members[] = {LONE_ME, LAST};
    (void)state;
    begin(members, 2);
    weft__peer_accused(ctx, LAST, OTHER, "is lost: it is silent");
    say(LAST, WEFT__MESSAGE_SHRINK_JOIN, WEFT_OK, &nothing);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_READY], 0);
    weft__peer_gone(ctx, OTHER, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_READY], 1);
    end();
}

static void fail_amid(int type)
{
    if (type != WEFT__MESSAGE_NONE) return;
    at_sent = NULL;
    say(LAST, WEFT__MESSAGE_SHRINK_FAILED, WEFT_ERR_TIMEOUT, &nothing);
}

/* A group is told of without two who are gone, and as the first of them is counted as that, word comes that it has failed.
 * A sanitizer sees what is used after that. */
static void test_a_failure_amid_the_first_word(void **state)
{
    static const int members[] = {BEFORE, 1, OTHER, LONE_ME, LAST};
    (void)state;
    begin(members, 5);
    at_sent = fail_amid;
    say(BEFORE, WEFT__MESSAGE_SHRINK_READY, WEFT_OK,
        &(told){.survivors = 3, .presumed = 2, .ranks = {BEFORE, LONE_ME, LAST, 1, OTHER}});
    assert_null(at_sent);
    assert_int_equal(end_of_request(), WEFT_ERR_TIMEOUT);
    assert_true(atomic_load(&ctx->peers[1].gone));
    assert_true(atomic_load(&ctx->peers[OTHER].gone));
    end();
}

static void lose_next_lead(int type)
{
    if (type != WEFT__MESSAGE_SHRINK_READY) return;
    at_sent = NULL;
    weft__peer_gone(ctx, OTHER, WEFT__DIED, true, "has died");
}

/* The group is handed on to the next lead, and that sending finds it dead: this rank is the last one, and has it. */
static void test_the_next_lead_is_gone_too(void **state)
{
    static const int members[] = {BEFORE, OTHER, LONE_ME};
    (void)state;
    begin(members, 3);
    say(BEFORE, WEFT__MESSAGE_SHRINK_READY, WEFT_OK,
        &(told){.survivors = 3, .ranks = {BEFORE, OTHER, LONE_ME}});
    at_sent = lose_next_lead;
    weft__peer_gone(ctx, BEFORE, WEFT__DIED, true, "has died");
    assert_null(at_sent);
    assert_int_equal(end_of_request(), WEFT_OK);
    end();
}

/* LAST is unreachable from here, which this rank has only been told: it lives, so the lead waits for it. */
static void test_a_lead_waits_for_one_that_is_unreachable(void **state)
{
    static const int members[] = {LONE_NEAR, LONE_ME, LAST};
    (void)state;
    begin(members, 3);
    weft__peer_gone(ctx, LONE_NEAR, WEFT__DIED, true, "has died");
    ctx->peers[LAST].by_hearsay = true;
    atomic_store(&ctx->peers[LAST].gone, WEFT__UNREACHABLE);
    turn();
    weft__peer_gone(ctx, OTHER, WEFT__DIED, true, "has died"); /* any end makes it look again */
    assert_int_equal(end_of_request(), WEFT_PENDING);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_READY], 0);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_DONE], 0);
    say(LAST, WEFT__MESSAGE_SHRINK_EXPIRED, WEFT_ERR_TIMEOUT, &nothing);
    end();
}

/* Nobody is dead because a verdict says nothing of it. */
static void test_a_verdict_tells_of_all(void **state)
{
    static const int members[] = {BEFORE, LONE_ME, LAST};
    (void)state;
    begin(members, 3);
    say(BEFORE, WEFT__MESSAGE_SHRINK_READY, WEFT_OK, &(told){.survivors = 2, .ranks = {BEFORE, LONE_ME}});
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_STORED], 0);
    assert_int_equal(atomic_load(&ctx->peers[LAST].gone), WEFT__LIVES);
    say(BEFORE, WEFT__MESSAGE_SHRINK_EXPIRED, WEFT_ERR_TIMEOUT, &nothing);
    end();
}

/* READY of the lead before, which others have passed on: they hear whether this rank holds its group. */
static bool takes(const told *t)
{
    weft__shrink_message *m = message_of(WEFT__MESSAGE_SHRINK_READY, WEFT_OK, t);
    const bool holds =
        weft__shrink_takes(ctx, BEFORE, WEFT__MESSAGE_SHRINK_READY, m, weft__shrink_message_bytes(m));
    weft__reserve_give(m);
    return holds;
}

static void test_who_passes_it_on_hears_who_holds_it(void **state)
{
    static const int members[] = {BEFORE, LONE_ME, LAST};
    const told all = {.survivors = 3, .ranks = {BEFORE, LONE_ME, LAST}};
    (void)state;
    begin(members, 3);
    assert_false(takes(&(told){.survivors = 2, .ranks = {BEFORE, LONE_ME}}));
    assert_true(takes(&all));
    assert_true(takes(&all));
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_STORED], 0);
    say(BEFORE, WEFT__MESSAGE_SHRINK_FAILED, WEFT_ERR_TIMEOUT, &nothing);
    sent[WEFT__MESSAGE_SHRINK_FAILED] = 0;
    assert_false(takes(&all));
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 1);
    end();
}

static void test_who_holds_another_group_does_not_hold_it(void **state)
{
    static const int members[] = {BEFORE, LONE_ME, LAST};
    const told all = {.survivors = 3, .ranks = {BEFORE, LONE_ME, LAST}};
    weft__shrink_message *m;
    (void)state;
    begin(members, 3);
    assert_true(takes(&all));
    m = message_of(WEFT__MESSAGE_SHRINK_READY, WEFT_OK, &all);
    m->id = made_by_before + 1;
    assert_false(
        weft__shrink_takes(ctx, BEFORE, WEFT__MESSAGE_SHRINK_READY, m, weft__shrink_message_bytes(m)));
    weft__reserve_give(m);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_holds_the_group_is_told_that_it_failed),
        cmocka_unit_test(test_who_asks_late_is_told),
        cmocka_unit_test(test_the_end_of_who_accuses_a_member),
        cmocka_unit_test(test_a_failure_amid_the_first_word),
        cmocka_unit_test(test_the_next_lead_is_gone_too),
        cmocka_unit_test(test_a_lead_waits_for_one_that_is_unreachable),
        cmocka_unit_test(test_a_verdict_tells_of_all),
        cmocka_unit_test(test_who_passes_it_on_hears_who_holds_it),
        cmocka_unit_test(test_who_holds_another_group_does_not_hold_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
