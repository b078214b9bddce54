/* signatures.h - do all members mean the same collective?  Engine held. */
#ifndef WEFT_RUNTIME_SIGNATURES_H
#define WEFT_RUNTIME_SIGNATURES_H
#include "group.h"
#include "protocol.h"

/* Compares with what came before this rank began that collective: messages of it, and what is told afterwards (signing.h).
 * False: it means something else, and the group has broken over it; then the request may be over and gone. */
bool weft__early_judge(weft_request *req);

extern const weft__protocol weft__signatures_protocol;
#endif
