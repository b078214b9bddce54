/* measure.h - what the sums cost and what overlapping saves: the first epoch again and again, at each pace in
 * turn, every time from the first weights, so that all of them do the same work. */
#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H
#include "epoch.h"

struct measured {
    size_t epochs; /* at each pace */
    struct {
        int64_t median_ns, least_ns, most_ns; /* of an epoch, from when all ranks begin until all are done */
    } pace[PACES];
    struct traffic_account account; /* this rank's, of all overlapped epochs */
    int64_t preempted;              /* times the kernel took this rank's core away meanwhile */
};

/* The network is another one afterwards.  Fails if overlapping changes the loss by a single bit: that would
 * be numbers used before they were there. */
struct measured measure(struct trainer *t, size_t epochs);
#endif
