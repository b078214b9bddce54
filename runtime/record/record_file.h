/* record_file.h - the file that a record lies in, and those that earlier runs have left beside it. */
#ifndef WEFT_RECORD_RECORD_FILE_H
#define WEFT_RECORD_RECORD_FILE_H
#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

#define WEFT__RECORD_NAME_BYTES 48

/* run: the nonce, of which the first 16 characters count. */
void weft__record_name_make(const char *run, int rank, char name[WEFT__RECORD_NAME_BYTES]);
/* Makes it, of zeros and mapped, with memory for the first of its operations and all that is none.  room: places of
 * operations that have it.  Where the kernel cannot be asked for pages, these are all, and come when they are written. */
weft_status weft__record_file_make(int folder, const char *name, size_t ops, int world, void **memory,
                                   size_t *room);
/* More operations get memory, if there is any; whoever has time, as long as the recorder is crowded. */
void weft__record_file_grow(weft__recorder *r);
/* The records of other runs whose processes have ended go, but for those of the run that was the last. */
void weft__record_files_clean(int folder, const char *run);
#endif
