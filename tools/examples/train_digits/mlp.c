/* mlp.c - see mlp.h. */
#include "mlp.h"
#include "check.h"
#include "kernels.h"
#include "matrix.h"
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
    float *at = calloc(n, sizeof(*at));
    if (!at) fail("no memory for %zu numbers of the network", n);
    return at;
}

void mlp_make(struct mlp *net, size_t hidden, const struct axis *tp, size_t rows_max)
{
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
    net->input = floats(rows_max * DIGIT_PIXELS);
    net->label = calloc(rows_max, sizeof(*net->label));
    if (!net->label) fail("no memory for %zu labels", rows_max);
}

/* He et al., "Delving Deep into Rectifiers" (2015): standard deviation sqrt(2 / in).  Uniform numbers with
 * that deviation do as well as normal ones. */
void mlp_reset(struct mlp *net, size_t hidden, const struct axis *tp, uint64_t seed)
{
    uint64_t whole = 0; /* weights of the whole layers before this one */
    memset(net->weights, 0, net->parameters * sizeof(float));
    memset(net->velocity, 0, net->parameters * sizeof(float));
    for (int l = 0; l < MLP_LAYERS; l++) {
        struct shape s = shape_of(l, hidden, tp);
        float bound = sqrtf(6.0F / (float)s.in), *weight = net->weights + net->layer[l].at;
        for (size_t r = 0; r < s.inputs.count; r++)
            for (size_t c = 0; c < s.outputs.count; c++) {
                uint64_t place = (s.inputs.first + r) * s.out + s.outputs.first + c;
                *weight++ = (2 * random_unit_at(seed, whole + place) - 1) * bound;
            }
        whole += s.in * s.out;
    }
}

void mlp_free(struct mlp *net)
{
    for (int l = 0; l < MLP_LAYERS; l++) {
        free(net->layer[l].output);
        free(net->layer[l].delta);
    }
    free(net->weights);
    free(net->gradient);
    free(net->velocity);
    free(net->input);
    free(net->label);
}

void mlp_load(struct mlp *net, const struct digit *from, size_t rows)
{
    net->rows = rows;
    for (size_t i = 0; i < rows; i++) {
        memcpy(net->input + i * DIGIT_PIXELS, from[i].pixel, sizeof(from[i].pixel));
        net->label[i] = from[i].label;
    }
}

static const float *input_of(const struct mlp *net, int layer)
{
    return layer ? net->layer[layer - 1].output : net->input;
}

void mlp_multiply(struct mlp *net, int layer, struct part rows)
{
    struct mlp_layer *l = &net->layer[layer];
    struct matrix x = {input_of(net, layer) + rows.first * l->in, l->in, 1};
    struct matrix w = {net->weights + l->at, l->out, 1};
    matrix_multiply(l->output + rows.first * l->out, x, w, rows.count, l->out, l->in);
}

void mlp_activate(struct mlp *net, int layer, struct part rows)
{
    struct mlp_layer *l = &net->layer[layer];
    const float *bias = net->weights + l->at + l->in * l->out;
    kernel_bias(l->output + rows.first * l->out, bias, rows.count, l->out, layer != MLP_LAST);
}

double mlp_loss(struct mlp *net, size_t batch, size_t *recognised)
{
    struct mlp_layer *last = &net->layer[MLP_LAST];
    return kernel_loss(last->output, net->label, last->delta, net->rows, last->out, batch, recognised);
}

void mlp_pass_back(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    struct matrix delta = {l->delta, l->out, 1}, transposed = {net->weights + l->at, 1, l->out};
    matrix_multiply(net->layer[layer - 1].delta, delta, transposed, net->rows, l->in, l->out);
}

void mlp_bend_back(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    kernel_bend_back(l->delta, l->output, net->rows * l->out);
}

void mlp_gradient(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    float *gradient = net->gradient + l->at;
    struct matrix transposed = {input_of(net, layer), 1, l->in}, delta = {l->delta, l->out, 1};
    matrix_multiply(gradient, transposed, delta, l->in, l->out, net->rows);
    kernel_column_sums(gradient + l->in * l->out, l->delta, net->rows, l->out);
}

void mlp_descend(struct mlp *net, struct part p, float rate)
{
    kernel_descend(net->weights + p.first, net->velocity + p.first, net->gradient + p.first, p.count, rate,
                   MOMENTUM);
}
