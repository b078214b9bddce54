/* index.c - see index.h.  Keys are random, or as good as that: linear probing does. */
#include "index.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 16

/* FNV-1a. */
static size_t place_of(const weft__index *index, const void *key)
{
    const unsigned char *bytes = key;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < index->key_bytes; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 32) & (index->room - 1);
}

static const void *key_at(const weft__index *index, const void *entries, uint32_t place)
{
    return (const char *)entries + (size_t)(place - 1) * index->stride;
}

static void put(weft__index *index, const void *entries, uint32_t place)
{
    size_t at = place_of(index, key_at(index, entries, place));
    while (index->places[at]) at = (at + 1) & (index->room - 1);
    index->places[at] = place;
}

int weft__index_find(const weft__index *index, const void *entries, const void *key)
{
    if (!index->room) return -1;
    for (size_t at = place_of(index, key); index->places[at]; at = (at + 1) & (index->room - 1))
        if (!memcmp(key_at(index, entries, index->places[at]), key, index->key_bytes))
            return (int)index->places[at] - 1;
    return -1;
}

bool weft__index_build(weft__index *index, const void *entries, int n)
{
    size_t room = index->room ? index->room : ROOM_LEAST;
    while (room < 2 * (size_t)n) room *= 2;
    if (room > index->room) {
        uint32_t *places = malloc(room * sizeof *places);
        if (!places) return false;
        free(index->places);
        index->places = places;
        index->room = room;
    }
    memset(index->places, 0, index->room * sizeof *index->places);
    for (int i = 1; i <= n; i++) put(index, entries, (uint32_t)i);
    return true;
}

bool weft__index_append(weft__index *index, const void *entries, int n)
{
    if (index->room < 2 * (size_t)n) return weft__index_build(index, entries, n);
    put(index, entries, (uint32_t)n);
    return true;
}

void weft__index_free(weft__index *index)
{
    free(index->places);
    index->places = NULL;
    index->room = 0;
}
