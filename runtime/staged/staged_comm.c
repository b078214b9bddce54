/* staged_comm.c - communicators: made, joined, given up, freed.
 *
 * Happy path: the first rank numbers it, and all make a group in host memory whose name has that number, so that no
 * other one is taken for it.  A thread makes the streams, the events and the pinned memory, and waits for the group.
 * Fails: joining, with what CUDA said or what became of the group; the runtime is told. */
#include "staged_comm.h"

#include "thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENT_MOST 16 /* bytes of the longest type */

static weft__staged_comm *make(weft__staged *staged, int rank, int size, const char *label)
{
    weft__staged_comm *comm = calloc(1, sizeof *comm);
    int *world = comm ? calloc((size_t)size, sizeof *world) : NULL;
    size_t *counts = world ? calloc((size_t)size, sizeof *counts) : NULL;
    if (!counts) {
        free(world);
        free(comm);
        weft__nccl_fail(&staged->cuda, WEFT_ERR_MEMORY, "no memory for the communicator of %s", label);
        return NULL;
    }
    comm->staged = staged;
    comm->rank = rank;
    comm->size = size;
    comm->world = world;
    comm->counts = counts;
    comm->slot_bytes = (size_t)size * ELEMENT_MOST;
    if (comm->slot_bytes < WEFT__STAGED_PIECE) comm->slot_bytes = WEFT__STAGED_PIECE;
    atomic_init(&comm->refs, 1);
    snprintf(comm->label, sizeof comm->label, "%s", label);
    pthread_mutex_init(&comm->lock, NULL);
    weft__list_init(&comm->listed);
    weft__list_init(&comm->link);
    pthread_mutex_lock(&staged->cuda.lock);
    weft__list_append(&staged->cuda.comms, &comm->link);
    pthread_mutex_unlock(&staged->cuda.lock);
    return comm;
}

void weft__staged_ref(weft__staged_comm *comm)
{
    atomic_fetch_add_explicit(&comm->refs, 1, memory_order_relaxed);
}

static void comm_free_way(weft__staged_way *way)
{
    for (int i = 0; i < WEFT__STAGED_SLOTS; i++) {
        if (way->copied[i]) cudaEventDestroy(way->copied[i]);
        if (way->slots[i]) cudaFreeHost(way->slots[i]);
    }
}

/* A thread of the module calls the host plane in turns of this, as the context may end meanwhile, and take the plane
 * along.  False: it has ended. */
static bool begin_turn(weft__staged *staged)
{
    pthread_mutex_lock(&staged->host_turn);
    if (!staged->left) return true;
    pthread_mutex_unlock(&staged->host_turn);
    return false;
}

static void end_turn(weft__staged *staged)
{
    pthread_mutex_unlock(&staged->host_turn);
}

/* On a thread of the module: freeing may block. */
static void bury(void *arg)
{
    weft__staged_comm *comm = arg;
    weft__nccl *cuda = &comm->staged->cuda;
    comm_free_way(&comm->out);
    comm_free_way(&comm->in);
    if (comm->outwards) cudaStreamDestroy(comm->outwards);
    if (comm->inwards) cudaStreamDestroy(comm->inwards);
    cudaGetLastError();
    if (comm->group && begin_turn(comm->staged)) {
        comm->staged->host->group_free(comm->group);
        end_turn(comm->staged);
    }
    pthread_mutex_lock(&cuda->lock);
    weft__list_remove(&comm->link);
    pthread_mutex_unlock(&cuda->lock);
    pthread_mutex_destroy(&comm->lock);
    free(comm->world);
    free(comm->counts);
    free(comm);
}

void weft__staged_unref(weft__staged_comm *comm)
{
    if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1) return;
    if (!weft__thread_start(&comm->staged->cuda, bury, comm))
        weft__nccl_log(&comm->staged->cuda, 1, "no thread to free communicator %s: it stays", comm->label);
}

void weft__staged_stop(weft__staged_comm *comm, weft_status status, const char *why)
{
    pthread_mutex_lock(&comm->lock);
    if (!weft__staged_doomed(comm)) {
        comm->status = status;
        snprintf(comm->why, sizeof comm->why, "%s", why);
        atomic_store(&comm->state, WEFT__STAGED_DOOMED);
    }
    pthread_mutex_unlock(&comm->lock);
}

