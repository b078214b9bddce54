/* home.c - where threads run while no processor is free.
 *
 * The progress thread.  The kernel wakes a thread near to what woke it, on a free processor if there is one.
 * Where there is none, the threads of several ranks come together on the processor that takes the network's
 * interrupts, and one rank pays for all: of two that compute while 16 MiB go each way, one lost 27 ms of 140
 * and the other 3.  So then the thread runs where its own callers do, and each rank pays for what it sends
 * and receives.  When a processor is free again the kernel chooses as before.  So it does where each thread
 * waits for many others: of two processors with a hundred threads each it is the next that has a turn for it,
 * and a rank whose progress thread may take only one of them stands meanwhile.
 *
 * Callers that have a home go there when they join and when they have slept.  When a thread moves, and who has
 * a home, pacing.h decides: here is what asks and tells the system. */
#include "home.h"
#include "clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void weft__home_open(weft__home *home, const char *load)
{
    *home = (weft__home){.at = -1, .load_fd = -1};
    if (sched_getaffinity(0, sizeof home->all, &home->all) || CPU_COUNT(&home->all) < 2) return;
    home->load_fd = open(load, O_RDONLY | O_CLOEXEC);
    if (home->load_fd >= 0) home->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void weft__home_close(weft__home *home)
{
    if (home->load_fd >= 0) close(home->load_fd);
    home->load_fd = -1;
    home->processors = 0;
}

weft__room weft__home_room_of(const char *line, int processors)
{
    int running;
    if (sscanf(line, "%*s %*s %*s %d/", &running) != 1) return WEFT__ROOM_FREE;
    return weft__pacing_room(running, processors);
}

static weft__room room_now(const weft__home *home)
{
    char line[128];
    ssize_t n = pread(home->load_fd, line, sizeof line - 1, 0);
    if (n <= 0) return WEFT__ROOM_FREE;
    line[n] = 0;
    return weft__home_room_of(line, home->processors);
}

static void run_on(weft__home *home, int processor)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    if (processor >= 0) CPU_SET((size_t)processor, &one);
    /* Where it must not be changed, it is not. */
    if (!sched_setaffinity(0, sizeof one, processor >= 0 ? &one : &home->all)) home->at = processor;
}

void weft__home_leave(weft__home *home)
{
    if (home->at >= 0) run_on(home, -1);
}

void weft__home_go(weft__home *home, int caller)
{
    int next;
    if (home->processors < 1 || caller < 0 || !weft__staying_looks(&home->staying, weft__now_ns())) return;
    next = weft__staying_next(&home->staying, room_now(home), caller);
    if (next == WEFT__ANY_PROCESSOR)
        weft__home_leave(home);
    else if (next >= 0 && next != home->at && next < CPU_SETSIZE && CPU_ISSET((size_t)next, &home->all))
        run_on(home, next);
}

int weft__home_of(int number, int count)
{
    cpu_set_t all;
    int n, at = 0;
    if (sched_getaffinity(0, sizeof all, &all) || (n = CPU_COUNT(&all)) < 2) return -1;
    for (int before = weft__pacing_home(number, count, n); before || !CPU_ISSET((size_t)at, &all); at++)
        if (CPU_ISSET((size_t)at, &all)) before--;
    return at;
}

void weft__home_return(int processor)
{
    cpu_set_t all, one;
    if (processor < 0 || sched_getcpu() == processor || sched_getaffinity(0, sizeof all, &all)) return;
    if (!CPU_ISSET((size_t)processor, &all)) return;
    CPU_ZERO(&one);
    CPU_SET((size_t)processor, &one);
    if (!sched_setaffinity(0, sizeof one, &one)) sched_setaffinity(0, sizeof all, &all);
}
