/* comm.c - communicators: begun when something first needs them, known to all members by an id that the first
 * of them makes, given up when they fail or their group is gone.
 *
 * A module answers from threads of its own at any time, so the record it answers to stays until the context
 * ends, as small as it is.
 * Fails: a group's communicator that is not made breaks the group; a pair's refuses the pair's messages. */
#include "comm.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "peer.h"
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CAUSE_NS       (1000 * WEFT__MS) /* for another rank's word of why joining fails */
#define CAUSE_PAUSE_NS (2 * WEFT__MS)

typedef struct word { /* what goes to another rank */
    uint64_t id;      /* of the group */
    uint32_t memory;  /* whose module it is of */
    uint32_t pair;    /* that of two ranks */
    uint32_t doomed;  /* do not use it any more; else here is its id */
    uint32_t length;  /* of that id, which follows */
} word;

typedef struct named_word {
    word w;
    unsigned char id[WEFT_BACKEND_ID_MOST];
} named_word;

/* What may follow on each state; an id that comes late finds the module through with joining. */
static const uint8_t link_follows[] = {[WEFT__LINK_NAMING] = WEFT__MAY_BECOME(WEFT__LINK_JOINING) |
                                                             WEFT__MAY_BECOME(WEFT__LINK_READY) |
                                                             WEFT__MAY_BECOME(WEFT__LINK_DOOMED),
                                       [WEFT__LINK_JOINING] = WEFT__MAY_BECOME(WEFT__LINK_READY) |
                                                              WEFT__MAY_BECOME(WEFT__LINK_DOOMED),
                                       [WEFT__LINK_READY] = WEFT__MAY_BECOME(WEFT__LINK_DOOMED),
                                       [WEFT__LINK_DOOMED] = 0};

/* Engine held. */
static void link_to(weft__link *link, weft__link_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(link_follows, link->state, to));
    link->state = to;
}

static weft__list *links_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_DEVICE_COMMS];
}

/* Is it the communicator of a group, or (other >= 0) of this rank and another in it? */
static bool is_that(const weft__link *link, const weft__module *module, uint64_t id, int other)
{
    if (link->module != module || link->id != id || link->is_pair != (other >= 0)) return false;
    return other < 0 || link->pair[1 - link->rank] == other;
}

static weft__link *find(weft_context *ctx, const weft__module *module, uint64_t id, int other)
{
    WEFT__LIST_EACH(links_of(ctx), at)
    {
        weft__link *link = WEFT__LIST_ENTRY(at, weft__link, link);
        if (link->group && is_that(link, module, id, other)) return link;
    }
    return NULL;
}

/* w: with its id behind it. */
static void tell(const weft__link *link, word *w)
{
    weft_context *ctx = link->ctx;
    w->id = link->id;
    w->memory = weft__module_memory(ctx, link->module);
    w->pair = link->is_pair;
    for (int i = 0; i < link->size; i++)
        if (i != link->rank && !atomic_load(&ctx->peers[link->world[i]].gone))
            weft__p2p_control(ctx->p2p, link->world[i], WEFT__MESSAGE_COMM, w, sizeof *w + w->length);
}

static void join(weft__link *link, const void *id)
{
    link_to(link, WEFT__LINK_JOINING);
    link->module->backend->join(link->comm, id);
}

/* ---- making ---- */

static bool comms_take_early(void *arg, int peer, const void *bytes)
{
    weft__link *link = arg;
    word w;
    memcpy(&w, bytes, sizeof w);
    if (!is_that(link, weft__module_for(link->ctx, (weft_memory)w.memory), w.id, w.pair ? peer : -1))
        return false;
    if (w.doomed)
        weft__link_doom(link, WEFT_ERR_BROKEN, "given up by the other rank");
    else if (peer == link->world[0] && link->state == WEFT__LINK_NAMING)
        join(link, (const unsigned char *)bytes + sizeof w);
    return true;
}

/* Its world, rank and size are set.  named: its members meet by an id. */
static void begin(weft__link *link, const char *label, bool named)
{
    weft_context *ctx = link->ctx;
    weft_backend *backend = link->module->backend;
    weft__list_init(&link->waiting);
    weft__list_append(links_of(ctx), &link->link);
    if (!named) link_to(link, WEFT__LINK_JOINING);
    link->comm = backend->open(backend, link, link->rank, link->size, label, named && link->rank == 0);
    if (!link->comm)
        weft__link_doom(link, WEFT_ERR_MEMORY, weft_last_error());
    else if (named)
        weft__early_offer(ctx, link->id, WEFT__MESSAGE_COMM, comms_take_early, link);
}

/* Where the group keeps that of the module. */
static weft__link **place_of(weft_group *group, const weft__module *module)
{
    return &group->links[weft__module_memory(group->ctx, module)];
}

static weft__link *make_for_group(weft_group *group, weft__module *module, bool named)
{
    weft__link *link = calloc(1, sizeof *link);
    if (!link) return NULL;
    *place_of(group, module) = link;
    link->ctx = group->ctx;
    link->module = module;
    link->id = group->id;
    link->group = group;
    link->world = group->world;
    link->rank = group->rank;
    link->size = group->size;
    begin(link, group->label, named);
    return link;
}

