/* events.h - what happens next on the virtual clock: a heap. */
#ifndef WEFT_TESTS_SIM_EVENTS_H
#define WEFT_TESTS_SIM_EVENTS_H
#include <stddef.h>
#include <stdint.h>

typedef struct sim_step_ref {
    int rank, step;
} sim_step_ref;

/* A step that may start; a message whose both sides have started; or what carries messages is free. */
typedef struct sim_event {
    double when;
    double since;        /* of those at one time what has waited longest comes first */
    uint64_t number;     /* and then what came first */
    sim_step_ref a, b;   /* the step, b.rank -1; or the sending and the receiving one */
    struct sim_way *way; /* of a message: for which it has waited, or NULL; no step: which is free */
} sim_event;

typedef struct sim_events {
    sim_event *heap;
    size_t n, room;
    uint64_t numbers;
} sim_events;

void sim_events_add(sim_events *e, sim_event event); /* numbers it, unless it has come before */
sim_event sim_events_next(sim_events *e);            /* n > 0 */
void sim_events_free(sim_events *e);
#endif
