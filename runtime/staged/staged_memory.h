/* staged_memory.h - device memory that weft_mem_alloc gives: CUDA's own, and known to nobody else. */
#ifndef WEFT_STAGED_MEMORY_H
#define WEFT_STAGED_MEMORY_H
#include "staged.h"

/* Slots of the seam. */
weft_status weft__staged_alloc(weft_backend *backend, size_t bytes, void **ptr);
weft_status weft__staged_free(weft_backend *backend, void *ptr);
#endif
