/* rank_set.h - sets of ranks, a bit for each, in so many bytes. */
#ifndef WEFT_FAULT_RANK_SET_H
#define WEFT_FAULT_RANK_SET_H
#include <stdbool.h>
#include <stddef.h>

static inline bool weft__set_has(const unsigned char *set, int rank)
{
    return set[rank / 8] >> rank % 8 & 1;
}

static inline void weft__set_add(unsigned char *set, int rank)
{
    set[rank / 8] = (unsigned char)(set[rank / 8] | 1u << rank % 8);
}

static inline void weft__set_remove(unsigned char *set, int rank)
{
    set[rank / 8] = (unsigned char)(set[rank / 8] & ~(1u << rank % 8));
}

static inline bool weft__set_is_within(const unsigned char *set, const unsigned char *of, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (set[i] & ~of[i]) return false;
    return true;
}

static inline bool weft__set_is_empty(const unsigned char *set, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (set[i]) return false;
    return true;
}
#endif
