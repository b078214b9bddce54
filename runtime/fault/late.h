/* late.h - how far the members of a group are, found out in few words.
 *
 * Ranks of one host read each other's boards.  Of other hosts a rank learns like this:
 *
 *     asker -> its host's speaker -> the group's clerk -> a speaker of every other host, and the same way back
 *
 * The speaker of a host is its lowest living member, the clerk the lowest of the group; who asks is mostly one
 * of them itself, and leaves that step out.  A question is WHO with a scope: WHOLE goes up, HOST goes down.  An
 * answer is HERE: the members that have not come to that number, up to WEFT__LATE_ROWS of them, how many more
 * there are, and whom nobody could tell of; all others have come to it.
 *
 *     a group's round: CLOSED -> ASKED (who is above) or COLLECTING (of the other hosts) -> CLOSED
 *
 * What holds: a question goes to a lower member only, or to one of its own host, so none goes in a circle.  A
 * round is open for everybody who asks meanwhile, and one that has just closed answers at once: so there are at
 * most two words for each host and asker, whoever asks.  Who says nothing for SILENCE_NS is passed over for the
 * next one, who knows the same; its host "has not answered" only if none of ASKED_MOST there has.  What comes
 * late is taken nevertheless.  A rank that does not have the group says so and is passed over at once.
 * Connections are those of the watchdogs, and stay.  All of it under the engine. */
#ifndef WEFT_RUNTIME_LATE_H
#define WEFT_RUNTIME_LATE_H
#include "group.h"
#include "notice.h"

#define WEFT__LATE_ROWS 16

/* An answer of this moment from the board, if that shows the member.  number: of an operation on device memory
 * whose phase is wanted, which is not on the board, so that whoever has come to it has to be asked; 0: none. */
bool weft__late_read_board(weft_group *group, int member, uint64_t number);
/* To a rank of this host over the data plane, which needs no connection there; else by the watchdogs. */
void weft__late_tell(weft_context *ctx, int rank, const weft__notice *notice);

/* Begins to find out which members of other hosts have not come to that number. */
void weft__late_ask(weft_group *group, uint64_t number);
/* Members that are late and that nobody has named. */
unsigned weft__late_more(const weft_group *group);
/* A question or an answer with a scope, from that rank.  group: NULL, it is not here. */
void weft__late_take(weft_context *ctx, weft_group *group, int from, const weft__notice *told);
/* Passes over who is silent.  Returns when to check again. */
int64_t weft__late_check(weft_context *ctx, int64_t now_ns);
void weft__late_forget(weft_group *group);
#endif
