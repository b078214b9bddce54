/* dissemination.c - the barrier, and the agreement that rooted kinds carry.  Empty messages only.
 *
 * In round k each rank tells rank + 2^k all that it knows and hears from rank - 2^k; after ceil(log2 size)
 * rounds it has heard of everyone.
 *
 * Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization" (1988). */
#include "algorithms.h"

static void disseminate(weft__schedule *s, uint32_t tag)
{
    int heard = WEFT__NO_STEP;
    for (int distance = 1; distance < s->size; distance = distance > s->size / 2 ? s->size : 2 * distance) {
        int to = weft__modulo(s->rank + distance, s->size), from = weft__modulo(s->rank - distance, s->size);
        weft__place nothing = weft__at(s, WEFT__TMP, 0);
        /* The first sends nothing that it has not; each later one waits for what all rounds before brought. */
        weft__add_send(s, to, tag, nothing, 0, heard, WEFT__NO_STEP);
        heard = weft__add_recv(s, from, tag, nothing, 0, heard, WEFT__NO_STEP);
        tag++;
    }
}

void weft__add_agreement(weft__schedule *s)
{
    disseminate(s, WEFT__AGREEMENT_TAGS);
}

void weft__build_dissemination_barrier(weft__schedule *s, const weft__op *op)
{
    (void)op;
    disseminate(s, 0);
}
