/* The file at which ranks meet: one serves, the others find it; the dead are replaced, the living are not;
 * and what is not such a file is left as it is. */
#include "clock.h"
#include "job.h"
#include "server_registry.h"

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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RACERS 16

static char folder[] = "/tmp/weft-test-meeting-XXXXXX";
static char path[256];

static int64_t soon(void)
{
    return weft__deadline(weft__now_ns(), JOB_WAIT_MS);
}

static weft__registry *new_file(const char *job)
{
    weft__registry *f;
    assert_int_equal(weft__registry_new(path, job, &f), WEFT_OK);
    return f;
}

static enum weft__registry_state look(weft__registry *f, weft__registry_entry *e)
{
    enum weft__registry_state state;
    if (weft__registry_look(f, soon(), e, &state)) fail_msg("%s", weft_last_error());
    return state;
}

static bool exists(void)
{
    return access(path, F_OK) == 0;
}

/* A rank that serves, and is announced. */
static weft__registry *serve(const char *job, int port, weft__registry_entry *e)
{
    weft__registry *f = new_file(job);
    assert_int_equal(look(f, e), WEFT__REGISTRY_MINE);
    assert_int_equal(weft__registry_announce(f, soon(), "127.0.0.1", port), WEFT_OK);
    return f;
}

static void in_child(void (*body)(void), bool killed)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(JOB_ALARM_S);
        body();
        if (killed) kill(getpid(), SIGKILL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(killed ? WIFSIGNALED(status) : status == 0);
}

/* ---- of another host ---- */

static void serve_elsewhere(void)
{
    weft__registry_entry e;
    setenv("WEFT_HOSTID", "elsewhere", 1);
    serve("job", 4000, &e);
}

/* First of all: the child reads its own settings. */
static void a_dead_entry_of_another_host_is_doubtful(void **state)
{
    weft__registry *f;
    weft__registry_entry e, changed;
    (void)state;
    in_child(serve_elsewhere, true);
    f = new_file("job");
    assert_int_equal(look(f, &e), WEFT__REGISTRY_DOUBTFUL);
    assert_string_equal(e.host_id, "elsewhere");
    assert_int_equal(e.port, 4000);
    changed = e;
    changed.nonce[0] ^= 1;
    assert_int_equal(weft__registry_forget(f, soon(), changed.nonce), WEFT_OK);
    assert_int_equal(look(f, &e), WEFT__REGISTRY_DOUBTFUL);
    assert_int_equal(weft__registry_forget(f, soon(), e.nonce), WEFT_OK);
    assert_int_equal(look(f, &e), WEFT__REGISTRY_MINE);
    weft__registry_free(f);
    assert_false(exists());
}

/* ---- meeting ---- */

static void one_serves_and_the_others_find_it(void **state)
{
    weft__registry *first = new_file("job"), *second = new_file("job");
    weft__registry_entry mine, seen;
    struct stat st;
    (void)state;
    assert_int_equal(look(first, &mine), WEFT__REGISTRY_MINE);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(look(second, &seen), WEFT__REGISTRY_STARTS);
    assert_int_equal(weft__registry_announce(first, soon(), "fe80::1%eth0", 4711), WEFT_OK);
    assert_int_equal(look(second, &seen), WEFT__REGISTRY_SERVED);
    assert_string_equal(seen.address, "fe80::1%eth0");
    assert_int_equal(seen.port, 4711);
    assert_int_equal(seen.pid, getpid());
    assert_memory_equal(seen.nonce, mine.nonce, sizeof seen.nonce);
    weft__registry_free(second); /* had no part in it */
    assert_true(exists());
    weft__registry_free(first);
    assert_false(exists());
}

static void an_entry_lives_as_long_as_a_member(void **state)
{
    weft__registry_entry e;
    weft__registry *server = serve("job", 4000, &e), *member = new_file("job"), *late = new_file("job");
    (void)state;
    assert_int_equal(look(member, &e), WEFT__REGISTRY_SERVED);
    assert_int_equal(weft__registry_hold(member), WEFT_OK);
    assert_int_equal(weft__registry_hold(server), WEFT_OK);
    weft__registry_free(server);
    assert_int_equal(look(late, &e), WEFT__REGISTRY_RUNS);
    weft__registry_free(member);
    assert_false(exists());
    assert_int_equal(look(late, &e), WEFT__REGISTRY_MINE); /* in a file made anew */
    assert_true(exists());
    weft__registry_free(late);
    assert_false(exists());
}

static void who_serves_again_has_another_nonce(void **state)
{
    weft__registry_entry first, second;
    weft__registry *f = serve("job", 4000, &first);
    (void)state;
    assert_int_equal(look(f, &second), WEFT__REGISTRY_MINE);
    assert_memory_not_equal(first.nonce, second.nonce, sizeof first.nonce);
    weft__registry_free(f);
}

