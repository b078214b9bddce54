/* replays.c - see replays.h.
 *
 * A replay is no call of this library's, so the graph itself has to tell of it.  Two nodes do that:
 *   - A function of the host at the graph's root counts.  Nothing depends on it, so no kernel waits for it; the graph as a
 *     whole does, but it begins with the graph.
 *   - Where a replay is, it writes into a place in pinned memory: two bytes filled with 1 before the first call, and with one
 *     more after each.  A fill can be captured, needs no source, and costs less than what asks the host.
 * Who looks clears the second byte first and reads the first one then.  As long as the second one stays clear nothing has been
 * written since: so the replay that was under way then is still where it was, and is no other one that looks like it.
 *
 * The places are the process's, for graphs outlive contexts, and CUDA pins them anew for each communicator: a reset of a device
 * takes what it has pinned, but not the memory.  Fails: where none is free, or a fill is refused, replays are counted only; where
 * the function is refused, they are not counted. */
#include "replays.h"

#include "cudart.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define PLACES      2048 /* a page's */
#define PAGE_BYTES  4096
#define PLACE_BYTES 2
#define FARTHEST    UINT8_MAX /* what comes later is not told apart */

static struct {
    _Alignas(PAGE_BYTES) unsigned char bytes[PLACES * PLACE_BYTES];
    atomic_bool pinned;
    pthread_mutex_t lock;
    unsigned next; /* where the search goes on */
    bool taken[PLACES];
} places = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Do devices reach what is pinned by the host's own pointers? */
static bool pointers_are_one(void)
{
    int device = 0, same = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, device);
    return error == cudaSuccess && same;
}

void weft__replays_equip(void)
{
    cudaError_t error = cudaErrorNotSupported;
    if (pointers_are_one())
        error = cudaHostRegister(places.bytes, sizeof places.bytes, cudaHostRegisterPortable);
    if (error != cudaSuccess) cudaGetLastError();
    atomic_store(&places.pinned, error == cudaSuccess || error == cudaErrorHostMemoryAlreadyRegistered);
}

static _Atomic uint8_t *place_take(void)
{
    unsigned char *place = NULL;
    pthread_mutex_lock(&places.lock);
    for (unsigned i = 0; atomic_load(&places.pinned) && i < PLACES && !place; i++) {
        unsigned at = places.next++ % PLACES;
        if (places.taken[at]) continue;
        places.taken[at] = true;
        place = places.bytes + (size_t)at * PLACE_BYTES;
    }
    pthread_mutex_unlock(&places.lock);
    if (place) memset(place, 0, PLACE_BYTES);
    return (_Atomic uint8_t *)place;
}

static void count(void *replays)
{
    atomic_fetch_add(&((weft__replays *)replays)->begun, 1);
}

void weft__replays_init(weft__replays *replays, cudaStream_t stream)
{
    replays->stream = stream;
    replays->place = place_take();
}

cudaError_t weft__replays_write(const weft__replays *replays, unsigned step)
{
    if (!replays->place || !step) return cudaSuccess;
    return cudaMemsetAsync((void *)replays->place, (int)step, PLACE_BYTES, replays->stream);
}

cudaError_t weft__replays_count(weft__replays *replays, cudaGraph_t graph)
{
    const struct cudaHostNodeParams root = {.fn = count, .userData = replays};
    cudaGraphNode_t node;
    return cudaGraphAddHostNode(&node, graph, NULL, 0, &root);
}

unsigned weft__replays_note(weft__replays *replays, cudaStream_t stream)
{
    replays->calls++;
    replays->apart = replays->apart || stream != replays->stream;
    return replays->apart || replays->calls >= FARTHEST ? 0 : replays->calls + 1;
}

bool weft__replays_look(weft__replays *replays, int64_t now_ns, unsigned *done)
{
    unsigned last = replays->calls < FARTHEST ? replays->calls + 1 : FARTHEST, at;
    bool moved;
    if (!replays->place || replays->apart) return false;
    moved = atomic_exchange(&replays->place[1], 0);
    at = atomic_load(&replays->place[0]);
    const int64_t before_ns = replays->since_ns;
    if (!at || at == last)
        replays->since_ns = 0;
    else if (moved || !before_ns)
        replays->since_ns = now_ns;
    if (replays->since_ns != before_ns) replays->named = false;
    *done = at - 1;
    return replays->since_ns;
}

void weft__replays_end(weft__replays *replays)
{
    if (!replays->place) return;
    pthread_mutex_lock(&places.lock);
    places.taken[(size_t)((unsigned char *)replays->place - places.bytes) / PLACE_BYTES] = false;
    pthread_mutex_unlock(&places.lock);
}
