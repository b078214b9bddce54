/* collective.h - one collective described as data: started on any rank, and checked against the oracle.
 *
 * On a device its input is brought there by a stream, after a pause, and the operation is ordered after that
 * stream; its output is fetched by another stream, every second time one that waits for the request. */
#ifndef TESTS_SUPPORT_COLLECTIVE_H
#define TESTS_SUPPORT_COLLECTIVE_H

#include "job.h"
#include "oracle.h"

typedef enum collective_kind {
    BROADCAST,
    REDUCE,
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    ALL_GATHER_V, /* those with blocks of random lengths around `count`, some of none, perhaps with gaps */
    GATHER_V,
    SCATTER_V,
    REDUCE_SCATTER_V,
    ALL_TO_ALL_V, /* never in place */
    BARRIER
} collective_kind;

enum { COLLECTIVE_KINDS = BARRIER + 1 };

typedef struct collective {
    collective_kind kind;
    weft_dtype dtype;
    weft_op op;
    size_t count;
    int root;
    bool in_place;
    uint64_t seed;
    bool host; /* in host memory, also where the job's buffers are on devices */
} collective;

/* Memory of weft_mem_alloc to lay buffers out in, cut in pieces that are in use or not. */
enum { POOL_PIECES = 16, POOL_PIECE_BYTES = 1 << 20, POOL_BYTES = POOL_PIECES * POOL_PIECE_BYTES };
typedef struct collective_pool {
    unsigned char *base;
    unsigned used;   /* bit i: piece i */
    uint64_t random; /* one buffer of four stays outside */
} collective_pool;

/* What one buffer holds on this rank, in elements: nothing, one block, or one of each rank. */
typedef struct layout {
    int n;
    bool packed;
    size_t counts[JOB_RANKS_MAX], displs[JOB_RANKS_MAX];
    size_t total, extent; /* of the blocks, and with gaps */
} layout;

typedef struct running {
    collective what;
    weft_group *group;
    oracle oracle;
    unsigned char *in, *out; /* as handed to Weft; NULL where this rank does not use it */
    layout in_blocks, out_blocks;
    unsigned char *memory; /* holds both, with guards around them */
    unsigned char *image;  /* what is in it, where the host can look: itself, or pinned memory */
    size_t memory_bytes;
    void *stream;          /* that brings the input */
    collective_pool *pool; /* it is from; NULL: from malloc or the device */
    weft_request *req;
} running;

/* Collectives of this thread take their buffers from it where they fit, until it is told NULL. */
void collective_draw_from(collective_pool *from);

/* Whether this reduction of this type must work where the job's buffers are. */
bool collective_supports(weft_dtype dtype, weft_op op);
bool collective_has_root(collective_kind kind);
bool collective_reduces(collective_kind kind);
bool collective_is_uneven(collective_kind kind);
const char *collective_name(collective_kind kind);

/* Submits; returns what Weft returned, and on failure has freed everything.  One that joins call->batch has
 * no request of its own: it is to be finished after the batch's. */
weft_status collective_submit(running *r, weft_group *group, const collective *what, const weft_call *call);
void collective_start(running *r, weft_group *group, const collective *what); /* must be accepted */
void collective_finish(running *r); /* waits for OK, checks outputs, inputs and guards, releases and frees */
void collective_drop(running *r);   /* frees the buffers; the request must have settled or be NULL */
void collective_run(weft_group *group, const collective *what); /* start and finish */

#endif
