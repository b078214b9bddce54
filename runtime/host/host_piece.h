/* host_piece.h - where the blocks lie that members of a group publish in shared memory (host_rounds.c).  What
 * a member's slot says is not trusted: it leads to memory of that member, or nowhere. */
#ifndef WEFT_RUNTIME_HOST_PIECE_H
#define WEFT_RUNTIME_HOST_PIECE_H
#include "group.h"
#include "region.h"
#include "slots.h"

static inline unsigned char *weft__slot_payload(weft_context *ctx, weft__member_slots *slots, unsigned slot)
{
    weft__slot *s = &slots->slot[slot];
    return s->bytes <= sizeof s->u.small ? s->u.small : weft__slot_area(slots, slot, ctx->slot_bytes);
}

/* What this rank takes of a member's block, so many bytes.  NULL: it has told of memory that it does not
 * share. */
static inline const void *weft__piece_of(const weft_request *req, const weft__round *r, int member,
                                         unsigned which, size_t bytes)
{
    const weft_group *group = req->group;
    weft_context *ctx = group->ctx;
    weft__member_slots *slots = group->shm_coll.slots[member];
    struct weft__slot_place at;
    size_t offset = r->slot_offset, part;
    if (r->own_at_source && member == group->rank)
        return (const char *)req->host_op->in + weft__round_own_offset(r);
    if (slots->slot[which].bytes < WEFT__SLOT_OPEN) return weft__slot_payload(ctx, slots, which) + offset;
    at = slots->slot[which].u.place; /* once: only its owner is trusted to leave it as it is */
    if (WEFT__UNLIKELY(!at.part_bytes)) return NULL;
    part = offset / at.part_bytes;
    return weft__region_at(ctx->regions, group->shm_coll.locals[member], at.region, at.generation,
                           at.offset + part * at.stride + offset % at.part_bytes, bytes);
}
#endif
