/* test_shm.c - the shared memory transport: order and urgency, frames larger than a record, taking back,
 * sleeping peers; threads against each other, and processes of which one is killed. */
#include "shm_ranks.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 63, 64, 65, 4096, 65535, 65536, 65537, 131072, 262143, 262144};
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(sizes); i++) {
        packet p;
        give(0, 1, make(&p, (int)i, sizes[i], false));
        settle();
        assert_int_equal(p.calls, 1);
        assert_int_equal(p.status, WEFT_OK);
        assert_int_equal(ranks[1].seen, i + 1);
        assert_int_equal(ranks[1].log[i].frame.tag, (int)i);
        assert_int_equal(ranks[1].log[i].peer, BOARD_WORLD(0));
        if (sizes[i]) assert_true(ranks[1].log[i].sum == sum_of(source, sizes[i]));
    }
    assert_int_equal(ranks[1].headers, WEFT__LENGTH(sizes) - 1);
    assert_true(ranks[0].transport->flushed(ranks[0].transport, BOARD_WORLD(1)));
    assert_false(ranks[0].transport->busy(ranks[0].transport));
}

static void test_to_itself(void **state)
{
    packet p;
    (void)state;
    give(0, 0, make(&p, 5, 200000, false));
    settle();
    assert_int_equal(p.calls, 1);
    assert_int_equal(ranks[0].seen, 1);
    assert_true(ranks[0].log[0].sum == sum_of(source, 200000));
}

static bool now(int tag, size_t length)
{
    weft__transport *transport = ranks[0].transport;
    weft__frame *frame = transport->reserve(transport, BOARD_WORLD(1), source, length);
    if (!frame) return false;
    memset((char *)frame + sizeof(uint64_t), 0, sizeof *frame - sizeof(uint64_t));
    frame->tag = tag;
    transport->commit(transport, BOARD_WORLD(1),
                      weft__frame_first(WEFT__FRAME_CONTROL, WEFT__CHANNEL_COLLECTIVE, 0, 0,
                                        (uint32_t)length),
                      length);
    return true;
}

/* Written at once, unless something waits before it, it is longer than one record, or there is no room. */
static void test_at_once(void **state)
{
    packet first;
    int written = 2;
    (void)state;
    make(&first, 0, WEFT__FRAME_PAYLOAD_MAX, true);
    assert_false(now(1, 0)); /* there is no ring as yet, which sending makes */
    greet(0, 1);
    assert_true(now(1, 0) && now(2, 1000));
    settle();
    assert_int_equal(ranks[1].seen, 2);
    assert_int_equal(ranks[1].log[0].frame.tag, 1);
    assert_int_equal(ranks[1].log[1].frame.tag, 2);
    assert_true(ranks[1].log[1].sum == sum_of(source, 1000));
    assert_false(now(3, WEFT__FRAME_PAYLOAD_MAX));
    give(0, 1, &first); /* longer than the ring */
    assert_int_equal(first.calls, 0);
    assert_false(now(4, 0));
    settle();
    assert_int_equal(ranks[1].seen, 3);
    while (now(5, 1000)) written++;
    assert_true(written > 10);
    settle();
    assert_int_equal(ranks[1].seen, written + 1);
}

static const weft__frame *next(void)
{
    return ranks[1].transport->next(ranks[1].transport, BOARD_WORLD(0));
}

