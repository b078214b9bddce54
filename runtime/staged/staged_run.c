/* staged_run.c - carries works out, a step whenever it is asked.
 *
 * Happy path: the caller's stream comes to its mark; pieces are fetched from the device, go through their operations
 * in host memory and are stored; an event behind the last copy is the end of the work, and streams are ordered after
 * it from then on.  Nothing blocks, and nothing is allocated.
 * Fails: what CUDA or an operation in host memory said stops the communicator.  Where an operation fails because the
 * group is about to break, the runtime's word of why comes soon, and is better: it is waited for.  Then what runs is
 * cancelled, what is queued is waited for, and all works end. */
#include "staged_run.h"

#include "cuda_device.h"
#include "staged_plan.h"
#include "thread.h"

#include <stdio.h>
#include <string.h>

#define CAUSE_NS (500 * WEFT__NCCL_MS) /* for the runtime's word of why an operation has failed */

/* ---- chains of works ---- */

static weft__event *begin_chain(weft__staged *staged, weft__staged_comm *comm, weft_backend_work *first)
{
    cudaError_t error = cudaSuccess;
    weft__event *chain = weft__event_take(&staged->cuda, &error);
    if (!chain) return NULL;
    chain->works = first;
    if (comm->first) {
        comm->last->next = chain;
    } else {
        comm->first = chain;
        weft__staged_ref(comm);
        weft__list_append(&staged->running, &comm->listed);
    }
    comm->last = chain;
    return chain;
}

/* The event after which streams can be ordered; NULL: the work is over, and there is nothing to wait for. */
static void set_end(weft__staged *staged, weft_backend_work *work, weft__event *end)
{
    pthread_mutex_lock(&staged->cuda.order);
    work->state = end;
    pthread_mutex_unlock(&staged->cuda.order);
}

static void finish_works(weft__staged *staged, weft_backend_work *work, weft_status status,
                         const char *sentence)
{
    weft_backend_work *next;
    for (; work; work = next) {
        next = work->next; /* the work is gone when it is finished */
        weft__event_give(&staged->cuda, work->marker);
        work->marker = NULL;
        staged->cuda.table->finish(work, status, sentence);
    }
}

/* The next work of the first chain, or the next chain. */
static void go_on(weft__staged_comm *comm, weft_backend_work *next)
{
    weft__event *chain = comm->first;
    comm->passed = comm->queued = false;
    comm->work = next;
    if (next) return;
    comm->first = chain->next;
    weft__event_give(&comm->staged->cuda, chain);
}

/* ---- failing ---- */

static void run_fail(weft__staged_comm *comm, const char *call, cudaError_t error)
{
    char text[WEFT__NCCL_SENTENCE];
    cudaGetLastError();
    snprintf(text, sizeof text, "%s: CUDA says \"%s\"", call, cudaGetErrorString(error));
    weft__staged_stop(comm, WEFT_ERR_SYSTEM, text);
}

/* True: none of the way's operations is under way any more. */
static bool run_cancel(const weft_backend_host *host, weft__staged_way *way)
{
    bool over = true;
    for (int i = 0; i < WEFT__STAGED_SLOTS; i++) {
        if (!way->requests[i]) continue;
        host->cancel(way->requests[i]);
        if (host->test(way->requests[i]) == WEFT_PENDING) {
            over = false;
            continue;
        }
        host->release(way->requests[i]);
        way->requests[i] = NULL;
    }
    return over;
}

/* What is queued consists of copies alone, which end.  True: they have. */
static bool is_quiet(weft__staged_comm *comm)
{
    cudaEvent_t end = comm->first->cuda;
    cudaError_t error = cudaSuccess;
    if (!comm->work) return true;
    if (!comm->quiet) {
        error = cudaEventRecord(end, comm->outwards);
        if (error == cudaSuccess) error = cudaStreamWaitEvent(comm->inwards, end, 0);
        if (error == cudaSuccess) error = cudaEventRecord(end, comm->inwards);
        comm->quiet = error == cudaSuccess;
    }
    if (error == cudaSuccess) error = cudaEventQuery(end);
    if (error == cudaErrorNotReady) return false;
    if (error != cudaSuccess) cudaGetLastError(); /* the device does nothing any more */
    return true;
}

