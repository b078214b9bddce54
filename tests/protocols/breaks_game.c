/* breaks_game.c - groups that break: somebody aborts one, or a member dies, before or after others have it.
 *
 * What must hold: a group that is broken at one living member is at all that have it; it is broken wherever a
 * member has died; who is named as the culprit is dead; nothing that was told of a group outlives it. */
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "leave.h"
#include "trace.h"
#include "world.h"

#include <string.h>

enum { GROUPS_MOST = 4 };

static int members[GROUPS_MOST][WIRES_RANKS_MAX], sizes[GROUPS_MOST], group_count;
static weft_group *at[GROUPS_MOST][WIRES_RANKS_MAX];
static bool had[GROUPS_MOST][WIRES_RANKS_MAX];
static bool aborted[GROUPS_MOST]; /* at a rank that lived */

static void draw_group(int g)
{
    sizes[g] = 2 + chance_below(world.ranks - 1);
    aborted[g] = false;
    for (int i = 0; i < world.ranks; i++) members[g][i] = i;
    chance_shuffle(members[g], world.ranks);
    for (int i = 0; i < world.ranks; i++) at[g][i] = NULL, had[g][i] = false;
}

static bool is_member(int g, int rank)
{
    for (int i = 0; i < sizes[g]; i++)
        if (members[g][i] == rank) return true;
    return false;
}

static void make_ready(int g, int rank)
{
    TRACE("group %d is ready at rank %d", g, rank);
    had[g][rank] = true;
    at[g][rank] = world_group(rank, world_group_id(g), members[g], sizes[g]);
}

static void act(void)
{
    int g = chance_below(group_count), rank = world_some_rank();
    if (!is_member(g, rank)) return;
    if (!had[g][rank]) {
        make_ready(g, rank);
    } else if (at[g][rank] && chance_one_in(12)) {
        TRACE("rank %d aborts group %d", rank, g);
        aborted[g] = true;
        weft_group_abort(at[g][rank], "as the game has it");
    } else if (at[g][rank] && chance_one_in(12)) {
        TRACE("rank %d lets go of group %d", rank, g);
        weft_group_free(at[g][rank]);
        at[g][rank] = NULL;
    }
}

static void run(void)
{
    for (int idle = 0; idle < 6 * group_count * world.ranks;) {
        if (chance_one_in(3)) {
            act();
            idle++;
        } else {
            idle += !world_step();
        }
    }
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (is_member(g, rank) && !had[g][rank] && world_lives(rank)) make_ready(g, rank);
    world_settle();
}

static void check(void)
{
    for (int g = 0; g < group_count; g++) {
        world_check_broken(at[g], world.ranks, "a group");
        for (int rank = 0; rank < world.ranks; rank++) {
            const weft_group *group = at[g][rank];
            if (!group || !world_lives(rank) || atomic_load(&group->state) != WEFT__BROKEN) continue;
            if (!aborted[g] && group->culprit < 0)
                trace_blame("group %d is broken at rank %d, and nobody broke it: %s", g, rank, group->why);
        }
    }
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (at[g][rank] && world_lives(rank)) weft_group_free(at[g][rank]);
    world_progress_all();
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (had[g][rank] && world_lives(rank)) world_check_early(rank, world_group_id(g));
}

void play_breaks(void)
{
    world_open(WIRES_RANKS_MAX, chance_one_in(2), weft__executors);
    group_count = 1 + chance_below(GROUPS_MOST);
    for (int g = 0; g < group_count; g++) draw_group(g);
    world_plan_deaths(3);
    run();
    check();
    world_close();
}
