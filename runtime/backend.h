/* backend.h - the seam for running one whole operation.  The host backend is part of the library; others are
 * modules: a shared object libweft_NAME.so with one export, weft_backend_open, that is handed one table of
 * what it may call.  So a module needs no symbol of the library and works with libweft.a too. */
#ifndef WEFT_RUNTIME_BACKEND_H
#define WEFT_RUNTIME_BACKEND_H
#include "op.h"

#include <weft/weft.h>

#define WEFT__MODULE_VERSION 2 /* of the two tables; a module made for another one is not loaded */

/* An operation as a module sees it.  Stays valid until the module has finished it, also if the request has
 * settled meanwhile (its time ran out, or it was cancelled): the runtime holds its own reference. */
typedef struct weft__work {
    weft__op op;
    weft_request *request;
    int rank, size; /* in the group */
    uint64_t group, sequence;
    void *stream; /* weft_call.stream */
    void *state;  /* the module's */
} weft__work;

/* What a module may call, from any thread, never blocking. */
typedef struct weft__module_table {
    int version;
    /* The work is over and its buffers are free.  Exactly once per work, after which `work` is gone.
     * status: WEFT_OK or a failure; sentence: NULL, or why. */
    void (*finish)(weft__work *work, weft_status status, const char *sentence);
    void (*log)(int level, const char *line);
    int64_t (*now_ns)(void);
} weft__module_table;

typedef struct weft__backend weft__backend;
struct weft__backend {
    int version;
    const char *name;
    weft_memory memory; /* the kind of memory it moves */
    /* Does that pointer point to memory of its kind?  Any thread, never blocks.  NULL: callers have to say.
     */
    bool (*owns)(weft__backend *backend, const void *pointer);
    /* Begin.  Progress thread, the engine let go: it may block.  May call finish. */
    void (*start)(weft__backend *backend, weft__work *work);
    /* Look after what has been started.  Like start.  Returns how much was done. */
    int (*poll)(weft__backend *backend);
    /* Stop as soon as possible: finish follows when nothing touches the buffers any more.  Any thread, also
     * while start or poll is blocked.  Must not block.  May be called more than once. */
    void (*cancel)(weft__backend *backend, weft__work *work);
    /* Progress thread gone, no work left. */
    void (*close)(weft__backend *backend);
};

/* The one export of a module.  Returns NULL and sets *why if it cannot run here ("no CUDA driver"). */
typedef weft__backend *weft__backend_open_fn(const weft__module_table *table, const char **why);
#define WEFT__BACKEND_OPEN "weft_backend_open"
#endif
