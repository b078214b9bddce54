/* dump_turn.h - which of the ranks of a host reads their records for the first dump of a run, and how far it has come.
 *
 * It is told in the file `record.RUN.dumps` beside the records, of one host of several `record.RUN.PLACE.dumps`
 * (layout.h, dump.h), so in memory: whoever asks is never kept by the folder of the dumps.  Nothing there is locked, for
 * who is stopped with a lock would hold up all: the turn is one word, which ranks take by compare and swap, from nobody
 * or from a process that has died or is stopped. */
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

typedef struct weft__dump_turn weft__dump_turn;

/* NULL: there can be no such file, and each rank is alone (all below take that). */
weft__dump_turn *weft__dump_turn_open(const char *records, const char *run, int place);
void weft__dump_turn_close(weft__dump_turn *turn);

/* True: this process is to read them, and has noted that it does.  False: another one does or has done, or this one. */
bool weft__dump_turn_take(weft__dump_turn *turn);
weft__dump_stage weft__dump_turn_stage(const weft__dump_turn *turn);
/* This process, whose turn it is, has come so far; nothing where another one has taken its turn. */
void weft__dump_turn_note(weft__dump_turn *turn, weft__dump_stage stage);

/* For dumps that are not the first, before the records are read for that request.  False: they have been in the last
 * WEFT__DUMP_FRESH_NS, by any process or by another than this one, or were for it. */
bool weft__dump_turn_take_again(weft__dump_turn *turn, uint64_t request, bool by_another);
/* As if that were true: whoever asks now wants to have what is there now. */
void weft__dump_turn_take_anew(weft__dump_turn *turn, uint64_t request);

/* No dump of this run will be made any more that another rank has to know of. */
void weft__dump_turn_remove(const char *records, const char *run, int place);
#endif
