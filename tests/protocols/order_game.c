/* order_game.c - stamps: groups overlap, also round a circle; every rank begins what is to be issued in an order of its
 * own, one or several operations in a ticket; it waits until some is done before it begins more, and may be late.
 *
 * An operation is agreed on by a gate, which is the host plane's: here all members' proposals are known as soon as they are
 * made, and the largest is told to each member some time after the last has come.  Some have their place by that, others by
 * messages afterwards, as where a communicator is not there on some rank.  Some begin a second time, as those that are held
 * until slots are known.  In every other job members see in memory who has begun what (look_who_is_late in order.c); there,
 * where nothing goes by messages, a rank may be stopped for a while.  Devices carry out what is issued one after the other, and
 * an operation when it is the next on all members'.
 *
 * What must hold: there is one order in which all ranks issue, and for each group it is that of its numbers; what all members
 * of a group that lives have begun is issued by all of them that run as soon as no message is under way, whoever else is late,
 * stopped, or has died; no program waits for ever; nothing that waits for a group outlives it. */
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "games.h"
#include "group_break.h"
#include "order.h"
#include "slots.h"
#include "trace.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { GROUPS_MOST = 4, NUMBERS_MOST = 3, TICKETS_MOST = GROUPS_MOST * NUMBERS_MOST, TOGETHER_MOST = 4 };

typedef enum ticket_state { OUTSIDE, HELD, AT_GATE, INSIDE, ISSUED, DONE, LEFT, REFUSED } ticket_state;

typedef struct held_ticket {
    weft__ticket ticket;
    int rank, group, op;
    bool not_there; /* this rank's communicator */
    ticket_state state;
} held_ticket;

/* One operation, or several that are issued together. */
typedef struct operation {
    int group, place; /* in an order in which all programs could do them one by one */
    uint64_t first;   /* number; the others follow */
    uint32_t length;
    bool early;     /* some communicators may not be there yet */
    bool not_there; /* some member's, which has said so: its place is agreed on by messages */
    int arrived;
    uint64_t most; /* proposed so far */
} operation;

/* What a rank does: begins its operations in that order; at a pause it waits until all that it has begun are done. */
typedef struct program {
    int ops[TICKETS_MOST], count, next;
    bool pause[TICKETS_MOST]; /* before that one */
    bool late;                /* begins only when nothing else is left to do */
    int issued[TICKETS_MOST], issues, done;
} program;

static int members[GROUPS_MOST][WIRES_RANKS_MAX], sizes[GROUPS_MOST], group_count, op_count;
static weft_group *at[GROUPS_MOST][WIRES_RANKS_MAX];
static operation ops[TICKETS_MOST];
static held_ticket tickets[WIRES_RANKS_MAX][TICKETS_MOST];
static program programs[WIRES_RANKS_MAX];
static bool lengths_differ, holds;
static int stopped; /* rank; -1: none */
static weft__member_slots shared[GROUPS_MOST][WIRES_RANKS_MAX], *slots[GROUPS_MOST][WIRES_RANKS_MAX];
static bool shares; /* members see in memory who has begun what */

static held_ticket *held(weft__ticket *ticket)
{
    return WEFT__OWNER(ticket, held_ticket, ticket);
}

static void go(weft__ticket *ticket)
{
    held_ticket *h = held(ticket);
    program *p = &programs[h->rank];
    TRACE("rank %d issues #%d of group %d, at %d", h->rank, (int)ticket->key.number, h->group,
          (int)ticket->stamp);
    h->state = ISSUED;
    for (int i = 0; i < p->issues; i++)
        if (ops[p->issued[i]].group == h->group && p->issued[i] > h->op)
            trace_blame("rank %d issues #%d of group %d before an earlier one", h->rank,
                        (int)ops[p->issued[i]].first, h->group);
    p->issued[p->issues++] = h->op;
}

