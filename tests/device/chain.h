/* chain.h - what tests of graphs record: three collectives, each of which takes what the one before it has made. */
#ifndef WEFT_TESTS_DEVICE_CHAIN_H
#define WEFT_TESTS_DEVICE_CHAIN_H
#include "device.h"

#include <stdatomic.h>
#include <weft/cuda.h>

enum {
    COUNT = 64,
    FEW = 10,
    GLOBAL = 0 /* the strictest mode of a capture, which CUDA has by default */
};
static const size_t bytes = COUNT * sizeof(int32_t);

/* A chain, each step's output the next one's input: a sum, everybody's sums, and the last rank's from all of them. */
typedef struct chain {
    void *stream, *graph, *exec;
    int32_t *in, *sum, *all, *last;
    int32_t *put, *got; /* pinned */
} chain;

static inline chain take_chain(job_rank *me)
{
    const size_t size = (size_t)me->size;
    chain c = {.stream = device_stream(1),
               .in = job_buffer(me, bytes),
               .sum = job_buffer(me, bytes),
               .all = job_buffer(me, size * bytes),
               .last = job_buffer(me, bytes),
               .put = device_take(DEVICE_PINNED, bytes),
               .got = device_take(DEVICE_PINNED, bytes)};
    return c;
}

static inline void give_chain(chain *c)
{
    device_give(c->put);
    device_give(c->got);
}

static inline void begin_capture(chain *c)
{
    DEVICE_OK(device()->cudaStreamBeginCapture(c->stream, GLOBAL));
}

static inline void end_capture(chain *c)
{
    DEVICE_OK(device()->cudaStreamEndCapture(c->stream, &c->graph));
    CHECK(c->graph);
}

static inline void drop_graph(chain *c)
{
    if (c->exec) DEVICE_OK(device()->cudaGraphExecDestroy(c->exec));
    if (c->graph) DEVICE_OK(device()->cudaGraphDestroy(c->graph));
    c->exec = c->graph = NULL;
}

/* Recorded, which is all that it is to be. */
static inline void was_recorded(weft_request *req, const chain *c)
{
    weft_request_info info;
    CHECK_OK(weft_stream_wait(req, c->stream));
    WAIT_STATUS(WEFT_OK, req);
    info = job_info(req);
    CHECK_TEXT(info.algorithm, "graph");
    weft_release(req);
}

static inline void record_collectives(weft_group *group, const chain *c, int size)
{
    const weft_call call = {.stream = c->stream};
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(group, c->in, c->sum, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    was_recorded(req, c);
    CHECK_OK(weft_all_gather(group, c->sum, c->all, COUNT, WEFT_INT32, &call, &req));
    was_recorded(req, c);
    CHECK_OK(weft_scatter(group, c->all, c->last, COUNT, WEFT_INT32, size - 1, &call, &req));
    was_recorded(req, c);
}

/* NCCL connects outside of a capture; the inputs are all 0. */
static inline void warm_up(job_rank *me, weft_group *group, const chain *c)
{
    CHECK_OK(weft_all_reduce(group, c->in, c->sum, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_OK(weft_all_gather(group, c->sum, c->all, COUNT, WEFT_INT32, NULL, NULL));
    CHECK_OK(weft_scatter(group, c->all, c->last, COUNT, WEFT_INT32, me->size - 1, NULL, NULL));
    job_meet(me);
}

static inline void make_graph(job_rank *me, weft_group *group, chain *c)
{
    begin_capture(c);
    record_collectives(group, c, me->size);
    end_capture(c);
    DEVICE_OK(device()->cudaGraphInstantiate(&c->exec, c->graph, 0));
}

/* New input each time, behind the last replay. */
static inline void replay(job_rank *me, const chain *c, int time)
{
    for (int i = 0; i < COUNT; i++) c->put[i] = i + me->rank + time;
    device_copy(c->in, c->put, bytes, c->stream);
    DEVICE_OK(device()->cudaGraphLaunch(c->exec, c->stream));
    device_copy(c->got, c->last, bytes, c->stream);
    device_sync(c->stream);
    for (int i = 0; i < COUNT; i++)
        CHECK_INT(c->got[i], me->size * (i + time) + me->size * (me->size - 1) / 2);
}

static inline void refuses(weft_status status, const char *why, weft_status got, weft_request *req)
{
    CHECK_STATUS(status, got);
    CHECK_TEXT(weft_last_error(), why);
    CHECK(!req);
}

#endif
