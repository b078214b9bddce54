/* multicast.h - a socket by which the ranks at one multicast address hear each other.
 *
 * How far it reaches: for one_host, and where the interface is the loopback one, not beyond this host (hop
 * limit 0, on loopback); otherwise the network of one interface (hop limit 1): that of WEFT_SOCKET_IFNAME,
 * else the one that the route to the address leaves by.  Loopback has no route for IPv6 multicast, so an IPv6
 * group is there an IPv4 one made from it.
 *
 * Fails with ERR_ARGUMENT where no interface leads to the address, ERR_SYSTEM where the system refuses. */
#ifndef WEFT_NET_JOIN_MULTICAST_H
#define WEFT_NET_JOIN_MULTICAST_H
#include "address.h"

typedef struct weft__multicast {
    int fd;              /* nonblocking; -1: closed */
    weft__address group; /* with its port */
    weft__address own;   /* of the interface, port 0: where this rank can serve */
    unsigned interface;  /* its index; 0: loopback */
} weft__multicast;

weft_status weft__multicast_open(const weft__address *group, bool one_host, weft__multicast *m);
/* To everybody there, this process included. */
weft_status weft__multicast_send(const weft__multicast *m, const void *bytes, size_t length);
/* One datagram; -1: none is here.  What is longer than room is cut. */
ssize_t weft__multicast_take(const weft__multicast *m, void *bytes, size_t room);
void weft__multicast_close(weft__multicast *m);
#endif
