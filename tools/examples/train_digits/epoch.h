/* epoch.h - once through all digits. */
#ifndef TRAIN_EPOCH_H
#define TRAIN_EPOCH_H
#include "step.h"

/* The digits to learn, in an order and moved as depends on the epoch's number alone;
 * then the rows of a step. */
void epoch_deal(struct trainer *t, uint64_t number);
size_t epoch_steps(const struct trainer *t);
struct part epoch_batch(const struct trainer *t, size_t step);

/* All steps.  Returns the sum of the losses of this rank's rows, each as it was met.  timelines: NULL, or one
 * for each step. */
double epoch_train(struct trainer *t, uint64_t number, struct timeline *timelines);
/* The mean loss over all ranks' rows, from what each has. */
double epoch_mean_loss(struct trainer *t, double loss);
/* The part of the test digits that is recognised. */
double epoch_accuracy(struct trainer *t);
#endif
