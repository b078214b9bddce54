/* order.h - which work is ordered after which, and which accesses to memory are not: a detector of races on
 * the level of streams and events, decided when work is queued, so that it finds a missing wait every time.
 *
 * A point is a place in one stream: its slot, and the number of the piece of work there.  A clock says how
 * far in each slot everything before some place is.  Each stream has a clock; a recorded event keeps a copy;
 * a stream that waits for the event takes the greater of both.  The clock of the host is what the process
 * has seen to be finished: new work on any stream comes after that too.  What the threads of a process tell
 * each other is not followed: they share the clock of the host.
 *
 * What a stream that waits for a word comes after is not known before that is written, which may be queued later.  So two
 * accesses that are at odds are kept, where one of them comes after such a wait, and judged when it is over. */
#ifndef EMULATION_ORDER_H
#define EMULATION_ORDER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMU__SLOTS = 512,   /* streams at one time, of all devices */
    EMU__RECORDS = 128, /* accesses remembered for one buffer */
};

typedef struct emu__clock {
    uint64_t at[EMU__SLOTS];
} emu__clock;

extern int emu__slots_used;        /* no clock is anything but 0 from here on; under the lock, as all here */
extern emu__clock emu__host_clock; /* what the process has seen finished */

void emu__clock_join(emu__clock *into, const emu__clock *from);
void emu__order_seen(const emu__clock *clock); /* by the host: all of it is finished */

/* A wait for a word: on the stream in this slot, and there at this place.  NULL: no memory. */
typedef struct emu__wait emu__wait;
emu__wait *emu__order_wait(int slot);
void emu__order_wait_is_at(emu__wait *wait, uint64_t sequence);
/* It is over, and what follows it comes after all that this clock has; the wait is the detector's from now on. */
void emu__order_waited(emu__wait *wait, const emu__clock *clock);

/* One access that later ones must be ordered after. */
typedef struct emu__record {
    size_t from, to; /* offsets in the buffer */
    uint64_t time;
    int slot;
    bool writes;
    const char *name;   /* static */
    emu__clock *behind; /* its stream's, where a wait was not over by then; else NULL */
} emu__record;

typedef struct emu__records {
    emu__record *at;
    int count, room;
} emu__records;

struct emu__block;
struct CUstream_st;

/* Work called name on the stream, which is the last there, reads or writes bytes [from, to) of the block:
 * tells of a misuse where it is not ordered after what conflicts with it; remembers it. */
void emu__order_access(struct CUstream_st *stream, const char *name, struct emu__block *block, size_t from,
                       size_t to, bool writes);
void emu__order_forget(emu__records *records); /* all of them: the buffer goes */
#endif
