/* staged_module.c - the one export: opens and closes the backend for a context.
 *
 * Happy path: a device is seen, and a table of slots is given out; everything else is made when it is first needed.
 * Fails: open, with one sentence on why it cannot run here.  A close that cannot outwait what hangs leaves it behind,
 * with its memory. */
#include "cuda_device.h"
#include "cudart.h"
#include "staged_comm.h"
#include "staged_memory.h"
#include "staged_run.h"
#include "thread.h"

#include <stdio.h>
#include <stdlib.h>

#define CLOSE_NS \
    (1000 * WEFT__NCCL_MS) /* for a thread of the module to end, before what hangs is left behind */

__attribute__((visibility("default"))) weft_backend_open_fn weft_backend_open;

static weft_status check(weft_backend *backend, const weft_backend_operation *op)
{
    return weft__staged_of(backend)->host->check(op);
}

static const char *describe(weft_backend *backend)
{
    return weft__staged_of(backend)->cuda.describes;
}

/* What hangs in a call of CUDA comes back too late for it. */
static void leave_host(weft_backend *backend)
{
    weft__staged *staged = weft__staged_of(backend);
    weft__threads_wait(&staged->cuda, CLOSE_NS);
    pthread_mutex_lock(&staged->host_turn);
    staged->left = true;
    pthread_mutex_unlock(&staged->host_turn);
}

static void close_backend(weft_backend *backend);

static const weft_backend slots = {
    .version = WEFT_BACKEND_VERSION,
    .name = "staged",
    .memory = WEFT_MEMORY_CUDA,
    .id_bytes = sizeof(uint64_t),
    .owns = weft__device_owns,
    .check = check,
    .mark = weft__device_mark,
    .unmark = weft__device_unmark,
    .order = weft__staged_order,
    .open = weft__staged_open,
    .members = weft__staged_members,
    .join = weft__staged_join,
    .doom = weft__staged_doom,
    .drop = weft__staged_drop,
    .start = weft__staged_start,
    .poll = weft__staged_poll,
    .mem_alloc = weft__staged_alloc,
    .mem_free = weft__staged_free,
    .describe = describe,
    .leave_host = leave_host,
    .close = close_backend,
};

static void describe_device(weft__nccl *cuda)
{
    int runtime = 0;
    char name[201];
    cudaRuntimeGetVersion(&runtime);
    weft__cudart_name_device(cuda->seam.device, name, sizeof name);
    snprintf(cuda->describes, sizeof cuda->describes, "CUDA %d.%d by way of the host, device %d: %s",
             runtime / 1000, runtime % 1000 / 10, cuda->seam.device, name);
}

static void module_init(weft__staged *staged, const weft_backend_runtime *table,
                        const weft_backend_place *place, int device)
{
    weft__nccl *cuda = &staged->cuda;
    cuda->seam = slots;
    cuda->seam.device = device;
    cuda->table = table;
    cuda->probe = !place;
    if (place) {
        cuda->seam.address = (uint64_t)place->rank;
        cuda->grace_ns = place->grace_ns;
        staged->host = place->host;
        staged->context = place->context;
        staged->rank = place->rank;
    }
    weft__event_pool_init(&cuda->events);
    pthread_mutex_init(&cuda->lock, NULL);
    weft__nccl_cond_init(&cuda->changed);
    pthread_mutex_init(&cuda->order, NULL);
    pthread_mutex_init(&staged->naming, NULL);
    pthread_mutex_init(&staged->host_turn, NULL);
    weft__list_init(&cuda->comms);
    weft__list_init(&staged->running);
}

static void discard(weft__staged *staged)
{
    weft__event_pool_close(&staged->cuda.events, true);
    pthread_cond_destroy(&staged->cuda.changed);
    pthread_mutex_destroy(&staged->cuda.lock);
    pthread_mutex_destroy(&staged->cuda.order);
    pthread_mutex_destroy(&staged->naming);
    pthread_mutex_destroy(&staged->host_turn);
    free(staged);
}

weft_backend *weft_backend_open(const weft_backend_runtime *table, const weft_backend_place *place,
                                const char **why)
{
    weft__staged *staged;
    int device;
    if (table->version != WEFT_BACKEND_VERSION) {
        *why = "it is made for another version of this library";
        return NULL;
    }
    if (!weft__cudart_find(why)) return NULL;
    device = weft__device_choose(place, why);
    if (device < 0) return NULL;
    staged = calloc(1, sizeof *staged);
    if (!staged) {
        *why = "no memory";
        return NULL;
    }
    module_init(staged, table, place, device);
    if (!weft__device_find_driver(&staged->cuda, why)) {
        discard(staged);
        return NULL;
    }
    describe_device(&staged->cuda);
    return &staged->cuda.seam;
}

static void close_backend(weft_backend *backend)
{
    weft__staged *staged = weft__staged_of(backend);
    if (staged->alone) weft__staged_unref(staged->alone);
    staged->alone = NULL;
    if (!staged->cuda.probe &&
        (!weft__threads_wait(&staged->cuda, CLOSE_NS) || !weft__list_empty(&staged->cuda.comms))) {
        weft__nccl_log(&staged->cuda, 1, "a communicator of device %d hangs and is left behind",
                       backend->device);
        return;
    }
    discard(staged);
}
