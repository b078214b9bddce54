/* test_module_failures.c - communicators that are stopped: while they are made, inside a group call, with
 * work under way; by NCCL's errors and by the death of a peer; and how they are split, dropped and closed. */
#include "module_ranks.h"

enum { N = 256, SHORT_MS = 30 };

static task sum_task(const job_rank *me, const owner *o, float *buffer)
{
    task t = new_task(me, o, WEFT_BACKEND_ALL_REDUCE);
    t.work.op.in = t.work.op.out = buffer;
    t.work.op.count = N;
    return t;
}

static void sum_works(job_rank *me, weft_backend *b, const owner *o, int ranks)
{
    float host[N], *device;
    task t;
    for (int i = 0; i < N; i++) host[i] = 1;
    device = to_device(host, sizeof host);
    t = sum_task(me, o, device);
    t.work.size = ranks;
    run_task(b, &t);
    CUDA(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) CHECK(host[i] == (float)ranks);
    CUDA(cudaFree(device));
}

/* Until the function has been called so often in this process, and a little longer. */
static void await_calls(const char *function, uint64_t calls)
{
    for (int ms = 0; emu_calls(function) < calls && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK(emu_calls(function) >= calls);
    job_sleep_ms(SHORT_MS);
}

/* ---- inside a group call ---- */

typedef struct progress {
    weft_backend *b;
    task *t;
    uint64_t ends; /* calls of ncclGroupEnd once all are inside */
} progress;

static void progress_thread(job_rank *me, int thread, void *arg)
{
    progress *p = arg;
    (void)me;
    if (thread == 0) {
        start(p->b, p->t);
        poll_until_over(p->b, p->t);
    } else { /* the watchdog */
        await_calls("ncclGroupEnd", p->ends);
        CHECK(!atomic_load(&p->t->over));
        p->b->doom(p->t->work.comm, "its time was up");
    }
}

static bool one_process(const job_rank *me)
{
    return job_pid(me, 0) == job_pid(me, 1);
}

/* Rank 1 hangs in the end of a group call; the other one's kernel waits for it. */
static void hang_in_group_end(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N);
    int64_t begun;
    owner o, other;
    progress p;
    task t;
    join_all(me, b, &o, "hangs");
    join_all(me, b, &other, "lives");
    sum_works(me, b, &o, me->size);
    job_meet(me);
    if (me->rank == 0 || !one_process(me)) emu_script("dev1:ncclGroupEnd@1=hang");
    job_meet(me);
    t = sum_task(me, &o, device);
    p = (progress){b, &t, emu_calls("ncclGroupEnd") + (one_process(me) ? 2 : 1)};
    job_meet(me);
    begun = job_now_ns();
    job_threads(me, 2, progress_thread, &p);
    CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
    CHECK_TEXT(t.sentence, "its time was up");
    if (me->rank == 1) CHECK_TEXT(t.sentence, "stopped inside ncclGroupEnd, ");
    CHECK_PERIOD(begun, job_now_ns(), SHORT_MS, 2 * SHORT_MS + GRACE_MS + JOB_LATE_MS);
    job_meet(me);
    if (me->rank == 0 || !one_process(me)) emu_script(NULL);
    job_meet(me);
    sum_works(me, b, &other, me->size);
    b->doom(o.comm, "again");
    b->drop(o.comm);
    b->drop(other.comm);
    b->close(b);
}

