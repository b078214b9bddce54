/* One file of what all hosts have written down, and how far their clocks are apart. */
#include "run_dumps.h"
#include "run_gather.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN "0123456789abcdef"

static char folder[64];

static int make_folder(void **state)
{
    char outer[] = "/tmp/weft-test-gather-XXXXXX";
    (void)state;
    if (!mkdtemp(outer)) return 1;
    snprintf(folder, sizeof folder, "%s/in", outer); /* the file makes it */
    return setenv("WEFT_DUMP_DIR", folder, 1);
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    *strrchr(folder, '/') = 0;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct run_part part_of(const char *host, int first, const char *const *pieces)
{
    struct run_part part = {.host = host, .first = first, .ranks = 2};
    char file[64];
    snprintf(file, sizeof file, "/there/dump." RUN ".rank%d.json", first);
    assert_true(run_part_begin(&part, file));
    for (; *pieces; pieces++) assert_true(run_part_add(&part, *pieces, strlen(*pieces)));
    return part;
}

static void text_of(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, bytes - 1, file)] = 0;
    fclose(file);
}

static void free_all(struct run_part *parts, int n)
{
    for (int i = 0; i < n; i++) run_part_free(&parts[i]);
}

/* One came whole, in pieces; of one the end is missing; one has written nothing. */
static void test_what_came_whole(void **state)
{
    struct run_part parts[] = {part_of("near", 0, (const char *const[]){"{\"weft_", "dump\":1}\n", NULL}),
                               part_of("far", 2, (const char *const[]){"{\"weft_dump\":1", NULL}),
                               {.host = "\"mute\"", .first = 4, .ranks = 2}};
    const struct run_part *all[] = {&parts[0], &parts[1], &parts[2]};
    char path[256], text[4096];
    (void)state;
    parts[0].clock = (struct run_clock){.known = true, .ahead_ns = -7, .within_ns = 3};
    assert_true(run_part_add(&parts[0], NULL, 0));
    assert_true(run_gather_write(all, 3, path, sizeof path));
    text_of(path, text, sizeof text);
    assert_non_null(strstr(path, "/in/dump." RUN ".json"));
    assert_non_null(strstr(text, "{\"weft_dumps\":1,\"run\":\"" RUN "\",\"clock_of\":\""));
    assert_non_null(
        strstr(text,
               "\"hosts\":[\n{\"host\":\"near\",\"first_rank\":0,\"ranks\":2,\"file\":\"/there/dump." RUN
               ".rank0.json\",\"clock_ahead_ns\":-7,\"clock_within_ns\":3,\"dump\":{\"weft_dump\":1}\n}]"));
    assert_non_null(strstr(text,
                           "\"left_out\":[\n{\"host\":\"far\",\"first_rank\":2,\"ranks\":2,\"file\":\"/there/"
                           "dump." RUN
                           ".rank2.json\"},\n{\"host\":\"\\\"mute\\\"\",\"first_rank\":4,\"ranks\":2}]}\n"));
    free_all(parts, 3);
}

static void test_none_is_whole(void **state)
{
    struct run_part parts[] = {part_of("far", 0, (const char *const[]){"{", NULL}), {.host = "mute"}};
    const struct run_part *all[] = {&parts[0], &parts[1]};
    char path[256] = "?";
    (void)state;
    assert_false(run_gather_write(all, 2, path, sizeof path));
    assert_string_equal(path, "");
    free_all(parts, 2);
}

static void test_there_is_no_folder(void **state)
{
    struct run_part part = part_of("near", 0, (const char *const[]){"{}\n", NULL});
    const struct run_part *all[] = {&part};
    char path[256];
    (void)state;
    assert_true(run_part_add(&part, NULL, 0));
    setenv("WEFT_DUMP_DIR", "/proc/nowhere", 1);
    assert_false(run_gather_write(all, 1, path, sizeof path));
    assert_string_equal(path, "No such file or directory");
    run_part_free(&part);
}

/* Pieces that come before there is a file, or after its end, and an end of nothing. */
static void test_out_of_order(void **state)
{
    struct run_part part = {.host = "near"};
    (void)state;
    assert_false(run_part_add(&part, "{", 1));
    assert_true(run_part_begin(&part, "/there/dump." RUN ".json"));
    assert_false(run_part_begin(&part, "/there/dump." RUN ".json"));
    assert_true(run_part_add(&part, NULL, 0));
    assert_false(part.whole);
    assert_true(run_part_add(&part, "{}", 2));
    assert_true(run_part_add(&part, NULL, 0));
    assert_true(part.whole);
    assert_false(run_part_add(&part, "{}", 2));
    run_part_free(&part);
}

