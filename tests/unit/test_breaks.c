/* test_breaks.c - what another rank tells of a broken group says what became of its culprit too: a death is
 * believed at once, a leaving only if the word of who has left does not come.  A death breaks the newest group first;
 * messages go on in a broken group.  What is presumed stays so, whoever repeats it, until somebody is certain. */
#include "engine.h"
#include "group_break.h"
#include "lone_rank.h"
#include "notice.h"
#include "peer.h"
#include "protocols.h"
#include "watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* FAR has never talked to this rank, which shares memory with LONE_NEAR. */
enum { FAR = 0, TELLER = 4 };

static weft_context *ctx;
static weft_group *world;

/* TELLER says that the world is broken, since that rank has left or died. */
static void tell(int culprit, bool left)
{
    static const int all[] = {0, 1, 2, 3, 4};
    weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                           .subject = WEFT_ERR_PEER,
                           .group = 1,
                           .number = 7,
                           .culprit = culprit,
                           .gone = left ? WEFT__LEFT : WEFT__DIED};
    snprintf(notice.text, sizeof notice.text, "barrier #7: rank %d has gone", culprit);
    snprintf(notice.fate, sizeof notice.fate, "%s", left ? "has left" : "has died (killed by SIGKILL)");
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    weft__watchdog_take(ctx, TELLER, &notice, sizeof notice);
    assert_int_equal(weft_group_status(world), WEFT_ERR_PEER);
}

static bool is_gone(int rank)
{
    return atomic_load(&ctx->peers[rank].gone);
}

static void test_a_death_is_believed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        int culprit = i ? LONE_NEAR : FAR, dead[LONE_WORLD] = {-1};
        tell(culprit, false);
        assert_true(is_gone(culprit));
        assert_int_equal(weft_group_dead(world, dead, LONE_WORLD), 1);
        assert_int_equal(dead[0], culprit);
        lone_rank_close(ctx);
    }
}

/* Who shares memory with it waits for an answer to its goodbye, which who is taken for gone does not get. */
static void test_a_leaving_that_will_be_told(void **state)
{
    (void)state;
    tell(LONE_NEAR, true);
    assert_false(is_gone(LONE_NEAR));
    lone_rank_close(ctx);
}

/* Its own word is on the way, or it is lost: a second is enough to tell. */
static void test_a_leaving_is_hearsay(void **state)
{
    int dead[LONE_WORLD];
    int64_t told_ns;
    (void)state;
    tell(FAR, true);
    told_ns = ctx->peers[FAR].suspect_ns;
    assert_false(is_gone(FAR));
    assert_in_range(told_ns - weft__now_ns(), 1, 1000 * WEFT__MS);
    weft__engine_take(ctx);
    assert_int_equal(weft__peer_suspects_check(ctx, told_ns - 1), told_ns);
    assert_false(is_gone(FAR));
    weft__peer_suspects_check(ctx, told_ns);
    weft__engine_drop(ctx);
    assert_true(is_gone(FAR));
    assert_int_equal(weft_group_dead(world, dead, LONE_WORLD), 0);
    lone_rank_close(ctx);
}

/* It names nobody whom it could be passed on about. */
static void test_a_break_by_nobody_who_is_unreachable(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4};
    const weft__notice notice = {.kind = WEFT__NOTICE_BROKEN,
                                 .subject = WEFT_ERR_PEER,
                                 .group = 1,
                                 .number = 7,
                                 .culprit = -1,
                                 .gone = WEFT__UNREACHABLE,
                                 .knows = 1};
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    weft__watchdog_take(ctx, TELLER, &notice, sizeof notice);
    assert_int_equal(weft_group_status(world), WEFT_OK);
    lone_rank_close(ctx);
}

