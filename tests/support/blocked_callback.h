/* blocked_callback.h - a callback that keeps the progress thread until something has happened, outside Weft. */
#ifndef WEFT_TESTS_BLOCKED_CALLBACK_H
#define WEFT_TESTS_BLOCKED_CALLBACK_H
#include "job.h"

#include <stdatomic.h>

typedef struct blocked_callback {
    atomic_int inside, there,
        missed; /* there: what it waits for has happened; missed: it did not, within its limit */
} blocked_callback;

/* A message of this rank to itself, whose callback blocks; returns once it is inside. */
void block_a_callback(job_rank *me, blocked_callback *w, weft_request *reqs[2]);
#endif
