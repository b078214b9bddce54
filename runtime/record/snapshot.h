/* snapshot.h - what a flight recorder's file said at one moment, read beside its writer or after its end.
 *
 * The writer may be dead in the middle of a record, or hostile: nothing of the file is used before it was checked,
 * and what cannot be is refused with one sentence, or left out and counted.  The writer is never stopped, nor does it
 * know of readers. */
#ifndef WEFT_RECORD_SNAPSHOT_H
#define WEFT_RECORD_SNAPSHOT_H
#include "layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

typedef struct weft__recorded_op {
    uint64_t record; /* number of the record: the order in which operations began; 0: torn, and not known */
    bool torn;       /* its writer was in the middle of it, and what follows may not fit together */
    uint64_t group, number, bytes;
    int kind, type, way, memory; /* names: weft__recorded_name */
    weft__recorded_op_state state;
    weft_status status; /* once its outcome is fixed */
    unsigned flags;     /* WEFT__FLAG_BLOCKS and those behind it */
    int whom, tag;      /* peer or root: rank of the group; -1: any, or none */
    int64_t submitted_ns, started_ns, over_ns;
    int64_t waiting_ns; /* since when a caller sleeps for it, or did until it settled; 0: none did */
    weft__recorded_phase phase;
    int64_t phase_ns; /* since when */
    int awaited; /* rank of the group that had not come when a caller went to sleep for it; -1: not known */
    char label[33];
} weft__recorded_op;

typedef struct weft__recorded_event {
    uint64_t record;
    weft__record_event what;
    int64_t at_ns;
    int rank;
    uint64_t number;
} weft__recorded_event;

/* That a rank has died, or is presumed to have. */
static inline bool weft__is_death(const weft__recorded_event *event)
{
    return event->what == WEFT__HAPPENED_RANK_DIED || event->what == WEFT__HAPPENED_RANK_PRESUMED_DEAD;
}

typedef struct weft__group_record {
    bool torn;
    uint64_t id;
    int size, rank;
    weft__recorded_group_state state;
    weft_status status; /* BROKEN, FAILED */
    bool let_go;
    int first, stride; /* stride 0: they stand in the pool */
    size_t pool;       /* first of them there; SIZE_MAX: they were not kept */
    int64_t made_ns, ended_ns;
    int culprit; /* world rank; -1: none */
    uint64_t at; /* collective that broke it; 0: none in particular */
    char label[65], why[97];
} weft__group_record;

typedef struct weft__peer_record {
    weft__recorded_peer_state state;
    bool local; /* over shared memory */
    int64_t since_ns;
} weft__peer_record;

typedef struct weft__snapshot {
    int rank, world, master;
    int64_t pid, born;
    int64_t monotonic_ns, realtime_ns; /* one moment */
    int64_t timeout_ms;
    char texts[WEFT__RECORD_TEXTS][65];
    char names[WEFT__NAMES][25];
    uint64_t life[WEFT__LIFE_WORDS]; /* by weft__life */

    weft__recorded_op *ops; /* the oldest first */
    size_t op_count, op_room;
    bool lapped;                  /* older ones have been written over */
    weft__recorded_event *events; /* the oldest first */
    size_t event_count;
    weft__group_record *groups;
    size_t group_count;
    int *pool;
    size_t pool_count;
    weft__peer_record *peers; /* of the first ranks of the job */
    size_t peer_count;
    size_t damaged; /* records that say what no writer writes, and are left out */
} weft__snapshot;

/* Reads a file; a writer that cuts it short meanwhile makes it fail.  ERR_SYSTEM: it cannot be read; ERR_ARGUMENT: it is
 * no record, or one of another release or kind of machine, or damaged; ERR_MEMORY. */
weft_status weft__snapshot_of_file(int fd, const char *name, weft__snapshot *snapshot);
/* Reads a file in that folder: this user's, and no link. */
weft_status weft__snapshot_open(int folder, const char *name, weft__snapshot *snapshot);
/* Reads memory that stays as long as it is; aligned to 8 bytes. */
weft_status weft__snapshot_of_memory(const void *memory, size_t bytes, const char *name,
                                     weft__snapshot *snapshot);
void weft__snapshot_close(weft__snapshot *snapshot); /* of one that was read, or is zeroed */

/* Whether that is the name of a record's file, and whose. */
bool weft__record_name_read(const char *name, char run[17], int *rank);

/* "all_reduce", "float32", "ring"; "?": the file does not know it.  Valid as long as the snapshot. */
const char *weft__recorded_kind(const weft__snapshot *snapshot, int kind);
const char *weft__recorded_type(const weft__snapshot *snapshot, int type);
const char *weft__recorded_way(const weft__snapshot *snapshot, int way); /* "": not known yet */
const char *weft__recorded_event_name(weft__record_event what);
const char *weft__recorded_phase_name(weft__recorded_phase phase); /* "": none */
/* NULL: it is in none that is known. */
const weft__group_record *weft__recorded_group_of(const weft__snapshot *snapshot, uint64_t id);
/* World rank of a member; -1: not kept, or out of range. */
int weft__recorded_member(const weft__snapshot *snapshot, const weft__group_record *group, int at);
/* Does the process still live, as this one can tell?  Also while it is stopped or a zombie's parent has not come. */
bool weft__recorded_lives(const weft__snapshot *snapshot);
/* On CLOCK_REALTIME, of a time on its CLOCK_MONOTONIC. */
int64_t weft__recorded_realtime(const weft__snapshot *snapshot, int64_t at_ns);
#endif
