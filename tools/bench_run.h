/* bench_run.h - one point of a measurement made ready: an operation, its type, size, buffers and layout.
 *
 * The size counts as nccl-tests counts it: the larger of a rank's two buffers, in bytes. */
#ifndef WEFT_TOOLS_BENCH_RUN_H
#define WEFT_TOOLS_BENCH_RUN_H
#include "bench_job.h"
#include "bench_pattern.h"

/* Messages under way at once in a measurement of their rate, and requests at all; parts of a batch. */
enum { BENCH_WINDOW = 64, BENCH_BATCH_PARTS = 16 };

struct bench_case; /* bench_cases.h */

/* What distinguishes one point from another. */
struct bench_point {
    const struct bench_case *what;
    weft_dtype dtype;
    weft_op op;
    bool shared;   /* buffers from weft_mem_alloc */
    bool blocking; /* no request: the call itself waits */
    bool in_place;
    size_t bytes;
};

/* Two buffers of one kind of memory, for all points.  Those on a device have two beside them that this
 * process can touch: what is filled goes from there, and what is checked comes there. */
struct bench_buffers {
    void *in, *out;
    size_t bytes; /* of each */
    void *near_in, *near_out;
    void (*copy)(void *to, const void *from, size_t bytes); /* NULL: they can be touched themselves */
};

struct bench_run {
    const struct bench_job *job;
    struct bench_point point;
    struct bench_buffers buffers;
    struct bench_pattern pattern;
    size_t count, total;     /* elements: of an even block; of all blocks of this rank */
    size_t *counts, *displs; /* blocks of this rank's larger buffer */
    size_t bytes;            /* what is reported: that buffer on rank 0 */
    int root;
    void *from, *to; /* of the next operation */
    weft_call call;
    weft_request *requests[BENCH_WINDOW];
    size_t pending;     /* requests of the operation that is under way */
    bool noting;        /* the next operation makes a request, which tells its algorithm */
    char algorithm[24]; /* "all_read", "shm", ... */
};

/* Bytes that a buffer needs for points of up to `bytes`. */
size_t bench_run_room(size_t bytes, int ranks);
/* False: no memory. */
bool bench_run_make(struct bench_run *run, const struct bench_job *job, const struct bench_point *point,
                    const struct bench_buffers *buffers);
void bench_run_free(struct bench_run *run);

/* The next operation's inputs, and a result that cannot be taken for a right one. */
void bench_run_fill(struct bench_run *run, int seed);
/* Wrong elements on this rank, after an operation on what bench_run_fill wrote. */
size_t bench_run_wrong(struct bench_run *run, int seed);

/* Sets from and to for the next operation. */
void bench_run_place(struct bench_run *run);
/* Submit; bench_run_settle does the rest.  OK, or why not in weft_last_error. */
weft_status bench_run_start(struct bench_run *run);
/* One whole operation. */
weft_status bench_run_once(struct bench_run *run);
/* The root goes round: one that stayed would run ahead of the others. */
void bench_run_next(struct bench_run *run);

/* Elements in block b of rank `owner`. */
size_t bench_run_block(const struct bench_run *run, int owner, int b);
/* Whom this rank exchanges messages with; who is alone, itself; -1: nobody is left for the last of an odd
 * number. */
int bench_run_peer(const struct bench_run *run);
/* Where the next request of the operation goes; NULL when the call is to wait itself. */
weft_request **bench_run_slot(struct bench_run *run);
/* Waits for those requests and gives them back. */
weft_status bench_run_settle(struct bench_run *run);
#endif
