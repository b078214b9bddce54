/* graph.c - see graph.h.
 *
 * Happy path: the first operation of a communicator in a capture makes a user object that the graph takes over; it holds a
 * reference to the communicator.  CUDA lets the object go on a thread that may not call CUDA: whatever follows is done by a
 * thread of the module (communicator.c).  Fails: with CUDA's error, before anything is recorded.  What only tells of replays
 * breaks no recording: the log says once in a context that they are not counted, or not watched, and the recording goes on, unless
 * that has ended the capture. */
#include "graph.h"

#include "cudart.h"
#include "replays.h"

#include <stdlib.h>

cudaStream_t weft__graph_of(const weft_backend_work *first, bool *one)
{
    const weft__event *mark = first->marker;
    cudaStream_t stream = NULL;
    *one = mark && mark->capture;
    for (const weft_backend_work *work = first; work; work = work->next) {
        mark = work->marker;
        if (!mark || !mark->capture) {
            *one = false;
            continue;
        }
        if (stream && mark->capture != stream) *one = false;
        stream = mark->capture;
    }
    return stream;
}

enum { NOT_COUNTED = 1, NOT_WATCHED = 2, NO_PLACE = 4 }; /* bits of nccl->unwatched */

struct weft__hold {
    weft__comm *comm;
    weft__list link;            /* comm->holds; under the communicator's lock, as is what follows */
    unsigned long long capture; /* 0: its graph did not take it */
    cudaUserObject_t object;    /* of which CUDA did not let go then */
    bool recorded;
    weft__replays replays;
};

/* Who closes the module waits for its threads, but not for graphs. */
void weft__graph_awaited(weft__comm *comm)
{
    weft__nccl *nccl = comm->nccl;
    weft__comm_state state = atomic_load(&comm->state);
    bool awaits = (state == WEFT__COMM_ABORTING || state == WEFT__COMM_QUIET) && atomic_load(&comm->graphs);
    if (awaits == atomic_load(&comm->awaits)) return;
    pthread_mutex_lock(&nccl->lock);
    atomic_store(&comm->awaits, awaits);
    nccl->await_graphs = awaits ? nccl->await_graphs + 1 : nccl->await_graphs - 1;
    pthread_cond_broadcast(&nccl->changed);
    pthread_mutex_unlock(&nccl->lock);
}

static void let_go(void *arg)
{
    weft__hold *hold = arg;
    weft__comm *comm = hold->comm;
    pthread_mutex_lock(&comm->lock);
    atomic_fetch_sub(&comm->graphs, 1);
    comm->recorded -= hold->recorded;
    comm->replayed += atomic_load(&hold->replays.begun);
    weft__list_remove(&hold->link);
    weft__graph_awaited(comm);
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    weft__replays_end(&hold->replays);
    free(hold);
    weft__comm_unref(comm);
}

static weft__hold *hold_make(weft__comm *comm, unsigned long long capture, cudaStream_t stream)
{
    weft__hold *hold = malloc(sizeof *hold);
    if (!hold) return NULL;
    *hold = (weft__hold){.comm = comm, .capture = capture};
    if (comm->nccl->watches) weft__replays_init(&hold->replays, stream);
    weft__comm_ref(comm);
    pthread_mutex_lock(&comm->lock);
    weft__list_append(&comm->holds, &hold->link);
    atomic_fetch_add(&comm->graphs, 1);
    pthread_mutex_unlock(&comm->lock);
    return hold;
}

/* By which the graph of this capture holds it already; NULL: it does not. */
static weft__hold *hold_of(weft__comm *comm, unsigned long long capture)
{
    weft__hold *held = NULL;
    pthread_mutex_lock(&comm->lock);
    WEFT__LIST_EACH(&comm->holds, at)
    {
        weft__hold *hold = WEFT__LIST_ENTRY(at, weft__hold, link);
        if (hold->capture != capture) continue;
        held = hold;
    }
    pthread_mutex_unlock(&comm->lock);
    return held;
}

/* As CUDA may end it later, with whatever it is that CUDA has against it now, it is not freed here. */
static void take_back(weft__hold *hold, cudaUserObject_t object)
{
    if (cudaUserObjectRelease(object, 1) == cudaSuccess) return; /* which has let it go */
    pthread_mutex_lock(&hold->comm->lock);
    hold->capture = 0;
    hold->object = object;
    pthread_mutex_unlock(&hold->comm->lock);
}

/* ---- what only watches ---- */

