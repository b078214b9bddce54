/* host_tree.h - the tree of hosts along which it is found out who is late (late.h), and told that a group is broken or a rank
 * has died (telling.h), and what becomes of a group that is being made (group/spreading.h): of a group's hosts, or of all.
 *
 * Hosts stand in the order of their first members; the parent of host h is (h - 1) / fan-out, so that all members
 * find the same tree and no word is needed for it.  A host is here whose ranks read each other's boards. */
#ifndef WEFT_RUNTIME_HOST_TREE_H
#define WEFT_RUNTIME_HOST_TREE_H
#include "group.h"

/* Makes group->host_tree when it is first asked for.  False: all members are on one host, or there is no memory. */
bool weft__host_tree_made(weft_group *group);
bool weft__host_tree_made_of_all(weft_context *ctx); /* ctx->host_tree, whose members are the ranks */
/* Makes the tree of those ranks, which are its members; NULL: of all.  It is the caller's, by weft__seats_free; *tree NULL: they are on one host.
 * False: no memory. */
bool weft__host_tree_of(const weft_context *ctx, const int *world, int size, weft__seats **tree);
int weft__host_of(const weft__seats *tree, int member);
int weft__host_above(const weft_context *ctx, int host); /* not of host 0 */
/* The others follow it; there may be none. */
int weft__host_below(const weft_context *ctx, int host);
/* The one beside `from` by which the way to the other one begins; `from` itself, where both are one. */
int weft__host_toward(const weft_context *ctx, int from, int to);
/* It is that host, or below it. */
bool weft__host_is_below(const weft_context *ctx, int host, int top);
#endif