/* True: all works have ended. */
static bool end_all(weft__staged_comm *comm)
{
    weft__staged *staged = comm->staged;
    bool out = run_cancel(staged->host, &comm->out), in = run_cancel(staged->host, &comm->in);
    char why[WEFT__NCCL_SENTENCE];
    weft_status status;
    if (!out || !in || !is_quiet(comm)) return false;
    pthread_mutex_lock(&comm->lock);
    status = comm->status;
    memcpy(why, comm->why, sizeof why);
    pthread_mutex_unlock(&comm->lock);
    comm->quiet = false;
    while (comm->first) {
        weft_backend_work *work = comm->work ? comm->work : comm->first->works;
        set_end(staged, work, NULL);
        go_on(comm, NULL);
        finish_works(staged, work, status, why);
    }
    return true;
}

static void note_failure(weft__staged_comm *comm, weft_status status, const char *sentence)
{
    if (comm->failed_ns) return;
    comm->failed_ns = weft__nccl_now(&comm->staged->cuda);
    comm->failed = status;
    snprintf(comm->failure, sizeof comm->failure, "%.600s", sentence);
}

/* ---- a piece ---- */

static unsigned slot_of(size_t piece)
{
    return (unsigned)(piece % WEFT__STAGED_SLOTS);
}

/* Has the last copy between the slot and the device been done?  One that failed stops the communicator. */
static bool is_copied(weft__staged_comm *comm, const weft__staged_way *way, size_t piece)
{
    cudaError_t error = cudaEventQuery(way->copied[slot_of(piece)]);
    if (error != cudaSuccess && error != cudaErrorNotReady) run_fail(comm, "cudaEventQuery", error);
    return error == cudaSuccess;
}

static int fetch(weft__staged_comm *comm)
{
    weft__staged_way *way = &comm->out;
    int n = 0;
    while (way->fetched < way->pieces && way->fetched - way->stored < WEFT__STAGED_SLOTS) {
        bool any;
        cudaError_t error = weft__plan_fetch(comm, way->fetched, &any);
        if (error == cudaSuccess) error = cudaEventRecord(way->copied[slot_of(way->fetched)], comm->outwards);
        if (error != cudaSuccess) {
            run_fail(comm, "a copy out of the device", error);
            return n;
        }
        way->fetched++;
        n++;
    }
    return n;
}

static int run_begin(weft__staged_comm *comm, weft__staged_way *way)
{
    const weft_backend_host *host = comm->staged->host;
    int n = 0;
    while (way->begun < way->fetched &&
           (way->use == WEFT__WAY_RECEIVES || is_copied(comm, way, way->begun))) {
        weft_backend_operation op = weft__plan_operation(comm, way, way->begun);
        weft_status status = host->begin(comm->group, &op, way->peer, &way->requests[slot_of(way->begun)]);
        if (status != WEFT_OK) {
            note_failure(comm, status, host->last_error());
            return n;
        }
        way->begun++;
        n++;
    }
    return n;
}

/* Its operation is done: what it gave is copied into the device. */
static bool move(weft__staged_comm *comm, weft__staged_way *way)
{
    const weft_backend_host *host = comm->staged->host;
    weft_request **req = &way->requests[slot_of(way->moved)];
    weft_status status = host->test(*req);
    cudaError_t error;
    bool any;
    if (status == WEFT_PENDING) return false;
    if (status != WEFT_OK) {
        note_failure(comm, status, host->message(*req));
        return false;
    }
    host->release(*req);
    *req = NULL;
    error = weft__plan_store(comm, way, way->moved, &any);
    if (error == cudaSuccess && any)
        error = cudaEventRecord(comm->in.copied[slot_of(way->moved)], comm->inwards);
    if (error != cudaSuccess) {
        run_fail(comm, "a copy into the device", error);
        return false;
    }
    way->moved++;
    return true;
}

