/* tcp.h - frames over TCP: one connection per pair of ranks, made when the first frame wants to go,
 * authenticated before anything is read from it (tcp_handshake.h), and encrypted where WEFT_WIRE says so.
 *
 * Both ends may connect at once.  The acceptor then decides: the connection made by the lower rank stays.
 * A connector sends frames only after the acceptor's verdict. */
#ifndef WEFT_NET_TCP_H
#define WEFT_NET_TCP_H
#include "auth.h"
#include "poller.h"
#include "transport.h"

#include <sys/socket.h>

/* A rank's listening end as it travels at joining. */
typedef struct weft__tcp_address {
    uint8_t family; /* 4 or 6; 0: this rank has no TCP */
    uint8_t wire;   /* what this rank says of encryption: tcp_wire.h */
    uint16_t port;  /* host order */
    uint8_t bytes[16];
} weft__tcp_address;

/* Binds and listens on `address` (numeric IPv4 or IPv6), any port, and says where.  ERR_ARGUMENT for a
 * wildcard, a link-local address and anything that is not numeric. */
weft_status weft__tcp_listen(const char *address, int *fd, weft__tcp_address *where);
/* peers[world]: copied, this rank's own among them.  keys must outlive it.  Owns listen_fd once it has
 * succeeded; -1: only this rank dials.  Does not connect to anybody yet.  A peer that ends is told by
 * sink->lost first, then its frames get sent(ERR_PEER).  ERR_ARGUMENT: ranks differ in WEFT_WIRE. */
weft_status weft__tcp_open(int me, int world, const weft__tcp_address *peers, int listen_fd,
                           const weft__keys *keys, weft__poller *poller, weft__sink *sink,
                           weft__transport **transport);
#endif
