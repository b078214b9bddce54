/* create_game.c - new_group: members ask for groups in any order, late, never, or give up; ranks die, leave when they need no
 * group any more, or are stopped: for less than others wait for a lead's word, and those that lead nothing also for longer; or
 * one and a lead do not reach each other.
 *
 * An attempt is one group that its members ask for once each.  What must hold: all that got OK have the same
 * group, and no other attempt's; nobody waits for ever; nobody gives up without a reason; who is named as
 * gone is; and as long as nobody has died and messages arrive before deadlines pass, an attempt that failed
 * anywhere has failed for all, whoever has left and whoever was stopped on the way. */
#include "alarm.h"
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "leave.h"
#include "protocols.h"
#include "trace.h"
#include "wires_hearing.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum {
    ATTEMPTS_MOST = 4,
    STOPPED_MS = 250,
    STOPPED_LONG_MS = 2500,
    STOPS_MOST = 3,
    ROW_MOST = 8,
    ROUNDS = 100,
    NOBODY = -1
};

typedef struct attempt {
    int ranks[WIRES_RANKS_MAX], size;
    const char *label;
    weft_request *req[WIRES_RANKS_MAX]; /* by rank; NULL: it has not asked */
    weft_group *group[WIRES_RANKS_MAX];
    int absent; /* a rank that never asks; -1: none */
} attempt;

static attempt attempts[ATTEMPTS_MOST];
static int attempt_count;
static int next_of[WIRES_RANKS_MAX]; /* attempt that a rank looks at next */
static weft_group *worlds[WIRES_RANKS_MAX];
static bool some_gave_up; /* somebody cancels, or does not come, or comes late */
static int late;          /* comes only when others have waited */
static bool deaths, some_cancelled, some_leave, left[WIRES_RANKS_MAX];

static void draw_attempt(attempt *a)
{
    *a = (attempt){.absent = -1, .label = chance_one_in(2) ? "a" : "b"};
    a->size = 2 + chance_below(world.ranks - 1);
    for (int i = 0; i < world.ranks; i++) a->ranks[i] = i;
    if (chance_one_in(2)) chance_shuffle(a->ranks, world.ranks);
    if (attempts != a && chance_one_in(3)) { /* the same once more */
        a->size = attempts[0].size;
        a->label = attempts[0].label;
        memcpy(a->ranks, attempts[0].ranks, sizeof a->ranks);
    }
    if (!chance_one_in(10)) return;
    a->absent = a->ranks[chance_below(a->size)];
    some_gave_up = true;
}

static bool is_member(const attempt *a, int rank)
{
    for (int i = 0; i < a->size; i++)
        if (a->ranks[i] == rank) return true;
    return false;
}

static void ask(attempt *a, int rank)
{
    weft_call call = {.timeout_ms = 500 + chance_below(2000), .label = a->label};
    weft_status status;
    TRACE("rank %d asks for group %d", rank, (int)(a - attempts));
    status = weft_new_group(worlds[rank], a->ranks, a->size, &call, &a->group[rank], &a->req[rank]);
    if (status != WEFT_OK) trace_blame("rank %d cannot ask for a group: %s", rank, weft_last_error());
}

/* The next thing that this rank's caller does.  False: it has nothing more to do. */
static bool call_next(int rank)
{
    while (next_of[rank] < attempt_count) {
        attempt *a = &attempts[next_of[rank]++];
        if (!is_member(a, rank)) continue;
        if (a->absent == rank) next_of[rank] = attempt_count; /* nor for what comes behind it */
        if (a->absent == rank) return false;
        ask(a, rank);
        return true;
    }
    return false;
}

static void cancel_some(void)
{
    attempt *a = &attempts[chance_below(attempt_count)];
    int rank = world_some_rank();
    if (world_is_away(rank) || !a->req[rank] || weft_is_completed(a->req[rank])) return;
    TRACE("rank %d cancels its group %d", rank, (int)(a - attempts));
    some_gave_up = some_cancelled = true;
    weft_cancel(a->req[rank]);
}

static bool some_are_to_ask(void)
{
    for (int rank = 0; rank < world.ranks; rank++)
        if (world_lives(rank) && next_of[rank] < attempt_count) return true;
    return false;
}

