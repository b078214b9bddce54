/* inspect_job.c - reads all records of a run, and asks the system how its processes are. */
#include "inspect_job.h"
#include "clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MOST 65536

static void refuse(struct inspect_job *job)
{
    if (!job->refused++) snprintf(job->why, sizeof job->why, "%s", weft_last_error());
}

static void read_one(struct inspect_job *job, int folder, const char *name, size_t room)
{
    char run[INSPECT_RUN_BYTES];
    weft__snapshot *shot = &job->shots[job->count];
    int rank;
    if (job->count == room || !weft__record_name_read(name, run, &rank) || strcmp(run, job->run->run) != 0)
        return;
    if (weft__snapshot_open(folder, name, shot) != WEFT_OK)
        refuse(job);
    else
        job->count++;
}

static int by_rank(const void *a, const void *b)
{
    const weft__snapshot *left = a, *right = b;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static bool read_all(struct inspect_job *job)
{
    size_t room = job->run->records < RANKS_MOST ? job->run->records : RANKS_MOST;
    int fd = open(job->run->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    job->shots = calloc(room ? room : 1, sizeof *job->shots);
    job->witnesses = calloc(room ? room : 1, sizeof *job->witnesses);
    if (dir && job->shots && job->witnesses)
        for (struct dirent *entry; (entry = readdir(dir));) read_one(job, fd, entry->d_name, room);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    if (job->shots && job->count) qsort(job->shots, job->count, sizeof *job->shots, by_rank);
    return job->count;
}

bool inspect_job_read(const struct inspect_run *run, int64_t least_ns, struct inspect_job *job)
{
    int64_t now_ns = weft__now_ns();
    memset(job, 0, sizeof *job);
    job->run = run;
    if (!read_all(job)) {
        if (!*job->why) snprintf(job->why, sizeof job->why, "the records of job %s are gone", run->job);
        return false;
    }
    for (size_t i = 0; i < job->count; i++)
        job->witnesses[i] = (weft__witness){&job->shots[i], weft__process_of(&job->shots[i])};
    if (weft__blame_make(job->witnesses, job->count, now_ns, least_ns, &job->blame) == WEFT_OK) return true;
    snprintf(job->why, sizeof job->why, "%s", weft_last_error());
    return false;
}

void inspect_job_free(struct inspect_job *job)
{
    for (size_t i = 0; i < job->count; i++) weft__snapshot_close(&job->shots[i]);
    free(job->shots);
    free(job->witnesses);
    weft__blame_free(&job->blame);
    memset(job, 0, sizeof *job);
}
