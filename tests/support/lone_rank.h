/* lone_rank.h - a rank whose job is not there, for targets that play the other ranks: rank 3 of 5, which
 * shares a segment with 1.  Its threads do not run and its wires lead nowhere, so the same input does the
 * same thing every time. */
#ifndef WEFT_TEST_LONE_RANK_H
#define WEFT_TEST_LONE_RANK_H
#include "context.h"

enum { LONE_WORLD = 5, LONE_ME = 3, LONE_NEAR = 1 };

/* Hooks; NULL: none. */
typedef struct lone_wires {
    void (*sent)(const weft__outgoing *out); /* to anybody; it has gone when this returns */
    void (*turn)(void);                      /* in each turn of the engine, which is held */
} lone_wires;

/* Its context is ready, without groups; one at a time.  Aborts where that cannot be. */
weft_context *lone_rank_open(lone_wires wires);
weft__segment *lone_rank_near(void); /* the segment of the rank that shares memory with it; stays for ever */
/* READY, and the context's. */
weft_group *lone_rank_group(weft_context *ctx, const int *world, int size, const char *label, uint64_t id);
/* Words for other ranks that are queued: takes them, and tells how many there were. */
int lone_rank_take_queued(weft_context *ctx);
/* What still runs fails first; handles of requests have been released before. */
void lone_rank_close(weft_context *ctx);
#endif
