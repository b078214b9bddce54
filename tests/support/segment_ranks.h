/* segment_ranks.h - a segment whose ranks are threads of this process, for tests of what lies on it. */
#ifndef WEFT_TEST_SEGMENT_RANKS_H
#define WEFT_TEST_SEGMENT_RANKS_H
#include "shm_segment.h"

#define BOARD_BLOCKS       16
#define BOARD_BLOCK_BYTES  5000            /* less than two pages */
#define BOARD_WORLD(local) ((local)*2 + 1) /* world rank of a local rank here: never the same number */

/* A configuration with such blocks, keys and a name that no other test process has. */
weft__segment_config segment_config(int rank, int size, int64_t timeout_ms);
/* Joins all ranks at once; asserts that it works. */
void segment_join_all(int size, weft__segment *segments[]);
void segment_join_with(int size, weft__segment_arena arena, weft__segment *segments[]);
#endif
