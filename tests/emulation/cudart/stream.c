/* stream.c - the queues and their threads.  A thread is started with the first work that cannot be done at
 * once, sleeps while there is none, and leaves when the stream is destroyed and has finished. */
#include "stream.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "exit.h"
#include "lock.h"
#include "word.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE_MOST = 1024 };

pthread_mutex_t emu__mutex = PTHREAD_MUTEX_INITIALIZER;
_Thread_local bool emu__locked;
emu__stream emu__streams[EMU__SLOTS];

static pthread_cond_t drained = PTHREAD_COND_INITIALIZER;
static unsigned long long last_id;
static emu__stream *legacy_streams[EMU__DEVICES_MAX];
static emu__item *spare_items; /* that need no malloc the next time */

/* Each thread has a default stream for each device, made when it is asked for and ended with the thread. */
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

typedef struct {
    emu__stream *streams[EMU__DEVICES_MAX];
} thread_streams;

static void end_thread_streams(void *arg)
{
    thread_streams *mine = arg;

    emu__lock();
    for (int i = 0; i < EMU__DEVICES_MAX; i++)
        if (mine->streams[i]) emu__stream_end(mine->streams[i]);
    emu__unlock();
    free(mine);
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, end_thread_streams);
}

/* ---- what a handle means ---- */

/* Slots are taken in turn, so that a handle that was destroyed is known as such for long. */
static emu__stream *find_slot(void)
{
    static int next;

    for (int i = 0; i < EMU__SLOTS; i++) {
        emu__stream *stream = &emu__streams[(next + i) % EMU__SLOTS];
        if (stream->state != EMU__STREAM_UNUSED) continue;
        next = (emu__slot_of(stream) + 1) % EMU__SLOTS;
        return stream;
    }
    return NULL;
}

static bool any_draining(void)
{
    for (int i = 0; i < EMU__SLOTS; i++)
        if (emu__streams[i].state == EMU__STREAM_DRAINING) return true;
    return false;
}

/* Where all are taken, some by streams that were destroyed, the first of those to finish is waited for. */
static emu__stream *free_slot(void)
{
    emu__stream *stream;

    while (!(stream = find_slot()) && any_draining()) pthread_cond_wait(&drained, &emu__mutex);
    return stream;
}

cudaError_t emu__stream_make(int device, unsigned flags, int priority, emu__stream **made)
{
    emu__stream *stream = free_slot();

    if (!stream) {
        fprintf(stderr, "emulation: no room for more than %d streams at one time\n", EMU__SLOTS);
        return cudaErrorMemoryAllocation;
    }
    emu__error_started();
    if (!stream->id) { /* the slot's first */
        pthread_cond_init(&stream->work, NULL);
        pthread_cond_init(&stream->advanced, NULL);
    }
    stream->state = EMU__STREAM_LIVE;
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++last_id;
    stream->legacy = stream->per_thread = false;
    stream->head = NULL;
    stream->tail = &stream->head;
    stream->context = EMU_CONTEXT_PRIMARY;
    stream->lane = emu__lane_choose(device, priority);
    stream->capture = NULL;
    stream->capture_joined = false;
    memset(&stream->clock, 0, sizeof stream->clock);
    int slot = emu__slot_of(stream);
    if (slot >= emu__slots_used) emu__slots_used = slot + 1;
    /* What an earlier stream of the slot did counts as done before: numbers in a slot only grow. */
    stream->clock.at[slot] = stream->queued;
    *made = stream;
    return cudaSuccess;
}

static cudaError_t legacy_stream(emu__stream **found)
{
    int device = emu__device_current();
    cudaError_t error;

    if (!legacy_streams[device]) {
        error = emu__stream_make(device, cudaStreamDefault, 0, &legacy_streams[device]);
        if (error) return error;
        legacy_streams[device]->legacy = true;
    }
    *found = legacy_streams[device];
    return cudaSuccess;
}

