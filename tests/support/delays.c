/* delays.c - see delays.h. */
#include "delays.h"
#include "job.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SHORT_US      1500
#define LONG_LEAST_US 20000
#define LONG_MOST_US  100000
#define WRITES_CUT    4 /* of so many one is */

/* The function behind this one: the C library's, or a sanitizer's. */
#define NEXT(name)                        \
    static _Atomic(void *) found;         \
    void *behind = atomic_load(&found);   \
    __typeof__(name) *next;               \
    if (!behind) {                        \
        behind = dlsym(RTLD_NEXT, #name); \
        atomic_store(&found, behind);     \
    }                                     \
    memcpy(&next, &behind, sizeof next)
/* In front of it, under a name of our own here. */
#define IN_FRONT(name) __asm__(#name) __attribute__((visibility("default")))

ssize_t late_read(int fd, void *bytes, size_t n) IN_FRONT(read);
ssize_t late_readv(int fd, const struct iovec *parts, int n) IN_FRONT(readv);
ssize_t late_write(int fd, const void *bytes, size_t n) IN_FRONT(write);
ssize_t late_sendmsg(int fd, const struct msghdr *message, int flags) IN_FRONT(sendmsg);
int late_poll(struct pollfd *fds, nfds_t n, int timeout) IN_FRONT(poll);
int late_epoll_wait(int fd, struct epoll_event *events, int n, int timeout) IN_FRONT(epoll_wait);
int late_epoll_ctl(int set, int op, int fd, struct epoll_event *event) IN_FRONT(epoll_ctl);
int late_sched_yield(void) IN_FRONT(sched_yield);
long late_syscall(long number, ...) IN_FRONT(syscall);

static delays now;
static atomic_uint round_number; /* 0: nothing is delayed */
static atomic_uint thread_count;
static atomic_bool nested_sets_stand, edges_lost;
static atomic_int_fast64_t yield_ms;
static atomic_uint yields;
static _Thread_local uint64_t words;
static _Thread_local unsigned words_of; /* the round */

void delays_begin(const delays *wanted)
{
    static unsigned last;
    now = *wanted;
    atomic_store(&thread_count, 0);
    atomic_store(&round_number, ++last);
}

void delays_end(void)
{
    atomic_store(&round_number, 0);
}

void delays_nested_sets(bool stand)
{
    atomic_store(&nested_sets_stand, stand);
}

void delays_lose_edges(bool lose)
{
    atomic_store(&edges_lost, lose);
}

void delays_yields(int64_t ms)
{
    atomic_store(&yield_ms, ms);
    atomic_store(&yields, 0);
}

unsigned delays_yielded(void)
{
    return atomic_load(&yields);
}

static uint64_t draw(unsigned number)
{
    if (words_of != number) {
        words_of = number;
        words = now.seed << 20 ^ atomic_fetch_add(&thread_count, 1);
    }
    return job_random(&words);
}

static void rest_us(uint64_t us)
{
    struct timespec at = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&at, NULL);
}

/* errno stays as it is. */
static void delay(void)
{
    unsigned number = atomic_load(&round_number);
    int error = errno;
    uint64_t word;
    if (!number) return;
    word = draw(number);
    if (now.long_one_in && word % now.long_one_in == 0)
        rest_us(LONG_LEAST_US + (word >> 32) % (LONG_MOST_US - LONG_LEAST_US));
    else if (now.one_in && word % now.one_in == 0)
        rest_us((word >> 32) % SHORT_US);
    errno = error;
}

static bool is_epoll_set(int fd)
{
    char name[64], what[64] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return readlink(name, what, sizeof what - 1) > 0 && strstr(what, "eventpoll");
}

ssize_t late_read(int fd, void *bytes, size_t n)
{
    NEXT(read);
    ssize_t done;
    delay();
    done = next(fd, bytes, n);
    delay();
    return done;
}

ssize_t late_readv(int fd, const struct iovec *parts, int n)
{
    NEXT(readv);
    ssize_t done;
    delay();
    done = next(fd, parts, n);
    delay();
    return done;
}

ssize_t late_write(int fd, const void *bytes, size_t n)
{
    NEXT(write);
    ssize_t done;
    delay();
    done = next(fd, bytes, n);
    delay();
    return done;
}

/* Some bytes of its first part. */
static struct msghdr cut(const struct msghdr *message, struct iovec *part, uint64_t word)
{
    struct msghdr less = *message;
    *part = message->msg_iov[0];
    part->iov_len = 1 + (size_t)(word % part->iov_len);
    less.msg_iov = part;
    less.msg_iovlen = 1;
    return less;
}

ssize_t late_sendmsg(int fd, const struct msghdr *message, int flags)
{
    NEXT(sendmsg);
    unsigned number = atomic_load(&round_number);
    uint64_t word = number ? draw(number) : 0;
    struct msghdr less;
    struct iovec part;
    ssize_t done;
    if (number && word % WRITES_CUT == 0 && message->msg_iovlen && message->msg_iov[0].iov_len) {
        less = cut(message, &part, word >> 8);
        message = &less;
    }
    delay();
    done = next(fd, message, flags);
    delay();
    return done;
}

int late_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    NEXT(poll);
    int ready;
    delay();
    ready = next(fds, n, timeout);
    delay();
    return ready;
}

int late_epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
    NEXT(epoll_wait);
    int ready;
    delay();
    ready = next(fd, events, n, timeout);
    delay();
    if (ready > 0 && timeout == 0 && atomic_load(&edges_lost)) return 0;
    return ready;
}

int late_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    NEXT(epoll_ctl);
    delay();
    while (op == EPOLL_CTL_ADD && atomic_load(&nested_sets_stand) && is_epoll_set(fd)) rest_us(1000);
    return next(set, op, fd, event);
}

int late_sched_yield(void)
{
    NEXT(sched_yield);
    int64_t ms = atomic_load(&yield_ms);
    atomic_fetch_add(&yields, 1);
    if (ms) rest_us((uint64_t)ms * 1000);
    return next();
}

long late_syscall(long number, ...)
{
    NEXT(syscall);
    long word[6], result;
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) word[i] = va_arg(args, long);
    va_end(args);
    delay();
    result = next(number, word[0], word[1], word[2], word[3], word[4], word[5]);
    delay();
    return result;
}
