/* host_blocks.c - copying and reducing the blocks of rounds. */
#include "host_blocks.h"
#include "group_break.h"
#include "host_piece.h"
#include "peer.h"
#include "reduce.h"

#include <stdio.h>
#include <string.h>

/* Breaks the group.  Returns that nothing was moved. */
static WEFT__COLD size_t refuse_piece(weft_request *req, int member)
{
    weft_group *group = req->group;
    char who[192], text[WEFT__SENTENCE_BYTES];
    weft__peer_name(group->ctx, group->world[member], who, sizeof who);
    snprintf(text, sizeof text, "%s told of memory that it does not share", who);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_PEER, req->sequence, -1, text}, true);
    return 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Copies one part to its place in the slot, `at` bytes from its start, but for what of it only this rank
 * reads.  Returns how many bytes it copied. */
static size_t stage_part(weft__nt_copy *nt_copy, unsigned char *to, const char *part, const weft__round *r,
                         size_t at)
{
    size_t own = r->slot_offset, own_end = own + r->take_bytes;
    size_t before = own > at ? least(own - at, r->part_bytes) : 0;
    size_t behind = own_end > at ? least(own_end - at, r->part_bytes) : 0;
    if (!r->own_at_source) before = behind = r->part_bytes;
    weft__nt_copy_bytes(nt_copy, to, part, before);
    if (behind == r->part_bytes) return before;
    weft__nt_copy_bytes(nt_copy, to + behind, part + behind, r->part_bytes - behind);
    return before + r->part_bytes - behind;
}

size_t weft__stage(weft_request *req, const weft__round *r, unsigned char *to)
{
    const char *from = (r->from_out ? req->host_op->out : req->host_op->in);
    size_t staged = 0;
    for (int k = 0; k < r->parts; k++) {
        const char *part = from + r->source_offset + (size_t)k * r->source_stride;
        size_t at = (size_t)k * r->part_bytes;
        if (r->scaled)
            weft__scale(to + at, part, r->part_bytes / weft__op_element(req->host_op), req->host_op->dtype,
                        req->host_op->scale);
        staged += r->scaled ? r->part_bytes : stage_part(&req->ctx->nt_copy, to + at, part, r, at);
    }
    return staged;
}

size_t weft__take_copies(weft_request *req, const weft__round *r, unsigned which)
{
    weft_group *group = req->group;
    size_t moved = 0;
    for (int i = 0; i < group->size; i++) {
        size_t bytes = weft__piece_bytes(r, i);
        const void *from;
        char *to;
        if ((r->from >= 0 && i != r->from) || (r->skip_self && i == group->rank) || !bytes) continue;
        to = (char *)req->host_op->out + r->target_offset + (size_t)i * r->target_stride;
        from = weft__piece_of(req, r, i, which, bytes);
        if (WEFT__UNLIKELY(!from)) return refuse_piece(req, i);
        if (r->streams)
            weft__stream_copy(to, from, bytes);
        else
            memcpy(to, from, bytes);
        moved += bytes;
    }
    return moved;
}

size_t weft__take_reduction(weft_request *req, const weft__round *r, unsigned which)
{
    weft_group *group = req->group;
    const void *sources[WEFT__REDUCE_SOURCES];
    size_t count = r->take_bytes / weft__op_element(req->host_op);
    bool streams = r->streams || (r->streams_in_place && req->u.rounds.out);
    weft__reduce_fn *reduce =
        (streams ? weft__stream_kernel : weft__reduce_kernel)(req->host_op->dtype, req->host_op->reduction);
    void *out = (char *)req->host_op->out + r->target_offset;
    int next = 0;
    if (!count) return 0;
    while (next < group->size) {
        int n = 0;
        if (next > 0) sources[n++] = out; /* more members than one call takes */
        while (n < WEFT__REDUCE_SOURCES && next < group->size) {
            sources[n] = weft__piece_of(req, r, next, which, r->take_bytes);
            if (WEFT__UNLIKELY(!sources[n])) return refuse_piece(req, next);
            n++;
            next++;
        }
        reduce(out, sources, n, count, r->average && next == group->size ? 1.0 / group->size : 1.0);
    }
    return r->take_bytes * (size_t)group->size;
}
