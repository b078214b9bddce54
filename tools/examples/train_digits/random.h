/* random.h - the same numbers on every rank and every machine: SplitMix64 (Steele, Lea, Flood, "Fast
 * Splittable Pseudorandom Number Generators", 2014).  Any number of the sequence can be had by its index. */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H
#include <stdint.h>

static inline uint64_t random_at(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 <= x < 1 */
static inline float random_unit_at(uint64_t seed, uint64_t index)
{
    return (float)(random_at(seed, index) >> 40) * 0x1p-24F;
}
#endif
