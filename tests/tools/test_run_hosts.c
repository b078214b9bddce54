/* test_run_hosts.c - which hosts a job has: what --host and a hostfile say, what is wrong with them and where, and
 * how ranks are dealt. */
#include "run_hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char sentence[1000], path[] = "/tmp/weft-hosts-XXXXXX";

/* "a 4 4,b 2 0": names, slots, ranks. */
static const char *shown(const struct run_hosts *hosts)
{
    static char text[1000];
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < hosts->n; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %d %d", i ? "," : "",
                                 hosts->host[i].name, hosts->host[i].slots, hosts->host[i].ranks);
    return text;
}

static void expect(const char *list, const char *file, int ranks, const char *wanted)
{
    struct run_hosts hosts = {NULL, 0};
    FILE *f = file ? fopen(path, "we") : NULL;
    if (f) assert_true(fputs(file, f) >= 0 && fclose(f) == 0);
    if ((list && !run_hosts_list(&hosts, list, sentence, sizeof(sentence))) ||
        (file && !run_hosts_file(&hosts, path, sentence, sizeof(sentence))) ||
        !run_hosts_deal(&hosts, ranks, sentence, sizeof(sentence)))
        fail_msg("%s", sentence);
    assert_string_equal(shown(&hosts), wanted);
    run_hosts_free(&hosts);
}

static void refuse(const char *list, const char *file, int ranks, const char *words)
{
    struct run_hosts hosts = {NULL, 0};
    FILE *f = file ? fopen(path, "we") : NULL;
    if (f) assert_true(fputs(file, f) >= 0 && fclose(f) == 0);
    *sentence = '\0';
    if ((!list || run_hosts_list(&hosts, list, sentence, sizeof(sentence))) &&
        (!file || run_hosts_file(&hosts, path, sentence, sizeof(sentence))))
        assert_int_equal(run_hosts_deal(&hosts, ranks, sentence, sizeof(sentence)), 0);
    if (!strstr(sentence, words)) fail_msg("\"%s\" lacks \"%s\"", sentence, words);
    run_hosts_free(&hosts);
}

static void lists(void **state)
{
    (void)state;
    expect("a", NULL, 0, "a 1 1");
    expect("a:4,b:4", NULL, 0, "a 4 4,b 4 4");
    expect("a:4,b:4", NULL, 6, "a 4 4,b 4 2");
    expect("a:4,b:4", NULL, 3, "a 4 3");
    expect("a:2,b:1,a:2", NULL, 0, "a 4 4,b 1 1");
    expect("[::1]:4,[fe80::1%eth0],10.0.0.7:2", NULL, 0, "::1 4 4,fe80::1%eth0 1 1,10.0.0.7 2 2");
    expect("me@a.b-c_d:2", NULL, 0, "me@a.b-c_d 2 2");
}

static void lists_that_make_no_sense(void **state)
{
    (void)state;
    refuse("", NULL, 0, "--host: \"\" has an empty name");
    refuse("a,,b", NULL, 0, "has an empty name");
    refuse("a:", NULL, 0, "host a has \"\" slots");
    refuse("a:0", NULL, 0, "host a has \"0\" slots: expected a number from 1 to 4096");
    refuse("a:4x", NULL, 0, "\"4x\"");
    refuse("a:99999", NULL, 0, "\"99999\"");
    refuse("::1", NULL, 0, "an IPv6 address stands in brackets, such as [::1]:4");
    refuse("[::1", NULL, 0, "in brackets");
    refuse("[::1]4", NULL, 0, "in brackets");
    refuse("[a]:4", NULL, 0, "\"a\" is no IPv6 address");
    refuse("-oProxyCommand=x", NULL, 0, "is no name of a host");
    refuse("a;b", NULL, 0, "is no name of a host");
    refuse("$(b)", NULL, 0, "is no name of a host");
    refuse("a:4000,b:4000", NULL, 0, "8000 slots, and a job has at most 4096 ranks");
    refuse("a:4,b:4", NULL, 9, "9 ranks do not fit the 8 slots of the hosts");
}

static void files(void **state)
{
    (void)state;
    expect(NULL, "a slots=4\nb slots=2 # the small one\n", 0, "a 4 4,b 2 2");
    expect(NULL, "# none here\n\n  a:4\n\tb\n[::1]:3\n[::2] slots=2", 0, "a 4 4,b 1 1,::1 3 3,::2 2 2");
    expect(NULL, "a slots=4\r\na slots=1\r\n", 0, "a 5 5");
    expect("c:2", "a slots=4\n", 0, "c 2 2,a 4 4");
}

static void files_that_make_no_sense(void **state)
{
    char words[100];
    (void)state;
    snprintf(words, sizeof(words), "%s:3: host b has \"x\" slots", path);
    refuse(NULL, "# comment\na slots=4\nb slots=x\n", 0, words);
    snprintf(words, sizeof(words), "%s:1: \"max_slots=4\" is not understood: expected slots=N", path);
    refuse(NULL, "a max_slots=4\n", 0, words);
    refuse(NULL, "a:3 slots=4\n", 0, ":1: the slots of host a are said twice");
    refuse(NULL, "a slots=3 slots=4\n", 0, ":1: the slots of host a are said twice");
    refuse(NULL, "\n::1 slots=4\n", 0, ":2: \"::1\": an IPv6 address stands in brackets");
    refuse(NULL, "# nobody\n", 0, "the file names no host");
    unlink(path);
    refuse(NULL, NULL, 1, "");
    {
        struct run_hosts hosts = {NULL, 0};
        assert_false(run_hosts_file(&hosts, path, sentence, sizeof(sentence)));
        assert_non_null(strstr(sentence, "--hostfile: cannot read /tmp/weft-hosts-"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(lists_that_make_no_sense),
        cmocka_unit_test(files),
        cmocka_unit_test(files_that_make_no_sense),
    };
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
