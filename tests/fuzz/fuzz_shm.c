/* What a peer writes into the memory that it shares: records in the ring that this rank reads, how far it
 * says that it has read this rank's own, in any order with what this rank does.
 *
 * An input is a list of steps; an input that ends early goes on with zeros.  A frame is only ever received as
 * its header says, into room of its exact size; the rest of the shared memory stays as it was. */
#include "fuzz.h"
#include "ring.h"
#include "segment_ranks.h"
#include "shm.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD = BOARD_WORLD(1) + 1, PEER = BOARD_WORLD(1), SENT_MOST = 16, SENT_BYTES = 100000 };

size_t fuzz_reached; /* frames received */

enum step { RECORD, WRITE, TAKEN, POLL, SEND, LOOK, RETRACT, DROP, STEPS };

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static struct {
    weft__segment *segments[2];
    weft__sink sink;
    weft__transport *transport;
    char *ring;      /* written by the peer */
    uint64_t at;     /* where its next record goes */
    bool lost, over; /* over: nothing may come any more */
    char *where;
    size_t length;
    weft__outgoing sent[SENT_MOST];
    bool waits[SENT_MOST];
    int sent_count;
} rank;

static char source[SENT_BYTES];

static uint64_t take(input *in, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--) number |= (uint64_t)*in->at << 8 * i;
    return number;
}

static void take_over(input *in, void *to, size_t n)
{
    if (n > in->left) n = in->left;
    if (n) memcpy(to, in->at, n);
    in->at += n;
    in->left -= n;
}

/* ---- what is received ---- */

static void *on_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    (void)sink;
    if (peer != PEER || rank.over || rank.where || !frame->length || weft__frame_check(frame)) abort();
    if (frame->tag & 1) return NULL;
    rank.length = frame->length;
    return rank.where = malloc(frame->length);
}

static void on_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    (void)sink;
    if (peer != PEER || rank.over || where != rank.where || weft__frame_check(frame)) abort();
    if (where && frame->length != rank.length) abort();
    free(rank.where);
    rank.where = NULL;
    fuzz_reached++;
}

static void on_lost(weft__sink *sink, int peer, const char *why)
{
    (void)sink;
    if (peer != PEER || rank.lost || rank.over || !*why) abort();
    rank.lost = rank.over = true;
}

static void on_sent(weft__outgoing *out, weft_status status)
{
    const size_t i = (size_t)(out - rank.sent);
    if (i >= SENT_MOST || !rank.waits[i]) abort();
    if (status != WEFT_OK && status != WEFT_ERR_PEER && status != WEFT_ERR_CANCELLED) abort();
    rank.waits[i] = false;
}

/* ---- steps ---- */

/* One as the ring has it: its first word last. */
static void step_record(input *in)
{
    weft__frame frame = {0};
    const size_t ring_bytes = rank.segments[0]->ring_bytes;
    char *to = rank.ring + (rank.at & (ring_bytes - 1));
    uint64_t first, zero = 0;
    size_t piece;
    take_over(in, &frame, take(in, 1) % (sizeof frame + 1));
    piece = frame.length < ring_bytes / 4 ? frame.length : ring_bytes / 4;
    memcpy(&first, &frame, sizeof first);
    memcpy(to + sizeof first, (const char *)&frame + sizeof first, sizeof frame - sizeof first);
    memcpy(to, &first, sizeof first);
    rank.at += weft__ring_record_bytes(piece);
    memcpy(rank.ring + (rank.at & (ring_bytes - 1)), &zero, sizeof zero);
}

static void step_write(input *in)
{
    const size_t ring_bytes = rank.segments[0]->ring_bytes, at = take(in, 3) % ring_bytes, n = take(in, 1);
    take_over(in, rank.ring + at, n < ring_bytes - at ? n : ring_bytes - at);
}

