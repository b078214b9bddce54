/* candidates.h - the one table of algorithms, a row each: which operation it can do, by rounds in memory that
 * all members share or by messages, and up to how many bytes it is chosen, on one host and over several.  What
 * counts rows counts them here.
 *
 * The order is that in which candidates are asked; the last row of a kind by messages must do any size, with
 * and without rank order.  NEVER as limit: only when asked for by name; in rank order (WEFT_REDUCE=rank_order):
 * it cannot do that. */
#ifndef WEFT_OPS_CANDIDATES_H
#define WEFT_OPS_CANDIDATES_H

/* clang-format off */
/* X(ID, reach, bytes).  The limits are those measured where nobody has tuned: up to some 32 KiB the number of
 * messages one after another decides, above that the bytes that each rank sends.  NEVER and ANY, which are no
 * number of bytes and so cannot be tuned, stand first.
 *   FEW_STEPS    log n messages against a ring's n or 2n: so few are worth it for twice as many bytes
 *   STEPS_OF_4   as FEW_STEPS, from four ranks on: two or three send as many messages either way
 *   TREE         a reduction's tree sends all bytes at each level, but few messages
 *   TREE_OR_2    likewise of a broadcast
 *   BEFORE_RING  halving and doubling send as much as a ring in fewer messages, but less of it at the same time
 *   BEFORE_LONG  a chain is worth its length once it has this many bytes for each rank; of many the ring is as long
 *   FITS_CACHE   up to here in all a rank reads everything: one hop, and the reads fit the first-level cache
 * Those of a tree and of halving and doubling grow with the ranks, as a ring's messages one after another do.
 * Over several hosts it is the bytes over a host's link that decide, and how often one message waits for another
 * from a host to a host:
 *   FEW_BYTES    so few that only the messages count
 *   FEW_EACH     so few for each rank that one message for each other rank is too many
 *   BY_HOSTS     a tree of hosts sends all bytes at each level; a chain or ring waits for as many messages as there
 *                are ranks, so this grows with them, unless halves can be dealt out, which is for many hosts
 *   FEW_HOSTS    members of all hosts hear from each other directly: among not too many
 *   TO_2_MIB     likewise, and with as much memory for partial sums
 *   MANY_HOSTS   among more: halving or doubling, until a ring's messages are long enough
 *   MANY_TWICE   likewise of an all_reduce, whose ring goes round twice
 *   MANY_CHAIN   likewise of a broadcast, whose chain is too long among so many ranks that 256 segments do not fill it
 *   FEW_OR_MANY  FEW_BYTES among few hosts, as MANY_HOSTS among more, and longer: a ring's rounds reduce as they go
 *   MANY_BLOCKS  SMALL among few hosts; among more a root that has a message for each rank is busy with these
 * Those for many hosts are what tests/sim/test_scale.c finds for a model of a network (tests/sim/README.md). */
#define WEFT__LIMITS(X)                     \
    X(NEVER,       NEVER,         0)        \
    X(ANY,         ANY,           0)        \
    X(SMALL,       UP_TO,         32768)    \
    X(FEW_STEPS,   UP_TO,         65536)    \
    X(STEPS_OF_4,  UP_TO_OF_FOUR, 65536)    \
    X(TREE_OR_2,   UP_TO_OR_PAIR, 131072)   \
    X(BEFORE_RING, UP_TO_BY_RANKS, 2097152) \
    X(TREE,        UP_TO_BY_RANKS, 32768)   \
    X(BEFORE_LONG, UP_TO_EACH_OF_8, 524288) \
    X(FITS_CACHE,  UP_TO_SHARED,  32768)    \
    X(FEW_BYTES,   UP_TO,         4096)     \
    X(FEW_EACH,    UP_TO_EACH,    512)      \
    X(BY_HOSTS,    UP_TO_OR_EACH, 4096)     \
    X(FEW_HOSTS,   FEW_HOSTS,     0)        \
    X(TO_2_MIB,    FEW_HOSTS,     2097152)  \
    X(MANY_HOSTS,  MANY_EACH,     16384)    \
    X(MANY_TWICE,  MANY_EACH,     49152)    \
    X(MANY_CHAIN,  MANY_OR_LONG,  16384)    \
    X(FEW_OR_MANY, FEW_OR_EACH,   32768)    \
    X(MANY_BLOCKS, SMALL_OR_EACH, 8192)

