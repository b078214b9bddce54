/* late.h - how far the members of a group are, found out in few words of each.
 *
 * Ranks of one host read each other's boards.  The hosts of a group are a tree that all members know
 * (host_tree.h): 16 below each.  What is asked and answered goes along it, by the speaker of each host, which is its
 * lowest living member; who asks and is none asks that one first.
 *
 *     WHO of the WHOLE goes up to the root, HERE comes down again the same way
 *     WHO of those BELOW goes down from the root, HERE comes up again
 *
 * An answer is HERE, with rows (late_rows.h): the members that have not come to that number, up to WEFT__LATE_ROWS of
 * them, how many more there are, and whom nobody could tell of; all others have come to it.
 *
 * Each group has two machines here, whose rounds end by themselves:
 *
 *     up:    CLOSED -> ASKED (who is above) or, as the root, COLLECTING (until `down` has closed) -> CLOSED
 *     down:  CLOSED -> COLLECTING (from the hosts below; the root's: from all) -> CLOSED
 *
 * What holds:
 * - A question of the WHOLE goes to a lower member of this host or to a host of a lower number, one of those BELOW to a
 *   host that is below who asks; `down` waits for no `up`.  So nobody waits in a circle.
 * - A round is open for everybody who asks meanwhile, and one whose result is young enough for who asks answers at once:
 *   ranks of a busy machine ask one after another for a second, and each collects nothing anew.  How old the result is
 *   goes down with it.  How young it has to be ranks say in steps, as those that wait for one operation want nearly the
 *   same; who wants it younger than a round that is open asks above it once more.  So of each round a rank has few words
 *   for who is above it and one for each below, there and back, however many ask.
 * - Who asks is told since when an answer counts: at the root that is before the question, where a round serves it
 *   that others have begun.
 * - Who waits for others says STILL to those that wait for it.  So silence is silence however high the tree (but see
 *   below), and who says nothing for SILENCE_NS is passed over: the next one of its host is asked of that HOST, which
 *   "has not answered" only if none of ASKED_MOST there has; hosts below it are asked by who passes it over; and who
 *   asked it for the WHOLE asks the next one above, two of one host at most, which is passed over as a whole then.  Who
 *   has passed over all above it asks the first of all hosts, and where that is itself, it is the root, and asks whoever
 *   would be asked by those that it has passed over.  After ABOVE_MOST silent hosts it waits, as it is the machine that
 *   is busy, and begins behind these when it is asked again.
 * - A group that is broken has no more rounds: who asks is answered with what is known, and will be told of the break.
 * - With a question goes for how long its answer is waited for; below, each has to be done sooner, by LEVEL_NS.  From
 *   the eighth level below the root on (that of more than 16 million hosts) that is less than SILENCE_NS, and who is
 *   silent there is told of together with those below it.  What comes late is taken nevertheless.  A rank that does not
 *   have the group says so and is passed over at once.
 * - How many are late in all comes with the names from the root, as who passes it on may know more names than it was
 *   told, and others than those that it passes on.
 *
 * Connections are those of the watchdogs, and stay.  All of it under the engine. */
#ifndef WEFT_RUNTIME_LATE_H
#define WEFT_RUNTIME_LATE_H
#include "group.h"
#include "notice.h"

/* Begins to find out which members of other hosts have not come to that number; what others have found out no longer
 * ago than stale_ns will do.  Returns since when whoever answers has answered this: now, or since the round began that
 * serves it. */
int64_t weft__late_ask(weft_group *group, uint64_t number, int64_t stale_ns);
/* Late members of the whole group, named or not, when that was last told; 0: it has not been. */
unsigned weft__late_total(const weft_group *group);
/* A question or an answer with a scope, from that rank.  group: NULL, it is not here. */
void weft__late_take(weft_context *ctx, weft_group *group, int from, const weft__notice *told);
/* Passes over who is silent.  Returns when to check again. */
int64_t weft__late_check(weft_context *ctx, int64_t now_ns);
/* The group is broken: who waits for an answer gets what is known. */
void weft__late_end(weft_group *group);
void weft__late_forget(weft_group *group);
#endif
