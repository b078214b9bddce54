/* module_ranks.h - what the tests of libweft_nccl.so share: each rank loads it with a table of its own and is
 * its runtime: it hands round ids, gives it works, and polls.  No part of libweft is asked. */
#ifndef TESTS_EMULATION_MODULE_RANKS_H
#define TESTS_EMULATION_MODULE_RANKS_H
#include "nccl_ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/backend.h>

enum { GRACE_MS = 100 * JOB_SLOWER, SENTENCE = 700 };

/* A communicator as its owner sees it. */
typedef struct owner {
    weft_backend_comm *comm;
    atomic_int named, joined;
    unsigned char id[sizeof(ncclUniqueId)];
    weft_status status; /* joined */
    char sentence[SENTENCE];
} owner;

/* A work, and what became of it. */
typedef struct task {
    weft_backend_work work; /* its owner is the task */
    atomic_int issued, over;
    weft_status status;
    char sentence[SENTENCE];
} task;

static _Thread_local char last_failure[SENTENCE];
static inline void told_finish(weft_backend_work *work, weft_status status, const char *sentence)
{
    task *t = work->owner;
    t->status = status;
    snprintf(t->sentence, sizeof t->sentence, "%s", sentence ? sentence : "");
    CHECK_INT(atomic_fetch_add(&t->over, 1), 0); /* exactly once */
}

static inline void told_issued(weft_backend_work *work)
{
    atomic_store(&((task *)work->owner)->issued, 1);
}

static inline void told_named(void *to, const void *id)
{
    owner *o = to;
    memcpy(o->id, id, sizeof o->id);
    atomic_store(&o->named, 1);
}

static inline void told_joined(void *to, weft_status status, const char *sentence)
{
    owner *o = to;
    o->status = status;
    snprintf(o->sentence, sizeof o->sentence, "%s", sentence ? sentence : "");
    CHECK_INT(atomic_fetch_add(&o->joined, 1), 0);
}

static inline weft_status told_failure(weft_status status, const char *sentence)
{
    snprintf(last_failure, sizeof last_failure, "%s", sentence);
    return status;
}

static atomic_bool leaves_behind; /* the module has said that a communicator hangs, and so the module stays */

static inline void told_line(int level, const char *line)
{
    if (strstr(line, "hangs and is left behind")) atomic_store(&leaves_behind, true);
    if (level < 2) fprintf(stderr, "module: %s\n", line);
}

static inline void told_behind(weft_backend_work *work, bool behind)
{
    (void)work, (void)behind;
}

static _Thread_local int waits_told; /* by this thread */

static inline void told_waits(void)
{
    waits_told++;
}

static const weft_backend_runtime test_table = {WEFT_BACKEND_VERSION, told_finish, told_issued,  told_behind,
                                                told_named,           told_joined, told_failure, told_line,
                                                job_now_ns,           told_waits};

static inline weft_backend_open_fn *module_open_function(void)
{
    char path[600];
    weft_backend_open_fn *open;
    void *symbol, *handle;
    snprintf(path, sizeof path, "%s/libweft_nccl.so", getenv("WEFT_MODULE_DIR"));
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) job_fail(__FILE__, __LINE__, "%s", dlerror());
    symbol = dlsym(handle, WEFT_BACKEND_OPEN);
    CHECK(symbol);
    memcpy(&open, &symbol, sizeof open);
    return open;
}

static inline weft_backend *module_load_with(const job_rank *me, int grace_ms)
{
    const weft_backend_place place = {.device = me->rank,
                                      .rank = me->rank,
                                      .local_rank = me->rank,
                                      .grace_ns = grace_ms * 1000000LL};
    const char *why = "";
    weft_backend *b = module_open_function()(&test_table, &place, &why);
    if (!b) job_fail(__FILE__, __LINE__, "%s", why);
    CHECK_INT(b->version, WEFT_BACKEND_VERSION);
    CHECK_INT(b->id_bytes, sizeof(ncclUniqueId));
    CHECK_INT(b->device, me->rank);
    CUDA(cudaSetDevice(me->rank));
    return b;
}

