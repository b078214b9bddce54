/* module.c - the one export: opens and closes the backend for a context.
 *
 * Happy path: a device is seen, then NCCL is asked for its version, and a table of slots is given out;
 * streams, events and communicators are made when they are first needed.  Fails: open, with one sentence on
 * why it cannot run here.  A close that cannot outwait what hangs leaves it behind, with its memory. */
#include "module.h"

#include "at_exit.h"
#include "communicator.h"
#include "cuda_device.h"
#include "cudart.h"
#include "graph.h"
#include "issue.h"
#include "memory.h"
#include "options.h"
#include "registered.h"
#include "running.h"
#include "thread.h"
#include "types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NCCL_LEAST    21900
#define NCCL_ORDER    22600 /* the first with NCCL_LAUNCH_ORDER_IMPLICIT */
#define CLOSE_MS      1000  /* WEFT_NCCL_CLOSE_MS */
#define NCCL_ENCRYPTS 23203 /* the first with ncclSetEncryption */

__attribute__((visibility("default"))) weft_backend_open_fn weft_backend_open;

/* ---- open ---- */

static int nccl_version(const char **why)
{
    static _Thread_local char text[160];
    int version = 0;
    ncclResult_t result = ncclGetVersion(&version);
    if (result == ncclSuccess && version >= NCCL_LEAST) return version;
    if (result != ncclSuccess)
        snprintf(text, sizeof text, "ncclGetVersion: NCCL says \"%s\"", ncclGetErrorString(result));
    else
        snprintf(text, sizeof text, "NCCL is %d.%d, expected 2.19 or later", version / 10000,
                 version / 100 % 100);
    *why = text;
    return 0;
}

static bool is_on(const char *variable)
{
    const char *text = getenv(variable);
    return text && !strcmp(text, "1");
}

static bool is_off(const char *variable)
{
    const char *text = getenv(variable);
    return text && !strcmp(text, "0");
}

/* The runtime has refused what is no number. */
static int64_t milliseconds(const char *variable, int64_t otherwise)
{
    const char *text = getenv(variable);
    long long found = text ? atoll(text) : 0;
    return (found > 0 ? found : otherwise) * WEFT__NCCL_MS;
}

/* setenv may free the list that another thread's getenv is walking; this one leaves it as it is.  With too
 * little memory NCCL goes by its own defaults. */
static void add_to_environment(const char *one)
{
    size_t n = 0;
    char **more;
    while (environ && environ[n]) n++;
    more = malloc((n + 3) * sizeof *more);
    if (!more) return;
    if (n) memcpy(more, environ, n * sizeof *more);
    more[n] = (char *)(uintptr_t)one;
    more[n + 1] = NULL;
    more[n + 2] = (char *)(void *)environ; /* behind the end: nobody frees it, and it is not lost */
    __atomic_store_n(&environ, more, __ATOMIC_RELEASE);
}

/* Kernels of several communicators run in the order of their launches, which is the one that all ranks have
 * agreed on.  NCCL's check that no two threads launch at once (NCCL_LAUNCH_RACE_FATAL) stays as the program has it: the
 * module launches from one at a time. */
static void order_launches(const weft__nccl *nccl)
{
    if (nccl->version < NCCL_ORDER || getenv("NCCL_LAUNCH_ORDER_IMPLICIT")) return;
    add_to_environment("NCCL_LAUNCH_ORDER_IMPLICIT=1");
}

/* Contexts of one process may be opened at the same time. */
static pthread_mutex_t environment = PTHREAD_MUTEX_INITIALIZER;

static void use_environment(weft__nccl *nccl)
{
    pthread_mutex_lock(&environment);
    nccl->blocking = is_on("WEFT_NCCL_BLOCKING");
    nccl->share = is_on("WEFT_NCCL_SHARE");
    nccl->watches = !is_off("WEFT_NCCL_WATCH_GRAPHS");
    if (!nccl->watches) nccl->seam.replays = NULL;
    /* A stream that waits must not stand in front of what it waits for: as it would in a single hardware queue whatever its
     * priority, and may in front of streams of NCCL's own, which only the program can rule out (DEVICE.md). */
    if (!is_on("WEFT_NCCL_HOLD_STREAMS") || is_on("CUDA_DEVICE_MAX_CONNECTIONS")) nccl->seam.hold = NULL;
    nccl->close_ns = milliseconds("WEFT_NCCL_CLOSE_MS", CLOSE_MS);
    order_launches(nccl);
    pthread_mutex_unlock(&environment);
}

