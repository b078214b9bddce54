/* comm_create.c - how a communicator comes to be: named, and joined by all its ranks; or split off another
 * one.
 *
 * Happy path: each step on a thread of its own, which polls what NCCL does in the background; then its stream
 * and scratch are made, and table->joined says so.  Fails: table->joined tells what NCCL or CUDA said; or why
 * it was doomed meanwhile. */
#include "at_exit.h"
#include "communicator.h"
#include "options.h"
#include "replays.h"
#include "thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_SPARE  192 /* made ahead for each communicator; */
#define EVENTS_CALLED 384 /* where callers issue, who make none */

struct creation {
    weft__comm *comm;   /* NULL: this rank only takes part in a split */
    weft__comm *parent; /* of a split */
    weft__turn turn;    /* on the parent */
    int color, key;
    bool written; /* NCCL will not write a handle any more */
    ncclUniqueId id;
};

/* ---- telling ---- */

/* Ends the birth: READY, or doomed for that reason unless there is an earlier one.  Its parent is forgotten at that moment:
 * whoever lets go of it before leaves it to its split, and whoever stops it afterwards stops it alone. */
static void comm_create_tell(weft__comm *comm, weft_status status, const char *why)
{
    weft__nccl *nccl = comm->nccl;
    char sentence[WEFT__NCCL_SENTENCE];
    bool dropped;
    if (status != WEFT_OK) weft__comm_stop(comm, status, why);
    pthread_mutex_lock(&comm->lock);
    if (!weft__comm_doomed(comm))
        atomic_store(&comm->state, WEFT__COMM_READY);
    else
        status = comm->status;
    comm->parent = NULL;
    snprintf(sentence, sizeof sentence, "%s", comm->why);
    dropped = comm->dropped;
    pthread_mutex_unlock(&comm->lock);
    if (!dropped) nccl->table->joined(comm->owner, status, status == WEFT_OK ? NULL : sentence);
}

static void comm_create_begin(weft__comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    if (!weft__comm_doomed(comm)) atomic_store(&comm->state, WEFT__COMM_JOINING);
    pthread_mutex_unlock(&comm->lock);
}

/* ---- naming ---- */

static void name(void *arg)
{
    weft__comm *comm = arg;
    ncclUniqueId id;
    char text[WEFT__NCCL_SENTENCE];
    ncclResult_t result = ncclGetUniqueId(&id);
    bool dropped;
    pthread_mutex_lock(&comm->lock);
    dropped = comm->dropped;
    pthread_mutex_unlock(&comm->lock);
    if (result != ncclSuccess) {
        weft_status status = weft__comm_error("ncclGetUniqueId", result, text, sizeof text);
        comm_create_tell(comm, status, text);
    } else if (!dropped) {
        comm->nccl->table->named(comm->owner, &id);
    }
    weft__comm_unref(comm);
}

weft__comm *weft__comm_open(weft_backend *backend, void *owner, int rank, int size, const char *label,
                            bool names)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__comm *comm = weft__comm_make(nccl, owner, rank, size, label);
    /* Without memory nothing is known, no caller issues anything, and no stream is held. */
    if (comm) comm->known = weft__known_make(size);
    if (!comm || !names) return comm;
    weft__comm_ref(comm);
    if (weft__thread_start(nccl, name, comm)) return comm;
    weft__comm_unref(comm);
    weft__comm_unref(comm);
    weft__nccl_fail(nccl, WEFT_ERR_MEMORY, "no thread to name the communicator of %s", label);
    return NULL;
}

/* ---- what NCCL has made becomes usable ---- */

static weft_status cuda_failed(cudaError_t error, const char *call, char *text, size_t bytes)
{
    cudaGetLastError();
    snprintf(text, bytes, "%s: CUDA says \"%s\"", call, cudaGetErrorString(error));
    return WEFT_ERR_SYSTEM;
}

