/* issue.c - hands works to the device.
 *
 * Works in program order are issued by their caller's thread, right after the runtime has given them their place (enter,
 * then entered); all others by the progress thread.  Of those in program order a thread of the module's issues what may
 * take long and blocks there: what NCCL makes connections for (known.h), which other ranks have to come to, so that the
 * progress thread goes on answering them.  What is given meanwhile waits behind it.
 * Happy path: the communicator's stream waits for the callers' marks; one group call; when NCCL has finished
 * what it does in the background an event is recorded behind it, and the works are issued.  Nothing is
 * allocated and no CUDA call blocks.  Where somebody else is inside NCCL with the communicator the works wait
 * in a line, with all that is given after them, and polling issues them; likewise where the stream has as much
 * as it takes without blocking whoever queues more.
 * Fails: before the group call, the works end with what was wrong.  From then on the communicator is stopped,
 * because other ranks may have begun: the works end when the abort is through (running.c). */
#include "issue.h"

#include "calls.h"
#include "graph.h"
#include "memory.h"
#include "running.h"
#include "thread.h"
#include "types.h"

#include <stdio.h>

/* A device's queue takes 1024 pieces, and streams may share one: how many are on a communicator's stream, and on those of
 * all, which leaves room for the program's own streams. */
#define PIECES_MOST        512
#define DEVICE_PIECES_MOST 768

static void finish_chain(weft__nccl *nccl, weft_backend_work *work, weft_status status, const char *sentence)
{
    weft_backend_work *next;
    for (; work; work = next) {
        next = work->next;
        weft__event_give(nccl, work->marker);
        work->marker = NULL;
        nccl->table->finish(work, status, sentence);
    }
}

/* The works keep them, to tell of a stream that does not get there (running.c). */
static cudaError_t wait_for_marks(cudaStream_t stream, const weft_backend_work *work)
{
    cudaError_t error = cudaSuccess;
    for (; work && error == cudaSuccess; work = work->next) {
        const weft__event *mark = work->marker;
        if (mark) error = cudaStreamWaitEvent(stream, mark->cuda, 0);
    }
    return error;
}

static void issue_fail(weft__nccl *nccl, weft_backend_work *first, const char *call, cudaError_t error)
{
    char text[WEFT__NCCL_SENTENCE];
    cudaGetLastError();
    snprintf(text, sizeof text, "%s: CUDA says \"%s\"", call, cudaGetErrorString(error));
    finish_chain(nccl, first, WEFT_ERR_SYSTEM, text);
}

static weft__event *end_at(weft__event *end, weft_backend_work *first, weft__comm *comm)
{
    end->works = first;
    end->comm = comm;
    end->pieces = 1; /* itself */
    for (const weft_backend_work *work = first; work; work = work->next) end->pieces += work->marker ? 2 : 1;
    return end;
}

/* The event for the end.  NULL: the works are finished, with what CUDA said. */
static weft__event *end_of(weft__nccl *nccl, weft_backend_work *first, weft__comm *comm)
{
    cudaError_t error = cudaSuccess;
    weft__event *end = weft__event_take(nccl, &error);
    if (end) return end_at(end, first, comm);
    issue_fail(nccl, first, "cudaEventCreateWithFlags", error);
    return NULL;
}

/* *call: the one that returned the result. */
static ncclResult_t group(weft__comm *comm, weft_backend_work *work, const char **call)
{
    ncclResult_t result, ended;
    *call = "ncclGroupStart";
    weft__comm_inside(comm, *call);
    result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    for (; work && result == ncclSuccess; work = work->next) {
        *call = weft__calls_name(work->op.kind);
        weft__comm_inside_next(comm, *call);
        result = weft__calls_make(comm, work);
        if (result == ncclInProgress) result = ncclSuccess; /* the group's end tells */
    }
    weft__comm_inside_next(comm, "ncclGroupEnd");
    ended = ncclGroupEnd();
    if (result != ncclSuccess) return result;
    *call = "ncclGroupEnd";
    return weft__comm_await(comm, ended);
}

/* With the turn.  True: the device has it. */
static bool issue(weft__comm *comm, weft__event *end)
{
    char text[WEFT__NCCL_SENTENCE];
    const char *call = "";
    ncclResult_t result;
    cudaError_t error;
    unsigned words;
    weft_status status = WEFT_ERR_SYSTEM;
    /* The runtime's word of why comes soon; or it has come since this thread got the turn. */
    if (weft__comm_suspects(comm) || weft__comm_doomed(comm)) return false;
    if (end->works->op.kind == WEFT_BACKEND_MEM_ALLOC)
        result = weft__memory_window(comm, &end->works->op, &call);
    else
        result = group(comm, end->works, &call);
    if (weft__comm_doomed(comm)) return false;
    if (result != ncclSuccess) {
        status = weft__comm_error(call, result, text, sizeof text);
        if (!weft__comm_suspect(comm, result, status, text)) weft__comm_stop(comm, status, text);
        return false;
    }
    weft__comm_inside(comm, "cudaEventRecord");
    words = weft__stream_words_write(comm->nccl, end->works, comm->stream);
    if (words) weft__pieces_add(comm, words);
    end->pieces += words;
    error = cudaEventRecord(end->cuda, comm->stream);
    if (error == cudaSuccess) return true;
    cudaGetLastError();
    snprintf(text, sizeof text, "cudaEventRecord: CUDA says \"%s\"", cudaGetErrorString(error));
    weft__comm_stop(comm, status, text);
    return false;
}

