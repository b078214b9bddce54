/* snapshot.c - reads and checks the words of a record, from memory or from a file, and takes them apart.
 *
 * A file is read twice as a whole.  A record with the same even stamp and the same words in both is whole:
 * between the two readings of its stamp nobody has begun to write it.  What has changed in between is read again
 * by itself. */
#include "snapshot.h"
#include "born.h"
#include "check.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MOST  ((size_t)1 << 30)
#define TRIES      8                 /* for a record */
#define TRIES_MOST 65536             /* for all of them */
#define WORDS_MOST WEFT__GROUP_WORDS /* of one record */
#define WORLD_MOST (1 << 24)
#define WORD       sizeof(uint64_t)

/* Where the words come from: memory, or two copies of a file. */
typedef struct source {
    const weft__word *live;
    const uint64_t *first, *second;
    int fd;
    size_t words;
    int tries; /* that are left: a hostile writer can make none of its records hold still */
    const char *name;
} source;

/* What a table must look like. */
static const struct shape {
    uint32_t words, most; /* of a record; records */
    bool ring;            /* their number is a power of two */
    const char *name;
} shapes[WEFT__RECORD_TABLES] = {
    [WEFT__TABLE_NAMES] = {WEFT__NAME_WORDS, WEFT__NAMES, false, "names"},
    [WEFT__TABLE_OPS] = {WEFT__OPERATION_LINE_WORDS, 1 << 20, true, "operations"},
    [WEFT__TABLE_MORE] = {WEFT__OPERATION_MORE_WORDS, 1 << 20, true, "more of them"},
    [WEFT__TABLE_EVENTS] = {WEFT__EVENT_WORDS, 1 << 16, true, "events"},
    [WEFT__TABLE_GROUPS] = {WEFT__GROUP_WORDS, 1 << 12, false, "groups"},
    [WEFT__TABLE_MEMBERS] = {1, 1 << 20, false, "members"},
    [WEFT__TABLE_PEERS] = {WEFT__PEER_WORDS, 1 << 17, false, "peers"},
};

typedef struct table {
    size_t at; /* its first word */
    uint32_t count;
} table;

static uint64_t word(const source *s, size_t at)
{
    return s->live ? atomic_load_explicit(&s->live[at], memory_order_acquire) : s->second[at];
}

/* ---- records that have a stamp ---- */

static void copy_live(const source *s, size_t at, size_t n, uint64_t *to)
{
    for (size_t i = 0; i < n; i++) to[i] = atomic_load_explicit(&s->live[at + i], memory_order_acquire);
}

/* Where a record's words are: in one piece, or in two of the same length. */
typedef struct pieces {
    size_t first, second, words; /* second: SIZE_MAX if there is none */
} pieces;

static bool read_words(const source *s, size_t at, size_t n, uint64_t *to)
{
    if (!s->live) return pread(s->fd, to, n * WORD, (off_t)(at * WORD)) == (ssize_t)(n * WORD);
    copy_live(s, at, n, to);
    return true;
}

static bool read_pieces(const source *s, const pieces *at, uint64_t *to)
{
    return read_words(s, at->first, at->words, to) &&
           (at->second == SIZE_MAX || read_words(s, at->second, at->words, to + at->words));
}

static void copy_pieces(const uint64_t *from, const pieces *at, uint64_t *to)
{
    memcpy(to, from + at->first, at->words * WORD);
    if (at->second != SIZE_MAX) memcpy(to + at->words, from + at->second, at->words * WORD);
}

/* False: its writer is in the middle of it, or came in between each time. */
static bool read_record_in(source *s, const pieces *at, uint64_t odd, uint64_t *to)
{
    const size_t bytes = (at->second == SIZE_MAX ? 1 : 2) * at->words * WORD;
    uint64_t before[WORDS_MOST];
    WEFT__ASSERT(bytes <= sizeof before);
    memset(to, 0, bytes);
    if (!s->live) {
        copy_pieces(s->first, at, before);
        copy_pieces(s->second, at, to);
        if (!(to[0] & odd) && !memcmp(before, to, bytes)) return true;
    }
    for (int i = 0; i < TRIES && s->tries; i++, s->tries--) {
        if (!read_pieces(s, at, before) || !read_pieces(s, at, to)) return false;
        if (!(to[0] & odd) && !memcmp(before, to, bytes)) return true;
    }
    return false;
}

static bool read_record(source *s, size_t at, size_t n, uint64_t odd, uint64_t *to)
{
    const pieces whole = {at, SIZE_MAX, n};
    return read_record_in(s, &whole, odd, to);
}

