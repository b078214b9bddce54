/* test_idle_peers.c - what ranks of a large job say to each other costs no look at those that they do not talk to: the
 * memory in which the others stand can be neither read nor written meanwhile. */
#include "clock.h"
#include "job.h"
#include "p2p_box.h"
#include "tcp_link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORLD = 4096, LAST = WORLD - 1, LONG = 40, LAZY = 3 };

/* Whole pages from there to there. */
static void guard(const void *from, const void *to, bool on)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)from + page - 1) / page * page, end = (uintptr_t)to / page * page;
    assert_true(end > begin + WORLD);
    assert_int_equal(mprotect((void *)begin, end - begin, on ? PROT_NONE : PROT_READ | PROT_WRITE), 0);
}

/* ---- TCP ---- */

typedef struct end {
    weft__sink sink;
    weft__poller poller;
    weft__transport *t;
    int me, arrived;
    char room[WEFT__FRAME_PAYLOAD_MAX];
} end;

static weft__keys keys;
static weft__keys keys_of[2];
static weft__rank_key rank_keys[WORLD];
static end ends[2];
static char payload[WEFT__FRAME_PAYLOAD_MAX];
static int sent;

static void *on_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    (void)peer;
    (void)frame;
    return ((end *)(void *)sink)->room;
}

static void on_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    (void)frame;
    (void)where;
    assert_true(peer == 0 || peer == LAST);
    ((end *)(void *)sink)->arrived++;
}

static void on_lost(weft__sink *sink, int peer, const char *why)
{
    (void)sink;
    fail_msg("rank %d is lost: %s", peer, why);
}

static void on_sent(weft__outgoing *out, weft_status status)
{
    assert_int_equal(status, WEFT_OK);
    free(out);
    sent++;
}

static void send_frame(end *from, size_t length, bool lazy)
{
    weft__outgoing *out = calloc(1, sizeof *out);
    out->frame = (weft__frame){.kind = WEFT__FRAME_CONTROL, .length = (uint32_t)length};
    out->payload = payload;
    out->sent = on_sent;
    out->last = length > 0;
    out->lazy = lazy;
    from->t->send(from->t, from->me ? 0 : LAST, out);
}

static void turn(void)
{
    for (int i = 0; i < 2; i++) {
        weft__poller_poll(&ends[i].poller);
        ends[i].t->poll(ends[i].t, 64);
    }
}

static void await(const int *count, int n)
{
    const int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    while (*count < n) {
        turn();
        assert_true(weft__now_ns() < until);
    }
}

static void guard_tcp(bool on)
{
    for (int i = 0; i < 2; i++) {
        weft__tcp *tcp = WEFT__OWNER(ends[i].t, weft__tcp, transport);
        guard(&tcp->peer[1], &tcp->peer[LAST], on);
    }
}

static void open_ends(int wire)
{
    weft__tcp_address *addresses = calloc(WORLD, sizeof *addresses);
    int fd[2];
    memset(ends, 0, sizeof ends);
    sent = 0;
    assert_int_equal(weft__keys_derive("secret", 6, "job", &keys), WEFT_OK);
    assert_int_equal(weft__keys_draw(&keys), WEFT_OK);
    for (int r = 0; r < WORLD; r++) rank_keys[r] = keys.own_public;
    keys.ranks = rank_keys;
    for (int i = 0; i < 2; i++) { /* who speaks has a pair of its own */
        keys_of[i] = keys;
        assert_int_equal(weft__keys_draw(&keys_of[i]), WEFT_OK);
        rank_keys[i * LAST] = keys_of[i].own_public;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft__tcp_listen("127.0.0.1", &fd[i], &addresses[i * LAST]), WEFT_OK);
    for (int r = 1; r < LAST; r++) addresses[r] = addresses[0];
    for (int r = 0; r < WORLD; r++) addresses[r].wire = (uint8_t)wire;
    for (int i = 0; i < 2; i++) {
        ends[i].me = i * LAST;
        ends[i].sink = (weft__sink){.header = on_header, .arrived = on_arrived, .lost = on_lost};
        assert_int_equal(weft__poller_open(&ends[i].poller), WEFT_OK);
        assert_int_equal(weft__tcp_open(ends[i].me, WORLD, addresses, fd[i], &keys_of[i], &ends[i].poller,
                                        &ends[i].sink, &ends[i].t),
                         WEFT_OK);
    }
    free(addresses);
    send_frame(&ends[0], 0, false);
    await(&ends[1].arrived, 1);
}

