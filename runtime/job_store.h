/* job_store.h - the store of a job, weft_context_store: kept by rank 0 from the first time that any rank asks
 * for it; or the one that the job was joined by. */
#ifndef WEFT_RUNTIME_JOB_STORE_H
#define WEFT_RUNTIME_JOB_STORE_H
#include "notice.h"

/* Guardian: somebody asks where it is (rank 0), or that is the answer. */
void weft__job_store_asked(weft_context *ctx, int from);
void weft__job_store_told(weft_context *ctx, int from, const weft__notice *notice);
/* A rank has died or left: who waits for its answer must not. */
void weft__job_store_gone(weft_context *ctx, int rank);
/* No thread of the library touches it any more. */
void weft__job_store_close(weft_context *ctx);

#endif