static void late_end(job_rank *me, int thread, void *arg)
{
    progress *p = arg;
    int64_t out;
    (void)me;
    if (thread == 0) {
        start(p->b, p->t);
        poll_until_over(p->b, p->t);
        return;
    }
    for (int ms = 0; !emu_hanging() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    p->b->doom(p->t->work.comm, "stop");
    job_sleep_ms(SHORT_MS);
    CHECK_INT(emu_calls("ncclCommAbort"), 0);
    emu_release();
    out = job_now_ns();
    for (int ms = 0; !emu_calls("ncclCommAbort") && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK_PERIOD(out, job_now_ns(), 0, JOB_LATE_MS); /* it does not wait for the rest of the grace */
}

/* Who comes out of a call in time is not aborted in it. */
static void grace(job_rank *me)
{
    weft_backend *b = module_load_with(me, JOB_WAIT_MS);
    float *device = to_device(NULL, sizeof *device * N);
    owner o;
    task t;
    join_all(me, b, &o, "grace");
    t = sum_task(me, &o, device);
    emu_script("ncclGroupEnd@1=hang");
    job_threads(me, 2, late_end, &(progress){b, &t, 0});
    CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
    CHECK_TEXT(t.sentence, "stopped inside ncclGroupEnd");
    b->drop(o.comm);
    b->close(b);
}

#ifdef NCCL_REVOKE_DEFAULT

static void hold_device(void *arg)
{
    while (!atomic_load((atomic_int *)arg)) job_sleep_ms(1);
}

static void busy_device(job_rank *me, int thread, void *arg)
{
    progress *p = arg;
    (void)me;
    if (thread == 0) {
        start(p->b, p->t);
        poll_until_over(p->b, p->t);
        return;
    }
    for (int ms = 0; !emu_hanging() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    p->b->doom(p->t->work.comm, "its time was up");
}

/* The device does something else for long, which an abort waits for: what hangs in a call, made by the caller's thread or
 * by one of NCCL's, ends nevertheless. */
static void hang_on_a_busy_device(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N);
    cudaStream_t stream = new_stream(me);
    atomic_int go = 0;
    owner o;
    task t;
    join_all(me, b, &o, "hangs");
    t = sum_task(me, &o, device);
    CUDA(cudaLaunchHostFunc(stream, hold_device, &go));
    emu_script(me->arg);
    job_threads(me, 2, busy_device, &(progress){b, &t, 0});
    CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
    CHECK_TEXT(t.sentence, "its time was up");
    CHECK_INT(cudaStreamQuery(stream), cudaErrorNotReady);
    CHECK_INT(emu_calls("ncclCommRevoke"), 1);
    CHECK_INT(emu_calls("aborted"), 0);
    atomic_store(&go, 1);
    await_calls("aborted", 1);
    emu_script(NULL);
    b->drop(o.comm);
    b->close(b);
    CUDA(cudaStreamDestroy(stream));
}

/* Nothing hangs: the abort by itself does it. */
static void nothing_to_let_out(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o;
    join_all(me, b, &o, "idle");
    sum_works(me, b, &o, 1);
    b->doom(o.comm, "it is not wanted");
    await_calls("aborted", 1);
    CHECK_INT(emu_calls("ncclCommRevoke"), 0);
    b->drop(o.comm);
    b->close(b);
}

/* What the network has found does not make the module abort what the program has. */
static void lent_and_failed(job_rank *me)
{
    weft_backend *b = module_load(me);
    void *handle = NULL, *stream = NULL;
    owner o;
    join_all(me, b, &o, "lent");
    CHECK_OK(b->lend(o.comm, &handle, &stream));
    emu_script("async@1=value:6");
    NCCL_IS(async_error(handle), ncclRemoteError);
    emu_script(NULL);
    b->doom(o.comm, "its time was up");
    await_calls("ncclCommRevoke", 1);
    CHECK_INT(emu_calls("ncclCommAbort"), 0);
    NCCL_IS(async_error(handle), ncclRemoteError); /* the handle is still one */
    b->drop(o.comm);
    b->close(b);
    CHECK_INT(emu_calls("ncclCommAbort"), 1);
    CHECK_INT(emu_misuses(), 0);
}

#endif

/* ---- with work under way ---- */

/* Rank 1 does not come; rank 0's works end once they are stopped, and what is given later is refused. */
static void stopped_while_running(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *one = to_device(NULL, sizeof *one * N), *two = to_device(NULL, sizeof *two * N);
    owner o;
    task first, second, late;
    join_all(me, b, &o, "stopped");
    job_meet(me);
    if (me->rank == 0) {
        first = sum_task(me, &o, one);
        second = sum_task(me, &o, two);
        late = sum_task(me, &o, one);
        start(b, &first);
        start(b, &second);
        for (int i = 0; i < SHORT_MS; i++, job_sleep_ms(1)) b->poll(b);
        CHECK(!atomic_load(&first.over) && !atomic_load(&second.over));
        b->doom(o.comm, "nobody comes");
        b->doom(o.comm, "still nobody");
        poll_until_over(b, &first);
        poll_until_over(b, &second);
        CHECK_STATUS(WEFT_ERR_BROKEN, first.status);
        CHECK_STATUS(WEFT_ERR_BROKEN, second.status);
        CHECK_TEXT(first.sentence, "nobody comes");
        start(b, &late);
        CHECK(atomic_load(&late.over));
        CHECK_STATUS(WEFT_ERR_BROKEN, late.status);
        CHECK_TEXT(late.sentence, "nobody comes");
        CHECK_INT(b->poll(b), 0);
    } else {
        b->doom(o.comm, "it does not come");
    }
    b->drop(o.comm);
    b->close(b);
}

/* What had ended before the stop is a success. */
static void earned(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N);
    owner o;
    task t;
    join_all(me, b, &o, "earned");
    t = sum_task(me, &o, device);
    start(b, &t);
    CHECK(atomic_load(&t.issued));
    CUDA(cudaDeviceSynchronize());
    poll_until_over(b, &t);
    job_meet(me);
    b->doom(o.comm, "too late");
    CHECK_OK(t.status);
    b->drop(o.comm);
    b->close(b);
}

/* ---- while it is made ---- */

static void stopped_while_joining(job_rank *me)
{
    weft_backend *b = module_load(me);
    int64_t begun = job_now_ns();
    owner o = {0};
    o.comm = b->open(b, &o, me->rank, me->size, "half", me->rank == 0);
    share_id(me, &o);
    if (me->rank == 0) {
        b->join(o.comm, o.id);
        await_calls("ncclCommInitRankConfig", 1);
        CHECK(!atomic_load(&o.joined));
        b->doom(o.comm, "one is missing");
        await_word(&o.joined);
        CHECK_STATUS(WEFT_ERR_BROKEN, o.status);
        CHECK_TEXT(o.sentence, "one is missing");
        CHECK_TEXT(o.sentence, "ncclCommInitRankConfig");
    }
    b->drop(o.comm); /* rank 1's was never joined */
    b->close(b);
    CHECK_PERIOD(begun, job_now_ns(), 0, SHORT_MS + GRACE_MS + JOB_LATE_MS);
}

static void dropped_while_joining(job_rank *me)
{
    weft_backend *b = module_load(me);
    int64_t begun = job_now_ns();
    owner o = {0};
    o.comm = b->open(b, &o, me->rank, me->size, "dropped", me->rank == 0);
    share_id(me, &o);
    if (me->rank == 0) b->join(o.comm, o.id);
    b->drop(o.comm);
    b->close(b);
    CHECK(!atomic_load(&o.joined)); /* its owner may be gone */
    CHECK_PERIOD(begun, job_now_ns(), 0, JOB_LATE_MS);
}

static void hang_in_init(job_rank *me)
{
    weft_backend *b = module_load(me);
    int64_t begun = job_now_ns();
    owner o;
    emu_script("ncclCommInitRankConfig@1=hang");
    begin_join(me, b, &o, "stuck");
    await_calls("ncclCommInitRankConfig", 1);
    b->doom(o.comm, "its time was up");
    await_word(&o.joined);
    CHECK_STATUS(WEFT_ERR_BROKEN, o.status);
    CHECK_TEXT(o.sentence, "its time was up");
    b->drop(o.comm);
    b->close(b);
    CHECK_PERIOD(begun, job_now_ns(), 0, GRACE_MS + JOB_LATE_MS);
}

/* A call that blocks gives the communicator when it comes back, and its stop has been by then. */
static void hang_in_blocking_init(job_rank *me)
{
    weft_backend *b;
    owner o;
    job_setenv(me, "WEFT_NCCL_BLOCKING", "1");
    b = module_load(me);
    emu_script("ncclCommInitRankConfig@1=hang");
    begin_join(me, b, &o, "late");
    await_calls("ncclCommInitRankConfig", 1);
    b->doom(o.comm, "its time was up");
    job_sleep_ms(GRACE_MS + SHORT_MS);
    CHECK_INT(emu_calls("ncclCommAbort"), 0);
    emu_release();
    await_word(&o.joined);
    CHECK_STATUS(WEFT_ERR_BROKEN, o.status);
    await_calls("ncclCommAbort", 1);
    b->drop(o.comm);
    b->close(b);
}

/* No abort reaches a call without a communicator: closing leaves it behind, in bounded time. */
static void hang_in_naming(job_rank *me)
{
    weft_backend *b = module_load(me);
    int64_t begun = job_now_ns();
    owner o = {0};
    emu_script("ncclGetUniqueId@1=hang");
    o.comm = b->open(b, &o, 0, 1, "nameless", true);
    await_calls("ncclGetUniqueId", 1);
    b->doom(o.comm, "its time was up");
    b->drop(o.comm);
    b->close(b);
    CHECK_PERIOD(begun, job_now_ns(), 0,
                 GRACE_MS + 3000 + JOB_LATE_MS); /* its stop has ended, which counts */
    emu_release();
    job_sleep_ms(SHORT_MS); /* it comes back, finds that it is not needed, and goes */
    CHECK(!atomic_load(&o.named) && !atomic_load(&o.joined));
}

static void error_in_init(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o;
    emu_script("ncclCommInitRankConfig@1=error:2");
    begin_join(me, b, &o, "fails");
    await_word(&o.joined);
    CHECK_STATUS(WEFT_ERR_SYSTEM, o.status);
    CHECK_TEXT(o.sentence, "ncclCommInitRankConfig: NCCL says \"unhandled system error");
    b->drop(o.comm);
    b->close(b);
}

/* ---- errors ---- */

typedef struct failure {
    const char *script, *words;
    weft_status status;
    bool lost; /* the device, with all that is on it */
} failure;

/* One error on rank 0, which ends its work; the other rank's is stopped as its runtime would do it. */
static void error_on_the_way(job_rank *me)
{
    const failure *f = me->arg;
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N);
    owner o, other;
    task t;
    join_all(me, b, &o, "error");
    join_all(me, b, &other, "sound");
    job_meet(me);
    t = sum_task(me, &o, device);
    if (me->rank == 0) {
        emu_script(f->script);
        start(b, &t);
        poll_until_over(b, &t);
        CHECK_STATUS(f->status, t.status);
        CHECK_TEXT(t.sentence, f->words);
        emu_script(NULL);
        job_mark(me, 0);
    } else {
        job_await(me, 0, 1);
        start(b, &t);
        b->doom(o.comm, "rank 0 has failed");
        poll_until_over(b, &t);
        CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
    }
    job_meet(me);
    if (!f->lost) sum_works(me, b, &other, me->size); /* this thread is in no group call any more */
    b->drop(other.comm);
    b->drop(o.comm);
    b->close(b);
}

