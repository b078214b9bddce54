/* other_library.c - jobs in which some ranks run the library's other build: beside the fast one the plain one
 * (runtime/base/plain.h), or the other way round.
 *
 * JOB_OTHER_LIBRARY names the folder where it lies.  Every second rank then starts this program once more with
 * that folder first on its loader's path, and finds its way to the job whose rank it is by counting the jobs
 * that the program has run before.  What ranks share with the parent is a file of no name. */
#include "job_shared.h"
#include "skip.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char **arguments; /* of this program */
static int jobs;         /* run or left out so far */
static struct {
    int rank, job, fd; /* what this process was started for; job 0: it was not */
} started;

const char *job__other_library(void)
{
    const char *folder = getenv("JOB_OTHER_LIBRARY");
    return folder && *folder ? folder : NULL;
}

bool job__runs_other(int rank)
{
    return job__other_library() && rank % 2;
}

bool job_all_fast(void)
{
#ifdef WEFT_PLAIN
    return false;
#else
    return !job__other_library();
#endif
}

void job__other_begin(char **argv)
{
    const char *what = getenv("JOB_OTHER_RANK");
    arguments = argv;
    if (!what) return;
    if (sscanf(what, "%d:%d:%d", &started.rank, &started.job, &started.fd) != 3) {
        fprintf(stderr, "JOB_OTHER_RANK is \"%s\": expected three numbers\n", what);
        exit(2);
    }
    unsetenv("JOB_OTHER_RANK");
    if (!freopen("/dev/null", "w", stdout)) exit(2); /* the parent tells how its tests go */
}

/* NULL: no memory. */
job_shared *job__shared_new(int *fd)
{
    void *shared;
    *fd = job__other_library() ? memfd_create("job", 0) : -1;
    if (*fd >= 0 && ftruncate(*fd, sizeof(job_shared))) return NULL;
    shared = mmap(NULL, sizeof(job_shared), PROT_READ | PROT_WRITE,
                  *fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, *fd, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

/* Is it that library which the program has found? */
static bool has_other_library(void)
{
    Dl_info found;
    const char *folder = job__other_library();
    return folder && dladdr(dlsym(RTLD_DEFAULT, "weft_version"), &found) && found.dli_fname &&
           !strncmp(found.dli_fname, folder, strlen(folder));
}

bool job__other_job(const job_plan *plan)
{
    job_shared *shared;
    jobs++;
    if (!started.job) return false;
    if (started.job != jobs) return true;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, started.fd, 0);
    if (shared == MAP_FAILED || !has_other_library()) {
        fprintf(stderr, "rank %d does not run the library in %s\n", started.rank, job__other_library());
        exit(2);
    }
    job__run_process(plan, shared, started.rank);
    exit(0);
}

_Noreturn void job__become_other(int rank, int fd)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char text[4096];
    snprintf(text, sizeof text, "%s:%s", job__other_library(), before ? before : "");
    setenv("LD_LIBRARY_PATH", text, 1);
    snprintf(text, sizeof text, "%d:%d:%d", rank, jobs, fd);
    setenv("JOB_OTHER_RANK", text, 1);
    execv("/proc/self/exe", arguments);
    perror("execv");
    exit(2);
}
