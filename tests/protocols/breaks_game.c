/* breaks_game.c - groups that break: somebody aborts one, time is up for one, or a member dies, before or after others have
 * it; and some are stopped meanwhile, or do not reach each other.
 *
 * What must hold: a group that is broken at one living member is at all that have it, and where words have the time that they
 * need that is so in time at all that are not stopped, whoever is; it is broken wherever a member has died; who is named as the
 * culprit is dead; nothing that was told of a group outlives it. */
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "leave.h"
#include "trace.h"
#include "world.h"

#include <string.h>

enum {
    GROUPS_MOST = 4,
    STOPPED_MOST = 3,
    TIME_MS = 300,
    TOLD_MS = TIME_MS + 2000, /* as all of the library's own tests have it */
    STOPPED_MS = 3 * TOLD_MS
};

static int members[GROUPS_MOST][WIRES_RANKS_MAX], sizes[GROUPS_MOST], group_count;
static weft_group *at[GROUPS_MOST][WIRES_RANKS_MAX];
static bool had[GROUPS_MOST][WIRES_RANKS_MAX];
static bool ended[GROUPS_MOST]; /* it was aborted, or time may be up for it */
static int aborts[GROUPS_MOST]; /* who did first; -1: nobody */
static int to_stop;
/* Ranks of two hosts whose watchdogs do not reach each other, and which break nothing; -1: all do. */
static int parted[2];

static void draw_group(int g)
{
    sizes[g] = 2 + chance_below(world.ranks - 1);
    ended[g] = false;
    aborts[g] = -1;
    for (int i = 0; i < world.ranks; i++) members[g][i] = i;
    chance_shuffle(members[g], world.ranks);
    for (int i = 0; i < world.ranks; i++) at[g][i] = NULL, had[g][i] = false;
}

/* A death is not told to whom its watcher does not reach: either, or. */
static void draw_parted(void)
{
    const int a = world_some_rank(), b = world_some_rank();
    parted[0] = parted[1] = -1;
    if (world.one_host || world_rank(a)->peers[a].host_lead == world_rank(a)->peers[b].host_lead ||
        !chance_one_in(4)) {
        if (chance_one_in(2)) world_plan_deaths(3);
        return;
    }
    TRACE("ranks %d and %d hear no notices of each other", a, b);
    parted[0] = a, parted[1] = b;
    wires_part(a, b);
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

static void break_it(int g, int rank)
{
    TRACE("rank %d aborts group %d", rank, g);
    if (aborts[g] < 0 && atomic_load(&at[g][rank]->state) == WEFT__READY) aborts[g] = rank;
    ended[g] = true;
    weft_group_abort(at[g][rank], "as the game has it");
}

/* Which others may begin too, or not. */
static void begin(int g, int rank)
{
    const weft_call call = {.timeout_ms = TIME_MS};
    weft_request *req;
    TRACE("rank %d begins a barrier of group %d", rank, g);
    ended[g] = true;
    if (weft_barrier(at[g][rank], &call, &req) == WEFT_OK) weft_release(req);
}

static bool may_break(int g, int rank)
{
    return at[g][rank] && rank != parted[0] && rank != parted[1];
}

static void act(void)
{
    int g = chance_below(group_count), rank = world_some_rank();
    if (world_is_away(rank)) return;
    if (to_stop && chance_one_in(8)) {
        to_stop--;
        world_away(rank, STOPPED_MS * WEFT__MS);
    } else if (!is_member(g, rank)) {
        return;
    } else if (!had[g][rank]) {
        make_ready(g, rank);
    } else if (may_break(g, rank) && chance_one_in(12)) {
        break_it(g, rank);
    } else if (at[g][rank] && !world.one_host && parted[0] < 0 && chance_one_in(24)) {
        begin(g, rank);
    } else if (at[g][rank] && chance_one_in(12)) {
        TRACE("rank %d lets go of group %d", rank, g);
        weft_group_free(at[g][rank]);
        at[g][rank] = NULL;
    }
}

/* Who dies amid telling, or is stopped, tells no more: that is heard as the death is, or when it goes on. */
static bool is_sure(int g)
{
    return aborts[g] < 0 ? !world_deaths() : world_lives(aborts[g]) && !world_is_away(aborts[g]);
}

static void check_told(void)
{
    for (int g = 0; g < group_count && !world.hasty; g++)
        if (is_sure(g)) world_check_told(at[g], world.ranks, "a group");
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
    world_settle_for(TOLD_MS * WEFT__MS);
    check_told();
    world_settle();
    world_sleep(STOPPED_MS * WEFT__MS); /* and all go on */
    world_settle();
}

static void check(void)
{
    for (int g = 0; g < group_count; g++) {
        world_check_broken(at[g], world.ranks, "a group");
        for (int rank = 0; rank < world.ranks; rank++) {
            const weft_group *group = at[g][rank];
            if (!group || !world_lives(rank) || atomic_load(&group->state) != WEFT__BROKEN) continue;
            if (!ended[g] && group->culprit < 0)
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
    world_draw_tree();
    draw_parted();
    to_stop = chance_one_in(3) ? 1 + chance_below(STOPPED_MOST) : 0;
    run();
    check();
    world_close();
}
