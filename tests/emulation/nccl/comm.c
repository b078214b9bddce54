/* comm.c - the life of a communicator's structure, and who may use it. */
#include "comm.h"
#include "alias.h"
#include "buffer.h"
#include "exit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 2000000, WAIT_MS = 50 };
#define COMM_MAGIC UINT64_C(0x0280028002800280)

static pthread_mutex_t shells_mutex = PTHREAD_MUTEX_INITIALIZER;
static ncclComm_t shells; /* all that there ever were, so that none is leaked and none is taken for another */

/* ---- configuration ---------------------------------------------------------------------------------- */

#define HAS(config, field) ((config)->size >= offsetof(ncclConfig_t, field) + sizeof((config)->field))

/* As NCCL: at least only beside at most. */
static bool ctas_check(const ncclConfig_t *config)
{
    const int undefined = NCCL_CONFIG_UNDEF_INT, least = config->minCTAs, most = config->maxCTAs;

    if (!HAS(config, maxCTAs)) return true;
    return (least == undefined || least > 0) && (most == undefined || most > 0) && least <= most;
}

bool config_check(const ncclConfig_t *config)
{
    return !config ||
           (config->magic == 0xcafebeef && HAS(config, blocking) &&
            (config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking == 0 || config->blocking == 1) &&
            ctas_check(config));
}

/* Counted as a call "minCTAs=4" would be: what has reached a communicator. */
static void count_option(const char *name, int value)
{
    char text[64];

    if (value == NCCL_CONFIG_UNDEF_INT) return;
    snprintf(text, sizeof text, "%s=%d", name, value);
    emu_enter(text);
}

static void count_options(const ncclConfig_t *config)
{
    char text[96];

    if (!config || !HAS(config, netName)) return;
    count_option("cgaClusterSize", config->cgaClusterSize);
    count_option("minCTAs", config->minCTAs);
    count_option("maxCTAs", config->maxCTAs);
    snprintf(text, sizeof text, "netName=%s", config->netName ? config->netName : "");
    if (config->netName) emu_enter(text);
#if NCCL_VERSION_CODE >= 22600
    if (HAS(config, trafficClass)) count_option("trafficClass", config->trafficClass);
#endif
}

static void configure(ncclComm_t comm, const ncclConfig_t *config, ncclComm_t parent)
{
    static _Atomic unsigned made;
    const char *blocking = getenv("NCCL_COMM_BLOCKING");

    /* What a config leaves open is NCCL's own choice; a parent's is taken over where there is no config at all. */
    comm->blocking = parent && !config ? parent->blocking : true;
    if (config && config->blocking != NCCL_CONFIG_UNDEF_INT) comm->blocking = config->blocking;
    if (blocking && *blocking) comm->blocking = atoi(blocking) != 0;
#if NCCL_VERSION_CODE >= 22700
    if (config && HAS(config, commName) && config->commName)
        snprintf(comm->name, sizeof comm->name, "%s", config->commName);
#endif
    if (parent && !config && parent->named) memcpy(comm->name, parent->name, sizeof comm->name);
    comm->named = *comm->name;
    if (!*comm->name)
        snprintf(comm->name, sizeof comm->name, "communicator %u", atomic_fetch_add(&made, 1) + 1);
}

/* ---- life ------------------------------------------------------------------------------------------- */

static void free_parts(ncclComm_t comm)
{
    for (int r = 0; comm->lives && r < comm->ranks; r++)
        if (comm->lives[r]) life_forget(comm->lives[r]);
    free(comm->lives);
    free(comm->sent);
    free(comm->received);
    free(comm->ops);
    buffer_remove_all(comm);
    if (comm->event) cudaEventDestroy(comm->event);
    if (comm->segment) {
        atomic_store(&comm_self(comm)->left, true);
        segment_close(comm->segment);
    }
    comm->lives = NULL;
    comm->sent = comm->received = NULL;
    comm->ops = NULL;
    comm->event = NULL;
    comm->segment = NULL;
}

ncclComm_t comm_new(int rank, int ranks, int device, const ncclConfig_t *config, ncclComm_t parent)
{
    ncclComm_t made = calloc(1, sizeof *made);

    if (!made) return NULL;
    made->magic = COMM_MAGIC;
    made->rank = rank;
    made->ranks = ranks;
    made->device = device;
    configure(made, config, parent);
    count_options(config);
    atomic_store(&made->references, 1);
    atomic_store(&made->result, ncclInProgress);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->last_task = &made->tasks;
    pthread_mutex_lock(&shells_mutex);
    made->next = shells;
    shells = made;
    pthread_mutex_unlock(&shells_mutex);
    return made;
}

