/* stream.h - streams: ordered queues, each with a thread that works on it.
 *
 * Every piece of work has a sequence number in its stream's slot, which only grows, also when the slot goes
 * to another stream.  So (slot, sequence) names a place for ever: what an event has recorded, what a wait
 * waits for. */
#ifndef EMULATION_STREAM_H
#define EMULATION_STREAM_H
#include "emulation.h"
#include "lane.h"
#include "order.h"

#include <pthread.h>

typedef enum emu__stream_state {
    EMU__STREAM_UNUSED, /* never was, or was destroyed and has finished */
    EMU__STREAM_LIVE,
    EMU__STREAM_DRAINING /* destroyed; what is queued still runs */
} emu__stream_state;

typedef enum emu__item_kind {
    EMU__ITEM_RUN,       /* a function */
    EMU__ITEM_EXCLUSIVE, /* a function, when its ticket is served on the device */
    EMU__ITEM_UNORDERED, /* a function, when the device has room for one more such */
    EMU__ITEM_WAIT,      /* until a point is reached */
    EMU__ITEM_MARK,      /* nothing; the time goes into its event, if it has one */
    EMU__ITEM_WRITE,     /* a word */
    EMU__ITEM_AWAIT      /* until a word has a value */
} emu__item_kind;

typedef struct emu__item {
    struct emu__item *next;
    emu__item_kind kind;
    uint64_t sequence, place; /* in the stream, and in its lane */
    void (*run)(void *arg);
    void *arg;
    uint64_t ticket;
    int slot; /* a wait's point */
    uint64_t until;
    cudaEvent_t event; /* a mark's, as long as it is in this version */
    uint64_t version;
    struct emu__word *word; /* word.h */
} emu__item;

typedef struct CUstream_st {
    emu__stream_state state;
    int device;
    unsigned flags;
    int priority;
    emu_context context;
    emu__lane *lane; /* NULL: it shares none */
    unsigned long long id;
    bool legacy;     /* the device's default stream */
    bool per_thread; /* a thread's default stream */
    bool has_worker, asleep;
    emu__item *head, **tail;
    uint64_t queued, done;   /* sequence numbers */
    pthread_cond_t work;     /* for the worker: there is some */
    pthread_cond_t advanced; /* for others: done has grown */
    int waiters;
    emu__clock clock;
    struct emu__capture *capture; /* NULL: it does not capture */
    bool capture_joined;          /* a fork of a capture that has come back to its origin */
} emu__stream;

extern emu__stream emu__streams[EMU__SLOTS];

static inline int emu__slot_of(const emu__stream *stream)
{
    return (int)(stream - emu__streams);
}

/* All below: under the lock. */

/* The stream that a handle means to this thread, made where it is a default one.  find tells what is no
 * stream as a misuse; both return cudaErrorInvalidResourceHandle then. */
cudaError_t emu__stream_look(cudaStream_t handle, emu__stream **found);
cudaError_t emu__stream_find(cudaStream_t handle, emu__stream **found);
/* For a call that queues work: as find, and waits first while the queue is full, as a launch does on a device.  Lets go
 * of the lock meanwhile. */
cudaError_t emu__stream_for_work(cudaStream_t handle, emu__stream **found);
/* A new one; the caller sets what it shall be. */
cudaError_t emu__stream_make(int device, unsigned flags, int priority, emu__stream **made);
void emu__stream_end(emu__stream *stream); /* it goes when it has finished */
/* The stream comes after what default streams ask for, and after what the host has seen. */
cudaError_t emu__stream_prepare(emu__stream *stream);
/* Prepares the stream and queues a copy of the item; its accesses to memory are told to emu__order_access
 * before the lock is let go. */
cudaError_t emu__stream_add(emu__stream *stream, const emu__item *item);
/* What is queued on the stream from now on comes after the point, whose clock this is. */
cudaError_t emu__stream_after(emu__stream *stream, int slot, uint64_t sequence, const emu__clock *clock);
void emu__streams_reset(int device); /* all that the program has made on the device end */
bool emu__stream_reached(int slot, uint64_t sequence);
/* Waits until it is; lets go of the lock meanwhile. */
void emu__stream_await(int slot, uint64_t sequence);
/* Waits for what is queued now, and lets the host's clock know. */
cudaError_t emu__stream_settle(emu__stream *stream);
cudaError_t emu__device_settle(int device);
const char *emu__stream_name(const emu__stream *stream); /* for messages; this thread's next call but three
                                                            overwrites it */
#endif
