/* device_comm.c - communicators: begun when something first needs them, known to all members by an id that
 * the first of them makes, given up when they fail or their group is gone.
 *
 * A module answers from threads of its own at any time, so the record that it may still answer to, or another rank may
 * still send a word about, stays until the context ends, as small as it is.  A group's that was
 * there goes with its group, unless it was split off.
 * Fails: a group's communicator that is not made breaks the group; one of two ranks refuses their messages. */
#include "device_comm.h"
#include "alarm.h"
#include "device.h"
#include "device_options.h"
#include "device_replays.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "linger.h"
#include "log.h"
#include "peer.h"
#include "program.h"
#include "protocol.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CAUSE_NS       (1000 * WEFT__MS) /* for another rank's word of why joining fails */
#define CAUSE_PAUSE_NS (2 * WEFT__MS)

typedef struct word {           /* what goes to another rank */
    uint64_t id;                /* of the group */
    uint32_t memory;            /* whose module it is of */
    uint32_t pair;              /* that of two ranks */
    uint32_t doomed;            /* do not use it any more; else here is its id */
    uint32_t length;            /* of that id, which follows */
    weft__options_told options; /* what its first rank makes it with, beside the id */
} word;

_Static_assert(sizeof(word) == 48,
               "what ranks tell each other has changed: raise WEFT__DEVICE_WORDS_VERSION");

typedef struct named_word {
    word w;
    unsigned char id[WEFT_BACKEND_ID_MOST];
} named_word;

/* What may follow on each state; an id that comes late finds the module through with joining. */
static const uint8_t device_comm_follows[] = {
    [WEFT__DEVICE_COMM_NAMING] = WEFT__MAY_BECOME(WEFT__DEVICE_COMM_JOINING) |
                                 WEFT__MAY_BECOME(WEFT__DEVICE_COMM_READY) |
                                 WEFT__MAY_BECOME(WEFT__DEVICE_COMM_DOOMED),
    [WEFT__DEVICE_COMM_JOINING] =
        WEFT__MAY_BECOME(WEFT__DEVICE_COMM_READY) | WEFT__MAY_BECOME(WEFT__DEVICE_COMM_DOOMED),
    [WEFT__DEVICE_COMM_READY] = WEFT__MAY_BECOME(WEFT__DEVICE_COMM_DOOMED),
    [WEFT__DEVICE_COMM_DOOMED] = 0};

/* Engine held. */
static void device_comm_to(weft__device_comm *dev_comm, weft__device_comm_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(device_comm_follows, dev_comm->state, to));
    dev_comm->state = to;
}

static weft__list *device_comms_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_DEVICE_COMMS];
}

/* Is it the communicator of a group, or (other >= 0) of this rank and another in it? */
static bool is_that(const weft__device_comm *dev_comm, const weft__module *module, uint64_t id, int other)
{
    if (dev_comm->module != module || dev_comm->id != id || dev_comm->is_pair != (other >= 0)) return false;
    return other < 0 || dev_comm->pair[1 - dev_comm->rank] == other;
}

static weft__device_comm *device_comm_find(weft_context *ctx, const weft__module *module, uint64_t id,
                                           int other)
{
    WEFT__LIST_EACH(device_comms_of(ctx), at)
    {
        weft__device_comm *dev_comm = WEFT__LIST_ENTRY(at, weft__device_comm, link);
        if (dev_comm->group && is_that(dev_comm, module, id, other)) return dev_comm;
    }
    return NULL;
}

/* w: with its id behind it. */
static void device_comm_tell(const weft__device_comm *dev_comm, word *w)
{
    weft_context *ctx = dev_comm->ctx;
    w->id = dev_comm->id;
    w->memory = weft__module_memory(ctx, dev_comm->module);
    w->pair = dev_comm->is_pair;
    for (int i = 0; i < dev_comm->size; i++)
        if (i != dev_comm->rank && atomic_load(&ctx->peers[dev_comm->world[i]].gone) == WEFT__LIVES)
            weft__p2p_control(ctx->p2p, dev_comm->world[i], WEFT__MESSAGE_COMM, w, sizeof *w + w->length);
}

