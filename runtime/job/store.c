/* store.c - the public face of a key/value store: checks what it is given, gives every call a deadline, and
 * writes the sentences about keys that did not come.  Where the values are is net/store/kv.h's. */
#include "store.h"
#include "clock.h"
#include "leave.h"
#include "request.h"
#include "settings.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_MS   30000 /* of calls without a time of their own, when the store was opened with timeout 0 */
#define NAME_SHOWN 64    /* bytes of a key in a sentence */

/* ---- checks ---- */

static weft_status may_wait(const char *what)
{
    if (weft__forked())
        return weft__fail(WEFT_ERR_STATE, "%s: a child of fork cannot use its parent's store", what);
    if (weft__in_callback())
        return weft__fail(WEFT_ERR_STATE, "%s waits for the store: not in a callback", what);
    return WEFT_OK;
}

static weft_status check_key(const char *what, const char *key)
{
    size_t bytes;
    if (!key) return weft__fail(WEFT_ERR_ARGUMENT, "%s: the key is NULL", what);
    bytes = strnlen(key, WEFT__KV_KEY_MAX + 1);
    if (bytes == 0) return weft__fail(WEFT_ERR_ARGUMENT, "%s: the key is empty", what);
    if (bytes > WEFT__KV_KEY_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: the key \"%.32s...\" is longer than %d bytes", what, key,
                          WEFT__KV_KEY_MAX);
    return WEFT_OK;
}

static weft_status check_value(const char *what, const void *value, size_t bytes)
{
    if (bytes && !value)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: the value is NULL, of %zu bytes", what, bytes);
    if (bytes > WEFT__KV_VALUE_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: a value of %zu bytes is longer than %u", what, bytes,
                          WEFT__KV_VALUE_MAX);
    return WEFT_OK;
}

/* A probe (timeout 0) does not wait for keys, but for the store itself as long as a set does. */
static int64_t look_ms(const weft_store *store, int64_t timeout_ms)
{
    return timeout_ms || !store ? timeout_ms : store->limit_ms;
}

/* A call with one key, which is written to text. */
static weft_status store_begin(const weft_store *store, const char *what, weft__kv_kind kind, const char *key,
                               int64_t timeout_ms, char text[WEFT__KV_KEY_MAX + 2], weft__kv_call *call)
{
    weft_status status =
        store ? check_key(what, key) : weft__fail(WEFT_ERR_ARGUMENT, "%s: the store is NULL", what);
    if (status == WEFT_OK) status = may_wait(what);
    if (status != WEFT_OK) return status;
    text[0] = WEFT__KV_USER_SPACE;
    memcpy(text + 1, key, strlen(key) + 1);
    *call = (weft__kv_call){.kind = kind,
                            .n = 1,
                            .keys = text,
                            .key_bytes = strlen(text) + 1,
                            .deadline_ns = weft__deadline(weft__now_ns(), timeout_ms)};
    return WEFT_OK;
}

/* ---- keys that did not come ---- */

static weft_status say_missing(const weft_store *store, const char *what, const weft__kv_call *call,
                               const weft__kv_result *result, int64_t timeout_ms)
{
    char names[WEFT__KV_MISSING_MAX * (NAME_SHOWN + 16)] = "";
    const char *key = call->keys;
    uint32_t named = result->missing < WEFT__KV_MISSING_MAX ? result->missing : WEFT__KV_MISSING_MAX, at = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < call->n && at < named; i++, key += strlen(key) + 1) {
        if (i != result->which[at]) continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%.*s%s\"", at ? ", " : "",
                                 NAME_SHOWN, key + 1, strlen(key + 1) > NAME_SHOWN ? "..." : "");
        at++;
    }
    if (named < result->missing)
        snprintf(names + used, sizeof names - used, " and %u more", result->missing - named);
    return weft__fail(WEFT_ERR_TIMEOUT, "%s: %.3g s passed, and %s not in the store %s: %s", what,
                      (double)timeout_ms / 1e3, result->missing == 1 ? "this key is" : "these keys are",
                      store->kv->name, names);
}

