/* handover.h - that a rank has left is known where its end will be looked for.
 *
 * Every rank watches over the next living one (core/peer.h).  When those between have gone, it connects to the one
 * behind them; and that one, if it has left in order, refuses just as a dead one does.  So its goodbye has to have
 * been there before.  Its watcher is the nearest rank before it, around the job, that is not leaving.
 *
 *     BEHIND {first, count}...   these ranks, behind the one that says so, have left
 *     BYE, BYE_TAKEN             net/p2p.h
 *
 * A rank that leaves says BEHIND of all that it knows to have left, and then BYE, to its watcher, whether they ever
 * talked or not; and to all that it did talk to, any of which may be its watcher later.  It goes only when its
 * watcher has taken that.  If that one refuses, or leaves too, there is another watcher: it is told then.
 * Whoever is leaving answers a goodbye with its own first, so that none is taken by somebody who tells nobody.
 * All others hear of it by the watchdog, and only then: whoever knew before would take no BEHIND.
 *
 * What holds, unless ranks die: of every rank that has left, its watcher knows that.  It did when that rank left;
 * and when the watcher leaves, it says so to its own, which is then the other's.  It costs a rank a message to
 * each that it talked to, and a connection for each watcher that turns out to have gone.  Where all share memory
 * nobody connects to watch, and nothing is said. */
#ifndef WEFT_RUNTIME_HANDOVER_H
#define WEFT_RUNTIME_HANDOVER_H
#include "protocol.h"

void weft__handover_begin(weft_context *ctx); /* before the goodbyes */
void weft__handover_go_on(weft_context *ctx); /* after them, until all are taken */

extern const weft__protocol weft__handover_protocol;
#endif