/* ROUNDS(ARG, KIND, name, limit, limit in rank order), MESSAGES(ARG, KIND, name, builder, limit, limit over
 * several hosts, limit in rank order).  ARG: for those who make something of the rows; passed on as it is. */
#define WEFT__CANDIDATE_LIST(ROUNDS, MESSAGES, ARG)                                                                     \
    ROUNDS(ARG, BARRIER,            "all_read",                                     ANY,                      NEVER)    \
    MESSAGES(ARG, BARRIER,          "dissemination",      dissemination_barrier,    ANY,         ANY,         NEVER)    \
                                                                                                                        \
    ROUNDS(ARG, BROADCAST,          "all_read",                                     ANY,                      NEVER)    \
    MESSAGES(ARG, BROADCAST,        "binomial_tree",      tree_broadcast,           TREE_OR_2,   BY_HOSTS,    NEVER)    \
    MESSAGES(ARG, BROADCAST,        "scatter_doubling",   doubling_broadcast,       NEVER,       MANY_CHAIN,  NEVER)    \
    MESSAGES(ARG, BROADCAST,        "scatter_ring",       ring_broadcast,           BEFORE_LONG, NEVER,       NEVER)    \
    MESSAGES(ARG, BROADCAST,        "chain",              chain_broadcast,          ANY,         ANY,         NEVER)    \
                                                                                                                        \
    ROUNDS(ARG, REDUCE,             "all_read",                                     ANY,                      ANY)      \
    MESSAGES(ARG, REDUCE,           "binomial_tree",      tree_reduce,              TREE,        BY_HOSTS,    NEVER)    \
    MESSAGES(ARG, REDUCE,           "halving_gather",     halving_reduce,           NEVER,       MANY_HOSTS,  NEVER)    \
    MESSAGES(ARG, REDUCE,           "ring_gather",        ring_reduce,              ANY,         ANY,         NEVER)    \
    MESSAGES(ARG, REDUCE,           "direct",             ordered_reduce,           NEVER,       NEVER,       SMALL)    \
    MESSAGES(ARG, REDUCE,           "shares_gather",      ordered_shares,           NEVER,       NEVER,       ANY)      \
                                                                                                                        \
    ROUNDS(ARG, ALL_REDUCE,         "all_read",                                     FITS_CACHE,               FITS_CACHE)\
    ROUNDS(ARG, ALL_REDUCE,         "slice_owner",                                  ANY,                      ANY)      \
    MESSAGES(ARG, ALL_REDUCE,       "recursive_doubling", doubling_all_reduce,      FEW_STEPS,   FEW_BYTES,   NEVER)    \
    MESSAGES(ARG, ALL_REDUCE,       "recursive_halving",  halving_all_reduce,       BEFORE_RING, MANY_TWICE,  NEVER)    \
    MESSAGES(ARG, ALL_REDUCE,       "lanes",              lanes_all_reduce,         NEVER,       FEW_HOSTS,   NEVER)    \
    MESSAGES(ARG, ALL_REDUCE,       "ring",               ring_all_reduce,          ANY,         ANY,         NEVER)    \
    MESSAGES(ARG, ALL_REDUCE,       "direct",             ordered_all_reduce,       NEVER,       NEVER,       SMALL)    \
    MESSAGES(ARG, ALL_REDUCE,       "shares",             ordered_shares,           NEVER,       NEVER,       ANY)      \
                                                                                                                        \
    ROUNDS(ARG, REDUCE_SCATTER,     "all_read",                                     ANY,                      ANY)      \
    MESSAGES(ARG, REDUCE_SCATTER,   "recursive_halving",  halving_reduce_scatter,   BEFORE_RING, FEW_OR_MANY, NEVER)    \
    MESSAGES(ARG, REDUCE_SCATTER,   "direct",             ordered_reduce_scatter,   NEVER,       NEVER,       ANY)      \
    MESSAGES(ARG, REDUCE_SCATTER,   "lanes",              lanes_reduce_scatter,     NEVER,       TO_2_MIB,    NEVER)    \
    MESSAGES(ARG, REDUCE_SCATTER,   "ring",               ring_reduce_scatter,      ANY,         ANY,         NEVER)    \
                                                                                                                        \
    ROUNDS(ARG, ALL_GATHER,         "all_read",                                     ANY,                      NEVER)    \
    MESSAGES(ARG, ALL_GATHER,       "bruck",              bruck_all_gather,         FEW_STEPS,   FEW_BYTES,   NEVER)    \
    MESSAGES(ARG, ALL_GATHER,       "recursive_doubling", doubling_all_gather,      BEFORE_RING, MANY_HOSTS,  NEVER)    \
    MESSAGES(ARG, ALL_GATHER,       "lanes",              lanes_all_gather,         NEVER,       FEW_HOSTS,   NEVER)    \
    MESSAGES(ARG, ALL_GATHER,       "ring",               ring_all_gather,          ANY,         ANY,         NEVER)    \
    MESSAGES(ARG, ALL_GATHER,       "pairwise",           pairwise,                 NEVER,       NEVER,       NEVER)    \
                                                                                                                        \
    ROUNDS(ARG, GATHER,             "all_read",                                     ANY,                      NEVER)    \
    MESSAGES(ARG, GATHER,           "binomial_tree",      tree_gather,              SMALL,       MANY_BLOCKS, NEVER)    \
    MESSAGES(ARG, GATHER,           "direct",             direct_gather,            ANY,         ANY,         NEVER)    \
                                                                                                                        \
    ROUNDS(ARG, SCATTER,            "all_read",                                     ANY,                      NEVER)    \
    MESSAGES(ARG, SCATTER,          "binomial_tree",      tree_scatter,             SMALL,       MANY_BLOCKS, NEVER)    \
    MESSAGES(ARG, SCATTER,          "direct",             direct_scatter,           ANY,         ANY,         NEVER)    \
                                                                                                                        \
    ROUNDS(ARG, ALL_TO_ALL,         "all_read",                                     ANY,                      NEVER)    \
    MESSAGES(ARG, ALL_TO_ALL,       "bruck",              bruck_all_to_all,         STEPS_OF_4,  FEW_EACH,    NEVER)    \
    MESSAGES(ARG, ALL_TO_ALL,       "pairwise",           pairwise,                 ANY,         ANY,         NEVER)    \
                                                                                                                        \
    MESSAGES(ARG, ALL_GATHER_V,     "pairwise",           pairwise,                 SMALL,       MANY_HOSTS,  NEVER)    \
    MESSAGES(ARG, ALL_GATHER_V,     "lanes",              lanes_all_gather,         NEVER,       FEW_HOSTS,   NEVER)    \
    MESSAGES(ARG, ALL_GATHER_V,     "ring",               ring_all_gather,          ANY,         ANY,         NEVER)    \
                                                                                                                        \
    /* Only the root knows the counts, so nobody can hand on the block of another. */                                   \
    MESSAGES(ARG, GATHER_V,         "direct",             direct_gather,            ANY,         ANY,         NEVER)    \
                                                                                                                        \
    MESSAGES(ARG, SCATTER_V,        "direct",             direct_scatter,           ANY,         ANY,         NEVER)    \
                                                                                                                        \
    MESSAGES(ARG, REDUCE_SCATTER_V, "direct",             ordered_reduce_scatter,   SMALL,       FEW_BYTES,   ANY)      \
    MESSAGES(ARG, REDUCE_SCATTER_V, "lanes",              lanes_reduce_scatter,     NEVER,       TO_2_MIB,    NEVER)    \
    MESSAGES(ARG, REDUCE_SCATTER_V, "ring",               ring_reduce_scatter,      ANY,         ANY,         NEVER)    \
                                                                                                                        \
    MESSAGES(ARG, ALL_TO_ALL_V,     "pairwise",           pairwise,                 ANY,         ANY,         NEVER)
/* clang-format on */
#endif
