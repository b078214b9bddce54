/* What a recorder writes is what a snapshot reads: rings that go round, operations that stand in the way, names, groups;
 * and a reader beside its writer sees whole records or says that they are torn. */
#include "record.h"
#include "record_file.h"
#include "snapshot.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPS = 64, WORLD = 6, GROUP = 7 };

static weft__recorder r;
static weft__snapshot shot;
static size_t bytes;

static int fresh(void **state)
{
    static const char *const kinds[] = {"barrier", "broadcast"}, *const types[] = {"int8", "float32"};
    weft__record_owner owner = {.rank = 1,
                                .world = WORLD,
                                .master = 0,
                                .timeout_ms = 5000,
                                .texts = {"job", "0123456789abcdef0123", "host"},
                                .kinds = kinds,
                                .types = types,
                                .kind_count = 2,
                                .type_count = 2};
    (void)state;
    bytes = weft__record_bytes(OPS, WORLD);
    weft__record_open(&r, calloc(1, bytes), OPS, &owner);
    return 0;
}

static int over(void **state)
{
    (void)state;
    weft__snapshot_close(&shot);
    free((void *)r.file);
    return 0;
}

static void read_it(void)
{
    weft__snapshot_close(&shot);
    assert_int_equal(weft__snapshot_of_memory((const void *)r.file, bytes, "it", &shot), WEFT_OK);
    assert_int_equal(shot.damaged, 0);
}

static uint64_t start(uint64_t number)
{
    assert_true(weft__record_has_room(&r));
    return weft__record_start(&r, GROUP, number,
                              weft__record_what(1, 1, WEFT__RECORDED_OP_STARTED, 0, WEFT__FLAG_ROOTED),
                              number * 4, weft__record_whom(2, 0), (int64_t)number);
}

static void pass(uint64_t number)
{
    assert_true(weft__record_has_room(&r));
    weft__record_passed(&r, GROUP, number,
                        weft__record_what(0, 0, WEFT__RECORDED_OP_SETTLED, 0, WEFT__FLAG_PASSED), number,
                        weft__record_whom(3, 9), (int64_t)number);
}

static const weft__recorded_op *find(uint64_t number)
{
    for (size_t i = 0; i < shot.op_count; i++)
        if (shot.ops[i].number == number) return &shot.ops[i];
    return NULL;
}

static void test_life(void **state)
{
    const weft__recorded_op *op;
    static const char ring[] = "ring";
    uint64_t record = start(5);
    (void)state;
    read_it();
    op = find(5);
    assert_non_null(op);
    assert_int_equal(op->state, WEFT__RECORDED_OP_STARTED);
    assert_int_equal(op->submitted_ns, 5);
    assert_int_equal(op->over_ns, 0);
    assert_int_equal(op->whom, 2);
    assert_int_equal(op->bytes, 20);
    assert_string_equal(weft__recorded_kind(&shot, op->kind), "broadcast");
    assert_string_equal(weft__recorded_type(&shot, op->type), "float32");
    assert_string_equal(weft__recorded_way(&shot, op->way), "");
    weft__record_times(&r, record, 6);
    weft__record_label(&r, record, "step 12");
    weft__record_state(&r, record, WEFT__RECORDED_OP_HELD);
    weft__record_waiting(&r, record, 8);
    weft__record_awaited(&r, record, 3);
    weft__record_phase(&r, record, WEFT__RECORDED_ORDERING, 9);
    read_it();
    op = find(5);
    assert_int_equal(op->state, WEFT__RECORDED_OP_HELD);
    assert_int_equal(op->submitted_ns, 6);
    assert_int_equal(op->waiting_ns, 8);
    assert_int_equal(op->awaited, 3);
    assert_int_equal(op->phase, WEFT__RECORDED_ORDERING);
    assert_int_equal(op->phase_ns, 9);
    assert_string_equal(op->label, "step 12");
    weft__record_waiting(&r, record, 0); /* nobody waits any more */
    read_it();
    op = find(5);
    assert_int_equal(op->waiting_ns, 0);
    assert_int_equal(op->flags, WEFT__FLAG_ROOTED | WEFT__FLAG_HAS_MORE);
    weft__record_settled(&r, record, WEFT_ERR_TIMEOUT, ring, 6, 10);
    weft__record_settled(&r, start(6), WEFT_OK, "rounds", 6, 10);
    weft__record_settled(&r, start(7), WEFT_OK, ring, 6, 10);
    read_it();
    op = find(5);
    assert_int_equal(op->state, WEFT__RECORDED_OP_SETTLED);
    assert_int_equal(op->status, WEFT_ERR_TIMEOUT);
    assert_int_equal(op->over_ns, 10);
    assert_string_equal(weft__recorded_way(&shot, op->way), "ring");
    assert_string_equal(weft__recorded_way(&shot, find(6)->way), "rounds");
    assert_string_equal(weft__recorded_way(&shot, find(7)->way), "ring");
    assert_int_equal(find(7)->awaited, -1);
    assert_int_equal(find(7)->phase, WEFT__RECORDED_NO_PHASE);
    weft__record_phase_outside(&r, record, WEFT__RECORDED_OVER,
                               12); /* the device is through after it has failed */
    weft__record_phase_outside(&r, start(8), WEFT__RECORDED_OVER, 12); /* it has no words for that */
    read_it();
    assert_int_equal(find(5)->phase, WEFT__RECORDED_OVER);
    assert_int_equal(find(5)->phase_ns, 12);
    assert_int_equal(find(5)->awaited, 3);
    assert_int_equal(find(8)->phase, WEFT__RECORDED_NO_PHASE);
}

