/* gate.c - see gate.h.
 *
 * Fails: as the host plane's operation does, and where ranks issue different numbers of operations together; either breaks
 * the group. */
#include "gate.h"
#include "device_lengths.h"
#include "engine.h"
#include "line.h"

#include <string.h>

#define NOT_THERE (UINT64_C(1) << 63) /* stamps stay below it */

enum { STAMP, MOST, LEAST };

/* All members find alike whether it does: what that follows from is part of the group, or of what their signatures compare. */
static bool carries_place(const weft__device *d)
{
    return d->agree.agrees;
}

static bool is_ordered(const weft__device *d)
{
    const weft_group *group = d->req->group;
    return group->size > 1 && !weft__device_in_program(group, d->module) && !weft__in_line(d);
}

void weft__gate_make(weft__device *d)
{
    memset(&d->gate, 0, sizeof d->gate);
    d->agree = (weft__op){.kind = WEFT__OP_BARRIER, .memory = WEFT_MEMORY_HOST, .scale = 1};
    if (!is_ordered(d)) return;
    d->agree.kind = WEFT__OP_ALL_REDUCE;
    d->agree.agrees = true;
    d->agree.dtype = WEFT_UINT64;
    d->agree.reduction = WEFT_MAX;
    d->agree.count = WEFT__GATE_WORDS;
    d->agree.in = d->gate.says;
    d->agree.out = d->gate.told;
}

void weft__gate_ticket(weft__device *first)
{
    const weft_request *req = first->req;
    weft__ticket *ticket = &first->ticket;
    ticket->key = (weft__ticket_key){.group = req->group->id,
                                     .number = req->sequence,
                                     .memory = (uint32_t)req->op.memory};
    ticket->world = req->group->world;
    ticket->size = req->group->size;
    ticket->length = 0;
    for (const weft__device *d = first; d; d = d->next) ticket->length++;
}

/* Where a group has communicators of two modules, one that is there waits for nothing behind one that is still made. */
static bool some_connect(const weft_group *group)
{
    if (group->ctx->module_count < 2) return false;
    WEFT__LIST_EACH(&group->unplaced, at)
    {
        const weft__ticket *ticket = WEFT__LIST_ENTRY(at, weft__ticket, mate);
        const weft__device_comm *dev_comm = group->device_comms[ticket->key.memory];
        if (!dev_comm || dev_comm->state != WEFT__DEVICE_COMM_READY) return true;
    }
    return false;
}

/* The agreement comes behind those in host memory. */
static bool comes_at_once(const weft_group *group)
{
    return group->shm_coll.taken >= group->shm_coll.of_program;
}

weft_request *weft__gate_behind(const weft_request *req)
{
    const weft__ticket *before;
    if (!is_ordered(req->device)) return NULL;
    before = weft__order_before(req->ctx, &req->device->fused->ticket);
    return before ? WEFT__OWNER(before, weft__device, ticket)->req : NULL;
}

void weft__gate_enter(weft__device *d, bool ready)
{
    const weft_request *req = d->req;
    weft__ticket *ticket = &d->fused->ticket;
    const uint64_t rank = (uint32_t)req->group->rank;
    const bool placed = ready && carries_place(d) && comes_at_once(req->group) && !some_connect(req->group);
    if (!is_ordered(d)) return;
    weft__gate_ticket(d->fused);
    weft__order_begin(req->group, ticket);
    if (!carries_place(d)) return;
    d->gate.says[MOST] = (uint64_t)ticket->length << 32 | rank;
    d->gate.says[LEAST] = (uint64_t)~ticket->length << 32 | rank;
    d->gate.says[STAMP] = placed ? weft__order_arrive(req->group, ticket, req->sequence) : NOT_THERE;
}

/* False: the rank that told this issues another number together. */
static bool is_alike(weft__device *d, uint32_t length, uint64_t told)
{
    const weft_group *group = d->req->group;
    weft__ticket *ticket = &d->fused->ticket;
    const uint32_t rank = (uint32_t)told;
    if (length == ticket->length) return true;
    weft__order_refuse(group->ctx, ticket, group->world[rank < (uint32_t)group->size ? rank : 0], length);
    return false;
}

bool weft__gate_opened(weft__device *d)
{
    const uint64_t *told = d->gate.told;
    if (!carries_place(d)) return weft__device_lengths_agree(d);
    return is_alike(d, (uint32_t)(told[MOST] >> 32), told[MOST]) &&
           is_alike(d, ~(uint32_t)(told[LEAST] >> 32), told[LEAST]);
}

/* The largest that its gates have told; 0: one of them carries none, or some rank's communicator was not there. */
static uint64_t stamp_of(const weft__device *first)
{
    uint64_t stamp = 0;
    for (const weft__device *d = first; d; d = d->next) {
        if (!carries_place(d) || d->gate.told[STAMP] & NOT_THERE) return 0;
        if (stamp < d->gate.told[STAMP]) stamp = d->gate.told[STAMP];
    }
    return stamp;
}

bool weft__gate_gives_place(weft__device *first)
{
    const uint64_t stamp = stamp_of(first);
    weft_request *req = first->req;
    bool over;
    if (stamp) {
        weft__order_opened(req->ctx, &first->ticket, stamp);
        return true;
    }
    weft__request_ref(req); /* what others ask for then may break its group, which settles it */
    weft__order_unplaced(req->ctx, &first->ticket);
    over = weft__request_state(req) >= WEFT__DRAINING;
    weft__request_unref(req);
    return over;
}
