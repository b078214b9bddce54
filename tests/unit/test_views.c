/* test_views.c - who is in the job, message by message: whom a view leaves out, who may decide, what is refused.  What holds
 * in whatever order messages come is played by tests/protocols/views_game.c. */
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

static void send(void *arg, int to, const weft__view_message *message, size_t bytes)
{
    queued *q = &queue[queue_tail++];
    assert_in_range(queue_tail, 1, QUEUED_MOST);
    assert_in_range(bytes, 1, MESSAGE_BYTES);
    *q = (queued){.from = (int)((int *)arg - decisions), .to = to, .bytes = bytes};
    memcpy(q->message, message, bytes);
}

static void decided(void *arg)
{
    ++*(int *)arg;
}

static void open_job(int n, weft__quorum quorum)
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

static void close_job(void)
{
    for (int i = 0; i < ranks; i++) weft__views_free(views[i]);
}

static void ask_witness(const queued *q)
{
    queued answer = {.from = ranks, .to = q->from};
    answer.bytes = weft__acceptor_take(&witness, (const void *)q->message, q->bytes, (void *)answer.message);
    if (!answer.bytes) return;
    assert_in_range(queue_tail, 0, QUEUED_MOST - 1);
    queue[queue_tail++] = answer;
}

/* All words arrive, but for those to and from who is cut off. */
static void deliver(void)
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

static void wait_long(void)
{
    for (int i = 0; i < 100; i++) {
        now_ns += 50 * WEFT__MS;
        for (int rank = 0; rank < ranks; rank++) (void)weft__views_check(views[rank], now_ns);
        deliver();
    }
}

static unsigned members(int rank)
{
    unsigned set = 0;
    for (int i = 0; i < ranks; i++) set |= (unsigned)weft__views_has(views[rank], i) << i;
    return set;
}

static void has_view(int rank, uint32_t number, unsigned set)
{
    assert_int_equal(weft__views_number(views[rank]), number);
    assert_int_equal(members(rank), set);
}

/* Those of that set presume the others dead, and want to go on. */
static void go_on(unsigned set)
{
    for (int i = 0; i < ranks; i++)
        for (int of = 0; of < ranks; of++)
            if (set >> i & 1 && !(set >> of & 1)) weft__views_presume_dead(views[i], of, now_ns);
    for (int i = 0; i < ranks; i++)
        if (set >> i & 1) weft__views_want(views[i], now_ns);
    deliver();
}

static void test_who_is_left_out_is_told(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    cut[2] = true;
    go_on(3);
    wait_long();
    has_view(0, 2, 3);
    has_view(1, 2, 3);
    has_view(2, 1, 7);
    cut[2] = false;
    weft__views_want(views[2], now_ns);
    deliver();
    has_view(2, 2, 3);
    assert_int_equal(weft__views_state_of(views[2]), WEFT__VIEWS_OUT);
    assert_int_equal(decisions[2], 1);
    weft__views_want(views[2], now_ns); /* for ever */
    assert_int_equal(weft__views_state_of(views[2]), WEFT__VIEWS_OUT);
    close_job();
}

/* Rank 3 lives as far as anybody knows, and says nothing: it is waited for a while, and is in the view then. */
static void test_who_does_not_answer_holds_nobody_up(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    cut[3] = cut[4] = true;
    for (int i = 0; i < 3; i++) weft__views_presume_dead(views[i], 4, now_ns);
    weft__views_want(views[0], now_ns);
    deliver();
    now_ns += 149 * WEFT__MS;
    for (int i = 0; i < 3; i++) (void)weft__views_check(views[i], now_ns);
    deliver();
    has_view(0, 1, 31);
    now_ns += WEFT__MS;
    (void)weft__views_check(views[0], now_ns);
    deliver();
    for (int i = 0; i < 3; i++) has_view(i, 2, 15);
    has_view(3, 1, 31);
    cut[3] = false;
    weft__views_want(views[3], now_ns); /* whatever it says now */
    deliver();
    for (int i = 0; i < 4; i++) assert_in_range(weft__views_number(views[i]), 2, 3);
    for (int i = 0; i < 4; i++) assert_int_equal(members(i), 15);
    close_job();
}

