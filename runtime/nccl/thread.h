/* thread.h - the module's own threads: each lives as long as one task, which may block. */
#ifndef WEFT_NCCL_THREAD_H
#define WEFT_NCCL_THREAD_H
#include "module.h"

/* False: there is no thread to be had, and run is not called. */
bool weft__thread_start(weft__nccl *nccl, void (*run)(void *arg), void *arg);
/* Starts one and waits until it has run: so a caller's current device is left alone, and no context is made
 * on another one.  On a thread of the module it runs at once. */
bool weft__thread_call(weft__nccl *nccl, void (*run)(void *arg), void *arg);

/* What one of them does for a caller who may go before it is done.  First member of what malloc gave; whoever of the two
 * goes last frees it. */
typedef struct weft__errand {
    weft__nccl *nccl;
    void (*run)(struct weft__errand *errand);
    bool done, alone; /* alone: the caller has gone; both under nccl->lock */
} weft__errand;

/* OK: it has been run, and is the caller's.  ERR_TIMEOUT: it goes on, and is its thread's.  ERR_MEMORY: there is no thread,
 * and it is the caller's. */
weft_status weft__errand_await(weft__errand *errand, int64_t deadline_ns);

/* Waits until all have ended; false: none has for so long. */
bool weft__threads_wait(weft__nccl *nccl, int64_t patience_ns);

/* The calling thread belongs to this library (progress thread, or one started here): its device is this one,
 * and its calls do no harm to a stream that somebody else captures. */
void weft__thread_settle(const weft__nccl *nccl);
/* Longer and longer pauses, from 10 us to 5 ms. */
void weft__thread_pause(unsigned *turns);
#endif
