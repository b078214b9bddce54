/* tcp_kept.c - what was written and has not been acknowledged: it is written again where a connection breaks.
 *
 * Each frame has a number in its direction, counted at both ends from 0 and never sent.  A frame that is all
 * written is kept, in order, until its receiver has told that it has arrived: the header of every frame says how
 * many have (weft__tcp_stamp), and where nothing goes that way for a while a frame of its own does (ACK, which
 * has no number and is not kept).
 *
 *   short           its bytes are copied to the ring, and its owner is told at once that it is sent
 *   more follows    a piece of a long message: the owner is told at once, the payload stays the owner's to keep,
 *                   and the ring has a note of where it lies
 *   long, or the    it is kept where it lies, and its owner is told when it is acknowledged
 *   last piece
 *
 * The ring is small and never waited for: a frame for which it has no room is kept as a long one is.  An owner
 * that wants its memory back before that (weft__tcp_kept_release) leaves a copy.  Where there is no memory for
 * one, the frame is void: no harm as long as the connection holds, and the end of the peer if that frame had to
 * be written again. */
#include "reserve.h"
#include "status.h"
#include "tcp_link.h"

#include <stdlib.h>
#include <string.h>

#define RING_BYTES ((size_t)512 * 1024)
#define COPY_BYTES \
    ((size_t)64 * 1024) /* up to so many are copied: more costs more than to wait for the word */
#define UNIT ((size_t)16)

/* One whose owner has been told. */
typedef struct note {
    weft__outgoing out;
    weft__tcp_peer *peer;
    const weft__outgoing *owner; /* of the payload; NULL: it is a copy, or void */
    size_t bytes;                /* of the ring; 0: it lies elsewhere */
    void *piece;                 /* of tcp->rests, in which the note itself may lie */
    bool is_void;
    unsigned char copy[];
} note;

struct weft__tcp_kept {
    weft__list written; /* of weft__outgoing, oldest first */
    weft__list again;   /* written over a connection that broke: before all others, in this order */
    uint64_t first;     /* the number of the oldest in `written`, or of the next to be written */
    uint32_t count;     /* in `written` */
    bool torn;          /* one of them is missing, for want of memory: nothing can be written again */
    bool wrapped;       /* head is below tail: the used part is tail..end and 0..head */
    size_t head, tail, end;
    unsigned char *ring; /* RING_BYTES; NULL: there was no memory, and all is kept where it lies */
};

weft__tcp_kept *weft__tcp_kept_new(void)
{
    weft__tcp_kept *kept = weft__reserve_zeroed(sizeof *kept); /* without, a living peer would be lost */
    if (!kept) return NULL;
    kept->ring = malloc(RING_BYTES);
    weft__list_init(&kept->written);
    weft__list_init(&kept->again);
    return kept;
}

/* ---- the ring ---- */

static note *ring_take(weft__tcp_kept *kept, size_t bytes)
{
    size_t room = (kept->wrapped ? kept->tail : RING_BYTES) - kept->head;
    void *at;
    if (!kept->ring) return NULL;
    if (bytes > room && !kept->wrapped && bytes < kept->tail) {
        kept->end = kept->head;
        kept->head = 0;
        kept->wrapped = true;
        room = kept->tail;
    }
    if (bytes > room) return NULL;
    at = kept->ring + kept->head;
    kept->head += bytes;
    return at;
}

/* Word is wanted long before there is no room: between the two a batch may be written. */
static bool ring_fills(const weft__tcp_kept *kept)
{
    size_t used = kept->wrapped ? kept->end - kept->tail + kept->head : kept->head - kept->tail;
    return !kept->ring || used > RING_BYTES / 2;
}

/* The oldest: what is kept goes in the order in which it came. */
static void ring_give(weft__tcp_kept *kept, const note *n)
{
    WEFT__ASSERT((const unsigned char *)n == kept->ring + kept->tail, kept->tail, kept->head);
    kept->tail += n->bytes;
    if (kept->wrapped && kept->tail == kept->end) {
        kept->tail = 0;
        kept->wrapped = false;
    }
    if (!kept->wrapped && kept->tail == kept->head) kept->head = kept->tail = 0;
}

