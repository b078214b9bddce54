/* secret.h - where the job's secret comes from, and the job directory that may hold it.
 *
 * Job directory: ${WEFT_RUN_DIR:-${XDG_RUNTIME_DIR:-/tmp}}/weft-UID/JOB-ID/, 0700, owned by this user,
 * checked without following links.  An XDG_RUNTIME_DIR that is not there or not ours is passed over for /tmp,
 * a weft-UID of another user's making for weft-UID-1 and so on.  Holds what outlives a process: the secret of
 * a job that was given none. */
#ifndef WEFT_NET_SECRET_H
#define WEFT_NET_SECRET_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

#define WEFT__SECRET_MAX 1024 /* bytes */

typedef struct weft__secret {
    unsigned char bytes[WEFT__SECRET_MAX];
    size_t length;
    bool made_here;       /* none was given: only ranks of this host and user may join */
    const char *weakness; /* of what was given: weft__secret_weakness; NULL: it has none */
} weft__secret;

/* "file:PATH" (must be 0600 and ours), "fd:N", "env:NAME"; trailing newline dropped; empty or over-long is
 * refused. */
weft_status weft__secret_read(const char *source, weft__secret *secret);
/* That, one of fewer than WEFT__SECRET_LEAST characters refused, and one that may be a password, since it has fewer than
 * WEFT__SECRET_RANDOM, made hard to guess: what takes its place is Argon2id of it (RFC 9106), with a salt that is made of
 * `name`, the job's, and of `run`, which whoever has started all who are to have the same has drawn for this run; "": nobody
 * has.  Takes some 15 ms and 8 MiB then. */
#define WEFT__SECRET_LEAST  16
#define WEFT__SECRET_RANDOM 32
weft_status weft__secret_take(const char *source, const char *name, const char *run, weft__secret *secret);
/* No source was given: read DIR/secret, or make it (exactly one of several ranks that race makes it). */
weft_status weft__secret_of_job(const char *job_dir, weft__secret *secret);
/* Why somebody who listens could guess it, in words that tell nothing of it; NULL: it is varied enough. */
const char *weft__secret_weakness(const weft__secret *secret);
void weft__secret_wipe(weft__secret *secret);

#define WEFT__JOB_DIR_REGISTRY "meeting" /* in it: where ranks of one launcher meet (server_registry.h) */

/* Makes (if needed) and opens the directory of job `id` (letters, digits, -, _ and . ; others become _).
 * Holds a shared lock on it while fd is open, by which the clean-up of later starts sees that it is alive.
 * Removes directories of dead jobs of this user beyond the newest 16 or older than 24 hours, and of all dead
 * ones the meeting. */
weft_status weft__job_dir_open(const char *id, char *path, size_t bytes, int *fd);
/* For what is stored to again and again, and would make its writers wait for a disk: that directory, if it is
 * in memory (fd: -1), else one of the same name below WEFT__JOB_DIR_MEMORY, likewise made and held.  What dead
 * jobs have left beside it somebody cleans away who has time. */
#define WEFT__JOB_DIR_MEMORY "/dev/shm"
weft_status weft__job_dir_in_memory(const char *job_dir, char *path, size_t bytes, int *fd);
void weft__job_dir_clean_beside(const char *path);
void weft__job_dir_leave(const char *path, int fd); /* closes it; without files and other users it goes */
#endif
