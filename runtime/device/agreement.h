/* agreement.h - that all members mean the same operation, and that all have come to it.
 *
 * It costs a maximum, or a barrier, among the ranks' processors (gate.h), and gives what a device cannot: who is late and who
 * means something else is known before anything runs there, so nothing has to be torn down for it; and no kernel occupies
 * a device while it waits for a rank that is still busy elsewhere.  In program order the operation goes on beside it, and
 * settles when both are over; members of several hosts compare afterwards what they mean (signing.h).
 *
 * What goes on beside its agreement is not to wait for it either: writing to what other processes read takes about as long as
 * all else that the runtime does in the call.  So it is put off to the next pass of progress, which the progress thread or
 * a caller who waits makes at once; or until this rank begins a collective of the host plane, for those of a group begin in
 * the order of their numbers.
 *
 *   begun -> put off -> under way -> agreed     in program order
 *   begun -> under way -> agreed                in the agreed one, and what a graph records
 *
 * d->shut from the second state on, until it is agreed or stopped.  All under the engine. */
#ifndef WEFT_RUNTIME_AGREEMENT_H
#define WEFT_RUNTIME_AGREEMENT_H
#include "device.h"

/* False: the operation waits for others before it goes on, or is over, or has gone on before. */
bool weft__agreement_begin(weft_request *req);
/* Begins all that were put off.  Returns how many. */
int weft__agreements_go_on(weft_context *ctx);
#endif
