/* word.c - see word.h.  A wait looks at its word whenever a stream has written one, and now and then, since the host
 * tells nobody. */
#include "word.h"
#include "access.h"
#include "capture.h"
#include "device.h"
#include "error.h"
#include "exit.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"

#include <cuda.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_NS = 50000 };

/* What a stream was the last to write to a word, and what was finished by then. */
struct emu__written {
    const void *at;
    uint64_t value;
    unsigned bytes;
    emu__clock clock;
    struct emu__written *next;
};

static pthread_cond_t any_written = PTHREAD_COND_INITIALIZER;

/* ---- in the queue ---- */

static uint64_t value_of(const emu__word *word)
{
    return word->bytes == 4 ? __atomic_load_n((const uint32_t *)word->seen_at, __ATOMIC_ACQUIRE)
                            : __atomic_load_n((const uint64_t *)word->seen_at, __ATOMIC_ACQUIRE);
}

static struct emu__written *find_written(const emu__word *word, emu__block *block)
{
    struct emu__written *found = block->written;

    while (found && (found->at != word->at || found->bytes != word->bytes)) found = found->next;
    return found;
}

static void remember(const emu__word *word)
{
    emu__block *block = emu__block_at(word->at);
    struct emu__written *written = block ? find_written(word, block) : NULL;

    if (block && !written && (written = malloc(sizeof *written))) {
        written->at = word->at;
        written->bytes = word->bytes;
        written->next = block->written;
        block->written = written;
    }
    if (!written) return;
    written->value = word->value;
    written->clock = word->clock;
}

void emu__written_free(struct emu__written *written)
{
    while (written) {
        struct emu__written *next = written->next;
        free(written);
        written = next;
    }
}

void emu__word_write(emu__word *word)
{
    if (word->bytes == 4)
        __atomic_store_n((uint32_t *)word->seen_at, (uint32_t)word->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)word->seen_at, word->value, __ATOMIC_RELEASE);
    remember(word);
    pthread_cond_broadcast(&any_written);
    free(word);
}

static bool is_there(const emu__word *word, uint64_t now)
{
    switch (word->flags) {
    case CU_STREAM_WAIT_VALUE_EQ: return now == word->value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & word->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(now | word->value) & (word->bytes == 4 ? UINT32_MAX : UINT64_MAX)) != 0;
    default: /* GEQ goes round */
        return word->bytes == 4 ? (int32_t)((uint32_t)now - (uint32_t)word->value) >= 0
                                : (int64_t)(now - word->value) >= 0;
    }
}

static void wait_for_write(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&any_written, &emu__mutex, &until);
}

/* A value that no stream has written is the host's, who has seen what it has seen. */
void emu__word_await(emu__word *word)
{
    uint64_t now = value_of(word);
    const emu__block *block;
    const struct emu__written *written;

    while (!is_there(word, now) && !emu__exit_begun()) {
        wait_for_write();
        now = value_of(word);
    }
    block = emu__block_at(word->at);
    written = block ? find_written(word, emu__block_at(word->at)) : NULL;
    emu__order_waited(word->wait, written && written->value == now ? &written->clock : &emu__host_clock);
    free(word);
}

/* ---- queueing ---- */

static cudaError_t check(const emu__stream *stream, const char *name, const emu__word *word)
{
    emu__block *block;

    if ((uintptr_t)word->at % word->bytes) return cudaErrorInvalidValue;
    if (stream->device != emu__device_current()) return cudaErrorDeviceUninitialized;
    return emu__access_device(stream, name, word->at, word->bytes, &block);
}

static cudaError_t add(cudaStream_t handle, const char *name, emu__item_kind kind, const emu__word *what)
{
    emu__stream *stream;
    emu__word *word;
    cudaError_t error = emu__stream_for_work(handle, &stream);

    if (!error) error = emu__devices[stream->device].error;
    if (!error) error = emu__capture_refuses(stream);
    if (!error) error = check(stream, name, what);
    if (error) return error;
    word = malloc(sizeof *word);
    if (!word) return cudaErrorMemoryAllocation;
    *word = *what;
    if (kind == EMU__ITEM_AWAIT && !(word->wait = emu__order_wait(emu__slot_of(stream)))) {
        free(word);
        return cudaErrorMemoryAllocation;
    }
    error = emu__stream_add(stream, &(emu__item){.kind = kind, .word = word});
    if (error) {
        if (word->wait) emu__order_waited(word->wait, &emu__host_clock);
        free(word);
    } else if (word->wait) {
        emu__order_wait_is_at(word->wait, stream->queued);
    } else {
        word->clock = stream->clock;
    }
    return error;
}

static int driver_add(cudaStream_t handle, const char *name, emu__item_kind kind, const emu__word *word,
                      unsigned known)
{
    cudaError_t error = emu__begin(name, EMU__NO_CONTEXT);

    if (!error && word->flags == CU_STREAM_WAIT_VALUE_FLUSH) error = cudaErrorNotSupported;
    if (!error && word->flags > known) error = cudaErrorInvalidValue;
    if (!error) {
        emu__lock();
        error = add(handle, name, kind, word);
        emu__unlock();
    }
    return (int)error; /* their numbers are the driver's, which is not asked for its last one */
}

/* Device memory is seen by the emulation elsewhere than by the program. */
static emu__word word_at(unsigned long long at, unsigned bytes, uint64_t value, unsigned flags)
{
    const void *place = (const void *)(uintptr_t)at;

    return (emu__word){
        .seen_at = emu_host_view(place), .at = place, .value = value, .bytes = bytes, .flags = flags};
}

int emu__word_write_32(struct CUstream_st *stream, unsigned long long at, uint32_t value, unsigned flags)
{
    emu__word word = word_at(at, 4, value, flags);

    return driver_add(stream, "cuStreamWriteValue32", EMU__ITEM_WRITE, &word,
                      CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
}

int emu__word_write_64(struct CUstream_st *stream, unsigned long long at, uint64_t value, unsigned flags)
{
    emu__word word = word_at(at, 8, value, flags);

    return driver_add(stream, "cuStreamWriteValue64", EMU__ITEM_WRITE, &word,
                      CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
}

int emu__word_wait_32(struct CUstream_st *stream, unsigned long long at, uint32_t value, unsigned flags)
{
    emu__word word = word_at(at, 4, value, flags);

    return driver_add(stream, "cuStreamWaitValue32", EMU__ITEM_AWAIT, &word, CU_STREAM_WAIT_VALUE_NOR);
}

int emu__word_wait_64(struct CUstream_st *stream, unsigned long long at, uint64_t value, unsigned flags)
{
    emu__word word = word_at(at, 8, value, flags);

    return driver_add(stream, "cuStreamWaitValue64", EMU__ITEM_AWAIT, &word, CU_STREAM_WAIT_VALUE_NOR);
}
