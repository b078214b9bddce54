/* shrink_game.c - shrink_group: the living agree on who lives, while more of them die, and some are stopped.
 *
 * What must hold: all that got OK, those that have died since among them, have the same group, whose members are the
 * same, and who is not in it is dead; if all that live have asked, and messages arrive before deadlines pass, all get it; where somebody
 * gave up nobody has a group that others have not, unless that broke with its lead; nobody waits for ever. */
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "trace.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { SHRINKS_MOST = 3, STOPS_MOST = 3, STOPPED_MS = 250 };

static weft_group *worlds[WIRES_RANKS_MAX];
static weft_request *reqs[SHRINKS_MOST][WIRES_RANKS_MAX];
static weft_group *made[SHRINKS_MOST][WIRES_RANKS_MAX];
static int next_of[WIRES_RANKS_MAX], shrinks;
static int absent; /* a rank that never asks for the last one; -1: none */
static bool some_gave_up;

static bool call_next(int rank)
{
    /* One stop and the word of a death take less. */
    weft_call call = {.timeout_ms = 1000 + chance_below(2000)};
    int n = next_of[rank];
    if (n == shrinks || (n == shrinks - 1 && rank == absent)) return false;
    next_of[rank]++;
    TRACE("rank %d shrinks the world, time %d", rank, n + 1);
    if (weft_shrink_group(worlds[rank], &call, &made[n][rank], &reqs[n][rank]) != WEFT_OK)
        trace_blame("rank %d cannot shrink the world: %s", rank, weft_last_error());
    return true;
}

static void cancel_some(void)
{
    int rank = world_some_rank(), n = chance_below(shrinks);
    if (!reqs[n][rank] || weft_is_completed(reqs[n][rank])) return;
    TRACE("rank %d cancels time %d", rank, n + 1);
    some_gave_up = true;
    weft_cancel(reqs[n][rank]);
}

/* For less than others wait for a lead's word, as any rank may come to be the lead; more than once that may be longer than some wait
 * for others to come.  For how long in all, in ms. */
static int stop_some(int stopped_ms)
{
    some_gave_up = some_gave_up || stopped_ms;
    world_away(world_some_rank(), STOPPED_MS * WEFT__MS);
    return stopped_ms + STOPPED_MS;
}

static void run(void)
{
    bool cancels = chance_one_in(8);
    int stops = world.hasty || chance_one_in(2) ? 0 : 1 + chance_below(STOPS_MOST), stopped_ms = 0;
    for (int idle = 0; idle < 3 * world.ranks;) {
        const int rank = world_some_rank();
        if (chance_one_in(4) && !world_is_away(rank) && call_next(rank))
            idle = 0;
        else
            idle += !world_step();
        if (cancels && chance_one_in(16)) cancel_some();
        if (!stops || !chance_one_in(16)) continue;
        stops--;
        stopped_ms = stop_some(stopped_ms);
    }
    for (int ms = 0; ms < stopped_ms; ms += STOPPED_MS)
        world_settle_for(STOPPED_MS * WEFT__MS); /* whoever was stopped goes on */
    for (int rank = 0; rank < world.ranks; rank++)
        while (world_lives(rank) && call_next(rank)) world_step();
    world_settle();
}

static weft_status end_at(int n, int rank)
{
    return reqs[n][rank] && world_lives(rank) ? reqs[n][rank]->status : WEFT_PENDING;
}

static void check_end(int n, int rank, const char *what)
{
    weft_request *req = reqs[n][rank];
    if (!weft_is_completed(req))
        trace_blame("%s: rank %d waits for ever", what, rank);
    else if (req->status != WEFT_OK && !some_gave_up && !world.hasty)
        trace_blame("%s: rank %d ends in %s though all came: %s", what, rank, weft_status_text(req->status),
                    weft_request_message(req));
}

static void check_members(const weft_group *group, const weft_group *first, const char *what)
{
    if (group->id != first->id || group->size != first->size ||
        memcmp(group->world, first->world, (size_t)group->size * sizeof *group->world) != 0)
        trace_blame("%s: rank %d got group %#llx of %d, rank %d group %#llx of %d", what, first->ctx->rank,
                    (unsigned long long)first->id, first->size, group->ctx->rank,
                    (unsigned long long)group->id, group->size);
    for (int i = 0; i < world.ranks; i++)
        if (world_lives(i) && weft__group_member(group, i) < 0)
            trace_blame("%s: rank %d lives and is not in it", what, i);
}

/* All that got OK have the same one, those too that have died since: others may have what those were told. */
static int check_groups(int n, const char *what)
{
    int first = -1;
    for (int rank = 0; rank < world.ranks; rank++) {
        if (!reqs[n][rank] || reqs[n][rank]->status != WEFT_OK) continue;
        if (first < 0) first = rank;
        check_members(made[n][rank], made[n][first], what);
    }
    return first;
}

static void check_shrink(int n)
{
    char what[32];
    int ok, other = -1;
    weft_group *groups[WIRES_RANKS_MAX] = {NULL};
    snprintf(what, sizeof what, "time %d", n + 1);
    ok = check_groups(n, what);
    for (int rank = 0; rank < world.ranks; rank++) {
        if (!reqs[n][rank] || !world_lives(rank)) continue;
        check_end(n, rank, what);
        if (end_at(n, rank) == WEFT_OK)
            groups[rank] = made[n][rank];
        else
            other = rank;
        if (ok >= 0 && !world_lives(ok) && groups[rank]) ok = rank;
    }
    if (ok >= 0 && world_lives(ok) && other >= 0 && !world.hasty &&
        atomic_load(&groups[ok]->state) != WEFT__BROKEN)
        trace_blame("%s: rank %d got it, rank %d did not: %s", what, ok, other,
                    weft_request_message(reqs[n][other]));
    world_check_broken(groups, world.ranks, what);
}

void play_shrink(void)
{
    int everybody[WIRES_RANKS_MAX];
    world_open(WIRES_RANKS_MAX, false, weft__executors);
    for (int i = 0; i < world.ranks; i++) everybody[i] = i;
    for (int i = 0; i < world.ranks; i++)
        worlds[i] = world_group(i, world_group_id(0), everybody, world.ranks);
    if (chance_one_in(2)) world_draw_tree();
    memset(reqs, 0, sizeof reqs);
    memset(made, 0, sizeof made);
    memset(next_of, 0, sizeof next_of);
    shrinks = 1 + chance_below(SHRINKS_MOST);
    absent = chance_one_in(8) ? chance_below(world.ranks) : -1;
    some_gave_up = absent >= 0;
    world_plan_deaths(5);
    run();
    for (int n = 0; n < shrinks; n++) check_shrink(n);
    world_check_broken(worlds, world.ranks, "the world");
    for (int n = 0; n < shrinks; n++)
        for (int rank = 0; rank < world.ranks; rank++) weft_release(reqs[n][rank]);
    world_close();
}
