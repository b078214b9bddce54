/* shm.c - the transport between ranks of one host.
 *
 * Happy path: send() writes the frame into the peer's inbound ring and calls sent() before it returns; the
 * peer's next poll() copies it to where its sink wants it.  No lock, no allocation, and a system call only if
 * the peer sleeps.  A frame longer than one record is written as several: the first carries the header, the
 * others a private mark, all but the last as much payload as a record holds.
 * When there is no room frames wait here, urgent ones before bulk ones; poll() writes them later.
 *
 * A ring is made by the first frame that goes through it (shm_calls.c).
 *
 * Fails: a record or a read position that no correct peer writes ends that peer (sink->lost).  Other peers go
 * on.  A frame of several records that finds no memory for what is owed of it, should it be retracted half
 * written, is not begun (rests.h). */
#include "shm_peer.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* Above, a second copy costs more than asking; where ranks share processors to ask is to change threads
 * twice, and what fits one record goes at once. */
#define EAGER_BYTES    (8u * 1024)
#define POLL_BYTES     (128u * 1024) /* payload copied per poll, in each direction: a progress pass is short */
#define SHORT_BYTES    4096          /* of a frame whose end is soon there */
#define PEER_RECORDS   32            /* read from one peer before the next one */
#define KIND_CONTINUED 255           /* first byte of a record that goes on with the frame begun before it */
_Static_assert(KIND_CONTINUED > WEFT__FRAME_KINDS, "the mark is no kind of frame");
_Static_assert(sizeof(weft__frame) == WEFT__RING_HEADER, "a record begins with the frame's header");

/* A frame that goes on after its owner took it back. */
typedef struct orphan {
    weft__outgoing out;
    weft__rests *from;
    char payload[];
} orphan;
_Static_assert(sizeof(orphan) + WEFT__FRAME_PAYLOAD_MAX <= WEFT__REST_BYTES, "the longest fits a piece");

static const uint8_t peer_follows[] = {[WEFT__SHM_OPEN] = WEFT__MAY_BECOME(WEFT__SHM_DRAINING) |
                                                          WEFT__MAY_BECOME(WEFT__SHM_GONE),
                                       [WEFT__SHM_DRAINING] = WEFT__MAY_BECOME(WEFT__SHM_GONE),
                                       [WEFT__SHM_GONE] = 0};

/* The one place that stores a peer's state.  The engine is held: no order of memory is needed. */
static void peer_to(weft__shm_peer *l, weft__shm_peer_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(peer_follows, l->state, to), l->peer, l->state, to);
    l->state = to;
}

static void withdraw_promise(weft__shm *s, weft__shm_peer *l)
{
    if (l->promised) weft__rests_withdraw(&s->rests);
    l->promised = false;
}

static void unqueue(weft__shm *s, weft__shm_peer *l, weft__outgoing *out)
{
    if (out == l->half) {
        l->half = NULL;
        withdraw_promise(s, l);
    } else {
        WEFT__ASSERT_HOT(weft__list_has(out->bulk ? &l->bulk : &l->urgent, &out->link), out->bulk);
        weft__list_remove(&out->link);
    }
    WEFT__ASSERT(s->waiting > 0);
    s->waiting--;
}

static void fail_queue(weft__shm *s, weft__shm_peer *l, weft_status status)
{
    weft__outgoing *out;
    l->lacks = false;
    while ((out = weft__shm_head(l))) {
        unqueue(s, l, out);
        out->sent(out, status);
    }
}

