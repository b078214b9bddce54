/* epoch.c - see epoch.h. */
#include "epoch.h"
#include "check.h"

double epoch_train(struct trainer *t, uint64_t number, struct timeline *timeline)
{
    size_t n = t->digits.train_count, steps = (n + t->batch - 1) / t->batch;
    double loss = 0;
    digits_deal(t->dealt, t->digits.train, n, TRAIN_SEED + number);
    for (size_t s = 0; s < steps; s++) {
        size_t first = s * t->batch, batch = n - first < t->batch ? n - first : t->batch;
        t->traffic.timeline = s == steps / 2 ? timeline : NULL;
        loss += step_train(t, t->dealt + first, batch);
    }
    t->traffic.timeline = NULL;
    return loss;
}

/* The tp ranks have computed the same losses: only those of different rows are added. */
double epoch_mean_loss(struct trainer *t, double loss)
{
    check(weft_all_reduce(t->layout.dp.group, &loss, &loss, 1, WEFT_FLOAT64, WEFT_SUM, NULL, NULL),
          "adding up the losses");
    return loss / (double)t->digits.train_count;
}

double epoch_accuracy(struct trainer *t)
{
    struct part mine = part_of(t->digits.test_count, t->layout.dp.at, t->layout.dp.size);
    uint64_t right = 0;
    for (size_t done = 0, n; done < mine.count; done += n) {
        n = mine.count - done < t->net.rows_max ? mine.count - done : t->net.rows_max;
        right += step_recognise(t, t->digits.test + mine.first + done, n);
    }
    check(weft_all_reduce(t->layout.dp.group, &right, &right, 1, WEFT_UINT64, WEFT_SUM, NULL, NULL),
          "adding up the hits");
    return (double)right / (double)t->digits.test_count;
}