static weft_status equip(weft__comm *comm, char *text, size_t bytes)
{
    int least = 0, most = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &most);
    comm->priority = weft__options_priority(comm, least, most);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&comm->stream, cudaStreamNonBlocking, comm->priority);
    if (error != cudaSuccess) return cuda_failed(error, "cudaStreamCreateWithPriority", text, bytes);
    error = cudaMalloc(&comm->scratch, WEFT__COMM_SCRATCH);
    if (error != cudaSuccess) return cuda_failed(error, "cudaMalloc", text, bytes);
    /* Barriers add up what is there; nobody reads it, but it should be something. */
    error = cudaMemsetAsync(comm->scratch, 0, WEFT__COMM_SCRATCH, comm->stream);
    if (error != cudaSuccess) return cuda_failed(error, "cudaMemsetAsync", text, bytes);
    if (comm->by_callers) weft__replays_equip();
    weft__stream_words_equip(comm->nccl);
    error = weft__event_pool_grow(comm->nccl, comm->by_callers ? EVENTS_CALLED : EVENTS_SPARE);
    if (error != cudaSuccess) return cuda_failed(error, "cudaEventCreateWithFlags", text, bytes);
    return WEFT_OK;
}

static ncclConfig_t configure(weft__comm *comm)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = comm->nccl->blocking;
    config.splitShare = comm->nccl->share;
#if NCCL_VERSION_CODE >= 22700
    config.commName = comm->label; /* NCCL keeps the pointer; it is freed after NCCL's part */
#endif
    weft__options_apply(comm, &config);
    return config;
}

/* The handle is known: from now on an abort can reach it. */
static void comm_create_publish(weft__comm *comm)
{
    ncclComm_t late = NULL;
    pthread_mutex_lock(&comm->lock);
    if (atomic_load(&comm->state) < WEFT__COMM_ABORTING)
        comm->handle = comm->born;
    else
        late = comm->born; /* the abort found nothing to abort */
    pthread_mutex_unlock(&comm->lock);
    if (late) weft__at_exit_abort(late);
}

/* ---- the part on which callers issue ---- */

void weft__comm_by_callers(weft__comm *comm)
{
    comm->by_callers = true;
}

/* From now on works are issued on it, and an abort reaches it. */
static void publish_part(weft__comm *comm)
{
    ncclComm_t late = NULL;
    pthread_mutex_lock(&comm->lock);
    if (atomic_load(&comm->state) < WEFT__COMM_ABORTING) {
        comm->root = comm->handle;
        comm->handle = comm->part;
        comm->launches = true;
    } else {
        late = comm->part;
    }
    comm->part = NULL;
    pthread_mutex_unlock(&comm->lock);
    if (late) weft__at_exit_abort(late);
}

/* With the turn; all ranks come here. */
static weft_status split_part(weft__comm *comm, char *text, size_t bytes)
{
    ncclConfig_t config = configure(comm);
    ncclResult_t result;
    if (!comm->by_callers || comm->nccl->blocking || weft__comm_doomed(comm)) return WEFT_OK;
    if (!comm->nccl->newer.revoke || comm->nccl->share)
        return WEFT_OK; /* nothing gets a caller out of a part: callers issue on the root */
    config.blocking = 1;
    weft__comm_inside(comm, "ncclCommSplit");
    result = ncclCommSplit(comm->handle, 0, comm->rank, &comm->part, &config);
    result = weft__comm_await_begun(comm, result);
    comm->unwritten = result == ncclInProgress;
    if (comm->unwritten) return WEFT_OK; /* doomed: tell knows why */
    if (comm->part) publish_part(comm);
    if (result == ncclSuccess) result = weft__comm_await(comm, ncclInProgress);
    return result == ncclSuccess || weft__comm_doomed(comm)
               ? WEFT_OK
               : weft__comm_error("ncclCommSplit", result, text, bytes);
}

/* NCCL writes the part when it is done with the split, and that is not before the root's abort.  False: it may at any time. */
static bool await_part(weft__comm *comm)
{
    if (!comm->unwritten) return true;
    if (!weft__comm_outwait_abort(comm)) return false;
    if (comm->part) publish_part(comm);
    return true;
}

/* ---- joining ---- */

