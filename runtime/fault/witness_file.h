/* witness_file.h - the witness of a job (acceptor.h), kept in files that all its hosts reach: WEFT_WITNESS=file:PATH.
 *
 * Each state that it has had is a file of its own, a generation, and whoever brings it from one to the next makes the next
 * one's name by link(2), which fails where there is one.  So of two who have read the same state one is first, wherever
 * they are and however long they have stood still in between, and no lock is needed (views.md has why that is enough).
 * Generation 0 is made once in a run of the job, by rank 0 as it joins: where it has gone, or is damaged, nothing is answered, as
 * the votes are not known any more.  Everything here may wait for a disk that does not answer.
 * What fails says why in weft_last_error, with the variable in it. */
#ifndef WEFT_FAULT_WITNESS_FILE_H
#define WEFT_FAULT_WITNESS_FILE_H
#include "acceptor.h"
#include "status.h"

#include <limits.h>

#define WEFT__WITNESS_RUN_BYTES 33 /* a run's nonce as digits */

typedef struct weft__witness_place {
    char path[PATH_MAX];
    char run[WEFT__WITNESS_RUN_BYTES];
    int rank, ranks;     /* whoever asks; all */
    uint32_t generation; /* known to be on the disk: later ones are looked for behind it */
    int64_t until_ns; /* so long it is tried again where others have been first, or descriptors are short */
} weft__witness_place;

/* From WEFT_WITNESS. */
weft_status weft__witness_read(const char *setting, weft__witness_place *place);
/* Rank 0. */
weft_status weft__witness_make(const weft__witness_place *place);
/* One rank of each host: it can be read here, and a generation could be made. */
weft_status weft__witness_try(const weft__witness_place *place);
/* *answered: bytes of the answer, 0: none, as in acceptor.h. */
weft_status weft__witness_ask(weft__witness_place *place, const weft__view_message *word, size_t bytes,
                              weft__view_message *answer, size_t *answered);
/* This rank needs it no more.  It goes when nobody in its view does: all of them have said so, or are among `gone`,
 * who have left or died for certain.  OK too where it has gone already. */
weft_status weft__witness_leave(const weft__witness_place *place, const unsigned char *gone);
/* Where the job has not come to be. */
void weft__witness_remove(const weft__witness_place *place);
#endif
