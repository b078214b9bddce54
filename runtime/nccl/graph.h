/* graph.h - operations that are recorded in a graph while their stream is captured, by the caller's thread. */
#ifndef WEFT_NCCL_GRAPH_H
#define WEFT_NCCL_GRAPH_H
#include "communicator.h"

typedef struct weft__hold weft__hold; /* what one graph has of a communicator */

/* Are these recorded?  False: none is.  *one: all of them are, on one stream. */
cudaStream_t weft__graph_of(const weft_backend_work *first, bool *one);
/* With the turn: the graph that the stream is being captured into holds the communicator from here on, by *held, which is there
 * as long as the capture is. */
cudaError_t weft__graph_hold(weft__comm *comm, cudaStream_t stream, weft__hold **held);
/* With the turn, after it: NCCL has recorded something in that graph, and counts it. */
cudaError_t weft__graph_recorded(weft__hold *hold, cudaStream_t stream);
/* The communicator's lock held, when its state or its graphs have changed: does its abort wait for them? */
void weft__graph_awaited(weft__comm *comm);
/* A slot of the seam. */
void weft__graph_replays(weft__comm *comm, int64_t until_ns, weft_backend_replays *told);
/* The communicator's lock held: until no graph holds it. */
void weft__graph_outwait(weft__comm *comm);
#endif