void comm_hold(ncclComm_t comm)
{
    atomic_fetch_add(&comm->references, 1);
}

/* False: it is about to end, and has nothing left to look at. */
static bool hold_if_alive(ncclComm_t comm)
{
    int references = atomic_load(&comm->references);

    while (references > 0)
        if (atomic_compare_exchange_weak(&comm->references, &references, references + 1)) return true;
    return false;
}

void comm_drop(ncclComm_t comm)
{
    if (atomic_fetch_sub(&comm->references, 1) == 1) free_parts(comm);
}

static ncclResult_t equip(ncclComm_t comm)
{
    size_t ranks = (size_t)comm->ranks;

    comm->lives = calloc(ranks, sizeof *comm->lives);
    comm->sent = calloc(ranks, sizeof *comm->sent);
    comm->received = calloc(ranks, sizeof *comm->received);
    if (!comm->lives || !comm->sent || !comm->received) return fail(ncclSystemError, "no memory");
    for (int r = 0; r < comm->ranks; r++) {
        comm->lives[r] = life_watch(comm->segment->members[r].process);
        if (!comm->lives[r]) return fail(ncclSystemError, "no memory");
    }
    return ncclSuccess;
}

void comm_cost(const char *what)
{
    static pthread_mutex_t driver = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&driver);
    emu_event(what);
    pthread_mutex_unlock(&driver);
}

ncclResult_t comm_meet(ncclComm_t comm)
{
    meeting asked = {comm->id, comm->rank, comm->ranks, comm->device, &comm->aborted};
    ncclResult_t result = meet(&asked, &comm->segment);
    comm_state making = COMM_MAKING;

    if (!result) result = equip(comm);
    if (!result) comm_cost("making");
    if (!result) atomic_compare_exchange_strong(&comm->state, &making, COMM_READY); /* unless aborted */
    return result;
}

/* ---- who may use it --------------------------------------------------------------------------------- */

static int this_thread(void)
{
    static _Thread_local int number;

    if (!number) number = gettid();
    return number;
}

ncclResult_t comm_check(ncclComm_t comm, const char *function)
{
    exit_check();
    if (!comm) return fail(ncclInvalidArgument, "%s: comm is NULL", function);
    if (comm->magic != COMM_MAGIC) {
        emu_misuse("%s: %p is no communicator", function, (void *)comm);
        return fail(ncclInvalidArgument, "%s: %p is no communicator", function, (void *)comm);
    }
    comm_state state = atomic_load(&comm->state);
    if (state < COMM_DESTROYED) return ncclSuccess;
    const char *end = state == COMM_DESTROYED ? "destroyed" : "aborted";
    emu_misuse("%s: %s, rank %d, is used after it was %s", function, comm->name, comm->rank, end);
    return fail(ncclInvalidArgument, "%s: %s was %s", function, comm->name, end);
}

ncclResult_t comm_check_ready(ncclComm_t comm, const char *function)
{
    ncclResult_t result = comm_check(comm, function);

    if (result) return result;
    result = (ncclResult_t)atomic_load(&comm->result);
    if (result == ncclInProgress)
        return fail(ncclInvalidArgument,
                    "%s: Attempt to use communicator before the previous operation returned ncclSuccess",
                    function);
    if (result) return fail(result, "%s: %s has failed before", function, comm->name);
    return ncclSuccess;
}

/* This thread, by a group call that has not ended. */
static bool is_inside(ncclComm_t comm)
{
    return atomic_load(&comm->holder) == this_thread();
}

ncclResult_t comm_claim(ncclComm_t comm, const char *function)
{
    int nobody = 0;
    int self = this_thread();

    if (!atomic_compare_exchange_strong(&comm->holder, &nobody, self) && nobody != self) {
        const char *there = atomic_load(&comm->held_for);
        emu_misuse("%s: rank %d is used by two threads at once: thread %d in %s, thread %d in %s", comm->name,
                   comm->rank, nobody, there ? there : "a call", self, function);
        return fail(ncclInvalidUsage, "%s: another thread is inside %s", function, comm->name);
    }
    atomic_store(&comm->held_for, function);
    return ncclSuccess;
}

