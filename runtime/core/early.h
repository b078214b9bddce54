/* early.h - messages that came before this rank could use them: about a group that is not ready here yet, or
 * has not begun here what they are about.  They wait here under their group's id until their protocol takes
 * them, or the group is gone.  Engine held throughout.
 *
 * What all of them take together is limited: then the oldest make room.  What was for a group that is over
 * here is not kept.  A message that is lost although its group is still to come is told twice: in the log,
 * and by that group, which breaks as soon as it is ready here, with a sentence that says so. */
#ifndef WEFT_RUNTIME_EARLY_H
#define WEFT_RUNTIME_EARLY_H
#include "list.h"

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__EARLY_BYTES_MOST (16u << 20) /* of all that wait, with their records */
#define WEFT__EARLY_LOST_MOST  256         /* groups that are known to have lost a message */
#define WEFT__EARLY_OVER_MOST  1024        /* groups that are known to be over here */

typedef struct weft__early_messages {
    weft__list waiting; /* in order of coming */
    size_t bytes;
    uint64_t lost[WEFT__EARLY_LOST_MOST]; /* ids of groups, the oldest make room */
    unsigned losses;
    uint64_t over[WEFT__EARLY_OVER_MOST]; /* likewise */
    unsigned overs;
} weft__early_messages;

void weft__early_keep(weft_context *ctx, uint64_t group, int type, int peer, const void *bytes,
                      size_t length);
/* Offers every message of that type for that group, in order of coming; those that are taken (true) are over.
 * It may be called again from within `take`. */
void weft__early_offer(weft_context *ctx, uint64_t group, int type,
                       bool (*take)(void *arg, int peer, const void *bytes), void *arg);
/* The group is over here: nothing that comes for it is of use any more. */
void weft__early_forget(weft_context *ctx, uint64_t group);
bool weft__early_has_lost(const weft_context *ctx, uint64_t group);
void weft__early_open(weft_context *ctx);
void weft__early_close(weft_context *ctx);
#endif
