/* lane.c - see lane.h. */
#include "lane.h"
#include "device.h"
#include "lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LANES_MOST = 32, PRIORITIES = 6 /* 0 to -5 */ };

static emu__lane lanes[EMU__DEVICES_MAX][PRIORITIES][LANES_MOST];
static unsigned next[EMU__DEVICES_MAX][PRIORITIES];
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static pthread_once_t count_once = PTHREAD_ONCE_INIT;
static unsigned count; /* of a device and priority; 0: streams share none */

static void read_count(void)
{
    const char *asked = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    char *end = "";
    long value = asked && *asked ? strtol(asked, &end, 10) : 0;

    if (*end || value < 0 || value > LANES_MOST) {
        fprintf(stderr, "emulation: CUDA_DEVICE_MAX_CONNECTIONS: \"%s\": expected 1 to %d\n", asked,
                LANES_MOST);
        _exit(EMU_MISUSE_STATUS);
    }
    count = (unsigned)value;
}

emu__lane *emu__lane_choose(int device, int priority)
{
    int of;

    pthread_once(&count_once, read_count);
    if (!count) return NULL;
    of = count == 1 ? 0 : -priority % PRIORITIES;
    return &lanes[device][of][next[device][of]++ % count];
}

bool emu__lane_is_empty(const emu__lane *lane)
{
    return !lane || lane->queued == lane->taken;
}

uint64_t emu__lane_queue(emu__lane *lane)
{
    return lane ? lane->queued++ : 0;
}

void emu__lane_await(const emu__lane *lane, uint64_t place)
{
    while (lane && lane->taken != place) pthread_cond_wait(&moved, &emu__mutex);
}

void emu__lane_take(emu__lane *lane)
{
    if (!lane) return;
    lane->taken++;
    pthread_cond_broadcast(&moved);
}
