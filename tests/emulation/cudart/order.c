/* order.c - clocks, and the accesses of each buffer that later ones must come after.
 *
 * An access is forgotten when nothing queued from now on can conflict with it: a later one covers it and is
 * ordered after it, or the host has seen it finished.  Where more than EMU__RECORDS are left (many streams
 * reading small pieces) the oldest goes, and a race with it is not found. */
#include "order.h"
#include "memory.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int emu__slots_used;
emu__clock emu__host_clock;

struct emu__wait {
    int slot;
    uint64_t sequence; /* 0: not yet queued */
    bool over;
    emu__clock clock; /* over: what it waited for, and all before that */
    emu__wait *next;
};

/* Two accesses that are at odds, of which at least one comes after a wait that was not over. */
typedef struct emu__odds {
    emu__record first, second; /* as they were queued; both have their own `behind` */
    char *sentence;
    struct emu__odds *next;
} emu__odds;

static emu__wait *waits;
static emu__odds *kept;

static bool join_more(emu__clock *into, const emu__clock *from)
{
    bool more = false;

    for (int i = 0; i < emu__slots_used; i++) {
        if (into->at[i] >= from->at[i]) continue;
        into->at[i] = from->at[i];
        more = true;
    }
    return more;
}

void emu__clock_join(emu__clock *into, const emu__clock *from)
{
    join_more(into, from);
}

static bool comes_after(const emu__clock *clock, const emu__wait *wait)
{
    return wait->sequence && clock->at[wait->slot] >= wait->sequence;
}

/* Takes in what the waits have waited for that it comes after.  True: one of them is not over. */
static bool close_clock(emu__clock *clock)
{
    bool more, open;

    do {
        more = open = false;
        for (const emu__wait *wait = waits; wait; wait = wait->next) {
            if (!comes_after(clock, wait)) continue;
            if (wait->over)
                more = join_more(clock, &wait->clock) || more;
            else
                open = true;
        }
    } while (more);
    return open;
}

static bool is_before(const emu__record *record, const emu__clock *clock)
{
    return record->time <= clock->at[record->slot];
}

static bool overlaps(const emu__record *record, size_t from, size_t to)
{
    return record->from < to && from < record->to;
}

static const char *kind_of(const emu__block *block)
{
    switch (block->kind) {
    case EMU__DEVICE: return "device";
    case EMU__MANAGED: return "managed";
    case EMU__PINNED: return "pinned host";
    case EMU__REGISTERED: return "registered host";
    }
    return "";
}

static void say(const emu__stream *stream, const char *name, const emu__block *block,
                const emu__record *before, const emu__record *now, char *text, size_t length)
{
    size_t from = before->from > now->from ? before->from : now->from;
    size_t to = before->to < now->to ? before->to : now->to;

    snprintf(text, length,
             "%s on %s %s bytes %zu to %zu of the %s buffer 0x%llx (%zu bytes), but nothing orders it after "
             "%s on %s, which %s them",
             name, emu__stream_name(stream), now->writes ? "writes" : "reads", from, to - 1, kind_of(block),
             (unsigned long long)block->at, block->bytes, before->name,
             emu__stream_name(&emu__streams[before->slot]), before->writes ? "writes" : "reads");
}

/* ---- waits for words ---- */

emu__wait *emu__order_wait(int slot)
{
    emu__wait *wait = calloc(1, sizeof *wait);

    if (!wait) return NULL;
    wait->slot = slot;
    wait->next = waits;
    waits = wait;
    return wait;
}

void emu__order_wait_is_at(emu__wait *wait, uint64_t sequence)
{
    wait->sequence = sequence;
}

/* All new work comes after these. */
static void drop_waits_seen(void)
{
    for (emu__wait **at = &waits; *at;) {
        emu__wait *wait = *at;
        if (wait->over && (!wait->sequence || comes_after(&emu__host_clock, wait))) {
            *at = wait->next;
            free(wait);
        } else {
            at = &wait->next;
        }
    }
}

void emu__order_seen(const emu__clock *clock)
{
    emu__clock_join(&emu__host_clock, clock);
    if (!waits) return;
    close_clock(&emu__host_clock);
    drop_waits_seen();
}

static emu__clock *copy_clock(const emu__clock *clock)
{
    emu__clock *copy = clock ? malloc(sizeof *copy) : NULL;

    if (copy) *copy = *clock;
    return copy;
}

