/* rendezvous_wire.h - the place where ranks meet: a ZeroMQ ROUTER at the serving rank with a thread of its
 * own, and the words its clients say to it.
 *
 *   client -> server   JOIN     who am I, which rank and world size was I given
 *   server -> client   JOINED   all are there: your rank, the world's size, this run's nonce
 *                      BUSY     the job is complete already; it may end soon, so stay
 *                      ANOTHER  this is not the run that you were looking for
 *                      STILL    nothing: are you still there?
 *   client -> server   GATHER   step, block         server -> client   GATHERED  all blocks, in rank order,
 *                                                                                as a bundle (bundle.h)
 *   client -> server   ASK                          server -> client   MISSING   who is waited for, in words
 *   client -> server   FAIL     status, sentence    server -> all      FAILED    status, sentence
 *   client -> server   DONE     I have my last answer (or give up)
 *
 * One rank of a host may stand between its others and the server (relay.h).  It hands their words on and takes
 * them to be the server's answers: who is meant is the client in the header; nobody, all of them.  Its own words:
 *
 *   relay -> server    PARTS    step, the blocks of several clients, as a bundle; their ids follow what is alike
 *                      LEFT     that client has hung up
 *   server -> relay    HERE     is that client there?   relay -> server    HERE, or LEFT
 *   relay <-> server   WORDS    several frames in one (words.h)
 *   client -> relay    STILL    are you still there?   (the server answers it too)
 *
 * Where there are many hosts, relays speak to relays as to the server.  Who leads a host says JOIN to the server with
 * where its relay can be reached, and is told where that one, and it itself, is to go:
 *
 *   client -> server   JOIN     as ever, and a place    server -> client   PLACED   a place; port 0: here
 *
 * One message each, in slices where it is long (slices.h): a header, then the payload.  A client may say JOIN again after a reconnection, or when it comes
 * by another way, and then GATHER of the step whose answer it has not got; its id tells that it is the same.  The
 * server's thread sleeps without a timer unless it is being stopped. */
#ifndef WEFT_NET_JOIN_RENDEZVOUS_WIRE_H
#define WEFT_NET_JOIN_RENDEZVOUS_WIRE_H
#include "address.h"
#include "auth.h"
#include "rendezvous.h"
#include "url.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

/* The limits of a job that joins; beside them stand WEFT__WORLD_MAX (url.h), and the descriptors of the serving
 * rank: one for each of WEFT__TREE_HOSTS hosts and one for each of these that leads others. */
#define WEFT__RENDEZVOUS_BLOCK_MAX (8 * 1024) /* one rank's part of a gather */
#define WEFT__RENDEZVOUS_WORDS_MAX (4 * 1024) /* what a relay says of one rank in one message besides */
#define WEFT__RENDEZVOUS_TOTAL_MAX \
    ((size_t)1024 * WEFT__WORLD_MAX) /* all parts together: 1 KiB from each rank */
#define WEFT__RENDEZVOUS_ID_BYTES 16
#define WEFT__RENDEZVOUS_MAGIC    0x54534657u /* "WFST" in little-endian */
#define WEFT__RENDEZVOUS_VERSION  6

enum weft__rendezvous_kind {
    WEFT__RENDEZVOUS_JOIN = 1,
    WEFT__RENDEZVOUS_GATHER,
    WEFT__RENDEZVOUS_ASK,
    WEFT__RENDEZVOUS_FAIL,
    WEFT__RENDEZVOUS_DONE,
    WEFT__RENDEZVOUS_JOINED,
    WEFT__REGISTRY_BUSY,
    WEFT__RENDEZVOUS_GATHERED,
    WEFT__RENDEZVOUS_MISSING,
    WEFT__RENDEZVOUS_FAILED,
    WEFT__RENDEZVOUS_ANOTHER,
    WEFT__RENDEZVOUS_STILL,
    WEFT__RENDEZVOUS_PARTS,
    WEFT__RENDEZVOUS_LEFT,
    WEFT__RENDEZVOUS_WORDS,
    WEFT__RENDEZVOUS_PLACED,
    WEFT__RENDEZVOUS_HERE
};

typedef struct weft__rendezvous_header {
    uint32_t magic;
    uint16_t version, kind;
    uint8_t client[WEFT__RENDEZVOUS_ID_BYTES];
    int32_t rank, world; /* JOIN: -1 where not given */
    int32_t status;      /* FAIL, FAILED */
    uint32_t
        step; /* GATHER, PARTS, GATHERED: from 1; JOIN: which of the client's connections; HERE: which question */
    uint32_t alike; /* GATHER: bytes that the block begins with and that are the same on many ranks */
} weft__rendezvous_header;
_Static_assert(sizeof(weft__rendezvous_header) == 44, "fixed on the wire");

/* Payload of JOIN. */
typedef struct weft__rendezvous_who {
    int32_t pid;
    char host_id[WEFT__HOST_ID_BYTES];
    char host[64];                      /* its name, for messages */
    uint8_t run[WEFT__RUN_NONCE_BYTES]; /* that the client was told to find here; zeros: whichever it is */
} weft__rendezvous_who;

/* Behind the payload of JOIN: where that rank's relay can be reached by other hosts.  Payload of PLACED: of whom. */
typedef struct weft__rendezvous_place {
    char address[WEFT__ADDRESS_BYTES];
    int32_t port; /* 0: the server itself */
} weft__rendezvous_place;

/* The longest message that is read in a world of so many; -1: that is not known. */
static inline size_t weft__rendezvous_longest(int world)
{
    const size_t each = WEFT__RENDEZVOUS_BLOCK_MAX + WEFT__RENDEZVOUS_WORDS_MAX;
    const size_t most = WEFT__RENDEZVOUS_TOTAL_MAX;
    return 4096 + (world <= 0 || (size_t)world > most / each ? most : (size_t)world * each);
}

typedef struct weft__rendezvous_server weft__rendezvous_server;

/* Binds and starts to serve; port 0 takes one that is free and writes it into the address.  WEFT_PENDING: the
 * address cannot be bound here (errno tells why): taken, or another host's.  own: the client id of the
 * serving rank, which comes first among those without a given rank.  nonce: of this run; zeros: make one.  world: its
 * size, or -1: somebody who joins will say it.  tree: what relays make, see rendezvous.h. */
weft_status weft__rendezvous_serve(void *context, weft__address *address, weft__keys *keys,
                                   const uint8_t own[WEFT__RENDEZVOUS_ID_BYTES],
                                   const uint8_t nonce[WEFT__RUN_NONCE_BYTES], int world,
                                   const weft__tree *tree, weft__rendezvous_server **server);
/* Nobody joins from now on, for another server is to be the one; stop it then.  False: all have joined
 * already, and this server stays. */
bool weft__rendezvous_resign(weft__rendezvous_server *server);
/* Whether a relay has brought somebody: what those are told may be held up for as long as a relay may be silent. */
bool weft__rendezvous_is_relayed(const weft__rendezvous_server *server);
/* These ranks, of so many, have left the job or died: they need no answer any more.  Safe on NULL. */
void weft__rendezvous_spare(weft__rendezvous_server *server, const bool *gone, int ranks);
/* Ends when every client has said DONE - after a refusal also those that are still to come - or at the
 * deadline. */
void weft__rendezvous_stop(weft__rendezvous_server *server, int64_t deadline_ns);
#endif