/* The next frame can be looked at, as often as one likes, and then be taken or read, or come by itself. */
static void test_next(void **state)
{
    char there[1000];
    packet p;
    (void)state;
    assert_null(next());
    greet(0, 1);
    assert_null(next());
    assert_true(now(1, 0) && now(2, sizeof there) && now(3, 500) && now(4, 0));
    assert_true(next() && next() && next()->tag == 1);
    ranks[1].transport->take(ranks[1].transport, BOARD_WORLD(0), NULL);
    assert_true(next() && next()->tag == 2);
    ranks[1].transport->take(ranks[1].transport, BOARD_WORLD(0), there);
    assert_memory_equal(there, source, sizeof there);
    assert_int_equal(ranks[1].seen, 0);
    assert_true(next() && next()->tag == 3);
    ranks[1].transport->read(ranks[1].transport, BOARD_WORLD(0));
    assert_int_equal(ranks[1].seen, 1);
    assert_int_equal(ranks[1].log[0].frame.tag, 3);
    assert_true(ranks[1].log[0].sum == sum_of(source, 500));
    assert_true(next() && next()->tag == 4);
    settle();
    assert_int_equal(ranks[1].seen, 2);
    assert_int_equal(ranks[1].log[1].frame.tag, 4);
    give(0, 1, make(&p, 5, WEFT__FRAME_PAYLOAD_MAX, false)); /* more than a record */
    assert_null(next());
    settle();
    assert_int_equal(ranks[1].seen, 3);
    assert_true(ranks[1].log[2].sum == sum_of(source, WEFT__FRAME_PAYLOAD_MAX));
}

/* Room is given back by those that are taken too. */
static void test_taking_gives_room(void **state)
{
    size_t rings = 4 * ranks[0].segment->ring_bytes / 1024;
    char there[1000];
    (void)state;
    greet(0, 1);
    for (size_t i = 0; i < rings; i++) {
        assert_true(now((int)i, sizeof there));
        assert_true(next() && next()->tag == (int)i);
        ranks[1].transport->take(ranks[1].transport, BOARD_WORLD(0), there);
    }
    assert_int_equal(ranks[1].seen, 0);
}

/* Without a reader: bulk fills the ring and waits, begun; the urgent go right behind the one begun. */
static void test_urgent_first(void **state)
{
    enum { BULK = 6, URGENT = 3 };
    static const int order[] = {0, 1, 100, 101, 102, 2, 3, 4, 5};
    packet bulk[BULK], urgent[URGENT];
    (void)state;
    for (int i = 0; i < BULK; i++) give(0, 1, make(&bulk[i], i, 150000, true));
    while (look(0)) {
    }
    for (int i = 0; i < URGENT; i++) give(0, 1, make(&urgent[i], 100 + i, 10, false));
    while (look(0)) {
    }
    assert_int_equal(bulk[0].calls, 1);
    assert_int_equal(bulk[1].calls, 0);
    assert_true(bulk[1].out.done > 0); /* or the order below tests nothing */
    assert_false(ranks[0].transport->flushed(ranks[0].transport, BOARD_WORLD(1)));
    settle();
    assert_int_equal(ranks[1].seen, BULK + URGENT);
    for (int i = 0; i < BULK + URGENT; i++) {
        assert_int_equal(ranks[1].log[i].frame.tag, order[i]);
        assert_true(ranks[1].log[i].sum == sum_of(source, order[i] < 100 ? 150000 : 10));
    }
    for (int i = 0; i < BULK; i++) assert_int_equal(bulk[i].calls, 1);
    assert_true(ranks[0].transport->flushed(ranks[0].transport, BOARD_WORLD(1)));
}

/* A turn copies a bounded amount however much there is. */
static void test_bounded_turn(void **state)
{
    packet p[8];
    size_t before;
    (void)state;
    for (int i = 0; i < 8; i++) give(0, 1, make(&p[i], i, 60000, true));
    before = ranks[1].seen;
    assert_true(ranks[1].transport->busy(ranks[1].transport));
    look(1);
    assert_in_range(ranks[1].seen - before, 1, 4);
    assert_int_equal(ranks[1].transport->poll(ranks[1].transport, 1), 1);
    settle();
    assert_int_equal(ranks[1].seen, 8);
}

static packet chain[3000];
static int chain_sent, chain_depth, chain_deepest;

