/* signing.h - what members that share no memory mean by operations that nobody waits to agree on, compared afterwards.
 *
 * In program order the device has an operation before its members have agreed on it (device/program.h), and where they are on
 * several hosts a barrier for each would cost ceil(log2 size) messages.  Instead each member tells the next one, in the
 * order of seats, what it has begun: WEFT__SIGNED_MOST operations in one message, or fewer once the first of them is
 * WEFT__SIGNED_AFTER_NS old.  Everybody compares that with what it has begun itself.  Round the ring all mean the same if
 * each means the same as the one before it, so the first that does not is seen, by who sits behind it or by itself.
 * Not up a tree of hosts: the members inside of one would take a message from each below them, and a difference would be
 * seen only where two branches meet; round the ring each takes and sends one, and it is seen after one way.
 *
 * All collectives in program order are told so, also those that have to be agreed on before they settle: then each has the
 * same to tell as the one before it, or they differ.  What lies in host memory is not told: its messages are compared.
 *
 * The one of the two that is ahead is kept, its number and signature, until the other one has come to it: 24 bytes for each
 * operation by which two members are apart.  Of what another one tells no more than WEFT__SIGNED_APART_MOST are kept; those
 * beyond it are not compared. */
#ifndef WEFT_RUNTIME_SIGNING_H
#define WEFT_RUNTIME_SIGNING_H
#include "group.h"
#include "protocol.h"

#define WEFT__SIGNED_MOST       32 /* operations in one message */
#define WEFT__SIGNED_AFTER_NS   (10 * WEFT__MS)
#define WEFT__SIGNED_APART_MOST 65536 /* operations of another member's that are kept for a group: 1.5 MiB */

/* Engine held, both.  False: the group has broken, and so the operation is over. */
/* This rank has begun that operation of a group that has seats, of which all are begun in order. */
bool weft__sign(weft_group *group, uint64_t number, weft__signature mine);
/* It begins one of which it tells nothing, in host memory: has the member before it told of one under that number? */
bool weft__begun_untold(weft_group *group, uint64_t number);

extern const weft__protocol weft__signing_protocol;
#endif
