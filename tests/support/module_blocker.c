/* module_blocker.c - a backend whose start blocks for 2 s (BLOCKER_MS says otherwise): the seam's worst
 * guest. It serves WEFT_MEMORY_CUDA and moves nothing: what is tested is that everything else goes on. */
#include "backend.h"

#include <stdlib.h>
#include <time.h>

static const weft__module_table *_Atomic runtime; /* contexts of one process share it */

static bool owns(weft__backend *backend, const void *pointer)
{
    (void)backend;
    (void)pointer;
    return false; /* only what the caller says to be device memory */
}

static void start(weft__backend *backend, weft__work *work)
{
    const char *given = getenv("BLOCKER_MS");
    long ms = given ? atol(given) : 2000;
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)backend;
    nanosleep(&t, NULL);
    runtime->finish(work, WEFT_OK, NULL);
}

static int poll(weft__backend *backend)
{
    (void)backend;
    return 0;
}

static void cancel(weft__backend *backend, weft__work *work)
{
    /* What sleeps cannot be called back: it finishes when start is through. */
    (void)backend;
    (void)work;
}

static void close(weft__backend *backend)
{
    (void)backend;
}

static weft__backend blocker = {.version = WEFT__MODULE_VERSION,
                                .name = "blocker",
                                .memory = WEFT_MEMORY_CUDA,
                                .owns = owns,
                                .start = start,
                                .poll = poll,
                                .cancel = cancel,
                                .close = close};

__attribute__((visibility("default"))) weft__backend *weft_backend_open(const weft__module_table *table,
                                                                        const char **why);

weft__backend *weft_backend_open(const weft__module_table *table, const char **why)
{
    if (table->version != WEFT__MODULE_VERSION) {
        *why = "the library is of another version";
        return NULL;
    }
    runtime = table;
    return &blocker;
}
