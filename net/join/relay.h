/* relay.h - one rank of a host, its leader, stands between the host's other ranks and the server at which ranks
 * meet (rendezvous_wire.h), so that the server has two connections a host (the leader's own and its relay's) and
 * not one a rank, and tells the host once what all its ranks get.  Ranks that know their job to be small do without.
 *
 * The leader is whoever binds the relay's name first, an abstract Unix socket made of the job's keys, the host and
 * the server's address.  Words go through as they are, with these exceptions:
 *
 *   GATHER     is kept until all of the host are here, or some have waited for PARTS_MS: then one PARTS goes up
 *   GATHERED   comes once and goes to all
 *   STILL      from a rank is answered; the server's is for nobody
 *   LEFT       goes up when a rank hangs up without DONE
 *   HERE       is answered WORDS_MS later, so that who has ended by then is told of instead
 *   JOIN, DONE  wait WORDS_MS for more of them, or until something else is to go up, as a LEFT at once is: then WORDS
 *              goes up, as it comes down with what all ranks are told
 *
 * In a job that may have more than WEFT__TREE_HOSTS hosts relays stand below relays.  Each then listens for other hosts
 * too, at the address that its leader reaches the server from, and seeks its place first: the leader's JOIN, which goes
 * to the server, says where that is, and PLACED says to whom the relay is to speak.  Meanwhile it keeps what its ranks
 * say.  If that is another relay, the leader hangs up at the server and joins by its own relay as the others do, so that
 * nothing of its host stays there.  To the upper relay the lower one's words are those of ranks, with these exceptions:
 *
 *   WORDS      is taken apart, and what is in it goes up with what others say
 *   PARTS      is taken apart, and its blocks go up with all that go with them
 *   HERE       goes down to the relay whose client it is of
 *   GATHERED   comes down once a connection, and other words of one connection's ranks in one WORDS
 *   STILL      is asked of the upper relay, once a third of its time to be silent has passed
 *   LEFT       comes for each rank of a host that hangs up, all in one WORDS, when the lower relay does
 *
 * An upper relay that hangs up or is silent is not replaced: the lower one closes, and its ranks take their own way.
 *
 * A rank's own way to the server always stands open, and is taken for good when its relay hangs up, refuses it, or
 * has not been heard for a while: it joins again by it, under the id that it has, and says its gather again. So a
 * leader that dies, stops or leaves costs its host a connection a rank, and nothing else; and a relay that has
 * lost the server just closes.  What must hold:
 *
 *   - a part is kept by at most one relay, and no longer than PARTS_MS by each on its way: whoever has not brought its
 *     part by then is missing, and nobody else is named;
 *   - a client hears each GATHERED once: on the way that it is on when the gather ends, or, having come by another
 *     way since, when it asks for the step again;
 *   - who has joined again is not given up by its old relay's LEFT, nor brought twice by its old relay's PARTS;
 *   - a relay stands below one whose leader has asked for its place before: there is no circle. */
#ifndef WEFT_NET_JOIN_RELAY_H
#define WEFT_NET_JOIN_RELAY_H
#include "index.h"
#include "rendezvous_wire.h"
#include "strangers.h"
#include "words.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

#define WEFT__RELAY_NAME_BYTES  64  /* of its endpoint */
#define WEFT__RELAY_ROUTE_BYTES 16  /* of a client's address inside the ROUTER; ZeroMQ takes 5 */
#define WEFT__RELAY_PARTS_MS    100 /* a part waits no longer for the others of its host */
#define WEFT__RELAY_WORDS_MS    10  /* nor a word for more words */
#define WEFT__RELAY_ASKED \
    3 /* after this part of its time to be silent a relay is asked whether it is there */
#define WEFT__RELAY_RANKS 16 /* of a job that has relays: fewer are sooner done at the server itself */

typedef struct weft__relayed {
    uint8_t id[WEFT__RENDEZVOUS_ID_BYTES]; /* first: by_id finds it there */
    uint8_t route[WEFT__RELAY_ROUTE_BYTES];
    size_t route_bytes;
    int fd;           /* of its connection */
    bool below;       /* which is another relay's, and other ranks' too */
    uint32_t attempt; /* of its connections, the newest it has joined by */
    bool ended;       /* that has ended; what it said before, its JOIN even, may still be read */
    bool left;        /* the server has been told of that */
    uint32_t asked;   /* which question whether it is there is to be answered; 0: none */
    bool welcomed;    /* it is in the job: it takes part in gathers */
    void *part;       /* of the gather under way */
    uint32_t step;    /* which that is for */
    size_t part_bytes, alike;
} weft__relayed;

