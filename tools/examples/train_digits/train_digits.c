/* train_digits.c - training on real data, on a grid of ranks, with communication hidden behind computation.
 *
 *   weft-run -n 4 train_digits          see --help for what it takes
 *
 * The mathematics is that of one rank, whatever the grid; only the order in which float32 numbers are added
 * differs.  To be read in this order:
 *
 *   layout.c    joining the job; the grid of ranks and its groups
 *   step.c      forward, backward, update: where sums start and where they are waited for
 *   traffic.c   the calls of Weft that do it, and the account of their time
 *   buckets.c   gradients that travel together
 *   mlp.c       the network and the slice of it that a rank has; kernels.c: its arithmetic
 *   where.c     memory and order of what is computed, on the host; where_cuda.c: on a device
 *   measure.c, report.c, timeline.c, picture.c: what came of it
 *
 * Any failure ends the program with exit code 1 and a sentence (check.c). */
#include "check.h"
#include "measure.h"
#include "options.h"
#include "picture.h"
#include "report.h"

#include <errno.h>
#include <math.h>
#include <outfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative to max(1, loss).  Adding float32 numbers in another order changes a sum by some 1e-7 of it, and
 * training amplifies that; see the test of the losses for what it comes to, and what real errors come to. */
#define LOSS_TOLERANCE 1e-5

static void start(struct trainer *t, const struct options *o)
{
    char why[512];
    if (!digits_load(&t->digits, o->data, why, sizeof(why))) fail("%s", why);
    layout_join(&t->layout, o->dp, o->tp);
    if (o->device) where_choose_device(t->layout.job);
    if (o->hidden < 2 * t->layout.tp.size)
        fail("--hidden %zu is too narrow for %zu slices", o->hidden, t->layout.tp.size);
    t->batch = o->batch;
    t->hidden = o->hidden;
    t->shuffled = calloc(t->digits.train_count, sizeof(*t->shuffled));
    if (!t->shuffled) fail("no memory for %zu digits", t->digits.train_count);
    t->dealt = where->take(t->digits.train_count * sizeof(*t->dealt));
    t->test = where->take(t->digits.test_count * sizeof(*t->test));
    where->copy(t->test, t->digits.test, t->digits.test_count * sizeof(*t->test));
    /* A share of a smaller batch can be a row more than that of a whole one, never two. */
    mlp_make(t->net, o->hidden, &t->layout.tp, part_of(o->batch, 0, t->layout.dp.size).count + 1);
    mlp_reset(t->net, o->hidden, &t->layout.tp, TRAIN_SEED);
    buckets_plan(&t->buckets, t->net, o->bucket_kib * 1024);
    if (t->layout.rank > 0) return;
    printf("ranks: %d (dp=%zu, tp=%zu)%s%s; digits: %zu to learn, %zu to test\n", t->layout.ranks,
           t->layout.dp.size, t->layout.tp.size, o->device ? " on " : "", o->device ? where->name : "",
           t->digits.train_count, t->digits.test_count);
    printf("layers: %d; of them on a rank: %zu weights, gradients in buckets: %zu; of a batch: up to %zu of "
           "%zu\n\n",
           MLP_LAYERS, t->net->parameters, t->buckets.count,
           part_of(o->batch, t->layout.dp.size - 1, t->layout.dp.size).count, o->batch);
}

static void finish(struct trainer *t)
{
    mlp_free(t->net);
    where->give_back(t->dealt);
    where->give_back(t->test);
    layout_leave(&t->layout);
    digits_free(&t->digits);
    free(t->shuffled);
}

static void write_losses(const char *path, const double *losses, size_t n)
{
    struct outfile file = {.path = NULL};
    if (!outfile_open(&file, path)) fail("%s cannot be written: %s", path, strerror(errno));
    for (size_t e = 0; e < n; e++) fprintf(file.stream, "%.9g\n", losses[e]);
    if (!outfile_keep(&file)) fail("%s cannot be written: %s", path, strerror(errno));
}

static void compare_losses(const char *path, const double *losses, size_t n)
{
    FILE *file = fopen(path, "re");
    double worst = 0, expected;
    if (!file) fail("%s cannot be read: %s", path, strerror(errno));
    for (size_t e = 0; e < n; e++) {
        if (fscanf(file, "%lf", &expected) != 1) fail("%s has too few losses", path);
        worst = fmax(worst, fabs(losses[e] - expected) / fmax(1, fabs(expected)));
        /* Not ">": a loss that is no number is wrong too. */
        if (!(worst <= LOSS_TOLERANCE))
            fail("epoch %zu: loss %.9g, expected %.9g", e + 1, losses[e], expected);
    }
    fclose(file);
    printf("losses as in %s: they differ by %.1e at most\n", path, worst);
}

static void train(struct trainer *t, const struct options *o, struct timeline *timelines)
{
    double *losses = calloc(o->epochs, sizeof(*losses));
    if (!losses) fail("no memory for %zu losses", o->epochs);
    for (size_t e = 0; e < o->epochs; e++) {
        int64_t began = now_ns();
        /* Great steps first, small ones at the end. */
        t->rate = TRAIN_RATE * (float)(o->epochs - e) / (float)o->epochs;
        losses[e] = epoch_mean_loss(t, epoch_train(t, e + 1, e + 1 == o->epochs ? timelines : NULL));
        if (t->layout.rank == 0)
            printf("epoch %2zu   loss %.6f   %6.1f ms\n", e + 1, losses[e],
                   (double)(now_ns() - began) * 1e-6);
        fflush(stdout);
    }
    if (t->layout.rank == 0 && o->losses) write_losses(o->losses, losses, o->epochs);
    if (t->layout.rank == 0 && o->expect) compare_losses(o->expect, losses, o->epochs);
    free(losses);
}

int main(int argc, char **argv)
{
    static struct trainer t;
    static struct mlp net;
    struct timeline *timelines = NULL; /* one for each step of the last epoch */
    struct options o = options_parse(argc, argv);
    double accuracy;
    t.net = &net;
    start(&t, &o);
    if (o.timeline && !(timelines = calloc(epoch_steps(&t), sizeof(*timelines))))
        fail("no memory for %zu timelines", epoch_steps(&t));
    train(&t, &o, timelines);
    accuracy = epoch_accuracy(&t);
    if (t.layout.rank == 0) printf("\ntest accuracy %.2f %%\n", accuracy * 100);
    if (o.timeline) picture_write(o.timeline, &t.layout, timelines, epoch_steps(&t));
    if (t.layout.rank == 0 && o.timeline) printf("timeline in %s\n", o.timeline);
    if (o.measure && t.layout.ranks > 1) {
        struct measured measured = measure(&t, o.measure);
        report(&t, &measured);
    } else if (o.measure) {
        printf("One rank has nothing to add up with others, and nothing to hide.\n");
    }
    finish(&t);
    free(timelines);
    return 0;
}
