/* test_weft_run.c - weft-run as a user sees it: output, exit codes and its own words.
 * Ranks are small shell programs. */
#include "run_line.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- environment and arguments ---- */

static void environment(void **state)
{
    const struct result *r =
        run("-n 2 --prefix -- sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE "
            "$MASTER_ADDR $KEPT; [ $MASTER_PORT -gt 1024 ] || exit 1'");
    (void)state;
    assert_int_equal(r->code, 0);
    assert_true(has(r->out, "[0] 0 2 0 2 127.0.0.1 kept\n"));
    assert_true(has(r->out, "[1] 1 2 1 2 127.0.0.1 kept\n"));
    assert_string_equal(r->err, "");
}

enum { RUN_SALT = 32 }; /* characters */

/* The salt of a password: one for all ranks of a run, and another one in the next, whatever was inherited. */
static void each_run_has_a_salt(void **state)
{
    char first[2][RUN_SALT + 1], inherited[] = "00112233445566778899aabbccddeeff";
    (void)state;
    setenv("WEFT_SECRET", "env:TEST_SECRET", 1);
    setenv("WEFT_SECRET_SALT", inherited, 1);
    for (int i = 0; i < 2; i++) {
        const struct result *r = run("-n 2 -- sh -c 'echo $WEFT_SECRET_SALT'");
        assert_int_equal(r->code, 0);
        assert_int_equal(strlen(r->out), 2 * (RUN_SALT + 1));
        assert_int_equal(strspn(r->out, "0123456789abcdef"), RUN_SALT);
        assert_memory_equal(r->out, r->out + RUN_SALT + 1, RUN_SALT);
        assert_memory_not_equal(r->out, inherited, RUN_SALT);
        memcpy(first[i], r->out, RUN_SALT);
    }
    assert_memory_not_equal(first[0], first[1], RUN_SALT);
    unsetenv("WEFT_SECRET");
    unsetenv("WEFT_SECRET_SALT");
}

static void arguments_are_passed_on(void **state)
{
    const struct result *r = run("-n 1 printf '%s|' -n 2 --prefix 'a b' ''");
    (void)state;
    assert_string_equal(r->out, "-n|2|--prefix|a b||");
    assert_int_equal(r->code, 0);
}

static void one_rank_per_core_is_the_default(void **state)
{
    const struct result *r = run("sh -c 'echo $WORLD_SIZE' | sort -u");
    (void)state;
    assert_true(atoi(r->out) >= 1 && atoi(r->out) <= sysconf(_SC_NPROCESSORS_ONLN));
    assert_null(strchr(strchr(r->out, '\n') + 1, '\n'));
}

static void wrong_usage(void **state)
{
    static const char *const wrong[] = {"",        "-n 2",         "-n 0 true",         "-n x true",
                                        "-n",      "-n 5000 true", "--nonsense true",   "--timeout -1 true",
                                        "-q true", "--timeout",    "--timeout 1x true", "--"};
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct result *r = run(wrong[i]);
        assert_int_equal(r->code, 2);
        assert_memory_equal(r->err, "weft-run: ", 10);
        assert_ptr_equal(strchr(r->err, '\n'), r->err + strlen(r->err) - 1); /* one line */
        assert_true(has(r->err, "--help"));
        assert_string_equal(r->out, "");
    }
    assert_true(has(run("--nonsense true")->err, "--nonsense"));
    assert_true(has(run("--help")->out, "  --timeout S "));
}

static void ranks_as_mpirun_names_them(void **state)
{
    (void)state;
    assert_string_equal(run("-np 3 sh -c 'echo $WORLD_SIZE' | sort -u")->out, "3\n");
    assert_int_equal(run("-np")->code, 2);
    assert_true(has(run("-np x true")->err, "-np takes a number"));
    assert_int_equal(run("-np x true")->code, 2);
}

static void version(void **state)
{
    const struct result *r = run("--version");
    int parts[3];
    (void)state;
    assert_int_equal(r->code, 0);
    assert_int_equal(sscanf(r->out, "weft-run %d.%d.%d\n", &parts[0], &parts[1], &parts[2]), 3);
    assert_string_equal(r->err, "");
}

