/* collective.h - one collective described as data: started on any rank, and checked against the oracle. */
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
} collective;

typedef struct running {
    collective what;
    weft_group *group;
    oracle oracle;
    unsigned char *in, *out;    /* as handed to Weft; NULL where this rank does not use it */
    size_t in_count, out_count; /* elements */
    unsigned char *memory;      /* holds both, with guards around them */
    size_t memory_bytes;
    weft_request *req;
} running;

bool collective_has_root(collective_kind kind);
bool collective_reduces(collective_kind kind);
const char *collective_name(collective_kind kind);

/* Submits; returns what Weft returned, and on failure has freed everything.  One that joins call->batch has
 * no request of its own: it is to be finished after the batch's. */
weft_status collective_submit(running *r, weft_group *group, const collective *what, const weft_call *call);
void collective_start(running *r, weft_group *group, const collective *what); /* must be accepted */
void collective_finish(running *r); /* waits for OK, checks outputs, inputs and guards, releases and frees */
void collective_drop(running *r);   /* frees the buffers; the request must have settled or be NULL */
void collective_run(weft_group *group, const collective *what); /* start and finish */

#endif
