/* matrix.h - one matrix product, for any layout of its factors.  Single thread. */
#ifndef TRAIN_MATRIX_H
#define TRAIN_MATRIX_H
#include <stddef.h>

/* Element (r, c) of a factor lies at `at[r * row + c * column]`: swap the two strides for its transpose. */
struct matrix {
    const float *at;
    size_t row, column;
};

/* out (rows x columns, packed row by row) = a (rows x depth) * b (depth x columns).  Products are added in
 * the order of depth, whatever the sizes. */
void matrix_multiply(float *out, struct matrix a, struct matrix b, size_t rows, size_t columns, size_t depth);
#endif