static void death_of_a_peer(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N);
    owner o;
    task t;
    join_all(me, b, &o, "death");
    job_meet(me);
    if (me->rank == 1) job_kill(me, 1);
    t = sum_task(me, &o, device);
    start(b, &t);
    poll_until_over(b, &t);
    CHECK_STATUS(WEFT_ERR_PEER, t.status);
    CHECK_TEXT(t.sentence, "has died");
    b->drop(o.comm);
    b->close(b);
}

/* ---- splitting ---- */

static void splits(job_rank *me)
{
    weft_backend *b = module_load(me);
    bool part = me->rank < 3;
    owner o, half = {0}, pair = {0};
    join_all(me, b, &o, "all");
    sum_works(me, b, &o, me->size);
    if (part) half.comm = b->open(b, &half, me->rank, 3, "three", false);
    b->split(o.comm, part ? half.comm : NULL, part ? 0 : -1, me->rank);
    sum_works(me, b, &o, me->size); /* comes after the split, on every rank */
    pair.comm = b->open(b, &pair, me->rank / 2, 2, "pair", false);
    b->split(o.comm, pair.comm, me->rank % 2, me->rank);
    if (part) await_word(&half.joined);
    CHECK_OK(half.status);
    await_word(&pair.joined);
    CHECK_OK(pair.status);
    b->drop(o.comm);
    if (part) sum_works(me, b, &half, 3);
    sum_works(me, b, &pair, 2);
    if (part) b->drop(half.comm);
    b->drop(pair.comm);
    b->close(b);
}

