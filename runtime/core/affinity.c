/* affinity.c - where threads run while no processor is free.
 *
 * The progress thread.  The kernel wakes a thread near to what woke it, on a free processor if there is one.
 * Where there is none, the threads of several ranks come together on the processor that takes the network's
 * interrupts, and one rank pays for all: of two that compute while 16 MiB go each way, one lost 27 ms of 140
 * and the other 3.  So then the thread runs where its own callers do, and each rank pays for what it sends
 * and receives.  When a processor is free again the kernel chooses as before.  So it does where each thread
 * waits for many others: of two processors with a hundred threads each it is the next that has time for it,
 * and a rank whose progress thread may take only one of them stands meanwhile.
 *
 * Callers that have a processor of their own go there when they join and when they have slept.  When a thread
 * moves, and who has one, pacing.h decides: here is what asks and tells the system. */
#include "affinity.h"
#include "check.h"
#include "clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void weft__affinity_open(weft__affinity *affinity, const char *load)
{
    *affinity = (weft__affinity){.at = -1, .load_fd = -1};
    if (sched_getaffinity(0, sizeof affinity->all, &affinity->all) || CPU_COUNT(&affinity->all) < 2) return;
    affinity->load_fd = open(load, O_RDONLY | O_CLOEXEC);
    if (affinity->load_fd >= 0) affinity->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void weft__affinity_close(weft__affinity *affinity)
{
    if (affinity->load_fd >= 0) close(affinity->load_fd);
    affinity->load_fd = -1;
    affinity->processors = 0;
}

weft__room weft__affinity_room_of(const char *line, int processors)
{
    int running;
    if (sscanf(line, "%*s %*s %*s %d/", &running) != 1) return WEFT__ROOM_FREE;
    return weft__pacing_room(running, processors);
}

static weft__room room_now(const weft__affinity *affinity)
{
    char line[128];
    ssize_t n = pread(affinity->load_fd, line, sizeof line - 1, 0);
    if (n <= 0) return WEFT__ROOM_FREE;
    line[n] = 0;
    return weft__affinity_room_of(line, affinity->processors);
}

static void run_on(weft__affinity *affinity, int processor)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    if (processor >= 0) CPU_SET((size_t)processor, &one);
    /* Where it must not be changed, it is not. */
    if (!sched_setaffinity(0, sizeof one, processor >= 0 ? &one : &affinity->all)) affinity->at = processor;
}

void weft__affinity_leave(weft__affinity *affinity)
{
    if (affinity->at >= 0) run_on(affinity, -1);
}

void weft__affinity_go(weft__affinity *affinity, int caller)
{
    int next;
    if (affinity->processors < 1 || caller < 0 || !weft__staying_checks(&affinity->staying, weft__now_ns()))
        return;
    next = weft__staying_next(&affinity->staying, room_now(affinity), caller);
    if (next == WEFT__ANY_PROCESSOR)
        weft__affinity_leave(affinity);
    else if (next >= 0 && next != affinity->at && next < CPU_SETSIZE &&
             CPU_ISSET((size_t)next, &affinity->all))
        run_on(affinity, next);
}

int weft__affinity_of(int number, int count)
{
    cpu_set_t all;
    int n, at = 0;
    WEFT__ASSERT(number >= 0 && number < count, number, count);
    if (sched_getaffinity(0, sizeof all, &all) || (n = CPU_COUNT(&all)) < 2) return -1;
    for (int before = weft__pacing_home_cpu(number, count, n); before || !CPU_ISSET((size_t)at, &all); at++)
        if (CPU_ISSET((size_t)at, &all)) before--;
    return at;
}

void weft__affinity_return(int processor)
{
    cpu_set_t all, one;
    WEFT__ASSERT(processor < CPU_SETSIZE, processor);
    if (processor < 0 || sched_getcpu() == processor || sched_getaffinity(0, sizeof all, &all)) return;
    if (!CPU_ISSET((size_t)processor, &all)) return;
    CPU_ZERO(&one);
    CPU_SET((size_t)processor, &one);
    if (!sched_setaffinity(0, sizeof one, &one)) sched_setaffinity(0, sizeof all, &all);
}
