/* device_lengths.h - uneven operations on device memory whose blocks are a matter of two ranks: the agreement
 * is an exchange of their lengths, so that ranks at odds learn of it before a device waits for what never
 * comes. */
#ifndef WEFT_RUNTIME_DEVICE_LENGTHS_H
#define WEFT_RUNTIME_DEVICE_LENGTHS_H
#include "device.h"

/* Makes the agreement of such an operation; of any other leaves it as it is.  Fails: no memory. */
weft_status weft__device_lengths_make(weft__device *d);
/* The members agree.  False: two ranks are at odds, the group is broken. */
bool weft__device_lengths_agree(weft__device *d);
void weft__device_lengths_free(weft__device *d);
#endif
