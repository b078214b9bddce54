/* at_exit.c - lets what ends a communicator come to its end before the process is gone.
 *
 * CUDA and NCCL take themselves down when the process exits, and a thread that is inside of them then, or comes to them
 * afterwards, ends it by a signal.  What held up an abort, a stream of the program's say, may have gone on by now; then it
 * needs half a second, which it gets here: this handler is registered after CUDA's, and so runs before it.  A communicator
 * that is let go of ends when all ranks have let go of it, and is aborted now.
 * Fails: an abort that is still held up; the process ends as CUDA lets it. */
#include "at_exit.h"

#include "communicator.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 1000000 /* between two looks at the aborts */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft__list modules = {&modules, &modules}; /* open ones; under lock */
static pid_t process;

static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;
static int late_aborts; /* under way; under late_lock */
static bool over;       /* CUDA and NCCL go: none begins any more; likewise */

/* Is one being aborted, or buried? */
static bool ends_some(weft__nccl *nccl)
{
    bool found = false;
    pthread_mutex_lock(&nccl->lock);
    WEFT__LIST_EACH(&nccl->comms, at)
    {
        weft__comm *comm = WEFT__LIST_ENTRY(at, weft__comm, link);
        weft__comm_state state = atomic_load(&comm->state);
        found = found || !atomic_load(&comm->refs) ||
                (state >= WEFT__COMM_DOOMED && state < WEFT__COMM_ABORTED && !atomic_load(&comm->awaits));
    }
    pthread_mutex_unlock(&nccl->lock);
    return found;
}

/* True: there are none, and none begins any more; in the end there will be none that is not under way. */
static bool end_late_aborts(bool in_the_end)
{
    bool ended;
    pthread_mutex_lock(&late_lock);
    ended = !late_aborts;
    over = ended || in_the_end;
    pthread_mutex_unlock(&late_lock);
    return ended;
}

ncclResult_t weft__at_exit_abort(ncclComm_t late)
{
    ncclResult_t result;
    bool may;
    pthread_mutex_lock(&late_lock);
    may = !over;
    late_aborts += may;
    pthread_mutex_unlock(&late_lock);
    if (!may) return ncclSuccess;
    result = ncclCommAbort(late);
    pthread_mutex_lock(&late_lock);
    late_aborts--;
    pthread_mutex_unlock(&late_lock);
    return result;
}

static void outwait_ends(void)
{
    const struct timespec pause = {0, LOOK_NS};
    if (getpid() != process) return; /* threads and locks are the parent's */
    pthread_mutex_lock(&lock);
    WEFT__LIST_EACH(&modules, at)
    {
        weft__nccl *nccl = WEFT__LIST_ENTRY(at, weft__nccl, open);
        int64_t until_ns = weft__nccl_now(nccl) + nccl->close_ns;
        weft__nccl_hurry(nccl);
        while ((ends_some(nccl) || !end_late_aborts(false)) && weft__nccl_now(nccl) < until_ns)
            nanosleep(&pause, NULL);
    }
    pthread_mutex_unlock(&lock);
    end_late_aborts(true);
}

static void watch(void)
{
    process = getpid();
    atexit(outwait_ends); /* without memory for that, the process ends as CUDA lets it */
}

void weft__at_exit_add(weft__nccl *nccl)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_mutex_lock(&lock);
    weft__list_append(&modules, &nccl->open);
    pthread_mutex_unlock(&lock);
    pthread_once(&once, watch);
}

void weft__at_exit_remove(weft__nccl *nccl)
{
    pthread_mutex_lock(&lock);
    weft__list_remove(&nccl->open);
    pthread_mutex_unlock(&lock);
}