static bool leads(int rank)
{
    for (int i = 0; i < attempt_count; i++) {
        int lead = attempts[i].ranks[0];
        for (int k = 1; k < attempts[i].size; k++)
            if (attempts[i].ranks[k] < lead) lead = attempts[i].ranks[k];
        if (lead == rank) return true;
    }
    return false;
}

/* For how long, in ms.  Not for long where it may have given up: as it goes on it looks at its time before it has read
 * all that has come. */
static int stop_some(void)
{
    const int rank = world_some_rank();
    const bool is_long = !leads(rank) && !some_cancelled && chance_one_in(2);
    const int ms = is_long ? STOPPED_LONG_MS : STOPPED_MS;
    some_gave_up = some_gave_up || is_long;
    world_away(rank, ms * WEFT__MS);
    return ms;
}

/* Nothing comes from a lead to one of the others nor back, and neither finds out; and one comes later than others may wait. */
static void part_from_lead(void)
{
    const int lead = chance_below(world.ranks), other = chance_below(world.ranks);
    if (lead == other || !leads(lead)) return;
    wires_lose_way(lead, other, true);
    wires_lose_way(other, lead, true);
    some_gave_up = true;
    late = chance_below(world.ranks);
}

static bool needs_nothing(int rank)
{
    for (int i = 0; i < attempt_count; i++)
        if (attempts[i].req[rank] && !weft_is_completed(attempts[i].req[rank])) return false;
    return next_of[rank] == attempt_count;
}

static void leave(int rank)
{
    weft_context *ctx = world_rank(rank);
    int moved;
    if (!world_lives(rank) || world_is_away(rank) || !needs_nothing(rank)) return;
    atomic_store(&ctx->closing, true);
    if (!weft__leave_check(ctx, "", &moved) || !world_lives(rank)) return;
    weft__alarm_send(ctx); /* as its watchdog does at last */
    if (!world_lives(rank)) return;
    left[rank] = true;
    wires_leave(rank, false);
}

/* Each that has begun to, and is let go of by then, and others with it. */
static void leave_with_time(void)
{
    for (int rounds = 0; rounds < ROUNDS; rounds++) {
        for (int rank = 0; rank < world.ranks; rank++)
            if (atomic_load(&world_rank(rank)->closing) || (rounds < ROUNDS / 2 && chance_one_in(ROUNDS)))
                leave(rank);
        world_settle_for(20 * WEFT__MS);
    }
}

static void run(void)
{
    int idle = 0, waits_ms = STOPPED_MS,
        stops = world.hasty || chance_one_in(2) ? 0 : 1 + chance_below(STOPS_MOST);
    bool cancels = chance_one_in(8);
    some_leave = chance_one_in(4);
    late = NOBODY;
    if (!stops && !some_leave && !world.hasty && !deaths && chance_one_in(2)) part_from_lead();
    while (idle < 3 * world.ranks && world_deaths() < world.ranks) {
        int rank = world_some_rank();
        if (chance_one_in(3) && rank != late && !world_is_away(rank) && call_next(rank))
            idle = 0;
        else
            idle += !world_step();
        if (cancels && world_lives(rank) && chance_one_in(16)) cancel_some();
        if (some_leave && world_deaths() < world.ranks - 1 && chance_one_in(4)) leave(world_some_rank());
        if (!stops || world_deaths() == world.ranks || !chance_one_in(some_are_to_ask() ? 16 : 3)) continue;
        stops--;
        if (stop_some() > STOPPED_MS) waits_ms = STOPPED_LONG_MS;
    }
    if (late != NOBODY) waits_ms = chance_below(STOPPED_LONG_MS);
    for (int ms = 0; ms < waits_ms; ms += STOPPED_MS)
        world_settle_for(STOPPED_MS * WEFT__MS); /* whoever was stopped goes on */
    for (int rank = 0; rank < world.ranks; rank++)
        while (world_lives(rank) && call_next(rank)) world_step();
    if (some_leave) leave_with_time();
    world_settle();
}

/* The request's end at that rank; PENDING: it has not asked, or is dead. */
static weft_status end_at(const attempt *a, int rank)
{
    return a->req[rank] && (world_lives(rank) || left[rank]) ? a->req[rank]->status : WEFT_PENDING;
}

