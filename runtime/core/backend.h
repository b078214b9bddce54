/* backend.h - the seam for running whole operations on another kind of memory.  The host backend is part of
 * the library; others are modules: a shared object libweft_NAME.so with one export, weft_backend_open, that
 * is handed one table of what it may call.  So a module needs no symbol of the library and works with
 * libweft.a too.
 *
 * What the runtime has seen to before a module is given work (device.c, order.c, device_pair.c): every rank
 * that takes part has submitted it and agrees what it is; the communicator it runs on is there on all of
 * them; and all of them are given what they share in the same order.  So a module issues work as it comes, at
 * once, and in that order. */
#ifndef WEFT_RUNTIME_BACKEND_H
#define WEFT_RUNTIME_BACKEND_H
#include "op.h"

#include <weft/weft.h>

#define WEFT__MODULE_VERSION 3 /* of the two tables; a module made for another one is not loaded */
#define WEFT__COMM_ID_BYTES  128

/* How far a work has come; told in messages. */
typedef enum weft__phase {
    WEFT__PHASE_AGREEING,   /* some rank has not submitted it */
    WEFT__PHASE_CONNECTING, /* its communicator is being made */
    WEFT__PHASE_ORDERING,   /* its place among the others is being agreed */
    WEFT__PHASE_ISSUING,    /* handed to the module, which is perhaps inside a call */
    WEFT__PHASE_RUNNING,    /* issued: the device has it */
    WEFT__PHASE_OVER        /* finished */
} weft__phase;

typedef struct weft__backend weft__backend;
typedef struct weft__comm weft__comm; /* a communicator; its struct is the module's */

/* An operation as a module sees it.  Stays valid until the module has finished it, also if the request has
 * settled meanwhile (its time ran out, or it was cancelled): the runtime holds its own reference. */
typedef struct weft__work {
    weft__op op;
    weft_request *request;
    weft__comm *comm;        /* NULL: a message to itself, which needs none */
    int rank, size;          /* in the communicator */
    int peer;                /* pair kinds: rank in the communicator, or -1 with comm NULL */
    void *marker;            /* what `mark` gave; the module's again from start on */
    struct weft__work *next; /* to be issued in the same group call */
    _Atomic uint32_t phase;  /* weft__phase; the runtime writes it, the module by way of the table */
    void *state;             /* the module's */
} weft__work;

/* What a module may call, from any thread, never blocking.  Not with a lock of its own held. */
typedef struct weft__module_table {
    int version;
    /* The work is over and its buffers are free.  Exactly once per work, after which `work` is gone.
     * status: WEFT_OK or a failure; sentence: NULL, or why. */
    void (*finish)(weft__work *work, weft_status status, const char *sentence);
    /* The device has it: later work on a stream can be ordered after it (see `order`). */
    void (*issued)(weft__work *work);
    /* Answers to `open` and `join`.  owner: what open was given. */
    void (*named)(void *owner, const unsigned char id[WEFT__COMM_ID_BYTES]);
    void (*joined)(void *owner, weft_status status, const char *sentence);
    /* Sets the calling thread's weft_last_error and returns status. */
    weft_status (*fail)(weft_status status, const char *sentence);
    void (*log)(int level, const char *line);
    int64_t (*now_ns)(void);
} weft__module_table;

/* What a module is told of the context it works for. */
typedef struct weft__module_place {
    int device;           /* config->device: -1: local rank modulo the devices */
    int rank, local_rank; /* in the world; among those of this host */
    int64_t grace_ns;     /* what is cancelled and inside a call is given this long before it is aborted */
} weft__module_place;

struct weft__backend {
    int version;
    const char *name;
    weft_memory memory; /* the kind of memory it moves */
    int device;

    /* ---- the caller's threads; none of these blocks ---- */

    /* Does that pointer point to memory of its kind? */
    bool (*owns)(weft__backend *backend, const void *pointer);
    /* Can it carry out that op, which is canonical?  ERR_UNSUPPORTED and a sentence (table->fail): no. */
    weft_status (*check)(weft__backend *backend, const weft__op *op);
    /* Marks the place on the caller's stream (weft_call.stream) after which the work may begin;
     * WEFT_NO_STREAM: *marker is NULL.  Fails for a stream that is capturing or of another device. */
    weft_status (*mark)(weft__backend *backend, void *stream, void **marker);
    /* That marker is not needed.  Any thread; NULL: nothing. */
    void (*unmark)(weft__backend *backend, void *marker);
    /* Later work on stream waits for this work, which is issued.  Nothing to do if it is over by now. */
    weft_status (*order)(weft__backend *backend, weft__work *work, void *stream);

    /* ---- communicators; any thread; none of these blocks: each begins, on a thread of the module ---- */

    /* One to be, of rank among size.  names: make its id, and tell it by table->named.  NULL: no memory, with
     * a sentence. */
    weft__comm *(*open)(weft__backend *backend, void *owner, int rank, int size, const char *label,
                        bool names);
    /* Join the others that do so with the same id; table->joined follows. */
    void (*join)(weft__comm *comm, const unsigned char id[WEFT__COMM_ID_BYTES]);
    /* parent: a joined one all of whose ranks call this, in the order of the works on it; table->joined
     * follows. color < 0: takes part without getting one (comm NULL). */
    void (*split)(weft__comm *parent, weft__comm *comm, int color, int key);
    /* It is not to be used any more, and what is under way on it will not end by itself: stop it.  Works on
     * it are finished, with ERR_BROKEN if nothing better is known, once nothing touches their buffers.  May
     * be called more than once. */
    void (*doom)(weft__comm *comm, const char *why);
    /* Give it back; no work is on it.  owner is not told anything any more. */
    void (*drop)(weft__comm *comm);

    /* ---- the progress thread, the engine let go: these may block ---- */

    /* Begin: this work and those behind ->next, all on one communicator, in one group call.  May finish them.
     */
    void (*start)(weft__backend *backend, weft__work *first);
    /* Look after what has been started.  Returns how much was done. */
    int (*poll)(weft__backend *backend);

    /* ---- memory; the caller's threads; these may block ---- */

    weft_status (*mem_alloc)(weft__backend *backend, size_t bytes, void **ptr); /* zeroed */
    weft_status (*mem_free)(weft__backend *backend, void *ptr);
    /* Bytes that its communicators hold.  ERR_UNSUPPORTED where that cannot be known. */
    weft_status (*memory_held)(weft__backend *backend, size_t *bytes);

    /* What it runs on, for people: "CUDA 13.0, NCCL 2.28.9, device 0: NVIDIA H100". */
    const char *(*describe)(weft__backend *backend);
    /* Progress thread gone, no work left.  May block a bounded time. */
    void (*close)(weft__backend *backend);
};

/* The one export of a module.  Returns NULL and sets *why if it cannot run here ("no CUDA driver").  place
 * NULL: it is only asked whether it can, and what it runs on; of the table it then
 * has nothing but the version. */
typedef weft__backend *weft__backend_open_fn(const weft__module_table *table, const weft__module_place *place,
                                             const char **why);
#define WEFT__BACKEND_OPEN "weft_backend_open"
#endif