static void jobs_are_told_apart_by_name(void **state)
{
    static char long_name[WEFT__REGISTRY_JOB_BYTES];
    const char *names[] = {"a", "b", "", " ", "a b\n%41\xff", "job=a", long_name};
    enum { N = sizeof names / sizeof *names };
    weft__registry *files[N], *seeker;
    weft__registry_entry e;
    (void)state;
    memset(long_name, '%', sizeof long_name - 1);
    for (int i = 0; i < N; i++) files[i] = serve(names[i], 4000 + i, &e);
    for (int i = 0; i < N; i++) {
        seeker = new_file(names[i]);
        assert_int_equal(look(seeker, &e), WEFT__REGISTRY_SERVED);
        assert_int_equal(e.port, 4000 + i);
        weft__registry_free(seeker);
    }
    for (int i = 0; i < N; i++) {
        assert_true(exists());
        weft__registry_free(files[i]);
    }
    assert_false(exists());
    assert_int_equal(weft__registry_new(path,
                                        "0123456789012345678901234567890123456789012345678901234567890123456"
                                        "789012345678901234567890123456789012345678901234567890123456789012"
                                        "345678901234567890123456789",
                                        &seeker),
                     WEFT_ERR_ARGUMENT);
}

/* ---- dying ---- */

static void serve_and_die(void)
{
    weft__registry_entry e;
    serve("job", 4000, &e);
}

static void claim_and_die(void)
{
    weft__registry_entry e;
    look(new_file("job"), &e);
}

static void the_dead_are_replaced(void **state)
{
    void (*const ways[])(void) = {serve_and_die, claim_and_die};
    (void)state;
    for (int way = 0; way < 2; way++) {
        weft__registry *f = new_file("job"), *other = new_file("other");
        weft__registry_entry e;
        in_child(ways[way], true);
        assert_true(exists());
        assert_int_equal(look(other, &e), WEFT__REGISTRY_MINE); /* may use the dead one's record */
        assert_int_equal(look(f, &e), WEFT__REGISTRY_MINE);
        assert_int_equal(e.pid, getpid());
        weft__registry_free(f);
        weft__registry_free(other);
        assert_false(exists());
    }
}

static void many_dead(void)
{
    weft__registry_entry e;
    for (int i = 0; i < WEFT__REGISTRY_JOBS_MAX; i++) {
        char job[32];
        snprintf(job, sizeof job, "dead-%d", i);
        serve(job, 4000, &e);
    }
}

static void a_full_file_takes_no_more(void **state)
{
    weft__registry *files[WEFT__REGISTRY_JOBS_MAX], *more = new_file("more");
    weft__registry_entry e;
    enum weft__registry_state s;
    (void)state;
    in_child(many_dead, true);
    for (int i = 0; i < WEFT__REGISTRY_JOBS_MAX; i++) { /* in the places of the dead */
        char job[32];
        snprintf(job, sizeof job, "living-%d", i);
        files[i] = serve(job, 4000, &e);
    }
    assert_int_equal(weft__registry_look(more, soon(), &e, &s), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "as many jobs as it can hold"));
    weft__registry_free(files[7]);
    assert_int_equal(look(more, &e), WEFT__REGISTRY_MINE);
    weft__registry_free(more);
    for (int i = 0; i < WEFT__REGISTRY_JOBS_MAX; i++)
        if (i != 7) weft__registry_free(files[i]);
    assert_false(exists());
}

/* ---- races ---- */

static int *servers; /* shared with the racers */

static void race(void)
{
    for (int round = 0; round < 50; round++) {
        weft__registry *f = new_file("job");
        weft__registry_entry e;
        if (look(f, &e) == WEFT__REGISTRY_MINE) {
            if (__atomic_add_fetch(servers, 1, __ATOMIC_SEQ_CST) != 1) _exit(1);
            if (weft__registry_announce(f, soon(), "127.0.0.1", 4000)) _exit(1);
            __atomic_sub_fetch(servers, 1, __ATOMIC_SEQ_CST);
        }
        weft__registry_free(f); /* and with the last one the file */
    }
}

/* On a file that comes and goes all the time there is never more than one who serves. */
static void of_many_at_once_one_serves(void **state)
{
    pid_t pids[RACERS];
    (void)state;
    *servers = 0;
    for (int i = 0; i < RACERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i]) continue;
        alarm(JOB_ALARM_S);
        race();
        _exit(0);
    }
    for (int i = 0; i < RACERS; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_false(exists());
}

/* ---- what cannot be used ---- */