static void device_comm_join(weft__device_comm *dev_comm, const void *id)
{
    device_comm_to(dev_comm, WEFT__DEVICE_COMM_JOINING);
    dev_comm->module->backend->join(dev_comm->comm, id);
}

/* Its first rank makes it with something else than this one would. */
static bool differs(const weft__device_comm *dev_comm, const word *w, char *text, size_t bytes)
{
    char who[192];
    weft__peer_name(dev_comm->ctx, dev_comm->world[0], who, sizeof who);
    return !weft__options_agree(dev_comm->group, &w->options, who, text, bytes);
}

/* ---- making ---- */

static bool comms_take_early(void *arg, int peer, const void *bytes)
{
    weft__device_comm *dev_comm = arg;
    char text[WEFT__SENTENCE_BYTES];
    word w;
    memcpy(&w, bytes, sizeof w);
    if (!is_that(dev_comm, weft__module_for(dev_comm->ctx, (weft_memory)w.memory), w.id, w.pair ? peer : -1))
        return false;
    if (w.doomed)
        weft__device_comm_doom(dev_comm, WEFT_ERR_BROKEN, "given up by the other rank");
    else if (peer != dev_comm->world[0] || dev_comm->state != WEFT__DEVICE_COMM_NAMING)
        return true;
    else if (differs(dev_comm, &w, text, sizeof text))
        weft__device_comm_doom(dev_comm, WEFT_ERR_MISMATCH, text); /* who begins it sees that */
    else
        device_comm_join(dev_comm, (const unsigned char *)bytes + sizeof w);
    return true;
}

/* False: no memory. */
static bool tell_members(const weft__device_comm *dev_comm)
{
    const weft__module *module = dev_comm->module;
    uint64_t *addresses;
    if (!module->backend->members) return true;
    addresses = malloc((size_t)dev_comm->size * sizeof *addresses);
    if (!addresses) return false;
    for (int i = 0; i < dev_comm->size; i++) addresses[i] = module->addresses[dev_comm->world[i]];
    module->backend->members(dev_comm->comm, addresses);
    free(addresses);
    return true;
}

static bool spans_hosts(const weft__device_comm *dev_comm)
{
    const weft__peer *peers = dev_comm->ctx->peers;
    for (int i = 1; i < dev_comm->size; i++)
        if (peers[dev_comm->world[i]].first_on_host != peers[dev_comm->world[0]].first_on_host) return true;
    return false;
}

/* Its first rank tells, for all; what is split off it later has been told of with it. */
static void tell_exposure(const weft__device_comm *dev_comm)
{
    weft__module *module = dev_comm->module;
    const char *said;
    int level = WEFT__WARN;
    if (dev_comm->rank || module->exposure_told || !dev_comm->ctx->hides || !module->backend->exposes ||
        !spans_hosts(dev_comm))
        return;
    module->exposure_told = true;
    if ((said = module->backend->exposes(module->backend, &level)))
        weft__log((enum weft__log_level)level, "%s", said);
}

/* From now on callers begin operations here. */
static void begin_by_callers(weft__device_comm *dev_comm)
{
    dev_comm->ctx->by_callers = true;
    dev_comm->module->backend->by_callers(dev_comm->comm);
}

/* Its world, rank and size are set.  named: its members meet by an id. */
static void device_comm_begin(weft__device_comm *dev_comm, const char *label, bool named)
{
    weft_context *ctx = dev_comm->ctx;
    weft_backend *backend = dev_comm->module->backend;
    dev_comm->named = named;
    weft__list_init(&dev_comm->waiting);
    weft__list_append(device_comms_of(ctx), &dev_comm->link);
    if (!named) device_comm_to(dev_comm, WEFT__DEVICE_COMM_JOINING);
    tell_exposure(dev_comm);
    if (backend->all_by_callers && ctx->world->params.program) backend->all_by_callers(backend);
    dev_comm->comm =
        backend->open(backend, dev_comm, dev_comm->rank, dev_comm->size, label, named && dev_comm->rank == 0);
    if (!dev_comm->comm)
        weft__device_comm_doom(dev_comm, WEFT_ERR_MEMORY, weft_last_error());
    else
        weft__linger(ctx, dev_comm->module);
    if (dev_comm->comm && !tell_members(dev_comm))
        weft__device_comm_doom(dev_comm, WEFT_ERR_MEMORY, "no memory for the addresses of its ranks");
    if (dev_comm->comm && !dev_comm->is_pair && weft__device_in_program(dev_comm->group, dev_comm->module))
        begin_by_callers(dev_comm);
    if (dev_comm->comm && dev_comm->group->options && backend->configure)
        backend->configure(dev_comm->comm, dev_comm->group->options);
    if (dev_comm->state < WEFT__DEVICE_COMM_READY && named)
        weft__early_offer(ctx, dev_comm->id, WEFT__MESSAGE_COMM, comms_take_early, dev_comm);
}

