/* order.c - stamps: proposed by every rank that takes part.
 *
 * Those of collectives whose communicator is there go with the agreement (gate.h).  Else the first rank makes them final:
 *
 *   PROPOSE  to the first: what, my clock, how many operations I issue together
 *   FINAL    from the first, when all have proposed: the largest
 *
 * Where something final stands behind what is still at its gate, it is to come no earlier than a floor.  Members that share
 * memory see that there, in two words of each one's slots (host/slots.h): who asks writes the floor, and then reads who has
 * begun the operation; who begins it writes that, and then reads the floors.  One of the two sees the other, so whoever has
 * not begun it yet when it is looked for will propose no less, and need not run for that.  Else:
 *
 *   RAISE    to the other members: let that come no earlier than this
 *   RAISED   from one that has not begun it: I shall propose no less
 *
 * After one RAISED it stands at that stamp, and so does what the group begins after it: who has not begun the one has begun
 * none of the others.  So of a group one question is under way at a time, for the first that is at its gate.  Who has begun
 * it says nothing, and is not asked where this host's board shows that: if that are all, its gate opens without any caller's
 * doing.  What is asked for lies RAISE_AHEAD beyond the clock, so that one RAISE serves as many operations; and who promises
 * it remembers that for the group alone, or its next proposals elsewhere would be beyond it too.
 *
 * A rank's clock is never behind a stamp it has seen, so whatever it proposes later comes later; and what has
 * only proposed keeps its place in the list, since its stamp can only grow.
 * Fails: when two ranks issue different numbers of operations together, which is a batch on one and none, or
 * another one, on the other; and where there is no memory for a question. */
#include "order.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "peer.h"
#include "slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct word { /* what goes to another rank */
    weft__ticket_key key;
    uint64_t stamp;
    uint64_t last; /* RAISE: number of the operation that is asked about */
    uint32_t length, unused;
} word;

_Static_assert(sizeof(word) == 56,
               "what ranks tell each other has changed: raise WEFT__DEVICE_WORDS_VERSION");

#define STAMP_MOST  (UINT64_MAX / 2) /* clocks count operations: none comes there */
#define RAISE_AHEAD 256

/* What may follow on each state; a message that parted begins anew. */
static const uint8_t ticket_follows[] = {
    [WEFT__TICKET_OUTSIDE] = WEFT__MAY_BECOME(WEFT__TICKET_OUTSIDE) | WEFT__MAY_BECOME(WEFT__TICKET_AT_GATE) |
                             WEFT__MAY_BECOME(WEFT__TICKET_WAITS) | WEFT__MAY_BECOME(WEFT__TICKET_PROPOSED) |
                             WEFT__MAY_BECOME(WEFT__TICKET_FINAL),
    [WEFT__TICKET_AT_GATE] = WEFT__MAY_BECOME(WEFT__TICKET_OUTSIDE) | WEFT__MAY_BECOME(WEFT__TICKET_OPENED),
    [WEFT__TICKET_OPENED] = WEFT__MAY_BECOME(WEFT__TICKET_OUTSIDE) | WEFT__MAY_BECOME(WEFT__TICKET_FINAL),
    [WEFT__TICKET_WAITS] = WEFT__MAY_BECOME(WEFT__TICKET_OUTSIDE) | WEFT__MAY_BECOME(WEFT__TICKET_PROPOSED),
    [WEFT__TICKET_PROPOSED] = WEFT__MAY_BECOME(WEFT__TICKET_OUTSIDE) | WEFT__MAY_BECOME(WEFT__TICKET_FINAL),
    [WEFT__TICKET_FINAL] = WEFT__MAY_BECOME(WEFT__TICKET_OUTSIDE)};

struct order {
    weft__list tickets; /* by stamp */
    int finals;         /* of them */
    uint64_t clock;
};

static struct order *order_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_ORDER];
}

void weft__ticket_begin(weft__ticket *ticket)
{
    weft__list_init(&ticket->link);
    weft__list_init(&ticket->mate);
    ticket->group = NULL;
    ticket->state = WEFT__TICKET_OUTSIDE;
    ticket->raise = 0;
    ticket->alone = ticket->counted = false;
}

void weft__ticket_to(weft__ticket *ticket, weft__ticket_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(ticket_follows, ticket->state, to));
    ticket->state = to;
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

/* It is not at its gate any more, or promised to be late. */
static void is_answered(weft__ticket *ticket)
{
    if (ticket->raise) ticket->group->asks_order = false;
    ticket->raise = 0;
}

