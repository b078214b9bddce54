/* event.c - events.  One that times has a stamp queued; one that does not is only a place in its stream.
 *
 * What is destroyed stays known for as long as some dozens of others are, so that its use is told.  Events
 * come from blocks that are never given back. */
#include "event.h"
#include "capture.h"
#include "device.h"
#include "error.h"
#include "lock.h"
#include "stream.h"

#include <stdlib.h>
#include <time.h>

enum {
    EVENTS_A_BLOCK = 64,
    EVENTS_RESTING = 32, /* that many destroyed ones are not used again */
};

typedef enum { EVENT_UNUSED, EVENT_LIVE, EVENT_DESTROYED } event_state;

struct CUevent_st {
    event_state state;
    int device;
    unsigned flags;
    struct CUevent_st *next_free;
    uint64_t version; /* of its records */
    bool recorded;
    int slot; /* where it was recorded */
    uint64_t sequence;
    int64_t stamped_ns;    /* when the stream came there; 0: not yet */
    emu__capture *capture; /* recorded in a capturing stream */
    emu__clock clock;
};

typedef struct event_block {
    struct event_block *next;
    struct CUevent_st events[EVENTS_A_BLOCK];
} event_block;

static event_block *blocks;
static struct CUevent_st *first_free, **last_free = &first_free;
static int free_count;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- which there are ---- */

static void give_back(struct CUevent_st *event)
{
    event->next_free = NULL;
    *last_free = event;
    last_free = &event->next_free;
    free_count++;
}

static struct CUevent_st *take(void)
{
    if (free_count <= EVENTS_RESTING) {
        event_block *block = calloc(1, sizeof *block);
        if (!block) return NULL;
        block->next = blocks;
        blocks = block;
        for (int i = 0; i < EVENTS_A_BLOCK; i++) give_back(&block->events[i]);
    }
    struct CUevent_st *event = first_free;
    first_free = event->next_free;
    free_count--;
    return event;
}

static bool is_ours(cudaEvent_t event)
{
    for (const event_block *block = blocks; block; block = block->next) {
        uintptr_t at = (uintptr_t)event;
        uintptr_t first = (uintptr_t)block->events;
        if (at >= first && at < first + sizeof block->events) return (at - first) % sizeof *event == 0;
    }
    return false;
}

static cudaError_t find(cudaEvent_t event)
{
    if (event && is_ours(event) && event->state == EVENT_LIVE) return cudaSuccess;
    if (!event) return cudaErrorInvalidResourceHandle;
    if (is_ours(event) && event->state == EVENT_DESTROYED)
        emu_misuse("event 0x%llx is used after cudaEventDestroy", (unsigned long long)(uintptr_t)event);
    else
        emu_misuse("0x%llx is given as an event and is none", (unsigned long long)(uintptr_t)event);
    return cudaErrorInvalidResourceHandle;
}