/* ---- notes ---- */

static void note_gone(weft__outgoing *out, weft_status status)
{
    note *n = WEFT__OWNER(out, note, out);
    weft__tcp_peer *peer = n->peer;
    void *piece = n->piece;
    bool whole = piece == n; /* the note itself lies in it */
    (void)status;
    if (n->bytes)
        ring_give(peer->kept, n);
    else if (!whole)
        weft__reserve_give(n);
    if (piece) weft__rests_give(&peer->tcp->rests, piece);
}

static bool is_note(const weft__outgoing *out)
{
    return out->sent == note_gone;
}

bool weft__tcp_is_void(const weft__outgoing *out)
{
    return is_note(out) && WEFT__OWNER(out, const note, out)->is_void;
}

static void note_begin(note *n, weft__tcp_peer *peer, const weft__outgoing *out)
{
    memset(n, 0, sizeof *n);
    n->peer = peer;
    n->out.frame = out->frame;
    n->out.sent = note_gone;
    n->out.stays = n->out.numbered = true;
    n->out.done = out->done;
    n->out.peer = out->peer;
    weft__list_init(&n->out.link);
}

/* Else it is kept where it lies: it is too long, or its owner takes its word for the whole message, or it is written
 * again, and the ring, which has the order of the frames, may have some that come behind it. */
static bool is_copied_or_noted(const weft__outgoing *out)
{
    return !out->numbered && (out->more || (!out->last && out->frame.length <= COPY_BYTES));
}

static note *note_in_ring(weft__tcp_peer *peer, const weft__outgoing *out)
{
    const size_t copied = out->more ? 0 : out->frame.length;
    const size_t bytes = (sizeof(note) + copied + UNIT - 1) / UNIT * UNIT;
    note *n = is_copied_or_noted(out) ? ring_take(peer->kept, bytes) : NULL;
    if (!n) return NULL;
    note_begin(n, peer, out);
    n->bytes = bytes;
    n->owner = out->more ? out : NULL;
    n->out.payload = out->more ? out->payload : n->copy;
    if (copied) memcpy(n->copy, out->payload, copied);
    return n;
}

bool weft__tcp_wants_word(const weft__tcp_peer *peer, const weft__outgoing *out)
{
    return ring_fills(peer->kept) || (!is_note(out) && !is_copied_or_noted(out));
}

/* ---- keeping ---- */

bool weft__tcp_keep(weft__tcp_peer *peer, weft__outgoing *out)
{
    weft__tcp_kept *kept = peer->kept;
    note *n = is_note(out) ? NULL : note_in_ring(peer, out);
    weft__outgoing *stays = n ? &n->out : out;
    weft__list_remove(&stays->link);
    stays->numbered = true;
    weft__list_append(&kept->written, &stays->link);
    kept->count++;
    return n != NULL;
}

/* It is not written any more, come what may: an owner that takes it back now leaves no copy. */
static void put_to_owners(weft__outgoing *out, weft__list *owners)
{
    out->numbered = false;
    weft__list_append(owners, &out->link);
}

/* The oldest of `list` has arrived.  Notes go at once, in the order in which the ring has them; owners are told
 * when all is accounted for, as they may change every list. */
static void arrived_oldest(weft__list *list, weft__list *owners)
{
    weft__outgoing *out = WEFT__LIST_ENTRY(list->next, weft__outgoing, link);
    weft__list_remove(&out->link);
    if (is_note(out))
        note_gone(out, WEFT_OK);
    else
        put_to_owners(out, owners);
}

void weft__tcp_kept_tell(weft__list *owners, weft_status status)
{
    while (!weft__list_empty(owners)) {
        weft__outgoing *out = WEFT__LIST_ENTRY(owners->next, weft__outgoing, link);
        weft__list_remove(&out->link);
        out->sent(out, status);
    }
}

