/* record.h - writing what this rank does: the flight recorder's side of layout.h.
 *
 * Records of operations and groups are written by whoever holds the engine, so by one thread at a time.  An operation
 * is one line of the cache, of which all words are written as it begins and three as it settles; one that is over in
 * its call, or in its first step, is written once.  Events and the words of life may come from any thread.
 * Nothing here allocates, calls the kernel, fails or waits; without memory for it all of it does nothing. */
#ifndef WEFT_RECORD_RECORD_H
#define WEFT_RECORD_RECORD_H
#include "check.h"
#include "clock.h"
#include "layout.h"
#include "prefetch.h"

#include <stdbool.h>
#include <stddef.h>

#define WEFT__RECORD_GROUPS 128u

typedef struct weft__recorder {
    weft__word *ops;         /* NULL: nothing is recorded */
    weft__word *next;        /* the place of the next, */
    weft__word *clear;       /* and that far nothing stands in its way */
    uint64_t stamps;         /* what is added to a place's address, shifted, for its stamp this time round */
    uint64_t mask;           /* of the bytes of that table */
    _Atomic size_t room;     /* of its places, those that have memory: progress thread */
    _Atomic bool crowded;    /* half of these are taken: engine */
    _Atomic int64_t last_ns; /* when the clock was read last: progress thread too */
    /* What is over in its call does not read the clock: it gets the last time that was read.  The progress
     * thread does so whenever it rests or is back, which is every 4 ms while anything moves; while it sleeps, each
     * 8th operation does, as it searches for room for those behind it. */
    _Atomic bool sleeps;  /* progress thread too */
    bool near;            /* engine: whoever holds it reads the clock every few moments: last_ns will do */
    const void *way[2];   /* the two asked for last: messages there and back go by one each; */
    uint64_t way_at[2];   /* and their numbers */
    weft__word *more;     /* of the operations */
    unsigned char *stand; /* by place: 1 if what is there has not settled */
    weft__word *life, *events, *groups, *members, *peers, *names;
    size_t event_mask, member_words, peer_count;
    size_t members_used;                           /* in halves of words */
    unsigned groups_used, groups_over, over_first; /* places; those let go, in order, and the first of them */
    unsigned char over[WEFT__RECORD_GROUPS];
    const void *ways[WEFT__NAMES - WEFT__NAME_WAYS]; /* whose names stand there */
    size_t way_count;
    bool failed;      /* something has: engine */
    weft__word *file; /* the whole of it */
    size_t bytes;
} weft__recorder;

/* Who it is, once for all. */
typedef struct weft__record_owner {
    int rank, world, master;
    int64_t timeout_ms;
    const char *texts[WEFT__RECORD_TEXTS]; /* cut to 63 bytes */
    const char *const *kinds, *const *types;
    int kind_count, type_count;
} weft__record_owner;

/* Bytes of a file with room for that many operations (a power of two) in a world of so many. */
size_t weft__record_bytes(size_t ops, int world);
/* Where the first `room` of its operations lie in it, and what most of them have not.  All that is not an operation lies
 * before them. */
typedef struct weft__record_part {
    size_t from, to;
} weft__record_part;
void weft__record_parts(size_t ops, int world, size_t room, weft__record_part *lines,
                        weft__record_part *more);
/* Lays the file out in that memory, which is zero and stays until the recorder is closed. */
void weft__record_open(weft__recorder *r, void *memory, size_t ops, const weft__record_owner *owner);
void weft__record_master(weft__recorder *r, int master);
/* So many places of operations have memory: all, unless that is said. */
void weft__record_room_is(weft__recorder *r, size_t room);

/* ---- the words of life ---- */

static inline void weft__record_life(weft__recorder *r, weft__life which, uint64_t value)
{
    if (r->life) atomic_store_explicit(&r->life[which], value, memory_order_relaxed);
}

/* ---- operations; engine held ---- */

static inline void weft__put(weft__word *at, uint64_t value)
{
    atomic_store_explicit(at, value, memory_order_release); /* behind the stamp; a plain store on x86 */
}

