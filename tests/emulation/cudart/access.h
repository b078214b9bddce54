/* access.h - may this work touch these bytes, and in which buffer do they lie? */
#ifndef EMULATION_ACCESS_H
#define EMULATION_ACCESS_H
#include "memory.h"
#include "stream.h"

/* *found: the buffer that holds all these bytes, which a kernel named name on the stream uses; NULL with
 * success: no bytes.  Else a misuse and cudaErrorInvalidValue: freed, too long, of another device or no
 * device's.  Under the lock. */
cudaError_t emu__access_device(const emu__stream *stream, const char *name, const void *at, size_t bytes,
                               emu__block **found);
/* Finds the block for copies, which may use any memory; NULL with success: memory of the program. */
cudaError_t emu__access_any(const emu__stream *stream, const char *name, const void *at, size_t bytes,
                            emu__block **found);
/* Tells the detector of races; block may be NULL. */
void emu__access_order(emu__stream *stream, const char *name, emu__block *block, const void *at, size_t bytes,
                       bool writes);
#endif
