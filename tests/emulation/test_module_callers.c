/* test_module_callers.c - communicators on which callers issue, of groups in program order: what they are let do, the room
 * that works take, the device that is current, and handles that are lent to the program. */
#include "module_ranks.h"

enum { N = 64, SHORT_MS = 30 };

static void join_by_callers(job_rank *me, weft_backend *b, owner *o, const char *label)
{
    memset(o, 0, sizeof *o);
    o->comm = b->open(b, o, me->rank, me->size, label, me->rank == 0);
    CHECK(o->comm);
    b->by_callers(o->comm);
    share_id(me, o);
    b->join(o->comm, o->id);
    await_word(&o->joined);
    if (o->status) job_fail(__FILE__, __LINE__, "%s", o->sentence);
}

/* ---- what only launches ---- */

typedef struct buffers {
    float *in, *out;
    size_t counts[3], displs[3], other[3];
} buffers;

static task work_of(const job_rank *me, const owner *o, buffers *m, weft_backend_kind kind)
{
    task t = new_task(me, o, kind);
    weft_backend_operation *op = &t.work.op;
    op->count = N;
    op->in = m->in;
    op->out = kind == WEFT_BACKEND_BROADCAST ? m->in : m->out;
    return t;
}

/* Would a caller issue it?  If so it does, and in any case it is carried out. */
static bool issues(weft_backend *b, task *t)
{
    bool entered;
    t->work.owner = t;
    entered = b->enter(b, &t->work);
    if (entered)
        b->issue(b, &t->work);
    else
        b->start(b, &t->work);
    poll_until_over(b, t);
    if (t->status) job_fail(__FILE__, __LINE__, "%s", t->sentence);
    return entered;
}

#define ISSUES(b, task)     CHECK(issues(b, &(task)))
#define ISSUES_NOT(b, task) CHECK(!issues(b, &(task)))

static void reductions(job_rank *me, weft_backend *b, const owner *o, buffers *m)
{
    task t = work_of(me, o, m, WEFT_BACKEND_ALL_REDUCE), again = t, typed = t, op = t, kind = t, shorter = t;
    typed.work.op.dtype = WEFT_INT32;
    op.work.op.reduction = WEFT_MAX;
    kind.work.op.kind = WEFT_BACKEND_REDUCE;
    shorter.work.op.count = N / 2;
    ISSUES_NOT(b, t);
    ISSUES(b, again);
    ISSUES_NOT(b, typed);
    ISSUES_NOT(b, op);
    ISSUES_NOT(b, kind);
    ISSUES_NOT(b, shorter);
}

static void with_roots(job_rank *me, weft_backend *b, const owner *o, buffers *m)
{
    task copied = work_of(me, o, m, WEFT_BACKEND_BROADCAST), other = copied;
    task gathered = work_of(me, o, m, WEFT_BACKEND_GATHER), again = gathered, elsewhere = gathered;
    elsewhere.work.op.root = other.work.op.root = 1;
    ISSUES_NOT(b, copied);
    ISSUES(b, other); /* its way is the same for all roots */
    ISSUES_NOT(b, gathered);
    ISSUES(b, again);
    ISSUES_NOT(b, elsewhere);
}

static void exchange(job_rank *me, const owner *o, buffers *m, task *t, int to, int from)
{
    *t = work_of(me, o, m, WEFT_BACKEND_ALL_TO_ALL_V);
    weft_backend_operation *op = &t->work.op;
    memset(m->counts, 0, sizeof m->counts);
    memset(m->other, 0, sizeof m->other);
    memset(m->displs, 0, sizeof m->displs);
    m->counts[to] = N;
    m->other[from] = N;
    op->uneven = true;
    op->in_counts = m->counts;
    op->out_counts = m->other;
    op->in_displs = op->out_displs = m->displs;
}

static void uneven(job_rank *me, weft_backend *b, const owner *o, buffers *m)
{
    task t;
    int next = (me->rank + 1) % me->size, last = (me->rank + me->size - 1) % me->size;
    exchange(me, o, m, &t, next, last);
    ISSUES_NOT(b, t);
    exchange(me, o, m, &t, next, last);
    ISSUES(b, t);
    exchange(me, o, m, &t, last, next); /* the other way round */
    ISSUES_NOT(b, t);
    t = work_of(me, o, m, WEFT_BACKEND_ALL_GATHER_V);
    t.work.op.uneven = true;
    for (int rank = 0; rank < me->size; rank++) m->counts[rank] = rank == 1 ? N / 4 : N;
    t.work.op.count = m->counts[me->rank];
    for (int rank = 0; rank < me->size; rank++) m->displs[rank] = (size_t)rank * N;
    t.work.op.out_counts = m->counts;
    t.work.op.out_displs = m->displs;
    task again = t;
    ISSUES_NOT(b, t); /* blocks of a length that no broadcast has had */
    ISSUES(b, again);
}

