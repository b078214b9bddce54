/* leave_game.c - ranks leave, each when it likes, most of which have never talked to each other.
 *
 * What must hold: each of them is let go; and, where words have the time that they need, nobody who stays takes one
 * that has left for dead, though he may try to connect to it. */
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "leave.h"
#include "trace.h"
#include "world.h"

#include <stdatomic.h>

static enum { STAYS, IS_TO_LEAVE, LEAVES, HAS_LEFT } where[WIRES_RANKS_MAX];

static void look(int rank)
{
    weft_context *ctx = world_rank(rank);
    int moved;
    if (where[rank] == IS_TO_LEAVE) TRACE("rank %d begins to leave", rank);
    where[rank] = LEAVES;
    atomic_store(&ctx->closing, true);
    if (!weft__leave_look(ctx, "", &moved)) return;
    where[rank] = HAS_LEFT;
    wires_leave(rank);
}

static bool some_leave(void)
{
    bool some = false;
    for (int i = 0; i < world.ranks; i++) some = some || where[i] == IS_TO_LEAVE || where[i] == LEAVES;
    return some;
}

static void look_at_all(void)
{
    for (int i = 0; i < world.ranks; i++)
        if (where[i] == IS_TO_LEAVE || where[i] == LEAVES) look(i);
}

static void run(void)
{
    int often = 1 + chance_below(20), idle = 0;
    while (some_leave() && idle < 4) {
        int rank = chance_below(world.ranks);
        if (where[rank] == LEAVES || (where[rank] == IS_TO_LEAVE && chance_one_in(often))) look(rank);
        if (world_step() || world_pass_time()) {
            idle = 0;
        } else { /* all wait for each other, and see so */
            idle++;
            look_at_all();
        }
    }
    world_settle();
}

static void check(void)
{
    for (int rank = 0; rank < world.ranks; rank++) {
        if (where[rank] == LEAVES || where[rank] == IS_TO_LEAVE) trace_blame("rank %d is not let go", rank);
        if (where[rank] == HAS_LEFT || world.hasty)
            continue; /* a word that is on its way for long comes too late */
        for (int i = 0; i < world.ranks; i++)
            if (atomic_load(&world_rank(rank)->peers[i].gone) && !world_rank(rank)->peers[i].left)
                trace_blame("rank %d, which has left, is dead to rank %d: it %s", i, rank,
                            world_rank(rank)->peers[i].why);
    }
}

void play_leave(void)
{
    int often;
    world_open(WIRES_RANKS_MAX, false, weft__executors);
    often = 2 + chance_below(6);
    for (int i = 0; i < world.ranks; i++) where[i] = chance_one_in(often) ? STAYS : IS_TO_LEAVE;
    where[chance_below(world.ranks)] = STAYS;
    run();
    check();
    world_close();
}
