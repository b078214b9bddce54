/* poller.h - one edge-triggered epoll set with all descriptors of a context's data plane: sockets, listening
 * sockets, pidfds.  Whoever holds the engine polls it with timeout 0; the progress thread sleeps on the set's
 * own descriptor, inside libevent.  libevent itself cannot be asked from two threads, hence this.
 *
 * It is never put into another epoll set, but polled with poll(2): while it is in one, also what is added to
 * it takes the kernel's one lock for nested sets, of the whole machine. */
#ifndef WEFT_NET_POLLER_H
#define WEFT_NET_POLLER_H
#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

typedef struct weft__polled weft__polled;
struct weft__polled {
    int fd;
    void (*ready)(weft__polled *w, uint32_t events); /* edge: read or write until EAGAIN */
};
struct weft__poller_batch;
typedef struct weft__poller {
    int epoll_fd;
    struct weft__poller_batch *batch; /* events fetched by the poll that is running; NULL outside of one */
    bool sparing;                     /* its owner has nothing else to poll in between */
    bool spared; /* whoever has descriptors in it polls them without it: now and then is enough */
} weft__poller;

weft_status weft__poller_open(weft__poller *set);
void weft__poller_close(weft__poller *set);
weft_status weft__poller_add(weft__poller *set, weft__polled *w, uint32_t events); /* EPOLLET is added */
void weft__poller_remove(weft__poller *set, weft__polled *w); /* safe from inside ready, also of another one:
                                                                events already fetched for it are skipped */
/* The descriptor of `from` is watched for `to` from now on, which needs no room that might not be there. */
void weft__poller_hand_on(weft__poller *set, weft__polled *from, weft__polled *to, uint32_t events);
int weft__poller_poll(weft__poller *set); /* calls ready; returns how many were.  Not from inside ready */
#endif