static inline weft_backend *module_load(const job_rank *me)
{
    return module_load_with(me, GRACE_MS);
}

static inline void await_word(atomic_int *word)
{
    for (int ms = 0; !atomic_load(word) && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK(atomic_load(word));
}

/* Rank 0's id, for all. */
static inline void share_id(job_rank *me, owner *o)
{
    _Static_assert(sizeof(ncclUniqueId) <= JOB_RESULTS * sizeof(int64_t), "it fits");
    job_meet(me);
    if (!me->rank) {
        await_word(&o->named);
        memcpy(job_results(me, 0), o->id, sizeof o->id);
    }
    job_meet(me);
    memcpy(o->id, job_results(me, 0), sizeof o->id);
}

static inline void begin_join(job_rank *me, weft_backend *b, owner *o, const char *label)
{
    memset(o, 0, sizeof *o);
    o->comm = b->open(b, o, me->rank, me->size, label, me->rank == 0);
    CHECK(o->comm);
    share_id(me, o);
    b->join(o->comm, o->id);
}

static inline void join_all(job_rank *me, weft_backend *b, owner *o, const char *label)
{
    begin_join(me, b, o, label);
    await_word(&o->joined);
    if (o->status) job_fail(__FILE__, __LINE__, "%s", o->sentence);
}

static inline task new_task(const job_rank *me, const owner *o, weft_backend_kind kind)
{
    task t = {.work = {.op = {.kind = kind,
                              .name = "all_reduce",
                              .dtype = WEFT_FLOAT32,
                              .memory = WEFT_MEMORY_CUDA,
                              .scale = 1},
                       .comm = o ? o->comm : NULL,
                       .rank = me->rank,
                       .size = me->size,
                       .peer = -1}};
    return t;
}

static inline void start(weft_backend *b, task *t)
{
    t->work.owner = t;
    b->start(b, &t->work);
}

static inline void poll_until_over(weft_backend *b, task *t)
{
    int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    while (!atomic_load(&t->over) && job_now_ns() < until) b->poll(b);
    CHECK(atomic_load(&t->over));
}

static inline void poll_for(weft_backend *b, int ms)
{
    int64_t until = job_now_ns() + ms * INT64_C(1000000);
    while (job_now_ns() < until) {
        b->poll(b);
        job_sleep_ms(1);
    }
}

static inline void run_task(weft_backend *b, task *t)
{
    start(b, t);
    poll_until_over(b, t);
    if (t->status) job_fail(__FILE__, __LINE__, "%s", t->sentence);
}

/* ---- sums ---- */

enum { SUMMED = 256, LATER_MS = 30 };

static inline task sum_task(const job_rank *me, const owner *o, float *buffer)
{
    task t = new_task(me, o, WEFT_BACKEND_ALL_REDUCE);
    t.work.op.in = t.work.op.out = buffer;
    t.work.op.count = SUMMED;
    return t;
}

static inline void sum_works(job_rank *me, weft_backend *b, const owner *o, int ranks)
{
    float host[SUMMED], *device;
    task t;
    for (int i = 0; i < SUMMED; i++) host[i] = 1;
    device = to_device(host, sizeof host);
    t = sum_task(me, o, device);
    t.work.size = ranks;
    run_task(b, &t);
    CUDA(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < SUMMED; i++) CHECK(host[i] == (float)ranks);
    CUDA(cudaFree(device));
}

/* Until the function has been called so often in this process, and a little longer. */
static inline void await_calls(const char *function, uint64_t calls)
{
    for (int ms = 0; emu_calls(function) < calls && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK(emu_calls(function) >= calls);
    job_sleep_ms(LATER_MS);
}
#endif
