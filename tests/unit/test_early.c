/* Messages that come before their receiver: kept in order, offered, forgotten, and never
 * lost without a word. */
#include "context.h"
#include "early.h"
#include "holder.h"
#include "log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROW = 3, WORD = 4 };
#define LONG ((size_t)1 << 20)

static weft_context *ctx;

static int set_up(void **state)
{
    size_t bytes = (sizeof *ctx + WEFT__LINE - 1) / WEFT__LINE * WEFT__LINE;
    (void)state;
    ctx = aligned_alloc(WEFT__LINE, bytes);
    assert_non_null(ctx);
    memset(ctx, 0, bytes);
    weft__early_open(ctx);
    weft__engine_held = ctx;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weft__early_close(ctx);
    assert_int_equal(ctx->early.bytes, 0);
    weft__engine_held = NULL;
    weft__log_flush();
    free(ctx);
    return 0;
}

static void keep(uint64_t group, int type, int peer, const char *word)
{
    weft__early_keep(ctx, group, type, peer, word, strlen(word) + 1);
}

static char heard[256];
static const char *refused; /* a word that is not taken */

static bool take(void *arg, int peer, const void *bytes)
{
    size_t at = strlen(heard);
    (void)arg;
    if (refused && !strcmp(bytes, refused)) return false;
    snprintf(heard + at, sizeof heard - at, "%d:%s ", peer, (const char *)bytes);
    return true;
}

static void offer(uint64_t group, int type)
{
    heard[0] = 0;
    weft__early_offer(ctx, group, type, take, NULL);
}

static void in_order_of_coming(void **state)
{
    (void)state;
    keep(7, ROW, 1, "a");
    keep(8, ROW, 1, "other group");
    keep(7, WORD, 1, "other type");
    keep(7, ROW, 2, "b");
    keep(7, ROW, 1, "c");
    offer(7, ROW);
    assert_string_equal(heard, "1:a 2:b 1:c ");
    offer(7, ROW);
    assert_string_equal(heard, "");
    offer(8, ROW);
    assert_string_equal(heard, "1:other group ");
}

static void what_is_not_taken_waits(void **state)
{
    (void)state;
    keep(7, WORD, 1, "a");
    keep(7, WORD, 1, "b");
    keep(7, WORD, 1, "c");
    refused = "b";
    offer(7, WORD);
    assert_string_equal(heard, "1:a 1:c ");
    refused = NULL;
    keep(7, WORD, 1, "d");
    offer(7, WORD);
    assert_string_equal(heard, "1:b 1:d ");
}

static bool take_and_begin(void *arg, int peer, const void *bytes)
{
    (void)peer;
    if (strcmp(bytes, "a") == 0) { /* what it begins takes the others, and hears more */
        keep(7, WORD, 2, "late");
        weft__early_offer(ctx, 7, WORD, take, NULL);
    } else {
        (*(int *)arg)++;
    }
    return true;
}

static void taking_may_take_more(void **state)
{
    int left = 0;
    (void)state;
    keep(7, WORD, 1, "a");
    keep(7, WORD, 1, "b");
    heard[0] = 0;
    weft__early_offer(ctx, 7, WORD, take_and_begin, &left);
    assert_string_equal(heard, "1:b 2:late ");
    assert_int_equal(left, 0);
}

static void what_is_over_is_not_kept(void **state)
{
    (void)state;
    keep(7, ROW, 1, "a");
    keep(8, ROW, 1, "b");
    weft__early_forget(ctx, 7);
    keep(7, ROW, 1, "c");
    offer(7, ROW);
    assert_string_equal(heard, "");
    assert_false(weft__early_has_lost(ctx, 7)); /* nobody is to be told */
    offer(8, ROW);
    assert_string_equal(heard, "1:b ");
}

static void the_oldest_make_room(void **state)
{
    char *word = calloc(1, LONG);
    uint64_t most = WEFT__EARLY_BYTES_MOST / LONG + 3;
    (void)state;
    assert_non_null(word);
    for (uint64_t i = 1; i <= most; i++) weft__early_keep(ctx, i, ROW, 1, word, LONG);
    assert_true(ctx->early.bytes <= WEFT__EARLY_BYTES_MOST);
    for (uint64_t i = 1; i <= most; i++) {
        offer(i, ROW);
        assert_int_equal(weft__early_has_lost(ctx, i), !*heard);
    }
    assert_true(weft__early_has_lost(ctx, 1));
    assert_false(weft__early_has_lost(ctx, most));
    free(word);
}

static void too_long_for_any_room(void **state)
{
    char *word = calloc(1, WEFT__EARLY_BYTES_MOST);
    (void)state;
    assert_non_null(word);
    keep(6, ROW, 1, "a");
    weft__early_keep(ctx, 7, ROW, 1, word, WEFT__EARLY_BYTES_MOST);
    assert_true(weft__early_has_lost(ctx, 7));
    assert_false(weft__early_has_lost(ctx, 6));
    free(word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order_of_coming, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_taken_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(taking_may_take_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_over_is_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_oldest_make_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_long_for_any_room, set_up, tear_down),
    };
    setenv("WEFT_LOG", "0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