/* Two of five answer: that is no quorum, however long it waits. */
static void test_too_few_answer(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    cut[2] = cut[3] = cut[4] = true;
    weft__views_presume_dead(views[0], 4, now_ns);
    weft__views_want(views[0], now_ns);
    wait_long();
    for (int i = 0; i < 2; i++) has_view(i, 1, 31);
    cut[2] = false;
    wait_long();
    for (int i = 0; i < 3; i++) has_view(i, 2, 15);
    close_job();
}

/* It hears of the view that it is not in by the word that decided it, and asks nobody. */
static void test_who_lives_after_all_is_told_at_once(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    weft__views_presume_dead(views[0], 2, now_ns);
    cut[2] = true;
    weft__views_want(views[0], now_ns);
    while (queue_head < queue_tail && !decisions[0]) { /* until it is decided */
        queued q = queue[queue_head++];
        if (q.to != 2) weft__views_take(views[q.to], q.from, (const void *)q.message, q.bytes, now_ns);
    }
    cut[2] = false;
    deliver();
    assert_int_equal(weft__views_state_of(views[2]), WEFT__VIEWS_OUT);
    close_job();
}

/* Which parts of how many go on. */
static void test_quorums(void **state)
{
    static const struct {
        int ranks;
        unsigned part;
        weft__quorum quorum;
        bool goes_on, no_witness;
    } rows[] = {
        {2, 1, WEFT__QUORUM_MAJORITY, true, false},      {2, 2, WEFT__QUORUM_MAJORITY, false, false},
        {3, 1, WEFT__QUORUM_MAJORITY, false, false},     {3, 6, WEFT__QUORUM_MAJORITY, true, false},
        {4, 3, WEFT__QUORUM_MAJORITY, true, false},      {4, 12, WEFT__QUORUM_MAJORITY, false, false},
        {4, 14, WEFT__QUORUM_MAJORITY, true, false},     {5, 3, WEFT__QUORUM_MAJORITY, false, false},
        {9, 0x1e0, WEFT__QUORUM_MAJORITY, false, false}, {9, 0x1f0, WEFT__QUORUM_MAJORITY, true, false},
        {3, 4, WEFT__QUORUM_ANY, true, false},           {2, 2, WEFT__QUORUM_ANY, true, false},
        {2, 1, WEFT__QUORUM_WITNESS, true, false},       {2, 2, WEFT__QUORUM_WITNESS, true, false},
        {4, 3, WEFT__QUORUM_WITNESS, true, false},       {4, 12, WEFT__QUORUM_WITNESS, true, false},
        {8, 0xf0, WEFT__QUORUM_WITNESS, true, false},    {4, 8, WEFT__QUORUM_WITNESS, false, false},
        {3, 1, WEFT__QUORUM_WITNESS, false, false},      {4, 3, WEFT__QUORUM_WITNESS, false, true},
        {4, 12, WEFT__QUORUM_WITNESS, false, true},      {4, 7, WEFT__QUORUM_WITNESS, true, true}};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        open_job(rows[r].ranks, rows[r].quorum);
        for (int i = 0; i < ranks; i++) cut[i] = !(rows[r].part >> i & 1);
        cut[ranks] = rows[r].no_witness;
        go_on(rows[r].part);
        wait_long();
        for (int i = 0; i < ranks; i++) {
            if (cut[i]) continue;
            assert_int_equal(weft__views_can_decide(views[i], !rows[r].no_witness), rows[r].goes_on);
            has_view(i, rows[r].goes_on ? 2 : 1, rows[r].goes_on ? rows[r].part : (1U << ranks) - 1);
        }
        close_job();
    }
}

