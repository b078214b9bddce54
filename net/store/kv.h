/* kv.h - a key/value store: what may be asked of one, and the seam behind which one is.
 *
 * A store is kept by a server (kv_client.c asks kv_server.c) or in a file (kv_file.c).  What a call does to
 * the values is the same in both: kv_table.c.  The first byte of a key is its space: the user's keys and the
 * library's own never meet. */
#ifndef WEFT_NET_STORE_KV_H
#define WEFT_NET_STORE_KV_H
#include "auth.h"
#include "secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__KV_KEY_MAX     1024                  /* bytes of a user's key */
#define WEFT__KV_VALUE_MAX   (64u * 1024 * 1024)   /* bytes of a value */
#define WEFT__KV_TOTAL_MAX   (1024u * 1024 * 1024) /* bytes of all keys and values of one store */
#define WEFT__KV_USER_SPACE  'u'
#define WEFT__KV_OWN_SPACE   'w'
#define WEFT__KV_MISSING_MAX 8 /* missing keys that are named */
#define WEFT__KV_NAME_BYTES  512

typedef enum weft__kv_kind {
    WEFT__KV_SET = 1,
    WEFT__KV_GET,
    WEFT__KV_ADD,
    WEFT__KV_SWAP, /* compare_set */
    WEFT__KV_WAIT,
    WEFT__KV_DELETE,
    WEFT__KV_KINDS
} weft__kv_kind;

typedef struct weft__kv_call {
    weft__kv_kind kind;
    bool patient;      /* GET, WAIT: for missing keys until the deadline */
    uint32_t n;        /* keys; 1 but for WAIT */
    const char *keys;  /* one behind the other, each ends with a zero; the first byte of each is its space */
    size_t key_bytes;  /* of all */
    const void *value; /* SET; SWAP: what is desired */
    size_t value_bytes;
    const void *expected; /* SWAP; NULL: only if the key is absent */
    size_t expected_bytes;
    int64_t amount; /* ADD */
    void *room;     /* GET */
    size_t room_bytes;
    int64_t deadline_ns;
} weft__kv_call;

typedef struct weft__kv_result {
    size_t bytes;                         /* GET: of the value */
    int64_t number;                       /* ADD: the sum */
    bool flag;                            /* SWAP: done; DELETE: it was there */
    uint32_t missing;                     /* GET, WAIT: so many keys */
    uint32_t which[WEFT__KV_MISSING_MAX]; /* the first of them */
} weft__kv_result;

typedef struct weft__kv weft__kv;

typedef struct weft__kv_ops {
    /* Any thread, several at once; blocks at most until the call's deadline.  PENDING: keys were missing then
     * (no sentence); ERR_TRUNCATED: result->bytes tells the size, nothing is written (no sentence). */
    weft_status (*perform)(weft__kv *kv, const weft__kv_call *call, weft__kv_result *result);
    void (*close)(weft__kv *kv);
} weft__kv_ops;

struct weft__kv {
    const weft__kv_ops *ops;
    char name[WEFT__KV_NAME_BYTES]; /* its URL, for sentences */
};

/* Serves HOST:PORT if it is local and free, else connects.  secret: a source, or NULL: this user on this
 * host, and only at a loopback address. */
weft_status weft__kv_open_tcp(const char *url, const char *secret, int64_t deadline_ns, weft__kv **kv);
/* Connects to a server that is there already. */
weft_status weft__kv_connect(const char *endpoint, weft__keys *keys, int64_t deadline_ns, weft__kv **kv);
weft_status weft__kv_open_file(const char *url, const char *secret, int64_t deadline_ns, weft__kv **kv);
#endif
