/* telling.h - how it comes to all members that a group is broken (group_telling.h), and to all ranks that one has died
 * (deaths.h).
 *
 * Who breaks it tells the members of its own host over the data plane, and the other hosts by its watchdog.  Up to
 * WEFT__TOLD_AT_ONCE hosts it tells each member of them: one step, and nothing is answered.
 *
 * Where there are more the word goes along the tree of the group's hosts (host_tree.h), whose edges it may take in either
 * direction, so that no rank has words for more than FAN_OUT + 1 others, however many there are:
 *
 *     PASS    to one rank of a host beside this one in the tree: it tells its own host, sends PASS to the hosts beside it,
 *             but on the side from which the word comes, and answers
 *     PASSED  the answer: all whom it has sent a PASS, but on the side of who is answered, have answered, or were gone past;
 *             and which hosts were, as far as it knows (`unheard`: WEFT__UNHEARD_MOST of them)
 *     STILL   every STILL_NS to whom it cannot answer yet, so that it is not taken for silent
 *     CANNOT  the answer of one that has not got the group: not yet, or no more; or that leaves before it could answer PASSED
 *     TOLD    to somebody who is to pass it on to nobody: as in a group of few hosts
 *     COVERS  likewise, to the ranks of this host: they need not tell the others
 *
 * To a rank each host of the tree is UNTOLD, TOLD (a PASS has gone to one of its ranks, which is awaited) or DONE:
 *
 *     UNTOLD -> TOLD   it is beside this host, or beside one that was gone past
 *     TOLD -> DONE     PASSED has come; or it was gone past
 *     UNTOLD -> DONE   it was gone past, as nobody could be asked there
 *
 * A host is gone past when whom it was told by a PASS answers CANNOT, is gone or unreachable, or says nothing for SILENCE_NS; and
 * where nobody lives who could be asked.  Then each other rank of it is TOLD, and the hosts beside it that are farther from here
 * get a PASS from here.  Who goes past it may not reach it, where who broke the group does: that one hears of it by PASSED,
 * and TELLs each rank there once more.  Where time is up for several of them nobody does: it mostly is for that host too.
 *
 * What holds:
 * - Whoever sends a PASS to a host sees to all that are on its own side of that, the other one to the rest: "the side from which
 *   the word comes" is a direction in the tree, that of the host between where that was gone past.
 * - Who has answered PASSED has nothing left to do: all on its side have been told, or live no more, or cannot be reached.  Before
 *   that it is heard each STILL_NS, so whoever stops or vanishes at any moment is gone past by who told it.  So every member
 *   that lives and can be reached is told as long as the one lives and runs that broke the group, SILENCE_NS later for each
 *   host that says nothing, one behind the other, on the way.
 * - If that one dies, exits or becomes another program before it has been answered, its end breaks the group at all; if it
 *   leaves, it tells each before its goodbye.  Only if it is stopped may others stay untold, below a host that is silent too,
 *   until it goes on.
 * - No two wait for each other: an answer waits for nobody on the side of who gets it, and so each for fewer hosts than
 *   the one that waits for it.
 * - PASSED says that words were sent, not that they have come: those of one that dies then may be lost with it.  The end of a
 *   member breaks the group; for deaths it is seen to by who has told it (deaths.h).
 * - Of each edge each end sends one PASS at most, and one answer: 2 words for an edge where one rank breaks the group, 4 where
 *   time is up for all at once.
 * - Nobody is accused by a word that was passed on: who passes it on says what it knows itself of the culprit, but that somebody
 *   else presumes it dead.  That it has left, and that it has died for certain, is said on.
 * - That a group is aborted which was broken before goes the same way, by a telling of its own; and as the end of the one that did it
 *   breaks nothing any more, whoever hears of it first tells the next living member behind it, too.
 * - Before a goodbye a break is told once more to each (breaks.c), and then nobody waits for answers any more.
 *
 * A time that is up is up for all who wait, at once.  Of the ranks that would tell the same ones, those of a group of few hosts,
 * or of one host among many, the lowest tells at once, the others, one more class of as many as tell before it in each
 * period, only if by then nobody has been heard who tells them: that one may be stopped.  Among many hosts it says that it
 * does (COVERS) once another host has been heard, so that its own words have left it; who passes it on, at once. */
#ifndef WEFT_RUNTIME_TELLING_H
#define WEFT_RUNTIME_TELLING_H
#include "group.h"
#include "notice.h"

/* It has told of a group that is not here. */
void weft__telling_refuse(weft_context *ctx, int from, const weft__notice *told);
/* Goes past who is silent, and tells what was put off.  Returns when to check again.  WEFT__NEVER for now_ns: this rank
 * leaves, what was put off is told now, and no answer is awaited any more.  Engine held. */
int64_t weft__telling_check(weft_context *ctx, int64_t now_ns);

/* ---- what groups (group_telling.h) and deaths (deaths.h) have in common ---- */

/* False: the hosts of its tree are few, or there is no memory, and each is to be told. */
bool weft__telling_open(weft__telling *telling, const weft__notice *notice);
/* This rank knows it by itself. */
void weft__telling_along(weft__telling *telling, const weft__notice *notice);
/* That member has told it and asks for that.  notice: as it goes on from here. */
void weft__telling_pass_on(weft__telling *telling, int member, const weft__notice *notice);
/* Others tell what is told here too: those that are gone past are theirs. */
void weft__telling_sees_to_none(weft__telling *telling);
/* Other hosts are to be told after that time, unless this is put off no more. */
void weft__telling_put_off(weft__telling *telling, int64_t after_ns);
void weft__telling_put_off_no_more(weft__telling *telling);
/* One member alone, and those of this host. */
void weft__telling_word(weft__telling *telling, int member, const weft__notice *notice);
void weft__telling_mates(weft__telling *telling, weft__notice notice, weft__break_word word);
void weft__telling_take_answer(weft__telling *telling, int from, const weft__notice *told);
/* A death, of which that rank may have had words that end with it: if it has answered, its host is gone past now. */
void weft__telling_loses(weft__telling *telling, int rank);
size_t weft__telling_bytes(const weft__telling *telling); /* of memory, where its hosts are many */
bool weft__telling_goes_on(const weft__telling *telling); /* something is awaited, or put off */
#endif
