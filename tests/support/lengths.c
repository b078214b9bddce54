/* lengths.c - see lengths.h. */
#include "lengths.h"

static uint64_t hash(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

size_t length_between(uint64_t seed, size_t around, int from, int to)
{
    uint64_t word = hash(hash(hash(seed + 1) + (uint64_t)from) + (uint64_t)to);
    return word % 8 ? (size_t)((word >> 8) % (2 * around + 1)) : 0;
}

size_t spread_blocks(uint64_t seed, int n, const size_t *counts, size_t *displs)
{
    uint64_t word = hash(seed + 2);
    int turned = (int)(word % (uint64_t)n);
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        int k = (i + turned) % n;
        end += hash(word + (uint64_t)i) % 3;
        displs[k] = end;
        end += counts[k];
    }
    return end;
}
