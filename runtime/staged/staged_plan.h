/* staged_plan.h - what a work comes to in host memory: its rounds, their pieces, and what of the device's memory goes
 * where for each. */
#ifndef WEFT_STAGED_PLAN_H
#define WEFT_STAGED_PLAN_H
#include "staged_comm.h"

/* How many rounds of messages the work has; anything else has one. */
int weft__plan_rounds(const weft__staged_comm *comm);
/* Sets both ways up for that round of the work. */
void weft__plan_round(weft__staged_comm *comm, int round);
/* Queues the copies of a piece between its slot and the device; *any: there are some. */
cudaError_t weft__plan_fetch(weft__staged_comm *comm, size_t piece, bool *any);
cudaError_t weft__plan_store(weft__staged_comm *comm, const weft__staged_way *way, size_t piece, bool *any);
/* The operation in host memory of a piece. */
weft_backend_operation weft__plan_operation(weft__staged_comm *comm, const weft__staged_way *way,
                                            size_t piece);
/* Queues the copy of the block that a rank keeps for itself, in a work that goes by messages. */
cudaError_t weft__plan_own(weft__staged_comm *comm);
#endif
