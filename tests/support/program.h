/* program.h - random programs: what every rank does is a pure function of a seed, so all ranks agree on it.
 *
 * Every thread of every rank has groups of its own (so that their order is its own) and walks the same list
 * of steps; a step is a collective of random kind, count, type, root and place, a message with a random tag,
 * or a batch of both.  A window of steps is in flight; they are finished in an order that differs between
 * ranks. */
#ifndef TESTS_SUPPORT_PROGRAM_H
#define TESTS_SUPPORT_PROGRAM_H

#include "job.h"

typedef struct program {
    uint64_t seed;
    int threads, steps;
    bool shared; /* most buffers of collectives are mem_alloc's */
} program;

void program_run(job_rank *me); /* a job_body; the plan's arg is a program */

#endif