/* With the turn, which is given back; whoever gets it next is behind this. */
static void started(weft__comm *comm, weft__event *end)
{
    const weft_backend_runtime *table = comm->nccl->table;
    /* From here on streams are ordered by the event. */
    pthread_mutex_lock(&comm->nccl->order);
    for (weft_backend_work *work = end->works; work && end->recorded; work = work->next) work->state = end;
    pthread_mutex_unlock(&comm->nccl->order);
    for (weft_backend_work *work = end->works; work && end->recorded; work = work->next) table->issued(work);
    if (end->recorded && !end->known) weft__known_note(comm->known, end->works);
    weft__turn_give_issued(comm, end);
}

/* With the turn, which is given back, before its place is used again. */
static void unstarted(weft__comm *comm, weft__event *end, const char *call, cudaError_t error)
{
    weft_backend_work *first = end->works;
    weft__pieces_taken(comm, end->pieces);
    weft__turn_give(comm, &end->turn);
    weft__event_give(comm->nccl, end);
    issue_fail(comm->nccl, first, call, error);
}

/* With what stopped the communicator. */
static void refuse_chain(weft__comm *comm, weft_backend_work *first)
{
    char why[WEFT__NCCL_SENTENCE];
    weft_status status;
    pthread_mutex_lock(&comm->lock);
    status = comm->status;
    snprintf(why, sizeof why, "%s", comm->why);
    pthread_mutex_unlock(&comm->lock);
    finish_chain(comm->nccl, first, status, why);
}

/* The end of what is captured is a marker, which goes with its work. */
static void issue_refuse(weft__comm *comm, weft__event *end)
{
    weft_backend_work *first = end->works;
    if (end != first->marker) weft__event_give(comm->nccl, end);
    refuse_chain(comm, first);
}

/* ---- messages of a rank to itself ---- */

static weft__comm *messages(weft__nccl *nccl)
{
    weft__comm *comm = nccl->messages;
    if (comm) return comm;
    comm = weft__comm_make(nccl, NULL, 0, 1, "messages to oneself");
    if (!comm) return NULL;
    comm->dropped = true;
    if (cudaStreamCreateWithFlags(&comm->stream, cudaStreamNonBlocking) != cudaSuccess) {
        cudaGetLastError();
        weft__comm_unref(comm);
        return NULL;
    }
    atomic_store(&comm->state, WEFT__COMM_READY);
    return nccl->messages = comm;
}

/* A send and its receive, or an exchange with itself. */
static cudaError_t copy(const weft__comm *comm, const weft__event *end)
{
    const weft_backend_work *first = end->works;
    const weft_backend_operation *from = &first->op, *to = first->next ? &first->next->op : from;
    cudaError_t error = cudaSuccess;
    size_t bytes = from->count * weft__type_bytes(from->dtype);
    if (bytes) error = cudaMemcpyAsync(to->out, from->in, bytes, cudaMemcpyDeviceToDevice, comm->stream);
    return error == cudaSuccess ? cudaEventRecord(end->cuda, comm->stream) : error;
}

/* With the turn.  Nobody else has a part in it, so it fails alone. */
static void carry_out_copy(weft__comm *comm, weft__event *end)
{
    cudaError_t error = wait_for_marks(comm->stream, end->works);
    if (error != cudaSuccess) {
        unstarted(comm, end, "cudaStreamWaitEvent", error);
        return;
    }
    error = copy(comm, end);
    end->recorded = error == cudaSuccess;
    if (end->recorded)
        started(comm, end);
    else
        unstarted(comm, end, "copy of a message to oneself", error);
}

/* ---- with the turn ---- */

/* True: it is issued. */
static bool carry_out(weft__comm *comm, weft__event *end)
{
    cudaError_t error = wait_for_marks(comm->stream, end->works);
    bool issued;
    if (error != cudaSuccess) {
        unstarted(comm, end, "cudaStreamWaitEvent", error);
        return false;
    }
    issued = issue(comm, end);
    end->recorded = issued;
    end->cut = !issued;
    started(comm, end);
    return issued;
}

