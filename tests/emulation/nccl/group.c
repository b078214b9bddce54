/* group.c - group calls.
 *
 * An error inside makes the end return it, and nothing of the group call is started.  An abort of one of its
 * communicators while the end is inside makes the rest of it fail with ncclInternalError. */
#include "group.h"
#include "alias.h"
#include "connect.h"
#include "task.h"

#include <stdlib.h>

typedef struct batch { /* a group call that has ended and is to be carried out */
    ncclComm_t comms;
    job *jobs;
} batch;

static _Thread_local struct {
    int depth;
    ncclResult_t error;
    bool mixed, any, blocking; /* of those that take part */
    ncclComm_t comms, *last_comm;
    job *jobs, **last_job;
} group;

void group_begin(void)
{
    if (group.depth++) return;
    group.error = ncclSuccess;
    group.mixed = group.any = false;
    group.comms = NULL;
    group.last_comm = &group.comms;
    group.jobs = NULL;
    group.last_job = &group.jobs;
}

ncclResult_t group_note(ncclResult_t result)
{
    if (result && group.depth && !group.error) group.error = result;
    return result;
}

static void note_blocking(bool blocking)
{
    group.mixed |= group.any && group.blocking != blocking;
    group.any = true;
    group.blocking = blocking;
}

void group_add_comm(ncclComm_t comm)
{
    if (comm->in_group) return;
    comm_hold(comm);
    note_blocking(comm->blocking);
    comm->in_group = true;
    comm->group_next = NULL;
    *group.last_comm = comm;
    group.last_comm = &comm->group_next;
}

ncclResult_t group_add_job(job *j)
{
    if (!j->governed) note_blocking(j->comm->blocking);
    j->next = NULL;
    *group.last_job = j;
    group.last_job = &j->next;
    return ncclSuccess;
}

void job_hand_out(job *j, ncclComm_t *to)
{
    comm_hold(j->comm);
    j->made = to;
    *to = j->comm;
}

/* ---- carrying it out -------------------------------------------------------------------------------- */

static void *run_job(void *arg)
{
    job *j = arg;

    cudaSetDevice(j->comm->device);
    j->result = j->run(j);
    return NULL;
}

static ncclResult_t run_job_here(job *j)
{
    int device = -1;

    cudaGetDevice(&device);
    run_job(j);
    if (device >= 0 && device != j->comm->device) cudaSetDevice(device);
    return j->result;
}

/* Jobs wait for each other: those of several ranks in one thread need a thread each. */
static ncclResult_t run_jobs(job *first)
{
    enum { JOBS_MAX = 1024 };
    pthread_t threads[JOBS_MAX];
    int count = 0;
    ncclResult_t result = ncclSuccess;

    if (!first) return ncclSuccess;
    if (!first->next) return run_job_here(first);
    for (job *j = first; j; j = j->next) {
        if (count < JOBS_MAX && !pthread_create(&threads[count], NULL, run_job, j))
            count++;
        else
            result = j->result = fail(ncclSystemError, "%s: no thread for it", j->function);
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (job *j = first; j; j = j->next)
        if (!result) result = j->result;
    return result;
}

static ncclResult_t check_aborted(const batch *b)
{
    for (ncclComm_t c = b->comms; c; c = c->group_next)
        if (atomic_load(&c->aborted) && (c->tasks || atomic_load(&c->state) == COMM_ABORTED))
            return fail(ncclInternalError, "%s: aborted while a group call with it was under way", c->name);
    return ncclSuccess;
}

/* Several may be ranks of one communicator. */
static ncclResult_t connect_all(const batch *b)
{
    ncclResult_t result = ncclSuccess;

    for (ncclComm_t c = b->comms; c; c = c->group_next)
        if (c->tasks) connect_show(c);
    for (ncclComm_t c = b->comms; c && !result; c = c->group_next)
        if (c->tasks) result = connect_await(c);
    return result;
}

static ncclResult_t carry_out(const batch *b)
{
    ncclResult_t result = check_aborted(b);

    if (!result) result = run_jobs(b->jobs);
    if (!result) result = connect_all(b);
    for (ncclComm_t c = b->comms; c && !result; c = c->group_next)
        if (c->tasks) result = launch(c);
    return result;
}

/* Who polls sees the result; who waited for it has no handle to what was not made.  One that takes part in
 * the group call itself is still in use by it, so its result waits for the end. */
static void settle_job(job *j, bool blocking)
{
    if (blocking ? !j->result : !j->comm->in_group) atomic_store(&j->comm->result, (int)j->result);
    if (blocking && j->result && j->made) {
        *j->made = NULL;
        atomic_store(&j->comm->state, COMM_DESTROYED);
        comm_drop(j->comm);
    }
    if (!blocking) comm_background(j->comm, -1);
    comm_drop(j->comm);
    free(j);
}

static void settle(const batch *b, ncclResult_t result, bool blocking)
{
    for (job *j = b->jobs, *next; j; j = next) {
        next = j->next;
        if (result && !j->result) j->result = result;
        settle_job(j, blocking);
    }
    for (ncclComm_t c = b->comms, next; c; c = next) {
        next = c->group_next;
        task_drop_all(c);
        c->in_group = false;
        if (blocking)
            comm_unclaim(c);
        else /* from here on it may be claimed again */
            atomic_store(&c->result, (int)(atomic_load(&c->state) == COMM_REVOKED ? ncclSuccess : result));
        if (!blocking) comm_background(c, -1);
        comm_drop(c);
    }
}

static bool is_given_up(void *arg)
{
    const batch *b = arg;

    for (ncclComm_t c = b->comms; c; c = c->group_next)
        if (atomic_load(&c->aborted)) return true;
    for (job *j = b->jobs; j; j = j->next)
        if (atomic_load(&j->comm->aborted)) return true;
    return false;
}

static void *carry_out_apart(void *arg)
{
    batch *b = arg;
    int scripted;

    cudaSetDevice(b->jobs ? b->jobs->comm->device : b->comms->device);
    scripted = emu_enter_until("background", is_given_up, b);
    settle(b, scripted ? fail((ncclResult_t)scripted, "in the background: by script") : carry_out(b), false);
    free(b);
    return NULL;
}

static ncclResult_t start_thread(batch *b)
{
    pthread_t thread;
    pthread_attr_t detached;
    int error;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &detached, carry_out_apart, b);
    pthread_attr_destroy(&detached);
    return error ? fail(ncclSystemError, "no thread for a nonblocking call") : ncclInProgress;
}

