/* test_quota.c - the limit on a user's threads is told before ZeroMQ aborts over it. */
#include "job.h"
#include "quota.h"
#include "skip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 54321, LIMIT = 4, NEEDED = 6, NOT_POSSIBLE = 77 };

/* In a child, which the limit binds: not root, nor anybody who has other processes here. */
static int ask_as_nobody(rlim_t most)
{
    const struct rlimit limit = {most, most};
    char expected[128];
    int can = -1;
    weft_status status;
    if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY)) return NOT_POSSIBLE;
    if (setrlimit(RLIMIT_NPROC, &limit)) return NOT_POSSIBLE;
    status = weft__quota_threads(NEEDED, "this rank");
    if (status == WEFT_OK) return 0;
    if (status != WEFT_ERR_SYSTEM) return 2;
    if (sscanf(weft_last_error(), "this rank needs 6 more threads, and %d can be started (", &can) != 1)
        return 3;
    if (can < 0 || can >= NEEDED || !strstr(weft_last_error(), strerror(EAGAIN))) return 4;
    snprintf(expected, sizeof expected, "the limit of this user (RLIMIT_NPROC, ulimit -u) is %llu,",
             (unsigned long long)most);
    return strstr(weft_last_error(), expected) ? 1 : 5;
}

static int asked(rlim_t most)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) _exit(ask_as_nobody(most));
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_threads(void **state)
{
    int few, many;
    (void)state;
    few = asked(LIMIT);
    if (few == NOT_POSSIBLE) SKIP("this process cannot become a user whom limits bind");
    assert_int_equal(few, 1);
    many = asked(10000);
    assert_int_equal(many, 0);
}

/* Places for descriptors in the table of this process. */
static int table_size(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[128];
    int size = 0;
    assert_non_null(status);
    while (!size && fgets(line, sizeof line, status))
        if (sscanf(line, "FDSize: %d", &size) != 1) size = 0;
    fclose(status);
    return size;
}

static void test_descriptors_leave_the_table_as_it_is(void **state)
{
    int size = table_size();
    (void)state;
    assert_true(size > 0);
    assert_int_equal(weft__quota_descriptors(size + 100, "this rank"), WEFT_OK);
    assert_int_equal(table_size(), size);
}

/* In a child, under a limit that leaves seven: a number that is expected is 0. */
static int ask_for_descriptors(void)
{
    enum { LEFT = 7, FROM = 200 };
    const struct rlimit limit = {FROM + LEFT + 1, FROM + LEFT + 1};
    int fd;
    if (setrlimit(RLIMIT_NOFILE, &limit)) return 1;
    do fd = dup(0);
    while (fd >= 0 && fd < FROM);
    if (fd != FROM) return 2;
    if (weft__quota_descriptors(LEFT, "this rank") != WEFT_OK) return 3;
    if (weft__quota_descriptors(LEFT + 1, "this rank") != WEFT_ERR_SYSTEM) return 4;
    if (!strstr(weft_last_error(),
                "this rank needs 8 more descriptors, and 7 are left: the limit of this process "
                "(RLIMIT_NOFILE, ulimit -n) is 208"))
        return 5;
    while (dup(0) >= 0) {
    }
    if (weft__quota_descriptors(1, "this rank") != WEFT_ERR_SYSTEM) return 6;
    return strstr(weft_last_error(), "and 0 are left") ? 0 : 7;
}

static void test_descriptors(void **state)
{
    int status;
    pid_t pid = fork();
    (void)state;
    assert_true(pid >= 0);
    if (!pid) _exit(ask_for_descriptors());
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The threads that were tried are gone when it returns: asked again and again, the answer stays. */
static void test_threads_are_given_back(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) assert_int_equal(weft__quota_threads(NEEDED, "this rank"), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors), /* first: they fork */
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_descriptors_leave_the_table_as_it_is),
        cmocka_unit_test(test_threads_are_given_back),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
