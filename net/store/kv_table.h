/* kv_table.h - keys, values, and who waits for a key that is not there.  Pure: no clock, no sockets, no
 * files.
 *
 * A call is first decided, which changes nothing and tells what it would change; then that is applied.  So a
 * store in a file can write the change down in between. */
#ifndef WEFT_NET_STORE_KV_TABLE_H
#define WEFT_NET_STORE_KV_TABLE_H
#include "kv.h"
#include "list.h"

#include <stdatomic.h>

/* Shared, so that an answer to many needs no copies; never changed. */
typedef struct weft__kv_value {
    _Atomic uint32_t refs;
    size_t bytes;
    unsigned char data[];
} weft__kv_value;
void weft__kv_value_unref(weft__kv_value *value); /* any thread */

typedef struct weft__kv_change {
    enum { WEFT__KV_NOTHING, WEFT__KV_PUT, WEFT__KV_REMOVE } kind;
    const char *key;
    const void *value; /* PUT; the call's, or text */
    size_t bytes;
    char text[24]; /* an ADD's sum */
} weft__kv_change;

/* Hangs on one missing key of its call. */
typedef struct weft__kv_waiter {
    weft__list node;
    const char *key;
} weft__kv_waiter;

typedef struct weft__kv_table weft__kv_table;

weft__kv_table *weft__kv_table_new(size_t limit_bytes); /* NULL: no memory */
void weft__kv_table_free(weft__kv_table *table);        /* not with waiters in it */

/* OK, PENDING (keys are missing), or a failure with its sentence.  found: GET's value, borrowed until the
 * next change. */
weft_status weft__kv_decide(const weft__kv_table *table, const weft__kv_call *call, weft__kv_change *change,
                            weft__kv_result *result, weft__kv_value **found);
/* ERR_MEMORY: nothing has changed.  Who waited for the key is woken: see weft__kv_woken. */
weft_status weft__kv_apply(weft__kv_table *table, const weft__kv_change *change);

/* For a call that is PENDING: hang it on a missing key.  Its keys stay where they are meanwhile. */
weft_status weft__kv_hang(weft__kv_table *table, const weft__kv_call *call, weft__kv_waiter *waiter);
void weft__kv_unhang(weft__kv_table *table, weft__kv_waiter *waiter);
/* One whose key has been put, unhung, in the order of hanging; NULL: none is left. */
weft__kv_waiter *weft__kv_woken(weft__kv_table *table);

/* Everything that is there, in no order. */
typedef weft_status weft__kv_each_fn(void *arg, const char *key, const weft__kv_value *value);
weft_status weft__kv_each(const weft__kv_table *table, weft__kv_each_fn *fn, void *arg);
size_t weft__kv_used(const weft__kv_table *table); /* bytes of keys and values */
#endif
