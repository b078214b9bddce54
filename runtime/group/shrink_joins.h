/* shrink_joins.h - how the lead of a group that shrinks hears who has joined, where the living are on many hosts.
 *
 * Up to WEFT__TOLD_AT_ONCE hosts each member says JOIN to the lead itself (shrink.c).  Among more it says it to the rank above it
 * in the tree of the living members' hosts, the lead first and then by number (join_place.h): the lowest of its host, which says
 * that to the lowest of the host above.  So the lead hears of FAN_OUT hosts and its own, however many members there are:
 *
 *     JOIN     the attempt; the lead, of which this is said; who has joined it (joined), what all of these bring to the
 *              agreement, and whom they presume dead (lost), which is the same for all of them
 *
 * A JOIN is a promise to that lead: who has joined it holds no group of a lead before it but one that it tells it itself.  So it
 * counts for that lead alone, and is said anew to the next one.  A rank keeps, of the lead in its own view: who has joined that
 * (held), and whom it has named (passed).  It names those whom it holds
 *   - to the rank above, as soon as all have joined that live and are its own or below it;
 *   - to the rank above, HOLD_NS after the first that it has not named yet, whether its own caller has come or not;
 *   - to the lead itself, where the rank above is gone or unreachable: at once, all of them, and from then on;
 *   - to the lead itself, as it is about to give up.
 * Who waits for its own call says its own word to the lead once more, after half of its time or PATIENCE_NS: whoever keeps
 * it, or had no way to the lead, then holds up that one rank alone.
 * A JOIN to another lead than the one in its view, or of others that presume others dead, or of an attempt that it knows the end of,
 * it passes on to that lead as it is.
 *
 * What holds, without any answer:
 * - A lead makes no group before all that live have joined it, so those in between too.  So one of them that is stopped, or has not
 *   called yet, holds up nothing that would not wait for it anyway, and by its own call for HOLD_NS.
 * - A word is lost only with a rank that had it and is gone, or that does not reach the lead.  Who named somebody to it hears that it is
 *   gone and names them to the lead.  If it lives and does not reach the lead, one of these two is gone soon, or they meet again: then it
 *   names all to the lead once more.
 * - Who is unreachable from the lead has not joined it, whatever others have said: no group has two that have lost each other.
 * - Who joined a lead before its end is not counted by the next one, as the word has the lead's number.
 * - A rank above has a lower number in whatever view, so each word ends; and it goes up only with somebody who was not named before.
 * - What one brings to the agreement that dies after it has joined may count nevertheless: that makes a group that does less
 *   (ops/select.c), and the same one for all. */
#ifndef WEFT_GROUP_SHRINK_JOINS_H
#define WEFT_GROUP_SHRINK_JOINS_H
#include "shrink_attempt.h"

/* This rank joins that lead, for a call that has time until then. */
void weft__shrink_join(weft_context *ctx, weft__shrink_attempt *a, int lead, bool program,
                       int64_t deadline_ns);
/* JOIN to another lead than this rank. */
void weft__shrink_pass_join(weft_context *ctx, weft__shrink_attempt *a, const weft__shrink_message *m);
/* This rank is about to give up: the lead is to have heard of it before. */
void weft__shrink_name(weft_context *ctx, weft__shrink_attempt *a);
/* That rank is gone, or unreachable from here. */
void weft__shrink_go_past(weft_context *ctx, weft__shrink_attempt *a, int rank);
/* It is reached again. */
void weft__shrink_name_again(weft_context *ctx, weft__shrink_attempt *a, int rank);
int64_t weft__shrink_joins_due(weft_context *ctx, int64_t now_ns);
void weft__shrink_joins_free(weft__shrink_attempt *a);
#endif