/* In program order a call that first goes a way would wait for the other ranks' first, with all that is submitted behind it; and so
 * for ever where first uses stand in a circle.  So communicators are connected when they are made, which waits for nobody's calls.
 * All ranks do it or none, and before NCCL makes its first: it asks for the variable then. */
static void connect_when_made(weft_backend *backend)
{
    (void)backend;
    pthread_mutex_lock(&environment);
    if (!getenv("NCCL_RUNTIME_CONNECT")) add_to_environment("NCCL_RUNTIME_CONNECT=0");
    pthread_mutex_unlock(&environment);
}

static const char *describe(weft_backend *backend)
{
    return weft__nccl_of(backend)->describes;
}

/* A program's ncclSetEncryption is process-wide and cannot be asked for.  Nothing is made of the job's secret for it here: a key
 * that the program knows nothing of would be in the program's own communicators too. */
static const char *exposes(weft_backend *backend, int *level)
{
    static _Thread_local char text[320];
    const int version = weft__nccl_of(backend)->version;
    if (version < NCCL_ENCRYPTS) {
        snprintf(text, sizeof text,
                 "NCCL %d.%d encrypts nothing: who stands in the path between hosts can read and change what "
                 "operations on "
                 "device memory send there over its sockets (NCCL can encrypt them from 2.32.3 on)",
                 version / 10000, version / 100 % 100);
        return text;
    }
    *level = 2;
    snprintf(text, sizeof text,
             "NCCL %d.%d encrypts what it sends over its sockets between hosts if it is built with OpenSSL 3 "
             "and the program has "
             "called ncclSetEncryption before its first operation on device memory; it is given no key by "
             "this library",
             version / 10000, version / 100 % 100);
    return text;
}

static void close_backend(weft_backend *backend);

static const weft_backend slots = {
    .version = WEFT_BACKEND_VERSION,
    .name = "nccl",
    .memory = WEFT_MEMORY_CUDA,
    .id_bytes = sizeof(ncclUniqueId),
    .owns = weft__device_owns,
    .check = weft__types_check,
    .mark = weft__device_mark,
    .captures = weft__device_captures,
    .unmark = weft__device_unmark,
    .order = weft__running_order,
    .hold = weft__stream_words_hold,
    .let_go = weft__stream_words_let_go,
    .reached = weft__stream_words_reached,
    .open = weft__comm_open,
    .by_callers = weft__comm_by_callers,
    .all_by_callers = connect_when_made,
    .may_configure = weft__options_may,
    .configure = weft__options_set,
    .join = weft__comm_join,
    .split = weft__comm_split,
    .doom = weft__comm_doom,
    .lend = weft__comm_lend,
    .exposes = exposes,
    .drop = weft__comm_drop,
    .enter = weft__issue_enter,
    .issue = weft__issue_entered,
    .start = weft__issue_start,
    .poll = weft__issue_poll,
    .replays = weft__graph_replays,
    .mem_alloc = weft__memory_alloc,
    .mem_is_shareable = weft__memory_is_shareable,
    .mem_free = weft__memory_free,
    .memory_held = weft__memory_held,
    .mem_register = weft__registered_add,
    .mem_deregister = weft__registered_remove,
    .mem_window = weft__memory_find_window,
    .mem_peer = weft__memory_find_peer,
    .describe = describe,
    .close = close_backend,
};

static void module_init(weft__nccl *nccl, const weft_backend_runtime *table, const weft_backend_place *place,
                        int device)
{
    nccl->seam = slots;
    nccl->seam.device = device;
    nccl->table = table;
    nccl->grace_ns = place ? place->grace_ns : 0;
    nccl->probe = !place;
    weft__event_pool_init(&nccl->events);
    pthread_mutex_init(&nccl->lock, NULL);
    weft__nccl_cond_init(&nccl->changed);
    pthread_mutex_init(&nccl->order, NULL);
    pthread_mutex_init(&nccl->windows, NULL);
    pthread_mutex_init(&nccl->words.making, NULL);
    weft__list_init(&nccl->open);
    weft__list_init(&nccl->comms);
    weft__list_init(&nccl->memory);
    nccl->waiting_end = &nccl->waiting;
    nccl->words.passing_end = &nccl->words.passing;
    weft__list_init(&nccl->running);
}

