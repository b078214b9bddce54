/* A dump is JSON whatever records hold, is written once unless it is asked for again, and names who is waited for. */
#include "dump_file.h"
#include "dump_turn.h"
#include "json.h"
#include "record.h"
#include "record_file.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN "0123456789abcdef"

enum { WORLD = 3, OPS = 64, GROUP = 1 };

static time_t behind_s; /* this program's clock is */

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int status = (int)syscall(SYS_clock_gettime, clock_id, tp);
    tp->tv_sec -= behind_s;
    return status;
}

static char folder[64];
static weft__recorder ranks[WORLD];

static void test_json(void **state)
{
    char *text = NULL;
    size_t length;
    weft__json json = {.to = open_memstream(&text, &length)};
    (void)state;
    weft__json_open(&json, NULL, '{');
    weft__json_number(&json, "a", -5);
    weft__json_open(&json, "b", '[');
    weft__json_text(&json, NULL, "quote\" back\\ line\n");
    weft__json_text(&json, NULL, "\xc3\xa4 \xff \xc3 \xed\xa0\x80");
    weft__json_bool(&json, NULL, true);
    weft__json_close(&json, ']');
    weft__json_big(&json, "c", UINT64_MAX);
    weft__json_close(&json, '}');
    fclose(json.to);
    assert_string_equal(text,
                        "{\"a\":-5,\"b\":[\"quote\\\" back\\\\ line\\u000a\",\"\xc3\xa4 \\ufffd \\ufffd "
                        "\\ufffd\\ufffd\\ufffd\",true],\"c\":18446744073709551615}");
    free(text);
}

/* All but the last have begun the second collective, and wait in it. */
static int open_ranks(void **state)
{
    static const char *const kinds[] = {"all_reduce"}, *const types[] = {"int8"};
    const int world[] = {0, 1, 2};
    int dir;
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weft-test-dump-XXXXXX");
    assert_non_null(mkdtemp(folder));
    dir = open(folder, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < WORLD; i++) {
        weft__record_owner owner = {.rank = i,
                                    .world = WORLD,
                                    .texts = {"job", RUN RUN, "host"},
                                    .kinds = kinds,
                                    .types = types,
                                    .kind_count = 1,
                                    .type_count = 1};
        weft__record_group group = {.id = GROUP,
                                    .size = WORLD,
                                    .rank = i,
                                    .world = world,
                                    .becomes = WEFT__RECORDED_GROUP_READY,
                                    .culprit = -1,
                                    .label = "wor\"ld",
                                    .why = ""};
        char name[WEFT__RECORD_NAME_BYTES];
        int64_t then = weft__now_ns() - 1000 * WEFT__MS;
        void *memory;
        size_t room;
        weft__record_name_make(RUN, i, name);
        assert_int_equal(weft__record_file_make(dir, name, OPS, WORLD, &memory, &room), WEFT_OK);
        weft__record_open(&ranks[i], memory, OPS, &owner);
        weft__record_group_is(&ranks[i], &group, then);
        weft__record_life(&ranks[i], WEFT__LIFE_STAGE, WEFT__STAGE_IN);
        for (uint64_t n = 1; n <= (i < WORLD - 1 ? 2 : 1); n++) {
            uint64_t record;
            assert_true(weft__record_has_room(&ranks[i]));
            record =
                weft__record_start(&ranks[i], GROUP, n,
                                   weft__record_what(0, 0, WEFT__RECORDED_OP_STARTED, 1, WEFT__FLAG_BLOCKS),
                                   1, weft__record_whom(-1, 0), then + (int64_t)n);
            if (n == 1) weft__record_settled(&ranks[i], record, WEFT_OK, "ring", then + 1, then + 2);
        }
    }
    close(dir);
    return 0;
}

