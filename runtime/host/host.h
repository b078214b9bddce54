/* host.h - the host backend: starting and stopping operations on host memory.  All under the engine's lock.
 * After a stop nothing touches the request's buffers. */
#ifndef WEFT_RUNTIME_HOST_H
#define WEFT_RUNTIME_HOST_H
#include "executor.h"
#include "group.h"

/* backend_host.c: begins a collective, whatever its memory: its host_op.  *by is written first: the executor
 * that carries it out from then on, or that holds it. */
void weft__host_collective_start(weft_request *req, const weft__executor **by);

/* host_pair.c: messages.  way: of the kind (weft__kind_way), which mostly is known where this stands */
static inline void weft__pair_address(weft__envelope *at, const weft_group *group, const weft__op *op,
                                      unsigned way)
{
    bool exchange = way == WEFT__EXCHANGES;
    at->peer = op->peer >= 0 ? group->world[op->peer] : WEFT_ANY_RANK;
    at->channel = exchange ? WEFT__CHANNEL_EXCHANGE : WEFT__CHANNEL_PAIR;
    at->group = group->id;
    at->sequence = 0;
    at->tag = exchange ? 0 : op->tag;
    at->dtype = (uint8_t)op->dtype;
    at->signature[0] = at->signature[1] = 0;
    at->hook = NULL;
}

static inline weft__envelope weft__pair_envelope(const weft_group *group, const weft__op *op, unsigned way)
{
    weft__envelope at;
    weft__pair_address(&at, group, op, way);
    return at;
}
void weft__pair_settle(weft_request *req,
                       weft_status status); /* with what its receipt tells of the failure */

/* host_rounds.c: collectives in shared memory */
void weft__rounds_start(weft_request *req);

/* host_schedule.c: collectives over messages */
void weft__run_start(weft_request *req);
void weft__plans_free(weft_group *group);

extern const weft__executor weft__collectives_executor; /* backend_host.c */
extern const weft__executor weft__rounds_executor;
extern const weft__executor weft__schedule_executor;
extern const weft__executor weft__messages_executor;
#endif
