/* measure.c - see measure.h. */
#include "measure.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int64_t preemptions(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* One step; how long it took. */
static int64_t run(struct trainer *t, enum pace pace, size_t step)
{
    struct part batch = epoch_batch(t, step);
    int64_t began;
    t->traffic.pace = pace;
    check(weft_barrier(t->layout.world, NULL, NULL), "beginning together");
    began = now_ns();
    step_train(t, t->dealt + batch.first, batch.count);
    check(weft_barrier(t->layout.world, NULL, NULL), "ending together");
    return now_ns() - began;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* took: for each step its times in all epochs. */
static struct measured_pace add_up(int64_t *took, size_t steps, size_t epochs)
{
    struct measured_pace sum = {0, 0};
    for (size_t s = 0; s < steps; s++, took += epochs) {
        qsort(took, epochs, sizeof(*took), compare);
        sum.least_ns += took[0];
        sum.median_ns += took[epochs / 2];
    }
    return sum;
}

/* One epoch of all networks; took: for each pace and step its time in this epoch, `stride` apart. */
static void run_epoch(struct trainer *t, struct mlp net[PACES], int64_t *took, size_t stride, size_t epoch,
                      struct measured *m)
{
    size_t steps = epoch_steps(t);
    double loss[PACES];
    for (int p = 0; p < PACES; p++) mlp_reset(&net[p], t->hidden, &t->layout.tp, TRAIN_SEED);
    for (size_t i = 0; i < steps * PACES; i++) {
        size_t step = i / PACES, pace = (i + step + epoch) % PACES; /* each is first as often as last */
        int64_t before = preemptions();
        t->net = &net[pace];
        took[(pace * steps + step) * stride] = run(t, (enum pace)pace, step);
        if (pace == PACE_OVERLAPPED) m->preempted += preemptions() - before;
    }
    for (int p = 0; p < PACES; p++) loss[p] = mlp_verdict(&net[p]).loss;
    if (loss[PACE_OVERLAPPED] != loss[PACE_ONE_BY_ONE])
        fail("overlapping has changed the loss from %.17g to %.17g", loss[PACE_ONE_BY_ONE],
             loss[PACE_OVERLAPPED]);
}

struct measured measure(struct trainer *t, size_t epochs)
{
    struct measured m = {.epochs = epochs};
    struct mlp net[PACES], *trained = t->net;
    size_t steps = epoch_steps(t);
    int64_t *took = calloc(PACES * steps * epochs, sizeof(*took));
    if (!took) fail("no memory for %zu times", PACES * steps * epochs);
    for (int p = 0; p < PACES; p++) mlp_make(&net[p], t->hidden, &t->layout.tp, trained->rows_max);
    memset(t->traffic.account, 0, sizeof(t->traffic.account));
    t->rate = TRAIN_RATE;
    epoch_deal(t, 1);
    for (size_t e = 0; e < epochs; e++) run_epoch(t, net, took + e, epochs, e, &m);
    for (size_t p = 0; p < PACES; p++) {
        m.pace[p] = add_up(took + p * steps * epochs, steps, epochs);
        mlp_free(&net[p]);
    }
    m.account = t->traffic.account[PACE_OVERLAPPED];
    t->traffic.pace = PACE_OVERLAPPED;
    t->net = trained;
    free(took);
    return m;
}
