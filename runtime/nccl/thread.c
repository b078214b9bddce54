/* thread.c - starts, counts and outwaits the module's threads.
 *
 * Fails: weft__thread_start, where the system has no more threads; the caller says what then. */
#include "thread.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define PAUSE_SPINS    256
#define PAUSE_LEAST_NS 10000
#define PAUSE_MOST_NS  5000000

/* Whose thread this is: of its progress, or one of those here.  NULL: somebody else's. */
static _Thread_local const weft__nccl *settled;

/* From start to end. */
struct task {
    weft__nccl *nccl;
    void (*run)(void *arg);
    void *arg;
};

/* Counts itself out last: from then on the module may be closed.  Its code stays (CMakeLists.txt), and nobody
 * joins it, for a module whose device is lost is never closed. */
static void *thread_main(void *arg)
{
    struct task task = *(struct task *)arg;
    free(arg);
    pthread_setname_np(pthread_self(), "weft-nccl");
    weft__thread_settle(task.nccl);
    task.run(task.arg);
    pthread_mutex_lock(&task.nccl->lock);
    task.nccl->threads--;
    pthread_cond_broadcast(&task.nccl->changed);
    pthread_mutex_unlock(&task.nccl->lock);
    return NULL;
}

static bool create(struct task *task)
{
    sigset_t all, before;
    pthread_t id;
    int error;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&id, NULL, thread_main, task);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) pthread_detach(id);
    return !error;
}

bool weft__thread_start(weft__nccl *nccl, void (*run)(void *arg), void *arg)
{
    struct task *task = malloc(sizeof *task);
    bool created;
    if (!task) return false;
    *task = (struct task){.nccl = nccl, .run = run, .arg = arg};
    pthread_mutex_lock(&nccl->lock); /* until it is counted */
    created = create(task);
    if (created) nccl->threads++;
    pthread_mutex_unlock(&nccl->lock);
    if (!created) free(task);
    return created;
}

static void run_errand(void *arg)
{
    weft__errand *errand = arg;
    weft__nccl *nccl = errand->nccl;
    bool alone;
    errand->run(errand);
    pthread_mutex_lock(&nccl->lock);
    errand->done = true;
    alone = errand->alone;
    pthread_cond_broadcast(&nccl->changed);
    pthread_mutex_unlock(&nccl->lock);
    if (alone) free(errand);
}

weft_status weft__errand_await(weft__errand *errand, int64_t deadline_ns)
{
    weft__nccl *nccl = errand->nccl;
    bool done, waits = true;
    errand->done = errand->alone = false;
    if (!weft__thread_start(nccl, run_errand, errand)) return WEFT_ERR_MEMORY;
    pthread_mutex_lock(&nccl->lock);
    while (!errand->done && waits) waits = weft__nccl_cond_wait(&nccl->changed, &nccl->lock, deadline_ns);
    done = errand->done;
    errand->alone = true;
    pthread_mutex_unlock(&nccl->lock);
    return done ? WEFT_OK : WEFT_ERR_TIMEOUT;
}

struct call {
    weft__nccl *nccl;
    void (*run)(void *arg);
    void *arg;
    bool done; /* nccl->lock */
};

static void run_call(void *arg)
{
    struct call *call = arg;
    weft__nccl *nccl = call->nccl;
    call->run(call->arg);
    pthread_mutex_lock(&nccl->lock);
    call->done = true;
    pthread_cond_broadcast(&nccl->changed);
    pthread_mutex_unlock(&nccl->lock);
}

bool weft__thread_call(weft__nccl *nccl, void (*run)(void *arg), void *arg)
{
    struct call call = {.nccl = nccl, .run = run, .arg = arg};
    if (settled == nccl) {
        weft__thread_settle(nccl);
        run(arg);
        return true;
    }
    if (!weft__thread_start(nccl, run_call, &call)) return false;
    pthread_mutex_lock(&nccl->lock);
    while (!call.done) weft__nccl_cond_wait(&nccl->changed, &nccl->lock, WEFT__NCCL_NEVER);
    pthread_mutex_unlock(&nccl->lock);
    return true;
}

/* Lock held.  But for those that wait for graphs, which may be there for as long as the program likes. */
static unsigned at_work(const weft__nccl *nccl)
{
    return nccl->threads - nccl->await_graphs;
}

bool weft__threads_wait(weft__nccl *nccl, int64_t patience_ns)
{
    int64_t deadline_ns = weft__nccl_now(nccl) + patience_ns;
    unsigned threads;
    bool waits = true, ended;
    pthread_mutex_lock(&nccl->lock);
    while ((threads = at_work(nccl)) && waits) {
        waits = weft__nccl_cond_wait(&nccl->changed, &nccl->lock, deadline_ns);
        if (at_work(nccl) >= threads) continue;
        waits = true;
        deadline_ns = weft__nccl_now(nccl) + patience_ns;
    }
    ended = !threads;
    pthread_mutex_unlock(&nccl->lock);
    return ended;
}

void weft__thread_settle(const weft__nccl *nccl)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int device = -1, wanted = nccl->seam.device;
    if (WEFT__UNLIKELY(settled != nccl)) {
        cudaThreadExchangeStreamCaptureMode(&mode);
        settled = nccl;
    }
    /* A callback of the user, which runs on the progress thread too, may have set another one. */
    if (cudaGetDevice(&device) != cudaSuccess || device != wanted) cudaSetDevice(wanted);
}

void weft__thread_pause(unsigned *turns)
{
    struct timespec time = {0, PAUSE_LEAST_NS};
    unsigned turn = (*turns)++;
    if (turn < PAUSE_SPINS) {
        sched_yield();
        return;
    }
    for (turn -= PAUSE_SPINS; turn >= 8 && time.tv_nsec < PAUSE_MOST_NS; turn -= 8) time.tv_nsec *= 2;
    if (time.tv_nsec > PAUSE_MOST_NS) time.tv_nsec = PAUSE_MOST_NS;
    nanosleep(&time, NULL);
}