/* Where the group keeps that of the module. */
static weft__device_comm **place_of(weft_group *group, const weft__module *module)
{
    return &group->device_comms[weft__module_memory(group->ctx, module)];
}

static weft__device_comm *make_for_group(weft_group *group, weft__module *module, bool named)
{
    weft__device_comm *dev_comm = calloc(1, sizeof *dev_comm);
    if (!dev_comm) return NULL;
    *place_of(group, module) = dev_comm;
    dev_comm->ctx = group->ctx;
    dev_comm->module = module;
    dev_comm->id = group->id;
    dev_comm->group = group;
    dev_comm->world = group->world;
    dev_comm->rank = group->rank;
    dev_comm->size = group->size;
    device_comm_begin(dev_comm, group->label, named);
    return dev_comm;
}

weft__device_comm *weft__device_comm_of_group(weft_group *group, weft__module *module)
{
    weft__device_comm *dev_comm = *place_of(group, module);
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    return dev_comm ? dev_comm : make_for_group(group, module, true);
}

bool weft__device_comm_begun(const weft_group *group, const weft__module *module)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    WEFT__LIST_EACH(device_comms_of(group->ctx), at)
    {
        const weft__device_comm *dev_comm = WEFT__LIST_ENTRY(at, weft__device_comm, link);
        if (dev_comm->group == group && dev_comm->module == module) return true;
    }
    return false;
}

int weft__device_comm_rank(const weft__device_comm *dev_comm, int world_rank)
{
    if (dev_comm->is_pair) return world_rank == dev_comm->pair[1];
    return weft__group_member(dev_comm->group, world_rank);
}

static void drop_comm(weft__device_comm *dev_comm)
{
    if (dev_comm->comm) dev_comm->module->backend->drop(dev_comm->comm);
    dev_comm->comm = NULL;
}

weft__device_comm *weft__device_comm_split_off(weft_group *group, weft__module *module)
{
    weft__device_comm *dev_comm;
    WEFT__ASSERT(weft__holds_engine(group->ctx) && !*place_of(group, module));
    dev_comm = make_for_group(group, module, false);
    if (dev_comm) dev_comm->splits = true;
    return dev_comm;
}

void weft__device_comm_split_over(weft__device_comm *dev_comm)
{
    WEFT__ASSERT(weft__holds_engine(dev_comm->ctx));
    if (!dev_comm->splits) return;
    dev_comm->splits = false;
    if (!dev_comm->group) drop_comm(dev_comm);
}

weft__device_comm *weft__device_comm_of_pair(weft_group *group, weft__module *module, int peer)
{
    weft_context *ctx = group->ctx;
    int low = peer < ctx->rank ? peer : ctx->rank, high = peer < ctx->rank ? ctx->rank : peer;
    weft__device_comm *dev_comm = device_comm_find(ctx, module, group->id, peer);
    char label[WEFT__LABEL_BYTES + 64];
    WEFT__ASSERT(weft__holds_engine(ctx) && peer != ctx->rank);
    if (dev_comm) return dev_comm;
    dev_comm = calloc(1, sizeof *dev_comm);
    if (!dev_comm) return NULL;
    dev_comm->ctx = ctx;
    dev_comm->module = module;
    dev_comm->id = group->id;
    dev_comm->group = group;
    dev_comm->is_pair = true;
    dev_comm->pair[0] = low;
    dev_comm->pair[1] = high;
    dev_comm->world = dev_comm->pair;
    dev_comm->rank = ctx->rank == high;
    dev_comm->size = 2;
    snprintf(label, sizeof label, "%s, ranks %d and %d", group->label, low, high);
    device_comm_begin(dev_comm, label, true);
    return dev_comm;
}

