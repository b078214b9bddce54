/* leave_game.c - ranks leave, each when it likes, most of which have never talked to each other; and groups break
 * meanwhile.
 *
 * What must hold: each of them is let go; and, where the last words of a watchdog arrive, whoever hears that a rank
 * has left has heard before of every group of theirs that had broken when it left, so that nobody is told that it left
 * in place of why the group broke. */
#include "alarm.h"
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "games.h"
#include "group_break.h"
#include "leave.h"
#include "protocol.h"
#include "trace.h"
#include "world.h"

#include <stdatomic.h>

enum { GROUPS_MOST = 3, IDLE_MOST = 8 };
#define IDLE_NS (250 * WEFT__MS) /* IDLE_MOST of these are longer than ranks ask whether all leave */

static enum { STAYS, IS_TO_LEAVE, LEAVES, HAS_LEFT } where[WIRES_RANKS_MAX];
static int members[GROUPS_MOST][WIRES_RANKS_MAX], sizes[GROUPS_MOST], group_count;
static weft_group *at[GROUPS_MOST][WIRES_RANKS_MAX];
static bool all_leave;
static bool words_lost; /* the last ones of watchdogs whose ranks leave, some of them */
static bool had[GROUPS_MOST][WIRES_RANKS_MAX];
static bool broken[GROUPS_MOST][WIRES_RANKS_MAX]; /* there, when its rank said goodbye or let go of it */

static void draw_group(int g)
{
    sizes[g] = 2 + chance_below(world.ranks - 1);
    for (int i = 0; i < world.ranks; i++) members[g][i] = i;
    chance_shuffle(members[g], world.ranks);
    for (int i = 0; i < world.ranks; i++) at[g][i] = NULL, had[g][i] = broken[g][i] = false;
}

static bool is_member(int g, int rank)
{
    for (int i = 0; i < sizes[g]; i++)
        if (members[g][i] == rank) return true;
    return false;
}

static bool is_broken(int g, int rank)
{
    return at[g][rank] && atomic_load(&at[g][rank]->state) == WEFT__BROKEN;
}

static bool was_killed(int rank)
{
    return where[rank] != HAS_LEFT && !world_lives(rank);
}

static bool has_said_bye(int rank)
{
    return where[rank] >= LEAVES && world_rank(rank)->said_bye;
}

/* ---- what ranks do ---- */

static void break_it(int g, int rank)
{
    weft_context *ctx = world_rank(rank);
    TRACE("rank %d breaks group %d", rank, g);
    weft__engine_take(ctx);
    weft__group_break(at[g][rank], &(weft__verdict){WEFT_ERR_MISMATCH, 1, -1, "as the game has it"}, true);
    weft__engine_drop(ctx);
}

static void let_go(int g, int rank)
{
    TRACE("rank %d lets go of group %d", rank, g);
    broken[g][rank] = is_broken(g, rank);
    weft_group_free(at[g][rank]);
    at[g][rank] = NULL;
}

/* As a collective does that needs somebody who has left.  Not where words may be on their way for longer than others
 * wait for them. */
static void miss(int g, int rank)
{
    weft_context *ctx = world_rank(rank);
    if (!at[g][rank] || is_broken(g, rank) || world.hasty) return;
    for (int i = 0; i < sizes[g]; i++) {
        int left = members[g][i];
        if (!weft__has_left(&ctx->peers[left])) continue;
        TRACE("rank %d misses rank %d in group %d", rank, left, g);
        weft__engine_take(ctx);
        weft__group_break(at[g][rank], &(weft__verdict){WEFT_ERR_PEER, 1, left, "as the game has it"}, true);
        weft__engine_drop(ctx);
        return;
    }
}

/* From then on they are connected, and a goodbye goes over that. */
static void talk(int from, int to)
{
    weft_context *ctx = world_rank(from);
    if (from == to) return;
    TRACE("rank %d talks to rank %d", from, to);
    weft__engine_take(ctx);
    weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_NONE, NULL, 0);
    weft__engine_drop(ctx);
}

static void act(void)
{
    int g = chance_below(group_count), rank = world_some_rank();
    if (has_said_bye(rank)) return;
    if (chance_one_in(6)) {
        talk(rank, world_some_rank());
    } else if (chance_one_in(3)) {
        miss(g, rank);
    } else if (is_member(g, rank) && !had[g][rank]) {
        TRACE("group %d is ready at rank %d", g, rank);
        had[g][rank] = true;
        at[g][rank] = world_group(rank, world_group_id(g), members[g], sizes[g]);
    } else if (at[g][rank] && chance_one_in(8)) {
        break_it(g, rank);
    } else if (at[g][rank] && chance_one_in(12)) {
        let_go(g, rank);
    }
}

static void look(int rank)
{
    weft_context *ctx = world_rank(rank);
    bool had_said_bye = has_said_bye(rank), done;
    int moved;
    if (!world_lives(rank)) return;
    if (where[rank] == IS_TO_LEAVE) TRACE("rank %d begins to leave", rank);
    where[rank] = LEAVES;
    atomic_store(&ctx->closing, true);
    done = weft__leave_check(ctx, "", &moved);
    if (!world_lives(rank)) return; /* it has died of that */
    for (int g = 0; g < group_count && !had_said_bye && ctx->said_bye; g++)
        broken[g][rank] = broken[g][rank] || is_broken(g, rank);
    if (!done) return;
    weft__alarm_send(ctx); /* as its watchdog does at last */
    if (!world_lives(rank)) return;
    where[rank] = HAS_LEFT;
    wires_leave(rank, words_lost);
}

