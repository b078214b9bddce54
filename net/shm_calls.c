/* shm_calls.c - rings that are made by the first frame that goes through them (weft__segment_call), how the
 * rank at their other end hears of that, and of goodbyes for which none is made.
 *
 * Until then both ends have a silent ring in its place (ring.h), so that nothing else asks whether it is there.
 * Fails: where no memory can be had frames wait for it, and it is asked for again now and then; who waits for
 * them is told what this rank wants.  A peer is never lost by it.  The kernel gives out pages until it has to kill
 * somebody for them, so what can be had is looked at before it is asked. */
#include "clock.h"
#include "log.h"
#include "mem_available.h"
#include "shm_peer.h"

#include <errno.h>
#include <string.h>

#define LACK_NS (100 * WEFT__MS)  /* between two tries to have memory for rings */
#define TOLD_NS (1000 * WEFT__MS) /* between two words of it in the log */
#define AT_ONCE 16                /* rings for which it is looked at once what memory can be had */

WEFT__NOINLINE void weft__shm_hear_calls(weft__shm *s, uint32_t calls)
{
    const weft__segment *segment = s->segment;

    s->calls = calls;
    for (int i = 0; i < segment->size; i++) {
        weft__shm_peer *l = &s->peers[i];
        if (!l->in.bytes && weft__segment_has_called(segment, i)) {
            weft__ring_init(&l->in, weft__segment_ring(segment, segment->rank, i), segment->ring_bytes,
                            weft__segment_taken(segment, segment->rank, i));
            s->heard[s->n_heard++] = l;
        }
        if (!l->left && weft__segment_told_left(segment, i)) weft__shm_hear_left(s, l);
    }
}

/* ---- goodbyes ---- */

void weft__shm_hear_left(weft__shm *s, weft__shm_peer *l)
{
    weft__sink *sink = s->transport.sink;
    char why[WEFT__SENTENCE_BYTES];
    weft_status status;

    if (l->left || !weft__segment_has_left(s->segment, l->local, &status, why)) return;
    l->left = true;
    if (sink->left) sink->left(sink, l->peer, status, why);
}

void weft__shm_leave(weft__transport *t, weft_status status, const char *why)
{
    weft__segment_leave(weft__shm_of(t)->segment, status, why);
}

void weft__shm_tell_left(weft__transport *t, int peer)
{
    weft__shm *s = weft__shm_of(t);
    const weft__shm_peer *l = weft__shm_peer_of(t, peer);

    if (l->state != WEFT__SHM_OPEN) return;
    weft__segment_tell_left(s->segment, l->local);
    weft__bell_ring(s->segment, l->local);
}

bool weft__shm_has_left(const weft__transport *t, int peer)
{
    return weft__segment_said(weft__shm_of(t)->segment, weft__shm_peer_of(t, peer)->local);
}

/* ---- rings ---- */

/* Can a ring's pages be had, as far as that can be known?  Others take from the same. */
static bool is_granted(weft__shm *s)
{
    size_t one = s->segment->ring_bytes + sizeof(weft__taken_line);

    if (s->granted < one)
        s->granted = weft__mem_spare(AT_ONCE * one) ? AT_ONCE * one : weft__mem_spare(one) ? one : 0;
    errno = ENOMEM;
    if (s->granted < one) return false;
    s->granted -= one;
    return true;
}

/* errno says why, and one word in the log is for all that wait now. */
static void note_lack(weft__shm *s, const weft__shm_peer *l, int64_t now_ns)
{
    const weft__segment *segment = s->segment;
    const char *why = strerror(errno);

    s->granted = 0;
    s->try_ns = now_ns + LACK_NS;
    if (s->warned_ns && now_ns < s->warned_ns + TOLD_NS) return;
    s->warned_ns = now_ns;
    weft__log(WEFT__WARN,
              "rank %d cannot have the %zu bytes of shared memory through which it sends to rank %d (%s): "
              "tries again",
              segment->peers[segment->rank].world_rank, segment->ring_bytes, l->peer, why);
}

/* While it is short one peer's try is made for all. */
static bool lacks(weft__shm *s, weft__shm_peer *l)
{
    weft__sink *sink = s->transport.sink;
    int64_t now = weft__now_ns();

    l->lacks = now < s->try_ns || !is_granted(s) || !weft__segment_call(s->segment, l->local);
    if (!l->lacks) return false;
    if (now >= s->try_ns) note_lack(s, l, now);
    /* Anew in each poll: what was asked for before is forgotten where somebody looks for another reason. */
    if (sink->lacks) sink->lacks(sink, s->try_ns);
    return true;
}

bool weft__shm_call(weft__shm *s, weft__shm_peer *l)
{
    const weft__segment *segment = s->segment;

    if (lacks(s, l)) return false;
    weft__ring_init(&l->out, weft__segment_ring(segment, l->local, segment->rank), segment->ring_bytes,
                    weft__segment_taken(segment, l->local, segment->rank));
    return true;
}

const char *weft__shm_want(const weft__transport *t, int peer)
{
    return weft__shm_peer_of(t, peer)->lacks ? "memory for what it sends there" : NULL;
}
