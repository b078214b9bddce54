/* test_interleaved.c - the order of groups in program order: who is told of it, that any difference from what another rank
 * tells is found, whichever of the two is ahead, and that no order which both share is taken for one. */
#include "engine.h"
#include "group_break.h"
#include "interleaving.h"
#include "lone_rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OTHER = 4, A, B, C, D, GROUPS = 3 /* from the beginning */ };

typedef struct stretch {
    uint64_t group, before, last;
} stretch;

typedef struct word {
    uint64_t count;
    stretch of[2 * WEFT__INTERLEAVED_MOST];
} word;

static word last; /* message that this rank has sent */
static int messages;
static uint64_t stretches; /* in all of them */
static weft_context *ctx;
static weft_group *groups[GROUPS + 1];
static uint64_t heard[GROUPS + 1]; /* from the other one */
static word next;                  /* what it tells next */

static void note_sent(const weft__outgoing *out)
{
    if (out->frame.kind != WEFT__FRAME_CONTROL || out->frame.tag != WEFT__MESSAGE_INTERLEAVED) return;
    assert_true(out->frame.length <= sizeof last);
    memcpy(&last, out->payload, out->frame.length);
    assert_int_equal(out->frame.length, 8 + last.count * sizeof last.of[0]);
    messages++;
    stretches += last.count;
}

static void make_ready(weft_group *made, int id, bool program)
{
    weft__group_params params = weft__own_params(ctx);
    assert_non_null(made);
    made->owner = WEFT__OF_CONTEXT;
    params.program = program;
    weft__engine_take(ctx);
    assert_int_equal(weft__group_ready(made, (uint64_t)id, &params), WEFT_OK);
    weft__engine_drop(ctx);
}

static weft_group *make_group_of(int id, const int *ranks, int size, bool program)
{
    const char label[] = {(char)('a' + id - A), 0};
    weft_group *made = weft__group_new(ctx, ranks, size, label, WEFT_FOREVER);
    make_ready(made, id, program);
    return made;
}

static weft_group *make_group(int id, int with, bool program)
{
    return make_group_of(id, (const int[]){LONE_ME, with}, 2, program);
}

static int begin_alone(void **state)
{
    (void)state;
    messages = 0;
    stretches = 0;
    memset(groups, 0, sizeof groups);
    memset(heard, 0, sizeof heard);
    memset(&next, 0, sizeof next);
    ctx = lone_rank_open((lone_wires){note_sent, NULL});
    return 0;
}

