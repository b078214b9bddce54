/* host.h - what NCCL knows a GPU by: its host and its place on the bus. */
#ifndef EMULATION_NCCL_HOST_H
#define EMULATION_NCCL_HOST_H
#include <stdbool.h>
#include <stdint.h>

typedef struct host_device {
    uint64_t host;
    char bus[32];
} host_device;

host_device host_device_of(int device);
bool host_device_same(const host_device *a, const host_device *b);
/* NCCL_MULTI_RANK_GPU_ENABLE=1, from 2.30 on. */
bool host_device_shareable(void);
#endif
