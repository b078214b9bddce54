/* strangers.c - see strangers.h.  What ZeroMQ tells of its connections is their descriptor, which it may have
 * closed since: so it is duplicated first, and what is shut down is an accepted connection of our own port or
 * name whoever else has got that number meanwhile. */
#include "strangers.h"
#include "clock.h"
#include "closed.h"
#include "log.h"
#include "status.h"
#include "zap.h"

#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define SHARE      16 /* of the limit on descriptors: this part for the strangers of a socket */
#define MOST_LEAST 16
#define MOST_MOST  1024
#define ATTEMPTS   3   /* of a rank whose secret is another, before it gives up */
#define LOOK_MS    100 /* least time between two checks of where those that have gone came from, */
#define LOOK_SHARE 20  /* and so many times what the last one took: who comes often makes nobody slow */
#define HELD_MS    200 /* least time between two looks at what has come of messages that are not whole, */
#define HELD_SOON  20  /* while there is much of one, */
#define HELD_MUCH  (UINT64_C(1) << 18) /* as this is */
#define EVENTS     (ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)

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
    s->next_ns = WEFT__NEVER;
    s->most = share_of_descriptors();
    snprintf(events, sizeof events, "inproc://weft-strangers-%u", made++);
    s->monitor = zmq_socket(context, ZMQ_PAIR);
    if (s->monitor && !zmq_setsockopt(s->monitor, ZMQ_RCVHWM, &unlimited, sizeof unlimited) &&
        !weft__zmq_monitor(socket, events, EVENTS) && !weft__zmq_connect(s->monitor, events))
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
    free(s->by_fd);
    s->monitor = NULL;
    s->by_fd = NULL;
    s->room = s->count = s->refused_count = s->unnamed = 0;
}

static void forget(weft__strangers *s, int fd)
{
    if (fd < 0 || fd >= s->room || !s->by_fd[fd].since) return;
    s->by_fd[fd].since = 0;
    s->count--;
}

static int port_of(int fd)
{
    struct sockaddr_storage at = {0};
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

/* Whether that is a connection that was accepted where our socket is bound: a port, or an abstract Unix socket. */
static bool is_ours(const weft__strangers *s, int fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNSPEC};
    socklen_t bytes = sizeof at;
    const size_t text = strlen(s->name);
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) || at.sun_family != AF_UNIX)
        return port_of(fd) == own_port(s);
    return text && bytes == offsetof(struct sockaddr_un, sun_path) + 1 + text && !at.sun_path[0] &&
           !memcmp(at.sun_path + 1, s->name, text);
}

/* When its arrival is heard of it may have gone, and another connection may have its descriptor. */
static weft__address peer_of(const weft__strangers *s, int fd)
{
    weft__address where = {.any.sa_family = AF_UNSPEC};
    socklen_t bytes = sizeof where;
    if (port_of(fd) != own_port(s) || getpeername(fd, &where.any, &bytes)) where.any.sa_family = AF_UNSPEC;
    return where;
}

static int64_t next_look(const weft__strangers *s, int64_t now_ns)
{
    const int64_t next_ns = weft__deadline(now_ns, s->wakes_ms);
    return next_ns > s->held_ns ? next_ns : s->held_ns;
}

static void note(weft__strangers *s, int fd)
{
    if (fd >= s->room) {
        int room = fd < 32 ? 64 : 2 * fd;
        weft__stranger *more = realloc(s->by_fd, (size_t)room * sizeof *more);
        if (!more) return; /* no memory: ZeroMQ's own limit of time ends it */
        memset(more + s->room, 0, (size_t)(room - s->room) * sizeof *more);
        s->by_fd = more;
        s->room = room;
    }
    s->by_fd[fd] = (weft__stranger){.since = ++s->arrivals, .where = peer_of(s, fd)};
    s->count++;
    if (s->longest && s->next_ns == WEFT__NEVER) s->next_ns = next_look(s, weft__now_ns());
}

static bool is_told(const weft__strangers *s, const char *where)
{
    for (int i = 0; i < s->refused_count; i++)
        if (!strcmp(s->refused[i], where)) return true;
    return false;
}

/* This thread, so far: waiting for a processor does not count. */
static int64_t worked_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Where one that had gone before its arrival was heard of came from: ZeroMQ does not tell, but it is one of
 * those that this end has closed.  False: several may be meant. */
static bool look_back(weft__strangers *s, char where[WEFT__ADDRESS_BYTES])
{
    char all[WEFT__REFUSED_MOST + 2][WEFT__ADDRESS_BYTES];
    int64_t began_ns = worked_ns(), rest_ns;
    int n = weft__closed_from(own_port(s), all, (int)WEFT__LENGTH(all)), candidates = 0;
    rest_ns = LOOK_SHARE * (worked_ns() - began_ns);
    s->look_ns = weft__now_ns() + (rest_ns > LOOK_MS * WEFT__MS ? rest_ns : LOOK_MS * WEFT__MS);
    for (int i = 0; i < n; i++) {
        if (is_told(s, all[i])) continue;
        if (!candidates++) memcpy(where, all[i], WEFT__ADDRESS_BYTES);
    }
    if (!candidates && n) memcpy(where, all[0], WEFT__ADDRESS_BYTES);
    return n && candidates <= 1;
}

/* Its handshake has failed in what only the secret makes fit.  Mostly it has gone by now.  Whose address
 * cannot be told comes again, so that only who could not be told some times is told of without it. */
