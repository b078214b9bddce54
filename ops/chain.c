/* chain.c - broadcast of many bytes: segments go from the root along the seats, each rank passing on one
 * segment while the next comes in.  Every rank sends and receives each byte at most once.
 *
 * Source: the "pipeline" of J. Pjesivac-Grbovic et al., "Performance Analysis of MPI Collective Operations"
 * (2007). */
#include "algorithms.h"

#define MESSAGE_COSTS 16384 /* what one more message takes, in bytes that could move meanwhile */
#define SEGMENTS_MOST 256

/* K segments are through after size - 2 + k of them, each with the cost of a message: the fastest k. */
static int segments_of(size_t bytes, int size)
{
    size_t worth = bytes / MESSAGE_COSTS * (size_t)(size - 2);
    int k = 1;
    while (k < SEGMENTS_MOST && (size_t)(k + 1) * (size_t)(k + 1) <= worth) k++;
    return k;
}

void weft__build_chain_broadcast(weft__schedule *s, const weft__op *op)
{
    int number = weft__modulo(s->seat - s->root, s->size);
    int next = weft__modulo(s->seat + 1, s->size), before = weft__modulo(s->seat - 1, s->size);
    int segments = segments_of(op->count * s->element, s->size);
    for (int i = 0; i < segments; i++) {
        weft__span segment = weft__share(op->count, segments, i);
        weft__place place = weft__at(s, number ? WEFT__OUT : WEFT__IN, segment.start);
        int got = WEFT__NO_STEP;
        if (number)
            got = weft__add_recv(s, before, (uint32_t)i, place, segment.length, WEFT__NO_STEP, WEFT__NO_STEP);
        if (number < s->size - 1)
            weft__add_send(s, next, (uint32_t)i, place, segment.length, got, WEFT__NO_STEP);
    }
    weft__add_agreement(s);
}
