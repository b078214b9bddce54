/* shm.c - the transport between ranks of one host.
 *
 * Happy path: send() writes the frame into the peer's inbound ring and calls sent() before it returns; the
 * peer's next poll() copies it to where its sink wants it.  No lock, no allocation, and a system call only if
 * the peer sleeps.  A frame longer than one record is written as several: the first carries the header, the
 * others a private mark, all but the last as much payload as a record holds.
 * When there is no room frames wait here, urgent ones before bulk ones; poll() writes them later.
 *
 * Fails: a record or a read position that no correct peer writes ends that peer (sink->lost).  Other peers go
 * on.  A frame of several records that finds no memory for what is owed of it, should it be retracted half
 * written, is not begun (rests.h). */
#include "shm.h"
#include "rests.h"
#include "ring.h"
#include "status.h"
#include "transports.h"

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

typedef enum shm_peer_state {
    PEER_OPEN,
    PEER_DRAINING, /* the peer is gone; what it had written is still read */
    PEER_GONE
} shm_peer_state;

/* Both directions between this rank and one other. */
typedef struct shm_peer {
    weft__ring in;
    shm_peer_state state;
    int peer, local;   /* the other's world and local rank */
    bool reading;      /* inside a call of the sink for this peer */
    bool writing;      /* inside write_queue */
    bool seen;         /* `frame` has been read, and nothing else of its record */
    bool begun;        /* `frame` is the sink's, its payload has not been read to the end */
    bool awaited;      /* the last poll found nothing */
    size_t read_bytes; /* of its payload */
    char *where;       /* where its payload goes, or NULL */
    weft__frame frame;

    weft__ring out;
    weft__outgoing *half;    /* begun, and waiting for room; in no queue */
    bool promised;           /* memory for its rest, or for that of the next one */
    weft__list urgent, bulk; /* of weft__outgoing, not begun */
} shm_peer;

typedef struct shm {
    weft__transport transport;
    weft__segment *segment;
    int *local_of;
    int world, first; /* first: the peer that the next poll reads first */
    size_t waiting;   /* frames in queues or half written, all peers */
    weft__rests rests;
    bool polling;
    shm_peer *peers;
} shm;

/* A frame that goes on after its owner took it back. */
typedef struct orphan {
    weft__outgoing out;
    weft__rests *from;
    char payload[];
} orphan;
_Static_assert(sizeof(orphan) + WEFT__FRAME_PAYLOAD_MAX <= WEFT__REST_BYTES, "the longest fits a piece");

static shm *shm_of(const weft__transport *t)
{
    return (shm *)(void *)((char *)(uintptr_t)t - offsetof(shm, transport));
}

static shm_peer *shm_peer_of(const weft__transport *t, int peer)
{
    shm *s = shm_of(t);
    WEFT__ASSERT((unsigned)peer < (unsigned)s->world && s->local_of[peer] >= 0);
    return &s->peers[s->local_of[peer]];
}

/* The next frame to write, or NULL. */
static weft__outgoing *head_of(const shm_peer *l)
{
    if (l->half) return l->half;
    if (!weft__list_empty(&l->urgent)) return WEFT__LIST_ENTRY(l->urgent.next, weft__outgoing, link);
    if (!weft__list_empty(&l->bulk)) return WEFT__LIST_ENTRY(l->bulk.next, weft__outgoing, link);
    return NULL;
}

static const uint8_t peer_follows[] = {[PEER_OPEN] =
                                           WEFT__MAY_BECOME(PEER_DRAINING) | WEFT__MAY_BECOME(PEER_GONE),
                                       [PEER_DRAINING] = WEFT__MAY_BECOME(PEER_GONE),
                                       [PEER_GONE] = 0};

/* The one place that stores a peer's state.  The engine is held: no order of memory is needed. */
static void peer_to(shm_peer *l, shm_peer_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(peer_follows, l->state, to), l->peer, l->state, to);
    l->state = to;
}

static void withdraw_promise(shm *s, shm_peer *l)
{
    if (l->promised) weft__rests_withdraw(&s->rests);
    l->promised = false;
}

static void unqueue(shm *s, shm_peer *l, weft__outgoing *out)
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

