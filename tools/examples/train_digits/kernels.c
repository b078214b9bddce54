/* kernels.c - see kernels.h.  C, and CUDA for nvcc: parallel.h says how. */
#include "parallel.h"

#include <math.h>

#define CORNER 0.1F /* squareplus's b */

/* ---- the product --------------------------------------------------------------------------------------- */

/* Blocked as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): blocks of
 * both factors are packed into near memory so that the innermost loop reads it in order, and its 4 x 8 sums
 * stay in registers. */
enum { TILE_ROWS = 4, TILE_COLUMNS = 8 };
#ifdef __CUDACC__
enum { BLOCK_DEPTH = 32, BLOCK_ROWS = 32, BLOCK_COLUMNS = 64 };
#else
enum { BLOCK_DEPTH = 256, BLOCK_ROWS = 64, BLOCK_COLUMNS = 512 };
#endif

PART size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A block of `lines` lines, `tile` of them side by side at each depth, the last tile filled up with zeros. */
PART void pack(float *packed, const float *from, size_t line_stride, size_t depth_stride, size_t lines,
               size_t depth, size_t tile)
{
    EACH_GROUP(first, lines, tile)
    {
        size_t n = least(tile, lines - first);
        EACH_LANE(k, depth, 1)
        {
            float *to = packed + first * depth + k * tile;
            for (size_t i = 0; i < n; i++) to[i] = from[(first + i) * line_stride + k * depth_stride];
            for (size_t i = n; i < tile; i++) to[i] = 0;
        }
    }
}

PART void multiply_tile(float *out, size_t out_row, const float *left, const float *right, size_t rows,
                        size_t columns, size_t depth, bool fresh)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = {{0}};
    for (size_t r = 0; r < rows && !fresh; r++)
        for (size_t c = 0; c < columns; c++) sum[r][c] = out[r * out_row + c];
    for (size_t k = 0; k < depth; k++, left += TILE_ROWS, right += TILE_COLUMNS)
        for (size_t r = 0; r < TILE_ROWS; r++)
            for (size_t c = 0; c < TILE_COLUMNS; c++) sum[r][c] += left[r] * right[c];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) out[r * out_row + c] = sum[r][c];
}

PART void multiply_block(float *out, size_t out_row, const float *left, const float *right, size_t rows,
                         size_t columns, size_t depth, bool fresh)
{
    EACH_GROUP(c, columns, TILE_COLUMNS)
    EACH_LANE(r, rows, TILE_ROWS)
    multiply_tile(out + r * out_row + c, out_row, left + r * depth, right + c * depth,
                  least(TILE_ROWS, rows - r), least(TILE_COLUMNS, columns - c), depth, fresh);
}

KERNEL_OF_BLOCKS(product, BLOCK_ROWS, BLOCK_COLUMNS)
{
    NEAR float left[BLOCK_ROWS * BLOCK_DEPTH], right[BLOCK_COLUMNS * BLOCK_DEPTH];
    struct matrix l = a->left, r = a->right;
    EACH_BLOCK_ACROSS(column, a->across, BLOCK_COLUMNS)
    {
        size_t wide = least(BLOCK_COLUMNS, a->across - column), k = 0;
        do { /* once, with nothing to add, if there is no depth */
            size_t deep = least(BLOCK_DEPTH, a->depth - k);
            TOGETHER();
            pack(right, r.at + k * r.row + column * r.column, r.column, r.row, wide, deep, TILE_COLUMNS);
            EACH_BLOCK_DOWN(row, a->down, BLOCK_ROWS)
            {
                size_t high = least(BLOCK_ROWS, a->down - row);
                TOGETHER();
                pack(left, l.at + row * l.row + k * l.column, l.row, l.column, high, deep, TILE_ROWS);
                TOGETHER();
                multiply_block(a->out + row * a->across + column, a->across, left, right, high, wide, deep,
                               k == 0);
            }
            k += deep;
        } while (k < a->depth);
    }
}

/* ---- element by element -------------------------------------------------------------------------------- */

KERNEL(bias)
{
    EACH_DOWN(r, a->down)
    EACH_ACROSS(c, a->across)
    {
        float *x = a->x + r * a->across + c, y = *x + a->bias[c];
        *x = a->bent ? (y + sqrtf(y * y + CORNER)) / 2 : y;
    }
}

KERNEL(unbend)
{
    EACH_DOWN(r, a->down)
    EACH_ACROSS(c, a->across)
    {
        size_t i = r * a->across + c;
        float square = a->output[i] * a->output[i];
        a->delta[i] *= square / (square + CORNER / 4);
    }
}

KERNEL(descend)
{
    EACH_ACROSS(i, a->across)
    {
        a->velocity[i] = a->momentum * a->velocity[i] + a->gradient[i];
        a->weights[i] -= a->rate * a->velocity[i];
    }
}

/* ---- row by row ---------------------------------------------------------------------------------------- */

PART struct verdict judge_row(const float *score, size_t truth, float *delta, size_t classes, size_t batch)
{
    struct verdict verdict;
    double sum = 0;
    size_t best = 0;
    for (size_t c = 1; c < classes; c++)
        if (score[c] > score[best]) best = c;
    for (size_t c = 0; c < classes; c++) sum += exp((double)score[c] - (double)score[best]);
    for (size_t c = 0; c < classes; c++) {
        double p = exp((double)score[c] - (double)score[best]) / sum;
        delta[c] = (float)((p - (c == truth)) / (double)batch);
    }
    verdict.loss = log(sum) - ((double)score[truth] - (double)score[best]);
    verdict.right = best == truth;
    return verdict;
}

KERNEL(judge)
{
    EACH_ACROSS(r, a->across)
    a->verdicts[r] = judge_row(a->scores + r * a->classes, (size_t)a->digits[r].label,
                               a->delta + r * a->classes, a->classes, a->batch);
}

/* In the order of rows, so that it is the same sum each time. */
KERNEL(tally)
{
    EACH_ACROSS(one, a->across)
    for (size_t r = 0; r < a->n; r++) {
        a->sum->loss += a->verdicts[r].loss;
        a->sum->right += a->verdicts[r].right;
    }
}
