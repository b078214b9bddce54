/* exit.c - NCCL is taken down at exit by what it registers when it is loaded, as the objects of a C++ library are.
 * Handlers run in the reverse order: those that were registered before, and threads that still run, have what is left
 * of it.  On an H200 a process that issued an operation then died of SIGSEGV. */
#include "exit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static atomic_bool gone;

static void take_down(void)
{
    atomic_store(&gone, true);
}

__attribute__((constructor)) static void watch(void)
{
    atexit(take_down);
}

/* As a fault does, also in a thread that has all signals blocked. */
static void end_process(void)
{
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &fault, NULL);
    raise(SIGSEGV);
}

void exit_check(void)
{
    if (atomic_load_explicit(&gone, memory_order_acquire)) end_process();
}
