/* kv_log.h - the file of a store: a header, then records that are only ever appended, and the table that they
 * add up to.
 *
 * Every access holds the file's lock (an open file description lock, which other hosts honour too).  A
 * process killed while it appends leaves a record that is cut off by the next one that writes.  When much of
 * the file is out of date, a new one takes its place.  It outlives processes, not a crash of the system:
 * nothing is flushed. Fails, and changes nothing, when the file is not a store, not ours, or damaged. */
#ifndef WEFT_NET_STORE_KV_LOG_H
#define WEFT_NET_STORE_KV_LOG_H
#include "kv_table.h"

#include <limits.h>
#include <sys/types.h>

#define WEFT__KV_ID_BYTES    16
#define WEFT__KV_PROOF_BYTES 32

typedef struct weft__kv_log_header {
    char magic[8];
    uint32_t version, order;             /* order: of bytes */
    uint8_t id[WEFT__KV_ID_BYTES];       /* of this store; kept when its file is made anew */
    uint8_t nonce[WEFT__KV_ID_BYTES];    /* of this file; part of every record's hash */
    uint8_t proof[WEFT__KV_PROOF_BYTES]; /* that its maker knew the secret; zeros: it had none */
} weft__kv_log_header;
_Static_assert(sizeof(weft__kv_log_header) == 80, "fixed in the file");

typedef struct weft__kv_log {
    char path[PATH_MAX];
    int fd;
    bool keyed;
    uint8_t key[WEFT__KV_PROOF_BYTES]; /* from the secret */
    weft__kv_log_header header;
    weft__kv_table *table;
    off_t end; /* of the records that the table has */
} weft__kv_log;

/* Opens, and makes if there is none; the lock is not held afterwards. */
weft_status weft__kv_log_open(weft__kv_log *log, const char *path, const weft__secret *secret,
                              int64_t deadline_ns);
/* One try; then the table has all that is in the file.  PENDING: somebody else holds it. */
weft_status weft__kv_log_lock(weft__kv_log *log, bool to_write);
void weft__kv_log_unlock(weft__kv_log *log);
/* Locked to write.  The change is in the file and in the table, or in neither. */
weft_status weft__kv_log_append(weft__kv_log *log, const weft__kv_change *change);
void weft__kv_log_close(weft__kv_log *log);

/* Sleeps between two tries at the lock. */
void weft__kv_log_pause(int tries);
#endif