void comm_unclaim(ncclComm_t comm)
{
    atomic_store(&comm->holder, 0);
}

const char *comm_other_inside(ncclComm_t comm)
{
    return atomic_load(&comm->holder) && !is_inside(comm) ? atomic_load(&comm->held_for) : NULL;
}

void comm_end(ncclComm_t comm)
{
    if (!comm->in_group) comm_unclaim(comm);
}

static bool is_aborted(void *comm)
{
    return atomic_load(&((ncclComm_t)comm)->aborted);
}

ncclResult_t comm_enter(ncclComm_t comm, const char *function)
{
    int scripted = comm ? emu_enter_until(function, is_aborted, comm) : emu_enter(function);

    return scripted ? fail((ncclResult_t)scripted, "%s: by script", function) : ncclSuccess;
}

ncclResult_t comm_begin(ncclComm_t comm, const char *function)
{
    ncclResult_t result = comm_check(comm, function);

    if (result) {
        emu_enter(function);
        return result;
    }
    bool inside = is_inside(comm);
    result = comm_claim(comm, function);
    if (result) {
        emu_enter(function);
        return result;
    }
    result = comm_enter(comm, function);
    if (!result) result = comm_check_ready(comm, function);
    if (result && !inside) comm_unclaim(comm);
    return result;
}

/* ---- peers ------------------------------------------------------------------------------------------ */

member *comm_self(ncclComm_t comm)
{
    return &comm->segment->members[comm->rank];
}

void comm_strike_all(ncclComm_t comm)
{
    for (int r = 0; r < comm->ranks; r++) bell_strike(&comm->segment->members[r].bell);
}

bool comm_peer_dead(ncclComm_t comm, int *who)
{
    for (int r = 0; r < comm->ranks; r++)
        if (!atomic_load(&comm->segment->members[r].left) && life_over(comm->lives[r])) {
            *who = r;
            return true;
        }
    return false;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void comm_failed(ncclComm_t comm, ncclResult_t result, const char *why)
{
    int success = ncclSuccess;

    if (atomic_compare_exchange_strong(&comm->result, &success, (int)result))
        fail(result, "%s, rank %d: %s", comm->name, comm->rank, why);
}

/* What the threads of the network have found: nothing takes that back. */
static void network_failed(ncclComm_t comm, ncclResult_t result, const char *why)
{
    int success = ncclSuccess;

    atomic_compare_exchange_strong(&comm->network_result, &success, (int)result);
    comm_failed(comm, result, why);
}

static void look_for_errors(ncclComm_t comm)
{
    int scripted = emu_event("async");
    int64_t now = now_ns(), looked = atomic_load(&comm->looked_ns);
    char text[64];
    int who;

    if (scripted >= 0) {
        network_failed(comm, scripted ? (ncclResult_t)scripted : ncclRemoteError, "by script");
        return;
    }
    if (now - looked < LOOK_NS || !atomic_compare_exchange_strong(&comm->looked_ns, &looked, now)) return;
    if (!hold_if_alive(comm)) return; /* another thread aborts it */
    if (comm_peer_dead(comm, &who)) {
        snprintf(text, sizeof text, "rank %d (process %d) has died", who,
                 (int)comm->segment->members[who].process);
        network_failed(comm, ncclRemoteError, text);
    }
    comm_drop(comm);
}

void comm_look(ncclComm_t comm)
{
    if (atomic_load(&comm->result) == ncclSuccess && atomic_load(&comm->state) == COMM_READY)
        look_for_errors(comm);
}

static ncclResult_t ask(ncclComm_t comm, ncclResult_t *answer)
{
    ncclResult_t result = comm_enter(NULL, "ncclCommGetAsyncError");

    if (!result) result = comm_check(comm, "ncclCommGetAsyncError");
    if (result) return result;
    if (!answer) return fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    comm_look(comm);
    *answer = (ncclResult_t)atomic_load(&comm->result);
    return ncclSuccess;
}

/* It is a use like any other: in NCCL the one that finds a call finished takes that call's thread and memory
 * away. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    ncclResult_t result = comm_check(comm, "ncclCommGetAsyncError");
    bool inside;

    if (result) return result;
    inside = is_inside(comm);
    result = comm_claim(comm, "ncclCommGetAsyncError");
    if (result) return result;
    atomic_fetch_add(&comm->askers, 1);
    result = ask(comm, asyncError);
    atomic_fetch_sub(&comm->askers, 1);
    if (!inside) comm_unclaim(comm);
    return result;
}
ALIAS(ncclCommGetAsyncError)

/* ---- kernels ---------------------------------------------------------------------------------------- */

bool comm_is_idle(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    bool idle = !comm->pending;
    pthread_mutex_unlock(&comm->mutex);
    return idle;
}

bool comm_drain(ncclComm_t comm)
{
    bool over;

    pthread_mutex_lock(&comm->mutex);
    while ((comm->pending || comm->graphs) && !atomic_load(&comm->aborted)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)WAIT_MS * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&comm->changed, &comm->mutex, &until);
    }
    over = !comm->pending && !comm->graphs;
    pthread_mutex_unlock(&comm->mutex);
    return over;
}

