/* graph.c - see graph.h.
 *
 * Happy path: the first operation of a communicator in a capture makes a user object that the graph takes over; it holds a
 * reference to the communicator.  CUDA lets the object go on a thread that may not call CUDA: whatever follows is done by a
 * thread of the module (communicator.c).  Fails: with CUDA's error, before anything is recorded. */
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

/* What one graph has of a communicator. */
struct weft__hold {
    weft__comm *comm;
    weft__list link; /* comm->holds; under the communicator's lock, as is what follows */
    unsigned long long capture;
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
    if (comm->hold == hold) comm->hold = NULL;
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
    weft__replays_init(&hold->replays, stream);
    weft__comm_ref(comm);
    pthread_mutex_lock(&comm->lock);
    weft__list_append(&comm->holds, &hold->link);
    atomic_fetch_add(&comm->graphs, 1);
    pthread_mutex_unlock(&comm->lock);
    return hold;
}

/* Does the graph of this capture hold it already? */
static bool is_held(weft__comm *comm, unsigned long long capture)
{
    bool held = false;
    pthread_mutex_lock(&comm->lock);
    WEFT__LIST_EACH(&comm->holds, at)
    {
        weft__hold *hold = WEFT__LIST_ENTRY(at, weft__hold, link);
        if (hold->capture != capture) continue;
        comm->hold = hold;
        held = true;
    }
    pthread_mutex_unlock(&comm->lock);
    return held;
}

cudaError_t weft__graph_hold(weft__comm *comm, cudaStream_t stream)
{
    unsigned long long capture = 0;
    cudaGraph_t graph = NULL;
    cudaUserObject_t object;
    weft__hold *hold;
    cudaError_t error = weft__cudart_capture(stream, &capture, &graph);
    if (error != cudaSuccess || is_held(comm, capture)) return error;
    hold = hold_make(comm, capture, stream);
    if (!hold) return cudaErrorMemoryAllocation;
    error = cudaUserObjectCreate(&object, hold, let_go, 1, cudaUserObjectNoDestructorSync);
    if (error != cudaSuccess) {
        let_go(hold);
        return error;
    }
    error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
    if (error != cudaSuccess) {
        cudaUserObjectRelease(object, 1);
        return error;
    }
    pthread_mutex_lock(&comm->lock);
    comm->hold = hold; /* nobody ends a capture that a call records in */
    pthread_mutex_unlock(&comm->lock);
    return weft__replays_begin(&hold->replays, graph);
}

cudaError_t weft__graph_recorded(weft__comm *comm, cudaStream_t stream)
{
    weft__hold *hold = comm->hold;
    unsigned step;
    if (!hold) return cudaSuccess;
    pthread_mutex_lock(&comm->lock);
    if (!hold->recorded) comm->recorded++;
    hold->recorded = true;
    step = weft__replays_note(&hold->replays, stream);
    pthread_mutex_unlock(&comm->lock);
    return weft__replays_write(&hold->replays, step);
}

void weft__graph_replays(weft__comm *comm, weft_backend_replays *told)
{
    const int64_t now = weft__nccl_now(comm->nccl);
    pthread_mutex_lock(&comm->lock);
    *told = (weft_backend_replays){.begun = comm->replayed};
    WEFT__LIST_EACH(&comm->holds, at)
    {
        weft__replays *replays = &WEFT__LIST_ENTRY(at, weft__hold, link)->replays;
        unsigned done;
        told->begun += atomic_load(&replays->begun);
        if (!weft__replays_look(replays, now, &done) ||
            (told->since_ns && told->since_ns <= replays->since_ns))
            continue;
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
