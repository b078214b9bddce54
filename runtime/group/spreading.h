/* spreading.h - how a word of the lead of a group that is being made comes to many ranks.
 *
 * Up to WEFT__TOLD_AT_ONCE hosts it is a message to each.  Among more it is copied down a tree of the hosts of those ranks, so
 * that no rank has words for more than FAN_OUT speakers, one above it and its own host, however many ranks there are:
 *
 *     SPREAD   the word, who it is of, and to whom it goes, to one rank of a host, the speaker: that one gives it to the ranks of
 *              its host, sends it on to the hosts below, and answers.  Where nobody is to be told further it is the word alone.
 *     TAKEN    the answer, behind all that: it was sent on; or it cannot be, for want of memory
 *
 * The tree needs no word either: it is that of the ranks in the set (fault/host_tree.h), the lead first and then by number, so
 * its root is the lead's host.  Nobody needs to know the group: the set tells.  Whoever takes the word hears it as if the lead
 * had sent it.
 *
 * To a rank that spreads a word each host below is UNTOLD, TOLD (a SPREAD is not answered yet) or DONE:
 *
 *     UNTOLD -> TOLD   it is below this rank's host, or below one that was gone past
 *     TOLD -> DONE     TAKEN has come; or it was gone past
 *     UNTOLD -> DONE   nobody lives there who could be asked
 *
 * A host is gone past when its speaker says that it cannot, is gone or unreachable, or says nothing for SILENCE_NS.  Then each other
 * rank there is told, and the hosts below it get a SPREAD from here.  Who leaves goes past all that have not answered.
 *
 * What holds:
 * - Who has not answered is gone past by who told it, so one that stops, leaves or dies before it has sent all on keeps
 *   the word from nobody; it comes SILENCE_NS later for each such host on the way.
 * - Who has answered may die with what it had sent on still in its hands.  Whoever relies on the word and knows that one of
 *   the ranks in the set has died waits for it only for a while (weft__group_create_doubt).
 * - A word may come twice: to who was gone past, and lives, and to all below it.
 * - It does not come behind what the lead sends by itself, nor before that.
 * - Words go to hosts of higher numbers only, so each ends. */
#ifndef WEFT_GROUP_SPREADING_H
#define WEFT_GROUP_SPREADING_H
#include "protocol.h"

/* Says that message to all ranks in the set, this one first if it is one of them. */
void weft__spread(weft_context *ctx, int type, const void *bytes, size_t length, const unsigned char *set);
/* Would a word to those ranks go by others? */
bool weft__spread_goes_by_others(const weft_context *ctx, const int *ranks, int n);

extern const weft__protocol weft__spreading_protocol;
#endif
