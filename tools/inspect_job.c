/* inspect_job.c - reads all records of a run, and asks the system how its processes are. */
#include "inspect_job.h"
#include "clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Lines that are none are left out, and so are those behind the last that there is room for. */
static void read_exits(struct inspect_job *job)
{
    char name[64], line[128];
    int folder = open(job->run->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
    struct stat about;
    FILE *from;
    if (folder < 0) return;
    snprintf(name, sizeof name, WEFT__RECORD_NAME "%s" WEFT__RECORD_EXITS, job->run->run);
    fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(folder);
    from = fd >= 0 && !fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_uid == geteuid()
               ? fdopen(fd, "r")
               : NULL;
    job->exits = from ? calloc(RANKS_MOST, sizeof *job->exits) : NULL;
    while (job->exits && job->exit_count < RANKS_MOST && fgets(line, sizeof line, from)) {
        struct inspect_exit *e = &job->exits[job->exit_count];
        int asked;
        if (sscanf(line, "%" SCNd64 " %d %d %d", &e->pid, &e->code, &e->signal, &asked) != 4) continue;
        e->asked = asked;
        job->exit_count++;
    }
    if (from)
        fclose(from);
    else if (fd >= 0)
        close(fd);
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
    read_exits(job);
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
    free(job->exits);
    weft__blame_free(&job->blame);
    memset(job, 0, sizeof *job);
}
