/* mishap.h - what may befall a job whose operations are on devices, drawn by seed: in whose order, how many threads, and what
 * happens to one of its ranks, most of it by a script of the emulation (tests/emulation/cudart/script.h). */
#ifndef TESTS_DEVICE_MISHAP_H
#define TESTS_DEVICE_MISHAP_H
#include "job.h"

typedef enum mishap_kind {
    /* Nothing ends. */
    NOTHING,
    SLOW_CALLS,
    CALL_PAUSES,
    CALM, /* how many of those there are */
    /* Groups in which the victim is may end. */
    CALL_FAILS = CALM,
    DEVICE_LOST,
    CALL_HANGS,
    CALL_STUCK, /* whatever is aborted: its thread is given up, and the device */
    CALL_LATE,
    ERROR_FOUND_LATER,
    STREAM_HELD,
    RANK_LATE,
    MISMATCH,
    CANCEL,
    SHORT_TIMES,
    /* The victim dies. */
    KILLED,
    DIES_IN_CALL,
    MISHAPS
} mishap_kind;

enum {
    MISHAP_SHORT_MS = JOB_SANITIZED ? 2500 : 800, /* deadline of operations in groups with the victim */
    MISHAP_LATE_MS = 5 * MISHAP_SHORT_MS / 2,     /* what is late comes so much later */
    MISHAP_RANKS_MOST = 4
};

/* What has come of it; all ranks see it. */
typedef struct mishap_outcome {
    atomic_bool ended;    /* an operation or a group, over it */
    atomic_bool carried;  /* a rule of the script has been carried out in who walked to its end */
    atomic_bool outlived; /* who was to be killed has come to its end before */
} mishap_outcome;

typedef struct mishap {
    uint64_t seed;
    mishap_kind kind;
    int ranks, threads, steps, victim;
    bool program;  /* program order, in which one thread submits to devices, and graphs are recorded */
    bool old_nccl; /* without what came after 2.19 */
    bool blocking; /* NCCL's calls */
    bool shares;   /* communicators that are split share what they have */
    bool
        costs_device; /* CUDA may answer the victim's own calls with errors from then on, or its streams never go on */
    int step;           /* at which the victim does it by itself */
    int after_ms;       /* so long after that step it is killed */
    bool has_to_happen; /* a rule of its script has to be carried out */
    bool has_to_end;    /* something has to end over it */
    mishap_outcome *outcome;
    char script[160];
    char name[400];
} mishap;

void mishap_draw(mishap *m, uint64_t seed);
const char *mishap_name(mishap_kind kind);
static inline bool mishap_is_calm(const mishap *m)
{
    return m->kind < CALM;
}
/* Nothing but what ranks do themselves: devices and NCCL are as good afterwards. */
static inline bool mishap_spares_devices(const mishap *m)
{
    return !m->script[0];
}
static inline bool mishap_kills(const mishap *m)
{
    return m->kind >= KILLED;
}

#endif
