/* kv_table.c - see kv_table.h.  A hash of chains; an entry without a value is a key that somebody waits for.
 * Fails when memory or the table's limit does not suffice, and when what is to be added to is no number. */
#include "kv_table.h"
#include "status.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS  64
#define ENTRY_OVERHEAD 64 /* what an entry costs beside its bytes, about */

typedef struct entry {
    struct entry *next;
    weft__kv_value *value; /* NULL: only waited for */
    weft__list waiters;
    size_t key_bytes;
    char key[];
} entry;

struct weft__kv_table {
    entry **buckets;
    size_t bucket_count, count; /* a power of two; entries */
    size_t used, limit;
    weft__list woken;
    unsigned char seed[crypto_shorthash_KEYBYTES]; /* so that nobody can choose keys that collide */
};

void weft__kv_value_unref(weft__kv_value *value)
{
    if (value && atomic_fetch_sub_explicit(&value->refs, 1, memory_order_acq_rel) == 1) free(value);
}

weft__kv_table *weft__kv_table_new(size_t limit_bytes)
{
    weft__kv_table *table = calloc(1, sizeof *table);
    if (!table || !(table->buckets = calloc(FIRST_BUCKETS, sizeof(entry *)))) {
        free(table);
        return NULL;
    }
    table->bucket_count = FIRST_BUCKETS;
    table->limit = limit_bytes;
    weft__list_init(&table->woken);
    randombytes_buf(table->seed, sizeof table->seed);
    return table;
}

void weft__kv_table_free(weft__kv_table *table)
{
    if (!table) return;
    for (size_t i = 0; i < table->bucket_count; i++)
        for (entry *e = table->buckets[i], *next; e; e = next) {
            next = e->next;
            weft__kv_value_unref(e->value);
            free(e);
        }
    free(table->buckets);
    free(table);
}

size_t weft__kv_used(const weft__kv_table *table)
{
    return table->used;
}

/* ---- entries ---- */

static entry **place_of(const weft__kv_table *table, const char *key)
{
    uint64_t hash;
    unsigned char bytes[crypto_shorthash_BYTES];
    entry **at;
    crypto_shorthash(bytes, (const unsigned char *)key, strlen(key), table->seed);
    memcpy(&hash, bytes, sizeof hash);
    at = &table->buckets[hash & (table->bucket_count - 1)];
    while (*at && strcmp((*at)->key, key) != 0) at = &(*at)->next;
    return at;
}

static weft__kv_value *value_of(const weft__kv_table *table, const char *key)
{
    entry *e = *place_of(table, key);
    return e ? e->value : NULL;
}

/* More room when there is memory for it; else the chains grow. */
static void kv_table_grow(weft__kv_table *table)
{
    weft__kv_table wider = *table;
    wider.bucket_count = 2 * table->bucket_count;
    wider.buckets = calloc(wider.bucket_count, sizeof(entry *));
    if (!wider.buckets) return;
    for (size_t i = 0; i < table->bucket_count; i++)
        for (entry *e = table->buckets[i], *next; e; e = next) {
            entry **at = place_of(&wider, e->key);
            next = e->next;
            e->next = NULL;
            *at = e;
        }
    free(table->buckets);
    table->buckets = wider.buckets;
    table->bucket_count = wider.bucket_count;
}

static entry *find_or_make(weft__kv_table *table, const char *key)
{
    entry **at = place_of(table, key), *e = *at;
    size_t bytes = strlen(key) + 1;
    if (e) return e;
    e = calloc(1, sizeof *e + bytes);
    if (!e) return NULL;
    memcpy(e->key, key, bytes);
    e->key_bytes = bytes;
    weft__list_init(&e->waiters);
    *at = e;
    if (++table->count > table->bucket_count) kv_table_grow(table);
    return e;
}

static void drop_if_idle(weft__kv_table *table, const char *key)
{
    entry **at = place_of(table, key), *e = *at;
    if (!e || e->value || !weft__list_empty(&e->waiters)) return;
    *at = e->next;
    table->count--;
    free(e);
}

/* ---- deciding ---- */

/* Decimal, as ADD writes it; a zero behind it, from whoever set a C string with its end, is no harm. */
static bool read_number(const weft__kv_value *value, int64_t *number)
{
    char text[24], *end;
    size_t bytes = value->bytes;
    if (bytes && value->data[bytes - 1] == '\0') bytes--;
    if (bytes == 0 || bytes >= sizeof text) return false;
    memcpy(text, value->data, bytes);
    text[bytes] = '\0';
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) return false;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return !errno && end == text + bytes && end[-1] != '-';
}

static weft_status decide_add(const weft__kv_value *value, const weft__kv_call *call, weft__kv_change *change,
                              weft__kv_result *result)
{
    int64_t old = 0;
    if (value && !read_number(value, &old))
        return weft__fail(WEFT_ERR_ARGUMENT, "add to \"%s\": its value is not a decimal number of 64 bits",
                          call->keys + 1);
    if (__builtin_add_overflow(old, call->amount, &result->number))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "add to \"%s\": %" PRId64 " and %" PRId64 " do not fit into 64 bits together",
                          call->keys + 1, old, call->amount);
    change->kind = WEFT__KV_PUT;
    change->bytes = (size_t)snprintf(change->text, sizeof change->text, "%" PRId64, result->number);
    change->value = change->text;
    return WEFT_OK;
}

