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
 * Callers.  Ranks that outnumber the processors and meet in shared memory take turns by the microsecond: the
 * kernel takes none of them for one that has rested and may be moved.  So of four on two processors three
 * stay together for seconds, and all wait for these.  Hence each has a home, and goes there when it joins and
 * when it has slept.  (Over sockets they sleep and wake all the time, and the kernel has its say.) */
#include "home.h"
#include "clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY_NS (2 * WEFT__MS)
/* What is seen in one moment is little: it goes home when it is sure, and leaves when it is no more. */
#define GO_AT    3
#define LEAVE_AT 1
/* Threads for each processor: its caller, two ranks' progress threads; above, many wait for their turn. */
#define FEW 3

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

weft__home_room weft__home_room_of(const char *line, int processors)
{
    int running;
    if (sscanf(line, "%*s %*s %*s %d/", &running) != 1 || running <= processors) return WEFT__HOME_FREE;
    return running > FEW * processors ? WEFT__HOME_CROWDED : WEFT__HOME_TAKEN;
}

static weft__home_room room_now(const weft__home *home)
{
    char line[128];
    ssize_t n = pread(home->load_fd, line, sizeof line - 1, 0);
    if (n <= 0) return WEFT__HOME_FREE;
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
    int64_t now;
    if (home->processors < 1 || caller < 0 || (now = weft__now_ns()) - home->looked_ns < LOOK_EVERY_NS)
        return;
    home->looked_ns = now;
    switch (room_now(home)) {
    case WEFT__HOME_FREE: home->taken -= home->taken > 0; break;
    case WEFT__HOME_TAKEN: home->taken += home->taken < WEFT__HOME_SURE; break;
    case WEFT__HOME_CROWDED: home->taken = 0; break; /* one look is enough: it may have waited long for it */
    }
    if (home->taken <= LEAVE_AT)
        weft__home_leave(home);
    else if (home->taken >= GO_AT && caller != home->at && caller < CPU_SETSIZE &&
             CPU_ISSET((size_t)caller, &home->all))
        run_on(home, caller);
}

int weft__home_of(int number, int count)
{
    cpu_set_t all;
    int n, at = 0;
    if (sched_getaffinity(0, sizeof all, &all) || (n = CPU_COUNT(&all)) < 2) return -1;
    for (int before = number * n / count; before || !CPU_ISSET((size_t)at, &all); at++)
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