/* As gate.c does: the group is broken, and so the others hear of it. */
static void refuse(weft__ticket *ticket, weft_status status, const char *why)
{
    held_ticket *h = held(ticket);
    TRACE("rank %d refuses #%d of group %d", h->rank, (int)ticket->key.number, h->group);
    if (!lengths_differ) trace_blame("rank %d: %s", h->rank, why);
    h->state = REFUSED;
    weft__group_break(at[h->group][h->rank], &(weft__verdict){status, ticket->key.number, -1, why}, true);
}

static bool is_broken(int group, int rank)
{
    return atomic_load(&at[group][rank]->state) == WEFT__BROKEN;
}

static bool waits_in_order(const held_ticket *h)
{
    return h->state == HELD || h->state == AT_GATE || h->state == INSIDE;
}

/* What stands in the order when its group breaks leaves it. */
static void leave_broken(int rank)
{
    weft_context *ctx = world_rank(rank);
    if (!world_lives(rank)) return;
    for (int i = 0; i < op_count; i++) {
        held_ticket *h = &tickets[rank][i];
        if (!waits_in_order(h) || !is_broken(h->group, rank)) continue;
        TRACE("rank %d takes #%d of group %d back", rank, (int)h->ticket.key.number, h->group);
        weft__engine_take(ctx);
        h->state = LEFT;
        weft__order_leave(ctx, &h->ticket);
        weft__engine_drop(ctx);
    }
}

/* ---- gates ---- */

/* What it proposes counts, unless it is held. */
static void begin(held_ticket *h, bool counts)
{
    operation *op = &ops[h->op];
    weft_group *group = at[h->group][h->rank];
    for (uint64_t n = op->first; n < op->first + op->length && sizes[h->group] > 1; n++) {
        uint64_t stamp = 0;
        if (group->started < n) group->started = n;
        weft__order_begin(group, &h->ticket);
        if (!h->not_there)
            stamp = weft__order_arrive(group, &h->ticket, n);
        else if (counts)
            op->not_there = true;
        if (counts && stamp > op->most) op->most = stamp;
        TRACE("rank %d says %d for #%d of group %d", h->rank, (int)stamp, (int)n, h->group);
    }
    if (counts) op->arrived++;
}

static void open_gate(held_ticket *h)
{
    const operation *op = &ops[h->op];
    weft_context *ctx = world_rank(h->rank);
    TRACE("rank %d passes the gate of #%d of group %d", h->rank, (int)op->first, h->group);
    h->state = INSIDE;
    weft__engine_take(ctx);
    if (!op->not_there && op->most) {
        weft__order_opened(ctx, &h->ticket, op->most);
    } else {
        weft__order_unplaced(ctx, &h->ticket);
        weft__order_enter(ctx, &h->ticket);
    }
    weft__engine_drop(ctx);
}

/* Those of a group are held one behind the other. */
static bool must_hold(const held_ticket *h)
{
    for (int i = 0; i < h->op; i++)
        if (tickets[h->rank][i].group == h->group && tickets[h->rank][i].state == HELD) return true;
    return holds && sizes[h->group] > 1 && chance_one_in(6);
}

static void arrive(held_ticket *h)
{
    weft_group *group = at[h->group][h->rank];
    const bool held = must_hold(h);
    TRACE("rank %d begins #%d of group %d%s", h->rank, (int)ops[h->op].first, h->group, held ? ", held" : "");
    h->state = held ? HELD : AT_GATE;
    weft__engine_take(group->ctx);
    if (held) group->shm_coll.slots = NULL; /* they are what it waits for */
    begin(h, !held);
    group->shm_coll.slots = shares ? slots[h->group] : NULL;
    weft__engine_drop(group->ctx);
    if (sizes[h->group] == 1) open_gate(h); /* there is nobody to agree with */
}