/* A call that queues more than a stream takes blocks until there is room, and what is there may be waiting for a
 * stream of the program's for as long as that likes.  before: without this. */
static bool has_room(weft__pieces before, unsigned more)
{
    if (before.of_device && before.of_device + more > DEVICE_PIECES_MOST) return false;
    return !before.of_comm || before.of_comm + more <= PIECES_MOST;
}

static weft__turn_state try_now(weft__comm *comm, weft__event *end, bool held)
{
    bool doomed = weft__comm_doomed(comm);
    if (!doomed && (held || !has_room(weft__pieces_now(comm), end->pieces))) return WEFT__TURN_WAITS;
    return weft__turn_try(comm, &end->turn);
}

/* ---- what may block ---- */

static void issue_apart(void *arg)
{
    weft__event *end = arg;
    weft__comm *comm = end->comm;
    weft__nccl *nccl = comm->nccl;
    carry_out(comm, end);
    atomic_store(&nccl->apart, false);
    weft__comm_unref(comm);
}

/* With the turn.  NCCL's calls block there until all its ranks have come, or those that a message goes between.  False: it
 * is no such call; or there is no thread. */
static bool begin_apart(weft__nccl *nccl, weft__comm *comm, weft__event *end)
{
    if (!comm->root || weft__known_has(comm->known, end->works)) return false;
    atomic_store(&nccl->apart, true);
    if (weft__thread_start(nccl, issue_apart, end)) return true;
    atomic_store(&nccl->apart, false);
    return false;
}

/* ---- start ---- */

/* It has left the line.  True: what is behind it waits. */
static bool go(weft__nccl *nccl, weft__comm *comm, weft__event *end, weft__turn_state state)
{
    bool copies = comm == nccl->messages;
    if (state == WEFT__TURN_REFUSED) {
        issue_refuse(comm, end);
    } else {
        weft__pieces_add(comm, end->pieces);
        if (copies)
            carry_out_copy(comm, end);
        else if (begin_apart(nccl, comm, end))
            return true;
        else
            carry_out(comm, end);
    }
    weft__running_take_in(nccl);
    weft__comm_unref(comm);
    return false;
}

/* Where one waits, so do all after it: the ranks have agreed on the order, across communicators.  What is
 * doomed waits for nobody, and a message to oneself only for such messages. */
static int issue_waiting(weft__nccl *nccl)
{
    weft__event **at = &nccl->waiting, *end;
    bool held = atomic_load(&nccl->apart);
    int issued = 0;
    while ((end = *at)) {
        weft__comm *comm = end->comm;
        bool copies = comm == nccl->messages;
        weft__turn_state state = try_now(comm, end, held && !copies);
        if (state == WEFT__TURN_WAITS) {
            held = held || !copies;
            at = &end->next;
            continue;
        }
        *at = end->next;
        end->next = NULL;
        held = go(nccl, comm, end, state) || held;
        issued++;
    }
    nccl->waiting_end = at;
    return issued;
}

void weft__issue_start(weft_backend *backend, weft_backend_work *first)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__comm *comm = first->comm;
    weft__event *end;
    bool one;
    weft__thread_settle(nccl);
    if (weft__graph_of(first, &one) && comm && weft__comm_doomed(comm)) {
        refuse_chain(comm, first);
        return;
    }
    if (weft__graph_of(first, &one)) {
        finish_chain(nccl, first, WEFT_ERR_STATE,
                     one ? "its stream is captured into a graph, and it could not be recorded in the call"
                         : "its stream is captured into a graph, and others that go with it are not");
        return;
    }
    if (!comm && !(comm = messages(nccl))) {
        finish_chain(nccl, first, WEFT_ERR_MEMORY, "no stream for a message to oneself");
        return;
    }
    end = end_of(nccl, first, comm);
    if (!end) return;
    weft__comm_ref(comm);
    weft__turn_ask(comm, &end->turn);
    end->next = NULL;
    *nccl->waiting_end = end;
    nccl->waiting_end = &end->next;
    issue_waiting(nccl);
}

/* ---- into a graph, by the caller ---- */

/* It waits for its turn, shortly: what has it is another thread's call that is under way.  The marker, of which only the
 * stream's name is needed, stands for the end too: so nothing is missing, and the call need not be refused. */
static bool enter_capture(weft__comm *comm, weft_backend_work *first)
{
    weft__event *end = first->marker;
    if (weft__comm_doomed(comm)) return false;
    end_at(end, first, comm);
    end->pieces = 0; /* of no queue */
    weft__turn_ask(comm, &end->turn);
    first->state = end;
    weft__comm_ref(comm);
    return true;
}

