/* fd_exchange_wire.c - bytes and descriptors over a Unix socket.  Nothing here waits past the deadline it is
 * given; descriptors that are not wanted are closed. */
#include "fd_exchange_wire.h"
#include "clock.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool weft__same_user(int fd, unsigned *uid)
{
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t length = sizeof cred;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) == 0;
    *uid = (unsigned)cred.uid;
    return known && cred.uid == geteuid();
}

bool weft__is_process_of(const weft__segment_config *config, int local, int fd)
{
    struct ucred cred = {.pid = 0};
    socklen_t length = sizeof cred;
    if (!config->processes) return true;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) == 0 &&
           weft__process_may_be(&config->processes[local], cred.pid);
}

socklen_t weft__fd_exchange_name(const char *name, struct sockaddr_un *address)
{
    uint64_t hash =
        UINT64_C(14695981039346656037); /* FNV-1a of the whole name: what is shown of it may be cut */
    int length;

    for (const char *c = name; *c; c++) hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "weft-%u-%.48s-%016" PRIx64,
                      (unsigned)geteuid(), name, hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

void weft__close_fds(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0) close(fds[i]);
}

int weft__fd_message_step(int fd, weft__fd_message *in)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(WEFT__BATCH_FDS * sizeof(int))];
    } control;

    while (in->done < in->length) {
        struct iovec part = {(char *)in->bytes + in->done, in->length - in->done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t n;
        if (in->max_fds) {
            message.msg_control = control.room;
            message.msg_controllen = CMSG_SPACE((size_t)in->max_fds * sizeof(int));
        }
        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return 0;
        if (n <= 0) return -1;
        in->done += (size_t)n;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            int count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)), taken[WEFT__BATCH_FDS + 1];
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
            memcpy(taken, CMSG_DATA(c), (size_t)count * sizeof(int));
            for (int i = 0; i < count; i++) {
                if (in->n_fds < in->max_fds)
                    in->fds[in->n_fds++] = taken[i];
                else
                    close(taken[i]);
            }
        }
    }
    return 1;
}

weft_status weft__fd_message_receive(int fd, weft__fd_message *in, int64_t deadline_ns)
{
    int state;
    while ((state = weft__fd_message_step(fd, in)) == 0) {
        struct pollfd look = {.fd = fd, .events = POLLIN};
        if (weft__now_ns() >= deadline_ns) return weft__fail(WEFT_ERR_TIMEOUT, "the time ran out");
        poll(&look, 1, weft__poll_ms(deadline_ns));
    }
    return state < 0 ? weft__fail(WEFT_ERR_PEER, "the connection was closed") : WEFT_OK;
}

weft_status weft__fd_message_send(int fd, const void *bytes, size_t length, const int *fds, int n_fds,
                                  int64_t deadline_ns)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(WEFT__BATCH_FDS * sizeof(int))];
    } control;

    for (size_t done = 0; done < length;) {
        struct iovec part = {(char *)(uintptr_t)bytes + done, length - done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        struct pollfd look = {.fd = fd, .events = POLLOUT};
        ssize_t n;
        if (n_fds && !done) {
            memset(&control, 0, sizeof control);
            control.header.cmsg_level = SOL_SOCKET;
            control.header.cmsg_type = SCM_RIGHTS;
            control.header.cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
            memcpy(CMSG_DATA(&control.header), fds, (size_t)n_fds * sizeof(int));
            message.msg_control = control.room;
            message.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        }
        n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) done += (size_t)n;
        if (n >= 0 || errno == EINTR) continue;
        if (errno != EAGAIN && errno != ETOOMANYREFS) return weft__fail_errno("handing descriptors over");
        if (weft__now_ns() >= deadline_ns) return weft__fail(WEFT_ERR_TIMEOUT, "the time ran out");
        /* Too many descriptors under way for this user: that passes, and nothing tells when. */
        if (errno == ETOOMANYREFS)
            poll(NULL, 0, WEFT__RETRY_MS);
        else
            poll(&look, 1, weft__poll_ms(deadline_ns));
    }
    return WEFT_OK;
}

void weft__fd_hello_make(const weft__segment_peer *peer, const uint8_t peer_cookie[WEFT__COOKIE_BYTES],
                         weft__fd_hello *out)
{
    *out = (weft__fd_hello){.pid = peer->pid, .has_pidfd = peer->pid_fd >= 0};
    memcpy(out->cookie, peer_cookie, WEFT__COOKIE_BYTES);
}

int weft__fd_hello_fds(const weft__segment_peer *peer, int fds[WEFT__HELLO_FDS])
{
    int n = 0;
    fds[n++] = peer->bell_fd;
    fds[n++] = peer->tie_fd;
    if (peer->pid_fd >= 0) fds[n++] = peer->pid_fd;
    return n;
}

bool weft__fd_hello_take(const weft__fd_hello *from, int **fds, int *n_fds, weft__segment_peer *peer)
{
    int need = from->has_pidfd ? 3 : 2;
    if (*n_fds < need) return false;
    peer->pid = from->pid;
    peer->bell_fd = (*fds)[0];
    peer->tie_fd = (*fds)[1];
    if (from->has_pidfd) peer->pid_fd = (*fds)[2];
    *fds += need;
    *n_fds -= need;
    return true;
}

void weft__same_process(weft__segment_peer *peer, const uint8_t peer_cookie[WEFT__COOKIE_BYTES],
                        const weft__segment_peer *own, const uint8_t own_cookie[WEFT__COOKIE_BYTES])
{
    peer->same_process = peer->pid == own->pid && memcmp(peer_cookie, own_cookie, WEFT__COOKIE_BYTES) == 0;
    if (!peer->same_process || peer == own) return;
    weft__close_fds((int[]){peer->pid_fd, peer->tie_fd}, 2);
    peer->pid_fd = peer->tie_fd = -1;
}
