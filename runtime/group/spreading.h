/* spreading.h - how a word of the lead of a group that is being made, or shrinks, comes to many ranks, and who of them holds it.
 *
 * Up to WEFT__TOLD_AT_ONCE hosts it is a message to each.  Among more it is copied down a tree of the hosts of those ranks, so
 * that no rank has words for more than FAN_OUT speakers, one above it and its own host, however many ranks there are:
 *
 *     SPREAD   the word, who it is of, and to whom it goes, to one rank of a host, the speaker: that one gives it to the ranks of
 *              its host, sends it on to the hosts below, and answers.  Where nobody is to be told further it is the word alone.
 *     TAKEN    an answer, which is one of:
 *                  CANNOT     it has the word, and cannot send it on for want of memory
 *                  PASSES     it has sent it on
 *                  HAS        it has it, which it was told alone
 *                  ALL_HAVE   so have all of its host and of the hosts below; this comes behind PASSES, or in place of it
 *
 * The tree needs no word either: it is that of the ranks in the set (fault/host_tree.h), the lead first and then by number, so
 * its root is the lead's host.  Nobody needs to know the group: the set tells.  Whoever takes the word hears it as if the lead
 * had sent it.
 *
 * To a rank that spreads a word each host below is UNTOLD, TOLD (a SPREAD is not answered yet), PASSING or DONE:
 *
 *     UNTOLD -> TOLD      it is below this rank's host, or below one that was gone past
 *     TOLD -> PASSING     PASSES has come
 *     from each -> DONE   ALL_HAVE has come; or it was gone past; or nobody lives there who could be asked
 *
 * A host that is TOLD or PASSING is gone past when its speaker is gone or unreachable; one that is TOLD also when it says that it
 * cannot, or says nothing for SILENCE_NS.  Then each other rank there is told alone, and the hosts below it get a SPREAD from here.
 *
 * Two words are counted: READY of a group that shrinks (shrink.c), which its lead makes only once all hold it, and DONE, without
 * which who holds it would wait.  A rank that has READY may hold the group or not: it holds another one, or has given up.  So each
 * answer says whether its sender holds it, and ALL_HAVE which ranks
 * do, by a set: of those that have said so, whatever who passes it on takes the others for.  The lead hears of them by that, in place
 * of a word from each.  Of such a word
 *   - a host that is PASSING is gone past too, where nothing more comes of it for SILENCE_NS and as long again for each level below
 *     it: so who is nearer to one that says nothing is the first to go past it, and nobody waits for those in between;
 *   - whom ALL_HAVE does not count, as who passes it on takes it for gone, and this rank does not, is told by this rank alone.
 *
 * Besides it keeps a set of the ranks of its host and of those below that lack the word: they have not said that they have it,
 * nor has who speaks for them, and they have not died or left.  The word is kept as long as there are some.  Then whoever asked
 * for it hears ALL_HAVE.
 *
 * What holds:
 * - A rank is not counted as one that has the word before it has: ALL_HAVE goes up only behind those of all below.  Nor as one that
 *   holds it before it has said so itself, which nobody says for it.
 * - Whoever lacks it has a rank above it in the tree that keeps it, and tells all below a speaker that dies or leaves anew.  The
 *   lead keeps it too, and says it again to who asks (weft__spread_again): one that is stopped on the way, or reaches nobody,
 *   delays it only for who does not ask.
 * - A lead that leaves tells each that lacks it itself, ahead of its goodbye on the same connection: whoever hears that goodbye
 *   and has not heard the word waits for nothing more.  Others need not do so as they leave: who told them goes past them.
 * - Who knows that one of the ranks in the set has died, with which the word may be lost for a while, asks the lead before it
 *   gives up (weft__group_create_doubt).
 * - A word may come twice.  A rank sends it on once, as long as it remembers it (spread_word.h), so each host is sent it by no
 *   more ranks than there are slow ones above it, and one; a word that is counted also by each above one that says nothing.
 * - It does not come behind what the lead sends by itself, nor before that.
 * - Words go to hosts of higher numbers only, so each ends. */
#ifndef WEFT_GROUP_SPREADING_H
#define WEFT_GROUP_SPREADING_H
#include "protocol.h"

/* Says that message to all ranks in the set, this one first if it is one of them. */
void weft__spread(weft_context *ctx, int type, const void *bytes, size_t length, const unsigned char *set);
/* Says once more to that rank, if it may lack it, what this rank has said and what begins with those bytes. */
void weft__spread_again(weft_context *ctx, int rank, const void *begins, size_t length);
/* Would a word to those ranks go by others? */
bool weft__spread_goes_by_others(const weft_context *ctx, const int *ranks, int n);

extern const weft__protocol weft__spreading_protocol;
#endif