static void refused(const char *words)
{
    weft__registry *f = new_file("job");
    weft__registry_entry e;
    enum weft__registry_state s;
    assert_int_equal(weft__registry_look(f, soon(), &e, &s), WEFT_ERR_SYSTEM);
    if (!strstr(weft_last_error(), words) || !strstr(weft_last_error(), path))
        fail_msg("\"%s\" instead of \"%s\"", weft_last_error(), words);
    weft__registry_free(f);
}

static void write_file(const char *text, size_t bytes, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void another_content_is_left_as_it_is(void **state)
{
    static char good[3 * 1024], bad[3 * 1024], after[sizeof bad + 1];
    weft__registry_entry e;
    weft__registry *f = serve("job", 4000, &e), *g = serve("other", 4000, &e);
    int fd = open(path, O_RDONLY);
    (void)state;
    assert_int_equal(read(fd, good, sizeof good), sizeof good);
    close(fd);
    weft__registry_free(f);
    weft__registry_free(g);
    for (int way = 0; way < 6; way++) {
        size_t bytes = way == 4 ? 1500 : sizeof bad;
        memcpy(bad, good, sizeof bad);
        if (way == 0) memcpy(bad, "my diary", 8);
        if (way == 1) memset(bad, 0, sizeof bad);
        if (way == 2) memset(bad + 1024, 'x', 1024);
        if (way == 3) memcpy(strstr(bad + 2048, "port=") + 5, "9x", 2);
        if (way == 5) memset(strstr(bad + 1024, "nonce=") + 6, 'g', 32);
        write_file(bad, bytes, 0600);
        refused("it holds something else, which is left as it is");
        fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, after, sizeof after), bytes);
        assert_memory_equal(after, bad, bytes);
        close(fd);
    }
    unlink(path);
}

static void what_is_no_private_file_is_refused(void **state)
{
    char other[300], usable[256];
    (void)state;
    write_file("x", 1, 0644);
    refused("others may read or write it");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refused("directory");
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused("not a regular file");
    unlink(path);
    snprintf(other, sizeof other, "%s-other", path);
    assert_int_equal(symlink(other, path), 0);
    refused("symbolic link");
    assert_int_not_equal(access(other, F_OK), 0);
    unlink(path);
    memcpy(usable, path, sizeof usable);
    snprintf(path, sizeof path, "%s/none/here", folder);
    refused("No such file or directory");
    memcpy(path, usable, sizeof path);
    if (geteuid() == 0) {
        write_file("", 0, 0600);
        assert_int_equal(chown(path, 12345, 12345), 0);
        refused("belongs to another user");
        unlink(path);
    }
}

static void an_empty_file_is_taken(void **state)
{
    weft__registry_entry e;
    struct stat st;
    (void)state;
    write_file("", 0, 0644);
    weft__registry_free(serve("job", 4000, &e));
    write_file("", 0, 0644);
    weft__registry *f = serve("job", 4000, &e);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    weft__registry_free(f);
}

static void a_lock_is_waited_for_until_the_deadline(void **state)
{
    struct flock how = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    weft__registry *f = new_file("job");
    weft__registry_entry e;
    enum weft__registry_state s;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    int64_t before = weft__now_ns();
    (void)state;
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &how), 0);
    assert_int_equal(weft__registry_look(f, weft__deadline(before, 300), &e, &s), WEFT_ERR_TIMEOUT);
    assert_true(weft__now_ns() - before >= 300 * WEFT__MS);
    assert_non_null(strstr(weft_last_error(), "locked by another process"));
    close(fd);
    assert_int_equal(look(f, &e), WEFT__REGISTRY_MINE);
    weft__registry_free(f);
    assert_false(exists());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_entry_of_another_host_is_doubtful),
        cmocka_unit_test(one_serves_and_the_others_find_it),
        cmocka_unit_test(an_entry_lives_as_long_as_a_member),
        cmocka_unit_test(who_serves_again_has_another_nonce),
        cmocka_unit_test(jobs_are_told_apart_by_name),
        cmocka_unit_test(the_dead_are_replaced),
        cmocka_unit_test(a_full_file_takes_no_more),
        cmocka_unit_test(of_many_at_once_one_serves),
        cmocka_unit_test(another_content_is_left_as_it_is),
        cmocka_unit_test(what_is_no_private_file_is_refused),
        cmocka_unit_test(an_empty_file_is_taken),
        cmocka_unit_test(a_lock_is_waited_for_until_the_deadline),
    };
    char command[100];
    int failed;
    alarm(JOB_ALARM_S);
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/meeting", folder);
    servers = mmap(NULL, sizeof *servers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (servers == MAP_FAILED) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