/* With the turn.  What NCCL says where it fails; no call is made on what has failed before. */
static weft_status record_calls(weft__comm *comm, weft_backend_work *first, cudaStream_t stream, char *text,
                                size_t bytes)
{
    const char *call = "";
    weft__hold *hold = NULL;
    ncclResult_t result;
    weft_status status;
    cudaError_t error;
    if (weft__comm_suspects(comm)) return WEFT_ERR_BROKEN;
    error = weft__graph_hold(comm, stream, &hold);
    if (error != cudaSuccess) {
        cudaGetLastError();
        snprintf(text, bytes, "holding a communicator by a graph: CUDA says \"%s\"",
                 cudaGetErrorString(error));
        return WEFT_ERR_SYSTEM;
    }
    comm->capture = stream;
    comm->called = false;
    result = group(comm, first, &call);
    comm->capture = NULL;
    if (result == ncclSuccess && comm->called) error = weft__graph_recorded(hold, stream);
    if (weft__comm_doomed(comm)) {
        snprintf(text, bytes, "it was stopped while it was recorded");
        return WEFT_ERR_BROKEN;
    }
    if (error != cudaSuccess) {
        cudaGetLastError();
        snprintf(text, bytes, "telling of its replays: CUDA says \"%s\"", cudaGetErrorString(error));
        return WEFT_ERR_SYSTEM;
    }
    if (result == ncclSuccess) return WEFT_OK;
    status = weft__comm_error(call, result, text, bytes);
    weft__comm_suspect(comm, result, status, text); /* always: callers issue there */
    return status;
}

/* With the turn, which is given back.  They are over when it is known why (running.c). */
static void await_cause(weft__comm *comm, weft__event *end)
{
    for (weft_backend_work *work = end->works; work; work = work->next) {
        if (work->marker != end) weft__event_give(comm->nccl, work->marker);
        work->marker = NULL;
    }
    end->cut = true;
    weft__turn_give_issued(comm, end);
}

/* With the turn, which is given back.  Nothing has begun on a device: it is over, unless NCCL has told an error whose cause
 * is still looked for. */
static bool record(weft__comm *comm, weft__event *end)
{
    weft_backend_work *first = end->works;
    char text[WEFT__NCCL_SENTENCE] = "";
    bool one;
    cudaStream_t stream = weft__graph_of(first, &one);
    weft_status status = record_calls(comm, first, stream, text, sizeof text);
    if (status != WEFT_OK && weft__comm_suspects(comm)) {
        await_cause(comm, end);
        return false;
    }
    weft__turn_give(comm, &end->turn);
    for (weft_backend_work *work = first; work && status == WEFT_OK; work = work->next)
        comm->nccl->table->issued(work);
    finish_chain(comm->nccl, first, status, status == WEFT_OK ? NULL : text);
    return status == WEFT_OK;
}

/* ---- by the caller ---- */

/* Messages are between two, and go when they have met, but for those that a graph records. */
static bool has_message(const weft_backend_work *work)
{
    while (work && work->op.kind < WEFT_BACKEND_ISEND) work = work->next;
    return work != NULL;
}

bool weft__issue_enter(weft_backend *backend, weft_backend_work *first)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__comm *comm = first->comm;
    weft__event *end;
    bool one;
    if (WEFT__UNLIKELY(weft__graph_of(first, &one) != NULL)) return one && enter_capture(comm, first);
    if (weft__comm_doomed(comm) || has_message(first) || !weft__known_has(comm->known, first)) return false;
    end = weft__event_take_spare(nccl);
    if (!end) return false;
    end_at(end, first, comm);
    if (!has_room(weft__pieces_add(comm, end->pieces), end->pieces) ||
        !weft__turn_ask_alone(comm, &end->turn)) {
        weft__pieces_taken(comm, end->pieces);
        weft__event_give(nccl, end);
        return false;
    }
    end->known = true;
    first->state = end;
    weft__comm_ref(comm);
    return true;
}

void weft__issue_entered(weft_backend *backend, weft_backend_work *first)
{
    weft__event *end = first->state;
    weft__comm *comm = end->comm;
    int device = -1;
    bool issued = false, one;
    (void)backend;
    first->state = NULL;
    cudaGetDevice(&device);
    if (weft__turn_take(comm, &end->turn, WEFT__NCCL_NEVER)) {
        issued = weft__graph_of(end->works, &one) ? record(comm, end) : carry_out(comm, end);
    } else {
        weft__pieces_taken(comm, end->pieces);
        issue_refuse(comm, end);
    }
    /* NCCL leaves its communicator's device current where a call fails; the thread is the program's. */
    if (!issued && device >= 0) cudaSetDevice(device);
    weft__comm_unref(comm);
}

int weft__issue_poll(weft_backend *backend)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    int issued = 0;
    if (nccl->waiting) {
        weft__thread_settle(nccl);
        issued = issue_waiting(nccl);
    }
    return issued + weft__running_poll(nccl);
}
