/* tcp_ranks.h - ranks of one job in one process and thread, each with its own TCP transport, for tests.
 * What a rank receives is checked against what the frame's id says must be in it. */
#ifndef WEFT_TEST_TCP_RANKS_H
#define WEFT_TEST_TCP_RANKS_H
#include "clock.h"
#include "job.h"
#include "payload.h"
#include "tcp_handshake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

#define RANKS_MAX 3
#define DISCARD   1 /* frame tag: the receiver throws the payload away */

typedef struct rank {
    weft__sink sink;
    weft__poller poller;
    weft__transport *t;
    weft__tcp_address address;
    int me, lost_times[RANKS_MAX], arrived[RANKS_MAX];
    uint64_t last[RANKS_MAX][2];   /* highest id that arrived: urgent, bulk; ids only grow */
    uint64_t order[RANKS_MAX][64]; /* ids in the order of their arrival */
    char why[256];
    unsigned char *where[RANKS_MAX]; /* of the payload that is on its way */
    void (*on_arrived)(struct rank *, int peer, const weft__frame *frame);
    void (*on_lost)(struct rank *, int peer);
} rank;

typedef struct packet {
    weft__outgoing out;
    unsigned char *bytes;
    int sent_times;
    weft_status status;
    void (*on_sent)(struct packet *);
    rank *rank;
} packet;

static weft__keys keys;               /* of the job; its pair is no rank's */
static weft__keys keys_of[RANKS_MAX]; /* a pair each beside them */
static weft__rank_key rank_keys[RANKS_MAX];
static rank ranks[RANKS_MAX];
static uint64_t seed = 1;

static inline uint32_t random32(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static void *on_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    rank *r = (rank *)(void *)sink;
    if (frame->tag == DISCARD) return NULL;
    assert_null(r->where[peer]);
    r->where[peer] = malloc(frame->length);
    return r->where[peer];
}

static void on_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    rank *r = (rank *)(void *)sink;
    size_t wrong = frame->length;
    if (!frame->length || frame->tag == DISCARD) assert_null(where);
    assert_ptr_equal(where, r->where[peer]);
    r->where[peer] = NULL;
    if (where) wrong = payload_differs(frame->id, frame->length, where);
    if (wrong < frame->length) fail_msg("byte %zu of frame %d is wrong", wrong, (int)frame->id);
    assert_true(frame->id > r->last[peer][frame->sequence]);
    r->last[peer][frame->sequence] = frame->id;
    if (r->arrived[peer] < 64) r->order[peer][r->arrived[peer]] = frame->id;
    r->arrived[peer]++;
    free(where);
    if (r->on_arrived) r->on_arrived(r, peer, frame);
}

static void on_lost(weft__sink *sink, int peer, const char *why)
{
    rank *r = (rank *)(void *)sink;
    r->lost_times[peer]++;
    snprintf(r->why, sizeof r->why, "%s", why);
    if (r->on_lost) r->on_lost(r, peer);
}

static inline void draw_keys(const weft__keys *with)
{
    memcpy(&keys, with, sizeof keys);
    keys.ranks = rank_keys;
    for (int i = 0; i < RANKS_MAX; i++) {
        memcpy(&keys_of[i], &keys, sizeof keys);
        assert_int_equal(weft__keys_draw(&keys_of[i]), WEFT_OK);
        rank_keys[i] = keys_of[i].own_public;
    }
}

static inline void draw_keys_of_job(void)
{
    weft__keys of_job;
    assert_int_equal(weft__keys_derive("secret", 6, "job", &of_job), WEFT_OK);
    assert_int_equal(weft__keys_draw(&of_job), WEFT_OK);
    draw_keys(&of_job);
}