typedef enum weft__relay_phase {
    WEFT__RELAY_SERVING, /* as it is made */
    WEFT__RELAY_OVER,    /* all ranks that have come are in the job, and have said that they are done */
    WEFT__RELAY_LOST     /* its way to the server has ended: its ranks take their own */
} weft__relay_phase;

typedef struct weft__relay {
    weft__relay_phase phase;
    weft__relayed *clients; /* that have not said DONE */
    int count, room;
    weft__index by_id;
    weft__words words; /* that are to go up */
    int64_t words_ns;  /* since when; while there are any */
    bool at_once;      /* they wait for nothing more */
    int asks;          /* clients that are asked for */
    int64_t asks_ns;   /* since when; while there are any */
    int parts;         /* of the gather under way that are here */
    int64_t parts_ns;  /* since when; while there are any */
    bool some_in, some_ended;
    int silent_ms;                     /* of the relay that it speaks to; 0: it speaks to the server */
    int64_t heard_ns;                  /* when something came from there last */
    int64_t asked_ns;                  /* when that was asked last whether it is there; 0: it was not */
    size_t longest;                    /* message that is read of a client */
    void *router, *upstream, *monitor; /* its thread's; upstream from the first client on */
    weft__strangers strangers;
    /* Its thread, and what that is told by. */
    void *context;
    weft__keys *keys;
    weft__address above;          /* to whom it speaks: the server, or another relay */
    weft__rendezvous_place place; /* where other hosts reach it; port 0: they do not */
    _Atomic bool seeks; /* it is not known yet to whom it is to speak; that is the leader's to say */
    pthread_t thread;
    int order_fd;            /* an eventfd: look at these */
    _Atomic int64_t stop_ns; /* WEFT__NEVER: stay */
    _Atomic bool all_in;     /* nobody joins any more: stay only for those that are in the job */
} weft__relay;

/* The endpoint of the relay of this host to that server. */
void weft__relay_name(const weft__keys *keys, const weft__address *server, char name[WEFT__RELAY_NAME_BYTES]);
/* Whether this host's relay to that server stands, for all that can be seen of it: one that has the job's keys proves
 * that only later. */
bool weft__relay_stands(const weft__keys *keys, const weft__address *server);
/* Whether who listens at the other end of that connection to its name is of this user. */
bool weft__relay_may_be_there(int fd);
/* Becomes this host's relay to that server, on a thread of its own.  WEFT_PENDING: another rank is it.  Any other
 * failure has set its sentence, and this host does without for now.  own: address at which it listens for other hosts,
 * and then seeks its place if it can; NULL: it has none below it.  world: the job's size; -1: not known. */
weft_status weft__relay_open(void *context, weft__keys *keys, const weft__address *server, const char *own,
                             int world, weft__relay **relay);
/* Where other hosts reach it, as long as it seeks its place; else NULL. */
const weft__rendezvous_place *weft__relay_seeks(const weft__relay *relay);
/* It speaks to that relay, which is left when it is silent for so long; NULL: to the server.  Safe on NULL, and where it
 * does so already. */
void weft__relay_go(weft__relay *relay, const weft__address *above, int silent_ms);
/* The job has all its ranks, and the one that leads has its last answer: ends when none of the others is with it any
 * more, at once where none ever was.  Returns without waiting.  Safe on NULL. */
void weft__relay_finish(weft__relay *relay);
/* Ends when nobody is with it any more, or by then.  Safe on NULL. */
void weft__relay_stop(weft__relay *relay, int64_t until_ns);

/* What its thread does (relay.c); messages are used up.  A client's, which came from that route over that
 * connection. */
void weft__relay_up(weft__relay *relay, const weft__relayed *from, zmq_msg_t *frame);
/* The server's. */
void weft__relay_down(weft__relay *relay, zmq_msg_t *frame);
void weft__relay_connection_ended(weft__relay *relay, int fd);
/* All that has come is taken: tells of those that have ended, and sends parts that have waited long enough.
 * Returns when it wants to be called again at the latest. */
int64_t weft__relay_settle(weft__relay *relay, int64_t now_ns);
void weft__relay_lose(weft__relay *relay);
void weft__relay_forget(weft__relay *relay); /* frees what lies in it */
bool weft__relay_is_of_route(const weft__relayed *one, const weft__relayed *other); /* of one connection */
/* relay_thread.c: connects to whom it speaks to.  False: that is not possible. */
bool weft__relay_connect(weft__relay *relay);
#endif
