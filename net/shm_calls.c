/* shm_calls.c - rings that are made by the first frame that goes through them (weft__segment_call), and how
 * the rank at their other end hears of that.
 *
 * Until then both ends have a silent ring in its place (ring.h), so that nothing else asks whether it is there.
 * Fails: where no memory can be had frames wait for it, and it is asked for again now and then; who waits for
 * them is told what this rank wants.  A peer is never lost by it. */
#include "clock.h"
#include "log.h"
#include "shm_peer.h"

#define LACK_NS (100 * WEFT__MS) /* between two tries to have memory for rings */

WEFT__NOINLINE void weft__shm_hear_calls(weft__shm *s, uint32_t calls)
{
    const weft__segment *segment = s->segment;

    s->calls = calls;
    for (int i = 0; i < segment->size; i++) {
        weft__shm_peer *l = &s->peers[i];
        if (l->in.bytes || !weft__segment_has_called(segment, i)) continue;
        weft__ring_init(&l->in, weft__segment_ring(segment, segment->rank, i), segment->ring_bytes,
                        weft__segment_taken(segment, segment->rank, i));
        s->heard[s->n_heard++] = l;
    }
}

void weft__shm_has_enough(weft__shm *s, weft__shm_peer *l)
{
    if (l->lacks) s->n_lacks--;
    l->lacks = false;
}

/* While it is short one peer's try is made for all, and the log has the first. */
static bool lacks(weft__shm *s, weft__shm_peer *l)
{
    const weft__segment *segment = s->segment;
    bool is_short = s->n_lacks && weft__now_ns() < s->try_ns;

    if (!is_short && weft__segment_call(segment, l->local)) return false;
    if (!is_short) s->try_ns = weft__now_ns() + LACK_NS;
    if (!s->n_lacks)
        weft__log(WEFT__WARN,
                  "rank %d has no memory for the %zu bytes through which it sends to rank %d: tries again",
                  segment->peers[segment->rank].world_rank, segment->ring_bytes, l->peer);
    if (!l->lacks) s->n_lacks++;
    l->lacks = true;
    return true;
}

bool weft__shm_call(weft__shm *s, weft__shm_peer *l)
{
    const weft__segment *segment = s->segment;

    if (lacks(s, l)) return false;
    weft__shm_has_enough(s, l);
    weft__ring_init(&l->out, weft__segment_ring(segment, l->local, segment->rank), segment->ring_bytes,
                    weft__segment_taken(segment, l->local, segment->rank));
    return true;
}

const char *weft__shm_want(const weft__transport *t, int peer)
{
    return weft__shm_peer_of(t, peer)->lacks ? "memory for what it sends there" : NULL;
}
