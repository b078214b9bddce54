/* beacon.h - the datagrams by which ranks find each other over multicast.
 *
 *   ASK    who serves this job?
 *   HERE   I do, at this TCP address
 *
 * Fixed size, with a MAC over everything before it, keyed from the job's secret.  The nonce is that of the
 * server, or for ASK of the asker: whoever sent it knows its own.  A beacon sent again by somebody else leads
 * to a server that has gone, or that has another nonce and refuses who asks for this one.
 *
 * Pure: bytes in, bytes out. */
#ifndef WEFT_NET_JOIN_BEACON_H
#define WEFT_NET_JOIN_BEACON_H
#include "address.h"
#include "auth.h"

#include <stdbool.h>

#define WEFT__BEACON_BYTES 104

enum weft__beacon_kind { WEFT__BEACON_ASK = 1, WEFT__BEACON_HERE };

typedef struct weft__beacon {
    enum weft__beacon_kind kind;
    uint8_t nonce[WEFT__RUN_NONCE_BYTES];
    weft__address server; /* HERE: with its port */
} weft__beacon;

enum weft__beacon_verdict {
    WEFT__BEACON_OURS,
    WEFT__BEACON_OTHERS, /* well formed, of another job or with another secret */
    WEFT__BEACON_NOISE
};

void weft__beacon_write(const weft__keys *keys, const weft__beacon *beacon,
                        uint8_t bytes[WEFT__BEACON_BYTES]);
/* OURS fills in *beacon. */
enum weft__beacon_verdict weft__beacon_read(const weft__keys *keys, const void *datagram, size_t length,
                                            weft__beacon *beacon);
#endif