/* Who reaches a rank hears its goodbye itself, behind all that it has sent. */
static void test_a_leaving_that_is_passed_on(void **state)
{
    const weft__notice notice = {
        .kind = WEFT__NOTICE_GONE, .subject = FAR, .number = WEFT__LEFT, .knows = 1, .text = "has left"};
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    weft__watchdog_take(ctx, TELLER, &notice, sizeof notice);
    assert_int_equal(ctx->peers[FAR].suspect_ns, 0);
    weft__engine_take(ctx);
    assert_true(weft__peer_unreachable(ctx, FAR, false, "is unreachable"));
    weft__engine_drop(ctx);
    weft__watchdog_take(ctx, TELLER, &notice, sizeof notice);
    assert_int_not_equal(ctx->peers[FAR].suspect_ns, 0);
    lone_rank_close(ctx);
}

/* ---- how a death is known ---- */

static weft__gone known_of(int rank)
{
    return (weft__gone)atomic_load(&ctx->peers[rank].gone);
}

static void tell_gone(int rank, weft__gone how)
{
    weft__notice notice = {.kind = WEFT__NOTICE_GONE,
                           .subject = rank,
                           .number = how,
                           .text = "is lost: it is silent"};
    weft__watchdog_take(ctx, TELLER, &notice, sizeof notice);
}

static void test_what_is_presumed_stays_so(void **state)
{
    static const weft__gone told[][2] = {{WEFT__PRESUMED_DEAD, WEFT__PRESUMED_DEAD},
                                         {WEFT__LEFT, WEFT__PRESUMED_DEAD}, /* its own word alone says that */
                                         {WEFT__PRESUMED_DEAD, WEFT__PRESUMED_DEAD},
                                         {WEFT__DIED, WEFT__DIED},
                                         {WEFT__PRESUMED_DEAD, WEFT__DIED}};
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    ctx->quorum = WEFT__QUORUM_ANY; /* then another's word is believed at once: test_presumed */
    for (size_t i = 0; i < WEFT__LENGTH(told); i++) {
        tell_gone(FAR, told[i][0]);
        assert_int_equal(known_of(FAR), told[i][1]);
        assert_string_equal(ctx->peers[FAR].why, "is lost: it is silent");
    }
    lone_rank_close(ctx);
}

/* And it is told on as that with a group that it breaks. */
static void test_an_end_of_a_connection_proves_nothing(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4};
    weft__notice notice;
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
    weft__engine_take(ctx);
    ctx->p2p_events.lost(&ctx->p2p_events, FAR, "the connection was reset");
    assert_int_equal(known_of(FAR), WEFT__LIVES); /* its goodbye may be on its way */
    weft__peer_suspects_check(ctx, ctx->peers[FAR].suspect_ns);
    assert_int_equal(known_of(FAR), WEFT__PRESUMED_DEAD);
    notice = weft__break_notice(world);
    assert_int_equal(notice.culprit, FAR);
    assert_int_equal(notice.gone, WEFT__PRESUMED_DEAD);
    weft__peer_gone(ctx, FAR, WEFT__DIED, true,
                    "has died (killed by SIGKILL)"); /* whoever shares a host with it */
    assert_int_equal(weft__break_notice(world).gone, WEFT__DIED);
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
}

