/* gate.h - the agreement of a collective on devices: what the host plane does in its place.
 *
 * A barrier; or, in the agreed order, a maximum of three words, so that the place among what devices get (order.h) costs
 * no message of its own:
 *
 *   stamp    what this rank proposes, and whether its communicator is not there yet
 *   most     operations that it issues together, with its number in the group below it
 *   least    likewise, the complement of their number
 *
 * So all find the stamp, and who issues other numbers together; where one rank's communicator is not there, the place is
 * agreed on by messages once it is.  So it is where this rank has a collective of the group in host memory under way, behind
 * which the agreement comes: what takes long there would stand in the order for as long.  An exchange of lengths
 * (device_lengths.h) carries no place.
 *
 * What is issued together has a gate for each of its operations, and one ticket: its place is the last of theirs. */
#ifndef WEFT_RUNTIME_GATE_H
#define WEFT_RUNTIME_GATE_H
#include "device.h"

/* What the host plane does, of an operation that has just been submitted; device_lengths.c may put its own in place. */
void weft__gate_make(weft__device *d);
/* The host plane is about to begin it: takes the place in the order that it proposes.  ready: its communicator is there. */
void weft__gate_enter(weft__device *d, bool ready);
/* The operation that `req` waits for in the order, as another one that it stands behind has no final place; NULL: none. */
weft_request *weft__gate_behind(const weft_request *req);
/* All members have come.  False: one of them issues another number together, and the group is broken. */
bool weft__gate_opened(weft__device *d);
/* What the ticket of collectives that are fused says, all of which are known. */
void weft__gate_ticket(weft__device *first);
/* All gates of what is fused have opened: it goes when its turn comes, or has failed, perhaps before this returns.
 * False: one of them carries no place, or some rank's communicator was not there, and it has left the order. */
bool weft__gate_gives_place(weft__device *first);
#endif
