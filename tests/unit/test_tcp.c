/* Frames between ranks over TCP: whole, in order, once; and what becomes of them when a rank goes away. */
#include "skip.h"
#include "tcp_link.h"
#include "tcp_ranks.h"

#define BIG  (256u * 1024)
#define MANY 300
#define FULL 64 /* frames of BIG: more than two sockets hold */

static size_t random_length(void)
{
    switch (random32() % 4) {
    case 0: return 0;
    case 1: return random32() % 256;
    case 2: return random32() % 20000;
    default: return random32() % (BIG + 1);
    }
}

static void exchange(int world, int each)
{
    packet *packets[RANKS_MAX][RANKS_MAX][MANY] = {0};
    int wanted = each;
    for (int i = 0; i < each; i++) {
        for (int a = 0; a < world; a++)
            for (int b = 0; b < world; b++)
                if (a != b)
                    packets[a][b][i] = send_packet(a, b, (uint64_t)i + 1, random_length(), random32() % 2);
        if (random32() % 4 == 0) turn(&ranks[random32() % (unsigned)world]);
    }
    for (int a = 0; a < world; a++)
        for (int b = 0; b < world; b++)
            if (a != b) UNTIL(ranks[a].arrived[b] == wanted && ranks[b].t->flushed(ranks[b].t, a));
    turns(3);
    for (int a = 0; a < world; a++) {
        for (int b = 0; b < world; b++) {
            assert_int_equal(ranks[a].arrived[b], a == b ? 0 : wanted);
            assert_int_equal(ranks[a].lost_times[b], 0);
            for (int i = 0; a != b && i < each; i++) {
                assert_int_equal(packets[a][b][i]->sent_times, 1);
                assert_int_equal(packets[a][b][i]->status, WEFT_OK);
                packet_free(packets[a][b][i]);
            }
        }
        assert_false(ranks[a].t->busy(ranks[a].t));
    }
}

static void test_both_ways(void **state)
{
    (void)state;
    open_world(2);
    exchange(2, MANY);
}

static void test_three_ranks(void **state)
{
    (void)state;
    open_world(3);
    exchange(3, 80);
}

/* Few links are read at each look, without asking the set which has something. */
static void test_direct(void **state)
{
    packet *l;
    int64_t until;
    (void)state;
    open_world(2);
    exchange(2, 5);
    assert_false(ranks[1].poller.spared);
    ranks[1].poller.sparing = true;
    ranks[1].t->poll(ranks[1].t, 64);
    assert_true(ranks[1].poller.spared);
    l = send_packet(0, 1, 100, 70000, false);
    until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    while (ranks[1].arrived[0] < 6) {
        turn(&ranks[0]);
        ranks[1].t->poll(ranks[1].t, 64);
        if (weft__now_ns() > until) fail_msg("it does not arrive");
    }
    turn(&ranks[0]);
    assert_int_equal(l->sent_times, 1);
    packet_free(l);
}

static void test_ipv6(void **state)
{
    weft__tcp_address addresses[2];
    int fd[2];
    (void)state;
    memset(ranks, 0, sizeof ranks);
    for (int i = 0; i < 2; i++)
        if (weft__tcp_listen("::1", &fd[i], &addresses[i])) SKIP("no IPv6 on loopback here");
    for (int i = 0; i < 2; i++) open_rank(i, 2, addresses, fd[i]);
    exchange(2, 20);
}

/* Both dial at once, at every offset of their polls against each other. */
static void test_simultaneous(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        packet *l[4];
        open_world(2);
        l[0] = send_packet(0, 1, 1, 1000, false);
        for (uint32_t n = random32() % 4; n; n--) turn(&ranks[random32() % 2]);
        l[1] = send_packet(1, 0, 1, 70000, true);
        for (uint32_t n = random32() % 8; n; n--) turn(&ranks[random32() % 2]);
        l[2] = send_packet(0, 1, 2, 70000, true);
        l[3] = send_packet(1, 0, 2, 10, false);
        UNTIL(ranks[0].arrived[1] == 2 && ranks[1].arrived[0] == 2);
        turns(2);
        assert_int_equal(ranks[0].arrived[1] + ranks[1].arrived[0], 4);
        assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(l[i]->sent_times, 1);
            packet_free(l[i]);
        }
        close_world();
    }
}

static void connect_pair(void)
{
    packet *l;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1);
    packet_free(l);
}