/* Both halves live, and each of them reaches the witness: one goes on, and the other one is told so by it. */
static void test_halves_with_a_witness(void **state)
{
    int on, off;
    (void)state;
    open_job(4, WEFT__QUORUM_WITNESS);
    side[2] = side[3] = 1;
    go_on(3);
    go_on(12);
    wait_long();
    on = weft__views_state_of(views[0]) == WEFT__VIEWS_OUT ? 2 : 0;
    off = 2 - on;
    for (int i = on; i < on + 2; i++) has_view(i, 2, 3U << on);
    for (int i = off; i < off + 2; i++) assert_int_equal(weft__views_state_of(views[i]), WEFT__VIEWS_OUT);
    cut[on + 1] = true; /* and the half of that half */
    go_on(1U << on);
    wait_long();
    has_view(on, 3, 1U << on);
    close_job();
}

/* A late one is waited for no longer than where there is no witness, and the witness is not asked for what a majority has. */
static void test_the_witness_is_asked_for_a_half_alone(void **state)
{
    (void)state;
    open_job(4, WEFT__QUORUM_WITNESS);
    cut[3] = true;
    go_on(7);
    wait_long();
    for (int i = 0; i < 3; i++) has_view(i, 2, 7);
    assert_int_equal(witness.promised, 0);
    assert_int_equal(witness.view, 2); /* but told what there is */
    close_job();
}

/* One of three is left, and knows for certain that the others have died: it needs nobody's vote. */
static void test_by_proof(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    cut[0] = cut[1] = true;
    weft__views_presume_dead(views[2], 0, now_ns);
    weft__views_died(views[2], 1, now_ns);
    weft__views_want(views[2], now_ns);
    wait_long();
    has_view(2, 1, 7);
    assert_false(weft__views_can_decide(views[2], false));
    weft__views_died(views[2], 0, now_ns);
    has_view(2, 2, 4);
    close_job();
}

/* Rank 1 of three dies once it has voted for {1 2}, and 2 knows that view.  Its vote counts on: 0 cannot go on alone. */
static void test_the_vote_of_the_dead_counts(void **state)
{
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    cut[0] = true;
    go_on(6);
    wait_long();
    has_view(2, 2, 6);
    cut[0] = false;
    cut[1] = cut[2] = true;
    weft__views_died(views[0], 1, now_ns);
    go_on(1);
    wait_long();
    has_view(0, 1, 7);
    cut[2] = false;
    wait_long();
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_OUT);
    close_job();
}

/* Who owns a ballot that is not the latest gives way, and both come to the same. */
static void test_two_ballots_at_once(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS_MOST; n++) {
        open_job(n, WEFT__QUORUM_MAJORITY);
        for (int i = 0; i < n; i++) weft__views_want(views[i], now_ns);
        deliver();
        wait_long();
        for (int i = 0; i < n; i++) {
            assert_true(weft__views_number(views[i]) > 1);
            assert_int_equal(weft__views_number(views[i]), weft__views_number(views[0]));
            assert_int_equal(members(i), (1U << n) - 1);
            assert_int_equal(weft__views_state_of(views[i]), WEFT__VIEWS_RESTING);
        }
        close_job();
    }
}

/* All words that tell ranks 3 and 4 of the view are lost: 3 is late, and in it, and 4 is not.  Neither says anything, nor does
 * anybody else want anything more. */
static void decide_unheard(void)
{
    open_job(6, WEFT__QUORUM_MAJORITY);
    cut[3] = cut[4] = true;
    weft__views_presume_dead(views[1], 4, now_ns);
    weft__views_want(views[1], now_ns);
    deliver();
    now_ns += 150 * WEFT__MS;
    (void)weft__views_check(views[1], now_ns);
    deliver();
    for (int i = 0; i < 3; i++) has_view(i, 2, 47);
    for (int i = 3; i < 5; i++) has_view(i, 1, 63);
    cut[3] = cut[4] = false;
}

