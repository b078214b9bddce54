/* comm_destroy.c - how a communicator ends: stopped by an abort, or finalized and destroyed when nobody holds
 * it.
 *
 * Happy path: drop, the last reference goes, bury finalizes, destroys and frees.  In trouble: stop marks it,
 * and a thread aborts it once nobody is inside, or after the grace; before that it revokes one on which a call
 * hangs, so that works which that call was to issue end though the device is busy.  Fails: an abort that hangs keeps its
 * thread; its works are never finished then, and the runtime gives the device up. */
#include "at_exit.h"
#include "communicator.h"
#include "graph.h"
#include "memory.h"
#include "registered.h"
#include "thread.h"

#include <stdio.h>
#include <stdlib.h>

/* Lock held: until nobody is inside, or for the grace; nobody who asks ever stays long. */
static void await_leaving(weft__comm *comm)
{
    int64_t deadline_ns = weft__nccl_now(comm->nccl) + comm->nccl->grace_ns;
    bool waits = true;
    while (comm->lookers || (comm->entered && waits))
        waits = weft__nccl_cond_wait(&comm->changed, &comm->lock, waits ? deadline_ns : WEFT__NCCL_NEVER);
}

/* Nobody else is inside, nor comes.  A call has begun there, and has not ended. */
static bool has_begun(const weft__comm *comm)
{
    ncclResult_t result = ncclSuccess;
    return ncclCommGetAsyncError(comm->handle, &result) == ncclSuccess && result == ncclInProgress;
}

/* Until nothing of it runs any more.  What it says then may be what the network's threads have found before, which NCCL
 * does not take back: it is revoked nevertheless. */
static bool await_revoked(const weft__comm *comm, ncclResult_t result)
{
    unsigned turns = 0;
    while (result == ncclInProgress) {
        weft__thread_pause(&turns);
        if (ncclCommGetAsyncError(comm->handle, &result) != ncclSuccess) return false;
    }
    return true;
}

/* Lock held, and let go in between.  It frees nothing, so that who is inside a call comes out of it.  False: somebody does
 * not, or NCCL refuses. */
static bool revoke(weft__comm *comm)
{
    ncclResult_t result;
    bool left;
    pthread_mutex_unlock(&comm->lock);
    result = comm->nccl->newer.revoke(comm->handle, WEFT__NCCL_REVOKE);
    if (result != ncclSuccess && result != ncclInProgress)
        weft__nccl_log(comm->nccl, 2, "ncclCommRevoke of communicator %s: %s", comm->label,
                       ncclGetErrorString(result));
    pthread_mutex_lock(&comm->lock);
    if (result != ncclSuccess && result != ncclInProgress) return false;
    await_leaving(comm);
    left = !comm->entered;
    pthread_mutex_unlock(&comm->lock);
    left = left && await_revoked(comm, result);
    pthread_mutex_lock(&comm->lock);
    return left;
}

/* Lock held, and let go in between.  Is there a call that the abort would free the communicator under, or whose works
 * would have to wait with it for all that the device does?  Not of those that share resources, which stop together; nor of
 * what NCCL has recorded in graphs, for after a revoke the abort would not wait until they are gone, and free what they
 * launch. */
static bool has_to_let_out(weft__comm *comm)
{
    bool begun = comm->entered;
    if (!comm->was_ready || !comm->handle || !comm->nccl->newer.revoke || comm->nccl->share) return false;
    if (comm->recorded) return false;
    if (begun || comm->lent) return begun;
    pthread_mutex_unlock(&comm->lock);
    begun = has_begun(comm);
    pthread_mutex_lock(&comm->lock);
    return begun;
}

static bool abort_handle(const weft__comm *comm, ncclComm_t handle)
{
    ncclResult_t result = handle ? ncclCommAbort(handle) : ncclSuccess;
    if (result != ncclSuccess)
        weft__nccl_log(comm->nccl, 1, "ncclCommAbort of communicator %s: %s", comm->label,
                       ncclGetErrorString(result));
    return result == ncclSuccess;
}

/* Lock held, and let go in between.  The program has the handle, and may be inside a call of it, which an abort would free
 * it under.  Revoked, it stays until it is buried, when the program has let go of its group.  What has windows, or memory
 * that is registered with it, is aborted all the same: who frees that relies on it; so is what NCCL has recorded in graphs,
 * where the abort frees nothing before they are gone. */
