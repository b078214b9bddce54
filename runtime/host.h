/* host.h - the host backend: starting and stopping operations on host memory.  All under the engine's lock.
 * After a stop nothing touches the request's buffers. */
#ifndef WEFT_RUNTIME_HOST_H
#define WEFT_RUNTIME_HOST_H
#include "group.h"
#include "prefetch.h"

#define WEFT__EXPECTED_MOST 8 /* members whose lines are asked for early */

/* backend_host.c: any operation */
void weft__host_start(weft_request *req);
void weft__host_stop(weft_request *req);             /* nothing touches its buffers afterwards */
void weft__host_collective_start(weft_request *req); /* whatever its memory: by its host_op */
/* Does this collective in host memory go by rounds in shared memory?  Else by messages. */
bool weft__by_rounds(const weft_request *req);

/* host_pair.c: messages */
static inline void weft__pair_address(weft__envelope *at, const weft_group *group, const weft__op *op)
{
    bool exchange = op->kind == WEFT__OP_SEND_RECV;
    at->peer = op->peer >= 0 ? group->world[op->peer] : WEFT_ANY_RANK;
    at->channel = exchange ? WEFT__CHANNEL_EXCHANGE : WEFT__CHANNEL_PAIR;
    at->group = group->id;
    at->sequence = 0;
    at->tag = exchange ? 0 : op->tag;
    at->dtype = (uint8_t)op->dtype;
    at->signature[0] = at->signature[1] = 0;
    at->meeting = NULL;
}

static inline weft__envelope weft__pair_envelope(const weft_group *group, const weft__op *op)
{
    weft__envelope at;
    weft__pair_address(&at, group, op);
    return at;
}
void weft__pair_settle(weft_request *req,
                       weft_status status); /* with what its receipt tells of the failure */
void weft__pair_start(weft_request *req);
void weft__pair_stop(weft_request *req);
void weft__pair_let_go(weft_request *probe); /* what it holds, if it does, is free again */
/* Of one that is waited for.  Can the place where its message will come be looked at alone? */
bool weft__pair_can_look(const weft_request *req);
bool weft__pair_look(weft_request *req);      /* there, if so: has anything come? */
bool weft__pair_met(const weft_request *req); /* its message has been found and is coming in */
/* To be cancelled: its message has been found and is coming in, so it goes on with that one, and no other. */
bool weft__pair_keeps(weft_request *req);

/* host_rounds.c: collectives in shared memory */
void weft__rounds_start(weft_request *req);
void weft__rounds_stop(weft_request *req);
int weft__rounds_turn(weft_context *ctx);
bool weft__rounds_joined(const weft_request *req, int member); /* has that member begun it too? */
/* A collective is about to begin: asks for the lines that its first round will write and read, together and
 * while the request is made.  Where ranks share no cache each takes 200 ns. */
static inline void weft__rounds_expect(const weft_group *group)
{
    weft__row **rows = group->lane.rows;
    unsigned slot = (unsigned)((group->lane.assigned + 1) % WEFT__SLOTS);
    if (!rows || group->size > WEFT__EXPECTED_MOST) return;
    weft__prefetch_write(&rows[group->rank]->slot[slot]);
    for (int i = 0; i < group->size; i++)
        if (i != group->rank) weft__prefetch_read(&rows[i]->slot[slot]);
}

/* host_schedule.c: collectives over messages */
void weft__run_start(weft_request *req);
void weft__run_stop(weft_request *req);
int weft__runs_turn(weft_context *ctx);
void weft__plans_free(weft_group *group);
#endif
