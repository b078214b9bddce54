/* kv_file.c - a store in a file that processes share, also on several hosts: file:///PATH.
 *
 * Every process keeps the values in memory too and reads what others have appended (kv_log.h).  Who waits for
 * a key sleeps in inotify, and checks by itself now and then, since inotify tells nothing of other hosts.  Of
 * the threads that wait, one watches the file and wakes the others. */
#include "clock.h"
#include "kv_log.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOK_LEAST_MS 5 /* between checks of one that waits, doubling */
#define LOOK_MOST_MS  500
#define BLIND_MOST_MS 50 /* the same where there is no inotify */

typedef struct file_store {
    weft__kv kv;
    pthread_mutex_t lock; /* all below; never held while waiting */
    pthread_cond_t changed;
    bool watched; /* by one of those who wait */
    weft__kv_log log;
    int notify_fd, watch; /* -1: no inotify here */
    int watched_fd;       /* of the log's, when the watch was made */
} file_store;

/* ---- waiting ---- */

/* The watch is on the file, not on its name, so a new file needs a new one. */
static void keep_watch(file_store *s)
{
    if (s->notify_fd < 0 || s->watched_fd == s->log.fd) return;
    if (s->watch >= 0) inotify_rm_watch(s->notify_fd, s->watch);
    s->watch =
        inotify_add_watch(s->notify_fd, s->log.path, IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
    s->watched_fd = s->log.fd;
}

/* Lock held, and let go meanwhile. */
static void watch_file(file_store *s, int64_t until_ns)
{
    struct pollfd item = {.fd = s->notify_fd, .events = POLLIN};
    char events[1024];
    keep_watch(s);
    s->watched = true;
    pthread_mutex_unlock(&s->lock);
    poll(&item, s->notify_fd >= 0, weft__poll_ms(until_ns));
    pthread_mutex_lock(&s->lock);
    while (s->notify_fd >= 0 && read(s->notify_fd, events, sizeof events) > 0) continue;
    s->watched = false;
    pthread_cond_broadcast(&s->changed);
}

static void wait_for_change(file_store *s, int64_t deadline_ns, int looks)
{
    int64_t most = s->notify_fd >= 0 ? LOOK_MOST_MS : BLIND_MOST_MS,
            ms = LOOK_LEAST_MS << (looks < 8 ? looks : 8);
    int64_t until_ns = weft__deadline(weft__now_ns(), ms < most ? ms : most);
    if (until_ns > deadline_ns) until_ns = deadline_ns;
    if (!s->watched) {
        watch_file(s, until_ns);
    } else {
        struct timespec at = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
        pthread_cond_timedwait(&s->changed, &s->lock, &at);
    }
}

/* ---- calls ---- */

static weft_status locked_out(const file_store *s)
{
    return weft__fail(WEFT_ERR_TIMEOUT,
                      "the store's file %s is locked by another process, too long for this call",
                      s->log.path);
}

/* Lock held, file locked.  PENDING: keys are missing. */
static weft_status carry_out(file_store *s, const weft__kv_call *call, weft__kv_result *result)
{
    weft__kv_change change;
    weft__kv_value *found;
    weft_status status = weft__kv_decide(s->log.table, call, &change, result, &found);
    if (status != WEFT_OK) return status;
    if (!found) return weft__kv_log_append(&s->log, &change);
    if (found->bytes > call->room_bytes) return WEFT_ERR_TRUNCATED;
    if (found->bytes) memcpy(call->room, found->data, found->bytes);
    return WEFT_OK;
}

static weft_status perform(weft__kv *kv, const weft__kv_call *call, weft__kv_result *result)
{
    file_store *s = WEFT__OWNER(kv, file_store, kv);
    bool writes = call->kind != WEFT__KV_GET && call->kind != WEFT__KV_WAIT;
    int tries = 0, looks = 0;
    weft_status status;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        status = weft__kv_log_lock(&s->log, writes);
        if (status == WEFT_PENDING) {
            pthread_mutex_unlock(&s->lock);
            if (weft__now_ns() >= call->deadline_ns) return locked_out(s);
            weft__kv_log_pause(tries++);
            pthread_mutex_lock(&s->lock);
            continue;
        }
        if (status != WEFT_OK) break;
        status = carry_out(s, call, result);
        weft__kv_log_unlock(&s->log);
        if (status != WEFT_PENDING || !call->patient || weft__now_ns() >= call->deadline_ns) break;
        wait_for_change(s, call->deadline_ns, looks++);
        tries = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- opening and closing ---- */

static void close_store(weft__kv *kv)
{
    file_store *s = WEFT__OWNER(kv, file_store, kv);
    weft__kv_log_close(&s->log);
    if (s->notify_fd >= 0) close(s->notify_fd);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static weft_status open_log(file_store *s, const char *url, const char *source, int64_t deadline_ns)
{
    const char *path = url + strlen("file://");
    weft__secret secret;
    weft_status status;
    if (*path != '/' || !path[1])
        return weft__fail(WEFT_ERR_ARGUMENT, "store \"%s\": expected file:///PATH, a path from the root",
                          url);
    if (!source || !*source) source = weft__setting_text(WEFT__SET_SECRET);
    if (!*source) return weft__kv_log_open(&s->log, path, NULL, deadline_ns);
    if ((status = weft__secret_take(source, "file store", "", &secret)) != WEFT_OK) return status;
    status = weft__kv_log_open(&s->log, path, &secret, deadline_ns);
    weft__secret_wipe(&secret);
    return status;
}

weft_status weft__kv_open_file(const char *url, const char *secret, int64_t deadline_ns, weft__kv **kv)
{
    static const weft__kv_ops ops = {perform, close_store};
    file_store *s = calloc(1, sizeof *s);
    pthread_condattr_t monotonic;
    weft_status status;
    if (!s) return weft__fail_memory(sizeof *s, "a store");
    s->log.fd = s->watch = s->watched_fd = -1;
    status = open_log(s, url, secret, deadline_ns);
    if (status != WEFT_OK) {
        free(s);
        return status;
    }
    s->kv.ops = &ops;
    snprintf(s->kv.name, sizeof s->kv.name, "%s", url);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* a limit of the system may refuse it */
    *kv = &s->kv;
    return WEFT_OK;
}
