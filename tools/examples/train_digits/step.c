/* step.c - see step.h.
 *
 * The one rule of overlapping: start a sum as soon as its numbers are there, wait for it as late as they are
 * needed, and have something to compute in between.  Who waits is who computes: this thread, or the stream.
 * What that is:
 *
 *   outputs of a pair (tp)        the other half of the rows
 *   gradient of its inputs (tp)   the gradients of the pair's weights, which need no other rank
 *   gradients of weights (dp)     the layers before, then the update of the buckets that have come */
#include "step.h"

enum { HALVES = 2 };

static void finish(struct trainer *t, int layer, struct part rows, struct sum *sum)
{
    traffic_land(&t->traffic, sum);
    timeline_phase(t->traffic.timeline, SPAN_FORWARD, layer);
    mlp_activate(t->net, layer, rows);
}

static void forward(struct trainer *t)
{
    struct mlp *net = t->net;
    struct part rows[HALVES];
    struct sum *sum[HALVES];
    for (size_t h = 0; h < HALVES; h++) rows[h] = part_of(net->rows, h, HALVES);
    for (int l = 0; l < MLP_LAYERS; l += 2)
        for (size_t h = 0; h < HALVES; h++) {
            struct mlp_layer *out = &net->layer[l + 1];
            /* The outputs of the pair before: this half's sum had the other half's products to travel in. */
            if (l > 0) finish(t, l - 1, rows[h], sum[h]);
            timeline_phase(t->traffic.timeline, SPAN_FORWARD, l);
            mlp_multiply(net, l, rows[h]);
            mlp_activate(net, l, rows[h]);
            timeline_phase(t->traffic.timeline, SPAN_FORWARD, l + 1);
            mlp_multiply(net, l + 1, rows[h]);
            sum[h] = traffic_start(&t->traffic, SUM_OUTPUTS, l + 1, t->layout.tp.group,
                                   out->output + rows[h].first * out->out, rows[h].count * out->out);
        }
    for (size_t h = 0; h < HALVES; h++) finish(t, MLP_LAST, rows[h], sum[h]);
}

/* The gradient of one layer's weights, and off it goes when its bucket is full. */
static void gradient(struct trainer *t, int layer)
{
    timeline_phase(t->traffic.timeline, SPAN_WEIGHTS, layer);
    mlp_gradient(t->net, layer);
    buckets_ready(&t->buckets, layer, t->net, t->layout.dp.group, &t->traffic);
}

/* Begins where mlp_judge has left the last layer's delta. */
static void backward(struct trainer *t)
{
    struct mlp *net = t->net;
    for (int l = MLP_LAST; l > 0; l -= 2) { /* the pair of layers l - 1 and l */
        struct sum *sum = NULL;
        timeline_phase(t->traffic.timeline, SPAN_BACK, l);
        mlp_pass_back(net, l);
        mlp_bend_back(net, l - 1);
        if (l > 1) {
            struct mlp_layer *before = &net->layer[l - 2];
            timeline_phase(t->traffic.timeline, SPAN_BACK, l - 1);
            mlp_pass_back(net, l - 1);
            sum = traffic_start(&t->traffic, SUM_INPUT_GRADIENTS, l - 1, t->layout.tp.group, before->delta,
                                net->rows * before->out);
        }
        gradient(t, l);
        gradient(t, l - 1);
        traffic_land(&t->traffic, sum);
        if (l > 1) {
            timeline_phase(t->traffic.timeline, SPAN_BACK, l - 2);
            mlp_bend_back(net, l - 2);
        }
    }
}

void step_train(struct trainer *t, const struct digit *rows, size_t batch)
{
    struct part mine = part_of(batch, t->layout.dp.at, t->layout.dp.size);
    timeline_phase(t->traffic.timeline, SPAN_FORWARD, 0);
    mlp_look_at(t->net, rows + mine.first, mine.count);
    forward(t);
    mlp_judge(t->net, batch);
    backward(t);
    buckets_update(&t->buckets, t->net, t->rate, &t->traffic);
    timeline_stop(t->traffic.timeline);
    traffic_end_step(&t->traffic);
}

void step_recognise(struct trainer *t, const struct digit *rows, size_t n)
{
    mlp_look_at(t->net, rows, n);
    forward(t);
    mlp_judge(t->net, n);
    traffic_end_step(&t->traffic);
}
