/* host_in_place.c - which blocks others may read where they lie, telling of them, and when they are read.
 *
 * Failing: what is withdrawn while others may read it makes them wait for the break that follows. */
#include "host_in_place.h"
#include "engine.h"
#include "plain.h"

#define IN_PLACE_BYTES_CROWDED (64 * 1024) /* waiting for readers changes threads there */

/* Where the bytes lie in memory that all members share.  NULL: they do not. */
static const weft__region *shared_region(const weft_group *group, const void *from, size_t bytes)
{
    weft__regions *regions = group->ctx->regions;
    const weft__region *region = from ? weft__region_find(regions, from, bytes) : NULL;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (!region || !weft__region_shared(regions, region, group->shm_coll.locals, group->size)) return NULL;
    return region;
}

static void look_for_regions(weft_request *req)
{
    const weft_group *group = req->group;
    const weft__op *op = req->host_op;
    size_t element = weft__op_element(op);
    size_t least = weft__pacing_is_crowded(&req->ctx->pacing) ? IN_PLACE_BYTES_CROWDED : WEFT__IN_PLACE_BYTES;
    if (op->count * element < least || !weft__rounds_in_place(&req->u.rounds.plan, op)) return;
    req->u.rounds.in =
        shared_region(group, op->in, weft__op_in_elements(op, group->rank, group->size) * element);
    if (req->u.rounds.plan.two_phase)
        req->u.rounds.out =
            shared_region(group, op->out, weft__op_out_elements(op, group->rank, group->size) * element);
}

void weft__look_for_regions(weft_request *req)
{
    if (!WEFT__PLAIN) look_for_regions(req);
}

void weft__publish_in_place(weft_request *req, const weft__round *r, uint64_t round,
                            const weft__region *region, bool open)
{
    weft_group *group = req->group;
    weft__slot *slot = &group->shm_coll.slots[group->rank]->slot[round % WEFT__SLOTS];
    const char *from = r->from_out ? req->host_op->out : req->host_op->in;
    slot->bytes = open ? WEFT__SLOT_OPEN : WEFT__SLOT_IN_PLACE;
    slot->u.place = (struct weft__slot_place){region->index, region->generation,
                                              (uint64_t)(from + r->source_offset - region->base),
                                              r->source_stride, r->parts == 1 ? SIZE_MAX : r->part_bytes};
    req->u.rounds.in_place = round;
}

bool weft__all_open(const weft_group *group, uint64_t round)
{
    for (int i = 0; i < group->size; i++)
        if (group->shm_coll.slots[i]->slot[round % WEFT__SLOTS].bytes != WEFT__SLOT_OPEN) return false;
    return true;
}

/* The fence: all that was taken was read before this check, also where loads may pass each other. */
bool weft__some_withdrawn(const weft_group *group)
{
    weft__fence_loads();
    for (int i = 0; i < group->size; i++)
        if (atomic_load_explicit(&group->shm_coll.slots[i]->withdrawn, memory_order_seq_cst)) return true;
    return false;
}

size_t weft__end_read(weft_group *group)
{
    size_t n = 0;
    while (!weft__list_empty(&group->shm_coll.read)) {
        weft_request *req = WEFT__LIST_ENTRY(group->shm_coll.read.next, weft_request, u.rounds.shm_coll);
        if (!weft__all_are_past(group, req->u.rounds.in_place)) break;
        weft__rounds_end(req);
        n++;
    }
    return n;
}

void weft__withdraw(const weft_request *req)
{
    const weft_group *group = req->group;
    if (!req->u.rounds.in_place) return;
    atomic_exchange_explicit(&group->shm_coll.slots[group->rank]->withdrawn, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_release); /* before all that the caller writes from now on */
}
