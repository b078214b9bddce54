/* buckets.h - gradients on their way.  One sum per layer would be many small ones, one sum of all could not
 * start before the backward pass has ended; so neighbouring layers travel together, a bucket of them at a
 * time. */
#ifndef TRAIN_BUCKETS_H
#define TRAIN_BUCKETS_H
#include "mlp.h"
#include "traffic.h"

struct bucket {
    struct part parameters;
    int last_layer; /* the one whose gradient is computed last */
    struct sum *sum;
};

struct buckets {
    struct bucket bucket[MLP_LAYERS];
    size_t count;
};

/* Whole layers, until a bucket has at least `bytes`. */
void buckets_plan(struct buckets *buckets, const struct mlp *net, size_t bytes);
/* This layer's gradient is there: its bucket starts if nothing else is missing in it. */
void buckets_ready(struct buckets *buckets, int layer, struct mlp *net, weft_group *dp,
                   struct traffic *traffic);
/* Waits for one bucket after the other and moves its weights, while those behind it still travel. */
void buckets_update(struct buckets *buckets, struct mlp *net, float rate, struct traffic *traffic);
#endif
