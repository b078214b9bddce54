/* Where secrets come from, that bad places are refused, and that the job directory is made, shared and
 * cleaned. */
#include "job.h"
#include "log.h"
#include "secret.h"
#include "skip.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/weft-test-secret-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static const char *source_of(const char *name)
{
    static char source[300];
    snprintf(source, sizeof source, "file:%s", path_of(name));
    return source;
}

static void write_file(const char *name, const void *bytes, size_t length, mode_t mode)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), (ssize_t)length);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void refuse(const char *source, weft_status expected, const char *words)
{
    weft__secret secret = {.length = 77};
    assert_int_equal(weft__secret_read(source, &secret), expected);
    if (!strstr(weft_last_error(), words)) fail_msg("\"%s\" lacks \"%s\"", weft_last_error(), words);
    assert_int_equal(secret.length, 77);
}

static void files_are_read(void **state)
{
    weft__secret secret;
    char longest[WEFT__SECRET_MAX + 2];
    (void)state;
    write_file("good", "abc\n", 4, 0600);
    assert_int_equal(weft__secret_read(source_of("good"), &secret), WEFT_OK);
    assert_int_equal(secret.length, 3);
    assert_memory_equal(secret.bytes, "abc", 3);
    assert_false(secret.made_here);
    write_file("bytes", "a\0b", 3, 0400);
    assert_int_equal(weft__secret_read(source_of("bytes"), &secret), WEFT_OK);
    assert_int_equal(secret.length, 3);
    memset(longest, 'x', sizeof longest);
    longest[WEFT__SECRET_MAX] = '\n';
    write_file("longest", longest, WEFT__SECRET_MAX + 1, 0600);
    assert_int_equal(weft__secret_read(source_of("longest"), &secret), WEFT_OK);
    assert_int_equal(secret.length, WEFT__SECRET_MAX);
    longest[WEFT__SECRET_MAX] = 'x';
    write_file("too-long", longest, WEFT__SECRET_MAX + 1, 0600);
    refuse(source_of("too-long"), WEFT_ERR_ARGUMENT, "longer than 1024 bytes");
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    write_file("open", "abc", 3, 0640);
    refuse(source_of("open"), WEFT_ERR_ARGUMENT, "mode 0640");
    write_file("empty", "\n", 1, 0600);
    refuse(source_of("empty"), WEFT_ERR_ARGUMENT, "is empty");
    refuse(source_of("absent"), WEFT_ERR_SYSTEM, "No such file");
    assert_int_equal(symlink("good", path_of("link")), 0);
    refuse(source_of("link"), WEFT_ERR_ARGUMENT, "symbolic link");
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    refuse(source_of("fifo"), WEFT_ERR_ARGUMENT, "not a regular file");
    refuse("abc", WEFT_ERR_ARGUMENT, "file:PATH, fd:N or env:NAME");
    assert_null(strstr(weft_last_error(), "abc"));
}

static void descriptors_and_variables_are_read(void **state)
{
    weft__secret secret;
    char source[32];
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    snprintf(source, sizeof source, "fd:%d", ends[0]);
    assert_int_equal(weft__secret_read(source, &secret), WEFT_OK);
    assert_int_equal(secret.length, 11);
    refuse(source, WEFT_ERR_ARGUMENT, "is empty"); /* it has been read */
    close(ends[0]);
    refuse(source, WEFT_ERR_SYSTEM, "Bad file descriptor");
    refuse("fd:", WEFT_ERR_ARGUMENT, "does not name a descriptor");
    refuse("fd:3x", WEFT_ERR_ARGUMENT, "does not name a descriptor");
    setenv("TEST_SECRET", "word", 1);
    assert_int_equal(weft__secret_read("env:TEST_SECRET", &secret), WEFT_OK);
    assert_int_equal(secret.length, 4);
    weft__secret_wipe(&secret);
    assert_int_equal(secret.length, 0);
    setenv("TEST_SECRET", "", 1);
    refuse("env:TEST_SECRET", WEFT_ERR_ARGUMENT, "is empty");
    unsetenv("TEST_SECRET");
    refuse("env:TEST_SECRET", WEFT_ERR_ARGUMENT, "is not set");
}

#define RACERS 8

