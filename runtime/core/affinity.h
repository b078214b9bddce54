/* affinity.h - where threads run while no processor is free: the progress thread on that of its own callers,
 * and these, where ranks outnumber the processors, where their rank belongs. */
#ifndef WEFT_RUNTIME_AFFINITY_H
#define WEFT_RUNTIME_AFFINITY_H
#include "pacing.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define WEFT__AFFINITY_LOAD "/proc/loadavg"

/* The thread's own. */
typedef struct weft__affinity {
    cpu_set_t all;  /* what it was given */
    int processors; /* of the machine; less than 1: it stays where the kernel puts it */
    int load_fd;    /* of WEFT__AFFINITY_LOAD; -1: none */
    int at;         /* its one processor, while it is there; -1: it is not */
    weft__staying staying;
} weft__affinity;

/* By the thread that is meant.  load: the file to read how many threads run now.  Where that or the
 * processors cannot be found out, or it was given only one, everything stays as it is; it tells nobody. */
void weft__affinity_open(weft__affinity *affinity, const char *load);
void weft__affinity_close(weft__affinity *affinity);
/* By the same, now and then: it checks every few milliseconds.  caller: the processor of its last caller; -1:
 * there was none. */
void weft__affinity_go(weft__affinity *affinity, int caller);
/* Before it runs what is not this library's: threads that are started there would be
 * given its one processor. */
void weft__affinity_leave(weft__affinity *affinity);
/* The processor where the number-th of count ranks of a host belongs, of those that the calling thread was
 * given, neighbours together; -1: it was given only one, or they cannot be found out. */
int weft__affinity_of(int number, int count);
/* The calling thread goes there (-1: nowhere), and may be moved on.  Where it must not go, it stays. */
void weft__affinity_return(int processor);
/* By a line of WEFT__AFFINITY_LOAD, which tells how many threads of the whole machine could run. */
weft__room weft__affinity_room_of(const char *line, int processors);
#endif
