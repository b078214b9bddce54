/* test_group_create.c - what a member says of an attempt to make a group whose lead it does not reach
 * (runtime/fault/heartbeats.md): the lead hears of it when the two reach each other again. */
#include "engine.h"
#include "lone_rank.h"
#include "p2p_box.h"
#include "peer.h"
#include "protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LEAD = 0 };

static weft_context *ctx;
static int sent[WEFT__MESSAGE_CREATE_EXPIRED + 1]; /* by type */

static void note_sent(const weft__outgoing *out)
{
    int type = out->frame.tag;
    if (out->frame.kind == WEFT__FRAME_CONTROL && type > 0 && type <= WEFT__MESSAGE_CREATE_EXPIRED)
        sent[type]++;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_failure_is_owed_and_told_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
