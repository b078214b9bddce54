/* nt_copy.h - copying into memory that another processor reads next.
 *
 * Where the two share a cache, an ordinary copy is best: the reader finds it there.  Where they do not, each
 * line that is written again has to come back from the reader's cache first, and the copy is several times
 * slower; stores past the caches then cost less than half of it.  Which of the two it is cannot be asked, and
 * under a hypervisor it changes while a program runs: so it is measured on the copies themselves. */
#ifndef WEFT_BASE_NT_COPY_H
#define WEFT_BASE_NT_COPY_H
#include <stdbool.h>
#include <stddef.h>

#define WEFT__NT_COPY_BYTES ((size_t)16 * 1024) /* shorter copies are ordinary ones, and not measured */

/* What is known of one way; all 0 at first.  For one thread at a time. */
typedef struct weft__nt_copy {
    bool far;      /* ordinary copies were slow: past the caches */
    unsigned slow; /* near: ordinary copies in a row that were */
    unsigned left; /* far: copies until an ordinary one is tried again */
} weft__nt_copy;

/* The parts do not overlap. */
void weft__nt_copy_bytes(weft__nt_copy *nt_copy, void *to, const void *from, size_t bytes);

/* Past the caches, where the processor can; whoever is told that it is there sees it, as with any other. */
void weft__stream_copy(void *to, const void *from, size_t bytes);
#endif
