/* address.c - see address.h.  Fails with the host's or the interface's name in the sentence. */
#include "address.h"
#include "number.h"
#include "process.h"
#include "settings.h"
#include "status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

socklen_t weft__address_length(const weft__address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

int weft__address_port(const weft__address *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

void weft__address_set_port(weft__address *address, int port)
{
    if (address->any.sa_family == AF_INET)
        address->v4.sin_port = htons((uint16_t)port);
    else
        address->v6.sin6_port = htons((uint16_t)port);
}

static bool is_wildcard(const weft__address *address)
{
    if (address->any.sa_family == AF_INET) return address->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

bool weft__address_is_loopback(const weft__address *address)
{
    const struct in6_addr *six = &address->v6.sin6_addr;
    if (address->any.sa_family == AF_INET) return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

bool weft__address_is_multicast(const weft__address *address)
{
    if (address->any.sa_family == AF_INET) return IN_MULTICAST(ntohl(address->v4.sin_addr.s_addr));
    return IN6_IS_ADDR_MULTICAST(&address->v6.sin6_addr);
}

const char *weft__address_split(const char *text, char host[WEFT__HOST_NAME_BYTES], int *port)
{
    const char *begin = text, *end = strchr(text, ':'), *number;
    int64_t given;
    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        if (!end || end[1] != ':') return "a \"[\" without \"]:PORT\"";
        number = end + 2;
    } else {
        if (!end) return "it has no port";
        number = end + 1;
        if (strchr(number, ':')) return "an IPv6 address must stand in brackets";
    }
    if (end == begin) return "it has no host";
    if (end - begin >= WEFT__HOST_NAME_BYTES) return "the host name is too long";
    if (!weft__number_read(number, 1, 65535, &given)) return "the port is not a number from 1 to 65535";
    *port = (int)given;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return NULL;
}

weft_status weft__address_resolve(const char *host, int port, weft__address *out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list, *best = NULL;
    int rc = getaddrinfo(host, NULL, &hints, &list);
    if (rc)
        return weft__fail(WEFT_ERR_ARGUMENT, "host \"%s\" cannot be resolved: %s", host,
                          rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    for (struct addrinfo *at = list; at; at = at->ai_next)
        if ((at->ai_family == AF_INET || at->ai_family == AF_INET6) &&
            (!best || (at->ai_family == AF_INET && best->ai_family != AF_INET)))
            best = at;
    memset(out, 0, sizeof *out);
    if (best) memcpy(out, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(list);
    if (!best) return weft__fail(WEFT_ERR_ARGUMENT, "host \"%s\" has no IPv4 or IPv6 address", host);
    if (is_wildcard(out))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "host \"%s\" means every interface; name one address of the first rank's host",
                          host);
    weft__address_set_port(out, port);
    return WEFT_OK;
}

void weft__address_text(const weft__address *address, char text[WEFT__ADDRESS_BYTES])
{
    if (getnameinfo(&address->any, weft__address_length(address), text, WEFT__ADDRESS_BYTES, NULL, 0,
                    NI_NUMERICHOST))
        snprintf(text, WEFT__ADDRESS_BYTES, "?");
}

void weft__address_endpoint(const char *text, const int *port, char *endpoint, size_t bytes)
{
    bool six = strchr(text, ':');
    char number[16] = "*";
    if (port) snprintf(number, sizeof number, "%d", *port);
    snprintf(endpoint, bytes, six ? "tcp://[%s]:%s" : "tcp://%s:%s", text, number);
}

static weft_status no_such_interface(const char *name)
{
    struct if_nameindex *list = if_nameindex();
    char names[512] = "";
    for (struct if_nameindex *at = list; at && at->if_index; at++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", at->if_name);
    }
    if (list) if_freenameindex(list);
    return weft__fail(WEFT_ERR_ARGUMENT,
                      "WEFT_SOCKET_IFNAME is \"%s\": this host has no such network interface, it has %s",
                      name, *names ? names : "none");
}

/* An IPv6 address of the link alone says nothing to a host that calls this link by another name. */
static int fitness(const struct sockaddr *address, int family)
{
    const struct sockaddr_in6 *six = (const void *)address;
    if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) return 0;
    return address->sa_family == family ? 2 : 1;
}

weft_status weft__address_of_interface(const char *name, int family, char text[WEFT__ADDRESS_BYTES])
{
    struct ifaddrs *list;
    const struct sockaddr *best = NULL;
    weft__address address = {0};
    if (!if_nametoindex(name)) return no_such_interface(name);
    if (getifaddrs(&list)) return weft__fail_errno("cannot list the network interfaces");
    for (struct ifaddrs *at = list; at; at = at->ifa_next) {
        if (!at->ifa_addr || strcmp(at->ifa_name, name) != 0) continue;
        if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) continue;
        if (!best || fitness(at->ifa_addr, family) > fitness(best, family)) best = at->ifa_addr;
    }
    if (best) memcpy(&address, best, best->sa_family == AF_INET ? sizeof address.v4 : sizeof address.v6);
    freeifaddrs(list);
    if (!best)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "WEFT_SOCKET_IFNAME is \"%s\": that network interface has no address", name);
    weft__address_text(&address, text);
    return WEFT_OK;
}

/* Connecting a datagram socket makes the kernel choose a way and sends nothing. */
bool weft__address_towards(const weft__address *far, weft__address *own)
{
    socklen_t bytes = sizeof *own;
    int fd = socket(far->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && !connect(fd, &far->any, weft__address_length(far)) &&
                 !getsockname(fd, &own->any, &bytes) && !is_wildcard(own);
    if (fd >= 0) close(fd);
    return found;
}

/* The targets are addresses kept for documentation: nobody has them, so the way to them
 * is the default route. */
static bool leaves_by(const char *target, weft__address *own)
{
    weft__address far;
    return !weft__address_resolve(target, 9, &far) && weft__address_towards(&far, own) &&
           !weft__address_is_loopback(own);
}

weft_status weft__address_outward(char text[WEFT__ADDRESS_BYTES])
{
    char name[256] = "";
    weft__address own = {0};
    bool found = leaves_by("198.51.100.1", &own) || leaves_by("2001:db8::1", &own) ||
                 (!gethostname(name, sizeof name - 1) && !weft__address_resolve(name, 0, &own) &&
                  !weft__address_is_loopback(&own));
    if (!found)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "host \"%s\" has no default route and its name no address that others can reach: set "
            "WEFT_SOCKET_IFNAME to the network interface to use",
            name);
    weft__address_text(&own, text);
    return WEFT_OK;
}

void weft__host_id(char id[WEFT__HOST_ID_BYTES])
{
    const char *given = weft__setting_text(WEFT__SET_HOSTID);
    char boot[WEFT__BOOT_ID_BYTES], space[64] = "";
    ssize_t n;
    if (*given) {
        snprintf(id, WEFT__HOST_ID_BYTES, "%s", given);
        return;
    }
    weft__boot_id(boot);
    n = readlink("/proc/self/ns/net", space, sizeof space - 1);
    space[n > 0 ? (size_t)n : 0] = '\0';
    if (*boot && *space)
        snprintf(id, WEFT__HOST_ID_BYTES, "%.36s/%.24s", boot, space);
    else /* nothing tells hosts apart here: a host of its own */
        snprintf(id, WEFT__HOST_ID_BYTES, "%.36s pid %d", boot, (int)getpid());
}
