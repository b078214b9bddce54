/* arrival.c - compares when the members of a group have begun one of its collectives.  Nobody notes that while it goes on:
 * the time of each is in its own record, and on one host they have one clock. */
#include "arrival.h"

#define BACK_MOST 4096 /* operations that are looked through, from the last of a rank back */

/* That operation in the record of another member; NULL: it is not there. */
static const weft__recorded_op *theirs(const weft__node *node, const weft__recorded_op *op)
{
    const weft__snapshot *shot = node->shot;
    for (size_t i = shot->op_count, left = BACK_MOST; i-- && left--;) {
        const weft__recorded_op *other = &shot->ops[i];
        if (other->group != op->group || weft__sort_of(shot, other) != WEFT__SORT_COLLECTIVE) continue;
        if (other->number == op->number) return other;
        if (other->number < op->number) return NULL;
    }
    return NULL;
}

int weft__came_last(const weft__blame *blame, const weft__node *node, const weft__recorded_op *op,
                    int64_t *after_ns)
{
    const weft__group_record *group = weft__recorded_group_of(node->shot, op->group);
    int64_t first_ns = INT64_MAX, last_ns = 0;
    int last = -1;
    *after_ns = 0;
    if (!group || group->size < 2 || weft__sort_of(node->shot, op) != WEFT__SORT_COLLECTIVE) return -1;
    for (int m = 0; m < group->size; m++) {
        int rank = weft__recorded_member(node->shot, group, m);
        const weft__node *member = rank < 0 ? NULL : weft__blame_node(blame, rank);
        const weft__recorded_op *other = member ? theirs(member, op) : NULL;
        if (!other || other->submitted_ns <= 0) return -1;
        if (other->submitted_ns < first_ns) first_ns = other->submitted_ns;
        if (other->submitted_ns <= last_ns) continue;
        last_ns = other->submitted_ns;
        last = rank;
    }
    *after_ns = last_ns - first_ns;
    return last;
}
