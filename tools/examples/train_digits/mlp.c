/* mlp.c - see mlp.h. */
#include "mlp.h"
#include "check.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOMENTUM 0.9F

/* The whole layer, and what of it is this rank's. */
struct shape {
    size_t in, out;
    struct part inputs, outputs;
};

static size_t width(int boundary, size_t hidden)
{
    if (boundary == 0) return DIGIT_PIXELS;
    if (boundary == MLP_LAYERS) return DIGIT_CLASSES;
    return boundary % 2 ? hidden : (hidden + 1) / 2;
}

static struct shape shape_of(int layer, size_t hidden, const struct axis *tp)
{
    struct shape s = {.in = width(layer, hidden), .out = width(layer + 1, hidden)};
    bool by_columns = layer % 2 == 0;
    s.inputs = by_columns ? part_of(s.in, 0, 1) : part_of(s.in, tp->at, tp->size);
    s.outputs = by_columns ? part_of(s.out, tp->at, tp->size) : part_of(s.out, 0, 1);
    return s;
}

static float *floats(size_t n)
{
    return where->take(n * sizeof(float));
}

void mlp_make(struct mlp *net, size_t hidden, const struct axis *tp, size_t rows_max)
{
    const float one = 1;
    memset(net, 0, sizeof(*net));
    net->rows_max = rows_max;
    for (int l = MLP_LAST; l >= 0; l--) {
        struct mlp_layer *layer = &net->layer[l];
        struct shape shape = shape_of(l, hidden, tp);
        layer->in = shape.inputs.count;
        layer->out = shape.outputs.count;
        layer->at = net->parameters;
        layer->parameters = (layer->in + 1) * layer->out;
        layer->output = floats(rows_max * layer->out);
        layer->delta = floats(rows_max * layer->out);
        net->parameters += layer->parameters;
    }
    net->weights = floats(net->parameters);
    net->gradient = floats(net->parameters);
    net->velocity = floats(net->parameters);
    net->one = floats(1);
    where->copy(net->one, &one, sizeof(one));
    net->verdict = where->take(rows_max * sizeof(*net->verdict));
    net->sum = where->take(sizeof(*net->sum));
}

/* He et al., "Delving Deep into Rectifiers" (2015): standard deviation sqrt(2 / in).  Uniform numbers with
 * that deviation do as well as normal ones. */
void mlp_reset(struct mlp *net, size_t hidden, const struct axis *tp, uint64_t seed)
{
    uint64_t whole = 0; /* weights of the whole layers before this one */
    float *first = calloc(net->parameters, sizeof(*first));
    if (!first) fail("no memory for %zu weights", net->parameters);
    where->copy(net->velocity, first, net->parameters * sizeof(*first));
    for (int l = 0; l < MLP_LAYERS; l++) {
        struct shape s = shape_of(l, hidden, tp);
        float bound = sqrtf(6.0F / (float)s.in), *weight = first + net->layer[l].at;
        for (size_t r = 0; r < s.inputs.count; r++)
            for (size_t c = 0; c < s.outputs.count; c++) {
                uint64_t place = (s.inputs.first + r) * s.out + s.outputs.first + c;
                *weight++ = (2 * random_unit_at(seed, whole + place) - 1) * bound;
            }
        whole += s.in * s.out;
    }
    where->copy(net->weights, first, net->parameters * sizeof(*first));
    free(first);
}

void mlp_free(struct mlp *net)
{
    where->settle();
    for (int l = 0; l < MLP_LAYERS; l++) {
        where->give_back(net->layer[l].output);
        where->give_back(net->layer[l].delta);
    }
    where->give_back(net->weights);
    where->give_back(net->gradient);
    where->give_back(net->velocity);
    where->give_back(net->one);
    where->give_back(net->verdict);
    where->give_back(net->sum);
}

void mlp_look_at(struct mlp *net, const struct digit *digits, size_t rows)
{
    net->rows_of = digits;
    net->rows = rows;
}

/* From a row on: the pixels where they lie in the digits, or what the layer before has made of them. */
static struct matrix inputs_of(const struct mlp *net, int layer, size_t row)
{
    const struct mlp_layer *l = &net->layer[layer];
    if (layer > 0) return (struct matrix){l[-1].output + row * l->in, l->in, 1};
    return (struct matrix){net->rows_of[row].pixel, sizeof(struct digit) / sizeof(float), 1};
}

void mlp_multiply(struct mlp *net, int layer, struct part rows)
{
    struct mlp_layer *l = &net->layer[layer];
    struct matrix weights = {net->weights + l->at, l->out, 1};
    WHERE_RUN(product, rows.count, l->out, l->output + rows.first * l->out, inputs_of(net, layer, rows.first),
              weights, l->in);
}

void mlp_activate(struct mlp *net, int layer, struct part rows)
{
    struct mlp_layer *l = &net->layer[layer];
    WHERE_RUN(bias, rows.count, l->out, l->output + rows.first * l->out,
              net->weights + l->at + l->in * l->out, layer != MLP_LAST);
}

void mlp_judge(struct mlp *net, size_t batch)
{
    struct mlp_layer *last = &net->layer[MLP_LAST];
    WHERE_RUN(judge, 1, net->rows, last->output, net->rows_of, last->delta, net->verdict, last->out, batch);
    WHERE_RUN(tally, 1, 1, net->sum, net->verdict, net->rows);
}

struct verdict mlp_verdict(struct mlp *net)
{
    const struct verdict none = {0, 0};
    struct verdict sum;
    where->copy(&sum, net->sum, sizeof(sum));
    where->copy(net->sum, &none, sizeof(none));
    return sum;
}

void mlp_pass_back(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    struct matrix delta = {l->delta, l->out, 1}, transposed = {net->weights + l->at, 1, l->out};
    WHERE_RUN(product, net->rows, l->in, l[-1].delta, delta, transposed, l->out);
}

void mlp_bend_back(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    WHERE_RUN(unbend, net->rows, l->out, l->delta, l->output);
}

/* The biases' are sums over the rows, the weights' products with what came in. */
void mlp_gradient(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    float *gradient = net->gradient + l->at;
    struct matrix in = inputs_of(net, layer, 0), transposed = {in.at, in.column, in.row};
    struct matrix delta = {l->delta, l->out, 1}, ones = {net->one, 0, 0};
    WHERE_RUN(product, l->in, l->out, gradient, transposed, delta, net->rows);
    WHERE_RUN(product, 1, l->out, gradient + l->in * l->out, ones, delta, net->rows);
}

void mlp_descend(struct mlp *net, struct part p, float rate)
{
    WHERE_RUN(descend, 1, p.count, net->weights + p.first, net->velocity + p.first, net->gradient + p.first,
              rate, MOMENTUM);
}