static cudaError_t thread_stream(emu__stream **found)
{
    int device = emu__device_current();
    thread_streams *mine;
    cudaError_t error;

    pthread_once(&thread_once, make_thread_key);
    mine = pthread_getspecific(thread_key);
    if (!mine) {
        mine = calloc(1, sizeof *mine);
        if (!mine) return cudaErrorMemoryAllocation;
        pthread_setspecific(thread_key, mine);
    }
    if (!mine->streams[device]) {
        error = emu__stream_make(device, cudaStreamDefault, 0, &mine->streams[device]);
        if (error) return error;
        mine->streams[device]->per_thread = true;
    }
    *found = mine->streams[device];
    return cudaSuccess;
}

static bool is_slot(cudaStream_t handle)
{
    uintptr_t from_first = (uintptr_t)handle - (uintptr_t)emu__streams;

    return from_first < sizeof emu__streams && from_first % sizeof *handle == 0;
}

cudaError_t emu__stream_look(cudaStream_t handle, emu__stream **found)
{
    if (!handle || handle == cudaStreamLegacy) return legacy_stream(found);
    if (handle == cudaStreamPerThread) return thread_stream(found);
    if (!is_slot(handle) || handle->state != EMU__STREAM_LIVE) return cudaErrorInvalidResourceHandle;
    *found = handle;
    return cudaSuccess;
}

cudaError_t emu__stream_find(cudaStream_t handle, emu__stream **found)
{
    cudaError_t error = emu__stream_look(handle, found);
    unsigned long long at = (uintptr_t)handle;

    if (error != cudaErrorInvalidResourceHandle) return error;
    if (is_slot(handle))
        emu_misuse("stream 0x%llx is used after cudaStreamDestroy", at);
    else
        emu_misuse("0x%llx is given as a stream and is none", at);
    return error;
}

static pthread_once_t room_once = PTHREAD_ONCE_INIT;
static uint64_t room; /* pieces of work that a stream's queue takes */
static int at_once;   /* kernels of communicators that a device runs */

static long setting(const char *name, long otherwise)
{
    const char *asked = getenv(name);
    char *end = "";
    long value = asked && *asked ? strtol(asked, &end, 10) : otherwise;

    if (*end || value < 1 || value > INT32_MAX) {
        fprintf(stderr, "emulation: %s: \"%s\": expected 1 to %d\n", name, asked, INT32_MAX);
        _exit(EMU_MISUSE_STATUS);
    }
    return value;
}

static void read_room(void)
{
    room = (uint64_t)setting("CUDA_EMULATION_QUEUE", QUEUE_MOST);
    at_once = (int)setting("CUDA_EMULATION_KERNELS", 1);
}

/* It may be destroyed meanwhile, and its slot be another one's. */
cudaError_t emu__stream_for_work(cudaStream_t handle, emu__stream **found)
{
    cudaError_t error;

    pthread_once(&room_once, read_room);
    while (!(error = emu__stream_find(handle, found)) && (*found)->queued - (*found)->done >= room)
        emu__stream_await(emu__slot_of(*found), (*found)->queued - room + 1);
    return error;
}

const char *emu__stream_name(const emu__stream *stream)
{
    static _Thread_local char names[4][64];
    static _Thread_local unsigned next;
    char *name = names[next++ % 4];

    if (stream->legacy)
        snprintf(name, sizeof names[0], "the default stream of device %d", stream->device);
    else
        snprintf(name, sizeof names[0], "stream 0x%llx of device %d", (unsigned long long)(uintptr_t)stream,
                 stream->device);
    return name;
}

/* ---- the worker ---- */

bool emu__stream_reached(int slot, uint64_t sequence)
{
    return emu__streams[slot].done >= sequence;
}

void emu__stream_await(int slot, uint64_t sequence)
{
    emu__stream *stream = &emu__streams[slot];

    while (stream->done < sequence) {
        stream->waiters++;
        pthread_cond_wait(&stream->advanced, &emu__mutex);
        stream->waiters--;
    }
}

static void run_unlocked(const emu__item *item)
{
    emu__unlock();
    item->run(item->arg);
    emu__lock();
}

static void run_beside(const emu__item *item, emu__device *device)
{
    device->running++;
    run_unlocked(item);
    device->running--;
    pthread_cond_broadcast(&device->served);
}

