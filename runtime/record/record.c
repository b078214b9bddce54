/* record.c - lays a record out, and writes what is not written often. */
#include "record.h"
#include "born.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define EVENTS       1024
#define MEMBER_WORDS 2048 /* 4,096 members */
#define PEERS_MOST   4096
#define ASLEEP       8  /* messages that get the same time while the progress thread sleeps */
#define STEP         64 /* records in a row that stand and are passed over */
#define WORD         sizeof(uint64_t)

static size_t peers_of(int world)
{
    return world < PEERS_MOST ? (size_t)world : PEERS_MOST;
}

/* Where everything lies, in words. */
typedef struct plan {
    size_t at[WEFT__RECORD_TABLES], count[WEFT__RECORD_TABLES], words[WEFT__RECORD_TABLES];
    size_t stand, end;
} plan;

static size_t line_from(size_t word)
{
    const size_t line = WEFT__LINE / WORD;
    return (word + line - 1) / line * line;
}

/* What grows lies last. */
static plan lay_out(size_t ops, int world)
{
    static const weft__record_table order[WEFT__RECORD_TABLES] = {WEFT__TABLE_NAMES,   WEFT__TABLE_PEERS,
                                                                  WEFT__TABLE_EVENTS,  WEFT__TABLE_GROUPS,
                                                                  WEFT__TABLE_MEMBERS, WEFT__TABLE_OPS,
                                                                  WEFT__TABLE_MORE};
    plan p = {.count = {WEFT__NAMES, ops, ops, EVENTS, WEFT__RECORD_GROUPS, MEMBER_WORDS, peers_of(world)},
              .words = {WEFT__NAME_WORDS, WEFT__OPERATION_LINE_WORDS, WEFT__OPERATION_MORE_WORDS,
                        WEFT__EVENT_WORDS, WEFT__GROUP_WORDS, 1, WEFT__PEER_WORDS},
              .end = WEFT__HEAD_WORDS};
    for (int i = 0; i < WEFT__RECORD_TABLES; i++) {
        weft__record_table t = order[i];
        if (t == WEFT__TABLE_OPS) {
            p.stand = p.end;
            p.end += (ops + WORD - 1) / WORD;
        }
        p.at[t] = line_from(p.end);
        p.end = p.at[t] + p.count[t] * p.words[t];
    }
    return p;
}

size_t weft__record_bytes(size_t ops, int world)
{
    return lay_out(ops, world).end * WORD;
}

void weft__record_parts(size_t ops, int world, size_t room, weft__record_part *lines, weft__record_part *more)
{
    plan p = lay_out(ops, world);
    *lines = (weft__record_part){p.at[WEFT__TABLE_OPS] * WORD, 0};
    *more = (weft__record_part){p.at[WEFT__TABLE_MORE] * WORD, 0};
    lines->to = lines->from + room * WEFT__OPERATION_LINE_WORDS * WORD;
    more->to = more->from + room * WEFT__OPERATION_MORE_WORDS * WORD;
}

/* n words of text, the last byte 0 where cut says so; what is behind its end may stay. */
static void put_text(weft__word *at, size_t n, const char *text, bool cut)
{
    size_t length = text ? strlen(text) : 0, most = n * WORD - cut;
    if (length > most) length = most;
    for (size_t i = 0; i < n && i * WORD <= length; i++) {
        char bytes[WORD] = {0};
        uint64_t word;
        size_t left = length - i * WORD;
        memcpy(bytes, text ? text + i * WORD : "", left < WORD ? left : WORD);
        memcpy(&word, bytes, WORD);
        weft__put(&at[i], word);
    }
}

static int64_t realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void put_name(weft__recorder *r, size_t at, const char *name)
{
    put_text(r->names + at * WEFT__NAME_WORDS, WEFT__NAME_WORDS, name, true);
}

