/* launch.c - from the tasks of a group call to one kernel on a stream.
 *
 * Order in the kernel: collectives as they were called, then all that is between pairs at once.  Tasks on
 * several streams: the kernel runs on the first's, after what the others hold, and they go on after it. */
#include "exit.h"
#include "task.h"
#include "type.h"
#include "version.h"

#include <stdlib.h>

typedef struct plan { /* what a kernel carries out */
    ncclComm_t comm;
    task *tasks;
    bool recorded; /* a graph's: what its launches carry out is made like it */
} plan;

size_t task_reads(const task *t, const struct ncclComm *comm)
{
    size_t all = t->count * (size_t)comm->ranks;
    bool root = t->peer == comm->rank;

    switch (t->kind) {
    case TASK_REDUCE_SCATTER:
    case TASK_ALL_TO_ALL: return all;
    case TASK_SCATTER: return root ? all : 0;
    case TASK_BROADCAST: return root ? t->count : 0;
    case TASK_RECV: return 0;
    default: return t->count;
    }
}

size_t task_writes(const task *t, const struct ncclComm *comm)
{
    size_t all = t->count * (size_t)comm->ranks;
    bool root = t->peer == comm->rank;

    switch (t->kind) {
    case TASK_ALL_GATHER:
    case TASK_ALL_TO_ALL: return all;
    case TASK_GATHER: return root ? all : 0;
    case TASK_REDUCE: return root ? t->count : 0;
    case TASK_SEND: return 0;
    default: return t->count;
    }
}

void task_append(ncclComm_t comm, task *t)
{
    t->next = NULL;
    *comm->last_task = t;
    comm->last_task = &t->next;
}

static void drop(task *first)
{
    while (first) {
        task *next = first->next;
        free(first);
        first = next;
    }
}

void task_drop_all(ncclComm_t comm)
{
    drop(comm->tasks);
    comm->tasks = NULL;
    comm->last_task = &comm->tasks;
}

/* ---- the kernel ------------------------------------------------------------------------------------- */

static void carry_out(plan *p)
{
    bool whole = true, pairs = false;

    for (task *t = p->tasks; t && whole; t = t->next) {
        if (t->kind < TASK_ALL_TO_ALL)
            whole = collective_run(p->comm, t);
        else
            pairs = true;
    }
    if (whole && pairs) whole = pairs_run(p->comm, p->tasks);
    if (!whole && !atomic_load(&p->comm->aborted))
        comm_failed(p->comm, ncclSystemError, "no memory in a kernel");
}

/* Its own operations that are not over, or the graphs' that will be: a communicator ends after both. */
static void count(const plan *p, int more)
{
    ncclComm_t comm = p->comm;

    pthread_mutex_lock(&comm->mutex);
    if (p->recorded)
        comm->graphs += more;
    else
        comm->pending += more;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
}

static void drop_plan(void *arg)
{
    plan *p = arg;
    ncclComm_t comm = p->comm;

    count(p, -1);
    drop(p->tasks);
    free(p);
    comm_drop(comm);
}

static void begin(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    comm->running++;
    pthread_mutex_unlock(&comm->mutex);
}

static void end(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    comm->running--;
    pthread_mutex_unlock(&comm->mutex);
}

static void run(void *arg)
{
    plan *p = arg;

    begin(p->comm);
    carry_out(p);
    end(p->comm);
    drop_plan(p);
}

/* ---- launches by graphs ------------------------------------------------------------------------------ */

static void number_collectives(ncclComm_t comm, task *tasks);

/* What a launch carries out: its collectives are numbered in the order of the launches. */
static void *again(const void *arg)
{
    const plan *from = arg;
    plan *p = calloc(1, sizeof *p);
    task **last = p ? &p->tasks : NULL;

    for (const task *t = from->tasks; t && last; t = t->next) {
        task *copy = *last = malloc(sizeof *copy);
        if (!copy) {
            drop(p->tasks);
            free(p);
            return NULL;
        }
        *copy = *t;
        copy->next = NULL;
        last = &copy->next;
    }
    if (!p) return NULL;
    p->comm = from->comm;
    number_collectives(p->comm, p->tasks);
    count(p, 1);
    comm_hold(p->comm);
    return p;
}

/* ---- the launch ------------------------------------------------------------------------------------- */

enum { ACCESSES_MAX = 3 }; /* of one task: what it reads, what it writes, a factor */

static void note_access(emu_access *list, int *count, const void *at, size_t bytes, bool writes)
{
    if (bytes) list[(*count)++] = (emu_access){at, bytes, writes};
}

static int list_accesses(ncclComm_t comm, emu_access *list)
{
    int count = 0;

    for (const task *t = comm->tasks; t; t = t->next) {
        size_t item = type_bytes(t->type);
        note_access(list, &count, t->send, task_reads(t, comm) * item, false);
        note_access(list, &count, t->recv, task_writes(t, comm) * item, true);
        if (t->how.kind == REDUCE_PREMUL && t->how.where && emu_device_of(t->how.where, item) >= 0)
            note_access(list, &count, t->how.where, item, false);
    }
    return count;
}

static void number_collectives(ncclComm_t comm, task *tasks)
{
    uint32_t index = 0, of = 0;

    for (task *t = tasks; t; t = t->next) of += t->kind < TASK_SEND;
    for (task *t = tasks; t; t = t->next) {
        if (t->kind >= TASK_SEND) continue;
        t->number = atomic_fetch_add(&comm->collectives, 1) + 1;
        t->index = index++;
        t->of = of;
    }
}