/* Ends a peer.  The sink hears why before the frames that waited come back with ERR_PEER. */
static void end_peer(weft__shm *s, weft__shm_peer *l, const char *why)
{
    bool tell = l->state == WEFT__SHM_OPEN;
    peer_to(l, WEFT__SHM_GONE);
    if (tell) s->transport.sink->lost(s->transport.sink, l->peer, why);
    fail_queue(s, l, WEFT_ERR_PEER);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static size_t piece_of(const weft__shm_peer *l, const weft__outgoing *out, size_t *offset)
{
    size_t most = weft__ring_piece_bytes(&l->out), rest;
    *offset = out->done ? out->done - sizeof out->frame : 0;
    rest = out->frame.length - *offset;
    return rest < most ? rest : most;
}

/* Writes records of one frame while there is room and this poll's bytes last.  READY: the frame is written. */
static weft__ring_state write_frame(weft__shm *s, weft__shm_peer *l, weft__outgoing *out, size_t *poll_bytes)
{
    static const weft__frame continued = {.kind = KIND_CONTINUED};

    while (out->done < sizeof out->frame + out->frame.length) {
        size_t offset, piece = piece_of(l, out, &offset);
        weft__ring_state room = *poll_bytes < POLL_BYTES ? weft__ring_room(&l->out, piece) : WEFT__RING_WAIT;
        if (room != WEFT__RING_READY) return room;
        weft__ring_put(&l->out, out->done ? &continued : &out->frame, (const char *)out->payload + offset,
                       piece);
        out->done = sizeof out->frame + offset + piece;
        *poll_bytes += piece;
        weft__bell_ring(s->segment, l->local);
    }
    return WEFT__RING_READY;
}

/* One record is written whole or not at all. */
static bool may_begin(weft__shm *s, weft__shm_peer *l, const weft__outgoing *out)
{
    if (out->done || out->stays || out->frame.length <= weft__ring_piece_bytes(&l->out)) return true;
    if (!l->promised) l->promised = weft__rests_promise(&s->rests);
    return l->promised;
}

/* Writes what waits for one peer.  Returns how many frames were written to the end, or not at all. */
static int write_queue(weft__shm *s, weft__shm_peer *l, size_t *poll_bytes)
{
    weft__outgoing *out;
    int moved = 0;

    if (WEFT__UNLIKELY(!l->out.bytes) && !weft__shm_call(s, l)) return 0;
    l->writing = true;
    while (l->state == WEFT__SHM_OPEN && (out = weft__shm_head(l))) {
        bool begins = may_begin(s, l, out);
        weft__ring_state state = begins ? write_frame(s, l, out, poll_bytes) : WEFT__RING_READY;
        if (state == WEFT__RING_BROKEN) {
            end_peer(s, l, "it says it has read what was never written to it");
            break;
        }
        if (state == WEFT__RING_WAIT) {
            if (out->done && out != l->half) {
                weft__list_remove(&out->link);
                l->half = out;
            }
            break;
        }
        unqueue(s, l, out);
        out->sent(out, begins ? WEFT_OK : WEFT_ERR_MEMORY);
        moved++;
    }
    l->writing = false;
    if (!l->half) withdraw_promise(s, l);
    return moved;
}

static weft__frame *shm_reserve(weft__transport *t, int peer, const void *payload, size_t length)
{
    weft__shm *s = weft__shm_of(t);
    weft__shm_peer *l = weft__shm_peer_of(t, peer);

    if (l->state != WEFT__SHM_OPEN || l->writing || (s->waiting && weft__shm_head(l))) return NULL;
    if (length > weft__ring_piece_bytes(&l->out) || weft__ring_room(&l->out, length) != WEFT__RING_READY)
        return NULL;
    if (length) weft__ring_put_payload(&l->out, payload, length);
    return weft__ring_place(&l->out);
}

static void shm_commit(weft__transport *t, int peer, uint64_t first, size_t length)
{
    weft__shm_peer *l = weft__shm_peer_of(t, peer);

    weft__ring_publish(&l->out, first, length);
    weft__bell_ring(weft__shm_of(t)->segment, l->local);
}

static void shm_send(weft__transport *t, int peer, weft__outgoing *out)
{
    weft__shm *s = weft__shm_of(t);
    weft__shm_peer *l = weft__shm_peer_of(t, peer);
    bool idle = !weft__shm_head(l) && !l->writing;
    size_t poll_bytes = 0;

    WEFT__ASSERT(out->frame.length <= WEFT__FRAME_PAYLOAD_MAX);
    weft__list_init(&out->link);
    out->done = 0;
    out->peer = peer;
    if (l->state != WEFT__SHM_OPEN) {
        out->sent(out, WEFT_ERR_PEER);
        return;
    }
    weft__list_append(out->bulk ? &l->bulk : &l->urgent, &out->link);
    s->waiting++;
    if (WEFT__UNLIKELY(!l->spoken)) {
        l->spoken = true;
        s->spoken[s->n_spoken++] = l;
    }
    /* While a `sent` runs, the loop that called it takes this frame too: no recursion
     * however long the chain. */
    if (idle) write_queue(s, l, &poll_bytes);
}

static void orphan_sent(weft__outgoing *out, weft_status status)
{
    orphan *rest = WEFT__OWNER(out, orphan, out);
    (void)status;
    weft__rests_give(rest->from, rest);
}

static void shm_retract(weft__transport *t, weft__outgoing *out)
{
    weft__shm *s = weft__shm_of(t);
    weft__shm_peer *l = weft__shm_peer_of(t, out->peer);
    size_t offset = out->done ? out->done - sizeof out->frame : 0;
    orphan *rest;

    if (out != l->half || l->state != WEFT__SHM_OPEN) {
        unqueue(s, l, out);
        if (!weft__shm_head(l)) l->lacks = false;
        return;
    }
    WEFT__ASSERT(l->promised);
    l->promised = false;
    rest = weft__rests_take(&s->rests);
    *rest = (orphan){.out = *out, .from = &s->rests};
    rest->out.payload = rest->payload;
    rest->out.sent = orphan_sent;
    /* Payload is copied to its old offset, so that `done` keeps its meaning. */
    memcpy(rest->payload + offset, (const char *)out->payload + offset, out->frame.length - offset);
    l->half = &rest->out;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void tell_taken(weft__shm *s, weft__shm_peer *l)
{
    weft__ring_tell(&l->in);
    weft__bell_ring(s->segment, l->local); /* it may sleep until there is room, or until all is taken */
}

/* A record that goes on with the frame begun before it.  False: it is none, and the peer has ended. */
static bool go_on(weft__shm *s, weft__shm_peer *l)
{
    weft__frame header;

    weft__ring_peek(&l->in, &header);
    if (header.kind == KIND_CONTINUED) return true;
    end_peer(s, l, "a frame came before the end of the one before it");
    return false;
}

/* The header of a record that begins a frame.  False: the peer has ended. */
static bool see_frame(weft__shm *s, weft__shm_peer *l)
{
    if (l->seen) return true;
    weft__ring_peek(&l->in, &l->frame);
    if (weft__frame_check(&l->frame)) {
        end_peer(s, l, weft_last_error());
        return false;
    }
    l->seen = true;
    return true;
}

/* False: the peer has ended. */
static bool begin_frame(weft__shm *s, weft__shm_peer *l)
{
    weft__sink *sink = s->transport.sink;

    if (!see_frame(s, l)) return false;
    l->seen = false;
    l->begun = true;
    l->read_bytes = 0;
    l->where = NULL;
    if (l->frame.length) {
        char *where;
        l->reading = true;
        where = sink->header(sink, l->peer, &l->frame);
        l->reading = false;
        l->where = where;
    }
    return l->state != WEFT__SHM_GONE;
}

static void take_piece(weft__shm *s, weft__shm_peer *l, void *where, size_t bytes)
{
    weft__ring_take(&l->in, where, bytes);
    if (weft__ring_untold(&l->in) >= l->in.bytes / 4) tell_taken(s, l);
}

/* Reads one record, if there is one. */
static bool read_record(weft__shm *s, weft__shm_peer *l, size_t *poll_bytes)
{
    weft__sink *sink = s->transport.sink;
    size_t piece, most = weft__ring_piece_bytes(&l->in);

    WEFT__ASSERT_HOT(!l->reading && (!l->begun || l->read_bytes < l->frame.length), l->peer, l->read_bytes);
    if (l->state == WEFT__SHM_GONE || !weft__ring_ready(&l->in)) return false;
    if (!(l->begun ? go_on(s, l) : begin_frame(s, l))) return false;
    piece = l->frame.length - l->read_bytes;
    if (piece > most) piece = most;
    take_piece(s, l, l->where ? l->where + l->read_bytes : NULL, piece);
    l->read_bytes += piece;
    *poll_bytes += piece;
    if (l->read_bytes == l->frame.length) {
        l->begun = false;
        l->reading = true;
        sink->arrived(sink, l->peer, &l->frame, l->where);
        l->reading = false;
    }
    return true;
}

static const weft__frame *shm_next(weft__transport *t, int peer)
{
    weft__shm *s = weft__shm_of(t);
    weft__shm_peer *l = weft__shm_peer_of(t, peer);

    if (l->state != WEFT__SHM_OPEN || l->begun || !weft__ring_ready(&l->in) || !see_frame(s, l)) return NULL;
    return l->frame.length <= weft__ring_piece_bytes(&l->in) ? &l->frame : NULL;
}

static void shm_take(weft__transport *t, int peer, void *where)
{
    weft__shm_peer *l = weft__shm_peer_of(t, peer);

    WEFT__ASSERT(l->seen);
    l->seen = false;
    weft__ring_read_ahead(&l->in);
    take_piece(weft__shm_of(t), l, where, l->frame.length);
}

static void shm_read(weft__transport *t, int peer)
{
    size_t poll_bytes = 0;
    read_record(weft__shm_of(t), weft__shm_peer_of(t, peer), &poll_bytes);
}

static void shm_forget(weft__transport *t, int peer, void *where)
{
    weft__shm_peer *l = weft__shm_peer_of(t, peer);
    if (l->begun && l->where == where) l->where = NULL;
}

static int read_peers(weft__shm *s, int budget)
{
    int size = s->n_heard, at = s->first_in, moved = 0;
    size_t poll_bytes = 0;
    bool alone;

    for (int i = 0; i < size && moved < budget && poll_bytes < POLL_BYTES; i++) {
        weft__shm_peer *l = s->heard[at];
        if (++at == size) at = 0;
        if (WEFT__LIKELY(!weft__ring_ready(&l->in))) {
            /* Told only when a poll finds nothing more: by then the answer to the last
             * frame is on its way. */
            if (weft__ring_untold(&l->in) && l->state == WEFT__SHM_OPEN) tell_taken(s, l);
            l->awaited = true;
            continue;
        }
        /* A short one that was waited for mostly comes alone, and to ask for the next would be to wait for a
         * line of the writer's: before the caller hears of this one. */
        alone = l->awaited;
        l->awaited = false;
        for (int n = 0; n < PEER_RECORDS && moved < budget && poll_bytes < POLL_BYTES; n++) {
            if (!read_record(s, l, &poll_bytes)) break;
            moved++;
            if (alone && l->frame.length <= SHORT_BYTES) break;
        }
        s->first_in = at;
    }
    return moved;
}

static int write_peers(weft__shm *s)
{
    size_t poll_bytes = 0;
    int moved = 0;

    for (int i = 0; i < s->n_spoken && poll_bytes < POLL_BYTES; i++) {
        weft__shm_peer *l = s->spoken[s->first_out];
        if (++s->first_out >= s->n_spoken) s->first_out = 0;
        if (weft__shm_head(l)) moved += write_queue(s, l, &poll_bytes);
    }
    return moved;
}

static int shm_poll(weft__transport *t, int budget)
{
    weft__shm *s = weft__shm_of(t);
    int moved;

    WEFT__ASSERT(!s->polling);
    s->polling = true;
    weft__shm_hear(s);
    moved = read_peers(s, budget);
    if (s->waiting) moved += write_peers(s);
    s->polling = false;
    return moved;
}

/* ---- state ------------------------------------------------------------------------------------ */

/* Asked after arming the own bell: a record, a call or room that comes later is rung for.  Nobody rings for
 * memory: for that the sink is told when to look again. */
static bool shm_busy(const weft__transport *t)
{
    weft__shm *s = weft__shm_of(t);

    if (weft__segment_calls(s->segment) != s->calls) return true;
    for (int i = 0; i < s->n_heard; i++) {
        const weft__shm_peer *l = s->heard[i];
        if (l->state == WEFT__SHM_OPEN && (weft__ring_ready(&l->in) || weft__ring_untold(&l->in)))
            return true;
    }
    for (int i = 0; s->waiting && i < s->n_spoken; i++) {
        weft__shm_peer *l = s->spoken[i];
        const weft__outgoing *out = weft__shm_head(l);
        size_t offset;
        if (l->state == WEFT__SHM_OPEN && out &&
            weft__ring_room(&l->out, piece_of(l, out, &offset)) != WEFT__RING_WAIT)
            return true;
    }
    return false;
}

static bool shm_flushed(const weft__transport *t, int peer)
{
    const weft__shm_peer *l = weft__shm_peer_of(t, peer);
    if (l->state != WEFT__SHM_OPEN) return true;
    return !weft__shm_head(l) && atomic_load_explicit(l->out.taken, memory_order_seq_cst) == l->out.position;
}

static void shm_drop(weft__transport *t, int peer)
{
    weft__shm *s = weft__shm_of(t);
    weft__shm_peer *l = weft__shm_peer_of(t, peer);

    weft__shm_hear(s); /* who has died may have called just before */
    /* From inside the sink's own handling of a frame of this peer nothing more is read: that frame is the
     * last. */
    if (l->state == WEFT__SHM_OPEN && !l->reading) {
        size_t drained = 0, poll_bytes = 0;
        uint64_t from = l->in.position;
        peer_to(l, WEFT__SHM_DRAINING);
        while (drained < l->in.bytes && read_record(s, l, &poll_bytes))
            drained = (size_t)(l->in.position - from);
        /* Who has a ring to here says goodbye in it, behind all else; where it is not there, its process ended first. */
        if (!l->in.bytes) weft__shm_hear_left(s, l);
    }
    if (l->state != WEFT__SHM_GONE) peer_to(l, WEFT__SHM_GONE);
    fail_queue(s, l, WEFT_ERR_PEER);
}

static void shm_free(weft__shm *s)
{
    free((void *)s->heard);
    free((void *)s->spoken);
    free(s->peers);
    free(s->local_of);
    free(s);
}

static void shm_close(weft__transport *t)
{
    weft__shm *s = weft__shm_of(t);

    for (int i = 0; i < s->segment->size; i++) {
        weft__shm_peer *l = &s->peers[i];
        /* Or a peer whose last frame has just been read would wait for ever to see it flushed. */
        if (l->state == WEFT__SHM_OPEN && weft__ring_untold(&l->in)) tell_taken(s, l);
        if (l->state != WEFT__SHM_GONE) peer_to(l, WEFT__SHM_GONE);
        fail_queue(s, l, WEFT_ERR_CANCELLED);
    }
    weft__rests_close(&s->rests);
    shm_free(s);
}

weft_status weft__shm_open(weft__segment *segment, const int *local_of, int world, bool crowded,
                           weft__sink *sink, weft__transport **transport)
{
    static const weft__transport slots = {.eager_bytes = EAGER_BYTES,
                                          .send = shm_send,
                                          .reserve = shm_reserve,
                                          .commit = shm_commit,
                                          .next = shm_next,
                                          .take = shm_take,
                                          .read = shm_read,
                                          .retract = shm_retract,
                                          .forget = shm_forget,
                                          .poll = shm_poll,
                                          .busy = shm_busy,
                                          .flushed = shm_flushed,
                                          .want = weft__shm_want,
                                          .leave = weft__shm_leave,
                                          .tell_left = weft__shm_tell_left,
                                          .has_left = weft__shm_has_left,
                                          .drop = shm_drop,
                                          .close = shm_close};
    size_t n = (size_t)segment->size, ranks = (size_t)world;
    weft__shm *s = calloc(1, sizeof *s);

    if (!s) return weft__fail_memory(sizeof *s, "the shared memory transport");
    s->peers = calloc(n, sizeof *s->peers);
    s->local_of = calloc(ranks, sizeof *s->local_of);
    s->heard = calloc(n, sizeof *s->heard);
    s->spoken = calloc(n, sizeof *s->spoken);
    if (!s->peers || !s->local_of || !s->heard || !s->spoken || !weft__rests_open(&s->rests)) {
        shm_free(s);
        return weft__fail_memory(n * sizeof *s->peers + ranks * sizeof *s->local_of + WEFT__REST_BYTES,
                                 "the shared memory transport");
    }
    memcpy(s->local_of, local_of, ranks * sizeof *local_of);
    s->transport = slots;
    s->transport.sink = sink;
    s->segment = segment;
    s->world = world;
    for (int i = 0; i < segment->size; i++) {
        weft__shm_peer *l = &s->peers[i];
        l->local = i;
        l->peer = segment->peers[i].world_rank;
        weft__list_init(&l->urgent);
        weft__list_init(&l->bulk);
        weft__ring_init_silent(&l->in);
        weft__ring_init_silent(&l->out);
    }
    if (crowded && weft__ring_piece_of(segment->ring_bytes) > EAGER_BYTES)
        s->transport.eager_bytes = weft__ring_piece_of(segment->ring_bytes);
    *transport = &s->transport;
    return WEFT_OK;
}
