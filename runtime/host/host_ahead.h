/* host_ahead.h - broadcasts like one before (`repeats`), which go on without all members.
 *
 * In its first round an operation checks whether all members mean the same, and so waits for all.  A small
 * broadcast that repeats leaves that for later: its root goes on when it has published, the others when they
 * have that.  What is left is made up for before the next operation that waits for all, and before this rank
 * tells that it is past that round: nobody gets further ahead than slots allow.  It needs no agreement beyond
 * `repeats`, which is the same on all members: one that waits for all where others do not only takes
 * longer. */
#ifndef WEFT_RUNTIME_HOST_AHEAD_H
#define WEFT_RUNTIME_HOST_AHEAD_H
#include "host_coll.h"

/* Does it go on without all members? */
bool weft__goes_ahead(const weft_request *req);
/* Before it, all members have to have agreed on those before, or there are many of them. */
bool weft__must_make_up(const weft_request *req);
/* Ends rounds that were taken without waiting for all, as far as all have come.  Returns how many.  May break
 * the group. */
size_t weft__make_up(weft_group *group);
#endif
