/* order.c - stamps: proposed by every rank that takes part, made final by the first of them.
 *
 *   PROPOSE  to the first: what, my clock, how many operations I issue together
 *   FINAL    from the first, when all have proposed: the largest
 *
 * A rank's clock is never behind a stamp it has seen, so whatever it proposes later comes later; and what has
 * only proposed keeps its place in the list, since its stamp can only grow.
 * Fails: when two ranks issue different numbers of operations together, which is a batch on one and none, or
 * another one, on the other. */
#include "order.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "peer.h"
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct word { /* what goes to another rank */
    weft__ticket_key key;
    uint64_t stamp;
    uint32_t length, unused;
} word;

#define STAMP_MOST (UINT64_MAX / 2) /* clocks count operations: none comes there */

struct order {
    weft__list tickets; /* by stamp */
    uint64_t clock;
};

static struct order *order_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_ORDER];
}

static int compare(const weft__ticket *a, const weft__ticket *b)
{
    if (a->stamp != b->stamp) return a->stamp < b->stamp ? -1 : 1;
    return memcmp(&a->key, &b->key, sizeof a->key);
}

static void insert(weft_context *ctx, weft__ticket *ticket)
{
    weft__list *at = order_of(ctx)->tickets.prev; /* most come last */
    while (at != &order_of(ctx)->tickets && compare(WEFT__LIST_ENTRY(at, weft__ticket, link), ticket) > 0)
        at = at->prev;
    weft__list_append(at->next, &ticket->link);
}

static weft__ticket *order_find(weft_context *ctx, const weft__ticket_key *key)
{
    WEFT__LIST_EACH(&order_of(ctx)->tickets, at)
    {
        weft__ticket *ticket = WEFT__LIST_ENTRY(at, weft__ticket, link);
        if (!memcmp(&ticket->key, key, sizeof *key)) return ticket;
    }
    return NULL;
}

/* All at the head whose stamp is agreed. */
static void call_turns(weft_context *ctx)
{
    while (!weft__list_empty(&order_of(ctx)->tickets)) {
        weft__ticket *ticket = WEFT__LIST_ENTRY(order_of(ctx)->tickets.next, weft__ticket, link);
        if (!ticket->final) return;
        weft__list_remove(&ticket->link);
        ticket->go(ticket);
    }
}

static void make_final(weft_context *ctx, weft__ticket *ticket, uint64_t stamp)
{
    WEFT__ASSERT(!ticket->final && stamp >= ticket->stamp, stamp, ticket->stamp); /* it can only grow */
    WEFT__ASSERT_HOT(weft__list_has(&order_of(ctx)->tickets, &ticket->link));
    if (order_of(ctx)->clock < stamp) order_of(ctx)->clock = stamp;
    weft__list_remove(&ticket->link);
    ticket->stamp = stamp;
    ticket->final = true;
    insert(ctx, ticket);
}

static void order_refuse(weft_context *ctx, weft__ticket *ticket, int peer, uint32_t length)
{
    char who[192], text[400];
    weft__peer_name(ctx, peer, who, sizeof who);
    snprintf(text, sizeof text,
             "from operation #%llu on this rank issues %u together, %s issues %u: all ranks batch the same "
             "collectives",
             (unsigned long long)ticket->key.number, ticket->length, who, length);
    weft__list_remove(&ticket->link);
    ticket->refuse(ticket, WEFT_ERR_MISMATCH, text);
}

/* First rank: one more has proposed.  False: the ticket is gone. */
static bool count(weft_context *ctx, weft__ticket *ticket, int peer, const word *w)
{
    word final = {.key = ticket->key, .length = ticket->length};
    if (w->length != ticket->length) {
        order_refuse(ctx, ticket, peer, w->length);
        return false;
    }
    if (ticket->most < w->stamp) ticket->most = w->stamp;
    if (--ticket->missing) return true;
    final.stamp = ticket->most;
    for (int i = 1; i < ticket->size; i++)
        weft__p2p_control(ctx->p2p, ticket->world[i], WEFT__MESSAGE_FINAL, &final, sizeof final);
    make_final(ctx, ticket, ticket->most);
    return true;
}

