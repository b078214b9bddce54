/* running.c - sees works finish, and orders streams after them.
 *
 * Happy path: an event is recorded behind each group call; a communicator's works end in order, so only the
 * first event of each is asked about; a work is over when its event is.  Fails: an asynchronous error of
 * NCCL, or a failure of the device, stops the communicator; what was on it is finished with that reason as
 * soon as the abort is through and its event has come, and with success if its event came before the abort
 * began. */
#include "running.h"

#include "cuda_device.h"
#include "thread.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS  (50 * WEFT__NCCL_MS)   /* between two questions for an asynchronous error */
#define CAUSE_NS (1000 * WEFT__NCCL_MS) /* for the runtime to find out which rank is behind one */

/* The works of `end`, a chain, are on its communicator's stream; or, where end->cut, perhaps. */
static void running_add(weft__nccl *nccl, weft__event *end)
{
    weft__comm *comm = end->comm;
    end->next = NULL;
    if (comm->first)
        comm->last->next = end;
    else
        comm->first = end;
    comm->last = end;
    if (comm->first == end) {
        weft__comm_ref(comm);
        weft__list_append(&nccl->running, &comm->listed);
        comm->looked_ns = weft__nccl_now(nccl);
    }
}

void weft__running_take_in(weft__nccl *nccl)
{
    weft__event *end = NULL, *before, *last;
    if (!atomic_load_explicit(&nccl->issued, memory_order_relaxed)) return;
    for (last = atomic_exchange_explicit(&nccl->issued, NULL, memory_order_acquire); last; last = before) {
        before = last->next;
        last->next = end;
        end = last;
    }
    for (; end; end = before) {
        before = end->next;
        running_add(nccl, end);
    }
}

/* ---- the end of works ---- */

static void finish_all(weft__comm *comm, weft_status status, const char *sentence)
{
    weft__nccl *nccl = comm->nccl;
    weft__event *end = comm->first;
    weft_backend_work *work = end->works, *next;
    comm->first = end->next;
    weft__pieces_taken(comm, end->pieces);
    pthread_mutex_lock(&nccl->order);
    for (next = work; next; next = next->next) {
        next->state = NULL;
        if (status == WEFT_OK) weft__stream_words_written(next);
    }
    pthread_mutex_unlock(&nccl->order);
    weft__event_give(nccl, end);
    for (; work; work = next) {
        next = work->next; /* the work is gone when it is finished */
        weft__event_give(nccl, work->marker);
        work->marker = NULL;
        nccl->table->finish(work, status, sentence);
    }
}

static void finish_stopped(weft__comm *comm)
{
    char why[WEFT__NCCL_SENTENCE];
    weft_status status;
    pthread_mutex_lock(&comm->lock);
    status = comm->status;
    memcpy(why, comm->why, sizeof why);
    pthread_mutex_unlock(&comm->lock);
    finish_all(comm, status, why);
}

/* Has NCCL launched all that it will?  Where graphs hold a communicator its abort may last as long as they do: then that is
 * so once who issued is out of the call, if it launches before it returns. */
static bool is_through(weft__comm *comm)
{
    bool through;
    if (atomic_load_explicit(&comm->state, memory_order_acquire) >= WEFT__COMM_QUIET) return true;
    pthread_mutex_lock(&comm->lock);
    through = atomic_load(&comm->state) == WEFT__COMM_ABORTING && atomic_load(&comm->graphs) &&
              comm->launches && !comm->entered;
    pthread_mutex_unlock(&comm->lock);
    return through;
}

/* What was cut short has no event yet: whatever NCCL had launched is before this.  False: it is not recorded; or it is
 * over. */
static bool record_late(weft__comm *comm, weft__event *end)
{
    if (end->capture) { /* it would have gone to a graph, so there is nothing to wait for */
        if (weft__comm_doomed(comm)) finish_stopped(comm);
        return false;
    }
    if (!is_through(comm)) return false;
    end->recorded = cudaEventRecord(end->cuda, comm->stream) == cudaSuccess;
    if (end->recorded) return true;
    cudaGetLastError();
    finish_stopped(comm); /* the device takes nothing any more */
    return false;
}

