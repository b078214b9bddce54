/* properties.c - what the devices say of themselves.  Only what is so here, or must be some number: a
 * question to which the emulation has no answer is refused. */
#include "device.h"
#include "error.h"
#include "lock.h"
#include "memory.h"

#include <stdio.h>
#include <string.h>

enum {
    CAPABILITY_MAJOR = 9,
    CAPABILITY_MINOR = 0,
    PROCESSORS = 4,
    FIRST_BUS = 0x10, /* of device 0; each has one to itself */
    WARP = 32,
    BLOCK_THREADS = 1024,
    SHARED_BYTES = 48 * 1024,
    REGISTERS = 65536,
    GRID = 65535,
};

/* Known to each other by their buses, on all ranks. */
static void fill_uuid(cudaUUID_t *uuid, int device)
{
    memset(uuid, 0, sizeof *uuid);
    snprintf(uuid->bytes, sizeof uuid->bytes, "emulated %d", device);
}

static void fill_properties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "emulated device on the CPU");
    fill_uuid(&prop->uuid, device);
    prop->totalGlobalMem = emu__memory_total();
    prop->sharedMemPerBlock = prop->sharedMemPerMultiprocessor = prop->sharedMemPerBlockOptin = SHARED_BYTES;
    prop->regsPerBlock = prop->regsPerMultiprocessor = REGISTERS;
    prop->warpSize = WARP;
    prop->maxThreadsPerBlock = prop->maxThreadsPerMultiProcessor = BLOCK_THREADS;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = BLOCK_THREADS;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = prop->maxGridSize[1] = prop->maxGridSize[2] = GRID;
    prop->major = CAPABILITY_MAJOR;
    prop->minor = CAPABILITY_MINOR;
    prop->multiProcessorCount = PROCESSORS;
    prop->canMapHostMemory = prop->unifiedAddressing = prop->managedMemory = 1;
    prop->concurrentManagedAccess = prop->hostRegisterSupported = 1;
    prop->canUseHostPointerForRegisteredMem = 1;
    prop->concurrentKernels = prop->asyncEngineCount = prop->streamPrioritiesSupported = 1;
    prop->pciBusID = FIRST_BUS + device;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t error = emu__begin("cudaGetDeviceProperties", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!prop) return emu__end(cudaErrorInvalidValue);
    if (!emu__device_valid(device)) return emu__end(cudaErrorInvalidDevice);
    fill_properties(prop, device);
    return cudaSuccess;
}

/* False: the emulation has no answer. */
static bool attribute_of(int device, enum cudaDeviceAttr attribute, int *value)
{
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = BLOCK_THREADS; return true;
    case cudaDevAttrMaxBlockDimZ: *value = 64; return true;
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = GRID; return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = SHARED_BYTES; return true;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = REGISTERS; return true;
    case cudaDevAttrWarpSize: *value = WARP; return true;
    case cudaDevAttrMultiProcessorCount: *value = PROCESSORS; return true;
    case cudaDevAttrComputeCapabilityMajor: *value = CAPABILITY_MAJOR; return true;
    case cudaDevAttrComputeCapabilityMinor: *value = CAPABILITY_MINOR; return true;
    case cudaDevAttrPciBusId: *value = FIRST_BUS + device; return true;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem: *value = 1; return true;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrIntegrated:
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrGPUDirectRDMASupported:
    case cudaDevAttrMemoryPoolsSupported: /* cudaMallocAsync is there, pools are not */
    case cudaDevAttrClusterLaunch: *value = 0; return true;
    default: return false;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = emu__begin("cudaDeviceGetAttribute", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!value) return emu__end(cudaErrorInvalidValue);
    if (!emu__device_valid(device)) return emu__end(cudaErrorInvalidDevice);
    return emu__end(attribute_of(device, attribute, value) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    cudaError_t error = emu__begin("cudaDeviceGetPCIBusId", EMU__NO_CONTEXT);
    char text[16];

    if (error) return emu__end(error);
    if (!emu__device_valid(device)) return emu__end(cudaErrorInvalidDevice);
    int needed = snprintf(text, sizeof text, "0000:%02X:00.0", FIRST_BUS + device) + 1;
    if (!id || length < needed) return emu__end(cudaErrorInvalidValue);
    memcpy(id, text, (size_t)needed);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    cudaError_t error = emu__begin("cudaDeviceGetByPCIBusId", EMU__NO_CONTEXT);
    unsigned domain = 0, bus, slot, function = 0;

    if (error) return emu__end(error);
    if (!device || !id) return emu__end(cudaErrorInvalidValue);
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 &&
        (domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function) != 3))
        return emu__end(cudaErrorInvalidValue);
    if (domain || slot || function || bus < FIRST_BUS || !emu__device_valid((int)bus - FIRST_BUS))
        return emu__end(cudaErrorInvalidDevice);
    *device = (int)bus - FIRST_BUS;
    return cudaSuccess;
}

/* ---- peers: every device reaches the memory of every other, once that is enabled ---- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = emu__begin("cudaDeviceCanAccessPeer", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!can) return emu__end(cudaErrorInvalidValue);
    if (!emu__device_valid(device) || !emu__device_valid(peer)) return emu__end(cudaErrorInvalidDevice);
    *can = device != peer;
    return cudaSuccess;
}

static cudaError_t set_peer(int peer, bool enabled)
{
    int device = emu__device_current();
    unsigned bit;

    if (!emu__device_valid(peer) || peer == device) return cudaErrorInvalidDevice;
    bit = 1u << peer;
    emu__lock();
    unsigned before = emu__devices[device].peers;
    emu__devices[device].peers = enabled ? before | bit : before & ~bit;
    emu__unlock();
    if (enabled) return before & bit ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
    return before & bit ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    cudaError_t error = emu__begin("cudaDeviceEnablePeerAccess", 0);

    if (error) return emu__end(error);
    return emu__end(flags ? cudaErrorInvalidValue : set_peer(peer, true));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    cudaError_t error = emu__begin("cudaDeviceDisablePeerAccess", 0);

    return emu__end(error ? error : set_peer(peer, false));
}

/* ---- how a device waits, which changes nothing here ---- */

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    cudaError_t error = emu__begin("cudaSetDeviceFlags", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (flags & ~(unsigned)cudaDeviceMask) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    emu__devices[emu__device_current()].flags = flags;
    emu__unlock();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    cudaError_t error = emu__begin("cudaGetDeviceFlags", EMU__NO_CONTEXT);

    if (error) return emu__end(error);
    if (!flags) return emu__end(cudaErrorInvalidValue);
    emu__lock();
    *flags = emu__devices[emu__device_current()].flags | cudaDeviceMapHost;
    emu__unlock();
    return cudaSuccess;
}

/* ---- profilers, of which there is none here ---- */

cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStart(void)
{
    return emu__end(emu__begin("cudaProfilerStart", 0));
}

cudaError_t cudaProfilerStop(void);
cudaError_t cudaProfilerStop(void)
{
    return emu__end(emu__begin("cudaProfilerStop", 0));
}
