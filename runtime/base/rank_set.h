/* rank_set.h - sets of ranks, a bit for each, in so many bytes. */
#ifndef WEFT_BASE_RANK_SET_H
#define WEFT_BASE_RANK_SET_H
#include <stdbool.h>
#include <stddef.h>

static inline size_t weft__set_bytes(int ranks)
{
    return ((size_t)ranks + 7) / 8;
}

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

/* Those of the other one too. */
static inline void weft__set_unite(unsigned char *set, const unsigned char *other, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) set[i] |= other[i];
}

/* The first one from `rank` on, below `ranks`; -1: none. */
static inline int weft__set_next(const unsigned char *set, int rank, int ranks)
{
    while (rank < ranks && !weft__set_has(set, rank)) rank += set[rank / 8] ? 1 : 8 - rank % 8;
    return rank < ranks ? rank : -1;
}

static inline int weft__set_count(const unsigned char *set, int ranks)
{
    int n = 0;
    for (int rank = weft__set_next(set, 0, ranks); rank >= 0; rank = weft__set_next(set, rank + 1, ranks))
        n++;
    return n;
}

static inline bool weft__set_is_empty(const unsigned char *set, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (set[i]) return false;
    return true;
}
#endif
