/* rendezvous.h - how the ranks of a job find each other: from an init method to "who am I, of how many,
 * and a blocking all_gather".  All of it happens inside weft_init, on its thread.  This is the front that the
 * context sees; the ways to meet stand behind via.h.
 *
 * All init methods meet at a server (rendezvous_wire.h) that one of the ranks runs; they differ in how its
 * place is found (locate.h): env:// and tcp:// are told it, file:// and multicast find it.  Under its clients
 * lies CURVE with keys derived from the secret; who does not know it gets ERR_AUTH.
 *
 * A caller's weft_bootstrap needs no server: all is gathered through its all_gather, which is called in the
 * same order on all ranks whatever fails on one of them.  A caller's weft_store becomes such a one. */
#ifndef WEFT_NET_JOIN_RENDEZVOUS_H
#define WEFT_NET_JOIN_RENDEZVOUS_H
#include "auth.h"
#include "secret.h"

#include <stdint.h>
#include <weft/weft.h>

/* A relay (relay.h) that has said nothing for so long is left: it is asked once, after a third of that. */
#define WEFT__RELAY_SILENT_MS 3000

/* Relays of so many hosts speak to the server at which ranks meet.  Those of further hosts speak to one of these, or
 * of others that are there already, each of which has so many below it. */
#define WEFT__TREE_HOSTS 256
#define WEFT__TREE_FAN   16

typedef struct weft__tree {
    int hosts, fan; /* 0: as above */
} weft__tree;

typedef struct weft__join {
    const weft_bootstrap *bootstrap; /* the caller's, or NULL; then the init method does not count */
    struct weft__kv *store;          /* the same */
    const char *init_method;         /* as in weft_config */
    const char *job;                 /* config.job or "default" */
    const char *secret;              /* source, or NULL: one host, this user only */
    int rank, world_size;            /* from the config; -1: not given.  Win over everything else. */
    int64_t deadline_ns;
    int relay_silent_ms; /* 0: WEFT__RELAY_SILENT_MS */
    weft__tree tree;     /* the same for all ranks */
} weft__join;

typedef struct weft__rendezvous weft__rendezvous;

/* Blocks until every rank is there or the deadline; then the sentence says which ranks are missing.
 * Refused with one clear sentence, on every rank that can know it: a variable missing (named), a malformed
 * URL, rank out of range, the same rank twice, different world sizes, an unreachable or unresolvable host, a
 * port held by something that does not answer our greeting, a wrong secret, a non-loopback address without
 * a secret (the sentence says what to do). */
weft_status weft__rendezvous_open(const weft__join *how, weft__rendezvous **out);
int weft__rendezvous_rank(const weft__rendezvous *r);
int weft__rendezvous_world(const weft__rendezvous *r);
/* Made for this launch of the job: they fit no other one's.  Borrowed. */
weft__keys *weft__rendezvous_keys(const weft__rendezvous *r);
/* Numeric address that this rank advertises: WEFT_SOCKET_IFNAME's, else the local end of its connection to
 * the server (for the server: the address it bound).  Without a server: loopback if all ranks are on one
 * host, else the address that the default route leaves by, else that of the host's name. */
const char *weft__rendezvous_address(const weft__rendezvous *r);
const char *weft__rendezvous_job_dir(const weft__rendezvous *r);
/* Unique to this run of this job and the same on all ranks (16 bytes as 32 hex digits). */
const char *weft__rendezvous_nonce(const weft__rendezvous *r);

/* Collective over all ranks, called in the same order everywhere; out holds world * bytes_each; deadline from
 * weft__join.  alike: how many bytes a block begins with that are the same on many ranks, such as all of a host:
 * at a server they are told once.  A rank that fails before calling it can tell
 * the others with weft__rendezvous_fail: their all_gather returns that sentence. */
weft_status weft__rendezvous_all_gather(weft__rendezvous *r, const void *in, void *out, size_t bytes_each,
                                        size_t alike);
void weft__rendezvous_fail(weft__rendezvous *r, weft_status status, const char *why);
/* After the last all_gather: from now on the serving rank's close does not wait for this one. */
void weft__rendezvous_done(weft__rendezvous *r);
/* That rank has left the job or died: close does not wait for it.  Safe on NULL. */
void weft__rendezvous_note_gone(weft__rendezvous *r, int rank);
/* Gives the server back on the serving rank only when all others have got their last answer (bounded by the
 * deadline).  Safe on NULL. */
void weft__rendezvous_close(weft__rendezvous *r);
#endif
