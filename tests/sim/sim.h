/* sim.h - runs the schedules of all ranks of a group on one thread.
 *
 * By chance: steps start and messages arrive in an order drawn from the seed.  By the clock: in the order of
 * a virtual time, by what a network costs.  Messages are handed over only when both sides have started, are read as late
 * as can be, and what is being received is overwritten at once: a schedule that relies on more than schedule.h promises
 * goes wrong here. */
#ifndef WEFT_TESTS_SIM_SIM_H
#define WEFT_TESTS_SIM_SIM_H
#include "cases.h"

#include "schedule.h"
#include "select.h"

/* What things cost, in any unit of time.  A message takes latency + bytes * per_byte.  Within a host a rank sends, and
 * hears, one at a time.  Between hosts the interface of a host, which all its ranks share, sends one at a time, and hears
 * one at a time, at its own pace.  A rank's processor makes its copies and reductions one after the other, and carries
 * messages beside them. */
typedef struct sim_network {
    double latency, per_byte;         /* within a host */
    double far_latency, far_per_byte; /* between hosts */
    double copy_per_byte, reduce_per_byte;
} sim_network;

typedef struct sim_result {
    double time;           /* at which the last rank was done */
    size_t link_bytes;     /* over the busiest interface of a host, one way */
    size_t schedule_bytes; /* of memory: the largest rank's schedule, without its buffers */
    bool in_blocks;        /* a schedule was */
    int64_t steps;         /* of all ranks that were played */
    const char *algorithm;
} sim_result;

/* Builds and runs; fails the test when it gets stuck.  network NULL: by chance. */
sim_result sim_run(const sim_group *g, const weft__selection *selection, const sim_network *network);
#endif