static cudaError_t make(cudaEvent_t *made, unsigned flags)
{
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    cudaEvent_t event;

    if (!made || (flags & ~known)) return cudaErrorInvalidValue;
    if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) return cudaErrorInvalidValue;
    emu__lock();
    event = take();
    if (event) {
        event->state = EVENT_LIVE;
        event->device = emu__device_current();
        event->flags = flags;
        event->version++;
        event->recorded = false;
        event->capture = NULL;
    }
    emu__unlock();
    if (!event) return cudaErrorMemoryAllocation;
    *made = event;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    cudaError_t error = emu__begin("cudaEventCreate", 0);

    return emu__end(error ? error : make(event, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    cudaError_t error = emu__begin("cudaEventCreateWithFlags", 0);

    return emu__end(error ? error : make(event, flags));
}

static void destroy(cudaEvent_t event)
{
    event->state = EVENT_DESTROYED;
    event->version++; /* a stamp that is still queued finds another */
    give_back(event);
}

void emu__events_reset(int device)
{
    for (event_block *block = blocks; block; block = block->next)
        for (int i = 0; i < EVENTS_A_BLOCK; i++)
            if (block->events[i].state == EVENT_LIVE && block->events[i].device == device)
                destroy(&block->events[i]);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = emu__begin("cudaEventDestroy", EMU__BLOCKS);

    if (error) return emu__end(error);
    emu__lock();
    error = find(event);
    if (!error) destroy(event);
    emu__unlock();
    return emu__end(error);
}

/* ---- recording ---- */

void emu__event_stamp(cudaEvent_t event, uint64_t version)
{
    if (event->version == version) event->stamped_ns = now_ns();
}

static cudaError_t record(cudaEvent_t event, cudaStream_t handle)
{
    emu__stream *stream;
    cudaError_t error = find(event);

    if (!error) error = emu__stream_for_work(handle, &stream);
    if (!error) error = find(event); /* it may have waited */
    if (error) return error;
    if (stream->device != event->device || stream->context != EMU_CONTEXT_PRIMARY)
        return cudaErrorInvalidResourceHandle;
    error = emu__capture_records(stream, &event->capture);
    event->slot = emu__slot_of(stream);
    if (error || event->capture) return error;
    event->version++;
    event->stamped_ns = 0;
    if (event->flags & cudaEventDisableTiming && emu__lane_is_empty(stream->lane))
        error = emu__stream_prepare(stream);
    else
        error =
            emu__stream_add(stream,
                            &(emu__item){.kind = EMU__ITEM_MARK, .event = event, .version = event->version});
    if (error) return error;
    event->recorded = true;
    event->slot = emu__slot_of(stream);
    event->sequence = stream->queued;
    event->clock = stream->clock;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = emu__begin("cudaEventRecord", 0);

    if (error) return emu__end(error);
    emu__lock();
    error = record(event, stream);
    emu__unlock();
    return emu__end(error);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    cudaError_t error = emu__begin("cudaEventRecordWithFlags", 0);

    if (error) return emu__end(error);
    if (flags & ~(unsigned)cudaEventRecordExternal) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    error = record(event, stream);
    emu__unlock();
    return emu__end(error);
}

/* ---- waiting ---- */

/* What was never recorded holds nothing up; what is recorded later is not what is waited for here. */
static cudaError_t wait_for(cudaStream_t handle, cudaEvent_t event)
{
    emu__stream *stream;
    cudaError_t error = find(event);

    if (!error) error = emu__stream_for_work(handle, &stream);
    if (!error) error = find(event); /* it may have waited */
    if (error) return error;
    bool captured;
    error = emu__capture_waits(stream, event->capture, event->slot, &captured);
    if (error || captured || !event->recorded) return error;
    error = emu__stream_prepare(stream);
    return error ? error : emu__stream_after(stream, event->slot, event->sequence, &event->clock);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t error = emu__begin("cudaStreamWaitEvent", 0);

    if (error) return emu__end(error);
    if (flags & ~(unsigned)cudaEventWaitExternal) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    error = wait_for(stream, event);
    emu__unlock();
    return emu__end(error);
}

static cudaError_t query(cudaEvent_t event)
{
    cudaError_t error = find(event);

    if (error) return error;
    if (event->capture) return cudaErrorCapturedEvent;
    if (!event->recorded) return cudaSuccess;
    if (!emu__stream_reached(event->slot, event->sequence)) return cudaErrorNotReady;
    emu__order_seen(&event->clock);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = emu__begin("cudaEventQuery", EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = query(event);
    emu__unlock();
    return emu__end(error);
}

static cudaError_t synchronize(cudaEvent_t event)
{
    cudaError_t error = query(event);

    if (error != cudaErrorNotReady) return error;
    emu__clock seen = event->clock; /* it may be recorded again, or destroyed, meanwhile */
    emu__stream_await(event->slot, event->sequence);
    emu__order_seen(&seen);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = emu__begin("cudaEventSynchronize", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = synchronize(event);
    emu__unlock();
    return emu__end(error);
}

static cudaError_t elapsed(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t error = find(start);

    if (!error) error = find(end);
    if (error) return error;
    if (start->capture || end->capture) return cudaErrorCapturedEvent;
    if ((start->flags | end->flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
    if (!start->recorded || !end->recorded) return cudaErrorInvalidResourceHandle;
    if (!start->stamped_ns || !end->stamped_ns) return cudaErrorNotReady;
    *ms = (float)((double)(end->stamped_ns - start->stamped_ns) / 1e6);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    cudaError_t error = emu__begin("cudaEventElapsedTime", 0);

    if (error) return emu__end(error);
    if (!ms) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    error = elapsed(ms, start, end);
    emu__unlock();
    return emu__end(error);
}
