/* slots_game.c - where members' slots are, told at the first collective of each: all go by rounds, or all by
 * messages, or the group breaks.
 *
 * The collectives here are over as soon as it is known which way they go, so only that is tried.  What must
 * hold: all members take one way, and who goes by rounds finds every member's slots where that has it; nobody
 * waits for ever, or ends without a reason; nothing that was told of a group outlives it. */
#include "chance.h"
#include "executor.h"
#include "executors.h"
#include "games.h"
#include "slot_exchange.h"
#include "slots.h"
#include "slots_memory.h"
#include "trace.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { GROUPS_MOST = 5, CALLS_MOST = 3 };

typedef struct shared_group {
    int ranks[WIRES_RANKS_MAX], size, calls;
    weft_group *at[WIRES_RANKS_MAX]; /* by rank; NULL: not yet, or let go */
    bool had[WIRES_RANKS_MAX], let_go[WIRES_RANKS_MAX];
    weft_request *req[CALLS_MOST][WIRES_RANKS_MAX];
    int asked[WIRES_RANKS_MAX];
    weft__shm_coll_state
        way[WIRES_RANKS_MAX]; /* that its collectives took; EXCHANGING: none has got so far */
    int absent;               /* a member that never calls; -1: none */
} shared_group;

static shared_group groups[GROUPS_MOST];
static int group_count;
static bool some_are_absent;

static shared_group *group_of(const weft_group *group)
{
    return &groups[group->id - world_group_id(0)];
}

static void check_slots(const weft_group *group)
{
    for (int i = 0; i < group->size; i++) {
        const weft_group *there = group_of(group)->at[group->world[i]];
        if (!there || !world_lives(group->world[i])) continue;
        if (group->shm_coll.slots[i] != weft__slots_at(group->ctx->segment, there->shm_coll.own_slots))
            trace_blame("group %d: rank %d looks for rank %d's row where it is not",
                        (int)(group->id - world_group_id(0)), group->ctx->rank, group->world[i]);
    }
}

/* Stands in for rounds and messages both. */
static void go_either_way(weft_request *req)
{
    weft_group *group = req->group;
    shared_group *g = group_of(group);
    int rank = group->ctx->rank;
    weft__shm_coll_state way = group->shm_coll.state;
    if (way == WEFT__SHM_COLL_UNMET || way == WEFT__SHM_COLL_EXCHANGING) {
        weft__slot_exchange_hold(req);
        return;
    }
    TRACE("rank %d goes by %s in group %d", rank, way == WEFT__SHM_COLL_OPEN ? "rounds" : "messages",
          (int)(g - groups));
    if (g->way[rank] != WEFT__SHM_COLL_EXCHANGING && g->way[rank] != way)
        trace_blame("group %d: rank %d has changed its way", (int)(g - groups), rank);
    g->way[rank] = way;
    if (way == WEFT__SHM_COLL_OPEN) check_slots(group);
    weft__request_settle(req, WEFT_OK, NULL);
}

static void stop_held(weft_request *req)
{
    weft__list_remove(&req->u.rounds.shm_coll);
}

static const weft__executor either_way = {.name = "either way", .start = go_either_way, .stop = stop_held};

static void draw_group(shared_group *g)
{
    *g = (shared_group){.absent = -1, .calls = 1 + chance_below(CALLS_MOST)};
    g->size = 2 + chance_below(world.ranks - 1);
    for (int i = 0; i < world.ranks; i++) g->ranks[i] = i;
    chance_shuffle(g->ranks, world.ranks);
    for (int i = 0; i < world.ranks; i++) g->way[i] = WEFT__SHM_COLL_EXCHANGING;
    if (!chance_one_in(12)) return;
    g->absent = g->ranks[chance_below(g->size)];
    some_are_absent = true;
}

static void call(shared_group *g, int rank)
{
    weft_call with = {.timeout_ms = 500 + chance_below(2000)};
    weft_request **req = &g->req[g->asked[rank]++][rank];
    weft_status status;
    TRACE("rank %d calls in group %d", rank, (int)(g - groups));
    status = weft_barrier(g->at[rank], &with, req);
    if (status != WEFT_OK && status != WEFT_ERR_BROKEN)
        trace_blame("rank %d cannot call: %s", rank, weft_last_error());
}

