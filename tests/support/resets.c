/* resets.c - see resets.h. */
#include "resets.h"
#include "job.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define IN_FRONT(name) __asm__(#name) __attribute__((visibility("default")))

ssize_t cut_readv(int fd, const struct iovec *parts, int n) IN_FRONT(readv);
ssize_t cut_sendmsg(int fd, const struct msghdr *message, int flags) IN_FRONT(sendmsg);

static atomic_uint period, count;
static atomic_bool at_next;
static _Atomic uint64_t words;

void resets_begin(uint64_t seed, uint32_t one_in)
{
    atomic_store(&words, seed);
    atomic_store(&count, 0);
    atomic_store(&period, one_in);
}

void resets_next(void)
{
    atomic_store(&at_next, true);
}

unsigned resets_count(void)
{
    return atomic_load(&count);
}

unsigned resets_end(void)
{
    atomic_store(&period, 0);
    return resets_count();
}

static bool is_tcp(int fd)
{
    int domain = 0;
    socklen_t n = sizeof domain;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) && (domain == AF_INET || domain == AF_INET6);
}

static bool is_drawn(void)
{
    const unsigned one_in = atomic_load(&period);
    uint64_t word;
    if (!one_in) return false;
    word = atomic_fetch_add(&words, UINT64_C(0x9e3779b97f4a7c15));
    return job_random(&word) % one_in == 0;
}

/* As a router that has forgotten the connection does it, to both ends. */
static void maybe_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    const bool next = atomic_load(&at_next);
    if ((!next && !is_drawn()) || !is_tcp(fd)) return;
    if (next && !atomic_exchange(&at_next, false)) return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    shutdown(fd, SHUT_RDWR);
    atomic_fetch_add(&count, 1);
}

ssize_t cut_readv(int fd, const struct iovec *parts, int n)
{
    const ssize_t got = syscall(SYS_readv, fd, parts, n);
    if (got > 0) maybe_reset(fd);
    return got;
}

ssize_t cut_sendmsg(int fd, const struct msghdr *message, int flags)
{
    const ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);
    if (sent > 0) maybe_reset(fd);
    return sent;
}
