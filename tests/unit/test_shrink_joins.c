/* test_shrink_joins.c - who has joined a shrink is told up a tree of hosts, one rank of it: rank 3 of 5, each on a host of its own, one
 * below the other.  What holds in whatever order messages come is played by tests/protocols/shrink_game.c. */
#include "engine.h"
#include "lone_rank.h"
#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "shrink_joins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { GROUP = 2, LEAD = 0, NEXT = 1, ABOVE = 2, BELOW = 4, NOBODY = -1, WORDS_MOST = 8 };

static weft_context *ctx;
static weft_group *group;
static weft_request *req;
static const weft__protocol *shrink;

static struct word {
    int to, type, lead;
    unsigned char joined, lost; /* a bit for each rank */
} words[WORDS_MOST];            /* about the shrink, that this rank has said */
static int said;
static uint32_t occurrence; /* that JOIN of BELOW is of */

static void note_sent(const weft__outgoing *out)
{
    const int type = out->frame.tag;
    weft__shrink_message *m;
    if (out->frame.kind != WEFT__FRAME_CONTROL || type < WEFT__MESSAGE_SHRINK_JOIN ||
        type > WEFT__MESSAGE_SPREAD)
        return;
    assert_true(said < WORDS_MOST);
    words[said] = (struct word){.to = out->peer, .type = type};
    if (type == WEFT__MESSAGE_SHRINK_JOIN) {
        m = weft__reserve_get(out->frame.length);
        assert_non_null(m);
        memcpy(m, out->payload, out->frame.length);
        words[said].lead = m->lead;
        words[said].joined = *weft__shrink_told(ctx, m, WEFT__SHRINK_JOINED);
        words[said].lost = *weft__shrink_told(ctx, m, WEFT__SHRINK_LOST);
        weft__reserve_give(m);
    }
    said++;
}

/* lost: whom it presumes dead. */
static void begin_by(weft__quorum quorum, int lost)
{
    static weft_group *left;
    static const int members[] = {0, 1, 2, 3, 4};
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    ctx->quorum = quorum;
    ctx->fan_out = 1;
    ctx->told_at_once = 0;
    for (int i = 0; i < LONE_WORLD; i++) ctx->peers[i].host_lead = i;
    group = lone_rank_group(ctx, members, LONE_WORLD, "group", GROUP);
    shrink = ctx->protocols[WEFT__PROTOCOL_SHRINK];
    said = 0;
    occurrence = 1;
    if (lost != NOBODY) atomic_store(&ctx->peers[lost].gone, WEFT__PRESUMED_DEAD);
    assert_int_equal(weft_shrink_group(group, NULL, &left, &req), WEFT_OK);
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
}

static void begin(void)
{
    begin_by(WEFT__QUORUM_MAJORITY, NOBODY);
}

static void end(void)
{
    weft__engine_drop(ctx);
    weft_release(req);
    lone_rank_close(ctx);
}

/* JOIN of BELOW, by that rank; lost: whom it presumes dead. */
static void below_joins_by(int by, int lead, int lost)
{
    weft__shrink_message *m = weft__shrink_message_new(ctx, WEFT__SHRINK_JOINED + 1, NULL);
    assert_non_null(m);
    m->group = GROUP;
    m->occurrence = occurrence;
    m->size = LONE_WORLD;
    m->lead = lead;
    m->params = weft__own_params(ctx);
    for (int i = 0; i < LONE_WORLD; i++) weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_MEMBERS), i);
    weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_JOINED), BELOW);
    if (lost != NOBODY) weft__set_add(weft__shrink_set(ctx, m, WEFT__SHRINK_LOST), lost);
    ctx->p2p_events.control(&ctx->p2p_events, by, WEFT__MESSAGE_SHRINK_JOIN, m,
                            weft__shrink_message_bytes(m));
    weft__reserve_give(m);
}

static void below_joins(int lead, int lost)
{
    below_joins_by(BELOW, lead, lost);
}

