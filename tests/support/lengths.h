/* lengths.h - uneven blocks as functions of a seed, so that all ranks of a test agree on them. */
#ifndef TESTS_SUPPORT_LENGTHS_H
#define TESTS_SUPPORT_LENGTHS_H

#include <stddef.h>
#include <stdint.h>

/* Elements that one rank has for another: up to twice `around`, of one in eight pairs none. */
size_t length_between(uint64_t seed, size_t around, int from, int to);

/* Where n blocks stand: not in the order of their ranks, with gaps of up to two elements.  Returns the end
 * of the last. */
size_t spread_blocks(uint64_t seed, int n, const size_t *counts, size_t *displs);

#endif