static void test_who_has_not_heard_of_a_view_is_told_again(void **state)
{
    (void)state;
    decide_unheard();
    wait_long();
    has_view(3, 2, 47);
    assert_int_equal(weft__views_state_of(views[3]), WEFT__VIEWS_RESTING);
    has_view(4, 2, 47);
    assert_int_equal(weft__views_state_of(views[4]), WEFT__VIEWS_OUT);
    for (int i = 0; i < ranks; i++) { /* and then it is quiet */
        assert_int_equal(decisions[i], 1);
        assert_true(weft__views_check(views[i], now_ns) == WEFT__NEVER);
    }
    close_job();
}

/* Rank 2 would have told rank 3, and is gone: to the one before it that is reason enough. */
static void test_behind_one_that_is_gone_they_are_told_too(void **state)
{
    (void)state;
    for (int certain = 0; certain < 2; certain++) {
        decide_unheard();
        cut[2] = true;
        now_ns += 1000 * WEFT__MS;
        (void)weft__views_check(views[1], now_ns);
        assert_int_not_equal(queue_tail, 0); /* nobody has answered it yet */
        deliver();
        has_view(3, 1, 63);
        if (certain)
            weft__views_died(views[1], 2, now_ns);
        else
            weft__views_presume_dead(views[1], 2, now_ns);
        assert_in_range(weft__views_check(views[1], now_ns) - now_ns, 1, 50 * WEFT__MS);
        wait_long();
        has_view(3, 2, 47);
        close_job();
    }
}

/* Nobody counts on it: an answer that does not come is waited for ever longer. */
static void test_who_says_nothing_of_a_view_is_asked_less_and_less(void **state)
{
    int times = 0;
    (void)state;
    decide_unheard();
    while (now_ns < 3600 * 1000 * WEFT__MS) {
        int64_t next = weft__views_check(views[2], now_ns);
        assert_true(next > now_ns && next != WEFT__NEVER);
        now_ns = next;
        times += queue_tail > 0;
        queue_tail = 0;
    }
    assert_in_range(times, 10, 18);
    close_job();
}

typedef struct said {
    uint32_t word, view;
    uint64_t ballot, vote_at;
    unsigned char members, ranks;
} said;

/* Said to rank 0. */
static bool is_taken_from(int from, said is, size_t bytes)
{
    _Alignas(weft__view_message) unsigned char bytes_of[MESSAGE_BYTES] = {0};
    weft__view_message *m = (void *)bytes_of;
    *m = (weft__view_message){is.word, is.view, is.ballot, is.vote_at};
    m->sets[0] = is.members;
    m->sets[1] = is.ranks;
    return weft__views_take(views[0], from, m, bytes, now_ns);
}

static bool is_taken(said is, size_t bytes)
{
    return is_taken_from(1, is, bytes);
}

#define DISTANT ((UINT64_C(1) << 60) + 1) /* a ballot of rank 1 of three */

