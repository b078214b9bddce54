#include "slab.h"

#include <stdlib.h>
#include <string.h>

bool weft__slab_init(weft__slab *slab, size_t item_bytes, size_t limit)
{
    memset(slab, 0, sizeof *slab);
    slab->item_bytes = (item_bytes + 63) / 64 * 64;
    slab->limit = (limit + WEFT__SLAB_BLOCK - 1) / WEFT__SLAB_BLOCK * WEFT__SLAB_BLOCK;
    slab->blocks = calloc(slab->limit / WEFT__SLAB_BLOCK, sizeof *slab->blocks);
    return slab->blocks != NULL;
}

void weft__slab_destroy(weft__slab *slab)
{
    uint32_t made = atomic_load_explicit(&slab->made, memory_order_relaxed);
    for (uint32_t i = 0; slab->blocks && i < made / WEFT__SLAB_BLOCK; i++) free(slab->blocks[i]);
    free((void *)slab->blocks);
    slab->blocks = NULL;
}

void *weft__slab_at(weft__slab *slab, uint32_t index)
{
    char *block;
    if (index >= atomic_load_explicit(&slab->made, memory_order_acquire)) return NULL;
    block = atomic_load_explicit(&slab->blocks[index / WEFT__SLAB_BLOCK], memory_order_acquire);
    return block + index % WEFT__SLAB_BLOCK * slab->item_bytes;
}

static bool slab_grow(weft__slab *slab)
{
    uint32_t made = atomic_load_explicit(&slab->made, memory_order_relaxed);
    char *block;
    if (made >= slab->limit) return false;
    block = aligned_alloc(64, WEFT__SLAB_BLOCK * slab->item_bytes);
    if (!block) return false;
    memset(block, 0, WEFT__SLAB_BLOCK * slab->item_bytes);
    for (uint32_t i = 0; i < WEFT__SLAB_BLOCK; i++)
        ((weft__slab_item *)(void *)(block + i * slab->item_bytes))->index = made + i;
    atomic_store_explicit(&slab->blocks[made / WEFT__SLAB_BLOCK], block, memory_order_release);
    atomic_store_explicit(&slab->made, made + WEFT__SLAB_BLOCK, memory_order_release);
    for (uint32_t i = WEFT__SLAB_BLOCK; i-- > 0;) weft__slab_put(slab, block + i * slab->item_bytes);
    return true;
}

void *weft__slab_get_slow(weft__slab *slab)
{
    weft__slab_item *item = NULL;
    while (!item) {
        bool more;
        weft__lock_take(&slab->growing);
        item = weft__slab_pop(slab); /* somebody may have grown it, or put one back */
        more = item || slab_grow(slab);
        weft__lock_drop(&slab->growing);
        if (!more) return NULL;
        if (!item) item = weft__slab_pop(slab);
    }
    return item;
}

void weft__slab_put(weft__slab *slab, void *object)
{
    weft__slab_item *item = object;
    uint64_t top = atomic_load_explicit(&slab->free_top, memory_order_relaxed), next;
    do {
        atomic_store_explicit(&item->below, (uint32_t)top, memory_order_relaxed);
        next = ((top >> 32) + 1) << 32 | (item->index + 1);
    } while (!atomic_compare_exchange_weak_explicit(&slab->free_top, &top, next, memory_order_release,
                                                    memory_order_relaxed));
}

void weft__slab_share(weft__slab *slab)
{
    for (int n = 0; n < WEFT__SLAB_BLOCK && slab->kept; n++) {
        weft__slab_item *item = weft__slab_item_at(slab, slab->kept - 1);
        slab->kept = atomic_load_explicit(&item->below, memory_order_relaxed);
        weft__slab_put(slab, item);
    }
}
