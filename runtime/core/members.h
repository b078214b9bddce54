/* members.h - which member of a group a world rank is, found by a hash and not by a look at all of them.
 *
 * Most groups are small, or all ranks of the job: few members are looked through, and where each is its own number,
 * nothing is kept.  The rest has two to four slots a member, filled once, when all members are known. */
#ifndef WEFT_RUNTIME_MEMBERS_H
#define WEFT_RUNTIME_MEMBERS_H
#include <stdbool.h>
#include <stdint.h>

#define WEFT__MEMBERS_FEW 8 /* up to so many are looked through */

typedef struct weft__members {
    int *slots;    /* each a member's number, or -1; NULL: there are few, or each is its own */
    unsigned bits; /* log2 of the slots; 0: not filled */
} weft__members;

/* Room for so many; false: no memory. */
bool weft__members_reserve(weft__members *members, int most);
void weft__members_free(weft__members *members);
/* These are all of them, at most as many as there is room for; each has a rank of its own. */
void weft__members_fill(weft__members *members, const int *world, int size);
/* None of them would be looked for among all the others. */
static inline bool weft__members_known(const weft__members *members)
{
    return !members->slots || members->bits;
}
/* -1: none has that rank.  Before they are filled all are looked through. */
int weft__members_find(const weft__members *members, const int *world, int size, int world_rank);
/* Where to look for it first.  Members mostly lie a fixed way apart, as in a grid, and a mere product would put those of
 * some grids together. */
static inline uint32_t weft__members_home(const weft__members *members, int world_rank)
{
    uint32_t word = (uint32_t)world_rank;
    word = (word ^ word >> 16) * 0x7feb352du;
    word = (word ^ word >> 15) * 0x846ca68bu;
    return (word ^ word >> 16) >> (32 - members->bits);
}
#endif
