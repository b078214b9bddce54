/* signatures.h - do all members mean the same collective?  Engine held. */
#ifndef WEFT_RUNTIME_SIGNATURES_H
#define WEFT_RUNTIME_SIGNATURES_H
#include "group.h"
#include "protocol.h"

/* Compares with messages that came before this rank started that collective. */
void weft__early_judge(weft_request *req);
/* The sentence for a disagreement between this rank and a member; breaks the group. */
void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs) WEFT__COLD;

extern const weft__protocol weft__signatures_protocol;
#endif
