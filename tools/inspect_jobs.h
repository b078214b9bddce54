/* inspect_jobs.h - where this user's jobs of this host have left records: in their directories, and in those of the same
 * name in memory. */
#ifndef WEFT_INSPECT_JOBS_H
#define WEFT_INSPECT_JOBS_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INSPECT_JOB_BYTES = 256, INSPECT_RUN_BYTES = 17, INSPECT_WHY_BYTES = 512 };

/* One run of a job: the records of its ranks in one folder. */
struct inspect_run {
    char folder[PATH_MAX], job[INSPECT_JOB_BYTES], run[INSPECT_RUN_BYTES];
    size_t records;
    bool lives;       /* a process of it does */
    int64_t begun_ns; /* on CLOCK_REALTIME: when its first record was laid out, else when the file changed */
};

struct inspect_runs {
    struct inspect_run *runs; /* those that live first, then the youngest */
    size_t count, room;
};

/* What: the name of a job, the beginning of a run's number, the number of a process, the path of a folder; NULL: all
 * of this user's.  False: why has one sentence; also where nothing is found of what was asked for. */
bool inspect_jobs_find(const char *what, struct inspect_runs *found, char why[INSPECT_WHY_BYTES]);
void inspect_jobs_free(struct inspect_runs *found);
#endif
