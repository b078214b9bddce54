/* driver.c - functions of CUDA's driver, of which a program that has only the runtime asks by name.
 *
 * They make no context: on a real device a question to the driver costs none, and one to the runtime makes
 * that of the thread's current device.  A name that is not here is answered as by a driver that is too old. */
#include "device.h"
#include "error.h"
#include "lock.h"
#include "memory.h"
#include "word.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

static bool write_attribute(CUpointer_attribute what, const emu__block *block, void *to)
{
    bool lives = block && !block->freed_by;
    unsigned type = !lives                                                         ? 0
                    : block->kind == EMU__PINNED || block->kind == EMU__REGISTERED ? CU_MEMORYTYPE_HOST
                                                                                   : CU_MEMORYTYPE_DEVICE;
    unsigned managed = lives && block->kind == EMU__MANAGED;
    int device = lives ? block->device : -2;

    switch (what) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: memcpy(to, &type, sizeof type); return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: memcpy(to, &managed, sizeof managed); return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: memcpy(to, &device, sizeof device); return true;
    default: return false;
    }
}

/* Where CUDA has no memory it says so by values that mean nothing, and succeeds. */
static CUresult cu_pointer_get_attributes(unsigned count, CUpointer_attribute *what, void **to,
                                          CUdeviceptr at)
{
    cudaError_t error = emu__begin("cuPointerGetAttributes", EMU__NO_CONTEXT);

    if (!error && (!count || !what || !to)) error = cudaErrorInvalidValue;
    if (error) return (CUresult)error; /* their numbers are the runtime's */
    emu__lock();
    for (unsigned i = 0; i < count && !error; i++)
        if (!write_attribute(what[i], emu__block_at((const void *)(uintptr_t)at), to[i]))
            error = cudaErrorNotSupported;
    emu__unlock();
    return (CUresult)error;
}

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    {"cuPointerGetAttributes", (void (*)(void))cu_pointer_get_attributes},
    {"cuStreamWaitValue32", (void (*)(void))emu__word_wait_32},
    {"cuStreamWaitValue64", (void (*)(void))emu__word_wait_64},
    {"cuStreamWriteValue32", (void (*)(void))emu__word_write_32},
    {"cuStreamWriteValue64", (void (*)(void))emu__word_write_64},
};

/* By script a driver may be one that lacks it: "without_cuStreamWaitValue32@*=value:1". */
static bool is_left_out(const char *name)
{
    char word[64];

    snprintf(word, sizeof word, "without_%s", name);
    return emu_event(word) > 0;
}

static cudaError_t find(const char *name, void **function, enum cudaDriverEntryPointQueryResult *how)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;

    if (!name || !function) return cudaErrorInvalidValue;
    *function = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name) && !is_left_out(name)) {
            memcpy(function, &functions[i].function, sizeof *function);
            found = cudaDriverEntryPointSuccess;
        }
    if (how) *how = found;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *how)
{
    cudaError_t error = emu__begin("cudaGetDriverEntryPointByVersion", EMU__NO_CONTEXT);

    (void)version, (void)flags;
    return emu__end(error ? error : find(name, function, how));
}
#endif

cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *how)
{
    cudaError_t error = emu__begin("cudaGetDriverEntryPoint", EMU__NO_CONTEXT);

    (void)flags;
    return emu__end(error ? error : find(name, function, how));
}
