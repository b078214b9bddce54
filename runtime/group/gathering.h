/* gathering.h - how the lead of a group that is being made hears who has come to it, where the members are on many hosts.
 *
 * Up to WEFT__TOLD_AT_ONCE hosts each member tells the lead itself (group_create.c).  Among more it tells the rank above it in the
 * tree of the members' hosts (fault/host_tree.h: the lead's host first, then by lowest member): the lowest member of its host,
 * which tells that of the host above.  So the lead hears of FAN_OUT hosts and its own, however many members there are:
 *
 *     JOINS    the attempt, its lead, who has come, and what all of these bring to the agreement
 *     KNOWN    whom the lead has heard of: it is said where the attempt goes on, to who said JOINS of others, which says it to who
 *              said JOINS to it.  Where the verdict comes first nobody says this.
 *     GIVES_UP that one gives up the attempt, and why: to the rank above, beside what it says to the lead itself (EXPIRED, or, where
 *              the lead is unreachable from it, nothing for now).  Each passes on the first of these that it hears.
 *
 * A rank keeps a record of an attempt: who has come, by its own call or by JOINS (come), whom it has named to a rank above (passed),
 * whom the lead has heard of (known).  It passes on who has come
 *   - to the rank above, as soon as all have that are its own or below it: so nobody holds up the last one;
 *   - to the rank above, HOLD_NS after the first that was not passed on yet;
 *   - to the lead itself, where its own caller has not come, and so it does not know who is above it: HOLD_NS after the first;
 *   - to the lead itself, where its own call has ended: at once;
 *   - to the lead itself, where its caller waits and has not heard for PATIENCE_NS, for each step from it to the lead, that all it
 *     has named are known; or as the rank above is gone or unreachable; or as it is about to tell the lead something else of the
 *     attempt.  From then on it tells the lead alone.
 *
 * What holds:
 * - Nothing depends on those in between.  Whoever waits is named to the lead by others before its patience ends and hears so, or
 *   has the verdict, or names itself to the lead.  A rank in between may stop, die, leave, or forget its record at any time: that
 *   delays the others by their patience, and loses nothing.
 * - A rank nearer to the lead has the shorter patience.  So it is the speaker below one that says nothing that goes past it, with all
 *   it has heard, and those below that hear KNOWN from it.
 * - No deadline passes before a member has named itself to the lead: patience and holding end at a part of what is left of the time.
 *   One whose own time is longer than that of who gives up first may be kept by somebody in between then: so the lead says of
 *   who is missing that it "has not been heard of".
 * - What a member says to the lead by itself (EXPIRED) comes behind a JOINS with it on the same connection, or behind KNOWN: the
 *   lead has always heard of it.
 * - Who gives up is heard by the lead as long as it reaches that or the rank above, and hears by the tree what becomes of it: a
 *   member that has lost the lead alone does not fail alone.
 * - To the lead a member may be named any number of times, also when the attempt is over: it remembers the last REMEMBERED that
 *   were, behind which such a word opens an attempt that can end in nothing, as the lead's own caller does not come to it again.
 * - A rank is named by others after its end, too: the lead ends the attempt then, as if it had joined before its end.
 * - JOINS goes up only with somebody who was not passed on before, so each ends, whatever the ranks take the tree for. */
#ifndef WEFT_GROUP_GATHERING_H
#define WEFT_GROUP_GATHERING_H
#include "gather_word.h"

/* This rank has come: its request's caller has.  False: there is no memory for it, and nothing is said. */
bool weft__gathering_join(weft_request *req, const weft__create_key *key, const weft__group_params *params);
/* The lead is told now, by this rank, that it has come, unless it has heard; may end the request. */
void weft__gathering_name(weft_context *ctx, const weft__create_key *key);
/* This rank gives up, which the rank above is told too; `failure` says why. */
void weft__gathering_gives_up(weft_context *ctx, const weft__create_message *failure);
/* The request has settled. */
void weft__gathering_end(weft_context *ctx, const weft__create_key *key);
/* The lead's: of that attempt nothing is to become any more, whoever is named. */
void weft__gathering_over(weft_context *ctx, const weft__create_key *key);
bool weft__gathering_is_over(weft_context *ctx, const weft__create_key *key);

/* Has this rank's caller come to that attempt, and is it done with it (group_create.c)? */
bool weft__create_is_done(weft_context *ctx, const weft__create_key *key);

extern const weft__protocol weft__gathering_protocol;
#endif
