/* recorded_ring.c - see recorded_ring.h. */
#include "recorded_ring.h"

#include "wanderer.h"

enum { COUNT = 64, GLOBAL = 0, TAG = 77 };
static const size_t bytes = COUNT * sizeof(int32_t);

static bool goes_on(wanderer *w)
{
    return !w->over[0] && !device_is_lost();
}

/* A call's answer: false, and judged, where it was refused. */
static bool taken(wanderer *w, weft_status status)
{
    if (status != WEFT_OK) wanderer_judge(w, 0, status, weft_last_error());
    return status == WEFT_OK;
}

static bool sum(wanderer *w, int32_t *to)
{
    const weft_call call = {.stream = w->ring.stream};
    weft_request *req = NULL;
    bool held;
    return taken(w,
                 weft_all_reduce(w->groups[0], w->ring.in, to, COUNT, WEFT_INT32, WEFT_SUM, &call, &req)) &&
           wanderer_settle(w, 0, req, &held);
}

static bool pass_on(wanderer *w)
{
    const int rank = weft_group_rank(w->groups[0]), n = weft_group_size(w->groups[0]);
    weft_batch *batch = NULL;
    weft_request *req = NULL;
    weft_status status = weft_batch_begin(w->groups[0], &batch);
    bool held;
    if (!taken(w, status)) return false;
    const weft_call call = {.stream = w->ring.stream, .batch = batch};
    (void)weft_irecv(w->groups[0], w->ring.from, COUNT, WEFT_INT32, (rank + n - 1) % n, TAG, &call, NULL);
    (void)weft_isend(w->groups[0], w->ring.in, COUNT, WEFT_INT32, (rank + 1) % n, TAG, &call, NULL);
    return taken(w, weft_batch_end(batch, NULL, &req)) && wanderer_settle(w, 0, req, &held);
}

/* Whoever records the first message to a rank that NCCL has not connected waits for that one. */
void recorded_ring_take(wanderer *w)
{
    recorded_ring *r = &w->ring;
    *r = (recorded_ring){.stream = device_stream(1)};
    int32_t **const on_device[] = {&r->in, &r->sum, &r->from, &r->behind};
    int32_t **const pinned[] = {&r->put, &r->got_sum, &r->got_message};
    for (size_t i = 0; i < sizeof on_device / sizeof *on_device; i++)
        *on_device[i] = device_take(DEVICE_MEMORY, bytes);
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        *pinned[i] = device_take(DEVICE_PINNED, bytes);
    for (int i = 0; i < COUNT; i++) r->put[i] = 0;
    device_copy(r->in, r->put, bytes, r->stream);
}

void recorded_ring_record(wanderer *w)
{
    recorded_ring *r = &w->ring;
    bool whole;
    recorded_ring_drop(w);
    if (!goes_on(w) || !sum(w, r->behind) || !pass_on(w)) return;
    w->over[0] = device()->cudaStreamBeginCapture(r->stream, GLOBAL) != 0;
    if (w->over[0]) return;
    whole = sum(w, r->sum) && pass_on(w);
    if (device()->cudaStreamEndCapture(r->stream, &r->graph)) r->graph = NULL;
    if (whole && !r->graph && mishap_is_calm(w->m))
        job_fail(__FILE__, __LINE__, "the capture has come to nothing");
    if (whole && r->graph && device()->cudaGraphInstantiate(&r->exec, r->graph, 0)) r->exec = NULL;
    w->over[0] = w->over[0] || !r->exec; /* the others have theirs perhaps */
}

/* A replay has no deadline, and what is behind it on the stream has. */
void recorded_ring_replay(wanderer *w)
{
    recorded_ring *r = &w->ring;
    const int rank = weft_group_rank(w->groups[0]), n = weft_group_size(w->groups[0]), time = r->times++;
    bool well;
    if (!r->exec || !goes_on(w)) return;
    for (int i = 0; i < COUNT; i++) r->put[i] = i + rank + time;
    device_copy(r->in, r->put, bytes, r->stream);
    w->over[0] = device()->cudaGraphLaunch(r->exec, r->stream) != 0;
    if (w->over[0]) return;
    device_copy(r->got_sum, r->sum, bytes, r->stream);
    device_copy(r->got_message, r->from, bytes, r->stream);
    well = sum(w, r->behind);
    device_sync(r->stream);
    if (!well || !goes_on(w)) return;
    for (int i = 0; i < COUNT; i++) {
        CHECK_INT(r->got_sum[i], n * (i + time) + n * (n - 1) / 2);
        CHECK_INT(r->got_message[i], i + (rank + n - 1) % n + time);
    }
}

void recorded_ring_drop(wanderer *w)
{
    if (w->ring.exec) DEVICE_OK(device()->cudaGraphExecDestroy(w->ring.exec));
    if (w->ring.graph) DEVICE_OK(device()->cudaGraphDestroy(w->ring.graph));
    w->ring.exec = w->ring.graph = NULL;
}
