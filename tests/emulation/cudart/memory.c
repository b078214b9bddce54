/* memory.c - device memory, managed and pinned memory.
 *
 * Each device has a window of addresses, many times larger than its memory, backed by one memory file that is
 * mapped twice: where the program sees it, without any access, and once more for the emulation.  What is
 * freed keeps its addresses until EMU__RESTING others are freed, so that late use is known as such.  Managed
 * and pinned memory are ordinary mappings.  A table in the order of addresses holds all of them. */
#include "memory.h"
#include "device.h"
#include "error.h"
#include "fault.h"
#include "lock.h"
#include "word.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE         ((size_t)4096)
#define WINDOW_TIMES 16                /* the memory of a device */
#define MEMORY_BYTES ((size_t)1 << 30) /* unless CUDA_EMULATION_MEMORY says otherwise */
#define FILL_BYTES   ((size_t)1 << 16) /* the beginning of new device memory holds what looks like nothing */
#define FILL         0xdb

enum { RESTING = 1024 };

typedef struct {
    _Atomic uintptr_t base; /* where the program sees it; 0: not there yet */
    uintptr_t bytes;
    uintptr_t view; /* where the emulation sees it */
    int file;
    uintptr_t next; /* where the next allocation is tried */
    size_t used;
} window;

static window windows[EMU__DEVICES_MAX];

static emu__block **blocks; /* in the order of their addresses; no two overlap */
static size_t block_count, block_room;
static emu__block *resting, **last_resting = &resting;
static int resting_count;

/* ---- the table ---- */

