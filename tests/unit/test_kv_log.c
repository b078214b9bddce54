/* The file of a store: what is in it survives its processes, whatever byte they were killed at; what is no
 * store is left alone; and many processes count exactly. */
#include "clock.h"
#include "job.h"
#include "kv_log.h"
#include "status.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/weft-test-kv-log-XXXXXX";
static char path[64];

static void lock(weft__kv_log *log, bool to_write)
{
    weft_status status;
    for (int tries = 0; (status = weft__kv_log_lock(log, to_write)) == WEFT_PENDING; tries++)
        weft__kv_log_pause(tries);
    if (status) fail_msg("lock: %s", weft_last_error());
}

/* One call on the locked file, as kv_file.c makes it. */
static weft_status call(weft__kv_log *log, weft__kv_kind kind, const char *key, const void *value,
                        size_t bytes, int64_t amount, weft__kv_result *result, weft__kv_value **found)
{
    weft__kv_call c = {
        .kind = kind, .n = 1, .keys = key, .value = value, .value_bytes = bytes, .amount = amount};
    weft__kv_change change;
    weft_status status;
    lock(log, true);
    status = weft__kv_decide(log->table, &c, &change, result, found);
    if (status == WEFT_OK) status = weft__kv_log_append(log, &change);
    weft__kv_log_unlock(log);
    return status;
}

static void set(weft__kv_log *log, const char *key, const void *value, size_t bytes)
{
    weft__kv_result result;
    weft__kv_value *found;
    assert_int_equal(call(log, WEFT__KV_SET, key, value, bytes, 0, &result, &found), WEFT_OK);
}

static bool has(weft__kv_log *log, const char *key, const char *value)
{
    weft__kv_result result;
    weft__kv_value *found;
    weft_status status = call(log, WEFT__KV_GET, key, NULL, 0, 0, &result, &found);
    if (!value) return status == WEFT_PENDING;
    return status == WEFT_OK && found->bytes == strlen(value) && !memcmp(found->data, value, found->bytes);
}

static void open_log(weft__kv_log *log)
{
    if (weft__kv_log_open(log, path, NULL, weft__deadline(weft__now_ns(), JOB_WAIT_MS)))
        fail_msg("open: %s", weft_last_error());
}

static size_t read_whole(unsigned char *bytes, size_t room)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, room);
    close(fd);
    return (size_t)n;
}

static void write_whole(const void *bytes, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, length), length);
    close(fd);
}

static void values_outlive_their_process(void **state)
{
    weft__kv_log log;
    (void)state;
    unlink(path);
    open_log(&log);
    set(&log, "ua", "one", 3);
    set(&log, "ub", "two", 3);
    set(&log, "ua", "", 0);
    weft__kv_log_close(&log);
    open_log(&log);
    assert_true(has(&log, "ua", ""));
    assert_true(has(&log, "ub", "two"));
    assert_true(has(&log, "uc", NULL));
    weft__kv_log_close(&log);
}

/* The file ends where a killed process stopped writing: at every byte of its last record. */
static void a_write_cut_short_is_cut_off(void **state)
{
    unsigned char whole[4096];
    size_t before, after;
    weft__kv_log log;
    (void)state;
    unlink(path);
    open_log(&log);
    set(&log, "ufirst", "stays", 5);
    before = read_whole(whole, sizeof whole);
    set(&log, "ulast", "a longer value that is cut", 26);
    weft__kv_log_close(&log);
    after = read_whole(whole, sizeof whole);
    assert_true(after > before + 26);
    for (size_t length = before; length < after; length++) {
        write_whole(whole, length);
        open_log(&log);
        assert_true(has(&log, "ufirst", "stays"));
        assert_true(has(&log, "ulast", NULL));
        set(&log, "unext", "comes", 5);
        weft__kv_log_close(&log);
        open_log(&log);
        assert_true(has(&log, "ufirst", "stays") && has(&log, "ulast", NULL) && has(&log, "unext", "comes"));
        weft__kv_log_close(&log);
    }
    /* Room that was reserved and not written, and a last record that is not what its hash says. */
    memset(whole + before, 0, after - before);
    write_whole(whole, after);
    open_log(&log);
    assert_true(has(&log, "ufirst", "stays") && has(&log, "ulast", NULL));
    weft__kv_log_close(&log);
}

/* The first one of two records is wrong: that is no killed writer, so nothing is thrown away. */
static void damage_is_told(void **state)
{
    unsigned char whole[4096], again[4096];
    size_t first, length;
    weft__kv_log log;
    (void)state;
    unlink(path);
    open_log(&log);
    first = read_whole(whole, sizeof whole);
    set(&log, "ua", "one", 3);
    set(&log, "ub", "two", 3);
    weft__kv_log_close(&log);
    length = read_whole(whole, sizeof whole);
    whole[first + 41] ^= 1;
    write_whole(whole, length);
    assert_int_equal(weft__kv_log_open(&log, path, NULL, WEFT__NEVER), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "damaged"));
    assert_int_equal(read_whole(again, sizeof again), length);
    assert_memory_equal(whole, again, length);
}

static void refused(const char *name, const weft__secret *secret, weft_status status, const char *words)
{
    weft__kv_log log;
    assert_int_equal(weft__kv_log_open(&log, name, secret, WEFT__NEVER), status);
    if (!strstr(weft_last_error(), words)) fail_msg("\"%s\" instead of \"%s\"", weft_last_error(), words);
}

