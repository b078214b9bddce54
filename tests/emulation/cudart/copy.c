/* copy.c - copies and fills.  Each is one piece of work on its stream that moves bytes between what the
 * emulation sees of both buffers.
 *
 * As in CUDA: from memory that is the program's own the bytes are taken before the call returns, and to such
 * memory the call returns when they are there.  Between buffers of a device nothing waits for the host. */
#include "access.h"
#include "capture.h"
#include "count.h"
#include "device.h"
#include "error.h"
#include "lock.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;
    emu__block *to_block, *from_block; /* NULL: memory of the program */
    char *staged;                      /* its bytes, taken at the call */
    int value;                         /* of a fill, whose from is NULL */
} transfer;

enum { WORD = 8 };

/* The host may look at what is pinned while the device writes there, and each byte is old or new. */
static void store_bytes(char *to, int value, size_t width)
{
    for (size_t i = 0; i < width; i++) __atomic_store_n(to + i, (char)value, __ATOMIC_SEQ_CST);
}

static void move(void *arg)
{
    transfer *what = arg;
    char *to = emu_host_view(what->to);
    const char *from = what->staged ? what->staged : emu_host_view(what->from);
    size_t from_pitch = what->staged ? what->width : what->from_pitch;

    for (size_t row = 0; row < what->height; row++, to += what->to_pitch) {
        if (!what->from && what->width <= WORD)
            store_bytes(to, what->value, what->width);
        else if (!what->from)
            memset(to, what->value, what->width);
        else
            memmove(to, from + row * from_pitch, what->width);
    }
    free(what->staged);
    free(what);
}

static size_t span(size_t pitch, const transfer *what)
{
    return what->width && what->height ? pitch * (what->height - 1) + what->width : 0;
}

/* Whether the kind says the truth about the buffers.  Managed and pinned memory are both. */
static bool kind_fits(enum cudaMemcpyKind kind, const transfer *what)
{
    bool to_device_only = what->to_block && what->to_block->kind == EMU__DEVICE;
    bool from_device_only = what->from_block && what->from_block->kind == EMU__DEVICE;

    switch (kind) {
    case cudaMemcpyDefault: return true;
    case cudaMemcpyHostToHost: return !to_device_only && !from_device_only;
    case cudaMemcpyHostToDevice: return what->to_block && !from_device_only;
    case cudaMemcpyDeviceToHost: return !to_device_only && what->from_block;
    case cudaMemcpyDeviceToDevice: return what->to_block && what->from_block;
    }
    return false;
}

static cudaError_t check(const emu__stream *stream, transfer *what, enum cudaMemcpyKind kind)
{
    cudaError_t error =
        emu__access_any(stream, what->name, what->to, span(what->to_pitch, what), &what->to_block);

    if (!error && what->from)
        error =
            emu__access_any(stream, what->name, what->from, span(what->from_pitch, what), &what->from_block);
    if (error) return error;
    if (!what->from) return what->to_block ? cudaSuccess : cudaErrorInvalidValue;
    return kind_fits(kind, what) ? cudaSuccess : cudaErrorInvalidValue;
}

static void order_rows(emu__stream *stream, const transfer *what)
{
    for (size_t row = 0; row < what->height; row++) {
        if (what->from)
            emu__access_order(stream, what->name, what->from_block,
                              (const char *)what->from + row * what->from_pitch, what->width, false);
        emu__access_order(stream, what->name, what->to_block, (char *)what->to + row * what->to_pitch,
                          what->width, true);
    }
}

static bool is_program_memory(const void *at)
{
    emu__lock();
    bool is = !emu__block_at(at) && !emu__memory_is_window(at);
    emu__unlock();
    return is;
}

/* Without the lock: only memory of the program is read. */
static bool stage(transfer *what)
{
    what->staged = malloc(what->width * what->height);
    if (!what->staged) return false;
    for (size_t row = 0; row < what->height; row++)
        memcpy(what->staged + row * what->width, (const char *)what->from + row * what->from_pitch,
               what->width);
    return true;
}

static cudaError_t start_locked(transfer *what, enum cudaMemcpyKind kind, cudaStream_t handle, bool waits);

/* In a graph. */
static cudaError_t queue_recorded(const void *arg, cudaStream_t stream)
{
    const transfer *recorded = arg;
    transfer *what = malloc(sizeof *what);
    cudaError_t error;

    if (!what) return cudaErrorMemoryAllocation;
    *what = *recorded;
    emu__lock();
    error = start_locked(what, cudaMemcpyDefault, stream, false);
    emu__unlock();
    return error;
}

/* Memory of the program, whose bytes are taken at the call, is for no graph. */
static cudaError_t capture(emu__stream *stream, transfer *what, enum cudaMemcpyKind kind, bool *captured)
{
    emu__piece piece = {queue_recorded, free, what};
    cudaError_t error;

    *captured = false;
    if (!stream->capture) return emu__capture_refuses(stream);
    error = check(stream, what, kind);
    if (error) return error;
    if (!what->to_block || (what->from && !what->from_block)) return emu__capture_refuses(stream);
    return emu__capture_takes(stream, &piece, captured);
}

static cudaError_t queue(emu__stream *stream, transfer *what, enum cudaMemcpyKind kind, bool *captured)
{
    cudaError_t error = capture(stream, what, kind, captured);

    if (*captured) return error;
    if (!error) error = check(stream, what, kind);
    if (!error) error = emu__stream_add(stream, &(emu__item){.run = move, .arg = what});
    if (!error) order_rows(stream, what);
    return error;
}