/* The first of a communicator's.  True: it is over. */
static bool end_first(weft__comm *comm)
{
    weft__event *end = comm->first;
    weft__comm_state state;
    cudaError_t error;
    char text[WEFT__NCCL_SENTENCE];
    if (!end->recorded && !record_late(comm, end)) return comm->first != end;
    error = cudaEventQuery(end->cuda);
    if (error == cudaErrorNotReady) return false;
    /* After the query: what had come before the abort began was not cut short by it. */
    state = atomic_load_explicit(&comm->state, memory_order_acquire);
    if (error != cudaSuccess) {
        cudaGetLastError();
        snprintf(text, sizeof text, "cudaEventQuery: CUDA says \"%s\"", cudaGetErrorString(error));
        weft__comm_stop(comm, WEFT_ERR_SYSTEM, text);
        /* The device may live, and write there until it is through, and until it answers that it does not. */
        if (!is_through(comm) || cudaEventQuery(end->cuda) == cudaErrorNotReady) return false;
        cudaGetLastError();
        finish_stopped(comm);
    } else if (end->cut || state >= WEFT__COMM_ABORTING) {
        finish_stopped(comm);
    } else {
        finish_all(comm, WEFT_OK, NULL);
    }
    return true;
}

/* ---- asynchronous errors ---- */

/* Whoever is behind it has not been found out. */
static void stop_unexplained(weft__comm *comm)
{
    char text[WEFT__NCCL_SENTENCE];
    weft_status status;
    pthread_mutex_lock(&comm->lock);
    status = comm->found;
    memcpy(text, comm->found_why, sizeof text);
    pthread_mutex_unlock(&comm->lock);
    weft__comm_stop(comm, status, text);
}

static void ask_for_error(weft__comm *comm)
{
    char text[WEFT__NCCL_SENTENCE];
    ncclResult_t result = weft__comm_look(comm);
    weft_status status;
    if (result == ncclSuccess) return;
    status = weft__comm_error("ncclCommGetAsyncError", result, text, sizeof text);
    if (!weft__comm_suspect(comm, result, status, text)) weft__comm_stop(comm, status, text);
}

/* One that is reached is reached for good, and an event that has been waited for can be recorded anew: the wait is for
 * what it was then. */
static bool is_behind(weft__nccl *nccl, weft_backend_work *work)
{
    weft__event *mark = work->marker;
    cudaError_t error = mark ? cudaEventQuery(mark->cuda) : cudaSuccess;
    if (error != cudaSuccess) cudaGetLastError();
    if (error == cudaErrorNotReady) return true;
    if (mark) nccl->table->behind(work, false);
    weft__event_give(nccl, mark);
    work->marker = NULL;
    return false;
}

/* What callers' streams have not reached does not wait for NCCL. */
static void look_at_marks(weft__comm *comm)
{
    for (weft__event *end = comm->first; end; end = end->next) {
        if (end->capture) continue; /* its works have none left */
        for (weft_backend_work *work = end->works; work; work = work->next)
            if (is_behind(comm->nccl, work)) comm->nccl->table->behind(work, true);
    }
}

static void running_look(weft__comm *comm)
{
    int64_t now = weft__nccl_now(comm->nccl);
    if (now - comm->looked_ns < LOOK_NS) return;
    comm->looked_ns = now;
    look_at_marks(comm);
    if (weft__comm_doomed(comm))
        weft__comm_stop(comm, WEFT_ERR_BROKEN, ""); /* once more, if there was no thread for the abort */
    else if (!weft__comm_suspects(comm))
        ask_for_error(comm);
    else if (now - atomic_load(&comm->found_ns) >= CAUSE_NS)
        stop_unexplained(comm);
}

int weft__running_poll(weft__nccl *nccl)
{
    int ended = 0;
    weft__running_take_in(nccl);
    if (weft__list_empty(&nccl->running)) return 0;
    weft__thread_settle(nccl);
    WEFT__LIST_EACH(&nccl->running, at)
    {
        weft__comm *comm = WEFT__LIST_ENTRY(at, weft__comm, listed);
        /* What an error has touched is not known to be right, also where it has come to its end. */
        while (comm->first && (!weft__comm_suspects(comm) || weft__comm_doomed(comm)) && end_first(comm))
            ended++;
        if (comm->first) {
            running_look(comm);
            continue;
        }
        weft__list_remove(&comm->listed);
        weft__comm_unref(comm);
    }
    return ended;
}

weft_status weft__running_order(weft_backend *backend, weft_backend_work *work, void *stream)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft_status status = weft__device_check_stream(nccl, stream);
    cudaError_t error = cudaSuccess;
    weft__event *end;
    if (status != WEFT_OK) return status;
    pthread_mutex_lock(&nccl->order);
    end = work->state;
    if (end) error = cudaStreamWaitEvent(stream, end->cuda, 0);
    pthread_mutex_unlock(&nccl->order);
    if (error == cudaSuccess) return WEFT_OK;
    cudaGetLastError();
    return weft__nccl_fail(nccl, WEFT_ERR_SYSTEM, "cudaStreamWaitEvent on stream %p: CUDA says \"%s\"",
                           stream, cudaGetErrorString(error));
}
