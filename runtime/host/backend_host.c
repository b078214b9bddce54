/* backend_host.c - collectives in host memory: which executor carries one out.
 *
 * Rounds in shared memory (host_rounds.c); or, if its blocks are uneven, or an algorithm by messages is asked
 * for, or its members share no memory, a schedule of messages (host_schedule.c).  One that comes before all
 * members have told where their slots are is held (slot_exchange.c). */
#include "executor.h"
#include "group.h"
#include "group_break.h"
#include "host.h"
#include "signatures.h"
#include "slot_exchange.h"

/* Whatever its members share: because its blocks are uneven, or because such an algorithm is asked for. */
static bool by_messages(const weft_request *req)
{
    const weft__op *op = req->host_op;
    return !op->agrees && req->group->selection.by_messages >> op->kind & 1;
}

void weft__host_collective_start(weft_request *req, const weft__executor **by)
{
    bool by_rounds = req->group->shm_coll.slots && !by_messages(req);
    *by = &weft__rounds_executor;
    if (by_rounds) { /* as yet there is nothing to stop */
        weft__list_init(&req->u.rounds.shm_coll);
    } else {
        *by = &weft__schedule_executor;
        req->u.run = NULL;
    }
    /* A rank that does something else may have sent messages, whichever way this goes. */
    if (!weft__early_judge(req)) return;
    if (by_rounds) {
        weft__rounds_start(req);
    } else if (WEFT__UNLIKELY(req->group->shm_coll.state != WEFT__SHM_COLL_NONE) && !by_messages(req)) {
        *by = &weft__collectives_executor;
        weft__slot_exchange_hold(req);
    } else {
        weft__run_start(req);
    }
}

static void host_start(weft_request *req)
{
    weft__host_collective_start(req, &req->executor);
}

static void stop_held(weft_request *req)
{
    weft__list_remove(&req->u.rounds.shm_coll);
}

const weft__executor weft__collectives_executor = {.name = "collectives",
                                                   .traits = WEFT__BEGINS_IN_CALL,
                                                   .start = host_start,
                                                   .stop = stop_held};
