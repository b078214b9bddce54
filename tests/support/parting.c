/* parting.c - see parting.h. */
#include "parting.h"
#include "job.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IN_FRONT(name) __asm__(#name) __attribute__((visibility("default")))

enum { FDS_MOST = 1024, LOST_MOST = 64 };

int parted_connect(int fd, const struct sockaddr *at, socklen_t bytes) IN_FRONT(connect);

static _Atomic int64_t lost[LOST_MOST];
static atomic_int lost_count;

static int64_t port_in(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET) return ntohs(((const struct sockaddr_in *)(const void *)at)->sin_port);
    if (at->sa_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)(const void *)at)->sin6_port);
    return 0;
}

static int64_t port_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof at;
    return name(fd, (struct sockaddr *)&at, &bytes) ? 0 : port_in((struct sockaddr *)&at);
}

static bool is_lost(int64_t port)
{
    int n = atomic_load(&lost_count);
    for (int i = 0; port && i < n; i++)
        if (atomic_load(&lost[i]) == port) return true;
    return false;
}

int parted_connect(int fd, const struct sockaddr *at, socklen_t bytes)
{
    if (!is_lost(port_in(at))) return (int)syscall(SYS_connect, fd, at, bytes);
    errno = EHOSTUNREACH;
    return -1;
}

/* What this process has open.  Not each number that there could be: a cut looks once a millisecond. */
static int descriptors(int *fds)
{
    const struct dirent *at;
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    CHECK(all);
    while ((at = readdir(all)) != NULL && n < FDS_MOST)
        if (at->d_name[0] != '.') fds[n++] = atoi(at->d_name);
    closedir(all);
    return n;
}

int parting_listeners(int64_t *ports, int room)
{
    int n = 0, fds[FDS_MOST];
    for (int i = descriptors(fds) - 1; i >= 0; i--) {
        const int fd = fds[i];
        int listens = 0;
        socklen_t bytes = sizeof listens;
        int64_t port;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) || !listens) continue;
        port = port_of(fd, getsockname);
        if (!port) continue;
        CHECK(n < room);
        ports[n++] = port;
    }
    return n;
}

void parting_again(void)
{
    int fds[FDS_MOST];
    for (int i = descriptors(fds) - 1; i >= 0; i--)
        if (is_lost(port_of(fds[i], getpeername))) shutdown(fds[i], SHUT_RDWR);
}

void parting_begin(const int64_t *ports, int n)
{
    int before = atomic_load(&lost_count);
    CHECK(before + n <= LOST_MOST);
    for (int i = 0; i < n; i++) atomic_store(&lost[before + i], ports[i]);
    atomic_store(&lost_count, before + n);
}

void parting_end(void)
{
    atomic_store(&lost_count, 0);
}
