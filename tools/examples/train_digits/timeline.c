/* timeline.c - see timeline.h. */
#include "timeline.h"
#include "check.h"
#include "where.h"

#include <stdio.h>

void timeline_add(struct timeline *t, enum span_kind kind, int64_t begin_ns, int64_t end_ns,
                  const char *label)
{
    struct span *span;
    if (!t || end_ns <= begin_ns) return;
    if (t->count == SPANS_MAX) fail("a step has more than %d spans of time to draw", SPANS_MAX);
    span = &t->span[t->count++];
    *span = (struct span){.begin_ns = begin_ns, .end_ns = end_ns, .kind = kind};
    snprintf(span->label, sizeof(span->label), "%s", label);
}

static void close_at(struct timeline *t, int64_t now)
{
    if (t->open.begin_ns) timeline_add(t, (enum span_kind)t->open.kind, t->open.begin_ns, now, t->open.label);
}

void timeline_phase(struct timeline *t, enum span_kind kind, int layer)
{
    static const char *const verbs[SPAN_KINDS] = {"forward", "backward", "weights", "update"};
    int64_t now;
    if (!t) return;
    now = where->mark();
    close_at(t, now);
    t->open = (struct span){.begin_ns = now, .kind = kind};
    snprintf(t->open.label, sizeof(t->open.label), "%s %d", verbs[kind], layer + 1);
}

void timeline_exposed(struct timeline *t, int64_t begin, int64_t end, const char *label)
{
    if (!t) return;
    close_at(t, begin);
    timeline_add(t, SPAN_EXPOSED, begin, end, label);
    if (t->open.begin_ns) t->open.begin_ns = end;
}

void timeline_stop(struct timeline *t)
{
    if (!t) return;
    close_at(t, where->mark());
    t->open.begin_ns = 0;
    where->settle();
    for (int64_t i = 0; i < t->count; i++) {
        t->span[i].begin_ns = where->time_of(t->span[i].begin_ns);
        t->span[i].end_ns = where->time_of(t->span[i].end_ns);
    }
}

void timeline_cost(struct timeline *t, int64_t in_flight_ns, int64_t exposed_ns)
{
    if (!t) return;
    t->in_flight_ns = in_flight_ns;
    t->exposed_ns = exposed_ns;
}