/* NCCL may hang when a communicator is split that works: the split waits for what came before it, and what
 * comes after waits for the split, but not the thread that brings it. */
static void splits_while_it_works(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *one = to_device(NULL, sizeof *one * N), *two = to_device(NULL, sizeof *two * N),
          *three = to_device(NULL, sizeof *three * N);
    owner o, other, pair = {0};
    task before, after, beside;
    join_all(me, b, &o, "works");
    join_all(me, b, &other, "beside");
    before = sum_task(me, &o, one);
    after = sum_task(me, &o, two);
    beside = sum_task(me, &other, three);
    pair.comm = b->open(b, &pair, me->rank, 2, "pair", false);
    job_meet(me);
    if (me->rank == 1) job_await(me, 0, 1);
    start(b, &before);
    b->split(o.comm, pair.comm, 0, me->rank);
    start(b, &after);
    start(b, &beside);
    if (me->rank == 0) {
        for (int i = 0; i < SHORT_MS; i++, job_sleep_ms(1)) b->poll(b);
        CHECK(!atomic_load(&after.issued) && !atomic_load(&beside.issued) && !atomic_load(&pair.joined));
        job_mark(me, 0);
    }
    poll_until_over(b, &before);
    poll_until_over(b, &after);
    poll_until_over(b, &beside);
    CHECK_OK(before.status);
    CHECK_OK(after.status);
    CHECK_OK(beside.status);
    await_word(&pair.joined);
    CHECK_OK(pair.status);
    sum_works(me, b, &pair, 2);
    b->drop(pair.comm);
    b->drop(other.comm);
    b->drop(o.comm);
    b->close(b);
}

