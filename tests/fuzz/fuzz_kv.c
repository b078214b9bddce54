/* Any bytes as what a member says to the server of a store: what passes is carried out on a table, which must
 * hold together; and as the header of an answer. */
#include "fuzz.h"
#include "kv_table.h"
#include "kv_wire.h"

#include <stdlib.h>
#include <string.h>

size_t fuzz_reached; /* calls carried out */

/* So that what lies behind the first checks is reached: most of the header is made right. */
static void mend(uint8_t *frame, size_t bytes)
{
    weft__kv_request h;
    memcpy(&h, frame, sizeof h);
    h.magic = WEFT__KV_MAGIC;
    h.version = WEFT__KV_VERSION;
    h.kind = (uint16_t)(h.kind % (WEFT__KV_KINDS + 1));
    h.n = h.kind == WEFT__KV_WAIT ? h.n % 4 : 1;
    h.value_bytes %= bytes - sizeof h + 1;
    h.expected_bytes = h.expects ? h.expected_bytes % (bytes - sizeof h - h.value_bytes + 1) : 0;
    h.key_bytes = (uint32_t)(bytes - sizeof h - h.value_bytes - h.expected_bytes);
    memcpy(frame, &h, sizeof h);
    if (h.key_bytes >= 3) {
        frame[sizeof h] = h.id % 2 ? WEFT__KV_USER_SPACE : WEFT__KV_OWN_SPACE;
        for (uint32_t i = 1; i + 1 < h.key_bytes && h.n == 1; i++) frame[sizeof h + i] |= 1;
        frame[sizeof h + h.key_bytes - 1] = 0;
    }
}

static void carry_out(const uint8_t *frame, size_t bytes)
{
    static weft__kv_table *table;
    weft__kv_call call = {.kind = WEFT__KV_KINDS};
    weft__kv_change change;
    weft__kv_result result;
    weft__kv_value *found;
    weft_status status;
    uint64_t id;
    int kind;
    if (!weft__kv_request_read(frame, bytes, &id, &kind, &call) || kind == WEFT__KV_PEEK) return;
    if (call.kind < WEFT__KV_SET || call.kind >= WEFT__KV_KINDS) abort();
    if (weft__kv_request_bytes(&call) != bytes) abort();
    if (!table && !(table = weft__kv_table_new(1u << 20))) abort();
    status = weft__kv_decide(table, &call, &change, &result, &found);
    if (status < 0 && !*weft_last_error()) abort();
    if (status == WEFT_PENDING && (result.missing == 0 || result.missing > call.n)) abort();
    fuzz_reached += status == WEFT_OK;
    if (status == WEFT_OK && weft__kv_apply(table, &change) != WEFT_OK) abort();
    if (weft__kv_woken(table) || weft__kv_used(table) > 1u << 20) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft__kv_answer answer;
    uint8_t *frame;
    carry_out(data, bytes);
    weft__kv_answer_read(data, bytes < sizeof answer ? bytes : sizeof answer, bytes, &answer);
    if (bytes < sizeof(weft__kv_request)) return 0;
    frame = malloc(bytes);
    if (!frame) abort();
    memcpy(frame, data, bytes);
    mend(frame, bytes);
    carry_out(frame, bytes);
    free(frame);
    return 0;
}
