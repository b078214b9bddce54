/* Any words in the place of a rank's record: what is read of it is within its tables, and what cannot be is refused. */
#include "fuzz.h"
#include "fuzz_file.h"
#include "record.h"
#include "snapshot.h"

#include <string.h>

enum { OPS = 16, WORLD = 5, PATCH = 10, PATCHES_FAR = 3 };

size_t fuzz_reached; /* records that were read */

static uint64_t *image;
static size_t image_bytes;

/* One that a writer has left. */
static void make(void)
{
    static const char *const kinds[] = {"all_reduce", "isend"}, *const types[] = {"int8", "float32"};
    const int world[] = {3, 0, 4}, row[] = {0, 1, 2, 3, 4};
    weft__record_owner owner = {.rank = 1,
                                .world = WORLD,
                                .texts = {"job", "0123456789abcdef", "host"},
                                .kinds = kinds,
                                .types = types,
                                .kind_count = 2,
                                .type_count = 2};
    weft__recorder r;
    memset(image, 0, image_bytes);
    weft__record_open(&r, image, OPS, &owner);
    for (int i = 0; i < 2; i++) {
        weft__record_group group = {.id = 7 + (uint64_t)i,
                                    .size = i ? WORLD : 3,
                                    .world = i ? row : world,
                                    .becomes = i ? WEFT__RECORDED_GROUP_READY : WEFT__RECORDED_GROUP_BROKEN,
                                    .culprit = -1,
                                    .label = "group",
                                    .why = ""};
        weft__record_group_is(&r, &group, 5);
    }
    for (uint64_t i = 1; i <= OPS + 3; i++) {
        uint64_t record;
        if (!weft__record_has_room(&r)) abort();
        record = weft__record_start(&r, 7, i,
                                    weft__record_what(0, 1, WEFT__RECORDED_OP_STARTED, 1, WEFT__FLAG_BLOCKS),
                                    4, weft__record_whom(-1, 0), (int64_t)i);
        if (i % 5 == 0) weft__record_label(&r, record, "label");
        if (i % 7) weft__record_settled(&r, record, WEFT_OK, kinds[0], (int64_t)i, (int64_t)i + 1);
    }
    weft__record_event_now(&r, WEFT__HAPPENED_RANK_DIED, 2, 0, 9);
    weft__record_peer(&r, 2, WEFT__RECORDED_PEER_DEAD, true, 9);
}

static void check(bool rule)
{
    if (!rule) abort();
}

static void use(weft__snapshot *shot)
{
    char run[17];
    int rank;
    check(shot->rank >= 0 && shot->rank < shot->world && shot->op_count <= shot->op_room);
    for (size_t i = 0; i < WEFT__RECORD_TEXTS; i++) check(strlen(shot->texts[i]) <= 64);
    for (size_t i = 0; i < shot->op_count; i++) {
        const weft__recorded_op *op = &shot->ops[i];
        check(op->state < WEFT__RECORDED_OP_STATES && strlen(op->label) <= 32);
        check(!i || op->record > op[-1].record || (op->torn && op[-1].record == op->record));
        check(strlen(weft__recorded_kind(shot, op->kind)) <= 24 &&
              strlen(weft__recorded_type(shot, op->type)) <= 24 &&
              strlen(weft__recorded_way(shot, op->way)) <= 24);
        (void)weft__recorded_group_of(shot, op->group);
        (void)weft__recorded_realtime(shot, op->submitted_ns);
    }
    for (size_t i = 0; i < shot->event_count; i++) check(*weft__recorded_event_name(shot->events[i].what));
    for (size_t i = 0; i < shot->group_count; i++) {
        const weft__group_record *group = &shot->groups[i];
        check(group->size >= 1 && group->size <= shot->world && strlen(group->label) <= 64 &&
              strlen(group->why) <= 96);
        for (int m = -1; m <= group->size && m < 64; m++) {
            int member = weft__recorded_member(shot, group, m);
            check(member >= -1 && member < shot->world);
        }
    }
    for (size_t i = 0; i < shot->peer_count; i++) check(shot->peers[i].state < WEFT__RECORDED_PEER_STATES);
    (void)weft__recorded_lives(shot);
    (void)weft__record_name_read(shot->texts[0], run, &rank);
}

static void read_both_ways(const void *memory, size_t length)
{
    weft__snapshot shot;
    int fd;
    if (weft__snapshot_of_memory(memory, length, "it", &shot) == WEFT_OK) {
        use(&shot);
        weft__snapshot_close(&shot);
        fuzz_reached++;
    } else {
        check(*weft_last_error());
    }
    fuzz_file_write(memory, length);
    fd = open(fuzz_file_path, O_RDONLY);
    if (fd >= 0 && weft__snapshot_of_file(fd, "it", &shot) == WEFT_OK) {
        use(&shot);
        weft__snapshot_close(&shot);
    }
    if (fd >= 0) close(fd);
}

/* The first byte: 0, the rest is a whole file; else patches of a sound one, each the place of a word and what it is.  Odd:
 * places are those of the header and the tables' beginnings only, where most is decided. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!image_bytes) {
        image_bytes = weft__record_bytes(OPS, WORLD);
        image = aligned_alloc(64, (image_bytes + 63) / 64 * 64);
        if (!image) abort();
    }
    if (!bytes) return 0;
    if (!data[0]) {
        memset(image, 0, image_bytes);
        memcpy(image, data + 1, bytes - 1 < image_bytes ? bytes - 1 : image_bytes);
        read_both_ways(image, (bytes - 1 < image_bytes ? bytes - 1 : image_bytes) / 8 * 8);
        return 0;
    }
    make();
    for (size_t at = 1; at + PATCH <= bytes && at < 64 * PATCH; at += PATCH) {
        size_t words = data[0] & 1 ? WEFT__HEAD_WORDS : image_bytes / 8;
        size_t where = (data[at] | (size_t)data[at + 1] << 8) * (data[0] & 1 ? 1 : PATCHES_FAR) % words;
        memcpy(&image[where], data + at + 2, 8);
    }
    read_both_ways(image, image_bytes);
    return 0;
}
