/* mlp.c - see mlp.h. */
#include "mlp.h"
#include "matrix.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* He et al., "Delving Deep into Rectifiers" (2015): standard deviation sqrt(2 / in).  Uniform numbers with
 * that deviation do as well as normal ones. */
static void init_weights(struct mlp_layer *layer, uint64_t *state)
{
    float bound = sqrtf(6.0F / (float)layer->in);
    for (size_t i = 0; i < layer->in * layer->out; i++)
        layer->weights[i] = (2 * random_unit(state) - 1) * bound;
}

static bool init_layer(struct mlp_layer *layer, size_t in, size_t out, size_t rows, uint64_t *state)
{
    layer->in = in;
    layer->out = out;
    layer->parameters = (in + 1) * out;
    layer->weights = calloc(layer->parameters, sizeof(float));
    layer->gradient = calloc(layer->parameters, sizeof(float));
    layer->velocity = calloc(layer->parameters, sizeof(float));
    layer->output = calloc(rows * out, sizeof(float));
    layer->delta = calloc(rows * out, sizeof(float));
    if (!layer->weights || !layer->gradient || !layer->velocity || !layer->output || !layer->delta)
        return false;
    init_weights(layer, state);
    return true;
}

bool mlp_init(struct mlp *net, size_t hidden, size_t rows_max, uint64_t seed)
{
    const size_t width[MLP_LAYERS + 1] = {DIGIT_PIXELS, hidden, hidden, DIGIT_CLASSES};
    memset(net, 0, sizeof(*net));
    net->rows_max = rows_max ? rows_max : 1;
    net->input = calloc(net->rows_max * DIGIT_PIXELS, sizeof(float));
    net->label = calloc(net->rows_max, sizeof(int));
    if (!net->input || !net->label) return false;
    for (int l = 0; l < MLP_LAYERS; l++)
        if (!init_layer(&net->layer[l], width[l], width[l + 1], net->rows_max, &seed)) return false;
    return true;
}

void mlp_free(struct mlp *net)
{
    for (int l = 0; l < MLP_LAYERS; l++) {
        free(net->layer[l].weights);
        free(net->layer[l].gradient);
        free(net->layer[l].velocity);
        free(net->layer[l].output);
        free(net->layer[l].delta);
    }
    free(net->input);
    free(net->label);
}

void mlp_load(struct mlp *net, const struct digit *from, const size_t *order, size_t rows)
{
    net->rows = rows;
    for (size_t i = 0; i < rows; i++) {
        const struct digit *digit = &from[order ? order[i] : i];
        memcpy(net->input + i * DIGIT_PIXELS, digit->pixel, sizeof(digit->pixel));
        net->label[i] = digit->label;
    }
}

static const float *input_of(const struct mlp *net, int layer)
{
    return layer ? net->layer[layer - 1].output : net->input;
}

void mlp_forward(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    const float *bias = l->weights + l->in * l->out;
    struct matrix x = {input_of(net, layer), l->in, 1}, w = {l->weights, l->out, 1};
    matrix_multiply(l->output, x, w, net->rows, l->out, l->in);
    for (size_t r = 0; r < net->rows; r++)
        for (size_t c = 0; c < l->out; c++) {
            float y = l->output[r * l->out + c] + bias[c];
            l->output[r * l->out + c] = y > 0 || layer == MLP_LAYERS - 1 ? y : 0;
        }
}

/* One row: delta becomes the softmax minus the truth, over the size of the batch. */
static double row_loss(const float *score, float *delta, int label, size_t batch, bool *recognised)
{
    double sum = 0;
    int best = 0;
    for (int c = 1; c < DIGIT_CLASSES; c++)
        if (score[c] > score[best]) best = c;
    for (int c = 0; c < DIGIT_CLASSES; c++) sum += exp((double)score[c] - (double)score[best]);
    for (int c = 0; c < DIGIT_CLASSES; c++) {
        double p = exp((double)score[c] - (double)score[best]) / sum;
        delta[c] = (float)((p - (c == label)) / (double)batch);
    }
    *recognised = best == label;
    return log(sum) - ((double)score[label] - (double)score[best]);
}

double mlp_loss(struct mlp *net, size_t batch, size_t *recognised)
{
    struct mlp_layer *last = &net->layer[MLP_LAYERS - 1];
    double loss = 0;
    *recognised = 0;
    for (size_t r = 0; r < net->rows; r++) {
        bool right;
        loss +=
            row_loss(last->output + r * last->out, last->delta + r * last->out, net->label[r], batch, &right);
        *recognised += right;
    }
    return loss;
}

void mlp_gradient(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer];
    float *bias = l->gradient + l->in * l->out;
    struct matrix x = {input_of(net, layer), 1, l->in}, delta = {l->delta, l->out, 1};
    matrix_multiply(l->gradient, x, delta, l->in, l->out, net->rows);
    memset(bias, 0, l->out * sizeof(*bias));
    for (size_t r = 0; r < net->rows; r++)
        for (size_t c = 0; c < l->out; c++) bias[c] += l->delta[r * l->out + c];
}

void mlp_pass_back(struct mlp *net, int layer)
{
    struct mlp_layer *l = &net->layer[layer], *before = l - 1;
    struct matrix delta = {l->delta, l->out, 1}, w = {l->weights, 1, l->out};
    matrix_multiply(before->delta, delta, w, net->rows, l->in, l->out);
    for (size_t i = 0; i < net->rows * l->in; i++)
        if (before->output[i] <= 0) before->delta[i] = 0;
}

void mlp_step(struct mlp *net, int layer, float rate, float momentum)
{
    struct mlp_layer *l = &net->layer[layer];
    for (size_t i = 0; i < l->parameters; i++) {
        l->velocity[i] = momentum * l->velocity[i] + l->gradient[i];
        l->weights[i] -= rate * l->velocity[i];
    }
}
