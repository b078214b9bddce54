/* blocks.h - uneven blocks: where the one of each rank lies in a buffer, in elements. */
#ifndef WEFT_OPS_BLOCKS_H
#define WEFT_OPS_BLOCKS_H
#include <stdint.h>
#include <weft/weft.h>

typedef struct weft__span {
    size_t start, length;
} weft__span;

/* The blocks of one buffer, by rank. */
typedef struct weft__blocks {
    const size_t *counts; /* NULL: this rank has no such buffer */
    const size_t *displs; /* NULL in what a caller gives: packed */
    size_t total;         /* of the counts; SIZE_MAX: too many */
} weft__blocks;

/* The blocks of an operation's two buffers. */
typedef struct weft__uneven {
    weft__blocks in, out;
    uint64_t agreed; /* digest of the counts that all ranks must have alike; 0: there are none */
} weft__uneven;

/* A copy of both in one allocation, which free ends: packed displacements are written out, totals made.  NULL
 * and a sentence: no memory. */
weft__uneven *weft__uneven_copy(const weft__uneven *given, int size);

/* "12 float32 in blocks 5a3f01": of counts that all ranks must have alike, their total and a hash. */
void weft__digest_text(uint64_t digest, const char *type, char *text, size_t bytes);

struct weft__op;
/* Refuses counts that are missing, blocks that no memory holds, blocks of an output that overlap, and a rank
 * that expects of itself what it does not send.  op->uneven is a copy as above; fills in what follows from
 * it. */
weft_status weft__uneven_check(struct weft__op *op, int rank, int size);
/* Does any block that is read share memory with one that is written? */
bool weft__uneven_overlap(const struct weft__op *op, int size);
#endif
