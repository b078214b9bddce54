/* stream_words.c - see stream_words.h.
 *
 * Happy path: a word is taken, the program's stream waits for it, and the communicator's writes it behind the work.
 * Fails: where the driver has no such calls, or one of them fails, the runtime waits on the host instead; where the
 * write fails the host's own at the end of the work is the one. */
#include "stream_words.h"

#include "communicator.h"
#include "cuda_device.h"
#include "cudart.h"
#include "known.h"
#include "running.h"

#include <string.h>

static weft__word over; /* stands for none, where there will be none */

/* ---- the driver's functions, and the memory ---- */

static void find(const char *name, void *function)
{
    void *found = NULL;
    weft__cudart_driver_function(name, 12000, &found);
    memcpy(function, &found, sizeof found); /* ISO C has no cast from an object to a function */
}

void weft__stream_words_find(weft__nccl *nccl)
{
    weft__stream_words *words = &nccl->words;
    find("cuStreamWaitValue32", (void *)&words->wait);
    find("cuStreamWriteValue32", (void *)&words->write);
}

/* One thread at a time. */
static void make_words(weft__nccl *nccl)
{
    weft__stream_words *words = &nccl->words;
    uint32_t *memory = NULL;
    if (cudaHostAlloc((void **)&memory, WEFT__WORDS * sizeof *memory,
                      cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
        cudaGetLastError();
        return; /* no stream is held */
    }
    memset(memory, 0, WEFT__WORDS * sizeof *memory);
    pthread_mutex_lock(&nccl->order);
    for (int i = 0; i < WEFT__WORDS; i++) {
        words->all[i] = (weft__word){.next = words->spare, .at = memory + i};
        words->spare = &words->all[i];
    }
    words->memory = memory;
    pthread_mutex_unlock(&nccl->order);
}

/* They are made once, also where two communicators are made at a time: to free those that came second would wait for the
 * device, and there an operation of the other one may wait for ranks that wait likewise. */
void weft__stream_words_equip(weft__nccl *nccl)
{
    weft__stream_words *words = &nccl->words;
    bool there;
    pthread_mutex_lock(&words->making);
    pthread_mutex_lock(&nccl->order);
    there = words->memory || !words->wait || !words->write;
    pthread_mutex_unlock(&nccl->order);
    if (!there) make_words(nccl);
    pthread_mutex_unlock(&words->making);
}

/* nccl->order held: streams that are known to have come past their waits. */
static void sweep(weft__nccl *nccl)
{
    weft__stream_words *words = &nccl->words;
    weft__event *event;
    while ((event = words->passing) && cudaEventQuery(event->cuda) == cudaSuccess) {
        words->passing = event->next;
        if (!words->passing) words->passing_end = &words->passing;
        weft__event_give(nccl, event);
    }
    if (event) cudaGetLastError();
}

void weft__stream_words_close(weft__nccl *nccl)
{
    weft__stream_words *words = &nccl->words;
    if (!words->memory) return;
    pthread_mutex_lock(&nccl->order);
    sweep(nccl);
    pthread_mutex_unlock(&nccl->order);
    if (words->passing || words->unknown)
        weft__nccl_log(nccl, 2,
                       "a stream of the program's has not come past what it waits for: %d bytes of pinned "
                       "memory are left behind",
                       (int)(WEFT__WORDS * sizeof *words->memory));
    else
        cudaFreeHost(words->memory);
    words->memory = NULL;
}

/* ---- holding ---- */

/* The default streams are those of the device that is current, and the driver goes by that alone. */
static bool is_there(const weft__nccl *nccl, cudaStream_t stream)
{
    int device = -1;
    if (stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread) return true;
    if (cudaGetDevice(&device) == cudaSuccess) return device == nccl->seam.device;
    cudaGetLastError();
    return false;
}

/* Streams of one priority share the device's hardware queues.  A queue takes up what was queued to it in that order, so
 * what waits there would stand in front of the work that it waits for. */
static bool may_share_queue(const weft__comm *comm, cudaStream_t stream)
{
    int priority = 0;
    if (cudaStreamGetPriority(stream, &priority) == cudaSuccess) return priority == comm->priority;
    cudaGetLastError();
    return true;
}

/* nccl->order held. */
static weft__word *word_of(weft__stream_words *words, weft_backend_work *work)
{
    weft__word *word = work->hold ? work->hold : words->spare;
    if (!word || work->hold) return word;
    words->spare = word->next;
    word->value++;
    word->by_stream = false;
    return work->hold = word;
}

/* The driver goes by the context that is current. */
static CUresult with_device(const weft__nccl *nccl,
                            CUresult (*call)(CUstream stream, CUdeviceptr at, cuuint32_t value,
                                             unsigned flags),
                            cudaStream_t stream, const weft__word *word, uint32_t value, unsigned flags)
{
    CUresult result;
    int device = -1, wanted = nccl->seam.device;
    const bool other = cudaGetDevice(&device) == cudaSuccess && device != wanted;
    if (other) cudaSetDevice(wanted);
    result = call(stream, (CUdeviceptr)(uintptr_t)word->at, value, flags);
    if (other) cudaSetDevice(device);
    return result;
}

static void note_passing(weft__nccl *nccl, weft__event *event, cudaStream_t stream)
{
    weft__stream_words *words = &nccl->words;
    const bool recorded = cudaEventRecord(event->cuda, stream) == cudaSuccess;
    if (!recorded) cudaGetLastError();
    pthread_mutex_lock(&nccl->order);
    if (recorded) {
        event->next = NULL;
        *words->passing_end = event;
        words->passing_end = &event->next;
    } else {
        words->unknown = true;
    }
    pthread_mutex_unlock(&nccl->order);
    if (!recorded) weft__event_give(nccl, event);
}

/* Nothing of the lock's is held over what may block, as where the stream's queue is full: the word may have got a later
 * value by then, for which its stream need not wait. */
static weft_status hold(weft__nccl *nccl, weft_backend_work *work, cudaStream_t stream, weft__event *event)
{
    weft__stream_words *words = &nccl->words;
    weft__word *word = NULL;
    uint32_t value = 0;
    bool issued;
    pthread_mutex_lock(&nccl->order);
    sweep(nccl);
    issued = work->state;
    if (!issued && (word = word_of(words, work))) value = word->value;
    pthread_mutex_unlock(&nccl->order);
    if (issued || !word || word == &over) {
        weft__event_give(nccl, event);
        if (issued) return weft__running_order(&nccl->seam, work, stream);
        return word ? WEFT_OK : WEFT_ERR_UNSUPPORTED;
    }
    if (with_device(nccl, words->wait, stream, word, value, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS) {
        weft__event_give(nccl, event);
        return WEFT_ERR_UNSUPPORTED;
    }
    note_passing(nccl, event, stream);
    return WEFT_OK;
}

weft_status weft__stream_words_hold(weft_backend *backend, weft_backend_work *work,
                                    const weft_backend_work *like, void *stream)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__event *event;
    cudaError_t error = cudaSuccess;
    weft_status status = weft__device_check_stream(nccl, stream);
    if (status != WEFT_OK) return status;
    if (!weft__known_has(like->comm->known, like) || !is_there(nccl, stream) ||
        may_share_queue(like->comm, stream))
        return WEFT_ERR_UNSUPPORTED;
    event = weft__event_take(nccl, &error);
    if (!event) cudaGetLastError();
    return event ? hold(nccl, work, stream, event) : WEFT_ERR_UNSUPPORTED;
}

/* ---- letting go ---- */

unsigned weft__stream_words_write(weft__nccl *nccl, weft_backend_work *works, cudaStream_t stream)
{
    weft__stream_words *words = &nccl->words;
    unsigned written = 0;
    if (!nccl->seam.hold) return 0; /* no stream is held */
    pthread_mutex_lock(&nccl->order);
    for (weft_backend_work *work = works; work; work = work->next) {
        weft__word *word = work->hold;
        if (!word || word == &over) continue;
        word->by_stream = with_device(nccl, words->write, stream, word, word->value,
                                      CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
        written += word->by_stream;
    }
    pthread_mutex_unlock(&nccl->order);
    return written;
}

void weft__stream_words_written(const weft_backend_work *work)
{
    weft__word *word = work->hold;
    if (word && word != &over) word->by_stream = false;
}

void weft__stream_words_let_go(weft_backend *backend, weft_backend_work *work)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__stream_words *words = &nccl->words;
    weft__word *word;
    pthread_mutex_lock(&nccl->order);
    word = work->hold;
    work->hold = &over;
    if (word && word != &over) {
        __atomic_store_n(word->at, word->value, __ATOMIC_RELEASE);
        if (!word->by_stream) {
            word->next = words->spare;
            words->spare = word;
        }
    }
    pthread_mutex_unlock(&nccl->order);
}

bool weft__stream_words_reached(weft_backend *backend, const void *marker)
{
    const weft__event *mark = marker;
    cudaError_t error;
    (void)backend;
    if (!mark || mark->capture) return true;
    error = cudaEventQuery(mark->cuda);
    if (error != cudaSuccess) cudaGetLastError();
    return error != cudaErrorNotReady;
}
