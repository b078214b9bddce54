/* select.h - which algorithm: a pure function of the operation and the table that a group's members agreed
 * on when it was made.  The only place that chooses. */
#ifndef WEFT_OPS_SELECT_H
#define WEFT_OPS_SELECT_H
#include "schedule.h"

/* What members agree on: rank_order if any of them asks for it, of the other fields the least of all members'
 * values.  Travels as it is. */
typedef struct weft__table {
    uint32_t rounds;      /* 1: all members share memory and have a row for this group (rounds.h) */
    uint32_t slot_bytes;  /* payload of one slot in a row */
    uint64_t small_bytes; /* up to here latency counts: doubling, trees, direct exchange */
    uint64_t rank_order;  /* 1: reductions go left to right over ranks (WEFT_REDUCE=rank_order) */
    uint64_t
        as_submitted; /* 1: device memory: every rank issues as it submits (WEFT_DEVICE_ORDER=submission) */
    uint64_t reserved[2];
} weft__table;

#define WEFT__TABLE_DEFAULT  \
    {                        \
        .small_bytes = 32768 \
    }

void weft__table_merge(weft__table *mine, const weft__table *other);

typedef void weft__build_fn(weft__schedule *s, const weft__op *op);
typedef struct weft__algorithm {
    const char *name;
    weft__build_fn *build;
} weft__algorithm;
weft__algorithm weft__select(const weft__op *op, int size, const weft__table *table);
#endif
