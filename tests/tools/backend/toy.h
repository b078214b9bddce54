/* toy.h - a backend for memory that only it knows: an arena in each process, which its ranks move through a
 * segment that they share.
 *
 *   toy.c         the seam: communicators, and the thread of each, which carries works out one after the other
 *   toy_run.c     one work, step by step with the other ranks
 *   toy_memory.c  the memory
 *
 * Its ranks are on one host, 64 at most.  Built as toyhost it takes collectives in host memory. */
#ifndef TOY_H
#define TOY_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/backend.h>

enum { TOY_RANKS = 64, TOY_CHUNK = 32 * 1024, TOY_ID_BYTES = 1000 };

/* What a rank shows the others of a communicator. */
typedef struct toy_rank {
    _Alignas(64) _Atomic uint64_t steps[TOY_RANKS]; /* that it has come to with each rank */
    size_t bytes;                                   /* of its input */
    size_t start[TOY_RANKS];                        /* of what each rank takes of that */
    size_t length[TOY_RANKS];
    _Alignas(64) unsigned char chunk[TOY_CHUNK]; /* the input, a piece after the other */
} toy_rank;

typedef struct toy_segment {
    _Atomic int present; /* ranks that have joined */
    toy_rank of[];
} toy_segment;

typedef struct toy {
    weft_backend seam; /* first: what the runtime holds is a pointer to it */
    const weft_backend_runtime *runtime;
    pthread_mutex_t lock; /* the list, and of each communicator what says so */
    pthread_cond_t changed;
    weft_backend_comm *comms;
} toy;

struct weft_backend_comm {
    toy *backend;
    weft_backend_comm *next; /* lock */
    void *owner;
    int rank, size;
    pthread_t thread;
    _Atomic bool doomed;
    bool names, joins, dropped, ended; /* lock */
    char id[TOY_ID_BYTES];             /* lock; with joins */
    weft_backend_work *first, *last;   /* lock: to be run; `state` of each leads to the next */
    int fd;                            /* of the segment, on the rank that made it; else -1 */
    toy_segment *segment;
    uint64_t steps[TOY_RANKS]; /* with each rank */
};

/* toy_memory.c.  A program takes memory by toy_take, as one for CUDA does by cudaMalloc. */
__attribute__((visibility("default"))) void *toy_take(size_t bytes); /* zeroed; NULL: none is left */
__attribute__((visibility("default"))) bool toy_give(void *memory);  /* false: it is none */
bool toy_owns(const void *pointer);

/* toy_run.c */
bool toy_supports(const weft_backend_operation *op, const char **why);
bool toy_run(weft_backend_comm *comm, const weft_backend_work *work); /* false: it was doomed meanwhile */
bool toy_wait(weft_backend_comm *comm, int *tries); /* a pause before the next look; false: it is doomed */
size_t toy_element(weft_dtype dtype);               /* bytes */

#endif