/* ---- opening ---- */

weft_status weft_store_open(const char *url, const char *secret, int64_t timeout_ms, weft_store **out)
{
    weft_store *store;
    weft_status status;
    int64_t limit_ms = timeout_ms ? timeout_ms : LIMIT_MS;
    int64_t deadline_ns = weft__deadline(weft__now_ns(), limit_ms);
    if (!url || !out) return weft__fail(WEFT_ERR_ARGUMENT, "store_open: %s is NULL", url ? "store" : "url");
    if (strlen(url) >= WEFT__KV_NAME_BYTES)
        return weft__fail(WEFT_ERR_ARGUMENT, "store_open: the URL is longer than %d bytes",
                          WEFT__KV_NAME_BYTES - 1);
    if ((status = weft__settings_check()) != WEFT_OK || (status = may_wait("store_open")) != WEFT_OK)
        return status;
    weft__lifetime_begin();
    store = calloc(1, sizeof *store);
    if (!store) return weft__fail_memory(sizeof *store, "a store");
    store->limit_ms = limit_ms;
    if (!strncmp(url, "tcp://", 6))
        status = weft__kv_open_tcp(url, secret, deadline_ns, &store->kv);
    else if (!strncmp(url, "file://", 7))
        status = weft__kv_open_file(url, secret, deadline_ns, &store->kv);
    else
        status = weft__fail(WEFT_ERR_ARGUMENT, "store \"%s\": expected tcp://HOST:PORT or file:///PATH", url);
    if (status == WEFT_OK)
        *out = store;
    else
        free(store);
    return status;
}

void weft_store_close(weft_store *store)
{
    if (!store || store->of_context || weft__forked()) return;
    store->kv->ops->close(store->kv);
    free(store);
}

/* ---- calls ---- */

weft_status weft_store_set(weft_store *store, const char *key, const void *value, size_t bytes)
{
    char text[WEFT__KV_KEY_MAX + 2];
    weft__kv_call call;
    weft__kv_result result;
    weft_status status =
        store_begin(store, "store_set", WEFT__KV_SET, key, store ? store->limit_ms : 0, text, &call);
    if (status == WEFT_OK) status = check_value("store_set", value, bytes);
    if (status != WEFT_OK) return status;
    call.value = value;
    call.value_bytes = bytes;
    return store->kv->ops->perform(store->kv, &call, &result);
}

weft_status weft_store_get(weft_store *store, const char *key, void *value, size_t *bytes, int64_t timeout_ms)
{
    char text[WEFT__KV_KEY_MAX + 2];
    weft__kv_call call;
    weft__kv_result result;
    weft_status status =
        store_begin(store, "store_get", WEFT__KV_GET, key, look_ms(store, timeout_ms), text, &call);
    if (status == WEFT_OK && !bytes) status = weft__fail(WEFT_ERR_ARGUMENT, "store_get: bytes is NULL");
    if (status == WEFT_OK && *bytes && !value)
        status = weft__fail(WEFT_ERR_ARGUMENT, "store_get: value is NULL, its room %zu bytes", *bytes);
    if (status != WEFT_OK) return status;
    call.patient = timeout_ms != 0;
    call.room = value;
    call.room_bytes = *bytes;
    status = store->kv->ops->perform(store->kv, &call, &result);
    if (status == WEFT_PENDING) return say_missing(store, "store_get", &call, &result, timeout_ms);
    if (status == WEFT_ERR_TRUNCATED)
        weft__fail(status, "store_get: the value of \"%.*s\" has %zu bytes, the room is %zu", NAME_SHOWN, key,
                   result.bytes, call.room_bytes);
    if (status == WEFT_OK || status == WEFT_ERR_TRUNCATED) *bytes = result.bytes;
    return status;
}