/* Long messages, of which word is wanted both ways, and lazy ones, which go when somebody hurries. */
static void talk(void)
{
    for (int n = 0; n < LONG; n++) {
        send_frame(&ends[0], sizeof payload, false);
        send_frame(&ends[1], sizeof payload, false);
    }
    await(&ends[1].arrived, 1 + LONG);
    await(&ends[0].arrived, LONG);
    await(&sent, 1 + 2 * LONG);
    for (int n = 0; n < LAZY; n++) send_frame(&ends[0], 0, true);
    assert_true(WEFT__OWNER(ends[0].t, weft__tcp, transport)->lazy == LAZY);
    ends[0].t->hurry(ends[0].t);
    assert_true(WEFT__OWNER(ends[0].t, weft__tcp, transport)->lazy == 0);
    await(&ends[1].arrived, 1 + LONG + LAZY);
}

static void test_tcp(void **state)
{
    static const int wires[] = {WEFT__WIRE_AS_PLAIN, WEFT__WIRE_ENCRYPTED | WEFT__WIRE_HAS_AES};
    (void)state;
    for (int i = 0; i < 4; i++) {
        open_ends(wires[i % 2]);
        ends[0].poller.sparing = ends[1].poller.sparing = i >= 2; /* links are read without being told of */
        guard_tcp(true);
        talk();
        guard_tcp(false);
        for (int k = 0; k < 2; k++) {
            ends[k].t->close(ends[k].t);
            weft__poller_close(&ends[k].poller);
        }
    }
}

/* ---- the point-to-point layer ---- */

static bool flushed;
static int polled, dropped, notes;

static void note_send(weft__transport *t, int peer, weft__outgoing *out)
{
    (void)t;
    assert_int_equal(peer, LAST);
    notes++;
    out->sent(out, WEFT_OK);
}

static int note_poll(weft__transport *t, int budget)
{
    (void)t;
    (void)budget;
    polled++;
    return 0;
}

static bool note_flushed(const weft__transport *t, int peer)
{
    (void)t;
    assert_int_equal(peer, LAST);
    return flushed;
}

static void note_drop(weft__transport *t, int peer)
{
    (void)t;
    assert_int_equal(peer, LAST);
    dropped++;
}

static void note_left(weft__p2p_events *events, int peer, weft_status status, const char *why)
{
    (void)events;
    (void)status;
    (void)why;
    assert_int_equal(peer, LAST);
}

/* One has said goodbye, and what was sent to it before goes out slowly. */
static void test_leaving(void **state)
{
    static weft__transport route = {
        .name = "notes", .send = note_send, .poll = note_poll, .flushed = note_flushed, .drop = note_drop};
    static weft__p2p_events events = {.left = note_left};
    const weft__frame bye = {.kind = WEFT__FRAME_BYE};
    weft__p2p *p2p;
    (void)state;
    assert_int_equal(weft__p2p_open(0, WORLD, WEFT__EAGER_BY_ROUTE, &events, &p2p), WEFT_OK);
    weft__p2p_route(p2p, LAST, &route);
    guard(&p2p->peers[1], &p2p->peers[LAST], true);
    for (int n = 0; n < 2; n++) p2p->sink.arrived(&p2p->sink, LAST, &bye, NULL); /* twice is once */
    for (int n = 0; n < 10; n++) weft__p2p_poll(p2p);
    assert_int_equal(dropped, 0);
    flushed = true;
    for (int n = 0; n < 10; n++) weft__p2p_poll(p2p);
    assert_int_equal(dropped, 1);
    assert_int_equal(polled, 20);
    assert_int_equal(notes, 2);
    guard(&p2p->peers[1], &p2p->peers[LAST], false);
    weft__p2p_close(p2p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tcp), cmocka_unit_test(test_leaving)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