/* Rank 0 sends more than the sockets hold, rank 1 does not read.  Ids from 2. */
static void fill(packet **packets)
{
    connect_pair();
    for (int i = 0; i < FULL; i++) packets[i] = send_packet(0, 1, (uint64_t)i + 2, BIG, true);
    for (int i = 0; i < 200; i++) turn(&ranks[0]);
    assert_int_equal(packets[FULL - 1]->sent_times, 0);
}

/* -1: the sockets happen to be full where one ends and the next has not begun. */
static int cut_frame(packet **packets)
{
    for (int i = 0; i < FULL; i++)
        if (packets[i]->out.done > 0 && packets[i]->out.done < BIG + sizeof(weft__frame)) return i;
    return -1;
}

/* Then a little is read, until they are full somewhere else. */
static int half_written(packet **packets)
{
    for (int i = 0; i < FULL && cut_frame(packets) < 0; i++) {
        turn(&ranks[1]);
        turn(&ranks[0]);
    }
    return cut_frame(packets);
}

static void free_all(packet **packets)
{
    for (int i = 0; i < FULL; i++) packet_free(packets[i]);
}

static void test_urgent_overtakes(void **state)
{
    packet *packets[FULL], *urgent;
    int place = 0;
    (void)state;
    fill(packets);
    urgent = send_packet(0, 1, 1000, 100, false);
    UNTIL(ranks[1].arrived[0] == FULL + 2);
    while (ranks[1].order[0][place] != 1000) assert_true(++place < 64);
    assert_true(place < FULL);
    free_all(packets);
    packet_free(urgent);
}

/* Some looks of both sides, in which nothing was on its way. */
static void look_some_times(void)
{
    for (int i = 0; i < 10; i++) ranks[0].t->poll(ranks[0].t, 64), turn(&ranks[1]);
}

static packet *send_lazily(uint64_t id)
{
    packet *l = packet_new(id, 0, false);
    l->rank = &ranks[0];
    l->out.lazy = true;
    l->rank = &ranks[0];
    ranks[0].t->send(ranks[0].t, 1, &l->out);
    return l;
}

/* It goes before the next one, after some looks, when it is asked for, or when there are many. */
static void test_lazy(void **state)
{
    packet *l[20];
    int n = 0;
    uint64_t id = 2;
    (void)state;
    connect_pair();
    for (int way = 0; way < 4; way++) {
        int before = ranks[1].arrived[0];
        int lazy = way == 3 ? WEFT__TCP_LAZY : 2;
        for (int i = 0; i < lazy; i++) {
            look_some_times();
            assert_int_equal(ranks[1].arrived[0], before);
            l[n++] = send_lazily(id++);
        }
        if (way < 3) {
            look_some_times();
            assert_int_equal(l[n - 1]->sent_times, 0);
            assert_true(ranks[0].t->busy(ranks[0].t)); /* somebody has to see to it */
        }
        if (way == 0) l[n++] = send_packet(0, 1, id++, 100, false);
        if (way == 1) ranks[0].t->hurry(ranks[0].t);
        if (way < 2) assert_false(ranks[0].t->busy(ranks[0].t));
        if (way != 2) assert_int_equal(l[n - 1]->sent_times, 1);
        UNTIL(ranks[1].arrived[0] == before + lazy + (way == 0)); /* in order: on_arrived */
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(l[i]->sent_times, 1);
        packet_free(l[i]);
    }
    for (int i = 0; i < 2; i++) l[i] = send_lazily(id++);
    close_rank(&ranks[0]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(l[i]->status, WEFT_ERR_CANCELLED);
        packet_free(l[i]);
    }
}

static void test_retract(void **state)
{
    packet *packets[FULL];
    int half;
    (void)state;
    fill(packets);
    half = half_written(packets);
    assert_true(half >= 0 && half < FULL - 2);
    ranks[0].t->retract(ranks[0].t, &packets[half]->out);
    ranks[0].t->retract(ranks[0].t, &packets[FULL - 1]->out);
    assert_false(ranks[0].t->flushed(ranks[0].t, 1));
    /* The stream goes on from a copy: what was retracted half written still arrives, as it was. */
    memset(packets[half]->bytes, 0xee, BIG);
    memset(&packets[half]->out.frame, 0xee, sizeof(weft__frame));
    UNTIL(ranks[1].arrived[0] == FULL);
    turns(3);
    assert_int_equal(ranks[1].arrived[0], FULL);
    assert_int_equal(packets[half]->sent_times, 0);
    assert_int_equal(packets[FULL - 1]->sent_times, 0);
    assert_int_equal(ranks[1].lost_times[0], 0);
    free_all(packets);
}