static void test_refuses_what_no_rank_says(void **state)
{
    static const size_t whole = sizeof(weft__view_message) + 2;
    static const said sound[] = {{WEFT__VIEW_PREPARE, 1, 2, 0, 7, 0},
                                 {WEFT__VIEW_PROMISE, 1, 9, 0, 7, 0},
                                 {WEFT__VIEW_PROMISE, 1, 9, 4, 7, 3},
                                 {WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 3},
                                 {WEFT__VIEW_ACCEPTED, 1, 5, 0, 7, 0}};
    static const said unsound[] = {{0, 1, 2, 0, 7, 0},
                                   {WEFT__VIEW_WHICH + 1, 1, 2, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 0, 2, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 1, 0, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 1, DISTANT, 0, 7, 0}, /* no rank comes so far */
                                   {WEFT__VIEW_PROMISE, 1, DISTANT, 0, 7, 0},
                                   {WEFT__VIEW_IS, UINT32_MAX, 0, 0, 7, 0},
                                   {WEFT__VIEW_IS, UINT32_MAX / 4, 0, 0, 7, 0},
                                   {WEFT__VIEW_PREPARE, 1, 3, 0, 7, 0}, /* a ballot of rank 2 */
                                   {WEFT__VIEW_PREPARE, 1, 2, 0, 0, 0},
                                   {WEFT__VIEW_PREPARE, 1, 2, 0, 5, 0},  /* it is not in its own view */
                                   {WEFT__VIEW_PREPARE, 1, 2, 0, 15, 0}, /* there is no rank 3 */
                                   {WEFT__VIEW_PROMISE, 1, 4, 9, 7, 3},
                                   {WEFT__VIEW_PROMISE, 1, UINT64_MAX, 0, 7, 0},
                                   {WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 0},
                                   {WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 8},
                                   {WEFT__VIEW_ACCEPT, 1, 5, 0, 3, 5},
                                   {WEFT__VIEW_IS, 2, 0, 0, 0, 0}};
    (void)state;
    open_job(3, WEFT__QUORUM_MAJORITY);
    for (size_t i = 0; i < sizeof unsound / sizeof *unsound; i++) assert_false(is_taken(unsound[i], whole));
    assert_int_equal(queue_tail, 0);
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        assert_true(is_taken(sound[i], whole));
        assert_false(is_taken(sound[i], whole - 1));
        assert_false(is_taken(sound[i], whole + 1));
    }
    assert_false(
        is_taken((said){WEFT__VIEW_ACCEPT, 1, 5, 0, 7, 1}, whole)); /* it has proposed another one in that */
    has_view(0, 1, 7);
    assert_true(is_taken((said){WEFT__VIEW_IS, 4, 0, 0, 5, 0}, whole));
    has_view(0, 4, 5);
    assert_true(is_taken((said){WEFT__VIEW_IS, 5, 0, 0, 7, 0}, whole)); /* nobody comes back: it is dropped */
    has_view(0, 4, 5);
    close_job();
}

/* What rank 0 says next in that ballot, to anybody: of that kind. */
static const weft__view_message *next_said(uint32_t word, uint64_t ballot)
{
    while (queue_head < queue_tail) {
        const weft__view_message *m = (const void *)queue[queue_head++].message;
        if (m->word == word && m->ballot == ballot) return m;
    }
    fail_msg("word %u of ballot %u is not said", word, (unsigned)ballot);
    return NULL;
}

enum { WHOLE = sizeof(weft__view_message) + 2 };

/* Whichever order they come in. */
static void test_the_newest_vote_is_proposed(void **state)
{
    static const said votes[] = {{WEFT__VIEW_PROMISE, 1, 11, 2, 31, 7},
                                 {WEFT__VIEW_PROMISE, 1, 11, 3, 31, 13}};
    (void)state;
    for (int first = 0; first < 2; first++) {
        open_job(5, WEFT__QUORUM_MAJORITY);
        for (int of = 3; of < 5; of++) weft__views_presume_dead(views[0], of, now_ns);
        assert_true(is_taken_from(4, (said){WEFT__VIEW_PREPARE, 1, 10, 0, 31, 0}, WHOLE));
        weft__views_want(views[0], now_ns);
        now_ns += 1000 * WEFT__MS;
        (void)weft__views_check(views[0], now_ns);
        (void)next_said(WEFT__VIEW_PREPARE, 11);
        assert_true(is_taken_from(1 + first, votes[first], WHOLE));
        assert_true(is_taken_from(2 - first, votes[!first], WHOLE));
        assert_int_equal(next_said(WEFT__VIEW_ACCEPT, 11)->sets[1], 13);
        close_job();
    }
}

/* 2, 3 and 4 of five go on by themselves and die; 1 has proof of that, and asks 0 for its vote, which has none yet.  What 2 has
 * said of their view reaches 0 only behind that: 0 is out, and so is 1.  It comes too late once 0 has proof as well. */
