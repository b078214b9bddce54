/* test_module_failures.c - communicators that are stopped: while they are made, inside a group call, with
 * work under way; by NCCL's errors and by the death of a peer; and how they are dropped and closed. */
#include "module_ranks.h"

enum { N = SUMMED, SHORT_MS = 30 };

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

struct freeing {
    weft_backend *b;
    task *t;
    void *window;
};

/* Freed once the abort has taken the window back, which comes when whose doing it is has been looked for long enough. */
static void free_beside_error(job_rank *me, int thread, void *arg)
{
    struct freeing *f = arg;
    (void)me;
    if (thread)
        CHECK_OK(f->b->mem_free(f->b, f->window));
    else
        poll_until_over(f->b, f->t);
}

static void open_child(const job_rank *me, weft_backend *b, const owner *parent, owner *child)
{
    *child = (owner){.comm = NULL};
    child->comm = b->open(b, child, me->rank, me->size, "child", false);
    CHECK(child->comm);
    b->split(parent->comm, child->comm, 0, me->rank);
}

/* Until it is known whose doing it is no call is made there, and memory is taken back with the abort. */
static void memory_beside_an_error(job_rank *me)
{
    enum { WINDOW_BYTES = 1 << 16 };
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N), *late = to_device(NULL, sizeof *late);
    void *window = NULL, *handle = NULL, *stream = NULL;
    int64_t until;
    owner o, child;
    task t;
    join_all(me, b, &o, "error");
    CHECK_OK(b->mem_register(o.comm, device, sizeof *device * N));
    CHECK_OK(b->mem_alloc(b, WINDOW_BYTES, &window));
    t = new_task(me, &o, WEFT_BACKEND_MEM_ALLOC);
    t.work.op.dtype = WEFT_UINT8;
    t.work.op.in = t.work.op.out = window;
    t.work.op.count = WINDOW_BYTES;
    run_task(b, &t);
    job_meet(me);
    t = sum_task(me, &o, device);
    if (me->rank == 0) {
        emu_script("async@1=value:6");
        start(b, &t);
        for (until = job_now_ns() + SHORT_MS * 10 * INT64_C(1000000); job_now_ns() < until;) b->poll(b);
        CHECK(!atomic_load(&t.over));
        CHECK_STATUS(WEFT_ERR_BROKEN, b->mem_register(o.comm, late, sizeof *late));
        CHECK_TEXT(last_failure, "has failed: nccl");
        CHECK_INT(emu_calls("ncclCommRegister"), 1);
        CHECK_STATUS(WEFT_ERR_BROKEN, b->lend(o.comm, &handle, &stream));
        CHECK_TEXT(last_failure, "has failed");
        open_child(me, b, &o, &child);
        job_threads(me, 2, free_beside_error, &(struct freeing){b, &t, window});
        await_word(&child.joined);
        CHECK_STATUS(WEFT_ERR_BROKEN, child.status);
        CHECK_INT(emu_calls("ncclCommSplit"), 0);
        CHECK_INT(emu_calls("ncclCommWindowDeregister"), 0);
        b->drop(child.comm);
        emu_script(NULL);
    }
    job_meet(me);
    b->doom(o.comm, "rank 0 has failed");
    CHECK_OK(b->mem_deregister(o.comm, device));
    CHECK_INT(emu_calls("ncclCommDeregister"), 0);
    if (me->rank) CHECK_OK(b->mem_free(b, window));
    CHECK_INT(emu_misuses(), 0);
    CUDA(cudaFree(device));
    CUDA(cudaFree(late));
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
        JOB_TEST("memory beside an error", .ranks = 2, .bare = true, .processes = true,
                 .body = memory_beside_an_error),
        JOB_TEST("the death of a peer", .ranks = 2, .bare = true, .processes = true, .killed = 2,
                 .body = death_of_a_peer),
        JOB_TEST("many communicators, made and dropped in any order", .ranks = 2, .bare = true,
                 .body = many_communicators),
        JOB_TEST("many communicators that take long to end", .ranks = 1, .bare = true, .processes = true,
                 .body = many_that_take_long),
        JOB_TEST("who leaves early does not wait for ever", .ranks = 2, .bare = true, .processes = true,
                 .body = leaves_early),
    };
    return JOB_MAIN(tests, argc, argv);
}