static inline uint64_t weft__got(const weft__word *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* The progress thread goes to sleep, and no operation is to have the time of before.  Engine held. */
static inline void weft__record_sleeps(weft__recorder *r)
{
    atomic_store_explicit(&r->sleeps, true, memory_order_relaxed);
    r->clear = r->next;
}

/* The progress thread has read the clock. */
static inline void weft__record_rests(weft__recorder *r, bool sleeps, int64_t now_ns)
{
    atomic_store_explicit(&r->last_ns, now_ns, memory_order_relaxed);
    if (!sleeps) atomic_store_explicit(&r->sleeps, false, memory_order_relaxed);
}

static inline int64_t weft__record_last_ns(const weft__recorder *r)
{
    return atomic_load_explicit(&r->last_ns, memory_order_relaxed);
}

static inline void weft__record_last_ns_is(weft__recorder *r, int64_t now_ns)
{
    atomic_store_explicit(&r->last_ns, now_ns, memory_order_relaxed);
}

/* Finds room for the next records, and passes over those that stand: next is a place that may be taken. */
void weft__record_clear(weft__recorder *r);

/* stamp: its number << STAMP_BITS, and anything below. */
static inline weft__word *weft__record_at(const weft__recorder *r, uint64_t stamp)
{
    const int shift = WEFT__OPERATION_STAMP_BITS - WEFT__OPERATION_LINE_BITS;
    return (weft__word *)(void *)((char *)r->ops + (stamp >> shift & r->mask));
}

static inline size_t weft__record_place(const weft__recorder *r, const weft__word *at)
{
    return ((size_t)(uintptr_t)at - (size_t)(uintptr_t)r->ops) >> WEFT__OPERATION_LINE_BITS;
}

/* Before each new record.  False: nothing is recorded. */
static inline bool weft__record_has_room(weft__recorder *r)
{
    if (WEFT__LIKELY(r->next != r->clear)) return true;
    if (!r->ops) return false;
    weft__record_clear(r);
    return true;
}

/* Its number goes up by one from place to place, so the place tells it without a count being kept. */
static inline uint64_t weft__record_stamp(const weft__recorder *r, const weft__word *at)
{
    return r->stamps + ((uint64_t)(uintptr_t)at << (WEFT__OPERATION_STAMP_BITS - WEFT__OPERATION_LINE_BITS));
}

static inline uint64_t weft__record_what(unsigned kind, unsigned type, weft__recorded_op_state state,
                                         unsigned memory, unsigned flags)
{
    return ((uint64_t)kind << 8 | (uint64_t)state << 16 | (uint64_t)WEFT__NO_WAY << 32 |
            (uint64_t)memory << 40 | (uint64_t)flags << 48) |
           type;
}

static inline uint64_t weft__record_whom(int rank, int tag)
{
    return (uint32_t)rank | (uint64_t)(uint32_t)tag << 32;
}

/* A new record, but for its stamp.  Each word is behind the one that says that it is not whole. */
static WEFT__MADE_FOR_EACH weft__word *weft__record_begin(weft__recorder *r, uint64_t group, uint64_t number,
                                                          uint64_t what, uint64_t bytes, uint64_t whom,
                                                          int64_t submitted_ns)
{
    weft__word *at = r->next;
    atomic_store_explicit(&at[WEFT__OPERATION_STAMP], 1, memory_order_relaxed);
    weft__put(&at[WEFT__OPERATION_GROUP], group);
    weft__put(&at[WEFT__OPERATION_NUMBER], number);
    weft__put(&at[WEFT__OPERATION_WHAT], what);
    weft__put(&at[WEFT__OPERATION_BYTES], bytes);
    weft__put(&at[WEFT__OPERATION_WHOM], whom);
    weft__put(&at[WEFT__OPERATION_SUBMITTED], (uint64_t)submitted_ns);
    r->next = at + WEFT__OPERATION_LINE_WORDS;
    return at;
}

/* One that is over in its call.  Both: there is room. */
static WEFT__MADE_FOR_EACH void weft__record_passed(weft__recorder *r, uint64_t group, uint64_t number,
                                                    uint64_t what, uint64_t bytes, uint64_t whom,
                                                    int64_t now_ns)
{
    weft__word *at = weft__record_begin(r, group, number, what, bytes, whom, now_ns);
    weft__put(&at[WEFT__OPERATION_STAMP], weft__record_stamp(r, at));
    weft__prefetch_write(at + WEFT__OPERATION_LINE_WORDS);
}

uint64_t weft__record_way_slow(weft__recorder *r, const char *way);
/* The number of a way by its name, whose text stays as long as the process. */
static inline uint64_t weft__record_way(weft__recorder *r, const char *way)
{
    if (WEFT__LIKELY(way == r->way[0])) return r->way_at[0];
    return WEFT__LIKELY(way == r->way[1]) ? r->way_at[1] : weft__record_way_slow(r, way);
}

/* `what` with its end. */
static inline uint64_t weft__record_ended(weft__recorder *r, uint64_t what, int status, const char *way)
{
    const uint64_t changes = UINT64_C(0xffffff) << 16; /* state, status, way */
    return (what & ~changes) | (uint64_t)WEFT__RECORDED_OP_SETTLED << 16 | (uint64_t)(uint8_t)status << 24 |
           weft__record_way(r, way) << 32;
}

/* One that has settled before it was written.  There is room. */
static inline void weft__record_whole(weft__recorder *r, uint64_t group, uint64_t number, uint64_t what,
                                      int status, const char *way, uint64_t bytes, uint64_t whom,
                                      int64_t now_ns)
{
    weft__word *at =
        weft__record_begin(r, group, number, weft__record_ended(r, what, status, way), bytes, whom, now_ns);
    weft__put(&at[WEFT__OPERATION_OVER], (uint64_t)now_ns);
    weft__put(&at[WEFT__OPERATION_STAMP], weft__record_stamp(r, at));
    weft__prefetch_write(at + WEFT__OPERATION_LINE_WORDS);
}

/* What goes on.  Returns what its record is known by. */
static inline uint64_t weft__record_start(weft__recorder *r, uint64_t group, uint64_t number, uint64_t what,
                                          uint64_t bytes, uint64_t whom, int64_t submitted_ns)
{
    weft__word *at = weft__record_begin(r, group, number, what, bytes, whom, submitted_ns);
    uint64_t stamp = weft__record_stamp(r, at);
    weft__put(&at[WEFT__OPERATION_STAMP], stamp);
    weft__prefetch_write(at + WEFT__OPERATION_LINE_WORDS);
    r->stand[weft__record_place(r, at)] = 1;
    return stamp;
}

/* That record, of which one word may be stored; NULL: there is none (any more). */
static inline weft__word *weft__record_known(const weft__recorder *r, uint64_t record)
{
    weft__word *at;
    if (!record || WEFT__UNLIKELY(!r->ops)) return NULL;
    at = weft__record_at(r, record);
    return WEFT__LIKELY(!((weft__got(&at[WEFT__OPERATION_STAMP]) ^ record) >> WEFT__OPERATION_STAMP_BITS))
               ? at
               : NULL;
}

/* To be changed in several words, between these two. */
static inline weft__word *weft__record_change(const weft__recorder *r, uint64_t record)
{
    weft__word *at = weft__record_known(r, record);
    if (at)
        atomic_store_explicit(&at[WEFT__OPERATION_STAMP], weft__got(&at[WEFT__OPERATION_STAMP]) + 1,
                              memory_order_relaxed);
    return at;
}

static inline void weft__record_changed(weft__word *at)
{
    uint64_t stamp = weft__got(&at[WEFT__OPERATION_STAMP]),
             low = (UINT64_C(1) << WEFT__OPERATION_STAMP_BITS) - 1;
    weft__put(&at[WEFT__OPERATION_STAMP], (stamp & ~low) | ((stamp + 1) & low));
}

/* It counts as begun then. */
static inline void weft__record_times(weft__recorder *r, uint64_t record, int64_t submitted_ns)
{
    weft__word *at = weft__record_known(r, record);
    if (at) weft__put(&at[WEFT__OPERATION_SUBMITTED], (uint64_t)submitted_ns);
}

static inline void weft__record_settled(weft__recorder *r, uint64_t record, int status, const char *way,
                                        int64_t submitted_ns, int64_t now_ns)
{
    weft__word *at = weft__record_known(r, record);
    if (!at) return;
    r->stand[weft__record_place(r, at)] = 0;
    weft__put(&at[WEFT__OPERATION_SUBMITTED], (uint64_t)submitted_ns);
    weft__put(&at[WEFT__OPERATION_OVER], (uint64_t)now_ns);
    weft__put(&at[WEFT__OPERATION_WHAT],
              weft__record_ended(r, weft__got(&at[WEFT__OPERATION_WHAT]), status, way));
}

/* What most have not, in the second line. */
void weft__record_started_at(weft__recorder *r, uint64_t record, int64_t started_ns);
void weft__record_label(weft__recorder *r, uint64_t record, const char *label);
void weft__record_state(weft__recorder *r, uint64_t record, weft__recorded_op_state state);
void weft__record_waiting(weft__recorder *r, uint64_t record, int64_t since_ns); /* 0: no more */
void weft__record_phase(weft__recorder *r, uint64_t record, weft__recorded_phase phase, int64_t now_ns);
/* The record has a phase already; any thread. */
void weft__record_phase_outside(const weft__recorder *r, uint64_t record, weft__recorded_phase phase,
                                int64_t now_ns);
void weft__record_awaited(weft__recorder *r, uint64_t record, int member); /* who has not come yet */

/* ---- groups; engine held ---- */

typedef struct weft__record_group {
    uint64_t id;
    unsigned place; /* where it is recorded; 0: nowhere */
    int size, rank;
    const int *world;
    weft__recorded_group_state becomes;
    int status, culprit; /* world rank; -1: none */
    uint64_t at;
    const char *label, *why;
} weft__record_group;

/* The group as it is from now on; returns its place. */
unsigned weft__record_group_is(weft__recorder *r, const weft__record_group *group, int64_t now_ns);
void weft__record_group_let_go(weft__recorder *r, unsigned place, uint64_t id, int64_t now_ns);

/* ---- events and peers ---- */

void weft__record_event_now(weft__recorder *r, weft__record_event what, int rank, uint64_t number,
                            int64_t now_ns);
static inline void weft__record_happened(weft__recorder *r, weft__record_event what, int rank,
                                         uint64_t number)
{
    if (r->events) weft__record_event_now(r, what, rank, number, weft__now_ns());
}
void weft__record_peer(weft__recorder *r, int rank, weft__recorded_peer_state state, bool local,
                       int64_t now_ns);
#endif
