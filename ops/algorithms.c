/* algorithms.c - the table of candidates.h as rows.  Never fails. */
#include "algorithms.h"

#define LIMIT(id)                                              \
    {                                                          \
        (weft__reach) WEFT__REACH_OF_##id, WEFT__BYTES_OF_##id \
    }
#define ROUNDS(arg, kind, name, limit, ordered) \
    {WEFT__OP_##kind, WEFT__ROUNDS, name, NULL, LIMIT(limit), LIMIT(limit), LIMIT(ordered)},
#define MESSAGES(arg, kind, name, build, limit, across, ordered) \
    {WEFT__OP_##kind, WEFT__MESSAGES, name, weft__build_##build, LIMIT(limit), LIMIT(across), LIMIT(ordered)},

const weft__candidate weft__candidates[WEFT__CANDIDATES] = {WEFT__CANDIDATE_LIST(ROUNDS, MESSAGES, )};

weft__kind weft__family(weft__kind kind)
{
    return weft__kind_traits(kind) & WEFT__GATHERED ? WEFT__OP_ALL_GATHER : kind;
}
