/* wall_clock.h - this process' wall clock, which jumps: a program that uses this has its own clock_gettime, gettimeofday and
 * time in front of the C library's.  No other clock is touched. */
#ifndef TESTS_DAMAGE_WALL_CLOCK_H
#define TESTS_DAMAGE_WALL_CLOCK_H
#include <stdint.h>

void wall_clock_jump(int64_t seconds); /* from where it is really */
#endif
