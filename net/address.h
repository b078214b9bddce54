/* address.h - numeric addresses: of a host by name, of a network interface, and how far they reach.
 * Everything here blocks at most as long as the system's resolver. */
#ifndef WEFT_NET_ADDRESS_H
#define WEFT_NET_ADDRESS_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <weft/weft.h>

#define WEFT__ADDRESS_BYTES   64 /* a numeric address as text, with an IPv6 scope */
#define WEFT__HOST_ID_BYTES   64
#define WEFT__HOST_NAME_BYTES 256

typedef union weft__address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} weft__address;

socklen_t weft__address_length(const weft__address *address);
int weft__address_port(const weft__address *address);
void weft__address_set_port(weft__address *address, int port);
/* "HOST:PORT", an IPv6 address in brackets, taken apart.  NULL, or what is wrong with it. */
const char *weft__address_split(const char *text, char host[WEFT__HOST_NAME_BYTES], int *port);
/* Name or number; IPv4 is preferred, so that all ranks of a job choose alike.  ERR_ARGUMENT if it has no
 * address, and for wildcards: nothing is ever bound to them. */
weft_status weft__address_resolve(const char *host, int port, weft__address *out);
bool weft__address_is_loopback(const weft__address *address);
bool weft__address_is_multicast(const weft__address *address);
/* Without the port, IPv6 without brackets. */
void weft__address_text(const weft__address *address, char text[WEFT__ADDRESS_BYTES]);
/* "tcp://127.0.0.1:29500", "tcp://[::1]:29500"; port NULL: any ("*"). */
void weft__address_endpoint(const char *text, const int *port, char *endpoint, size_t bytes);
/* The address of a network interface; of the wanted family if it has one.  An unknown name: the sentence
 * lists those that exist. */
weft_status weft__address_of_interface(const char *name, int family, char text[WEFT__ADDRESS_BYTES]);
/* The address that others can reach this host by: the one that the default route leaves by (nothing is sent),
 * else that of the host's name.  Neither: the sentence says to set WEFT_SOCKET_IFNAME. */
weft_status weft__address_outward(char text[WEFT__ADDRESS_BYTES]);

/* Our own address on the way to another one (its port must be set); false: there is no way. */
bool weft__address_towards(const weft__address *far, weft__address *own);

/* Equal on the processes of one host: WEFT_HOSTID, else boot id and network namespace. */
void weft__host_id(char id[WEFT__HOST_ID_BYTES]);
#endif