/* Ends by a 0 at the latest behind them; a word may have changed since the one before it. */
static void text_of(const uint64_t *words, size_t n, char *text)
{
    memcpy(text, words, n * WORD);
    text[n * WORD] = 0;
}

static void read_text(const source *s, size_t at, size_t n, char *text)
{
    uint64_t words[WORDS_MOST];
    for (size_t i = 0; i < n; i++) words[i] = word(s, at + i);
    text_of(words, n, text);
}

static unsigned byte_of(uint64_t w, int which)
{
    return (unsigned)(w >> 8 * which & 0xff);
}

static int low(uint64_t w)
{
    return (int)(int32_t)(uint32_t)w;
}

static int high(uint64_t w)
{
    return (int)(int32_t)(uint32_t)(w >> 32);
}

/* ---- the header ---- */

static weft_status snapshot_refuse(const source *s, const char *why)
{
    return weft__fail(WEFT_ERR_ARGUMENT, "%s is no record of a rank: %s", s->name, why);
}

static weft_status check_head(const source *s)
{
    if (s->words < WEFT__HEAD_WORDS) return snapshot_refuse(s, "it is too short");
    if (word(s, WEFT__HEAD_MAGIC) != WEFT__RECORD_MAGIC)
        return snapshot_refuse(s, word(s, WEFT__HEAD_MAGIC) == __builtin_bswap64(WEFT__RECORD_MAGIC)
                                      ? "it was written by a machine of the other byte order"
                                      : "it does not begin like one, or its writer ended before it was made");
    if (word(s, WEFT__HEAD_VERSION) != WEFT__RECORD_VERSION)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s has layout %llu: expected %llu, which this release writes",
                          s->name, (unsigned long long)word(s, WEFT__HEAD_VERSION),
                          (unsigned long long)WEFT__RECORD_VERSION);
    if (word(s, WEFT__HEAD_BYTES) != s->words * WORD)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s has %zu bytes: expected the %llu that it tells of", s->name,
                          s->words * WORD, (unsigned long long)word(s, WEFT__HEAD_BYTES));
    return WEFT_OK;
}

static weft_status find_table(const source *s, weft__record_table which, table *t)
{
    const struct shape *shape = &shapes[which];
    uint64_t offset = word(s, WEFT__HEAD_TABLES + 2 * (size_t)which);
    uint64_t what = word(s, WEFT__HEAD_TABLES + 2 * (size_t)which + 1);
    uint32_t count = (uint32_t)what, words = (uint32_t)(what >> 32);
    uint64_t bytes = (uint64_t)count * shape->words * WORD, whole = s->words * WORD;
    if (words != shape->words || count > shape->most || (shape->ring && count & (count - 1)) ||
        offset % WORD || offset < WEFT__HEAD_WORDS * WORD || offset > whole || bytes > whole - offset)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s is damaged: its table of %s has %u records of %u words at byte %llu of %llu",
                          s->name, shape->name, count, words, (unsigned long long)offset,
                          (unsigned long long)whole);
    t->at = (size_t)offset / WORD;
    t->count = count;
    return WEFT_OK;
}

static weft_status read_head(const source *s, weft__snapshot *shot)
{
    uint64_t rank = word(s, WEFT__HEAD_RANK), world = word(s, WEFT__HEAD_WORLD);
    uint64_t master = word(s, WEFT__HEAD_MASTER), pid = word(s, WEFT__HEAD_PID);
    if (!world || world > WORLD_MOST || rank >= world || master >= world || !pid || pid > INT32_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s is damaged: it is of rank %llu of %llu, process %llu",
                          s->name, (unsigned long long)rank, (unsigned long long)world,
                          (unsigned long long)pid);
    shot->rank = (int)rank;
    shot->world = (int)world;
    shot->master = (int)master;
    shot->pid = (int64_t)pid;
    shot->born = (int64_t)word(s, WEFT__HEAD_BORN);
    shot->monotonic_ns = (int64_t)word(s, WEFT__HEAD_MONOTONIC);
    shot->realtime_ns = (int64_t)word(s, WEFT__HEAD_REALTIME);
    shot->timeout_ms = (int64_t)word(s, WEFT__HEAD_TIMEOUT_MS);
    for (size_t i = 0; i < WEFT__RECORD_TEXTS; i++) read_text(s, WEFT__HEAD_TEXTS + 8 * i, 8, shot->texts[i]);
    for (size_t i = 0; i < WEFT__LIFE_WORDS; i++) shot->life[i] = word(s, WEFT__HEAD_LIFE + i);
    return WEFT_OK;
}

