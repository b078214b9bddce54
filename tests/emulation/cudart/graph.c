/* graph.c - graphs: what they hold, and how they are launched. */
#include "graph.h"
#include "capture.h"
#include "device.h"
#include "error.h"
#include "lock.h"
#include "stream.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { CALLER_MOVES = cudaGraphUserObjectMove };

struct CUuserObject_st {
    _Atomic unsigned references;
    cudaHostFn_t destroy;
    void *arg;
};

typedef struct held {
    struct held *next;
    cudaUserObject_t object;
    unsigned count;
} held;

typedef struct node {
    struct node *next;
    emu__piece piece;
} node;

/* Shared by the graph, what was instantiated from it, and launches under way: nothing is added once it is launched. */
typedef struct body {
    _Atomic unsigned references;
    int device;
    node *first, **last;
    held *objects; /* under the lock */
} body;

struct CUgraph_st {
    body *body;
};

struct CUgraphExec_st {
    body *body;
    bool launched; /* its launches come one after the other: under the lock */
    int slot;
    uint64_t sequence;
    emu__clock clock;
};

/* ---- user objects ---- */

/* On a thread that may not call CUDA. */
static void release(cudaUserObject_t object, unsigned count)
{
    if (atomic_fetch_sub(&object->references, count) != count) return;
    emu__error_in_host_function(true);
    object->destroy(object->arg);
    emu__error_in_host_function(false);
    free(object);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *made, void *arg, cudaHostFn_t destroy, unsigned references,
                                 unsigned flags)
{
    cudaError_t error = emu__begin("cudaUserObjectCreate", EMU__NO_CONTEXT);
    cudaUserObject_t object;

    if (error) return emu__end(error);
    if (!made || !destroy || !references || flags != cudaUserObjectNoDestructorSync)
        return emu__end(cudaErrorInvalidValue);
    object = malloc(sizeof *object);
    if (!object) return emu__end(cudaErrorMemoryAllocation);
    object->destroy = destroy;
    object->arg = arg;
    atomic_init(&object->references, references);
    *made = object;
    return emu__end(cudaSuccess);
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count)
{
    cudaError_t error = emu__begin("cudaUserObjectRetain", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!object || !count) return emu__end(cudaErrorInvalidValue);
    atomic_fetch_add(&object->references, count);
    return emu__end(cudaSuccess);
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count)
{
    cudaError_t error = emu__begin("cudaUserObjectRelease", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!object || !count || count > atomic_load(&object->references)) return emu__end(cudaErrorInvalidValue);
    release(object, count);
    return emu__end(cudaSuccess);
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags)
{
    cudaError_t error = emu__begin("cudaGraphRetainUserObject", EMU__NO_CONTEXT);
    held *one;

    if (error) return emu__end(error);
    if (!graph || !object || !count || (flags & ~(unsigned)CALLER_MOVES))
        return emu__end(cudaErrorInvalidValue);
    one = malloc(sizeof *one);
    if (!one) return emu__end(cudaErrorMemoryAllocation);
    if (!(flags & CALLER_MOVES)) atomic_fetch_add(&object->references, count);
    emu__lock();
    *one = (held){graph->body->objects, object, count};
    graph->body->objects = one;
    emu__unlock();
    return emu__end(cudaSuccess);
}

static cudaUserObject_t take_from(body *b, cudaUserObject_t object, unsigned count)
{
    for (held **at = &b->objects; *at; at = &(*at)->next) {
        held *one = *at;
        if (one->object != object || one->count < count) continue;
        one->count -= count;
        if (one->count) return object;
        *at = one->next;
        free(one);
        return object;
    }
    return NULL;
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count)
{
    cudaError_t error = emu__begin("cudaGraphReleaseUserObject", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!graph || !object || !count) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    cudaUserObject_t taken = take_from(graph->body, object, count);
    emu__unlock();
    if (!taken) return emu__end(cudaErrorInvalidValue);
    release(taken, count);
    return emu__end(cudaSuccess);
}

/* ---- what is recorded ---- */

cudaGraph_t emu__graph_make(int device)
{
    cudaGraph_t graph = malloc(sizeof *graph);
    body *b = calloc(1, sizeof *b);

    if (!graph || !b) {
        free(graph);
        free(b);
        return NULL;
    }
    b->device = device;
    b->last = &b->first;
    atomic_init(&b->references, 1);
    graph->body = b;
    return graph;
}

