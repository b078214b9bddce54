/* accused.h - ranks that others presume dead, where a majority decides.  Engine held. */
#ifndef WEFT_RUNTIME_ACCUSED_H
#define WEFT_RUNTIME_ACCUSED_H
#include "context.h"
#include "notice.h"

/* `by` presumes that rank dead, and is believed if it answers this rank, and is not presumed dead itself by the time that all
 * have heard of it.  Of two that presume each other dead the one is that more others presume so, of as many the higher. */
void weft__peer_accused(weft_context *ctx, int rank, int by, const char *why);
/* `by` says so as it joins a shrink, to the lead alone: it may believe others that are presumed dead since, so that nobody else has
 * heard of it from anybody whose word counts.  Should this rank believe it, it tells all others. */
void weft__peer_accused_in_join(weft_context *ctx, int rank, int by, const char *why);
/* `from` says so by its watchdog.  knows: the two do not reach each other, and this rank, which is heard by both, tells
 * the one that is presumed dead, and all others should it believe it.  Of this rank: by the culprit, as `from` has passed on. */
void weft__peer_told_presumed(weft_context *ctx, int from, const weft__notice *notice);
/* Its watchdog has answered this rank's question for itself. */
void weft__accuser_answers(weft_context *ctx, int by);
/* Some rank that lives presumes it dead: one of the two is gone soon. */
bool weft__peer_is_accused(const weft_context *ctx, int rank);
/* Judges those whose time is up; returns when the next one's is. */
int64_t weft__accused_check(weft_context *ctx, int64_t now_ns);
#endif
