/* slot_tree.h - the tree along which the members of a group tell each other where their slots are.
 *
 * Below a member hang the members right behind it: a branch is a range of group ranks, its first one the root of
 * it, and what is left of it is dealt in nearly equal parts, which are branches themselves.  So what a whole branch
 * has told lies in one piece, and each member knows the tree without a word. */
#ifndef WEFT_RUNTIME_SLOT_TREE_H
#define WEFT_RUNTIME_SLOT_TREE_H
#include "check.h"

typedef struct weft__slot_branch {
    int first, count; /* its members; the first is its root */
    int above;        /* to whom that one tells; -1: nobody, it has all */
} weft__slot_branch;

/* Into how many further branches it is dealt. */
static inline int weft__slot_branches(weft__slot_branch b, int fan_out)
{
    return b.count - 1 < fan_out ? b.count - 1 : fan_out;
}

/* One of these, from 0 on. */
static inline weft__slot_branch weft__slot_branch_below(weft__slot_branch b, int fan_out, int index)
{
    int rest = b.count - 1, parts = weft__slot_branches(b, fan_out);
    int from = index * rest / parts, to = (index + 1) * rest / parts;
    return (weft__slot_branch){b.first + 1 + from, to - from, b.first};
}

/* The branch of which that member is the root, in a group of so many. */
static inline weft__slot_branch weft__slot_branch_of(int member, int size, int fan_out)
{
    weft__slot_branch b = {0, size, -1};
    while (b.first != member) {
        int rest = b.count - 1, at = member - b.first - 1;
        WEFT__ASSERT(rest > 0 && at >= 0, member, size);
        b = weft__slot_branch_below(b, fan_out, ((at + 1) * weft__slot_branches(b, fan_out) - 1) / rest);
    }
    return b;
}
#endif
