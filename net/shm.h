/* shm.h - frames between ranks of one host, through one ring per ordered pair in the segment.
 *
 * A ring is a byte ring of records: the 64-byte frame header and behind it the payload, padded to 64.  The
 * first 8 bytes of a header are stored last; zero there means "not written yet", so a small message moves one
 * or two cache lines and no shared counter.  The reader tells how far it is now and then. */
#ifndef WEFT_NET_SHM_H
#define WEFT_NET_SHM_H
#include "shm_segment.h"
#include "transport.h"

/* local_of[world rank]: local rank or -1; copied, world entries.  crowded: more ranks than processors.
 * segment must outlive it. */
weft_status weft__shm_open(weft__segment *segment, const int *local_of, int world, bool crowded,
                           weft__sink *sink, weft__transport **transport);
#endif
