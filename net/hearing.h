/* hearing.h - does the host of a peer live?  Its kernel's acknowledgements say so, never its threads: a rank that is stopped,
 * in a debugger, or long in a callback is heard all the same.  What follows from silence is runtime/fault/heartbeats.md.
 *
 * A slot of transports whose peers may be on other hosts (transport.h); the holder of the engine calls, nothing blocks. */
#ifndef WEFT_NET_HEARING_H
#define WEFT_NET_HEARING_H
#include "poller.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct weft__transport weft__transport;

typedef struct weft__silence {
    int64_t since_ns; /* something waits for an acknowledgement, and none has come since; 0: nothing waits */
    int64_t heard_ns; /* of the last that has come over the connection; 0: there is none */
    int64_t round_ns; /* what one takes at most, as the way there has shown; 0: not known */
    bool sent;        /* what waits is on its way, and not held back by a full receiver */
    bool stands;      /* there is a connection; else it is being made */
} weft__silence;

/* A plain connection that is asked for, to see whether anybody's kernel answers; it is closed at once. */
typedef struct weft__knock weft__knock;
struct weft__knock {
    void (*answered)(
        weft__knock *knock); /* by a kernel, which has taken or refused it.  Perhaps from inside `knock` */
    void (*look)(
        weft__knock *knock); /* the transport's: is an answer there by now?  NULL: none comes unseen */
    void (*end)(weft__knock *knock); /* the transport's; NULL: it is not under way */
    weft__poller *poller;
    weft__polled polled;
};

static inline void weft__knock_end(weft__knock *knock) /* safe at any time */
{
    if (knock->end) knock->end(knock);
}

/* Before somebody is judged by it: the answer may lie where nobody has looked yet. */
static inline void weft__knock_look(weft__knock *knock)
{
    if (knock->end && knock->look) knock->look(knock);
}

typedef struct weft__hearing {
    /* beat_ns: where nothing waits, and nothing has come for about that long, something is sent that does; 0: nothing is. */
    weft__silence (*silence)(weft__transport *t, int peer, int64_t beat_ns, int64_t now_ns);
    /* One that is under way is ended first.  False: it cannot be tried, which says nothing of the host. */
    bool (*knock)(weft__transport *t, int peer, weft__knock *knock);
    /* A connection over which nothing is heard is over: another one is made.  Nothing where there is none. */
    void (*renew)(weft__transport *t, int peer, const char *why);
    bool (*is_beside)(const weft__transport *t, int peer, int other); /* at one address */
} weft__hearing;
#endif
