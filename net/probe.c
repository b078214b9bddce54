/* probe.c - see probe.h. */
#include "probe.h"
#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define SILENCE_MS     1000
#define GREETING_BYTES 10 /* ZMTP's signature: 0xff, eight bytes, 0x7f */

/* 1: ready, 0: time is up. */
static int wait_for(int fd, short events, int64_t deadline_ns)
{
    struct pollfd item = {.fd = fd, .events = events};
    int rc;
    do {
        rc = poll(&item, 1, weft__poll_ms(deadline_ns));
    } while (rc < 0 && errno == EINTR);
    return rc > 0;
}

static enum weft__probe_result refusal(int error)
{
    switch (error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EACCES:
    case EPERM: return WEFT__PROBE_UNREACHABLE;
    case ETIMEDOUT: return WEFT__PROBE_NO_ANSWER;
    default: return WEFT__PROBE_REFUSED;
    }
}

static enum weft__probe_result listen_to(int fd, int64_t deadline_ns)
{
    int64_t silence_ns = weft__deadline(weft__now_ns(), SILENCE_MS);
    bool patient = silence_ns <= deadline_ns;
    unsigned char greeting[GREETING_BYTES];
    size_t have = 0;
    while (have < sizeof greeting) {
        ssize_t n;
        if (!wait_for(fd, POLLIN, patient ? silence_ns : deadline_ns))
            return patient ? WEFT__PROBE_SILENT : WEFT__PROBE_NO_ANSWER;
        n = recv(fd, greeting + have, sizeof greeting - have, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return have ? WEFT__PROBE_STRANGE : WEFT__PROBE_CLOSED;
        have += (size_t)n;
        if (greeting[0] != 0xff) return WEFT__PROBE_STRANGE;
    }
    return greeting[GREETING_BYTES - 1] == 0x7f ? WEFT__PROBE_GREETED : WEFT__PROBE_STRANGE;
}

/* Where nobody listens on a port that connections may also leave from, TCP can connect a socket to itself.
 * It ends with a reset: closed in peace it would keep the port from whoever wants to listen there for a
 * minute. */
static bool is_itself(int fd, weft__probe *probe)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    weft__address far = {0};
    socklen_t near_bytes = sizeof probe->local, far_bytes = sizeof far;
    if (getsockname(fd, &probe->local.any, &near_bytes) || getpeername(fd, &far.any, &far_bytes)) return true;
    if (near_bytes != far_bytes || memcmp(&probe->local, &far, near_bytes)) return false;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return true;
}

void weft__probe_look(const weft__address *address, int64_t deadline_ns, weft__probe *probe)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;
    socklen_t error_bytes = sizeof error;
    memset(&probe->local, 0, sizeof probe->local);
    if (fd < 0 || (connect(fd, &address->any, weft__address_length(address)) && errno != EINPROGRESS)) {
        probe->error = errno;
        probe->result = fd < 0 ? WEFT__PROBE_UNREACHABLE : refusal(errno);
    } else if (!wait_for(fd, POLLOUT, deadline_ns)) {
        probe->result = WEFT__PROBE_NO_ANSWER;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) || error) {
        probe->error = error;
        probe->result = refusal(error);
    } else if (is_itself(fd, probe)) {
        probe->result = WEFT__PROBE_REFUSED;
    } else {
        probe->result = listen_to(fd, deadline_ns);
    }
    if (fd >= 0) close(fd);
}
