/* bench_nccl.h - the operations of weft-bench as plain NCCL calls, to compare with: on a communicator of its
 * own over all ranks, through the library that Weft itself has loaded.  What NCCL has no call for, in its
 * version, is written as its documentation shows: grouped sends and receives, broadcasts or reductions.  A
 * message to and fro is one thing after the other on the stream.  What goes wrong ends the
 * program with a sentence. */
#ifndef WEFT_TOOLS_BENCH_NCCL_H
#define WEFT_TOOLS_BENCH_NCCL_H
#include "bench_run.h"

/* False: NCCL cannot be used, and why not. */
bool bench_nccl_open(char *why, size_t bytes);
/* Collective; leave: if joined. */
void bench_nccl_join(const struct bench_job *job);
void bench_nccl_leave(void);
/* Collective: shared buffers, two at most, become windows of its communicator too, as they are of Weft's. */
void bench_nccl_register(const struct bench_job *job, void *buf, size_t bytes);

/* False: NCCL has nothing like this operation on this type. */
bool bench_nccl_can(const struct bench_run *run);
/* The operation, on bench_cuda_stream. */
void bench_nccl_queue(struct bench_run *run);
#endif
