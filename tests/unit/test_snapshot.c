/* Records made by hand: what they say comes out, and what cannot be is refused or left out. */
#include "born.h"
#include "snapshot.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPS = 8, EVENTS = 4, GROUPS = 2, MEMBERS = 4, PEERS = 4 };
enum {
    NAMES_AT = WEFT__HEAD_WORDS,
    OPS_AT = NAMES_AT + WEFT__NAMES * WEFT__NAME_WORDS,
    MORE_AT = OPS_AT + OPS * WEFT__OPERATION_LINE_WORDS,
    EVENTS_AT = MORE_AT + OPS * WEFT__OPERATION_MORE_WORDS,
    GROUPS_AT = EVENTS_AT + EVENTS * WEFT__EVENT_WORDS,
    MEMBERS_AT = GROUPS_AT + GROUPS * WEFT__GROUP_WORDS,
    PEERS_AT = MEMBERS_AT + MEMBERS,
    WORDS = PEERS_AT + PEERS * WEFT__PEER_WORDS
};

static uint64_t image[WORDS];
static weft__snapshot shot;

static void put_table(weft__record_table which, uint64_t at, uint64_t count, uint64_t words)
{
    image[WEFT__HEAD_TABLES + 2 * which] = at * 8;
    image[WEFT__HEAD_TABLES + 2 * which + 1] = count | words << 32;
}

static void put_text(size_t at, const char *text)
{
    memcpy(&image[at], text, strlen(text));
}

static int fresh(void **state)
{
    (void)state;
    memset(image, 0, sizeof image);
    image[WEFT__HEAD_MAGIC] = WEFT__RECORD_MAGIC;
    image[WEFT__HEAD_VERSION] = WEFT__RECORD_VERSION;
    image[WEFT__HEAD_BYTES] = sizeof image;
    image[WEFT__HEAD_RANK] = 2;
    image[WEFT__HEAD_WORLD] = 4;
    image[WEFT__HEAD_PID] = (uint64_t)getpid();
    image[WEFT__HEAD_BORN] = (uint64_t)weft__born(getpid());
    image[WEFT__HEAD_MONOTONIC] = 1000;
    image[WEFT__HEAD_REALTIME] = 5000;
    put_table(WEFT__TABLE_NAMES, NAMES_AT, WEFT__NAMES, WEFT__NAME_WORDS);
    put_table(WEFT__TABLE_OPS, OPS_AT, OPS, WEFT__OPERATION_LINE_WORDS);
    put_table(WEFT__TABLE_MORE, MORE_AT, OPS, WEFT__OPERATION_MORE_WORDS);
    put_table(WEFT__TABLE_EVENTS, EVENTS_AT, EVENTS, WEFT__EVENT_WORDS);
    put_table(WEFT__TABLE_GROUPS, GROUPS_AT, GROUPS, WEFT__GROUP_WORDS);
    put_table(WEFT__TABLE_MEMBERS, MEMBERS_AT, MEMBERS, 1);
    put_table(WEFT__TABLE_PEERS, PEERS_AT, PEERS, WEFT__PEER_WORDS);
    put_text(WEFT__HEAD_TEXTS + 8 * WEFT__RECORD_HOST, "here");
    put_text(NAMES_AT + 3 * 3, "all_reduce");
    put_text(NAMES_AT + (WEFT__NAME_TYPES + 5) * 3, "float32");
    put_text(NAMES_AT + (WEFT__NAME_WAYS + 1) * 3, "ring");
    return 0;
}

static int over(void **state)
{
    (void)state;
    weft__snapshot_close(&shot);
    return 0;
}

