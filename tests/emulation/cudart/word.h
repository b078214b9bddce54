/* word.h - words of memory that streams write, and wait for (cuStreamWriteValue, cuStreamWaitValue).
 *
 * A stream that waits holds nobody up but itself.  The word may be written by another stream, whose work before the write
 * is then ordered before what follows the wait (order.h), or by the host. */
#ifndef EMULATION_WORD_H
#define EMULATION_WORD_H
#include "emulation.h"
#include "order.h"

struct CUstream_st;

/* What one piece of work in a queue writes, or waits for. */
typedef struct emu__word {
    void *seen_at; /* where the emulation sees the word */
    const void *at;
    uint64_t value;
    unsigned bytes; /* 4 or 8 */
    unsigned flags;
    emu__clock clock; /* a write: what is finished when it comes */
    emu__wait *wait;  /* a wait: to be told of its end */
} emu__word;

/* The stream has come there: both end the word.  Under the lock, which the wait lets go of. */
void emu__word_write(emu__word *word);
void emu__word_await(emu__word *word);
/* The last values that were written to words of a block that goes. */
typedef struct emu__written emu__written;
void emu__written_free(emu__written *written);

/* The functions of the driver. */
int emu__word_write_32(struct CUstream_st *stream, unsigned long long at, uint32_t value, unsigned flags);
int emu__word_write_64(struct CUstream_st *stream, unsigned long long at, uint64_t value, unsigned flags);
int emu__word_wait_32(struct CUstream_st *stream, unsigned long long at, uint32_t value, unsigned flags);
int emu__word_wait_64(struct CUstream_st *stream, unsigned long long at, uint64_t value, unsigned flags);
#endif