/* One that settles before it is written leaves what one leaves that was written as it began. */
static void test_whole(void **state)
{
    static const char ring[] = "ring";
    const uint64_t what = weft__record_what(1, 1, WEFT__RECORDED_OP_STARTED, 0, WEFT__FLAG_ROOTED);
    const weft__recorded_op *ops[2];
    (void)state;
    weft__record_settled(&r, start(5), WEFT_ERR_MISMATCH, ring, 7, 7);
    assert_true(weft__record_has_room(&r));
    weft__record_whole(&r, GROUP, 6, what, WEFT_ERR_MISMATCH, ring, 5 * 4, weft__record_whom(2, 0), 7);
    read_it();
    for (uint64_t i = 0; i < 2; i++) {
        ops[i] = find(5 + i);
        assert_non_null(ops[i]);
        assert_int_equal(ops[i]->state, WEFT__RECORDED_OP_SETTLED);
        assert_int_equal(ops[i]->status, WEFT_ERR_MISMATCH);
        assert_string_equal(weft__recorded_way(&shot, ops[i]->way), "ring");
        assert_int_equal(ops[i]->submitted_ns, 7);
        assert_int_equal(ops[i]->over_ns, 7);
        assert_int_equal(ops[i]->bytes, 20);
        assert_int_equal(ops[i]->whom, 2);
        assert_int_equal(ops[i]->flags, WEFT__FLAG_ROOTED);
    }
    assert_int_equal(ops[1]->record, ops[0]->record + 1);
    for (uint64_t i = 1; i <= OPS; i++) pass(i); /* it stands in nobody's way */
    read_it();
    assert_int_equal(find(6)->whom, 3);
}

static void test_ring(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3 * OPS + 5; i++) pass(i);
    read_it();
    assert_int_equal(shot.op_count, OPS);
    for (size_t i = 0; i < OPS; i++) {
        assert_int_equal(shot.ops[i].number, 2 * OPS + 6 + i);
        assert_int_equal(shot.ops[i].over_ns, shot.ops[i].number);
        assert_int_equal(shot.ops[i].tag, 9);
        assert_false(shot.ops[i].torn);
    }
}

/* What has not settled stays, however many others come after it. */
static void test_standing(void **state)
{
    uint64_t record[5];
    (void)state;
    for (uint64_t i = 0; i < 5; i++) {
        record[i] = start(1000 + i);
        pass(1);
    }
    for (uint64_t i = 1; i <= 10 * OPS; i++) pass(i);
    read_it();
    assert_int_equal(shot.op_count, OPS);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(find(1000 + i)->state, WEFT__RECORDED_OP_STARTED);
    assert_int_equal(shot.life[WEFT__LIFE_LOST], 0);
    for (uint64_t i = 0; i < 5; i++) weft__record_settled(&r, record[i], WEFT_OK, "", 1, 2);
    for (uint64_t i = 1; i <= 2 * OPS; i++) pass(i);
    read_it();
    assert_null(find(1000));
    assert_null(find(1004));
}

