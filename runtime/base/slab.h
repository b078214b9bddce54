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
    uint32_t kept; /* index + 1 of the first that waits for the holder of the user's lock */
    weft__lock growing;
} weft__slab;

/* item_bytes is rounded up to 64; false: no memory. */
bool weft__slab_init(weft__slab *slab, size_t item_bytes, size_t limit);
void weft__slab_destroy(weft__slab *slab);
void weft__slab_put(weft__slab *slab, void *object);
/* The item of that index, free or in use; NULL past those made. */
void *weft__slab_at(weft__slab *slab, uint32_t index);

/* The item of an index that has been made: not checked. */
static inline weft__slab_item *weft__slab_item_at(weft__slab *slab, uint32_t index)
{
    char *block = atomic_load_explicit(&slab->blocks[index / WEFT__SLAB_BLOCK], memory_order_relaxed);
    return (weft__slab_item *)(void *)(block + index % WEFT__SLAB_BLOCK * slab->item_bytes);
}

/* NULL: none is free. */
static inline weft__slab_item *weft__slab_pop(weft__slab *slab)
{
    uint64_t top = atomic_load_explicit(&slab->free_top, memory_order_acquire);
    while ((uint32_t)top) {
        weft__slab_item *item = weft__slab_item_at(slab, (uint32_t)top - 1);
        /* `below` may be stale if another thread took the item meanwhile: then the count has moved on. */
        uint64_t next = ((top >> 32) + 1) << 32 | atomic_load_explicit(&item->below, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&slab->free_top, &top, next, memory_order_acquire,
                                                  memory_order_acquire))
            return item;
    }
    return NULL;
}

void *weft__slab_get_slow(weft__slab *slab); /* makes more */
/* NULL: no memory, or the limit is reached. */
static inline void *weft__slab_get(weft__slab *slab)
{
    weft__slab_item *item = weft__slab_pop(slab);
    return WEFT__LIKELY(item) ? item : weft__slab_get_slow(slab);
}

/* Get and put under the user's lock, which has free ones of its own: no access to a shared word.  When the
 * limit is reached those are not found without it. */
static inline void *weft__slab_get_locked(weft__slab *slab)
{
    weft__slab_item *item;
    if (WEFT__UNLIKELY(!slab->kept)) return weft__slab_get(slab);
    item = weft__slab_item_at(slab, slab->kept - 1);
    slab->kept = atomic_load_explicit(&item->below, memory_order_relaxed);
    return item;
}

/* Would that take one of these? */
static inline bool weft__slab_has_locked(const weft__slab *slab)
{
    return slab->kept;
}

static inline void weft__slab_put_locked(weft__slab *slab, void *object)
{
    weft__slab_item *item = object;
    atomic_store_explicit(&item->below, slab->kept, memory_order_relaxed);
    slab->kept = item->index + 1;
}

/* As many of those, up to a block, as there are, for those without the lock.  Under it. */
void weft__slab_share(weft__slab *slab);
#endif
