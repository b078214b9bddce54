/* kernels.h - all the arithmetic of the example.  A kernel makes `down` x `across` results out of its
 * arguments, here in order of the layers' names.  Arrays are packed row by row.  See where.h for how one is
 * run. */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H
#include "digits.h"

struct kernel {
    const char *name;
    size_t bytes; /* of its arguments */
    void (*on_host)(const void *arguments);
    int (*on_device)(const void *arguments, void *stream); /* returns a cudaError_t; NULL: not built */
};

/* A factor of a product: element (r, c) lies at `at[r * row + c * column]`.  Swap the two strides for its
 * transpose. */
struct matrix {
    const float *at;
    size_t row, column;
};

/* out (down x across) = left (down x depth) * right (depth x across).  Products are added in the order of
 * depth, whatever the sizes. */
struct product {
    size_t down, across;
    float *out;
    struct matrix left, right;
    size_t depth;
};

/* x[r][c] += bias[c], and then, if bent, squareplus: y = (x + sqrt(x^2 + b)) / 2 (Barron, 2021), a ReLU with
 * a round corner.  ReLU's sharp one would make a number that is 0 but for rounding count or not count, as it
 * happens. */
struct bias {
    size_t down, across;
    float *x;
    const float *bias;
    bool bent;
};

/* The way back through the bend: its slope, from what came out of it, is y^2 / (y^2 + b / 4). */
struct unbend {
    size_t down, across;
    float *delta;
    const float *output;
};

/* What became of a row. */
struct verdict {
    double loss;
    uint64_t right; /* 1: its greatest score is its label's */
};

/* Softmax and cross entropy of one row each; down is 1.  delta: the derivative of (sum of losses / batch) by
 * the scores. */
struct judge {
    size_t down, across;
    const float *scores;
    const struct digit *digits;
    float *delta;
    struct verdict *verdicts;
    size_t classes, batch;
};

/* *sum += the verdicts on n rows; down and across are 1. */
struct tally {
    size_t down, across;
    struct verdict *sum;
    const struct verdict *verdicts;
    size_t n;
};

/* Gradient descent with momentum; down is 1. */
struct descend {
    size_t down, across;
    float *weights, *velocity;
    const float *gradient;
    float rate, momentum;
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct kernel product_kernel, bias_kernel, unbend_kernel, judge_kernel, tally_kernel,
    descend_kernel;
/* What nvcc makes of them. */
int product_launch(const void *arguments, void *stream);
int bias_launch(const void *arguments, void *stream);
int unbend_launch(const void *arguments, void *stream);
int judge_launch(const void *arguments, void *stream);
int tally_launch(const void *arguments, void *stream);
int descend_launch(const void *arguments, void *stream);
#ifdef __cplusplus
}
#endif
#endif