/* How many begin at or before this address. */
static size_t count_upto(uintptr_t at)
{
    size_t low = 0, high = block_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blocks[middle]->at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

emu__block *emu__block_at(const void *at)
{
    size_t count = count_upto((uintptr_t)at);
    emu__block *block = count ? blocks[count - 1] : NULL;

    return block && (uintptr_t)at - block->at < block->bytes ? block : NULL;
}

static bool enter(emu__block *block)
{
    size_t index = count_upto(block->at);

    if (block_count == block_room) {
        size_t room = block_room ? 2 * block_room : 64;
        emu__block **grown = realloc(blocks, room * sizeof *grown);
        if (!grown) return false;
        blocks = grown;
        block_room = room;
    }
    memmove(blocks + index + 1, blocks + index, (block_count - index) * sizeof *blocks);
    blocks[index] = block;
    block_count++;
    return true;
}

static void leave(const emu__block *block)
{
    size_t index = count_upto(block->at) - 1;

    memmove(blocks + index, blocks + index + 1, (block_count - index - 1) * sizeof *blocks);
    block_count--;
}

static size_t in_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

/* ---- windows ---- */

size_t emu__memory_total(void)
{
    static _Atomic size_t total;
    const char *asked = getenv("CUDA_EMULATION_MEMORY");
    size_t known = atomic_load(&total);
    char *end;

    if (known) return known;
    known = MEMORY_BYTES;
    if (asked && *asked) {
        errno = 0;
        unsigned long long value = strtoull(asked, &end, 10);
        if (errno || *end || value < PAGE || value > (size_t)1 << 38) {
            fprintf(stderr, "emulation: CUDA_EMULATION_MEMORY: \"%s\": expected bytes from %zu to %zu\n",
                    asked, PAGE, (size_t)1 << 38);
            _exit(EMU_MISUSE_STATUS);
        }
        known = in_pages((size_t)value);
    }
    atomic_store(&total, known);
    return known;
}

size_t emu__memory_used(int device)
{
    return windows[device].used;
}

static cudaError_t open_window(window *made)
{
    size_t bytes = emu__memory_total() * WINDOW_TIMES;
    int file = memfd_create("emulated device memory", MFD_CLOEXEC);
    void *program = MAP_FAILED;
    void *view = MAP_FAILED;

    if (file >= 0 && !ftruncate(file, (off_t)bytes)) {
        program = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
        view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    if (program == MAP_FAILED || view == MAP_FAILED) {
        fprintf(stderr, "emulation: no addresses for device memory: %s\n", strerror(errno));
        if (program != MAP_FAILED) munmap(program, bytes);
        if (view != MAP_FAILED) munmap(view, bytes);
        if (file >= 0) close(file);
        return cudaErrorMemoryAllocation;
    }
    made->file = file;
    made->bytes = bytes;
    made->view = (uintptr_t)view;
    made->next = (uintptr_t)program;
    atomic_store(&made->base, (uintptr_t)program);
    return cudaSuccess;
}

static const window *window_of(const void *at)
{
    for (int i = 0; i < EMU__DEVICES_MAX; i++) {
        uintptr_t base = atomic_load_explicit(&windows[i].base, memory_order_acquire);
        if (base && (uintptr_t)at - base < windows[i].bytes) return &windows[i];
    }
    return NULL;
}

bool emu__memory_is_window(const void *at)
{
    return window_of(at) != NULL;
}

void *emu_host_view(const void *at)
{
    const window *in = window_of(at);
    uintptr_t address = (uintptr_t)at;

    return (void *)(in ? address - atomic_load_explicit(&in->base, memory_order_relaxed) + in->view
                       : address);
}

/* ---- taking and giving ---- */

static void forget_oldest(void)
{
    emu__block *block = resting;

    resting = block->next_resting;
    if (!resting) last_resting = &resting;
    resting_count--;
    leave(block);
    if (block->kind != EMU__DEVICE) munmap((void *)block->at, in_pages(block->bytes));
    free(block);
}

/* The first gap of so many bytes from `next` on, else from the start; 0: there is none. */
static uintptr_t find_gap(const window *in, uintptr_t from, size_t bytes)
{
    uintptr_t end = atomic_load(&in->base) + in->bytes;
    size_t index = count_upto(from);

    if (index && blocks[index - 1]->at + in_pages(blocks[index - 1]->bytes) > from)
        from = blocks[index - 1]->at + in_pages(blocks[index - 1]->bytes);
    for (; end - from >= bytes; index++) {
        if (index == block_count || blocks[index]->at >= end || blocks[index]->at - from >= bytes)
            return from;
        from = blocks[index]->at + in_pages(blocks[index]->bytes);
        if (from > end) break;
    }
    return 0;
}

static cudaError_t take_device(window *in, size_t bytes, uintptr_t *at)
{
    cudaError_t error;

    if (!atomic_load(&in->base) && (error = open_window(in))) return error;
    if (bytes > emu__memory_total() - in->used) return cudaErrorMemoryAllocation;
    while (!(*at = find_gap(in, in->next, bytes)) && !(*at = find_gap(in, atomic_load(&in->base), bytes))) {
        if (!resting) return cudaErrorMemoryAllocation;
        forget_oldest();
    }
    in->next = *at + bytes;
    in->used += bytes;
    memset(emu_host_view((void *)*at), FILL, bytes < FILL_BYTES ? bytes : FILL_BYTES);
    return cudaSuccess;
}

static cudaError_t take_host(size_t bytes, uintptr_t *at)
{
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (made == MAP_FAILED) return cudaErrorMemoryAllocation;
    *at = (uintptr_t)made;
    return cudaSuccess;
}

/* The memory only: what stands at the addresses stays in the table. */
static void drop_bytes(const emu__block *block)
{
    size_t bytes = in_pages(block->bytes);
    window *in = &windows[block->device];

    switch (block->kind) {
    case EMU__DEVICE:
        in->used -= bytes;
        if (fallocate(in->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      (off_t)(block->at - atomic_load(&in->base)), (off_t)bytes)) {
            /* It stays in memory until it is used again; nothing else changes. */
        }
        break;
    case EMU__MANAGED:
    case EMU__PINNED:
        madvise((void *)block->at, bytes, MADV_DONTNEED);
        mprotect((void *)block->at, bytes, PROT_NONE);
        break;
    case EMU__REGISTERED: break;
    }
}

cudaError_t emu__block_make(emu__kind kind, int device, void *at, size_t bytes, const char *by,
                            emu__block **made)
{
    emu__block *block = calloc(1, sizeof *block);
    cudaError_t error = cudaSuccess;

    if (!block) return cudaErrorMemoryAllocation;
    emu__error_started();
    emu__fault_watch();
    *block = (emu__block){.at = (uintptr_t)at, .bytes = bytes, .kind = kind, .device = device, .made_by = by};
    if (bytes > SIZE_MAX / 2)
        error = cudaErrorMemoryAllocation;
    else if (kind == EMU__DEVICE)
        error = take_device(&windows[device], in_pages(bytes), &block->at);
    else if (kind != EMU__REGISTERED)
        error = take_host(in_pages(bytes), &block->at);
    if (!error && !enter(block)) {
        drop_bytes(block);
        error = cudaErrorMemoryAllocation;
    }
    if (error)
        free(block);
    else
        *made = block;
    return error;
}

void emu__block_retire(emu__block *block, const char *by)
{
    block->freed_by = by;
}

void emu__block_release(emu__block *block)
{
    emu__order_forget(&block->records);
    emu__written_free(block->written);
    block->written = NULL;
    drop_bytes(block);
    if (block->kind == EMU__REGISTERED) { /* the program's own; it may do with it what it likes */
        leave(block);
        free(block);
        return;
    }
    block->next_resting = NULL;
    *last_resting = block;
    last_resting = &block->next_resting;
    if (++resting_count > RESTING) forget_oldest();
}

void emu__memory_reset(int device, const char *by)
{
    /* One that was freed in a stream's order is released by its stream. */
    for (size_t i = 0; i < block_count; i++) {
        emu__block *block = blocks[i];
        if (block->device != device || block->freed_by || block->kind == EMU__REGISTERED) continue;
        emu__block_retire(block, by);
        emu__block_release(block);
        i = (size_t)-1; /* what was freed longest ago may have left the table: from the start again */
    }
}