static void test_discard(void **state)
{
    packet *a, *b, *c;
    (void)state;
    connect_pair();
    a = packet_new(2, BIG, false);
    a->out.frame.tag = DISCARD;
    a->rank = &ranks[0];
    ranks[0].t->send(ranks[0].t, 1, &a->out);
    b = send_packet(0, 1, 3, 5000, false);
    c = packet_new(4, 100, false);
    c->out.frame.tag = DISCARD;
    c->rank = &ranks[0];
    ranks[0].t->send(ranks[0].t, 1, &c->out);
    UNTIL(ranks[1].arrived[0] == 4);
    packet_free(a), packet_free(b), packet_free(c);
}

static void test_forget(void **state)
{
    packet *l = packet_new(2, BIG, false), *next;
    unsigned char *taken;
    size_t half = BIG / 2;
    int fd;
    (void)state;
    open_world_as(2, WEFT__WIRE_AS_PLAIN);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, &keys_of[1]), 1);
    raw_send(fd, &l->out.frame, sizeof l->out.frame);
    raw_send(fd, l->bytes, half);
    UNTIL(ranks[0].where[1]);
    turns(20);
    taken = ranks[0].where[1];
    ranks[0].t->forget(ranks[0].t, 1, taken);
    ranks[0].where[1] = NULL;
    memset(taken, 0x55, BIG);
    raw_send(fd, l->bytes + half, BIG - half);
    next = packet_new(3, 10, false);
    raw_send(fd, &next->out.frame, sizeof next->out.frame);
    raw_send(fd, next->bytes, 10);
    UNTIL(ranks[0].arrived[1] == 2);
    for (size_t i = 0; i < BIG; i++) assert_int_equal(taken[i], 0x55);
    free(taken);
    close(fd);
    packet_free(l), packet_free(next);
}

/* What has arrived is delivered, then the loss is told once. */
static void test_closed_in_frame(void **state)
{
    packet *l[2] = {packet_new(1, 30000, false), packet_new(2, BIG, false)}, *back;
    int fd;
    (void)state;
    open_world_as(2, WEFT__WIRE_AS_PLAIN);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, &keys_of[1]), 1);
    raw_send(fd, &l[0]->out.frame, sizeof(weft__frame));
    raw_send(fd, l[0]->bytes, 30000);
    raw_send(fd, &l[1]->out.frame, sizeof(weft__frame));
    raw_send(fd, l[1]->bytes, 5000);
    close(fd);
    UNTIL(ranks[0].lost_times[1]);
    turns(5);
    assert_int_equal(ranks[0].lost_times[1], 1);
    assert_int_equal(ranks[0].arrived[1], 1);
    assert_string_equal(ranks[0].why, "rank 1: connection closed by its end in the middle of a frame");
    back = send_packet(0, 1, 5, 10, false);
    assert_int_equal(back->status, WEFT_ERR_PEER);
    assert_int_equal(ranks[0].lost_times[1], 1);
    packet_free(l[0]), packet_free(l[1]), packet_free(back);
}

/* Rank 1 sends, then leaves with frames of rank 0 unread, so rank 0 meets the reset while writing. */
static void test_lost_while_writing(void **state)
{
    packet *packets[FULL], *last;
    (void)state;
    fill(packets);
    last = send_packet(1, 0, 1, 4000, false);
    turn(&ranks[1]);
    assert_int_equal(last->sent_times, 1);
    close_rank(&ranks[1]);
    UNTIL(ranks[0].lost_times[1]);
    turns(5);
    assert_int_equal(ranks[0].lost_times[1], 1);
    for (int i = 0; i < FULL; i++) assert_int_equal(packets[i]->sent_times, 1);
    assert_int_equal(packets[FULL - 1]->status, WEFT_ERR_PEER);
    assert_int_equal(ranks[0].arrived[1], 1);
    free_all(packets);
    packet_free(last);
}

/* ---- word of what has arrived ---- */

static weft__tcp_peer *end_of(int of, int peer)
{
    return &WEFT__OWNER(ranks[of].t, weft__tcp, transport)->peer[peer];
}

