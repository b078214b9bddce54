/* module_blocker.c - a backend whose start blocks for 2 s (BLOCKER_MS says otherwise): the seam's worst
 * guest. It serves WEFT_MEMORY_CUDA and moves nothing: what is tested is that everything else goes on. */
#include "backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static const weft__module_table *_Atomic runtime; /* contexts of one process share it */

static bool owns(weft__backend *backend, const void *pointer)
{
    (void)backend;
    (void)pointer;
    return false; /* only what the caller says to be device memory */
}

static weft_status check(weft__backend *backend, const weft__op *op)
{
    (void)backend;
    (void)op;
    return WEFT_OK;
}

static weft_status mark(weft__backend *backend, void *stream, void **marker)
{
    (void)backend;
    (void)stream;
    *marker = NULL;
    return WEFT_OK;
}

static void unmark(weft__backend *backend, void *marker)
{
    (void)backend;
    (void)marker;
}

static weft_status order(weft__backend *backend, weft__work *work, void *stream)
{
    (void)backend;
    (void)work;
    (void)stream;
    return runtime->fail(WEFT_ERR_UNSUPPORTED, "the blocker has no streams");
}

/* Its communicators are nothing but their owners, and are there at once. */
struct weft__comm {
    void *owner;
    _Atomic int holders; /* the runtime, and answers under way */
};

static void let_go(weft__comm *comm)
{
    if (--comm->holders == 0) free(comm);
}

static void *answer_named(void *comm)
{
    static const unsigned char id[WEFT__COMM_ID_BYTES];
    runtime->named(((weft__comm *)comm)->owner, id);
    let_go(comm);
    return NULL;
}

static void *answer_joined(void *comm)
{
    runtime->joined(((weft__comm *)comm)->owner, WEFT_OK, NULL);
    let_go(comm);
    return NULL;
}

static void answer(void *(*with)(void *), weft__comm *comm)
{
    pthread_t thread;
    comm->holders++;
    if (pthread_create(&thread, NULL, with, comm) == 0)
        pthread_detach(thread);
    else
        comm->holders--; /* the runtime still has it */
}

static weft__comm *open_comm(weft__backend *backend, void *owner, int rank, int size, const char *label,
                             bool names)
{
    weft__comm *comm = calloc(1, sizeof *comm);
    (void)backend;
    (void)rank;
    (void)size;
    (void)label;
    if (!comm) return NULL;
    comm->owner = owner;
    comm->holders = 1;
    if (names) answer(answer_named, comm);
    return comm;
}

static void join(weft__comm *comm, const unsigned char id[WEFT__COMM_ID_BYTES])
{
    (void)id;
    answer(answer_joined, comm);
}

static void doom(weft__comm *comm, const char *why)
{
    /* What sleeps cannot be called back: it finishes when start is through. */
    (void)comm;
    (void)why;
}

static void drop(weft__comm *comm)
{
    let_go(comm);
}

static void start(weft__backend *backend, weft__work *first)
{
    const char *given = getenv("BLOCKER_MS");
    long ms = given ? atol(given) : 2000;
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    (void)backend;
    nanosleep(&t, NULL);
    while (first) {
        weft__work *next = first->next;
        runtime->finish(first, WEFT_OK, NULL);
        first = next;
    }
}

static int poll(weft__backend *backend)
{
    (void)backend;
    return 0;
}

static void close(weft__backend *backend)
{
    (void)backend;
}

static weft__backend blocker = {.version = WEFT__MODULE_VERSION,
                                .name = "blocker",
                                .memory = WEFT_MEMORY_CUDA,
                                .device = 0,
                                .owns = owns,
                                .check = check,
                                .mark = mark,
                                .unmark = unmark,
                                .order = order,
                                .open = open_comm,
                                .join = join,
                                .doom = doom,
                                .drop = drop,
                                .start = start,
                                .poll = poll,
                                .close = close};

__attribute__((visibility("default"))) weft__backend *
weft_backend_open(const weft__module_table *table, const weft__module_place *place, const char **why);

weft__backend *weft_backend_open(const weft__module_table *table, const weft__module_place *place,
                                 const char **why)
{
    (void)place;
    if (table->version != WEFT__MODULE_VERSION) {
        *why = "the library is of another version";
        return NULL;
    }
    runtime = table;
    return &blocker;
}
