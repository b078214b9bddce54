/* Any bytes as the file at which ranks meet: one that holds something else is left as it is, and an entry
 * that is read is one that can be. */
#include "clock.h"
#include "fuzz.h"
#include "fuzz_file.h"
#include "server_registry.h"

#include <string.h>

enum { RECORD = 1024, FILE_MOST = 8 * RECORD };

size_t fuzz_reached; /* files that were taken */

static bool ends(const char *text, size_t room)
{
    return memchr(text, 0, room) != NULL;
}

/* As this rank finds and leaves it.  False: it is none. */
static bool look(const char *job)
{
    weft__registry *file;
    weft__registry_entry entry;
    enum weft__registry_state state;
    weft_status status;
    if (weft__registry_new(fuzz_file_path, job, &file)) abort();
    status = weft__registry_look(file, weft__now_ns() + 1000 * WEFT__MS, &entry, &state);
    if (status == WEFT_OK) {
        if (!ends(entry.job, sizeof entry.job) || !ends(entry.host_id, sizeof entry.host_id) ||
            !ends(entry.address, sizeof entry.address) || entry.port < 0 || entry.port > 65535)
            abort();
        if (strcmp(entry.job, job) != 0 || (state == WEFT__REGISTRY_SERVED && !entry.port)) abort();
        if (state == WEFT__REGISTRY_MINE &&
            weft__registry_announce(file, weft__now_ns() + 1000 * WEFT__MS, "127.0.0.1", 4711))
            abort();
    } else if (!*weft_last_error()) {
        abort();
    }
    weft__registry_free(file);
    return status == WEFT_OK;
}

/* Bits of byte 0: 1, behind the first line that such a file has; 2, whole records; then the text of records,
 * each up to a newline. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char first[] = "weft-rendezvous 1";
    char text[FILE_MOST];
    size_t n = 0;
    if (!bytes) return 0;
    memset(text, ' ', sizeof text);
    if (data[0] & 1) {
        memcpy(text, first, sizeof first - 1);
        text[RECORD - 1] = '\n';
        n = RECORD;
    }
    for (size_t i = 1; i < bytes && n < sizeof text; i++) {
        const bool last = data[0] & 2 && (data[i] == '\n' || n % RECORD == RECORD - 1);
        if (last) n += RECORD - 1 - n % RECORD;
        text[n++] = last ? '\n' : (char)data[i];
    }
    if (data[0] & 2 && n % RECORD) {
        n += RECORD - n % RECORD;
        text[n - 1] = '\n';
    }
    fuzz_file_write(text, n);
    fuzz_reached += look("job");
    return 0;
}
