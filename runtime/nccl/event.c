/* event.c - the pool of events.
 *
 * Happy path: take and give move one along a list.  When few are left a thread makes as many again.  Fails:
 * with CUDA's error where nothing is spare and none can be made. */
#include "event.h"

#include "thread.h"

#include <stdlib.h>

#define CHUNK     64
#define LOW_WATER 32 /* spare ones at which more are made */

struct weft__event_chunk {
    struct weft__event_chunk *next;
    unsigned made;
    cudaError_t error;
    weft__event events[CHUNK];
};

void weft__event_pool_init(weft__events *events)
{
    *events = (weft__events){0};
    pthread_mutex_init(&events->lock, NULL);
}

static void event_make(void *arg)
{
    struct weft__event_chunk *chunk = arg;
    while (chunk->made < CHUNK && chunk->error == cudaSuccess) {
        chunk->error = cudaEventCreateWithFlags(&chunk->events[chunk->made].cuda, cudaEventDisableTiming);
        if (chunk->error == cudaSuccess) chunk->made++;
    }
}

static cudaError_t event_grow(weft__nccl *nccl)
{
    weft__events *events = &nccl->events;
    struct weft__event_chunk *chunk = calloc(1, sizeof *chunk);
    cudaError_t error = cudaErrorMemoryAllocation;
    if (chunk && weft__thread_call(nccl, event_make, chunk)) error = chunk->error;
    if (!chunk || !chunk->made) {
        free(chunk);
        return error;
    }
    pthread_mutex_lock(&events->lock);
    chunk->next = events->chunks;
    events->chunks = chunk;
    for (unsigned i = 0; i < chunk->made; i++) {
        chunk->events[i].next = events->spare;
        events->spare = &chunk->events[i];
    }
    events->spares += chunk->made;
    events->made += chunk->made;
    pthread_mutex_unlock(&events->lock);
    return cudaSuccess;
}

cudaError_t weft__event_pool_grow(weft__nccl *nccl, unsigned spares)
{
    cudaError_t error = cudaSuccess;
    unsigned now;
    do {
        pthread_mutex_lock(&nccl->events.lock);
        now = nccl->events.spares;
        pthread_mutex_unlock(&nccl->events.lock);
    } while (now < spares && (error = event_grow(nccl)) == cudaSuccess);
    return error;
}

/* As many again as there are. */
static void grow_ahead(void *arg)
{
    weft__nccl *nccl = arg;
    unsigned made;
    pthread_mutex_lock(&nccl->events.lock);
    made = nccl->events.made;
    pthread_mutex_unlock(&nccl->events.lock);
    weft__event_pool_grow(nccl, made); /* whoever finds none makes them, and tells */
    pthread_mutex_lock(&nccl->events.lock);
    nccl->events.growing = false;
    pthread_mutex_unlock(&nccl->events.lock);
}

static weft__event *as_new(weft__event *event)
{
    event->next = NULL;
    event->works = NULL;
    event->recorded = event->known = event->cut = false;
    return event;
}

weft__event *weft__event_take_spare(weft__nccl *nccl)
{
    weft__events *events = &nccl->events;
    weft__event *event = NULL;
    pthread_mutex_lock(&events->lock);
    if (events->spares > LOW_WATER) {
        event = events->spare;
        events->spare = event->next;
        events->spares--;
    }
    pthread_mutex_unlock(&events->lock);
    return event ? as_new(event) : NULL;
}

weft__event *weft__event_take(weft__nccl *nccl, cudaError_t *error)
{
    weft__events *events = &nccl->events;
    weft__event *event;
    bool low;
    for (;;) {
        pthread_mutex_lock(&events->lock);
        event = events->spare;
        if (event) {
            events->spare = event->next;
            events->spares--;
        }
        low = event && events->spares <= LOW_WATER && !events->growing;
        if (low) events->growing = true;
        pthread_mutex_unlock(&events->lock);
        if (event) break;
        if ((*error = event_grow(nccl)) != cudaSuccess) return NULL;
    }
    if (WEFT__UNLIKELY(low) && !weft__thread_start(nccl, grow_ahead, nccl)) {
        pthread_mutex_lock(&events->lock);
        events->growing = false;
        pthread_mutex_unlock(&events->lock);
    }
    return as_new(event);
}

void weft__event_give(weft__nccl *nccl, weft__event *event)
{
    weft__events *events = &nccl->events;
    if (!event) return;
    pthread_mutex_lock(&events->lock);
    event->capture = NULL;
    event->next = events->spare;
    events->spare = event;
    events->spares++;
    pthread_mutex_unlock(&events->lock);
}

void weft__event_pool_close(weft__events *events, bool intact)
{
    struct weft__event_chunk *chunk, *next;
    for (chunk = events->chunks; chunk; chunk = next) {
        next = chunk->next;
        for (unsigned i = 0; intact && i < chunk->made; i++) cudaEventDestroy(chunk->events[i].cuda);
        free(chunk);
    }
    pthread_mutex_destroy(&events->lock);
}