static void put_head(weft__recorder *r, const weft__record_owner *owner)
{
    weft__word *head = r->file;
    weft__put(&head[WEFT__HEAD_VERSION], WEFT__RECORD_VERSION);
    weft__put(&head[WEFT__HEAD_BYTES], r->bytes);
    weft__put(&head[WEFT__HEAD_RANK], (uint64_t)owner->rank);
    weft__put(&head[WEFT__HEAD_WORLD], (uint64_t)owner->world);
    weft__put(&head[WEFT__HEAD_MASTER], (uint64_t)owner->master);
    weft__put(&head[WEFT__HEAD_PID], (uint64_t)getpid());
    weft__put(&head[WEFT__HEAD_BORN], (uint64_t)weft__born(getpid()));
    weft__put(&head[WEFT__HEAD_MONOTONIC], (uint64_t)weft__now_ns());
    weft__put(&head[WEFT__HEAD_REALTIME], (uint64_t)realtime_ns());
    weft__put(&head[WEFT__HEAD_TIMEOUT_MS], (uint64_t)owner->timeout_ms);
    for (size_t i = 0; i < WEFT__RECORD_TEXTS; i++)
        put_text(&head[WEFT__HEAD_TEXTS + 8 * i], 8, owner->texts[i], true);
    for (int i = 0; i < owner->kind_count && i < WEFT__NAME_TYPES; i++)
        put_name(r, (size_t)WEFT__NAME_KINDS + (size_t)i, owner->kinds[i]);
    for (int i = 0; i < owner->type_count && i < WEFT__NAME_WAYS - WEFT__NAME_TYPES; i++)
        put_name(r, (size_t)WEFT__NAME_TYPES + (size_t)i, owner->types[i]);
}

void weft__record_open(weft__recorder *r, void *memory, size_t ops, const weft__record_owner *owner)
{
    const plan p = lay_out(ops, owner->world);
    memset(r, 0, sizeof *r);
    r->file = memory;
    r->bytes = p.end * WORD;
    r->stand = (unsigned char *)(r->file + p.stand);
    for (size_t i = 0; i < WEFT__RECORD_TABLES; i++) {
        weft__put(&r->file[WEFT__HEAD_TABLES + 2 * i], p.at[i] * WORD);
        weft__put(&r->file[WEFT__HEAD_TABLES + 2 * i + 1], p.count[i] | (uint64_t)p.words[i] << 32);
    }
    r->mask = (ops - 1) << WEFT__OPERATION_LINE_BITS;
    r->way[0] = r->way[1] = r; /* none */
    r->life = r->file + WEFT__HEAD_LIFE;
    r->names = r->file + p.at[WEFT__TABLE_NAMES];
    r->events = r->file + p.at[WEFT__TABLE_EVENTS];
    r->event_mask = EVENTS - 1;
    r->groups = r->file + p.at[WEFT__TABLE_GROUPS];
    r->members = r->file + p.at[WEFT__TABLE_MEMBERS];
    r->member_words = MEMBER_WORDS;
    r->peers = r->file + p.at[WEFT__TABLE_PEERS];
    r->peer_count = peers_of(owner->world);
    r->more = r->file + p.at[WEFT__TABLE_MORE];
    r->ops = r->file + p.at[WEFT__TABLE_OPS];
    r->next = r->clear =
        r->ops + ops * WEFT__OPERATION_LINE_WORDS; /* its end, so that the first numbers are above 0 */
    r->stamps = 0 - weft__record_stamp(r, r->ops);
    weft__record_room_is(r, ops);
    put_head(r, owner);
    weft__record_last_ns_is(r,
                            weft__now_ns()); /* an operation may come before anybody reads the clock again */
    weft__put(&r->file[WEFT__HEAD_MAGIC], WEFT__RECORD_MAGIC);
}

void weft__record_master(weft__recorder *r, int master)
{
    if (r->file) weft__put(&r->file[WEFT__HEAD_MASTER], (uint64_t)master);
}

void weft__record_room_is(weft__recorder *r, size_t room)
{
    atomic_store_explicit(&r->crowded, false, memory_order_relaxed);
    atomic_store_explicit(&r->room, room, memory_order_release);
    weft__record_life(r, WEFT__LIFE_ROOM, room);
}

/* ---- operations ---- */