static void make_narrow(int from, int to)
{
    const int small = 16 * 1024;
    setsockopt(end_of(from, to)->link->polled.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(end_of(to, from)->link->polled.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
}

/* Rank 0 has written a part of a long frame, and gets one whose sender waits for word of its arrival. */
static packet *take_while_writing(packet **half)
{
    packet *wanted;
    open_world_as(2, WEFT__WIRE_AS_PLAIN);
    wanted = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1);
    packet_free(wanted);
    make_narrow(0, 1);
    *half = send_packet(0, 1, 2, WEFT__FRAME_PAYLOAD_MAX, false);
    turn(&ranks[0]);
    assert_ptr_equal(end_of(0, 1)->current, &(*half)->out);
    wanted = packet_new(1, 1000, false);
    wanted->out.last = true;
    wanted->rank = &ranks[1];
    ranks[1].t->send(ranks[1].t, 0, &wanted->out);
    while (!ranks[0].arrived[1]) turn(&ranks[0]);
    return wanted;
}

/* The word waits behind what is half written, of which the socket takes a little at a time, and is not lost over that. */
static void test_word_behind_half(void **state)
{
    packet *half, *wanted = take_while_writing(&half);
    (void)state;
    UNTIL(wanted->sent_times);
    assert_int_equal(wanted->status, WEFT_OK);
    UNTIL(half->sent_times);
    packet_free(half), packet_free(wanted);
}

/* Nor where it was to go with a frame that is taken back before a byte of it has gone. */
static void test_word_of_retracted(void **state)
{
    packet *half, *wanted = take_while_writing(&half), *next = send_packet(0, 1, 3, 1000, false);
    const size_t before = half->out.done;
    (void)state;
    UNTIL(half->out.done > before); /* a turn has taken both, and the socket a part of the first one */
    assert_int_equal(next->out.done, 0);
    ranks[0].t->retract(ranks[0].t, &next->out);
    UNTIL(wanted->sent_times);
    assert_int_equal(wanted->status, WEFT_OK);
    UNTIL(half->sent_times);
    assert_int_equal(ranks[1].arrived[0], 2);
    packet_free(half), packet_free(wanted), packet_free(next);
}

/* ---- what is taken back where a peer ends ---- */

static packet *all_of[FULL];

static void retract_half_written(rank *r, int peer)
{
    const int half = cut_frame(all_of);
    (void)peer;
    r->on_lost = NULL;
    r->t->retract(r->t, &all_of[half]->out);
    memset(all_of[half]->bytes, 0xee, BIG);
}

/* Who hears that a peer is lost takes back what was under way to it: one frame is half written, and goes nowhere. */
static void test_retract_from_lost(void **state)
{
    int half;
    (void)state;
    fill(all_of);
    half = half_written(all_of);
    assert_true(half >= 0);
    ranks[0].on_lost = retract_half_written;
    close_rank(&ranks[1]);
    UNTIL(ranks[0].lost_times[1]);
    for (int i = 0; i < FULL; i++) assert_int_equal(all_of[i]->sent_times, i != half);
    assert_int_equal(all_of[FULL - 1]->status, WEFT_ERR_PEER);
    assert_true(ranks[0].t->flushed(ranks[0].t, 1));
    free_all(all_of);
}

static packet *taken_back;

static void retract_other(packet *l)
{
    l->on_sent = NULL;
    if (!taken_back->sent_times) l->rank->t->retract(l->rank->t, &taken_back->out);
}

/* Likewise where the transport is closed, with one half written to each of two peers: all connections end before the
 * first frame is given back. */
static void test_retract_from_close(void **state)
{
    packet *half[3] = {0};
    (void)state;
    open_world(3);
    for (int to = 1; to < 3; to++) {
        packet *l = send_packet(0, to, 1, 1, false);
        UNTIL(ranks[to].arrived[0] == 1);
        packet_free(l);
    }
    for (int to = 1; to < 3; to++) {
        make_narrow(0, to);
        half[to] = send_packet(0, to, 2, WEFT__FRAME_PAYLOAD_MAX, true);
        turn(&ranks[0]);
        assert_ptr_equal(end_of(0, to)->current, &half[to]->out);
    }
    taken_back = half[2];
    half[1]->on_sent = retract_other;
    close_rank(&ranks[0]);
    assert_int_equal(half[1]->status, WEFT_ERR_CANCELLED);
    assert_int_equal(half[2]->sent_times, 0);
    packet_free(half[1]), packet_free(half[2]);
}

static void test_drop(void **state)
{
    packet *packets[FULL], *last;
    (void)state;
    fill(packets);
    last = send_packet(1, 0, 1, 100000, false);
    usleep(50000 * JOB_SLOWER); /* until the kernel has brought it over */
    ranks[0].t->drop(ranks[0].t, 1);
    assert_int_equal(ranks[0].arrived[1], 1);
    for (int i = 0; i < FULL; i++) assert_int_equal(packets[i]->sent_times, 1);
    assert_int_equal(packets[FULL - 1]->status, WEFT_ERR_PEER);
    assert_true(ranks[0].t->flushed(ranks[0].t, 1));
    UNTIL(ranks[1].lost_times[0]);
    turns(5);
    assert_int_equal(ranks[0].lost_times[1], 0);
    free_all(packets);
    packet_free(last);
}

static void drop_sender(rank *r, int peer, const weft__frame *frame)
{
    if (frame->id == 2) r->t->drop(r->t, peer);
}

static void test_drop_from_arrived(void **state)
{
    packet *l[3];
    (void)state;
    connect_pair();
    ranks[1].on_arrived = drop_sender;
    for (int i = 0; i < 3; i++) l[i] = send_packet(0, 1, (uint64_t)i + 2, 100, false);
    UNTIL(ranks[0].lost_times[1]);
    assert_int_equal(ranks[1].arrived[0], 4);
    assert_int_equal(ranks[1].lost_times[0], 0);
    for (int i = 0; i < 3; i++) packet_free(l[i]);
}

static packet *others[3];

static void drop_receiver(packet *l)
{
    l->on_sent = NULL;
    l->rank->t->retract(l->rank->t, &others[1]->out);
    l->rank->t->drop(l->rank->t, 1);
}

static void test_drop_from_sent(void **state)
{
    (void)state;
    open_world(2);
    for (int i = 0; i < 3; i++) {
        others[i] = packet_new((uint64_t)i + 1, 100, false);
        others[i]->rank = &ranks[0];
    }
    others[0]->on_sent = drop_receiver;
    for (int i = 0; i < 3; i++) others[i]->rank = &ranks[0], ranks[0].t->send(ranks[0].t, 1, &others[i]->out);
    UNTIL(others[0]->sent_times && ranks[1].lost_times[0]);
    assert_int_equal(others[1]->sent_times, 0);
    assert_int_equal(others[2]->sent_times, 1);
    for (int i = 0; i < 3; i++) packet_free(others[i]);
}

static void test_close_cancels(void **state)
{
    packet *packets[FULL];
    (void)state;
    fill(packets);
    close_rank(&ranks[0]);
    for (int i = 0; i < FULL; i++) assert_int_equal(packets[i]->sent_times, 1);
    assert_int_equal(packets[FULL - 1]->status, WEFT_ERR_CANCELLED);
    UNTIL(ranks[1].lost_times[0]);
    free_all(packets);
}

static void test_listen(void **state)
{
    static const char *const bad[] = {"0.0.0.0",   "::", "::ffff:0.0.0.0", "fe80::1", "fe80::1%lo",
                                      "localhost", "",   "1.2.3"};
    weft__tcp_address where;
    int fd;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(weft__tcp_listen(bad[i], &fd, &where), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft__tcp_listen("192.0.2.1", &fd, &where), WEFT_ERR_SYSTEM);
    assert_int_equal(weft__tcp_listen("127.0.0.1", &fd, &where), WEFT_OK);
    assert_int_equal(where.family, 4);
    assert_true(where.port != 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_both_ways, finish),
        cmocka_unit_test_teardown(test_three_ranks, finish),
        cmocka_unit_test_teardown(test_direct, finish),
        cmocka_unit_test_teardown(test_ipv6, finish),
        cmocka_unit_test_teardown(test_simultaneous, finish),
        cmocka_unit_test_teardown(test_urgent_overtakes, finish),
        cmocka_unit_test_teardown(test_lazy, finish),
        cmocka_unit_test_teardown(test_retract, finish),
        cmocka_unit_test_teardown(test_discard, finish),
        cmocka_unit_test_teardown(test_forget, finish),
        cmocka_unit_test_teardown(test_closed_in_frame, finish),
        cmocka_unit_test_teardown(test_lost_while_writing, finish),
        cmocka_unit_test_teardown(test_word_behind_half, finish),
        cmocka_unit_test_teardown(test_word_of_retracted, finish),
        cmocka_unit_test_teardown(test_retract_from_lost, finish),
        cmocka_unit_test_teardown(test_retract_from_close, finish),
        cmocka_unit_test_teardown(test_drop, finish),
        cmocka_unit_test_teardown(test_drop_from_arrived, finish),
        cmocka_unit_test_teardown(test_drop_from_sent, finish),
        cmocka_unit_test_teardown(test_close_cancels, finish),
        cmocka_unit_test(test_listen),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