static void only_launches(job_rank *me)
{
    weft_backend *b = module_load(me);
    buffers m = {.in = to_device(NULL, sizeof(float) * N * 3), .out = to_device(NULL, sizeof(float) * N * 3)};
    owner o, other;
    join_by_callers(me, b, &o, "callers");
    join_by_callers(me, b, &other, "exchanges");
    reductions(me, b, &o, &m);
    job_meet(me);
    with_roots(me, b, &o, &m);
    job_meet(me);
    uneven(me, b, &other, &m);
    job_meet(me);
    b->drop(o.comm);
    b->drop(other.comm);
    b->close(b);
    CHECK_INT(emu_misuses(), 0);
}

/* ---- room ---- */

static void pass_gate(void *gate)
{
    while (!atomic_load((atomic_int *)gate)) job_sleep_ms(1);
}

/* A device's streams may share a queue: what is given to all communicators together has room in one. */
static void shared_room(job_rank *me)
{
    enum { COMMS = 4, EACH = 200, MOST = 1024, PIECES = 3 /* of each: a mark, a call and an event */ };
    weft_backend *b = module_load(me);
    cudaStream_t stream = new_stream(me);
    atomic_int gate = 0;
    static task tasks[COMMS][EACH];
    owner o[COMMS];
    int issued = 0;
    for (int c = 0; c < COMMS; c++) join_all(me, b, &o[c], "room");
    CUDA(cudaLaunchHostFunc(stream, pass_gate, &gate));
    for (int i = 0; i < EACH; i++)
        for (int c = 0; c < COMMS; c++) {
            tasks[c][i] = new_task(me, &o[c], WEFT_BACKEND_BARRIER);
            CHECK_OK(b->mark(b, stream, &tasks[c][i].work.marker));
            start(b, &tasks[c][i]);
        }
    for (int c = 0; c < COMMS; c++)
        for (int i = 0; i < EACH; i++) issued += atomic_load(&tasks[c][i].issued);
    CHECK(issued * PIECES <= MOST);
    CHECK(issued * PIECES > MOST / 2);
    atomic_store(&gate, 1);
    for (int c = 0; c < COMMS; c++)
        for (int i = 0; i < EACH; i++) poll_until_over(b, &tasks[c][i]);
    for (int c = 0; c < COMMS; c++) b->drop(o[c].comm);
    b->close(b);
}

/* ---- the current device ---- */

/* NCCL leaves another device current where a call fails that blocks. */
static void current_device(job_rank *me)
{
    enum { OTHER = 5 };
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * N);
    int current = -1;
    owner o;
    task t;
    join_by_callers(me, b, &o, "device");
    for (int i = 0; i < 3; i++) {
        t = new_task(me, &o, WEFT_BACKEND_ALL_REDUCE);
        t.work.op.in = t.work.op.out = device;
        t.work.op.count = N;
        t.work.owner = &t;
        if (i == 0) {
            run_task(b, &t);
            CUDA(cudaSetDevice(OTHER));
            continue;
        }
        if (i == 2) emu_script("launching@1=error:5");
        CHECK(b->enter(b, &t.work));
        b->issue(b, &t.work);
        CUDA(cudaGetDevice(&current));
        CHECK_INT(current, OTHER);
        poll_until_over(b, &t);
        CHECK_INT(t.status == WEFT_OK, i < 2);
        CUDA(cudaSetDevice(OTHER)); /* polling is the progress thread's */
    }
    emu_script(NULL);
    b->drop(o.comm);
    b->close(b);
}

/* ---- in a graph ---- */

/* Whether a caller records it; it is not polled for. */
static void record_task(weft_backend *b, cudaStream_t stream, task *t)
{
    t->work.owner = t;
    CHECK_OK(b->mark(b, stream, &t->work.marker));
    CHECK(b->captures(b, t->work.marker));
    CHECK(b->enter(b, &t->work));
    b->issue(b, &t->work);
}

