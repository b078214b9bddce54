/* via.h - the seam below rendezvous.h: ways for the ranks of a job to meet.
 *
 * A way is a function weft__via_X that blocks until all ranks are there or the deadline, fills in what the
 * front hands out (rank, world, keys, address, job directory, nonce) and leaves its table behind.  When it
 * fails, its own close, if it has set its table, is still called. */
#ifndef WEFT_NET_JOIN_VIA_H
#define WEFT_NET_JOIN_VIA_H
#include "address.h"
#include "rendezvous.h"
#include "url.h"

#include <limits.h>

/* All slots: on the thread of weft_init.  None is called twice after close. */
typedef struct weft__via {
    /* As weft__rendezvous_all_gather; may block until the deadline. */
    weft_status (*all_gather)(void *state, const void *in, void *out, size_t bytes_each, size_t alike);
    /* Tells the others that this rank has failed, unless they know; through a bootstrap it waits until they
     * listen. */
    void (*fail)(void *state, weft_status status, const char *why);
    /* This rank has its last answer; only close follows.  NULL: there is nobody to tell. */
    void (*done)(void *state);
    /* Frees state; may wait, bounded, for the others' last answers. */
    void (*close)(void *state);
} weft__via;

struct weft__rendezvous {
    const weft__via *way;
    void *state;                       /* the way's own */
    int rank, world_size;              /* -1: not known yet */
    weft__keys *keys;                  /* of the job: joining itself goes by these */
    weft__keys *launch;                /* and everything after it by these */
    char address[WEFT__ADDRESS_BYTES]; /* "" before the way knows; set before: WEFT_SOCKET_IFNAME wins */
    char job_dir[PATH_MAX];
    int job_dir_fd;
    char nonce[2 * WEFT__RUN_NONCE_BYTES + 1];
    int64_t started_ns, deadline_ns;
    int relay_silent_ms;
    bool *gone; /* by rank; NULL: none is */
    weft__tree tree;
};

/* Ways. */
/* tcp://HOST:PORT and env://: a server at that address. */
weft_status weft__via_at_address(weft__rendezvous *r, const weft__join *how, const weft__url *url,
                                 const weft__address *at);
/* tcp://GROUP:PORT, an address of multicast. */
weft_status weft__via_at_multicast(weft__rendezvous *r, const weft__join *how, const weft__address *group);
/* file:///PATH.  Finds the keys, then as the next one. */
weft_status weft__via_at_user_file(weft__rendezvous *r, const weft__join *how, const char *path);
/* Who can come to a file.  Ranks of one start of a launcher wait for the end of the job that they are still
 * in; others are refused while a job of their name runs. */
typedef enum weft__comers { WEFT__OF_ONE_START, WEFT__OF_ONE_HOST, WEFT__OF_ANY_HOST } weft__comers;
/* The keys are there already.  job: what the entries in that file are told apart by. */
weft_status weft__via_at_file(weft__rendezvous *r, const char *path, const char *job, weft__comers comers);
/* through: the caller's how->bootstrap, or one of our own: own_close then frees its state, also when this
 * fails, and the sentences that its failures have set stand. */
weft_status weft__via_through(weft__rendezvous *r, const weft__join *how, const weft_bootstrap *through,
                              void (*own_close)(void *state));
weft_status weft__via_by_store(weft__rendezvous *r, const weft__join *how); /* how->store */
weft_status weft__via_nobody(weft__rendezvous *r); /* a world of one, whose keys are there */

/* What several ways do, in rendezvous.c.  The address of WEFT_SOCKET_IFNAME, if that is set. */
weft_status weft__via_address(weft__rendezvous *r, int family);
/* Where the secret is said to come from; "": nowhere. */
const char *weft__via_secret_source(const weft__join *how);
/* Opens the job directory of that id and derives the keys from the secret given, else
 * from the directory's. */
weft_status weft__via_keys(weft__rendezvous *r, const weft__join *how, const char *id);
void weft__via_nonce(weft__rendezvous *r, const uint8_t nonce[WEFT__RUN_NONCE_BYTES]);
#endif
