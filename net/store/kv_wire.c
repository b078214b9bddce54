/* kv_wire.c - see kv_wire.h. */
#include "kv_wire.h"

#include <string.h>

size_t weft__kv_request_bytes(const weft__kv_call *call)
{
    return sizeof(weft__kv_request) + call->key_bytes + call->expected_bytes + call->value_bytes;
}

static char *kv_wire_append(char *at, const void *bytes, size_t length)
{
    if (bytes) memcpy(at, bytes, length);
    return at + length;
}

void weft__kv_request_write(const weft__kv_call *call, uint64_t id, void *out)
{
    weft__kv_request header = {.magic = WEFT__KV_MAGIC,
                               .version = WEFT__KV_VERSION,
                               .kind = (uint16_t)call->kind,
                               .id = id,
                               .amount = call->amount,
                               .room_bytes = call->room_bytes,
                               .value_bytes = call->value_bytes,
                               .expected_bytes = call->expected_bytes,
                               .n = call->n,
                               .key_bytes = (uint32_t)call->key_bytes,
                               .patient = call->patient,
                               .expects = call->expected != NULL};
    char *at = kv_wire_append(out, &header, sizeof header);
    at = kv_wire_append(at, call->keys, call->key_bytes);
    at = kv_wire_append(at, call->expected, call->expected_bytes);
    kv_wire_append(at, call->value, call->value_bytes);
}

/* n keys of a right length that fill their bytes exactly. */
static bool keys_fit(const char *keys, size_t bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t most = bytes < WEFT__KV_KEY_MAX + 2 ? bytes : WEFT__KV_KEY_MAX + 2,
               length = strnlen(keys, most);
        if (length == most || length < 2) return false;
        if (keys[0] != WEFT__KV_USER_SPACE && keys[0] != WEFT__KV_OWN_SPACE) return false;
        keys += length + 1;
        bytes -= length + 1;
    }
    return bytes == 0;
}

bool weft__kv_request_read(const void *bytes, size_t length, uint64_t *id, int *kind, weft__kv_call *call)
{
    const char *payload = (const char *)bytes + sizeof(weft__kv_request);
    weft__kv_request h;
    if (length < sizeof h) return false;
    memcpy(&h, bytes, sizeof h);
    length -= sizeof h;
    if (h.magic != WEFT__KV_MAGIC || h.version != WEFT__KV_VERSION) return false;
    *id = h.id;
    *kind = h.kind;
    if (h.kind == WEFT__KV_PEEK) return length == 0;
    if (h.kind < WEFT__KV_SET || h.kind >= WEFT__KV_KINDS || (h.kind != WEFT__KV_WAIT && h.n != 1))
        return false;
    if (h.value_bytes > WEFT__KV_VALUE_MAX || h.expected_bytes > WEFT__KV_VALUE_MAX ||
        length != h.key_bytes + h.expected_bytes + h.value_bytes || !keys_fit(payload, h.key_bytes, h.n))
        return false;
    if (!h.expects && h.expected_bytes) return false;
    *call = (weft__kv_call){.kind = (weft__kv_kind)h.kind,
                            .patient = h.patient && (h.kind == WEFT__KV_GET || h.kind == WEFT__KV_WAIT),
                            .n = h.n,
                            .keys = payload,
                            .key_bytes = h.key_bytes,
                            .expected = h.expects ? payload + h.key_bytes : NULL,
                            .expected_bytes = h.expected_bytes,
                            .value = payload + h.key_bytes + h.expected_bytes,
                            .value_bytes = h.value_bytes,
                            .amount = h.amount,
                            .room_bytes = h.room_bytes};
    return true;
}

bool weft__kv_answer_read(const void *bytes, size_t length, size_t payload_bytes, weft__kv_answer *answer)
{
    size_t named;
    if (length != sizeof *answer) return false;
    memcpy(answer, bytes, sizeof *answer);
    if (answer->magic != WEFT__KV_MAGIC || answer->version != WEFT__KV_VERSION ||
        answer->kind != WEFT__KV_ANSWER)
        return false;
    named = answer->missing < WEFT__KV_MISSING_MAX ? answer->missing : WEFT__KV_MISSING_MAX;
    if (answer->status == WEFT_PENDING) return payload_bytes == named * sizeof(uint32_t);
    if (answer->status == WEFT_ERR_TRUNCATED) return payload_bytes == 0;
    if (answer->status == WEFT_OK) return payload_bytes == answer->bytes;
    return answer->status < 0 && answer->status >= WEFT_ERR_STATE;
}
