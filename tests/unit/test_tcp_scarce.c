/* No memory while frames go over TCP: what is taken back half written still arrives whole, what cannot be
 * begun fails by itself, and the peer stays.  It stays too where there is no memory for making its connection anew, no
 * descriptor, or no room for one in the kernel's set of what is watched, however long that lasts. */
#include "reserve.h"
#include "scarce.h"
#include "tcp_link.h"
#include "tcp_ranks.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BIG          (256u * 1024)
#define RECONNECT_MS 2000 /* as main sets it */
#define FULL         64   /* frames of BIG: more than two sockets hold */

static void connect_all(int world)
{
    open_world(world);
    for (int to = 1; to < world; to++) {
        packet *l = send_packet(0, to, 1, 1, false);
        UNTIL(ranks[to].arrived[0] == 1);
        packet_free(l);
    }
}

/* Rank 0 sends more than the sockets hold, and nobody reads.  Ids from 2. */
static void fill(int to, packet **packets)
{
    for (int i = 0; i < FULL; i++) packets[i] = send_packet(0, to, (uint64_t)i + 2, BIG, true);
    for (int i = 0; i < 200; i++) turn(&ranks[0]);
}

/* -1: the sockets happen to be full where one ends and the next has not begun. */
static int cut_frame(packet **packets)
{
    for (int i = 0; i < FULL; i++)
        if (packets[i]->out.done > 0 && packets[i]->out.done < BIG + sizeof(weft__frame)) return i;
    return -1;
}

/* Then a little is read, until they are full somewhere else. */
static int half_written(int to, packet **packets)
{
    for (int i = 0; i < FULL && cut_frame(packets) < 0; i++) {
        turn(&ranks[to]);
        turn(&ranks[0]);
    }
    assert_in_range(cut_frame(packets), 0, FULL - 1);
    return cut_frame(packets);
}

static void free_all(packet **packets)
{
    for (int i = 0; i < FULL; i++) packet_free(packets[i]);
}

static void spoil(packet *l)
{
    memset(l->bytes, 0xee, BIG);
    memset(&l->out.frame, 0xee, sizeof(weft__frame));
}

static void test_retract(void **state)
{
    packet *packets[FULL];
    int half;
    (void)state;
    connect_all(2);
    fill(1, packets);
    half = half_written(1, packets);
    scarce_begin(1, INT32_MAX);
    ranks[0].t->retract(ranks[0].t, &packets[half]->out);
    scarce_end();
    spoil(packets[half]);
    UNTIL(ranks[1].arrived[0] == FULL + 1 || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    assert_string_equal(ranks[0].why, "");
    assert_string_equal(ranks[1].why, "");
    assert_int_equal(packets[half]->sent_times, 0);
    for (int i = 0; i < FULL; i++)
        if (i != half) assert_int_equal(packets[i]->status, WEFT_OK);
    free_all(packets);
    close_world();
}

/* Two peers do not read: there is memory for one rest, and none for the other's. */
static void test_begin(void **state)
{
    packet *first[FULL], *second[FULL], *again;
    int half;
    (void)state;
    connect_all(3);
    fill(1, first);
    half = half_written(1, first);
    scarce_begin(1, INT32_MAX);
    for (int i = 0; i < FULL; i++) {
        scarce_end(); /* what the test itself allocates */
        second[i] = packet_new((uint64_t)i + 2, BIG, true);
        second[i]->rank = &ranks[0];
        scarce_begin(1, INT32_MAX);
        ranks[0].t->send(ranks[0].t, 2, &second[i]->out);
    }
    scarce_end();
    for (int i = 0; i < FULL; i++) {
        assert_int_equal(second[i]->sent_times, 1);
        assert_int_equal(second[i]->status, WEFT_ERR_MEMORY);
        assert_int_equal(second[i]->out.done, 0);
    }
    ranks[0].t->retract(ranks[0].t, &first[half]->out);
    spoil(first[half]);
    again = send_packet(0, 2, FULL + 2, BIG, true); /* there is memory again */
    UNTIL(ranks[1].arrived[0] == FULL + 1 && ranks[2].arrived[0] == 2);
    assert_int_equal(again->status, WEFT_OK);
    assert_int_equal(ranks[0].lost_times[1] + ranks[0].lost_times[2], 0);
    packet_free(again);
    free_all(first);
    free_all(second);
    close_world();
}

/* ---- none of it says that a peer is gone ---- */

static int adds, failing_add;      /* to sets; the one that fails: 0, none does */
static int full_set, adds_refused; /* so many more to this set fail */
static int sockets_refused;        /* so many more of them are */

/* These are in front of libc's. */
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    bool fails = op == EPOLL_CTL_ADD && ++adds == failing_add;
    if (op == EPOLL_CTL_ADD && epfd == full_set && adds_refused > 0) fails = adds_refused-- > 0;
    if (!fails) return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
    errno = ENOSPC; /* of /proc/sys/fs/epoll/max_user_watches */
    return -1;
}