bool emu__graph_add(cudaGraph_t graph, const emu__piece *piece)
{
    body *b = graph->body;
    node *added = malloc(sizeof *added);

    if (!added) return false;
    *added = (node){NULL, *piece};
    *b->last = added;
    b->last = &added->next;
    return true;
}

static void drop_body(body *b)
{
    if (atomic_fetch_sub(&b->references, 1) != 1) return;
    for (node *at = b->first, *next; at; at = next) {
        next = at->next;
        at->piece.drop(at->piece.arg);
        free(at);
    }
    for (held *at = b->objects, *next; at; at = next) {
        next = at->next;
        release(at->object, at->count);
        free(at);
    }
    free(b);
}

void emu__graph_drop(cudaGraph_t graph)
{
    drop_body(graph->body);
    free(graph);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    cudaError_t error = emu__begin("cudaGraphDestroy", 0);

    if (error) return emu__end(error);
    if (!graph) return emu__end(cudaErrorInvalidValue);
    emu__graph_drop(graph);
    return emu__end(cudaSuccess);
}

/* ---- launches ---- */

static cudaError_t instantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags)
{
    cudaGraphExec_t exec;

    if (!made || !graph) return cudaErrorInvalidValue;
    if (flags & ~(unsigned long long)cudaGraphInstantiateFlagUseNodePriority) return cudaErrorNotSupported;
    exec = calloc(1, sizeof *exec);
    if (!exec) return cudaErrorMemoryAllocation;
    exec->body = graph->body;
    atomic_fetch_add(&exec->body->references, 1);
    *made = exec;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t error = emu__begin("cudaGraphInstantiate", EMU__UNSAFE);

    return emu__end(error ? error : instantiate(exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t error = emu__begin("cudaGraphInstantiateWithFlags", EMU__UNSAFE);

    return emu__end(error ? error : instantiate(exec, graph, flags));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaGraphUpload", 0);

    (void)stream;
    return emu__end(error ? error : exec ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    cudaError_t error = emu__begin("cudaGraphExecDestroy", 0);

    if (error) return emu__end(error);
    if (!exec) return emu__end(cudaErrorInvalidValue);
    drop_body(exec->body);
    free(exec);
    return emu__end(cudaSuccess);
}

static void launch_over(void *arg)
{
    drop_body(arg);
}

/* Its stream is there, does not capture, and comes after the last launch. */
static cudaError_t begin_launch(const struct CUgraphExec_st *exec, cudaStream_t handle)
{
    emu__stream *stream;
    cudaError_t error = emu__stream_for_work(handle, &stream);

    if (!error) error = emu__devices[stream->device].error;
    if (!error) error = emu__capture_refuses(stream);
    if (!error && stream->device != exec->body->device) error = cudaErrorNotSupported;
    if (!error) error = emu__stream_prepare(stream);
    if (!error && exec->launched) error = emu__stream_after(stream, exec->slot, exec->sequence, &exec->clock);
    return error;
}

/* What it holds stays until all of it is over. */
static cudaError_t end_launch(cudaGraphExec_t exec, cudaStream_t handle)
{
    emu__stream *stream;
    cudaError_t error = emu__stream_for_work(handle, &stream);

    if (!error) error = emu__stream_add(stream, &(emu__item){.run = launch_over, .arg = exec->body});
    if (error) return error;
    exec->launched = true;
    exec->slot = emu__slot_of(stream);
    exec->sequence = stream->queued;
    exec->clock = stream->clock;
    return cudaSuccess;
}

static cudaError_t launch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error, ended;

    emu__lock();
    error = begin_launch(exec, stream);
    emu__unlock();
    if (error) return error;
    atomic_fetch_add(&exec->body->references, 1);
    for (const node *at = exec->body->first; at && !error; at = at->next)
        error = at->piece.queue(at->piece.arg, stream);
    emu__lock();
    ended = end_launch(exec, stream);
    emu__unlock();
    if (ended) drop_body(exec->body);
    return error ? error : ended;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaGraphLaunch", 0);

    if (error) return emu__end(error);
    if (!exec) return emu__end(cudaErrorInvalidValue);
    return emu__end(launch(exec, stream));
}
