/* inside.c - see inside.h.  Nothing is measured on a thread that has never asked. */
#include "inside.h"

#include <stdbool.h>
#include <time.h>

static _Thread_local struct {
    bool asked, in_nccl;
    uint64_t since_ns, ns; /* since: 0: outside */
} inside;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void leave(void)
{
    if (inside.since_ns) inside.ns += now_ns() - inside.since_ns;
    inside.since_ns = 0;
}

void emu__inside(void)
{
    if (inside.asked && !inside.in_nccl) inside.since_ns = now_ns();
}

void emu__outside(void)
{
    if (inside.asked && !inside.in_nccl) leave();
}

void emu_inside_nccl(void)
{
    emu__inside();
    inside.in_nccl = true;
}

void emu_outside_nccl(void)
{
    inside.in_nccl = false;
    emu__outside();
}

uint64_t emu_ns_inside(void)
{
    inside.asked = true;
    return inside.ns;
}