/* Where all stand one has to go, and what is said of it later goes nowhere. */
static void test_all_stand(void **state)
{
    uint64_t record[2 * OPS];
    (void)state;
    for (uint64_t i = 0; i < 2 * OPS; i++) record[i] = start(i);
    read_it();
    assert_true(shot.life[WEFT__LIFE_LOST] > 0);
    assert_int_equal(shot.op_count, OPS);
    for (uint64_t i = 0; i < 2 * OPS; i++) weft__record_settled(&r, record[i], WEFT_OK, "", 1, 2);
    read_it();
    for (size_t i = 0; i < shot.op_count; i++) assert_int_equal(shot.ops[i].state, WEFT__RECORDED_OP_SETTLED);
}

static weft__record_group group_of(uint64_t id, int size, const int *world)
{
    return (weft__record_group){.id = id,
                                .size = size,
                                .rank = 0,
                                .world = world,
                                .becomes = WEFT__RECORDED_GROUP_READY,
                                .culprit = -1,
                                .label = "tp",
                                .why = ""};
}

static void test_groups(void **state)
{
    const int even[] = {0, 2, 4}, odd[] = {5, 1, 3};
    const weft__group_record *group;
    weft__record_group is = group_of(8, 3, odd), other = group_of(9, 3, even);
    (void)state;
    is.place = weft__record_group_is(&r, &is, 100);
    other.place = weft__record_group_is(&r, &other, 101);
    is.becomes = WEFT__RECORDED_GROUP_BROKEN;
    is.status = WEFT_ERR_PEER;
    is.culprit = 1;
    is.why = "rank 1 has died";
    weft__record_group_is(&r, &is, 102);
    read_it();
    group = weft__recorded_group_of(&shot, 8);
    for (int i = 0; i < 3; i++) assert_int_equal(weft__recorded_member(&shot, group, i), odd[i]);
    assert_int_equal(group->state, WEFT__RECORDED_GROUP_BROKEN);
    assert_int_equal(group->status, WEFT_ERR_PEER);
    assert_int_equal(group->culprit, 1);
    assert_int_equal(group->made_ns, 100);
    assert_int_equal(group->ended_ns, 102);
    assert_string_equal(group->why, "rank 1 has died");
    group = weft__recorded_group_of(&shot, 9);
    for (int i = 0; i < 3; i++) assert_int_equal(weft__recorded_member(&shot, group, i), even[i]);
    /* Those let go make room. */
    weft__record_group_let_go(&r, other.place, 9, 103);
    for (uint64_t id = 20; id < 20 + 127; id++) {
        weft__record_group more = group_of(id, 3, even);
        weft__record_group_is(&r, &more, (int64_t)id);
    }
    read_it();
    assert_int_equal(shot.group_count, 128);
    assert_null(weft__recorded_group_of(&shot, 9));
    assert_non_null(weft__recorded_group_of(&shot, 8));
    assert_non_null(weft__recorded_group_of(&shot, 20));
}

static void test_events(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 3000; i++) weft__record_event_now(&r, WEFT__HAPPENED_SLEEPS, -1, i, (int64_t)i);
    weft__record_peer(&r, 4, WEFT__RECORDED_PEER_DEAD, true, 77);
    weft__record_peer(&r, WORLD, WEFT__RECORDED_PEER_DEAD, true, 77); /* there is none */
    read_it();
    assert_int_equal(shot.event_count, 1024);
    assert_int_equal(shot.events[0].number, 3000 - 1023);
    assert_int_equal(shot.events[1023].number, 3000);
    assert_int_equal(shot.peer_count, WORLD);
    assert_int_equal(shot.peers[4].state, WEFT__RECORDED_PEER_DEAD);
    assert_true(shot.peers[4].local);
}

static void test_off(void **state)
{
    weft__recorder off = {.ops = NULL};
    const int world[] = {0};
    weft__record_group is = group_of(8, 1, world);
    (void)state;
    assert_false(weft__record_has_room(&off));
    weft__record_life(&off, WEFT__LIFE_STAGE, 1);
    weft__record_happened(&off, WEFT__HAPPENED_JOINED, -1, 0);
    weft__record_peer(&off, 0, WEFT__RECORDED_PEER_UP, false, 0);
    weft__record_group_is(&off, &is, 1);
    weft__record_group_let_go(&off, 0, 8, 1);
    weft__record_settled(&off, 0, WEFT_OK, "", 0, 0);
    weft__record_times(&off, 0, 0);
    weft__record_master(&off, 0);
}

