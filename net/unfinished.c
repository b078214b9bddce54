/* unfinished.c - see unfinished.h. */
#include "unfinished.h"

#include <linux/tcp.h> /* and not netinet/tcp.h, whose tcp_info is older */
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define ADDED_ONE_IN 256 /* a frame of 64 KiB has some 40 bytes more */
#define JUST_READ    (UINT64_C(1) << 20)

static uint64_t less(uint64_t bytes, uint64_t by)
{
    return bytes > by ? bytes - by : 0;
}

/* What has come and what of that is unread are two looks, and bytes come and are read between them.  Unread before: what comes
 * meanwhile counts as read; unread behind: what comes meanwhile as not read, though it was not among what had come. */
static bool look(int fd, uint64_t *read_least, uint64_t *read_most)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    int before = 0, behind = 0;
    if (ioctl(fd, FIONREAD, &before) || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) ||
        ioctl(fd, FIONREAD, &behind))
        return false;
    *read_most = less(info.tcpi_bytes_received, (unsigned)before);
    *read_least = less(info.tcpi_bytes_received, (unsigned)behind);
    return true;
}

bool weft__unfinished_is_too_long(weft__unfinished *u, int fd, size_t longest)
{
    const bool spoke = u->spoke, suspected = u->suspected;
    uint64_t least, most;
    u->spoke = u->suspected = false;
    u->bytes = 0;
    if (!look(fd, &least, &most)) return false;
    if (spoke) u->whole = most;
    u->bytes = less(least, u->whole);
    u->suspected = u->bytes > longest + longest / ADDED_ONE_IN + JUST_READ;
    return suspected && !spoke;
}