/* All that a rank holds of some group. */
static bool let_some_go(void)
{
    int from = chance_below(world.ranks * op_count);
    for (int i = 0; i < world.ranks * op_count; i++) {
        const held_ticket *some = &tickets[(from + i) % (world.ranks * op_count) / op_count]
                                          [(from + i) % (world.ranks * op_count) % op_count];
        if (some->state != HELD || !world_lives(some->rank) || some->rank == stopped ||
            is_broken(some->group, some->rank))
            continue;
        weft__engine_take(world_rank(some->rank));
        for (int k = 0; k < op_count; k++) {
            held_ticket *h = &tickets[some->rank][k];
            if (h->group != some->group || h->state != HELD) continue;
            TRACE("rank %d begins #%d of group %d again", h->rank, (int)ops[k].first, h->group);
            h->state = AT_GATE;
            if (!lengths_differ && chance_one_in(2))
                h->not_there = false; /* its communicator has been made meanwhile */
            begin(h, true);
        }
        weft__engine_drop(world_rank(some->rank));
        return true;
    }
    return false;
}

static bool has_come(const held_ticket *h)
{
    return h->state == AT_GATE && h->rank != stopped && world_lives(h->rank) &&
           ops[h->op].arrived == sizes[h->group] && !is_broken(h->group, h->rank);
}

/* The first from somewhere on that may be. */
static bool open_some_gate(void)
{
    int from = chance_below(world.ranks * op_count);
    for (int i = 0; i < world.ranks * op_count; i++) {
        int k = (from + i) % (world.ranks * op_count);
        held_ticket *h = &tickets[k / op_count][k % op_count];
        if (!has_come(h)) continue;
        open_gate(h);
        return true;
    }
    return false;
}

/* ---- devices ---- */

static bool is_next_on(int rank, int op)
{
    const program *p = &programs[rank];
    return p->done < p->issues && p->issued[p->done] == op;
}

/* What its group's breaking has stopped, or all members that live have as their next. */
static bool may_run(int rank, int op)
{
    int group = ops[op].group;
    if (is_broken(group, rank)) return true;
    for (int i = 0; i < sizes[group]; i++)
        if (world_lives(members[group][i]) && tickets[members[group][i]][op].state != DONE &&
            !is_next_on(members[group][i], op))
            return false;
    return true;
}

static void run_devices(void)
{
    for (bool some = true; some;) {
        some = false;
        for (int rank = 0; rank < world.ranks; rank++) {
            program *p = &programs[rank];
            if (!world_lives(rank) || p->done == p->issues || !may_run(rank, p->issued[p->done])) continue;
            tickets[rank][p->issued[p->done++]].state = DONE;
            some = true;
        }
    }
}

/* ---- programs ---- */

static bool is_over(const held_ticket *h)
{
    return h->state == OUTSIDE || h->state >= DONE || is_broken(h->group, h->rank);
}

static bool has_waited(int rank)
{
    for (int i = 0; i < programs[rank].next; i++)
        if (!is_over(&tickets[rank][programs[rank].ops[i]])) return false;
    return true;
}

/* False: there is nothing, or it waits. */
static bool begin_next(int rank)
{
    program *p = &programs[rank];
    held_ticket *h;
    if (!world_lives(rank) || rank == stopped) return false;
    do {
        if (p->next == p->count || (p->pause[p->next] && !has_waited(rank))) return false;
        h = &tickets[rank][p->ops[p->next++]];
    } while (is_broken(h->group, rank));
    arrive(h);
    return true;
}

static bool begin_some(void)
{
    int from = chance_below(world.ranks);
    for (int i = 0; i < world.ranks; i++)
        if (begin_next((from + i) % world.ranks)) return true;
    return false;
}