static void on_chain_sent(weft__outgoing *out, weft_status status)
{
    assert_int_equal(status, WEFT_OK);
    (void)out;
    chain_sent++;
    if (++chain_depth > chain_deepest) chain_deepest = chain_depth;
    if (chain_sent < (int)WEFT__LENGTH(chain)) give(0, 1, &chain[chain_sent]);
    chain_depth--;
}

static void test_sending_from_sent(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT__LENGTH(chain); i++)
        make(&chain[i], (int)i, 8, false)->out.sent = on_chain_sent;
    give(0, 1, &chain[0]);
    settle();
    assert_int_equal(chain_sent, WEFT__LENGTH(chain));
    assert_int_equal(chain_deepest, 1);
    assert_int_equal(ranks[1].seen, WEFT__LENGTH(chain));
    for (size_t i = 0; i < WEFT__LENGTH(chain); i++) assert_int_equal(ranks[1].log[i].frame.tag, (int)i);
}

/* ---- taking back -------------------------------------------------------------------------------- */

static void test_retract(void **state)
{
    packet p[5];
    char *own = malloc(150000);
    (void)state;
    for (int i = 0; i < 5; i++) make(&p[i], i, 150000, true);
    assert_non_null(own);
    memcpy(own, source, 150000);
    p[1].out.payload = own;
    for (int i = 0; i < 5; i++) give(0, 1, &p[i]);
    while (look(0)) {
    }
    assert_true(p[1].out.done > 0 && !p[1].calls); /* half written */
    ranks[0].transport->retract(ranks[0].transport, &p[3].out);
    ranks[0].transport->retract(ranks[0].transport, &p[1].out);
    memset(own, 0xee, 150000);
    free(own);
    settle();
    assert_int_equal(ranks[1].seen, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ranks[1].log[i].frame.tag, i < 3 ? i : 4);
        assert_true(ranks[1].log[i].sum == sum_of(source, 150000));
    }
    for (int i = 0; i < 5; i++) assert_int_equal(p[i].calls, i != 1 && i != 3);
    assert_int_equal(ranks[0].lost + ranks[1].lost, 0);
}

/* The orphaned rest of a frame goes with the transport. */
static void test_close_with_queue(void **state)
{
    packet p[4];
    (void)state;
    for (int i = 0; i < 4; i++) give(0, 1, make(&p[i], i, 150000, true));
    while (look(0)) {
    }
    ranks[0].transport->retract(ranks[0].transport, &p[1].out);
    ranks[0].transport->close(ranks[0].transport);
    ranks[0].transport = NULL;
    assert_int_equal(p[0].status, WEFT_OK);
    assert_int_equal(p[1].calls, 0);
    for (int i = 2; i < 4; i++) {
        assert_int_equal(p[i].calls, 1);
        assert_int_equal(p[i].status, WEFT_ERR_CANCELLED);
    }
}

static void test_forget(void **state)
{
    packet p[2];
    (void)state;
    give(0, 1, make(&p[0], 0, 250000, true));
    look(1); /* begins to arrive, and does not end */
    assert_int_equal(ranks[1].headers, 1);
    assert_int_equal(ranks[1].seen, 0);
    ranks[1].transport->forget(ranks[1].transport, BOARD_WORLD(0), ranks[1].room);
    memset(ranks[1].room, 0x11, sizeof ranks[1].room);
    settle();
    assert_int_equal(ranks[1].seen, 1);
    assert_true(ranks[1].log[0].sum == 0);
    for (size_t i = 0; i < sizeof ranks[1].room; i++) assert_int_equal(ranks[1].room[i], 0x11);
    give(0, 1, make(&p[1], 1, 100, true));
    settle();
    assert_true(ranks[1].log[1].sum == sum_of(source, 100));
}

static void test_thrown_away(void **state)
{
    packet p;
    (void)state;
    ranks[1].throw_away = true;
    give(0, 1, make(&p, 0, 250000, true));
    settle();
    assert_int_equal(ranks[1].seen, 1);
    assert_true(ranks[1].log[0].sum == 0);
}

