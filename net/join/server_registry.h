/* server_registry.h - the file at which ranks meet: who serves which job, and whether that job is alive.
 *
 * One file, many jobs.  It has a line that names the format, then one record of fixed size per job: its name,
 * the nonce of this run, where its server is.  Every change is made under a lock on the whole file.
 *
 * Locks tell who is alive, and the kernel drops them when a process ends, however it ends.  They belong to
 * the open file, so ranks may be threads.  Per record: one lock that the serving rank holds, one that every
 * member of a complete job shares.  A record that nobody holds is of a job that died; the next rank of that
 * name takes it over. (A child forked without exec holds what its parent held.)
 *
 * Fails with ERR_SYSTEM and the path where the file cannot be used: somebody else's, others may read or write
 * it, not a plain file, other content (which is left as it is), all records in use, no locks on this file
 * system. */
#ifndef WEFT_NET_JOIN_SERVER_REGISTRY_H
#define WEFT_NET_JOIN_SERVER_REGISTRY_H
#include "address.h"
#include "auth.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__REGISTRY_JOBS_MAX  64  /* records in one file */
#define WEFT__REGISTRY_JOB_BYTES 160 /* a job's name, with its end */

enum weft__registry_state {
    WEFT__REGISTRY_MINE,    /* there was no living entry: this rank has made one and is to serve */
    WEFT__REGISTRY_STARTS,  /* another rank is about to serve; its address is not known yet */
    WEFT__REGISTRY_SERVED,  /* a rank serves at the entry's address */
    WEFT__REGISTRY_RUNS,    /* members of a complete job live, its serving rank has left */
    WEFT__REGISTRY_DOUBTFUL /* of another host, and not locked: dead, or locks do not reach that far */
};

typedef struct weft__registry_entry {
    char job[WEFT__REGISTRY_JOB_BYTES];
    uint8_t nonce[WEFT__RUN_NONCE_BYTES];
    char host_id[WEFT__HOST_ID_BYTES];
    char address[WEFT__ADDRESS_BYTES]; /* numeric */
    int port;                          /* 0: not known yet */
    int pid;                           /* of the serving rank */
} weft__registry_entry;

typedef struct weft__registry weft__registry;

/* Opens nothing yet.  ERR_ARGUMENT for a name that is too long. */
weft_status weft__registry_new(const char *path, const char *job, weft__registry **file);
/* Finds the job's entry, or makes one.  Each takes the file's lock, waits for it at most until the deadline
 * and lets it go again. */
weft_status weft__registry_look(weft__registry *file, int64_t deadline_ns, weft__registry_entry *entry,
                                enum weft__registry_state *state);
/* The rank whose entry it is serves now. */
weft_status weft__registry_announce(weft__registry *file, int64_t deadline_ns, const char *address, int port);
/* A doubtful entry turned out to be dead; nothing happens if it has changed meanwhile. */
weft_status weft__registry_forget(weft__registry *file, int64_t deadline_ns,
                                  const uint8_t nonce[WEFT__RUN_NONCE_BYTES]);
/* All have met at the entry found last: it lives as long as this rank. */
weft_status weft__registry_hold(weft__registry *file);
/* The last who holds the entry removes it, and the file if no other entry is left.  Safe on NULL. */
void weft__registry_free(weft__registry *file);
#endif
