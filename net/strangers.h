/* strangers.h - how many of a listening ZeroMQ socket's connections may be strangers: those that have not
 * said anything yet, as only who knows the job's secret can.
 *
 * ZeroMQ keeps a silent connection until the handshake's time is up, so that whoever opens some hundreds a
 * second would take all descriptors of the process.  Here the oldest is shut down when there are more than a
 * share of the limit on descriptors.  A member that is hit connects again by itself.
 *
 * A member is shut down too by whose connection more comes than any message may have, before one is whole.
 *
 * Who comes with another secret is told in the log, each address once: ZeroMQ turns it away in silence. */
#ifndef WEFT_NET_STRANGERS_H
#define WEFT_NET_STRANGERS_H
#include "address.h"
#include "unfinished.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__REFUSED_MOST 16 /* addresses that are told */

typedef struct weft__stranger {
    uint64_t since;      /* its arrival, counted from 1; 0: there is none, or it is no stranger */
    bool ended;          /* so has the last one that had this descriptor, and none has come since */
    weft__address where; /* whoever is or was here comes from; not known: no family */
    weft__unfinished unfinished;
} weft__stranger;

#define WEFT__STRANGERS_NAME     128
#define WEFT__STRANGERS_WAKES_MS 1000

typedef struct weft__strangers {
    void *socket, *monitor;
    char name
        [WEFT__STRANGERS_NAME]; /* of the abstract Unix socket that ours is bound to, beside a port or alone; "": none */
    int count, most;
    int room;          /* of by_fd */
    uint64_t arrivals; /* so far */
    weft__stranger *by_fd;
    bool refusing; /* the next connection that ends does so because its secret is another */
    char refused[WEFT__REFUSED_MOST][WEFT__ADDRESS_BYTES];
    int refused_count, unnamed; /* addresses; times that none was known */
    int64_t look_ns;            /* not before: where those that have gone came from */
    size_t longest;             /* message that is taken here; 0: no limit */
    int wakes_ms;
    int endless_told;         /* of them, in the log */
    int64_t held_ns, next_ns; /* not before: looks at that; wants to be called (weft__strangers_bound) */
    /* Told of every connection; came false: it has ended.  NULL: nobody wants to know. */
    void (*seen)(void *arg, int fd, bool came);
    void *arg;
} weft__strangers;

/* Before the socket is bound.  Fails with ERR_SYSTEM, and leaves nothing behind. */
weft_status weft__strangers_open(weft__strangers *s, void *context, void *socket);
/* Before the socket is closed. */
void weft__strangers_close(weft__strangers *s);
/* Before it is bound: the longest message that is taken there, and how often whoever sleeps is woken to look at what has come of one
 * that is not whole; it is sooner once there is much. */
static inline void weft__strangers_limit(weft__strangers *s, size_t longest, int wakes_ms)
{
    s->longest = longest;
    s->wakes_ms = wakes_ms;
}
/* The others on the thread that receives from the socket.  A message has come over this descriptor.  False: that
 * connection has ended since; it need not have been the last one of which that was told. */
bool weft__strangers_spoke(weft__strangers *s, int fd);
/* When all messages that are here have been taken: shuts down who is one too many, and by whom too much has come.  To be called
 * again at next_ns. */
void weft__strangers_bound(weft__strangers *s);
#endif
