#include "segment_ranks.h"
#include "clock.h"
#include "job.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

typedef struct joiner {
    weft__segment_config config;
    weft__segment *segment;
    weft_status status;
    pthread_t thread;
} joiner;

weft__segment_config segment_config(int rank, int size, int64_t timeout_ms)
{
    static const weft__keys keys = {.data = {1, 2, 3}, .job = {4, 5, 6}};
    static int world_ranks[WEFT__SEGMENT_RANKS_MAX];
    static char name[64];
    static pid_t named;

    if (!named) { /* children of a fork keep it: they are ranks of the same job */
        named = getpid();
        snprintf(name, sizeof name, "test-%d-%llx", (int)named, (unsigned long long)weft__now_ns());
        for (int i = 0; i < WEFT__SEGMENT_RANKS_MAX; i++) world_ranks[i] = BOARD_WORLD(i);
    }
    return (weft__segment_config){.rank = rank,
                                  .size = size,
                                  .world_ranks = world_ranks,
                                  .keys = &keys,
                                  .name = name,
                                  .deadline_ns = weft__deadline(weft__now_ns(), timeout_ms),
                                  .arena = {BOARD_BLOCKS, BOARD_BLOCK_BYTES}};
}

static void *join(void *arg)
{
    joiner *j = arg;
    j->status = weft__segment_join(&j->config, &j->segment);
    if (j->status) fprintf(stderr, "rank %d: %s\n", j->config.rank, weft_last_error());
    return NULL;
}

void segment_join_with(int size, weft__segment_arena arena, weft__segment *segments[])
{
    joiner all[16];

    assert(size <= 16);
    for (int i = 0; i < size; i++) {
        all[i].config = segment_config(i, size, JOB_WAIT_MS);
        all[i].config.arena = arena;
        if (pthread_create(&all[i].thread, NULL, join, &all[i])) _exit(99);
    }
    for (int i = 0; i < size; i++) {
        pthread_join(all[i].thread, NULL);
        if (all[i].status) _exit(98);
        segments[i] = all[i].segment;
    }
}

void segment_join_all(int size, weft__segment *segments[])
{
    segment_join_with(size, (weft__segment_arena){BOARD_BLOCKS, BOARD_BLOCK_BYTES}, segments);
}
