/* device_bundle.c - messages of a batch that devices get in one call.
 *
 * A set is what one batch sends to one rank; what of a set goes together is told by the receiver, which alone
 * knows what has met:
 *
 *   SENT_TOGETHER  to the receiver, behind the last of a set: all of it has come
 *   GO_TOGETHER    to the sender: these of a set go together, in this order, under one ticket
 *
 * What has met is named once the last of its set has come; but while the receiver begins a batch itself, at the
 * end of that.  What meets later is named then, by itself if it is alone.  So what has met waits for nothing
 * that a program still has to do: only for words under way, for the communicator, and for the order.
 * What has met of a larger set could not wait for the rest: the two programs may cut their batches
 * differently, and each wait for a message that the other one sends in its next.
 *
 * A sender may take back what it has not heard to be met, and does so when its group breaks.  What was named
 * with it gathers again on both sides, and the receiver names what is left; for a sender does not enter before
 * it has heard that all have met.
 * Fails: with the messages. */
#include "device_bundle.h"
#include "engine.h"
#include "group.h"
#include "peer.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

#define TOGETHER_MOST 128 /* messages in one call: half of what a stream takes, with a mark for each */
#define IDS           0x3fffffffu /* of sets, from 1 on, again and again: what is left beside the other bits */

typedef struct set_word { /* what goes to another rank */
    uint32_t id;
    uint32_t memory; /* GO_TOGETHER: whose module carries them out; */
    uint64_t group;
    uint64_t numbers[TOGETHER_MOST]; /* the senders' numbers, as many as came */
} set_word;

#define WORD_BYTES offsetof(set_word, numbers)

struct bundles {
    weft__list sent; /* GATHERS: sends, in the order of beginning, */
    weft__list met;  /* and receives, in that of meeting */
    unsigned starts; /* batches of which more follows under this hold of the engine, one in each memory */
};

/* What may follow on each state. */
static const uint8_t bundle_follows[] = {
    [WEFT__BUNDLE_NONE] = WEFT__MAY_BECOME(WEFT__BUNDLE_NONE) | WEFT__MAY_BECOME(WEFT__BUNDLE_GATHERS),
    [WEFT__BUNDLE_GATHERS] = WEFT__MAY_BECOME(WEFT__BUNDLE_NAMED) | WEFT__MAY_BECOME(WEFT__BUNDLE_NONE),
    [WEFT__BUNDLE_NAMED] = WEFT__MAY_BECOME(WEFT__BUNDLE_NONE) | WEFT__MAY_BECOME(WEFT__BUNDLE_GATHERS)};

static void bundle_to(weft__device *d, weft__bundle_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(bundle_follows, d->bundle.state, to), d->bundle.state, to);
    d->bundle.state = to;
}

static struct bundles *bundles_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_BUNDLES];
}

static weft__device *at_link(weft__list *at)
{
    return WEFT__LIST_ENTRY(at, weft__device, bundle.link);
}

static bool receives(const weft__device *d)
{
    return weft__kind_way(d->req->op.kind) == WEFT__RECEIVES;
}

/* ---- sets ---- */

static void join_set(weft__device *first, weft__device *d)
{
    const weft_request *req = d->req;
    weft__device *set = first->bundle.sets;
    if (weft__kind_way(req->op.kind) != WEFT__SENDS || req->op.peer == req->group->rank) return;
    while (set && set->req->op.peer != req->op.peer) set = set->bundle.next;
    if (!set) {
        set = d;
        set->bundle.next = first->bundle.sets;
        first->bundle.sets = set;
    }
    d->bundle.set = set;
    set->bundle.sends++;
    set->bundle.unsent++;
}

void weft__bundle_follow(weft__device *first, weft__device *d)
{
    if (!first->bundle.first) {
        first->bundle.first = first;
        first->bundle.unstarted = 1;
        join_set(first, first);
    }
    d->bundle.first = first;
    first->bundle.unstarted++;
    join_set(first, d);
}

static void gather(weft__device *d)
{
    struct bundles *bundles = bundles_of(d->req->ctx);
    bundle_to(d, WEFT__BUNDLE_GATHERS);
    weft__list_append(receives(d) ? &bundles->met : &bundles->sent, &d->bundle.link);
}

/* ---- naming: the receiver ---- */

static uint32_t set_id(const weft__device *d)
{
    return (receives(d) ? d->req->recv_result.said : d->match.says) >> WEFT__SAYS_SET & IDS;
}

