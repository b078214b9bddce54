/* slots_memory.h - rows of groups in plain memory, in place of a host's shared segment. */
#ifndef WEFT_TESTS_PROTOCOLS_SLOTS_MEMORY_H
#define WEFT_TESTS_PROTOCOLS_SLOTS_MEMORY_H
#include "shm_segment.h"

void slots_memory_open(int ranks); /* all rows are free; how many a rank has is drawn by chance */
weft__segment *slots_memory_segment(int rank, int ranks);
bool slots_memory_scarce(void); /* a rank may be left without a row */
#endif