static bool takes_part(const weft__ticket *ticket, int rank)
{
    for (int i = 0; i < ticket->size; i++)
        if (ticket->world[i] == rank) return true;
    return false;
}

typedef struct early_count {
    weft_context *ctx;
    weft__ticket *ticket;
    weft__ticket_key key;
    bool there; /* it has not been refused meanwhile */
} early_count;

static bool order_take_early(void *arg, int peer, const void *bytes)
{
    early_count *c = arg;
    word w;
    memcpy(&w, bytes, sizeof w);
    if (memcmp(&w.key, &c->key, sizeof c->key) != 0) return false;
    if (c->there && takes_part(c->ticket, peer)) c->there = count(c->ctx, c->ticket, peer, &w);
    return true;
}

static void count_early(weft_context *ctx, weft__ticket *ticket)
{
    early_count c = {ctx, ticket, ticket->key, true};
    weft__early_offer(ctx, ticket->key.group, WEFT__MESSAGE_PROPOSE, order_take_early, &c);
}

void weft__order_enter(weft_context *ctx, weft__ticket *ticket)
{
    word mine = {.key = ticket->key, .stamp = ++order_of(ctx)->clock, .length = ticket->length};
    WEFT__ASSERT(weft__holds_engine(ctx));
    ticket->stamp = ticket->most = mine.stamp;
    ticket->final = false;
    ticket->missing = ticket->size - 1;
    insert(ctx, ticket);
    if (ticket->size == 1)
        make_final(ctx, ticket, mine.stamp);
    else if (ticket->world[0] == ctx->rank)
        count_early(ctx, ticket);
    else
        weft__p2p_control(ctx->p2p, ticket->world[0], WEFT__MESSAGE_PROPOSE, &mine, sizeof mine);
    call_turns(ctx);
}

void weft__order_leave(weft_context *ctx, weft__ticket *ticket)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    weft__list_remove(&ticket->link);
    call_turns(ctx);
}

static void order_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    word w;
    weft__ticket *ticket;
    if (length == sizeof w) memcpy(&w, bytes, sizeof w);
    if (length != sizeof w || w.stamp == 0 || w.stamp > STAMP_MOST || w.length == 0) {
        weft__peer_refused(ctx, peer, "a place in the order of operations is none that can be");
        return;
    }
    ticket = order_find(ctx, &w.key);
    if (ticket && !takes_part(ticket, peer))
        weft__peer_refused(ctx, peer, "it takes no part in the operation whose place it tells");
    else if (ticket && type == WEFT__MESSAGE_PROPOSE && ticket->world[0] == ctx->rank && !ticket->final)
        count(ctx, ticket, peer, &w);
    else if (ticket && type == WEFT__MESSAGE_FINAL && ticket->world[0] == peer && !ticket->final &&
             w.stamp >= ticket->stamp)
        make_final(ctx, ticket, w.stamp);
    else if (!ticket && type == WEFT__MESSAGE_PROPOSE)
        weft__early_keep(ctx, w.key.group, type, peer, &w, sizeof w);
    call_turns(ctx);
}

static weft_status open_order(weft_context *ctx)
{
    struct order *order = calloc(1, sizeof *order);
    ctx->protocol_state[WEFT__PROTOCOL_ORDER] = order;
    if (!order) return weft__fail_memory(sizeof *order, "a context");
    weft__list_init(&order->tickets);
    return WEFT_OK;
}

static void close_order(weft_context *ctx)
{
    free(order_of(ctx));
}

const weft__protocol weft__order_protocol = {.name = "order",
                                             .first = WEFT__MESSAGE_PROPOSE,
                                             .last = WEFT__MESSAGE_FINAL,
                                             .open = open_order,
                                             .close = close_order,
                                             .message = order_message};