static void leave_list(weft_context *ctx, weft__ticket *ticket)
{
    is_answered(ticket);
    if (ticket->counted) order_of(ctx)->finals--;
    ticket->counted = false;
    weft__list_remove(&ticket->link);
}

/* What was final stays so, as all others issue it. */
static void take_out(weft_context *ctx, weft__ticket *ticket)
{
    leave_list(ctx, ticket);
    if (ticket->state != WEFT__TICKET_FINAL) weft__ticket_to(ticket, WEFT__TICKET_OUTSIDE);
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

static void see(weft_context *ctx, uint64_t stamp)
{
    if (order_of(ctx)->clock < stamp) order_of(ctx)->clock = stamp;
}

/* Its stamp can only grow. */
static void place(weft_context *ctx, weft__ticket *ticket, uint64_t stamp)
{
    WEFT__ASSERT(ticket->state != WEFT__TICKET_FINAL && stamp >= ticket->stamp, stamp, ticket->stamp);
    WEFT__ASSERT_HOT(weft__list_has(&order_of(ctx)->tickets, &ticket->link));
    weft__list_remove(&ticket->link);
    ticket->stamp = stamp;
    insert(ctx, ticket);
}

static void fail_ticket(weft_context *ctx, weft__ticket *ticket, weft_status status, const char *why)
{
    take_out(ctx, ticket);
    ticket->refuse(ticket, status, why);
}

/* ERR_MEMORY: the ticket has failed for it, as others would wait for the word, or behind who does. */
static weft_status tell(weft_context *ctx, weft__ticket *ticket, int to, int type, const word *w)
{
    char text[WEFT__SENTENCE_BYTES];
    weft_status status = weft__p2p_control(ctx->p2p, to, type, w, sizeof *w);
    if (status != WEFT_ERR_MEMORY) return status;
    snprintf(text, sizeof text, "rank %d: %.900s", ctx->rank, weft_last_error());
    fail_ticket(ctx, ticket, status, text);
    return status;
}

/* ---- what is at its gate lets others pass ---- */

/* It is at its gate, its group does not ask already, and somebody may not have begun it yet. */
static bool may_ask(const weft__ticket *ticket)
{
    return ticket->state == WEFT__TICKET_AT_GATE && !ticket->group->asks_order &&
           ticket->last > ticket->group->order_met;
}

/* The first of these that stands before something final; NULL: none. */
static weft__ticket *next_to_ask(const weft_context *ctx)
{
    weft__ticket *found = NULL;
    if (!order_of(ctx)->finals) return NULL;
    WEFT__LIST_EACH(&order_of(ctx)->tickets, at)
    {
        weft__ticket *ticket = WEFT__LIST_ENTRY(at, weft__ticket, link);
        if (found && ticket->state == WEFT__TICKET_FINAL) return found;
        if (!found && may_ask(ticket)) found = ticket;
    }
    return NULL;
}

/* One of that group from `number` on which is at its gate before that stamp; NULL: none. */
static weft__ticket *next_to_place(const weft_context *ctx, const weft_group *group, uint64_t number,
                                   uint64_t stamp)
{
    WEFT__LIST_EACH(&order_of(ctx)->tickets, at)
    {
        weft__ticket *ticket = WEFT__LIST_ENTRY(at, weft__ticket, link);
        if (ticket->stamp >= stamp) return NULL;
        if ((ticket->state == WEFT__TICKET_AT_GATE || ticket->state == WEFT__TICKET_OPENED) &&
            ticket->group == group && ticket->key.number >= number)
            return ticket;
    }
    return NULL;
}

/* What that group begins from `number` on gets no less, as is known of it. */
static void lift(weft_context *ctx, weft_group *group, uint64_t number, uint64_t stamp)
{
    weft__ticket *ticket;
    if (group->order_promised < stamp) group->order_promised = stamp;
    while ((ticket = next_to_place(ctx, group, number, stamp)) != NULL) place(ctx, ticket, stamp);
}

/* On this host that is seen without a word. */
static bool shows_that_it_has_begun(const weft__ticket *ticket, int member)
{
    weft__row row;
    return weft__group_shown(ticket->group, member, &row) && atomic_load(&row.submitted) >= ticket->last;
}

/* In the words that all members share.  In one order with what each of them does in show_begun.  True: one has not begun it. */
static bool look_who_is_late(weft__ticket *ticket, uint64_t stamp)
{
    weft_group *group = ticket->group;
    weft__member_slots *const *slots = group->shm_coll.slots;
    bool late = false;
    if (atomic_load(&slots[group->rank]->floor) < stamp) atomic_store(&slots[group->rank]->floor, stamp);
    for (int i = 0; i < group->size && !late; i++)
        late = i != group->rank && atomic_load(&slots[i]->begun) < ticket->last;
    if (late)
        lift(group->ctx, group, ticket->key.number, stamp);
    else if (group->order_met < ticket->last)
        group->order_met = ticket->last;
    return late;
}

static void show_begun(weft_group *group, uint64_t number)
{
    weft__member_slots *const *slots = group->shm_coll.slots;
    if (!slots) return;
    atomic_store(&slots[group->rank]->begun, number);
    for (int i = 0; i < group->size; i++) {
        const uint64_t floor = i == group->rank ? 0 : atomic_load(&slots[i]->floor);
        if (group->order_floor < floor) group->order_floor = floor;
    }
}

/* Not those that are gone, of which its group hears otherwise.  If there is nobody to ask, nobody has to be waited for. */
static void ask_by_messages(weft_context *ctx, weft__ticket *ticket, uint64_t stamp)
{
    const word w = {.key = ticket->key, .last = ticket->last, .length = ticket->length, .stamp = stamp};
    weft_group *group = ticket->group;
    bool asks = false;
    weft__group_ref(group); /* it may break meanwhile, which ends the ticket's request */
    group->asks_order = true;
    for (int i = 0; i < group->size && atomic_load(&group->state) != WEFT__BROKEN; i++) {
        const int to = group->world[i];
        if (to == ctx->rank || weft__is_gone(&ctx->peers[to]) || shows_that_it_has_begun(ticket, i)) continue;
        asks = tell(ctx, ticket, to, WEFT__MESSAGE_RAISE, &w) == WEFT_OK || asks;
    }
    group->asks_order = asks && atomic_load(&group->state) != WEFT__BROKEN;
    if (group->asks_order)
        ticket->raise = stamp;
    else
        group->order_met = w.last;
    weft__group_unref(group);
}

/* True: some need not be waited for any more. */
static bool let_pass(weft_context *ctx)
{
    weft__ticket *ticket;
    bool passed = false;
    while ((ticket = next_to_ask(ctx)) != NULL) {
        const uint64_t stamp = order_of(ctx)->clock + RAISE_AHEAD;
        if (ticket->group->shm_coll.slots)
            passed = look_who_is_late(ticket, stamp) || passed;
        else
            ask_by_messages(ctx, ticket, stamp);
    }
    return passed;
}

/* Another rank asks.  Of a group that is not there yet, or not any more, this one begins nothing before it has seen that
 * stamp. */
static void promise(weft_context *ctx, int peer, word *w)
{
    weft_group *group = weft__group_find(ctx, w->key.group);
    const bool begun = group && w->last <= group->started;
    if (!group)
        see(ctx, w->stamp);
    else if (weft__group_member(group, peer) < 0)
        weft__peer_refused(ctx, peer, "it asks about the place of an operation of a group that it is not in");
    else if (!begun && group->order_floor < w->stamp)
        group->order_floor = w->stamp;
    if (!begun) weft__p2p_control(ctx->p2p, peer, WEFT__MESSAGE_RAISED, w, sizeof *w);
    if (group) weft__group_unref(group);
}

/* A member that has yet to propose for that ticket, and so for all that the group begins after it, will propose no less. */
static void is_promised(weft_context *ctx, weft__ticket *ticket, uint64_t stamp)
{
    if (ticket->state != WEFT__TICKET_AT_GATE || ticket->raise != stamp) return;
    is_answered(ticket);
    lift(ctx, ticket->group, ticket->key.number, stamp);
}

/* All at the head whose stamp is agreed. */
static void call_turns(weft_context *ctx)
{
    do {
        while (!weft__list_empty(&order_of(ctx)->tickets)) {
            weft__ticket *ticket = WEFT__LIST_ENTRY(order_of(ctx)->tickets.next, weft__ticket, link);
            if (ticket->state != WEFT__TICKET_FINAL) break;
            leave_list(ctx, ticket);
            ticket->go(ticket);
        }
    } while (let_pass(ctx));
}

/* ---- those of a group keep their order ---- */

void weft__order_begin(weft_group *group, weft__ticket *ticket)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    ticket->group = group;
    if (weft__list_empty(&ticket->mate)) weft__list_append(&group->unplaced, &ticket->mate);
}

