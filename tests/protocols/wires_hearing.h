/* wires_hearing.h - hosts of simulated ranks, each rank's own, and ways between them that lose what is sent: for those who
 * listen whether hosts live (net/hearing.h).
 *
 * Over a way that is lost no frame and no notice comes; frames wait for it (wires.h), as TCP's do, notices are gone.  A connection
 * that is given up is lost where it is not made again in time.  Kernels answer at once, or a look later. */
#ifndef WEFT_TESTS_PROTOCOLS_WIRES_HEARING_H
#define WEFT_TESTS_PROTOCOLS_WIRES_HEARING_H
#include "hearing.h"

void wires_hearing_open(int64_t reconnect_ns);
void wires_hearing_close(void);                  /* no other game hears anything */
const weft__hearing *wires_hearing_of(int rank); /* NULL: nobody listens */
void wires_lose_way(int from, int to, bool lost);
bool wires_way_is_lost(int from, int to);
void wires_set_beside(int rank); /* odd: one host with the rank before it */
/* What an answer takes at most, as all connections show. */
void wires_slow(int64_t round_ns);
/* From now on; until it is made anew.  Over the one to `busy` something comes all the time. */
void wires_silence(int rank, int peer, int busy);
void wires_fall_idle(int rank, int peer); /* nothing comes by itself over that connection any more */
bool wires_is_silent(int rank, int peer);
int64_t wires_broke_ns(int rank, int peer); /* it is being made anew since; 0: it is not */
bool wires_stands(int rank, int peer);      /* there is a connection, over which something may come */
void wires_set_away(int rank, bool away);   /* what comes waits in its kernel, which answers */
bool wires_is_away(int rank);
/* What is due at that rank: answers to knocks, and ends of connections that were not made again. */
void wires_hearing_check(int rank, int64_t now_ns);
/* One that it has let go of (wires.h) takes its connection now. */
bool wires_hearing_meets(int rank, int peer);
/* For wires.c: a connection is asked for that begins anew; it is there. */
void wires_hearing_begin_anew(int rank, int peer);
void wires_hearing_connected(int rank, int peer);
#endif
