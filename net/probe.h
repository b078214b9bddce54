/* probe.h - one plain TCP connection to an address, to see who listens there before ZeroMQ is let loose on it
 * (ZeroMQ would retry for ever, in silence). */
#ifndef WEFT_NET_PROBE_H
#define WEFT_NET_PROBE_H
#include "address.h"

#include <stdint.h>

enum weft__probe_result {
    WEFT__PROBE_GREETED,     /* the first bytes are ZeroMQ's */
    WEFT__PROBE_STRANGE,     /* they are not */
    WEFT__PROBE_SILENT,      /* connected, and nothing came for SILENCE_MS of probe.c */
    WEFT__PROBE_CLOSED,      /* connected, and hung up before a byte: perhaps a server that starts or stops */
    WEFT__PROBE_REFUSED,     /* nobody listens */
    WEFT__PROBE_NO_ANSWER,   /* the deadline came first */
    WEFT__PROBE_UNREACHABLE, /* no way to that host; error tells why */
};

typedef struct weft__probe {
    enum weft__probe_result result;
    int error;           /* UNREACHABLE */
    weft__address local; /* GREETED: our end of the connection */
    char why[128];       /* the caller's: why this host cannot serve the address itself, or "" */
} weft__probe;

void weft__probe_look(const weft__address *address, int64_t deadline_ns, weft__probe *probe);
#endif
