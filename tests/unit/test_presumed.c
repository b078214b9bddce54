/* test_presumed.c - what others presume of a rank, where a majority decides (runtime/fault/views.md): it is believed after a
 * while, if one that lives says so; of two that presume each other dead one goes. */
#include "accused.h"
#include "engine.h"
#include "lone_rank.h"
#include "notice.h"
#include "peer.h"
#include "process.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static weft_context *ctx;

static void begin(void)
{
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    ctx->quorum = WEFT__QUORUM_MAJORITY;
    weft__engine_take(ctx);
}

static void end(void)
{
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
}

static bool is_gone(int rank)
{
    return atomic_load(&ctx->peers[rank].gone);
}

static void accuse(int rank, int by)
{
    weft__peer_accused(ctx, rank, by, "is lost: it is silent");
    weft__accuser_answers(ctx, by);
}

/* The clock says that it is so late that all are judged. */
static void judge_all(void)
{
    int64_t last = 0;
    for (int i = 0; i < LONE_WORLD; i++)
        if (ctx->peers[i].accused_ns > last) last = ctx->peers[i].accused_ns;
    (void)weft__accused_check(ctx, last);
}

static void test_it_is_believed_later(void **state)
{
    (void)state;
    begin();
    accuse(0, 4);
    assert_false(is_gone(0));
    assert_true(weft__peer_is_accused(ctx, 0));
    (void)weft__accused_check(ctx, ctx->peers[0].accused_ns - 1);
    assert_false(is_gone(0));
    judge_all();
    assert_true(is_gone(0));
    end();
}

