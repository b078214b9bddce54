/* inspect_job.h - one run of a job as it is at one moment: the records of its ranks, its processes, and what follows. */
#ifndef WEFT_INSPECT_JOB_H
#define WEFT_INSPECT_JOB_H
#include "blame.h"
#include "inspect_jobs.h"

/* How a process has ended, as weft-run has seen it. */
struct inspect_exit {
    int64_t pid;
    int code, signal; /* signal: 0, it has exited */
    bool asked;       /* weft-run had asked it to end */
};

struct inspect_job {
    const struct inspect_run *run;
    weft__snapshot *shots; /* by rank, as the blame's nodes */
    weft__witness *witnesses;
    size_t count;
    size_t refused;              /* files that are no records, or cannot be read */
    char why[INSPECT_WHY_BYTES]; /* the first of these */
    weft__blame blame;
    struct inspect_exit *exits;
    size_t exit_count;
};

/* least_ns: waits that are shorter are none.  False: none of its records can be read, or there is no memory; why says
 * so. */
bool inspect_job_read(const struct inspect_run *run, int64_t least_ns, struct inspect_job *job);
void inspect_job_free(struct inspect_job *job);
static inline const struct inspect_exit *inspect_job_exit(const struct inspect_job *job, int64_t pid)
{
    for (size_t i = 0; i < job->exit_count; i++)
        if (job->exits[i].pid == pid) return &job->exits[i];
    return NULL; /* not known */
}
static inline const weft__snapshot *
inspect_job_any(const struct inspect_job *job) /* for what all have alike */
{
    return &job->shots[0];
}
#endif
