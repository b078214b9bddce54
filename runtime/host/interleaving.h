/* interleaving.h - do ranks that share several groups in program order begin operations on these in one order?
 *
 * If one rank begins an operation on group A and then one on group B, and another one begins them the other way round, each
 * device may wait for the other, or their callers do; both groups would only end at their deadlines.  So each rank tells some
 * others in which order it has begun what, as numbers of operations by group:
 *
 *     "of group A 5; then of B 7; then of A 6"
 *
 * Who hears that compares it with its own order.  They differ, exactly, if one has begun A's number a before B's number b, and
 * the other one B's b before A's a, or B's b and not yet A's a.  What comes later need not be awaited for that, and what
 * follows cannot mend it; so no order that all ranks share is ever taken for a difference, however far they are apart.
 *
 * Whom: of those that are in both of two groups each tells the next one, round the ring of their numbers in the job.  All of
 * these have the same order if each has the same as the one before it.  Groups that share one rank alone may be used in any
 * order, and are not compared; nor is what graphs record, whose replays have an order of their own.  Ranks have a device each.
 * A circle of more than two groups, of which no two ranks share two, is not found: each request in it ends at its deadline.
 *
 * When: in one message for WEFT__INTERLEAVED_MOST changes of group, or once the first of them is WEFT__INTERLEAVED_AFTER_NS
 * old.  A job with one group in program order, or whose groups share no two ranks, sends nothing; the
 * group of a host, which every job has, counts once it is used.
 *
 * A group that has broken, or to which nothing refers any more, leaves the order: its numbers are not compared any more, here
 * and, as that is told, there.  What is further apart than WEFT__INTERLEAVED_KEPT is not compared. */
#ifndef WEFT_RUNTIME_INTERLEAVING_H
#define WEFT_RUNTIME_INTERLEAVING_H
#include "group.h"
#include "protocol.h"

#define WEFT__INTERLEAVED_MOST \
    32 /* changes of group in one message, and as many groups that are told of first */
#define WEFT__INTERLEAVED_AFTER_NS (10 * WEFT__MS)
#define WEFT__INTERLEAVED_KEPT \
    1024 /* own operations of a group; changes of group by another rank that is ahead */

/* This rank begins that operation on a group in program order.  May break groups; false: it has broken this one, and the
 * operation is over.  Engine held. */
bool weft__interleave(weft_group *group, uint64_t number);

extern const weft__protocol weft__interleaving_protocol;
#endif
