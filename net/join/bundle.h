/* bundle.h - blocks of one length in one message.
 *
 * What many blocks begin with alike (their host, its settings) is told once: behind a head lie the distinct
 * beginnings, for each block the number of its own, and then what is left of each block.  Of all that, words
 * of eight bytes that are zero are left out, which names and masks of processors mostly are:
 *
 *   head | a bit for each word, 1: it follows | those words
 *
 * Whoever reads one checks it: another rank wrote it. */
#ifndef WEFT_NET_JOIN_BUNDLE_H
#define WEFT_NET_JOIN_BUNDLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__bundle_head {
    uint32_t blocks, block_bytes;
    uint32_t alike;    /* bytes that a block begins with and that are told once; 0: none */
    uint32_t distinct; /* such beginnings */
} weft__bundle_head;

/* alike: how many bytes of each block may be the same in many.  Returns a message to free, whose length is in
 * *bytes; NULL: no memory. */
void *weft__bundle_make(const void *const *blocks, uint32_t n, size_t block_bytes, size_t alike,
                        size_t *bytes);
/* Whether this begins like a bundle of at most so many bytes of blocks, which is long enough for their bits: a
 * short message does not make its reader take much memory.  Then *head is what it tells. */
bool weft__bundle_head_read(const void *bundle, size_t bytes, size_t most, weft__bundle_head *head);
/* What weft__bundle_read needs beside the blocks, for so many of so many bytes: who has it before it says what others
 * wait for does not fail when it hears of all. */
size_t weft__bundle_room(size_t n, size_t block_bytes);
/* room: those bytes, for words; blocks: room for all that its head tells, which has been read.  False: it is damaged. */
bool weft__bundle_read(const void *bundle, size_t bytes, const weft__bundle_head *head, void *room,
                       void *blocks);
#endif