static void act(void)
{
    int number = chance_below(group_count), rank = world_some_rank();
    shared_group *g = &groups[number];
    int member = -1;
    for (int i = 0; i < g->size; i++)
        if (g->ranks[i] == rank) member = i;
    if (member < 0 || g->let_go[rank]) return;
    if (!g->at[rank]) {
        TRACE("group %d is ready at rank %d", number, rank);
        g->at[rank] = world_group(rank, world_group_id(number), g->ranks, g->size);
        g->had[rank] = true;
    } else if (g->asked[rank] < g->calls && rank != g->absent) {
        call(g, rank);
    }
}

/* All that it has asked for is over here. */
static void let_go_of(shared_group *g, int rank)
{
    if (!g->at[rank] || g->asked[rank] < g->calls) return;
    for (int n = 0; n < g->asked[rank]; n++)
        if (g->req[n][rank] && !weft_is_completed(g->req[n][rank])) return;
    for (int n = 0; n < g->asked[rank]; n++) {
        if (!g->req[n][rank]) continue;
        world_check_culprit(g->req[n][rank], "a collective");
        weft_release(g->req[n][rank]);
        g->req[n][rank] = NULL;
    }
    TRACE("rank %d lets go of group %d", rank, (int)(g - groups));
    weft_group_free(g->at[rank]);
    g->at[rank] = NULL;
    g->let_go[rank] = true;
}

static void run(void)
{
    for (int idle = 0; idle < 4 * group_count * world.ranks;) {
        if (chance_one_in(3)) {
            act();
            idle++;
        } else {
            idle += !world_step();
        }
        if (chance_one_in(8)) let_go_of(&groups[chance_below(group_count)], world_some_rank());
    }
    world_settle();
}

static void check_end(shared_group *g, int rank, int n)
{
    weft_request *req = g->req[n][rank];
    char what[32];
    snprintf(what, sizeof what, "group %d", (int)(g - groups));
    if (!req) return;
    if (!weft_is_completed(req)) {
        trace_blame("%s: rank %d waits for ever", what, rank);
        return;
    }
    world_check_culprit(req, what);
    if (req->status == WEFT_OK || world_deaths() || world.hasty || some_are_absent) return;
    for (int i = 0; i < g->size; i++)
        if (!g->asked[g->ranks[i]]) return;
    trace_blame("%s: rank %d ends in %s though all came: %s", what, rank, weft_status_text(req->status),
                weft_request_message(req));
}

static void check_ways(const shared_group *g)
{
    weft__shm_coll_state way = WEFT__SHM_COLL_EXCHANGING;
    for (int i = 0; i < g->size; i++) {
        weft__shm_coll_state own = g->way[g->ranks[i]];
        if (own == WEFT__SHM_COLL_EXCHANGING) continue;
        if (way != WEFT__SHM_COLL_EXCHANGING && own != way)
            trace_blame("group %d: rank %d goes another way than others", (int)(g - groups), g->ranks[i]);
        way = own;
    }
    if (way == WEFT__SHM_COLL_NONE && !slots_memory_scarce() && group_count <= GROUPS_MOST)
        trace_blame("group %d: messages, though there are rows", (int)(g - groups));
}

static void check(void)
{
    for (int i = 0; i < group_count; i++) {
        shared_group *g = &groups[i];
        for (int rank = 0; rank < world.ranks; rank++) {
            if (!world_lives(rank)) continue;
            for (int n = 0; n < g->asked[rank]; n++) check_end(g, rank, n);
        }
        check_ways(g);
        world_check_broken(g->at, world.ranks, "a group");
        for (int rank = 0; rank < world.ranks; rank++) {
            if (world_lives(rank)) let_go_of(g, rank);
        }
    }
    world_progress_all();
    for (int i = 0; i < group_count; i++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (world_lives(rank) && groups[i].let_go[rank]) world_check_early(rank, world_group_id(i));
}

void play_slots(void)
{
    static const weft__executor *executors[WEFT__EXECUTOR_KINDS];
    memcpy((void *)executors, (const void *)weft__executors, sizeof executors);
    executors[WEFT__EXECUTOR_COLLECTIVES] = &either_way;
    some_are_absent = false;
    world_open(12, true, executors);
    group_count = 1 + chance_below(GROUPS_MOST);
    for (int i = 0; i < group_count; i++) draw_group(&groups[i]);
    if (chance_one_in(2)) world_plan_deaths(2);
    run();
    check();
    for (int i = 0; i < group_count; i++)
        for (int n = 0; n < CALLS_MOST; n++)
            for (int rank = 0; rank < world.ranks; rank++) weft_release(groups[i].req[n][rank]);
    world_close();
}