/* The latest ids are above, around the end too. */
static bool has_come(const weft__device *receive)
{
    const weft__recv_result *got = &receive->req->recv_result;
    uint32_t behind = receive->req->ctx->peers[got->peer].sent_together - set_id(receive);
    return (behind & IDS) <= IDS / 2;
}

static bool of_one_set(const weft__device *a, const weft__device *b)
{
    const weft__recv_result *x = &a->req->recv_result, *y = &b->req->recv_result;
    return a->req->group == b->req->group && a->module == b->module && x->peer == y->peer &&
           x->said == y->said;
}

static void fuse(weft__device *first, weft__device *d)
{
    weft__list_remove(&d->bundle.link);
    bundle_to(d, WEFT__BUNDLE_NAMED);
    d->fused = first;
    if (d != first) first->last->next = d;
    first->last = d;
}

/* With the first of them that has met. */
static void name(weft_context *ctx, weft__device *first)
{
    set_word w = {.id = set_id(first),
                  .memory = weft__module_memory(ctx, first->module),
                  .group = first->req->group->id};
    size_t n = 0;
    WEFT__LIST_EACH(&bundles_of(ctx)->met, at)
    {
        weft__device *d = at_link(at);
        if (n == TOGETHER_MOST || !of_one_set(first, d)) continue;
        w.numbers[n++] = d->req->recv_result.number;
        fuse(first, d);
    }
    WEFT__ASSERT(first->bundle.state == WEFT__BUNDLE_NAMED, n);
    weft__p2p_control(ctx->p2p, first->req->recv_result.peer, WEFT__MESSAGE_GO_TOGETHER, &w,
                      WORD_BYTES + n * sizeof w.numbers[0]);
    weft__device_pair_enter(first);
}

static weft__device *next_to_name(weft_context *ctx)
{
    WEFT__LIST_EACH(&bundles_of(ctx)->met, at)
    {
        if (has_come(at_link(at))) return at_link(at);
    }
    return NULL;
}

void weft__bundle_name(weft_context *ctx)
{
    weft__device *first;
    /* Always the first again: entering one may end others. */
    while (!bundles_of(ctx)->starts && (first = next_to_name(ctx)) != NULL) name(ctx, first);
}

/* ---- beginning ---- */

/* Each receiver's have numbers of their own: what it can tell apart is the order of those under way to it. */
static uint32_t new_id(weft__peer *to)
{
    to->sets_sent = (to->sets_sent + 1) & IDS;
    if (!to->sets_sent) to->sets_sent = 1;
    return to->sets_sent;
}

weft__bundle_start weft__bundle_begin(weft__device *d)
{
    struct bundles *bundles = bundles_of(d->req->ctx);
    weft__device *first = d->bundle.first, *set = d->bundle.set;
    weft__bundle_start start = {.ends_batch = false};
    int to;
    WEFT__ASSERT(weft__holds_engine(d->req->ctx) && d->bundle.state == WEFT__BUNDLE_NONE);
    if (!first) return start;
    if (d == first) bundles->starts++;
    WEFT__ASSERT(bundles->starts > 0 && first->bundle.unstarted > 0, bundles->starts,
                 first->bundle.unstarted);
    start.ends_batch = --first->bundle.unstarted == 0;
    if (!set || set->bundle.sends == 1) return start;
    to = d->req->group->world[d->req->op.peer];
    if (d == set) d->bundle.id = new_id(&d->req->ctx->peers[to]);
    d->match.says = set->bundle.id << WEFT__SAYS_SET;
    gather(d);
    if (--set->bundle.unsent) return start;
    start.ends_id = set->bundle.id;
    start.to = to;
    return start;
}

void weft__bundle_begun(weft_context *ctx, const weft__bundle_start *start)
{
    set_word w = {.id = start->ends_id};
    if (w.id) weft__p2p_control(ctx->p2p, start->to, WEFT__MESSAGE_SENT_TOGETHER, &w, WORD_BYTES);
    if (!start->ends_batch) return;
    bundles_of(ctx)->starts--;
    weft__bundle_name(ctx);
}

/* ---- going, and not ---- */

/* The sender may be told what goes together before it has heard of the last that it has met. */
static void enter_if_met(weft__device *first)
{
    for (const weft__device *d = first; d; d = d->next)
        if (d->match.out.state != WEFT__HALF_MET) return;
    weft__device_pair_enter(first);
}

