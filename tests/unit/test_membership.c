/* test_membership.c - a job with more ranks than a word of the watchdogs has room for has no views, and says so; who is out
 * names the rank whose word that was, in whatever it is refused. */
#include "engine.h"
#include "group.h"
#include "lone_rank.h"
#include "membership.h"
#include "notice.h"
#include "peer.h"
#include "status.h"
#include "views.h"
#include "watchdog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALL = 5000, LOST = 0, KEPT = 2 };

/* Is a shrink of a group with that rank, once one with LOST was to go without it? */
static bool is_stuck_in_a_job_of(int ranks, int member, char *text, size_t bytes)
{
    static const int lost[] = {LOST};
    weft_context *ctx = lone_rank_open((lone_wires){NULL, NULL});
    weft__peer *own = ctx->peers, *all = calloc((size_t)ranks, sizeof *all);
    bool stuck;
    assert_non_null(all);
    weft__engine_take(ctx);
    ctx->quorum = WEFT__QUORUM_MAJORITY;
    weft__peer_gone(ctx, LOST, WEFT__PRESUMED_DEAD, true, "is lost: it is silent");
    memcpy(all, own, LONE_WORLD * sizeof *all);
    ctx->peers = all;
    ctx->world_size = ranks;
    assert_false(weft__membership_agrees(ctx, lost, 1));
    stuck = weft__membership_is_stuck(ctx, &member, 1, text, bytes);
    ctx->peers = own;
    ctx->world_size = LONE_WORLD;
    weft__engine_drop(ctx);
    lone_rank_close(ctx);
    free(all);
    return stuck;
}

static void test_a_job_that_is_too_large(void **state)
{
    char text[WEFT__SENTENCE_BYTES];
    (void)state;
    assert_true(is_stuck_in_a_job_of(ALL, LOST, text, sizeof text));
    assert_non_null(strstr(text, "a job of 5000 ranks is too large"));
    assert_non_null(strstr(text, "WEFT_QUORUM=any"));
    assert_false(
        is_stuck_in_a_job_of(ALL, KEPT, text, sizeof text)); /* which waits for nobody to be left out */
}

static void test_a_job_that_is_not(void **state)
{
    char text[WEFT__SENTENCE_BYTES];
    (void)state;
    assert_false(is_stuck_in_a_job_of(LONE_WORLD, LOST, text, sizeof text));
}

/* That view 2 is of all but this rank, and why. */
static void tell_view(weft_context *ctx, int from, const char *why)
{
    weft__notice notice = {.kind = WEFT__NOTICE_VIEW,
                           .number = sizeof(weft__view_message) + 2,
                           .messages = (uint32_t)strlen(why)};
    _Alignas(weft__view_message) unsigned char word[sizeof(weft__view_message) + 2] = {0};
    weft__view_message *m = (void *)word;
    m->word = WEFT__VIEW_IS;
    m->view = 2;
    m->sets[0] = ((1U << LONE_WORLD) - 1) & ~(1U << LONE_ME);
    memcpy(notice.text, word, sizeof word);
    memcpy(notice.text + sizeof word, why, strlen(why));
    weft__watchdog_take(ctx, from, &notice, weft__notice_bytes(&notice));
}

static void test_who_told_that_this_rank_is_out(void **state)
{
    weft_context *ctx = lone_rank_open((lone_wires){NULL, NULL});
    char text[WEFT__SENTENCE_BYTES] = "";
    (void)state;
    ctx->quorum = WEFT__QUORUM_MAJORITY;
    tell_view(ctx, LOST, "");
    tell_view(ctx, KEPT, "");
    weft__engine_take(ctx);
    assert_true(weft__membership_is_out(ctx, text, sizeof text));
    weft__engine_drop(ctx);
    assert_non_null(strstr(text, "as rank 0 tells, for this rank is presumed dead there"));
    tell_view(ctx, KEPT, "is lost: it did not answer");
    tell_view(ctx, LOST, "is lost: it never answered");
    weft__engine_take(ctx);
    assert_true(weft__membership_is_out(ctx, text, sizeof text));
    weft__engine_drop(ctx);
    assert_non_null(strstr(text, "as rank 2 tells, for this rank is lost: it did not answer"));
    lone_rank_close(ctx);
}

/* Since when, who tells, and why as soon as that is known; what each rank's end was said to be before is no matter then. */
static void check_refusals(weft_context *ctx, weft_group *group, const char *told)
{
    char text[WEFT__SENTENCE_BYTES] = "";
    assert_int_equal(weft__group_refuse(group), WEFT_ERR_PEER);
    assert_non_null(
        strstr(weft_last_error(), "the job goes on without this rank (rank 3) since view 2, as rank "));
    assert_non_null(strstr(weft_last_error(), told));
    for (int rank = 0; rank < LONE_WORLD; rank++) {
        if (rank == LONE_ME) continue;
        weft__peer_fate(ctx, rank, text, sizeof text);
        assert_non_null(strstr(text, "the job goes on without this rank (rank 3) since view 2"));
        assert_non_null(strstr(text, told));
    }
}

static void test_what_is_out_is_refused(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4};
    weft_context *ctx = lone_rank_open((lone_wires){NULL, NULL});
    weft_group *group;
    (void)state;
    ctx->quorum = WEFT__QUORUM_MAJORITY;
    group = weft__group_new(ctx, all, LONE_WORLD, "all", WEFT_FOREVER);
    assert_non_null(group);
    assert_int_equal(weft__group_refuse(group), WEFT_ERR_BROKEN);
    weft__engine_take(ctx);
    weft__peer_gone(ctx, LOST, WEFT__PRESUMED_DEAD, false, "is lost: it is silent");
    weft__engine_drop(ctx);
    tell_view(ctx, LOST, "");
    check_refusals(ctx, group, "as rank 0 tells, for this rank is presumed dead there");
    tell_view(ctx, KEPT, "is lost: it did not answer");
    check_refusals(ctx, group, "as rank 2 tells, for this rank is lost: it did not answer");
    weft__group_unref(group);
    lone_rank_close(ctx);
}

static void test_a_word_is_as_long_as_it_is(void **state)
{
    weft__notice word = {.kind = WEFT__NOTICE_VIEW, .number = 26},
                 other = {.kind = WEFT__NOTICE_BROKEN, .number = 26};
    (void)state;
    assert_int_equal(weft__notice_bytes(&word), offsetof(weft__notice, text) + 26);
    assert_int_equal(weft__notice_bytes(&other), sizeof other);
    word.messages = 100;
    assert_int_equal(weft__notice_bytes(&word), offsetof(weft__notice, text) + 126);
    word.messages = UINT32_MAX;
    assert_int_equal(weft__notice_bytes(&word), sizeof word);
    word.number = UINT64_MAX;
    assert_int_equal(weft__notice_bytes(&word), sizeof word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_that_is_too_large),        cmocka_unit_test(test_a_job_that_is_not),
        cmocka_unit_test(test_who_told_that_this_rank_is_out), cmocka_unit_test(test_what_is_out_is_refused),
        cmocka_unit_test(test_a_word_is_as_long_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
