/* kernels.h - what is computed element by element or row by row.  With matrix.h this is all the arithmetic of
 * the example.  Arrays are packed row by row.  Single thread. */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H
#include <stdbool.h>
#include <stddef.h>

/* x[r][c] += bias[c], and then, if bent, squareplus: y = (x + sqrt(x^2 + b)) / 2 (Barron, 2021), a ReLU with
 * a round corner.  ReLU's sharp one would make a number that is 0 but for rounding count or not count, as it
 * happens. */
void kernel_bias(float *x, const float *bias, size_t rows, size_t columns, bool bent);
/* The way back through the bend: its slope, from what came out of it, is y^2 / (y^2 + b / 4). */
void kernel_bend_back(float *delta, const float *output, size_t n);
void kernel_column_sums(float *sums, const float *x, size_t rows, size_t columns);
/* Softmax and cross entropy.  Returns the sum of the rows' losses; *recognised: rows whose greatest score is
 * their label's; delta: the derivative of (sum of losses / batch) by the scores. */
double kernel_loss(const float *scores, const int *labels, float *delta, size_t rows, size_t classes,
                   size_t batch, size_t *recognised);
/* Gradient descent with momentum. */
void kernel_descend(float *weights, float *velocity, const float *gradient, size_t n, float rate,
                    float momentum);
#endif
