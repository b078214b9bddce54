/* misuse.c - telling what a program does that is wrong on real hardware also where it seems to work.
 *
 * By default the first one ends the process, because what follows a race or a freed buffer says nothing. */
#include "emulation.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char last[1024];
static _Atomic uint64_t misuses;

static bool only_reported(void)
{
    const char *how = getenv("CUDA_EMULATION_MISUSE");

    return how && !strcmp(how, "report");
}

void emu_misuse(const char *format, ...)
{
    char sentence[sizeof last];
    char line[sizeof last + 32];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    /* One write, so that the lines of several processes do not mix. */
    int length = snprintf(line, sizeof line, "emulation: misuse: %s\n", sentence);
    if (write(STDERR_FILENO, line, (size_t)length) < 0) {
        /* Nobody to tell; the status tells. */
    }
    if (!only_reported()) _exit(EMU_MISUSE_STATUS);
    pthread_mutex_lock(&mutex);
    memcpy(last, sentence, sizeof last);
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add(&misuses, 1);
}

uint64_t emu_misuses(void)
{
    return atomic_load(&misuses);
}

const char *emu_last_misuse(void)
{
    static _Thread_local char copy[sizeof last];

    pthread_mutex_lock(&mutex);
    memcpy(copy, last, sizeof copy);
    pthread_mutex_unlock(&mutex);
    return copy;
}
