/* graph.h - what a capture has recorded, and launches of it.
 *
 * A piece of work is recorded with how it is queued anew, and a launch queues all pieces on its stream, one after the
 * other in the order of their capture: one of the orders that the graph allows.  Each launch checks its accesses to
 * memory as any work does.  What a graph has recorded lives, with the user objects that it holds, until the graph, what
 * was instantiated from it and the launches under way are all gone. */
#ifndef EMULATION_GRAPH_H
#define EMULATION_GRAPH_H
#include "emulation.h"

/* A piece that can be queued again.  Both are called without the lock. */
typedef struct emu__piece {
    cudaError_t (*queue)(const void *arg, cudaStream_t stream);
    void (*drop)(void *arg); /* the graph's own arg is not needed any more */
    void *arg;
} emu__piece;

/* A graph that a capture fills, with one reference.  NULL: no memory. */
cudaGraph_t emu__graph_make(int device);
/* Under the lock.  It has the piece from now on; false: no memory. */
bool emu__graph_add(cudaGraph_t graph, const emu__piece *piece);
/* Without it. */
void emu__graph_drop(cudaGraph_t graph);
#endif
