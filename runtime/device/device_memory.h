/* device_memory.h - mem_alloc's device memory: allocated and, where the module can, made known to the peers
 * of its group, so that operations on it are fast there. */
#ifndef WEFT_RUNTIME_DEVICE_MEMORY_H
#define WEFT_RUNTIME_DEVICE_MEMORY_H
#include "context.h"

typedef struct weft__device_memory {
    weft__list link; /* ctx->device_memory */
    void *at;
    size_t bytes;
    weft__module *module;
} weft__device_memory;

/* Zeroed.  The caller's thread; may block. */
weft_status weft__device_memory_make(weft__module *module, size_t bytes, weft__device_memory **made);
bool weft__device_memory_is_shareable(const weft__device_memory *made);
/* All members of group have made theirs, which is shareable: a collective, which waits. */
weft_status weft__device_memory_join(weft_group *group, weft__device_memory *made);
void weft__device_memory_keep(weft_context *ctx, weft__device_memory *made); /* its ranks are told nothing */
weft__device_memory *weft__device_memory_find(weft_context *ctx, const void *at); /* engine; NULL: none */
weft_status weft__device_memory_free(weft__device_memory *made);                  /* in no list any more */
void weft__device_memory_close(weft_context *ctx);
#endif
