/* device.c - how many devices there are, and what they say of themselves. */
#include "device.h"
#include "capture.h"
#include "count.h"
#include "error.h"
#include "event.h"
#include "lock.h"
#include "memory.h"
#include "stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

emu__device emu__devices[EMU__DEVICES_MAX] = {
#define SERVED                             \
    {                                      \
        .served = PTHREAD_COND_INITIALIZER \
    }
    SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED,
    SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED, SERVED,
};

static _Thread_local int current;
static atomic_bool contexts[EMU__DEVICES_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int count;

static void read_count(void)
{
    const char *asked = getenv("CUDA_EMULATION_DEVICES");
    char *end;

    count = 1;
    if (!asked || !*asked) return;
    errno = 0;
    long value = strtol(asked, &end, 10);
    if (errno || *end || value < 0 || value > EMU__DEVICES_MAX) {
        fprintf(stderr, "emulation: CUDA_EMULATION_DEVICES: \"%s\": expected 0 to %d\n", asked,
                (int)EMU__DEVICES_MAX);
        _exit(EMU_MISUSE_STATUS);
    }
    count = (int)value;
}

int emu__device_count(void)
{
    pthread_once(&once, read_count);
    return count;
}

int emu__device_current(void)
{
    return current;
}

void emu__device_set(int device)
{
    current = device;
}

/* A context costs time and memory on a real device, and a process that has one on a device that it does not use
 * has made it unknowingly: so they are counted ("context1": on device 1), and a script can make them cost
 * (context@*=delay:300). */
void emu__device_enter(void)
{
    char name[32];

    if (atomic_load_explicit(&contexts[current], memory_order_relaxed) ||
        atomic_exchange(&contexts[current], true))
        return;
    snprintf(name, sizeof name, "context%d", current);
    emu__count(name);
    emu_event("context");
}

void emu__device_die(cudaError_t error)
{
    if (!emu__device_count()) return;
    emu__lock();
    if (!emu__devices[current].error) emu__devices[current].error = error;
    emu__unlock();
}

bool emu__device_valid(int device)
{
    return device >= 0 && device < emu__device_count();
}

cudaError_t cudaGetDeviceCount(int *devices)
{
    cudaError_t error = emu__begin("cudaGetDeviceCount", EMU__HARMLESS);

    if (error) return emu__end(error);
    if (!devices) return emu__end(cudaErrorInvalidValue);
    *devices = emu__device_count();
    return emu__end(*devices ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = emu__begin("cudaSetDevice", EMU__HARMLESS);

    if (error) return emu__end(error);
    if (!emu__device_count()) return emu__end(cudaErrorNoDevice);
    if (!emu__device_valid(device)) return emu__end(cudaErrorInvalidDevice);
    current = device;
    emu__device_enter(); /* from CUDA 12 on */
    return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    cudaError_t error = emu__begin("cudaInitDevice", 0);

    (void)device_flags;
    if (error) return emu__end(error);
    if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid) return emu__end(cudaErrorInvalidValue);
    return emu__end(emu__device_valid(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = emu__begin("cudaGetDevice", EMU__HARMLESS);

    if (error) return emu__end(error);
    if (!device) return emu__end(cudaErrorInvalidValue);
    if (!emu__device_count()) return emu__end(cudaErrorNoDevice);
    *device = current;
    return emu__end(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = emu__begin("cudaDeviceSynchronize", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = emu__capture_device_unseen(current);
    if (!error) error = emu__device_settle(current);
    emu__unlock();
    return emu__end(error);
}

/* Everything of the device goes, when its work is done.  A device that an error has destroyed stays so. */
static cudaError_t reset(int device)
{
    cudaError_t error = emu__capture_device_unseen(device);

    if (!error) error = emu__device_settle(device);
    if (error) return error;
    emu__streams_reset(device);
    emu__events_reset(device);
    emu__memory_reset(device, "cudaDeviceReset");
    emu__devices[device].peers = emu__devices[device].flags = 0;
    atomic_store(&contexts[device], false);
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = emu__begin("cudaDeviceReset", EMU__BLOCKS | EMU__UNSAFE);

    if (error) return emu__end(error);
    emu__lock();
    error = reset(current);
    emu__unlock();
    return emu__end(error);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    cudaError_t error = emu__begin("cudaRuntimeGetVersion", EMU__HARMLESS);

    if (error) return emu__end(error);
    if (!version) return emu__end(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    cudaError_t error = emu__begin("cudaDriverGetVersion", EMU__HARMLESS);

    if (error) return emu__end(error);
    if (!version) return emu__end(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}