static int close_ranks(void **state)
{
    char command[128];
    (void)state;
    for (int i = 0; i < WORLD; i++) munmap((void *)ranks[i].file, ranks[i].bytes);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static weft_status make(const weft__dump *dump, char *path, size_t bytes)
{
    weft__dump_text text;
    weft_status status = weft__dump_read(dump, &text);
    if (status == WEFT_OK) status = weft__dump_write(dump, &text, path, bytes);
    weft__dump_text_free(&text);
    return status;
}

static char *text_of(const char *path)
{
    struct stat file;
    int fd = open(path, O_RDONLY);
    char *text;
    assert_false(fstat(fd, &file));
    text = calloc(1, (size_t)file.st_size + 1);
    assert_int_equal(read(fd, text, (size_t)file.st_size), file.st_size);
    close(fd);
    return text;
}

static void test_written(void **state)
{
    weft__dump dump = {.records = folder,
                       .run = RUN,
                       .folder = folder,
                       .why = "a \"test\"",
                       .by = 1,
                       .place = WEFT__NO_PLACE};
    char path[256], first[256], *text;
    struct stat file;
    (void)state;
    assert_int_equal(make(&dump, first, sizeof first), WEFT_OK);
    assert_non_null(strstr(first, "/dump." RUN ".json"));
    assert_false(stat(first, &file));
    assert_int_equal(file.st_mode & 0777, 0600);
    text = text_of(first);
    assert_non_null(strstr(text, "\"why\":\"a \\\"test\\\"\""));
    assert_non_null(strstr(text, "\"found\":[\"rank 2 (pid ")); /* and nobody else */
    assert_non_null(strstr(text, "\"name\":\"test_dump\""));
    assert_non_null(strstr(text, "\"elsewhere\":[]"));
    free(text);
    assert_int_equal(make(&dump, path, sizeof path), WEFT_OK); /* there is one */
    assert_string_equal(path, first);
    dump.again = true;
    assert_int_equal(make(&dump, path, sizeof path), WEFT_OK);
    assert_non_null(strstr(path, "/dump." RUN ".2.json"));
    dump.run = "ffffffffffffffff";
    assert_int_equal(make(&dump, path, sizeof path), WEFT_ERR_STATE);
    dump.run = RUN;
    dump.folder = "/nowhere/at/all";
    assert_int_equal(make(&dump, path, sizeof path), WEFT_ERR_SYSTEM);
}

/* Each host has files of its own, also in one folder, with its ranks, and says where the others are. */
static void test_places(void **state)
{
    const weft__dump_rank where[WORLD] = {{0, "a"}, {1, "b \"two\""}, {0, "a"}};
    weft__dump dump = {
        .records = folder, .run = RUN, .folder = folder, .why = "", .ranks = where, .world = WORLD};
    char path[256], *text;
    (void)state;
    for (int i = 0; i < 2; i++) {
        dump.place = i;
        dump.again = false;
        assert_int_equal(make(&dump, path, sizeof path), WEFT_OK);
        assert_non_null(strstr(path, i ? "/dump." RUN ".rank1.json" : "/dump." RUN ".rank0.json"));
        text = text_of(path);
        assert_non_null(strstr(text, i ? "\"elsewhere\":[{\"host\":\"a\",\"file\":\"dump." RUN
                                         ".rank0.json\",\"ranks\":[0,2]}]"
                                       : "\"elsewhere\":[{\"host\":\"b \\\"two\\\"\",\"file\":\"dump." RUN
                                         ".rank1.json\",\"ranks\":[1]}]"));
        for (int rank = 0; rank < WORLD; rank++) {
            char entry[32];
            snprintf(entry, sizeof entry, "{\"rank\":%d,\"pid\":", rank);
            assert_int_equal(strstr(text, entry) != NULL, where[rank].place == i);
        }
        free(text);
        dump.again = true;
        assert_int_equal(make(&dump, path, sizeof path), WEFT_OK);
        assert_non_null(strstr(path, i ? "/dump." RUN ".rank1.2.json" : "/dump." RUN ".rank0.2.json"));
    }
}

/* One reads and writes for all. */
static void test_turn(void **state)
{
    weft__dump_turn *mine = weft__dump_turn_open(folder, RUN, WEFT__NO_PLACE),
                    *other = weft__dump_turn_open(folder, RUN, WEFT__NO_PLACE), *beside;
    (void)state;
    assert_non_null(mine);
    assert_int_equal(weft__dump_turn_stage(mine), WEFT__DUMP_UNREAD);
    weft__dump_turn_note(mine, WEFT__DUMP_WRITTEN); /* it is nobody's yet */
    assert_int_equal(weft__dump_turn_stage(other), WEFT__DUMP_UNREAD);
    assert_true(weft__dump_turn_take(mine));
    assert_int_equal(weft__dump_turn_stage(other), WEFT__DUMP_READING);
    assert_false(weft__dump_turn_take(other));
    weft__dump_turn_note(mine, WEFT__DUMP_UNWRITTEN);
    assert_int_equal(weft__dump_turn_stage(other), WEFT__DUMP_UNWRITTEN);
    assert_false(weft__dump_turn_take(other));
    weft__dump_turn_note(mine, WEFT__DUMP_WRITTEN);
    assert_int_equal(weft__dump_turn_stage(other), WEFT__DUMP_WRITTEN);
    assert_false(weft__dump_turn_take(other));
    beside = weft__dump_turn_open(folder, RUN, 0); /* another host's, in the same folder */
    assert_int_equal(weft__dump_turn_stage(beside), WEFT__DUMP_UNREAD);
    weft__dump_turn_close(beside);
    weft__dump_turn_remove(folder, RUN, 0);
    weft__dump_turn_close(mine);
    weft__dump_turn_close(other);
    weft__dump_turn_remove(folder, RUN, WEFT__NO_PLACE);
    assert_null(weft__dump_turn_open("/nowhere/at/all", RUN, WEFT__NO_PLACE));
    assert_int_equal(weft__dump_turn_stage(NULL), WEFT__DUMP_UNREAD);
    assert_true(weft__dump_turn_take(NULL));
    weft__dump_turn_note(NULL, WEFT__DUMP_UNWRITTEN);
    weft__dump_turn_close(NULL);
}

/* Whoever takes the turn stops with it. */
static pid_t start_reader(void)
{
    pid_t child = fork();
    int status;
    if (!child) {
        weft__dump_turn *its = weft__dump_turn_open(folder, RUN, WEFT__NO_PLACE);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind who is stopped */
        if (!weft__dump_turn_take(its)) _exit(1);
        raise(SIGSTOP);
        weft__dump_turn_note(its, WEFT__DUMP_UNWRITTEN);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void end_reader(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* If that one is stopped, or dies, another one does, whose note it does not write over. */
static void test_stands_in(void **state)
{
    weft__dump_turn *mine = weft__dump_turn_open(folder, RUN, WEFT__NO_PLACE);
    pid_t child = start_reader();
    (void)state;
    assert_int_equal(weft__dump_turn_stage(mine), WEFT__DUMP_UNREAD);
    weft__dump_turn_note(mine, WEFT__DUMP_WRITTEN); /* it is another one's */
    end_reader(child);
    assert_int_equal(weft__dump_turn_stage(mine), WEFT__DUMP_UNREAD);
    child = start_reader();
    assert_true(weft__dump_turn_take(mine));
    end_reader(child);
    assert_int_equal(weft__dump_turn_stage(mine), WEFT__DUMP_READING);
    weft__dump_turn_note(mine, WEFT__DUMP_UNREAD); /* it could not */
    end_reader(start_reader());
    weft__dump_turn_close(mine);
    weft__dump_turn_remove(folder, RUN, WEFT__NO_PLACE);
}

enum { CROWD = 8 };

/* What the crowd shares. */
typedef struct crowd {
    _Atomic int here, asked, taken;
    _Atomic bool begins, is_over;
} crowd;

static void await(_Atomic int *count)
{
    while (atomic_load(count) < CROWD) sched_yield();
}

/* Who has it lives for as long as others ask. */
static void ask_for_turn(crowd *all, uint64_t request)
{
    weft__dump_turn *its = weft__dump_turn_open(folder, RUN, WEFT__NO_PLACE);
    atomic_fetch_add(&all->here, 1);
    while (!atomic_load(&all->begins)) sched_yield();
    if (request ? weft__dump_turn_take_again(its, request, false) : weft__dump_turn_take(its))
        atomic_fetch_add(&all->taken, 1);
    atomic_fetch_add(&all->asked, 1);
    while (!atomic_load(&all->is_over)) sched_yield();
    _exit(0);
}

/* How many of so many at once have it; request 0: of the first dump. */
static int taken_by_crowd(uint64_t request)
{
    crowd *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int taken;
    assert_ptr_not_equal(all, MAP_FAILED);
    for (int i = 0; i < CROWD; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) ask_for_turn(all, request);
    }
    await(&all->here);
    atomic_store(&all->begins, true);
    await(&all->asked);
    atomic_store(&all->is_over, true);
    for (int i = 0; i < CROWD; i++) assert_true(wait(NULL) > 0);
    taken = atomic_load(&all->taken);
    munmap(all, sizeof *all);
    return taken;
}

/* Each time the last one to have the first has died. */
static void test_one_of_many(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) assert_int_equal(taken_by_crowd(0), 1);
    assert_int_equal(taken_by_crowd(1), 1);
    assert_int_equal(taken_by_crowd(1), 0);
    weft__dump_turn_remove(folder, RUN, WEFT__NO_PLACE);
}

/* A signal goes to all ranks of a host and one of them reads, but who has just read does so again. */
static void test_again(void **state)
{
    weft__dump_turn *mine = weft__dump_turn_open(folder, RUN, WEFT__NO_PLACE);
    pid_t child;
    int status;
    (void)state;
    assert_true(weft__dump_turn_take_again(mine, 5, true));
    assert_false(weft__dump_turn_take_again(mine, 5, true));
    assert_true(weft__dump_turn_take_again(mine, 6, true));
    assert_false(weft__dump_turn_take_again(mine, 7, false));
    behind_s = 3; /* as who has read its clock before another one was first */
    assert_false(weft__dump_turn_take_again(mine, 7, false));
    behind_s = 0;
    weft__dump_turn_take_anew(mine, 8);
    assert_false(weft__dump_turn_take_again(mine, 8, false));
    child = fork();
    if (!child) _exit(weft__dump_turn_take_again(mine, 9, true));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    weft__dump_turn_close(mine);
    weft__dump_turn_remove(folder, RUN, WEFT__NO_PLACE);
    assert_true(weft__dump_turn_take_again(NULL, 1, true));
    weft__dump_turn_take_anew(NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test_setup_teardown(test_written, open_ranks, close_ranks),
        cmocka_unit_test_setup_teardown(test_places, open_ranks, close_ranks),
        cmocka_unit_test_setup_teardown(test_turn, open_ranks, close_ranks),
        cmocka_unit_test_setup_teardown(test_stands_in, open_ranks, close_ranks),
        cmocka_unit_test_setup_teardown(test_one_of_many, open_ranks, close_ranks),
        cmocka_unit_test_setup_teardown(test_again, open_ranks, close_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
