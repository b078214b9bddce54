/* quota.c - see quota.h. */
#include "quota.h"
#include "clock.h"
#include "lock.h"
#include "reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "1024", or "none". */
static const char *limit_text(const struct rlimit *limit, char *text, size_t bytes)
{
    if (!limit || limit->rlim_cur == RLIM_INFINITY)
        snprintf(text, bytes, "none");
    else
        snprintf(text, bytes, "%llu", (unsigned long long)limit->rlim_cur);
    return text;
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

/* As much as is asked for is added, so that the program keeps what it had.  False: that is not possible. */
static bool raise_soft_limit(int n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max) return false;
    limit.rlim_cur =
        limit.rlim_max - limit.rlim_cur > (rlim_t)n ? limit.rlim_cur + (rlim_t)n : limit.rlim_max;
    return !setrlimit(RLIMIT_NOFILE, &limit);
}

/* How many more could be opened, n at most.  errno tells why not more.  One is opened, and the others are counted: a table
 * of descriptors that has to grow lets a process that has threads wait for all processors (synchronize_rcu), 10 ms and
 * more, which descriptors that are closed at once again are not worth. */
static int count_descriptors(int n)
{
    struct rlimit limit;
    int one = eventfd(0, EFD_CLOEXEC), counted = 0;
    if (one < 0) return 0;
    close(one);
    if (getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = RLIM_INFINITY;
    for (int fd = 0; counted < n && (rlim_t)fd < limit.rlim_cur; fd++)
        if (fcntl(fd, F_GETFD) < 0) counted++;
    errno = EMFILE;
    return counted;
}

weft_status weft__quota_descriptors(int n, const char *who)
{
    char limit[32];
    struct rlimit set;
    int left = count_descriptors(n);
    weft_status status = WEFT_OK;
    if (left < n && errno == EMFILE && raise_soft_limit(n)) left = count_descriptors(n);
    if (left < n && errno == EMFILE)
        status = weft__fail(WEFT_ERR_SYSTEM,
                            "%s needs %d more descriptors, and %d are left: the limit of this process "
                            "(RLIMIT_NOFILE, ulimit -n) is %s",
                            who, n, left,
                            limit_text(getrlimit(RLIMIT_NOFILE, &set) ? NULL : &set, limit, sizeof limit));
    else if (left < n)
        status = weft__fail_errno("%s needs %d more descriptors, and only %d can be had", who, n, left);
    return status;
}

/* ---- threads ----------------------------------------------------------------------------------------- */

typedef struct parked {
    pthread_t thread;
    _Atomic uint32_t id; /* the kernel's; 0: it has not begun */
    _Atomic uint32_t *go;
} parked;

static void *park(void *arg)
{
    parked *p = arg;
    atomic_store(&p->id, (uint32_t)syscall(SYS_gettid));
    while (!atomic_load(p->go)) weft__sleep_on(p->go, 0, WEFT__NEVER);
    return NULL;
}

static int start_parked(parked *p, int n, _Atomic uint32_t *go)
{
    sigset_t all, before;
    int started = 0, error = 0;
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < n) {
        p[started].go = go;
        error = pthread_create(&p[started].thread, NULL, park, &p[started]);
        if (error) break;
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return started;
}

/* A thread that has been joined may count for a moment longer: until the kernel does not know it. */
static void end_parked(parked *p, int n, _Atomic uint32_t *go)
{
    atomic_store(go, 1);
    weft__wake_all(go);
    for (int i = 0; i < n; i++) {
        pthread_join(p[i].thread, NULL);
        while (!syscall(SYS_tgkill, getpid(), (pid_t)atomic_load(&p[i].id), 0)) sched_yield();
    }
}

weft_status weft__quota_threads(int n, const char *who)
{
    _Atomic uint32_t go = 0;
    char limit[32];
    struct rlimit set;
    parked *p = weft__reserve_zeroed((size_t)n * sizeof *p);
    int started, reason;
    if (!p) return weft__fail_memory((size_t)n * sizeof *p, "the count of threads");
    started = start_parked(p, n, &go);
    reason = errno;
    end_parked(p, started, &go);
    weft__reserve_give(p);
    if (started == n) return WEFT_OK;
    return weft__fail(WEFT_ERR_SYSTEM,
                      "%s needs %d more threads, and %d can be started (%s): the limit of this user "
                      "(RLIMIT_NPROC, ulimit -u) is %s, and a container may have one of its own",
                      who, n, started, strerror(reason),
                      limit_text(getrlimit(RLIMIT_NPROC, &set) ? NULL : &set, limit, sizeof limit));
}