/* More than there is room for is thrown away at once, with all that follows. */
static void test_too_large(void **state)
{
    static char piece[1 << 20];
    struct run_part part = {.host = "near"};
    (void)state;
    assert_true(run_part_begin(&part, "/there/dump." RUN ".json"));
    for (size_t n = 0; n <= RUN_PART_MOST / sizeof piece; n++)
        assert_true(run_part_add(&part, piece, sizeof piece));
    assert_int_equal(run_buffer_held(&part.text), 0);
    assert_true(run_part_add(&part, piece, sizeof piece));
    assert_true(run_part_add(&part, NULL, 0));
    assert_false(part.whole);
    run_part_free(&part);
}

static void test_names(void **state)
{
    static const struct {
        const char *path, *run;
    } cases[] = {
        {"/x/dump." RUN ".rank3.json", RUN},  {"dump." RUN ".2.json", RUN}, {"/x/dump.0123.json", ""},
        {"/x/dump." RUN "0.json", ""},        {"/dump." RUN "/x", ""},      {"", ""},
        {"/x/dump./../../etc/passw.json", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char run[RUN_DUMPS_RUN_BYTES] = "?";
        run_dumps_run_of(cases[i].path, run);
        assert_string_equal(run, cases[i].run);
    }
}

/* The words of weft-run and its agent, one after the other: asked at here_ns, read there, heard back_ns later. */
static void ask(struct run_clock *clock, int64_t here_ns, int64_t there_ns, int64_t back_ns)
{
    struct run_buffer to = {0}, from = {0};
    struct run_frame f;
    uint32_t numbers[RUN_CLOCK_NUMBERS];
    run_clock_ask(clock, &to, here_ns);
    assert_int_equal(run_frame_take(&to, &f), RUN_TOOK_FRAME);
    run_clock_answer(&f, there_ns, numbers);
    assert_true(run_frame_put(&from, RUN_PONG, numbers, RUN_CLOCK_NUMBERS));
    assert_int_equal(run_frame_take(&from, &f), RUN_TOOK_FRAME);
    assert_true(run_clock_take(clock, &f, here_ns + back_ns));
    run_buffer_free(&to);
    run_buffer_free(&from);
}

static void test_clocks(void **state)
{
    const int64_t ahead = INT64_C(5000000000000); /* more than fits 32 bits */
    struct run_clock clock = {.known = false};
    (void)state;
    ask(&clock, 1000, 1000 + ahead + 700, 1000); /* slow on the way there */
    assert_int_equal(clock.ahead_ns, ahead + 200);
    assert_int_equal(clock.within_ns, 500);
    ask(&clock, 5000, 5000 + ahead + 40, 100);
    assert_int_equal(clock.ahead_ns, ahead - 10);
    assert_int_equal(clock.within_ns, 50);
    ask(&clock, 9000, 9000 + ahead + 3, 4000); /* slower, and counts no more */
    assert_int_equal(clock.ahead_ns, ahead - 10);
}

/* An answer to an earlier question would be taken for a quick one. */
static void test_old_answers(void **state)
{
    struct run_buffer to = {0}, from = {0};
    struct run_clock clock = {.known = false};
    const uint32_t late[] = {1, 0, 50}, broken[] = {2, 0};
    struct run_frame f;
    (void)state;
    run_clock_ask(&clock, &to, 1000);
    run_clock_ask(&clock, &to, 2000);
    assert_true(run_frame_put(&from, RUN_PONG, late, 3));
    assert_true(run_frame_put(&from, RUN_PONG, broken, 2));
    assert_int_equal(run_frame_take(&from, &f), RUN_TOOK_FRAME);
    assert_true(run_clock_take(&clock, &f, 2001));
    assert_false(clock.known);
    assert_int_equal(run_frame_take(&from, &f), RUN_TOOK_FRAME);
    assert_false(run_clock_take(&clock, &f, 2001));
    run_buffer_free(&to);
    run_buffer_free(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_came_whole, make_folder, remove_folder),
        cmocka_unit_test(test_none_is_whole),
        cmocka_unit_test(test_there_is_no_folder),
        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_old_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
