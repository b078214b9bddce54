/* parted_game.c - ranks that live lose each other, pair by pair, and shrink their group each time that it breaks
 * (WEFT_QUORUM=majority).
 *
 * What must hold: all who get a group of one attempt have the same one; it has nobody whom one of them had lost before it
 * asked, so that a rank has at most one group more than there are such pairs; when all is over the groups of those who have one are
 * one group, whose members all have it and have not lost each other.  A rank outside of the group may be stopped all the
 * while: where those that a rank reaches are most of the job it goes on all the same. */
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "games.h"
#include "membership.h"
#include "peer.h"
#include "trace.h"
#include "world.h"

#include <string.h>

/* After that nobody waits for a time before the next pair is lost: the clock has an end (world.h). */
enum { LOSING_MS = 8000, FOR_EVER_MS = 1000000 };
enum { RANKS_MOST = 9, FAILURES_MOST = 40, MADE_MOST = RANKS_MOST * RANKS_MOST };

typedef struct pair {
    int a, b;
} pair;

typedef struct player {
    weft_group *group, *next; /* that it has; of the shrink under way */
    weft_request *req;        /* that one; NULL: none is */
    int made, failures;
    bool lost[RANKS_MOST]; /* when that shrink was asked for */
    bool is_over;          /* told that it cannot go on */
} player;

/* An attempt that somebody has a group of. */
typedef struct outcome {
    uint64_t parent, id;
    uint64_t times; /* the parent has been shrunk */
    int size, world[RANKS_MOST];
} outcome;

static pair pairs[RANKS_MOST * RANKS_MOST];
static int pair_count, lost_count;
static bool notices_lost; /* of a pair too: nothing comes through */
static player players[RANKS_MOST];
static int stopped; /* a rank outside of the group; -1: none is */
static outcome outcomes[MADE_MOST];
static int outcome_count;

static void draw_pairs(void)
{
    int among = 2 + chance_below(4);
    pair_count = lost_count = 0;
    for (int a = 0; a < world.ranks; a++)
        for (int b = 0; b < a; b++)
            if (a != stopped && chance_one_in(among))
                pairs[pair_count++] = chance_one_in(2) ? (pair){a, b} : (pair){b, a};
    for (int i = pair_count - 1; i > 0; i--) {
        int k = chance_below(i + 1);
        pair swap = pairs[i];
        pairs[i] = pairs[k];
        pairs[k] = swap;
    }
}

/* The first of the two finds it; the other one as its connection ends, or as it sends. */
static bool lose_next(void)
{
    weft_context *ctx;
    pair p;
    if (lost_count == pair_count) return false;
    p = pairs[lost_count++];
    TRACE("rank %d loses rank %d", p.a, p.b);
    if (notices_lost) wires_part(p.a, p.b);
    ctx = world_rank(p.a);
    weft__engine_take(ctx);
    weft__peer_gone(ctx, p.b, WEFT__PRESUMED_DEAD, false, "is lost");
    weft__engine_drop(ctx);
    return true;
}

/* ---- groups ---- */

static void note_outcome(int rank, uint64_t parent, uint64_t times, const weft_group *group)
{
    outcome *o = NULL;
    for (int i = 0; i < outcome_count && !o; i++)
        if (outcomes[i].parent == parent && outcomes[i].times == times) o = &outcomes[i];
    if (!o && outcome_count < MADE_MOST) {
        o = &outcomes[outcome_count++];
        *o = (outcome){.parent = parent, .id = group->id, .times = times, .size = group->size};
        memcpy(o->world, group->world, (size_t)group->size * sizeof *o->world);
    } else if (o && (o->id != group->id || o->size != group->size ||
                     memcmp(o->world, group->world, (size_t)group->size * sizeof *o->world) != 0)) {
        trace_blame("rank %d has another group than others of one attempt", rank);
    }
}

static bool has_lost(int rank, int other)
{
    return rank != other && atomic_load(&world_rank(rank)->peers[other].gone) != WEFT__LIVES;
}

static void check_made(int rank)
{
    const player *p = &players[rank];
    for (int i = 0; i < p->next->size; i++)
        if (p->lost[p->next->world[i]])
            trace_blame("rank %d has a group with rank %d, which it had lost before it asked", rank,
                        p->next->world[i]);
    if (p->made == pair_count + 1)
        trace_blame("rank %d has got %d groups where %d pairs lost each other", rank, p->made + 1,
                    pair_count);
}