static int advance_way(weft__staged_comm *comm, weft__staged_way *way)
{
    size_t before = way->begun + way->moved + way->stored;
    if (way->use == WEFT__WAY_IDLE) return 0;
    if (way->use == WEFT__WAY_RECEIVES) {
        way->fetched = way->stored + WEFT__STAGED_SLOTS; /* nothing is fetched: as many as there are slots */
        if (way->fetched > way->pieces) way->fetched = way->pieces;
    } else {
        fetch(comm);
    }
    run_begin(comm, way);
    while (way->moved < way->begun && !comm->failed_ns && move(comm, way)) {
    }
    while (way->stored < way->moved &&
           (way->use == WEFT__WAY_SENDS || is_copied(comm, &comm->in, way->stored)))
        way->stored++;
    return (int)(way->begun + way->moved + way->stored - before);
}

static bool is_moved(const weft__staged_way *way)
{
    return way->moved == way->pieces;
}

/* ---- a work ---- */

/* Has the caller's stream come to the mark?  Then later work on the device may be queued behind it. */
static bool pass_mark(weft__staged_comm *comm, weft_backend_work *work)
{
    weft__event *mark = work->marker;
    cudaError_t error;
    if (!mark) return true;
    error = cudaEventQuery(mark->cuda);
    if (error == cudaErrorNotReady) return false;
    if (error == cudaSuccess) error = cudaStreamWaitEvent(comm->outwards, mark->cuda, 0);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(comm->inwards, mark->cuda, 0);
    if (error != cudaSuccess) {
        run_fail(comm, "the mark on the caller's stream", error);
        return false;
    }
    weft__event_give(&comm->staged->cuda, mark);
    work->marker = NULL;
    return true;
}

/* A message to oneself begins where both its sides may. */
static bool has_passed(weft__staged_comm *comm)
{
    if (!pass_mark(comm, comm->work)) return false;
    return comm->group || !comm->work->next || pass_mark(comm, comm->work->next);
}

/* A send and its receive, or an exchange with itself. */
static cudaError_t copy_alone(weft__staged_comm *comm)
{
    const weft_backend_operation *from = &comm->work->op,
                                 *to = comm->work->next ? &comm->work->next->op : from;
    size_t bytes = from->count * comm->staged->host->dtype_bytes(from->dtype);
    if (!bytes) return cudaSuccess;
    if (from->kind == WEFT_BACKEND_IRECV) return cudaSuccess; /* went with the one before */
    return cudaMemcpyAsync(to->out, from->in, bytes, cudaMemcpyDeviceToDevice, comm->inwards);
}

static void begin_work(weft__staged_comm *comm)
{
    cudaError_t error;
    comm->round = 0;
    weft__plan_round(comm, 0);
    error = comm->group ? weft__plan_own(comm) : copy_alone(comm);
    if (error != cudaSuccess) run_fail(comm, "a copy on the device", error);
}

/* The event behind all that is queued, from where on streams can be ordered after the work. */
static void mark_end(weft__staged_comm *comm)
{
    cudaEvent_t end = comm->first->cuda;
    cudaError_t error = cudaEventRecord(end, comm->outwards);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(comm->inwards, end, 0);
    if (error == cudaSuccess) error = cudaEventRecord(end, comm->inwards);
    if (error != cudaSuccess) {
        run_fail(comm, "cudaEventRecord", error);
        return;
    }
    comm->queued = true;
    set_end(comm->staged, comm->work, comm->first);
    comm->staged->cuda.table->issued(comm->work);
}

