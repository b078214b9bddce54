/* algorithms.c - the one table of algorithms.  The limits are those measured where nobody has tuned: up to
 * some 32 KiB the number of messages one after another decides, above that the bytes that each rank sends.
 * Never fails: of every kind, the last candidate by messages does any size, with and without rank order. */
#include "algorithms.h"

#define LATENCY_BYTES 32768
/* Of those whose ring goes round once or twice, against log n steps: that is twice as far. */
#define STEPS_BYTES 65536
/* A broadcast's tree sends all bytes at each level, but few messages. */
#define TREE_BYTES 131072
/* Halving and doubling send as much as a ring in fewer messages, but less of it at the same time. */
#define HALVING_BYTES 2097152
/* A chain of n ranks is worth its length once it has this many bytes for each of them. */
#define CHAIN_BYTES_PER_RANK 524288
/* Up to here in all a rank reads everything: one hop, and the reads fit the first-level cache. */
#define ALL_READ_BYTES 32768

#define NEVER                \
    {                        \
        WEFT__REACH_NEVER, 0 \
    }
#define ANY                \
    {                      \
        WEFT__REACH_ANY, 0 \
    }
#define SMALL                            \
    {                                    \
        WEFT__REACH_UP_TO, LATENCY_BYTES \
    }
#define FEW_STEPS                      \
    {                                  \
        WEFT__REACH_UP_TO, STEPS_BYTES \
    }
#define TREE_OR_2                             \
    {                                         \
        WEFT__REACH_UP_TO_OR_PAIR, TREE_BYTES \
    }
#define BEFORE_LONG                                  \
    {                                                \
        WEFT__REACH_UP_TO_EACH, CHAIN_BYTES_PER_RANK \
    }
#define BEFORE_RING                      \
    {                                    \
        WEFT__REACH_UP_TO, HALVING_BYTES \
    }
/* Two or three ranks send no fewer messages over distances. */
#define STEPS_OF_4                             \
    {                                          \
        WEFT__REACH_UP_TO_OF_FOUR, STEPS_BYTES \
    }
#define FITS_CACHE                               \
    {                                            \
        WEFT__REACH_UP_TO_SHARED, ALL_READ_BYTES \
    }

#define ROUNDS(kind, name, limit, ordered)                        \
    {                                                             \
        WEFT__OP_##kind, WEFT__ROUNDS, name, NULL, limit, ordered \
    }
#define MESSAGES(kind, name, build, limit, ordered)                                \
    {                                                                              \
        WEFT__OP_##kind, WEFT__MESSAGES, name, weft__build_##build, limit, ordered \
    }

