/* shm_ranks.h - ranks of the shared memory transport in one process, for the programs that test it: what
 * their sinks have seen, and frames to send. */
#ifndef WEFT_TESTS_SHM_RANKS_H
#define WEFT_TESTS_SHM_RANKS_H
#include "clock.h"
#include "job.h"
#include "segment_ranks.h"
#include "shm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4
#define WORLD     (BOARD_WORLD(RANKS_MAX) + 1)
#define SEEN_MAX  4096

/* One rank: its transport, and what its sink has seen. */
typedef struct rank {
    weft__sink sink;
    weft__segment *segment;
    weft__transport *transport;
    char room[WEFT__FRAME_PAYLOAD_MAX];
    bool throw_away;
    int headers, lost, left, lacks;
    weft_status left_status;
    int64_t lacks_until_ns;
    size_t seen; /* frames */
    struct {
        weft__frame frame;
        int peer;
        uint64_t sum; /* of the payload; 0 if it was thrown away */
    } log[SEEN_MAX];
    char why[256];
    void (*on_header)(struct rank *me, int peer);
} rank;

static rank ranks[RANKS_MAX];
static int n_ranks;

static inline uint64_t sum_of(const char *bytes, size_t length)
{
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < length; i++) sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211u;
    return sum;
}

static inline void *on_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    rank *me = (rank *)(void *)sink;
    assert_true(frame->length > 0 && frame->length <= sizeof me->room);
    me->headers++;
    if (me->on_header) me->on_header(me, peer);
    return me->throw_away ? NULL : me->room;
}

static inline void on_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    rank *me = (rank *)(void *)sink;
    size_t at = me->seen++ % SEEN_MAX;
    me->log[at].frame = *frame;
    me->log[at].peer = peer;
    me->log[at].sum = where ? sum_of(where, frame->length) : 0;
}

static inline void on_lost(weft__sink *sink, int peer, const char *why)
{
    rank *me = (rank *)(void *)sink;
    (void)peer;
    me->lost++;
    strncpy(me->why, why, sizeof me->why - 1);
}

static inline void on_left(weft__sink *sink, int peer, weft_status status, const char *why)
{
    rank *me = (rank *)(void *)sink;
    (void)peer;
    me->left++;
    me->left_status = status;
    strncpy(me->why, why, sizeof me->why - 1);
}

static inline void on_lacks(weft__sink *sink, int64_t until_ns)
{
    rank *me = (rank *)(void *)sink;
    me->lacks++;
    me->lacks_until_ns = until_ns;
}

static inline void open_transport(rank *me, weft__segment *segment)
{
    int local_of[WORLD];
    memset(me, 0, sizeof *me);
    for (int i = 0; i < WORLD; i++) local_of[i] = -1;
    for (int i = 0; i < segment->size; i++) local_of[BOARD_WORLD(i)] = i;
    me->sink = (weft__sink){
        .header = on_header, .arrived = on_arrived, .lost = on_lost, .left = on_left, .lacks = on_lacks};
    me->segment = segment;
    assert_int_equal(weft__shm_open(segment, local_of, WORLD, false, &me->sink, &me->transport), WEFT_OK);
}

static inline void open_ranks(int n)
{
    weft__segment *segments[RANKS_MAX];
    segment_join_all(n, segments);
    n_ranks = n;
    for (int i = 0; i < n; i++) open_transport(&ranks[i], segments[i]);
}

static inline int open_two(void **state)
{
    (void)state;
    open_ranks(2);
    return 0;
}

static inline int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < n_ranks; i++) {
        if (ranks[i].transport) ranks[i].transport->close(ranks[i].transport);
        weft__segment_free(ranks[i].segment);
    }
    return 0;
}

/* ---- sending ------------------------------------------------------------------------------------ */

typedef struct packet {
    weft__outgoing out;
    int calls;
    weft_status status;
} packet;

static inline void on_sent(weft__outgoing *out, weft_status status)
{
    packet *p = (packet *)(void *)out;
    p->calls++;
    p->status = status;
}

static char source[WEFT__FRAME_PAYLOAD_MAX];

static inline packet *make(packet *p, int number, size_t length, bool bulk)
{
    memset(p, 0, sizeof *p);
    for (size_t i = 0; source[1] == 0 && i < sizeof source; i++) source[i] = (char)(i * 31 + i / 256 + 1);
    p->out.frame = (weft__frame){.kind = WEFT__FRAME_CONTROL, .tag = number, .length = (uint32_t)length};
    p->out.payload = source;
    p->out.bulk = bulk;
    p->out.sent = on_sent;
    return p;
}

static inline void give(int from, int to, packet *p)
{
    ranks[from].transport->send(ranks[from].transport, BOARD_WORLD(to), &p->out);
}

static inline int look(int r)
{
    return ranks[r].transport->poll(ranks[r].transport, 64);
}

static inline void settle(void)
{
    for (int idle = 0; idle < 3;) {
        int moved = 0;
        for (int i = 0; i < n_ranks; i++) moved += look(i);
        idle = moved ? 0 : idle + 1;
    }
}

/* The first word of one to another, of which nothing is kept: now there is a ring. */
static inline void greet(int from, int to)
{
    packet first;
    give(from, to, make(&first, -1, 0, false));
    settle();
    ranks[to].seen = 0;
}

#define TWO(test) cmocka_unit_test_setup_teardown(test, open_two, close_all)
#endif
