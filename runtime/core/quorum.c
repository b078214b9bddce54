/* quorum.c - see quorum.h. */
#include "quorum.h"
#include "status.h"

#include <string.h>

static const char *const names[WEFT__QUORUMS] = {
    [WEFT__QUORUM_MAJORITY] = "majority", [WEFT__QUORUM_ANY] = "any", [WEFT__QUORUM_WITNESS] = "witness"};

const char *weft__quorum_name(weft__quorum quorum)
{
    return (unsigned)quorum < WEFT__QUORUMS ? names[quorum] : "?"; /* another rank has told it */
}

weft_status weft__quorum_read(const char *text, weft__quorum *quorum)
{
    for (int i = 0; i < WEFT__QUORUMS; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *quorum = (weft__quorum)i;
        return WEFT_OK;
    }
    return weft__fail(WEFT_ERR_ARGUMENT, "WEFT_QUORUM is \"%s\": expected majority, witness or any", text);
}
