/* server_link.h - the connection by which a rank meets the others: to the server (rendezvous_wire.h), or to the relay of
 * its host (relay.h).  It carries words, tells what becomes of the connection, and knows how long a relay has been
 * silent; what follows from that is the client's (via_server.c). */
#ifndef WEFT_NET_JOIN_SERVER_LINK_H
#define WEFT_NET_JOIN_SERVER_LINK_H
#include "rendezvous_answer.h"

#include <stdbool.h>
#include <zmq.h>

typedef struct weft__link {
    void *context;
    weft__keys *keys;
    int world;              /* as large as this rank was told; -1: it was not */
    int silent_ms;          /* a relay that has said nothing for so long is silent */
    void *dealer, *monitor; /* NULL: there is no connection */
    bool through;           /* it is, or is to be, to another rank's relay */
    bool joined;            /* the server has said so: it is who it was from then on */
    uint32_t attempts;      /* connections made so far */
    int refusals;           /* failed handshakes in a row */
    int64_t heard_ns;       /* when something came last */
    int64_t asked_ns;       /* when the relay was asked last whether it is there; 0: it was not */
} weft__link;

typedef enum weft__link_news {
    WEFT__LINK_GOES_ON, /* there is nothing new */
    WEFT__LINK_OPEN,    /* it is there: this rank may introduce itself */
    WEFT__LINK_REFUSED, /* who is there does not take this rank for a member of the job */
    WEFT__LINK_STRANGE, /* who is there is none of the job */
    WEFT__LINK_BROKEN,  /* it has to be made again */
    WEFT__LINK_GONE     /* nobody is there */
} weft__link_news;

/* Begins to connect.  A failure has set its sentence. */
weft_status weft__link_connect(weft__link *link, const weft__address *server);
void weft__link_close(weft__link *link); /* safe where there is none */
/* What cannot be said is dropped: the deadline ends the wait for an answer. */
void weft__link_say(const weft__link *link, const weft__rendezvous_header *header, const void *payload,
                    size_t bytes);
/* One answer, which lies inside msg.  False: none is here. */
bool weft__link_take(weft__link *link, zmq_msg_t *msg, weft__rendezvous_answer *said);
/* What the connection tells next.  own: the server is this process's, and cannot have gone. */
weft__link_news weft__link_look(weft__link *link, bool own);

/* Whether the relay was asked whether it is there, and nothing has come since. */
bool weft__link_is_asked(const weft__link *link);
/* When it is to be asked that; where it was, when it counts as silent. */
int64_t weft__link_patience_ns(const weft__link *link);
#endif
