/* test_leave_together.c - a rank that leaves asks whether all do.  If they do it tells nobody who it has never talked
 * to; if not it tells all of them, and hands on the verdicts of shrink_group that it put off while it asked. */
#include "engine.h"
#include "leave.h"
#include "lone_rank.h"
#include "peer.h"
#include "protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LEAD = 0, NEXT_LEAD = 1, PARENT = 2, LATE_TALKER = 4 };

static weft_context *ctx;
static int sent[WEFT__MESSAGE_GO_TOGETHER + 1]; /* how often, by kind */
static unsigned char expired[4096];
static size_t expired_bytes;

static void note_sent(const weft__outgoing *out)
{
    int type = out->frame.tag;
    if (out->frame.kind != WEFT__FRAME_CONTROL || type < 0 || type > WEFT__MESSAGE_GO_TOGETHER) return;
    sent[type]++;
    if (type != WEFT__MESSAGE_SHRINK_EXPIRED) return;
    assert_in_range(out->frame.length, 1, sizeof expired);
    expired_bytes = out->frame.length;
    memcpy(expired, out->payload, expired_bytes);
}

static void take(int from, int type, const void *bytes, size_t length)
{
    weft__engine_take(ctx);
    ctx->p2p_events.control(&ctx->p2p_events, from, type, bytes, length);
    weft__engine_drop(ctx);
}

static void lose(int rank)
{
    weft__engine_take(ctx);
    weft__peer_gone(ctx, rank, WEFT__LEFT, true, "has left");
    weft__engine_drop(ctx);
}

static void look(void)
{
    int moved;
    (void)weft__leave_check(ctx, "", &moved);
}

/* A verdict has come: the lead says what this rank, whose call was cancelled, had told it. */
static void shrink(void)
{
    static const int all[] = {0, 1, 2, 3, 4};
    weft_group *world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1), *left = NULL;
    weft_request *req = NULL;
    assert_int_equal(weft_shrink_group(world, NULL, &left, &req), WEFT_OK);
    weft_cancel(req);
    look();
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_EXPIRED], 1);
    take(LEAD, WEFT__MESSAGE_SHRINK_FAILED, expired, expired_bytes);
    assert_true(weft_is_completed(req));
    weft_release(req);
}

/* With a verdict, and the lead that gave it gone, which the next one may not have heard. */
static int begin(void **state)
{
    (void)state;
    memset(sent, 0, sizeof sent);
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    shrink();
    atomic_store(&ctx->closing, true);
    look();
    assert_int_equal(ctx->leaving, WEFT__ASKS);
    assert_int_equal(sent[WEFT__MESSAGE_LEAVING], 1);
    lose(LEAD);
    look();
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 0);
    assert_false(ctx->said_bye);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lone_rank_close(ctx);
    return 0;
}

static void test_alone(void **state)
{
    (void)state;
    while (ctx->leaving == WEFT__ASKS) look();
    assert_int_equal(ctx->leaving, WEFT__LEAVES_ALONE);
    assert_true(ctx->said_bye);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 1);
    assert_false(weft__mpsc_empty(&ctx->notices)); /* rank 4, which it has never talked to, is told */
}

static void test_together(void **state)
{
    (void)state;
    take(PARENT, WEFT__MESSAGE_ALL_LEAVE, NULL, 0);
    look();
    assert_int_equal(ctx->leaving, WEFT__LEAVES_TOGETHER);
    assert_true(ctx->said_bye);
    lose(NEXT_LEAD);
    assert_int_equal(sent[WEFT__MESSAGE_SHRINK_FAILED], 0);
}

/* It had said goodbye to those that it knew, and answered this one after that: it has left, like all the others. */
static void test_ends_after_an_answer(void **state)
{
    static const weft__frame answer = {.kind = WEFT__FRAME_CONTROL, .tag = WEFT__MESSAGE_NONE};
    weft__sink *sink = weft__p2p_sink(ctx->p2p);
    weft__gone at_first, later;
    (void)state;
    take(PARENT, WEFT__MESSAGE_ALL_LEAVE, NULL, 0);
    weft__engine_take(ctx);
    sink->arrived(sink, LATE_TALKER, &answer, NULL);
    sink->lost(sink, LATE_TALKER, "its connection has ended");
    at_first = atomic_load(&ctx->peers[LATE_TALKER].gone);
    weft__peer_suspects_check(ctx, WEFT__NEVER - 1);
    later = atomic_load(&ctx->peers[LATE_TALKER].gone);
    weft__engine_drop(ctx);
    assert_int_equal(at_first, WEFT__LIVES);
    assert_int_equal(later, WEFT__LEFT);
}

/* Others reach it, and it may stay: it counts as gone here soon, and all are not to leave without it. */
static void leaves_without(void (*ends)(weft__sink *sink, int peer, const char *why), bool heard)
{
    static const weft__frame talk = {.kind = WEFT__FRAME_CONTROL, .tag = WEFT__MESSAGE_NONE};
    weft__sink *sink = weft__p2p_sink(ctx->p2p);
    weft__leaving at_once;
    weft__gone at_first, later;
    weft__engine_take(ctx);
    ctx->peers[LATE_TALKER].heard_by_another = heard;
    ctx->peers[LATE_TALKER].heard_by = PARENT;
    sink->arrived(sink, LATE_TALKER, &talk, NULL);
    ends(sink, LATE_TALKER, "its connection could not be made again");
    at_once = ctx->leaving;
    at_first = atomic_load(&ctx->peers[LATE_TALKER].gone);
    weft__peer_suspects_check(ctx, WEFT__NEVER - 1);
    later = atomic_load(&ctx->peers[LATE_TALKER].gone);
    weft__engine_drop(ctx);
    assert_int_equal(at_once, WEFT__LEAVES_ALONE);
    assert_int_equal(at_first, WEFT__LIVES);
    assert_int_equal(later, WEFT__LEFT); /* and nobody is presumed dead */
}

static void test_alone_without_one_that_others_reach(void **state)
{
    (void)state;
    leaves_without(weft__p2p_sink(ctx->p2p)->lost, true);
}

static void test_alone_without_one_that_lets_go(void **state)
{
    (void)state;
    leaves_without(weft__p2p_sink(ctx->p2p)->let_go, false);
}

/* The others have left, and one of another host, which lives and has not said that it leaves, is unreachable. */
static int begin_below(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4};
    (void)state;
    memset(sent, 0, sizeof sent);
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    for (int rank = 0; rank < LONE_ME; rank++) lose(rank);
    atomic_store(&ctx->peers[LATE_TALKER].gone, WEFT__UNREACHABLE);
    atomic_store(&ctx->closing, true);
    (void)lone_rank_take_queued(ctx);
    return 0;
}

static void test_not_without_an_unreachable_one(void **state)
{
    (void)state;
    look();
    assert_int_equal(ctx->leaving, WEFT__ASKS);
    while (ctx->leaving == WEFT__ASKS) look();
    assert_int_equal(ctx->leaving, WEFT__LEAVES_ALONE);
    assert_int_equal(lone_rank_take_queued(ctx), 1); /* it is told by the watchdog */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_alone, begin, end),
        cmocka_unit_test_setup_teardown(test_together, begin, end),
        cmocka_unit_test_setup_teardown(test_ends_after_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(test_alone_without_one_that_others_reach, begin, end),
        cmocka_unit_test_setup_teardown(test_alone_without_one_that_lets_go, begin, end),
        cmocka_unit_test_setup_teardown(test_not_without_an_unreachable_one, begin_below, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