static void decide_swap(const weft__kv_value *value, const weft__kv_call *call, weft__kv_change *change,
                        weft__kv_result *result)
{
    result->flag = call->expected ? value && value->bytes == call->expected_bytes &&
                                        !memcmp(value->data, call->expected, value->bytes)
                                  : !value;
    if (!result->flag) return;
    change->kind = WEFT__KV_PUT;
    change->value = call->value;
    change->bytes = call->value_bytes;
}

static void find_missing(const weft__kv_table *table, const weft__kv_call *call, weft__kv_result *result)
{
    const char *key = call->keys;
    for (uint32_t i = 0; i < call->n; i++, key += strlen(key) + 1) {
        if (value_of(table, key)) continue;
        if (result->missing < WEFT__KV_MISSING_MAX) result->which[result->missing] = i;
        result->missing++;
    }
}

static weft_status check_limit(const weft__kv_table *table, const weft__kv_value *old,
                               const weft__kv_change *change)
{
    size_t freed = old ? old->bytes : 0, more = change->bytes;
    if (!old) more += strlen(change->key) + ENTRY_OVERHEAD;
    if (table->used - freed + more <= table->limit) return WEFT_OK;
    return weft__fail(WEFT_ERR_MEMORY,
                      "the store is full: it holds %zu of at most %zu bytes, \"%s\" needs %zu more",
                      table->used, table->limit, change->key + 1, more);
}

weft_status weft__kv_decide(const weft__kv_table *table, const weft__kv_call *call, weft__kv_change *change,
                            weft__kv_result *result, weft__kv_value **found)
{
    weft__kv_value *value = call->kind == WEFT__KV_WAIT ? NULL : value_of(table, call->keys);
    weft_status status = WEFT_OK;
    *change = (weft__kv_change){.kind = WEFT__KV_NOTHING, .key = call->keys};
    *result = (weft__kv_result){0};
    *found = NULL;
    switch (call->kind) {
    case WEFT__KV_SET:
        change->kind = WEFT__KV_PUT;
        change->value = call->value;
        change->bytes = call->value_bytes;
        break;
    case WEFT__KV_GET:
        *found = value;
        result->bytes = value ? value->bytes : 0;
        result->missing = !value;
        break;
    case WEFT__KV_ADD: status = decide_add(value, call, change, result); break;
    case WEFT__KV_SWAP: decide_swap(value, call, change, result); break;
    case WEFT__KV_WAIT: find_missing(table, call, result); break;
    case WEFT__KV_DELETE:
        result->flag = value != NULL;
        if (value) change->kind = WEFT__KV_REMOVE;
        break;
    case WEFT__KV_KINDS: break;
    }
    if (status == WEFT_OK && change->kind == WEFT__KV_PUT) status = check_limit(table, value, change);
    return status == WEFT_OK && result->missing ? WEFT_PENDING : status;
}

/* ---- changing ---- */

static weft_status put(weft__kv_table *table, const weft__kv_change *change)
{
    weft__kv_value *value = malloc(sizeof *value + change->bytes);
    entry *e = value ? find_or_make(table, change->key) : NULL;
    if (!e) {
        free(value);
        return weft__fail_memory(change->bytes, "a value in the store");
    }
    atomic_init(&value->refs, 1);
    value->bytes = change->bytes;
    if (change->bytes) memcpy(value->data, change->value, change->bytes);
    table->used +=
        e->value ? change->bytes - e->value->bytes : change->bytes + e->key_bytes - 1 + ENTRY_OVERHEAD;
    weft__kv_value_unref(e->value);
    e->value = value;
    WEFT__LIST_EACH(&e->waiters, at)
    {
        weft__list_remove(at);
        weft__list_append(&table->woken, at);
    }
    return WEFT_OK;
}

static void take_away(weft__kv_table *table, const char *key)
{
    entry *e = *place_of(table, key);
    if (!e || !e->value) return;
    table->used -= e->value->bytes + e->key_bytes - 1 + ENTRY_OVERHEAD;
    weft__kv_value_unref(e->value);
    e->value = NULL;
    drop_if_idle(table, key);
}

weft_status weft__kv_apply(weft__kv_table *table, const weft__kv_change *change)
{
    if (change->kind == WEFT__KV_PUT) return put(table, change);
    if (change->kind == WEFT__KV_REMOVE) take_away(table, change->key);
    return WEFT_OK;
}

weft_status weft__kv_each(const weft__kv_table *table, weft__kv_each_fn *fn, void *arg)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < table->bucket_count && status == WEFT_OK; i++)
        for (entry *e = table->buckets[i]; e && status == WEFT_OK; e = e->next)
            if (e->value) status = fn(arg, e->key, e->value);
    return status;
}

/* ---- waiting ---- */

weft_status weft__kv_hang(weft__kv_table *table, const weft__kv_call *call, weft__kv_waiter *waiter)
{
    const char *key = call->keys;
    entry *e;
    for (uint32_t i = 1; i < call->n && value_of(table, key); i++) key += strlen(key) + 1;
    e = find_or_make(table, key);
    if (!e) return weft__fail_memory(sizeof *e + strlen(key), "waiting for a key");
    weft__list_init(&waiter->node);
    waiter->key = key;
    weft__list_append(&e->waiters, &waiter->node);
    return WEFT_OK;
}

void weft__kv_unhang(weft__kv_table *table, weft__kv_waiter *waiter)
{
    weft__list_remove(&waiter->node);
    drop_if_idle(table, waiter->key);
}

weft__kv_waiter *weft__kv_woken(weft__kv_table *table)
{
    weft__list *node = table->woken.next;
    if (weft__list_empty(&table->woken)) return NULL;
    weft__list_remove(node);
    return WEFT__LIST_ENTRY(node, weft__kv_waiter, node);
}