static void fail_queue(shm *s, shm_peer *l, weft_status status)
{
    weft__outgoing *out;
    while ((out = head_of(l))) {
        unqueue(s, l, out);
        out->sent(out, status);
    }
}

/* Ends a peer.  The sink hears why before the frames that waited come back with ERR_PEER. */
static void end_peer(shm *s, shm_peer *l, const char *why)
{
    bool tell = l->state == PEER_OPEN;
    peer_to(l, PEER_GONE);
    if (tell) s->transport.sink->lost(s->transport.sink, l->peer, why);
    fail_queue(s, l, WEFT_ERR_PEER);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static size_t piece_of(const shm_peer *l, const weft__outgoing *out, size_t *offset)
{
    size_t most = weft__ring_piece_bytes(&l->out), rest;
    *offset = out->done ? out->done - sizeof out->frame : 0;
    rest = out->frame.length - *offset;
    return rest < most ? rest : most;
}

/* Writes records of one frame while there is room and this poll's bytes last.  READY: the frame is written. */
static weft__ring_state write_frame(shm *s, shm_peer *l, weft__outgoing *out, size_t *poll_bytes)
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
static bool may_begin(shm *s, shm_peer *l, const weft__outgoing *out)
{
    if (out->done || out->stays || out->frame.length <= weft__ring_piece_bytes(&l->out)) return true;
    if (!l->promised) l->promised = weft__rests_promise(&s->rests);
    return l->promised;
}

/* Writes what waits for one peer.  Returns how many frames were written to the end, or not at all. */
static int write_queue(shm *s, shm_peer *l, size_t *poll_bytes)
{
    weft__outgoing *out;
    int moved = 0;

    l->writing = true;
    while (l->state == PEER_OPEN && (out = head_of(l))) {
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
    shm *s = shm_of(t);
    shm_peer *l = shm_peer_of(t, peer);

    if (l->state != PEER_OPEN || l->writing || (s->waiting && head_of(l))) return NULL;
    if (length > weft__ring_piece_bytes(&l->out) || weft__ring_room(&l->out, length) != WEFT__RING_READY)
        return NULL;
    if (length) weft__ring_put_payload(&l->out, payload, length);
    return weft__ring_place(&l->out);
}

static void shm_commit(weft__transport *t, int peer, uint64_t first, size_t length)
{
    shm_peer *l = shm_peer_of(t, peer);

    weft__ring_publish(&l->out, first, length);
    weft__bell_ring(shm_of(t)->segment, l->local);
}

static void shm_send(weft__transport *t, int peer, weft__outgoing *out)
{
    shm *s = shm_of(t);
    shm_peer *l = shm_peer_of(t, peer);
    bool idle = !head_of(l) && !l->writing;
    size_t poll_bytes = 0;

    WEFT__ASSERT(out->frame.length <= WEFT__FRAME_PAYLOAD_MAX);
    weft__list_init(&out->link);
    out->done = 0;
    out->peer = peer;
    if (l->state != PEER_OPEN) {
        out->sent(out, WEFT_ERR_PEER);
        return;
    }
    weft__list_append(out->bulk ? &l->bulk : &l->urgent, &out->link);
    s->waiting++;
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
    shm *s = shm_of(t);
    shm_peer *l = shm_peer_of(t, out->peer);
    size_t offset = out->done ? out->done - sizeof out->frame : 0;
    orphan *rest;

    if (out != l->half || l->state != PEER_OPEN) {
        unqueue(s, l, out);
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

static void tell_taken(shm *s, shm_peer *l)
{
    weft__ring_tell(&l->in);
    weft__bell_ring(s->segment, l->local); /* it may sleep until there is room, or until all is taken */
}

/* A record that goes on with the frame begun before it.  False: it is none, and the peer has ended. */
static bool go_on(shm *s, shm_peer *l)
{
    weft__frame header;

    weft__ring_peek(&l->in, &header);
    if (header.kind == KIND_CONTINUED) return true;
    end_peer(s, l, "a frame came before the end of the one before it");
    return false;
}

/* The header of a record that begins a frame.  False: the peer has ended. */
static bool see_frame(shm *s, shm_peer *l)
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
static bool begin_frame(shm *s, shm_peer *l)
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
    return l->state != PEER_GONE;
}

static void take_piece(shm *s, shm_peer *l, void *where, size_t bytes)
{
    weft__ring_take(&l->in, where, bytes);
    if (weft__ring_untold(&l->in) >= l->in.bytes / 4) tell_taken(s, l);
}

/* Reads one record, if there is one. */
static bool read_record(shm *s, shm_peer *l, size_t *poll_bytes)
{
    weft__sink *sink = s->transport.sink;
    size_t piece, most = weft__ring_piece_bytes(&l->in);

    WEFT__ASSERT_HOT(!l->reading && (!l->begun || l->read_bytes < l->frame.length), l->peer, l->read_bytes);
    if (l->state == PEER_GONE || !weft__ring_ready(&l->in)) return false;
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
    shm *s = shm_of(t);
    shm_peer *l = shm_peer_of(t, peer);

    if (l->state != PEER_OPEN || l->begun || !weft__ring_ready(&l->in) || !see_frame(s, l)) return NULL;
    return l->frame.length <= weft__ring_piece_bytes(&l->in) ? &l->frame : NULL;
}

static void shm_take(weft__transport *t, int peer, void *where)
{
    shm_peer *l = shm_peer_of(t, peer);

    WEFT__ASSERT(l->seen);
    l->seen = false;
    weft__ring_read_ahead(&l->in);
    take_piece(shm_of(t), l, where, l->frame.length);
}

static void shm_read(weft__transport *t, int peer)
{
    size_t poll_bytes = 0;
    read_record(shm_of(t), shm_peer_of(t, peer), &poll_bytes);
}

static void shm_forget(weft__transport *t, int peer, void *where)
{
    shm_peer *l = shm_peer_of(t, peer);
    if (l->begun && l->where == where) l->where = NULL;
}

static int read_peers(shm *s, int budget)
{
    int size = s->segment->size, at = s->first, moved = 0;
    size_t poll_bytes = 0;
    bool alone;

    for (int i = 0; i < size && moved < budget && poll_bytes < POLL_BYTES; i++) {
        shm_peer *l = &s->peers[at];
        if (++at == size) at = 0;
        if (WEFT__LIKELY(!weft__ring_ready(&l->in))) {
            /* Told only when a poll finds nothing more: by then the answer to the last
             * frame is on its way. */
            if (weft__ring_untold(&l->in) && l->state == PEER_OPEN) tell_taken(s, l);
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
        s->first = at;
    }
    return moved;
}

static int write_peers(shm *s)
{
    size_t poll_bytes = 0;
    int moved = 0;

    for (int i = 0; i < s->segment->size && poll_bytes < POLL_BYTES; i++) {
        int at = (s->first + i) % s->segment->size;
        if (head_of(&s->peers[at])) moved += write_queue(s, &s->peers[at], &poll_bytes);
    }
    return moved;
}

static int shm_poll(weft__transport *t, int budget)
{
    shm *s = shm_of(t);
    int moved;

    WEFT__ASSERT(!s->polling);
    s->polling = true;
    moved = read_peers(s, budget);
    if (s->waiting) moved += write_peers(s);
    s->polling = false;
    return moved;
}

/* ---- state ------------------------------------------------------------------------------------ */

/* Asked after arming the own bell: a record or room that comes later is rung for. */
static bool shm_busy(const weft__transport *t)
{
    shm *s = shm_of(t);

    for (int i = 0; i < s->segment->size; i++) {
        shm_peer *l = &s->peers[i];
        const weft__outgoing *out = head_of(l);
        size_t offset;
        if (l->state != PEER_OPEN) continue;
        if (weft__ring_ready(&l->in) || weft__ring_untold(&l->in)) return true;
        if (out && weft__ring_room(&l->out, piece_of(l, out, &offset)) != WEFT__RING_WAIT) return true;
    }
    return false;
}

static bool shm_flushed(const weft__transport *t, int peer)
{
    const shm_peer *l = shm_peer_of(t, peer);
    if (l->state != PEER_OPEN) return true;
    return !head_of(l) && atomic_load_explicit(l->out.taken, memory_order_seq_cst) == l->out.position;
}

static void shm_drop(weft__transport *t, int peer)
{
    shm *s = shm_of(t);
    shm_peer *l = shm_peer_of(t, peer);

    /* From inside the sink's own handling of a frame of this peer nothing more is read: that frame is the
     * last. */
    if (l->state == PEER_OPEN && !l->reading) {
        size_t drained = 0, poll_bytes = 0;
        uint64_t from = l->in.position;
        peer_to(l, PEER_DRAINING);
        while (drained < l->in.bytes && read_record(s, l, &poll_bytes))
            drained = (size_t)(l->in.position - from);
    }
    if (l->state != PEER_GONE) peer_to(l, PEER_GONE);
    fail_queue(s, l, WEFT_ERR_PEER);
}

static void shm_close(weft__transport *t)
{
    shm *s = shm_of(t);

    for (int i = 0; i < s->segment->size; i++) {
        shm_peer *l = &s->peers[i];
        /* Or a peer whose last frame has just been read would wait for ever to see it flushed. */
        if (l->state == PEER_OPEN && weft__ring_untold(&l->in)) tell_taken(s, l);
        if (l->state != PEER_GONE) peer_to(l, PEER_GONE);
        fail_queue(s, l, WEFT_ERR_CANCELLED);
    }
    weft__rests_close(&s->rests);
    free(s->peers);
    free(s->local_of);
    free(s);
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
                                          .drop = shm_drop,
                                          .close = shm_close};
    size_t n = (size_t)segment->size, ranks = (size_t)world;
    shm *s = calloc(1, sizeof *s);

    if (!s) return weft__fail_memory(sizeof *s, "the shared memory transport");
    s->peers = calloc(n, sizeof *s->peers);
    s->local_of = calloc(ranks, sizeof *s->local_of);
    if (!s->peers || !s->local_of || !weft__rests_open(&s->rests)) {
        free(s->peers);
        free(s->local_of);
        free(s);
        return weft__fail_memory(n * sizeof *s->peers + ranks * sizeof *s->local_of + WEFT__REST_BYTES,
                                 "the shared memory transport");
    }
    memcpy(s->local_of, local_of, ranks * sizeof *local_of);
    s->transport = slots;
    s->transport.sink = sink;
    s->segment = segment;
    s->world = world;
    for (int i = 0; i < segment->size; i++) {
        shm_peer *l = &s->peers[i];
        l->local = i;
        l->peer = segment->peers[i].world_rank;
        weft__list_init(&l->urgent);
        weft__list_init(&l->bulk);
        weft__ring_init(&l->in, weft__segment_ring(segment, segment->rank, i), segment->ring_bytes,
                        weft__segment_taken(segment, segment->rank, i));
        weft__ring_init(&l->out, weft__segment_ring(segment, i, segment->rank), segment->ring_bytes,
                        weft__segment_taken(segment, i, segment->rank));
    }
    if (crowded && weft__ring_piece_bytes(&s->peers[0].out) > EAGER_BYTES)
        s->transport.eager_bytes = weft__ring_piece_bytes(&s->peers[0].out);
    *transport = &s->transport;
    return WEFT_OK;
}

/* ---- its row ------------------------------------------------------------------------------------ */

/* That a rank has an address says that it may; who shares a segment is found out without one. */
static weft_status shm_offer(const weft__transport_site *site, weft__transport_address *own, void **held)
{
    (void)held;
    own->length = 1;
    return weft__segment_check(site->world, site->arena);
}

static bool shm_reaches(const weft__transport_site *site, int rank, const weft__transport_address *theirs)
{
    (void)theirs;
    return site->segment && site->local_of[rank] >= 0;
}

static weft_status shm_open(const weft__transport_site *site, const weft__transport_address *addresses,
                            void *held, weft__transport **transport)
{
    (void)addresses;
    (void)held;
    return weft__shm_open(site->segment, site->local_of, site->world, site->crowded, site->sink, transport);
}

const weft__transport_row weft__transport_shm = {.name = "shm",
                                                 .title = "shared memory",
                                                 .traits = WEFT__TRANSPORT_LOCAL | WEFT__TRANSPORT_ORDERED,
                                                 .without = "shares no memory with its host",
                                                 .offer = shm_offer,
                                                 .reaches = shm_reaches,
                                                 .open = shm_open};
