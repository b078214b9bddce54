/* test_module.c - a backend whose start blocks for seconds, beside host traffic: traffic, deadlines and
 * settling go on.  The module (support/module_blocker.c) takes the operations on WEFT_MEMORY_CUDA.  And backends that
 * say of themselves what cannot be (support/module_crooked.c). */
#include "blocked_callback.h"
#include "job.h"

#include <dlfcn.h>
#include <glob.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKED_MS = JOB_WAIT_MS / 2, SHORT_MS = 300, COUNT = 4, LARGE = 1 << 20, VICTIM = 2 };

enum { KILLED_AT }; /* result of a rank */

static void join_with_blocker(job_rank *me)
{
    char blocked_ms[16];
    snprintf(blocked_ms, sizeof blocked_ms, "%d", BLOCKED_MS);
    job_setenv(me, "BLOCKER_MS", blocked_ms);
    job_setenv(me, "WEFT_BACKENDS", "blocker"); /* host need not be named */
    job_setenv(me, "WEFT_MODULE_DIR", TEST_MODULE_DIR);
    job_join(me);
    CHECK(!strcmp(weft_backends(me->ctx), "host,blocker"));
}

static _Atomic int *of_module(const char *name)
{
    void *module = dlopen(TEST_MODULE_DIR "/libweft_blocker.so", RTLD_NOW | RTLD_NOLOAD), *symbol;
    CHECK(module != NULL);
    symbol = dlsym(module, name);
    CHECK(symbol != NULL);
    return symbol;
}

/* A thread of this rank is inside the blocking slot. */
static bool is_blocked(void)
{
    return atomic_load(of_module("blocker_blocked")) > 0;
}

static void await_blocked(void)
{
    for (int i = 0; i < JOB_WAIT_MS && !is_blocked(); i++) job_sleep_ms(1);
    CHECK(is_blocked());
}

/* The progress thread of every rank enters the blocking slot; returns when this rank's has. */
static weft_request *block(weft_group *group, int32_t *buf)
{
    weft_request *req = NULL;
    weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_WAIT_MS};
    CHECK_OK(weft_all_reduce(group, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    await_blocked();
    return req;
}

/* It ends in whatever way the module likes. */
static void unblock(weft_request *req)
{
    CHECK(is_blocked()); /* all the while */
    CHECK_INT(weft_test(req), WEFT_PENDING);
    atomic_store(of_module("blocker_opens"), 1);
    CHECK(weft_wait(req, JOB_WAIT_MS) != WEFT_PENDING);
    weft_release(req);
}

static void traffic(job_rank *me)
{
    static int32_t blocked[COUNT];
    join_with_blocker(me);
    weft_group *group = job_group(me, me->size, "blocked", 0);
    job_meet(me);
    weft_request *req = block(group, blocked);
    for (int i = 0; i < 100; i++) job_sum_works(me->world);
    job_message_works(me->world, 0, 1, 1);
    unblock(req);
}

/* Without moving it along. */
static weft_request_info await_settled(weft_request *req)
{
    weft_request_info info = job_info(req);
    for (int i = 0; i < JOB_WAIT_MS && info.status == WEFT_PENDING; i++) {
        job_sleep_ms(1);
        info = job_info(req);
    }
    return info;
}

/* Nobody waits for it: what moves is moved by the library alone, before the module comes back. */
static void settle_meanwhile(job_rank *me)
{
    unsigned char *out = job_alloc(me, LARGE), *in = job_alloc(me, LARGE);
    int peer = 1 - me->rank;
    weft_request *reqs[3] = {NULL};
    memset(out, me->rank + 1, LARGE);
    CHECK_OK(weft_irecv(me->world, in, LARGE, WEFT_UINT8, peer, 0, NULL, &reqs[0]));
    CHECK_OK(weft_isend(me->world, out, LARGE, WEFT_UINT8, peer, 0, NULL, &reqs[1]));
    CHECK_OK(weft_barrier(me->world, NULL, &reqs[2]));
    for (int i = 0; i < 3; i++) {
        CHECK_INT(await_settled(reqs[i]).status, WEFT_OK);
        weft_release(reqs[i]);
    }
    CHECK(in[0] == peer + 1 && in[LARGE - 1] == peer + 1);
}

static void settling(job_rank *me)
{
    static int32_t blocked[COUNT];
    join_with_blocker(me);
    weft_group *group = job_group(me, me->size, "blocked", 0);
    job_meet(me);
    weft_request *req = block(group, blocked);
    settle_meanwhile(me);
    unblock(req);
}

static void deadlines(job_rank *me)
{
    static int32_t blocked[COUNT];
    int32_t value = 0;
    weft_request *receive = NULL;
    weft_call call = {.timeout_ms = SHORT_MS};
    join_with_blocker(me);
    weft_group *group = job_group(me, me->size, "blocked", 0);
    job_meet(me);
    weft_request *req = block(group, blocked);
    CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 1 - me->rank, 5, &call, &receive));
    weft_request_info info = await_settled(receive);
    CHECK_INT(info.status, WEFT_ERR_TIMEOUT);
    CHECK_PERIOD(info.submitted_ns, info.settled_ns, SHORT_MS, SHORT_MS + JOB_LATE_MS);
    weft_release(receive);
    job_meet(me); /* who leaves would end the other one's */
    unblock(req);
}