/* Works that wait for a split end with their communicator, whatever waits before them. */
static void stopped_while_waiting(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *one = to_device(NULL, sizeof *one * N), *two = to_device(NULL, sizeof *two * N);
    owner o, other, child = {0};
    task first, second;
    join_all(me, b, &o, "parent");
    join_all(me, b, &other, "other");
    if (me->rank == 0) {
        child.comm = b->open(b, &child, 0, 2, "child", false);
        b->split(o.comm, child.comm, 0, 0);
        await_calls("ncclCommSplit", 1);
        first = sum_task(me, &o, one);
        second = sum_task(me, &other, two);
        start(b, &first);
        start(b, &second);
        CHECK(!atomic_load(&first.issued) && !atomic_load(&second.issued));
        b->doom(other.comm, "the other's time was up");
        poll_until_over(b, &second);
        CHECK_STATUS(WEFT_ERR_BROKEN, second.status);
        CHECK_TEXT(second.sentence, "the other's time was up");
        CHECK(!atomic_load(&first.over));
        b->doom(child.comm, "one does not come");
        poll_until_over(b, &first);
        CHECK_TEXT(first.sentence, "communicator child");
        await_word(&child.joined);
        b->drop(child.comm);
    }
    job_meet(me);
    b->drop(other.comm);
    b->drop(o.comm);
    b->close(b);
}

/* A split that one rank does not come to is stopped, and its parent with it: NCCL has no other way. */
static void split_that_hangs(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o, child = {0};
    task t;
    join_all(me, b, &o, "parent");
    if (me->rank == 0) {
        child.comm = b->open(b, &child, 0, 2, "child", false);
        b->split(o.comm, child.comm, 0, 0);
        await_calls("ncclCommSplit", 1);
        CHECK(!atomic_load(&child.joined));
        b->doom(child.comm, "one does not come");
        await_word(&child.joined);
        CHECK_STATUS(WEFT_ERR_BROKEN, child.status);
        CHECK_TEXT(child.sentence, "one does not come");
        t = new_task(me, &o, WEFT_BACKEND_BARRIER);
        start(b, &t);
        CHECK(atomic_load(&t.over));
        CHECK_TEXT(t.sentence, "communicator child");
        b->drop(child.comm);
    }
    job_meet(me);
    b->drop(o.comm);
    b->close(b);
}

/* With shared resources an abort of the child would end the parent's kernels without a
 * word: it is stopped. */
