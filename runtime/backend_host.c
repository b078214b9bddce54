/* backend_host.c - the host backend's front: which executor runs a request, and how one is stopped.
 *
 *   collective  rounds in shared memory (host_rounds.c), else, if its blocks are uneven, or if an algorithm
 *               by messages is asked for, a schedule of them (host_schedule.c)
 *   pair        messages (host_pair.c)
 *   group       forming.c
 *   CUDA memory device.c */
#include "breaking.h"
#include "device.h"
#include "engine.h"
#include "forming.h"
#include "group.h"
#include "host.h"
#include "rows.h"

#include <stdio.h>

/* Has the group begun such a one before?  All members get the same answer: it follows from what they began,
 * in order.  A first one whose hash is another's counts as well; who differs there hears of it later. */
static bool begun_before(weft_group *group, weft__signature s)
{
    uint64_t hash = (s.word[0] ^ s.word[1] * UINT64_C(0xc2b2ae3d27d4eb4f)) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t *known, word;
    bool before;
    hash = (hash ^ hash >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
    known = &group->known[hash >> 58 & (WEFT__KNOWN - 1)];
    word = (uint32_t)(hash >> 24) | 1;
    before = *known == word;
    *known = word;
    return before;
}

static void remember(weft_request *req)
{
    weft_group *group = req->group;
    req->signature = weft__op_sign(&req->op);
    group->recent[req->sequence % WEFT__RECENT] = req->signature;
    if (req->sequence <= group->started) return; /* one that was held comes a second time */
    group->started = req->sequence;
    req->op.repeats = req->op.kind == WEFT__OP_BROADCAST && begun_before(group, req->signature);
}

/* Whatever its members share: because its blocks are uneven, or because such an algorithm is asked for. */
static bool by_messages(const weft_request *req)
{
    return req->group->selection.by_messages >> req->host_op->kind & 1;
}

bool weft__by_rounds(const weft_request *req)
{
    return req->group->lane.rows && !by_messages(req);
}

void weft__host_collective_start(weft_request *req)
{
    bool by_rounds = weft__by_rounds(req);
    if (by_rounds) /* as yet there is nothing to stop */
        weft__list_init(&req->u.rounds.lane);
    else
        req->u.run = NULL;
    /* A rank that does something else may have sent messages, whichever way this goes. */
    weft__early_judge(req);
    if (weft__request_state(req) >= WEFT__DRAINING) return; /* the group broke over it */
    if (by_rounds)
        weft__rounds_start(req);
    else if (WEFT__UNLIKELY(req->group->lane.state != WEFT__LANE_NONE) && !by_messages(req))
        weft__rows_hold(req);
    else
        weft__run_start(req);
}

/* False: it broke between numbering and now.  Nothing has started that would have to be stopped. */
static bool joins(weft_request *req)
{
    char text[WEFT__SENTENCE_BYTES];
    weft_status status;
    if (WEFT__LIKELY(atomic_load_explicit(&req->group->state, memory_order_relaxed) != WEFT__BROKEN)) {
        remember(req);
        return true;
    }
    status = weft__broken_text(req, text, sizeof text);
    weft__request_settle(req, status, text);
    return false;
}

void weft__host_start(weft_request *req)
{
    unsigned traits = weft__kind_traits(req->op.kind);
    if (traits & WEFT__COLLECTIVE && !joins(req)) return;
    if (req->device)
        weft__device_start(req);
    else if (traits & WEFT__PAIR)
        weft__pair_start(req);
    else if (traits & WEFT__FORMS)
        req->u.forming->start(req);
    else
        weft__host_collective_start(req);
}

void weft__host_stop(weft_request *req)
{
    unsigned traits = weft__kind_traits(req->op.kind);
    if (traits & WEFT__FORMS) return; /* it has no buffers; the lead's word will find nobody waiting */
    if (traits & WEFT__PAIR)
        weft__pair_stop(req);
    else if (weft__request_state(req) == WEFT__QUEUED) /* held: it has not begun */
        weft__list_remove(&req->u.rounds.lane);
    else if (weft__by_rounds(req))
        weft__rounds_stop(req);
    else
        weft__run_stop(req);
}

void weft__request_fail(weft_request *req, weft_status status, const char *text)
{
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    if (weft__request_state(req) >= WEFT__DRAINING) return;
    if (req->device) {
        weft__device_fail(req, status, text);
        return;
    }
    weft__host_stop(req);
    weft__request_settle(req, status, text);
}
