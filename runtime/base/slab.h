/* slab.h - fixed-size objects that are reused and never move: get and put are lock-free, memory comes in
 * blocks of 64 objects up to a limit, and goes back all at once.  A fresh object is zeroed; a reused one
 * is as its last user left it. */
#ifndef WEFT_BASE_SLAB_H
#define WEFT_BASE_SLAB_H
#include "check.h"
#include "lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT__SLAB_BLOCK 64 /* objects made at once */

/* The first member of every object kept in a slab. */
typedef struct weft__slab_item {
    uint32_t index;         /* its place, fixed */
    _Atomic uint32_t below; /* index + 1 of the next free one */
} weft__slab_item;

typedef struct weft__slab {
    _Alignas(WEFT__LINE) _Atomic uint64_t free_top; /* index + 1 below, a count against ABA above */
    _Alignas(WEFT__LINE) _Atomic(char *) *blocks;
    size_t item_bytes, limit;
    _Atomic uint32_t made;
    weft__lock growing;
} weft__slab;

/* item_bytes is rounded up to 64; false: no memory. */
bool weft__slab_init(weft__slab *slab, size_t item_bytes, size_t limit);
void weft__slab_destroy(weft__slab *slab);
/* NULL: no memory, or the limit is reached. */
void *weft__slab_get(weft__slab *slab);
void weft__slab_put(weft__slab *slab, void *object);
/* The item of that index, free or in use; NULL past those made. */
void *weft__slab_at(weft__slab *slab, uint32_t index);

/* The same two of a slab that is under somebody's lock: no turn at a shared word. */
static inline void *weft__slab_get_locked(weft__slab *slab)
{
    uint64_t top = atomic_load_explicit(&slab->free_top, memory_order_relaxed);
    uint32_t index = (uint32_t)top - 1;
    weft__slab_item *item;
    if (WEFT__UNLIKELY(!(uint32_t)top)) return weft__slab_get(slab);
    item = (weft__slab_item *)(void *)(atomic_load_explicit(&slab->blocks[index / WEFT__SLAB_BLOCK],
                                                            memory_order_relaxed) +
                                       index % WEFT__SLAB_BLOCK * slab->item_bytes);
    top = (top & ~(uint64_t)UINT32_MAX) | atomic_load_explicit(&item->below, memory_order_relaxed);
    atomic_store_explicit(&slab->free_top, top, memory_order_relaxed);
    return item;
}

static inline void weft__slab_put_locked(weft__slab *slab, void *object)
{
    weft__slab_item *item = object;
    uint64_t top = atomic_load_explicit(&slab->free_top, memory_order_relaxed);
    atomic_store_explicit(&item->below, (uint32_t)top, memory_order_relaxed);
    top = (top & ~(uint64_t)UINT32_MAX) | (item->index + 1);
    atomic_store_explicit(&slab->free_top, top, memory_order_relaxed);
}
#endif