/* clang-format off */
const weft__candidate weft__candidates[WEFT__CANDIDATES] = {
    /*                         name                  builder                 limit        in rank order */
    ROUNDS(BARRIER,            "all_read",                                   ANY,         NEVER),
    MESSAGES(BARRIER,          "dissemination",      dissemination_barrier,  ANY,         NEVER),

    ROUNDS(BROADCAST,          "all_read",                                   ANY,         NEVER),
    MESSAGES(BROADCAST,        "binomial_tree",      tree_broadcast,         TREE_OR_2,   NEVER),
    MESSAGES(BROADCAST,        "scatter_ring",       ring_broadcast,         BEFORE_LONG, NEVER),
    MESSAGES(BROADCAST,        "chain",              chain_broadcast,        ANY,         NEVER),

    ROUNDS(REDUCE,             "all_read",                                   ANY,         ANY),
    MESSAGES(REDUCE,           "binomial_tree",      tree_reduce,            SMALL,       NEVER),
    MESSAGES(REDUCE,           "ring_gather",        ring_reduce,            ANY,         NEVER),
    MESSAGES(REDUCE,           "direct",             ordered_reduce,         NEVER,       SMALL),
    MESSAGES(REDUCE,           "shares_gather",      ordered_shares,         NEVER,       ANY),

    ROUNDS(ALL_REDUCE,         "all_read",                                   FITS_CACHE,  FITS_CACHE),
    ROUNDS(ALL_REDUCE,         "slice_owner",                                ANY,         ANY),
    MESSAGES(ALL_REDUCE,       "recursive_doubling", doubling_all_reduce,    FEW_STEPS,   NEVER),
    MESSAGES(ALL_REDUCE,       "recursive_halving",  halving_all_reduce,     BEFORE_RING, NEVER),
    MESSAGES(ALL_REDUCE,       "ring",               ring_all_reduce,        ANY,         NEVER),
    MESSAGES(ALL_REDUCE,       "direct",             ordered_all_reduce,     NEVER,       SMALL),
    MESSAGES(ALL_REDUCE,       "shares",             ordered_shares,         NEVER,       ANY),

    ROUNDS(REDUCE_SCATTER,     "all_read",                                   ANY,         ANY),
    MESSAGES(REDUCE_SCATTER,   "recursive_halving",  halving_reduce_scatter, BEFORE_RING, NEVER),
    MESSAGES(REDUCE_SCATTER,   "direct",             ordered_reduce_scatter, NEVER,       ANY),
    MESSAGES(REDUCE_SCATTER,   "ring",               ring_reduce_scatter,    ANY,         NEVER),

    ROUNDS(ALL_GATHER,         "all_read",                                   ANY,         NEVER),
    MESSAGES(ALL_GATHER,       "bruck",              bruck_all_gather,       FEW_STEPS,   NEVER),
    MESSAGES(ALL_GATHER,       "recursive_doubling", doubling_all_gather,    BEFORE_RING, NEVER),
    MESSAGES(ALL_GATHER,       "ring",               ring_all_gather,        ANY,         NEVER),
    MESSAGES(ALL_GATHER,       "pairwise",           pairwise,               NEVER,       NEVER),

    ROUNDS(GATHER,             "all_read",                                   ANY,         NEVER),
    MESSAGES(GATHER,           "binomial_tree",      tree_gather,            SMALL,       NEVER),
    MESSAGES(GATHER,           "direct",             direct_gather,          ANY,         NEVER),

    ROUNDS(SCATTER,            "all_read",                                   ANY,         NEVER),
    MESSAGES(SCATTER,          "binomial_tree",      tree_scatter,           SMALL,       NEVER),
    MESSAGES(SCATTER,          "direct",             direct_scatter,         ANY,         NEVER),

    ROUNDS(ALL_TO_ALL,         "all_read",                                   ANY,         NEVER),
    MESSAGES(ALL_TO_ALL,       "bruck",              bruck_all_to_all,       STEPS_OF_4,  NEVER),
    MESSAGES(ALL_TO_ALL,       "pairwise",           pairwise,               ANY,         NEVER),

    MESSAGES(ALL_GATHER_V,     "pairwise",           pairwise,               SMALL,       NEVER),
    MESSAGES(ALL_GATHER_V,     "ring",               ring_all_gather,        ANY,         NEVER),

    /* Only the root knows the counts, so nobody can hand on the block of another. */
    MESSAGES(GATHER_V,         "direct",             direct_gather,          ANY,         NEVER),
    MESSAGES(SCATTER_V,        "direct",             direct_scatter,         ANY,         NEVER),

    MESSAGES(REDUCE_SCATTER_V, "direct",             ordered_reduce_scatter, SMALL,       ANY),
    MESSAGES(REDUCE_SCATTER_V, "ring",               ring_reduce_scatter,    ANY,         NEVER),

    MESSAGES(ALL_TO_ALL_V,     "pairwise",           pairwise,               ANY,         NEVER),
};
/* clang-format on */

weft__kind weft__family(weft__kind kind)
{
    bool gathers = kind == WEFT__OP_SPLIT_GROUP || kind == WEFT__OP_MESH_CREATE || kind == WEFT__OP_MEM_ALLOC;
    return gathers ? WEFT__OP_ALL_GATHER : kind;
}
