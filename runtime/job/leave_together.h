/* leave_together.h - whether all ranks leave: then nobody has to be told who left.
 *
 * Whoever leaves says goodbye to the ranks that it has talked to, and its watchdog tells all the others, each over a
 * connection made for that: as many as there are pairs, where all leave.  But whoever leaves too needs not know.  So a
 * rank of a job of several hosts first asks, up a tree and down again, whether all do:
 *
 *     LEAVING   to the parent: this rank and all below it have begun to leave, and have nothing under way
 *     ALL       from the parent: that holds of the whole job
 *
 * A rank's parent has the same number but for its lowest bit that is set: their connections are those of barriers and
 * of most collectives, so most jobs make none for this.  Ranks that have gone are left out: those below them count as
 * below the next one above that is there, and the lowest rank that is there stands at the top.
 *
 *     a rank: STAYS -> ASKS -> LEAVES_TOGETHER | LEAVES_ALONE
 *
 * It leaves alone, telling all, when it has asked for as long as telling them would take on a busy machine, a second
 * at most, and at once when it has more to tell than that it leaves, or does not reach a rank that others do: that one may
 * stay, and counts as gone here before it has said so.  From ASKS on it watches over nobody
 * (core/peer.h): whoever leaves together goes without a word to those it never talked to, and would be taken for dead.
 * While it asks it puts off what nobody needs where all leave: verdicts of shrink_group, handed on to the next lead.
 *
 * What holds: where one rank hears ALL, every rank that is there has begun to leave, or has left alone and told so.
 * It costs two messages a rank. */
#ifndef WEFT_RUNTIME_LEAVE_TOGETHER_H
#define WEFT_RUNTIME_LEAVE_TOGETHER_H
#include "protocol.h"

/* For a rank that has nothing under way any more; why: what it has to tell, or "".  True: it may say goodbye.
 * Engine held. */
bool weft__leave_together_check(weft_context *ctx, const char *why);

/* Asks no longer, and tells what was put off for that, unless it leaves already.  Engine held. */
void weft__leave_alone(weft_context *ctx);

extern const weft__protocol weft__leave_together_protocol;
#endif
