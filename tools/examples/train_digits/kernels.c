/* kernels.c - see kernels.h. */
#include "kernels.h"

#include <math.h>
#include <string.h>

#define CORNER 0.1F /* squareplus's b */

void kernel_bias(float *x, const float *bias, size_t rows, size_t columns, bool bent)
{
    for (size_t r = 0; r < rows; r++, x += columns)
        for (size_t c = 0; c < columns; c++) {
            float y = x[c] + bias[c];
            x[c] = bent ? (y + sqrtf(y * y + CORNER)) / 2 : y;
        }
}

void kernel_bend_back(float *delta, const float *output, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float square = output[i] * output[i];
        delta[i] *= square / (square + CORNER / 4);
    }
}

void kernel_column_sums(float *sums, const float *x, size_t rows, size_t columns)
{
    memset(sums, 0, columns * sizeof(*sums));
    for (size_t r = 0; r < rows; r++, x += columns)
        for (size_t c = 0; c < columns; c++) sums[c] += x[c];
}

static double row_loss(const float *score, int label, float *delta, size_t classes, size_t batch, bool *right)
{
    double sum = 0;
    size_t best = 0, truth = (size_t)label;
    for (size_t c = 1; c < classes; c++)
        if (score[c] > score[best]) best = c;
    for (size_t c = 0; c < classes; c++) sum += exp((double)score[c] - (double)score[best]);
    for (size_t c = 0; c < classes; c++) {
        double p = exp((double)score[c] - (double)score[best]) / sum;
        delta[c] = (float)((p - (c == truth)) / (double)batch);
    }
    *right = best == truth;
    return log(sum) - ((double)score[truth] - (double)score[best]);
}

double kernel_loss(const float *scores, const int *labels, float *delta, size_t rows, size_t classes,
                   size_t batch, size_t *recognised)
{
    double loss = 0;
    *recognised = 0;
    for (size_t r = 0; r < rows; r++) {
        bool right;
        loss += row_loss(scores + r * classes, labels[r], delta + r * classes, classes, batch, &right);
        *recognised += right;
    }
    return loss;
}

void kernel_descend(float *weights, float *velocity, const float *gradient, size_t n, float rate,
                    float momentum)
{
    for (size_t i = 0; i < n; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        weights[i] -= rate * velocity[i];
    }
}