/* The copy is freed by the work, or here where it is not queued. */
static cudaError_t start_locked(transfer *what, enum cudaMemcpyKind kind, cudaStream_t handle, bool waits)
{
    emu__stream *stream;
    bool captured = false;
    cudaError_t error = emu__stream_for_work(handle, &stream);

    if (!error) error = queue(stream, what, kind, &captured);
    if (captured) return error;
    if (error) {
        free(what->staged);
        free(what);
        return error;
    }
    bool to_program = what->from && !what->to_block;
    bool only_device = (!what->from || (what->from_block && what->from_block->kind == EMU__DEVICE)) &&
                       what->to_block && what->to_block->kind == EMU__DEVICE;
    if (!to_program && (!waits || only_device)) return cudaSuccess;
    if (!waits) emu__count_blocking();
    return emu__stream_settle(stream);
}

/* waits: the call returns when the bytes are there, except between buffers of devices. */
static cudaError_t start(transfer what, enum cudaMemcpyKind kind, cudaStream_t stream, bool waits)
{
    cudaError_t error;

    if (!what.width || !what.height) return cudaSuccess;
    if (!what.to || what.width > what.to_pitch || (what.from && what.width > what.from_pitch))
        return cudaErrorInvalidValue;
    transfer *copy = malloc(sizeof *copy);
    if (!copy) return cudaErrorMemoryAllocation;
    *copy = what;
    /* Where the call waits for it, the work reads the program's memory itself. */
    if (!waits && what.from && is_program_memory(what.from) && !stage(copy)) {
        free(copy);
        return cudaErrorMemoryAllocation;
    }
    emu__lock();
    error = start_locked(copy, kind, stream, waits);
    emu__unlock();
    return error;
}

/* ---- copies ---- */

static transfer line(const char *name, void *to, const void *from, size_t bytes)
{
    return (transfer){.name = name,
                      .to = to,
                      .from = from,
                      .to_pitch = bytes,
                      .from_pitch = bytes,
                      .width = bytes,
                      .height = 1};
}

static cudaError_t copy(const char *name, transfer what, enum cudaMemcpyKind kind, cudaStream_t stream,
                        bool waits)
{
    cudaError_t error = emu__begin(name, waits ? EMU__BLOCKS | EMU__UNSAFE : 0);

    if (error) return emu__end(error);
    if (!what.from && what.width && what.height) return emu__end(cudaErrorInvalidValue);
    if ((int)kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return emu__end(cudaErrorInvalidMemcpyDirection);
    what.name = name;
    return emu__end(start(what, kind, stream, waits));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy("cudaMemcpy", line("", to, from, bytes), kind, cudaStreamLegacy, true);
}

/* As programs built with --default-stream per-thread call it. */
cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy("cudaMemcpy", line("", to, from, bytes), kind, cudaStreamPerThread, true);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy("cudaMemcpyAsync", line("", to, from, bytes), kind, stream, false);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    transfer what = {"", to, from, to_pitch, from_pitch, width, height, NULL, NULL, NULL, 0};

    return copy("cudaMemcpy2D", what, kind, cudaStreamLegacy, true);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    transfer what = {"", to, from, to_pitch, from_pitch, width, height, NULL, NULL, NULL, 0};

    return copy("cudaMemcpy2DAsync", what, kind, stream, false);
}

static cudaError_t copy_peer(const char *name, void *to, int to_device, const void *from, int from_device,
                             size_t bytes, cudaStream_t stream)
{
    if (!emu__device_valid(to_device) || !emu__device_valid(from_device))
        return emu__end(cudaErrorInvalidDevice);
    return copy(name, line("", to, from, bytes), cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    return copy_peer("cudaMemcpyPeer", to, to_device, from, from_device, bytes, cudaStreamLegacy);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    return copy_peer("cudaMemcpyPeerAsync", to, to_device, from, from_device, bytes, stream);
}

/* ---- fills ---- */

static cudaError_t fill(const char *name, transfer what, cudaStream_t stream, bool waits)
{
    cudaError_t error = emu__begin(name, waits ? EMU__UNSAFE : 0);

    if (error) return emu__end(error);
    what.name = name;
    return emu__end(start(what, cudaMemcpyDefault, stream, waits));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    transfer what = line("", to, NULL, bytes);

    what.value = value;
    return fill("cudaMemset", what, cudaStreamLegacy, true);
}

cudaError_t cudaMemset_ptds(void *to, int value, size_t bytes);
cudaError_t cudaMemset_ptds(void *to, int value, size_t bytes)
{
    transfer what = line("", to, NULL, bytes);

    what.value = value;
    return fill("cudaMemset", what, cudaStreamPerThread, true);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    transfer what = line("", to, NULL, bytes);

    what.value = value;
    return fill("cudaMemsetAsync", what, stream, false);
}

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    transfer what = {"", to, NULL, pitch, 0, width, height, NULL, NULL, NULL, value};

    return fill("cudaMemset2D", what, cudaStreamLegacy, true);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    transfer what = {"", to, NULL, pitch, 0, width, height, NULL, NULL, NULL, value};

    return fill("cudaMemset2DAsync", what, stream, false);
}
