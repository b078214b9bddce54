/* Init methods: what is understood, and what the sentence about a bad one says. */
#include "url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void clear_environment(void)
{
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
}

static void expect(const char *text, int rank, int world, const char *host, int port, int got_rank,
                   int got_world)
{
    weft__url url;
    assert_int_equal(weft__url_read(text, rank, world, &url), WEFT_OK);
    assert_string_equal(url.host, host);
    assert_int_equal(url.port, port);
    assert_int_equal(url.rank, got_rank);
    assert_int_equal(url.world_size, got_world);
}

static void refuse(const char *text, int rank, int world, const char *words)
{
    weft__url url = {.port = 77};
    assert_int_equal(weft__url_read(text, rank, world, &url), WEFT_ERR_ARGUMENT);
    if (!strstr(weft_last_error(), words)) fail_msg("\"%s\" lacks \"%s\"", weft_last_error(), words);
    assert_int_equal(url.port, 77); /* written only on success */
}

static void tcp_is_taken_apart(void **state)
{
    (void)state;
    expect("tcp://127.0.0.1:29500", -1, -1, "127.0.0.1", 29500, -1, -1);
    expect("tcp://node7:1?rank=2&world_size=8", -1, -1, "node7", 1, 2, 8);
    expect("tcp://node7:65535?world_size=8&rank=2", -1, -1, "node7", 65535, 2, 8);
    expect("tcp://[::1]:29500?rank=0", -1, 3, "::1", 29500, 0, 3);
    expect("tcp://h:5?rank=2&world_size=8", 1, 4, "h", 5, 1, 4);
}

static void bad_tcp_is_refused(void **state)
{
    char longest[600];
    (void)state;
    refuse("tcp://", -1, -1, "no port");
    refuse("tcp://:5", -1, -1, "no host");
    refuse("tcp://h", -1, -1, "no port");
    refuse("tcp://h:", -1, -1, "port is not a number");
    refuse("tcp://h:0", -1, -1, "from 1 to 65535");
    refuse("tcp://h:65536", -1, -1, "from 1 to 65535");
    refuse("tcp://h:5x", -1, -1, "port is not a number");
    refuse("tcp://::1:5", -1, -1, "brackets");
    refuse("tcp://[::1:5", -1, -1, "]:PORT");
    refuse("tcp://h:5?rank=x", -1, -1, "rank is not a number");
    refuse("tcp://h:5?world_size=0", -1, -1, "world_size is not a number");
    refuse("tcp://h:5?rank=1&rank=2", -1, -1, "not understood");
    refuse("tcp://h:5?colour=red", -1, -1, "not understood");
    refuse("tcp://h:5?rank=8&world_size=8", -1, -1, "rank 8 is out of range: the world has 8 ranks, 0 to 7");
    refuse("tcp://h:5?world_size=2000000000", -1, -1, "at most 1048576 ranks");
    refuse("http://h:5", -1, -1, "not known");
    refuse("", -1, -1, "not known");
    refuse("tcp://h:5", -2, -1, "rank given is -2");
    refuse("tcp://h:5", -1, 0, "world size given is 0");
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "tcp://", 6);
    memcpy(longest + sizeof longest - 3, ":5", 3);
    refuse(longest, -1, -1, "too long");
    longest[300] = ':';
    longest[301] = '5';
    longest[302] = '\0';
    refuse(longest, -1, -1, "too long");
}

