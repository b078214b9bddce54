#include "log.h"
#include "settings.h"
#include "status.h"

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*sink)(int level, const char *line, void *arg);
static void *sink_arg;

void weft_set_log(void (*log)(int level, const char *line, void *arg), void *arg)
{
    pthread_mutex_lock(&sink_lock);
    sink = log;
    sink_arg = arg;
    pthread_mutex_unlock(&sink_lock);
}

void weft__log(enum weft__log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char line[WEFT__SENTENCE_BYTES];
    void (*to)(int, const char *, void *);
    void *arg;
    va_list args;

    if ((int64_t)level > weft__setting_int(WEFT__SET_LOG)) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    /* The caller's function runs outside the lock: it may set another one. */
    pthread_mutex_lock(&sink_lock);
    to = sink;
    arg = sink_arg;
    pthread_mutex_unlock(&sink_lock);
    if (to)
        to((int)level, line, arg);
    else
        fprintf(stderr, "weft: %s: %s\n", names[level], line);
}
