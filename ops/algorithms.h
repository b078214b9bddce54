/* algorithms.h - the builders that select.c chooses among, by file. */
#ifndef WEFT_OPS_ALGORITHMS_H
#define WEFT_OPS_ALGORITHMS_H
#include "schedule.h"

#include "select.h"

/* local.c: a group of one. */
weft__build_fn weft__build_local;
/* dissemination.c */
weft__build_fn weft__build_dissemination_barrier;
/* Steps beside the others of a rooted kind: once they are done, this rank knows, directly or through others,
 * that everybody has started this operation.  A rank whose signature differs passes nothing on. */
void weft__add_agreement(weft__schedule *s);
/* doubling.c */
weft__build_fn weft__build_doubling_all_reduce;
weft__build_fn weft__build_bruck_all_gather;
/* tree.c */
weft__build_fn weft__build_tree_broadcast;
weft__build_fn weft__build_tree_reduce;
weft__build_fn weft__build_tree_gather;
weft__build_fn weft__build_tree_scatter;
/* ring.c */
weft__build_fn weft__build_ring_all_reduce;
weft__build_fn weft__build_ring_reduce_scatter;
weft__build_fn weft__build_ring_all_gather;
weft__build_fn weft__build_ring_reduce;
weft__build_fn weft__build_ring_broadcast;
/* chain.c */
weft__build_fn weft__build_chain_broadcast;
/* pairwise.c */
weft__build_fn weft__build_pairwise;
weft__build_fn weft__build_direct_gather;
weft__build_fn weft__build_direct_scatter;
/* ordered.c */
weft__build_fn weft__build_ordered_reduce_scatter;
weft__build_fn weft__build_ordered_all_reduce;
weft__build_fn weft__build_ordered_reduce;
weft__build_fn weft__build_ordered_shares;

/* Tags of one schedule: those of its data count from 0, those of the agreement from here. */
#define WEFT__AGREEMENT_TAGS 0x40000000U
#define WEFT__ROUNDS_MOST    31 /* of distances 1, 2, 4, ... below the largest size */
#endif
