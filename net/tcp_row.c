/* tcp_row.c - TCP among the transports: what a rank tells of its listening end, and how that is described. */
#include "status.h"
#include "tcp.h"
#include "transports.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(weft__tcp_address) <= WEFT__TRANSPORT_ADDRESS_BYTES, "it travels as an address");

typedef struct listener { /* that nobody has taken yet */
    int fd;
} listener;

static weft_status tcp_offer(const weft__transport_site *site, weft__transport_address *own, void **held)
{
    weft__tcp_address where;
    listener *l = malloc(sizeof *l);
    weft_status status;
    if (!l) return weft__fail_memory(sizeof *l, "listening for TCP");
    status = weft__tcp_listen(site->listen_at, &l->fd, &where);
    if (status != WEFT_OK) {
        free(l);
        return status;
    }
    memcpy(own->bytes, &where, sizeof where);
    own->length = sizeof where;
    *held = l;
    return WEFT_OK;
}

static void tcp_withdraw(void *held)
{
    listener *l = held;
    close(l->fd);
    free(l);
}

/* Family 0: it is none. */
static weft__tcp_address tcp_address(const weft__transport_address *told)
{
    weft__tcp_address address = {0};
    if (told->length == sizeof address) memcpy(&address, told->bytes, sizeof address);
    if (address.family != 4 && address.family != 6) address.family = 0;
    return address;
}

static bool tcp_reaches(const weft__transport_site *site, int rank, const weft__transport_address *theirs)
{
    (void)site;
    (void)rank;
    return tcp_address(theirs).family != 0;
}

static weft_status tcp_open(const weft__transport_site *site, const weft__transport_address *addresses,
                            void *held, weft__transport **transport)
{
    listener *l = held;
    size_t n = (size_t)site->world;
    weft__tcp_address *peers = calloc(n, sizeof *peers);
    weft_status status;
    if (!peers) return weft__fail_memory(n * sizeof *peers, "routes");
    for (size_t i = 0; i < n; i++) peers[i] = tcp_address(&addresses[i]);
    status =
        weft__tcp_open(site->me, site->world, peers, l->fd, site->keys, site->poller, site->sink, transport);
    free(peers);
    if (status == WEFT_OK) free(l);
    return status;
}

/* ---- where it listens --------------------------------------------------------------------------- */

static bool is_at(const struct sockaddr *a, const weft__tcp_address *at)
{
    if (a->sa_family == AF_INET && at->family == 4)
        return !memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr, at->bytes,
                       sizeof(struct in_addr));
    if (a->sa_family == AF_INET6 && at->family == 6)
        return !memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, at->bytes,
                       sizeof(struct in6_addr));
    return false;
}

static void tcp_describe(const weft__transport_address *own, char *text, size_t bytes)
{
    weft__tcp_address at = tcp_address(own);
    char address[INET6_ADDRSTRLEN] = "", name[64] = "an unknown interface";
    struct ifaddrs *all = NULL;
    if (!at.family) {
        snprintf(text, bytes, "none, nothing listens for TCP");
        return;
    }
    inet_ntop(at.family == 4 ? AF_INET : AF_INET6, at.bytes, address, sizeof address);
    if (getifaddrs(&all)) all = NULL;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && is_at(i->ifa_addr, &at)) snprintf(name, sizeof name, "%s", i->ifa_name);
    if (all) freeifaddrs(all);
    snprintf(text, bytes, "%s, TCP at %s port %d", name, address, at.port);
}

const weft__transport_row weft__transport_tcp = {.name = "tcp",
                                                 .title = "TCP",
                                                 .traits = WEFT__TRANSPORT_WAKES | WEFT__TRANSPORT_ORDERED,
                                                 .offer = tcp_offer,
                                                 .reaches = tcp_reaches,
                                                 .open = tcp_open,
                                                 .withdraw = tcp_withdraw,
                                                 .describe = tcp_describe};