/* ---- sleeping peers ----------------------------------------------------------------------------- */

static bool rung(int r)
{
    uint64_t count;
    return read(ranks[r].segment->peers[ranks[r].segment->rank].bell_fd, &count, sizeof count) ==
           sizeof count;
}

static void arm(int r)
{
    weft__bell_arm(ranks[r].segment);
}

static void test_bells(void **state)
{
    packet p[6];
    (void)state;
    give(0, 1, make(&p[0], 0, 8, false));
    assert_false(rung(1));
    settle();
    arm(1);
    give(0, 1, make(&p[0], 0, 8, false));
    give(0, 1, make(&p[1], 0, 8, false));
    assert_true(rung(1));
    assert_false(rung(1));
    settle();
    for (int i = 0; i < 6; i++) give(0, 1, make(&p[i], i, 100000, true));
    while (look(0)) {
    }
    assert_int_equal(p[5].calls, 0);
    arm(0);
    assert_false(ranks[0].transport->busy(ranks[0].transport));
    look(1);
    assert_true(rung(0)); /* there is room */
    settle();
    assert_int_equal(p[5].calls, 1);
}

/* ---- two threads at once ------------------------------------------------------------------------ */

#define HAMMERED 4000

static size_t hammer_length(int number)
{
    unsigned seed = (unsigned)number * 7919u;
    return (size_t)rand_r(&seed) % (number % 50 == 0  ? WEFT__FRAME_PAYLOAD_MAX + 1
                                    : number % 5 == 0 ? 20000u
                                                      : 200u);
}

/* Whatever is slept for is looked at once more after arming: room, records, or that all has been taken. */
static void sleep_until_rung(rank *me, int flushing)
{
    struct pollfd bell = {.fd = me->segment->peers[me->segment->rank].bell_fd, .events = POLLIN};
    weft__control_line *line = me->segment->peers[me->segment->rank].control;
    uint64_t count;

    atomic_exchange(&line->armed, 1);
    if (!me->transport->busy(me->transport) &&
        (flushing < 0 || !me->transport->flushed(me->transport, flushing))) {
        if (poll(&bell, 1, JOB_WAIT_MS) != 1) _exit(97); /* a lost wake-up */
    }
    atomic_exchange(&line->armed, 0);
    if (read(bell.fd, &count, sizeof count) < 0) return;
}

static void *hammer(void *arg)
{
    rank *me = arg;
    int other = 1 - me->segment->rank, sent = 0, checked = 0;
    packet *window = calloc(16, sizeof *window);
    while (window && (checked < HAMMERED || sent < HAMMERED ||
                      !me->transport->flushed(me->transport, BOARD_WORLD(other)) ||
                      me->transport->busy(me->transport))) {
        int moved = 0;
        for (int i = 0; i < 16 && sent < HAMMERED; i++) {
            packet *p = &window[i];
            if (p->out.sent && !p->calls) continue;
            /* Contents differ by where in `source` they begin. */
            make(p, sent, hammer_length(sent), false);
            p->out.frame.length =
                p->out.frame.length > 4096 ? p->out.frame.length - 4096 : p->out.frame.length;
            p->out.payload = source + sent % 4096;
            give(me->segment->rank, other, p);
            sent++;
            moved++;
        }
        moved += me->transport->poll(me->transport, 64);
        for (; (size_t)checked < me->seen; checked++, moved++) {
            size_t length = hammer_length(checked);
            if (length > 4096) length -= 4096;
            if (me->log[checked].frame.tag != checked || me->log[checked].frame.length != length) _exit(96);
            if (length && me->log[checked].sum != sum_of(source + checked % 4096, length)) _exit(95);
        }
        if (!moved) sleep_until_rung(me, checked == HAMMERED && sent == HAMMERED ? BOARD_WORLD(other) : -1);
    }
    free(window);
    return NULL;
}