/* Is one of them certain to come first?  *open: that is not known yet. */
static bool in_order(const emu__record *first, const emu__record *second, bool *open)
{
    const emu__record *pair[] = {first, second};

    *open = false;
    for (int i = 0; i < 2; i++) {
        emu__clock *behind = pair[i]->behind;
        if (!behind) continue;
        *open = close_clock(behind) || *open;
        if (is_before(pair[1 - i], behind)) return true;
    }
    return false;
}

static void drop_odds(emu__odds *odds)
{
    free(odds->first.behind);
    free(odds->second.behind);
    free(odds->sentence);
    free(odds);
}

static void judge_kept(void)
{
    for (emu__odds **at = &kept; *at;) {
        emu__odds *odds = *at;
        bool open, fine = in_order(&odds->first, &odds->second, &open);
        if (!fine && open) {
            at = &odds->next;
            continue;
        }
        *at = odds->next;
        if (!fine) emu_misuse("%s", odds->sentence);
        drop_odds(odds);
    }
}

void emu__order_waited(emu__wait *wait, const emu__clock *clock)
{
    wait->over = true;
    wait->clock = *clock;
    judge_kept();
    drop_waits_seen();
}

static void keep_odds(const emu__record *first, const emu__record *second, const char *sentence)
{
    emu__odds *odds = malloc(sizeof *odds);

    if (!odds) return;
    *odds = (emu__odds){.first = *first, .second = *second, .sentence = strdup(sentence), .next = kept};
    odds->first.behind = copy_clock(first->behind);
    odds->second.behind = copy_clock(second->behind);
    kept = odds;
}

/* ---- accesses ---- */

/* Drops what nothing can conflict with any more, once this access is remembered too. */
static void prune(emu__records *records, const emu__record *now, const emu__clock *clock)
{
    int left = 0;

    for (int i = 0; i < records->count; i++) {
        const emu__record *old = &records->at[i];
        bool covered = old->from >= now->from && old->to <= now->to && is_before(old, clock);
        /* Who comes after a read may still race with the write before it. */
        bool hidden = covered && (now->writes || !old->writes);
        if (!hidden && !is_before(old, &emu__host_clock))
            records->at[left++] = *old;
        else
            free(old->behind);
    }
    records->count = left;
}

static void tell_forgotten(void)
{
    static bool told;

    if (!told)
        fprintf(stderr,
                "emulation: more than %d accesses of one buffer that may still race: the oldest are "
                "forgotten\n",
                EMU__RECORDS);
    told = true;
}

static void remember(emu__records *records, const emu__record *now)
{
    if (records->count == records->room && records->room < EMU__RECORDS) {
        int room = records->room ? 2 * records->room : 4;
        emu__record *grown = realloc(records->at, (size_t)room * sizeof *grown);
        if (grown) {
            records->at = grown;
            records->room = room;
        }
    }
    if (records->count == records->room) {
        tell_forgotten();
        if (!records->room) {
            free(now->behind);
            return;
        }
        free(records->at[0].behind);
        memmove(records->at, records->at + 1, (size_t)(records->count - 1) * sizeof *records->at);
        records->count--;
    }
    records->at[records->count++] = *now;
}

/* True: it is told, and so no other one need be. */
static bool weigh(const emu__stream *stream, const char *name, const emu__block *block,
                  const emu__record *old, const emu__record *now)
{
    char text[640];
    bool open;

    if (is_before(old, &stream->clock) || in_order(old, now, &open)) return false;
    say(stream, name, block, old, now, text, sizeof text);
    if (open)
        keep_odds(old, now, text);
    else
        emu_misuse("%s", text);
    return !open;
}

void emu__order_access(emu__stream *stream, const char *name, emu__block *block, size_t from, size_t to,
                       bool writes)
{
    int slot = emu__slot_of(stream);
    bool open = waits && close_clock(&stream->clock);
    emu__record now = {from, to, stream->clock.at[slot], slot, writes, name, NULL};

    if (open) now.behind = copy_clock(&stream->clock);
    for (int i = 0; i < block->records.count; i++) {
        const emu__record *old = &block->records.at[i];
        if (!overlaps(old, from, to) || (!writes && !old->writes)) continue;
        if (weigh(stream, name, block, old, &now)) break;
    }
    prune(&block->records, &now, &stream->clock);
    remember(&block->records, &now);
}

void emu__order_forget(emu__records *records)
{
    for (int i = 0; i < records->count; i++) free(records->at[i].behind);
    free(records->at);
    *records = (emu__records){0};
}
