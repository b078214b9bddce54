/* sim.h - runs the schedules of all ranks of a group on one thread.
 *
 * By chance: steps start and messages arrive in an order drawn from the seed.  By the clock: in the order of
 * a virtual time in which a message takes latency + bytes * per_byte and a rank sends, and hears, one at a
 * time. Messages are handed over only when both sides have started, are read as late as can be, and what is
 * being received is overwritten at once: a schedule that relies on more than schedule.h promises goes wrong
 * here. */
#ifndef WEFT_TESTS_SIM_SIM_H
#define WEFT_TESTS_SIM_SIM_H
#include "cases.h"

#include "schedule.h"
#include "select.h"

typedef struct sim_clock {
    double latency, per_byte;
} sim_clock;

/* Builds and runs; fails the test when it gets stuck.  clock NULL: by chance.  Returns the virtual time at
 * which the last rank was done. */
double sim_run(const sim_group *g, const weft__selection *selection, const sim_clock *clock);
#endif
