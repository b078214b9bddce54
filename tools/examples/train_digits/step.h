/* step.h - one step of training: forward, backward, update, and where the sums go in between. */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H
#include "buckets.h"
#include "digits.h"
#include "layout.h"
#include "mlp.h"
#include "traffic.h"

#define TRAIN_SEED UINT64_C(20240229)
#define TRAIN_RATE 0.04F /* of descent, in the first epoch */

struct trainer {
    struct layout layout;
    struct digits digits;
    struct digit *shuffled;     /* the digits to learn, as this epoch has them .. */
    struct digit *dealt, *test; /* .. and where the network is; those to test there too */
    size_t batch, hidden;
    float rate; /* of descent */
    struct mlp *net;
    struct buckets buckets;
    struct traffic traffic;
};

/* Trains on a batch, of which this rank takes its share.  What becomes of the share's rows is added to the
 * network's verdict, to the same on all tp ranks. */
void step_train(struct trainer *t, const struct digit *rows, size_t batch);
/* Recognises n rows, at most the network's rows_max, from which nothing is learnt. */
void step_recognise(struct trainer *t, const struct digit *rows, size_t n);
#endif