static void *race(void *arg)
{
    weft__secret *secret = arg;
    char path[256];
    int fd;
    if (weft__job_dir_open("race", path, sizeof path, &fd)) return "cannot open";
    if (weft__secret_of_job(path, secret)) return "no secret";
    close(fd);
    return NULL;
}

static void one_of_many_makes_the_secret(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        static weft__secret secrets[RACERS];
        pthread_t threads[RACERS];
        char path[300];
        for (int i = 0; i < RACERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, race, &secrets[i]), 0);
        for (int i = 0; i < RACERS; i++) {
            void *why;
            pthread_join(threads[i], &why);
            assert_null(why);
            assert_true(secrets[i].made_here);
            assert_int_equal(secrets[i].length, 64);
            assert_memory_equal(secrets[i].bytes, secrets[0].bytes, 64);
        }
        snprintf(path, sizeof path, "%s/weft-%u/race/secret", root, (unsigned)geteuid());
        assert_int_equal(unlink(path), 0);
    }
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void directories_are_private(void **state)
{
    char path[256], bad[512];
    struct stat st;
    int fd;
    (void)state;
    assert_int_equal(weft__job_dir_open("a b/../c", path, sizeof path, &fd), WEFT_OK);
    assert_string_equal(strrchr(path, '/'), "/a_b_.._c");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    close(fd);
    assert_int_equal(weft__job_dir_open("..", path, sizeof path, &fd), WEFT_OK);
    assert_string_equal(strrchr(path, '/'), "/_.");
    close(fd);
    assert_int_equal(weft__job_dir_open("", path, sizeof path, &fd), WEFT_ERR_ARGUMENT);
    snprintf(bad, sizeof bad, "%s/weft-%u/open", root, (unsigned)geteuid());
    assert_int_equal(mkdir(bad, 0700), 0);
    assert_int_equal(chmod(bad, 0755), 0);
    assert_int_equal(weft__job_dir_open("open", path, sizeof path, &fd), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "mode 0755"));
    rmdir(bad);
    assert_int_equal(symlink("/tmp", bad), 0);
    assert_int_equal(weft__job_dir_open("open", path, sizeof path, &fd), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "link"));
    unlink(bad);
}