/* A launch while it is put together. */
typedef struct launching {
    ncclComm_t comm;
    cudaStream_t first, *others; /* the kernel's stream, and further ones of the group call */
    int other_count;
    emu_access *accesses;
    int access_count;
} launching;

static void note_stream(launching *l, cudaStream_t stream)
{
    if (stream == l->first) return;
    for (int i = 0; i < l->other_count; i++)
        if (l->others[i] == stream) return;
    l->others[l->other_count++] = stream;
}

static bool put_together(launching *l)
{
    size_t count = 0;

    for (const task *t = l->comm->tasks; t; t = t->next) count++;
    if (!count) return false; /* a launch is of something */
    l->others = calloc(count, sizeof *l->others);
    l->accesses = calloc(count * ACCESSES_MAX, sizeof *l->accesses);
    if (!l->others || !l->accesses) return false;
    l->first = l->comm->tasks->stream;
    for (const task *t = l->comm->tasks; t; t = t->next) note_stream(l, t->stream);
    l->access_count = list_accesses(l->comm, l->accesses);
    return true;
}

/* The kernel's stream after the others, or the others after it. */
static cudaError_t order_streams(const launching *l, bool before)
{
    cudaEvent_t *event = &l->comm->event;
    cudaError_t error = cudaSuccess;

    for (int i = 0; i < l->other_count && !error; i++) {
        if (!*event) error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
        if (!error) error = cudaEventRecord(*event, before ? l->others[i] : l->first);
        if (!error) error = cudaStreamWaitEvent(before ? l->first : l->others[i], *event, 0);
    }
    return error;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool implicit_order, races_fail;

/* NCCL reads its variables once.  Before 2.26 it has neither of these: let its kernels be in order. */
static void read_environment(void)
{
    const char *text = getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), *race = getenv("NCCL_LAUNCH_RACE_FATAL");
    bool known = version_shown() >= 22600;

    implicit_order = !known || (text && atoi(text));
    races_fail = known && implicit_order && (!race || atoi(race));
}

/* Do kernels of several communicators run in the order of their launches? */
static bool in_order(void)
{
    pthread_once(&once, read_environment);
    return implicit_order;
}

/* Whose launch of all that a device has is the last one that has begun. */
enum { DEVICES_MOST = 16 }; /* of the emulation */
static _Atomic(const void *) launchers[DEVICES_MOST];

static const void *this_thread(void)
{
    static _Thread_local char marker;

    return &marker;
}

/* Two threads that launch on one device at once are in no order, which NCCL tells whoever ends while another has begun,
 * though both kernels are launched.  What is captured is in the order of its graph. */
static ncclResult_t race_check(const struct ncclComm *comm)
{
    if (atomic_load(&launchers[comm->device]) == this_thread()) return ncclSuccess;
    return fail(ncclInvalidUsage, "Fatal: host threads racing to launch NCCL on same device.");
}

/* From the launch on the kernel may be over at any time, and its tasks gone. */
static cudaError_t queue(const launching *l, plan *p)
{
    ncclComm_t comm = l->comm;
    emu_kernel kernel = {.name = p->tasks->function,
                         .run = run,
                         .arg = p,
                         .accesses = l->accesses,
                         .access_count = (size_t)l->access_count,
                         .exclusive = true,
                         .unordered = !in_order(),
                         .again = again,
                         .drop = drop_plan};
    cudaError_t error = order_streams(l, true);

    p->recorded = emu_stream_capturing(l->first);
    if (!p->recorded) number_collectives(comm, p->tasks);
    count(p, 1);
    comm_hold(comm);
    if (!error) error = emu_launch(l->first, &kernel);
    if (!error) return order_streams(l, false);
    drop_plan(p);
    return error;
}

/* What a rank sends to itself is received in the same group call, or never. */
static ncclResult_t check_own_messages(ncclComm_t comm)
{
    int sent = 0, received = 0;

    for (const task *t = comm->tasks; t; t = t->next) {
        sent += t->kind == TASK_SEND && t->peer == comm->rank;
        received += t->kind == TASK_RECV && t->peer == comm->rank;
    }
    if (sent == received) return ncclSuccess;
    return fail(ncclInvalidUsage, "rank %d sends %d messages to itself, but receives %d, in one group call",
                comm->rank, sent, received);
}

static ncclResult_t launch_here(ncclComm_t comm)
{
    launching l = {.comm = comm};
    plan *p;
    cudaError_t error = cudaErrorMemoryAllocation;
    ncclResult_t result = check_own_messages(comm);

    if (result) return result;
    p = calloc(1, sizeof *p);
    if (p && put_together(&l)) {
        *p = (plan){comm, comm->tasks, false};
        comm->tasks = NULL;
        comm->last_task = &comm->tasks;
        error = queue(&l, p);
    } else {
        free(p);
    }
    free(l.others);
    free(l.accesses);
    return error ? fail_cuda(error, "launch of a kernel") : ncclSuccess;
}

/* As NCCL's group calls do, one that fails leaves the communicator's device current. */
ncclResult_t launch(ncclComm_t comm)
{
    int device = -1, scripted;
    bool races;
    ncclResult_t result;

    exit_check();
    races = in_order() && races_fail && !emu_stream_capturing(comm->tasks->stream);
    cudaGetDevice(&device);
    if (device != comm->device) cudaSetDevice(comm->device);
    if (races) atomic_store(&launchers[comm->device], this_thread());
    scripted = emu_enter("launching");
    result = scripted ? fail((ncclResult_t)scripted, "launching: by script") : launch_here(comm);
    if (!result && races) result = race_check(comm);
    if (!result && device >= 0 && device != comm->device) cudaSetDevice(device);
    return result;
}
