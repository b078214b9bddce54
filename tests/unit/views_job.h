/* views_job.h - ranks that agree on views, with all that they say to each other in one queue: what tests of views share. */
#ifndef TESTS_UNIT_VIEWS_JOB_H
#define TESTS_UNIT_VIEWS_JOB_H
#include "acceptor.h"
#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_MOST = 12, QUEUED_MOST = 512, MESSAGE_BYTES = sizeof(weft__view_message) + 4 };

typedef struct queued {
    int from, to;
    size_t bytes;
    _Alignas(weft__view_message) unsigned char message[MESSAGE_BYTES];
} queued;

static int ranks;
static weft__views *views[RANKS_MOST];
static int decisions[RANKS_MOST];
static bool cut[RANKS_MOST + 1]; /* nothing comes from it or reaches it; the last one is the witness */
static int side[RANKS_MOST];     /* words between ranks of two sides are lost */
static weft__acceptor witness;
static queued queue[QUEUED_MOST];
static int queue_head, queue_tail;
static int64_t now_ns;

static inline void send(void *arg, int to, const weft__view_message *message, size_t bytes)
{
    queued *q = &queue[queue_tail++];
    assert_in_range(queue_tail, 1, QUEUED_MOST);
    assert_in_range(bytes, 1, MESSAGE_BYTES);
    *q = (queued){.from = (int)((int *)arg - decisions), .to = to, .bytes = bytes};
    memcpy(q->message, message, bytes);
}

static inline void decided(void *arg)
{
    ++*(int *)arg;
}

static inline void open_job(int n, weft__quorum quorum)
{
    ranks = n;
    queue_head = queue_tail = 0;
    now_ns = 0;
    memset(decisions, 0, sizeof decisions);
    memset(cut, 0, sizeof cut);
    memset(side, 0, sizeof side);
    weft__acceptor_init(&witness, n);
    for (int i = 0; i < n; i++) {
        weft__views_events events = {send, decided, &decisions[i]};
        views[i] = weft__views_new(i, n, quorum, (uint64_t)i, events);
        assert_non_null(views[i]);
    }
}

static inline void close_job(void)
{
    for (int i = 0; i < ranks; i++) weft__views_free(views[i]);
}

static inline void ask_witness(const queued *q)
{
    queued answer = {.from = ranks, .to = q->from};
    answer.bytes = weft__acceptor_take(&witness, (const void *)q->message, q->bytes, (void *)answer.message);
    if (!answer.bytes) return;
    assert_in_range(queue_tail, 0, QUEUED_MOST - 1);
    queue[queue_tail++] = answer;
}

/* All words arrive, but for those to and from who is cut off. */
static inline void deliver(void)
{
    while (queue_head < queue_tail) {
        queued q = queue[queue_head++];
        if (cut[q.from] || cut[q.to]) continue;
        if (q.to == ranks) {
            ask_witness(&q);
            continue;
        }
        if (q.from != ranks && side[q.from] != side[q.to]) continue;
        assert_true(weft__views_take(views[q.to], q.from, (const void *)q.message, q.bytes, now_ns));
    }
    queue_head = queue_tail = 0;
}

static inline void wait_long(void)
{
    for (int i = 0; i < 100; i++) {
        now_ns += 50 * WEFT__MS;
        for (int rank = 0; rank < ranks; rank++) (void)weft__views_check(views[rank], now_ns);
        deliver();
    }
}

static inline unsigned members(int rank)
{
    unsigned set = 0;
    for (int i = 0; i < ranks; i++) set |= (unsigned)weft__views_has(views[rank], i) << i;
    return set;
}

static inline void has_view(int rank, uint32_t number, unsigned set)
{
    assert_int_equal(weft__views_number(views[rank]), number);
    assert_int_equal(members(rank), set);
}

/* Those of that set presume the others dead, and want to go on. */
static inline void go_on(unsigned set)
{
    for (int i = 0; i < ranks; i++)
        for (int of = 0; of < ranks; of++)
            if (set >> i & 1 && !(set >> of & 1)) weft__views_presume_dead(views[i], of, now_ns);
    for (int i = 0; i < ranks; i++)
        if (set >> i & 1) weft__views_want(views[i], now_ns);
    deliver();
}

typedef struct said {
    uint32_t word, view;
    uint64_t ballot, vote_at;
    unsigned char members, ranks;
} said;

enum { WHOLE = sizeof(weft__view_message) + 2 };

/* Said to rank 0. */
static inline bool is_taken_from(int from, said is, size_t bytes)
{
    _Alignas(weft__view_message) unsigned char bytes_of[MESSAGE_BYTES] = {0};
    weft__view_message *m = (void *)bytes_of;
    *m = (weft__view_message){is.word, is.view, is.ballot, is.vote_at};
    m->sets[0] = is.members;
    m->sets[1] = is.ranks;
    return weft__views_take(views[0], from, m, bytes, now_ns);
}

static inline bool is_taken(said is, size_t bytes)
{
    return is_taken_from(1, is, bytes);
}

/* What rank 0 says next in that ballot, to anybody: of that kind. */
static inline const weft__view_message *next_said(uint32_t word, uint64_t ballot)
{
    while (queue_head < queue_tail) {
        const weft__view_message *m = (const void *)queue[queue_head++].message;
        if (m->word == word && m->ballot == ballot) return m;
    }
    fail_msg("word %u of ballot %u is not said", word, (unsigned)ballot);
    return NULL;
}
#endif
