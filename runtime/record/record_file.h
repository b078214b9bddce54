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
/* Makes it, of zeros, its memory reserved and mapped; its pages come when they are written. */
weft_status weft__record_file_make(int folder, const char *name, size_t bytes, void **memory);
/* The pages of its operations come now, and hold up nobody later; whoever has time. */
void weft__record_file_touch(const weft__recorder *r);
/* The records of other runs whose processes have ended go, but for those of the run that was the last. */
void weft__record_files_clean(int folder, const char *run);
#endif
