/* library.c - what the module takes of the library that loaded it: words for its callers and its log, and the
 * clock by which it waits. */
#include "module.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

weft_status weft__nccl_fail(const weft__nccl *nccl, weft_status status, const char *format, ...)
{
    char text[WEFT__NCCL_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return nccl->table->fail(status, text);
}

void weft__nccl_log(const weft__nccl *nccl, int level, const char *format, ...)
{
    char text[WEFT__NCCL_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    nccl->table->log(level, text);
}

void weft__nccl_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool weft__nccl_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns)
{
    struct timespec time = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    if (deadline_ns == WEFT__NCCL_NEVER) return !pthread_cond_wait(cond, lock);
    return !pthread_cond_timedwait(cond, lock, &time);
}
