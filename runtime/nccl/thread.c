/* thread.c - starts, counts and outwaits the module's threads.
 *
 * Fails: weft__thread_start, where the system has no more threads; the caller says what then. */
#include "thread.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define PAUSE_SPINS    64
#define PAUSE_LEAST_NS 10000
#define PAUSE_MOST_NS  5000000

struct task {
    weft__nccl *nccl;
    void (*run)(void *arg);
    void *arg;
};

static void *thread_main(void *arg)
{
    struct task task = *(struct task *)arg;
    free(arg);
    weft__thread_settle(task.nccl);
    task.run(task.arg);
    pthread_mutex_lock(&task.nccl->lock);
    task.nccl->threads--;
    pthread_cond_broadcast(&task.nccl->changed);
    pthread_mutex_unlock(&task.nccl->lock); /* from here on nccl may be gone */
    return NULL;
}

static bool start_detached(struct task *task)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error;
    if (pthread_attr_init(&attributes)) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, thread_main, task);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return !error;
}

bool weft__thread_start(weft__nccl *nccl, void (*run)(void *arg), void *arg)
{
    struct task *task = malloc(sizeof *task);
    if (!task) return false;
    *task = (struct task){nccl, run, arg};
    pthread_mutex_lock(&nccl->lock);
    nccl->threads++;
    pthread_mutex_unlock(&nccl->lock);
    if (start_detached(task)) return true;
    free(task);
    pthread_mutex_lock(&nccl->lock);
    nccl->threads--;
    pthread_cond_broadcast(&nccl->changed);
    pthread_mutex_unlock(&nccl->lock);
    return false;
}

bool weft__threads_wait(weft__nccl *nccl, int64_t deadline_ns)
{
    bool ended = true;
    pthread_mutex_lock(&nccl->lock);
    while (nccl->threads && ended) ended = weft__nccl_cond_wait(&nccl->changed, &nccl->lock, deadline_ns);
    ended = !nccl->threads;
    pthread_mutex_unlock(&nccl->lock);
    return ended;
}

void weft__thread_settle(const weft__nccl *nccl)
{
    static _Thread_local const weft__nccl *settled;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int device = -1;
    if (WEFT__UNLIKELY(settled != nccl)) {
        cudaThreadExchangeStreamCaptureMode(&mode);
        settled = nccl;
    }
    /* A callback of the user, which runs on the progress thread too, may have set another one. */
    if (cudaGetDevice(&device) != cudaSuccess || device != nccl->seam.device)
        cudaSetDevice(nccl->seam.device);
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
