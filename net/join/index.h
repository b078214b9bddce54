/* index.h - where in an array an entry with that key lies, without going through all of it.
 *
 * The array is its owner's: each entry is `stride` bytes long and begins with its key.  Who changes the order of
 * entries, or takes one away, builds the index again.  Zeroed memory is an empty index. */
#ifndef WEFT_NET_JOIN_INDEX_H
#define WEFT_NET_JOIN_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__index {
    size_t key_bytes, stride; /* set by the owner, before anything else */
    uint32_t *places; /* 1 + a place in the array; 0: free.  A power of two of them, at most half full */
    size_t room;
} weft__index;

/* The place of that key among the array's entries, or -1. */
int weft__index_find(const weft__index *index, const void *entries, const void *key);
/* The array has n entries now, of which only the last is new.  False: no memory, and the index knows nothing of
 * that one. */
bool weft__index_append(weft__index *index, const void *entries, int n);
/* For all n entries; with as much room as it has had, it does not fail. */
bool weft__index_build(weft__index *index, const void *entries, int n);
void weft__index_free(weft__index *index);
#endif
