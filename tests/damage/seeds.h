/* seeds.h - the seeds that a run plays which is not asked for others. */
#ifndef TESTS_DAMAGE_SEEDS_H
#define TESTS_DAMAGE_SEEDS_H
#include <stdint.h>

extern const uint64_t seeds[];
extern const int seed_count;

/* A row of a scene's tables that none of them draws; NULL: there is no such row. */
const char *seeds_miss(void);
#endif
