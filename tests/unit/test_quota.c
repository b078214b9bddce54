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

/* The threads that were tried are gone when it returns: asked again and again, the answer stays. */
static void test_threads_are_given_back(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) assert_int_equal(weft__quota_threads(NEEDED, "this rank"), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads), /* first: it forks */
        cmocka_unit_test(test_threads_are_given_back),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
