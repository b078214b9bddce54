/* test_priority.c - the thread that listens to other hosts goes before others where that is allowed; where it is not, it has
 * more time, and the log says so. */
#include "job.h"
#include "skip.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

enum { RAISED = -10, RANKS = 4, HOSTS = 2 };

static const char sentence[] = "the watchdog may not go before other threads here";

/* The nice value of this process' thread of that name; 100: there is none. */
static int nice_of(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 100;
    CHECK(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], comm[32] = "";
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "r");
        if (!file) continue;
        if (!fgets(comm, sizeof comm, file)) comm[0] = 0;
        fclose(file);
        comm[strcspn(comm, "\n")] = 0;
        if (!strcmp(comm, name)) found = getpriority(PRIO_PROCESS, (id_t)strtoul(task->d_name, NULL, 10));
    }
    closedir(tasks);
    return found;
}

static void give_up_privileges(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    const struct rlimit no_nice = {0, 0};
    CHECK_INT(setrlimit(RLIMIT_NICE, &no_nice), 0);
    CHECK_INT(syscall(SYS_capset, &header, none), 0);
}

static void log_into(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO && !close(fd));
}

static int lines_with(const char *path, const char *part)
{
    char line[1024];
    int n = 0;
    FILE *log = fopen(path, "r");
    CHECK(log);
    while (fgets(line, sizeof line, log)) n += strstr(line, part) != NULL;
    fclose(log);
    return n;
}

static void listen(job_rank *me)
{
    const bool plain = me->arg != NULL;
    const int wanted = plain ? getpriority(PRIO_PROCESS, 0) : RAISED;
    char path[64], host[] = {(char)('a' + me->rank * HOSTS / RANKS), 0};
    snprintf(path, sizeof path, "/tmp/weft-priority-%d.log", (int)getppid());
    job_setenv(me, "WEFT_TRANSPORT", "shm,tcp");
    job_setenv(me, "WEFT_HOSTID", host);
    job_setenv(me, "WEFT_LOG", "2");
    if (plain) give_up_privileges();
    log_into(path);
    job_join(me);
    job_sum_works(me->world);
    for (int i = 0; i < JOB_WAIT_MS && nice_of("weft-watchdog") != wanted; i++) job_sleep_ms(1);
    CHECK_INT(nice_of("weft-watchdog"), wanted);
    job_sleep_ms(300 * JOB_SLOWER); /* it has listened once */
    for (int i = 0; plain && i < JOB_WAIT_MS && lines_with(path, sentence) < HOSTS; i++) job_sleep_ms(1);
    job_leave(me);
    job_meet(me);
    if (me->rank) return;
    CHECK_INT(lines_with(path, sentence), plain ? HOSTS : 0);
    unlink(path);
}

static void allowed(void **state)
{
    errno = 0;
    if (setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - 1))
        SKIP("nice may not be raised here: %s", strerror(errno));
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1);
    job_test(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {"where it is allowed", allowed, NULL, NULL,
         &(job_plan){.ranks = RANKS, .body = listen, .bare = true, .processes = true}},
        JOB_TEST("where it is not", .ranks = RANKS, .body = listen, .bare = true, .processes = true,
                 .arg = "plain"),
    };
    return JOB_MAIN(tests, argc, argv);
}