weft__link *weft__link_of_group(weft_group *group, weft__module *module)
{
    weft__link *link = *place_of(group, module);
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    return link ? link : make_for_group(group, module, true);
}

weft__link *weft__link_split_off(weft_group *group, weft__module *module)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx) && !*place_of(group, module));
    return make_for_group(group, module, false);
}

weft__link *weft__link_of_pair(weft_group *group, weft__module *module, int peer)
{
    weft_context *ctx = group->ctx;
    int low = peer < ctx->rank ? peer : ctx->rank, high = peer < ctx->rank ? ctx->rank : peer;
    weft__link *link = find(ctx, module, group->id, peer);
    char label[WEFT__LABEL_BYTES + 64];
    WEFT__ASSERT(weft__holds_engine(ctx) && peer != ctx->rank);
    if (link) return link;
    link = calloc(1, sizeof *link);
    if (!link) return NULL;
    link->ctx = ctx;
    link->module = module;
    link->id = group->id;
    link->group = group;
    link->is_pair = true;
    link->pair[0] = low;
    link->pair[1] = high;
    link->world = link->pair;
    link->rank = ctx->rank == high;
    link->size = 2;
    snprintf(label, sizeof label, "%s, ranks %d and %d", group->label, low, high);
    begin(link, label, true);
    return link;
}

void weft__link_await(weft__link *link, weft__ticket *ticket)
{
    if (link->state == WEFT__LINK_READY)
        weft__order_enter(link->ctx, ticket);
    else if (link->state == WEFT__LINK_DOOMED)
        ticket->refuse(ticket, link->status, link->why);
    else
        weft__list_append(&link->waiting, &ticket->link);
}

/* ---- what comes in ---- */

void weft__link_named(void *owner, const void *id)
{
    weft__link *link = owner;
    named_word told;
    told.w = (word){.length = (uint32_t)link->module->backend->id_bytes};
    WEFT__ASSERT(told.w.length <= sizeof told.id);
    memcpy(told.id, id, told.w.length);
    weft__engine_take(link->ctx);
    if (link->state == WEFT__LINK_NAMING) {
        tell(link, &told.w);
        join(link, id);
    }
    weft__engine_drop(link->ctx);
}

void weft__link_unmade(weft__link *link, weft_status status, const char *sentence)
{
    char text[WEFT__SENTENCE_BYTES], who[192];
    if (link->state == WEFT__LINK_DOOMED) return;
    if (link->is_pair) {
        snprintf(text, sizeof text, "the communicator of ranks %d and %d is not made: %.700s", link->pair[0],
                 link->pair[1], sentence);
        weft__link_doom(link, status, text);
        return;
    }
    weft__peer_name(link->ctx, link->ctx->rank, who, sizeof who);
    snprintf(text, sizeof text, "group %s: %s cannot join its communicator: %.600s", link->group->label, who,
             sentence);
    weft__group_break(link->group, &(weft__verdict){status, 0, -1, text}, true);
}

/* A rank that gives up makes the others' joining fail too, which may show here before its word of why has
 * come. */
static void await_cause(weft__link *link)
{
    const struct timespec pause = {0, CAUSE_PAUSE_NS};
    bool doomed = false;
    for (int64_t until = weft__now_ns() + CAUSE_NS; !doomed && weft__now_ns() < until;) {
        nanosleep(&pause, NULL);
        weft__engine_take(link->ctx);
        doomed = link->state == WEFT__LINK_DOOMED;
        weft__engine_drop(link->ctx);
    }
}

void weft__link_joined(void *owner, weft_status status, const char *sentence)
{
    weft__link *link = owner;
    if (status != WEFT_OK) await_cause(link); /* a thread of the module's that has nothing else to do */
    weft__engine_take(link->ctx);
    if (link->state == WEFT__LINK_JOINING || link->state == WEFT__LINK_NAMING) {
        if (status == WEFT_OK) {
            link_to(link, WEFT__LINK_READY);
            while (!weft__list_empty(&link->waiting)) {
                weft__ticket *ticket = WEFT__LIST_ENTRY(link->waiting.next, weft__ticket, link);
                weft__list_remove(&ticket->link);
                weft__order_enter(link->ctx, ticket);
            }
        } else {
            weft__link_unmade(link, status, sentence ? sentence : weft_status_text(status));
        }
    }
    weft__engine_drop(link->ctx);
}

/* Can a rank have told that?  Nobody is told not to use a group's communicator: that its group is broken says
 * so. Who uses a module has seen that this rank has it too. */
static bool can_be(weft_context *ctx, const word *w, size_t follows)
{
    const weft__module *module;
    if (w->memory >= WEFT__MEMORIES || w->pair > 1 || w->doomed > w->pair || w->length != follows)
        return false;
    module = weft__module_for(ctx, (weft_memory)w->memory);
    return module && w->length == (w->doomed ? 0 : module->backend->id_bytes);
}

