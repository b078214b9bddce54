/* lock.h - the one lock under which all that the emulation knows stands: devices, streams, events, memory.
 *
 * Nothing is waited for under it but by conditions that let go of it, and no code of the program or of the
 * emulated NCCL runs under it.  Counts, scripts and the last misuse have small locks of their own, which may
 * be taken under it and never the other way round. */
#ifndef EMULATION_LOCK_H
#define EMULATION_LOCK_H
#include <pthread.h>
#include <stdbool.h>

extern pthread_mutex_t emu__mutex;
extern _Thread_local bool
    emu__locked; /* this thread holds it: for the handler of faults, which may come then */

static inline void emu__lock(void)
{
    pthread_mutex_lock(&emu__mutex);
    emu__locked = true;
}

static inline void emu__unlock(void)
{
    emu__locked = false;
    pthread_mutex_unlock(&emu__mutex);
}
#endif