/* The first of these that can move up: it waits to enter, behind such as have, or its gate has opened and it is the first.  NULL:
 * none. */
static weft__ticket *next_to_move_up(const weft_group *group)
{
    if (atomic_load(&group->state) == WEFT__BROKEN) return NULL;
    WEFT__LIST_EACH(&group->unplaced, at)
    {
        weft__ticket *ticket = WEFT__LIST_ENTRY(at, weft__ticket, mate);
        if (ticket->state == WEFT__TICKET_WAITS) return ticket;
        if (ticket->state == WEFT__TICKET_OPENED && at == group->unplaced.next) return ticket;
        if (ticket->state != WEFT__TICKET_PROPOSED) return NULL;
    }
    return NULL;
}

static void make_final(weft_context *ctx, weft__ticket *ticket, uint64_t stamp)
{
    const bool of_group = !weft__list_empty(&ticket->mate);
    weft__list_remove(&ticket->mate);
    see(ctx, stamp);
    is_answered(ticket);
    place(ctx, ticket, stamp);
    weft__ticket_to(ticket, WEFT__TICKET_FINAL);
    ticket->counted = true;
    order_of(ctx)->finals++;
    if (!of_group) return;
    ticket->group->order_last = stamp;
    lift(ctx, ticket->group, ticket->key.number + 1,
         stamp + 1); /* what is behind it in its group gets more */
}