/* ---- the tables ---- */

static void *room_for(size_t count, size_t each)
{
    return calloc(count ? count : 1, each);
}

static void read_names(const source *s, const table *t, weft__snapshot *shot)
{
    for (size_t i = 0; i < t->count; i++)
        read_text(s, t->at + i * WEFT__NAME_WORDS, WEFT__NAME_WORDS, shot->names[i]);
}

/* What only counts with HAS_MORE. */
static void take_more(const uint64_t *w, weft__recorded_op *op)
{
    uint64_t phase = w[WEFT__OPERATION_PHASE] & 0xff;
    if (w[WEFT__OPERATION_STARTED_AT]) op->started_ns = (int64_t)w[WEFT__OPERATION_STARTED_AT];
    if (op->flags & WEFT__FLAG_SLEPT) op->waiting_ns = (int64_t)w[WEFT__OPERATION_WAITED];
    op->phase = phase < WEFT__RECORDED_PHASES ? (weft__recorded_phase)phase : WEFT__RECORDED_NO_PHASE;
    op->phase_ns = op->phase ? (int64_t)(w[WEFT__OPERATION_PHASE] >> 8) : 0;
    op->awaited = (int)(uint32_t)w[WEFT__OPERATION_AWAITED] - 1;
    text_of(w + WEFT__OPERATION_LABEL, WEFT__OPERATION_WORDS - WEFT__OPERATION_LABEL, op->label);
}

/* False: there is none, or no writer writes that; then it is counted. */
static bool take_op(const uint64_t *w, size_t slot, size_t count, weft__snapshot *shot, weft__recorded_op *op)
{
    uint64_t what = w[WEFT__OPERATION_WHAT], number = w[WEFT__OPERATION_STAMP] >> WEFT__OPERATION_STAMP_BITS;
    unsigned state = byte_of(what, 2);
    if (!w[WEFT__OPERATION_STAMP]) return false;
    if ((number && (number & (count - 1)) != slot) || (!number && !op->torn) ||
        state >= WEFT__RECORDED_OP_STATES || (!state && !op->torn)) {
        shot->damaged++;
        return false;
    }
    op->record = number;
    op->group = w[WEFT__OPERATION_GROUP];
    op->number = w[WEFT__OPERATION_NUMBER];
    op->bytes = w[WEFT__OPERATION_BYTES];
    op->kind = (int)byte_of(what, 1);
    op->type = (int)byte_of(what, 0);
    op->state = (weft__recorded_op_state)state;
    op->status = (weft_status)(int8_t)byte_of(what, 3);
    op->way = (int)byte_of(what, 4);
    op->memory = (int)byte_of(what, 5);
    op->flags = byte_of(what, 6);
    op->whom = low(w[WEFT__OPERATION_WHOM]);
    op->tag = high(w[WEFT__OPERATION_WHOM]);
    op->submitted_ns = op->started_ns = (int64_t)w[WEFT__OPERATION_SUBMITTED];
    op->over_ns = state == WEFT__RECORDED_OP_SETTLED ? (int64_t)w[WEFT__OPERATION_OVER] : 0;
    op->awaited = -1;
    if (op->flags & WEFT__FLAG_PASSED) op->over_ns = op->submitted_ns;
    if (op->flags & WEFT__FLAG_HAS_MORE) take_more(w, op);
    return true;
}

static int by_record(const void *a, const void *b)
{
    uint64_t left = ((const weft__recorded_op *)a)->record, right = ((const weft__recorded_op *)b)->record;
    return left < right ? -1 : left > right;
}

static weft_status read_ops(source *s, const table *t, const table *more, weft__snapshot *shot)
{
    uint64_t w[WEFT__OPERATION_WORDS];
    if (t->count != more->count)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s is damaged: it has %u operations, and more of %u", s->name,
                          t->count, more->count);
    shot->op_room = t->count;
    shot->ops = room_for(t->count, sizeof *shot->ops);
    if (!shot->ops) return weft__fail_memory(t->count * sizeof *shot->ops, "the operations of a record");
    for (size_t i = 0; i < t->count; i++) {
        weft__recorded_op *op = &shot->ops[shot->op_count];
        const pieces at = {t->at + i * WEFT__OPERATION_LINE_WORDS, more->at + i * WEFT__OPERATION_MORE_WORDS,
                           WEFT__OPERATION_LINE_WORDS};
        memset(op, 0, sizeof *op);
        op->torn = !read_record_in(s, &at, 1, w);
        if (!take_op(w, i, t->count, shot, op)) continue;
        if (op->record >= 2 * (uint64_t)t->count) shot->lapped = true;
        shot->op_count++;
    }
    qsort(shot->ops, shot->op_count, sizeof *shot->ops, by_record);
    return WEFT_OK;
}