static weft_status comm_create_init(struct creation *creation, char *text, size_t bytes)
{
    weft__comm *comm = creation->comm;
    ncclConfig_t config = configure(comm);
    ncclResult_t result;
    weft__turn turn;
    weft_status status = WEFT_OK;
    weft__turn_ask(comm, &turn);
    if (!weft__turn_take(comm, &turn, WEFT__NCCL_NEVER)) return WEFT_OK; /* doomed: tell knows why */
    weft__comm_inside(comm, "ncclCommInitRankConfig");
    result = ncclCommInitRankConfig(&comm->born, comm->size, creation->id, comm->rank, &config);
    if (comm->born) comm_create_publish(comm);
    if (result == ncclInProgress) result = weft__comm_await(comm, result);
    if (result != ncclSuccess && !weft__comm_doomed(comm))
        status = weft__comm_error("ncclCommInitRankConfig", result, text, bytes);
    if (status == WEFT_OK) status = split_part(comm, text, bytes);
    weft__comm_inside(comm, "cudaStreamCreateWithPriority");
    if (status == WEFT_OK && !weft__comm_doomed(comm)) status = equip(comm, text, bytes);
    weft__turn_give(comm, &turn);
    return status;
}

/* Whoever asked may hold a lock that telling needs; so what waits for the communicator runs out of time. */
static void unable(weft__comm *comm)
{
    weft__nccl_log(comm->nccl, 0, "no memory, or no thread, to make communicator %s", comm->label);
}

static void comm_create_join(void *arg)
{
    struct creation *creation = arg;
    char text[WEFT__NCCL_SENTENCE] = "";
    weft_status status = comm_create_init(creation, text, sizeof text);
    comm_create_tell(creation->comm, status, text);
    if (await_part(creation->comm)) weft__comm_unref(creation->comm);
    free(creation);
}

void weft__comm_join(weft__comm *comm, const void *id)
{
    struct creation *creation = calloc(1, sizeof *creation);
    weft__comm_ref(comm);
    comm_create_begin(comm);
    if (creation) {
        creation->comm = comm;
        memcpy(&creation->id, id, sizeof creation->id);
        if (weft__thread_start(comm->nccl, comm_create_join, creation)) return;
    }
    free(creation);
    unable(comm);
    weft__comm_unref(comm);
}

/* ---- splitting ---- */

/* With the turns of the parent and of what is split off it.  ncclInProgress: one of them was doomed. */
static ncclResult_t divide(struct creation *creation)
{
    weft__comm *parent = creation->parent, *comm = creation->comm;
    ncclConfig_t config = configure(comm ? comm : parent);
    int color = comm ? creation->color : NCCL_SPLIT_NOCOLOR;
    ncclResult_t result;
    weft__comm_inside(parent, "ncclCommSplit");
    if (comm) weft__comm_inside(comm, "ncclCommSplit");
    parent->at_root = true;
    result = ncclCommSplit(parent->root ? parent->root : parent->handle, color, creation->key,
                           comm ? &comm->born : &parent->none, &config);
    result = weft__comm_await_begun(parent, result);
    parent->at_root = false;
    creation->written = result != ncclInProgress;
    if (!creation->written || !comm) return result;
    if (comm->born) comm_create_publish(comm);
    return result == ncclSuccess ? weft__comm_await(comm, ncclInProgress) : result;
}

/* With the parent's turn: what came before is over, for NCCL may hang when it splits what works; or the parent
 * is doomed.  Nobody else looks for errors while the turn is taken. */
static weft_status outwait_works(weft__comm *parent, char *text, size_t bytes)
{
    ncclResult_t result = ncclSuccess;
    cudaError_t error = cudaSuccess;
    unsigned turns = 0;
    while (result == ncclSuccess && (error = cudaStreamQuery(parent->stream)) == cudaErrorNotReady) {
        weft__thread_pause(&turns);
        result = weft__comm_await(parent, ncclInProgress);
    }
    if (result != ncclSuccess && result != ncclInProgress)
        return weft__comm_error("ncclCommGetAsyncError", result, text, bytes);
    if (error == cudaSuccess || error == cudaErrorNotReady) return WEFT_OK;
    return cuda_failed(error, "cudaStreamQuery", text, bytes);
}