weft_status weft_store_add(weft_store *store, const char *key, int64_t amount, int64_t *result)
{
    char text[WEFT__KV_KEY_MAX + 2];
    weft__kv_call call;
    weft__kv_result sum;
    weft_status status =
        store_begin(store, "store_add", WEFT__KV_ADD, key, store ? store->limit_ms : 0, text, &call);
    if (status != WEFT_OK) return status;
    call.amount = amount;
    status = store->kv->ops->perform(store->kv, &call, &sum);
    if (status == WEFT_OK && result) *result = sum.number;
    return status;
}

weft_status weft_store_compare_set(weft_store *store, const char *key, const void *expected,
                                   size_t expected_bytes, const void *desired, size_t desired_bytes,
                                   bool *swapped)
{
    char text[WEFT__KV_KEY_MAX + 2];
    weft__kv_call call;
    weft__kv_result result;
    weft_status status =
        store_begin(store, "store_compare_set", WEFT__KV_SWAP, key, store ? store->limit_ms : 0, text, &call);
    if (status == WEFT_OK) status = check_value("store_compare_set", expected, expected_bytes);
    if (status == WEFT_OK) status = check_value("store_compare_set", desired, desired_bytes);
    if (status != WEFT_OK) return status;
    call.expected = expected;
    call.expected_bytes = expected_bytes;
    call.value = desired;
    call.value_bytes = desired_bytes;
    status = store->kv->ops->perform(store->kv, &call, &result);
    if (status == WEFT_OK && swapped) *swapped = result.flag;
    return status;
}

weft_status weft_store_delete(weft_store *store, const char *key, bool *existed)
{
    char text[WEFT__KV_KEY_MAX + 2];
    weft__kv_call call;
    weft__kv_result result;
    weft_status status =
        store_begin(store, "store_delete", WEFT__KV_DELETE, key, store ? store->limit_ms : 0, text, &call);
    if (status != WEFT_OK) return status;
    status = store->kv->ops->perform(store->kv, &call, &result);
    if (status == WEFT_OK && existed) *existed = result.flag;
    return status;
}

/* One behind the other, as a call has them. */
static weft_status pack_keys(const char *const *keys, size_t n, char **packed, size_t *bytes)
{
    size_t total = 0;
    char *at;
    for (size_t i = 0; i < n; i++) {
        weft_status status = check_key("store_wait", keys[i]);
        if (status != WEFT_OK) return status;
        total += strlen(keys[i]) + 2;
    }
    if (n > UINT32_MAX || total > UINT32_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "store_wait: %zu keys of %zu bytes are too many", n, total);
    *packed = at = malloc(total + 1);
    if (!at) return weft__fail_memory(total, "the keys to wait for");
    for (size_t i = 0; i < n; i++) {
        *at++ = WEFT__KV_USER_SPACE;
        memcpy(at, keys[i], strlen(keys[i]) + 1);
        at += strlen(keys[i]) + 1;
    }
    *bytes = total;
    return WEFT_OK;
}

weft_status weft_store_wait(weft_store *store, const char *const *keys, size_t n, int64_t timeout_ms)
{
    weft__kv_call call = {.kind = WEFT__KV_WAIT, .patient = timeout_ms != 0};
    weft__kv_result result;
    char *packed;
    weft_status status;
    if (!store) return weft__fail(WEFT_ERR_ARGUMENT, "store_wait: the store is NULL");
    if (n && !keys) return weft__fail(WEFT_ERR_ARGUMENT, "store_wait: keys is NULL, n is %zu", n);
    if ((status = may_wait("store_wait")) != WEFT_OK ||
        (status = pack_keys(keys, n, &packed, &call.key_bytes)) != WEFT_OK)
        return status;
    call.n = (uint32_t)n;
    call.keys = packed;
    call.deadline_ns = weft__deadline(weft__now_ns(), look_ms(store, timeout_ms));
    status = n ? store->kv->ops->perform(store->kv, &call, &result) : WEFT_OK;
    if (status == WEFT_PENDING) status = say_missing(store, "store_wait", &call, &result, timeout_ms);
    free(packed);
    return status;
}
