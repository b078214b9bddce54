/* Any bytes as the file of a store: what it adds up to is a table that holds together, what is damaged is
 * left as it is, and what was taken is the same when it is read again. */
#include "clock.h"
#include "fuzz.h"
#include "fuzz_file.h"
#include "kv_log.h"

#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MOST = 8192, HASH_BYTES = 16, RECORD_BYTES = 40, HASHED_BYTES = 24 };

size_t fuzz_reached; /* values that were read */

/* The header as it should be, and the hash of every record that ends within the file; so that what lies
 * behind is looked at. */
static void mend(uint8_t *file, size_t bytes)
{
    weft__kv_log_header h;
    memcpy(&h, file, sizeof h);
    memcpy(h.magic, "WEFTKV\r\n", sizeof h.magic);
    h.version = 1;
    h.order = 0x01020304u;
    memset(h.proof, 0, sizeof h.proof);
    memcpy(file, &h, sizeof h);
    for (size_t at = sizeof h; bytes - at >= RECORD_BYTES;) {
        crypto_generichash_state state;
        const uint32_t magic = 0x4b524657u;
        uint32_t key_bytes;
        uint64_t value_bytes;
        memcpy(file + at, &magic, sizeof magic);
        memcpy(&key_bytes, file + at + 8, sizeof key_bytes);
        memcpy(&value_bytes, file + at + 16, sizeof value_bytes);
        if (key_bytes > bytes - at - RECORD_BYTES || value_bytes > bytes - at - RECORD_BYTES - key_bytes)
            return;
        crypto_generichash_init(&state, h.nonce, sizeof h.nonce, HASH_BYTES);
        crypto_generichash_update(&state, file + at, HASHED_BYTES);
        crypto_generichash_update(&state, file + at + RECORD_BYTES, key_bytes + value_bytes);
        crypto_generichash_final(&state, file + at + HASHED_BYTES, HASH_BYTES);
        at += RECORD_BYTES + key_bytes + value_bytes;
    }
}

typedef struct sum {
    size_t values, bytes;
} sum;

static weft_status add(void *arg, const char *key, const weft__kv_value *value)
{
    sum *s = arg;
    if (!*key || strlen(key) > WEFT__KV_KEY_MAX + 1) abort();
    s->values++;
    for (size_t i = 0; i < value->bytes; i++) s->bytes += ((const unsigned char *)value->data)[i] + 1u;
    return WEFT_OK;
}

/* False: it was refused, with a sentence. */
static bool read_it(sum *s)
{
    weft__kv_log log;
    weft_status status = weft__kv_log_open(&log, fuzz_file_path, NULL, weft__now_ns() + 1000 * WEFT__MS);
    *s = (sum){0, 0};
    if (status != WEFT_OK) {
        if (!*weft_last_error()) abort();
        return false;
    }
    weft__kv_each(log.table, add, s);
    if (weft__kv_used(log.table) > WEFT__KV_TOTAL_MAX) abort();
    weft__kv_log_close(&log);
    return true;
}

/* Byte 0, bit 0: header and hashes are made right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t file[FILE_MOST];
    struct stat before, after;
    sum first, second;
    if (bytes < 2 || bytes > sizeof file) return 0;
    memcpy(file, data + 1, bytes - 1);
    if (data[0] & 1 && bytes - 1 >= sizeof(weft__kv_log_header)) mend(file, bytes - 1);
    fuzz_file_write(file, bytes - 1);
    if (stat(fuzz_file_path, &before)) abort();
    if (!read_it(&first)) {
        if (stat(fuzz_file_path, &after) || after.st_size != before.st_size) abort();
        return 0;
    }
    if (!read_it(&second) || first.values != second.values || first.bytes != second.bytes) abort();
    fuzz_reached += first.values;
    return 0;
}