static void say_once(weft__nccl *nccl, unsigned which, const char *what, cudaError_t error)
{
    if (atomic_fetch_or(&nccl->unwatched, which) & which) return;
    weft__nccl_log(nccl, 2, "%s%s%s", what, error == cudaSuccess ? "" : ": CUDA says ",
                   error == cudaSuccess ? "" : cudaGetErrorString(error));
}

/* Returns an error only where nothing can be recorded any more. */
static cudaError_t go_without(weft__hold *hold, cudaStream_t stream, unsigned which, const char *what,
                              cudaError_t error)
{
    unsigned long long capture;
    cudaGraph_t graph;
    cudaGetLastError(); /* the program's next look is not for it */
    say_once(hold->comm->nccl, which, what, error);
    return weft__cudart_capture(stream, &capture, &graph);
}

static cudaError_t write_step(weft__hold *hold, cudaStream_t stream, unsigned step)
{
    cudaError_t error = weft__replays_write(&hold->replays, step);
    if (error == cudaSuccess) return error;
    pthread_mutex_lock(&hold->comm->lock);
    hold->replays.apart = true;
    pthread_mutex_unlock(&hold->comm->lock);
    return go_without(hold, stream, NOT_WATCHED, "replays of a graph cannot be watched in it", error);
}

static cudaError_t begin_watching(weft__hold *hold, cudaStream_t stream, cudaGraph_t graph)
{
    cudaError_t error = weft__replays_count(&hold->replays, graph);
    if (error != cudaSuccess)
        error = go_without(hold, stream, NOT_COUNTED, "replays of a graph cannot be counted in it", error);
    if (!hold->replays.place)
        say_once(hold->comm->nccl, NO_PLACE,
                 "there is no place left to watch a graph: its replays are only counted", cudaSuccess);
    return error == cudaSuccess ? write_step(hold, stream, 1) : error;
}

/* ---- recording ---- */

cudaError_t weft__graph_hold(weft__comm *comm, cudaStream_t stream, weft__hold **held)
{
    unsigned long long capture = 0;
    cudaGraph_t graph = NULL;
    cudaUserObject_t object;
    weft__hold *hold;
    cudaError_t error = weft__cudart_capture(stream, &capture, &graph);
    if (error != cudaSuccess) return error;
    *held = hold_of(comm, capture);
    if (*held) return cudaSuccess;
    hold = hold_make(comm, capture, stream);
    if (!hold) return cudaErrorMemoryAllocation;
    error = cudaUserObjectCreate(&object, hold, let_go, 1, cudaUserObjectNoDestructorSync);
    if (error != cudaSuccess) {
        let_go(hold);
        return error;
    }
    error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
    if (error != cudaSuccess) {
        take_back(hold, object);
        return error;
    }
    *held = hold;
    return comm->nccl->watches ? begin_watching(hold, stream, graph) : cudaSuccess;
}

cudaError_t weft__graph_recorded(weft__hold *hold, cudaStream_t stream)
{
    weft__comm *comm = hold->comm;
    unsigned step;
    pthread_mutex_lock(&comm->lock);
    if (!hold->recorded) comm->recorded++;
    hold->recorded = true;
    step = weft__replays_note(&hold->replays, stream);
    pthread_mutex_unlock(&comm->lock);
    return write_step(hold, stream, step);
}

void weft__graph_replays(weft__comm *comm, int64_t until_ns, weft_backend_replays *told)
{
    const int64_t now = weft__nccl_now(comm->nccl);
    pthread_mutex_lock(&comm->lock);
    *told = (weft_backend_replays){.begun = comm->replayed};
    WEFT__LIST_EACH(&comm->holds, at)
    {
        weft__replays *replays = &WEFT__LIST_ENTRY(at, weft__hold, link)->replays;
        unsigned done;
        told->begun += atomic_load(&replays->begun);
        if (!weft__replays_look(replays, now, &done) || replays->named) continue;
        if (told->since_ns || replays->since_ns > until_ns) {
            if (!told->next_ns || replays->since_ns < told->next_ns) told->next_ns = replays->since_ns;
            continue;
        }
        replays->named = true;
        told->since_ns = replays->since_ns;
        told->done = done;
        told->calls = replays->calls;
    }
    pthread_mutex_unlock(&comm->lock);
}

void weft__graph_outwait(weft__comm *comm)
{
    while (atomic_load(&comm->graphs)) weft__nccl_cond_wait(&comm->changed, &comm->lock, WEFT__NCCL_NEVER);
}
