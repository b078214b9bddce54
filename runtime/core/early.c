/* early.c - see early.h.  One list for all: few wait at a time, and only the making and the first use of
 * groups look for them. */
#include "early.h"
#include "check.h"
#include "context.h"
#include "holder.h"
#include "log.h"
#include "reserve.h"

#include <string.h>

typedef struct message {
    weft__list link; /* weft__early_messages.waiting */
    uint64_t group;
    int type, peer;
    size_t length;
    unsigned char bytes[];
} message;

static message *message_at(weft__list *link)
{
    return WEFT__LIST_ENTRY(link, message, link);
}

static bool contains(const uint64_t *ids, unsigned most, unsigned count, uint64_t id)
{
    for (unsigned i = 0; i < most && i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

static void drop(weft_context *ctx, message *m)
{
    WEFT__ASSERT(ctx->early.bytes >= sizeof *m + m->length);
    ctx->early.bytes -= sizeof *m + m->length;
    weft__list_remove(&m->link);
    weft__reserve_give(m);
}

static void note_loss(weft_context *ctx, uint64_t group, int peer)
{
    weft__early_messages *e = &ctx->early;
    weft__log(
        e->losses ? WEFT__INFO : WEFT__ERROR,
        "rank %d has no room for what rank %d told about group %llu before that was ready here: %zu bytes "
        "wait already, at most %u may; if that group is still to come, it will break",
        ctx->rank, peer, (unsigned long long)group, e->bytes, WEFT__EARLY_BYTES_MOST);
    e->lost[e->losses++ % WEFT__EARLY_LOST_MOST] = group;
}

/* The oldest make room: they are the likeliest to be for a group that is long over here. */
static message *new_message(weft_context *ctx, size_t length)
{
    weft__early_messages *e = &ctx->early;
    size_t bytes = sizeof(message) + length;
    message *m;
    if (bytes > WEFT__EARLY_BYTES_MOST) return NULL;
    while (bytes > WEFT__EARLY_BYTES_MOST - e->bytes && !weft__list_empty(&e->waiting)) {
        m = message_at(e->waiting.next);
        note_loss(ctx, m->group, m->peer);
        drop(ctx, m);
    }
    m = weft__reserve_get(bytes);
    if (!m) return NULL;
    weft__list_init(&m->link);
    m->length = length;
    e->bytes += bytes;
    weft__list_append(&e->waiting, &m->link);
    return m;
}

void weft__early_keep(weft_context *ctx, uint64_t group, int type, int peer, const void *bytes, size_t length)
{
    weft__early_messages *e = &ctx->early;
    message *m;
    WEFT__ASSERT(weft__holds_engine(ctx) && e->bytes <= WEFT__EARLY_BYTES_MOST);
    if (contains(e->over, WEFT__EARLY_OVER_MOST, e->overs, group)) return;
    m = new_message(ctx, length);
    if (!m) {
        note_loss(ctx, group, peer);
        return;
    }
    m->group = group;
    m->type = type;
    m->peer = peer;
    memcpy(m->bytes, bytes, length);
}

static message *next_of(weft__early_messages *e, uint64_t group, int type)
{
    for (weft__list *at = e->waiting.next; at != &e->waiting; at = at->next)
        /* All that is in the list is a message.  NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        if (message_at(at)->group == group && message_at(at)->type == type) return message_at(at);
    return NULL;
}

void weft__early_offer(weft_context *ctx, uint64_t group, int type,
                       bool (*take)(void *arg, int peer, const void *bytes), void *arg)
{
    weft__list left; /* those that are not taken: back in the list at the end, before what comes meanwhile */
    message *m;
    WEFT__ASSERT(weft__holds_engine(ctx));
    weft__list_init(&left);
    while ((m = next_of(&ctx->early, group, type)) != NULL) {
        weft__list_remove(&m->link); /* whoever takes it may come here again, and does not find it */
        if (take(arg, m->peer, m->bytes))
            drop(ctx, m);
        else
            weft__list_append(&left, &m->link);
    }
    while (!weft__list_empty(&left)) {
        weft__list *last = left.prev;
        weft__list_remove(last);
        weft__list_prepend(&ctx->early.waiting, last);
    }
}

void weft__early_forget(weft_context *ctx, uint64_t group)
{
    weft__early_messages *e = &ctx->early;
    WEFT__LIST_EACH(&e->waiting, at)
    {
        if (message_at(at)->group == group) drop(ctx, message_at(at));
    }
    e->over[e->overs++ % WEFT__EARLY_OVER_MOST] = group;
}

bool weft__early_has_lost(const weft_context *ctx, uint64_t group)
{
    return contains(ctx->early.lost, WEFT__EARLY_LOST_MOST, ctx->early.losses, group);
}

void weft__early_open(weft_context *ctx)
{
    weft__list_init(&ctx->early.waiting);
}

void weft__early_close(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->early.waiting, at) drop(ctx, message_at(at));
}