uint64_t weft__order_arrive(weft_group *group, weft__ticket *ticket, uint64_t number)
{
    weft_context *ctx = group->ctx;
    uint64_t stamp = order_of(ctx)->clock + 1, at;
    WEFT__ASSERT(weft__holds_engine(ctx));
    show_begun(group, number);
    if (stamp < group->order_floor) stamp = group->order_floor;
    see(ctx, stamp);
    /* It gets no less than that; but what begins again may be before those that others have promised. */
    at = ticket->state == WEFT__TICKET_OUTSIDE && ticket->mate.next == &group->unplaced &&
                 stamp < group->order_promised
             ? group->order_promised
             : stamp;
    if (ticket->state == WEFT__TICKET_OUTSIDE) {
        ticket->group = group;
        ticket->stamp = at;
        ticket->raise = 0;
        weft__ticket_to(ticket, WEFT__TICKET_AT_GATE);
        insert(ctx, ticket);
    } else if (at > ticket->stamp) {
        place(ctx, ticket, at);
    }
    ticket->last = number;
    return stamp;
}

void weft__order_refuse(weft_context *ctx, weft__ticket *ticket, int peer, uint32_t length)
{
    char who[192], text[400];
    weft__peer_name(ctx, peer, who, sizeof who);
    snprintf(text, sizeof text,
             "from operation #%llu on this rank issues %u together, %s issues %u: all ranks batch the same "
             "collectives",
             (unsigned long long)ticket->key.number, ticket->length, who, length);
    fail_ticket(ctx, ticket, WEFT_ERR_MISMATCH, text);
}

/* First rank: one more has proposed.  False: the ticket is gone. */
static bool count(weft_context *ctx, weft__ticket *ticket, int peer, const word *w)
{
    word final = {.key = ticket->key, .length = ticket->length};
    if (w->length != ticket->length) {
        weft__order_refuse(ctx, ticket, peer, w->length);
        return false;
    }
    if (ticket->most < w->stamp) ticket->most = w->stamp;
    if (--ticket->missing) return true;
    final.stamp = ticket->most;
    for (int i = 1; i < ticket->size; i++)
        if (tell(ctx, ticket, ticket->world[i], WEFT__MESSAGE_FINAL, &final) == WEFT_ERR_MEMORY) return false;
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

static void propose(weft_context *ctx, weft__ticket *ticket)
{
    word mine = {.key = ticket->key, .stamp = ++order_of(ctx)->clock, .length = ticket->length};
    ticket->stamp = ticket->most = mine.stamp;
    weft__ticket_to(ticket, WEFT__TICKET_PROPOSED);
    ticket->missing = ticket->size - 1;
    insert(ctx, ticket);
    if (ticket->world[0] == ctx->rank)
        count_early(ctx, ticket);
    else
        tell(ctx, ticket, ticket->world[0], WEFT__MESSAGE_PROPOSE, &mine);
}

/* The largest that its gate has told, or one beyond what its group had last: all members find the same. */
static void place_opened(weft_context *ctx, weft__ticket *ticket)
{
    weft_group *group = ticket->group;
    const uint64_t stamp = ticket->most > group->order_last ? ticket->most : group->order_last + 1;
    if (WEFT__UNLIKELY(stamp < ticket->stamp)) {
        fail_ticket(ctx, ticket, WEFT_ERR_SYSTEM,
                    "a rank has promised a later place in the order of operations than it has proposed");
        return;
    }
    make_final(ctx, ticket, stamp);
}

/* Those of the group that need not wait for others of it any more. */
static void move_up(weft_context *ctx, weft_group *group)
{
    weft__ticket *ticket;
    weft__group_ref(group); /* one that is refused breaks it, which may settle its last request */
    while ((ticket = next_to_move_up(group)) != NULL) {
        if (ticket->state == WEFT__TICKET_OPENED)
            place_opened(ctx, ticket);
        else
            propose(ctx, ticket);
    }
    weft__group_unref(group);
}

void weft__order_opened(weft_context *ctx, weft__ticket *ticket, uint64_t stamp)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    is_answered(ticket);
    ticket->most = stamp;
    weft__ticket_to(ticket, WEFT__TICKET_OPENED);
    if (ticket->group->order_met < ticket->last) ticket->group->order_met = ticket->last;
    move_up(ctx, ticket->group);
    call_turns(ctx);
}

