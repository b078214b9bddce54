/* deaths.h - how it comes to all ranks that one of them has died for certain.
 *
 * Who sees it (core/peer.c) tells all.  Up to WEFT__TOLD_AT_ONCE hosts that is a word to each.  Among more it goes along the tree
 * of all hosts as a group's break does (telling.h): GONE with a weft__break_word, and the same answers, which carry the rank
 * and how it is gone, by which it is known what they answer.  That somebody is presumed dead where ranks agree about that
 * (views.md) is an accusation, which each hears of who accuses; and that one has left is its own word.
 *
 * A death is kept while an answer is awaited, and two seconds after that (of many at once: of 256, and of fewer where they take more than 4 MiB).  Where one that has answered
 * dies or leaves within that time, words that it had for others may be lost with it: its host is gone past then, as if it had
 * not answered.  A PASS that comes later is passed on once more, away from where it comes from, so it ends.
 *
 * What holds, beside what telling.h says of a break:
 * - Who saw it begins, and who watches over the dead (the living rank before it), however that one has heard.  Where these are
 *   two, all are told although one of them dies, stops or leaves amid that.  Where they are one, or both end so, only those stay
 *   untold whom a host that is silent too keeps it from, as telling.h has it of a break.  The second has words only for hosts that
 *   are not told, and for those on the way between the two.
 * - Whoever lives sees to all whom it has told, and to all on the sides to which it has passed it on: to those of a host whose
 *   speaker ends, and to the hosts beyond, it turns itself.  If it ends within two seconds of that, who has told it does so in its
 *   place, and so on up to the one that watches over the dead; and if that one ends, the next that does begins, for the sides
 *   that it has not told already.  So all who live and can be reached hear of it, however many end one behind the other,
 *   as long as the death is kept there.
 * - Ranks of the dead one's host see its process end by themselves, and are not told but where it has become another program, or
 *   is only presumed dead; one of them is asked to pass it on all the same. */
#ifndef WEFT_RUNTIME_DEATHS_H
#define WEFT_RUNTIME_DEATHS_H
#include "group.h"
#include "notice.h"

/* As the notice says a rank is gone, which this rank tells all.  False: nobody has been told, and each is to be.  Engine held,
 * as for all that follow. */
bool weft__deaths_tell(weft_context *ctx, const weft__notice *notice);
/* That rank has told of it, and it is known here.  It is passed on if that was asked. */
void weft__deaths_heard(weft_context *ctx, int from, const weft__notice *told);
/* Is it an answer, which tells of no death?  Then it is taken. */
bool weft__deaths_answered(weft_context *ctx, int from, const weft__notice *told);
void weft__death_told(weft__telling *telling); /* It may be over: then it is kept for some time. */
/* That one is gone, and what it had to tell of others, if it had, may be lost. */
void weft__deaths_lose(weft_context *ctx, int rank);
/* Forgets what has been kept long enough; returns when to look again. */
int64_t weft__deaths_check(weft_context *ctx, int64_t now_ns);
void weft__deaths_close(weft_context *ctx);
#endif
