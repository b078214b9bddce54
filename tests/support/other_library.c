/* other_library.c - jobs whose ranks are not forked but start this program once more: those of the library's other
 * build, beside the fast one the plain one (runtime/base/plain.h) or the other way round, and those of an mpirun.
 *
 * JOB_OTHER_LIBRARY names the folder where that build lies.  Every second rank then starts this program once more
 * with that folder first on its loader's path.  JOB_MPIRUN is the beginning of a command, all up to the number of
 * ranks, which starts all of them; with JOB_MPIRUN_SURVIVES set it lets the others live when one is killed.  A rank
 * finds its way to its job by counting the jobs that the program has run before.  What ranks share with the parent is a
 * file of no name. */
#include "job_shared.h"
#include "skip.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char **arguments; /* of this program */
static int jobs;         /* run or left out so far */
static struct {
    int rank, job;   /* what this process was started for; job 0: it was not.  rank -1: mpirun's */
    char shared[64]; /* where the file of no name can be opened */
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

bool job__by_mpirun(void)
{
    const char *command = getenv("JOB_MPIRUN");
    return command && *command;
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
    if (sscanf(what, "%d:%d:%63s", &started.rank, &started.job, started.shared) != 3) {
        fprintf(stderr, "JOB_OTHER_RANK is \"%s\": expected two numbers and a file\n", what);
        exit(2);
    }
    unsetenv("JOB_OTHER_RANK");
    if (!freopen("/dev/null", "w", stdout)) exit(2); /* the parent tells how its tests go */
}

/* NULL: no memory. */
job_shared *job__shared_new(int *fd)
{
    void *shared;
    *fd = job__other_library() || job__by_mpirun() ? memfd_create("job", MFD_CLOEXEC) : -1;
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

/* Open MPI's mpirun says it in one way, MPICH's in the other. */
static void ask_mpirun(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    if (!rank || setenv("RANK", rank, 1)) {
        fprintf(stderr, "mpirun says no rank\n");
        exit(2);
    }
    started.rank = atoi(rank);
}

bool job__other_job(const job_plan *plan)
{
    job_shared *shared;
    int fd;
    jobs++;
    if (!started.job) return false;
    if (started.job != jobs) return true;
    if (started.rank < 0)
        ask_mpirun();
    else if (!has_other_library()) {
        fprintf(stderr, "rank %d does not run the library in %s\n", started.rank, job__other_library());
        exit(2);
    }
    fd = open(started.shared, O_RDWR | O_CLOEXEC);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || shared == MAP_FAILED) {
        fprintf(stderr, "rank %d cannot open what ranks share, %s\n", started.rank, started.shared);
        exit(2);
    }
    close(fd);
    atomic_store(&shared->rank[started.rank].pid, (int)getpid());
    job__run_process(plan, shared, started.rank);
    exit(0);
}

/* What the program is to find when it starts once more; a child of the one that runs the tests calls this. */
static void leave_word(int rank, int fd)
{
    char text[128];
    snprintf(text, sizeof text, "%d:%d:/proc/%d/fd/%d", rank, jobs, (int)getppid(), fd);
    setenv("JOB_OTHER_RANK", text, 1);
}

_Noreturn void job__become_mpirun(int ranks, int fd)
{
    char *words[64], number[16], self[4096];
    const char *mpirun = getenv("JOB_MPIRUN");
    char *command = mpirun ? strdup(mpirun) : NULL;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    size_t n = 0;
    if (!command) _exit(1);
    self[length < 0 ? 0 : length] = '\0';
    snprintf(number, sizeof number, "%d", ranks);
    for (char *word = strtok(command, " "); word && n < 32; word = strtok(NULL, " ")) words[n++] = word;
    words[n++] = number;
    words[n++] = self;
    for (char **more = arguments + 1; *more && n < 63; more++) words[n++] = *more;
    words[n] = NULL;
    leave_word(-1, fd);
    execvp(words[0], words);
    perror(words[0]);
    exit(2);
}

_Noreturn void job__become_other(int rank, int fd)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char text[4096];
    snprintf(text, sizeof text, "%s:%s", job__other_library(), before ? before : "");
    setenv("LD_LIBRARY_PATH", text, 1);
    leave_word(rank, fd);
    execv("/proc/self/exe", arguments);
    perror("execv");
    exit(2);
}
