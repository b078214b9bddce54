/* words.c - see words.h. */
#include "words.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool weft__words_add(weft__words *words, const void *frame, size_t bytes)
{
    const uint32_t length = (uint32_t)bytes;
    const size_t all = words->bytes + sizeof length + bytes;
    if (all > words->room) {
        char *more = realloc(words->list, 2 * all);
        if (!more) return false;
        words->list = more;
        words->room = 2 * all;
    }
    memcpy(words->list + words->bytes, &length, sizeof length);
    memcpy(words->list + words->bytes + sizeof length, frame, bytes);
    words->bytes = all;
    words->count++;
    return true;
}

void weft__words_drop(weft__words *words)
{
    free(words->list);
    *words = (weft__words){.list = NULL};
}

const void *weft__words_next(const char **list, size_t *left, size_t *bytes)
{
    const char *frame;
    uint32_t length;
    if (*left < sizeof length) return NULL;
    memcpy(&length, *list, sizeof length);
    if (*left - sizeof length < length) return NULL;
    frame = *list + sizeof length;
    *list = frame + length;
    *left -= sizeof length + length;
    *bytes = length;
    return frame;
}