static uint64_t *put_op(uint64_t record, uint64_t state)
{
    uint64_t *op = &image[OPS_AT + record % OPS * WEFT__OPERATION_LINE_WORDS];
    op[WEFT__OPERATION_STAMP] = record << 8 | 4;
    op[WEFT__OPERATION_GROUP] = 77;
    op[WEFT__OPERATION_NUMBER] = record * 10;
    op[WEFT__OPERATION_WHAT] = 5 | 3 << 8 | state << 16 | 1ull << 32;
    op[WEFT__OPERATION_BYTES] = 4096;
    op[WEFT__OPERATION_WHOM] = UINT32_MAX | 9ull << 32;
    op[WEFT__OPERATION_SUBMITTED] = 100 + record;
    op[WEFT__OPERATION_OVER] = 200 + record;
    return op;
}

/* So that the words of more have the numbers that they have behind those of the line. */
static uint64_t *more_of(uint64_t record)
{
    return &image[MORE_AT + record % OPS * WEFT__OPERATION_MORE_WORDS] - WEFT__OPERATION_LINE_WORDS;
}

static void read_it(void)
{
    assert_int_equal(weft__snapshot_of_memory(image, sizeof image, "it", &shot), WEFT_OK);
}

static void refused(const char *with)
{
    assert_int_equal(weft__snapshot_of_memory(image, sizeof image, "it", &shot), WEFT_ERR_ARGUMENT);
    if (!strstr(weft_last_error(), with)) fail_msg("\"%s\" does not tell of \"%s\"", weft_last_error(), with);
}

static void test_head(void **state)
{
    (void)state;
    read_it();
    assert_int_equal(shot.rank, 2);
    assert_int_equal(shot.world, 4);
    assert_string_equal(shot.texts[WEFT__RECORD_HOST], "here");
    assert_int_equal(weft__recorded_realtime(&shot, 1500), 5500);
    assert_true(weft__recorded_lives(&shot));
    shot.born++;
    assert_false(weft__recorded_lives(&shot));
    assert_int_equal(shot.op_count, 0);
}

static void test_ops(void **state)
{
    uint64_t *op;
    (void)state;
    for (uint64_t r = 5; r < 5 + OPS; r++) put_op(r, WEFT__RECORDED_OP_SETTLED);
    op = put_op(
        9,
        WEFT__RECORDED_OP_STARTED); /* still at work, its caller asleep, and the rank of number 3 not there */
    op[WEFT__OPERATION_WHAT] |= (uint64_t)(WEFT__FLAG_HAS_MORE | WEFT__FLAG_SLEPT) << 48;
    op = more_of(9);
    op[WEFT__OPERATION_STARTED_AT] = 150;
    op[WEFT__OPERATION_WAITED] = 160;
    op[WEFT__OPERATION_PHASE] = 170ull << 8 | WEFT__RECORDED_RUNNING;
    op[WEFT__OPERATION_AWAITED] = 4;
    memset(&op[WEFT__OPERATION_LABEL], 'x', 32);                   /* without an end */
    put_op(7, WEFT__RECORDED_OP_SETTLED)[WEFT__OPERATION_STAMP]++; /* its writer died there */
    put_op(10, 200);                                               /* nobody writes that state, */
    put_op(11, 1)[WEFT__OPERATION_STAMP] = 12 << 8 | 2;            /* nor that number there */
    read_it();
    assert_int_equal(shot.op_count, OPS - 2);
    assert_int_equal(shot.damaged, 2);
    assert_int_equal(shot.ops[0].record, 5);
    assert_int_equal(shot.ops[OPS - 3].record, 12);
    assert_false(shot.ops[1].torn);
    assert_true(shot.ops[2].torn);
    assert_int_equal(shot.ops[0].whom, -1);
    assert_int_equal(shot.ops[0].tag, 9);
    assert_int_equal(shot.ops[0].awaited, -1);
    assert_int_equal(shot.ops[0].over_ns, 205);
    assert_string_equal(weft__recorded_kind(&shot, shot.ops[0].kind), "all_reduce");
    assert_string_equal(weft__recorded_type(&shot, shot.ops[0].type), "float32");
    assert_string_equal(weft__recorded_way(&shot, shot.ops[0].way), "ring");
    assert_string_equal(weft__recorded_kind(&shot, 4), "?");
    assert_string_equal(weft__recorded_kind(&shot, 64), "?");
    assert_int_equal(shot.ops[4].waiting_ns, 160);
    assert_int_equal(shot.ops[4].awaited, 3);
    assert_int_equal(shot.ops[4].phase_ns, 170);
    assert_string_equal(weft__recorded_phase_name(shot.ops[4].phase), "on the device");
    assert_int_equal(strlen(shot.ops[4].label), 32);
}