int socket(int domain, int type, int protocol)
{
    if (sockets_refused == 0) return (int)syscall(SYS_socket, domain, type, protocol);
    sockets_refused--;
    errno = EMFILE;
    return -1;
}

static void close_two(void)
{
    assert_string_equal(ranks[0].why, "");
    assert_string_equal(ranks[1].why, "");
    close_world();
}

/* A connection has a place there at either end. */
static void test_nothing_more_is_watched(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 2; nth++) {
        packet *l;
        open_world(2);
        adds = 0;
        failing_add = nth;
        l = send_packet(0, 1, 1, 1, false);
        UNTIL(ranks[1].arrived[0] == 1 || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
        assert_true(adds > nth);
        failing_add = 0;
        UNTIL(l->sent_times || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
        packet_free(l);
        close_two();
    }
}

enum { MORE_THAN_ATTEMPTS = WEFT__TCP_DIALS + 2 };

static weft__tcp_peer *peer_1(void)
{
    return &WEFT__OWNER(ranks[0].t, weft__tcp, transport)->peer[1];
}

static void arrives_late(void)
{
    packet *l = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1 || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    UNTIL(l->sent_times || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    packet_free(l);
    close_two();
}

static void test_no_descriptors_for_long(void **state)
{
    packet *l;
    (void)state;
    open_world(2);
    sockets_refused = MORE_THAN_ATTEMPTS;
    l = send_packet(0, 1, 2, 1, false);
    assert_string_equal(ranks[0].t->want(ranks[0].t, 1), strerror(EMFILE));
    packet_free(l);
    arrives_late();
    assert_int_equal(sockets_refused, 0);
}

/* At the end that connects, and at the one that is connected to, which keeps what it cannot watch. */
static void test_set_is_full_for_long(void **state)
{
    (void)state;
    for (int end = 0; end < 2; end++) {
        open_world(2);
        full_set = ranks[end].poller.epoll_fd;
        adds_refused = MORE_THAN_ATTEMPTS;
        arrives_late();
        assert_int_equal(adds_refused, 0);
    }
}

/* What waits there is none of a forked child's: it would stay open as long as that lives. */
static void test_what_is_held_is_not_inherited(void **state)
{
    const weft__tcp *tcp;
    packet *l;
    int status;
    pid_t child;
    (void)state;
    open_world(2);
    tcp = WEFT__OWNER(ranks[1].t, weft__tcp, transport);
    full_set = ranks[1].poller.epoll_fd;
    adds_refused = INT_MAX;
    l = send_packet(0, 1, 1, 1, false);
    UNTIL(tcp->held_fd >= 0);
    child = fork();
    if (child == 0) _exit(fcntl(tcp->held_fd, F_GETFD) < 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    adds_refused = 0;
    UNTIL(ranks[1].arrived[0] == 1 && l->sent_times);
    packet_free(l);
    close_two();
}

static void meet(void)
{
    packet *l;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1 && l->sent_times);
    packet_free(l);
}

static void stands_again(void)
{
    packet *l = send_packet(0, 1, 2, 1, false);
    UNTIL(ranks[1].arrived[0] == 2 || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    UNTIL(l->sent_times || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    packet_free(l);
    close_two();
}

/* For longer than a connection that broke is to be made again in. */
static void test_no_descriptors_to_mend_with(void **state)
{
    int64_t until_ns;
    (void)state;
    meet();
    sockets_refused = INT_MAX;
    shutdown(peer_1()->link->polled.fd, SHUT_RDWR);
    UNTIL(peer_1()->state == WEFT__TCP_MENDING);
    until_ns = weft__now_ns() + (RECONNECT_MS + 300) * WEFT__MS;
    while (weft__now_ns() < until_ns) {
        turn(&ranks[0]);
        turn(&ranks[1]);
    }
    assert_string_equal(ranks[0].why, "");
    sockets_refused = 0;
    stands_again();
}

/* The lower rank has none, and so makes no connection of its own: it takes the other's. */
static void test_the_other_has_descriptors(void **state)
{
    (void)state;
    meet();
    sockets_refused = INT_MAX;
    shutdown(peer_1()->link->polled.fd, SHUT_RDWR);
    while (peer_1()->state == WEFT__TCP_UP) turn(&ranks[0]);
    assert_non_null(ranks[0].t->want(ranks[0].t, 1));
    for (int i = 0; i < 10000 && peer_1()->state != WEFT__TCP_UP; i++) {
        sockets_refused = INT_MAX;
        turn(&ranks[0]);
        sockets_refused = 0;
        turn(&ranks[1]);
        usleep(100);
    }
    assert_int_equal(peer_1()->state, WEFT__TCP_UP);
    assert_false(peer_1()->link->dialled);
    stands_again();
}

/* There are some again, but this rank is not run until the time is over that it has for the connection. */
static void test_descriptors_come_while_it_stands_still(void **state)
{
    (void)state;
    meet();
    sockets_refused = INT_MAX;
    shutdown(peer_1()->link->polled.fd, SHUT_RDWR);
    UNTIL(peer_1()->state == WEFT__TCP_MENDING);
    sockets_refused = 0;
    usleep((RECONNECT_MS + 200) * 1000);
    stands_again();
}

/* One that wants for memory is not made again at once, to want again. */
static void test_it_is_tried_again_after_a_while(void **state)
{
    (void)state;
    meet();
    weft__tcp_link_broken(peer_1()->link, ENOMEM);
    UNTIL(peer_1()->state == WEFT__TCP_MENDING);
    assert_non_null(ranks[0].t->want(ranks[0].t, 1));
    assert_string_equal(ranks[0].t->want(ranks[0].t, 1), strerror(ENOMEM));
    stands_again();
}

enum { PIECES_MOST = 256 };
static void *pieces[PIECES_MOST];
static int pieces_taken;

static void take_all_memory(void)
{
    scarce_begin(1, INT32_MAX);
    while (pieces_taken < PIECES_MOST && (pieces[pieces_taken] = weft__reserve_get(1)) != NULL)
        pieces_taken++;
}

static void give_memory_back(void)
{
    scarce_end();
    while (pieces_taken > 0) weft__reserve_give(pieces[--pieces_taken]);
}

/* There is memory at the other end, which is to take no connection that this one cannot keep. */
static void test_no_memory_for_what_is_taken(void **state)
{
    const weft__tcp_peer *there;
    const char *want;
    int64_t until_ns;
    (void)state;
    meet();
    there = &WEFT__OWNER(ranks[1].t, weft__tcp, transport)->peer[0];
    sockets_refused = 2; /* so the dial is there before the memory is gone */
    shutdown(peer_1()->link->polled.fd, SHUT_RDWR);
    UNTIL(peer_1()->dial && sockets_refused == 0);
    until_ns = weft__now_ns() + 500 * WEFT__MS;
    while (!(want = ranks[0].t->want(ranks[0].t, 1)) || weft__now_ns() < until_ns) {
        assert_true(weft__now_ns() < until_ns + 10000 * WEFT__MS);
        take_all_memory();
        turn(&ranks[0]);
        give_memory_back();
        turn(&ranks[1]);
    }
    assert_string_equal(want, strerror(ENOMEM));
    assert_int_equal(there->fruitless, 0);
    assert_int_equal(there->links, 1);
    stands_again();
}

/* A connection that ends for want of memory here is none that came to nothing by others. */
static void test_fruitless_for_want(void **state)
{
    packet *l;
    (void)state;
    open_world(2);
    l = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1 && l->sent_times);
    packet_free(l);
    for (int i = 0; i < 4; i++) {
        weft__tcp_link_broken(peer_1()->link, ENOMEM);
        UNTIL(peer_1()->state == WEFT__TCP_MENDING);
        UNTIL(peer_1()->state == WEFT__TCP_UP);
    }
    assert_int_equal(peer_1()->fruitless, 0);
    close_two();
}

/* The connection breaks while neither malloc nor the reserve has anything: it is made anew as soon as they have. */
static void test_no_memory_for_another_connection(void **state)
{
    const weft__tcp_peer *peer;
    packet *first, *second;
    (void)state;
    open_world(2);
    first = send_packet(0, 1, 1, 1, false);
    UNTIL(ranks[1].arrived[0] == 1 && first->sent_times);
    peer = peer_1();
    take_all_memory();
    shutdown(peer->link->polled.fd, SHUT_RDWR);
    for (int i = 0; i < 1000 && peer->state == WEFT__TCP_UP; i++) turn(&ranks[0]);
    assert_int_equal(peer->state, WEFT__TCP_MENDING);
    assert_null(peer->dial);
    give_memory_back();
    second = send_packet(0, 1, 2, 1, false);
    UNTIL(ranks[1].arrived[0] == 2 || ranks[0].lost_times[1] || ranks[1].lost_times[0]);
    packet_free(first);
    packet_free(second);
    close_two();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retract),
        cmocka_unit_test(test_begin),
        cmocka_unit_test(test_nothing_more_is_watched),
        cmocka_unit_test(test_no_descriptors_for_long),
        cmocka_unit_test(test_set_is_full_for_long),
        cmocka_unit_test(test_what_is_held_is_not_inherited),
        cmocka_unit_test(test_no_descriptors_to_mend_with),
        cmocka_unit_test(test_the_other_has_descriptors),
        cmocka_unit_test(test_descriptors_come_while_it_stands_still),
        cmocka_unit_test(test_it_is_tried_again_after_a_while),
        cmocka_unit_test(test_no_memory_for_what_is_taken),
        cmocka_unit_test(test_fruitless_for_want),
        cmocka_unit_test(test_no_memory_for_another_connection),
    };
    setenv("WEFT_RECONNECT_MS", "2000", 1);
    setenv("WEFT_LOG", "0", 1); /* each connection that stands again is told */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