/* Who learns that a group has broken leaves at once; who learns that somebody has left needs just him. */
static void react(void)
{
    int g = chance_below(group_count);
    for (int rank = 0; rank < world.ranks; rank++) {
        if (is_broken(g, rank) && where[rank] == IS_TO_LEAVE) look(rank);
        if (world_lives(rank) && !has_said_bye(rank)) miss(g, rank);
    }
}

/* ---- what must hold ---- */

/* Who leaves together with all others has nothing under way, and begins nothing: no request of it could end in that somebody has
 * left.  So nobody's watchdog tells anything then, and who looks for a rank that it had never met takes it for one that has left. */
static bool has_nothing_to_hear(int rank)
{
    return world_rank(rank)->leaving == WEFT__LEAVES_TOGETHER;
}

static void check_heard_of(int left)
{
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; broken[g][left] && rank < world.ranks; rank++) {
            const weft__peer *m = &world_rank(rank)->peers[left];
            if (rank == left || !at[g][rank] || has_said_bye(rank) || was_killed(rank) ||
                has_nothing_to_hear(rank))
                continue;
            if (weft__has_left(m) && atomic_load(&at[g][rank]->state) == WEFT__READY)
                trace_blame("rank %d has heard that rank %d has left, and not that group %d had broken there",
                            rank, left, g);
        }
}

static void check_order(void)
{
    for (int i = 0; i < world.ranks && !words_lost; i++)
        if (has_said_bye(i) && !was_killed(i)) check_heard_of(i);
}

/* Whoever is there when one leaves together with all others has begun to leave. */
static void check_all_leave(void)
{
    int together = -1;
    for (int i = 0; i < world.ranks; i++)
        if (world_rank(i)->leaving == WEFT__LEAVES_TOGETHER) together = i;
    for (int i = 0; i < world.ranks && together >= 0; i++)
        if (world_lives(i) && world_rank(i)->leaving == WEFT__STAYS)
            trace_blame("rank %d leaves together with rank %d, which stays", together, i);
}

/* ---- the game ---- */

static bool some_leave(void)
{
    bool some = false;
    for (int i = 0; i < world.ranks; i++)
        some = some || (world_lives(i) && (where[i] == IS_TO_LEAVE || where[i] == LEAVES));
    return some;
}

static bool some_are_there(void)
{
    return world_deaths() < world.ranks;
}

static void look_at_all(void)
{
    for (int i = 0; i < world.ranks; i++)
        if (where[i] == IS_TO_LEAVE || where[i] == LEAVES) look(i);
}

static void run(void)
{
    int often = 1 + chance_below(20), idle = 0;
    bool hot = chance_one_in(2);
    for (int more = 2 * world.ranks; more > 0 && idle < IDLE_MOST && some_are_there();
         more -= !some_leave()) {
        int rank = chance_below(world.ranks);
        if (chance_one_in(2)) act();
        if (hot) react();
        if (where[rank] == LEAVES || (where[rank] == IS_TO_LEAVE && chance_one_in(often))) look(rank);
        if (world_step() || world_pass_time()) {
            idle = 0;
        } else { /* all wait for each other, and see so */
            idle++;
            world_sleep(IDLE_NS);
            look_at_all();
        }
        check_order();
        check_all_leave();
    }
    world_settle();
    check_order();
}

/* Whoever left together was told of by nobody, and whom it never talked to may look for it. */
static void check_nobody_died(void)
{
    for (int rank = 0; rank < world.ranks; rank++)
        for (int i = 0; i < world.ranks; i++) {
            const weft__peer *m = &world_rank(rank)->peers[i];
            if (weft__is_dead(m) && !was_killed(i))
                trace_blame("rank %d, which has left, is dead to rank %d: it %s", i, rank, m->why);
        }
}

static void check(void)
{
    for (int rank = 0; rank < world.ranks; rank++)
        if (world_lives(rank) && (where[rank] == LEAVES || where[rank] == IS_TO_LEAVE))
            trace_blame("rank %d is not let go: %s, waits for rank %d", rank,
                        world_rank(rank)->said_bye ? "it has said goodbye" : "it asks",
                        weft__p2p_bye_awaited(world_rank(rank)->p2p));
    if (all_leave && !words_lost && !world.hasty) check_nobody_died();
}

void play_leave(void)
{
    int often;
    world_open(WIRES_RANKS_MAX, false, weft__executors);
    words_lost = chance_one_in(4);
    group_count = 1 + chance_below(GROUPS_MOST);
    for (int g = 0; g < group_count; g++) draw_group(g);
    world_draw_tree();
    often = 2 + chance_below(6);
    all_leave = chance_one_in(3);
    for (int i = 0; i < world.ranks; i++) where[i] = !all_leave && chance_one_in(often) ? STAYS : IS_TO_LEAVE;
    if (!all_leave) where[chance_below(world.ranks)] = STAYS;
    if (chance_one_in(3)) world_plan_deaths(2);
    run();
    check();
    world_close();
}
