/* epoch.c - see epoch.h. */
#include "epoch.h"
#include "check.h"

void epoch_deal(struct trainer *t, uint64_t number)
{
    size_t n = t->digits.train_count;
    digits_deal(t->shuffled, t->digits.train, n, TRAIN_SEED + number);
    where->copy(t->dealt, t->shuffled, n * sizeof(*t->dealt));
}

size_t epoch_steps(const struct trainer *t)
{
    return (t->digits.train_count + t->batch - 1) / t->batch;
}

struct part epoch_batch(const struct trainer *t, size_t step)
{
    size_t first = step * t->batch, left = t->digits.train_count - first;
    return (struct part){first, left < t->batch ? left : t->batch};
}

double epoch_train(struct trainer *t, uint64_t number, struct timeline *timelines)
{
    size_t steps = epoch_steps(t);
    epoch_deal(t, number);
    for (size_t s = 0; s < steps; s++) {
        struct part batch = epoch_batch(t, s);
        t->traffic.timeline = timelines ? &timelines[s] : NULL;
        step_train(t, t->dealt + batch.first, batch.count);
    }
    t->traffic.timeline = NULL;
    return mlp_verdict(t->net).loss;
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
    uint64_t right;
    for (size_t done = 0, n; done < mine.count; done += n) {
        n = mine.count - done < t->net->rows_max ? mine.count - done : t->net->rows_max;
        step_recognise(t, t->test + mine.first + done, n);
    }
    right = mlp_verdict(t->net).right;
    check(weft_all_reduce(t->layout.dp.group, &right, &right, 1, WEFT_UINT64, WEFT_SUM, NULL, NULL),
          "adding up the hits");
    return (double)right / (double)t->digits.test_count;
}