static void test_groups(void **state)
{
    uint64_t *g = &image[GROUPS_AT];
    const weft__group_record *group;
    (void)state;
    for (int i = 0; i < GROUPS; i++, g += WEFT__GROUP_WORDS) {
        g[WEFT__GROUP_STAMP] = 2;
        g[WEFT__GROUP_ID] = 77 + (uint64_t)i;
        g[WEFT__GROUP_SIZE] = 2 | 1ull << 32;
        g[WEFT__GROUP_STATE] = WEFT__RECORDED_GROUP_READY;
        g[WEFT__GROUP_MEMBERS] = 1 | (i ? 0 : 2ull << 32);
        g[WEFT__GROUP_POOL] = MEMBERS * 2 - 1; /* the second of its members would be behind it */
    }
    image[MEMBERS_AT + MEMBERS - 1] = 3ull << 32;
    read_it();
    group = weft__recorded_group_of(&shot, 77);
    assert_int_equal(weft__recorded_member(&shot, group, 0), 1);
    assert_int_equal(weft__recorded_member(&shot, group, 1), 3);
    assert_int_equal(weft__recorded_member(&shot, group, 2), -1);
    group = weft__recorded_group_of(&shot, 78);
    assert_int_equal(weft__recorded_member(&shot, group, 0), 3);
    assert_int_equal(weft__recorded_member(&shot, group, 1), -1);
    assert_int_equal(group->culprit, -1);
    assert_null(weft__recorded_group_of(&shot, 79));
}

static void test_events(void **state)
{
    (void)state;
    for (uint64_t r = 6; r < 6 + EVENTS; r++) {
        uint64_t *e = &image[EVENTS_AT + r % EVENTS * WEFT__EVENT_WORDS];
        e[WEFT__EVENT_STAMP] = r;
        e[WEFT__EVENT_WHAT] = WEFT__HAPPENED_LINK_LOST | 3ull << 32;
        e[WEFT__EVENT_NUMBER] = r;
    }
    image[EVENTS_AT + 3 * WEFT__EVENT_WORDS + WEFT__EVENT_WHAT] = 1000;
    read_it();
    assert_int_equal(shot.event_count, 3);
    assert_int_equal(shot.damaged, 1);
    assert_int_equal(shot.events[0].record, 6);
    assert_int_equal(shot.events[2].record, 9);
    assert_int_equal(shot.events[0].rank, 3);
    assert_string_equal(weft__recorded_event_name(shot.events[0].what), "link lost");
    assert_string_equal(weft__recorded_event_name((weft__record_event)1000), "?");
}

static void test_refused(void **state)
{
    static const uint64_t wrong[] = {0, 3, UINT64_MAX, UINT64_MAX - 7, WORDS * 8, (uint64_t)1 << 63};
    image[0] = __builtin_bswap64(WEFT__RECORD_MAGIC);
    refused("byte order");
    image[0]++;
    refused("begin");
    fresh(state);
    image[WEFT__HEAD_VERSION]++;
    refused("layout 4: expected 3");
    fresh(state);
    image[WEFT__HEAD_RANK] = 4;
    refused("rank 4 of 4");
    fresh(state);
    image[WEFT__HEAD_BYTES] -= 8;
    refused("expected");
    for (size_t t = 0; t < WEFT__RECORD_TABLES; t++)
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            fresh(state);
            image[WEFT__HEAD_TABLES + 2 * t] = wrong[i];
            refused("damaged");
            fresh(state);
            image[WEFT__HEAD_TABLES + 2 * t + 1] = wrong[i];
            refused("damaged");
        }
}

