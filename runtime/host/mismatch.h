/* mismatch.h - what this rank means by its collectives, and the end of a group whose members mean different ones.
 * Engine held. */
#ifndef WEFT_RUNTIME_MISMATCH_H
#define WEFT_RUNTIME_MISMATCH_H
#include "group.h"

/* What this rank means by its collective of that number.  NULL: it has not begun here, or it is over: then all members
 * mean the same, or that is compared afterwards. */
const weft__signature *weft__signature_meant(const weft_group *group, uint64_t number);
/* The sentence for a disagreement between this rank and a member; breaks the group. */
void weft__group_mismatch(weft_group *group, uint64_t number, weft__signature mine, int member,
                          weft__signature theirs) WEFT__COLD;
#endif