/* Works end one by one, also those that were given together.  True: it has. */
static bool end_work(weft__staged_comm *comm)
{
    weft_backend_work *work = comm->work;
    cudaError_t error = cudaEventQuery(comm->first->cuda);
    if (error == cudaErrorNotReady) return false;
    if (error != cudaSuccess) {
        run_fail(comm, "cudaEventQuery", error);
        return false;
    }
    set_end(comm->staged, work, NULL);
    go_on(comm, work->next);
    comm->staged->cuda.table->finish(work, WEFT_OK, NULL);
    return true;
}

/* How much was done. */
static int advance_work(weft__staged_comm *comm)
{
    int n = 0;
    if (!comm->work) comm->work = comm->first->works;
    if (!comm->passed) {
        if (!has_passed(comm)) return 0;
        comm->passed = true;
        begin_work(comm);
        n = 1;
    }
    if (comm->queued) return end_work(comm) ? n + 1 : n;
    n += advance_way(comm, &comm->out) + advance_way(comm, &comm->in);
    if (!is_moved(&comm->out) || !is_moved(&comm->in) || weft__staged_doomed(comm)) return n;
    if (comm->round + 1 >= weft__plan_rounds(comm)) {
        mark_end(comm);
        return n + 1;
    }
    if (comm->out.stored < comm->out.pieces || comm->in.stored < comm->in.pieces)
        return n; /* slots are needed again */
    weft__plan_round(comm, ++comm->round);
    return n + 1;
}

/* ---- slots of the seam ---- */

static int advance(weft__staged_comm *comm)
{
    int n = 0, more;
    if (comm->failed_ns && !weft__staged_doomed(comm) &&
        weft__nccl_now(&comm->staged->cuda) - comm->failed_ns > CAUSE_NS)
        weft__staged_stop(comm, comm->failed, comm->failure);
    if (weft__staged_doomed(comm)) return end_all(comm);
    if (comm->failed_ns) return 0;
    while (comm->first && !weft__staged_doomed(comm) && (more = advance_work(comm))) n += more;
    return n;
}

int weft__staged_poll(weft_backend *backend)
{
    weft__staged *staged = weft__staged_of(backend);
    int n = 0;
    if (weft__list_empty(&staged->running)) return 0;
    weft__thread_settle(&staged->cuda);
    WEFT__LIST_EACH(&staged->running, at)
    {
        weft__staged_comm *comm = WEFT__LIST_ENTRY(at, weft__staged_comm, listed);
        n += advance(comm);
        if (comm->first) continue;
        weft__list_remove(&comm->listed);
        weft__staged_unref(comm);
    }
    return n;
}

void weft__staged_start(weft_backend *backend, weft_backend_work *first)
{
    weft__staged *staged = weft__staged_of(backend);
    weft__staged_comm *comm = first->comm;
    weft__thread_settle(&staged->cuda);
    if (!comm) comm = weft__staged_alone(staged);
    if (!comm || !begin_chain(staged, comm, first))
        finish_works(staged, first, WEFT_ERR_MEMORY,
                     comm ? "CUDA has no event for it" : "no stream for a message to oneself");
}

weft_status weft__staged_order(weft_backend *backend, weft_backend_work *work, void *stream)
{
    weft__nccl *cuda = &weft__staged_of(backend)->cuda;
    weft_status status = weft__device_check_stream(cuda, stream);
    cudaError_t error = cudaSuccess;
    weft__event *end;
    if (status != WEFT_OK) return status;
    pthread_mutex_lock(&cuda->order);
    end = work->state;
    if (end) error = cudaStreamWaitEvent(stream, end->cuda, 0);
    pthread_mutex_unlock(&cuda->order);
    if (error == cudaSuccess) return WEFT_OK;
    cudaGetLastError();
    return weft__nccl_fail(cuda, WEFT_ERR_SYSTEM, "cudaStreamWaitEvent on stream %p: CUDA says \"%s\"",
                           stream, cudaGetErrorString(error));
}
