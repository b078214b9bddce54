/* survival.h - what ranks do that have lost each other, or fear so: they shrink until a group goes on or they are told why it
 * does not; and what must hold then: all who get a group have the same one, at most one part goes on. */
#ifndef TESTS_SUPPORT_SURVIVAL_H
#define TESTS_SUPPORT_SURVIVAL_H
#include "job.h"

/* Results of each rank. */
enum { SURVIVAL_MADE, SURVIVAL_DONE, SURVIVAL_STATUS, SURVIVAL_GROUPS, SURVIVAL_GROUPS_MOST = 8 };
enum {
    SURVIVAL_RESULTS = SURVIVAL_GROUPS + SURVIVAL_GROUPS_MOST
}; /* what a test has of its own stands behind them */

enum {
    SURVIVAL_SHRINK_MS = 2000 * JOB_SLOWER, /* of one try */
    SURVIVAL_SUM_MS = 1000 * JOB_SLOWER,
    SURVIVAL_END_MS = 30000 * JOB_SLOWER /* by then each has an end */
};

/* Who is in which part of a job that falls apart. */
typedef struct survival_parts {
    int size, of[JOB_RANKS_MAX];
    bool heard; /* the one that does not go on may hear of that from the other, which does not hear it */
} survival_parts;

/* `sizes` has a digit for each part: how many ranks it has.  By the same words on all ranks it is the same. */
survival_parts survival_draw(const char *sizes, int ranks, uint64_t *words);

int64_t survival_members(weft_group *group); /* a bit for each rank of the world */

/* Within SURVIVAL_SHRINK_MS; `text` is the request's. */
weft_status survival_shrink(weft_group *group, weft_group **survivors, char *text, size_t bytes);

/* Until a group works after `calm_ns` (WEFT_OK), or the last shrink says that this rank does not go on; by all ranks. */
weft_status survival_go_on(job_rank *me, int64_t calm_ns, char *text, size_t bytes);

/* When all have gone on or ended. */
void survival_check_groups(job_rank *me);
/* Parts that do not find each other again: the one of more than half goes on, or of half with rank 0. */
void survival_check_parts(job_rank *me, const survival_parts *parts, const char *text);
/* One of two halves goes on, whichever it is. */
void survival_check_halves(job_rank *me, const survival_parts *parts, const char *text);
#endif
