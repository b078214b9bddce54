/* mishap.c - see mishap.h. */
#include "mishap.h"

#include <stdio.h>
#include <string.h>

static const char *const names[MISHAPS] = {
    "nothing",
    "slow calls",
    "a call that pauses",
    "a call that fails",
    "a lost device",
    "a call hangs",
    "a call that stays stuck",
    "a call that is late",
    "an error for later",
    "a held stream",
    "a late rank",
    "a mismatch",
    "cancelled",
    "short times",
    "killed",
    "killed in a call",
};

/* Functions that the module calls, and tests do not. */
static const char *const cuda_calls[] = {
    "cudaEventQuery",
    "cudaStreamIsCapturing",
    "cudaEventCreateWithFlags",
    "cuPointerGetAttributes",
    "cudaEventRecord",
    "cudaStreamWaitEvent",
    "cudaMemsetAsync",
    "cudaGraphAddHostNode",
    "cudaStreamCreateWithPriority",
    "cudaEventDestroy",
    "cudaGetDevice",
    "cudaUserObjectCreate",
    "cudaGraphRetainUserObject",
    "cudaStreamDestroy",
};
static const char *const nccl_calls[] = {
    "ncclGroupEnd",
    "ncclGroupStart",
    "ncclAllReduce",
    "ncclSend",
    "ncclRecv",
    "ncclBroadcast",
    "ncclAllGather",
    "ncclReduce",
    "ncclCommInitRankConfig",
    "ncclCommSplit",
    "ncclCommGetAsyncError",
    "launching",
    "background",
    "ncclCommFinalize",
    "ncclCommDestroy",
    "ncclCommAbort",
    "ncclGetUniqueId",
};
/* Those in which one hangs that waits for another rank, which an abort ends.  One that hangs in a launch is stuck. */
static const char *const calls_that_wait[] = {"ncclGroupEnd", "ncclCommInitRankConfig", "background"};
static const int cuda_errors[] = {2, 400, 700, 719, 801, 999};
static const int nccl_errors[] = {1, 2, 3, 5, 6};

#define ONE_OF(list, random) (list)[job_random(random) % (sizeof(list) / sizeof *(list))]

static int below(uint64_t *random, int n)
{
    return (int)(job_random(random) % (uint64_t)n);
}

static const char *any_call(uint64_t *random)
{
    return below(random, 2) ? ONE_OF(cuda_calls, random) : ONE_OF(nccl_calls, random);
}

/* Most of a program's faults come early, where communicators are made too. */
static int nth(uint64_t *random)
{
    return 1 + below(random, below(random, 2) ? 5 : 60);
}

static void write_failure(char *to, size_t room, uint64_t *random)
{
    if (below(random, 2))
        snprintf(to, room, "%s@%d=error:%d", ONE_OF(cuda_calls, random), nth(random),
                 ONE_OF(cuda_errors, random));
    else
        snprintf(to, room, "%s@%d=error:%d", ONE_OF(nccl_calls, random), nth(random),
                 ONE_OF(nccl_errors, random));
}

static void write_script(mishap *m, uint64_t *random)
{
    char *to = m->script;
    const size_t room = sizeof m->script;
    switch (m->kind) {
    case SLOW_CALLS:
        snprintf(to, room, "%s@*%d=delay:%d;%s@*%d=delay:%d", any_call(random), 1 + below(random, 8),
                 1 + below(random, 5), ONE_OF(nccl_calls, random), 1 + below(random, 8),
                 1 + below(random, 20));
        break;
    case CALL_PAUSES:
        snprintf(to, room, "%s@%d=hang:%d", any_call(random), nth(random), 50 + below(random, 500));
        break;
    case CALL_FAILS: write_failure(to, room, random); break;
    case DEVICE_LOST: snprintf(to, room, "%s@%d=error:700!", ONE_OF(cuda_calls, random), nth(random)); break;
    case CALL_HANGS: snprintf(to, room, "%s@%d=hang", ONE_OF(calls_that_wait, random), nth(random)); break;
    case CALL_STUCK:
        snprintf(to, room, "%s@%d=stuck", below(random, 4) ? ONE_OF(calls_that_wait, random) : "launching",
                 nth(random));
        break;
    case CALL_LATE:
        snprintf(to, room, "%s@%d=delay:%d",
                 below(random, 2) ? ONE_OF(cuda_calls, random) : ONE_OF(calls_that_wait, random), nth(random),
                 (int)MISHAP_LATE_MS);
        break;
    case ERROR_FOUND_LATER:
        snprintf(to, room, "async@%d=value:%d;%s@*%d=delay:%d", nth(random), ONE_OF(nccl_errors, random),
                 "ncclGroupEnd", 1 + below(random, 4), 1 + below(random, 50));
        break;
    case DIES_IN_CALL: snprintf(to, room, "%s@%d=die", any_call(random), nth(random)); break;
    default: to[0] = 0;
    }
}

/* Errors of CUDA with which a device dies, also without the script's "!"; and an abort that NCCL refuses, or is stuck in: what
 * that has on the device may stay there for good. */
static bool may_cost_device(const mishap *m)
{
    return strstr(m->script, "=error:700") || strstr(m->script, "=error:719") ||
           strstr(m->script, "ncclCommAbort@");
}

void mishap_draw(mishap *m, uint64_t seed)
{
    uint64_t random = seed;
    size_t at;
    *m = (mishap){.seed = seed,
                  .kind = (mishap_kind)below(&random, MISHAPS),
                  .ranks = 2 + below(&random, MISHAP_RANKS_MOST - 1),
                  .threads = 1 + below(&random, 3),
                  .steps = JOB_SANITIZED ? 25 : 50,
                  .program = below(&random, 2)};
    m->victim = below(&random, m->ranks);
    m->step = 5 + below(&random, m->steps - 5);
    m->after_ms = below(&random, 20 * JOB_SLOWER);
    /* Who submits makes the call there, and would never return. */
    if (m->program && m->kind == CALL_STUCK) m->kind = CALL_HANGS;
    write_script(m, &random);
    m->old_nccl = below(&random, 5) == 0;
    m->blocking = below(&random, 6) == 0 && mishap_is_calm(m); /* who is late holds up others then */
    m->shares = below(&random, 6) == 0;
    at = strlen(m->script);
    if (!mishap_is_calm(m) && below(&random, 4) == 0) { /* one more */
        if (at) m->script[at++] = ';';
        write_failure(m->script + at, sizeof m->script - at, &random);
    }
    m->costs_device = may_cost_device(m);
    snprintf(m->name, sizeof m->name, "seed %llu: %s, %d ranks, %d threads, %s order%s%s%s%s%s; rank %d",
             (unsigned long long)seed, names[m->kind], m->ranks, m->threads,
             m->program ? "program" : "agreed", m->old_nccl ? ", NCCL 2.19" : "",
             m->blocking ? ", blocking" : "", m->shares ? ", sharing" : "", m->script[0] ? ", " : "",
             m->script, m->victim);
}

const char *mishap_name(mishap_kind kind)
{
    return names[kind];
}
