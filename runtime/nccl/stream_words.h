/* stream_words.h - words of pinned memory that streams of the program's wait for, until a work is done that is not issued yet.
 *
 *   spare -> a work's      when a stream is first held by it; its value goes up by one, and streams wait for that or more
 *   -> written             by the communicator's stream, behind the work; or by the host, when the work's request settles
 *   -> spare               nothing writes it any more
 *
 * So a word is used again while streams may still wait for a value that it has had: they go on all the same, as values only
 * grow, round and round.  (A stream would have to stand for two thousand million works of one word to miss its own.)  It is
 * not used again where the communicator's stream may write it late, as after an abort.  The memory is the module's until all
 * streams have come past their waits, of each of which an event tells; what they have not come past when the module is
 * closed stays behind.
 *
 * work->hold: NULL, its word, or weft__word_over, when no stream is to wait for it any more.  All under nccl->order. */
#ifndef WEFT_NCCL_STREAM_WORDS_H
#define WEFT_NCCL_STREAM_WORDS_H
#include "event.h"

#include <cuda.h>
#include <stdint.h>

#define WEFT__WORDS 256

typedef struct weft__word {
    struct weft__word *next; /* spare */
    uint32_t *at;
    uint32_t value;
    bool by_stream; /* a communicator's stream is to write it, and is not known to have done so */
} weft__word;

typedef struct weft__stream_words {
    pthread_mutex_t making;
    uint32_t *memory; /* pinned; NULL: there is none */
    weft__word all[WEFT__WORDS];
    weft__word *spare;
    weft__event *passing, **passing_end; /* recorded behind waits of streams */
    bool unknown;                        /* of one wait it is not known when its stream has come past */
    /* The driver's; NULL: it has them not, or they are not to be used. */
    CUresult (*wait)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
    CUresult (*write)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
} weft__stream_words;

struct weft__nccl;
void weft__stream_words_find(struct weft__nccl *nccl);  /* the driver's functions */
void weft__stream_words_equip(struct weft__nccl *nccl); /* makes the memory, once; may block */
/* No work is left. */
void weft__stream_words_close(struct weft__nccl *nccl);

/* Slots of the seam. */
weft_status weft__stream_words_hold(weft_backend *backend, weft_backend_work *work,
                                    const weft_backend_work *like, void *stream);
void weft__stream_words_let_go(weft_backend *backend, weft_backend_work *work);
bool weft__stream_words_reached(weft_backend *backend, const void *marker);

/* Behind these works, which have just been called on the stream: the words that are waited for are written there.
 * Returns how many pieces that are for its queue. */
unsigned weft__stream_words_write(struct weft__nccl *nccl, weft_backend_work *works, cudaStream_t stream);
/* nccl->order held: the event behind the work has come, and so has the write before it. */
void weft__stream_words_written(const weft_backend_work *work);
#endif