/* One request is given up while the module is inside with its work: if that waits for other ranks, the device is none the worse, and
 * what is behind it goes on as it comes back; else the device is lost, and all groups on it break. */
static void given_up_inside(job_rank *me, bool waits)
{
    static int32_t first[COUNT], second[COUNT];
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_WAIT_MS};
    weft_request *req, *behind;
    if (waits) job_setenv(me, "BLOCKER_WAITS", "1");
    join_with_blocker(me);
    weft_group *late = job_group(me, me->size, "late", 0), *group = job_group(me, me->size, "behind it", 0);
    job_meet(me);
    req = block(late, first);
    CHECK_OK(weft_all_reduce(group, second, second, COUNT, WEFT_INT32, WEFT_SUM, &call, &behind));
    job_sleep_ms(2 * SHORT_MS); /* so long that it could be stuck */
    weft_cancel(req);
    CHECK_INT(await_settled(req).status, WEFT_ERR_CANCELLED);
    weft_release(req);
    if (waits) {
        job_sleep_ms(SHORT_MS);
        CHECK_INT(weft_test(behind), WEFT_PENDING);
        atomic_store(of_module("blocker_opens"), 1);
        WAIT_STATUS(WEFT_OK, behind);
    } else {
        WAIT_STATUS(WEFT_ERR_SYSTEM, behind);
        CHECK_TEXT(weft_request_message(behind), "a call on it has not returned");
    }
    weft_release(behind);
    job_meet(me); /* who leaves would end the other one's */
    atomic_store(of_module("blocker_opens"), 1);
}

static void given_up_as_it_waits(job_rank *me)
{
    given_up_inside(me, true);
}

static void given_up_as_it_is_stuck(job_rank *me)
{
    given_up_inside(me, false);
}

/* What a module keeps, and a dead rank never ends, is waited for no longer than until that rank is dead: neither what
 * fails then, nor what had failed before. */
