/* Peers that were let go of and live (begin_anew of transport.h): whichever end lets go, and however often and however late
 * the other one hears of it, both begin the same sequence of frames, nothing of before arrives in it, and what is sent in it
 * arrives, whole, in order and once.  ANEW_SEED=n runs that one alone, ANEW_SEEDS=n so many. */
#include "tcp_link.h"
#include "tcp_ranks.h"

#include <stdlib.h>

#define COURSE UINT64_C(1000000) /* of ids: each sequence has its own */

static struct {
    int begun[2]; /* sequences at that end; a connection of it is there if `up` */
    bool up[2];
    uint64_t id[2];  /* sent last by that end, in its present sequence */
    int arrived[2];  /* there */
    bool refuses[2]; /* it does not begin anew */
} ends;

static packet *packets[20000];
static int packet_count;

static weft__tcp_peer *peer_of(const rank *r)
{
    return &WEFT__OWNER(r->t, weft__tcp, transport)->peer[!r->me];
}

/* What has arrived of another sequence than the one that this end is in cannot be. */
static void check_arrived(rank *r, int peer, const weft__frame *frame)
{
    assert_true(ends.up[r->me]);
    assert_int_equal(frame->id / COURSE, peer_of(r)->course);
    assert_int_equal(frame->id % COURSE, ends.arrived[r->me] + 1); /* none is missing */
    ends.arrived[r->me]++;
    (void)peer;
}

static void begin(rank *r)
{
    r->t->drop_living(r->t, !r->me); /* hands over what had arrived */
    ends.begun[r->me]++;
    ends.up[r->me] = false;
    ends.arrived[r->me] = 0;
    ends.id[r->me] = 0;
    free(r->where[!r->me]); /* what was arriving does not arrive any more */
    r->where[!r->me] = NULL;
    r->t->begin_anew(r->t, !r->me);
}

static void let_go(weft__sink *sink, int peer, const char *why)
{
    rank *r = (rank *)(void *)sink;
    (void)peer;
    assert_non_null(strstr(why, "begins anew"));
    if (!ends.refuses[r->me]) begin(r);
}

static void connected(weft__sink *sink, int peer)
{
    rank *r = (rank *)(void *)sink;
    (void)peer;
    assert_false(ends.up[r->me]);
    ends.up[r->me] = true;
}

static void open_two(int wire)
{
    memset(&ends, 0, sizeof ends);
    packet_count = 0;
    open_world_as(2, wire);
    for (int i = 0; i < 2; i++) {
        ranks[i].sink.let_go = let_go;
        ranks[i].sink.connected = connected;
        ranks[i].on_arrived = check_arrived;
    }
}

static void send_one(int from, size_t length)
{
    rank *r = &ranks[from];
    packet *l = packet_new(peer_of(r)->course * COURSE + ++ends.id[from], length, false);
    l->out.stays = false;
    l->rank = r;
    packets[packet_count++] = l;
    r->t->send(r->t, !from, &l->out);
}

static void free_packets(void)
{
    for (int i = 0; i < packet_count; i++) packet_free(packets[i]);
}

static void cut(rank *r)
{
    if (peer_of(r)->link) shutdown(peer_of(r)->link->polled.fd, SHUT_RDWR);
}

static bool both_have_all(void)
{
    return ends.up[0] && ends.up[1] && peer_of(&ranks[0])->course == peer_of(&ranks[1])->course &&
           (uint64_t)ends.arrived[1] == ends.id[0] && (uint64_t)ends.arrived[0] == ends.id[1];
}

static void do_something(int from)
{
    switch (random32() % 24) {
    case 0: begin(&ranks[from]); break;
    case 1: cut(&ranks[from]); break;
    case 2:
    case 3:
    case 4:
    case 5:
        if (ends.up[from] || !ends.begun[from]) send_one(from, random32() % (random32() % 4 ? 100 : 200000));
        break;
    default: turn(&ranks[random32() % 2]);
    }
}

static void run_one(uint64_t number)
{
    seed = number * 7919;
    open_two(number % 2 ? WEFT__WIRE_ENCRYPTED | WEFT__WIRE_HAS_AES : WEFT__WIRE_AS_PLAIN);
    for (int i = 0; i < 2000; i++) do_something((int)(random32() % 2));
    if (!ends.begun[0] && !ends.begun[1]) begin(&ranks[0]);
    UNTIL(ends.up[0] && ends.up[1]);
    send_one(0, 10), send_one(1, 10);
    UNTIL(both_have_all());
    assert_string_equal(ranks[0].why, ""); /* nobody was given up */
    assert_string_equal(ranks[1].why, "");
    assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
    close_world();
    free_packets();
}

