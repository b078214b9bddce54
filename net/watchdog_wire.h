/* watchdog_wire.h - the watchdogs' wire: small messages between ranks beside the data plane, over ZeroMQ with
 * CURVE and ZAP, by the ranks' own keys (keys.h).  Every rank binds one ROUTER on its own address and connects a DEALER to a peer when the
 * first message for it is there.  One ZeroMQ context per process; after opening, only the watchdog thread
 * calls anything here.  Messages to one peer keep their order; nothing is ever waited for. */
#ifndef WEFT_NET_WATCHDOG_WIRE_H
#define WEFT_NET_WATCHDOG_WIRE_H
#include "zap.h"

#include <stdint.h>
#include <weft/weft.h>

#define WEFT__WATCHDOG_WORD_MAX WEFT__SLICE_BYTES /* a longer one closes the connection it came from */
#define WEFT__ENDPOINT_BYTES    96

typedef struct weft__watchdog_wire weft__watchdog_wire;

/* Binds on a numeric address (never a wildcard), any port; endpoint gets "tcp://ADDRESS:PORT". */
weft_status weft__watchdog_wire_open(const char *address, weft__keys *keys, int me, weft__watchdog_wire **out,
                                     char endpoint[WEFT__ENDPOINT_BYTES]);
/* endpoints: world strings of WEFT__ENDPOINT_BYTES each, copied.  The ranks' keys are known by now, and stay as they are. */
weft_status weft__watchdog_wire_peers(weft__watchdog_wire *wire, int world, const char *endpoints);
/* Never blocks; ERR_MEMORY when the queue to that peer is full (256 messages), ERR_PEER when it cannot be
 * connected to, ERR_ARGUMENT above WEFT__WATCHDOG_WORD_MAX. */
weft_status weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes, size_t length);
/* The peer is dead or has left: what is queued for it goes out for at most 100 ms, and it is not dialled
 * again. */
void weft__watchdog_wire_forget(weft__watchdog_wire *wire, int peer);
/* Takes what has arrived.  `from` has proved by its key that it is that rank. */
typedef void weft__watchdog_wire_fn(void *arg, int from, const void *bytes, size_t length);
int weft__watchdog_wire_take(weft__watchdog_wire *wire, weft__watchdog_wire_fn *fn, void *arg);
void weft__watchdog_wire_close(weft__watchdog_wire *wire); /* lets queued messages out for at most 100 ms */

/* What the watchdog sleeps in: until a message, wake_fd readable, or the deadline.  n may be 0. */
void weft__watchdog_wire_sleep(weft__watchdog_wire *const *wires, int n, int wake_fd, int64_t deadline_ns);
#endif
