/* signatures.h - do all members mean the same collective?  Engine held. */
#ifndef WEFT_RUNTIME_SIGNATURES_H
#define WEFT_RUNTIME_SIGNATURES_H
#include "group.h"
#include "protocol.h"

/* Compares with what came before this rank began that collective: messages of it, and what is told afterwards (signing.h).
 * False: it means something else, and the group has broken over it; then the request may be over and gone. */
bool weft__early_judge(weft_request *req);
/* What this rank means by its collective of that number.  NULL: it has not begun here, or it is over: then all members
 * mean the same, or that is compared afterwards. */
const weft__signature *weft__signature_meant(const weft_group *group, uint64_t number);
/* The sentence for a disagreement between this rank and a member; breaks the group. */
void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs) WEFT__COLD;

extern const weft__protocol weft__signatures_protocol;
#endif
