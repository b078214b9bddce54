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

void emu__clock_join(emu__clock *into, const emu__clock *from)
{
    for (int i = 0; i < emu__slots_used; i++)
        if (into->at[i] < from->at[i]) into->at[i] = from->at[i];
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

static void tell(const emu__stream *stream, const char *name, const emu__block *block,
                 const emu__record *before, const emu__record *now)
{
    size_t from = before->from > now->from ? before->from : now->from;
    size_t to = before->to < now->to ? before->to : now->to;

    emu_misuse(
        "%s on %s %s bytes %zu to %zu of the %s buffer 0x%llx (%zu bytes), but nothing orders it after "
        "%s on %s, which %s them",
        name, emu__stream_name(stream), now->writes ? "writes" : "reads", from, to - 1, kind_of(block),
        (unsigned long long)block->at, block->bytes, before->name,
        emu__stream_name(&emu__streams[before->slot]), before->writes ? "writes" : "reads");
}

/* Drops what nothing can conflict with any more, once this access is remembered too. */
static void prune(emu__records *records, const emu__record *now, const emu__clock *clock)
{
    int kept = 0;

    for (int i = 0; i < records->count; i++) {
        const emu__record *old = &records->at[i];
        bool covered = old->from >= now->from && old->to <= now->to && is_before(old, clock);
        /* Who comes after a read may still race with the write before it. */
        bool hidden = covered && (now->writes || !old->writes);
        if (!hidden && !is_before(old, &emu__host_clock)) records->at[kept++] = *old;
    }
    records->count = kept;
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
        if (!records->room) return;
        memmove(records->at, records->at + 1, (size_t)(records->count - 1) * sizeof *records->at);
        records->count--;
    }
    records->at[records->count++] = *now;
}

void emu__order_access(emu__stream *stream, const char *name, emu__block *block, size_t from, size_t to,
                       bool writes)
{
    int slot = emu__slot_of(stream);
    emu__record now = {from, to, stream->clock.at[slot], slot, writes, name};

    for (int i = 0; i < block->records.count; i++) {
        const emu__record *old = &block->records.at[i];
        if (!overlaps(old, from, to) || (!writes && !old->writes)) continue;
        if (is_before(old, &stream->clock)) continue;
        tell(stream, name, block, old, &now);
        break;
    }
    prune(&block->records, &now, &stream->clock);
    remember(&block->records, &now);
}