static int event_by_record(const void *a, const void *b)
{
    uint64_t left = ((const weft__recorded_event *)a)->record,
             right = ((const weft__recorded_event *)b)->record;
    return left < right ? -1 : left > right;
}

static weft_status read_events(source *s, const table *t, weft__snapshot *shot)
{
    uint64_t w[WEFT__EVENT_WORDS];
    shot->events = room_for(t->count, sizeof *shot->events);
    if (!shot->events) return weft__fail_memory(t->count * sizeof *shot->events, "the events of a record");
    for (size_t i = 0; i < t->count; i++) {
        weft__recorded_event *event = &shot->events[shot->event_count];
        bool whole = read_record(s, t->at + i * WEFT__EVENT_WORDS, WEFT__EVENT_WORDS, 0, w);
        uint32_t what = (uint32_t)w[WEFT__EVENT_WHAT];
        if (!whole || !w[WEFT__EVENT_STAMP]) continue;
        if ((w[WEFT__EVENT_STAMP] & (t->count - 1)) != i || !what || what >= WEFT__RECORD_EVENT_KINDS) {
            shot->damaged++;
            continue;
        }
        *event = (weft__recorded_event){.record = w[WEFT__EVENT_STAMP],
                                        .what = (weft__record_event)what,
                                        .at_ns = (int64_t)w[WEFT__EVENT_AT],
                                        .rank = high(w[WEFT__EVENT_WHAT]),
                                        .number = w[WEFT__EVENT_NUMBER]};
        shot->event_count++;
    }
    qsort(shot->events, shot->event_count, sizeof *shot->events, event_by_record);
    return WEFT_OK;
}

static bool take_group(const uint64_t *w, weft__snapshot *shot, weft__group_record *group)
{
    uint64_t state = w[WEFT__GROUP_STATE];
    group->id = w[WEFT__GROUP_ID];
    group->size = low(w[WEFT__GROUP_SIZE]);
    group->rank = high(w[WEFT__GROUP_SIZE]);
    group->state = (weft__recorded_group_state)byte_of(state, 0);
    if (!w[WEFT__GROUP_STAMP] || (group->torn && group->state == WEFT__RECORDED_GROUP_UNKNOWN)) return false;
    if (group->size < 1 || group->size > shot->world || group->rank < -1 || group->rank >= group->size ||
        group->state == WEFT__RECORDED_GROUP_UNKNOWN || group->state >= WEFT__RECORDED_GROUP_STATES) {
        shot->damaged++;
        return false;
    }
    group->status = (weft_status)(int8_t)byte_of(state, 1);
    group->let_go = byte_of(state, 2);
    group->first = low(w[WEFT__GROUP_MEMBERS]);
    group->stride = high(w[WEFT__GROUP_MEMBERS]);
    group->pool = w[WEFT__GROUP_POOL] < SIZE_MAX ? (size_t)w[WEFT__GROUP_POOL] : SIZE_MAX;
    group->made_ns = (int64_t)w[WEFT__GROUP_MADE];
    group->ended_ns = (int64_t)w[WEFT__GROUP_ENDED];
    group->culprit = low(w[WEFT__GROUP_CULPRIT] - 1);
    group->at = w[WEFT__GROUP_AT];
    text_of(w + WEFT__GROUP_LABEL, WEFT__GROUP_LABEL_WORDS, group->label);
    text_of(w + WEFT__GROUP_WHY, WEFT__GROUP_WHY_WORDS, group->why);
    return true;
}

static weft_status read_groups(source *s, const table *t, weft__snapshot *shot)
{
    uint64_t w[WEFT__GROUP_WORDS];
    shot->groups = room_for(t->count, sizeof *shot->groups);
    if (!shot->groups) return weft__fail_memory(t->count * sizeof *shot->groups, "the groups of a record");
    for (size_t i = 0; i < t->count; i++) {
        weft__group_record *group = &shot->groups[shot->group_count];
        memset(group, 0, sizeof *group);
        group->torn = !read_record(s, t->at + i * WEFT__GROUP_WORDS, WEFT__GROUP_WORDS, 1, w);
        if (take_group(w, shot, group)) shot->group_count++;
    }
    return WEFT_OK;
}

