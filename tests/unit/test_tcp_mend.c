/* Connections of the TCP transport that break under what is sent, at any place, and stand again: nothing is lost,
 * nothing comes twice, each byte is right, and nobody counts as gone.  MEND_SEED=n runs that one alone,
 * MEND_SEEDS=n so many. */
#include "tcp_link.h"
#include "tcp_ranks.h"

#include <stdlib.h>

#define PACKETS      120 /* of each rank */
#define MEND_MS      2000
#define HANDSHAKE_MS (400 * JOB_SLOWER)
#define PATIENCE_MS  (WEFT__TCP_PATIENCE * HANDSHAKE_MS) /* longer than MEND_MS */

static weft__tcp *tcp_of(const rank *r)
{
    return WEFT__OWNER(r->t, weft__tcp, transport);
}

static weft__tcp_peer *peer_of(const rank *r)
{
    return &tcp_of(r)->peer[!r->me];
}

/* ---- what may happen to a connection ---- */

static int breaks;

static void cut(int fd, int how)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (how == 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof at_once); /* a reset: what is on its way is lost */
    shutdown(fd, how == 1 ? SHUT_WR : SHUT_RDWR);
    breaks++;
}

static void break_something(rank *r)
{
    weft__tcp *tcp = tcp_of(r);
    const int how = (int)(random32() % 3);
    if (!weft__list_empty(&tcp->guests))
        cut(WEFT__LIST_ENTRY(tcp->guests.next, weft__tcp_guest, link)->polled.fd, how);
    else if (peer_of(r)->link)
        cut(peer_of(r)->link->polled.fd, how);
}

/* ---- what is sent ---- */

static packet *packets[2][PACKETS];
static bool taken_back[2][PACKETS];
static int sent[2];

static size_t random_length(void)
{
    switch (random32() % 6) {
    case 0: return 0;
    case 1: return random32() % 64;
    case 2: return random32() % 4096;
    case 3: return 4096 + random32() % 4;
    case 4: return random32() % 70000;
    default: return random32() % (WEFT__FRAME_PAYLOAD_MAX + 1);
    }
}

/* Its owner does with its memory what it likes from then on. */
static void take_back(int from, int i)
{
    packet *l = packets[from][i];
    taken_back[from][i] = true;
    if (!l->sent_times) ranks[from].t->retract(ranks[from].t, &l->out);
    ranks[from].t->release(ranks[from].t, !from, &l->out);
    memset(l->bytes, 0xee, l->out.frame.length + 1);
}

static void do_something(int from)
{
    rank *r = &ranks[from];
    const int i = sent[from];
    switch (random32() % 16) {
    case 0: break_something(r); break;
    case 1:
        if (i) {
            int which = (int)(random32() % (uint32_t)i);
            if (!taken_back[from][which] &&
                (!packets[from][which]->sent_times || packets[from][which]->out.more))
                take_back(from, which);
        }
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        if (i == PACKETS) break;
        packets[from][i] = packet_new((uint64_t)i + 1, random_length(), random32() % 2);
        packets[from][i]->out.more = random32() % 3 == 0;
        packets[from][i]->out.lazy = !packets[from][i]->out.frame.length && random32() % 2;
        packets[from][i]->rank = r;
        sent[from]++;
        r->t->send(r->t, !from, &packets[from][i]->out);
        break;
    default: turn(&ranks[random32() % 2]);
    }
}

static int still_under_way(void)
{
    int n = 0;
    for (int from = 0; from < 2; from++)
        for (int i = 0; i < PACKETS; i++) n += !taken_back[from][i] && !packets[from][i]->sent_times;
    return n;
}

static int taken_back_by(int from)
{
    int n = 0;
    for (int i = 0; i < PACKETS; i++) n += taken_back[from][i];
    return n;
}