static uint64_t running;

static void test_random(void **state)
{
    const char *one = getenv("ANEW_SEED"), *many = getenv("ANEW_SEEDS");
    const uint64_t last = one ? strtoull(one, NULL, 10) : many ? strtoull(many, NULL, 10) : 20;
    (void)state;
    for (running = one ? last : 1; running <= last; running++) run_one(running);
    running = 0;
}

static int finish_random(void **state)
{
    if (running) fprintf(stderr, "the last was ANEW_SEED=%d\n", (int)running);
    return finish(state);
}

/* One end alone has lost the other, which has a connection that stands, and nothing to send. */
static void test_one_end(void **state)
{
    (void)state;
    open_two(-1);
    send_one(0, 10), send_one(1, 10);
    UNTIL(both_have_all());
    begin(&ranks[1]); /* the higher one, whose dial is the one that gives way */
    UNTIL(ends.up[0] && ends.up[1] && ends.begun[0] == 1);
    assert_int_equal(peer_of(&ranks[0])->course, 1);
    send_one(0, 10), send_one(1, 10);
    UNTIL(both_have_all());
    free_packets();
}

/* There never was a connection: the other end hears of all this for the first time. */
static void test_never_met(void **state)
{
    (void)state;
    open_two(-1);
    begin(&ranks[0]);
    UNTIL(ends.up[0] && ends.up[1] && ends.begun[1] == 1);
    send_one(1, 10);
    UNTIL(both_have_all());
    free_packets();
}

/* Sends to one that is astray end at once, and nothing of them arrives later. */
static void test_sends_end(void **state)
{
    (void)state;
    open_two(-1);
    send_one(0, 10);
    UNTIL(ends.arrived[1] == 1);
    begin(&ranks[0]);
    send_one(0, 10);
    assert_int_equal(packets[1]->status, WEFT_ERR_PEER);
    ends.id[0] = 0;
    UNTIL(ends.up[0] && ends.up[1]);
    send_one(0, 10);
    UNTIL(both_have_all());
    free_packets();
}

/* What is written, and was never acknowledged, may not have arrived: nobody is told that it has. */
static void test_written_ends(void **state)
{
    (void)state;
    open_two(-1);
    send_one(0, 10);
    UNTIL(ends.arrived[1] == 1);
    send_one(0,
             100000); /* longer than what is kept as a copy: its owner hears of it when it is acknowledged */
    for (int i = 0; i < 100; i++) turn(&ranks[0]);
    assert_true(ranks[0].t->flushed(ranks[0].t, 1));
    assert_int_equal(packets[1]->sent_times, 0);
    begin(&ranks[0]);
    assert_int_equal(packets[1]->sent_times, 1);
    assert_int_equal(packets[1]->status, WEFT_ERR_PEER);
    UNTIL(ends.up[0] && ends.up[1]);
    free_packets();
}

/* The other end counts this one as gone. */
static void test_refused(void **state)
{
    (void)state;
    open_two(-1);
    send_one(0, 10);
    UNTIL(ends.arrived[1] == 1);
    ends.refuses[1] = true;
    begin(&ranks[0]);
    UNTIL(ranks[0].lost_times[1]);
    assert_non_null(strstr(ranks[0].why, "unreachable for a while"));
    assert_non_null(strstr(ranks[0].why, "counts this rank as gone"));
    free_packets();
}

/* It has died meanwhile. */
static void test_dead(void **state)
{
    (void)state;
    open_two(-1);
    send_one(0, 10);
    UNTIL(ends.arrived[1] == 1);
    close_rank(&ranks[1]);
    begin(&ranks[0]);
    UNTIL(ranks[0].lost_times[1]);
    assert_string_equal(ranks[0].why,
                        "it was unreachable for a while, and its host refuses connections to it");
    free_packets();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_random, finish_random),
                                       cmocka_unit_test_teardown(test_one_end, finish),
                                       cmocka_unit_test_teardown(test_never_met, finish),
                                       cmocka_unit_test_teardown(test_sends_end, finish),
                                       cmocka_unit_test_teardown(test_written_ends, finish),
                                       cmocka_unit_test_teardown(test_refused, finish),
                                       cmocka_unit_test_teardown(test_dead, finish)};
    setenv("WEFT_RECONNECT_MS", "20000", 1);
    setenv("WEFT_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
