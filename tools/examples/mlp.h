/* mlp.h - a perceptron with two hidden layers: ReLU inside, softmax and cross entropy at the end, stochastic
 * gradient descent with momentum.  Layer by layer, so that a caller can do something between them. */
#ifndef TRAIN_MLP_H
#define TRAIN_MLP_H
#include "digits.h"

enum { MLP_LAYERS = 3 };

/* Parameters, gradient and velocity are one array each: in x out weights row by row, then out biases. */
struct mlp_layer {
    size_t in, out, parameters;
    float *weights, *gradient, *velocity;
    float *output; /* rows x out, after ReLU (last layer: before softmax) */
    float *delta;  /* rows x out: derivative of the loss by what ReLU is applied to */
};

struct mlp {
    struct mlp_layer layer[MLP_LAYERS];
    float *input; /* rows x DIGIT_PIXELS */
    int *label;
    size_t rows, rows_max;
};

/* Weights depend on hidden and seed alone.  False: no memory. */
bool mlp_init(struct mlp *net, size_t hidden, size_t rows_max, uint64_t seed);
void mlp_free(struct mlp *net);

/* Chooses the rows for what follows: row[i] = from[order ? order[i] : i]. */
void mlp_load(struct mlp *net, const struct digit *from, const size_t *order, size_t rows);
void mlp_forward(struct mlp *net, int layer);
/* Sum of the rows' losses, and how many rows are recognised.  Prepares the last layer's delta for a batch
 * of `batch` rows in all, of which these are a part. */
double mlp_loss(struct mlp *net, size_t batch, size_t *recognised);
void mlp_gradient(struct mlp *net, int layer);
/* The delta of the layer before this one; the last use of this layer's weights in a backward pass. */
void mlp_pass_back(struct mlp *net, int layer);
void mlp_step(struct mlp *net, int layer, float rate, float momentum);
#endif
