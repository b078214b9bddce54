/* members.c - see members.h.  A slot that is taken is passed over for the next one; half of them stay free. */
#include "members.h"

#include <stdlib.h>

/* At least twice as many as members. */
static unsigned bits_for(int size)
{
    unsigned bits = 1;
    while ((int64_t)1 << bits < 2 * (int64_t)size) bits++;
    return bits;
}

bool weft__members_reserve(weft__members *members, int most)
{
    *members = (weft__members){.slots = NULL};
    if (most <= WEFT__MEMBERS_FEW) return true;
    members->slots = malloc(sizeof *members->slots << bits_for(most));
    return members->slots != NULL;
}

void weft__members_free(weft__members *members)
{
    free(members->slots);
    *members = (weft__members){.slots = NULL};
}

static bool each_is_its_own(const int *world, int size)
{
    for (int i = 0; i < size; i++)
        if (world[i] != i) return false;
    return true;
}

/* They may have become fewer. */
static void shorten(weft__members *members, int size)
{
    int *slots;
    members->bits = bits_for(size);
    slots = realloc(members->slots, sizeof *slots << members->bits);
    if (slots) members->slots = slots;
}

void weft__members_fill(weft__members *members, const int *world, int size)
{
    uint32_t mask;
    if (!members->slots) return;
    if (size <= WEFT__MEMBERS_FEW || each_is_its_own(world, size)) {
        weft__members_free(members);
        return;
    }
    shorten(members, size);
    mask = (UINT32_C(1) << members->bits) - 1;
    for (uint32_t i = 0; i <= mask; i++) members->slots[i] = -1;
    for (int i = 0; i < size; i++) {
        uint32_t at = weft__members_home(members, world[i]);
        while (members->slots[at] >= 0) at = (at + 1) & mask;
        members->slots[at] = i;
    }
}

int weft__members_find(const weft__members *members, const int *world, int size, int world_rank)
{
    const uint32_t mask = (UINT32_C(1) << members->bits) - 1;
    if (world_rank >= 0 && world_rank < size && world[world_rank] == world_rank) return world_rank;
    if (!members->bits) {
        for (int i = 0; i < size; i++)
            if (world[i] == world_rank) return i;
        return -1;
    }
    for (uint32_t at = weft__members_home(members, world_rank);; at = (at + 1) & mask) {
        const int i = members->slots[at];
        if (i < 0 || world[i] == world_rank) return i;
    }
}