static int file_of(const void *bytes, size_t length)
{
    int fd = memfd_create("record", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    return fd;
}

static void test_file(void **state)
{
    int fd = file_of(image, sizeof image);
    (void)state;
    put_op(1, WEFT__RECORDED_OP_SETTLED);
    put_op(2, WEFT__RECORDED_OP_SETTLED)[WEFT__OPERATION_STAMP]++;
    assert_int_equal(pwrite(fd, image, sizeof image, 0), sizeof image);
    assert_int_equal(weft__snapshot_of_file(fd, "it", &shot), WEFT_OK);
    assert_int_equal(shot.op_count, 2);
    assert_false(shot.ops[0].torn);
    assert_true(shot.ops[1].torn);
    weft__snapshot_close(&shot);
    assert_false(ftruncate(fd, sizeof image - 8));
    assert_int_equal(weft__snapshot_of_file(fd, "it", &shot), WEFT_ERR_ARGUMENT);
    assert_false(ftruncate(fd, 0));
    assert_int_equal(weft__snapshot_of_file(fd, "it", &shot), WEFT_ERR_ARGUMENT);
    close(fd);
}

static void test_open(void **state)
{
    char folder[] = "/tmp/weft-test-snapshot-XXXXXX";
    int dir, fd;
    (void)state;
    assert_non_null(mkdtemp(folder));
    dir = open(folder, O_RDONLY | O_DIRECTORY);
    fd = openat(dir, "record", O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, image, sizeof image), sizeof image);
    assert_false(symlinkat("record", dir, "link"));
    assert_false(mkfifoat(dir, "pipe", 0600));
    assert_int_equal(weft__snapshot_open(dir, "record", &shot), WEFT_OK);
    weft__snapshot_close(&shot);
    assert_int_equal(weft__snapshot_open(dir, "link", &shot), WEFT_ERR_SYSTEM);
    assert_int_equal(weft__snapshot_open(dir, "none", &shot), WEFT_ERR_SYSTEM);
    assert_int_equal(weft__snapshot_open(dir, "pipe", &shot), WEFT_ERR_ARGUMENT);
    unlinkat(dir, "record", 0);
    unlinkat(dir, "link", 0);
    unlinkat(dir, "pipe", 0);
    assert_false(rmdir(folder));
    close(fd);
    close(dir);
}

static void test_names(void **state)
{
    char run[17];
    int rank = -1;
    (void)state;
    assert_true(weft__record_name_read("record.0123456789abcdef.12", run, &rank));
    assert_string_equal(run, "0123456789abcdef");
    assert_int_equal(rank, 12);
    assert_false(weft__record_name_read("record.0123456789abcdef.", run, &rank));
    assert_false(weft__record_name_read("record.0123456789abcdef.-1", run, &rank));
    assert_false(weft__record_name_read("record.0123456789abcdef.1x", run, &rank));
    assert_false(weft__record_name_read("record.0123456789abcdef.99999999999999999999", run, &rank));
    assert_false(weft__record_name_read("record.0123456789abcde.1", run, &rank));
    assert_false(weft__record_name_read("recorder", run, &rank));
    assert_false(weft__record_name_read("record.", run, &rank));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_head, fresh, over),
        cmocka_unit_test_setup_teardown(test_ops, fresh, over),
        cmocka_unit_test_setup_teardown(test_groups, fresh, over),
        cmocka_unit_test_setup_teardown(test_events, fresh, over),
        cmocka_unit_test_setup_teardown(test_refused, fresh, over),
        cmocka_unit_test_setup_teardown(test_file, fresh, over),
        cmocka_unit_test_setup_teardown(test_open, fresh, over),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
