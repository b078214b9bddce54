/* exit.c - CUDA is taken down at exit: by a handler that it registers when it is first called, as the driver does
 * when it is initialised.  Handlers run in the reverse order, so those that the program registered earlier run after
 * this, and find that every call fails and that nothing more begins on a stream. */
#include "exit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool begun;

static void take_down(void)
{
    atomic_store(&begun, true);
}

static void register_handler(void)
{
    atexit(take_down);
}

void emu__exit_watch(void)
{
    pthread_once(&once, register_handler);
}

bool emu__exit_begun(void)
{
    return atomic_load_explicit(&begun, memory_order_acquire);
}
