/* arcs.h - halving and doubling among a number of ranks that is no power of two: doubling.c hands them over to here. */
#ifndef WEFT_OPS_ARCS_H
#define WEFT_OPS_ARCS_H
#include "algorithms.h"

/* Is the number of ranks no power of two, and are there as many on each host? */
bool weft__arcs_serve(const weft__schedule *s);
/* An all_reduce that is long enough may have a few unlike numbers. */
bool weft__arcs_serve_all_reduce(const weft__schedule *s, const weft__op *op);

weft__build_fn weft__build_arcs_all_reduce;
weft__build_fn weft__build_arcs_broadcast;
weft__build_fn weft__build_arcs_reduce;
weft__build_fn weft__build_arcs_all_gather;
weft__build_fn weft__build_arcs_reduce_scatter;

/* A broadcast of `stripes` stripes: each is dealt out and gathered on its own. */
int weft__broadcast_stripes(const weft__schedule *s, const weft__op *op);
#endif