static void run_one(uint64_t number)
{
    seed = number * 7919;
    breaks = 0;
    memset(sent, 0, sizeof sent);
    memset(taken_back, 0, sizeof taken_back);
    open_world_as(2, number % 2 ? WEFT__WIRE_ENCRYPTED | WEFT__WIRE_HAS_AES : WEFT__WIRE_AS_PLAIN);
    while (sent[0] < PACKETS || sent[1] < PACKETS) do_something((int)(random32() % 2));
    UNTIL(!still_under_way());
    for (int from = 0; from < 2; from++) {
        const int at_least = PACKETS - taken_back_by(from);
        UNTIL(ranks[!from].arrived[from] >= at_least || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
        assert_string_equal(ranks[from].why, ""); /* nobody was given up, as after MEND_MS without a turn */
        assert_true(ranks[!from].arrived[from] <= PACKETS);
        assert_int_equal(ranks[from].lost_times[!from], 0);
        for (int i = 0; i < PACKETS; i++) {
            assert_true(packets[from][i]->sent_times <= 1);
            if (packets[from][i]->sent_times) assert_int_equal(packets[from][i]->status, WEFT_OK);
        }
    }
    close_world();
    for (int from = 0; from < 2; from++)
        for (int i = 0; i < PACKETS; i++) packet_free(packets[from][i]);
}

static uint64_t running;

static void test_random_breaks(void **state)
{
    const char *one = getenv("MEND_SEED"), *many = getenv("MEND_SEEDS");
    const uint64_t last = one ? strtoull(one, NULL, 10) : many ? strtoull(many, NULL, 10) : 40;
    int all = 0;
    (void)state;
    for (running = one ? last : 1; running <= last; running++) {
        run_one(running);
        all += breaks;
    }
    running = 0;
    assert_true(one || all > 100);
}

static int finish_random(void **state)
{
    if (running) fprintf(stderr, "the last was MEND_SEED=%d\n", (int)running);
    return finish(state);
}

static void connect_two(void)
{
    packet *first, *back;
    open_world(2);
    first = send_packet(0, 1, 1, 10, false);
    UNTIL(ranks[1].arrived[0] == 1);
    back = send_packet(1, 0, 1, 10, false);
    UNTIL(ranks[0].arrived[1] == 1);
    packet_free(first), packet_free(back);
}

/* ---- when an owner has its memory back ---- */

/* Pieces that have gone are not copied, so the word that the last one has arrived is that for the whole message. */
static void test_pieces(void **state)
{
    enum { PIECE = 1000 };
    packet *piece, *last;
    (void)state;
    connect_two();
    piece = packet_new(2, PIECE, false);
    piece->out.more = true;
    last = packet_new(3, PIECE, false);
    last->out.last = true;
    ranks[0].t->send(ranks[0].t, 1, &piece->out);
    ranks[0].t->send(ranks[0].t, 1, &last->out);
    for (int i = 0; i < 100; i++) turn(&ranks[0]); /* both are all written, and nobody has read them */
    assert_int_equal(piece->sent_times, 1);
    assert_int_equal(last->sent_times, 0);
    cut(peer_of(&ranks[0])->link->polled.fd, 0);
    UNTIL(last->sent_times);
    assert_int_equal(last->status, WEFT_OK);
    assert_int_equal(ranks[1].arrived[0], 3); /* its bytes were right */
    packet_free(piece), packet_free(last);
}

static bool is_half_here(const rank *r)
{
    const weft__tcp_arriving *in = &peer_of(r)->in;
    return in->begun && in->got && in->got < in->frame.length;
}

/* A piece that goes on in its middle over a second connection is kept where it lies until it has arrived, and its header,
 * which came over the first one, has not asked for word of that.  Nothing else is sent either way. */
static void test_half_a_piece(void **state)
{
    const int small = 16 * 1024;
    packet *piece;
    (void)state;
    connect_two();
    setsockopt(peer_of(&ranks[0])->link->polled.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(peer_of(&ranks[1])->link->polled.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    piece = packet_new(2, WEFT__FRAME_PAYLOAD_MAX, false);
    piece->out.more = true;
    ranks[0].t->send(ranks[0].t, 1, &piece->out);
    UNTIL(is_half_here(&ranks[1]));
    assert_int_equal(piece->sent_times, 0);
    cut(peer_of(&ranks[0])->link->polled.fd, 0);
    UNTIL(piece->sent_times);
    assert_int_equal(piece->status, WEFT_OK);
    UNTIL(ranks[1].arrived[0] == 2); /* its bytes were right */
    packet_free(piece);
}

/* A short frame for which the ring has no room is its owner's again when it has arrived, though nothing else comes
 * behind it. */
static void test_full_ring(void **state)
{
    enum { FILLERS = 12, LENGTH = 60000 }; /* as many as have no room in 512 KiB */
    packet *filler[FILLERS], *next;
    (void)state;
    connect_two();
    /* The other end reads and tells; that it has told is not read here. */
    for (int i = 0; i < FILLERS; i++) {
        filler[i] = send_packet(0, 1, (uint64_t)i + 2, LENGTH, false);
        for (int turns = 0; turns < 20; turns++) turn(&ranks[1]);
    }
    assert_int_equal(ranks[1].arrived[0], 1 + FILLERS);
    assert_int_equal(filler[0]->sent_times, 1);
    assert_int_equal(filler[FILLERS - 1]->sent_times, 0);
    next = send_packet(0, 1, FILLERS + 2, LENGTH, false);
    UNTIL(next->sent_times);
    assert_int_equal(next->status, WEFT_OK);
    for (int i = 0; i < FILLERS; i++) {
        assert_int_equal(filler[i]->sent_times, 1);
        packet_free(filler[i]);
    }
    packet_free(next);
}

/* ---- what is taken back while others are given back ---- */

static packet *other;
static bool
    other_was_known; /* to have reached the other end in part at least, as weft__p2p_cancel_send asks */

/* What is not written any more leaves no copy. */
static void retract_other(packet *l)
{
    const int held = tcp_of(l->rank)->rests.held;
    l->on_sent = NULL;
    other_was_known = other->out.done || other->out.numbered;
    l->rank->t->retract(l->rank->t, &other->out);
    assert_int_equal(tcp_of(l->rank)->rests.held, held);
    memset(other->bytes, 0xee, other->out.frame.length + 1);
}

/* Two last pieces are all written, and nobody has told that they have arrived. */
static packet *two_written(void)
{
    packet *l[2];
    connect_two();
    for (int i = 0; i < 2; i++) {
        l[i] = packet_new((uint64_t)i + 2, 1000, false);
        l[i]->out.last = true;
        l[i]->rank = &ranks[0];
        ranks[0].t->send(ranks[0].t, 1, &l[i]->out);
        assert_int_equal(l[i]->out.done, sizeof(weft__frame) + 1000);
        assert_int_equal(l[i]->sent_times, 0);
    }
    l[0]->on_sent = retract_other;
    other = l[1];
    return l[0];
}

static void give_up(packet *first)
{
    ranks[0].t->drop_living(ranks[0].t, 1);
    assert_int_equal(first->status, WEFT_ERR_PEER);
    assert_int_equal(other->sent_times, 0);
    packet_free(first), packet_free(other);
}

/* The peer is given up: the first owner who hears of it takes the second one's frame back, as an operation does that
 * ends with all that it has under way. */
static void test_retract_from_sent(void **state)
{
    packet *first = two_written();
    (void)state;
    give_up(first);
    close_world();

    first = two_written();
    cut(peer_of(&ranks[0])->link->polled.fd, 0);
    while (peer_of(&ranks[0])->state != WEFT__TCP_MENDING) turn(&ranks[0]);
    assert_int_equal(first->sent_times, 0);
    give_up(first);
}

/* Both have arrived, and one word tells of both: the second one is taken back between. */
static void test_retract_what_has_arrived(void **state)
{
    packet *first = two_written();
    (void)state;
    UNTIL(first->sent_times);
    assert_int_equal(first->status, WEFT_OK);
    assert_int_equal(other->sent_times, 0);
    assert_int_equal(ranks[1].arrived[0], 3);
    packet_free(first), packet_free(other);
}

/* The word is lost with its connection, and comes again over another one. */
static void test_retract_what_has_arrived_before(void **state)
{
    packet *first = two_written();
    char lost[4096];
    (void)state;
    other_was_known = false;
    while (ranks[1].arrived[0] < 3) turn(&ranks[1]);
    while (recv(peer_of(&ranks[0])->link->polled.fd, lost, sizeof lost, MSG_DONTWAIT) > 0) continue;
    cut(peer_of(&ranks[0])->link->polled.fd, 0);
    while (peer_of(&ranks[0])->state != WEFT__TCP_MENDING) turn(&ranks[0]);
    assert_int_equal(first->sent_times, 0);
    UNTIL(first->sent_times);
    assert_int_equal(first->status, WEFT_OK);
    assert_int_equal(other->sent_times, 0);
    assert_true(other_was_known);
    packet_free(first), packet_free(other);
}

/* ---- what is not mended ---- */

/* Whoever listens no more has left or died: that is known at once. */
static void test_gone(void **state)
{
    int64_t begun;
    packet *l;
    (void)state;
    connect_two();
    close_rank(&ranks[1]);
    begun = weft__now_ns();
    UNTIL(ranks[0].lost_times[1]);
    assert_true(weft__now_ns() - begun < MEND_MS / 2 * WEFT__MS);
    assert_string_equal(ranks[0].why, "rank 1: connection closed by its end");
    l = send_packet(0, 1, 2, 10, false);
    assert_int_equal(l->status, WEFT_ERR_PEER);
    packet_free(l);
}

static packet *send_over_a_break(void)
{
    connect_two();
    cut(peer_of(&ranks[0])->link->polled.fd, 2);
    return send_packet(0, 1, 2, 100000, false);
}

/* One whose kernel takes the connection and that says nothing may be stopped: it is waited for, and has gone once it refuses. */
static void test_silent(void **state)
{
    const int64_t until = weft__now_ns() + (PATIENCE_MS + MEND_MS) * WEFT__MS;
    packet *l = send_over_a_break();
    (void)state;
    while (weft__now_ns() < until) turn(&ranks[0]), usleep(100);
    assert_int_equal(ranks[0].lost_times[1], 0);
    close_rank(&ranks[1]);
    UNTIL(ranks[0].lost_times[1]);
    assert_int_equal(l->status, WEFT_ERR_PEER);
    assert_non_null(strstr(ranks[0].why, "rank 1: connection ")); /* how it broke */
    packet_free(l);
}

/* One that comes back in time has lost nothing. */
static void test_slow(void **state)
{
    const int64_t begun = weft__now_ns();
    packet *l = send_over_a_break();
    (void)state;
    while (weft__now_ns() - begun < MEND_MS / 4 * WEFT__MS) turn(&ranks[0]), usleep(1000);
    UNTIL(l->sent_times);
    assert_int_equal(l->status, WEFT_OK);
    assert_int_equal(ranks[1].arrived[0], 2);
    assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
    packet_free(l);
}

/* Somebody cuts every connection before a frame has come over it. */
static void test_fruitless(void **state)
{
    packet *l;
    int cuts = 0;
    (void)state;
    connect_two();
    l = send_packet(0, 1, 2, WEFT__FRAME_PAYLOAD_MAX, false);
    while (!ranks[0].lost_times[1] && !ranks[1].lost_times[0] && cuts < 1000) {
        weft__tcp_link *link = peer_of(&ranks[1])->link;
        if (link) cut(link->polled.fd, 0), cuts++;
        turns(1);
    }
    assert_true(cuts < 1000);
    UNTIL(l->sent_times);
    packet_free(l);
}

/* An attempt that its end has given up for another one, and whose proof was held up on its way: where that end stood then is not
 * where it stands, as it has been heard over the connection that stands, or that broke since.  had: that end had accepted one before,
 * of which the other has not heard, and the one that stands is the other's. */
static void proof_is_overtaken(int from, bool broken, uint32_t had)
{
    rank *r = &ranks[!from];
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    packet *there, *back = NULL;
    int fd;
    open_world(2);
    fd = raw_connect(&r->address);
    assert_true(weft__tcp_hello_make(&h, &keys_of[from], from, !from, WEFT__TCP_WIRE_PLAIN, &hello));
    raw_send(fd, &hello, sizeof hello);
    assert_true(raw_receive(fd, &answer, sizeof answer));
    assert_true(weft__tcp_answer_take(&h, &answer));
    peer_of(&ranks[from])->links = had;
    if (had) back = send_packet(!from, from, 1, WEFT__FRAME_PAYLOAD_MAX, false);
    UNTIL(!had || back->sent_times);
    there = send_packet(from, !from, 1, 1, false);
    UNTIL(there->sent_times && r->arrived[from] == 1);
    if (!had) back = send_packet(!from, from, 1, WEFT__FRAME_PAYLOAD_MAX, false);
    UNTIL(back->sent_times);
    if (broken) cut(peer_of(r)->link->polled.fd, 0);
    for (int i = 0; broken && peer_of(r)->link && i < 1000; i++) turn(r);
    assert_int_equal(!peer_of(r)->link, broken);
    weft__tcp_proof_make(&h, &(weft__tcp_standing){.links = had}, &proof);
    assert_int_equal(send(fd, &proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    for (int i = 0; i < 20; i++) turn(r);
    packet_free(there);
    packet_free(back);
    there = send_packet(from, !from, 2, 1, false);
    back = send_packet(!from, from, 2, 1, false);
    UNTIL((r->arrived[from] == 2 && ranks[from].arrived[!from] == 2) || r->lost_times[from] ||
          ranks[from].lost_times[!from]);
    assert_string_equal(r->why, "");
    assert_string_equal(ranks[from].why, "");
    assert_true(broken ||
                peer_of(r)->links == had + 1); /* the connection that stands was not given up for it */
    packet_free(there);
    packet_free(back);
    close(fd);
}

static void test_overtaken_proof(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        proof_is_overtaken(i % 2, i / 2 % 2, (uint32_t)i / 4);
        finish(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_random_breaks, finish_random),
                                       cmocka_unit_test_teardown(test_pieces, finish),
                                       cmocka_unit_test_teardown(test_half_a_piece, finish),
                                       cmocka_unit_test_teardown(test_full_ring, finish),
                                       cmocka_unit_test_teardown(test_retract_from_sent, finish),
                                       cmocka_unit_test_teardown(test_retract_what_has_arrived, finish),
                                       cmocka_unit_test_teardown(test_retract_what_has_arrived_before,
                                                                 finish),
                                       cmocka_unit_test_teardown(test_gone, finish),
                                       cmocka_unit_test_teardown(test_silent, finish),
                                       cmocka_unit_test_teardown(test_slow, finish),
                                       cmocka_unit_test_teardown(test_fruitless, finish),
                                       cmocka_unit_test(test_overtaken_proof)};
    char ms[16];
    snprintf(ms, sizeof ms, "%d", MEND_MS);
    setenv("WEFT_RECONNECT_MS", ms, 1);
    snprintf(ms, sizeof ms, "%d", HANDSHAKE_MS);
    setenv("WEFT_HANDSHAKE_MS", ms, 1);
    setenv("WEFT_LOG", "0", 1); /* each connection that stands again is told */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