static ncclResult_t carry_out_nonblocking(const batch *collected)
{
    batch *b = malloc(sizeof *b);
    ncclResult_t result;

    for (job *j = collected->jobs; j; j = j->next) comm_background(j->comm, 1);
    for (ncclComm_t c = collected->comms; c; c = c->group_next) comm_background(c, 1);
    if (!b) {
        settle(collected, ncclSystemError, false);
        return fail(ncclSystemError, "no memory");
    }
    *b = *collected;
    for (job *j = b->jobs; j; j = j->next) atomic_store(&j->comm->result, ncclInProgress);
    for (ncclComm_t c = b->comms; c; c = c->group_next) {
        atomic_store(&c->result, ncclInProgress);
        comm_unclaim(c);
    }
    result = start_thread(b);
    if (result != ncclInProgress) {
        settle(b, result, false);
        free(b);
    }
    return result;
}

/* ---- ends ------------------------------------------------------------------------------------------- */

static bool is_group_given_up(void *none)
{
    batch collected = {group.comms, group.jobs};

    (void)none;
    /* A group of nothing, as where a rank has no block, waits for nobody. */
    if (!group.comms && !group.jobs) return true;
    return is_given_up(&collected);
}

ncclResult_t group_end(void)
{
    batch collected = {group.comms, group.jobs};
    ncclResult_t result = group.error;

    if (--group.depth) return ncclSuccess;
    if (!result && group.mixed)
        result =
            fail(ncclInvalidArgument, "Blocking and nonblocking communicators are not allowed in the same "
                                      "group");
    group.comms = NULL;
    group.jobs = NULL;
    if (!result && !collected.comms && !collected.jobs) return ncclSuccess;
    if (!result) result = check_aborted(&collected); /* while it hung inside */
    if (!result && !group.blocking) return carry_out_nonblocking(&collected);
    if (!result) result = carry_out(&collected);
    settle(&collected, result, true);
    return result;
}

ncclResult_t group_end_silent(void)
{
    ncclResult_t result = group_end();

    return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t group_drop(void)
{
    batch collected = {group.comms, group.jobs};

    if (!group.depth) return fail(ncclInvalidUsage, "not in a group call");
    if (--group.depth) return ncclSuccess;
    group.comms = NULL;
    group.jobs = NULL;
    settle(&collected, ncclInvalidUsage, true);
    return group.error;
}

ncclResult_t ncclGroupStart(void)
{
    int scripted;

    emu_inside_nccl();
    scripted = emu_enter("ncclGroupStart");
    if (!scripted) group_begin();
    emu_outside_nccl();
    return scripted ? fail((ncclResult_t)scripted, "ncclGroupStart: by script") : ncclSuccess;
}
ALIAS(ncclGroupStart)

static ncclResult_t end_by_call(void)
{
    int scripted = emu_enter_until("ncclGroupEnd", is_group_given_up, NULL);

    if (!group.depth) return fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
    if (scripted) group_note(fail((ncclResult_t)scripted, "ncclGroupEnd: by script"));
    return group_end();
}

ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result;

    emu_inside_nccl();
    result = end_by_call();
    emu_outside_nccl();
    return result;
}
ALIAS(ncclGroupEnd)
