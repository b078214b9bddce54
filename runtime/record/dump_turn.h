/* dump_turn.h - which of the ranks of a host reads their records for the first dump of a run, and how far it has come.
 *
 * It is told in the file `record.RUN.dumps` beside the records, of one host of several `record.RUN.PLACE.dumps`
 * (layout.h, dump.h), so in memory: whoever asks is never kept by
 * the folder of the dumps.  Who is about to read notes so under the lock, and reads without it: the others see that, and
 * leave it alone, as long as that process lives and is not stopped. */
#ifndef WEFT_RECORD_DUMP_TURN_H
#define WEFT_RECORD_DUMP_TURN_H

#include "clock.h"

#include <stdbool.h>
#include <stdint.h>

#define WEFT__DUMP_FRESH_NS (1000 * WEFT__MS)

typedef enum weft__dump_stage {
    WEFT__DUMP_UNREAD,    /* or who was to write it has died, or is stopped */
    WEFT__DUMP_READING,   /* a process that lives reads */
    WEFT__DUMP_UNWRITTEN, /* a process that lives has read, and writes */
    WEFT__DUMP_WRITTEN,
    WEFT__DUMP_NOT_WRITTEN /* it could not be */
} weft__dump_stage;

/* Waits a moment for the lock; who is stopped with it is not waited for longer, and then several may read.
 * Returns a descriptor; -1: there can be no such file, and each rank is alone (all below take that). */
int weft__dump_turn_take(const char *records, const char *run, int place);
weft__dump_stage weft__dump_turn_stage(int turn);
/* This process has come so far with the run's first dump; nothing, but for READING, where another one has taken its turn. */
void weft__dump_turn_note(int turn, weft__dump_stage stage);
/* For dumps that are not the first, while the lock is held: the records are read now for that request; and whether they
 * have been for it, or in the last WEFT__DUMP_FRESH_NS, by any process or by another than this one. */
void weft__dump_turn_stamp(int turn, uint64_t request);
bool weft__dump_turn_is_fresh(int turn, uint64_t request, bool by_another);
/* Others may read. */
void weft__dump_turn_pass(int turn);
void weft__dump_turn_close(int turn);
/* No dump of this run will be made any more that another rank has to know of. */
void weft__dump_turn_remove(const char *records, const char *run, int place);
#endif