static void draw_groups(void)
{
    for (int g = 0; g < group_count; g++) {
        sizes[g] = 1 + chance_below(world.ranks);
        for (int i = 0; i < world.ranks; i++) members[g][i] = i;
        chance_shuffle(members[g], world.ranks);
        for (int i = 0; i < world.ranks; i++) at[g][i] = NULL;
        for (int i = 0; i < sizes[g]; i++) {
            at[g][members[g][i]] = world_group(members[g][i], world_group_id(g), members[g], sizes[g]);
            slots[g][i] = &shared[g][i];
        }
        for (int i = 0; i < sizes[g] && shares; i++) at[g][members[g][i]]->shm_coll.slots = slots[g];
    }
}

/* In the order of their places. */
static void draw_operations(int numbers, bool stops)
{
    int groups[TICKETS_MOST];
    uint64_t last[GROUPS_MOST] = {0};
    op_count = group_count * numbers;
    for (int i = 0; i < op_count; i++) groups[i] = i % group_count;
    chance_shuffle(groups, op_count);
    for (int i = 0; i < op_count; i++) {
        ops[i] = (operation){.group = groups[i],
                             .first = last[groups[i]] + 1,
                             .length = 1 + (uint32_t)chance_below(TOGETHER_MOST),
                             .early = !stops && chance_one_in(4)};
        last[groups[i]] += ops[i].length;
    }
}

static void draw_ticket(int rank, int i)
{
    int g = ops[i].group;
    held_ticket *h = &tickets[rank][i];
    *h = (held_ticket){.rank = rank, .group = g, .op = i};
    h->ticket = (weft__ticket){.key = {.group = world_group_id(g), .number = ops[i].first},
                               .world = members[g],
                               .size = sizes[g],
                               .length = ops[i].length,
                               .go = go,
                               .refuse = refuse};
    weft__ticket_begin(&h->ticket);
    h->not_there = ops[i].early && chance_one_in(2);
    if (!lengths_differ || !ops[i].early || rank != members[g][sizes[g] - 1]) return;
    h->ticket.length++;
    h->not_there = true;
}

