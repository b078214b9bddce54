/* heartbeat_asked.h - this rank is asked whether it hears another's host: it knocks there, and says what came of it. */
#ifndef WEFT_FAULT_HEARTBEAT_ASKED_H
#define WEFT_FAULT_HEARTBEAT_ASKED_H
#include "context.h"
#include "hearing.h"
#include "notice.h"

#define WEFT__HEARTBEAT_ASKERS 16 /* at one time; of more nobody gets an answer */

typedef struct weft__heartbeat_asker {
    weft_context *ctx; /* NULL: the place is free */
    int rank, subject;
    uint64_t question;
    int64_t until_ns;
    weft__knock knock;
} weft__heartbeat_asker;

typedef struct weft__heartbeat_askers {
    weft__heartbeat_asker of[WEFT__HEARTBEAT_ASKERS];
} weft__heartbeat_askers;

/* Returns when to check.  Engine held, as in the next one. */
int64_t weft__heartbeat_is_asked(weft__heartbeat_askers *askers, weft_context *ctx, int from,
                                 const weft__notice *question, int64_t now_ns);
int64_t weft__heartbeat_asked_check(weft__heartbeat_askers *askers, weft_context *ctx, int64_t now_ns);
void weft__heartbeat_asked_close(weft__heartbeat_askers *askers);
#endif
