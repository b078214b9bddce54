/* rendezvous_server.h - what the server of rendezvous_wire.h knows: its members, and how far joining is.  Its
 * thread's alone. */
#ifndef WEFT_NET_JOIN_RENDEZVOUS_SERVER_H
#define WEFT_NET_JOIN_RENDEZVOUS_SERVER_H
#include "index.h"
#include "rendezvous_wire.h"
#include "status.h"
#include "strangers.h"
#include "words.h"

#include <pthread.h>
#include <zmq.h>

#define WEFT__RENDEZVOUS_ROUTE_BYTES 16 /* of a peer's address inside the ROUTER; ZeroMQ takes 5 */

typedef struct weft__rendezvous_member {
    uint8_t id[WEFT__RENDEZVOUS_ID_BYTES]; /* first: by_id finds it there */
    uint8_t route[WEFT__RENDEZVOUS_ROUTE_BYTES];
    size_t route_bytes;          /* a relay's for all that come by it */
    int given_rank, given_world; /* -1: not given */
    int rank;                    /* once all are there */
    int host;                    /* order of its host's first arrival; the server's own is 0 */
    int arrival;
    int64_t joined_ns;
    weft__rendezvous_who who;
    bool done, gone;  /* gone: its connection, when that was looked at last */
    bool relayed;     /* it has come by a relay */
    uint32_t asked;   /* the last question whether it is there, on the way that it is on; 0: none */
    bool here;        /* it was */
    void *block;      /* its part of the gather under way */
    uint32_t attempt; /* of its connections, the newest it has joined by */
} weft__rendezvous_member;

/* Whose time ran out before all were there. */
struct weft__quitter {
    int rank;
    int64_t at_ns;
};

/* Who came by a second way and has gone: a relay may still bring what it said by the first. */
struct weft__dropped {
    uint8_t id[WEFT__RENDEZVOUS_ID_BYTES];
    uint32_t attempt;
};

/* Somebody who says to be a rank that another one is (rendezvous_twice.c). */
struct weft__claim {
    weft__rendezvous_member from;
    int rank; /* -1: it is one too many, as long as all who have come are there */
    uint8_t against[WEFT__RENDEZVOUS_ID_BYTES]; /* who was that rank when both were asked for */
    size_t bytes;
    char frame[sizeof(weft__rendezvous_header) + sizeof(weft__rendezvous_who) +
               sizeof(weft__rendezvous_place)]; /* its JOIN */
};

/* A rank that leads its host, and has said where its relay can be reached (rendezvous_tree.c). */
struct weft__leader {
    uint8_t id[WEFT__RENDEZVOUS_ID_BYTES]; /* first: by_leader finds it there */
    weft__rendezvous_place at;
    uint32_t attempt; /* of its connections, that by which it was told where to go */
    int above;        /* which of them its relay was sent to; -1: none, it speaks to the server */
    int below;        /* how many were sent to it */
    bool gone; /* it has left, or somebody who was sent to it has come back: nobody is sent to it any more */
};

enum weft__server_phase {
    WEFT__SERVER_JOINING, /* as it is made */
    WEFT__SERVER_COMPLETE,
    WEFT__SERVER_FAILED,
    WEFT__SERVER_RESIGNED
};

struct weft__rendezvous_server {
    void *router;
    size_t longest; /* message that is read */
    weft__strangers strangers;
    void *owner_end, *thread_end; /* inproc pair: the owner's word that it is time to stop */
    pthread_t thread;
    weft__keys *keys;
    uint8_t own[WEFT__RENDEZVOUS_ID_BYTES];
    char host_id[WEFT__HOST_ID_BYTES];

    enum weft__server_phase phase;
    weft__rendezvous_member *members;
    int count, room, arrivals;
    weft__rendezvous_member **waiting;  /* room for as many: telling all asks for no memory */
    int done;                           /* of them, that have said so */
    weft__index by_id;                  /* of members */
    int *by_rank;                       /* JOINING: 1 + the place of the member that was given it; 0: none */
    int ranks;                          /* room of by_rank */
    char (*hosts)[WEFT__HOST_ID_BYTES]; /* in the order of their first arrivals; the own is 0 */
    weft__index by_host;
    int host_count;
    struct weft__quitter *quitters; /* each rank once */
    int quitter_count;
    struct weft__dropped *dropped;
    int dropped_count;
    struct weft__claim *claims; /* in the order in which they came */
    int claim_count;
    uint32_t questions;
    weft__tree tree;
    struct weft__leader *leaders; /* in the order in which they came */
    int leader_count, leader_room;
    weft__index by_leader;
    int heads;                     /* of them, that speak to the server */
    int open;                      /* of them, the first that others may be sent to */
    weft__rendezvous_member *asks; /* of these, who want to know who is missing: id and route */
    int ask_count;
    uint8_t nonce[WEFT__RUN_NONCE_BYTES]; /* of this run of the job */
    int world;                            /* -1 until somebody says it */
    int expected;                         /* clients that are to hear of a failure before the server may go */
    int step;                             /* of the gather under way */
    int gathered;                         /* parts of it that are here */
    size_t block_bytes, alike;
    zmq_msg_t last; /* what all have been told of the step before, for those whose way broke meanwhile */
    bool has_last;
    _Atomic bool relayed; /* some have come by a relay */
    weft_status status;
    char sentence[WEFT__SENTENCE_BYTES];
};