static weft__word *place_at(const weft__recorder *r, size_t place)
{
    return r->ops + place * WEFT__OPERATION_LINE_WORDS;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The first from there on that may be taken; where many in a row stand, the one behind them goes. */
static size_t free_place(weft__recorder *r, size_t at, size_t ops, size_t room)
{
    const size_t most = least(room, STEP);
    for (size_t i = 0;; i++, at++) {
        if (at >= room) { /* the next time round */
            at = 0;
            r->stamps += (uint64_t)ops << WEFT__OPERATION_STAMP_BITS;
        }
        if (!r->stand[at]) return at;
        if (i == most) break;
    }
    weft__record_life(r, WEFT__LIFE_LOST, weft__got(&r->life[WEFT__LIFE_LOST]) + 1);
    r->stand[at] = 0;
    return at;
}

void weft__record_clear(weft__recorder *r)
{
    const size_t ops = (r->mask >> WEFT__OPERATION_LINE_BITS) + 1,
                 room = atomic_load_explicit(&r->room, memory_order_acquire),
                 at = free_place(r, weft__record_place(r, r->next), ops, room);
    const bool sleeps = atomic_load_explicit(&r->sleeps, memory_order_relaxed), half = at >= room / 2;
    const size_t far = least((half ? room : room / 2) - at, sleeps ? ASLEEP : room);
    const unsigned char *stands = memchr(r->stand + at, 1, far);
    if (half && room < ops) atomic_store_explicit(&r->crowded, true, memory_order_relaxed);
    if (sleeps) weft__record_last_ns_is(r, weft__now_ns());
    r->next = place_at(r, at);
    r->clear = place_at(r, stands ? (size_t)(stands - r->stand) : at + far);
}

uint64_t weft__record_way_slow(weft__recorder *r, const char *way)
{
    size_t i = 0;
    if (!way || !*way) return WEFT__NO_WAY;
    while (i < r->way_count && r->ways[i] != way) i++;
    if (i == r->way_count) {
        if (i == WEFT__LENGTH(r->ways)) return i;
        put_name(r, WEFT__NAME_WAYS + i, way);
        r->ways[r->way_count++] = way;
    }
    r->way[1] = r->way[0];
    r->way_at[1] = r->way_at[0];
    r->way[0] = way;
    r->way_at[0] = i;
    return i;
}

/* Begins a change of what most have not; returns its words, by their names.  What they had was of the record before,
 * unless they count already.  NULL: the record is not there any more.  *at: the record. */
static weft__word *more_of(weft__recorder *r, uint64_t record, unsigned flags, weft__word **at)
{
    weft__word *more;
    uint64_t what;
    *at = weft__record_change(r, record);
    if (!*at) return NULL;
    more = r->more + weft__record_place(r, *at) * WEFT__OPERATION_MORE_WORDS - WEFT__OPERATION_LINE_WORDS;
    what = weft__got(&(*at)[WEFT__OPERATION_WHAT]);
    if (!(what >> 48 & WEFT__FLAG_HAS_MORE))
        for (int i = WEFT__OPERATION_LINE_WORDS; i < WEFT__OPERATION_WORDS; i++) weft__put(&more[i], 0);
    weft__put(&(*at)[WEFT__OPERATION_WHAT], what | (uint64_t)(flags | WEFT__FLAG_HAS_MORE) << 48);
    return more;
}

void weft__record_started_at(weft__recorder *r, uint64_t record, int64_t started_ns)
{
    weft__word *at, *more = more_of(r, record, 0, &at);
    if (!more) return;
    weft__put(&more[WEFT__OPERATION_STARTED_AT], (uint64_t)started_ns);
    weft__record_changed(at);
}

void weft__record_label(weft__recorder *r, uint64_t record, const char *label)
{
    weft__word *at, *more = more_of(r, record, 0, &at);
    if (!more) return;
    put_text(&more[WEFT__OPERATION_LABEL], WEFT__OPERATION_WORDS - WEFT__OPERATION_LABEL, label, false);
    weft__record_changed(at);
}

void weft__record_state(weft__recorder *r, uint64_t record, weft__recorded_op_state state)
{
    weft__word *at = weft__record_change(r, record);
    if (!at) return;
    weft__put(&at[WEFT__OPERATION_WHAT],
              (weft__got(&at[WEFT__OPERATION_WHAT]) & ~(UINT64_C(0xff) << 16)) | (uint64_t)state << 16);
    weft__record_changed(at);
}

void weft__record_waiting(weft__recorder *r, uint64_t record, int64_t since_ns)
{
    const uint64_t slept = (uint64_t)WEFT__FLAG_SLEPT << 48;
    weft__word *at, *more = more_of(r, record, WEFT__FLAG_SLEPT, &at);
    if (!more) return;
    if (!since_ns) weft__put(&at[WEFT__OPERATION_WHAT], weft__got(&at[WEFT__OPERATION_WHAT]) & ~slept);
    weft__put(&more[WEFT__OPERATION_WAITED], (uint64_t)since_ns);
    weft__record_changed(at);
}

static uint64_t phase_word(weft__recorded_phase phase, int64_t now_ns)
{
    return phase | (uint64_t)now_ns << 8;
}

void weft__record_phase(weft__recorder *r, uint64_t record, weft__recorded_phase phase, int64_t now_ns)
{
    weft__word *at, *more = more_of(r, record, 0, &at);
    if (!more) return;
    weft__put(&more[WEFT__OPERATION_PHASE], phase_word(phase, now_ns));
    weft__record_changed(at);
}

void weft__record_phase_outside(const weft__recorder *r, uint64_t record, weft__recorded_phase phase,
                                int64_t now_ns)
{
    weft__word *at = weft__record_known(r, record), *more;
    if (!at || !(weft__got(&at[WEFT__OPERATION_WHAT]) >> 48 & WEFT__FLAG_HAS_MORE)) return;
    more = r->more + weft__record_place(r, at) * WEFT__OPERATION_MORE_WORDS - WEFT__OPERATION_LINE_WORDS;
    weft__put(&more[WEFT__OPERATION_PHASE], phase_word(phase, now_ns));
}

void weft__record_awaited(weft__recorder *r, uint64_t record, int member)
{
    weft__word *at, *more = more_of(r, record, 0, &at);
    if (!more) return;
    weft__put(&more[WEFT__OPERATION_AWAITED], (uint64_t)member + 1);
    weft__record_changed(at);
}

/* ---- groups ---- */

static void begin_change(weft__word *at)
{
    atomic_store_explicit(&at[WEFT__GROUP_STAMP], weft__got(&at[WEFT__GROUP_STAMP]) + 1,
                          memory_order_relaxed);
}

static void end_change(weft__word *at)
{
    weft__put(&at[WEFT__GROUP_STAMP], weft__got(&at[WEFT__GROUP_STAMP]) + 1);
}

static weft__word *group_at(const weft__recorder *r, size_t i)
{
    return r->groups + i * WEFT__GROUP_WORDS;
}

/* NULL: another group has its place by now, or it never had one. */
static weft__word *known_group(const weft__recorder *r, unsigned place, uint64_t id)
{
    weft__word *at = place ? group_at(r, place - 1) : NULL;
    return at && weft__got(&at[WEFT__GROUP_ID]) == id ? at : NULL;
}

static unsigned oldest_group(const weft__recorder *r)
{
    unsigned best = 0;
    for (unsigned i = 1; i < WEFT__RECORD_GROUPS; i++)
        if (weft__got(&group_at(r, i)[WEFT__GROUP_MADE]) < weft__got(&group_at(r, best)[WEFT__GROUP_MADE]))
            best = i;
    return best + 1;
}

/* An empty place; else that of the group that its caller let go first; else of the oldest. */
static unsigned place_of_group(weft__recorder *r)
{
    if (r->groups_used < WEFT__RECORD_GROUPS) return ++r->groups_used;
    weft__record_life(r, WEFT__LIFE_GROUPS_LOST, weft__got(&r->life[WEFT__LIFE_GROUPS_LOST]) + 1);
    if (!r->groups_over) return oldest_group(r);
    r->groups_over--;
    return r->over[r->over_first++ % WEFT__RECORD_GROUPS];
}

static void put_member(weft__recorder *r, size_t at, int rank)
{
    weft__word *word = &r->members[at / 2];
    int shift = at % 2 ? 32 : 0;
    uint64_t kept = weft__got(word) & ~(UINT64_C(0xffffffff) << shift);
    weft__put(word, kept | (uint64_t)(uint32_t)rank << shift);
}

static void put_members(weft__recorder *r, weft__word *at, const weft__record_group *group)
{
    int stride = group->size > 1 ? group->world[1] - group->world[0] : 1;
    size_t n = (size_t)group->size;
    for (int i = 2; i < group->size && stride; i++)
        if (group->world[i] - group->world[i - 1] != stride) stride = 0;
    weft__put(&at[WEFT__GROUP_MEMBERS], weft__record_whom(group->world[0], stride));
    weft__put(&at[WEFT__GROUP_POOL], UINT64_MAX);
    if (stride || n > 2 * r->member_words - r->members_used) return;
    for (size_t i = 0; i < n; i++) put_member(r, r->members_used + i, group->world[i]);
    weft__put(&at[WEFT__GROUP_POOL], r->members_used);
    r->members_used += n;
}

/* That one is made, or let go, its record tells, and the request that made it. */
static void group_event(weft__recorder *r, const weft__record_group *group, int64_t now_ns)
{
    if (group->becomes == WEFT__RECORDED_GROUP_READY) return;
    weft__record_event_now(r,
                           group->becomes == WEFT__RECORDED_GROUP_BROKEN ? WEFT__HAPPENED_GROUP_BROKEN
                                                                         : WEFT__HAPPENED_GROUP_FAILED,
                           group->culprit, group->id, now_ns);
}

unsigned weft__record_group_is(weft__recorder *r, const weft__record_group *group, int64_t now_ns)
{
    unsigned place = group->place;
    weft__word *at;
    bool found;
    if (!r->groups) return 0;
    group_event(r, group, now_ns);
    if (!group->id) return 0; /* it was never made: the event, and its request, tell of it */
    found = (at = known_group(r, place, group->id)) != NULL;
    if (!found) at = group_at(r, (place = place_of_group(r)) - 1);
    begin_change(at);
    if (!found) {
        weft__put(&at[WEFT__GROUP_ID], group->id);
        weft__put(&at[WEFT__GROUP_SIZE], weft__record_whom(group->size, group->rank));
        weft__put(&at[WEFT__GROUP_MADE], (uint64_t)now_ns);
        put_members(r, at, group);
        put_text(&at[WEFT__GROUP_LABEL], WEFT__GROUP_LABEL_WORDS, group->label, true);
    }
    weft__put(&at[WEFT__GROUP_STATE], group->becomes | (uint64_t)(uint8_t)group->status << 8);
    weft__put(&at[WEFT__GROUP_ENDED], group->becomes == WEFT__RECORDED_GROUP_READY ? 0 : (uint64_t)now_ns);
    weft__put(&at[WEFT__GROUP_CULPRIT], (uint64_t)((int64_t)group->culprit + 1));
    weft__put(&at[WEFT__GROUP_AT], group->at);
    put_text(&at[WEFT__GROUP_WHY], WEFT__GROUP_WHY_WORDS, group->why, true);
    end_change(at);
    return place;
}

void weft__record_group_let_go(weft__recorder *r, unsigned place, uint64_t id, int64_t now_ns)
{
    weft__word *at = r->groups ? known_group(r, place, id) : NULL;
    if (!at) return;
    begin_change(at);
    weft__put(&at[WEFT__GROUP_STATE], weft__got(&at[WEFT__GROUP_STATE]) | UINT64_C(1) << 16);
    if (!weft__got(&at[WEFT__GROUP_ENDED])) weft__put(&at[WEFT__GROUP_ENDED], (uint64_t)now_ns);
    end_change(at);
    r->over[(r->over_first + r->groups_over++) % WEFT__RECORD_GROUPS] = (unsigned char)place;
}

/* ---- events and peers ---- */

/* Several threads may be at it, each in its own place; who sleeps between these lines for as long as all the others
 * together need for a whole ring leaves one that is not its own. */
void weft__record_event_now(weft__recorder *r, weft__record_event what, int rank, uint64_t number,
                            int64_t now_ns)
{
    weft__word *at;
    uint64_t record;
    if (!r->events) return;
    record = atomic_fetch_add_explicit(&r->life[WEFT__LIFE_EVENTS], 1, memory_order_relaxed) + 1;
    at = r->events + (record & r->event_mask) * WEFT__EVENT_WORDS;
    atomic_store_explicit(&at[WEFT__EVENT_STAMP], 0, memory_order_relaxed);
    weft__put(&at[WEFT__EVENT_AT], (uint64_t)now_ns);
    weft__put(&at[WEFT__EVENT_WHAT], what | (uint64_t)(uint32_t)rank << 32);
    weft__put(&at[WEFT__EVENT_NUMBER], number);
    weft__put(&at[WEFT__EVENT_STAMP], record);
}

void weft__record_peer(weft__recorder *r, int rank, weft__recorded_peer_state state, bool local,
                       int64_t now_ns)
{
    weft__word *at;
    if (!r->peers || rank < 0 || (size_t)rank >= r->peer_count) return;
    at = r->peers + (size_t)rank * WEFT__PEER_WORDS;
    weft__put(&at[WEFT__PEER_STATE], state | (uint64_t)local << 8);
    weft__put(&at[WEFT__PEER_SINCE], (uint64_t)now_ns);
}