bool weft__tcp_acknowledged(weft__tcp_peer *peer, uint32_t taken)
{
    weft__tcp_kept *kept = peer->kept;
    uint32_t n = kept ? (taken - (uint32_t)kept->first) & WEFT__TCP_COUNT_MASK : 0; /* NULL: it is gone */
    weft__list owners;
    if (WEFT__LIKELY(!n)) return true;
    if (n > kept->count) return false;
    kept->first += n;
    kept->count -= n;
    weft__list_init(&owners);
    for (; n && !weft__list_empty(&kept->written); n--) arrived_oldest(&kept->written, &owners);
    weft__tcp_kept_tell(&owners, WEFT_OK);
    return true;
}

uint64_t weft__tcp_acknowledged_count(const weft__tcp_peer *peer)
{
    return peer->kept->first;
}

weft__list *weft__tcp_again(weft__tcp_peer *peer)
{
    return &peer->kept->again;
}

/* ---- a connection breaks, and another one stands ---- */

void weft__tcp_kept_unwrite(weft__tcp_peer *peer)
{
    weft__tcp_kept *kept = peer->kept;
    weft__list older;
    weft__list_init(&older);
    WEFT__LIST_EACH(&kept->written, at)
    {
        weft__list_remove(at);
        weft__list_append(&older, at);
    }
    if (peer->current) weft__list_append(&older, &peer->current->link);
    peer->current = NULL;
    WEFT__LIST_EACH(&kept->again, at) /* still there from the connection before */
    {
        weft__list_remove(at);
        weft__list_append(&older, at);
    }
    WEFT__LIST_EACH(&older, at)
    {
        weft__outgoing *out = WEFT__LIST_ENTRY(at, weft__outgoing, link);
        weft__list_remove(at);
        out->done = 0;
        out->numbered = true;
        weft__list_append(&kept->again, at);
    }
    kept->count = 0;
}

static uint32_t again_count(const weft__tcp_kept *kept)
{
    uint32_t n = 0;
    for (const weft__list *at = kept->again.next; at != &kept->again; at = at->next) n++;
    return n;
}

static bool again_has_void(const weft__tcp_kept *kept)
{
    for (const weft__list *at = kept->again.next; at != &kept->again; at = at->next)
        if (weft__tcp_is_void(WEFT__LIST_ENTRY(at, const weft__outgoing, link))) return true;
    return false;
}

const char *weft__tcp_kept_resume(weft__tcp_peer *peer, const weft__tcp_standing *theirs, weft__list *owners)
{
    static const char cannot[] = "tells that more has arrived there than was sent";
    weft__tcp_kept *kept = peer->kept;
    weft__outgoing *next;
    uint64_t n = theirs->taken - kept->first;
    WEFT__ASSERT(!kept->count && !peer->current, kept->count);
    if (n > again_count(kept)) return cannot;
    kept->first += n;
    for (; n; n--) {
        /* All of it is there: so must know who takes it back before its owner is told. */
        next = WEFT__LIST_ENTRY(kept->again.next, weft__outgoing, link);
        next->done = sizeof next->frame + next->frame.length;
        arrived_oldest(&kept->again, owners);
    }
    if (kept->torn || again_has_void(kept))
        return "wants again what had been taken back, and there was no memory to keep it";
    if (!theirs->offset) return NULL;
    next = weft__list_empty(&kept->again) ? NULL : WEFT__LIST_ENTRY(kept->again.next, weft__outgoing, link);
    if (!next || theirs->offset < sizeof next->frame ||
        theirs->offset - sizeof next->frame > next->frame.length)
        return cannot;
    next->done = theirs->offset;
    return NULL;
}

/* ---- an owner wants its memory back ---- */

/* In place of `out`, with a copy of its payload; void where there is no memory. */
static note *stand_in(weft__tcp_peer *peer, weft__outgoing *out, bool promised)
{
    weft__rests *rests = &peer->tcp->rests;
    note *n = promised || weft__rests_promise(rests) ? weft__rests_take(rests) : NULL;
    bool copies = n != NULL;
    _Static_assert(sizeof(note) + WEFT__FRAME_PAYLOAD_MAX <= WEFT__REST_BYTES, "a piece has room for both");
    if (!n) n = weft__reserve_get(sizeof *n);
    if (!n) return NULL;
    note_begin(n, peer, out);
    if (copies) {
        n->piece = n;
        n->out.payload = n->copy;
        memcpy(n->copy, out->payload, out->frame.length);
    }
    n->is_void = !copies;
    return n;
}