static void test_who_is_presumed_dead_itself_is_not_believed(void **state)
{
    (void)state;
    begin();
    accuse(0, 4);
    weft__peer_gone(ctx, 4, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    assert_false(weft__peer_is_accused(ctx, 0));
    judge_all();
    assert_false(is_gone(0));
    accuse(0, 2); /* somebody else says so too */
    judge_all();
    assert_true(is_gone(0));
    end();
}

static void test_who_is_not_reached_is_not_believed(void **state)
{
    (void)state;
    begin();
    weft__peer_accused(ctx, 0, 4, "is lost: it is silent");
    accuse(4, 2);
    (void)lone_rank_take_queued(ctx);
    weft__peer_accused(ctx, 2, 4, "is lost: it is silent"); /* as many say so of 2, if it is counted */
    assert_int_equal(lone_rank_take_queued(ctx), 0);        /* it has been asked, and has not answered */
    judge_all();
    assert_false(is_gone(0) || is_gone(2));
    assert_true(is_gone(4));
    end();
}

/* The question may have been lost; and what it has not answered since it spoke last does not count. */
static void test_who_does_not_answer_is_asked_again(void **state)
{
    (void)state;
    begin();
    weft__peer_accused(ctx, 0, 4, "is lost: it is silent");
    judge_all();
    assert_int_equal(lone_rank_take_queued(ctx), 1);
    ctx->peers[4].asked_ns -= 1000 * WEFT__MS;
    judge_all();
    assert_int_equal(lone_rank_take_queued(ctx), 1);
    weft__accuser_answers(ctx, 4);
    assert_false(is_gone(0));
    judge_all();
    assert_true(is_gone(0));
    end();
}

/* Whose host this rank does not hear either goes as soon as the other one has answered. */
static void test_the_answer_is_judged_at_once(void **state)
{
    int64_t before;
    (void)state;
    begin();
    ctx->peers[0].unheard = true;
    weft__peer_accused(ctx, 0, 4, "is lost: it is silent");
    judge_all();
    assert_false(is_gone(0));
    before = weft__now_ns();
    assert_true(ctx->peers[0].accused_ns > before);
    weft__accuser_answers(ctx, 4);
    (void)weft__accused_check(ctx, weft__now_ns());
    assert_true(is_gone(0));
    end();
}

/* Both words came while the first one was still waiting. */
static void test_the_second_who_says_so_is_heard_too(void **state)
{
    (void)state;
    begin();
    accuse(0, 4);
    accuse(0, 2);
    weft__peer_gone(ctx, 4, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    judge_all();
    assert_true(is_gone(0));
    end();
}

static void test_of_two_the_higher_goes(void **state)
{
    (void)state;
    begin();
    accuse(0, 2);
    accuse(2, 0);
    judge_all();
    assert_false(is_gone(0));
    assert_true(is_gone(2));
    end();
}

static void test_of_two_that_one_goes_that_more_have_lost(void **state)
{
    (void)state;
    begin();
    accuse(0, 2);
    accuse(2, 0);
    accuse(4, 0);
    accuse(0, 4);
    judge_all();
    assert_true(is_gone(0));
    assert_false(is_gone(2));
    assert_false(is_gone(4));
    end();
}

/* 4 was spared since more had lost 0; one of those has gone since, and so has to go itself. */
static void test_who_was_spared_is_judged_again(void **state)
{
    (void)state;
    begin();
    accuse(4, 0);
    accuse(0, 4);
    accuse(0, 2);
    ctx->peers[0].accused_ns += 1000 * WEFT__MS;
    (void)weft__accused_check(ctx, ctx->peers[4].accused_ns);
    assert_false(is_gone(4));
    weft__peer_gone(ctx, 2, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    (void)weft__accused_check(ctx, ctx->peers[4].accused_ns);
    assert_true(is_gone(4));
    assert_false(is_gone(0));
    end();
}

/* ---- a rank of this host, whose process this one sees ---- */

/* A child that waits to be ended. */
static weft__process_id start_process(void)
{
    weft__process_id process = {0};
    int ends[2];
    pid_t pid;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        process = weft__process_own();
        if (write(ends[1], &process, sizeof process) < 0) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ends[0], &process, sizeof process), sizeof process);
    close(ends[0]);
    close(ends[1]);
    return process;
}

static void end_process(const weft__process_id *process)
{
    assert_int_equal(kill(process->pid, SIGKILL), 0);
    assert_int_equal(waitpid(process->pid, NULL, 0), process->pid);
}

/* What another one has told all of is less than what is found here, so that it is told too. */
static void test_a_certain_death_is_told_whoever_presumed_it(void **state)
{
    (void)state;
    for (int accused = 0; accused < 2; accused++) {
        begin();
        ctx->peers[0].process = start_process();
        end_process(&ctx->peers[0].process);
        lone_rank_take_queued(ctx);
        if (accused)
            accuse(0, 4);
        else
            weft__peer_gone(ctx, 0, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
        assert_int_equal(atomic_load(&ctx->peers[0].gone), WEFT__DIED);
        assert_int_equal(lone_rank_take_queued(ctx),
                         LONE_WORLD - 2 + 1); /* and that nothing goes to it any more */
        end();
    }
}

/* It may become another program, which no descriptor tells. */
static void test_who_is_presumed_dead_and_lives_is_asked_for(void **state)
{
    weft__process_id process = start_process();
    (void)state;
    begin();
    ctx->peers[0].process = process;
    weft__peer_gone(ctx, 0, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    assert_int_equal(atomic_load(&ctx->peers[0].gone), WEFT__PRESUMED_DEAD);
    for (int i = 0; i < 3; i++) {
        weft__peer_deaths_recheck(ctx);
        assert_true(weft__peer_suspects_check(ctx, weft__now_ns()) < weft__now_ns() + 1000 * WEFT__MS);
    }
    end();
    end_process(&process);
}

/* Where nobody is in doubt no check looks at any rank; where somebody is, they do until that is over. */
static void test_nobody_in_doubt_is_looked_at(void **state)
{
    weft__peer *peers;
    (void)state;
    begin();
    peers = ctx->peers;
    ctx->peers = NULL; /* whoever looks ends this program */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft__peer_suspects_check(ctx, weft__now_ns()), WEFT__NEVER);
        assert_int_equal(weft__accused_check(ctx, weft__now_ns()), WEFT__NEVER);
    }
    ctx->peers = peers;
    weft__peer_suspect(ctx, 0, "is lost");
    assert_true(ctx->doubts);
    assert_true(weft__peer_suspects_check(ctx, weft__now_ns()) < WEFT__NEVER);
    assert_true(ctx->doubts);
    weft__peer_suspects_check(ctx, WEFT__NEVER - 1);
    assert_true(weft__is_gone(&ctx->peers[0]));
    weft__peer_suspects_check(ctx, weft__now_ns());
    assert_false(ctx->doubts);
    end();
}

/* Ranks 0 and 4 do not reach each other, and this rank has passed that on: so it passes on what becomes of them. */
static void test_ends_are_passed_on(void **state)
{
    const weft__notice notice = {
        .kind = WEFT__NOTICE_GONE, .subject = 0, .number = WEFT__UNREACHABLE, .group = 1, .culprit = 4};
    (void)state;
    begin();
    weft__peer_told_unreachable(ctx, 4, &notice);
    assert_int_equal(lone_rank_take_queued(ctx), 1); /* rank 0 is told */
    weft__peer_gone(ctx, 0, WEFT__DIED, true, "has died");
    assert_int_equal(lone_rank_take_queued(ctx),
                     4); /* ranks 1, 2 and 4, and that nothing goes to rank 0 any more */
    weft__peer_gone(ctx, 4, WEFT__LEFT, false, "has left");
    assert_int_equal(lone_rank_take_queued(ctx),
                     5); /* ranks 1 and 2, of rank 0 once more too, whom 4 watched over */
    end();
}

/* The word is for one that has left by now: who does not reach it is told that. */
static void test_an_end_is_the_answer(void **state)
{
    const weft__notice notice = {
        .kind = WEFT__NOTICE_GONE, .subject = 0, .number = WEFT__UNREACHABLE, .group = 1, .culprit = 4};
    (void)state;
    begin();
    weft__peer_gone(ctx, 0, WEFT__LEFT, false, "has left");
    (void)lone_rank_take_queued(ctx);
    weft__peer_told_unreachable(ctx, 4, &notice);
    assert_int_equal(lone_rank_take_queued(ctx), 1);
    assert_false(ctx->peers[4].passes);
    end();
}

/* One that was only told that a rank does not reach it presumes nothing. */
static void test_told_that_it_is_unreachable(void **state)
{
    weft__notice notice = {
        .kind = WEFT__NOTICE_GONE, .subject = LONE_ME, .number = WEFT__UNREACHABLE, .group = 1, .culprit = 4};
    (void)state;
    begin();
    weft__peer_suspect(ctx, 4, "its connection has ended");
    weft__peer_told_unreachable(ctx, 0, &notice);
    assert_int_equal(atomic_load(&ctx->peers[4].gone), WEFT__UNREACHABLE);
    assert_true(ctx->peers[4].by_hearsay);
    (void)weft__peer_suspects_check(ctx, WEFT__NEVER - 1); /* what was suspected is answered: it lives */
    assert_int_equal(atomic_load(&ctx->peers[4].gone), WEFT__UNREACHABLE);
    weft__peer_hearsay(ctx, 4, "has left");
    (void)weft__peer_suspects_check(ctx, WEFT__NEVER - 1);
    assert_int_equal(atomic_load(&ctx->peers[4].gone), WEFT__LEFT);
    end();
}

static void make_unreachable(int rank, bool told)
{
    assert_true(weft__peer_unreachable(ctx, rank, told, "is unreachable"));
    assert_int_equal(ctx->peers[rank].by_hearsay, told);
    (void)lone_rank_take_queued(ctx);
}

/* Ranks 0 and 4 have a host, and the others, this one among them, another one. */
static void make_hosts(void)
{
    for (int i = 0; i < LONE_WORLD; i++) ctx->peers[i].first_on_host = i == 0 || i == 4 ? 0 : 1;
}

/* The one that has found it shrinks a group: the one that was told is told that too.  Its host has more ranks, so it says the same
 * of that one and of all that are on its host. */
static void test_who_was_told_presumes_in_turn(void **state)
{
    const weft__notice notice = {.kind = WEFT__NOTICE_GONE,
                                 .subject = LONE_ME,
                                 .number = WEFT__PRESUMED_DEAD,
                                 .culprit = 4};
    (void)state;
    begin();
    weft__peer_told_presumed(ctx, 2, &notice);
    assert_int_equal(atomic_load(&ctx->peers[4].gone), WEFT__LIVES); /* it is reached from here */
    make_unreachable(4, true);
    weft__peer_told_presumed(ctx, 2, &notice);
    assert_int_equal(atomic_load(&ctx->peers[4].gone),
                     WEFT__UNREACHABLE); /* one host: as many are on the other */
    make_hosts();
    weft__peer_told_presumed(ctx, 2, &notice);
    assert_int_equal(atomic_load(&ctx->peers[4].gone), WEFT__PRESUMED_DEAD);
    assert_int_equal(atomic_load(&ctx->peers[0].gone), WEFT__PRESUMED_DEAD);
    assert_true(lone_rank_take_queued(ctx) >= 4); /* all others hear that */
    end();
}

/* What is heard of rank 0, which has a host with rank 4, at another address or at the same one. */
static struct {
    bool beside;
    int64_t waits_ms, heard_ms; /* so long ago; -1: nothing waits, nothing was heard */
} sibling;

static weft__silence silence_of_sibling(weft__transport *t, int peer, int64_t beat_ns, int64_t now_ns)
{
    (void)t;
    (void)beat_ns;
    assert_int_equal(peer, 0);
    return (weft__silence){.since_ns = sibling.waits_ms < 0 ? 0 : now_ns - sibling.waits_ms * WEFT__MS,
                           .heard_ns = sibling.heard_ms < 0 ? 0 : now_ns - sibling.heard_ms * WEFT__MS};
}

static bool sibling_is_beside(const weft__transport *t, int peer, int other)
{
    (void)t;
    assert_true(peer != other);
    return sibling.beside;
}

static const weft__hearing of_sibling = {.silence = silence_of_sibling, .is_beside = sibling_is_beside};

/* A machine may have two addresses, and at one address a connection may have been made anew: whom this rank reaches lives. */
static void test_who_is_reached_is_not_presumed_in_turn(void **state)
{
    const weft__notice notice = {.kind = WEFT__NOTICE_GONE,
                                 .subject = LONE_ME,
                                 .number = WEFT__PRESUMED_DEAD,
                                 .culprit = 4};
    static const struct {
        bool beside;
        int waits_ms, heard_ms;
        bool lives;
    } cases[] = {{false, -1, 60000, true},    {false, 10, 60000, true}, {false, 60000, 60000, false},
                 {false, -1, -1, false},      {true, -1, 60000, false}, {true, -1, 10, true},
                 {true, 60000, 60000, false}, {false, 60000, -1, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft__transport *t;
        begin();
        t = weft__p2p_transport(ctx->p2p, 0);
        t->hearing = &of_sibling;
        sibling.beside = cases[i].beside;
        sibling.waits_ms = cases[i].waits_ms;
        sibling.heard_ms = cases[i].heard_ms;
        make_unreachable(4, true);
        make_hosts();
        weft__peer_told_presumed(ctx, 2, &notice);
        t->hearing = NULL;
        assert_int_equal(atomic_load(&ctx->peers[4].gone), WEFT__PRESUMED_DEAD);
        assert_int_equal(atomic_load(&ctx->peers[0].gone),
                         cases[i].lives ? WEFT__LIVES : WEFT__PRESUMED_DEAD);
        end();
    }
}

/* Others have presumed it dead first.  Where this rank has found that it does not reach it, that is one voice more. */
static void test_who_has_found_it_says_so(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        begin();
        make_unreachable(0, told);
        accuse(0, 2);
        assert_int_equal(lone_rank_take_queued(ctx), 1); /* whether that one can be reached */
        judge_all();
        assert_int_equal(atomic_load(&ctx->peers[0].gone), WEFT__PRESUMED_DEAD);
        assert_int_equal(lone_rank_take_queued(ctx), told ? 0 : LONE_WORLD - 2);
        end();
    }
}

/* Rank 4 has found that it does not reach rank 0, presumes it dead, and asks this rank to tell it. */
static void test_who_is_presumed_dead_is_told(void **state)
{
    weft__notice notice = {.kind = WEFT__NOTICE_GONE,
                           .subject = 0,
                           .number = WEFT__PRESUMED_DEAD,
                           .text = "is unreachable"};
    (void)state;
    begin();
    weft__peer_told_presumed(ctx, 2, &notice);       /* reaches it, or does not ask for it */
    assert_int_equal(lone_rank_take_queued(ctx), 1); /* the question to that one */
    notice.knows = 1;
    weft__peer_told_presumed(ctx, 4, &notice);
    assert_int_equal(lone_rank_take_queued(ctx), 2);
    assert_true(ctx->peers[0].passed_on);
    end();
}

/* Rank 4, which is beside rank 0, reached its host, and has left since: this rank, on another host, knows of ranks 1 and 2, of which the
 * latter is on a third one. */
static void test_who_heard_both_may_have_left(void **state)
{
    (void)state;
    begin();
    make_hosts();
    ctx->peers[2].first_on_host = 2;
    ctx->peers[0].heard_by_another = true;
    ctx->peers[0].heard_by = 4;
    weft__peer_gone(ctx, 4, WEFT__LEFT, false, "has left");
    (void)lone_rank_take_queued(ctx);
    ctx->p2p_events.lost(&ctx->p2p_events, 0, "its connection has ended");
    assert_int_equal(atomic_load(&ctx->peers[0].gone), WEFT__UNREACHABLE);
    assert_string_equal(ctx->peers[0].why,
                        "is unreachable from here (rank 3), though rank 2 reaches its host: "
                        "its connection has ended");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_in_doubt_is_looked_at),
        cmocka_unit_test(test_ends_are_passed_on),
        cmocka_unit_test(test_an_end_is_the_answer),
        cmocka_unit_test(test_told_that_it_is_unreachable),
        cmocka_unit_test(test_who_was_told_presumes_in_turn),
        cmocka_unit_test(test_who_is_reached_is_not_presumed_in_turn),
        cmocka_unit_test(test_who_is_presumed_dead_is_told),
        cmocka_unit_test(test_who_has_found_it_says_so),
        cmocka_unit_test(test_who_heard_both_may_have_left),
        cmocka_unit_test(test_it_is_believed_later),
        cmocka_unit_test(test_who_is_presumed_dead_itself_is_not_believed),
        cmocka_unit_test(test_who_is_not_reached_is_not_believed),
        cmocka_unit_test(test_who_does_not_answer_is_asked_again),
        cmocka_unit_test(test_the_answer_is_judged_at_once),
        cmocka_unit_test(test_the_second_who_says_so_is_heard_too),
        cmocka_unit_test(test_of_two_the_higher_goes),
        cmocka_unit_test(test_of_two_that_one_goes_that_more_have_lost),
        cmocka_unit_test(test_who_was_spared_is_judged_again),
        cmocka_unit_test(test_a_certain_death_is_told_whoever_presumed_it),
        cmocka_unit_test(test_who_is_presumed_dead_and_lives_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