/* A process that others presume dead goes on being watched by its host, which tells those others once it is sure. */
static void test_a_presumed_death_may_become_certain(void **state)
{
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    weft__engine_take(ctx);
    weft__peer_gone(ctx, LONE_NEAR, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    assert_int_equal(known_of(LONE_NEAR), WEFT__PRESUMED_DEAD);
    lone_rank_take_queued(ctx);
    weft__peer_gone(ctx, LONE_NEAR, WEFT__DIED, false, "has died (killed by SIGKILL)");
    assert_int_equal(known_of(LONE_NEAR), WEFT__DIED);
    assert_int_equal(lone_rank_take_queued(ctx),
                     LONE_WORLD - 2 + 1); /* and that nothing goes to it any more */
    weft__peer_gone(ctx, LONE_NEAR, WEFT__DIED, false, "has died (killed by SIGKILL)");
    assert_int_equal(lone_rank_take_queued(ctx), 0);
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
}

enum { PROTOCOLS = 32, GROUPS = 4 };

static const weft_group *broken[GROUPS];
static int broken_count;

static void note_broken(weft_group *group)
{
    assert_in_range(broken_count, 0, GROUPS - 1);
    broken[broken_count++] = group;
}

/* One more protocol, which hears of broken groups before all others. */
static void listen_for_breaks(void)
{
    static const weft__protocol listener = {.name = "listener", .group_broken = note_broken};
    static const weft__protocol *all[PROTOCOLS] = {&listener};
    for (int i = 0;; i++) {
        assert_in_range(i, 0, PROTOCOLS - 2);
        if (!(all[i + 1] = weft__protocols[i])) break;
    }
    ctx->protocols = all;
    broken_count = 0;
}

/* Its end is heard of. */
static void by_the_end_of_a_rank(void)
{
    weft__peer_gone(ctx, FAR, WEFT__DIED, true, "has died (killed by SIGKILL)");
}

/* An operation of the oldest group meets the dead first, while the rest of that end is still to be done. */
static void by_an_operation(void)
{
    atomic_store(&ctx->peers[FAR].gone, WEFT__DIED);
    weft__group_break(world, &(weft__verdict){WEFT_ERR_PEER, 7, FAR, "barrier #7: rank 0 has died"}, true);
}

/* So whoever sees the world broken by a death finds no other group with the dead in it whole. */
static void test_a_death_breaks_the_newest_first(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4}, with_dead[] = {FAR, LONE_ME}, without[] = {LONE_ME, TELLER};
    static void (*const ways[])(void) = {by_the_end_of_a_rank, by_an_operation};
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(ways); i++) {
        const weft_group *newer[3];
        ctx = lone_rank_open((lone_wires){NULL, NULL});
        world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
        newer[0] = lone_rank_group(ctx, with_dead, 2, "second", 2);
        newer[1] = lone_rank_group(ctx, without, 2, "third", 3);
        newer[2] = lone_rank_group(ctx, with_dead, 2, "fourth", 4);
        listen_for_breaks();
        weft__engine_take(ctx);
        ways[i]();
        weft__engine_drop(ctx);
        assert_int_equal(broken_count, 3);
        assert_ptr_equal(broken[0], newer[2]);
        assert_ptr_equal(broken[1], newer[0]);
        assert_ptr_equal(broken[2], world);
        assert_int_equal(weft_group_status(newer[1]), WEFT_OK);
        lone_rank_close(ctx);
    }
}

/* A collective that has begun ends with its group, a message only if the group is aborted. */
static void test_messages_outlive_a_break(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4};
    static const weft_status causes[] = {WEFT_ERR_TIMEOUT, WEFT_ERR_MISMATCH, WEFT_ERR_CANCELLED};
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(causes); i++) {
        bool aborted = causes[i] == WEFT_ERR_CANCELLED;
        int32_t in, mine = 1, sum;
        weft_request *receive, *collective;
        ctx = lone_rank_open((lone_wires){NULL, NULL});
        world = ctx->world = lone_rank_group(ctx, all, LONE_WORLD, "world", 1);
        assert_int_equal(weft_irecv(world, &in, 1, WEFT_INT32, TELLER, 0, NULL, &receive), WEFT_OK);
        assert_int_equal(weft_all_reduce(world, &mine, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &collective),
                         WEFT_OK);
        weft__engine_take(ctx);
        weft__group_break(world, &(weft__verdict){causes[i], aborted ? 0 : 1, -1, "it is over"}, false);
        weft__engine_drop(ctx);
        assert_int_equal(weft_test(collective), causes[i]);
        assert_int_equal(weft_test(receive), aborted ? WEFT_ERR_CANCELLED : WEFT_PENDING);
        weft_release(collective);
        weft_release(receive);
        lone_rank_close(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_death_is_believed),
        cmocka_unit_test(test_a_leaving_that_will_be_told),
        cmocka_unit_test(test_a_leaving_is_hearsay),
        cmocka_unit_test(test_a_break_by_nobody_who_is_unreachable),
        cmocka_unit_test(test_a_leaving_that_is_passed_on),
        cmocka_unit_test(test_what_is_presumed_stays_so),
        cmocka_unit_test(test_an_end_of_a_connection_proves_nothing),
        cmocka_unit_test(test_a_presumed_death_may_become_certain),
        cmocka_unit_test(test_a_death_breaks_the_newest_first),
        cmocka_unit_test(test_messages_outlive_a_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