static void jobs_side_by_side_have_ports_of_their_own(void **state)
{
    char text[TEXT_BYTES];
    /* Each stays until all are there: a port may be another job's once its own has ended. */
    const struct result *r = run("true; for i in 1 2 3 4 5 6 7 8; do " WEFT_RUN
                                 "-n 1 --timeout 60 sh -c 'echo $MASTER_PORT; : >beside.$$; "
                                 "until [ $(ls beside.* | wc -l) = 8 ]; do sleep 0.05; done' & done; wait");
    (void)state;
    memcpy(text, r->out, sizeof(text));
    for (char *a = strtok(text, "\n"); a; a = strtok(NULL, "\n")) {
        const char *first = strstr(r->out, a);
        assert_null(strstr(first + 1, a));
    }
}

/* ---- output
 * ---------------------------------------------------------------------------------------------------- */

static void output_is_unchanged(void **state)
{
    const struct result *r =
        run("-n 3 sh -c '[ $RANK = 1 ] && printf \"a\\0b\\n\\nlast\"; echo e$RANK >&2' | od -An -c");
    (void)state;
    assert_string_equal(r->out, "   a  \\0   b  \\n  \\n   l   a   s   t\n");
    assert_true(has(r->err, "e0\n") && has(r->err, "e1\n") && has(r->err, "e2\n"));
}

static void lines_are_never_mixed(void **state)
{
    /* Each rank writes its lines in two pieces; afterwards each line has one rank's digits only. */
    const struct result *r =
        run("-n 4 sh -c 'i=0; while [ $i -lt 200 ]; do printf $RANK$RANK; printf $RANK$RANK\\\\n; "
            "i=$((i+1)); done' | sort | uniq -c | tr -s ' '");
    (void)state;
    assert_string_equal(r->out, " 200 0000\n 200 1111\n 200 2222\n 200 3333\n");
}

static void an_unended_last_line_does_not_run_into_another(void **state)
{
    const struct result *r = run("-n 2 sh -c 'printf $RANK' | sort");
    (void)state;
    assert_string_equal(r->out, "0\n1\n");
}

static void prefix_begins_each_line(void **state)
{
    const struct result *r = run("-n 1 --prefix sh -c 'echo a; echo; printf b; echo c >&2'");
    (void)state;
    assert_string_equal(r->out, "[0] a\n[0] \n[0] b\n");
    assert_string_equal(r->err, "[0] c\n");
}

static void a_line_of_many_megabytes(void **state)
{
    const struct result *r =
        run("-n 2 sh -c 'head -c 5000000 /dev/zero | tr \"\\0\" x' | tr -d '\\n' | wc -c");
    (void)state;
    assert_int_equal(atoi(r->out), 10000000);
    assert_int_equal(r->code, 0);
}

static void a_reader_that_stops(void **state)
{
    const struct result *r = run("-n 2 yes | head -n 1; true");
    (void)state;
    assert_string_equal(r->out, "y\n");
    assert_true(has(r->err, "SIGPIPE"));
}

/* ---- on a terminal
 * ------------------------------------------------------------------------------------------- */

/* What appears on a terminal while weft-run has it for its stdout, until that is closed; its stderr goes to a
 * file. */