/* It is there. */
static void pass_on(weft__device_comm *dev_comm, weft__ticket *ticket)
{
    if (ticket->alone)
        ticket->go(ticket);
    else
        weft__order_enter(dev_comm->ctx, ticket);
}

void weft__device_comm_await(weft__device_comm *dev_comm, weft__ticket *ticket)
{
    if (dev_comm->state == WEFT__DEVICE_COMM_READY)
        pass_on(dev_comm, ticket);
    else if (dev_comm->state == WEFT__DEVICE_COMM_DOOMED)
        ticket->refuse(ticket, dev_comm->status, dev_comm->why);
    else
        weft__list_append(&dev_comm->waiting, &ticket->link);
}

/* ---- what comes in ---- */

void weft__device_comm_named(void *owner, const void *id)
{
    weft__device_comm *dev_comm = owner;
    named_word told;
    told.w = (word){.length = (uint32_t)dev_comm->module->backend->id_bytes};
    WEFT__ASSERT(told.w.length <= sizeof told.id);
    memcpy(told.id, id, told.w.length);
    weft__engine_take(dev_comm->ctx);
    if (dev_comm->state == WEFT__DEVICE_COMM_NAMING) {
        told.w.options = weft__options_of(dev_comm->group);
        device_comm_tell(dev_comm, &told.w);
        device_comm_join(dev_comm, id);
    }
    weft__engine_drop(dev_comm->ctx);
}

void weft__device_comm_unmade(weft__device_comm *dev_comm, weft_status status, const char *sentence)
{
    char text[WEFT__SENTENCE_BYTES], who[192];
    if (dev_comm->state == WEFT__DEVICE_COMM_DOOMED) return;
    if (dev_comm->is_pair) {
        snprintf(text, sizeof text, "the communicator of ranks %d and %d is not made: %.700s",
                 dev_comm->pair[0], dev_comm->pair[1], sentence);
        weft__device_comm_doom(dev_comm, status, text);
        return;
    }
    weft__peer_name(dev_comm->ctx, dev_comm->ctx->rank, who, sizeof who);
    snprintf(text, sizeof text, "group %s: %s cannot join its communicator: %.600s", dev_comm->group->label,
             who, sentence);
    weft__group_break(dev_comm->group, &(weft__verdict){status, 0, -1, text}, true);
}

/* A rank that gives up makes the others' joining fail too, which may show here before its word of why has
 * come. */
static void await_cause(weft__device_comm *dev_comm)
{
    const struct timespec pause = {0, CAUSE_PAUSE_NS};
    bool doomed = false;
    for (int64_t until = weft__now_ns() + CAUSE_NS; !doomed && weft__now_ns() < until;) {
        nanosleep(&pause, NULL);
        weft__engine_take(dev_comm->ctx);
        doomed = dev_comm->state == WEFT__DEVICE_COMM_DOOMED;
        weft__engine_drop(dev_comm->ctx);
    }
}

