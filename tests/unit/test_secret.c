/* Where secrets come from, that bad places are refused, and that the job directory is made, shared and
 * cleaned. */
#include "job.h"
#include "secret.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(descriptors_and_variables_are_read),
        cmocka_unit_test(one_of_many_makes_the_secret),
        cmocka_unit_test(directories_are_private),
        cmocka_unit_test(dead_directories_are_cleaned),
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
