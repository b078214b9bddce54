/* job_store.h - the store of a job, weft_context_store: kept by rank 0 from the first time that any rank asks
 * for it; or the one that the job was joined by. */
#ifndef WEFT_RUNTIME_JOB_STORE_H
#define WEFT_RUNTIME_JOB_STORE_H
#include "context.h"
#include "protocol.h"

void weft__job_store_joined_by(weft_context *ctx, weft_store *store); /* the caller's; NULL: none */

extern const weft__protocol weft__store_protocol;
#endif
