/* weft.c - Weft's driver for tools/compare; see measure.h for its arguments.  A label that ends in -mem has
 * its buffers from weft_mem_alloc, any other has private ones. */
#include "measure.h"

#include <string.h>
#include <weft/weft.h>

static weft_group *world;
static weft_request *started[MEASURE_WINDOW + 1];
static size_t n;

static void ok(weft_status status)
{
    if (status != WEFT_OK) measure_fail("%s: %s", weft_status_name(status), weft_last_error());
}

static weft_status submit(const struct measure_call *c, weft_request **req)
{
    enum { TAG = 1 };
    float *data = weft_group_rank(world) == c->peer ? (float *)c->in : c->out; /* of a broadcast */
    switch (c->action) {
    case MEASURE_SEND: return weft_isend(world, c->in, c->count, WEFT_FLOAT32, c->peer, TAG, NULL, req);
    case MEASURE_RECEIVE: return weft_irecv(world, c->out, c->count, WEFT_FLOAT32, c->peer, TAG, NULL, req);
    case MEASURE_BROADCAST: return weft_broadcast(world, data, c->count, WEFT_FLOAT32, c->peer, NULL, req);
    case MEASURE_ALL_REDUCE:
        return weft_all_reduce(world, c->in, c->out, c->count, WEFT_FLOAT32, WEFT_SUM, NULL, req);
    case MEASURE_REDUCE_SCATTER:
        return weft_reduce_scatter(world, c->in, c->out, c->count, WEFT_FLOAT32, WEFT_SUM, NULL, req);
    case MEASURE_ALL_GATHER: return weft_all_gather(world, c->in, c->out, c->count, WEFT_FLOAT32, NULL, req);
    case MEASURE_ALL_TO_ALL: return weft_all_to_all(world, c->in, c->out, c->count, WEFT_FLOAT32, NULL, req);
    default: return weft_barrier(world, NULL, req);
    }
}

static void run(const struct measure_call *call)
{
    ok(submit(call, NULL));
}

static void start(const struct measure_call *call)
{
    ok(submit(call, &started[n]));
    n++;
}

static void finish(void)
{
    ok(n == 1 ? weft_wait(started[0], WEFT_FOREVER) : weft_wait_all(started, n, WEFT_FOREVER));
    while (n > 0) weft_release(started[--n]);
}

static void maximum(double *values, int count)
{
    ok(weft_all_reduce(world, values, values, (size_t)count, WEFT_FLOAT64, WEFT_MAX, NULL, NULL));
}

static void *shared(size_t bytes)
{
    void *at;
    ok(weft_mem_alloc(world, bytes, WEFT_MEMORY_HOST, &at));
    return at;
}

int main(int argc, char **argv)
{
    enum { LEAVING_MS = 10000 };
    weft_context *job;
    struct peer peer = {.blocking = MEASURE_ALL,
                        .request = MEASURE_ALL,
                        .run = run,
                        .start = start,
                        .finish = finish,
                        .maximum = maximum};
    measure_begin(argc, argv);
    if (strstr(measure_label(), "-mem")) peer.memory = shared;
    ok(weft_init(NULL, &job));
    world = weft_world(job);
    peer.rank = weft_group_rank(world);
    peer.size = weft_group_size(world);
    measure(&peer);
    ok(weft_finalize(job, LEAVING_MS));
    return measure_end();
}