static weft_status read_pool(const source *s, const table *t, weft__snapshot *shot)
{
    shot->pool_count = 2 * (size_t)t->count;
    shot->pool = room_for(shot->pool_count, sizeof *shot->pool);
    if (!shot->pool)
        return weft__fail_memory(shot->pool_count * sizeof *shot->pool, "the members of a record");
    for (size_t i = 0; i < t->count; i++) {
        uint64_t two = word(s, t->at + i);
        shot->pool[2 * i] = low(two);
        shot->pool[2 * i + 1] = high(two);
    }
    return WEFT_OK;
}

static weft_status read_peers(const source *s, const table *t, weft__snapshot *shot)
{
    size_t count = t->count < (size_t)shot->world ? t->count : (size_t)shot->world;
    shot->peers = room_for(count, sizeof *shot->peers);
    if (!shot->peers) return weft__fail_memory(count * sizeof *shot->peers, "the peers of a record");
    shot->peer_count = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t state = word(s, t->at + i * WEFT__PEER_WORDS);
        unsigned which = byte_of(state, 0);
        if (which >= WEFT__RECORDED_PEER_STATES) {
            shot->damaged++;
            continue;
        }
        shot->peers[i].state = (weft__recorded_peer_state)which;
        shot->peers[i].local = byte_of(state, 1);
        shot->peers[i].since_ns = (int64_t)word(s, t->at + i * WEFT__PEER_WORDS + WEFT__PEER_SINCE);
    }
    return WEFT_OK;
}

static weft_status read_all(source *s, weft__snapshot *shot)
{
    table tables[WEFT__RECORD_TABLES];
    weft_status status = check_head(s);
    for (int i = 0; i < WEFT__RECORD_TABLES && status == WEFT_OK; i++)
        status = find_table(s, (weft__record_table)i, &tables[i]);
    if (status == WEFT_OK) status = read_head(s, shot);
    if (status != WEFT_OK) return status;
    read_names(s, &tables[WEFT__TABLE_NAMES], shot);
    status = read_ops(s, &tables[WEFT__TABLE_OPS], &tables[WEFT__TABLE_MORE], shot);
    if (status == WEFT_OK) status = read_events(s, &tables[WEFT__TABLE_EVENTS], shot);
    if (status == WEFT_OK) status = read_groups(s, &tables[WEFT__TABLE_GROUPS], shot);
    if (status == WEFT_OK) status = read_pool(s, &tables[WEFT__TABLE_MEMBERS], shot);
    if (status == WEFT_OK) status = read_peers(s, &tables[WEFT__TABLE_PEERS], shot);
    return status;
}

/* ---- where it is read from ---- */

void weft__snapshot_close(weft__snapshot *shot)
{
    free(shot->ops);
    free(shot->events);
    free(shot->groups);
    free(shot->pool);
    free(shot->peers);
    memset(shot, 0, sizeof *shot);
}

static weft_status take(source *s, weft__snapshot *shot)
{
    weft_status status;
    s->tries = TRIES_MOST;
    memset(shot, 0, sizeof *shot);
    status = read_all(s, shot);
    if (status != WEFT_OK) weft__snapshot_close(shot);
    return status;
}

weft_status weft__snapshot_of_memory(const void *memory, size_t bytes, const char *name, weft__snapshot *shot)
{
    source s = {.live = memory, .words = bytes / WORD, .name = name};
    if (bytes % WORD) return snapshot_refuse(&s, "it is no row of words");
    return take(&s, shot);
}

static bool read_whole(int fd, uint64_t *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)to + done, bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

weft_status weft__snapshot_of_file(int fd, const char *name, weft__snapshot *shot)
{
    source s = {.fd = fd, .name = name};
    weft_status status;
    uint64_t *both;
    struct stat file;
    size_t bytes;
    if (fstat(fd, &file)) return weft__fail_errno("looking at %s", name);
    if (!S_ISREG(file.st_mode)) return snapshot_refuse(&s, "it is no plain file");
    if (file.st_size < 0 || (uint64_t)file.st_size > FILE_MOST || file.st_size % (off_t)WORD)
        return snapshot_refuse(&s, "its length is none that is written");
    bytes = (size_t)file.st_size;
    s.words = bytes / WORD;
    if (s.words < WEFT__HEAD_WORDS) return snapshot_refuse(&s, "it is too short");
    both = malloc(2 * bytes);
    if (!both) return weft__fail_memory(2 * bytes, "a record");
    s.first = both;
    s.second = both + s.words;
    if (read_whole(fd, both, bytes) && read_whole(fd, both + s.words, bytes))
        status = take(&s, shot);
    else
        status = weft__fail_errno("reading %s", name);
    free(both);
    return status;
}

