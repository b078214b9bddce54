/* test_module_turns.c - one thread at a time is inside NCCL with a communicator, and who asks it for errors
 * counts as one: asked while somebody is inside, entered while it is asked, stopped while it is asked. */
#include "module_ranks.h"

enum { N = 256, BYTES = 1 << 16, LONG_MS = 3 * GRACE_MS };

/* Rank 0's sum, which runs until rank 1's comes, and memory that is a window. */
typedef struct scene {
    weft_backend *b;
    owner o;
    task sum;
    float *device;
    void *memory;
    uint64_t questions; /* before the sum */
} scene;

static task work_on(const job_rank *me, const scene *s, weft_backend_kind kind, void *at, size_t count)
{
    task t = new_task(me, &s->o, kind);
    t.work.op.dtype = kind == WEFT_BACKEND_MEM_ALLOC ? WEFT_UINT8 : WEFT_FLOAT32;
    t.work.op.in = t.work.op.out = at;
    t.work.op.count = count;
    return t;
}

static void set(job_rank *me, scene *s)
{
    task window;
    s->b = module_load(me);
    join_all(me, s->b, &s->o, "asked");
    s->device = to_device(NULL, sizeof *s->device * N);
    CHECK_OK(s->b->mem_alloc(s->b, BYTES, &s->memory));
    window = work_on(me, s, WEFT_BACKEND_MEM_ALLOC, s->memory, BYTES);
    run_task(s->b, &window);
    s->sum = work_on(me, s, WEFT_BACKEND_ALL_REDUCE, s->device, N);
    s->questions = emu_calls("ncclCommGetAsyncError");
    job_meet(me);
}

static void clear(job_rank *me, scene *s)
{
    job_meet(me);
    emu_script(NULL);
    CUDA(cudaFree(s->device));
    s->b->drop(s->o.comm);
    s->b->close(s->b);
    CHECK_INT(emu_misuses(), 0);
}

/* ---- one is inside, the other would ask; one asks, the other would enter ---- */

static void free_beside_poll(job_rank *me, int thread, void *arg)
{
    scene *s = arg;
    if (thread == 0) {
        poll_for(s->b, LONG_MS);
        job_mark(me, 0);
        poll_until_over(s->b, &s->sum);
    } else {
        if (me->arg) await_calls("ncclCommGetAsyncError", s->questions + 1);
        CHECK_OK(s->b->mem_free(s->b, s->memory));
    }
}

static void one_at_a_time(job_rank *me)
{
    scene s;
    set(me, &s);
    if (me->rank == 0) {
        start(s.b, &s.sum);
        s.questions = emu_calls("ncclCommGetAsyncError");
        emu_script(me->arg ? "ncclCommGetAsyncError@1=delay:200" : "ncclCommWindowDeregister@1=delay:200");
        job_threads(me, 2, free_beside_poll, &s);
    } else {
        job_await(me, 0, 1);
        run_task(s.b, &s.sum);
    }
    CHECK_OK(s.sum.status);
    clear(me, &s);
}

/* ---- one asks, the other would stop it ---- */

static void doom_beside_question(job_rank *me, int thread, void *arg)
{
    scene *s = arg;
    (void)me;
    if (thread == 0) {
        if (me->arg) start(s->b, &s->sum);
        poll_until_over(s->b, &s->sum);
    } else {
        await_calls("ncclCommGetAsyncError", s->questions + 1);
        s->b->doom(s->o.comm, "its time was up");
    }
}

/* By the look at what runs; or by the wait for what NCCL does in the background. */
static void stopped_while_asked(job_rank *me)
{
    char script[80];
    scene s;
    set(me, &s);
    snprintf(script, sizeof script, "ncclCommGetAsyncError@1=delay:%d;background@1=delay:50", LONG_MS);
    if (me->rank == 0) {
        if (!me->arg) start(s.b, &s.sum);
        s.questions = emu_calls("ncclCommGetAsyncError");
        emu_script(script);
        job_threads(me, 2, doom_beside_question, &s);
        CHECK_STATUS(WEFT_ERR_BROKEN, s.sum.status);
        CHECK_TEXT(s.sum.sentence, "its time was up");
    } else {
        s.b->doom(s.o.comm, "rank 0 is stopped");
    }
    clear(me, &s);
}