static void dead_member(job_rank *me)
{
    static int32_t late[COUNT], running[COUNT];
    weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_SHORT_MS};
    weft_request *reqs[2] = {NULL};
    job_setenv(me, "BLOCKER_KEEPS", "1");
    job_setenv(me, "WEFT_DRAIN_MS", "3600000");
    join_with_blocker(me);
    weft_group *group = job_group(me, me->size, "late", 0);
    job_meet(me);
    CHECK_OK(weft_all_reduce(group, late, late, COUNT, WEFT_INT32, WEFT_SUM, &call, &reqs[0]));
    call.timeout_ms = JOB_WAIT_MS;
    CHECK_OK(weft_all_reduce(me->world, running, running, COUNT, WEFT_INT32, WEFT_SUM, &call, &reqs[1]));
    CHECK(job_await_break(group, JOB_SHORT_MS + JOB_LATE_MS) < 0); /* its time is up */
    CHECK_INT(weft_test(reqs[0]), WEFT_PENDING);                   /* its buffers are not free */
    job_mark(me, 0);
    job_await(me, 0, me->size);
    if (me->rank == VICTIM) job_sleep_ms(JOB_LIMIT_MS);
    if (me->rank == 0) {
        job_results(me, VICTIM)[KILLED_AT] = job_now_ns();
        job_kill(me, VICTIM);
    }
    for (int i = 0; i < 2; i++) {
        WAIT_STATUS(i ? WEFT_ERR_PEER : WEFT_ERR_TIMEOUT, reqs[i]);
        weft_request_info info = job_info(reqs[i]);
        CHECK(info.buffers_held);
        CHECK_PERIOD(job_results(me, VICTIM)[KILLED_AT], info.settled_ns, 0, JOB_LATE_MS);
        weft_release(reqs[i]);
    }
    unsetenv("BLOCKER_KEEPS");
}

/* Whose time is up, and who may take no time to let go, settles then, and what still has its buffers keeps them: it ends
 * in its own time, and no caller who waits for something else hurries it. */
