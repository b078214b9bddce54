/* run_gather.h - one file of what the ranks of a job over hosts did last, made of those that each host has written.
 *
 * An agent tells where its host's file is, and then all that stands in it (RUN_DUMP, RUN_DUMP_TEXT).  What has not
 * come whole, or is larger than RUN_PART_MOST, is left where it is. */
#ifndef WEFT_RUN_GATHER_H
#define WEFT_RUN_GATHER_H
#include "run_clock.h"

#define RUN_PART_MOST ((size_t)64 << 20)

struct run_part { /* one host's */
    const char *host;
    int first, ranks;       /* of the job's */
    char *file;             /* its path there; NULL: none was written */
    struct run_buffer text; /* what has come of it */
    bool cut, whole;        /* there was no room for it; it is all here */
    struct run_clock clock;
};

bool run_part_begin(struct run_part *part, const char *file); /* false: it has begun */
/* A piece of it; n 0: that was all.  False: it has not begun, or was over. */
bool run_part_add(struct run_part *part, const void *bytes, size_t n);
void run_part_free(struct run_part *part);

/* Writes those that are whole to one file, in the folder that run_dumps_choose has chosen; path: its name.  False: none
 * is, and path is "", or it cannot be written, and path is why. */
bool run_gather_write(const struct run_part *const *parts, int n, char *path, size_t bytes);
#endif