void weft__device_comm_joined(void *owner, weft_status status, const char *sentence)
{
    weft__device_comm *dev_comm = owner;
    if (status != WEFT_OK) await_cause(dev_comm); /* a thread of the module's that has nothing else to do */
    weft__engine_take(dev_comm->ctx);
    if (dev_comm->state == WEFT__DEVICE_COMM_JOINING || dev_comm->state == WEFT__DEVICE_COMM_NAMING) {
        if (status == WEFT_OK) {
            device_comm_to(dev_comm, WEFT__DEVICE_COMM_READY);
            while (!weft__list_empty(&dev_comm->waiting)) {
                weft__ticket *ticket = WEFT__LIST_ENTRY(dev_comm->waiting.next, weft__ticket, link);
                weft__list_remove(&ticket->link);
                pass_on(dev_comm, ticket);
            }
            weft__program_turns(dev_comm->ctx);
        } else {
            weft__device_comm_unmade(dev_comm, status, sentence ? sentence : weft_status_text(status));
        }
    }
    weft__engine_drop(dev_comm->ctx);
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
    weft__device_comm *dev_comm;
    char text[WEFT__SENTENCE_BYTES], who[192];
    word w;
    (void)type;
    if (length >= sizeof w) memcpy(&w, bytes, sizeof w);
    if (length < sizeof w || !can_be(ctx, &w, length - sizeof w)) {
        weft__peer_refused(ctx, peer, "a word about a communicator is not one of those that there are");
        return;
    }
    dev_comm = device_comm_find(ctx, weft__module_for(ctx, (weft_memory)w.memory), w.id, w.pair ? peer : -1);
    if (!dev_comm) {
        weft__early_keep(ctx, w.id, WEFT__MESSAGE_COMM, peer, bytes, length);
    } else if (w.doomed) {
        weft__peer_name(ctx, peer, who, sizeof who);
        snprintf(text, sizeof text, "given up by %s", who);
        weft__device_comm_doom(dev_comm, WEFT_ERR_BROKEN, text);
    } else if (dev_comm->state != WEFT__DEVICE_COMM_NAMING || dev_comm->world[0] != peer ||
               dev_comm->rank == 0) {
        return;
    } else if (differs(dev_comm, &w, text, sizeof text)) {
        weft__device_comm_unmade(dev_comm, WEFT_ERR_MISMATCH, text);
    } else {
        device_comm_join(dev_comm, (const unsigned char *)bytes + sizeof w);
    }
}

/* ---- the end ---- */

void weft__device_comm_doom(weft__device_comm *dev_comm, weft_status status, const char *why)
{
    word w = {.doomed = 1};
    WEFT__ASSERT(weft__holds_engine(dev_comm->ctx));
    if (dev_comm->state == WEFT__DEVICE_COMM_DOOMED) return;
    device_comm_to(dev_comm, WEFT__DEVICE_COMM_DOOMED);
    dev_comm->status = status;
    dev_comm->why = strdup(why);
    /* At exit what the module works with goes next, and would go under the stopping. */
    if (dev_comm->comm && !dev_comm->ctx->exiting) dev_comm->module->backend->doom(dev_comm->comm, why);
    if (dev_comm->is_pair && !dev_comm->ctx->aborting)
        device_comm_tell(dev_comm, &w); /* of a group's all are told that it is broken */
    while (!weft__list_empty(&dev_comm->waiting)) {
        weft__ticket *ticket = WEFT__LIST_ENTRY(dev_comm->waiting.next, weft__ticket, link);
        weft__list_remove(&ticket->link);
        ticket->refuse(ticket, status, why);
    }
    if (dev_comm->is_pair) weft__device_pairs_refuse(dev_comm);
    weft__program_turns(dev_comm->ctx);
}

static void drop(weft__device_comm *dev_comm)
{
    WEFT__ASSERT(weft__list_empty(&dev_comm->waiting));
    if (!dev_comm->splits)
        drop_comm(dev_comm); /* the module is told to split it off, as the other members' are */
    free(dev_comm->captured);
    dev_comm->captured = NULL;
    dev_comm->group = NULL;
    dev_comm->world = NULL;
    if (dev_comm->state != WEFT__DEVICE_COMM_DOOMED) device_comm_to(dev_comm, WEFT__DEVICE_COMM_DOOMED);
}

/* Its module has answered all that it will, nobody sends a word about it any more, and only works of its own group, which
 * are over, refer to it. */
static bool is_all_said(const weft__device_comm *dev_comm)
{
    return dev_comm->state == WEFT__DEVICE_COMM_READY && dev_comm->named && !dev_comm->is_pair;
}