/* NCCL tells an error while a call is recorded: what the runtime finds out is waited for, and nothing is called meanwhile.
 * It is over although the graph still holds the communicator, whose abort waits for that. */
static void captured_beside_an_error(job_rank *me)
{
    weft_backend *b = module_load(me);
    float *device = to_device(NULL, sizeof *device * SUMMED);
    cudaStream_t stream = new_stream(me);
    cudaGraph_t graph;
    uint64_t calls;
    owner o;
    task t, recorded, next;
    join_by_callers(me, b, &o, "recorded");
    t = recorded = next = sum_task(me, &o, device);
    run_task(b, &t);
    t = sum_task(me, &o, device);
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    record_task(b, stream, &recorded);
    CHECK(atomic_load(&recorded.over));
    emu_script("ncclAllReduce@1=error:6");
    record_task(b, stream, &t);
    emu_script(NULL);
    calls = emu_calls("ncclGroupStart");
    record_task(b, stream, &next);
    CHECK_INT(emu_calls("ncclGroupStart"), calls);
    poll_for(b, SHORT_MS);
    CHECK(!atomic_load(&t.over) && !atomic_load(&next.over));
    b->doom(o.comm, "rank 1 has died");
    poll_until_over(b, &t);
    poll_until_over(b, &next);
    CHECK_STATUS(WEFT_ERR_BROKEN, t.status);
    CHECK_TEXT(t.sentence, "rank 1 has died");
    CHECK_TEXT(next.sentence, "rank 1 has died");
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphDestroy(graph));
    b->drop(o.comm);
    b->close(b);
}

/* ---- lent ---- */

#ifdef NCCL_REVOKE_DEFAULT

/* The program's part: inside a call that hangs as the communicator is stopped. */
static void call_of_program(job_rank *me, int thread, void *arg)
{
    owner *o = arg;
    weft_backend *b = *(weft_backend **)(void *)job_results(me, me->rank);
    void *handle = NULL, *stream = NULL;
    float *device;
    ncclResult_t result = ncclSuccess;
    if (thread == 1) {
        for (int ms = 0; !emu_hanging() && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
        b->doom(o->comm, "its time was up");
        return;
    }
    CUDA(cudaSetDevice(me->rank));
    device = to_device(NULL, sizeof *device * N);
    CHECK_OK(b->lend(o->comm, &handle, &stream));
    emu_script("ncclGroupEnd@1=hang");
    NCCL(ncclGroupStart());
    ncclAllReduce(device, device, N, ncclFloat, ncclSum, handle, stream);
    CHECK(ncclGroupEnd() != ncclSuccess);
    emu_script(NULL);
    NCCL(ncclCommGetAsyncError(handle, &result)); /* the handle is still one */
    CHECK_INT(emu_calls("ncclCommAbort"), 0);
}

static void lent(job_rank *me)
{
    weft_backend *b = module_load(me);
    owner o;
    task t;
    join_by_callers(me, b, &o, "lent");
    t = new_task(me, &o, WEFT_BACKEND_BARRIER);
    run_task(b, &t);
    memcpy(job_results(me, me->rank), &b, sizeof b);
    job_threads(me, 2, call_of_program, &o);
    for (int ms = 0; !emu_calls("ncclCommRevoke") && ms < JOB_WAIT_MS; ms++) job_sleep_ms(1);
    CHECK_INT(emu_calls("ncclCommRevoke"), 1);
    t = new_task(me, &o, WEFT_BACKEND_BARRIER);
    start(b, &t);
    poll_until_over(b, &t);
    CHECK_TEXT(t.sentence, "its time was up");
    b->drop(o.comm);
    b->close(b);
    CHECK(emu_calls("ncclCommAbort") > 0);
    CHECK_INT(emu_misuses(), 0);
}

#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#ifdef NCCL_REVOKE_DEFAULT
        JOB_TEST("lent", .ranks = 1, .bare = true, .processes = true, .body = lent),
#endif
        JOB_TEST("what only launches", .ranks = 3, .bare = true, .processes = true, .body = only_launches),
        JOB_TEST("room that communicators share", .ranks = 1, .bare = true, .processes = true,
                 .body = shared_room),
        JOB_TEST("captured, beside an error", .ranks = 1, .bare = true, .processes = true,
                 .body = captured_beside_an_error),
        JOB_TEST("the current device", .ranks = 1, .bare = true, .processes = true, .body = current_device),
    };
    return JOB_MAIN(tests, argc, argv);
}
