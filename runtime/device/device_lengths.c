/* device_lengths.c - see device_lengths.h. */
#include "device_lengths.h"
#include "group.h"
#include "group_break.h"

#include <stdio.h>
#include <stdlib.h>

/* One side of a rooted kind has the blocks; the other goes whole to the root, or comes whole from it. */
static bool goes_whole(const weft__op *op, unsigned blocks)
{
    return (weft__kind_traits(op->kind) & (WEFT__ROOTED | blocks)) == WEFT__ROOTED;
}

/* Elements that this rank sends to another, and expects from it. */
static size_t sent_to(const weft__op *op, int member)
{
    if (goes_whole(op, WEFT__IN_BLOCKS)) return member == op->root ? op->count : 0;
    return op->uneven->in.counts ? weft__op_in_block(op, member).length : 0;
}

static size_t expected_from(const weft__op *op, int member)
{
    if (goes_whole(op, WEFT__OUT_BLOCKS)) return member == op->root ? op->count : 0;
    return op->uneven->out.counts ? weft__op_out_block(op, member).length : 0;
}

weft_status weft__device_lengths_make(weft__device *d)
{
    const weft__op *op = &d->req->op;
    size_t n = (size_t)d->req->group->size;
    d->lengths = NULL;
    if (!op->uneven || op->uneven->agreed) return WEFT_OK; /* those the signature compares */
    d->lengths = malloc(2 * n * sizeof *d->lengths);
    if (!d->lengths) return weft__fail_memory(2 * n * sizeof *d->lengths, "the lengths of blocks");
    for (size_t i = 0; i < n; i++) d->lengths[i] = sent_to(op, (int)i);
    d->agree.kind = WEFT__OP_ALL_TO_ALL;
    d->agree.agrees = false;
    d->agree.dtype = WEFT_UINT64;
    d->agree.count = 1;
    d->agree.in = d->lengths;
    d->agree.out = d->lengths + n;
    return WEFT_OK;
}

bool weft__device_lengths_agree(weft__device *d)
{
    weft_request *req = d->req;
    weft_group *group = req->group;
    char text[WEFT__SENTENCE_BYTES];
    for (int i = 0; d->lengths && i < group->size; i++) {
        uint64_t sends = d->lengths[group->size + i];
        size_t expects = expected_from(&req->op, i);
        if (sends == expects) continue;
        snprintf(text, sizeof text,
                 "%s #%llu on group %s: rank %d sends %llu %s to rank %d, which expects %zu of it",
                 weft__kind_name(req->op.kind), (unsigned long long)req->sequence, group->label,
                 group->world[i], (unsigned long long)sends, weft__dtype_name(req->op.dtype),
                 group->world[group->rank], expects);
        weft__group_break(group, &(weft__verdict){WEFT_ERR_MISMATCH, req->sequence, -1, text}, true);
        return false;
    }
    return true;
}

void weft__device_lengths_free(weft__device *d)
{
    free(d->lengths);
    d->lengths = NULL;
}
