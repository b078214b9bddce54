/* mpsc.h - intrusive queue: any thread pushes without a lock, the one holder of the consumer's lock takes
 * all. A push is one compare-and-swap; take_all returns the nodes in the order of pushing. */
#ifndef WEFT_BASE_MPSC_H
#define WEFT_BASE_MPSC_H
#include "check.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct weft__mpsc_node {
    struct weft__mpsc_node *next;
} weft__mpsc_node;

typedef struct weft__mpsc {
    _Alignas(WEFT__LINE) _Atomic(weft__mpsc_node *) head; /* the newest; each points to the one before it */
} weft__mpsc;

/* Sequentially consistent, so that a check of "does the consumer sleep?" may follow it. */
static inline void weft__mpsc_push(weft__mpsc *q, weft__mpsc_node *node)
{
    weft__mpsc_node *old = atomic_load_explicit(&q->head, memory_order_relaxed);
    do {
        node->next = old;
    } while (!atomic_compare_exchange_weak_explicit(&q->head, &old, node, memory_order_seq_cst,
                                                    memory_order_relaxed));
}

static inline bool weft__mpsc_empty(weft__mpsc *q)
{
    return atomic_load_explicit(&q->head, memory_order_seq_cst) == NULL;
}

/* The oldest node first, or NULL. */
static inline weft__mpsc_node *weft__mpsc_take_all(weft__mpsc *q)
{
    weft__mpsc_node *node, *ordered = NULL;
    if (!atomic_load_explicit(&q->head, memory_order_relaxed)) return NULL;
    node = atomic_exchange_explicit(&q->head, NULL, memory_order_acquire);
    while (node) {
        weft__mpsc_node *next = node->next;
        node->next = ordered;
        ordered = node;
        node = next;
    }
    return ordered;
}
#endif