void weft__order_enter(weft_context *ctx, weft__ticket *ticket)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    leave_list(ctx, ticket);
    if (ticket->size == 1) { /* no other rank has it in any order */
        weft__ticket_to(ticket, WEFT__TICKET_FINAL);
        ticket->go(ticket);
    } else if (weft__list_empty(&ticket->mate)) {
        propose(ctx, ticket);
    } else {
        weft__ticket_to(ticket, WEFT__TICKET_WAITS);
        move_up(ctx, ticket->group);
    }
    call_turns(ctx);
}

const weft__ticket *weft__order_before(const weft_context *ctx, const weft__ticket *ticket)
{
    const weft__ticket *before = NULL;
    if (ticket->state == WEFT__TICKET_OPENED && ticket->mate.prev != &ticket->group->unplaced)
        return WEFT__LIST_ENTRY(ticket->group->unplaced.next, weft__ticket, mate);
    WEFT__LIST_EACH(&order_of(ctx)->tickets, at)
    {
        const weft__ticket *t = WEFT__LIST_ENTRY(at, weft__ticket, link);
        if (t == ticket) return before;
        if (!before && t->state != WEFT__TICKET_FINAL) before = t;
    }
    return NULL;
}

void weft__order_unplaced(weft_context *ctx, weft__ticket *ticket)
{
    WEFT__ASSERT(weft__holds_engine(ctx));
    take_out(ctx, ticket);
    call_turns(ctx);
}

void weft__order_leave(weft_context *ctx, weft__ticket *ticket)
{
    const bool of_group = !weft__list_empty(&ticket->mate);
    WEFT__ASSERT(weft__holds_engine(ctx));
    take_out(ctx, ticket);
    if (of_group) {
        weft__list_remove(&ticket->mate);
        move_up(ctx, ticket->group);
    }
    call_turns(ctx);
}

static void take_word(weft_context *ctx, weft__ticket *ticket, int peer, int type, const word *w)
{
    const bool proposed = ticket->state == WEFT__TICKET_PROPOSED;
    if (type == WEFT__MESSAGE_RAISED)
        is_promised(ctx, ticket, w->stamp);
    else if (type == WEFT__MESSAGE_PROPOSE && ticket->world[0] == ctx->rank && proposed)
        count(ctx, ticket, peer, w);
    else if (type == WEFT__MESSAGE_FINAL && ticket->world[0] == peer && proposed && w->stamp >= ticket->stamp)
        make_final(ctx, ticket, w->stamp);
}

/* What becomes final by it, or is refused, may have others of its group behind it. */
static void heed(weft_context *ctx, weft__ticket *ticket, int peer, int type, const word *w)
{
    const bool of_group = !weft__list_empty(&ticket->mate);
    weft_group *group = ticket->group;
    if (of_group) weft__group_ref(group);
    take_word(ctx, ticket, peer, type, w);
    if (!of_group) return;
    move_up(ctx, group);
    weft__group_unref(group);
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
    if (type == WEFT__MESSAGE_RAISE) {
        promise(ctx, peer, &w);
        return;
    }
    ticket = order_find(ctx, &w.key);
    if (ticket && !takes_part(ticket, peer))
        weft__peer_refused(ctx, peer, "it takes no part in the operation whose place it tells");
    else if (type == WEFT__MESSAGE_PROPOSE && (!ticket || ticket->state == WEFT__TICKET_AT_GATE))
        weft__early_keep(ctx, w.key.group, type, peer, &w, sizeof w); /* its gate has yet to open here */
    else if (ticket)
        heed(ctx, ticket, peer, type, &w);
    call_turns(ctx);
}

static weft_status open_order(weft_context *ctx)
{
    struct order *order = ctx->protocol_state[WEFT__PROTOCOL_ORDER] = calloc(1, sizeof *order);
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
                                             .last = WEFT__MESSAGE_RAISED,
                                             .open = open_order,
                                             .close = close_order,
                                             .message = order_message};