static void run_unordered(const emu__item *item, emu__device *device, emu__lane *lane)
{
    while (device->running >= at_once) pthread_cond_wait(&device->served, &emu__mutex);
    emu__lane_take(lane);
    run_beside(item, device);
}

static void run_exclusive(const emu__item *item, emu__device *device, emu__lane *lane)
{
    while (device->serving != item->ticket || device->running >= at_once)
        pthread_cond_wait(&device->served, &emu__mutex);
    device->serving++;
    pthread_cond_broadcast(&device->served);
    emu__lane_take(lane);
    run_beside(item, device);
}

static void run(emu__stream *stream, const emu__item *item)
{
    switch (item->kind) {
    case EMU__ITEM_UNORDERED: run_unordered(item, &emu__devices[stream->device], stream->lane); break;
    case EMU__ITEM_EXCLUSIVE: run_exclusive(item, &emu__devices[stream->device], stream->lane); break;
    default: emu__lane_take(stream->lane); run_unlocked(item);
    }
}

/* Its lane goes on when this has begun, or what it waits for is there. */
static void carry_out(emu__stream *stream, const emu__item *item)
{
    emu__lane_await(stream->lane, item->place);
    switch (item->kind) {
    case EMU__ITEM_RUN:
    case EMU__ITEM_UNORDERED:
    case EMU__ITEM_EXCLUSIVE: run(stream, item); return;
    case EMU__ITEM_WAIT: emu__stream_await(item->slot, item->until); break;
    case EMU__ITEM_MARK:
        if (item->event) emu__event_stamp(item->event, item->version);
        break;
    case EMU__ITEM_WRITE: emu__word_write(item->word); break;
    case EMU__ITEM_AWAIT: emu__word_await(item->word); break;
    }
    emu__lane_take(stream->lane);
}

static void finish(emu__stream *stream, uint64_t sequence)
{
    stream->done = sequence;
    if (stream->waiters) pthread_cond_broadcast(&stream->advanced);
}

static void *work(void *arg)
{
    emu__stream *stream = arg;

    emu__lock();
    emu__device_set(stream->device);
    for (;;) {
        while (!stream->head && stream->state == EMU__STREAM_LIVE) {
            stream->asleep = true;
            pthread_cond_wait(&stream->work, &emu__mutex);
            stream->asleep = false;
        }
        emu__item *item = stream->head;
        if (!item || emu__exit_begun()) break;
        carry_out(stream, item);
        stream->head = item->next;
        if (!stream->head) stream->tail = &stream->head;
        finish(stream, item->sequence);
        item->next = spare_items;
        spare_items = item;
    }
    stream->has_worker = false;
    stream->state = EMU__STREAM_UNUSED;
    pthread_cond_broadcast(&drained);
    emu__unlock();
    return NULL;
}

/* Signals are for the program's own threads. */
static cudaError_t start_worker(emu__stream *stream)
{
    sigset_t none, before;
    pthread_attr_t detached;
    pthread_t thread;

    sigfillset(&none);
    sigdelset(&none, SIGSEGV);
    sigdelset(&none, SIGBUS);
    sigdelset(&none, SIGFPE);
    sigdelset(&none, SIGILL);
    sigdelset(&none, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &detached, work, stream);
    pthread_attr_destroy(&detached);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        fprintf(stderr, "emulation: no thread for a stream: %s\n", strerror(failed));
        return cudaErrorMemoryAllocation;
    }
    stream->has_worker = true;
    return cudaSuccess;
}

/* ---- queueing ---- */

