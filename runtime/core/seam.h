/* seam.h - the runtime's side of weft/backend.h: which modules a context has, and which of them moves what.
 *
 * A context has one module for each kind of memory at most.  What the ranks of a group do not all have alike is
 * not used there: an operation on such memory is refused before it has its number, with a sentence. */
#ifndef WEFT_RUNTIME_SEAM_H
#define WEFT_RUNTIME_SEAM_H
#include "mpsc.h"
#include "op.h"

#include <stdatomic.h>
#include <weft/backend.h>

/* How far an operation on a device has come; told in messages. */
typedef enum weft__phase {
    WEFT__PHASE_AGREEING,   /* some rank has not submitted it */
    WEFT__PHASE_CONNECTING, /* its communicator is being made */
    WEFT__PHASE_ORDERING,   /* its place among the others is being agreed */
    WEFT__PHASE_ISSUING,    /* handed to the module, which is perhaps inside a call */
    WEFT__PHASE_RUNNING,    /* issued: the device has it */
    WEFT__PHASE_OVER,       /* finished */
    WEFT__PHASE_BEHIND      /* told alone: RUNNING, but the caller's stream has not reached it */
} weft__phase;

#define WEFT__MEMORIES 4 /* values of weft_memory: a context's modules stand under their kind of memory */

/* A loaded shared object, and the backend that it has opened for a context. */
typedef struct weft__module {
    weft_backend *backend; /* NULL: none for this kind of memory */
    void *handle;          /* dlopen's */
    weft__mpsc work;       /* requests for it; whoever gives it works takes them, one thread at a time */
    _Atomic int pending;   /* works that it has and has not finished */
    _Atomic int behind;    /* of these, the ones that a stream of the program's has not reached */
    _Atomic bool lost;     /* a thread has not come back out of it */
    _Atomic bool turn;     /* backend->any_thread: a thread is inside start or poll */
    _Atomic bool lingers;  /* backend->lingers, and it has had a communicator (linger.h) */
    bool exposure_told;    /* engine: what `exposes` says, if it was to be said */
    int64_t looked_ns;     /* when the progress thread last did */
    _Atomic int64_t served_since; /* a caller who waits is inside since, or 0 */
    uint64_t *addresses;          /* by rank of the world, where the backend wants to know them; else NULL */
} weft__module;

/* The module that moves such memory; NULL: none. */
weft__module *weft__module_for(weft_context *ctx, weft_memory memory);
/* The next that is loaded, in the order of kinds; after NULL the first.  NULL: there is none any more. */
weft__module *weft__module_next(weft_context *ctx, const weft__module *after);
weft_memory weft__module_memory(const weft_context *ctx, const weft__module *module); /* its kind */
/* Never AUTO; of NULL the host's.  Fails: a module cannot tell. */
weft_status weft__memory_at(weft_context *ctx, const void *pointer, weft_memory *memory);

/* Raised whenever what ranks tell each other of a backend's communicators and operations changes: the words of
 * device_comm.c, device_options.h and order.c, what an agreement carries (gate.h), phases of operations, ids of messages in
 * bundles and counts of those in graphs, signatures and when they go (signing.h). */
#define WEFT__DEVICE_WORDS_VERSION 9

/* What a rank has for each kind of memory, as it tells the others; 0: nothing. */
typedef struct weft__module_card {
    uint32_t of[WEFT__MEMORIES];
    uint64_t address[WEFT__MEMORIES];
} weft__module_card;
weft__module_card weft__module_card_of(const weft_context *ctx);
/* A bit for each kind of memory for which this rank has the same as that card. */
uint8_t weft__modules_alike(const weft_context *ctx, const weft__module_card *card);

/* The op is canonical.  Will its module carry it out in that group? */
weft_status weft__module_check(weft_group *group, weft__module *module, const weft__op *op);
/* In host memory, where the library carries out what no module takes. */
bool weft__module_takes(weft_group *group, const weft__op *op);
/* The slots that a module may leave out. */
weft_status weft__module_mark(weft__module *module, void *stream, void **marker);
void weft__module_unmark(weft__module *module, void *marker);
weft_status weft__module_order(weft__module *module, weft_backend_work *work, void *stream);
weft_status weft__module_fail(weft_status status, const char *sentence); /* weft_backend_runtime.fail */

/* An op as a module sees it. */
weft_backend_operation weft__module_operation(const weft__op *op);
#endif
