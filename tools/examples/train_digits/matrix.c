/* matrix.c - blocked as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008):
 * blocks of both factors are packed so that the innermost loop reads memory in order, and its 4 x 8 sums stay
 * in registers. */
#include "matrix.h"

#include <string.h>

enum { TILE_ROWS = 4, TILE_COLUMNS = 8, BLOCK_DEPTH = 256, BLOCK_ROWS = 64, BLOCK_COLUMNS = 512 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A block of `lines` lines, `tile` of them side by side at each depth, the last tile filled up with zeros. */
static void pack(float *to, const float *from, size_t line_stride, size_t depth_stride, size_t lines,
                 size_t depth, size_t tile)
{
    for (size_t first = 0; first < lines; first += tile) {
        size_t n = least(tile, lines - first);
        for (size_t k = 0; k < depth; k++, to += tile) {
            for (size_t i = 0; i < n; i++) to[i] = from[(first + i) * line_stride + k * depth_stride];
            for (size_t i = n; i < tile; i++) to[i] = 0;
        }
    }
}

static void multiply_tile(float *out, size_t out_row, const float *a, const float *b, size_t rows,
                          size_t columns, size_t depth)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = {{0}};
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) sum[r][c] = out[r * out_row + c];
    for (size_t k = 0; k < depth; k++, a += TILE_ROWS, b += TILE_COLUMNS)
        for (size_t r = 0; r < TILE_ROWS; r++)
            for (size_t c = 0; c < TILE_COLUMNS; c++) sum[r][c] += a[r] * b[c];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) out[r * out_row + c] = sum[r][c];
}

static void multiply_block(float *out, size_t out_row, const float *a, const float *b, size_t rows,
                           size_t columns, size_t depth)
{
    for (size_t c = 0; c < columns; c += TILE_COLUMNS)
        for (size_t r = 0; r < rows; r += TILE_ROWS)
            multiply_tile(out + r * out_row + c, out_row, a + r * depth, b + c * depth,
                          least(TILE_ROWS, rows - r), least(TILE_COLUMNS, columns - c), depth);
}

void matrix_multiply(float *out, struct matrix a, struct matrix b, size_t rows, size_t columns, size_t depth)
{
    static _Thread_local float packed_a[BLOCK_ROWS * BLOCK_DEPTH], packed_b[BLOCK_COLUMNS * BLOCK_DEPTH];
    memset(out, 0, rows * columns * sizeof(*out));
    for (size_t k = 0; k < depth; k += BLOCK_DEPTH) {
        size_t deep = least(BLOCK_DEPTH, depth - k);
        for (size_t c = 0; c < columns; c += BLOCK_COLUMNS) {
            size_t wide = least(BLOCK_COLUMNS, columns - c);
            pack(packed_b, b.at + k * b.row + c * b.column, b.column, b.row, wide, deep, TILE_COLUMNS);
            for (size_t r = 0; r < rows; r += BLOCK_ROWS) {
                size_t high = least(BLOCK_ROWS, rows - r);
                pack(packed_a, a.at + r * a.row + k * a.column, a.row, a.column, high, deep, TILE_ROWS);
                multiply_block(out + r * columns + c, columns, packed_a, packed_b, high, wide, deep);
            }
        }
    }
}
