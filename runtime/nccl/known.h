/* known.h - what has been issued on a communicator, so that NCCL has made its connections for it and such a call only
 * launches.
 *
 * NCCL connects ranks when it first goes a way, and it chooses its way of a collective by the call, the type, the
 * reduction and the number of bytes, of which the logarithm is noted here.  What consists of messages needs connections
 * to the ranks that these go to and come from, whatever their length. */
#ifndef WEFT_NCCL_KNOWN_H
#define WEFT_NCCL_KNOWN_H
#include <stdbool.h>
#include <weft/backend.h>

typedef struct weft__known weft__known;

weft__known *weft__known_make(int size); /* for a communicator of so many ranks.  NULL: no memory */
void weft__known_free(weft__known *known);
/* All of these works have been noted, or what comes to the same.  known NULL: none has.  Any thread. */
bool weft__known_has(const weft__known *known, const weft_backend_work *work);
void weft__known_note(weft__known *known, const weft_backend_work *work);
#endif
