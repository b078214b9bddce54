/* arrival.h - who came last to a collective, as the records of its members tell. */
#ifndef WEFT_RECORD_ARRIVAL_H
#define WEFT_RECORD_ARRIVAL_H
#include "blame.h"

/* The rank that began it last, and how long after the first; -1: not all of its members are known to have begun it.
 * op: a collective of that node. */
int weft__came_last(const weft__blame *blame, const weft__node *node, const weft__recorded_op *op,
                    int64_t *after_ns);
#endif
