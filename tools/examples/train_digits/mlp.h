/* mlp.h - a multilayer perceptron, of which this rank holds a slice: a bend (kernels.h) inside, softmax and
 * cross entropy at the end, gradient descent with momentum.  It computes and does not communicate; step.c
 * does both.  All of its arrays, and the digits that it is given, are of where.h's memory.
 *
 * Layers come in pairs, sliced as in Shoeybi et al., "Megatron-LM" (2019), so that a pair needs one sum in
 * each direction and nothing in its middle:
 *
 *   0, 2, ..  by columns: from all inputs a rank computes a slice of the outputs, which are complete;
 *             backward, the derivative by the inputs is a partial sum
 *   1, 3, ..  by rows: from that slice as inputs a rank computes all outputs, each a partial sum;
 *             backward, all is complete
 *
 * A partial sum becomes the value when it has been added up over the tp ranks. */
#ifndef TRAIN_MLP_H
#define TRAIN_MLP_H
#include "layout.h"
#include "where.h"

enum { MLP_PAIRS = 3, MLP_LAYERS = 2 * MLP_PAIRS, MLP_LAST = MLP_LAYERS - 1 };

/* A layer's parameters are parameters[] numbers at `at` in each of the network's three arrays: this rank's
 * in x out weights row by row, then out biases. */
struct mlp_layer {
    size_t in, out, at, parameters;
    float *output; /* rows x out: after mlp_multiply partial or not, after mlp_activate what comes out */
    float *delta;  /* rows x out: derivative of the loss by what is bent */
};

struct mlp {
    struct mlp_layer layer[MLP_LAYERS];
    size_t parameters;
    /* Last layer first, as the backward pass gets to them: what is ready together lies together. */
    float *weights, *gradient, *velocity;
    float *one;                    /* that number; the gradient of a bias is a product with it */
    struct verdict *verdict, *sum; /* of the rows; of all rows since mlp_verdict */
    const struct digit *rows_of;   /* the digits that are looked at */
    size_t rows, rows_max;
};

/* `hidden` is the width inside of pairs, half of it the width between them.  Fails for want of memory. */
void mlp_make(struct mlp *net, size_t hidden, const struct axis *tp, size_t rows_max);
/* The first weights, each of which depends on its place in the whole network and the seed alone. */
void mlp_reset(struct mlp *net, size_t hidden, const struct axis *tp, uint64_t seed);
void mlp_free(struct mlp *net);

/* The rows for what follows, at most rows_max; they stay the caller's. */
void mlp_look_at(struct mlp *net, const struct digit *digits, size_t rows);

/* Forward, for some of the rows: outputs = inputs x weights, and then bias and bend. */
void mlp_multiply(struct mlp *net, int layer, struct part rows);
void mlp_activate(struct mlp *net, int layer, struct part rows);
/* Judges the rows' scores, and prepares the last layer's delta for a batch of `batch` rows in all, of which
 * these are a part. */
void mlp_judge(struct mlp *net, size_t batch);
/* Sum of the losses, and how many were recognised, of all rows judged since it was called last.  Waits until
 * they are. */
struct verdict mlp_verdict(struct mlp *net);

/* Backward: the delta of the layer before = delta x weights', and then the way back through its bend. */
void mlp_pass_back(struct mlp *net, int layer);
void mlp_bend_back(struct mlp *net, int layer);
void mlp_gradient(struct mlp *net, int layer);
/* Moves the weights of some of the parameters against their gradient. */
void mlp_descend(struct mlp *net, struct part parameters, float rate);
#endif
