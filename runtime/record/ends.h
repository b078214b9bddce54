/* ends.h - how ranks have ended, as their records and those of the others tell. */
#ifndef WEFT_RECORD_ENDS_H
#define WEFT_RECORD_ENDS_H
#include "conduct.h"

#define WEFT__ENDS(X)                                                  \
    X(LIVES, "lives")                                                  \
    X(LEFT, "left")         /* in order */                             \
    X(FAILED, "failed")     /* has left with a failure, or given up */ \
    X(DIED, "died")         /* others have seen that it was gone */    \
    X(VANISHED, "vanished") /* its process is gone, and nobody has lived to tell of it */

typedef enum weft__end {
#define WEFT__END_ID(id, name) WEFT__END_##id,
    WEFT__ENDS(WEFT__END_ID)
#undef WEFT__END_ID
        WEFT__END_KINDS
} weft__end;

const char *weft__end_name(weft__end end);

typedef struct weft__rank_ending {
    weft__end end;
    int64_t at_ns;      /* when that was known; VANISHED: when it was last heard of */
    int by;             /* rank that saw it first; -1: none, or itself */
    weft_status status; /* FAILED: with which */
    const char *why;    /* what a group that it broke tells of it; "": nothing.  Part of a snapshot */
} weft__rank_ending;

/* One for each witness. */
void weft__endings_of(const weft__witness *witnesses, size_t count, int64_t now_ns,
                      weft__rank_ending *endings);
/* The one that went first, of those that failed or died; of none of these, the one that vanished first; -1: none has. */
int weft__first_to_go(const weft__rank_ending *endings, size_t count);
/* The last moment before it began to go wrong: before the first failure, death or broken group of those that the job has
 * not outlived by a minute.  Where nothing of the kind is recorded, the last moment that is. */
int64_t weft__last_well(const weft__witness *witnesses, const weft__rank_ending *endings, size_t count,
                        int64_t now_ns);
#endif