static void make_empty(const char *dir, const char *name)
{
    char path[300];
    int fd;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static bool has(const char *dir, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* Ranks that were all killed leave the file at which they met: the next start takes it away. */
static void meetings_of_the_dead_go(void **state)
{
    char live[256], dead[256], path[256];
    struct stat before, after;
    int live_fd, fd;
    (void)state;
    assert_int_equal(weft__job_dir_open("live", live, sizeof live, &live_fd), WEFT_OK);
    assert_int_equal(weft__job_dir_open("dead", dead, sizeof dead, &fd), WEFT_OK);
    make_empty(live, "meeting");
    make_empty(dead, "meeting");
    make_empty(dead, "secret");
    close(fd);
    assert_int_equal(stat(dead, &before), 0);
    assert_int_equal(weft__job_dir_open("next", path, sizeof path, &fd), WEFT_OK);
    assert_int_equal(stat(dead, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim); /* no younger for it */
    assert_true(has(live, "meeting"));
    assert_false(has(dead, "meeting"));
    assert_true(has(dead, "secret")); /* of a rank that may come yet */
    close(fd);
    close(live_fd);
}

static void dead_directories_are_cleaned(void **state)
{
    char path[256], first[256], live[256], old[256];
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    int live_fd, fd, left = 0;
    (void)state;
    assert_int_equal(weft__job_dir_open("live", live, sizeof live, &live_fd), WEFT_OK);
    assert_int_equal(futimens(live_fd, long_ago), 0);
    assert_int_equal(weft__job_dir_open("old", old, sizeof old, &fd), WEFT_OK);
    assert_int_equal(futimens(fd, long_ago), 0);
    close(fd);
    for (int i = 0; i < 24; i++) {
        char id[16], other[300];
        snprintf(id, sizeof id, "job%d", i);
        assert_int_equal(weft__job_dir_open(id, path, sizeof path, &fd), WEFT_OK);
        snprintf(other, sizeof other, "%s/something", path);
        close(open(other, O_WRONLY | O_CREAT, 0600));
        if (i == 0) memcpy(first, path, sizeof first);
        close(fd);
        usleep(2000); /* so that their ages differ */
    }
    assert_true(exists(live));   /* held */
    assert_false(exists(old));   /* too old */
    assert_false(exists(first)); /* one too many */
    assert_true(exists(path));   /* the newest */
    for (int i = 0; i < 24; i++) {
        char other[600];
        snprintf(other, sizeof other, "%s/weft-%u/job%d", root, (unsigned)geteuid(), i);
        left += exists(other);
    }
    assert_int_equal(left, 17); /* 16 dead ones and the one just opened */
    close(live_fd);
    assert_int_equal(weft__job_dir_open("last", path, sizeof path, &fd), WEFT_OK);
    assert_false(exists(live));
    close(fd);
}

/* ---- places that cannot be used: each in a child, since settings are read once in a process ---- */

static char told[4][512]; /* log lines of that child */
static int lines;

static void take_line(int level, const char *line, void *arg)
{
    (void)arg;
    if (lines < 4) snprintf(told[lines++], sizeof told[0], "%d %s", level, line);
}

/* Whether a directory is opened in `folder`, and each of the words is told at that level. */
static void opens_in(const char *folder, int level, const char *first, const char *second)
{
    char path[256], begins[300], number[4];
    int fd;
    setenv("WEFT_LOG", "2", 1);
    weft_set_log(take_line, NULL);
    if (weft__job_dir_open("fallback", path, sizeof path, &fd)) {
        fprintf(stderr, "refused: %s\n", weft_last_error());
        _exit(1);
    }
    weft__log_flush();
    snprintf(begins, sizeof begins, "%s/fallback", folder);
    snprintf(number, sizeof number, "%d ", level);
    if (strcmp(path, begins) != 0 || lines != 1 || strncmp(told[0], number, 2) != 0 ||
        !strstr(told[0], first) || !strstr(told[0], second)) {
        fprintf(stderr, "path %s in place of %s, line \"%s\"\n", path, begins, told[0]);
        _exit(2);
    }
    close(fd);
    _exit(0);
}

static void child_ends_well(pid_t pid)
{
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_runtime_directory_that_is_not_there_is_passed_over(void **state)
{
    pid_t pid = fork();
    (void)state;
    if (!pid) {
        char own[64];
        snprintf(own, sizeof own, "/tmp/weft-%u", (unsigned)geteuid());
        unsetenv("WEFT_RUN_DIR");
        setenv("XDG_RUNTIME_DIR", path_of("absent"), 1);
        opens_in(own, 2, "XDG_RUNTIME_DIR", "WEFT_RUN_DIR");
    }
    child_ends_well(pid);
}

/* What su, cron and containers leave behind. */
static void somebody_elses_runtime_directory_is_passed_over(void **state)
{
    const char *theirs = "/usr";
    pid_t pid;
    (void)state;
    if (geteuid() == 0) {
        theirs = path_of("theirs");
        assert_int_equal(mkdir(theirs, 0700), 0);
        assert_int_equal(chown(theirs, 65534, 65534), 0);
    }
    pid = fork();
    if (!pid) {
        char own[64];
        snprintf(own, sizeof own, "/tmp/weft-%u", (unsigned)geteuid());
        unsetenv("WEFT_RUN_DIR");
        setenv("XDG_RUNTIME_DIR", theirs, 1);
        opens_in(own, 2, "belongs to user ", "XDG_RUNTIME_DIR");
    }
    child_ends_well(pid);
}

/* Another user may have made our name, as a directory or as anything else: that is no reason not to run. */
static void a_name_that_is_taken_is_passed_over(void **state)
{
    static const char *const makes[] = {"mkdir", "ln -s /tmp", "touch"};
    (void)state;
    if (geteuid()) SKIP("only root can make what belongs to somebody else");
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        char top[256], command[700];
        pid_t pid;
        snprintf(top, sizeof top, "%s", path_of(makes[i]));
        if (strchr(top, ' ')) *strchr(top, ' ') = '\0';
        snprintf(command, sizeof command, "mkdir -p %s && cd %s && %s weft-%u && chown -h 65534 weft-%u", top,
                 top, makes[i], (unsigned)geteuid(), (unsigned)geteuid());
        assert_int_equal(system(command), 0);
        pid = fork();
        if (!pid) {
            char own[300];
            setenv("WEFT_RUN_DIR", top, 1);
            snprintf(own, sizeof own, "%s/weft-%u-1", top, (unsigned)geteuid());
            opens_in(own, 2, "belongs to user 65534", own);
        }
        child_ends_well(pid);
    }
}

/* A link of our own is a mistake or a trap. */
static void a_link_of_ours_is_refused(void **state)
{
    char link[256], path[256];
    pid_t pid;
    (void)state;
    assert_int_equal(mkdir(path_of("linked"), 0700), 0);
    snprintf(path, sizeof path, "%s/real", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(link, sizeof link, "%s/linked/weft-%u", root, (unsigned)geteuid());
    assert_int_equal(symlink(path, link), 0);
    pid = fork();
    if (!pid) {
        int fd;
        setenv("WEFT_RUN_DIR", path_of("linked"), 1);
        if (weft__job_dir_open("a", path, sizeof path, &fd) != WEFT_ERR_SYSTEM) _exit(1);
        if (!strstr(weft_last_error(), "is a link or not a directory; remove it or set WEFT_RUN_DIR"))
            _exit(2);
        _exit(0);
    }
    child_ends_well(pid);
    assert_int_equal(rmdir(path), 0); /* nothing was made behind it */
}

/* A private directory behind a link is a link all the same: whoever placed it can move it. */
static void a_link_in_place_of_the_job_is_refused(void **state)
{
    char path[256], behind[256], link[512];
    int fd;
    (void)state;
    snprintf(behind, sizeof behind, "%s/behind", root);
    assert_int_equal(mkdir(behind, 0700), 0);
    assert_int_equal(weft__job_dir_open("before", path, sizeof path, &fd), WEFT_OK);
    close(fd);
    snprintf(link, sizeof link, "%s/weft-%u/linked", root, (unsigned)geteuid());
    assert_int_equal(symlink(behind, link), 0);
    assert_int_equal(weft__job_dir_open("linked", path, sizeof path, &fd), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "linked is a link or not a directory; remove it"));
    unlink(link);
    assert_int_equal(rmdir(behind), 0); /* nothing was made behind it */
}

/* ---- killed on the way ---- */

enum { NOWHERE, AT_LINK, AT_UNLINK };
static int dies; /* at which of these a child of this test does */

int linkat(int fromfd, const char *from, int tofd, const char *to, int flags)
{
    if (dies == AT_LINK) _exit(0);
    return (int)syscall(SYS_linkat, fromfd, from, tofd, to, flags);
}

int unlinkat(int fd, const char *name, int flag)
{
    if (dies == AT_UNLINK) _exit(0);
    return (int)syscall(SYS_unlinkat, fd, name, flag);
}

/* Files in that directory, apart from the secret. */
static int files_beside_the_secret(const char *path)
{
    char command[400];
    int n = -1;
    FILE *list;
    snprintf(command, sizeof command, "ls -A %s | grep -vx secret | wc -l", path);
    list = popen(command, "r");
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%d", &n), 1);
    pclose(list);
    return n;
}

static void nothing_is_left_of_a_secret_half_made(void **state)
{
    (void)state;
    for (int at = AT_LINK; at <= AT_UNLINK; at++) {
        char path[256];
        int fd;
        pid_t pid;
        weft__secret secret;
        assert_int_equal(weft__job_dir_open(at == AT_LINK ? "link" : "unlink", path, sizeof path, &fd),
                         WEFT_OK);
        pid = fork();
        if (!pid) {
            dies = at;
            _exit(weft__secret_of_job(path, &secret) || at == AT_LINK);
        }
        child_ends_well(pid);
        assert_int_equal(files_beside_the_secret(path), 0);
        assert_int_equal(weft__secret_of_job(path, &secret), WEFT_OK);
        assert_int_equal(secret.length, 64);
        close(fd);
    }
}

/* ---- poor ones ---- */

static void poor_secrets_are_called_so(void **state)
{
    static const char *const poor[] = {"aaaaaaaaaaaaaaaaaaaaaaaa", "0101010101010101"};
    static const char *const good[] = {"0123456789abcdef", "correct horse battery staple"};
    weft__secret secret;
    (void)state;
    for (size_t i = 0; i < sizeof poor / sizeof *poor; i++) {
        setenv("TEST_SECRET", poor[i], 1);
        assert_int_equal(weft__secret_read("env:TEST_SECRET", &secret), WEFT_OK);
        assert_non_null(weft__secret_weakness(&secret));
        assert_null(strstr(weft__secret_weakness(&secret), poor[i]));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("TEST_SECRET", good[i], 1);
        assert_int_equal(weft__secret_read("env:TEST_SECRET", &secret), WEFT_OK);
        assert_null(weft__secret_weakness(&secret));
    }
    unsetenv("TEST_SECRET");
}

static void take_of_run(const char *text, const char *name, const char *run, weft__secret *secret)
{
    setenv("TEST_SECRET", text, 1);
    assert_int_equal(weft__secret_take("env:TEST_SECRET", name, run, secret), WEFT_OK);
    unsetenv("TEST_SECRET");
}

static void take(const char *text, const char *name, weft__secret *secret)
{
    take_of_run(text, name, "", secret);
}

static bool same(const weft__secret *one, const weft__secret *other)
{
    return one->length == other->length && !memcmp(one->bytes, other->bytes, one->length);
}

/* The vector was made by Python's argon2-cffi: passes 3, 8 MiB, one lane, salt BLAKE2b-128 of "job". */
static void passwords_are_made_hard_to_guess(void **state)
{
    static const char password[] = "correct horse battery", random[] = "0123456789abcdef0123456789abcdef";
    static const unsigned char vector[] = {0xb0, 0xcf, 0x82, 0xbf, 0x34, 0xad, 0x5a, 0xbc, 0x0f, 0xb8, 0xe0,
                                           0x04, 0x49, 0x0d, 0xbf, 0x33, 0x21, 0xff, 0x9f, 0x15, 0x29, 0x50,
                                           0x27, 0x30, 0xc1, 0x71, 0x0f, 0x80, 0x94, 0x55, 0x9d, 0xaa};
    weft__secret secret, again, other;
    (void)state;
    take(password, "job", &secret);
    assert_int_equal(secret.length, sizeof vector);
    assert_memory_equal(secret.bytes, vector, sizeof vector);
    take(password, "job", &again);
    assert_true(same(&secret, &again));
    take(password, "another", &other);
    assert_false(same(&secret, &other));
    take_of_run(password, "job", "0011", &other); /* another in each run, and in each job */
    assert_false(same(&secret, &other));
    take_of_run(password, "job", "0011", &again);
    assert_true(same(&other, &again));
    take_of_run(password, "job", "0012", &again);
    assert_false(same(&other, &again));
    take_of_run(password, "jo", "b0011", &again);
    assert_false(same(&other, &again));
    take(random, "job", &secret);
    assert_int_equal(secret.length, strlen(random));
    assert_memory_equal(secret.bytes, random, strlen(random));
}

static void short_ones_are_refused(void **state)
{
    weft__secret secret = {.length = 7};
    (void)state;
    setenv("TEST_SECRET", "fifteen letters", 1);
    assert_int_equal(weft__secret_take("env:TEST_SECRET", "job", "", &secret), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "env:TEST_SECRET has 15 characters: expected at least 16"));
    assert_null(strstr(weft_last_error(), "fifteen"));
    assert_int_equal(secret.length, 7);
    unsetenv("TEST_SECRET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passwords_are_made_hard_to_guess),
        cmocka_unit_test(short_ones_are_refused),
        /* First: this process has not read its settings yet. */
        cmocka_unit_test(a_runtime_directory_that_is_not_there_is_passed_over),
        cmocka_unit_test(somebody_elses_runtime_directory_is_passed_over),
        cmocka_unit_test(a_name_that_is_taken_is_passed_over),
        cmocka_unit_test(a_link_of_ours_is_refused),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(descriptors_and_variables_are_read),
        cmocka_unit_test(one_of_many_makes_the_secret),
        cmocka_unit_test(directories_are_private),
        cmocka_unit_test(dead_directories_are_cleaned),
        cmocka_unit_test(meetings_of_the_dead_go),
        cmocka_unit_test(a_link_in_place_of_the_job_is_refused),
        cmocka_unit_test(nothing_is_left_of_a_secret_half_made),
        cmocka_unit_test(poor_secrets_are_called_so),
    };
    char command[100];
    int failed;
    alarm(JOB_ALARM_S);
    if (!mkdtemp(root)) return 1;
    setenv("WEFT_RUN_DIR", root, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command) || failed;
}