static int begin(void **state)
{
    begin_alone(state);
    for (int i = 0; i < GROUPS; i++) groups[i] = make_group(A + i, OTHER, true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lone_rank_close(ctx);
    return 0;
}

static bool differs(void)
{
    int n = 0;
    for (int i = 0; i <= GROUPS; i++) n += groups[i] && weft_group_status(groups[i]) == WEFT_ERR_MISMATCH;
    assert_true(n == 0 || n == 2);
    return n;
}

/* This rank begins that one. */
static bool begins(int id, uint64_t number)
{
    bool stays;
    weft__engine_take(ctx);
    stays = weft__interleave(groups[id - A], number);
    weft__engine_drop(ctx);
    return stays;
}

static void all_is_told(void)
{
    weft__engine_take(ctx);
    assert_true(weft__interleaving_protocol.due(ctx, weft__now_ns() + 2 * WEFT__INTERLEAVED_AFTER_NS) ==
                WEFT__NEVER);
    weft__engine_drop(ctx);
}

/* ---- the other one ---- */

static void it_tells_as(int rank)
{
    if (!next.count) return;
    weft__engine_take(ctx);
    ctx->p2p_events.control(&ctx->p2p_events, rank, WEFT__MESSAGE_INTERLEAVED, &next,
                            8 + next.count * sizeof next.of[0]);
    weft__engine_drop(ctx);
    next.count = 0;
}

static void it_tells(void)
{
    it_tells_as(OTHER);
}

static void it_begins(int id, uint64_t number)
{
    if (next.count && next.of[next.count - 1].group == (uint64_t)id) {
        next.of[next.count - 1].last = number;
    } else {
        if (next.count == WEFT__INTERLEAVED_MOST) it_tells();
        next.of[next.count++] = (stretch){(uint64_t)id, heard[id - A], number};
    }
    heard[id - A] = number;
}

/* As a rank begins to tell. */
static void it_shows_groups(void)
{
    for (int i = 0; i < GROUPS; i++) next.of[next.count++] = (stretch){(uint64_t)(A + i), heard[i], heard[i]};
}

static void check_sentence(const char *three, const char *four)
{
    char expected[200];
    assert_true(differs());
    snprintf(expected, sizeof expected, "rank 3 began operation %s, rank 4 began %s", three, four);
    assert_non_null(strstr(weft_last_error(), expected));
}

/* ---- what is told ---- */

static void tells_nothing_of_one_group(void **state)
{
    (void)state;
    groups[0] = make_group(A, OTHER, true);
    groups[1] = make_group(B, LONE_NEAR, true); /* they share this rank alone */
    groups[2] = make_group(C, OTHER, false);
    for (uint64_t n = 1; n < 100; n++) {
        assert_true(begins(A, n));
        assert_true(begins(B, n));
        assert_true(begins(C, n));
    }
    all_is_told();
    assert_int_equal(messages, 0);
}

static void check_stretch(int at, int group, uint64_t before, uint64_t to)
{
    assert_int_equal(last.of[at].group, group);
    assert_int_equal(last.of[at].before, before);
    assert_int_equal(last.of[at].last, to);
}

static void tells_its_order(void **state)
{
    (void)state;
    assert_true(begins(A, 1));
    assert_true(begins(A, 2));
    assert_true(begins(B, 4));
    assert_true(begins(A, 7));
    assert_int_equal(messages, 0);
    weft__engine_take(ctx);
    assert_true(weft__interleaving_protocol.due(ctx, weft__now_ns()) <=
                weft__now_ns() + WEFT__INTERLEAVED_AFTER_NS);
    weft__engine_drop(ctx);
    assert_int_equal(messages, 0);
    all_is_told();
    assert_int_equal(messages, 1);
    assert_int_equal(last.count, 4);
    check_stretch(0, C, 0, 0); /* of which nothing has begun */
    check_stretch(1, A, 0, 2);
    check_stretch(2, B, 0, 4);
    check_stretch(3, A, 2, 7);
    for (uint64_t n = 8; n < 1000; n++) assert_true(begins(A, n)); /* with no other one between them */
    assert_int_equal(messages, 1);
    all_is_told();
    assert_int_equal(messages, 2);
    assert_int_equal(last.count, 1);
    check_stretch(0, A, 7, 999);
}

static void takes_a_message_for_32(void **state)
{
    enum { SUMS = 320 };
    (void)state;
    for (uint64_t n = 1; n <= SUMS; n++) assert_true(begins(n % 2 ? A : B, n));
    assert_int_equal(messages, SUMS / 32);
}

/* What began before there was another group is told as there is one. */
static void tells_of_what_was_before(void **state)
{
    (void)state;
    groups[0] = make_group(A, OTHER, true);
    groups[1] = groups[2] = NULL;
    assert_true(begins(A, 5));
    groups[1] = make_group(B, OTHER, true);
    all_is_told();
    assert_int_equal(messages, 1);
    assert_int_equal(last.count, 2);
    check_stretch(0, A, 5, 5);
    check_stretch(1, B, 0, 0);
}

/* It has heard of that one's order before it has any reason to tell its own. */
static void tells_nothing_of_an_order_before_it_tells(void **state)
{
    enum { BELOW = 2 };
    const int three[] = {BELOW, LONE_ME, OTHER};
    (void)state;
    groups[0] = make_group_of(A, three, 3, true);
    groups[1] = make_group_of(B, three, 3, true);
    groups[2] = NULL;
    it_shows_groups();
    it_tells_as(BELOW);
    assert_true(begins(A, 1));
    assert_true(begins(B, 1));
    assert_true(begins(A, 2));
    all_is_told();
    assert_int_equal(messages, 1);
    groups[2] = make_group(C, BELOW, true);
    all_is_told();
    assert_int_equal(messages, 2);
    assert_int_equal(last.count, 3);
    check_stretch(0, A, 2, 2);
    check_stretch(1, B, 1, 1);
    check_stretch(2, C, 0, 0);
}

static void tells_of_more_groups_than_have_room(void **state)
{
    enum { MANY = WEFT__INTERLEAVED_MOST + 8 };
    (void)state;
    for (int i = 0; i < MANY; i++) {
        weft_group *made =
            weft__group_new(ctx, (const int[]){LONE_ME, OTHER}, 2, "one of many", WEFT_FOREVER);
        make_ready(made, A + i, true);
        groups[0] = i ? groups[0] : made;
    }
    assert_true(begins(A, 1));
    all_is_told();
    assert_int_equal(messages, 2);
    assert_int_equal(stretches, MANY);
}

/* Else what another rank has begun on it and this one not would be behind all that this one begins elsewhere. */
static void tells_of_the_end_of_its_last_group(void **state)
{
    (void)state;
    assert_true(begins(A, 1));
    weft_group_abort(groups[B - A], "enough");
    weft_group_abort(groups[C - A], "enough");
    all_is_told();
    weft_group_abort(groups[0], "enough");
    all_is_told();
    check_stretch((int)last.count - 1, A, 1, UINT64_MAX);
}

/* A rank that leaves makes no connection for what nobody needs any more. */
static void tells_nothing_as_it_leaves(void **state)
{
    (void)state;
    assert_true(begins(A, 1));
    assert_true(begins(B, 1));
    weft__engine_take(ctx);
    assert_true(weft__interleaving_protocol.due(ctx, WEFT__NEVER) == WEFT__NEVER);
    weft__engine_drop(ctx);
    all_is_told();
    assert_int_equal(messages, 0);
}

/* Every job has one. */
static void counts_the_hosts_group_once_it_is_used(void **state)
{
    for (int heard_first = 0; heard_first < 2; heard_first++) {
        if (heard_first) begin_alone(state);
        groups[0] = make_group(A, OTHER, true);
        ctx->host_group = weft__group_new(ctx, (const int[]){LONE_ME, OTHER}, 2, "b", WEFT_FOREVER);
        make_ready(ctx->host_group, B, true);
        groups[1] = ctx->host_group;
        groups[2] = NULL;
        assert_true(begins(A, 1));
        all_is_told();
        assert_int_equal(messages, 0);
        if (heard_first) {
            next.of[next.count++] = (stretch){A, 0, 0};
            it_begins(B, 1);
            it_tells();
        } else {
            assert_true(begins(B, 1));
            next.of[next.count++] = (stretch){A, 0, 0};
            it_begins(B, 1);
            it_tells();
        }
        check_sentence("#1 on group a before #1 on group b", "#1 on group b before #1 on group a");
        if (!heard_first) end(state);
    }
}

/* ---- what is found ---- */

/* Each of the two waits for what it has begun, and nothing follows. */
static void finds_those_that_wait(void **state)
{
    it_shows_groups();
    it_begins(A, 1);
    assert_true(begins(B, 2));
    it_tells();
    check_sentence("#2 on group b before #1 on group a", "#1 on group a before #2 on group b");
    end(state);
    begin(state);
    it_shows_groups();
    it_begins(A, 1);
    it_tells();
    assert_false(begins(B, 2));
    check_sentence("#2 on group b before #1 on group a", "#1 on group a before #2 on group b");
}

static void finds_it_from_either_side(void **state)
{
    for (int mine_first = 0; mine_first < 2; mine_first++) {
        if (mine_first) begin(state);
        it_shows_groups();
        it_begins(A, 3);
        it_begins(B, 3);
        if (!mine_first) it_tells();
        if (begins(B, 3)) begins(A, 3);
        it_tells();
        check_sentence("#3 on group b before #3 on group a", "#3 on group a before #3 on group b");
        if (!mine_first) end(state);
    }
}

/* Orders that many ranks could have: of three groups, in stretches. */
enum { STEPS = 400 };
typedef struct step {
    int id;
    uint64_t number;
} step;

static void make_order(step *steps, unsigned *seed)
{
    uint64_t numbers[GROUPS] = {0};
    int id = A;
    for (int i = 0; i < STEPS; i++) {
        if (rand_r(seed) % 3 == 0) id = A + rand_r(seed) % GROUPS;
        numbers[id - A] += 1 + (unsigned)rand_r(seed) % 2; /* those between are in host memory */
        steps[i] = (step){id, numbers[id - A]};
    }
}

/* Both go through theirs, now the one ahead and now the other one.  False: a difference was found. */
static bool go_through(const step *mine, const step *theirs, unsigned *seed)
{
    int at = 0, there = 0;
    bool shown = false;
    while (at < STEPS || there < STEPS) {
        int n = 1 + rand_r(seed) % (rand_r(seed) % 2 ? 3 : 60);
        if (rand_r(seed) % 2) {
            for (; n-- && at < STEPS; at++)
                if (!begins(mine[at].id, mine[at].number)) return false;
        } else {
            if (!shown) it_shows_groups();
            shown = true;
            for (; n-- && there < STEPS; there++) it_begins(theirs[there].id, theirs[there].number);
            if (rand_r(seed) % 3) it_tells();
        }
        if (differs()) return false;
    }
    it_tells();
    return !differs();
}

static void takes_no_common_order_for_one(void **state)
{
    step steps[STEPS];
    for (unsigned seed = 1; seed <= 300; seed++) {
        unsigned s = seed;
        if (seed > 1) begin(state);
        make_order(steps, &s);
        assert_true(go_through(steps, steps, &s));
        if (seed < 300) end(state);
    }
}

/* Two that follow each other are swapped. */
static void finds_each_difference(void **state)
{
    step mine[STEPS], theirs[STEPS];
    for (unsigned seed = 1; seed <= 300; seed++) {
        unsigned s = seed;
        int at;
        if (seed > 1) begin(state);
        make_order(mine, &s);
        memcpy(theirs, mine, sizeof mine);
        do at = rand_r(&s) % (STEPS - 1);
        while (mine[at].id == mine[at + 1].id);
        theirs[at] = mine[at + 1];
        theirs[at + 1] = mine[at];
        assert_false(go_through(mine, theirs, &s));
        if (seed < 300) end(state);
    }
}

/* ---- a group that is over ---- */

static void compares_none_that_has_broken(void **state)
{
    (void)state;
    it_shows_groups();
    it_begins(A, 1);
    assert_true(begins(A, 1));
    it_tells();
    assert_true(begins(B, 5)); /* which that one never begins, as it has broken there */
    weft_group_abort(groups[B - A], "enough");
    it_begins(C, 2);
    it_tells();
    assert_true(begins(C, 2));
    assert_false(differs());
    all_is_told();
    assert_int_equal(last.of[last.count - 2].group, B);
    assert_true(last.of[last.count - 2].last == UINT64_MAX); /* that one is told */
}

/* It was told before what came behind that. */
static void compares_none_that_has_broken_there(void **state)
{
    (void)state;
    it_shows_groups();
    it_begins(A, 1);
    assert_true(begins(A, 1));
    it_tells();
    assert_true(begins(B, 5));
    it_begins(B, UINT64_MAX);
    it_begins(C, 2);
    it_tells();
    assert_true(begins(C, 2));
    assert_false(differs());
}

/* What was told together with the difference was heard all the same. */
static void goes_on_with_the_others_after_a_difference(void **state)
{
    (void)state;
    it_shows_groups();
    for (int id = A; id <= C; id++) assert_true(begins(id, 1));
    it_begins(B, 1);
    it_begins(A, 1);
    it_begins(C, 1);
    it_tells();
    assert_true(differs());
    assert_int_equal(weft_group_status(groups[C - A]), WEFT_OK);
    groups[D - A] = make_group(D, OTHER, true);
    it_begins(D, 1);
    it_tells();
    assert_true(begins(D, 1));
    it_begins(C, 2);
    it_tells();
    assert_true(begins(C, 2));
    assert_int_equal(weft_group_status(groups[C - A]), WEFT_OK);
    assert_int_equal(weft_group_status(groups[D - A]), WEFT_OK);
    assert_false(ctx->peers[OTHER].refused);
}

/* Nobody uses it any more, and nobody has seen to its end yet. */
static void breaks_no_group_that_was_let_go(void **state)
{
    (void)state;
    it_shows_groups();
    it_tells();
    assert_true(begins(A, 1));
    assert_true(begins(B, 1));
    it_begins(B, 1);
    it_begins(A, 1);
    weft__engine_take(ctx);
    groups[0]->owner = WEFT__OF_CALLER;
    weft__group_let_go(groups[0]);
    ctx->p2p_events.control(&ctx->p2p_events, OTHER, WEFT__MESSAGE_INTERLEAVED, &next,
                            8 + next.count * sizeof next.of[0]);
    groups[0] = NULL;
    weft__engine_drop(ctx);
    next.count = 0;
    assert_int_equal(weft_group_status(groups[B - A]), WEFT_OK);
}

/* ---- what cannot be ---- */

static void refuses_what_does_not_follow(void **state)
{
    (void)state;
    it_shows_groups();
    it_begins(A, 5);
    it_tells();
    assert_false(ctx->peers[OTHER].refused);
    assert_true(begins(A, 5));
    heard[0] = 3;
    it_begins(A, 6);
    it_begins(C, 1);
    it_tells();
    assert_true(ctx->peers[OTHER].refused);
    assert_false(begins(B, 6)); /* that one begins C's first */
    assert_true(differs());
    end(state);
    begin(state);
    next.of[next.count++] = (stretch){A, 2, 1};
    it_tells();
    assert_true(ctx->peers[OTHER].refused);
}

/* What is too far ahead is not compared, and what follows that is. */
static void keeps_no_more_than_a_limit(void **state)
{
    enum { FAR = 4 * WEFT__INTERLEAVED_KEPT };
    (void)state;
    it_shows_groups();
    for (uint64_t n = 1; n <= FAR; n++) it_begins(n % 2 ? A : B, n);
    it_tells();
    for (uint64_t n = 1; n <= FAR; n++) assert_true(begins(n % 2 ? A : B, n));
    assert_false(differs());
    it_begins(A, FAR + 1);
    it_tells();
    assert_false(begins(B, FAR + 2));
}

#define ORDER_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define ALONE_TEST(test) cmocka_unit_test_setup_teardown(test, begin_alone, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE_TEST(tells_nothing_of_one_group),
        ORDER_TEST(tells_its_order),
        ORDER_TEST(takes_a_message_for_32),
        ALONE_TEST(tells_of_what_was_before),
        ALONE_TEST(tells_nothing_of_an_order_before_it_tells),
        ALONE_TEST(tells_of_more_groups_than_have_room),
        ORDER_TEST(tells_of_the_end_of_its_last_group),
        ORDER_TEST(tells_nothing_as_it_leaves),
        ALONE_TEST(counts_the_hosts_group_once_it_is_used),
        ORDER_TEST(finds_those_that_wait),
        ORDER_TEST(finds_it_from_either_side),
        ORDER_TEST(takes_no_common_order_for_one),
        ORDER_TEST(finds_each_difference),
        ORDER_TEST(compares_none_that_has_broken),
        ORDER_TEST(compares_none_that_has_broken_there),
        ORDER_TEST(goes_on_with_the_others_after_a_difference),
        ORDER_TEST(breaks_no_group_that_was_let_go),
        ORDER_TEST(refuses_what_does_not_follow),
        ORDER_TEST(keeps_no_more_than_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
