/* timeline.h - what this rank did when, and a picture of it for all ranks of a host.  All functions that
 * record take NULL and then do nothing. */
#ifndef TRAIN_TIMELINE_H
#define TRAIN_TIMELINE_H
#include <stddef.h>
#include <stdint.h>

enum { SPAN_LABEL = 32, SPANS_MAX = 256 };

enum span_kind {
    SPAN_FORWARD, /* lane "compute": up to here .. */
    SPAN_BACK,
    SPAN_WEIGHTS,
    SPAN_UPDATE,
    SPAN_SUM_TP, /* lane "in flight" */
    SPAN_SUM_DP,
    SPAN_EXPOSED, /* lane "exposed" */
    SPAN_KINDS
};

struct span {
    int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC: the ranks of a host share it; marks until timeline_stop */
    int64_t kind;
    char label[SPAN_LABEL];
};

struct timeline {
    int64_t count;
    int64_t in_flight_ns, exposed_ns; /* of the step, as traffic.h has it */
    struct span span[SPANS_MAX];
    struct span open; /* what is being computed; begin_ns 0: nothing */
};

/* From now on that is computed, until something else is said or Weft is called.  This, and timeline_exposed,
 * speak in marks of where.h, until timeline_stop has turned them into times. */
void timeline_phase(struct timeline *t, enum span_kind kind, int layer);
/* Between two marks the computation stood still for Weft; it goes on with what was being computed. */
void timeline_exposed(struct timeline *t, int64_t begin, int64_t end, const char *label);
void timeline_stop(struct timeline *t); /* waits until all of it has happened */
/* After that: another span, from one time to another. */
void timeline_add(struct timeline *t, enum span_kind kind, int64_t begin_ns, int64_t end_ns,
                  const char *label);
void timeline_cost(struct timeline *t, int64_t in_flight_ns, int64_t exposed_ns);
#endif
