/* chance.h - the one source of chance of a simulated job: the same seed draws the same numbers. */
#ifndef WEFT_TESTS_PROTOCOLS_CHANCE_H
#define WEFT_TESTS_PROTOCOLS_CHANCE_H
#include <stdbool.h>
#include <stdint.h>

extern uint64_t chance_state;

void chance_seed(uint64_t seed);
static inline uint64_t chance_next(void) /* splitmix64 */
{
    uint64_t z = chance_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static inline int chance_below(int n) /* 0 to n - 1 */
{
    return (int)((chance_next() >> 32) * (uint64_t)n >> 32);
}
static inline bool chance_one_in(int n)
{
    return chance_below(n) == 0;
}
void chance_shuffle(int *numbers, int n);
#endif
