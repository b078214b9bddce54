/* number.h - whole numbers that people have written. */
#ifndef WEFT_BASE_NUMBER_H
#define WEFT_BASE_NUMBER_H
#include <stdbool.h>
#include <stdint.h>

/* Digits and nothing else (but for a minus sign where least is below 0), from least to most; *out is written
 * on success only. */
bool weft__number_read(const char *text, int64_t least, int64_t most, int64_t *out);
#endif