bool weft__bundle_met(weft__device *d)
{
    weft_context *ctx = d->req->ctx;
    if (receives(d) && set_id(d)) {
        gather(d);
        weft__bundle_name(ctx);
        return true;
    }
    if (d->bundle.state == WEFT__BUNDLE_NONE) return false;
    if (d->bundle.state == WEFT__BUNDLE_NAMED) enter_if_met(d->fused);
    return true;
}

void weft__bundle_part(weft__device *first)
{
    weft_context *ctx = first->req->ctx;
    for (weft__device *d = first, *next; d; d = next) {
        next = d->next;
        d->fused = d->last = d;
        d->next = NULL;
        if (d->bundle.state == WEFT__BUNDLE_NAMED) gather(d);
    }
    weft__order_leave(ctx, &first->ticket);
}

void weft__bundle_leave(weft__device *d)
{
    WEFT__ASSERT(weft__holds_engine(d->req->ctx) && !d->handed);
    if (d->bundle.state == WEFT__BUNDLE_NAMED) weft__bundle_part(d->fused);
    if (d->bundle.state == WEFT__BUNDLE_GATHERS) weft__list_remove(&d->bundle.link);
    bundle_to(d, WEFT__BUNDLE_NONE);
}

void weft__bundle_gone(weft__device *d)
{
    bundle_to(d, WEFT__BUNDLE_NONE);
}

/* ---- what comes in ---- */

static weft__device *find_sent(weft_context *ctx, int peer, const set_word *w, uint64_t number)
{
    WEFT__LIST_EACH(&bundles_of(ctx)->sent, at)
    {
        weft__device *d = at_link(at);
        const weft_request *req = d->req;
        if (req->sequence == number && req->group->id == w->group && set_id(d) == w->id &&
            req->group->world[req->op.peer] == peer && weft__module_memory(ctx, d->module) == w->memory)
            return d;
    }
    return NULL;
}

/* What is not found has been taken back meanwhile, and its receiver will name the others once more. */
static void take_names(weft_context *ctx, int peer, const set_word *w, size_t n)
{
    weft__device *first = NULL;
    bool complete = true;
    for (size_t i = 0; i < n; i++) {
        weft__device *d = find_sent(ctx, peer, w, w->numbers[i]);
        complete = complete && d;
        if (!d) continue;
        if (!first) first = d;
        fuse(first, d);
    }
    if (complete)
        enter_if_met(first);
    else if (first)
        weft__bundle_part(first);
}

static void bundles_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    size_t n = length < WORD_BYTES ? 0 : (length - WORD_BYTES) / sizeof(uint64_t);
    bool sent = type == WEFT__MESSAGE_SENT_TOGETHER;
    set_word w;
    if (length >= WORD_BYTES && length <= sizeof w) memcpy(&w, bytes, length);
    if (length < WORD_BYTES || length > sizeof w || length != WORD_BYTES + n * sizeof(uint64_t) ||
        (n == 0) != sent || !w.id || w.id > IDS) {
        weft__peer_refused(ctx, peer, "a word about messages that go together is none that can be");
        return;
    }
    if (!sent) {
        take_names(ctx, peer, &w, n);
        return;
    }
    /* Ids go round; sets of two kinds of memory may end in another order than they began. */
    if (((w.id - ctx->peers[peer].sent_together) & IDS) <= IDS / 2) ctx->peers[peer].sent_together = w.id;
    weft__bundle_name(ctx);
}

static weft_status open_bundles(weft_context *ctx)
{
    struct bundles *bundles = calloc(1, sizeof *bundles);
    ctx->protocol_state[WEFT__PROTOCOL_BUNDLES] = bundles;
    if (!bundles) return weft__fail_memory(sizeof *bundles, "a context");
    weft__list_init(&bundles->sent);
    weft__list_init(&bundles->met);
    return WEFT_OK;
}

static void close_bundles(weft_context *ctx)
{
    free(bundles_of(ctx));
}

const weft__protocol weft__bundles_protocol = {.name = "bundles",
                                               .first = WEFT__MESSAGE_SENT_TOGETHER,
                                               .last = WEFT__MESSAGE_GO_TOGETHER,
                                               .open = open_bundles,
                                               .close = close_bundles,
                                               .message = bundles_message};
