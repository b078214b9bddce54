/* test_tuning.c - the tuning file: where it is, there and back, and every way in which it is not to be
 * trusted. */
#include "tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[WEFT__TUNING_PATH_BYTES];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/weft-tuning-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    setenv("XDG_CACHE_HOME", dir, 1);
    weft__tuning_path(path);
    return 0;
}

static int tear_down(void **state)
{
    char name[160];
    (void)state;
    unlink(path);
    snprintf(name, sizeof name, "%s/weft", dir);
    rmdir(name);
    return rmdir(dir); /* fails if anything has been left there */
}

static void test_place(void **state)
{
    char other[WEFT__TUNING_PATH_BYTES], expected[160];
    (void)state;
    snprintf(expected, sizeof expected, "%s/weft/tuning-", dir);
    assert_int_equal(strncmp(path, expected, strlen(expected)), 0);
    assert_true(strlen(path) > strlen(expected));
    assert_int_equal(strspn(path + strlen(expected), "abcdefghijklmnopqrstuvwxyz0123456789-"),
                     strlen(path + strlen(expected)));
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    setenv("HOME", dir, 1);
    weft__tuning_path(other);
    snprintf(expected, sizeof expected, "%s/.cache/weft/tuning-", dir);
    assert_int_equal(strncmp(other, expected, strlen(expected)), 0);
    unsetenv("HOME");
    weft__tuning_path(other);
    assert_string_equal(other, "");
    setenv("XDG_CACHE_HOME", dir, 1);
}

static weft__choices some_choices(void)
{
    weft__choices c;
    memset(&c, 0, sizeof c);
    for (int i = 0; i < WEFT__TUNABLES; i++) {
        assert_true(weft__choices_set_limit(&c, WEFT__MEDIUM_MEMORY, i % WEFT__SIZES, i, UINT64_C(64) << i));
        assert_true(weft__choices_set_limit(&c, WEFT__MEDIUM_MESSAGES, 4, i,
                                            i % 2 ? WEFT__UPTO_ANY : WEFT__UPTO_NEVER));
    }
    return c;
}

static void test_there_and_back(void **state)
{
    weft__choices written = some_choices(), read;
    struct stat about;
    (void)state;
    memset(&read, 0, sizeof read);
    assert_int_equal(weft__tuning_read(path, &read), WEFT_OK); /* no file: nothing changes */
    for (int i = 0; i < WEFT__TUNABLES; i++) assert_int_equal(read.upto[0][0][i], 0);
    assert_int_equal(weft__tuning_write(path, &written), WEFT_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(weft__choices_force(&read, "V", "broadcast:chain"), WEFT_OK);
    assert_int_equal(weft__tuning_read(path, &read), WEFT_OK);
    assert_memory_equal(read.upto, written.upto, sizeof written.upto);
    assert_non_null(weft__choices_forced(&read, WEFT__OP_BROADCAST)); /* is another matter */
    memset(&written.upto, 0, sizeof written.upto);
    assert_int_equal(weft__tuning_write(path, &written), WEFT_OK); /* takes its place, also with less */
    assert_int_equal(weft__tuning_read(path, &read), WEFT_OK);
    assert_memory_equal(read.upto, written.upto, sizeof written.upto);
    assert_int_equal(weft__tuning_write("", &written), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft__tuning_write("/proc/nowhere/tuning", &written), WEFT_ERR_SYSTEM);
}

static void put(const char *text, size_t bytes)
{
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, bytes, to), bytes);
    assert_int_equal(fclose(to), 0);
}

/* Ignored as a whole, with a sentence that names the file. */
static void ignored(const char *why)
{
    weft__choices c = some_choices(), before = c;
    weft_status status = weft__tuning_read(path, &c);
    if (status != WEFT_ERR_ARGUMENT || !strstr(weft_last_error(), why) || !strstr(weft_last_error(), path))
        fail_msg("status %d, %s; expected: %s", (int)status, weft_last_error(), why);
    assert_memory_equal(&c, &before, sizeof c);
}

static char text[8192];

static void load_sound(void)
{
    weft__choices c = some_choices();
    FILE *from;
    size_t n;
    assert_int_equal(weft__tuning_write(path, &c), WEFT_OK);
    from = fopen(path, "r");
    assert_non_null(from);
    n = fread(text, 1, sizeof text - 1, from);
    text[n] = 0;
    fclose(from);
}

/* The sound file with the first `old` in it replaced. */
static void changed(const char *old, const char *new, const char *why)
{
    char other[8300];
    char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    put(other, strlen(other));
    ignored(why);
}

static void test_damaged(void **state)
{
    (void)state;
    load_sound();
    changed("weft-tuning 1", "weft-tuning 2", "not of this version");
    changed("processor ", "processor abacus-", "measured on another processor");
    changed("shm 2 ", "ib 2 ", "line 3: there is no such transport");
    changed("shm 2 ", "shm 3 ", "expected 2, 4, 8, 16 or more");
    changed("broadcast binomial_tree", "broadcast chain", "has no limit");
    changed("broadcast binomial_tree", "brodcast binomial_tree", "no such algorithm");
    changed(" 64\n", " 65\n", "power of two");
    changed(" 64\n", " 64 \n", "expected TRANSPORT");
    changed(" 64\n", "  64\n", "expected TRANSPORT");
    changed(" 64\n", "\n", "expected TRANSPORT");
    changed(" 64\n", " -64\n", "power of two");
    changed("end ", "end 1", "expected TRANSPORT"); /* another number of lines */
    changed("end 28\n", "end 28\nmore", "something follows its end");
    for (size_t n = 0; n < strlen(text); n++) { /* cut off anywhere */
        put(text, n);
        ignored("is ignored");
    }
    put(text, strlen(text) + 1);
    ignored("it is no text");
    for (char *at = text; *at; at++) { /* twice the same line */
        char line[128], two[512];
        size_t length = strcspn(at, "\n") + 1;
        if (strncmp(at, "shm 2 ", 6) != 0) continue;
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        snprintf(two, sizeof two, "%s%s", line, line);
        changed(line, two, "this is there twice");
        break;
    }
}

/* Who else can have written it? */
static void test_foreign(void **state)
{
    weft__choices c = some_choices();
    char elsewhere[WEFT__TUNING_PATH_BYTES + 8];
    (void)state;
    load_sound();
    assert_int_equal(weft__tuning_read(path, &c), WEFT_OK);
    assert_int_equal(chmod(path, 0620), 0);
    ignored("others may write it");
    assert_int_equal(chmod(path, 0602), 0);
    ignored("others may write it");
    assert_int_equal(chmod(path, 0600), 0);
    snprintf(elsewhere, sizeof elsewhere, "%s.x", path);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    ignored("symbolic link");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    ignored("no regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    ignored("no regular file");
    rmdir(path);
    assert_int_equal(rename(elsewhere, path), 0);
    assert_int_equal(truncate(path, 100000), 0);
    ignored("too long");
    unlink(path);
    if (geteuid() != 0) return;
    load_sound();
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    ignored("belongs to another user");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_foreign),
    };
    return cmocka_run_group_tests_name("tuning", tests, set_up, tear_down);
}