static void tell_refused(weft__strangers *s, int fd, const char *own)
{
    char where[WEFT__ADDRESS_BYTES];
    if (s->refused_count == WEFT__REFUSED_MOST) return;
    if (fd >= 0 && fd < s->room && s->by_fd[fd].where.any.sa_family != AF_UNSPEC) {
        weft__address_text(&s->by_fd[fd].where, where);
    } else if (weft__now_ns() < s->look_ns) {
        return;
    } else if (!look_back(s, where)) {
        if (++s->unnamed < ATTEMPTS) return;
        snprintf(where, sizeof where, "an address that is not known");
    }
    if (is_told(s, where)) return;
    memcpy(s->refused[s->refused_count++], where, sizeof where);
    weft__log(WEFT__WARN,
              "a connection from %s to %s was turned away: its secret, or its job's name, differs from this "
              "job's%s",
              where, own, s->refused_count == WEFT__REFUSED_MOST ? "; no further address is told" : "");
}

/* A connection's end is told before its descriptor is used again, and its beginning
 * before its first message. */
static void take_events(weft__strangers *s)
{
    unsigned char frame[6];
    char own[256];
    while (zmq_recv(s->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == sizeof frame) {
        uint16_t event;
        int32_t value; /* the descriptor, or what has failed */
        int bytes;
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + 2, sizeof value);
        bytes = zmq_recv(s->monitor, own, sizeof own - 1, 0);
        own[bytes < 0 ? 0 : bytes < (int)sizeof own ? bytes : (int)sizeof own - 1] = '\0';
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
            s->refusing = value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC;
            continue;
        }
        if (event == ZMQ_EVENT_DISCONNECTED && s->refusing) tell_refused(s, value, own);
        s->refusing = false;
        forget(s, value);
        if (value >= 0 && value < s->room) s->by_fd[value].ended = true;
        if (event == ZMQ_EVENT_ACCEPTED && value >= 0) note(s, value);
        if (s->seen) s->seen(s->arg, value, event == ZMQ_EVENT_ACCEPTED);
    }
}

bool weft__strangers_spoke(weft__strangers *s, int fd)
{
    take_events(s);
    forget(s, fd);
    if (fd >= 0 && fd < s->room) s->by_fd[fd].unfinished.spoke = true;
    return fd < 0 || fd >= s->room || !s->by_fd[fd].ended;
}

static void shut(const weft__strangers *s, int fd)
{
    int mine = fcntl(fd, F_DUPFD_CLOEXEC, 0), listens = 1;
    socklen_t bytes = sizeof listens;
    if (mine < 0) mine = fd; /* no descriptor is left: then the risk is the lesser evil */
    if (!getsockopt(mine, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) && !listens && is_ours(s, mine))
        shutdown(mine, SHUT_RDWR);
    if (mine != fd) close(mine);
}

/* What it has said is the beginning of a message that nobody takes. */
static void end_endless(weft__strangers *s, int fd)
{
    char where[WEFT__ADDRESS_BYTES];
    if (!is_ours(s, fd))
        return; /* it has ended, which is not heard of yet, and another one has its descriptor */
    weft__address_text(&s->by_fd[fd].where, where);
    s->endless_told++;
    weft__log(s->endless_told > WEFT__REFUSED_MOST ? WEFT__INFO : WEFT__WARN,
              "a connection from %s is ended: %" PRIu64
              " bytes of one message have come, which may have %zu, and no end of it%s",
              where, s->by_fd[fd].unfinished.bytes, s->longest,
              s->endless_told == WEFT__REFUSED_MOST ? "; no further one is told" : "");
    shut(s, fd);
    forget(s, fd);
    s->by_fd[fd].ended = true;
}

/* That much by one of them. */
static bool look_at_unfinished(weft__strangers *s, bool *some)
{
    bool much = false;
    for (int fd = 0; fd < s->room; fd++) {
        weft__stranger *from = &s->by_fd[fd];
        if (from->ended || from->where.any.sa_family == AF_UNSPEC) continue;
        *some = true;
        if (weft__unfinished_is_too_long(&from->unfinished, fd, s->longest)) end_endless(s, fd);
        much |= from->unfinished.bytes > HELD_MUCH;
    }
    return much;
}

static void bound_unfinished(weft__strangers *s)
{
    const int64_t now = weft__now_ns();
    int64_t began_ns, rest_ns;
    bool some = false, much;
    if (!s->longest || now < s->held_ns) return;
    began_ns = worked_ns();
    much = look_at_unfinished(s, &some);
    rest_ns = LOOK_SHARE * (worked_ns() - began_ns);
    if (rest_ns < (much ? HELD_SOON : HELD_MS) * WEFT__MS) rest_ns = (much ? HELD_SOON : HELD_MS) * WEFT__MS;
    s->held_ns = now + rest_ns;
    s->next_ns = much ? s->held_ns : some ? next_look(s, now) : WEFT__NEVER;
}

void weft__strangers_bound(weft__strangers *s)
{
    take_events(s);
    bound_unfinished(s);
    while (s->count > s->most) {
        int oldest = -1;
        for (int fd = 0; fd < s->room; fd++)
            if (s->by_fd[fd].since && (oldest < 0 || s->by_fd[fd].since < s->by_fd[oldest].since))
                oldest = fd;
        shut(s, oldest);
        forget(s, oldest);
    }
}
