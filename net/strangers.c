/* strangers.c - see strangers.h.  What ZeroMQ tells of its connections is their descriptor, which it may have
 * closed since: so it is duplicated first, and what is shut down is an accepted connection of our own port
 * whoever else has got that number meanwhile. */
#include "strangers.h"
#include "status.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#define SHARE      16 /* of the limit on descriptors: this part for the strangers of a socket */
#define MOST_LEAST 16
#define MOST_MOST  1024

static int share_of_descriptors(void)
{
    struct rlimit limit;
    rlim_t share = getrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur / SHARE;
    return share < MOST_LEAST ? MOST_LEAST : share > MOST_MOST ? MOST_MOST : (int)share;
}

weft_status weft__strangers_open(weft__strangers *s, void *context, void *socket)
{
    static _Atomic unsigned made;
    char events[64];
    int unlimited = 0;
    s->socket = socket;
    s->most = share_of_descriptors();
    snprintf(events, sizeof events, "inproc://weft-strangers-%u", made++);
    s->monitor = zmq_socket(context, ZMQ_PAIR);
    if (s->monitor && !zmq_setsockopt(s->monitor, ZMQ_RCVHWM, &unlimited, sizeof unlimited) &&
        !zmq_socket_monitor(socket, events, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) &&
        !zmq_connect(s->monitor, events))
        return WEFT_OK;
    weft__fail(WEFT_ERR_SYSTEM, "cannot watch the connections of a ZeroMQ socket: %s",
               zmq_strerror(zmq_errno()));
    weft__strangers_close(s);
    return WEFT_ERR_SYSTEM;
}

void weft__strangers_close(weft__strangers *s)
{
    if (s->monitor) {
        zmq_socket_monitor(s->socket, NULL, 0);
        zmq_close(s->monitor);
    }
    free(s->since);
    s->monitor = NULL;
    s->since = NULL;
    s->room = s->count = 0;
}

static void forget(weft__strangers *s, int fd)
{
    if (fd < 0 || fd >= s->room || !s->since[fd]) return;
    s->since[fd] = 0;
    s->count--;
}

static void note(weft__strangers *s, int fd)
{
    if (fd >= s->room) {
        int room = fd < 32 ? 64 : 2 * fd;
        uint64_t *more = realloc(s->since, (size_t)room * sizeof *more);
        if (!more) return; /* no memory: ZeroMQ's own limit of time ends it */
        memset(more + s->room, 0, (size_t)(room - s->room) * sizeof *more);
        s->since = more;
        s->room = room;
    }
    s->since[fd] = ++s->arrivals;
    s->count++;
}

/* A connection's end is told before its descriptor is used again, and its beginning before its first message.
 */
static void take_events(weft__strangers *s)
{
    unsigned char frame[6];
    char where[256];
    while (zmq_recv(s->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == sizeof frame) {
        uint16_t event;
        int32_t fd;
        memcpy(&event, frame, sizeof event);
        memcpy(&fd, frame + 2, sizeof fd);
        zmq_recv(s->monitor, where, sizeof where, 0);
        forget(s, fd);
        if (event == ZMQ_EVENT_ACCEPTED && fd >= 0) note(s, fd);
        if (s->seen) s->seen(s->arg, fd, event == ZMQ_EVENT_ACCEPTED);
    }
}

void weft__strangers_spoke(weft__strangers *s, int fd)
{
    take_events(s);
    forget(s, fd);
}

static int port_of(int fd)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &bytes)) return -1;
    if (at.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)(void *)&at)->sin_port);
    return at.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)(void *)&at)->sin6_port) : -1;
}

static int own_port(const weft__strangers *s)
{
    char endpoint[256];
    size_t bytes = sizeof endpoint;
    if (zmq_getsockopt(s->socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes) || !strrchr(endpoint, ':')) return -2;
    return atoi(strrchr(endpoint, ':') + 1);
}

static void shut(const weft__strangers *s, int fd)
{
    int mine = fcntl(fd, F_DUPFD_CLOEXEC, 0), listens = 1;
    socklen_t bytes = sizeof listens;
    if (mine < 0) mine = fd; /* no descriptor is left: then the risk is the lesser evil */
    if (!getsockopt(mine, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) && !listens &&
        port_of(mine) == own_port(s))
        shutdown(mine, SHUT_RDWR);
    if (mine != fd) close(mine);
}

void weft__strangers_bound(weft__strangers *s)
{
    take_events(s);
    while (s->count > s->most) {
        int oldest = -1;
        for (int fd = 0; fd < s->room; fd++)
            if (s->since[fd] && (oldest < 0 || s->since[fd] < s->since[oldest])) oldest = fd;
        shut(s, oldest);
        forget(s, oldest);
    }
}