static void comms_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    weft__link *link;
    char text[400], who[192];
    word w;
    (void)type;
    if (length >= sizeof w) memcpy(&w, bytes, sizeof w);
    if (length < sizeof w || !can_be(ctx, &w, length - sizeof w)) {
        weft__peer_refused(ctx, peer, "a word about a communicator is not one of those that there are");
        return;
    }
    link = find(ctx, weft__module_for(ctx, (weft_memory)w.memory), w.id, w.pair ? peer : -1);
    if (!link) {
        weft__early_keep(ctx, w.id, WEFT__MESSAGE_COMM, peer, bytes, length);
    } else if (w.doomed) {
        weft__peer_name(ctx, peer, who, sizeof who);
        snprintf(text, sizeof text, "given up by %s", who);
        weft__link_doom(link, WEFT_ERR_BROKEN, text);
    } else if (link->state == WEFT__LINK_NAMING && link->world[0] == peer && link->rank != 0) {
        join(link, (const unsigned char *)bytes + sizeof w);
    }
}

/* ---- the end ---- */

void weft__link_doom(weft__link *link, weft_status status, const char *why)
{
    word w = {.doomed = 1};
    WEFT__ASSERT(weft__holds_engine(link->ctx));
    if (link->state == WEFT__LINK_DOOMED) return;
    link_to(link, WEFT__LINK_DOOMED);
    link->status = status;
    link->why = strdup(why);
    if (link->comm) link->module->backend->doom(link->comm, why);
    if (link->is_pair && !link->ctx->aborting)
        tell(link, &w); /* of a group's all are told that it is broken */
    while (!weft__list_empty(&link->waiting)) {
        weft__ticket *ticket = WEFT__LIST_ENTRY(link->waiting.next, weft__ticket, link);
        weft__list_remove(&ticket->link);
        ticket->refuse(ticket, status, why);
    }
    if (link->is_pair) weft__device_pairs_refuse(link);
}

static void drop(weft__link *link)
{
    WEFT__ASSERT(weft__list_empty(&link->waiting));
    if (link->comm) link->module->backend->drop(link->comm);
    link->comm = NULL;
    link->group = NULL;
    link->world = NULL;
    if (link->state != WEFT__LINK_DOOMED) link_to(link, WEFT__LINK_DOOMED);
}

static void comms_group_gone(weft_group *group)
{
    WEFT__LIST_EACH(links_of(group->ctx), at)
    {
        weft__link *link = WEFT__LIST_ENTRY(at, weft__link, link);
        if (link->group == group) drop(link);
    }
    memset(group->links, 0, sizeof group->links);
}

/* One that has left has done its part of all that was under way on a communicator that was there. */
static bool outlives(const weft__link *link, int rank)
{
    return link->ctx->peers[rank].left && link->state == WEFT__LINK_READY;
}

static void comms_peer_gone(weft_context *ctx, int rank, const char *why)
{
    WEFT__LIST_EACH(links_of(ctx), at)
    {
        weft__link *link = WEFT__LIST_ENTRY(at, weft__link, link);
        if (link->group && link->is_pair && link->pair[1 - link->rank] == rank && !outlives(link, rank))
            weft__link_doom(link, WEFT_ERR_PEER, why);
    }
}

void weft__links_shut(weft_context *ctx)
{
    if (!ctx->module_count) return;
    weft__engine_take(ctx);
    WEFT__LIST_EACH(links_of(ctx), at) drop(WEFT__LIST_ENTRY(at, weft__link, link));
    weft__engine_drop(ctx);
}

weft_group *weft__link_next_used(const weft_context *ctx, const weft__module *module)
{
    WEFT__LIST_EACH(links_of(ctx), at)
    {
        const weft__link *link = WEFT__LIST_ENTRY(at, weft__link, link);
        if (link->module == module && link->group && atomic_load(&link->group->state) == WEFT__READY)
            return link->group;
    }
    return NULL;
}

static void comms_group_broken(weft_group *group)
{
    for (int i = 0; i < WEFT__MEMORIES; i++)
        if (group->links[i]) weft__link_doom(group->links[i], group->cause, group->why);
}

static weft_status open_links(weft_context *ctx)
{
    weft__list *links = malloc(sizeof *links);
    ctx->protocol_state[WEFT__PROTOCOL_DEVICE_COMMS] = links;
    if (!links) return weft__fail_memory(sizeof *links, "a context");
    weft__list_init(links);
    return WEFT_OK;
}

static void close_links(weft_context *ctx)
{
    weft__list *links = links_of(ctx);
    if (!links) return;
    WEFT__LIST_EACH(links, at)
    {
        weft__link *link = WEFT__LIST_ENTRY(at, weft__link, link);
        free(link->why);
        free(link);
    }
    free(links);
}

const weft__protocol weft__device_comms_protocol = {.name = "device communicators",
                                                    .first = WEFT__MESSAGE_COMM,
                                                    .last = WEFT__MESSAGE_COMM,
                                                    .open = open_links,
                                                    .close = close_links,
                                                    .message = comms_message,
                                                    .peer_gone = comms_peer_gone,
                                                    .group_broken = comms_group_broken,
                                                    .group_gone = comms_group_gone};