static void link_in_place(weft__outgoing *old, weft__outgoing *by)
{
    by->link.prev = old->link.prev;
    by->link.next = old->link.next;
    by->link.prev->next = by->link.next->prev = &by->link;
    weft__list_init(&old->link);
}

bool weft__tcp_kept_stand_in(weft__tcp_peer *peer, weft__outgoing *out)
{
    note *n = stand_in(peer, out, false);
    const bool all = out->done == sizeof out->frame + out->frame.length; /* it is not to be written now */
    if (n)
        link_in_place(out, &n->out);
    else
        weft__list_remove(&out->link);
    peer->kept->torn = peer->kept->torn || !n;
    return all || (n && !n->is_void);
}

weft__outgoing *weft__tcp_kept_detach(weft__tcp_peer *peer, weft__outgoing *out, bool promised)
{
    note *n = stand_in(peer, out, promised);
    if (n && !n->is_void) return &n->out;
    if (n) note_gone(&n->out, WEFT_OK);
    peer->kept->torn = true;
    return NULL;
}

/* The payload alone: the note lies in the ring, and stays there. */
static bool copy_payload(weft__tcp_peer *peer, note *n)
{
    weft__rests *rests = &peer->tcp->rests;
    n->owner = NULL;
    n->piece = weft__rests_promise(rests) ? weft__rests_take(rests) : NULL;
    n->is_void = !n->piece;
    if (n->piece) memcpy(n->piece, n->out.payload, n->out.frame.length);
    n->out.payload = n->piece;
    return n->piece != NULL;
}

static bool release_in(weft__tcp_peer *peer, weft__list *list, const weft__outgoing *owner)
{
    bool all = true;
    WEFT__LIST_EACH(list, at)
    {
        weft__outgoing *out = WEFT__LIST_ENTRY(at, weft__outgoing, link);
        note *n = is_note(out) ? WEFT__OWNER(out, note, out) : NULL;
        if (n && n->owner == owner) all = copy_payload(peer, n) && all;
    }
    return all;
}

bool weft__tcp_kept_release(weft__tcp_peer *peer, const weft__outgoing *owner)
{
    weft__tcp_kept *kept = peer->kept;
    note *half = peer->current && is_note(peer->current) ? WEFT__OWNER(peer->current, note, out) : NULL;
    bool all = true;
    if (!kept) return true;
    (void)release_in(peer, &kept->written, owner); /* void ones do no harm there */
    if (half && half->owner == owner) all = copy_payload(peer, half);
    return release_in(peer, &kept->again, owner) && all;
}

/* ---- the end ---- */

void weft__tcp_kept_take_out(weft__tcp_peer *peer, weft__list *written, weft__list *others)
{
    weft__tcp_kept *kept = peer->kept;
    weft__outgoing *current = peer->current;
    peer->current = NULL;
    if (kept)
        while (!weft__list_empty(&kept->written)) arrived_oldest(&kept->written, written);
    if (current && is_note(current))
        note_gone(current, WEFT_ERR_PEER);
    else if (current && current->frame.kind != WEFT__FRAME_ACK)
        put_to_owners(current, others);
    if (!kept) return;
    while (!weft__list_empty(&kept->again)) arrived_oldest(&kept->again, others);
    kept->count = 0;
}

void weft__tcp_kept_free(weft__tcp_peer *peer)
{
    weft__tcp_kept *kept = peer->kept;
    if (!kept) return;
    WEFT__ASSERT(weft__list_empty(&kept->written) && weft__list_empty(&kept->again), peer->rank);
    peer->kept = NULL;
    free(kept->ring);
    weft__reserve_give(kept);
}