/* ---- beside each other ---- */

enum { ROUNDS = 300 };
static _Atomic bool done;

/* Each record tells the same number in four words. */
static void *writes(void *arg)
{
    uint64_t n = 1;
    (void)arg;
    while (!atomic_load(&done)) {
        uint64_t record = start(n);
        pass(n + 1);
        weft__record_settled(&r, record, WEFT_OK, "", (int64_t)n, (int64_t)n);
        weft__record_event_now(&r, WEFT__HAPPENED_WAKES, -1, n, (int64_t)n);
        n += 2;
    }
    return NULL;
}

static void test_beside(void **state)
{
    pthread_t writer;
    size_t whole = 0;
    (void)state;
    atomic_store(&done, false);
    assert_false(pthread_create(&writer, NULL, writes, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        read_it();
        for (size_t i = 0; i < shot.op_count; i++) {
            const weft__recorded_op *op = &shot.ops[i];
            if (op->torn) continue;
            whole++;
            assert_int_equal(op->submitted_ns, op->number);
            assert_int_equal(op->bytes, op->number % 2 ? op->number * 4 : op->number);
            if (op->state == WEFT__RECORDED_OP_SETTLED) assert_int_equal(op->over_ns, op->number);
        }
        for (size_t i = 0; i < shot.event_count; i++)
            assert_int_equal(shot.events[i].at_ns, shot.events[i].number);
    }
    atomic_store(&done, true);
    pthread_join(writer, NULL);
    assert_true(whole > 0);
}

/* ---- its file ---- */

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static char folder[] = "/tmp/weft-test-record-XXXXXX";

static weft__snapshot *make(int dir, const char *run, int rank, size_t ops, weft__recorder *to)
{
    static weft__snapshot found;
    char name[WEFT__RECORD_NAME_BYTES];
    weft__record_owner owner = {.rank = rank, .world = 2};
    void *memory;
    size_t room;
    weft__record_name_make(run, rank, name);
    assert_int_equal(weft__record_file_make(dir, name, ops, 2, &memory, &room), WEFT_OK);
    assert_true(room <= ops && room >= least_of(ops, 128));
    weft__record_open(to, memory, ops, &owner);
    weft__record_room_is(to, room);
    assert_int_equal(weft__snapshot_open(dir, name, &found), WEFT_OK);
    return &found;
}

/* KiB of memory that the file has. */
static long kept(int dir, const char *name)
{
    struct stat file;
    assert_false(fstatat(dir, name, &file, 0));
    return (long)file.st_blocks / 2;
}

/* It begins small; half full it grows, and says so, until all is there.  What was written stays. */
static void test_growth(void **state)
{
    enum { MANY = 4096 };
    static char memory[] = "/dev/shm/weft-test-record-XXXXXX";
    char name[WEFT__RECORD_NAME_BYTES];
    weft__recorder to;
    size_t room;
    long least;
    int dir;
    (void)state;
    assert_non_null(mkdtemp(memory));
    dir = open(memory, O_RDONLY | O_DIRECTORY);
    make(dir, "eeeeeeeeeeeeeeee", 0, MANY, &to);
    weft__record_name_make("eeeeeeeeeeeeeeee", 0, name);
    room = atomic_load(&to.room);
    least = kept(dir, name);
    assert_true(room == MANY || least < 200);
    r = to;
    for (uint64_t i = 1; i <= MANY; i++) {
        pass(i);
        if (room < MANY && i == room / 2) assert_false(atomic_load(&r.crowded));
        if (atomic_load(&r.crowded)) {
            weft__record_file_grow(&r);
            assert_true(atomic_load(&r.room) > room);
            room = atomic_load(&r.room);
        }
    }
    assert_int_equal(atomic_load(&r.room), MANY);
    assert_true(kept(dir, name) > 512);
    assert_int_equal(weft__snapshot_open(dir, name, &shot), WEFT_OK);
    assert_int_equal(shot.op_count, MANY);
    assert_int_equal(shot.ops[0].number, 1);
    assert_int_equal(shot.life[WEFT__LIFE_ROOM], MANY);
    assert_false(shot.lapped);
    pass(MANY + 1);
    weft__snapshot_close(&shot);
    assert_int_equal(weft__snapshot_open(dir, name, &shot), WEFT_OK);
    assert_true(shot.lapped);
    weft__snapshot_close(&shot);
    unlinkat(dir, name, 0);
    munmap((void *)r.file, r.bytes);
    assert_false(rmdir(memory));
    close(dir);
}

/* Where nobody has time to let it grow, it goes round in what it has. */
static void test_small(void **state)
{
    (void)state;
    weft__record_room_is(&r, OPS / 4);
    for (uint64_t i = 1; i <= 3 * OPS + 5; i++) pass(i);
    assert_true(atomic_load(&r.crowded));
    read_it();
    assert_int_equal(shot.op_count, OPS / 4);
    assert_true(shot.lapped);
    for (size_t i = 0; i < shot.op_count; i++)
        assert_int_equal(shot.ops[i].number, 3 * OPS + 5 - OPS / 4 + 1 + i);
    weft__record_room_is(&r, OPS);
    for (uint64_t i = 1; i <= OPS; i++) pass(3 * OPS + 5 + i);
    read_it();
    assert_int_equal(shot.ops[shot.op_count - 1].number, 4 * OPS + 5);
    assert_true(shot.op_count > OPS / 4);
}

static bool there(int dir, const char *run, int rank)
{
    char name[WEFT__RECORD_NAME_BYTES];
    weft__record_name_make(run, rank, name);
    return !faccessat(dir, name, F_OK, 0);
}

static void test_file(void **state)
{
    static const char *const runs[] = {"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"};
    struct rlimit before, small = {.rlim_cur = 4096};
    weft__recorder made[3];
    weft__snapshot *found;
    void *memory;
    size_t room;
    int dir;
    (void)state;
    assert_non_null(mkdtemp(folder));
    dir = open(folder, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 3; i++) {
        found = make(dir, runs[i], i % 2, OPS, &made[i]);
        assert_int_equal(found->rank, i % 2);
        assert_true(weft__recorded_lives(found));
        weft__snapshot_close(found);
        usleep(20000); /* files have coarse times */
    }
    weft__record_files_clean(dir, runs[2]);
    assert_true(there(dir, runs[0], 0)); /* they live */
    assert_true(there(dir, runs[1], 1));
    for (int i = 0; i < 2; i++) weft__put(&made[i].file[WEFT__HEAD_BORN], 1);
    weft__record_files_clean(dir, runs[2]);
    assert_false(there(dir, runs[0], 0));
    assert_true(there(dir, runs[1], 1)); /* the last of them */
    assert_true(there(dir, runs[2], 0));
    assert_false(getrlimit(RLIMIT_FSIZE, &before));
    small.rlim_max = before.rlim_max;
    assert_false(setrlimit(RLIMIT_FSIZE, &small));
    assert_int_equal(weft__record_file_make(dir, "record.dddddddddddddddd.0", OPS, 2, &memory, &room),
                     WEFT_ERR_SYSTEM);
    assert_false(setrlimit(RLIMIT_FSIZE, &before));
    for (int i = 0; i < 3; i++) {
        char name[WEFT__RECORD_NAME_BYTES];
        weft__record_name_make(runs[i], i % 2, name);
        unlinkat(dir, name, 0);
        munmap((void *)made[i].file, made[i].bytes);
    }
    assert_false(rmdir(folder));
    close(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, fresh, over),
        cmocka_unit_test_setup_teardown(test_whole, fresh, over),
        cmocka_unit_test_setup_teardown(test_ring, fresh, over),
        cmocka_unit_test_setup_teardown(test_standing, fresh, over),
        cmocka_unit_test_setup_teardown(test_all_stand, fresh, over),
        cmocka_unit_test_setup_teardown(test_groups, fresh, over),
        cmocka_unit_test_setup_teardown(test_events, fresh, over),
        cmocka_unit_test_setup_teardown(test_off, fresh, over),
        cmocka_unit_test_setup_teardown(test_beside, fresh, over),
        cmocka_unit_test_setup_teardown(test_small, fresh, over),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_growth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