static bool keeps_handle(weft__comm *comm)
{
    bool keeps = comm->lent && comm->handle && comm->nccl->newer.revoke && !comm->recorded;
    pthread_mutex_unlock(&comm->lock);
    keeps = keeps && !weft__memory_has_window(comm) && !weft__registered_any(comm);
    pthread_mutex_lock(&comm->lock);
    return keeps;
}

static bool abort_handles(weft__comm *comm)
{
    ncclComm_t handle, root;
    bool ended;
    pthread_mutex_lock(&comm->lock);
    handle = comm->handle;
    root = comm->root;
    comm->handle = NULL;
    comm->root = NULL;
    pthread_mutex_unlock(&comm->lock);
    ended = abort_handle(comm, handle);
    return abort_handle(comm, root) && ended;
}

/* Lock held. */
static void ending_to(weft__comm *comm, weft__comm_state state)
{
    atomic_store(&comm->state, state);
    weft__graph_awaited(comm);
    pthread_cond_broadcast(&comm->changed);
}

static void abort_when_left(void *arg)
{
    weft__comm *comm = arg;
    bool keeps, revoked, ended = true;
    pthread_mutex_lock(&comm->lock);
    await_leaving(comm);
    ending_to(comm, WEFT__COMM_ABORTING);
    keeps = keeps_handle(comm);
    revoked = (keeps || has_to_let_out(comm)) && revoke(comm);
    if (revoked) ending_to(comm, WEFT__COMM_QUIET);
    /* Who was let out may have recorded something before, which the abort of what is revoked does not wait for. */
    if (revoked && !keeps) weft__graph_outwait(comm);
    pthread_mutex_unlock(&comm->lock);
    if (!keeps || !revoked) ended = abort_handles(comm);
    pthread_mutex_lock(&comm->lock);
    ending_to(comm, ended ? WEFT__COMM_ABORTED : WEFT__COMM_REFUSED);
    pthread_mutex_unlock(&comm->lock);
    weft__comm_unref(comm);
}

/* Lock held: the first reason, and where the calls on it stood. */
static void mark(weft__comm *comm, weft_status status, const char *why)
{
    const char *call = atomic_load_explicit(&comm->call, memory_order_acquire);
    int64_t since = atomic_load_explicit(&comm->call_since_ns, memory_order_relaxed);
    double inside_s = (double)(weft__nccl_now(comm->nccl) - since) / 1e9;
    comm->status = status;
    comm->was_ready = atomic_load(&comm->state) == WEFT__COMM_READY;
    if (call)
        snprintf(comm->why, sizeof comm->why, "%.500s; stopped inside %s, %.1f s after it was called", why,
                 call, inside_s);
    else
        snprintf(comm->why, sizeof comm->why, "%s", why);
    atomic_store(&comm->state, WEFT__COMM_DOOMED);
    pthread_cond_broadcast(&comm->changed);
}

/* True: it was not doomed before.  Called again where no thread could be had the first time. */
static bool stop_one(weft__comm *comm, weft_status status, const char *why, weft__comm **parent)
{
    bool first, starts;
    pthread_mutex_lock(&comm->lock);
    first = !weft__comm_doomed(comm);
    if (first) mark(comm, status, why);
    starts = atomic_load(&comm->state) == WEFT__COMM_DOOMED && !comm->aborter;
    comm->aborter = comm->aborter || starts;
    *parent = comm->parent; /* it stays while comm->parent says so */
    if (*parent) weft__comm_ref(*parent);
    pthread_mutex_unlock(&comm->lock);
    if (!starts) return first;
    weft__comm_ref(comm);
    if (weft__thread_start(comm->nccl, abort_when_left, comm)) return first;
    pthread_mutex_lock(&comm->lock);
    comm->aborter = false;
    pthread_mutex_unlock(&comm->lock);
    weft__comm_unref(comm);
    return first;
}

