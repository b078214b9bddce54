/* tcp.h - frames over TCP: one connection per pair of ranks, made when the first frame wants to go,
 * authenticated (auth.h) before anything is read from it.
 *
 * Both ends may connect at once.  The acceptor then decides: the connection made by the lower rank stays.
 * A connector sends frames only after the acceptor's verdict. */
#ifndef WEFT_NET_TCP_H
#define WEFT_NET_TCP_H
#include "auth.h"
#include "transport.h"
#include "watch.h"

#include <sys/socket.h>

/* A rank's listening end as it travels at joining. */
typedef struct weft__tcp_address {
    uint8_t family; /* 4 or 6; 0: this rank has no TCP */
    uint8_t reserved;
    uint16_t port;  /* host order */
    uint8_t bytes[16];
} weft__tcp_address;

/* Binds and listens on `address` (a numeric IPv4 or IPv6 address, port 0) and says where.  Never on a wildcard. */
weft_status weft__tcp_listen(const char *address, int *fd, weft__tcp_address *where);
/* peers[world]: copied.  Owns listen_fd.  keys must outlive it.  Does not connect to anybody yet. */
weft_status weft__tcp_open(int me, int world, const weft__tcp_address *peers, int listen_fd, const weft__keys *keys,
                           weft__watch *watch, weft__sink *sink, weft__transport **transport);
#endif
