/* kv_wire.h - what a store's client and server say to each other.
 *
 *   request   header, keys (each ends with a zero), what is expected, the value
 *   LOOK      header with the id of a call that waits; it is answered now, whatever is missing
 *   answer    a frame of its own: header; then with OK a GET's value, with PENDING indexes of missing keys (uint32_t),
 *             with other failures the sentence
 * What is long goes in slices (slices.h).
 * Pure: reading takes any bytes, and what passes is safe to carry out. */
#ifndef WEFT_NET_STORE_KV_WIRE_H
#define WEFT_NET_STORE_KV_WIRE_H
#include "kv.h"

#define WEFT__KV_MAGIC       0x564b4657u /* "WFKV" in little-endian */
#define WEFT__KV_VERSION     2
#define WEFT__KV_PEEK        100 /* kinds on the wire beside weft__kv_kind */
#define WEFT__KV_ANSWER      200
#define WEFT__KV_REQUEST_MAX (2u * WEFT__KV_VALUE_MAX + 16u * 1024 * 1024) /* bytes; a WAIT's keys too */

typedef struct weft__kv_request {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t id;
    int64_t amount;
    uint64_t room_bytes, value_bytes, expected_bytes;
    uint32_t n, key_bytes;
    uint8_t patient, expects, zero[6]; /* expects: `expected` is not NULL */
} weft__kv_request;

typedef struct weft__kv_answer {
    uint32_t magic;
    uint16_t version, kind;
    uint64_t id;
    int32_t status;
    uint32_t flag;
    int64_t number;
    uint64_t bytes;
    uint32_t missing, zero;
} weft__kv_answer;
_Static_assert(sizeof(weft__kv_request) == 64 && sizeof(weft__kv_answer) == 48, "fixed on the wire");

size_t weft__kv_request_bytes(const weft__kv_call *call);
void weft__kv_request_write(const weft__kv_call *call, uint64_t id, void *out);
/* LOOK too, which fills nothing but kind and id.  The call points into the bytes.  False: not a request. */
bool weft__kv_request_read(const void *bytes, size_t length, uint64_t *id, int *kind, weft__kv_call *call);

/* Whether a header, and a payload of that length, are an answer. */
bool weft__kv_answer_read(const void *bytes, size_t length, size_t payload_bytes, weft__kv_answer *answer);
#endif