/* One of those that share this one's resources and live; it is referenced. */
static weft__comm *relative(weft__comm *comm)
{
    weft__nccl *nccl = comm->nccl;
    weft__comm *found = NULL;
    pthread_mutex_lock(&nccl->lock);
    WEFT__LIST_EACH(&nccl->comms, at)
    {
        weft__comm *other = WEFT__LIST_ENTRY(at, weft__comm, link);
        if (found || other == comm || other->family != comm->family || weft__comm_doomed(other)) continue;
        if (weft__comm_ref_living(other)) found = other;
    }
    pthread_mutex_unlock(&nccl->lock);
    return found;
}

void weft__comm_stop(weft__comm *comm, weft_status status, const char *why)
{
    weft__comm *parent, *other;
    char text[WEFT__NCCL_SENTENCE];
    bool first = stop_one(comm, status, why, &parent);
    snprintf(text, sizeof text, "communicator %s, with which it shares resources, was stopped: %.400s",
             comm->label, why);
    if (parent) {
        if (first) weft__comm_stop(parent, WEFT_ERR_BROKEN, text);
        weft__comm_unref(parent);
    }
    while (first && comm->nccl->share && (other = relative(comm))) {
        weft__comm_stop(other, WEFT_ERR_BROKEN, text);
        weft__comm_unref(other);
    }
}

void weft__comm_doom(weft__comm *comm, const char *why)
{
    weft__comm_stop(comm, WEFT_ERR_BROKEN, why ? why : "it was stopped");
}

/* What is still being split off is made to its end, and ends then: stopped now, its parent would be too. */
void weft__comm_drop(weft__comm *comm)
{
    bool joining;
    pthread_mutex_lock(&comm->lock);
    comm->dropped = true;
    joining = atomic_load(&comm->state) == WEFT__COMM_JOINING && !comm->parent;
    pthread_mutex_unlock(&comm->lock);
    if (atomic_load(&comm->graphs))
        weft__nccl_log(comm->nccl, 2, "communicator %s outlives its group: %u graphs hold it", comm->label,
                       atomic_load(&comm->graphs));
    if (joining) weft__comm_doom(comm, "it is not needed any more");
    weft__comm_unref(comm);
}

/* ---- burial ---- */

static bool hurried(weft__nccl *nccl)
{
    bool hurry;
    pthread_mutex_lock(&nccl->lock);
    hurry = nccl->hurry;
    pthread_mutex_unlock(&nccl->lock);
    return hurry;
}

/* Waits in the background for the other ranks of this host, as NCCL asks; closing ends its patience. */
static bool finalize(const weft__comm *comm, ncclComm_t handle)
{
    ncclResult_t result = hurried(comm->nccl) ? ncclInProgress : ncclCommFinalize(handle);
    unsigned turns = 0;
    while (result == ncclInProgress && !hurried(comm->nccl)) {
        weft__thread_pause(&turns);
        if (ncclCommGetAsyncError(handle, &result) != ncclSuccess) result = ncclInternalError;
    }
    return result == ncclSuccess;
}

static void destroy(const weft__comm *comm, ncclComm_t handle, bool finalized)
{
    ncclResult_t result = finalized ? ncclCommDestroy(handle) : weft__at_exit_abort(handle);
    if (result != ncclSuccess && result != ncclInProgress)
        weft__nccl_log(comm->nccl, 2, "communicator %s ends with \"%s\"", comm->label,
                       ncclGetErrorString(result));
}

/* The part whose calls block waits, when it is destroyed, for ranks that are known to do so too. */
static void end_handles(weft__comm *comm)
{
    bool finalized = !weft__comm_doomed(comm) && finalize(comm, comm->root ? comm->root : comm->handle);
    destroy(comm, comm->handle, finalized);
    if (comm->root) destroy(comm, comm->root, finalized);
    comm->handle = NULL;
    comm->root = NULL;
}

void weft__comm_bury(weft__comm *comm)
{
    weft__nccl *nccl = comm->nccl;
    weft__memory_leave(comm);
    weft__registered_leave(comm);
    if (comm->handle) end_handles(comm);
    if (comm->stream) cudaStreamDestroy(comm->stream);
    if (comm->scratch) cudaFree(comm->scratch);
    pthread_mutex_lock(&nccl->lock);
    weft__list_remove(&comm->link);
    pthread_mutex_unlock(&nccl->lock);
    pthread_cond_destroy(&comm->changed);
    pthread_mutex_destroy(&comm->lock);
    weft__known_free(comm->known);
    free(comm);
}