static void shared_end(job_rank *me)
{
    weft_backend *b;
    owner o, child = {0};
    task t;
    if (me->arg) job_setenv(me, "WEFT_NCCL_SHARE", "1");
    b = module_load(me);
    join_all(me, b, &o, "parent");
    child.comm = b->open(b, &child, me->rank, 2, "child", false);
    b->split(o.comm, child.comm, 0, me->rank);
    await_word(&child.joined);
    CHECK_OK(child.status);
    sum_works(me, b, &child, 2);
    job_meet(me);
    b->doom(child.comm, "stop");
    if (!me->arg) {
        sum_works(me, b, &o, 2);
    } else {
        t = new_task(me, &o, WEFT_BACKEND_BARRIER);
        start(b, &t);
        poll_until_over(b, &t);
        CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
        CHECK_TEXT(t.sentence, "shares resources");
    }
    b->drop(child.comm);
    b->drop(o.comm);
    b->close(b);
}

/* ---- many ---- */

static void many_communicators(job_rank *me)
{
    enum { MANY = 24 };
    weft_backend *b = module_load(me);
    owner owners[MANY];
    for (int i = 0; i < MANY; i++) {
        char label[32];
        snprintf(label, sizeof label, "number %d", i);
        begin_join(me, b, &owners[i], label);
    }
    for (int i = 0; i < MANY; i++) await_word(&owners[i].joined);
    for (int i = 0; i < MANY; i++) sum_works(me, b, &owners[i], me->size);
    for (int i = 0; i < MANY; i++) b->drop(owners[(i * 5 + me->rank) % MANY].comm);
    b->close(b);
    CHECK_INT(emu_misuses(), 0);
}

/* All together take longer than closing waits for one, and end one by one. */
static void many_that_take_long(job_rank *me)
{
    enum { MANY = 10, EACH_MS = 450 };
    weft_backend *b = module_load(me);
    owner owners[MANY];
    char script[64];
    int64_t begun;
    for (int i = 0; i < MANY; i++) join_all(me, b, &owners[i], "long");
    snprintf(script, sizeof script, "ending@*=delay:%d", EACH_MS);
    emu_script(script);
    begun = job_now_ns();
    for (int i = 0; i < MANY; i++) b->drop(owners[i].comm);
    b->close(b);
    /* None is left behind.  On a busy machine each is late to wake. */
    CHECK_PERIOD(begun, job_now_ns(), MANY * EACH_MS, 3 * MANY * EACH_MS + JOB_LATE_MS);
    CHECK_INT(emu_calls("ncclCommDestroy"), MANY);
    CHECK_INT(emu_calls("ncclCommAbort"), 0);
}

/* One rank keeps its communicator: the other's end does not wait for it for ever, nor harm it. */
static void leaves_early(job_rank *me)
{
    weft_backend *b = module_load(me);
    int64_t begun;
    owner o;
    join_all(me, b, &o, "early");
    sum_works(me, b, &o, me->size);
    begun = job_now_ns();
    if (me->rank == 1) job_await(me, 0, 1);
    b->drop(o.comm);
    b->close(b);
    if (me->rank == 0) CHECK_PERIOD(begun, job_now_ns(), 0, 3000 + JOB_LATE_MS);
    job_mark(me, 0);
}