static void comms_group_gone(weft_group *group)
{
    WEFT__LIST_EACH(device_comms_of(group->ctx), at)
    {
        weft__device_comm *dev_comm = WEFT__LIST_ENTRY(at, weft__device_comm, link);
        bool all_said = is_all_said(dev_comm);
        if (dev_comm->group != group) continue;
        drop(dev_comm);
        if (!all_said) continue;
        weft__list_remove(at);
        free(dev_comm);
    }
    memset(group->device_comms, 0, sizeof group->device_comms);
}

/* One that has left has done its part of all that was under way on a communicator that was there. */
static bool outlives(const weft__device_comm *dev_comm, int rank)
{
    return weft__has_left(&dev_comm->ctx->peers[rank]) && dev_comm->state == WEFT__DEVICE_COMM_READY;
}

int64_t weft__device_drain_ns(const weft_request *req)
{
    const weft_group *group = req->group;
    for (int i = 0; i < group->size && req->device->module->backend->unstoppable; i++)
        if (weft__is_dead(&group->ctx->peers[group->world[i]])) return 0;
    return weft__setting_int(WEFT__SET_DRAIN_MS) * WEFT__MS;
}

/* What had failed before that death. */
static void end_drains(weft_context *ctx)
{
    int64_t now = weft__now_ns();
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (weft__request_state(req) != WEFT__DRAINING || weft__device_drain_ns(req)) continue;
        req->drained_by_ns = now;
        weft__alarm_check(ctx, now);
    }
}

static void comms_peer_gone(weft_context *ctx, int rank, const char *why)
{
    end_drains(ctx);
    WEFT__LIST_EACH(device_comms_of(ctx), at)
    {
        weft__device_comm *dev_comm = WEFT__LIST_ENTRY(at, weft__device_comm, link);
        if (dev_comm->group && dev_comm->is_pair && dev_comm->pair[1 - dev_comm->rank] == rank &&
            !outlives(dev_comm, rank))
            weft__device_comm_doom(dev_comm, WEFT_ERR_PEER, why);
    }
}

void weft__device_comms_shut(weft_context *ctx)
{
    if (!ctx->module_count) return;
    weft__engine_take(ctx);
    WEFT__LIST_EACH(device_comms_of(ctx), at)
    {
        WEFT__LIST_ENTRY(at, weft__device_comm, link)->splits = false;
        drop(WEFT__LIST_ENTRY(at, weft__device_comm, link));
    }
    weft__engine_drop(ctx);
}

weft_group *weft__device_comm_next_used(const weft_context *ctx, const weft__module *module)
{
    WEFT__LIST_EACH(device_comms_of(ctx), at)
    {
        const weft__device_comm *dev_comm = WEFT__LIST_ENTRY(at, weft__device_comm, link);
        if (dev_comm->module == module && dev_comm->group &&
            atomic_load(&dev_comm->group->state) == WEFT__READY)
            return dev_comm->group;
    }
    return NULL;
}

static void comms_group_broken(weft_group *group)
{
    for (int i = 0; i < WEFT__MEMORIES; i++)
        if (group->device_comms[i]) weft__device_comm_doom(group->device_comms[i], group->cause, group->why);
}

static weft_status open_device_comms(weft_context *ctx)
{
    return weft__protocol_open_list(ctx, WEFT__PROTOCOL_DEVICE_COMMS);
}

static void free_entry(weft__list *link)
{
    weft__device_comm *dev_comm = WEFT__LIST_ENTRY(link, weft__device_comm, link);
    free(dev_comm->why);
    free(dev_comm);
}

static void close_device_comms(weft_context *ctx)
{
    weft__protocol_close_list(ctx, WEFT__PROTOCOL_DEVICE_COMMS, free_entry);
}

const weft__protocol weft__device_comms_protocol = {.name = "device communicators",
                                                    .first = WEFT__MESSAGE_COMM,
                                                    .last = WEFT__MESSAGE_COMM,
                                                    .open = open_device_comms,
                                                    .close = close_device_comms,
                                                    .message = comms_message,
                                                    .due = weft__replays_due,
                                                    .peer_gone = comms_peer_gone,
                                                    .peer_unreachable = comms_peer_gone,
                                                    .group_broken = comms_group_broken,
                                                    .group_gone = comms_group_gone};
