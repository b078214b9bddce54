/* create_attempt.h - attempts to make a group, as their lead keeps count of them: who has come, and what becomes of it.
 *
 * The lead is the lowest member.  Its engine keeps count whether its own caller has come or not, so it may not know yet who
 * the members are: it asks the first one that joins (ASK), which answers with all of them (MEMBERS), and of the others hears
 * no more than that they mean the same.  When all have come it gives the group its number and tells all (spreading.h).  Whatever ends it
 * before is told to all that have joined, and stays as a tombstone from which later ones learn of it, until all have.  A member
 * that gives up an attempt that is over is told once more what became of it, if others still have to tell it that.
 *
 * What it relies on: who joins says so before anything else of that attempt, on one connection, in order, or others have said
 * so before (gathering.h), to whom many hosts leave it.  Who has joined and dies, or is not reached any more, or gives up, ends the attempt; so whoever was asked answers, or it is over.
 *
 * Beside these stand attempts that have failed here as their lead is unreachable (peer.h): it hears of that when it is reached
 * again, for it would wait for this rank in vain.  Engine held. */
#ifndef WEFT_GROUP_CREATE_ATTEMPT_H
#define WEFT_GROUP_CREATE_ATTEMPT_H
#include "gathering.h"

/* What another member has said to this rank, the lead; JOIN also what it says to itself, with the members. */
void weft__attempt_join(weft_context *ctx, int peer, const weft__create_message *m);
/* Whom others name (gathering.h), some of them once more. */
void weft__attempt_joins(weft_context *ctx, int peer, const weft__gather_word *w);
/* NULL: that attempt is over, or nobody has come to it. */
const unsigned char *weft__attempt_joined(weft_context *ctx, const weft__create_key *key);
void weft__attempt_members(weft_context *ctx, int peer, const weft__create_message *m);
void weft__attempt_expired(weft_context *ctx, int peer, const weft__create_message *m);
/* All that this rank, which is gone or unreachable, ends as a member. */
void weft__attempts_end(weft_context *ctx, int rank, const char *why);
/* The lead of that attempt, which is unreachable, is to hear that it has failed here; without memory for that the others'
 * deadlines say so. */
void weft__attempt_owe(weft_context *ctx, int lead, const weft__create_key *key, const char *why);
void weft__attempts_pay(weft_context *ctx, int lead);    /* it is reached again */
void weft__attempts_forget(weft_context *ctx, int lead); /* it is gone */
weft_status weft__attempts_open(weft_context *ctx);
void weft__attempts_close(weft_context *ctx);
#endif
