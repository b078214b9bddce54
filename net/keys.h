/* keys.h - a job's keys (auth.h) in one place of memory that is shared by all who use them.
 *
 * That memory is locked, left out of core dumps, lies between pages that nobody may touch, and is zeroed when
 * the last of its users lets go of it.  What libzmq has copied of the CURVE keys stays in its heap, which can
 * be swapped and dumped as long as a socket with them is open (it offers no memory of one's own for them; who
 * must exclude that runs without swap and with a core limit of 0).  The keys of each TCP connection, which are made anew for it
 * and every so often, lie beside its buffers in ordinary memory until it ends, when they are wiped: a core dump opens what was
 * recorded of a connection that stood then, since its last change of keys, and of no other.  Each set of keys takes some pages and
 * system calls: who needs keys that are there already takes a share of them.
 *
 * Each rank draws a key pair of its own for each launch.  The secret one never leaves that memory, of which a child has a copy, not
 * locked, until it calls exec or ends; the public one travels with the rank's card at joining, so it is bound to rank and launch by whoever hands out the cards, or hands them on. */
#ifndef WEFT_NET_KEYS_H
#define WEFT_NET_KEYS_H
#include "auth.h"

/* As weft__keys_derive; the caller is the first user. */
weft_status weft__keys_make(const void *secret, size_t bytes, const char *job_name, weft__keys **keys);
/* Those of one launch of the job, whose nonce (rendezvous.h) is part of what they are made of: with one secret and one
 * name, what is said in one launch is a stranger's in another.  These have a pair of this rank's own.  The caller is the first
 * user. */
weft_status weft__keys_of_launch(const weft__keys *job, const char *nonce, weft__keys **keys);
/* Room for the public keys of a world's ranks, in keys->ranks, which whoever has met them fills in before others use it: a
 * rank is proved to be the one that told its key under that number. */
weft_status weft__keys_room(weft__keys *keys, int world);
/* Once that is filled: this rank's key there is its own, and no rank's is one that proves nothing.  Else ERR_MISMATCH, which names
 * the rank. */
weft_status weft__keys_check(const weft__keys *keys, int me, int world);
/* Any thread: one user more, and one less.  NULL has none. */
weft__keys *weft__keys_take(weft__keys *keys);
void weft__keys_drop(weft__keys *keys);
#endif