/* Nobody is there yet.  Memory, and what lies in it, is the caller's to free: weft__rendezvous_forget. */
void weft__rendezvous_begin(weft__rendezvous_server *s, const weft__tree *tree);
void weft__rendezvous_forget(weft__rendezvous_server *s);
/* A frame from there (route); whatever it is.  from: its id is filled in. */
void weft__rendezvous_take(weft__rendezvous_server *s, weft__rendezvous_member *from, const void *frame,
                           size_t bytes);
/* Whether somebody hung up before all were there: found by writing to each.  What it said last can be read then. */
bool weft__rendezvous_some_have_gone(weft__rendezvous_server *s);
/* Tells whoever asked who is missing.  Before all are there, whoever has hung up is dropped first. */
void weft__rendezvous_answer_asks(weft__rendezvous_server *s);
/* Whether nobody waits for an answer any more. */
bool weft__rendezvous_all_done(const weft__rendezvous_server *s);
/* These ranks, of a job that is complete, need nothing any more. */
void weft__rendezvous_take_gone(weft__rendezvous_server *s, const bool *gone, int ranks);
/* Nobody joins from now on.  False: all have joined already, or joining has failed. */
bool weft__rendezvous_give_way(weft__rendezvous_server *s);
/* What its own files do with each other.  rendezvous_say.c: false: that connection is gone; a message is used up. */
weft__rendezvous_header weft__rendezvous_header_for(const weft__rendezvous_server *s,
                                                    enum weft__rendezvous_kind kind, int rank);
bool weft__rendezvous_send(weft__rendezvous_server *s, const weft__rendezvous_member *to, zmq_msg_t *msg);
bool weft__rendezvous_say(weft__rendezvous_server *s, const weft__rendezvous_member *to,
                          enum weft__rendezvous_kind kind, const void *payload, size_t bytes);
/* To all that wait.  bytes: at most those of a sentence. */
void weft__rendezvous_say_to_all(weft__rendezvous_server *s, enum weft__rendezvous_kind kind,
                                 const void *payload, size_t bytes);
int weft__rendezvous_by_route(const void *left, const void *right); /* of pointers to members, for qsort */
/* All that have not said that they are done, those of one connection beside each other: s->waiting, until the next call. */
weft__rendezvous_member **weft__rendezvous_waiting(const weft__rendezvous_server *s, int *n);
/* How many of these n, from the first on, are behind one connection. */
int weft__rendezvous_of_one_route(weft__rendezvous_member *const *members, int n);
weft__rendezvous_member *weft__rendezvous_find(weft__rendezvous_server *s, const uint8_t *id);
/* A member, or who claimed to be one, has gone: what it said by an older way may still come, and nobody is sent to its relay any
 * more. */
void weft__rendezvous_note_end(weft__rendezvous_server *s, const weft__rendezvous_member *m);
/* Joining has failed: all are told, and all who are still to come.  The first cause wins. */
void weft__rendezvous_refuse(weft__rendezvous_server *s, weft_status status, const char *format, ...)
    WEFT__PRINTF(3, 4);
/* rendezvous_gather.c: what a rank brings to a step, alike of whose bytes are the same on many; and what a relay
 * brings for its ranks. */
void weft__rendezvous_take_part(weft__rendezvous_server *s, weft__rendezvous_member *m, uint32_t step,
                                size_t alike, const void *block, size_t bytes);
void weft__rendezvous_take_parts(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                                 uint32_t step, const void *payload, size_t bytes);
void weft__rendezvous_drop_last(weft__rendezvous_server *s); /* nobody will ask for that answer again */
/* rendezvous_tree.c: somebody joins who leads its host, or who may have done so before.  at: where its relay can be reached, a
 * weft__rendezvous_place that need not be aligned; before: NULL.  True: it has been told to go elsewhere, and joins there.
 * known: it is a member here. */
bool weft__rendezvous_place_leader(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                                   const weft__rendezvous_header *h, const void *at, bool known);
void weft__rendezvous_leader_left(weft__rendezvous_server *s, const uint8_t *id);
/* rendezvous_twice.c: somebody joins as a rank that is a member's, or where all ranks have come.  True: it is known later whether
 * there is a place, or this one has gone; false: there is none. */
bool weft__rendezvous_claims(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                             const weft__rendezvous_header *h, const void *payload, size_t bytes);
/* Somebody joins by a connection that is older than the one it claims a rank by. */
bool weft__rendezvous_claims_by_newer(const weft__rendezvous_server *s, const weft__rendezvous_header *h);
/* Who may have claimed a rank by another way is a member now, or can be none. */
void weft__rendezvous_claim_ends(weft__rendezvous_server *s, const uint8_t *id);
void weft__rendezvous_take_here(weft__rendezvous_server *s, const uint8_t *id, uint32_t question);
/* Its relay says that it has hung up; it gives up. */
void weft__rendezvous_claim_left(weft__rendezvous_server *s, const weft__rendezvous_member *from);
void weft__rendezvous_claim_done(weft__rendezvous_server *s, const uint8_t *id);
bool weft__rendezvous_is_in_doubt(const weft__rendezvous_server *s); /* who some rank is */
/* One whose JOIN is to be taken now.  False: there is none. */
bool weft__rendezvous_next_claim(weft__rendezvous_server *s, struct weft__claim *next);
/* rendezvous_missing.c: who is waited for, in words; and whose time ran out before all were there.  asks: the
 * member that wants to know, or NULL. */
void weft__rendezvous_missing(const weft__rendezvous_server *s, const weft__rendezvous_member *asks,
                              char *words, size_t bytes);
void weft__rendezvous_note_quitter(weft__rendezvous_server *s, int rank);
#endif