static void step_send(input *in)
{
    weft__outgoing *out;
    if (rank.sent_count == SENT_MOST) return;
    rank.waits[rank.sent_count] = true;
    out = &rank.sent[rank.sent_count++];
    *out =
        (weft__outgoing){.frame = {.kind = WEFT__FRAME_CONTROL, .length = (uint32_t)take(in, 3) % SENT_BYTES},
                         .payload = source,
                         .sent = on_sent};
    rank.transport->send(rank.transport, PEER, out);
}

/* As a receive looks for its message; taken only if it is short. */
static void step_look(input *in)
{
    const weft__frame *next = rank.transport->next(rank.transport, PEER);
    char *room;
    if (!next) return;
    if (weft__frame_check(next)) abort();
    if (take(in, 1) % 2) {
        rank.transport->read(rank.transport, PEER);
        return;
    }
    room = malloc(next->length ? next->length : 1);
    if (!room) abort();
    rank.transport->take(rank.transport, PEER, room);
    free(room);
    fuzz_reached++;
}

static void step_retract(input *in)
{
    const size_t i = take(in, 1) % SENT_MOST;
    if (!rank.waits[i]) return;
    rank.waits[i] = false;
    rank.transport->retract(rank.transport, &rank.sent[i]);
}

static void take_step(input *in)
{
    switch ((enum step)(take(in, 1) % STEPS)) {
    case RECORD: step_record(in); break;
    case WRITE: step_write(in); break;
    case TAKEN: atomic_store(weft__segment_taken(rank.segments[0], 1, 0), take(in, 8)); break;
    case POLL: rank.transport->poll(rank.transport, 16); break;
    case SEND: step_send(in); break;
    case LOOK: step_look(in); break;
    case RETRACT: step_retract(in); break;
    case DROP:
        rank.transport->drop(rank.transport, PEER);
        rank.over = true;
        break;
    case STEPS: break;
    }
}

/* The ring that the peer reads lies behind the one that it writes; with both empty, memory is as at first. */
static void open_rank(void)
{
    int local_of[WORLD];
    if (!rank.segments[0]) segment_join_all(2, rank.segments);
    for (int i = 0; i < WORLD; i++) local_of[i] = -1;
    for (int i = 0; i < 2; i++) local_of[BOARD_WORLD(i)] = i;
    rank.sink = (weft__sink){.header = on_header, .arrived = on_arrived, .lost = on_lost};
    rank.ring = weft__segment_ring(rank.segments[0], 0, 1);
    memset(rank.ring, 0, rank.segments[0]->ring_bytes);
    memset(weft__segment_ring(rank.segments[0], 1, 0), 0, rank.segments[0]->ring_bytes);
    atomic_store(weft__segment_taken(rank.segments[0], 0, 1), 0);
    atomic_store(weft__segment_taken(rank.segments[0], 1, 0), 0);
    if (!weft__segment_call(rank.segments[1], 0)) abort(); /* the peer has */
    rank.at = 0;
    rank.lost = rank.over = false;
    rank.sent_count = 0;
    memset(rank.waits, 0, sizeof rank.waits);
    if (weft__shm_open(rank.segments[0], local_of, WORLD, false, &rank.sink, &rank.transport)) abort();
}

/* Rings from and to nobody: no correct rank uses them. */
static void check_neighbours(void)
{
    for (int i = 0; i < 2; i++) {
        const char *ring = weft__segment_ring(rank.segments[0], i, i);
        if (ring[0] || memcmp(ring, ring + 1, rank.segments[0]->ring_bytes - 1) != 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    input in = {data, bytes};
    open_rank();
    for (int steps = 0; in.left && steps < 256; steps++) take_step(&in);
    for (int i = 0; i < 3; i++) rank.transport->poll(rank.transport, 64);
    check_neighbours();
    rank.over = true;
    rank.transport->close(rank.transport);
    for (int i = 0; i < SENT_MOST; i++)
        if (rank.waits[i]) abort();
    free(rank.where);
    rank.where = NULL;
    return 0;
}