static int on_terminal(const char *arguments, char *shown, size_t bytes)
{
    char line[1024], name[64];
    struct termios raw;
    size_t used = 0;
    ssize_t n = 0;
    int how, slave = -1, master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    pid_t pid;
    if (master < 0 || grantpt(master) || unlockpt(master) || ptsname_r(master, name, sizeof(name)) ||
        (slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        SKIP("no pseudo-terminal here: %s", strerror(errno));
    }
    assert_int_equal(tcgetattr(slave, &raw), 0);
    cfmakeraw(&raw); /* so that every byte is seen as it was written */
    assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
    snprintf(line, sizeof(line), "cd %s && exec " WEFT_RUN "%s </dev/null 2>err", dir, arguments);
    pid = fork();
    if (pid == 0) {
        if (dup2(slave, STDOUT_FILENO) < 0) _exit(99);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(99);
    }
    close(slave);
    while (used < bytes - 1 &&
           ((n = read(master, shown + used, bytes - 1 - used)) > 0 || (n < 0 && errno == EINTR)))
        used += n > 0 ? (size_t)n : 0;
    shown[used] = '\0';
    close(master);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void ranks_see_a_terminal_where_there_is_one(void **state)
{
    static const char asks[] = "sh -c 'if [ -t 1 ]; then echo a terminal; else echo no terminal; fi; exit 3'";
    char line[512], shown[TEXT_BYTES];
    (void)state;
    snprintf(line, sizeof(line), "-n 2 --prefix %s", asks);
    assert_int_equal(run(line)->code, 3);
    assert_true(has(run(line)->out, " no terminal\n"));
    assert_int_equal(on_terminal(line, shown, sizeof(shown)), 3);
    assert_true(has(shown, "[0] a terminal\n") ||
                has(shown, "[1] a terminal\n")); /* who fails first ends the other */
    assert_false(has(shown, "no terminal"));
}

static void a_terminal_shows_every_byte(void **state)
{
    static char shown[1 << 20];
    size_t x = 0;
    (void)state;
    assert_int_equal(on_terminal("-n 1 printf 'a\\tb\\r\\nc\\nlast'", shown, sizeof(shown)), 0);
    assert_string_equal(shown, "a\tb\r\nc\nlast");
    assert_int_equal(on_terminal("-n 2 sh -c 'head -c 300000 /dev/zero | tr \"\\0\" x; echo'", shown,
                                 sizeof(shown)),
                     0);
    for (const char *at = shown; *at; at++) x += *at == 'x';
    assert_int_equal(x, 600000);
    assert_int_equal(strlen(shown), 600002);
}

/* A pipe would keep what the C library has gathered until the program ends. */
static void a_terminal_shows_lines_as_they_are_written(void **state)
{
    char shown[TEXT_BYTES], path[2 * PATH_BYTES], line[512];
    (void)state;
    in_dir(path, "goes-on");
    assert_int_equal(mkfifo(path, 0600), 0);
    /* awk writes through a buffer of the C library's kind; it ends when it is killed, so nothing else flushes
     * that. */
    snprintf(line, sizeof(line), "-n 1 --timeout 6 awk 'BEGIN { print \"early\"; getline < \"%s\" }'", path);
    assert_int_equal(on_terminal(line, shown, sizeof(shown)), 124);
    assert_true(has(shown, "early\n"));
}

static void stdin_goes_to_rank_0(void **state)
{
    const struct result *r = run("-n 3 --prefix sh -c 'cat; echo end' <<END\nhello\nEND");
    (void)state;
    assert_true(has(r->out, "[0] hello\n") && has(strstr(r->out, "[0] hello\n"), "[0] end\n"));
    assert_true(has(r->out, "[1] end\n") && has(r->out, "[2] end\n"));
    assert_false(has(r->out, "[1] hello"));
}

/* ---- how a job ends
 * ----------------------------------------------------------------------------------------------- */

static void exit_code_of_the_first_failure(void **state)
{
    double began = seconds();
    const struct result *r = run("-n 4 sh -c '[ $RANK = 2 ] && exit 7; exec sleep 60'");
    (void)state;
    assert_int_equal(r->code, 7);
    assert_memory_equal(r->err, "weft-run: rank 2 ", 17);
    assert_true(has(r->err, "exited with code 7\n"));
    assert_true(seconds() - began < 10);
}

static void a_signal_by_name(void **state)
{
    const struct result *r = run("-n 2 sh -c '[ $RANK = 1 ] && kill -SEGV $$; exec sleep 60'");
    (void)state;
    assert_int_equal(r->code, 128 + SIGSEGV);
    assert_true(has(r->err, "weft-run: rank 1 (pid "));
    assert_true(has(r->err, "was killed by SIGSEGV\n"));
}

/* Rank 0 dies when it sees that rank 1 has ended: whose end of the pipe is closed then.  On a busy machine that may come too
 * late to explain anything, once. */
static void a_death_explains_more_than_what_comes_before_it(void **state)
{
    char path[2 * PATH_BYTES];
    const struct result *r;
    (void)state;
    in_dir(path, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int tries = 0; tries < 5; tries++) {
        r = run("-n 2 sh -c '[ $RANK = 1 ] && exec 3>pipe && exit 1; read nothing <pipe; kill -KILL $$'");
        if (r->code != 1) break;
    }
    assert_int_equal(r->code, 128 + SIGKILL);
    assert_true(has(r->err, "rank 0 (pid"));
}

static void ranks_that_do_not_want_to_end(void **state)
{
    double began = seconds();
    const struct result *r =
        run("-n 2 sh -c 'trap \"\" TERM; [ $RANK = 0 ] && exit 5; while :; do sleep 1; done'");
    (void)state;
    assert_int_equal(r->code, 5);
    assert_true(seconds() - began < 20);
}

static void time_limit(void **state)
{
    double began = seconds();
    const struct result *r = run("-n 2 --timeout 0.5 sleep 60");
    (void)state;
    assert_int_equal(r->code, 124);
    assert_true(has(r->err, "weft-run: the job's 0.5 s are over; still running: rank 0, 1\n"));
    assert_true(seconds() - began >= 0.5 && seconds() - began < 20);
    assert_int_equal(run("-n 2 --timeout 60 true")->code, 0);
}

static void programs_that_cannot_run(void **state)
{
    const struct result *r = run("-n 2 ./nowhere");
    (void)state;
    assert_int_equal(r->code, 127);
    assert_memory_equal(r->err, "weft-run: cannot run ./nowhere: ", 32);
    r = run("-n 2 /dev/null");
    assert_int_equal(r->code, 126);
    assert_memory_equal(r->err, "weft-run: ", 10);
}

static void bind_pins_ranks_to_cores(void **state)
{
    const struct result *r = run("-n 9 --bind --prefix grep Cpus_allowed_list /proc/self/status | sort");
    char *line = strtok(((struct result *)(uintptr_t)r)->out, "\n");
    (void)state;
    assert_int_equal(r->code, 0);
    for (int n = 0; n < 9; n++, line = strtok(NULL, "\n")) {
        assert_non_null(line);
        assert_null(strpbrk(strchr(line, '\t'), ",-"));
    }
}

static void bind_takes_a_word_or_none(void **state)
{
    const struct result *r = run("-n 2 --bind core --verbose true");
    (void)state;
    assert_int_equal(r->code, 0);
    assert_true(has(r->err, "weft-run: rank 1 is bound to "));
    assert_string_equal(run("-n 1 --bind=none --verbose echo core")->out, "core\n");
    r = run("-n 1 --bind=socket true");
    assert_int_equal(r->code, 2);
    assert_true(has(r->err, "--bind takes core, numa or none, not \"socket\""));
}

static void output_in_files(void **state)
{
    const struct result *r =
        run("-n 2 --output files --prefix sh -c 'echo o$RANK; printf e$RANK >&2' && cat files/rank.0.out "
            "files/rank.1.out files/rank.0.err files/rank.1.err");
    (void)state;
    assert_int_equal(r->code, 0);
    assert_string_equal(r->out, "[0] o0\n[1] o1\n[0] e0\n[1] e1\n");
    assert_string_equal(r->err, "");
    r = run("-n 1 --output /nowhere/files true");
    assert_int_equal(r->code, 126);
    assert_true(has(r->err, "weft-run: cannot start: /nowhere/files: No such file"));
}

static void what_cannot_be_written_is_told(void **state)
{
    const struct result *r;
    (void)state;
    run("-n 2 --output full true; ln -sf /dev/full full/rank.1.out");
    r = run("-n 2 --output full sh -c 'echo o$RANK'");
    assert_int_equal(r->code, 126);
    assert_true(has(r->err, "weft-run: cannot write full/rank.1.out: No space left on device"));
    r = run("-n 1 sh -c 'echo hi; exec sleep 0.3 >/dev/null 2>&1' >/dev/full");
    assert_int_equal(r->code, 126);
    assert_true(has(r->err, "weft-run: cannot write standard output: No space left on device"));
    r = run("--version >/dev/null; (ulimit -f 8; exec " WEFT_RUN "-n 1 head -c 100000 /dev/zero >limited)");
    assert_int_equal(r->code, 126);
    assert_true(has(r->err, "weft-run: cannot write standard output: File too large"));
}

static void a_signal_ends_a_wait_for_a_reader(void **state)
{
    const struct result *r;
    (void)state;
    r = run("--version >/dev/null; { sh -c 'echo $$ >pid; exec " WEFT_RUN
            "-n 1 seq 1 26000'; echo $? >code; } | "
            "{ until [ -s pid ]; do sleep 0.1; done; sleep 1; kill -TERM $(cat pid); sleep 0.5; cat "
            ">/dev/null; }; "
            "cat code");
    assert_string_equal(r->out, "143\n");
}

static void files_lie_where_it_was_started(void **state)
{
    (void)state;
    assert_string_equal(run("-n 1 --wdir / --output here echo there && cat here/rank.0.out")->out, "there\n");
}

static void timestamps_begin_each_line(void **state)
{
    const struct result *r = run("-n 1 --timestamps --prefix printf 'a\\n\\nb'");
    char text[TEXT_BYTES], *rest = NULL;
    int lines = 0;
    (void)state;
    memcpy(text, r->out, sizeof(text));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++) {
        int date[3], time[4], used = 0;
        assert_int_equal(sscanf(line, "%4d-%2d-%2d %2d:%2d:%2d.%3d [0] %n", &date[0], &date[1], &date[2],
                                &time[0], &time[1], &time[2], &time[3], &used),
                         7);
        assert_string_equal(line + used, lines == 0 ? "a" : lines == 1 ? "" : "b");
    }
    assert_int_equal(lines, 3);
}

static void variables_and_directory(void **state)
{
    const struct result *r = run("-n 1 -x GIVEN=there -x KEPT --wdir / sh -c 'echo $GIVEN $KEPT $PWD'");
    (void)state;
    assert_string_equal(r->out, "there kept /\n");
    assert_true(has(run("-n 1 -x NOT_THERE true")->err, "-x NOT_THERE: that variable is not set"));
    assert_true(has(run("-n 1 -x WEFT_SECRET=env:A true")->err, "goes to all hosts by itself"));
    assert_int_equal(run("-n 1 --wdir /nowhere true")->code, 126);
    assert_true(has(run("-n 1 --launch ssh true")->err, "--launch is for jobs over hosts"));
}

static void signals_for_the_ranks(void **state)
{
    const struct result *r =
        run("-n 2 sh -c 'trap \"exit 0\" USR1; touch usr$RANK; while :; do sleep 0.1; done' & "
            "until [ -e usr0 ] && [ -e usr1 ]; do sleep 0.1; done; sleep 0.2; kill -USR1 $!; wait $!");
    (void)state;
    assert_int_equal(r->code, 0);
}

static void job_directories_go_after_success(void **state)
{
    static const char ranks[] =
        "-n 1 sh -c 'd=$WEFT_RUN_DIR/weft-$(id -u); mkdir -p $d/default-$MASTER_PORT $d/other-1; "
        "echo x > $d/default-$MASTER_PORT/secret; ";
    char path[2 * PATH_BYTES], line[1024];
    (void)state;
    in_dir(path, "jobs");
    setenv("WEFT_RUN_DIR", path, 1);
    snprintf(line, sizeof(line), "%strue'; ls jobs/*", ranks);
    assert_string_equal(run(line)->out, "other-1\n");
    snprintf(line, sizeof(line), "%sfalse'; ls jobs/* | wc -l", ranks);
    assert_string_equal(run(line)->out, "2\n");
    unsetenv("WEFT_RUN_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment),
        cmocka_unit_test(each_run_has_a_salt),
        cmocka_unit_test(arguments_are_passed_on),
        cmocka_unit_test(one_rank_per_core_is_the_default),
        cmocka_unit_test(wrong_usage),
        cmocka_unit_test(ranks_as_mpirun_names_them),
        cmocka_unit_test(version),
        cmocka_unit_test(jobs_side_by_side_have_ports_of_their_own),
        cmocka_unit_test(output_is_unchanged),
        cmocka_unit_test(lines_are_never_mixed),
        cmocka_unit_test(an_unended_last_line_does_not_run_into_another),
        cmocka_unit_test(prefix_begins_each_line),
        cmocka_unit_test(a_line_of_many_megabytes),
        cmocka_unit_test(a_reader_that_stops),
        cmocka_unit_test(ranks_see_a_terminal_where_there_is_one),
        cmocka_unit_test(a_terminal_shows_every_byte),
        cmocka_unit_test(a_terminal_shows_lines_as_they_are_written),
        cmocka_unit_test(stdin_goes_to_rank_0),
        cmocka_unit_test(exit_code_of_the_first_failure),
        cmocka_unit_test(a_signal_by_name),
        cmocka_unit_test(a_death_explains_more_than_what_comes_before_it),
        cmocka_unit_test(ranks_that_do_not_want_to_end),
        cmocka_unit_test(time_limit),
        cmocka_unit_test(programs_that_cannot_run),
        cmocka_unit_test(bind_pins_ranks_to_cores),
        cmocka_unit_test(bind_takes_a_word_or_none),
        cmocka_unit_test(output_in_files),
        cmocka_unit_test(files_lie_where_it_was_started),
        cmocka_unit_test(what_cannot_be_written_is_told),
        cmocka_unit_test(a_signal_ends_a_wait_for_a_reader),
        cmocka_unit_test(timestamps_begin_each_line),
        cmocka_unit_test(variables_and_directory),
        cmocka_unit_test(signals_for_the_ranks),
        cmocka_unit_test(job_directories_go_after_success),
    };
    return cmocka_run_group_tests(tests, run_line_begin, run_line_end);
}