static void what_is_no_store_is_left_alone(void **state)
{
    static const char text[] =
        "a letter to somebody, longer than the header of a store would ever be, so that its "
        "size alone does not give it away";
    unsigned char again[sizeof text];
    char link_name[80];
    (void)state;
    unlink(path);
    write_whole(text, sizeof text);
    refused(path, NULL, WEFT_ERR_ARGUMENT, path);
    assert_int_equal(read_whole(again, sizeof again), sizeof text);
    assert_memory_equal(again, text, sizeof text);
    write_whole("W", 1);
    refused(path, NULL, WEFT_ERR_ARGUMENT, "not a store");
    assert_int_equal(read_whole(again, sizeof again), 1);
    refused(directory, NULL, WEFT_ERR_SYSTEM, directory);
    snprintf(link_name, sizeof link_name, "%s/link", directory);
    assert_int_equal(symlink(path, link_name), 0);
    refused(link_name, NULL, WEFT_ERR_ARGUMENT, "symbolic link");
    unlink(path);
    write_whole("", 0); /* as mktemp makes it: that becomes one */
    chmod(path, 0644);
    refused(path, NULL, WEFT_ERR_ARGUMENT, "0644");
    refused("/nowhere/at/all", NULL, WEFT_ERR_SYSTEM, "/nowhere/at/all");
}

static void the_secret_is_checked(void **state)
{
    weft__secret right = {.bytes = "right", .length = 5}, wrong = {.bytes = "wrong", .length = 5};
    weft__kv_log log;
    (void)state;
    unlink(path);
    assert_int_equal(weft__kv_log_open(&log, path, &right, WEFT__NEVER), WEFT_OK);
    set(&log, "uk", "v", 1);
    weft__kv_log_close(&log);
    refused(path, &wrong, WEFT_ERR_AUTH, "another secret");
    refused(path, NULL, WEFT_ERR_AUTH, "a secret");
    assert_int_equal(weft__kv_log_open(&log, path, &right, WEFT__NEVER), WEFT_OK);
    assert_true(has(&log, "uk", "v"));
    weft__kv_log_close(&log);
    unlink(path);
    open_log(&log);
    weft__kv_log_close(&log);
    refused(path, &right, WEFT_ERR_AUTH, "no secret");
}

/* Two that have it open; the one that is out of date finds the new file. */
static void a_file_out_of_date_is_replaced(void **state)
{
    const size_t bytes = 512 * 1024;
    char *value = calloc(1, bytes);
    weft__kv_log log, other;
    struct stat st;
    (void)state;
    unlink(path);
    open_log(&log);
    open_log(&other);
    set(&log, "ukept", "kept", 4);
    for (int i = 0; i < 40; i++) {
        value[i] = 'x';
        set(&log, "ubig", value, bytes);
        if (i % 7 == 0) assert_true(has(&other, "ukept", "kept"));
    }
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < (off_t)(16 * bytes));
    set(&other, "ulast", "word", 4);
    assert_true(has(&log, "ulast", "word") && has(&log, "ukept", "kept"));
    weft__kv_log_close(&log);
    weft__kv_log_close(&other);
    free(value);
}

static void removing_it_is_told(void **state)
{
    weft__kv_log log, other;
    (void)state;
    unlink(path);
    open_log(&log);
    unlink(path);
    assert_int_equal(weft__kv_log_lock(&log, true), WEFT_ERR_PEER);
    assert_non_null(strstr(weft_last_error(), "removed"));
    open_log(&other); /* a new store under the old name */
    assert_int_equal(weft__kv_log_lock(&log, false), WEFT_ERR_PEER);
    assert_non_null(strstr(weft_last_error(), "another store"));
    weft__kv_log_close(&log);
    weft__kv_log_close(&other);
}

static pid_t count_apart(int adds)
{
    pid_t pid = fork();
    if (pid) return pid;
    weft__kv_log log;
    weft__kv_result result;
    weft__kv_value *found;
    alarm(JOB_ALARM_S);
    open_log(&log);
    for (int i = 0; i != adds; i++)
        if (call(&log, WEFT__KV_ADD, "usum", NULL, 0, 1, &result, &found)) _exit(1);
    weft__kv_log_close(&log);
    _exit(0);
}

static void processes_count_exactly(void **state)
{
    enum { PROCESSES = 4, ADDS = 300 };
    pid_t pids[PROCESSES];
    weft__kv_log log;
    (void)state;
    unlink(path);
    for (int i = 0; i < PROCESSES; i++) pids[i] = count_apart(ADDS);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    open_log(&log);
    assert_true(has(&log, "usum", "1200"));
    weft__kv_log_close(&log);
}

/* Two count for ever and are killed; what is left is a store, and both the others' counts are in it. */
static void killed_processes_leave_a_store(void **state)
{
    weft__kv_log log;
    weft__kv_result result;
    weft__kv_value *found;
    int64_t last = 0;
    (void)state;
    unlink(path);
    for (int round = 0; round < 10; round++) {
        pid_t pids[2] = {count_apart(-1), count_apart(-1)};
        usleep(20000);
        for (int i = 0; i < 2; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        open_log(&log);
        assert_int_equal(call(&log, WEFT__KV_ADD, "usum", NULL, 0, 1, &result, &found), WEFT_OK);
        assert_true(result.number > last);
        last = result.number;
        weft__kv_log_close(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_outlive_their_process),
        cmocka_unit_test(a_write_cut_short_is_cut_off),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(what_is_no_store_is_left_alone),
        cmocka_unit_test(the_secret_is_checked),
        cmocka_unit_test(a_file_out_of_date_is_replaced),
        cmocka_unit_test(removing_it_is_told),
        cmocka_unit_test(processes_count_exactly),
        cmocka_unit_test(killed_processes_leave_a_store),
    };
    char command[100];
    int failed;
    alarm(JOB_ALARM_S);
    if (!mkdtemp(directory)) return 1;
    snprintf(path, sizeof path, "%s/store", directory);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) || failed;
}