static void take_end(int rank)
{
    player *p = &players[rank];
    if (p->req->status == WEFT_OK) {
        TRACE("rank %d has a group of %d", rank, p->next->size);
        note_outcome(rank, p->group->id, p->req->sequence, p->next);
        check_made(rank);
        p->group = p->next;
        p->made++;
    } else {
        TRACE("rank %d has none: %s", rank, weft_request_message(p->req));
        p->is_over = p->req->status == WEFT_ERR_PEER;
        if (++p->failures == FAILURES_MOST)
            trace_blame("rank %d shrinks in vain: %s", rank, weft_request_message(p->req));
    }
    weft_release(p->req);
    p->req = NULL;
}

static void ask(int rank)
{
    player *p = &players[rank];
    weft_call call = {.timeout_ms = 1000 + chance_below(1000)};
    for (int i = 0; i < world.ranks; i++) p->lost[i] = has_lost(rank, i);
    if (weft_shrink_group(p->group, &call, &p->next, &p->req) != WEFT_OK)
        trace_blame("rank %d cannot shrink its group: %s", rank, weft_last_error());
}

/* False: it has nothing to do. */
static bool act(int rank)
{
    player *p = &players[rank];
    if (p->req && weft_is_completed(p->req))
        take_end(rank);
    else if (p->req || p->is_over || atomic_load(&p->group->state) != WEFT__BROKEN ||
             p->made > pair_count + 1 || p->failures >= FAILURES_MOST)
        return false;
    else
        ask(rank);
    return true;
}

static bool act_all(void)
{
    bool some = false;
    for (int rank = 0; rank < world.ranks; rank++) some |= act(rank);
    return some;
}

static void run(void)
{
    int pace = 1 + chance_below(200);
    int64_t until = weft__now_ns() + LOSING_MS * WEFT__MS;
    bool goes_on = true;
    while (lost_count < pair_count) {
        if (chance_one_in(pace)) lose_next();
        if (chance_one_in(4)) act(chance_below(world.ranks));
        if (!world_step() && !act_all() && (weft__now_ns() > until || !world_pass_time())) lose_next();
    }
    while (goes_on) {
        while (world_step()) act(chance_below(world.ranks));
        goes_on = act_all() || world_pass_time();
    }
    world_progress_all();
}

/* ---- what must hold at the end ---- */

/* It reaches a quorum without the one that is stopped. */
static bool reaches_a_quorum(int rank)
{
    int reached = 0;
    for (int i = 0; i < world.ranks; i++)
        reached += i != stopped && !players[i].is_over && !has_lost(rank, i);
    return 2 * reached > world.ranks;
}

static void check_end(int rank, uint64_t *only)
{
    const player *p = &players[rank];
    if (stopped >= 0 && !reaches_a_quorum(rank)) return;
    if (p->is_over || p->made > pair_count + 1 || p->failures >= FAILURES_MOST) return;
    if (p->req) trace_blame("rank %d waits for ever", rank);
    if (atomic_load(&p->group->state) == WEFT__BROKEN) trace_blame("rank %d's group is broken", rank);
    if (*only && *only != p->group->id) trace_blame("two groups go on, one of them with rank %d", rank);
    *only = p->group->id;
    for (int i = 0; i < p->group->size; i++) {
        int other = p->group->world[i];
        if (players[other].group->id != p->group->id || players[other].is_over)
            trace_blame("rank %d goes on with rank %d, which does not", rank, other);
        if (has_lost(rank, other))
            trace_blame("rank %d goes on with rank %d, which it has lost", rank, other);
    }
}

void play_parted(void)
{
    int everybody[RANKS_MOST], size;
    uint64_t only = 0;
    world_open(RANKS_MOST, false, weft__executors);
    if (chance_one_in(2)) world_draw_tree();
    stopped = world.ranks > 3 && chance_one_in(4) ? world.ranks - 1 : -1;
    size = world.ranks - (stopped >= 0);
    for (int i = 0; i < world.ranks; i++) everybody[i] = i, world_rank(i)->quorum = WEFT__QUORUM_MAJORITY;
    for (int i = 0; i < size; i++)
        players[i] = (player){.group = world_group(i, world_group_id(0), everybody, size)};
    if (stopped >= 0) {
        players[stopped] = (player){.is_over = true};
        world_away(stopped, FOR_EVER_MS * WEFT__MS);
    }
    outcome_count = 0;
    notices_lost = chance_one_in(2);
    world.hasty = false;
    draw_pairs();
    run();
    for (int rank = 0; rank < world.ranks; rank++) check_end(rank, &only);
    for (int rank = 0; rank < world.ranks; rank++) weft_release(players[rank].req);
    world_close();
}