/* Only so that it runs after what is there; the clock is the caller's. */
static cudaError_t append(emu__stream *stream, const emu__item *what)
{
    emu__item *item = spare_items;
    cudaError_t error;

    if (what->kind == EMU__ITEM_MARK && !stream->head &&
        emu__lane_is_empty(stream->lane)) { /* there is nothing to wait for */
        stream->clock.at[emu__slot_of(stream)] = ++stream->queued;
        if (what->event) emu__event_stamp(what->event, what->version);
        finish(stream, stream->queued);
        return cudaSuccess;
    }
    if (!stream->has_worker && (error = start_worker(stream))) return error;
    if (item)
        spare_items = item->next;
    else if (!(item = malloc(sizeof *item)))
        return cudaErrorMemoryAllocation;
    *item = *what;
    item->next = NULL;
    item->sequence = ++stream->queued;
    item->place = emu__lane_queue(stream->lane);
    stream->clock.at[emu__slot_of(stream)] = item->sequence;
    if (item->kind == EMU__ITEM_EXCLUSIVE) item->ticket = emu__devices[stream->device].tickets++;
    *stream->tail = item;
    stream->tail = &item->next;
    if (stream->asleep) pthread_cond_signal(&stream->work);
    return cudaSuccess;
}

cudaError_t emu__stream_after(emu__stream *stream, int slot, uint64_t sequence, const emu__clock *clock)
{
    /* A clock that is past the point got there by a wait. */
    bool waits = stream->clock.at[slot] < sequence && !emu__stream_reached(slot, sequence);
    cudaError_t error = cudaSuccess;

    if (waits) error = append(stream, &(emu__item){.kind = EMU__ITEM_WAIT, .slot = slot, .until = sequence});
    if (!error) emu__clock_join(&stream->clock, clock);
    return error;
}

static cudaError_t after_all_of(emu__stream *stream, const emu__stream *other)
{
    return emu__stream_after(stream, emu__slot_of(other), other->queued, &other->clock);
}

static bool is_blocking(const emu__stream *stream)
{
    return stream->state != EMU__STREAM_UNUSED && !(stream->flags & cudaStreamNonBlocking);
}

/* The default stream waits for all blocking ones, and they for it. */
cudaError_t emu__stream_prepare(emu__stream *stream)
{
    emu__stream *legacy = legacy_streams[stream->device];
    cudaError_t error = cudaSuccess;

    emu__clock_join(&stream->clock, &emu__host_clock);
    if (stream->legacy) {
        for (int i = 0; i < emu__slots_used && !error; i++) {
            const emu__stream *other = &emu__streams[i];
            if (other != stream && other->device == stream->device && is_blocking(other))
                error = after_all_of(stream, other);
        }
    } else if (legacy && is_blocking(stream)) {
        error = after_all_of(stream, legacy);
    }
    return error;
}

cudaError_t emu__stream_add(emu__stream *stream, const emu__item *item)
{
    cudaError_t error = emu__stream_prepare(stream);

    return error ? error : append(stream, item);
}

/* ---- waiting ---- */

cudaError_t emu__stream_settle(emu__stream *stream)
{
    cudaError_t error = emu__stream_prepare(stream);

    if (error) return error;
    emu__clock seen = stream->clock; /* more may be queued while this waits */
    emu__stream_await(emu__slot_of(stream), stream->queued);
    emu__order_seen(&seen);
    return cudaSuccess;
}

cudaError_t emu__device_settle(int device)
{
    cudaError_t error = cudaSuccess;

    for (int i = 0; i < emu__slots_used && !error; i++) {
        emu__stream *stream = &emu__streams[i];
        if (stream->device == device && stream->state != EMU__STREAM_UNUSED)
            error = emu__stream_settle(stream);
    }
    return error;
}

void emu_device_await(int device)
{
    emu__lock();
    for (int i = 0; i < emu__slots_used; i++) {
        const emu__stream *stream = &emu__streams[i];
        if (stream->device == device && stream->state != EMU__STREAM_UNUSED && !emu__exit_begun())
            emu__stream_await(i, stream->queued);
    }
    emu__unlock();
}

void emu__stream_end(emu__stream *stream)
{
    stream->state = stream->has_worker ? EMU__STREAM_DRAINING : EMU__STREAM_UNUSED;
    if (stream->asleep) pthread_cond_signal(&stream->work);
}

void emu__streams_reset(int device)
{
    for (int i = 0; i < emu__slots_used; i++) {
        emu__stream *stream = &emu__streams[i];
        if (stream->state == EMU__STREAM_LIVE && stream->device == device && !stream->legacy &&
            !stream->per_thread)
            emu__stream_end(stream);
    }
}
