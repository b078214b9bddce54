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

/* One epoch: how long it takes, and its loss on this rank. */
static int64_t run(struct trainer *t, enum pace pace, double *loss)
{
    int64_t began;
    mlp_reset(&t->net, t->hidden, &t->layout.tp, TRAIN_SEED);
    t->traffic.pace = pace;
    t->rate = TRAIN_RATE;
    check(weft_barrier(t->layout.world, NULL, NULL), "beginning together");
    began = now_ns();
    *loss = epoch_train(t, 1, NULL);
    check(weft_barrier(t->layout.world, NULL, NULL), "ending together");
    return now_ns() - began;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

struct measured measure(struct trainer *t, size_t epochs)
{
    struct measured m = {.epochs = epochs};
    int64_t *took = calloc(PACES * epochs, sizeof(*took));
    double loss[PACES];
    if (!took) fail("no memory for %zu times", PACES * epochs);
    memset(t->traffic.account, 0, sizeof(t->traffic.account));
    for (size_t e = 0; e < epochs; e++)
        for (int pace = 0; pace < PACES; pace++) {
            int64_t before = preemptions();
            took[(size_t)pace * epochs + e] = run(t, (enum pace)pace, &loss[pace]);
            if (pace == PACE_OVERLAPPED) m.preempted += preemptions() - before;
            if (pace == PACE_ONE_BY_ONE && loss[PACE_OVERLAPPED] != loss[PACE_ONE_BY_ONE])
                fail("overlapping has changed the loss from %.17g to %.17g", loss[PACE_ONE_BY_ONE],
                     loss[PACE_OVERLAPPED]);
        }
    for (int pace = 0; pace < PACES; pace++) {
        int64_t *of = took + (size_t)pace * epochs;
        qsort(of, epochs, sizeof(*of), compare);
        m.pace[pace].least_ns = of[0];
        m.pace[pace].median_ns = of[epochs / 2];
        m.pace[pace].most_ns = of[epochs - 1];
    }
    m.account = t->traffic.account[PACE_OVERLAPPED];
    t->traffic.pace = PACE_OVERLAPPED;
    free(took);
    return m;
}
