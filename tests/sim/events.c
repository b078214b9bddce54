/* events.c - a binary heap (Williams, Algorithm 232, 1964). */
#include "events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

static bool comes_before(const sim_event *a, const sim_event *b)
{
    if (a->when != b->when) return a->when < b->when;
    if (a->since != b->since) return a->since < b->since;
    return a->number < b->number;
}

void sim_events_add(sim_events *e, sim_event event)
{
    size_t at = e->n++;
    if (e->n > e->room) {
        e->room = e->room ? 2 * e->room : 16;
        e->heap = realloc(e->heap, e->room * sizeof *e->heap);
        assert_non_null(e->heap);
    }
    if (!event.number) event.number = ++e->numbers;
    for (; at > 0 && comes_before(&event, &e->heap[(at - 1) / 2]); at = (at - 1) / 2)
        e->heap[at] = e->heap[(at - 1) / 2];
    e->heap[at] = event;
}

sim_event sim_events_next(sim_events *e)
{
    sim_event first = e->heap[0], last = e->heap[--e->n];
    size_t at = 0;
    for (;;) {
        size_t below = 2 * at + 1;
        if (below + 1 < e->n && comes_before(&e->heap[below + 1], &e->heap[below])) below++;
        if (below >= e->n || !comes_before(&e->heap[below], &last)) break;
        e->heap[at] = e->heap[below];
        at = below;
    }
    if (e->n) e->heap[at] = last;
    return first;
}

void sim_events_free(sim_events *e)
{
    free(e->heap);
}