static void files_are_taken_apart(void **state)
{
    weft__url url;
    char longest[5000];
    (void)state;
    assert_int_equal(weft__url_read("file:///tmp/a b?rank=1&world_size=3", -1, -1, &url), WEFT_OK);
    assert_string_equal(url.path, "/tmp/a b");
    assert_int_equal(url.rank, 1);
    assert_int_equal(url.world_size, 3);
    assert_int_equal(url.port, 0);
    assert_int_equal(weft__url_read("file:///x", 4, 5, &url), WEFT_OK);
    assert_string_equal(url.path, "/x");
    assert_int_equal(url.rank, 4);
    assert_int_equal(weft__url_read("tcp://h:5", -1, -1, &url), WEFT_OK);
    assert_string_equal(url.path, "");
    refuse("file://", -1, -1, "does not begin with \"/\"");
    refuse("file://host/path", -1, -1, "expected file:///PATH[?rank");
    refuse("file:///", -1, -1, "names no file");
    refuse("file:///tmp/", -1, -1, "names no file");
    refuse("file:///x?colour=red", -1, -1, "not understood");
    refuse("file:/x", -1, -1, "not known");
    memset(longest, '/', sizeof longest);
    memcpy(longest, "file://", 7);
    memcpy(longest + sizeof longest - 2, "x", 2);
    refuse(longest, -1, -1, "too long");
    longest[4097 + 7] = '\0';
    longest[4096 + 7] = 'x';
    refuse(longest, -1, -1, "too long");
}

static void environment_is_read(void **state)
{
    (void)state;
    clear_environment();
    refuse("env://", -1, -1, "RANK, which is not set");
    setenv("RANK", "1", 1);
    refuse("env://", -1, -1, "WORLD_SIZE, which is not set");
    setenv("WORLD_SIZE", "4", 1);
    expect("env://", -1, -1, "127.0.0.1", 13333, 1, 4);
    setenv("MASTER_PORT", "29500", 1);
    expect("env://", -1, -1, "127.0.0.1", 29500, 1, 4);
    expect("env://", 5, 6, "127.0.0.1", 29500, 5, 6);
    setenv("MASTER_ADDR", "node7", 1);
    expect("env://", -1, -1, "node7", 29500, 1, 4);
    setenv("RANK", "4", 1);
    refuse("env://", -1, -1, "rank 4 is out of range");
}

static void the_url_wins_over_the_environment(void **state)
{
    (void)state;
    clear_environment();
    setenv("MASTER_PORT", "29500", 1);
    expect("env://?rank=1&world_size=4", -1, -1, "127.0.0.1", 29500, 1, 4);
    expect("env://?world_size=4", 2, -1, "127.0.0.1", 29500, 2, 4);
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    expect("env://?rank=1&world_size=4", -1, -1, "127.0.0.1", 29500, 1, 4);
    expect("env://?rank=1", -1, -1, "127.0.0.1", 29500, 1, 8);
    expect("env://?rank=1&world_size=4", 0, 2, "127.0.0.1", 29500, 0, 2);
    refuse("env://?rank=x", -1, -1, "rank is not a number, 0 or above; expected env://[?rank=R");
    refuse("env://?colour=red", -1, -1, "what follows \"?\" is not understood; expected env://[?rank=R");
    refuse("env://?rank=4&world_size=4", -1, -1, "rank 4 is out of range");
    refuse("env://here", -1, -1, "expected env://[?rank=R");
    clear_environment();
}

static void bad_environment_is_refused(void **state)
{
    static const char *const bad[] = {"-1", "x", "1x", " 1", "+1", "99999999999999999999", "1.0"};
    (void)state;
    clear_environment();
    setenv("WORLD_SIZE", "4", 1);
    setenv("MASTER_PORT", "29500", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("RANK", bad[i], 1);
        refuse("env://", -1, -1, "RANK is \"");
    }
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "0", 1);
    refuse("env://", -1, -1, "WORLD_SIZE is \"0\": expected a number of ranks");
    setenv("WORLD_SIZE", "4", 1);
    setenv("MASTER_PORT", "0", 1);
    refuse("env://", -1, -1, "MASTER_PORT is \"0\": expected a port");
}

static void one_rank_needs_no_port(void **state)
{
    (void)state;
    clear_environment();
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    expect("env://", -1, -1, "", 0, 0, 1);
    clear_environment();
    expect("env://", 0, 1, "", 0, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_is_taken_apart),
        cmocka_unit_test(bad_tcp_is_refused),
        cmocka_unit_test(files_are_taken_apart),
        cmocka_unit_test(environment_is_read),
        cmocka_unit_test(bad_environment_is_refused),
        cmocka_unit_test(one_rank_needs_no_port),
        cmocka_unit_test(the_url_wins_over_the_environment),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
