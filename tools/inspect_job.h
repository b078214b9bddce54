/* inspect_job.h - one run of a job as it is at one moment: the records of its ranks, its processes, and what follows. */
#ifndef WEFT_INSPECT_JOB_H
#define WEFT_INSPECT_JOB_H
#include "blame.h"
#include "inspect_jobs.h"

struct inspect_job {
    const struct inspect_run *run;
    weft__snapshot *shots; /* by rank, as the blame's nodes */
    weft__witness *witnesses;
    size_t count;
    size_t refused;              /* files that are no records, or cannot be read */
    char why[INSPECT_WHY_BYTES]; /* the first of these */
    weft__blame blame;
};

/* least_ns: waits that are shorter are none.  False: none of its records can be read, or there is no memory; why says
 * so. */
bool inspect_job_read(const struct inspect_run *run, int64_t least_ns, struct inspect_job *job);
void inspect_job_free(struct inspect_job *job);
static inline const weft__snapshot *
inspect_job_any(const struct inspect_job *job) /* for what all have alike */
{
    return &job->shots[0];
}
#endif
