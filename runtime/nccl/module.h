/* module.h - what one context has of this backend: the device, NCCL as it runs here, and all that is shared
 * by its communicators.
 *
 * Threads: the caller's (owns, check, mark, order, memory, enter, issue), the context's progress thread (start, poll), and
 * the module's own, which live as long as one task (thread.h).  Several contexts of a process share nothing
 * here. */
#ifndef WEFT_NCCL_MODULE_H
#define WEFT_NCCL_MODULE_H
#include "check.h"
#include "event.h"
#include "list.h"
#include "stream_words.h"
#include "symbols.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <weft/backend.h>

#define WEFT__NCCL_MS       INT64_C(1000000)
#define WEFT__NCCL_SENTENCE 640 /* bytes of one, at most */
#define WEFT__NCCL_NEVER    INT64_MAX

typedef struct weft__nccl {
    weft_backend seam; /* first: what the runtime holds is a pointer to it */
    const weft_backend_runtime *table;
    int64_t grace_ns;
    int version; /* of the NCCL that runs: 22809 */
    int arch;    /* compute capability, major */
    weft__symbols newer;
    bool probe;    /* only asked what it runs on: the table has nothing to call */
    bool blocking; /* WEFT_NCCL_BLOCKING: its calls block; tells faults of NCCL's other mode */
    bool share;    /* WEFT_NCCL_SHARE: what is split shares its parent's resources, and its end */
    bool watches;  /* WEFT_NCCL_WATCH_GRAPHS: graphs tell of their replays */
    /* WEFT_NCCL_CLOSE_MS: when none has ended for so long, closing stops what is left; for twice as long then,
     * and it leaves that behind. */
    int64_t close_ns;
    char describes[320];
    /* The driver's cuPointerGetAttributes: the runtime's makes a context of the thread's current device. */
    CUresult (*pointer_attributes)(unsigned count, CUpointer_attribute *what, void **values, CUdeviceptr at);

    weft__events events;

    pthread_mutex_t lock; /* short; order: a communicator's lock, then this one */
    pthread_cond_t changed;
    unsigned threads;      /* of the module, at work */
    unsigned await_graphs; /* of these, aborts of what graphs hold: graph.c */
    atomic_uint unwatched; /* what the log has said of replays that are not counted or watched: graph.c */
    bool hurry;            /* closing, or exiting: whoever takes leave of a communicator stops being polite */
    uint64_t families;     /* numbers given to communicators that share resources */
    weft__list comms;      /* all of them */
    weft__list memory;     /* what mem_alloc gave */
    pthread_mutex_t order; /* between `order`, `hold` and the end of a work */
    weft__stream_words words; /* for which streams wait: under it */

    weft__list open; /* at_exit.c */

    /* Windows of communicators come and go under this; never across a call of CUDA or NCCL. */
    pthread_mutex_t windows;

    _Atomic unsigned pieces; /* in the queues of all communicators' streams */
    _Atomic bool apart; /* a thread of the module issues what may block, and what is waiting waits for it */
    _Atomic(weft__event *) issued; /* what the progress thread has not seen yet; the last one first */

    /* Progress thread. */
    weft__event *waiting, **waiting_end; /* to be issued, in the order in which they were given */
    weft__list running;                  /* communicators with work that is issued */
    weft__comm *messages; /* no communicator, only a stream: messages to oneself; NULL until needed */
} weft__nccl;

static inline weft__nccl *weft__nccl_of(weft_backend *backend)
{
    return (weft__nccl *)(void *)backend;
}

static inline int64_t weft__nccl_now(const weft__nccl *nccl)
{
    return nccl->table->now_ns();
}

static inline void weft__nccl_hurry(weft__nccl *nccl)
{
    pthread_mutex_lock(&nccl->lock);
    nccl->hurry = true;
    pthread_mutex_unlock(&nccl->lock);
}

/* Sets the caller's weft_last_error. */
weft_status weft__nccl_fail(const weft__nccl *nccl, weft_status status, const char *format, ...)
    WEFT__PRINTF(3, 4);
void weft__nccl_log(const weft__nccl *nccl, int level, const char *format, ...) WEFT__PRINTF(3, 4);

/* A condition that waits by the monotonic clock. */
void weft__nccl_cond_init(pthread_cond_t *cond);
/* False: the deadline has passed. */
bool weft__nccl_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);
#endif
