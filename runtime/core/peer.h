/* peer.h - the other ranks: what they are called, watching that they live, and their end.  Engine held. */
#ifndef WEFT_RUNTIME_PEER_H
#define WEFT_RUNTIME_PEER_H
#include "context.h"
#include "notice.h"

/* A rank is gone, or one that was presumed dead is so for certain.  told: another rank says that, and tells all others
 * itself. */
void weft__peer_gone(weft_context *ctx, int rank, weft__gone how, bool told, const char *why);
/* It lives, and there has been no connection to it for WEFT_RECONNECT_MS: what is under way with it ends, the groups of
 * both break, nobody is called dead, and it lives again when there is another connection (weft__peer_connected).
 * told: this rank has not found that itself, which the other one has, or a rank of its host.  False: it is no rank that
 * this can be said of. */
bool weft__peer_unreachable(weft_context *ctx, int rank, bool told, const char *why);
/* `from` says that this is so of the two: if it is one of others it is passed on, as they may not hear each other; if this
 * rank is the one, the other is unreachable here too, so that both know it. */
void weft__peer_told_unreachable(weft_context *ctx, int from, const weft__notice *notice);
/* Its end is seen by this pidfd from now on.  own: which is closed with the context. */
weft_status weft__peer_watch_death(weft_context *ctx, int rank, int pid_fd, bool own);
/* Likewise its exec, by the end of its pipe (net/shm_segment.h). */
weft_status weft__peer_watch_exec(weft_context *ctx, int rank, int tie_fd);
/* The end of `dead` is seen by that rank itself, without being told: it is of the same host, and where the dead one is
 * another program, it sees its process by its number. */
bool weft__peer_sees_end(const weft_context *ctx, int rank, int dead);
/* A rank of this host that shares no memory with this one, and is thought to be dead: has its process ended?  If not, its end is
 * seen from now on. */
bool weft__peer_process_has_ended(weft_context *ctx, int rank);
void weft__peers_close(weft_context *ctx); /* nobody's end is seen any more */
/* Checks whether the processes of this host's ranks live, whatever the kernel has told; at most ten times a
 * second, and some of them each time. */
void weft__peer_deaths_recheck(weft_context *ctx);
/* Every rank keeps an eye on the next living one: where that is not on this host, by a connection to it. */
void weft__peer_watch_next(weft_context *ctx);
/* Over the data plane, without a new connection?  Else words go by the watchdog. */
bool weft__peer_reached(const weft_context *ctx, int rank);
/* What this process lacks, so that it has no connection to that rank; NULL: nothing. */
const char *weft__peer_want(const weft_context *ctx, int rank);
/* "rank 3 (host b, pid 77)" */
void weft__peer_name(const weft_context *ctx, int rank, char *text, size_t bytes);
/* Its name with what became of it: "rank 3 has left (host b, pid 77)" */
void weft__peer_fate(const weft_context *ctx, int rank, char *text, size_t bytes);
void weft__peer_connected(weft_context *ctx, int rank); /* a connection to it is there */
/* A connection to it ended before anything had come over it: it may have left, its word is on the way. */
void weft__peer_suspect(weft_context *ctx, int rank, const char *why);
/* Another rank says that it has left.  Its own word is on the way, and ahead of that what it had to tell: only if
 * that takes long it counts as gone. */
void weft__peer_hearsay(weft_context *ctx, int rank, const char *why);
/* Likewise where it is unreachable from here; else nothing. */
void weft__peer_left_elsewhere(weft_context *ctx, int rank, const char *why);
/* Some rank has to be looked at again, at that time at the latest: by weft__peer_suspects_check and weft__accused_check, which pass over
 * the others only then. */
void weft__peer_doubt(weft_context *ctx, int64_t check_ns);
/* Suspects whose time is up; returns when the next one's is. */
int64_t weft__peer_suspects_check(weft_context *ctx, int64_t now_ns);
/* What that rank has told this one cannot be, as the sentence says, and is dropped: one line in the log, the
 * first as a warning, so that a rank that goes on does not fill it.  With or without the engine. */
void weft__peer_refused(weft_context *ctx, int rank, const char *sentence) WEFT__COLD;
#endif