/* ---- what it needs of CUDA; on a thread of the module, or the progress thread ---- */

static cudaError_t make_streams(weft__staged_comm *comm)
{
    cudaError_t error = cudaStreamCreateWithFlags(&comm->outwards, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&comm->inwards, cudaStreamNonBlocking);
    return error;
}

static cudaError_t make_slots(const weft__staged_comm *comm, weft__staged_way *way)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < WEFT__STAGED_SLOTS && error == cudaSuccess; i++) {
        error = cudaEventCreateWithFlags(&way->copied[i], cudaEventDisableTiming);
        if (error == cudaSuccess)
            error = cudaHostAlloc((void **)&way->slots[i], comm->slot_bytes, cudaHostAllocDefault);
    }
    return error;
}

weft__staged_comm *weft__staged_alone(weft__staged *staged)
{
    weft__staged_comm *comm = staged->alone;
    if (comm) return comm;
    comm = make(staged, 0, 1, "messages to oneself");
    if (!comm) return NULL;
    comm->dropped = true;
    if (make_streams(comm) != cudaSuccess) {
        cudaGetLastError();
        weft__staged_unref(comm);
        return NULL;
    }
    atomic_store(&comm->state, WEFT__STAGED_READY);
    return staged->alone = comm;
}

/* ---- joining ---- */

