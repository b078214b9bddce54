/* device.h - the devices there are, and the current one of each thread. */
#ifndef EMULATION_DEVICE_H
#define EMULATION_DEVICE_H
#include "emulation.h"

#include <pthread.h>

enum { EMU__DEVICES_MAX = 16 };

typedef struct emu__device {
    uint64_t tickets, serving; /* of exclusive kernels, which begin in the order of their launches */
    int running;               /* such, and unordered ones */
    pthread_cond_t served;
    unsigned peers; /* whose memory was made accessible to it, a bit each */
    unsigned flags;
    cudaError_t error; /* the first one that destroyed it; cudaSuccess: it works */
} emu__device;

extern emu__device emu__devices[EMU__DEVICES_MAX]; /* under the lock */

int emu__device_count(void);
int emu__device_current(void);           /* of this thread */
void emu__device_set(int device);        /* for this thread, unasked */
bool emu__device_valid(int device);      /* there is such a device */
void emu__device_enter(void);            /* this process has a context on the current one from now on */
void emu__device_die(cudaError_t error); /* the current one, unless it has died before */
#endif
