/* delays.h - the system calls with which ranks wait, wake each other, read and write, made late at random.
 *
 * A program that uses this has its own read, readv, write, sendmsg, poll, epoll_wait, epoll_ctl, sched_yield
 * and syscall (of which futexes are made), in front of the C library's; its target needs ENABLE_EXPORTS, so
 * that libraries find them.  Each delays some of its calls before they are made and after, as a machine
 * without a free processor would, and writes are cut short.  Reads are not: a short read of TCP means that
 * nothing more is there, and the library counts on it.  Which calls are late follows from the seed, the
 * thread's number and how many calls it has made; what the threads make of it is the machine's. */
#ifndef TESTS_SUPPORT_DELAYS_H
#define TESTS_SUPPORT_DELAYS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct delays {
    uint64_t seed;
    uint32_t one_in;      /* calls: one of so many is up to 1.5 ms late; 0: none is */
    uint32_t long_one_in; /* and one of so many 20 to 100 ms; 0: none is */
} delays;

/* For all threads of this process, from now on; not while others change it. */
void delays_begin(const delays *wanted);
void delays_end(void);
/* Whoever adds an epoll set to another stands there until this is false again: the kernel has one lock for
 * it, for the whole machine, and its holder may be without a processor. */
void delays_nested_sets(bool stand);
/* What epoll_wait is asked without waiting, and would tell, is lost until this is false again. */
void delays_lose_edges(bool lose);
/* A yield gives the processor to others for so long, as where many wait for it; 0: as long as it does. */
void delays_yields(int64_t ms);
unsigned delays_yielded(void); /* times, since this was last changed */
#endif