/* *why has room for WEFT__NCCL_SENTENCE. */
static weft_status make_ready(weft__staged_comm *comm, char *why)
{
    cudaError_t error = make_streams(comm);
    if (error == cudaSuccess) error = make_slots(comm, &comm->out);
    if (error == cudaSuccess) error = make_slots(comm, &comm->in);
    if (error == cudaSuccess) return WEFT_OK;
    cudaGetLastError();
    snprintf(why, WEFT__NCCL_SENTENCE, "no streams and pinned memory: CUDA says \"%s\"",
             cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? WEFT_ERR_MEMORY : WEFT_ERR_SYSTEM;
}

static weft_status host_has_ended(char *why)
{
    snprintf(why, WEFT__NCCL_SENTENCE, "its group is gone");
    return WEFT_ERR_BROKEN;
}

/* Nothing is begun for whom the runtime has given up: it may have taken its leave of the others. */
static weft_status begin_group(weft__staged_comm *comm, weft_group **group, weft_request **req, char *why)
{
    const weft_backend_host *host = comm->staged->host;
    weft_status status;
    bool dropped;
    if (!begin_turn(comm->staged)) return host_has_ended(why);
    pthread_mutex_lock(&comm->lock);
    dropped = comm->dropped;
    pthread_mutex_unlock(&comm->lock);
    status = dropped ? host_has_ended(why)
                     : host->group(comm->staged->context, comm->world, comm->size, comm->name, group, req);
    if (status != WEFT_OK && !dropped) snprintf(why, WEFT__NCCL_SENTENCE, "%.600s", host->last_error());
    end_turn(comm->staged);
    return status;
}

/* Ranks that had begun to join and find no memory have to take part even so: the others would wait. */
static weft_status make_group(weft__staged_comm *comm, bool takes_part, char *why)
{
    const weft_backend_host *host = comm->staged->host;
    weft_request *req = NULL;
    weft_group *group = NULL;
    unsigned turns = 0;
    bool cancelled = false;
    weft_status status = begin_group(comm, &group, &req, why);
    if (status != WEFT_OK) return status;
    for (;;) {
        if (!begin_turn(comm->staged)) return host_has_ended(why);
        if ((status = host->test(req)) != WEFT_PENDING) break;
        if (!cancelled && (!takes_part || weft__staged_doomed(comm))) {
            host->cancel(req);
            cancelled = true;
        }
        end_turn(comm->staged);
        weft__thread_pause(&turns);
    }
    if (status != WEFT_OK) snprintf(why, WEFT__NCCL_SENTENCE, "%.600s", host->message(req));
    host->release(req);
    end_turn(comm->staged);
    pthread_mutex_lock(&comm->lock);
    comm->group = group; /* whatever became of it, it is freed with the communicator */
    pthread_mutex_unlock(&comm->lock);
    return status;
}

static void join(void *arg)
{
    weft__staged_comm *comm = arg;
    const weft_backend_runtime *table = comm->staged->cuda.table;
    char why[WEFT__NCCL_SENTENCE] = "", other[WEFT__NCCL_SENTENCE] = "";
    weft_status ready = make_ready(comm, why), made = make_group(comm, ready == WEFT_OK, other);
    weft_status status = ready != WEFT_OK ? ready : made;
    bool told;
    pthread_mutex_lock(&comm->lock);
    if (status == WEFT_OK && !weft__staged_doomed(comm)) atomic_store(&comm->state, WEFT__STAGED_READY);
    told = !comm->dropped;
    pthread_mutex_unlock(&comm->lock);
    if (told) table->joined(comm->owner, status, status == WEFT_OK ? NULL : ready != WEFT_OK ? why : other);
    weft__staged_unref(comm);
}

static void staged_name(void *arg)
{
    weft__staged_comm *comm = arg;
    weft__staged *staged = comm->staged;
    uint64_t id;
    bool told;
    pthread_mutex_lock(&staged->naming);
    id = (uint64_t)staged->rank << 32 | ++staged->named;
    pthread_mutex_unlock(&staged->naming);
    pthread_mutex_lock(&comm->lock);
    told = !comm->dropped;
    pthread_mutex_unlock(&comm->lock);
    if (told) staged->cuda.table->named(comm->owner, &id);
    weft__staged_unref(comm);
}

/* False: no thread. */
static bool start(weft__staged_comm *comm, void (*run)(void *))
{
    weft__staged_ref(comm);
    if (weft__thread_start(&comm->staged->cuda, run, comm)) return true;
    atomic_fetch_sub(&comm->refs, 1); /* never the last: the runtime's is there */
    return false;
}

weft__staged_comm *weft__staged_open(weft_backend *backend, void *owner, int rank, int size,
                                     const char *label, bool names)
{
    weft__staged *staged = weft__staged_of(backend);
    weft__staged_comm *comm = make(staged, rank, size, label ? label : "");
    if (!comm) return NULL;
    comm->owner = owner;
    if (names && !start(comm, staged_name)) {
        weft__nccl_fail(&staged->cuda, WEFT_ERR_MEMORY, "no thread for the communicator of %s", comm->label);
        weft__staged_unref(comm);
        return NULL;
    }
    return comm;
}

void weft__staged_members(weft__staged_comm *comm, const uint64_t *addresses)
{
    for (int i = 0; i < comm->size; i++) comm->world[i] = (int)addresses[i];
}

void weft__staged_join(weft__staged_comm *comm, const void *id)
{
    uint64_t number;
    memcpy(&number, id, sizeof number);
    snprintf(comm->name, sizeof comm->name, "%.20s by the host %llu.%llu", comm->label,
             (unsigned long long)(number >> 32), (unsigned long long)(number & UINT32_MAX));
    pthread_mutex_lock(&comm->lock);
    if (!weft__staged_doomed(comm)) atomic_store(&comm->state, WEFT__STAGED_JOINING);
    pthread_mutex_unlock(&comm->lock);
    if (start(comm, join)) return;
    /* The runtime may hold the engine here, so it is not told: its time runs out. */
    weft__nccl_log(&comm->staged->cuda, 1, "no thread to join the communicator of %s", comm->label);
}

/* ---- the end ---- */

void weft__staged_doom(weft__staged_comm *comm, const char *why)
{
    weft__staged_stop(comm, WEFT_ERR_BROKEN, why);
}

void weft__staged_drop(weft__staged_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    comm->dropped = true;
    if (!weft__staged_doomed(comm)) {
        comm->status = WEFT_ERR_BROKEN;
        snprintf(comm->why, sizeof comm->why, "its group is gone");
        atomic_store(&comm->state, WEFT__STAGED_DOOMED);
    }
    pthread_mutex_unlock(&comm->lock);
    weft__staged_unref(comm);
}
