/* test_run_leftovers.c - after a job of weft-run nothing of it is left running, however it ends. */
#include "run_line.h"

#include <errno.h>
#include <signal.h>

/* Waits until the processes whose numbers are the words of a file are gone, and how
 * many are not after 20 s. */
static int left_running(const char *name)
{
    int left = 0;
    for (int tries = 0; tries < 1000; tries++) {
        char text[TEXT_BYTES];
        left = 0;
        read_text(name, text);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n"))
            if (!kill((pid_t)atoi(word), 0)) left++;
        if (!left) return 0;
        usleep(20000);
    }
    return left;
}

/* A rank, and a child of it in its group: their numbers go to the file pids. */
#define FAMILY "sh -c 'sleep 300 & echo $$ $! >>pids; touch up$RANK; wait'"

static pid_t start(const char *line)
{
    pid_t pid = fork();
    char both[] = "up0 up1", path[2 * PATH_BYTES];
    if (pid == 0) {
        if (chdir(dir)) _exit(99);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(99);
    }
    for (char *name = strtok(both, " "); name; name = strtok(NULL, " ")) {
        in_dir(path, name);
        for (int tries = 0; access(path, F_OK) && tries < 3000; tries++) usleep(10000);
        assert_int_equal(access(path, F_OK), 0);
        unlink(path);
    }
    return pid;
}

static void forget_pids(void)
{
    char path[2 * PATH_BYTES];
    in_dir(path, "pids");
    unlink(path);
}

static void killed_itself(void **state)
{
    int how;
    pid_t pid;
    (void)state;
    forget_pids();
    pid = start("exec " WEFT_RUN "-n 2 " FAMILY);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(left_running("pids"), 0);
}

/* As under timeout(1), or in a script with job control. */
static void killed_with_ranks_whose_children_have_groups(void **state)
{
    int how;
    pid_t pid;
    (void)state;
    forget_pids();
    pid = start("exec " WEFT_RUN
                "-n 2 sh -c 'setsid sh -c \"echo \\$\\$ >>pids; sleep 300 & echo \\$! >>pids; wait\" & "
                "until [ -s pids ]; do sleep 0.01; done; touch up$RANK; wait'");
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(left_running("pids"), 0);
}

/* A rank whose first deed, with a child of its own, is to kill weft-run. */
static int be_a_rank_that_kills(void)
{
    pid_t child = fork();
    FILE *pids;
    if (child == 0) return pause();
    pids = fopen("pids", "ae");
    if (!pids || fprintf(pids, "%d\n", (int)child) < 0 || fclose(pids)) return 1;
    kill(getppid(), SIGKILL);
    return pause();
}

static void killed_as_a_rank_begins(void **state)
{
    enum { TIMES = 20, SELF_BYTES = 4096 };
    char self[SELF_BYTES], line[SELF_BYTES + 256];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    (void)state;
    assert_in_range(length, 1, sizeof(self) - 1);
    self[length] = '\0';
    snprintf(line, sizeof(line), "exec " WEFT_RUN "-n 1 %s kills", self);
    forget_pids();
    for (int i = 0; i < TIMES; i++) {
        pid_t pid = fork();
        int how;
        if (pid == 0) {
            if (!chdir(dir)) execl("/bin/sh", "sh", "-c", line, (char *)NULL);
            _exit(99);
        }
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFSIGNALED(how));
    }
    assert_int_equal(left_running("pids"), 0);
}

static void told_to_end(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        int how;
        pid_t pid;
        forget_pids();
        pid = start("exec " WEFT_RUN "-n 2 " FAMILY " 2>err");
        kill(pid, signals[i]);
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 128 + signals[i]);
        assert_int_equal(left_running("pids"), 0);
    }
}

static void what_ranks_leave_behind(void **state)
{
    (void)state;
    forget_pids();
    assert_int_equal(run("-n 2 sh -c 'sleep 300 & echo $! >>pids; setsid sleep 300 & echo $! >>pids'")->code,
                     0);
    assert_int_equal(left_running("pids"), 0);
}

/* Whoever has left the group is this one's child when its parent has ended, and its own children are so later still. */
static void what_has_left_the_group_with_a_child(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        forget_pids();
        assert_int_equal(run("-n 1 sh -c 'setsid sh -c \"sleep 297 & echo \\$! >>pids; wait\" </dev/null "
                             ">/dev/null 2>&1 & "
                             "until [ -s pids ]; do sleep 0.01; done'")
                             ->code,
                         0);
        assert_int_equal(left_running("pids"), 0);
    }
}

/* As timeout(1) does, which makes a group of its own: it is asked to end, and passes that on. */
static void who_has_left_the_group_is_asked_first(void **state)
{
    char text[TEXT_BYTES];
    (void)state;
    forget_pids();
    run("-n 1 sh -c 'setsid sh -c \"trap \\\"echo asked >asked; exit\\\" TERM; echo \\$\\$ >>pids; "
        "while :; do sleep 0.05; done\" </dev/null >/dev/null 2>&1 & until [ -s pids ]; do sleep 0.01; "
        "done'");
    assert_int_equal(left_running("pids"), 0);
    read_text("asked", text);
    assert_string_equal(text, "asked\n");
}

/* What a script has started before it becomes weft-run is not a rank's. */
static void who_was_there_before_stays(void **state)
{
    char line[1024], text[TEXT_BYTES];
    (void)state;
    snprintf(line, sizeof(line),
             "--version >/dev/null; sh -c 'sleep 300 & echo $! >before; exec " WEFT_RUN "-n 1 true'");
    assert_int_equal(run(line)->code, 0);
    read_text("before", text);
    assert_int_equal(kill((pid_t)atoi(text), 0), 0);
    kill((pid_t)atoi(text), SIGKILL);
}

/* Whoever takes a second SIGTERM for "at once" gets one. */
static void who_has_left_the_group_is_asked_once(void **state)
{
    char text[TEXT_BYTES];
    (void)state;
    forget_pids();
    run("-n 1 sh -c 'setsid sh -c \"a=0 i=0; trap \\\"a=1; echo asked >>times\\\" TERM; echo \\$\\$ >>pids; "
        "while [ \\$i -lt 20 ]; do sleep 0.02; i=\\$((i + a)); done\" </dev/null >/dev/null 2>&1 & "
        "for n in 1 2 3; do setsid sh -c \"trap exit TERM; while :; do sleep 0.$n; done\" </dev/null "
        ">/dev/null 2>&1 & done; "
        "until [ -s pids ]; do sleep 0.01; done; sleep 0.1'");
    assert_int_equal(left_running("pids"), 0);
    read_text("times", text);
    assert_string_equal(text, "asked\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_itself),
        cmocka_unit_test(killed_with_ranks_whose_children_have_groups),
        cmocka_unit_test(killed_as_a_rank_begins),
        cmocka_unit_test(told_to_end),
        cmocka_unit_test(what_ranks_leave_behind),
        cmocka_unit_test(what_has_left_the_group_with_a_child),
        cmocka_unit_test(who_has_left_the_group_is_asked_first),
        cmocka_unit_test(who_has_left_the_group_is_asked_once),
        cmocka_unit_test(who_was_there_before_stays),
    };
    if (argc == 2 && !strcmp(argv[1], "kills")) return be_a_rank_that_kills();
    return cmocka_run_group_tests(tests, run_line_begin, run_line_end);
}