/* The last word, of so many. */
static void joins(int words_said, int to, int lead, unsigned joined)
{
    assert_int_equal(said, words_said);
    assert_int_equal(words[said - 1].type, WEFT__MESSAGE_SHRINK_JOIN);
    assert_int_equal(words[said - 1].to, to);
    assert_int_equal(words[said - 1].lead, lead);
    assert_int_equal(words[said - 1].joined, joined);
}

static const unsigned me = 1u << LONE_ME, both = 1u << LONE_ME | 1u << BELOW;

static void test_all_below_have_joined(void **state)
{
    (void)state;
    begin();
    assert_int_equal(said, 0);
    below_joins(LEAD, NOBODY);
    joins(1, ABOVE, LEAD, both);
    below_joins(LEAD, NOBODY); /* once more: it has been named */
    assert_int_equal(said, 1);
    end();
}

static void test_one_below_does_not_join(void **state)
{
    const int64_t before_ns = weft__now_ns();
    int64_t next;
    (void)state;
    begin();
    next = shrink->due(ctx, before_ns);
    assert_int_equal(said, 0);
    assert_in_range(next, before_ns + 50 * WEFT__MS, weft__now_ns() + 50 * WEFT__MS);
    next = shrink->due(ctx, next);
    joins(1, ABOVE, LEAD, me);
    assert_in_range(next, before_ns + 5000 * WEFT__MS, weft__now_ns() + (5000 + 2 * LONE_ME) * WEFT__MS);
    assert_true(shrink->due(ctx, next) == WEFT__NEVER);
    joins(2, LEAD, LEAD, me); /* whoever is in between may keep it */
    below_joins(LEAD, NOBODY);
    joins(3, ABOVE, LEAD, 1u << BELOW); /* and nobody twice */
    end();
    begin();
    weft__peer_gone(ctx, BELOW, WEFT__DIED, true, "has died");
    joins(1, ABOVE, LEAD, me); /* nobody is waited for any more */
    end();
}

/* All that is due is said, however long it could still wait. */
static void test_this_one_leaves(void **state)
{
    (void)state;
    begin();
    assert_true(shrink->due(ctx, WEFT__NEVER) == WEFT__NEVER);
    joins(2, LEAD, LEAD, me);
    occurrence = 2; /* for which its own caller has not come */
    below_joins(LEAD, NOBODY);
    assert_int_equal(said, 2);
    assert_true(shrink->due(ctx, WEFT__NEVER) == WEFT__NEVER);
    joins(3, ABOVE, LEAD, 1u << BELOW);
    end();
}

static void test_the_one_above_is_gone(void **state)
{
    (void)state;
    begin();
    below_joins(LEAD, NOBODY);
    weft__peer_gone(ctx, ABOVE, WEFT__DIED, true, "has died");
    joins(2, LEAD, LEAD, both);
    weft__peer_gone(ctx, NEXT, WEFT__DIED, true, "has died"); /* through whom nothing went */
    assert_int_equal(said, 2);
    end();
}

/* What was said to the lead before is not said to the next one by others. */
static void test_the_lead_is_gone(void **state)
{
    (void)state;
    begin();
    below_joins(LEAD, NOBODY);
    weft__peer_gone(ctx, LEAD, WEFT__DIED, true, "has died");
    assert_int_equal(said, 1);
    below_joins(NEXT, NOBODY);
    joins(2, ABOVE, NEXT, both);
    end();
}

/* Nor does it count where this rank itself is that one, which has passed it on. */
static void test_this_rank_is_the_next_lead(void **state)
{
    (void)state;
    begin();
    below_joins(LEAD, NOBODY);
    for (int rank = LEAD; rank < LONE_ME; rank++) weft__peer_gone(ctx, rank, WEFT__DIED, true, "has died");
    said = 0;
    weft__engine_progress(ctx);
    assert_int_equal(said, 0);
    below_joins(LONE_ME, NOBODY);
    assert_int_equal(said, 1);
    assert_int_equal(words[0].type, WEFT__MESSAGE_SPREAD); /* its group */
    assert_int_equal(words[0].to, BELOW);
    end();
}