/* The operations of a group stay in their order. */
static void shuffle(int *which, int n)
{
    chance_shuffle(which, n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (ops[which[k]].group == ops[which[i]].group && which[k] > which[i]) {
                int swapped = which[i];
                which[i] = which[k];
                which[k] = swapped;
            }
}

/* Between two pauses in any order: what comes before a pause has its place before what comes behind it. */
static void draw_program(int rank, int pauses)
{
    program *p = &programs[rank];
    int from = 0;
    *p = (program){.late = chance_one_in(4)};
    for (int i = 0; i < op_count; i++) {
        draw_ticket(rank, i);
        if (at[ops[i].group][rank]) p->ops[p->count++] = i;
    }
    for (int i = 1; i <= p->count; i++) {
        if (i < p->count && !(pauses && chance_one_in(pauses))) continue;
        if (i < p->count) p->pause[i] = true;
        shuffle(p->ops + from, i - from);
        from = i;
    }
}

/* ---- what must hold ---- */

/* No message is under way, and none is awaited: whoever is late. */
static void check_issued(void)
{
    for (int rank = 0; rank < world.ranks; rank++)
        for (int i = 0; i < op_count; i++)
            if (world_lives(rank) && rank != stopped && tickets[rank][i].state == INSIDE)
                trace_blame("rank %d cannot issue #%d of group %d, which all have begun", rank,
                            (int)ops[i].first, ops[i].group);
}

/* Until there is nothing left to do but to begin more.  Without deaths that takes no time; of those all learn after some. */
static void finish_messages(void)
{
    do {
        while (world_step() || let_some_go() || open_some_gate()) {
        }
        if (world_deaths()) world_settle();
        for (int rank = 0; rank < world.ranks; rank++) leave_broken(rank);
    } while (world_step() || let_some_go() || open_some_gate());
    check_issued();
    run_devices();
}

static void run_some(void)
{
    for (int i = chance_below(20); i > 0; i--) {
        if (chance_one_in(2))
            begin_next(world_some_rank());
        else
            open_some_gate();
    }
}

static void run(void)
{
    for (int idle = 0; idle < 3 * world.ranks;) {
        int rank = world_some_rank();
        if (chance_one_in(3) && !programs[rank].late && begin_next(rank))
            idle = 0;
        else if (chance_one_in(3) && open_some_gate())
            idle = 0;
        else if (chance_one_in(6) && let_some_go())
            idle = 0;
        else
            idle += !world_step();
        if (chance_one_in(2)) leave_broken(world_some_rank());
        if (chance_one_in(2)) run_devices();
    }
    if (stopped >= 0) {
        finish_messages(); /* what others have begun is issued, as far as it has come itself */
        stopped = -1;
    }
    do finish_messages();
    while (begin_some());
}

/* Takes away what comes first on every rank that has issued it, until nothing is left, or each comes behind another. */
static void check_one_order(void)
{
    int from[WIRES_RANKS_MAX] = {0};
    for (int i = 0, taken = 0; i < op_count; i++, taken = 0) {
        for (int op = 0; op < op_count && !taken; op++) {
            bool first = true;
            for (int rank = 0; rank < world.ranks && first; rank++) {
                const program *p = &programs[rank];
                for (int k = from[rank] + 1; k < p->issues; k++) first = first && p->issued[k] != op;
            }
            for (int rank = 0; rank < world.ranks && first; rank++) {
                const program *p = &programs[rank];
                if (from[rank] == p->issues || p->issued[from[rank]] != op) continue;
                from[rank]++;
                taken = 1;
            }
        }
        if (!taken) break;
    }
    for (int rank = 0; rank < world.ranks; rank++)
        if (from[rank] < programs[rank].issues)
            trace_blame("rank %d issues #%d of group %d before what others issue before that", rank,
                        (int)ops[programs[rank].issued[from[rank]]].first,
                        ops[programs[rank].issued[from[rank]]].group);
}

/* They are nobody's to be freed. */
static void forget_slots(void)
{
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (at[g][rank]) at[g][rank]->shm_coll.slots = NULL;
}

static void check(void)
{
    check_one_order();
    for (int rank = 0; rank < world.ranks; rank++) {
        const program *p = &programs[rank];
        if (!world_lives(rank)) continue;
        if (p->next < p->count)
            trace_blame("rank %d waits for ever before #%d of group %d", rank,
                        (int)ops[p->ops[p->next]].first, ops[p->ops[p->next]].group);
        for (int i = 0; i < p->count; i++)
            if (waits_in_order(&tickets[rank][p->ops[i]]))
                trace_blame("rank %d never gets to issue #%d of group %d", rank, (int)ops[p->ops[i]].first,
                            ops[p->ops[i]].group);
    }
    for (int g = 0; g < group_count; g++) world_check_broken(at[g], world.ranks, "a group");
    forget_slots();
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (at[g][rank] && world_lives(rank)) weft_group_free(at[g][rank]);
    world_progress_all();
    for (int g = 0; g < group_count; g++)
        for (int rank = 0; rank < world.ranks; rank++)
            if (at[g][rank] && world_lives(rank)) world_check_early(rank, world_group_id(g));
}

void play_order(void)
{
    int pauses, stops;
    world_open(12, false, weft__executors);
    group_count = 1 + chance_below(GROUPS_MOST);
    lengths_differ = chance_one_in(12);
    pauses = chance_below(4);
    shares = chance_one_in(2);
    holds = chance_one_in(3);
    stops = shares && chance_one_in(2);
    stopped = -1;
    memset(shared, 0, sizeof shared);
    draw_groups();
    draw_operations(1 + chance_below(NUMBERS_MOST), stops);
    for (int rank = 0; rank < world.ranks; rank++) draw_program(rank, pauses);
    if (chance_one_in(2)) world_plan_deaths(2);
    if (stops) run_some();
    if (stops) stopped = chance_below(world.ranks);
    run();
    check();
    world_close();
}