static void left_behind(job_rank *me)
{
    enum { ROUNDS = 200 };
    static int32_t buf[COUNT];
    weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_SHORT_MS};
    weft_request *req = NULL;
    _Atomic int *held;
    job_setenv(me, "BLOCKER_ANY", "1");
    job_setenv(me, "BLOCKER_KEEPS", "1");
    job_setenv(me, "WEFT_DRAIN_MS", "0");
    join_with_blocker(me);
    weft_group *group = job_group(me, me->size, "left", 0);
    job_meet(me);
    CHECK_OK(weft_all_reduce(group, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
    weft_request_info info = job_info(req);
    CHECK(info.buffers_held);
    CHECK_PERIOD(info.submitted_ns, info.settled_ns, 0, JOB_SHORT_MS + JOB_LATE_MS);
    weft_release(req);
    held = of_module("blocker_held");
    CHECK_INT(atomic_load(held), 1);
    atomic_store(of_module("blocker_watched"), (int)gettid());
    for (int i = 0; i < ROUNDS; i++) job_sum_works(me->world);
    CHECK_INT(atomic_load(of_module("blocker_polls")), 0);
    atomic_store(of_module("blocker_lets_go"), 1);
    for (int i = 0; i < JOB_WAIT_MS && atomic_load(held); i++) job_sleep_ms(1);
    CHECK_INT(atomic_load(held), 0);
    job_sum_works(me->world);
}

/* A module that never lets go keeps the context, and not the files of a witness. */
static void leaves_with_a_witness(job_rank *me)
{
    static int32_t buf[COUNT];
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_SHORT_MS};
    char path[64], setting[80];
    glob_t found = {0};
    snprintf(path, sizeof path, "/tmp/weft-kept-%d.*", (int)getppid());
    snprintf(setting, sizeof setting, "file:/tmp/weft-kept-%d", (int)getppid());
    job_setenv(me, "WEFT_QUORUM", "witness");
    job_setenv(me, "WEFT_WITNESS", setting);
    job_setenv(me, "BLOCKER_ANY", "1");
    job_setenv(me, "BLOCKER_KEEPS", "1");
    job_setenv(me, "WEFT_DRAIN_MS", "0");
    join_with_blocker(me);
    weft_group *group = job_group(me, me->size, "kept", 0);
    job_meet(me);
    CHECK_STATUS(WEFT_ERR_TIMEOUT,
                 weft_all_reduce(group, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK_INT(glob(path, 0, NULL, &found), 0);
    globfree(&found);
    job_meet(me);
    job_leave(me);
    job_meet(me);
    CHECK_INT(glob(path, 0, NULL, &found), GLOB_NOMATCH);
}

/* All of it is over, and others may need it still: the progress thread looks after it, not too often. */
static void lingers(job_rank *me)
{
    enum { LOOKS = 8, IDLE_MS = 1000, PACE_MS = 20, SOON = 20 };
    static int32_t buf[COUNT];
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM};
    _Atomic int *looks;
    int64_t began_ns;
    int before;
    job_setenv(me, "BLOCKER_ANY", "1");
    job_setenv(me, "BLOCKER_LINGERS", "1");
    join_with_blocker(me);
    job_setenv(me, "BLOCKER_MS", "0");
    looks = of_module("blocker_looks");
    job_sleep_ms(50);
    CHECK_INT(atomic_load(looks), 0); /* it has no communicator yet */
    CHECK_OK(weft_all_reduce(me->world, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
    before = atomic_load(looks);
    for (int i = 0; i < JOB_WAIT_MS && atomic_load(looks) < before + LOOKS; i++) job_sleep_ms(1);
    CHECK(atomic_load(looks) >= before + LOOKS);
    job_meet(me);
    began_ns = job_now_ns();
    before = atomic_load(looks);
    if (me->rank) job_sleep_ms(IDLE_MS); /* the other one waits for it meanwhile */
    for (int i = 0; me->rank && i < JOB_WAIT_MS && atomic_load(looks) < before + LOOKS; i++) job_sleep_ms(1);
    job_sum_works(me->world);
    before = atomic_load(looks) - before;
    CHECK(before >= LOOKS && before <= (job_now_ns() - began_ns) / 1000000 / PACE_MS + SOON);
}

/* Groups that have used it and are freed leave nothing, as long as the context lives.  What is kept to be used again grows
 * whenever more is under way at a time than ever before, by up to 20 KiB seen; so the groups are many, and what each may
 * leave is small: 61 bytes. */
static void groups_leave_nothing(job_rank *me)
{
    enum { GROUPS = 1600, MOST_BYTES = 49152 };
    static int32_t buf[COUNT];
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM};
    size_t warm = 0;
    join_with_blocker(me);
    job_setenv(me, "BLOCKER_MS", "0");
    for (int i = 0; i < GROUPS; i++) {
        weft_group *group = job_group(me, me->size, "short", 0);
        CHECK_OK(weft_all_reduce(group, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
        CHECK_OK(weft_group_free(group));
        if (i == GROUPS / 2) warm = mallinfo2().uordblks;
    }
    CHECK(mallinfo2().uordblks <= warm + MOST_BYTES); /* which is 0 where a sanitizer allocates */
}

static void does_not_linger(job_rank *me)
{
    static int32_t buf[COUNT];
    const weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM};
    _Atomic int *looks;
    int before;
    job_setenv(me, "BLOCKER_ANY", "1");
    join_with_blocker(me);
    job_setenv(me, "BLOCKER_MS", "0");
    CHECK_OK(weft_all_reduce(me->world, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
    looks = of_module("blocker_looks");
    job_sleep_ms(SHORT_MS / 3);
    before = atomic_load(looks);
    job_sleep_ms(SHORT_MS);
    job_sum_works(me->world);
    CHECK(atomic_load(looks) <= before + 1); /* whoever began it may look at it late */
}

typedef struct waiter {
    weft_group *group;
    _Atomic int *begun_by, *blocks;
    _Atomic int thread;
    bool kept;           /* the module is to keep it, the first time that it calls */
    _Atomic bool served; /* by its own call */
} waiter;

static void serve(waiter *w, weft_group *group)
{
    *w = (waiter){.group = group,
                  .begun_by = of_module("blocker_begun_by"),
                  .blocks = of_module("blocker_blocks")};
}

static void wait_once(waiter *w)
{
    int32_t buf[COUNT] = {0};
    weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_WAIT_MS};
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(w->group, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    WAIT_OK(req);
    if (atomic_load(w->begun_by) == w->thread) w->served = true;
}

static void *wait_often(void *arg)
{
    enum { ROUNDS = 300 };
    waiter *w = arg;
    atomic_store(&w->thread, (int)gettid());
    if (w->kept) atomic_store(w->blocks, w->thread);
    for (int i = 0; i < ROUNDS; i++) {
        wait_once(w);
        if (w->served && w->kept) atomic_store(w->blocks, -1);
    }
    return NULL;
}

/* One that any thread may call is called by who waits, one at a time; and by the progress thread where nobody waits. */
static void served_by_callers(job_rank *me)
{
    weft_call call = {.memory = WEFT_MEMORY_CUDA, .stream = WEFT_NO_STREAM, .timeout_ms = JOB_WAIT_MS};
    int32_t buf[COUNT] = {0};
    weft_request *req = NULL;
    pthread_t thread;
    job_setenv(me, "BLOCKER_ANY", "1");
    join_with_blocker(me);
    setenv("BLOCKER_MS", "0", 1);
    waiter first, second;
    serve(&first, me->world);
    serve(&second, job_group(me, me->size, "second", 0));
    CHECK(!pthread_create(&thread, NULL, wait_often, &second));
    wait_often(&first);
    pthread_join(thread, NULL);
    CHECK(first.served || second.served);
    CHECK_OK(weft_all_reduce(me->world, buf, buf, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    CHECK_INT(await_settled(req).status, WEFT_OK);
    WAIT_OK(req);
    CHECK(atomic_load(first.begun_by) != (int)gettid());
}

static _Atomic bool stood_in;

static void hear(int level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    if (strstr(line, "the watchdog drives the host plane: a caller is inside a module")) stood_in = true;
}

/* It is a caller that the module keeps, to whom the progress thread had left all work: the watchdog does it. */
static void caller_inside(job_rank *me)
{
    static waiter w;
    pthread_t thread;
    job_setenv(me, "BLOCKER_ANY", "1");
    job_setenv(me, "WEFT_LOG", "3");
    weft_set_log(hear, NULL);
    join_with_blocker(me);
    serve(&w, job_group(me, me->size, "blocked", 0));
    w.kept = me->rank == 0;
    atomic_store(w.blocks, -1); /* nobody yet */
    job_meet(me);
    CHECK(!pthread_create(&thread, NULL, wait_often, &w));
    if (me->rank == 0) {
        await_blocked();
        job_mark(me, 0);
    }
    job_await(me, 0, 1);
    settle_meanwhile(me);
    if (me->rank == 0) CHECK(is_blocked());
    atomic_store(of_module("blocker_opens"), 1);
    pthread_join(thread, NULL);
    weft_set_log(NULL, NULL); /* what has been told is handed over by then */
    CHECK(me->rank != 0 || (w.served && stood_in));
}

typedef struct awaiting {
    waiter one;
    blocked_callback w;
} awaiting;

static void *wait_for_the_module(void *arg)
{
    awaiting *a = arg;
    wait_once(&a->one);
    atomic_store(&a->w.there, true);
    return NULL;
}

static void open_awaiting(job_rank *me, awaiting *a)
{
    job_setenv(me, "BLOCKER_ANY", "1");
    join_with_blocker(me);
    setenv("BLOCKER_MS", "0", 1);
    serve(&a->one, job_group(me, me->size, "awaited", 0));
}

/* A callback waits for a caller who waits for the module, which the progress thread, in that callback, cannot look after;
 * and rank 1 is late, so the caller sleeps by then. */
static void callback_waits(job_rank *me)
{
    static awaiting a;
    weft_request *reqs[2] = {NULL};
    open_awaiting(me, &a);
    if (me->rank == 0) block_a_callback(me, &a.w, reqs);
    job_meet(me);
    if (me->rank == 1) job_sleep_ms(SHORT_MS);
    wait_for_the_module(&a);
    for (int i = 0; i < 2; i++)
        if (reqs[i]) WAIT_OK(reqs[i]);
    CHECK(!atomic_load(&a.w.missed));
}

/* The caller sleeps first. */
static void callback_waits_for_a_sleeper(job_rank *me)
{
    static awaiting a;
    weft_request *reqs[2] = {NULL};
    pthread_t thread;
    open_awaiting(me, &a);
    job_meet(me);
    if (me->rank == 1) {
        job_await(me, 0, 1);
        job_sleep_ms(SHORT_MS);
        wait_for_the_module(&a);
        return;
    }
    CHECK(!pthread_create(&thread, NULL, wait_for_the_module, &a));
    job_sleep_ms(SHORT_MS);
    block_a_callback(me, &a.w, reqs);
    job_mark(me, 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
    CHECK(!atomic_load(&a.w.missed));
}

/* None of it is used, and a sentence says why. */
static void crooked(job_rank *me)
{
    static const struct {
        const char *what, *words;
    } rows[] = {
        {"nothing", "backend crooked cannot run here: it does not say why"},
        {"reason", "backend crooked cannot run here: it is Monday"},
        {"version", "backend crooked is made for another version of this library"},
        {"memory", "backend crooked moves memory of kind 0: expected 1 to 3"},
        {"more memory", "backend crooked moves memory of kind 4: expected 1 to 3"},
        {"no id", "backend crooked has ids of 0 bytes: expected 1 to 8192"},
        {"long id", "backend crooked has ids of 8193 bytes: expected 1 to 8192"},
        {"no check", "backend crooked leaves out a function that it must have"},
        {"no owns", "backend crooked leaves out a function that it must have"},
        {"half memory", "backend crooked leaves out a function that it must have"},
    };
    char url[64];
    weft_config config = job_config(me, url, 0);
    config.backends = "host,crooked";
    job_setenv(me, "WEFT_MODULE_DIR", TEST_MODULE_DIR);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_setenv(me, "CROOKED", rows[i].what);
        config.init_method = NULL;
        config.rank = config.world_size = -1;
        CHECK_STATUS(WEFT_ERR_UNSUPPORTED, weft_init(&config, &me->ctx));
        CHECK_TEXT(weft_last_error(), rows[i].words);
        me->ctx = NULL;
    }
}

static atomic_int warned;

static void hear_of_device(int level, const char *line, void *arg)
{
    (void)arg;
    if (level <= 1 && strstr(line, "config->device is 3, and operations are for host memory only"))
        atomic_fetch_add(&warned, 1);
}

/* Who names a device and asks for the host alone is told that it is not used. */
static void a_device_with_the_host(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    config.backends = "host";
    weft_set_log(hear_of_device, NULL);
    for (config.device = -1; config.device <= 3; config.device += 4) {
        CHECK_OK(weft_init(&config, &me->ctx));
        CHECK_INT(weft_device(me->ctx), -1);
        CHECK_OK(weft_finalize(me->ctx, JOB_WAIT_MS));
        me->ctx = NULL;
    }
    weft_set_log(NULL, NULL);
    CHECK_INT(atomic_load(&warned), 1);
}

typedef struct opening {
    weft_config config;
    atomic_bool works, over;
} opening;

static void work_or_open(job_rank *me, int thread, void *arg)
{
    opening *o = arg;
    weft_config config = o->config;
    weft_context *ctx = NULL;
    char url[64];
    int32_t one = 1;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", job_port(me, thread));
    config.init_method = url;
    config.backends = thread ? "blocker" : "host";
    while (thread && !atomic_load(&o->works)) job_sleep_ms(1);
    CHECK_OK(weft_init(&config, &ctx));
    for (int i = 0; !thread && (i < 100 || !atomic_load(&o->over)); i++) {
        weft_call call = {.stream = WEFT_NO_STREAM};
        CHECK_OK(weft_batch_begin(weft_world(ctx), &call.batch)); /* not begun by the call itself */
        CHECK_OK(weft_all_reduce(weft_world(ctx), &one, &one, 1, WEFT_INT32, WEFT_SUM, &call, NULL));
        CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
        atomic_store(&o->works, true);
    }
    CHECK_OK(weft_finalize(ctx, JOB_WAIT_MS));
    if (thread) atomic_store(&o->over, true);
}

/* The first module of a process is loaded beside a context that has none, and works. */
static void first_module_beside_work(job_rank *me)
{
    char url[64];
    opening o = {.config = job_config(me, url, 0)};
    job_setenv(me, "WEFT_MODULE_DIR", TEST_MODULE_DIR);
    job_setenv(me, "BLOCKER_MS", "1");
    job_threads(me, 2, work_or_open, &o);
}

/* One that makes no communicators breaks the group that wants one, and nothing else. */
static void no_communicator(job_rank *me)
{
    const weft_call call = {.memory = WEFT_MEMORY_OTHER};
    job_setenv(me, "WEFT_BACKENDS", "host,crooked");
    job_setenv(me, "WEFT_MODULE_DIR", TEST_MODULE_DIR);
    job_join(me);
    weft_group *group = job_group(me, me->size, "without", 0);
    CHECK_STATUS(WEFT_ERR_MEMORY, weft_barrier(group, &call, NULL));
    job_sum_works(me->world);
    CHECK_INT(weft_device(me->ctx), -1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("host traffic goes on", .ranks = 2, .body = traffic, .bare = true, .processes = true),
        JOB_TEST("a device with the host", .ranks = 1, .body = a_device_with_the_host, .bare = true,
                 .processes = true),
        JOB_TEST("the first module beside work", .ranks = 1, .body = first_module_beside_work, .bare = true,
                 .processes = true),
        JOB_TEST("settling goes on", .ranks = 2, .body = settling, .bare = true, .processes = true),
        JOB_TEST("a dead member", .ranks = 3, .body = dead_member, .bare = true, .killed = 1U << VICTIM),
        JOB_TEST("left behind", .ranks = 2, .body = left_behind, .bare = true, .processes = true),
        JOB_TEST("leaves with a witness", .ranks = 2, .body = leaves_with_a_witness, .bare = true,
                 .processes = true),
        JOB_TEST("lingers", .ranks = 2, .body = lingers, .bare = true, .processes = true),
        JOB_TEST("groups leave nothing", .ranks = 2, .body = groups_leave_nothing, .bare = true,
                 .processes = true),
        JOB_TEST("does not linger", .ranks = 2, .body = does_not_linger, .bare = true, .processes = true),
        JOB_TEST("served by callers", .ranks = 2, .body = served_by_callers, .bare = true, .processes = true),
        JOB_TEST("a caller inside", .ranks = 2, .body = caller_inside, .bare = true, .processes = true),
        JOB_TEST("a callback waits", .ranks = 2, .body = callback_waits, .bare = true, .processes = true),
        JOB_TEST("a callback waits for one asleep", .ranks = 2, .body = callback_waits_for_a_sleeper,
                 .bare = true, .processes = true),
        JOB_TEST("crooked ones", .ranks = 1, .body = crooked, .bare = true, .processes = true),
        JOB_TEST("no communicator", .ranks = 2, .body = no_communicator, .bare = true, .processes = true),
        JOB_TEST("given up as it waits", .ranks = 2, .body = given_up_as_it_waits, .bare = true,
                 .processes = true),
        JOB_TEST("given up as it is stuck", .ranks = 2, .body = given_up_as_it_is_stuck, .bare = true,
                 .processes = true),
        JOB_TEST("deadlines go on", .ranks = 2, .body = deadlines, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
