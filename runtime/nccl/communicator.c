/* communicator.c - the struct of a communicator, the turn to call NCCL on it, and waiting for what NCCL does
 * in the background.
 *
 * Happy path: turn_ask, turn_take, calls, comm_await, turn_give.  Fails: a turn is refused, and a wait ends
 * early, once the communicator is doomed. */
#include "communicator.h"

#include "thread.h"

#include <stdio.h>
#include <stdlib.h>

weft__comm *weft__comm_make(weft__nccl *nccl, void *owner, int rank, int size, const char *label)
{
    weft__comm *comm = calloc(1, sizeof *comm);
    if (!comm) {
        weft__nccl_fail(nccl, WEFT_ERR_MEMORY, "no memory for the communicator of %s", label ? label : "");
        return NULL;
    }
    comm->nccl = nccl;
    atomic_init(&comm->refs, 1);
    comm->owner = owner;
    comm->rank = rank;
    comm->size = size;
    snprintf(comm->label, sizeof comm->label, "%s", label ? label : "");
    pthread_mutex_init(&comm->lock, NULL);
    weft__nccl_cond_init(&comm->changed);
    weft__list_init(&comm->listed);
    weft__list_init(&comm->link);
    weft__list_init(&comm->registered);
    weft__list_init(&comm->holds);
    pthread_mutex_lock(&nccl->lock);
    comm->family = ++nccl->families;
    weft__list_append(&nccl->comms, &comm->link);
    pthread_mutex_unlock(&nccl->lock);
    return comm;
}

void weft__comm_ref(weft__comm *comm)
{
    atomic_fetch_add_explicit(&comm->refs, 1, memory_order_relaxed);
}

bool weft__comm_ref_living(weft__comm *comm)
{
    unsigned refs = atomic_load_explicit(&comm->refs, memory_order_relaxed);
    while (refs && !atomic_compare_exchange_weak_explicit(&comm->refs, &refs, refs + 1, memory_order_relaxed,
                                                          memory_order_relaxed)) {
    }
    return refs;
}

static void bury(void *comm)
{
    weft__comm_bury(comm);
}

void weft__comm_unref(weft__comm *comm)
{
    if (atomic_fetch_sub_explicit(&comm->refs, 1, memory_order_acq_rel) != 1) return;
    if (!weft__thread_start(comm->nccl, bury, comm))
        weft__nccl_log(comm->nccl, 1, "no thread to free communicator %s: it stays", comm->label);
}

void weft__turn_ask(weft__comm *comm, weft__turn *turn)
{
    *turn = (weft__turn){0};
    pthread_mutex_lock(&comm->lock);
    if (comm->turn)
        comm->turn_last->next = turn;
    else
        comm->turn = turn;
    comm->turn_last = turn;
    pthread_mutex_unlock(&comm->lock);
}

/* Lock held. */
static void communicator_leave(weft__comm *comm, weft__turn *turn)
{
    weft__turn **at = &comm->turn, *before = NULL;
    while (*at != turn) {
        before = *at;
        at = &before->next;
    }
    *at = turn->next;
    if (comm->turn_last == turn) comm->turn_last = before;
    pthread_cond_broadcast(&comm->changed);
}

/* Lock held. */
static weft__turn_state try_turn(weft__comm *comm, weft__turn *turn)
{
    if (weft__comm_doomed(comm)) {
        communicator_leave(comm, turn);
        return WEFT__TURN_REFUSED;
    }
    if (comm->turn != turn || comm->lookers) return WEFT__TURN_WAITS;
    comm->entered = true;
    turn->taken = true;
    return WEFT__TURN_TAKEN;
}

bool weft__turn_ask_alone(weft__comm *comm, weft__turn *turn)
{
    bool has = false;
    *turn = (weft__turn){0};
    pthread_mutex_lock(&comm->lock);
    if (!comm->turn) {
        comm->turn = comm->turn_last = turn;
        has = try_turn(comm, turn) != WEFT__TURN_REFUSED;
    }
    pthread_mutex_unlock(&comm->lock);
    return has;
}

weft__turn_state weft__turn_try(weft__comm *comm, weft__turn *turn)
{
    weft__turn_state state;
    pthread_mutex_lock(&comm->lock);
    state = try_turn(comm, turn);
    pthread_mutex_unlock(&comm->lock);
    return state;
}

bool weft__turn_take(weft__comm *comm, weft__turn *turn, int64_t deadline_ns)
{
    bool waits = true;
    weft__turn_state state;
    if (turn->taken) return true;
    pthread_mutex_lock(&comm->lock);
    while ((state = try_turn(comm, turn)) == WEFT__TURN_WAITS && waits)
        waits = weft__nccl_cond_wait(&comm->changed, &comm->lock, deadline_ns);
    if (state == WEFT__TURN_WAITS) communicator_leave(comm, turn);
    pthread_mutex_unlock(&comm->lock);
    return state == WEFT__TURN_TAKEN;
}

bool weft__turn_take_sound(weft__comm *comm, weft__turn *turn, int64_t deadline_ns)
{
    if (!weft__turn_take(comm, turn, deadline_ns)) return false;
    if (!weft__comm_suspects(comm)) return true;
    weft__turn_give(comm, turn);
    return false;
}

void weft__turn_give(weft__comm *comm, weft__turn *turn)
{
    weft__comm_inside(comm, NULL);
    pthread_mutex_lock(&comm->lock);
    comm->entered = false;
    communicator_leave(comm, turn);
    pthread_mutex_unlock(&comm->lock);
}

