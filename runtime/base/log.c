/* log.c - a line goes to stderr at once, or to the program's function by way of a queue.
 *
 * That function may take its time, wait for other threads of the program, and call this library.  A line is
 * written wherever something happens, mostly with locks held.  So lines for the function wait in a queue, and
 * a thread of their own hands them over one at a time, in order.  It is started by the line that finds none,
 * and ends when the queue is empty: lines are rare, and so there is nothing to shut down. */
#include "log.h"
#include "clock.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 1024              /* in the queue; what comes on top is counted and told as a number */
#define FLUSH_NS  (2000 * WEFT__MS) /* the function may be stuck: nobody waits longer for it */

typedef struct line {
    struct line *next;
    int level;
    char text[];
} line;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below, but `inside` */
static pthread_cond_t quiet;                             /* the queue is empty and nothing is handed over */
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static void (*sink)(int level, const char *text, void *arg);
static void *sink_arg;
static line *first, **last = &first;
static int queued;
static unsigned long long lost;
static bool handing_over; /* there is a thread that does */
static WEFT__THREAD_WORD bool inside;

bool weft__log_inside(void)
{
    return inside;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The thread stayed behind, and its lines are the parent's to hear. */
static void in_child(void)
{
    first = NULL;
    last = &first;
    queued = 0;
    handing_over = false;
    pthread_mutex_unlock(&lock);
}

static void log_prepare(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&quiet, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Lock held; given up while the function runs. */
static void hand_over(int level, const char *text)
{
    void (*to)(int, const char *, void *) = sink;
    void *arg = sink_arg;
    if (!to) return;
    pthread_mutex_unlock(&lock);
    inside = true;
    to(level, text, arg);
    inside = false;
    pthread_mutex_lock(&lock);
}

static void *hand_over_all(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (first || lost) {
        line *next = first;
        char text[128];
        if (next) {
            first = next->next;
            if (!first) last = &first;
            queued--;
            hand_over(next->level, next->text);
            free(next);
            continue;
        }
        snprintf(text, sizeof text, "%llu log lines are lost: the program's log function took too long",
                 lost);
        lost = 0;
        hand_over(WEFT__WARN, text);
    }
    handing_over = false;
    pthread_cond_broadcast(&quiet);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Lock held. */
static bool start_thread(void)
{
    sigset_t all, before;
    pthread_t thread;
    int error;
    sigfillset(&all); /* signals are the program's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, hand_over_all, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) pthread_detach(thread);
    return !error;
}

/* False: it goes to stderr. */
static bool enqueue(int level, const char *text)
{
    size_t bytes = strlen(text) + 1;
    line *more;
    bool taken = false;
    pthread_once(&prepared, log_prepare);
    pthread_mutex_lock(&lock);
    if (!sink) goto unlock;
    more = queued < LINES_MAX ? malloc(sizeof *more + bytes) : NULL;
    if (more) {
        more->next = NULL;
        more->level = level;
        memcpy(more->text, text, bytes);
        *last = more;
        last = &more->next;
        queued++;
    } else {
        lost++;
    }
    if (!handing_over) handing_over = start_thread();
    taken = true;
unlock:
    pthread_mutex_unlock(&lock);
    return taken;
}

void weft__log_flush(void)
{
    int64_t until = weft__now_ns() + FLUSH_NS;
    struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    if (inside) return;
    pthread_once(&prepared, log_prepare);
    pthread_mutex_lock(&lock);
    while (handing_over && pthread_cond_timedwait(&quiet, &lock, &at) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&lock);
}

void weft_set_log(void (*log)(int level, const char *line, void *arg), void *arg)
{
    weft__log_flush(); /* the function before this one gets what was told in its time, and is then let go */
    pthread_mutex_lock(&lock);
    sink = log;
    sink_arg = arg;
    pthread_mutex_unlock(&lock);
}

void weft__log(enum weft__log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char text[WEFT__SENTENCE_BYTES];
    va_list args;

    if ((int64_t)level > weft__setting_int(WEFT__SET_LOG)) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!enqueue((int)level, text)) fprintf(stderr, "weft: %s: %s\n", names[level], text);
}
