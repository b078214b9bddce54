/* memory.h - what was allocated, where, and what of it was freed. */
#ifndef EMULATION_MEMORY_H
#define EMULATION_MEMORY_H
#include "emulation.h"
#include "order.h"

typedef enum emu__kind {
    EMU__DEVICE,    /* in a device's window; its bytes are seen only through emu_host_view */
    EMU__MANAGED,   /* seen by all */
    EMU__PINNED,    /* of cudaMallocHost and cudaHostAlloc */
    EMU__REGISTERED /* the program's own, by cudaHostRegister */
} emu__kind;

typedef struct emu__block {
    uintptr_t at;
    size_t bytes; /* as asked for */
    emu__kind kind;
    int device;
    unsigned flags;
    const char *made_by;  /* the function, for messages */
    const char *freed_by; /* NULL: it lives */
    int registered;       /* with communicators, and not deregistered */
    const char *registered_by;
    emu__records records;
    struct emu__written *written; /* words in it that streams have written: word.h */
    struct emu__block *next_resting;
} emu__block;

/* The block that holds this address, also if it was freed lately; NULL: none.  Under the lock. */
emu__block *emu__block_at(const void *at);

/* EMU__DEVICE, EMU__MANAGED and EMU__PINNED get new memory, EMU__REGISTERED is the bytes at `at`. */
cudaError_t emu__block_make(emu__kind kind, int device, void *at, size_t bytes, const char *by,
                            emu__block **made);
/* No new work may use it; told as freed by this function from now on. */
void emu__block_retire(emu__block *block, const char *by);
/* Its memory goes, and it is forgotten some time after.  Only a retired one. */
void emu__block_release(emu__block *block);

/* All that was allocated on the device goes; nothing may use it any more. */
void emu__memory_reset(int device, const char *by);

size_t emu__memory_used(int device);
size_t emu__memory_total(void);             /* that each device has */
bool emu__memory_is_window(const void *at); /* device memory, allocated or not; needs no lock */
#endif
