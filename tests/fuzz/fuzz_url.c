/* Any text as an init method: what passes is a place that ranks can be sent to. */
#include "fuzz.h"
#include "url.h"

#include <stdlib.h>
#include <string.h>

size_t fuzz_reached; /* init methods that pass */

/* Byte 0: whether rank and world size were given beside it, and a way to begin. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const begins[] = {"", "tcp://", "file:///", "tcp://h:1?"};
    const int bits = bytes ? data[0] : 0, rank = bits & 4 ? bits >> 3 : -1, world = bits & 4 ? 20 : -1;
    const char *begin = begins[bits & 3];
    const size_t before = strlen(begin), rest = bytes ? bytes - 1 : 0;
    char *text = malloc(before + rest + 1);
    weft__url url;
    if (!text) abort();
    memcpy(text, begin, before);
    if (rest) memcpy(text + before, data + 1, rest);
    text[before + rest] = 0;
    /* What env:// says is in the environment: test_launcher. */
    if (strcmp(text, "env://") != 0) {
        if (weft__url_read(text, rank, world, &url) != WEFT_OK) {
            if (!*weft_last_error()) abort();
        } else {
            const bool named = memchr(url.path, 0, sizeof url.path) && memchr(url.host, 0, sizeof url.host);
            if (!named || (*url.path != '/') == !*url.host || url.port < 0 || url.port > 65535) abort();
            if (!*url.path && !url.port) abort();
            if (url.rank < -1 || url.world_size < -1 || url.world_size > WEFT__WORLD_MAX) abort();
            if (url.world_size > 0 && url.rank >= url.world_size) abort();
            fuzz_reached++;
        }
    }
    free(text);
    return 0;
}
