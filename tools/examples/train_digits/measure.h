/* measure.h - what the sums cost and what overlapping saves.  Three networks with the same first weights take
 * the first epoch's steps again and again, each at a pace of its own and in turns, so that all do the same
 * work and whatever else the machine does hits them alike. */
#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H
#include "epoch.h"

/* An epoch, added up from its steps, each of which lasts from when all ranks begin until all are done. */
struct measured_pace {
    int64_t median_ns, least_ns; /* of the times that a step took in all epochs */
};

struct measured {
    size_t epochs;
    struct measured_pace pace[PACES];
    struct traffic_account account; /* this rank's, of all overlapped epochs */
    int64_t preempted;              /* times the kernel took this rank's core away meanwhile */
};

/* Fails if overlapping changes the loss by a single bit: that would be numbers used
 * before they were there. */
struct measured measure(struct trainer *t, size_t epochs);
#endif
