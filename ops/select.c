/* select.c - the one place that chooses an algorithm.  Pure, and never fails: every kind has one at any size.
 *
 * Up to small_bytes the number of messages one after another decides, above it the bytes of each rank. */
#include "select.h"

#include "algorithms.h"
#include "check.h"

/* A chain of n ranks is worth its length once it has this many bytes for each of them. */
#define CHAIN_BYTES_PER_RANK 32768

void weft__table_merge(weft__table *mine, const weft__table *other)
{
    if (other->rounds < mine->rounds) mine->rounds = other->rounds;
    if (other->slot_bytes < mine->slot_bytes) mine->slot_bytes = other->slot_bytes;
    if (other->small_bytes < mine->small_bytes) mine->small_bytes = other->small_bytes;
    if (other->rank_order > mine->rank_order) mine->rank_order = other->rank_order;
    if (other->as_submitted < mine->as_submitted) mine->as_submitted = other->as_submitted;
    for (size_t i = 0; i < WEFT__LENGTH(mine->reserved); i++)
        if (other->reserved[i] < mine->reserved[i]) mine->reserved[i] = other->reserved[i];
}

static weft__algorithm choose(bool small, weft__algorithm latency, weft__algorithm bandwidth)
{
    return small ? latency : bandwidth;
}

static weft__algorithm for_broadcast(size_t bytes, int size, const weft__table *table)
{
    if (bytes <= table->small_bytes || size == 2)
        return (weft__algorithm){"binomial_tree", weft__build_tree_broadcast};
    return choose(bytes / CHAIN_BYTES_PER_RANK < (size_t)size,
                  (weft__algorithm){"scatter_ring", weft__build_ring_broadcast},
                  (weft__algorithm){"chain", weft__build_chain_broadcast});
}

/* Who owns what is reduced hears everybody's operand: in rounds of shared memory it is so anyhow. */
static weft__algorithm in_rank_order(const weft__op *op, bool small)
{
    if (op->kind == WEFT__OP_REDUCE_SCATTER || op->kind == WEFT__OP_REDUCE_SCATTER_V)
        return (weft__algorithm){"direct", weft__build_ordered_reduce_scatter};
    if (op->kind == WEFT__OP_REDUCE)
        return choose(small, (weft__algorithm){"direct", weft__build_ordered_reduce},
                      (weft__algorithm){"shares_gather", weft__build_ordered_shares});
    return choose(small, (weft__algorithm){"direct", weft__build_ordered_all_reduce},
                  (weft__algorithm){"shares", weft__build_ordered_shares});
}

/* Bytes of all ranks' blocks. */
static size_t all_blocks(const weft__op *op, int size)
{
    size_t all = op->uneven ? op->uneven->in.total + op->uneven->out.total : op->count * (size_t)size;
    return all * weft_dtype_size(op->dtype);
}

weft__algorithm weft__select(const weft__op *op, int size, const weft__table *table)
{
    size_t block = op->count * weft_dtype_size(op->dtype);
    bool small_block = block <= table->small_bytes, small_total = all_blocks(op, size) <= table->small_bytes;
    if (size == 1) return (weft__algorithm){"local", weft__build_local};
    if (table->rank_order && weft__kind_traits(op->kind) & WEFT__REDUCES)
        return in_rank_order(op, small_block);
    switch (op->kind) {
    case WEFT__OP_BROADCAST: return for_broadcast(block, size, table);
    case WEFT__OP_REDUCE:
        return choose(small_block, (weft__algorithm){"binomial_tree", weft__build_tree_reduce},
                      (weft__algorithm){"ring_gather", weft__build_ring_reduce});
    case WEFT__OP_ALL_REDUCE:
        return choose(small_block, (weft__algorithm){"recursive_doubling", weft__build_doubling_all_reduce},
                      (weft__algorithm){"ring", weft__build_ring_all_reduce});
    case WEFT__OP_REDUCE_SCATTER:
    case WEFT__OP_REDUCE_SCATTER_V:
        return choose(small_total, (weft__algorithm){"direct", weft__build_ordered_reduce_scatter},
                      (weft__algorithm){"ring", weft__build_ring_reduce_scatter});
    case WEFT__OP_ALL_GATHER:
    case WEFT__OP_SPLIT_GROUP:
    case WEFT__OP_MESH_CREATE:
    case WEFT__OP_MEM_ALLOC:
        return choose(small_total, (weft__algorithm){"bruck", weft__build_bruck_all_gather},
                      (weft__algorithm){"ring", weft__build_ring_all_gather});
    case WEFT__OP_ALL_GATHER_V:
        return choose(small_total, (weft__algorithm){"pairwise", weft__build_pairwise},
                      (weft__algorithm){"ring", weft__build_ring_all_gather});
    case WEFT__OP_GATHER:
        return choose(small_total, (weft__algorithm){"binomial_tree", weft__build_tree_gather},
                      (weft__algorithm){"direct", weft__build_direct_gather});
    case WEFT__OP_SCATTER:
        return choose(small_total, (weft__algorithm){"binomial_tree", weft__build_tree_scatter},
                      (weft__algorithm){"direct", weft__build_direct_scatter});
    /* Only the root knows the counts, so nobody can hand on the block of another. */
    case WEFT__OP_GATHER_V: return (weft__algorithm){"direct", weft__build_direct_gather};
    case WEFT__OP_SCATTER_V: return (weft__algorithm){"direct", weft__build_direct_scatter};
    case WEFT__OP_ALL_TO_ALL:
    case WEFT__OP_ALL_TO_ALL_V: return (weft__algorithm){"pairwise", weft__build_pairwise};
    default:
        WEFT__ASSERT(op->kind == WEFT__OP_BARRIER); /* the others are not collectives */
        return (weft__algorithm){"dissemination", weft__build_dissemination_barrier};
    }
}
