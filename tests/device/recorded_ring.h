/* recorded_ring.h - a graph of a group with a sum, and a message from each member to the next one, in a job that anything may
 * befall. */
#ifndef TESTS_DEVICE_RECORDED_RING_H
#define TESTS_DEVICE_RECORDED_RING_H
#include "device.h"

struct wanderer;

typedef struct recorded_ring {
    void *stream, *graph, *exec;          /* exec NULL: there is none, or not any more */
    int32_t *in, *sum, *from, *behind;    /* on the device */
    int32_t *put, *got_sum, *got_message; /* pinned */
    int times;
} recorded_ring;

void recorded_ring_take(struct wanderer *w);
void recorded_ring_record(struct wanderer *w); /* in place of the one there is */
void recorded_ring_replay(struct wanderer *w);
void recorded_ring_drop(struct wanderer *w);

#endif
