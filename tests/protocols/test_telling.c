/* test_telling.c - what a game of chance comes to too rarely: of what is told along a tree of hosts (runtime/fault/deaths.h), and before
 * goodbyes (runtime/fault/breaks.c). */
#include "breaks.h"
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "group_break.h"
#include "peer.h"
#include "protocol.h"
#include "telling.h"
#include "trace.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Ranks on those hosts, in a tree in which each host has one below it. */
static void begin(const int *host_of, int ranks)
{
    trace_begin("telling", 1);
    chance_seed(1);
    world_open_all(ranks, weft__executors);
    for (int i = 0; i < ranks; i++) {
        weft_context *ctx = world_rank(i);
        ctx->fan_out = ctx->told_at_once = 1;
        for (int k = 0; k < ranks; k++) {
            int first = 0;
            while (host_of[first] != host_of[k]) first++;
            ctx->peers[k].host_lead = ctx->peers[k].first_on_host = first;
        }
    }
}

static void end(void)
{
    assert_false(trace_blamed());
    world_close();
}

static void check_known(int rank, int gone, weft__gone how)
{
    int known = atomic_load(&world_rank(rank)->peers[gone].gone);
    if (known != (int)how) fail_msg("to rank %d rank %d is %d, expected %d", rank, gone, known, (int)how);
}

/* Where ranks do not agree about that, it is told as a death is; but its host's ranks see nothing of it by themselves. */
static void test_presumed_beside_others(void **state)
{
    static const int host_of[] = {0, 0, 0, 1, 1, 1, 2, 2, 2};
    enum { RANKS = sizeof host_of / sizeof *host_of, SEES = 0, GONE = 4 };
    (void)state;
    begin(host_of, RANKS);
    for (int i = 0; i < RANKS; i++) /* who shares memory with it would see it end */
        for (int k = 0; k < RANKS; k++) world_rank(i)->peers[k].local = host_of[i] == host_of[k] ? k : -1;
    world_away(GONE, 10000 * WEFT__MS); /* it lives, and does not see that it is let go of */
    weft__engine_take(world_rank(SEES));
    weft__peer_gone(world_rank(SEES), GONE, WEFT__PRESUMED_DEAD, false, "is lost: the test has it so");
    weft__engine_drop(world_rank(SEES));
    world_settle_for(2000 * WEFT__MS);
    for (int i = 0; i < RANKS; i++)
        if (i != GONE) check_known(i, GONE, WEFT__PRESUMED_DEAD);
    end();
}

/* It waits for a host that says nothing, and leaves: those who told it see to that host, and to all below.  Only who is beside
 * the dead one in the ring sees it end. */
static void test_one_leaves_that_waits(void **state)
{
    static const int host_of[] = {0, 0, 0, 1, 2, 2, 3};
    enum { RANKS = sizeof host_of / sizeof *host_of, GONE = 1, LEAVES = 3, STOPPED = 4 };
    (void)state;
    begin(host_of, RANKS);
    world_settle_for(10 * WEFT__MS);
    world_away(STOPPED, 10000 * WEFT__MS);
    wires_kill(GONE);
    world_settle_for(20 * WEFT__MS); /* both have told it, and nobody has gone past who says nothing */
    weft__engine_take(world_rank(LEAVES));
    (void)weft__telling_check(world_rank(LEAVES), WEFT__NEVER);
    weft__engine_drop(world_rank(LEAVES));
    world_settle_for(5 * WEFT__MS); /* that it goes is heard */
    world_away(LEAVES, 10000 * WEFT__MS);
    world_settle_for(2000 * WEFT__MS);
    for (int i = 0; i < RANKS; i++)
        if (i != GONE && i != STOPPED) check_known(i, GONE, WEFT__PRESUMED_DEAD);
    end();
}

/* Whom the one above tells that watches over the dead answers at once, and has words for its own host that end with it. */
static void test_one_dies_that_has_answered(void **state)
{
    static const int host_of[] = {0, 0, 0, 1, 1};
    enum { RANKS = sizeof host_of / sizeof *host_of, DIES = 0, GONE = 4 };
    (void)state;
    begin(host_of, RANKS);
    world_settle_for(10 * WEFT__MS);
    for (int i = 0; i < RANKS; i++)
        if (i != DIES && host_of[i] == host_of[DIES]) wires_part(DIES, i); /* they never leave its process */
    wires_kill(GONE);
    world_settle_for(200 * WEFT__MS);
    check_known(3, GONE, WEFT__PRESUMED_DEAD);
    check_known(1, GONE, WEFT__LIVES);
    wires_kill(DIES);
    world_settle_for(200 * WEFT__MS);
    for (int i = 1; i < RANKS; i++)
        if (i != GONE) check_known(i, GONE, WEFT__PRESUMED_DEAD);
    end();
}

/* ---- before a goodbye ---- */

enum { LEAVES = 0, HEARS = 2, APART = 4 }; /* neither watches over the other */
static weft_group *left_group, *heard_group;

/* No word of a watchdog arrives between the two any more: a goodbye over the data plane is in front of all of them. */
static void begin_two(void)
{
    static const int host_of[APART] = {0, 1, 2, 3}, members[] = {LEAVES, HEARS};
    begin(host_of, APART);
    wires_part(LEAVES, HEARS);
    left_group = world_group(LEAVES, world_group_id(0), members, 2);
    heard_group = world_group(HEARS, world_group_id(0), members, 2);
}

static void talk(int from, int to)
{
    weft_context *ctx = world_rank(from);
    weft__engine_take(ctx);
    weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_NONE, NULL, 0);
    weft__engine_drop(ctx);
}

static void break_and_leave(void)
{
    weft_context *ctx = world_rank(LEAVES);
    weft__engine_take(ctx);
    weft__group_break(left_group, &(weft__verdict){WEFT_ERR_MISMATCH, 1, -1, "as the test has it"}, true);
    weft__engine_drop(ctx);
    weft_group_free(left_group);
    weft__engine_take(ctx);
    weft__breaks_repeat(ctx);
    weft__p2p_bye(ctx->p2p, WEFT_OK, "", true);
    ctx->said_bye = true;
    weft__engine_drop(ctx);
}

static void end_two(void)
{
    world_settle_for(10 * WEFT__MS);
    check_known(HEARS, LEAVES, WEFT__LEFT);
    assert_int_equal(atomic_load(&heard_group->state), WEFT__BROKEN);
    assert_string_equal(heard_group->why, "as the test has it");
    weft_group_free(heard_group);
    end();
}

/* Its answers are awaited still, and so it is held while the goodbyes begin. */
static void test_freed_and_left(void **state)
{
    (void)state;
    begin_two();
    talk(LEAVES, HEARS);
    world_settle_for(10 * WEFT__MS);
    break_and_leave();
    end_two();
}

static void test_met_behind_the_goodbyes(void **state)
{
    (void)state;
    begin_two();
    break_and_leave();
    world_settle_for(10 * WEFT__MS);
    check_known(HEARS, LEAVES, WEFT__LIVES);
    talk(HEARS, LEAVES);
    end_two();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_presumed_beside_others),
                                       cmocka_unit_test(test_one_leaves_that_waits),
                                       cmocka_unit_test(test_one_dies_that_has_answered),
                                       cmocka_unit_test(test_freed_and_left),
                                       cmocka_unit_test(test_met_behind_the_goodbyes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
