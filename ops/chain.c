/* chain.c - broadcast of many bytes: segments go from the root along the ranks, each rank passing on one
 * segment while the next comes in.  Every rank sends and receives each byte at most once.
 *
 * Source: the "pipeline" of J. Pjesivac-Grbovic et al., "Performance Analysis of MPI Collective Operations"
 * (2007). */
#include "algorithms.h"

#define SEGMENT_BYTES 32768
#define SEGMENTS_MOST 256

void weft__build_chain_broadcast(weft__schedule *s, const weft__op *op)
{
    int number = weft__modulo(s->rank - op->root, s->size);
    int next = weft__modulo(s->rank + 1, s->size), before = weft__modulo(s->rank - 1, s->size);
    size_t wanted = op->count * s->element / SEGMENT_BYTES;
    int segments = wanted > SEGMENTS_MOST ? SEGMENTS_MOST : wanted ? (int)wanted : 1;
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
