/* tuning.h - the file that keeps what was measured on this kind of processor for the choice among algorithms.
 *
 * Text, one per user and processor model, in XDG_CACHE_HOME/weft, else HOME/.cache/weft:
 *
 *   weft-tuning 1
 *   processor amd-epyc-7763-64-core-processor
 *   shm 2 all_reduce all_read 16384      over shm, up to 2 ranks: up to 16384 bytes by all_read
 *   tcp more broadcast chain never       "more": than the largest size below
 *   end 2                                lines between
 *
 * It only ever makes things faster, so nothing about it is an error to a job: a file that is not sound, or
 * that others may have written, is ignored as a whole. */
#ifndef WEFT_RUNTIME_TUNING_H
#define WEFT_RUNTIME_TUNING_H
#include "choices.h"

#define WEFT__TUNING_PATH_BYTES 1024

/* "": this user has no home. */
void weft__tuning_path(char path[WEFT__TUNING_PATH_BYTES]);
/* Limits from that file.  OK without changing them: there is no file.  Else a sentence,
 * and no limit changed. */
weft_status weft__tuning_read(const char *path, weft__choices *choices);
/* In one step: who reads sees the old file or the new one.  Makes the directory (0700). */
weft_status weft__tuning_write(const char *path, const weft__choices *choices);
#endif