bool comm_in_graphs(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    bool in_graphs = comm->graphs;
    pthread_mutex_unlock(&comm->mutex);
    return in_graphs;
}

void comm_outwait_graphs(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    while (comm->graphs) pthread_cond_wait(&comm->changed, &comm->mutex);
    pthread_mutex_unlock(&comm->mutex);
}

ncclResult_t comm_check_idle(ncclComm_t comm, const char *function)
{
    if (comm_is_idle(comm)) return ncclSuccess;
    emu_misuse("%s: %s, rank %d, has operations that are not over", function, comm->name, comm->rank);
    return fail(ncclInvalidUsage, "%s: %s has operations that are not over", function, comm->name);
}

void comm_set_part(ncclComm_t comm, ncclComm_t part)
{
    pthread_mutex_lock(&comm->mutex);
    comm->part = part;
    if (part && atomic_load(&comm->stopping)) atomic_store(&part->aborted, true);
    pthread_mutex_unlock(&comm->mutex);
}

void comm_abort_part(ncclComm_t comm, bool stops)
{
    pthread_mutex_lock(&comm->mutex);
    atomic_store(&comm->stopping, stops);
    if (comm->part && stops) atomic_store(&comm->part->aborted, true);
    pthread_mutex_unlock(&comm->mutex);
}

void comm_background(ncclComm_t comm, int more)
{
    pthread_mutex_lock(&comm->mutex);
    comm->background += more;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
}

void comm_outwait_background(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    while (comm->background) pthread_cond_wait(&comm->changed, &comm->mutex);
    pthread_mutex_unlock(&comm->mutex);
}

void comm_stop(ncclComm_t comm)
{
    atomic_store(&comm->aborted, true);
    pthread_mutex_lock(&comm->mutex);
    if (comm->running) bell_strike(&comm_self(comm)->bell);
    while (comm->running) pthread_cond_wait(&comm->changed, &comm->mutex);
    pthread_mutex_unlock(&comm->mutex);
}

void comm_interrupt(ncclComm_t comm)
{
    comm_stop(comm);
    pthread_mutex_lock(&comm->mutex);
    while (comm->pending) pthread_cond_wait(&comm->changed, &comm->mutex);
    pthread_mutex_unlock(&comm->mutex);
}

void comm_forgive(ncclComm_t comm)
{
    int result = atomic_load(&comm->result);

    if (result == ncclInProgress) return;
    atomic_compare_exchange_strong(&comm->result, &result, atomic_load(&comm->network_result));
}

/* ---- queries ---------------------------------------------------------------------------------------- */

static ncclResult_t query(ncclComm_t comm, const char *function, const int *out)
{
    ncclResult_t result = comm_enter(NULL, function);

    if (!result) result = comm_check_ready(comm, function);
    if (!result && !out) result = fail(ncclInvalidArgument, "%s: no place for the answer", function);
    return result;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
    ncclResult_t result = query(comm, "ncclCommCount", count);

    if (!result) *count = comm->ranks;
    return result;
}
ALIAS(ncclCommCount)

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
    ncclResult_t result = query(comm, "ncclCommCuDevice", device);

    if (!result) *device = comm->device;
    return result;
}
ALIAS(ncclCommCuDevice)

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
    ncclResult_t result = query(comm, "ncclCommUserRank", rank);

    if (!result) *rank = comm->rank;
    return result;
}
ALIAS(ncclCommUserRank)