static void test_what_the_dead_have_said_comes_late(void **state)
{
    const said view = {WEFT__VIEW_IS, 2, 0, 0, 28, 0};
    (void)state;
    for (int too_late = 0; too_late < 2; too_late++) {
        open_job(5, WEFT__QUORUM_MAJORITY);
        cut[0] = cut[1] = true;
        go_on(28);
        wait_long();
        has_view(2, 2, 28);
        cut[0] = cut[1] = false;
        cut[2] = cut[3] = cut[4] = true;
        for (int of = 2; of < 5; of++) weft__views_died(views[1], of, now_ns);
        weft__views_want(views[1], now_ns);
        deliver();
        wait_long();
        has_view(1, 1, 31);
        for (int of = 2; of < 5 && too_late; of++) weft__views_died(views[0], of, now_ns);
        assert_true(is_taken_from(2, view, WHOLE)); /* its vote, which counts now, is still on its way */
        deliver();
        wait_long();
        for (int i = 0; i < 2; i++) {
            has_view(i, 2, too_late ? 3 : 28);
            assert_int_equal(weft__views_state_of(views[i]),
                             too_late ? WEFT__VIEWS_RESTING : WEFT__VIEWS_OUT);
        }
        close_job();
    }
}

/* Who has asked for votes hears of the last death only behind them: they are given once more. */
static void test_votes_are_renewed_by_proof(void **state)
{
    (void)state;
    open_job(4, WEFT__QUORUM_MAJORITY);
    cut[0] = cut[1] = true;
    weft__views_died(views[3], 0, now_ns);
    weft__views_presume_dead(views[3], 1, now_ns);
    for (int of = 0; of < 2; of++) weft__views_died(views[2], of, now_ns);
    weft__views_want(views[3], now_ns);
    wait_long();
    has_view(3, 1, 15);
    weft__views_died(views[3], 1, now_ns);
    wait_long();
    for (int i = 2; i < 4; i++) has_view(i, 2, 12);
    close_job();
}

/* One that was on its way while its ballot gave way to another. */
static void test_a_vote_counts_in_its_ballot(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    for (int of = 3; of < 5; of++) weft__views_presume_dead(views[0], of, now_ns);
    weft__views_want(views[0], now_ns);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_PROMISE, 1, 1, 0, 31, 0}, WHOLE));
    (void)next_said(WEFT__VIEW_ACCEPT, 1);
    assert_true(is_taken_from(1, (said){WEFT__VIEW_PREPARE, 1, 2, 0, 31, 0}, WHOLE));
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PAUSING);
    now_ns += 1000 * WEFT__MS;
    (void)weft__views_check(views[0], now_ns);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_PROMISE, 1, 6, from == 1 ? 2 : 0, 31, 6}, WHOLE));
    assert_int_equal(next_said(WEFT__VIEW_ACCEPT, 6)->sets[1], 6);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_ACCEPTED, 1, 1, 0, 31, 0}, WHOLE));
    has_view(0, 1, 31);
    for (int from = 1; from < 3; from++)
        assert_true(is_taken_from(from, (said){WEFT__VIEW_ACCEPTED, 1, 6, 0, 31, 0}, WHOLE));
    has_view(0, 2, 6); /* it has decided that it is not in it */
    close_job();
}

/* Rank 0, whose own has given way to one, hears of the next: that may have to wait for somebody too. */
static void test_each_later_ballot_has_its_time(void **state)
{
    int64_t next;
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    weft__views_want(views[0], now_ns);
    for (unsigned rank = 1; rank < 4; rank++) {
        assert_true(is_taken_from((int)rank, (said){WEFT__VIEW_PREPARE, 1, rank + 1, 0, 31, 0}, WHOLE));
        assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PAUSING);
        next = weft__views_check(views[0], now_ns);
        assert_in_range(next - now_ns, 150 * WEFT__MS, 1000 * WEFT__MS);
        now_ns = next - 1;
    }
    (void)weft__views_check(views[0], next);
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PREPARING);
    close_job();
}

