/* graph.c - see graph.h.
 *
 * Happy path: the first operation of a communicator in a capture makes a user object that the graph takes over; it holds a
 * reference to the communicator.  CUDA lets the object go on a thread that may not call CUDA: whatever follows is done by a
 * thread of the module (communicator.c).  Fails: with CUDA's error, before anything is recorded. */
#include "graph.h"

#include "cudart.h"

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

static void let_go(void *arg)
{
    weft__comm *comm = arg;
    atomic_fetch_sub(&comm->graphs, 1);
    weft__comm_unref(comm);
}

cudaError_t weft__graph_hold(weft__comm *comm, cudaStream_t stream)
{
    unsigned long long capture = 0;
    cudaGraph_t graph = NULL;
    cudaUserObject_t object;
    cudaError_t error = weft__cudart_capture(stream, &capture, &graph);
    if (error != cudaSuccess || (atomic_load(&comm->graphs) && comm->captured == capture)) return error;
    error = cudaUserObjectCreate(&object, comm, let_go, 1, cudaUserObjectNoDestructorSync);
    if (error != cudaSuccess) return error;
    weft__comm_ref(comm);
    atomic_fetch_add(&comm->graphs, 1);
    comm->captured = capture;
    error = cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
    if (error != cudaSuccess) cudaUserObjectRelease(object, 1);
    return error;
}