int main(int argc, char **argv)
{
    static const failure call = {"ncclAllReduce@1=error:3", "ncclAllReduce: NCCL says \"internal error",
                                 WEFT_ERR_SYSTEM, false},
                         end = {"ncclGroupEnd@1=error:1", "ncclGroupEnd: NCCL says \"unhandled cuda error",
                                WEFT_ERR_SYSTEM, false},
                         wait = {"cudaEventRecord@1=error:719", "cudaEventRecord: CUDA says", WEFT_ERR_SYSTEM,
                                 true},
                         query = {"cudaEventQuery@2=error:719", "cudaEventQuery: CUDA says", WEFT_ERR_SYSTEM,
                                  true},
                         async = {"async@1=value:3", "by script", WEFT_ERR_SYSTEM, false},
                         remote = {"async@1=value:6", "by script", WEFT_ERR_PEER, false};
    const struct CMUnitTest tests[] = {
#ifdef NCCL_REVOKE_DEFAULT
        JOB_TEST("a call that hangs on a busy device", .ranks = 1, .bare = true, .processes = true,
                 .arg = "ncclGroupEnd@1=hang", .body = hang_on_a_busy_device),
        JOB_TEST("a thread of NCCL's that hangs on a busy device", .ranks = 1, .bare = true,
                 .processes = true, .arg = "background@1=hang", .body = hang_on_a_busy_device),
        JOB_TEST("nothing to let out", .ranks = 1, .bare = true, .processes = true,
                 .body = nothing_to_let_out),
        JOB_TEST("lent and failed", .ranks = 1, .bare = true, .processes = true, .body = lent_and_failed),
#endif
        JOB_TEST("a hang inside ncclGroupEnd is aborted after the grace; another communicator lives",
                 .ranks = 2, .bare = true, .body = hang_in_group_end),
        JOB_TEST("the same, ranks being threads", .ranks = 2, .bare = true, .threads = true,
                 .body = hang_in_group_end),
        JOB_TEST("who comes out of a call within the grace is not aborted in it", .ranks = 1, .bare = true,
                 .body = grace),
        JOB_TEST("works under way end when they are stopped, later ones are refused", .ranks = 2,
                 .bare = true, .body = stopped_while_running),
        JOB_TEST("what has ended before the stop is a success", .ranks = 2, .bare = true, .body = earned),
        JOB_TEST("stopped while it is joined", .ranks = 2, .bare = true, .body = stopped_while_joining),
        JOB_TEST("dropped while it is joined", .ranks = 2, .bare = true, .body = dropped_while_joining),
        JOB_TEST("a hang in the call that makes it", .ranks = 1, .bare = true, .body = hang_in_init),
        JOB_TEST("a hang in the call that makes it, which blocks", .ranks = 1, .bare = true,
                 .processes = true, .body = hang_in_blocking_init),
        JOB_TEST("a hang in the call that names it", .ranks = 1, .bare = true, .body = hang_in_naming),
        JOB_TEST("an error in the call that makes it", .ranks = 1, .bare = true, .body = error_in_init),
        JOB_TEST("an error of a call", .ranks = 2, .bare = true, .processes = true, .arg = &call,
                 .body = error_on_the_way),
        JOB_TEST("an error of the group call", .ranks = 2, .bare = true, .processes = true, .arg = &end,
                 .body = error_on_the_way),
        JOB_TEST("an event that is not recorded", .ranks = 2, .bare = true, .processes = true, .arg = &wait,
                 .body = error_on_the_way),
        JOB_TEST("a device that fails", .ranks = 2, .bare = true, .processes = true, .arg = &query,
                 .body = error_on_the_way),
        JOB_TEST("an asynchronous error", .ranks = 2, .bare = true, .processes = true, .arg = &async,
                 .body = error_on_the_way),
        JOB_TEST("an error of another rank", .ranks = 2, .bare = true, .processes = true, .arg = &remote,
                 .body = error_on_the_way),
        JOB_TEST("the death of a peer", .ranks = 2, .bare = true, .processes = true, .killed = 2,
                 .body = death_of_a_peer),
        JOB_TEST("splits, in order with the works", .ranks = 4, .bare = true, .body = splits),
        JOB_TEST("a split of a communicator that works", .ranks = 2, .bare = true, .processes = true,
                 .body = splits_while_it_works),
        JOB_TEST("what waits for a split is stopped", .ranks = 2, .bare = true, .processes = true,
                 .body = stopped_while_waiting),
        JOB_TEST("a split that one rank does not come to", .ranks = 2, .bare = true,
                 .body = split_that_hangs),
        JOB_TEST("the end of what is split off is its own", .ranks = 2, .bare = true, .body = shared_end),
        JOB_TEST("unless resources are shared", .ranks = 2, .bare = true, .processes = true, .arg = "share",
                 .body = shared_end),
        JOB_TEST("many communicators, made and dropped in any order", .ranks = 2, .bare = true,
                 .body = many_communicators),
        JOB_TEST("many communicators that take long to end", .ranks = 1, .bare = true, .processes = true,
                 .body = many_that_take_long),
        JOB_TEST("who leaves early does not wait for ever", .ranks = 2, .bare = true, .processes = true,
                 .body = leaves_early),
    };
    return JOB_MAIN(tests, argc, argv);
}