void weft__turn_give_issued(weft__comm *comm, weft__event *end)
{
    weft__event *before;
    weft__comm_inside(comm, NULL);
    pthread_mutex_lock(&comm->lock);
    comm->entered = false;
    communicator_leave(comm, &end->turn);
    before = atomic_load_explicit(&comm->nccl->issued, memory_order_relaxed);
    do {
        end->next = before;
    } while (!atomic_compare_exchange_weak_explicit(&comm->nccl->issued, &before, end, memory_order_release,
                                                    memory_order_relaxed));
    pthread_mutex_unlock(&comm->lock);
}

/* Lock held; it is given back.  The question is counted before that, so that neither an abort, which frees the
 * handle, nor a call comes beside it. */
static ncclResult_t ask(weft__comm *comm, ncclResult_t *result)
{
    ncclComm_t handle = comm->at_root && comm->root ? comm->root : comm->handle;
    ncclResult_t asked;
    comm->lookers++;
    pthread_mutex_unlock(&comm->lock);
    asked = ncclCommGetAsyncError(handle, result);
    pthread_mutex_lock(&comm->lock);
    comm->lookers--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    return asked;
}

ncclResult_t weft__comm_await(weft__comm *comm, ncclResult_t result)
{
    unsigned turns = 0;
    while (result == ncclInProgress) {
        ncclResult_t asked;
        weft__thread_pause(&turns);
        comm->nccl->table->waits();
        pthread_mutex_lock(&comm->lock);
        if (weft__comm_doomed(comm)) {
            pthread_mutex_unlock(&comm->lock);
            break;
        }
        asked = ask(comm, &result);
        if (asked != ncclSuccess) return asked;
    }
    return result;
}

ncclResult_t weft__comm_look(weft__comm *comm)
{
    ncclResult_t asked, result = ncclSuccess;
    pthread_mutex_lock(&comm->lock);
    if (atomic_load(&comm->state) != WEFT__COMM_READY || !comm->handle || comm->entered) {
        pthread_mutex_unlock(&comm->lock);
        return ncclSuccess;
    }
    asked = ask(comm, &result);
    if (asked != ncclSuccess) return asked;
    return result == ncclInProgress ? ncclSuccess : result;
}

/* A rank that is gone; in program order also one that means something else. */
bool weft__comm_suspect(weft__comm *comm, ncclResult_t result, weft_status status, const char *why)
{
    if (result != ncclRemoteError && !comm->by_callers) return false;
    pthread_mutex_lock(&comm->lock);
    if (!weft__comm_suspects(comm)) {
        comm->found = status;
        snprintf(comm->found_why, sizeof comm->found_why, "%s", why);
        atomic_store(&comm->found_ns, weft__nccl_now(comm->nccl));
    }
    pthread_mutex_unlock(&comm->lock);
    return true;
}

/* Whoever has a turn, or waits for one, works on it; a work that is issued is in nobody's turn. */
weft_status weft__comm_lend(weft__comm *comm, void **handle, void **stream)
{
    bool ready, used, failed;
    pthread_mutex_lock(&comm->lock);
    failed = weft__comm_suspects(comm);
    ready = !failed && atomic_load(&comm->state) == WEFT__COMM_READY && comm->handle;
    used = comm->turn || comm->lookers || atomic_load(&comm->pieces);
    *handle = comm->handle;
    *stream = comm->stream;
    comm->lent = comm->lent || (ready && !used);
    pthread_mutex_unlock(&comm->lock);
    if (ready && !used) return WEFT_OK;
    return weft__nccl_fail(comm->nccl, ready ? WEFT_ERR_STATE : WEFT_ERR_BROKEN, "communicator %s %s",
                           comm->label,
                           ready    ? "is in use: an operation on device memory is under way on it"
                           : failed ? "has failed"
                                    : "is stopped");
}

bool weft__comm_outwait_abort_until(weft__comm *comm, int64_t deadline_ns)
{
    bool waits = true, aborted;
    pthread_mutex_lock(&comm->lock);
    while (!(aborted = atomic_load(&comm->state) >= WEFT__COMM_ABORTED) && waits)
        waits = weft__nccl_cond_wait(&comm->changed, &comm->lock, deadline_ns);
    pthread_mutex_unlock(&comm->lock);
    return aborted;
}

void weft__comm_outwait_cause(weft__comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (!weft__comm_doomed(comm)) weft__nccl_cond_wait(&comm->changed, &comm->lock, WEFT__NCCL_NEVER);
    pthread_mutex_unlock(&comm->lock);
}

bool weft__comm_outwait_abort(weft__comm *comm)
{
    weft__comm_outwait_abort_until(comm, WEFT__NCCL_NEVER);
    return atomic_load(&comm->state) == WEFT__COMM_ABORTED;
}

weft_status weft__comm_error(const char *call, ncclResult_t result, char *text, size_t bytes)
{
    const char *last = ncclGetLastError(NULL); /* of this process: NCCL keeps one */
    snprintf(text, bytes, "%s: NCCL says \"%s\"%s%.400s%s", call, ncclGetErrorString(result),
             last && *last ? " (" : "", last ? last : "", last && *last ? ")" : "");

    return result == ncclRemoteError ? WEFT_ERR_PEER : WEFT_ERR_SYSTEM;
}