/* ---- memory that is a window of what is being stopped ---- */

static void free_beside_abort(job_rank *me, int thread, void *arg)
{
    scene *s = arg;
    (void)me;
    if (thread == 0) {
        start(s->b, &s->sum);
        poll_until_over(s->b, &s->sum);
    } else {
        while (!emu_hanging()) job_sleep_ms(1);
        s->b->doom(s->o.comm, "its time was up");
        CHECK_OK(s->b->mem_free(s->b, s->memory));
    }
}

/* The registration ends with the abort, which gives the call that hangs some time. */
static void freed_while_stopped(job_rank *me)
{
    scene s;
    set(me, &s);
    if (me->rank == 0) {
        emu_script("ncclGroupEnd@1=hang");
        job_threads(me, 2, free_beside_abort, &s);
        CHECK_STATUS(WEFT_ERR_BROKEN, s.sum.status);
    } else {
        s.b->doom(s.o.comm, "rank 0 is stopped");
    }
    clear(me, &s);
}

/* ---- calls for memory that hang ---- */

typedef struct beside {
    scene *s;
    atomic_int answered; /* while the other call still hung, or afterwards */
} beside;

enum { NOT_YET, MEANWHILE, AFTERWARDS };

static void free_and_look(job_rank *me, int thread, void *arg)
{
    beside *all = arg;
    scene *s = all->s;
    void *window;
    size_t offset;
    (void)me;
    if (thread == 0) {
        CHECK_OK(s->b->mem_free(s->b, s->memory));
    } else if (thread == 1) {
        for (int ms = 0; !emu_hanging() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
        CHECK_STATUS(WEFT_ERR_UNSUPPORTED, s->b->mem_window(s->o.comm, s->memory, &window, &offset));
        atomic_store(&all->answered, emu_hanging() ? MEANWHILE : AFTERWARDS);
    } else { /* when that has its answer, or after as long as nobody should wait */
        for (int ms = 0; !emu_hanging() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
        for (int ms = 0; !atomic_load(&all->answered) && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
        emu_release();
    }
}

/* A window that takes long to close keeps nobody else from asking for one, and is handed to nobody. */
static void windows_beside_one_that_closes(job_rank *me)
{
    scene s;
    beside all = {.s = &s};
    set(me, &s);
    emu_script("ncclCommWindowDeregister@1=hang");
    job_threads(me, 3, free_and_look, &all);
    CHECK_INT(atomic_load(&all.answered), MEANWHILE);
    clear(me, &s);
}

/* NCCL does not come back: the caller is told, and the memory is NCCL's until it does. */
static void registrations_that_hang(job_rank *me)
{
    enum { WAIT_MS = 4000 };
    weft_status status = WEFT_OK;
    int64_t begun;
    scene s;
    set(me, &s);
    for (int round = 0; round < 2; round++) {
        emu_script(round ? "ncclCommDeregister@1=hang" : "ncclCommRegister@1=hang");
        begun = job_now_ns();
        if (round)
            status = s.b->mem_deregister(s.o.comm, s.device);
        else
            status = s.b->mem_register(s.o.comm, s.device, sizeof *s.device * N);
        CHECK_STATUS(WEFT_ERR_TIMEOUT, status);
        CHECK_TEXT(last_failure, round ? "ncclCommDeregister on communicator asked has not come back"
                                       : "ncclCommRegister on communicator asked has not come back");
        CHECK_PERIOD(begun, job_now_ns(), WAIT_MS, WAIT_MS + JOB_LATE_MS);
        CHECK_STATUS(WEFT_ERR_STATE, s.b->mem_deregister(s.o.comm, s.device));
        CHECK_TEXT(last_failure, "goes on");
        emu_release();
        emu_script(NULL);
        if (round) break;
        for (int ms = 0; ms < JOB_WAIT_MS; ms++) { /* until it is registered */
            status = s.b->mem_register(s.o.comm, s.device, sizeof *s.device * N);
            CHECK_STATUS(WEFT_ERR_STATE, status);
            if (!emu_hanging()) break;
            job_sleep_ms(1);
        }
        job_sleep_ms(GRACE_MS);
    }
    for (int ms = 0; (status = s.b->mem_deregister(s.o.comm, s.device)) == WEFT_ERR_STATE; ms++) {
        CHECK(ms < JOB_WAIT_MS);
        job_sleep_ms(1);
    }
    CHECK_STATUS(WEFT_ERR_ARGUMENT, status); /* the call that hung has taken it back */
    clear(me, &s);
}

static void deregister_and_stop(job_rank *me, int thread, void *arg)
{
    enum { LONGER_THAN_A_TURN_MS = 2200 };
    scene *s = arg;
    (void)me;
    if (thread == 0) {
        CHECK_OK(s->b->mem_deregister(s->o.comm, s->device));
    } else {
        while (!emu_hanging()) job_sleep_ms(1);
        job_sleep_ms(LONGER_THAN_A_TURN_MS);
        s->b->doom(s->o.comm, "its time was up");
    }
}

/* NCCL is let out, with an error, and then the abort takes it back. */
static void deregistration_let_out(job_rank *me)
{
    scene s;
    set(me, &s);
    CHECK_OK(s.b->mem_register(s.o.comm, s.device, sizeof *s.device * N));
    emu_script("ncclCommDeregister@1=hang;ncclCommAbort@1=delay:300");
    job_threads(me, 2, deregister_and_stop, &s);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, s.b->mem_deregister(s.o.comm, s.device));
    clear(me, &s);
}

/* NCCL connects in the group's first operation, for which all have to come: whoever waits for that says so, for it is not stuck. */
static void one_comes_late(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o;
    join_all(me, b, &o, "late");
    job_meet(me);
    if (me->rank == 1) job_sleep_ms(LONG_MS);
    CHECK_INT(waits_told, 0);
    sum_works(me, b, &o, me->size);
    CHECK(me->rank == 1 || waits_told > 0);
    b->drop(o.comm);
    b->close(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("nobody asks while another one is inside", .ranks = 2, .bare = true, .processes = true,
                 .body = one_at_a_time),
        JOB_TEST("nobody enters while another one asks", .ranks = 2, .bare = true, .processes = true,
                 .arg = "asks", .body = one_at_a_time),
        JOB_TEST("the abort waits for who looks for errors, longer than the grace", .ranks = 2, .bare = true,
                 .processes = true, .body = stopped_while_asked),
        JOB_TEST("the abort waits for who asks what became of its call", .ranks = 2, .bare = true,
                 .processes = true, .arg = "await", .body = stopped_while_asked),
        JOB_TEST("memory is freed after the abort of what has registered it", .ranks = 2, .bare = true,
                 .processes = true, .body = freed_while_stopped),
        JOB_TEST("windows beside one that closes", .ranks = 1, .bare = true, .processes = true,
                 .body = windows_beside_one_that_closes),
        JOB_TEST("one comes late", .ranks = 2, .bare = true, .processes = true, .body = one_comes_late),
        JOB_TEST("registrations that hang", .ranks = 1, .bare = true, .processes = true,
                 .body = registrations_that_hang),
        JOB_TEST("a deregistration that is let out", .ranks = 1, .bare = true, .processes = true,
                 .body = deregistration_let_out),
    };
    return JOB_MAIN(tests, argc, argv);
}
