/* quorum.h - WEFT_QUORUM: whose votes leave out of the job who is only presumed dead (fault/views.md, Quorums). */
#ifndef WEFT_RUNTIME_QUORUM_H
#define WEFT_RUNTIME_QUORUM_H
#include <weft/weft.h>

typedef enum weft__quorum {
    WEFT__QUORUM_MAJORITY, /* of the ranks; of exactly half, the half with the lowest one */
    WEFT__QUORUM_ANY,      /* each rank's own; nobody is asked */
    WEFT__QUORUM_WITNESS,  /* likewise a majority; of exactly half, the half that the witness votes with */
    WEFT__QUORUMS
} weft__quorum;

/* As the variable says it. */
const char *weft__quorum_name(weft__quorum quorum);
/* From the variable's text. */
weft_status weft__quorum_read(const char *text, weft__quorum *quorum);
#endif