static inline void open_rank(int me, int world, const weft__tcp_address *addresses, int fd)
{
    rank *r = &ranks[me];
    r->address = addresses[me];
    r->me = me;
    r->sink = (weft__sink){.header = on_header, .arrived = on_arrived, .lost = on_lost};
    assert_int_equal(weft__poller_open(&r->poller), WEFT_OK);
    assert_int_equal(weft__tcp_open(me, world, addresses, fd, &keys_of[me], &r->poller, &r->sink, &r->t),
                     WEFT_OK);
}

/* wire: as WEFT_WIRE would say it on all of them, with or without AES; -1: as it does. */
static inline void open_world_with(int world, int wire, const weft__keys *with)
{
    weft__tcp_address addresses[RANKS_MAX];
    int fd[RANKS_MAX];
    setenv("WEFT_RECONNECT_MS", "0", 0); /* here the end of a connection is that of its peer */
    memset(ranks, 0, sizeof ranks);
    draw_keys(with);
    for (int i = 0; i < world; i++)
        assert_int_equal(weft__tcp_listen("127.0.0.1", &fd[i], &addresses[i]), WEFT_OK);
    for (int i = 0; i < world && wire >= 0; i++) addresses[i].wire = (uint8_t)wire;
    for (int i = 0; i < world; i++) open_rank(i, world, addresses, fd[i]);
}

static inline void open_world_as(int world, int wire)
{
    weft__keys of_job;
    assert_int_equal(weft__keys_derive("secret", 6, "job", &of_job), WEFT_OK);
    assert_int_equal(weft__keys_draw(&of_job), WEFT_OK);
    open_world_with(world, wire, &of_job);
}

static inline void open_world(int world)
{
    open_world_as(world, -1);
}

static inline void close_rank(rank *r)
{
    if (!r->t) return;
    r->t->close(r->t);
    r->t = NULL;
    weft__poller_close(&r->poller);
    for (int i = 0; i < RANKS_MAX; i++) free(r->where[i]);
}

static inline void close_world(void)
{
    for (int i = 0; i < RANKS_MAX; i++) close_rank(&ranks[i]);
}

static inline int turn(rank *r)
{
    int moved = 0;
    if (!r->t) return 0;
    moved += weft__poller_poll(&r->poller);
    return moved + r->t->poll(r->t, 64);
}

/* Polls all ranks until the condition holds; fails after some seconds. */
#define UNTIL(condition)                                                                 \
    do {                                                                                 \
        int64_t until_ = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;                        \
        while (!(condition)) {                                                           \
            int moved_ = turn(&ranks[0]) + turn(&ranks[1]) + turn(&ranks[2]);            \
            if (weft__now_ns() > until_) fail_msg("waited too long for %s", #condition); \
            if (!moved_) usleep(100);                                                    \
        }                                                                                \
    } while (0)

static inline void turns(int n)
{
    while (n--) {
        turn(&ranks[0]), turn(&ranks[1]), turn(&ranks[2]);
        usleep(100);
    }
}

static void on_sent(weft__outgoing *out, weft_status status)
{
    packet *l = (packet *)(void *)out;
    l->sent_times++;
    l->status = status;
    if (l->on_sent) l->on_sent(l);
}

static inline packet *packet_new(uint64_t id, size_t length, bool bulk)
{
    packet *l = calloc(1, sizeof *l);
    l->bytes = malloc(length + 1);
    payload_fill(id, length, l->bytes);
    l->out.frame =
        (weft__frame){.kind = WEFT__FRAME_CONTROL, .length = (uint32_t)length, .id = id, .sequence = bulk};
    l->out.payload = l->bytes;
    l->out.bulk = bulk;
    l->out.sent = on_sent;
    return l;
}

static inline packet *send_packet(int from, int to, uint64_t id, size_t length, bool bulk)
{
    packet *l = packet_new(id, length, bulk);
    l->rank = &ranks[from];
    ranks[from].t->send(ranks[from].t, to, &l->out);
    return l;
}

/* It may have arrived and wait for word of that: then its owner wants its memory back now. */
static inline void packet_free(packet *l)
{
    const bool listed = l->out.link.next && !weft__list_empty(&l->out.link);
    if (listed && l->rank && l->rank->t) l->rank->t->retract(l->rank->t, &l->out);
    free(l->bytes);
    free(l);
}

/* ---- one end played by hand, blocking, while the ranks are polled between its calls ---- */

static inline int raw_connect(const weft__tcp_address *address)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&name.sin_addr, address->bytes, 4);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

