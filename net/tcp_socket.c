/* tcp_socket.c - one socket of TCP: its address, its options, and a message of a handshake over it. */
#include "status.h"
#include "tcp_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BACKLOG 4096
/* So much at most lies in a socket and has not been sent: a kernel would take in some 4 MiB, which last for 34 ms on a link
 * of 1 Gbit/s, and all that is urgent would stand behind them.  Half of it lasts until the thread comes again. */
#define UNSENT_BYTES (1024 * 1024)

/* Idle connections to a host that vanished are found after 90 s, where nobody listens (tcp_hearing.c).  No
 * TCP_USER_TIMEOUT: it would also end the connection to a rank that is stopped in a debugger with its window full. */
#define KEEP_IDLE_S     30
#define KEEP_INTERVAL_S 10
#define KEEP_COUNT      6

socklen_t weft__tcp_name(const weft__tcp_address *address, struct sockaddr_storage *name)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)name;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)name;
    memset(name, 0, sizeof *name);
    if (address->family == 4) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        memcpy(&v4->sin_addr, address->bytes, 4);
        return sizeof *v4;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address->port);
    memcpy(&v6->sin6_addr, address->bytes, 16);
    return sizeof *v6;
}

void weft__tcp_address_text(const weft__tcp_address *address, char text[WEFT__TCP_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "no address";
    inet_ntop(address->family == 6 ? AF_INET6 : AF_INET, address->bytes, host, sizeof host);
    snprintf(text, WEFT__TCP_TEXT, address->family == 6 ? "[%s]:%u" : "%s:%u", host, (unsigned)address->port);
}

bool weft__tcp_is_own_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
           error == EADDRNOTAVAIL || error == EAGAIN;
}

/* Failing to set one costs speed or a late notice, not correctness; sockets of other families have none. */
void weft__tcp_keep_alive(int fd, bool soon)
{
    const int idle = soon ? 1 : KEEP_IDLE_S, interval = soon ? 1 : KEEP_INTERVAL_S, count = KEEP_COUNT;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

void weft__tcp_socket_options(int fd)
{
    const int on = 1, unsent = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    weft__tcp_keep_alive(fd, false);
}

bool weft__tcp_is_acknowledged(int fd)
{
    int bytes;
    return !ioctl(fd, SIOCOUTQ, &bytes) && !bytes;
}

static weft__tcp_step step_result(ssize_t n, size_t length, size_t *done)
{
    if (n < 0) return errno == EAGAIN || errno == EINTR ? WEFT__STEP_WAIT : WEFT__STEP_ENDED;
    if (n == 0) {
        errno = 0;
        return WEFT__STEP_ENDED;
    }
    *done += (size_t)n;
    return *done == length ? WEFT__STEP_DONE : WEFT__STEP_WAIT;
}

weft__tcp_step weft__tcp_step_read(int fd, void *bytes, size_t length, size_t *done)
{
    weft__tcp_step step;
    ssize_t n;
    do {
        n = recv(fd, (char *)bytes + *done, length - *done, MSG_DONTWAIT);
        step = step_result(n, length, done);
    } while (step == WEFT__STEP_WAIT && (n > 0 || errno == EINTR));
    return step;
}

weft__tcp_step weft__tcp_step_write(int fd, const void *bytes, size_t length, size_t *done)
{
    weft__tcp_step step;
    ssize_t n;
    do {
        n = send(fd, (const char *)bytes + *done, length - *done, MSG_DONTWAIT | MSG_NOSIGNAL);
        step = step_result(n, length, done);
    } while (step == WEFT__STEP_WAIT && (n > 0 || errno == EINTR));
    return step;
}

/* The address as bind wants it; one sentence for those that must not be listened on. */
static weft_status parse(const char *text, weft__tcp_address *where, struct sockaddr_storage *name,
                         socklen_t *length)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)name;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)name;
    memset(name, 0, sizeof *name);
    memset(where, 0, sizeof *where);
    if (strchr(text, '%'))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s has a scope id: link-local addresses are not supported, give a routable one",
                          text);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        if (v4->sin_addr.s_addr == htonl(INADDR_ANY))
            return weft__fail(WEFT_ERR_ARGUMENT,
                              "%s means every interface; give the one address to listen on", text);
        v4->sin_family = AF_INET;
        where->family = 4;
        memcpy(where->bytes, &v4->sin_addr, 4);
        *length = sizeof *v4;
        return WEFT_OK;
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
        return weft__fail(WEFT_ERR_ARGUMENT, "\"%s\" is not a numeric IPv4 or IPv6 address", text);
    if (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        return weft__fail(WEFT_ERR_ARGUMENT, "%s means every interface; give the one address to listen on",
                          text);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s is link-local, which is not supported; give a routable address", text);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return weft__fail(WEFT_ERR_ARGUMENT, "%s is an IPv4 address in disguise; write it as IPv4", text);
    v6->sin6_family = AF_INET6;
    where->family = 6;
    memcpy(where->bytes, &v6->sin6_addr, 16);
    *length = sizeof *v6;
    return WEFT_OK;
}

weft_status weft__tcp_listen(const char *address, int *fd, weft__tcp_address *where)
{
    struct sockaddr_storage name;
    socklen_t length = 0;
    weft__tcp_address parsed;
    weft_status status = parse(address, &parsed, &name, &length);
    int made;
    if (status == WEFT_OK) status = weft__tcp_wire_own(&parsed.wire);
    if (status) return status;
    made = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) return weft__fail_errno("no TCP socket for %s", address);
    if (bind(made, (struct sockaddr *)&name, length) || listen(made, BACKLOG) ||
        getsockname(made, (struct sockaddr *)&name, &length)) {
        status = weft__fail_errno("cannot listen on %s", address);
        close(made);
        return status;
    }
    parsed.port = ntohs(parsed.family == 4 ? ((struct sockaddr_in *)&name)->sin_port
                                           : ((struct sockaddr_in6 *)&name)->sin6_port);
    *fd = made;
    *where = parsed;
    return WEFT_OK;
}