static void discard(weft__nccl *nccl)
{
    weft__event_pool_close(&nccl->events, true);
    pthread_cond_destroy(&nccl->changed);
    pthread_mutex_destroy(&nccl->lock);
    pthread_mutex_destroy(&nccl->order);
    pthread_mutex_destroy(&nccl->windows);
    pthread_mutex_destroy(&nccl->words.making);
    free(nccl);
}

weft_backend *weft_backend_open(const weft_backend_runtime *table, const weft_backend_place *place,
                                const char **why)
{
    weft__nccl *nccl;
    int version, device;
    if (table->version != WEFT_BACKEND_VERSION) {
        *why = "it is made for another version of this library";
        return NULL;
    }
    if (!weft__cudart_find(why)) return NULL;
    device = weft__device_choose(place, why); /* before any call of NCCL */
    version = device < 0 ? 0 : nccl_version(why);
    if (!version) return NULL;
    nccl = calloc(1, sizeof *nccl);
    if (!nccl) {
        *why = "no memory";
        return NULL;
    }
    module_init(nccl, table, place, device);
    nccl->version = version;
    if (!weft__device_find_driver(nccl, why)) {
        discard(nccl);
        return NULL;
    }
    weft__device_describe(nccl);
    if (place) {
        weft__symbols_find(&nccl->newer);
        weft__stream_words_find(nccl);
        use_environment(nccl);
        weft__at_exit_add(nccl);
    }
    return &nccl->seam;
}

/* ---- close ---- */

/* It is to be whole for as long as graphs hold it. */
static bool is_left_to_graphs(weft__comm *comm)
{
    return atomic_load(&comm->dropped) && atomic_load(&comm->graphs);
}

/* What does not end is stopped, but for what only graphs hold. */
static void stop_all(weft__nccl *nccl)
{
    weft__comm *comm;
    do {
        comm = NULL;
        pthread_mutex_lock(&nccl->lock);
        WEFT__LIST_EACH(&nccl->comms, at)
        {
            weft__comm *other = WEFT__LIST_ENTRY(at, weft__comm, link);
            if (!comm && !weft__comm_doomed(other) && !is_left_to_graphs(other) &&
                weft__comm_ref_living(other))
                comm = other;
        }
        pthread_mutex_unlock(&nccl->lock);
        if (comm) {
            weft__comm_doom(comm, "the context was closed");
            weft__comm_unref(comm);
        }
    } while (comm);
}

/* A communicator leaves the list before the thread that ends it is done with the module; who waits for that does not count
 * one that a graph held until a moment ago. */
static bool all_ended(weft__nccl *nccl)
{
    bool ended;
    pthread_mutex_lock(&nccl->lock);
    ended = !nccl->threads && weft__list_empty(&nccl->comms);
    pthread_mutex_unlock(&nccl->lock);
    return ended;
}

/* How long that many communicators take to end nobody knows, as the driver lets them end one by one: so one that
 * ends gives the others their time anew. */
static bool outwait(weft__nccl *nccl)
{
    if (nccl->messages) weft__comm_unref(nccl->messages);
    nccl->messages = NULL;
    if (weft__threads_wait(nccl, nccl->close_ns)) return all_ended(nccl);
    weft__nccl_hurry(nccl);
    stop_all(nccl);
    return weft__threads_wait(nccl, 2 * nccl->close_ns) && all_ended(nccl);
}

/* Is there one that is left, and each held by a graph? */
static bool in_graphs(weft__nccl *nccl)
{
    bool all;
    pthread_mutex_lock(&nccl->lock);
    all = !weft__list_empty(&nccl->comms);
    WEFT__LIST_EACH(&nccl->comms, at)
    {
        all = all && atomic_load(&WEFT__LIST_ENTRY(at, weft__comm, link)->graphs);
    }
    pthread_mutex_unlock(&nccl->lock);
    return all;
}

static void close_backend(weft_backend *backend)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    if (!nccl->probe && !outwait(nccl)) {
        weft__nccl_log(nccl, 1, "a communicator of device %d %s and is left behind", backend->device,
                       in_graphs(nccl) ? "is held by a graph, with which it ends," : "hangs");
        return;
    }
    weft__at_exit_remove(nccl);
    weft__stream_words_close(nccl);
    weft__memory_close(nccl);
    discard(nccl);
}
