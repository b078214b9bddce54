/* fuzz_images.h - records of a job's ranks, sound but for what the input changes in them, for targets that judge or show
 * what the reader has taken.
 *
 * Each piece of 12 bytes behind the first byte changes a word: which record and which word, then what goes there.  So
 * most inputs come past the reader, and say what no writer would.  The first byte says how the processes are. */
#ifndef WEFT_TESTS_FUZZ_FUZZ_IMAGES_H
#define WEFT_TESTS_FUZZ_FUZZ_IMAGES_H
#include "blame.h"

#include <string.h>

enum { OPS = 16, EVENTS = 4, GROUPS = 4, MEMBERS = 4, PEERS = 4, RANKS = 3 };
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
enum { CHANGE_BYTES = 12, NOW = 1000000 };

static uint64_t images[RANKS][WORDS];

static inline void put_table(uint64_t *image, int which, uint64_t at, uint64_t count, uint64_t words)
{
    image[WEFT__HEAD_TABLES + 2 * which] = at * 8;
    image[WEFT__HEAD_TABLES + 2 * which + 1] = count | words << 32;
}

static inline void put_op(uint64_t *image, uint64_t record, uint64_t group, uint64_t kind, uint64_t state)
{
    uint64_t *op = &image[OPS_AT + record % OPS * WEFT__OPERATION_LINE_WORDS];
    op[WEFT__OPERATION_STAMP] = record << WEFT__OPERATION_STAMP_BITS;
    op[WEFT__OPERATION_GROUP] = group;
    op[WEFT__OPERATION_NUMBER] = record;
    op[WEFT__OPERATION_WHAT] =
        kind << 8 | state << 16 | (uint64_t)(state < WEFT__RECORDED_OP_SETTLED ? WEFT__FLAG_BLOCKS : 0) << 48;
    op[WEFT__OPERATION_WHOM] = (record + 1) % RANKS;
    op[WEFT__OPERATION_SUBMITTED] = record * 1000;
    op[WEFT__OPERATION_OVER] = state == WEFT__RECORDED_OP_SETTLED ? record * 1000 + 500 : 0;
}

static inline void put_group(uint64_t *image, int at, uint64_t id, uint64_t rank, uint64_t stride)
{
    uint64_t *g = &image[GROUPS_AT + at * WEFT__GROUP_WORDS];
    g[WEFT__GROUP_STAMP] = 2;
    g[WEFT__GROUP_ID] = id;
    g[WEFT__GROUP_SIZE] = RANKS | rank << 32;
    g[WEFT__GROUP_STATE] = WEFT__RECORDED_GROUP_READY;
    g[WEFT__GROUP_MEMBERS] = stride << 32;
}

/* Ranks that wait for each other in messages, after two collectives. */
static inline void make(uint64_t *image, uint64_t rank)
{
    static const char *const kinds[] = {"isend", "irecv", "all_reduce", "new_group", "batch"};
    memset(image, 0, sizeof images[0]);
    image[WEFT__HEAD_MAGIC] = WEFT__RECORD_MAGIC;
    image[WEFT__HEAD_VERSION] = WEFT__RECORD_VERSION;
    image[WEFT__HEAD_BYTES] = sizeof images[0];
    image[WEFT__HEAD_RANK] = rank;
    image[WEFT__HEAD_WORLD] = RANKS;
    image[WEFT__HEAD_PID] = 1;
    put_table(image, WEFT__TABLE_NAMES, NAMES_AT, WEFT__NAMES, WEFT__NAME_WORDS);
    put_table(image, WEFT__TABLE_OPS, OPS_AT, OPS, WEFT__OPERATION_LINE_WORDS);
    put_table(image, WEFT__TABLE_MORE, MORE_AT, OPS, WEFT__OPERATION_MORE_WORDS);
    put_table(image, WEFT__TABLE_EVENTS, EVENTS_AT, EVENTS, WEFT__EVENT_WORDS);
    put_table(image, WEFT__TABLE_GROUPS, GROUPS_AT, GROUPS, WEFT__GROUP_WORDS);
    put_table(image, WEFT__TABLE_MEMBERS, MEMBERS_AT, MEMBERS, 1);
    put_table(image, WEFT__TABLE_PEERS, PEERS_AT, PEERS, WEFT__PEER_WORDS);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        memcpy(&image[NAMES_AT + i * WEFT__NAME_WORDS], kinds[i], strlen(kinds[i]));
    put_group(image, 0, 7, rank, 1);
    put_group(image, 1, 8, rank, 0);
    image[MEMBERS_AT] = 1ull << 32;
    image[MEMBERS_AT + 1] = 2;
    put_op(image, 1, 7, 2, WEFT__RECORDED_OP_SETTLED);
    put_op(image, 2, 8, 2, WEFT__RECORDED_OP_SETTLED);
    put_op(image, 3, 7, 1, WEFT__RECORDED_OP_STARTED);
}

/* Which record, which of the places that matter more, and a word that is small or large. */
static inline void change(const uint8_t *bytes)
{
    static const size_t parts[][2] = {{WEFT__HEAD_LIFE, WEFT__LIFE_WORDS},
                                      {OPS_AT, OPS * WEFT__OPERATION_WORDS},
                                      {EVENTS_AT, EVENTS * WEFT__EVENT_WORDS},
                                      {GROUPS_AT, GROUPS * WEFT__GROUP_WORDS},
                                      {MEMBERS_AT, MEMBERS},
                                      {0, WORDS}};
    const size_t *part = parts[bytes[1] % (sizeof parts / sizeof *parts)];
    size_t at = part[0] + (bytes[2] | (size_t)bytes[3] << 8) % part[1];
    uint64_t value;
    memcpy(&value, bytes + 4, sizeof value);
    if (bytes[0] & 0x80) value &= 0xff;
    images[bytes[0] % RANKS][at] = value;
}

/* Returns how many were taken. */
static inline size_t fuzz_images_read(const uint8_t *data, size_t bytes, weft__snapshot shots[RANKS],
                                      weft__witness witnesses[RANKS])
{
    size_t n = 0;
    for (uint64_t r = 0; r < RANKS; r++) make(images[r], r);
    for (size_t at = 1; at + CHANGE_BYTES <= bytes; at += CHANGE_BYTES) change(data + at);
    for (int r = 0; r < RANKS; r++) {
        if (weft__snapshot_of_memory(images[r], sizeof images[r], "it", &shots[n]) != WEFT_OK) continue;
        witnesses[n] = (weft__witness){&shots[n], (weft__process)((data[0] >> 2 * r) % 3)};
        n++;
    }
    return n;
}
#endif
