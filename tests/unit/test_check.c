/* test_check.c - an assertion that does not hold says where and what, once, and ends the process. */
#include "check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

static char said[2048];

/* What it wrote to its standard error is in `said`.  Returns the signal that ended it; 0: it came back. */
static int signal_of(void (*what)(void))
{
    int ends[2], status;
    size_t n = 0;
    ssize_t more;
    pid_t pid;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka would make a failed test of it */
        dup2(ends[1], STDERR_FILENO);
        what();
        _exit(0);
    }
    close(ends[1]);
    while ((more = read(ends[0], said + n, sizeof said - 1 - n)) > 0) n += (size_t)more;
    said[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int taken = 3, count = 2;

static int first_of(int a, int b)
{
    (void)b;
    return a;
}

static void breaks_one_with_values(void)
{
    WEFT__ASSERT(taken <= count, taken, count);
}

static void breaks_one_with_commas(void)
{
    WEFT__ASSERT(first_of(taken, count) == first_of(count, taken), first_of(taken, count), count, -1LL);
}

static void breaks_one_alone(void)
{
    WEFT__ASSERT(taken == count);
}

static void breaks_a_hot_one(void)
{
    WEFT__ASSERT_HOT(taken == count, taken);
}

static void expect_sentence(int line, const char *rule)
{
    char expected[512];
    snprintf(expected, sizeof expected, "weft: %s:%d: broken rule: %s\n", __FILE__, line, rule);
    assert_string_equal(said, expected);
}

/* The first line of this file that has the text. */
static int line_of(const char *text)
{
    FILE *f = fopen(TEST_SOURCE_DIR "/unit/test_check.c", "r");
    char line[256];
    int n = 0, found = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        n++;
        if (!found && strstr(line, text)) found = n;
    }
    fclose(f);
    return found;
}

static void names_file_line_rule_and_values(void **state)
{
    (void)state;
    assert_int_equal(signal_of(breaks_one_with_values), SIGABRT);
    expect_sentence(line_of("ASSERT(taken <= count"), "taken <= count; taken is 3, count is 2");
}

static void commas_of_calls_end_no_value(void **state)
{
    (void)state;
    assert_int_equal(signal_of(breaks_one_with_commas), SIGABRT);
    expect_sentence(line_of("ASSERT(first_of"), "first_of(taken, count) == first_of(count, taken); "
                                                "first_of(taken, count) is 3, count is 2, -1LL is -1");
}

static void one_without_values(void **state)
{
    (void)state;
    assert_int_equal(signal_of(breaks_one_alone), SIGABRT);
    expect_sentence(line_of("ASSERT(taken == count)"), "taken == count");
}

static void hot_ones_are_in_builds_without_ndebug(void **state)
{
    (void)state;
    assert_int_equal(signal_of(breaks_a_hot_one), WEFT__HOT_TOO ? SIGABRT : 0);
    if (WEFT__HOT_TOO)
        expect_sentence(line_of("ASSERT_HOT(taken"), "taken == count; taken is 3");
    else
        assert_string_equal(said, "");
}

static int rules, asked;

static int ask(void)
{
    return ++asked;
}

/* Its values are asked for only when it fails. */
static void one_that_holds_costs_its_rule_alone(void **state)
{
    (void)state;
    rules = 0;
    WEFT__ASSERT(++rules == 1, ask());
    assert_int_equal(rules, 1);
    assert_int_equal(asked, 0);
}

static void tables_allow_what_they_list(void **state)
{
    enum { MADE, OPEN, GONE };
    static const uint8_t follows[] = {[MADE] = WEFT__MAY_BECOME(OPEN) | WEFT__MAY_BECOME(GONE),
                                      [OPEN] = WEFT__MAY_BECOME(GONE),
                                      [GONE] = 0};
    static const int allowed[3][3] = {{0, 1, 1}, {0, 0, 1}, {0, 0, 0}};
    (void)state;
    for (int from = MADE; from <= GONE; from++)
        for (int to = MADE; to <= GONE; to++)
            assert_int_equal(WEFT__ALLOWS(follows, from, to), allowed[from][to]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_file_line_rule_and_values),
        cmocka_unit_test(commas_of_calls_end_no_value),
        cmocka_unit_test(one_without_values),
        cmocka_unit_test(hot_ones_are_in_builds_without_ndebug),
        cmocka_unit_test(one_that_holds_costs_its_rule_alone),
        cmocka_unit_test(tables_allow_what_they_list),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
