/* spread_tree.h - the tree of hosts by which a word is spread (spreading.h). */
#ifndef WEFT_GROUP_SPREAD_TREE_H
#define WEFT_GROUP_SPREAD_TREE_H
#include "context.h"

/* Makes the tree of the origin and of those in the set as weft__host_tree_of does.  Its members are written to `ranks`, which has
 * room for all and one more: the origin first, then by number. */
bool weft__spread_tree(const weft_context *ctx, const unsigned char *set, int origin, int *ranks,
                       weft__seats **tree);
int weft__spread_levels_below(const weft_context *ctx, const weft__seats *tree, int host);
#endif
