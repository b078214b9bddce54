/* wires.h - what simulated ranks send each other: the data plane's frames, the watchdogs' notices, and the
 * ends of ranks.
 *
 * Each plane keeps the order between two ranks; nothing else keeps any.  A path is one plane's way from one
 * rank to another; whoever drives the job chooses the path whose first message arrives next.  The data plane
 * is a weft__transport, so the point-to-point layer above it is the library's own; the notices go over
 * functions of watchdog_wire.h that this file has in place of net/watchdog_wire.c. */
#ifndef WEFT_TESTS_PROTOCOLS_WIRES_H
#define WEFT_TESTS_PROTOCOLS_WIRES_H
#include "transport.h"
#include "watchdog_wire.h"

#ifndef WIRES_RANKS_MAX /* test_counts has more */
#define WIRES_RANKS_MAX 33
#endif

/* ENDS: what a host's ranks see of each other's processes (pidfd); elsewhere the end of a connection comes
 * behind its last frame. */
typedef enum wires_plane { WIRES_FRAMES, WIRES_NOTICES, WIRES_ENDS, WIRES_PLANES } wires_plane;

typedef struct wires_path {
    wires_plane plane;
    int from, to;
} wires_path;

/* one_host: all ranks see each other's processes end, at any time; what was written before can be read. */
void wires_open(int ranks, bool one_host);
void wires_close(void);
weft__transport *wires_transport(int rank, weft__sink *sink);
weft__watchdog_wire *wires_control(int rank);

/* A path that holds something, drawn by chance; false: all are empty. */
bool wires_draw(wires_path *path);
/* Its first message is handed over at the receiver's next look at that plane (transport
 * poll, control take). */
void wires_release(const wires_path *path);
/* The rank is dead: from now on it sends nothing, and an unknown part of what it sent last is lost. */
void wires_kill(int rank);
/* The rank has left, in order: what it sent over the data plane arrives; notices_lost: of the last notices an unknown
 * part does not; and nobody connects to it any more. */
void wires_leave(int rank, bool notices_lost);
/* Dies with its so many next message, in the middle of whatever it does then.  0: not at all. */
/* Notices of the one do not reach the other any more, nor the other way round. */
void wires_part(int rank, int other);
void wires_set_fuse(int rank, int messages);
bool wires_is_dead(int rank);
bool wires_is_under_way(int from, int to); /* a frame is, or waits for its way (wires_hearing.h) */
int wires_rank_of(weft__transport *t);

/* ---- one that was let go of, and lives (begin_anew of transport.h) ---- */

bool wires_is_astray(int rank, int other); /* at `rank` the other one is */
/* The other end wants a connection that begins anew: rank lets go of the one before.  Its engine is held. */
void wires_let_go(int rank, int other);
/* Nothing of before is under way between the two any more. */
void wires_begin_anew(int rank, int other);
void wires_connected(int rank, int other); /* rank is told.  Its engine is held */
void wires_refused(int rank, int other);   /* likewise: the other one counts it as gone */
#endif