static int killed(void)
{
    int n = world_deaths();
    for (int i = 0; i < world.ranks; i++) n -= left[i];
    return n;
}

static void check_end(attempt *a, int rank, const char *what)
{
    weft_request *req = a->req[rank];
    if (!weft_is_completed(req)) {
        trace_blame("%s: rank %d waits for ever", what, rank);
        return;
    }
    world_check_culprit(req, what);
    if (req->status == WEFT_OK || req->status == WEFT_ERR_PEER || some_gave_up || world.hasty) return;
    trace_blame("%s: rank %d ends in %s though all came: %s", what, rank, weft_status_text(req->status),
                weft_request_message(req));
}

static void check_agreement(const attempt *a, const char *what)
{
    int ok = -1, other = -1;
    for (int rank = 0; rank < world.ranks; rank++) {
        weft_status status = end_at(a, rank);
        if (status == WEFT_PENDING) continue;
        if (status != WEFT_OK)
            other = rank;
        else if (ok < 0)
            ok = rank;
        else if (a->group[rank]->id != a->group[ok]->id)
            trace_blame("%s: rank %d got group %#llx, rank %d %#llx", what, ok,
                        (unsigned long long)a->group[ok]->id, rank, (unsigned long long)a->group[rank]->id);
    }
    if (ok >= 0 && other >= 0 && !world.hasty && !killed())
        trace_blame("%s: rank %d got it, rank %d did not: %s", what, ok, other,
                    weft_request_message(a->req[other]));
}

static void check_numbers(const attempt *a, const attempt *b, const char *what)
{
    for (int i = 0; i < world.ranks; i++)
        for (int k = 0; k < world.ranks; k++)
            if (end_at(a, i) == WEFT_OK && end_at(b, k) == WEFT_OK && a->group[i]->id == b->group[k]->id)
                trace_blame("%s has the number of another", what);
}

static void check(void)
{
    char what[32];
    for (int i = 0; i < attempt_count; i++) {
        attempt *a = &attempts[i];
        weft_group *made[WIRES_RANKS_MAX] = {NULL};
        snprintf(what, sizeof what, "group %d", i);
        for (int rank = 0; rank < world.ranks; rank++) {
            if (a->req[rank] && world_lives(rank)) check_end(a, rank, what);
            if (end_at(a, rank) == WEFT_OK) made[rank] = a->group[rank];
        }
        check_agreement(a, what);
        if (!some_leave) world_check_broken(made, world.ranks, what);
        for (int k = 0; k < i; k++) check_numbers(a, &attempts[k], what);
    }
    if (!some_leave)
        world_check_broken(worlds, world.ranks, "the world"); /* who dies as it leaves breaks nothing */
}

static void let_go(void)
{
    for (int i = 0; i < attempt_count; i++)
        for (int rank = 0; rank < world.ranks; rank++) {
            weft_release(attempts[i].req[rank]);
            attempts[i].req[rank] = NULL;
        }
}

/* Each host is told by the one before it, so that of few ranks some pass words on. */
static void make_a_row(void)
{
    for (int rank = 0; rank < world.ranks; rank++)
        world_rank(rank)->fan_out = world_rank(rank)->told_at_once = 1;
}

void play_create(void)
{
    int everybody[WIRES_RANKS_MAX];
    some_gave_up = some_cancelled = false;
    world_open(WIRES_RANKS_MAX, false, weft__executors);
    for (int i = 0; i < world.ranks; i++) everybody[i] = i;
    for (int i = 0; i < world.ranks; i++)
        worlds[i] = world_group(i, world_group_id(0), everybody, world.ranks);
    if (chance_one_in(2)) world_draw_tree();
    if (world.ranks <= ROW_MOST && chance_one_in(2)) make_a_row();
    memset(next_of, 0, sizeof next_of);
    memset(left, 0, sizeof left);
    attempt_count = 1 + chance_below(ATTEMPTS_MOST);
    for (int i = 0; i < attempt_count; i++) draw_attempt(&attempts[i]);
    deaths = chance_one_in(2);
    if (deaths) world_plan_deaths(3);
    run();
    check();
    let_go();
    world_close();
    wires_hearing_close(); /* ways are there again */
}