/* Rank 0, which wants nothing itself, goes on where rank 4 falls silent: no later for each ballot that rank 4 has begun. */
static void test_who_wants_nothing_waits_alike(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    for (unsigned ballot = 5; ballot <= 40; ballot += 5) {
        now_ns += 10 * WEFT__MS;
        assert_true(is_taken_from(4, (said){WEFT__VIEW_PREPARE, 1, ballot, 0, 31, 0}, WHOLE));
        assert_in_range(weft__views_check(views[0], now_ns) - now_ns, 300 * WEFT__MS, 340 * WEFT__MS);
    }
    close_job();
}

/* And where its own has given way, to one that it hears of by the way, that one has as long. */
static void test_who_wants_nothing_leaves_time(void **state)
{
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    assert_true(is_taken_from(4, (said){WEFT__VIEW_PREPARE, 1, 5, 0, 31, 0}, WHOLE));
    now_ns = weft__views_check(views[0], now_ns);
    (void)weft__views_check(views[0], now_ns);
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PREPARING);
    assert_true(is_taken_from(1, (said){WEFT__VIEW_PROMISE, 1, 9, 0, 31, 0}, WHOLE));
    assert_int_equal(weft__views_state_of(views[0]), WEFT__VIEWS_PAUSING);
    assert_in_range(weft__views_check(views[0], now_ns) - now_ns, 400 * WEFT__MS, 440 * WEFT__MS);
    close_job();
}

/* Cut off from all others it says less and less; until one answers. */
static void test_what_nobody_answers_is_said_less_and_less(void **state)
{
    int times = 0;
    (void)state;
    open_job(5, WEFT__QUORUM_MAJORITY);
    weft__views_want(views[0], now_ns);
    while (now_ns < 20000 * WEFT__MS) {
        int64_t next = weft__views_check(views[0], now_ns);
        assert_in_range(next - now_ns, 1, 2000 * WEFT__MS);
        now_ns = next;
        times += queue_tail > 0;
        queue_tail = 0;
    }
    assert_in_range(times, 10, 16);
    assert_true(is_taken_from(1, (said){WEFT__VIEW_PROMISE, 1, 1, 0, 31, 0}, WHOLE)); /* one is not enough */
    assert_in_range(weft__views_check(views[0], now_ns) - now_ns, 1, 50 * WEFT__MS);
    close_job();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_left_out_is_told),
        cmocka_unit_test(test_who_does_not_answer_holds_nobody_up),
        cmocka_unit_test(test_too_few_answer),
        cmocka_unit_test(test_who_lives_after_all_is_told_at_once),
        cmocka_unit_test(test_who_has_not_heard_of_a_view_is_told_again),
        cmocka_unit_test(test_behind_one_that_is_gone_they_are_told_too),
        cmocka_unit_test(test_who_says_nothing_of_a_view_is_asked_less_and_less),
        cmocka_unit_test(test_quorums),
        cmocka_unit_test(test_halves_with_a_witness),
        cmocka_unit_test(test_the_witness_is_asked_for_a_half_alone),
        cmocka_unit_test(test_by_proof),
        cmocka_unit_test(test_the_vote_of_the_dead_counts),
        cmocka_unit_test(test_two_ballots_at_once),
        cmocka_unit_test(test_each_later_ballot_has_its_time),
        cmocka_unit_test(test_who_wants_nothing_waits_alike),
        cmocka_unit_test(test_who_wants_nothing_leaves_time),
        cmocka_unit_test(test_refuses_what_no_rank_says),
        cmocka_unit_test(test_the_newest_vote_is_proposed),
        cmocka_unit_test(test_what_the_dead_have_said_comes_late),
        cmocka_unit_test(test_votes_are_renewed_by_proof),
        cmocka_unit_test(test_a_vote_counts_in_its_ballot),
        cmocka_unit_test(test_what_nobody_answers_is_said_less_and_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
