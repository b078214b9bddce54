/* multicast.c - see multicast.h.  Several processes share the port (SO_REUSEADDR); each gets every datagram.
 * Bound to the group itself, and joined on one interface, so that nothing else arrives. */
#include "multicast.h"
#include "settings.h"
#include "status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#define HOPS 1 /* routers do not pass it on */

/* The index of the interface that has this address; 0: none. */
static unsigned interface_of(const weft__address *own)
{
    struct ifaddrs *list;
    unsigned index = 0;
    if (getifaddrs(&list)) return 0;
    for (struct ifaddrs *at = list; at && !index; at = at->ifa_next) {
        const weft__address *has = (const void *)at->ifa_addr;
        if (!has || has->any.sa_family != own->any.sa_family) continue;
        if (has->any.sa_family == AF_INET
                ? has->v4.sin_addr.s_addr == own->v4.sin_addr.s_addr
                : !memcmp(&has->v6.sin6_addr, &own->v6.sin6_addr, sizeof own->v6.sin6_addr))
            index = if_nametoindex(at->ifa_name);
    }
    freeifaddrs(list);
    return index;
}

static void stay_here(weft__multicast *m)
{
    static const uint8_t key[crypto_shorthash_KEYBYTES] = "weft multicast";
    struct in6_addr six = m->group.v6.sin6_addr;
    int port = weft__address_port(&m->group);
    uint8_t hash[crypto_shorthash_BYTES];
    if (m->group.any.sa_family == AF_INET6) {
        crypto_shorthash(hash, six.s6_addr, sizeof six.s6_addr, key);
        hash[0] = 239;
        memset(&m->group, 0, sizeof m->group);
        m->group.v4.sin_family = AF_INET;
        memcpy(&m->group.v4.sin_addr, hash, sizeof m->group.v4.sin_addr);
        weft__address_set_port(&m->group, port);
    }
    memset(&m->own, 0, sizeof m->own);
    m->own.v4.sin_family = AF_INET;
    m->own.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    m->interface = 0;
}

static weft_status choose_interface(weft__multicast *m)
{
    const char *name = weft__setting_text(WEFT__SET_SOCKET_IFNAME);
    char text[WEFT__ADDRESS_BYTES];
    weft_status status;
    if (*name) {
        status = weft__address_of_interface(name, m->group.any.sa_family, text);
        if (!status) status = weft__address_resolve(text, 0, &m->own);
        if (status) return status;
        m->interface = if_nametoindex(name);
    } else if (weft__address_towards(&m->group, &m->own)) {
        weft__address_set_port(&m->own, 0);
        m->interface = interface_of(&m->own);
    } else {
        weft__address_text(&m->group, text);
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "no route leads to the multicast address %s: set WEFT_SOCKET_IFNAME to the network interface "
            "to use",
            text);
    }
    if (weft__address_is_loopback(&m->own)) stay_here(m);
    return WEFT_OK;
}

/* 0, or -1 and errno. */
static int join_four(const weft__multicast *m)
{
    struct ip_mreqn how = {.imr_multiaddr = m->group.v4.sin_addr, .imr_ifindex = (int)m->interface};
    int on = 1, off = 0, hops = m->interface ? HOPS : 0;
    if (!m->interface) how.imr_address.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
    return setsockopt(m->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &how, sizeof how) ||
                   setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_IF, &how, sizeof how) ||
                   setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_TTL, &hops, sizeof hops) ||
                   setsockopt(m->fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on)
               ? -1
               : 0;
}

static int join_six(const weft__multicast *m)
{
    struct ipv6_mreq how = {.ipv6mr_multiaddr = m->group.v6.sin6_addr, .ipv6mr_interface = m->interface};
    int on = 1, off = 0, hops = HOPS;
#ifdef IPV6_MULTICAST_ALL
    setsockopt(m->fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof off);
#else
    (void)off;
#endif
    return setsockopt(m->fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &how, sizeof how) ||
                   setsockopt(m->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &m->interface, sizeof m->interface) ||
                   setsockopt(m->fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof hops) ||
                   setsockopt(m->fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &on, sizeof on)
               ? -1
               : 0;
}

weft_status weft__multicast_open(const weft__address *group, bool one_host, weft__multicast *m)
{
    weft__multicast made = {.fd = -1, .group = *group};
    char text[WEFT__ADDRESS_BYTES];
    int on = 1;
    weft_status status = WEFT_OK;
    if (one_host)
        stay_here(&made);
    else
        status = choose_interface(&made);
    if (status) return status;
    if (made.group.any.sa_family == AF_INET6) made.group.v6.sin6_scope_id = made.interface;
    made.fd = socket(made.group.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made.fd < 0) return weft__fail_errno("no datagram socket for joining by multicast");
    if (setsockopt(made.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(made.fd, &made.group.any, weft__address_length(&made.group)) ||
        (made.group.any.sa_family == AF_INET ? join_four(&made) : join_six(&made))) {
        weft__address_text(&made.group, text);
        status =
            weft__fail_errno("cannot join the multicast address %s port %d", text, weft__address_port(group));
        close(made.fd);
        return status;
    }
    *m = made;
    return WEFT_OK;
}

weft_status weft__multicast_send(const weft__multicast *m, const void *bytes, size_t length)
{
    char text[WEFT__ADDRESS_BYTES];
    ssize_t n;
    do {
        n = sendto(m->fd, bytes, length, 0, &m->group.any, weft__address_length(&m->group));
    } while (n < 0 && errno == EINTR);
    if (n >= 0 || errno == EAGAIN || errno == ENOBUFS)
        return WEFT_OK; /* one that is lost will be sent again */
    weft__address_text(&m->group, text);
    return weft__fail_errno("cannot send to the multicast address %s port %d", text,
                            weft__address_port(&m->group));
}

ssize_t weft__multicast_take(const weft__multicast *m, void *bytes, size_t room)
{
    ssize_t n;
    do {
        n = recv(m->fd, bytes, room, 0);
    } while (n < 0 && errno == EINTR);
    return n;
}

void weft__multicast_close(weft__multicast *m)
{
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}
