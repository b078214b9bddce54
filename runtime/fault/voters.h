/* voters.h - who votes on the view after this one, and which of their votes decide (views.md, Quorums).
 *
 * A set has a bit for each rank, and behind them one for the witness where there is one. */
#ifndef WEFT_FAULT_VOTERS_H
#define WEFT_FAULT_VOTERS_H
#include "quorum.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct weft__voters {
    int ranks;
    size_t bytes; /* of a set */
    weft__quorum quorum;
    unsigned char *members; /* of the view */
    unsigned char *dead;    /* certainly */
} weft__voters;

/* Places for votes: the ranks, and the witness. */
int weft__voters_places(const weft__voters *who);
/* More than half of the members; of exactly half, the half that has the vote that breaks ties. */
bool weft__voters_majority(const weft__voters *who, const unsigned char *set);
/* All members that are not certainly dead. */
bool weft__voters_by_proof(const weft__voters *who, const unsigned char *set);
/* Either; with WEFT__QUORUM_ANY whatever set. */
bool weft__voters_quorum(const weft__voters *who, const unsigned char *set);
/* All that it lacks of a quorum is the witness's vote.  The set is left as it was. */
bool weft__voters_half(const weft__voters *who, unsigned char *set);
#endif