weft_status weft__snapshot_open(int folder, const char *name, weft__snapshot *shot)
{
    weft_status status;
    struct stat file;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return weft__fail_errno("cannot open %s", name);
    if (fstat(fd, &file))
        status = weft__fail_errno("looking at %s", name);
    else if (file.st_uid != geteuid())
        status = weft__fail(WEFT_ERR_AUTH, "%s belongs to user %u, not to us", name, (unsigned)file.st_uid);
    else
        status = weft__snapshot_of_file(fd, name, shot);
    close(fd);
    return status;
}

/* ---- what is asked of it ---- */

bool weft__record_name_read(const char *name, char run[17], int *rank)
{
    const size_t head = sizeof WEFT__RECORD_NAME - 1;
    long number;
    char *end;
    if (strncmp(name, WEFT__RECORD_NAME, head) != 0 || strspn(name + head, "0123456789abcdef") != 16 ||
        name[head + 16] != '.' || name[head + 17] < '0' || name[head + 17] > '9')
        return false;
    number = strtol(name + head + 17, &end, 10);
    if (*end || number >= WORLD_MOST) return false;
    memcpy(run, name + head, 16);
    run[16] = 0;
    *rank = (int)number;
    return true;
}

static const char *name_of(const weft__snapshot *shot, int first, int number, int end, const char *unknown)
{
    const char *name = number >= 0 && first + number < end ? shot->names[first + number] : "";
    return *name ? name : unknown;
}

const char *weft__recorded_kind(const weft__snapshot *shot, int kind)
{
    return name_of(shot, WEFT__NAME_KINDS, kind, WEFT__NAME_TYPES, "?");
}

const char *weft__recorded_type(const weft__snapshot *shot, int type)
{
    return name_of(shot, WEFT__NAME_TYPES, type, WEFT__NAME_WAYS, "?");
}

const char *weft__recorded_way(const weft__snapshot *shot, int way)
{
    return name_of(shot, WEFT__NAME_WAYS, way, WEFT__NAMES, "");
}

const char *weft__recorded_event_name(weft__record_event what)
{
    static const char *const names[] = {[WEFT__HAPPENED_NOTHING] = "nothing",
#define EVENT_NAME(id, name) [WEFT__HAPPENED_##id] = name,
                                        WEFT__RECORD_EVENTS(EVENT_NAME)
#undef EVENT_NAME
    };
    return (unsigned)what < WEFT__RECORD_EVENT_KINDS ? names[what] : "?";
}

const char *weft__recorded_phase_name(weft__recorded_phase phase)
{
    static const char *const names[] = {[WEFT__RECORDED_NO_PHASE] = "",
#define PHASE_NAME(id, name) [WEFT__RECORDED_##id] = name,
                                        WEFT__RECORD_PHASES(PHASE_NAME)
#undef PHASE_NAME
    };
    return (unsigned)phase < WEFT__RECORDED_PHASES ? names[phase] : "";
}

const weft__group_record *weft__recorded_group_of(const weft__snapshot *shot, uint64_t id)
{
    for (size_t i = 0; i < shot->group_count; i++)
        if (shot->groups[i].id == id) return &shot->groups[i];
    return NULL;
}

int weft__recorded_member(const weft__snapshot *shot, const weft__group_record *group, int at)
{
    int64_t rank = -1;
    if (at < 0 || at >= group->size) return -1;
    if (group->stride)
        rank = group->first + (int64_t)group->stride * at;
    else if (group->pool < shot->pool_count && (size_t)at < shot->pool_count - group->pool)
        rank = shot->pool[group->pool + (size_t)at];
    return rank >= 0 && rank < shot->world ? (int)rank : -1;
}

bool weft__recorded_lives(const weft__snapshot *shot)
{
    int64_t born = weft__born(shot->pid);
    return born && born == shot->born;
}

int64_t weft__recorded_realtime(const weft__snapshot *shot, int64_t at_ns)
{
    return (int64_t)((uint64_t)shot->realtime_ns + (uint64_t)at_ns - (uint64_t)shot->monotonic_ns);
}