/* It is the lead, and does not reach who is said to have joined it: the two are in no group. */
static void test_who_is_unreachable_has_not_joined(void **state)
{
    (void)state;
    begin();
    below_joins_by(NEXT, LONE_ME, NOBODY);
    ctx->peers[BELOW].by_hearsay = true;
    atomic_store(&ctx->peers[BELOW].gone, WEFT__UNREACHABLE);
    for (int rank = LEAD; rank < LONE_ME; rank++) weft__peer_gone(ctx, rank, WEFT__DIED, true, "has died");
    said = 0;
    shrink->view_changed(ctx);
    assert_int_equal(said, 0);
    atomic_store(&ctx->peers[BELOW].gone, WEFT__LIVES);
    shrink->peer_returns(ctx, BELOW);
    assert_int_equal(said, 1);
    assert_int_equal(words[0].type, WEFT__MESSAGE_SPREAD); /* its group */
    end();
}

/* The lead is reached again: what went there may be lost. */
static void test_the_lead_comes_back(void **state)
{
    (void)state;
    begin();
    below_joins(LEAD, NOBODY);
    shrink->peer_returns(ctx, LEAD);
    joins(2, LEAD, LEAD, both);
    end();
}

static void test_what_is_not_held(void **state)
{
    (void)state;
    begin();
    below_joins(NEXT, NOBODY); /* to another lead than this rank's */
    joins(1, NEXT, NEXT, 1u << BELOW);
    below_joins(LEAD, ABOVE); /* of one that presumes another one dead */
    joins(2, LEAD, LEAD, 1u << BELOW);
    end();
}

/* Whom it presumes dead it says where that is to be agreed on, and else its word is the same as the others'. */
static void test_who_is_presumed_dead(void **state)
{
    (void)state;
    for (int by_any = 0; by_any < 2; by_any++) {
        begin_by(by_any ? WEFT__QUORUM_ANY : WEFT__QUORUM_MAJORITY, BELOW);
        assert_int_equal(said, 1);
        assert_int_equal(words[0].lost, by_any ? 0 : 1u << BELOW);
        end();
    }
}

static void test_who_gives_up_names_itself(void **state)
{
    (void)state;
    begin();
    weft__engine_drop(ctx);
    weft_cancel(req);
    weft__engine_take(ctx);
    weft__engine_progress(ctx);
    assert_int_equal(said, 2);
    assert_int_equal(words[1].type, WEFT__MESSAGE_SHRINK_EXPIRED);
    assert_int_equal(words[1].to, LEAD);
    said = 1;
    joins(1, LEAD, LEAD, me);
    end();
}

static void test_words_that_are_wrong(void **state)
{
    (void)state;
    begin();
    below_joins(LONE_WORLD, NOBODY);
    assert_true(atomic_load(&ctx->peers[BELOW].refused));
    atomic_store(&ctx->peers[BELOW].refused, false);
    below_joins(LEAD, BELOW); /* it presumes itself dead */
    assert_true(atomic_load(&ctx->peers[BELOW].refused));
    below_joins_by(NEXT, BELOW, NOBODY); /* the lead, by somebody else */
    assert_true(atomic_load(&ctx->peers[NEXT].refused));
    assert_int_equal(said, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_below_have_joined),
        cmocka_unit_test(test_one_below_does_not_join),
        cmocka_unit_test(test_this_one_leaves),
        cmocka_unit_test(test_the_one_above_is_gone),
        cmocka_unit_test(test_the_lead_is_gone),
        cmocka_unit_test(test_the_lead_comes_back),
        cmocka_unit_test(test_who_is_unreachable_has_not_joined),
        cmocka_unit_test(test_this_rank_is_the_next_lead),
        cmocka_unit_test(test_what_is_not_held),
        cmocka_unit_test(test_who_is_presumed_dead),
        cmocka_unit_test(test_who_gives_up_names_itself),
        cmocka_unit_test(test_words_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
