/* Any bytes as the records of a job's ranks: what the reader takes is judged, and what is found holds together. */
#include "fuzz.h"
#include "fuzz_images.h"
#include "sentence.h"

#include <stdlib.h>

size_t fuzz_reached; /* jobs that were judged, and somebody waited */

static bool is_told(const weft__blame *b, size_t first, size_t count)
{
    return first <= b->told.count && count <= b->told.count - first;
}

static void check(const weft__blame *b)
{
    char text[WEFT__FINDING_BYTES];
    for (size_t i = 0; i < b->verdict_count; i++) {
        const weft__finding *v = &b->verdicts[i];
        if (!is_told(b, v->first, v->count + v->more)) abort();
        weft__finding_text(b, v, text, sizeof text);
        if (!*text) abort();
        for (size_t r = 0; v->deadlock && r < v->count; r++) { /* each waits for the next */
            int next = b->told.ranks[v->first + (r + 1) % v->count];
            const weft__node *node = weft__blame_node(b, b->told.ranks[v->first + r]);
            bool waits = false;
            for (size_t w = 0; node && w < node->count; w++) waits |= b->waits.ranks[node->first + w] == next;
            if (!waits) abort();
        }
    }
    for (size_t i = 0; i < b->count; i++) {
        const weft__node *node = &b->nodes[i];
        if (node->first > b->waits.count || node->count > b->waits.count - node->first) abort();
        if (node->is.op) weft__recorded_op_text(node->shot, node->is.op, text, sizeof text);
        weft__ending_text(b, node, text, sizeof text);
        if (node->is.conduct == WEFT__CONDUCT_WAITING && node->count) fuzz_reached++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft__snapshot shots[RANKS];
    weft__witness witnesses[RANKS];
    weft__blame blame;
    size_t n;
    if (!bytes) return 0;
    n = fuzz_images_read(data, bytes, shots, witnesses);
    if (weft__blame_make(witnesses, n, NOW, 0, &blame) != WEFT_OK) abort();
    check(&blame);
    weft__blame_free(&blame);
    while (n) weft__snapshot_close(&shots[--n]);
    return 0;
}
