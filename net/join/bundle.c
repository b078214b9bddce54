/* bundle.c - see bundle.h. */
#include "bundle.h"
#include "index.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 8 };

/* Before words are left out. */
typedef struct layout {
    size_t numbers, rests; /* where those begin; the distinct beginnings are first */
    size_t words;          /* of all, the last filled up with zeros */
} layout;

static layout layout_of(const weft__bundle_head *head)
{
    layout at;
    at.numbers = (size_t)head->distinct * head->alike;
    at.rests = at.numbers + (head->alike ? head->blocks * sizeof(uint32_t) : 0);
    at.words = (at.rests + (size_t)head->blocks * (head->block_bytes - head->alike) + WORD - 1) / WORD;
    return at;
}

/* ---- making ---- */

/* The distinct beginnings, in the order of their first blocks, and each block's.  False: no memory. */
static bool tell_apart(const void *const *blocks, weft__bundle_head *head, char *beginnings,
                       uint32_t *numbers)
{
    weft__index index = {.key_bytes = head->alike, .stride = head->alike};
    bool done = true;
    for (uint32_t i = 0; done && head->alike && i < head->blocks; i++) {
        int number = weft__index_find(&index, beginnings, blocks[i]);
        if (number < 0) {
            number = (int)head->distinct++;
            memcpy(beginnings + (size_t)number * head->alike, blocks[i], head->alike);
            done = weft__index_append(&index, beginnings, number + 1);
        }
        numbers[i] = (uint32_t)number;
    }
    weft__index_free(&index);
    return done;
}

/* Returns how many bytes the bundle has. */
static size_t leave_out_zeros(const char *plain, size_t words, char *bundle)
{
    static const char zeros[WORD];
    unsigned char *bits = (unsigned char *)bundle + sizeof(weft__bundle_head);
    char *to = (char *)bits + (words + 7) / 8;
    memset(bits, 0, (words + 7) / 8);
    for (size_t w = 0; w < words; w++) {
        if (!memcmp(plain + w * WORD, zeros, WORD)) continue;
        bits[w / 8] |= (unsigned char)(1u << w % 8);
        memcpy(to, plain + w * WORD, WORD);
        to += WORD;
    }
    return (size_t)(to - bundle);
}

void *weft__bundle_make(const void *const *blocks, uint32_t n, size_t block_bytes, size_t alike,
                        size_t *bytes)
{
    weft__bundle_head head = {n, (uint32_t)block_bytes, (uint32_t)alike, 0};
    char *beginnings = malloc(n * alike + 1), *plain = NULL, *bundle = NULL;
    uint32_t *numbers = malloc(n * sizeof *numbers + 1);
    layout at;
    if (!beginnings || !numbers || !tell_apart(blocks, &head, beginnings, numbers)) goto out;
    at = layout_of(&head);
    plain = calloc(at.words + 1, WORD);
    bundle = malloc(sizeof head + (at.words + 7) / 8 + at.words * WORD);
    if (!plain || !bundle) {
        free(bundle);
        bundle = NULL;
        goto out;
    }
    memcpy(plain, beginnings, at.numbers);
    if (alike) memcpy(plain + at.numbers, numbers, n * sizeof *numbers);
    for (uint32_t i = 0; i < n && block_bytes > alike; i++)
        memcpy(plain + at.rests + i * (block_bytes - alike), (const char *)blocks[i] + alike,
               block_bytes - alike);
    memcpy(bundle, &head, sizeof head);
    *bytes = leave_out_zeros(plain, at.words, bundle);
out:
    free(beginnings);
    free(numbers);
    free(plain);
    return bundle;
}

/* ---- reading ---- */

bool weft__bundle_head_read(const void *bundle, size_t bytes, size_t most, weft__bundle_head *head)
{
    if (bytes < sizeof *head) return false;
    memcpy(head, bundle, sizeof *head);
    return head->alike <= head->block_bytes && head->distinct <= head->blocks && head->blocks <= INT32_MAX &&
           (!head->block_bytes || head->blocks <= most / head->block_bytes) &&
           (layout_of(head).words + 7) / 8 <= bytes - sizeof *head;
}

/* plain is zeroed. */
static bool put_back_zeros(const char *bundle, size_t bytes, size_t words, char *plain)
{
    const unsigned char *bits = (const unsigned char *)bundle + sizeof(weft__bundle_head);
    size_t at = sizeof(weft__bundle_head) + (words + 7) / 8;
    if (at > bytes) return false;
    for (size_t w = 0; w < words; w++) {
        if (!(bits[w / 8] >> w % 8 & 1)) continue;
        if (bytes - at < WORD) return false;
        memcpy(plain + w * WORD, bundle + at, WORD);
        at += WORD;
    }
    return at == bytes;
}

size_t weft__bundle_room(size_t n, size_t block_bytes)
{
    return n * (block_bytes + sizeof(uint32_t)) + WORD;
}

bool weft__bundle_read(const void *bundle, size_t bytes, const weft__bundle_head *head, void *room,
                       void *blocks)
{
    const layout at = layout_of(head);
    const size_t rest = head->block_bytes - head->alike;
    char *plain = memset(room, 0, at.words * WORD), *to = blocks;
    bool good = put_back_zeros(bundle, bytes, at.words, plain);
    for (uint32_t i = 0; good && i < head->blocks && head->block_bytes; i++, to += head->block_bytes) {
        uint32_t number = 0;
        if (head->alike) memcpy(&number, plain + at.numbers + i * sizeof number, sizeof number);
        good = !head->alike || number < head->distinct;
        if (good && head->alike) memcpy(to, plain + (size_t)number * head->alike, head->alike);
        if (good && rest) memcpy(to + head->alike, plain + at.rests + i * rest, rest);
    }
    return good;
}