static void test_two_threads(void **state)
{
    pthread_t threads[2];
    packet warm;
    (void)state;
    _Static_assert(HAMMERED <= SEEN_MAX, "every frame is in the log");
    make(&warm, 0, 0, false); /* fills `source` before there are threads */
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, hammer, &ranks[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].seen, HAMMERED);
        assert_int_equal(ranks[i].lost, 0);
    }
}

/* ---- processes, one of them killed while it sends -------------------------------------------------- */

#define EXCHANGED 500

static bool has_died(int pid_fd)
{
    struct pollfd dead = {.fd = pid_fd, .events = POLLIN};
    return poll(&dead, 1, 0) == 1;
}

/* Sends to both others for ever. */
static void victim(rank *me, int busy_fd)
{
    packet p[2];
    for (int i = 0; i < 2; i++) give(2, i, make(&p[i], 0, 100000, true));
    for (int n = 0;; n++) {
        look(2);
        for (int i = 0; i < 2; i++)
            if (p[i].calls) give(2, i, make(&p[i], n, 100000, true));
        if (me->lost || (n == 1000 && write(busy_fd, "", 1) != 1)) _exit(5);
    }
}

/* Exchanges frames with the other survivor, whatever happens to the victim. */
static void survivor(rank *me, int r)
{
    int other = 1 - r, sent = 0, got = 0;
    size_t seen = 0;
    bool dead = false;
    packet p = {0};

    while (got < EXCHANGED || sent < EXCHANGED ||
           !me->transport->flushed(me->transport, BOARD_WORLD(other)) || !dead) {
        if (sent < EXCHANGED && (!sent || p.calls)) give(r, other, make(&p, sent++, 100000, true));
        if (!look(r)) sched_yield();
        for (; seen < me->seen; seen++) got += me->log[seen % SEEN_MAX].peer == BOARD_WORLD(other);
        if (!dead && has_died(me->segment->peers[2].pid_fd)) {
            me->transport->drop(me->transport, BOARD_WORLD(2));
            dead = true;
        }
        if (me->lost) _exit(3);
    }
    me->transport->close(me->transport);
    weft__segment_free(me->segment);
    _exit(p.status == WEFT_OK && sent == EXCHANGED && got == EXCHANGED ? 0 : 4);
}

static void process(int r, int busy_fd)
{
    weft__segment_config config = segment_config(r, 3, JOB_WAIT_MS);
    weft__segment *segment;

    alarm(JOB_ALARM_S);
    if (weft__segment_join(&config, &segment)) _exit(2);
    open_transport(&ranks[r], segment);
    if (r == 2) victim(&ranks[r], busy_fd);
    survivor(&ranks[r], r);
}

static void test_processes(void **state)
{
    pid_t pids[3];
    int status, busy[2];
    char byte;
    (void)state;
    assert_int_equal(pipe(busy), 0);
    segment_config(0, 3, 0); /* names the job before the fork */
    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (!pids[i]) process(i, busy[1]);
    }
    close(busy[1]);
    assert_int_equal(read(busy[0], &byte, 1), 1);
    kill(pids[2], SIGKILL);
    assert_int_equal(waitpid(pids[2], &status, 0), pids[2]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0); /* exited, and with 0 */
    }
    close(busy[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(
                                           test_processes), /* first: forks before there are threads */
                                       TWO(test_sizes),
                                       TWO(test_to_itself),
                                       TWO(test_at_once),
                                       TWO(test_next),
                                       TWO(test_taking_gives_room),
                                       TWO(test_urgent_first),
                                       TWO(test_bounded_turn),
                                       TWO(test_sending_from_sent),
                                       TWO(test_retract),
                                       TWO(test_close_with_queue),
                                       TWO(test_forget),
                                       TWO(test_thrown_away),
                                       TWO(test_bells),
                                       TWO(test_two_threads)};
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