static inline void raw_send(int fd, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = send(fd, (const char *)bytes + done, length - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            done += (size_t)n;
        else
            turns(1);
    }
}

/* false: the other end has closed. */
static inline bool raw_receive(int fd, void *bytes, size_t length)
{
    int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    for (size_t done = 0; done < length;) {
        ssize_t n = recv(fd, (char *)bytes + done, length - done, MSG_DONTWAIT);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EAGAIN)
            return false;
        else
            turns(1);
        if (weft__now_ns() > until) fail_msg("nothing came");
    }
    return true;
}

static inline bool raw_closed(int fd)
{
    char byte;
    return !raw_receive(fd, &byte, 1);
}

/* Connects to rank `to` as rank `from`, with the pair of whom those keys are; returns the verdict, 0 if there was none. */
static inline int raw_join(int fd, int from, int to, const weft__keys *with)
{
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    weft__tcp_judgement judgement;
    weft__keys as = *with;
    weft__tcp_standing standing;
    uint8_t verdict;
    memcpy(as.job, keys.job, sizeof as.job); /* that is public, as are the ranks' public keys */
    as.ranks = rank_keys;
    assert_true(weft__tcp_hello_make(&h, &as, from, to, WEFT__TCP_WIRE_PLAIN, &hello));
    raw_send(fd, &hello, sizeof hello);
    if (!raw_receive(fd, &answer, sizeof answer) || !weft__tcp_answer_take(&h, &answer)) return 0;
    weft__tcp_proof_make(&h, &(weft__tcp_standing){0}, &proof);
    raw_send(fd, &proof, sizeof proof);
    if (!raw_receive(fd, &judgement, sizeof judgement)) return 0;
    return weft__tcp_verdict_take(&h, &judgement, &verdict, &standing) ? verdict : 0;
}

/* A rank has dialled: its hello is answered with those keys; with other keys than the job's, as well as that goes.  True: its
 * proof is good. */
static inline bool raw_answer(int fd, const weft__keys *with, weft__tcp_handshake *h)
{
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    weft__tcp_standing standing;
    weft__keys as = *with;
    bool knows;
    as.ranks = rank_keys;
    assert_true(raw_receive(fd, &hello, sizeof hello));
    knows = weft__tcp_hello_take(h, &as, &hello);
    assert_true(weft__tcp_answer_make(h, &answer));
    raw_send(fd, &answer, sizeof answer);
    return raw_receive(fd, &proof, sizeof proof) && knows && weft__tcp_proof_take(h, &proof, &standing);
}

static inline void raw_judge(int fd, weft__tcp_handshake *h, int verdict)
{
    weft__tcp_judgement judgement;
    weft__tcp_verdict_make(h, (uint8_t)verdict, &(weft__tcp_standing){0}, &judgement);
    raw_send(fd, &judgement, sizeof judgement);
}

static inline int finish(void **state)
{
    (void)state;
    close_world();
    return 0;
}
/* Rank `me` of two; the test plays the other one by hand, behind the listening socket that is returned. */
static inline int open_beside_one_by_hand(int me)
{
    weft__tcp_address addresses[2];
    int fd[2];
    memset(ranks, 0, sizeof ranks);
    draw_keys_of_job();
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft__tcp_listen("127.0.0.1", &fd[i], &addresses[i]), WEFT_OK);
    ranks[!me].address = addresses[!me];
    open_rank(me, 2, addresses, fd[me]);
    return fd[!me];
}
#endif