/* With the turns of both. */
static weft_status split_idle(struct creation *creation, char *text, size_t bytes)
{
    weft__comm *parent = creation->parent, *comm = creation->comm;
    weft_status status = outwait_works(parent, text, bytes);
    ncclResult_t result;
    if (status != WEFT_OK || weft__comm_doomed(parent)) return status;
    result = divide(creation);
    if (result != ncclSuccess && result != ncclInProgress)
        return weft__comm_error("ncclCommSplit", result, text, bytes);
    if (!comm || weft__comm_doomed(comm) || weft__comm_doomed(parent)) return WEFT_OK;
    status = split_part(comm, text, bytes);
    return status != WEFT_OK || weft__comm_doomed(comm) ? status : equip(comm, text, bytes);
}

static weft_status take_turns(struct creation *creation, char *text, size_t bytes)
{
    weft__comm *parent = creation->parent, *comm = creation->comm;
    weft_status status = WEFT_OK; /* also of what is doomed: tell knows why */
    weft__turn turn;
    creation->written = true;
    if (!weft__turn_take_sound(parent, &creation->turn, WEFT__NCCL_NEVER)) {
        weft__comm_outwait_cause(parent);
        return WEFT_OK;
    }
    if (comm) weft__turn_ask(comm, &turn);
    if (!comm || weft__turn_take(comm, &turn, WEFT__NCCL_NEVER)) {
        status = split_idle(creation, text, bytes);
        if (comm) weft__turn_give(comm, &turn);
    }
    weft__turn_give(parent, &creation->turn);
    return status;
}

/* NCCL writes the handle when it is done with the split, and that is not before the parent's abort.  False: it may at any time. */
static bool await_writing(struct creation *creation)
{
    if (creation->written) return true;
    if (!weft__comm_outwait_abort(creation->parent)) return false;
    if (creation->comm && creation->comm->born) comm_create_publish(creation->comm);
    return true;
}

static void end_split(struct creation *creation, weft_status status, const char *text)
{
    weft__comm *parent = creation->parent, *comm = creation->comm;
    /* A split that one rank has not finished is unusable to all. */
    if (status != WEFT_OK) weft__comm_stop(comm ? comm : parent, status, text);
    if (comm && weft__comm_doomed(parent))
        weft__comm_stop(comm, WEFT_ERR_BROKEN, "the communicator that it is split off was stopped");
    if (comm) comm_create_tell(comm, status, text);
    if (await_writing(creation)) { /* else what NCCL may write to stays, and so does the module */
        if (comm && await_part(comm)) weft__comm_unref(comm);
        weft__comm_unref(parent);
    }
    free(creation);
}

static void comm_create_split(void *arg)
{
    char text[WEFT__NCCL_SENTENCE] = "";
    weft_status status = take_turns(arg, text, sizeof text);
    end_split(arg, status, text);
}

void weft__comm_split(weft__comm *parent, weft__comm *comm, int color, int key)
{
    weft__nccl *nccl = parent->nccl;
    struct creation *creation = calloc(1, sizeof *creation);
    if (!creation) {
        unable(comm ? comm : parent);
        return;
    }
    *creation = (struct creation){.comm = comm, .parent = parent, .color = color, .key = key};
    weft__comm_ref(parent);
    if (comm) {
        weft__comm_ref(comm);
        comm_create_begin(comm);
        pthread_mutex_lock(&comm->lock);
        comm->parent = parent;
        pthread_mutex_unlock(&comm->lock);
        pthread_mutex_lock(&nccl->lock);
        if (nccl->share) comm->family = parent->family;
        pthread_mutex_unlock(&nccl->lock);
    }
    weft__turn_ask(parent, &creation->turn);
    if (weft__thread_start(nccl, comm_create_split, creation)) return;
    if (weft__turn_take(parent, &creation->turn, 0)) weft__turn_give(parent, &creation->turn);
    unable(comm ? comm : parent);
    if (comm) {
        pthread_mutex_lock(&comm->lock);
        comm->parent = NULL;
        pthread_mutex_unlock(&comm->lock);
        weft__comm_unref(comm);
    }
    weft__comm_unref(parent);
    free(creation);
}
