/* strangers.h - how many of a listening ZeroMQ socket's connections may be strangers: those that have not
 * said anything yet, as only who knows the job's secret can.
 *
 * ZeroMQ keeps a silent connection until the handshake's time is up, so that whoever opens some hundreds a
 * second would take all descriptors of the process.  Here the oldest is shut down when there are more than a
 * share of the limit on descriptors.  A member that is hit connects again by itself. */
#ifndef WEFT_NET_STRANGERS_H
#define WEFT_NET_STRANGERS_H
#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

typedef struct weft__strangers {
    void *socket, *monitor;
    int count, most;
    int room;          /* of since */
    uint64_t arrivals; /* so far */
    uint64_t *since;   /* by descriptor: its arrival, counted from 1; 0: none, or no stranger */
    /* Told of every connection; came false: it has ended.  NULL: nobody wants to know. */
    void (*seen)(void *arg, int fd, bool came);
    void *arg;
} weft__strangers;

/* Before the socket is bound.  Fails with ERR_SYSTEM, and leaves nothing behind. */
weft_status weft__strangers_open(weft__strangers *s, void *context, void *socket);
/* Before the socket is closed. */
void weft__strangers_close(weft__strangers *s);
/* The others on the thread that receives from the socket.  A message has come over this descriptor. */
void weft__strangers_spoke(weft__strangers *s, int fd);
/* When all messages that are here have been taken: shuts down who is one too many. */
void weft__strangers_bound(weft__strangers *s);
#endif
