/* life.c - processes by pidfd, which becomes readable when its process ends, even before it is waited for. */
#include "life.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct life {
    struct life *next;
    pid_t process;
    int fd; /* -1: this process itself, which lives; or one that had ended before */
    _Atomic bool over;
    int users;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static life *lives; /* under the lock, as is users */

static life *make(pid_t process)
{
    life *made = calloc(1, sizeof *made);

    if (!made) return NULL;
    made->process = process;
    made->fd = -1;
    if (process != getpid()) {
        made->fd = (int)syscall(SYS_pidfd_open, process, 0);
        if (made->fd < 0) atomic_store(&made->over, errno == ESRCH);
    }
    made->next = lives;
    lives = made;
    return made;
}

life *life_watch(pid_t process)
{
    life *found;

    pthread_mutex_lock(&mutex);
    for (found = lives; found; found = found->next)
        if (found->process == process && !atomic_load(&found->over)) break;
    if (!found) found = make(process);
    if (found) found->users++;
    pthread_mutex_unlock(&mutex);
    return found;
}

bool life_over(life *of)
{
    struct pollfd asked = {of->fd, POLLIN, 0};

    if (atomic_load(&of->over)) return true;
    if (of->fd < 0 || poll(&asked, 1, 0) != 1) return false;
    atomic_store(&of->over, true);
    return true;
}

void life_forget(life *of)
{
    life **at;

    pthread_mutex_lock(&mutex);
    if (!--of->users) {
        for (at = &lives; *at != of; at = &(*at)->next) {
        }
        *at = of->next;
        if (of->fd >= 0) close(of->fd);
        free(of);
    }
    pthread_mutex_unlock(&mutex);
}
