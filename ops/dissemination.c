/* dissemination.c - the barrier, the agreement that rooted kinds carry, and a group's first broadcast of few
 * bytes.
 *
 * In round k each rank tells rank + 2^k all that it knows and hears from rank - 2^k; after ceil(log2 size)
 * rounds it has heard of everyone.  Counted from any rank, the first 2^k know of it after k rounds: what it
 * says to all is there as well, along a binomial tree.
 *
 * Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization" (1988). */
#include "algorithms.h"

/* Sends count elements of the root, that is number 0, to all. */
static void disseminate(weft__schedule *s, uint32_t tag, int number, weft__place data, size_t count)
{
    int heard[WEFT__ROUNDS_MOST], n = 0;
    for (int64_t distance = 1; distance < s->size; distance *= 2, n++) {
        int to = weft__modulo(s->seat + (int)distance, s->size),
            from = weft__modulo(s->seat - (int)distance, s->size);
        bool passes = number < distance && number + distance < s->size;
        bool gets = number >= distance && number < 2 * distance;
        int told =
            weft__add_send(s, to, tag + (uint32_t)n, data, passes ? count : 0, WEFT__NO_STEP, WEFT__NO_STEP);
        weft__add_orders(s, heard, n, told); /* what is told stands for all of them so far */
        heard[n] =
            weft__add_recv(s, from, tag + (uint32_t)n, data, gets ? count : 0, WEFT__NO_STEP, WEFT__NO_STEP);
    }
}

static bool has_step(const weft__schedule *s, weft__step_kind kind)
{
    for (int i = 0; i < s->n; i++)
        if (s->steps[i].kind == kind) return true;
    return false;
}

/* Where there are two ranks, who receives data has heard of the other by that and only has to tell. */
static void agree_of_two(weft__schedule *s)
{
    bool sends = has_step(s, WEFT__STEP_SEND), receives = has_step(s, WEFT__STEP_RECV);
    weft__place nothing = weft__at(s, WEFT__TMP, 0);
    if (!sends)
        weft__add_send(s, 1 - s->seat, WEFT__AGREEMENT_TAGS, nothing, 0, WEFT__NO_STEP, WEFT__NO_STEP);
    if (!receives)
        weft__add_recv(s, 1 - s->seat, WEFT__AGREEMENT_TAGS, nothing, 0, WEFT__NO_STEP, WEFT__NO_STEP);
}

void weft__add_agreement(weft__schedule *s)
{
    if (s->size == 2)
        agree_of_two(s);
    else
        disseminate(s, WEFT__AGREEMENT_TAGS, 0, weft__at(s, WEFT__TMP, 0), 0);
}

void weft__build_dissemination_barrier(weft__schedule *s, const weft__op *op)
{
    (void)op;
    disseminate(s, 0, 0, weft__at(s, WEFT__TMP, 0), 0);
}

void weft__build_first_broadcast(weft__schedule *s, const weft__op *op)
{
    int number = weft__modulo(s->seat - s->root, s->size);
    disseminate(s, 0, number, weft__at(s, number ? WEFT__OUT : WEFT__IN, 0), op->count);
}
