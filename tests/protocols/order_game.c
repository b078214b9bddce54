/* order_game.c - stamps: groups overlap, every rank enters what is to be issued in an order of its own, one or
 * several operations in a ticket.
 *
 * What must hold: whatever two ranks both issue they issue in the same order; what all members of a group
 * that lives have entered is issued by all of them, whoever else has died; nothing that waits for a group
 * outlives it. */
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "games.h"
#include "group_break.h"
#include "order.h"
#include "trace.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { GROUPS_MOST = 4, NUMBERS_MOST = 3, TICKETS_MOST = GROUPS_MOST * NUMBERS_MOST };

typedef enum ticket_state { OUTSIDE, INSIDE, ISSUED, LEFT, REFUSED } ticket_state;

typedef struct held_ticket {
    weft__ticket ticket;
    int rank, group;
    ticket_state state;
    int place; /* among what its rank issued */
} held_ticket;

static int members[GROUPS_MOST][WIRES_RANKS_MAX], sizes[GROUPS_MOST], group_count, numbers;
static weft_group *at[GROUPS_MOST][WIRES_RANKS_MAX];
static held_ticket tickets[WIRES_RANKS_MAX][TICKETS_MOST];
static int order_of[WIRES_RANKS_MAX][TICKETS_MOST], entered[WIRES_RANKS_MAX], issued[WIRES_RANKS_MAX];
static uint32_t lengths[TICKETS_MOST]; /* the same on all ranks */
static bool lengths_differ;

static held_ticket *held(weft__ticket *ticket)
{
    return WEFT__OWNER(ticket, held_ticket, ticket);
}

static void go(weft__ticket *ticket)
{
    held_ticket *h = held(ticket);
    TRACE("rank %d issues #%d of group %d", h->rank, (int)ticket->key.number, h->group);
    h->state = ISSUED;
    h->place = issued[h->rank]++;
}

/* As device.c does: the group is broken, and so the others hear of it. */
static void refuse(weft__ticket *ticket, weft_status status, const char *why)
{
    held_ticket *h = held(ticket);
    TRACE("rank %d refuses #%d of group %d", h->rank, (int)ticket->key.number, h->group);
    h->state = REFUSED;
    weft__group_break(at[h->group][h->rank], &(weft__verdict){status, ticket->key.number, -1, why}, true);
}

/* What stands in the order when its group breaks leaves it. */
static void leave_broken(int rank)
{
    weft_context *ctx = world_rank(rank);
    if (!world_lives(rank)) return;
    for (int i = 0; i < group_count * numbers; i++) {
        held_ticket *h = &tickets[rank][i];
        if (h->state != INSIDE || atomic_load(&at[h->group][rank]->state) != WEFT__BROKEN) continue;
        TRACE("rank %d takes #%d of group %d back", rank, (int)h->ticket.key.number, h->group);
        weft__engine_take(ctx);
        h->state = LEFT;
        weft__order_leave(ctx, &h->ticket);
        weft__engine_drop(ctx);
    }
}

static bool enter_next(int rank)
{
    weft_context *ctx = world_rank(rank);
    held_ticket *h;
    int g;
    do {
        if (entered[rank] == group_count * numbers) return false;
        h = &tickets[rank][order_of[rank][entered[rank]++]];
        g = h->group;
    } while (!at[g][rank] || atomic_load(&at[g][rank]->state) == WEFT__BROKEN);
    TRACE("rank %d enters #%d of group %d", rank, (int)h->ticket.key.number, g);
    h->state = INSIDE;
    weft__engine_take(ctx);
    weft__order_enter(ctx, &h->ticket);
    weft__engine_drop(ctx);
    return true;
}

static void draw_groups(void)
{
    for (int g = 0; g < group_count; g++) {
        sizes[g] = 1 + chance_below(world.ranks);
        for (int i = 0; i < world.ranks; i++) members[g][i] = i;
        chance_shuffle(members[g], world.ranks);
        for (int i = 0; i < world.ranks; i++) at[g][i] = NULL;
        for (int i = 0; i < sizes[g]; i++)
            at[g][members[g][i]] = world_group(members[g][i], world_group_id(g), members[g], sizes[g]);
    }
}

static void draw_tickets(int rank)
{
    entered[rank] = issued[rank] = 0;
    for (int i = 0; i < group_count * numbers; i++) {
        int g = i / numbers;
        held_ticket *h = &tickets[rank][i];
        *h = (held_ticket){.rank = rank, .group = g, .place = -1};
        h->ticket = (weft__ticket){.key = {.group = world_group_id(g), .number = (uint64_t)(1 + i % numbers)},
                                   .world = members[g],
                                   .size = sizes[g],
                                   .length = lengths[i],
                                   .go = go,
                                   .refuse = refuse};
        if (lengths_differ && rank == members[g][sizes[g] - 1] && i % numbers == 0) h->ticket.length++;
        order_of[rank][i] = i;
    }
    chance_shuffle(order_of[rank], group_count * numbers);
}

static void run(void)
{
    for (int idle = 0; idle < 3 * world.ranks;) {
        int rank = world_some_rank();
        if (chance_one_in(3) && enter_next(rank))
            idle = 0;
        else
            idle += !world_step();
        if (chance_one_in(2)) leave_broken(world_some_rank());
    }
    for (int rank = 0; rank < world.ranks; rank++)
        while (world_lives(rank) && enter_next(rank)) world_step();
    world_settle();
    for (int rank = 0; rank < world.ranks; rank++) leave_broken(rank);
    world_settle();
}

static void check_pair(int a, int b)
{
    for (int i = 0; i < group_count * numbers; i++)
        for (int k = 0; k < i; k++) {
            if (tickets[a][i].state != ISSUED || tickets[b][i].state != ISSUED) continue;
            if (tickets[a][k].state != ISSUED || tickets[b][k].state != ISSUED) continue;
            if ((tickets[a][i].place < tickets[a][k].place) != (tickets[b][i].place < tickets[b][k].place))
                trace_blame("ranks %d and %d issue #%d of group %d and #%d of group %d in different order", a,
                            b, 1 + i % numbers, i / numbers, 1 + k % numbers, k / numbers);
        }
}

static void check(void)
{
    for (int a = 0; a < world.ranks; a++) {
        for (int b = 0; b < a; b++) check_pair(a, b);
        for (int i = 0; i < group_count * numbers; i++)
            if (world_lives(a) && tickets[a][i].state == INSIDE)
                trace_blame("rank %d never gets to issue #%d of group %d", a, 1 + i % numbers, i / numbers);
    }
    for (int g = 0; g < group_count; g++) world_check_broken(at[g], world.ranks, "a group");
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
    world_open(12, false, weft__executors);
    group_count = 1 + chance_below(GROUPS_MOST);
    numbers = 1 + chance_below(NUMBERS_MOST);
    lengths_differ = chance_one_in(12);
    draw_groups();
    for (int i = 0; i < group_count * numbers; i++) lengths[i] = 1 + (uint32_t)chance_below(4);
    for (int rank = 0; rank < world.ranks; rank++) draw_tickets(rank);
    if (chance_one_in(2)) world_plan_deaths(2);
    run();
    check();
    world_close();
}
