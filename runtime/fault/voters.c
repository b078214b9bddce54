/* voters.c - see voters.h. */
#include "voters.h"
#include "rank_set.h"

int weft__voters_places(const weft__voters *who)
{
    return who->ranks + (who->quorum == WEFT__QUORUM_WITNESS);
}

/* Whose vote decides between two halves. */
static int breaks_ties(const weft__voters *who, int lowest)
{
    return who->quorum == WEFT__QUORUM_WITNESS ? who->ranks : lowest;
}

bool weft__voters_majority(const weft__voters *who, const unsigned char *set)
{
    int all = 0, here = 0, lowest = -1;
    for (int i = 0; i < who->ranks; i++) {
        if (!weft__set_has(who->members, i)) continue;
        if (lowest < 0) lowest = i;
        all++;
        here += weft__set_has(set, i);
    }
    return 2 * here > all || (2 * here == all && weft__set_has(set, breaks_ties(who, lowest)));
}

bool weft__voters_by_proof(const weft__voters *who, const unsigned char *set)
{
    for (size_t i = 0; i < who->bytes; i++)
        if (who->members[i] & ~(set[i] | who->dead[i])) return false;
    return true;
}

bool weft__voters_quorum(const weft__voters *who, const unsigned char *set)
{
    return who->quorum == WEFT__QUORUM_ANY || weft__voters_majority(who, set) ||
           weft__voters_by_proof(who, set);
}

bool weft__voters_half(const weft__voters *who, unsigned char *set)
{
    bool half;
    if (who->quorum != WEFT__QUORUM_WITNESS || weft__set_has(set, who->ranks) ||
        weft__voters_quorum(who, set))
        return false;
    weft__set_add(set, who->ranks);
    half = weft__voters_quorum(who, set);
    weft__set_remove(set, who->ranks);
    return half;
}
