/* registered.c - see registered.h.
 *
 * Happy path: a thread of the module, on its device, takes the turn, registers or deregisters and keeps the account; the
 * caller waits for it.  Fails: what is no memory of this device; what is there already, or is not; a communicator that is in
 * use for long, or stopped; NCCL, which does not come back for long (it may wait for a kernel): the thread sees to what
 * becomes of that.  A communicator that is aborted takes all back by itself. */
#include "registered.h"

#include "cuda_device.h"
#include "thread.h"

#include <stdlib.h>
#include <string.h>

#define TURN_WAIT_NS (2000 * WEFT__NCCL_MS) /* for whoever else is inside, or for the abort */
#define CALL_WAIT_NS (2000 * WEFT__NCCL_MS) /* and then for NCCL */
#define BACK_NS      (100 * WEFT__NCCL_MS)  /* the thread tells so much before its caller stops waiting */

typedef enum registration_state { REGISTERING, REGISTERED, DEREGISTERING } registration_state;

typedef struct weft__registration {
    weft__list link; /* comm->registered, from before NCCL knows of it until it does not; under comm->lock */
    registration_state state; /* under comm->lock */
    void *at;
    size_t bytes;
    void *handle; /* NULL also where NCCL keeps no account (NCCL_LOCAL_REGISTER=0) */
} weft__registration;

/* Between the caller and the thread that does it. */
struct registering {
    weft__errand errand;
    weft__comm *comm; /* referenced by the thread */
    weft__registration *of;
    const char *name, *call; /* weft_'s, and NCCL's */
    void (*run)(struct registering *task);
    ncclResult_t result;
    bool carried_out;
};

/* Under comm->lock. */
static weft__registration *registered_at(weft__comm *comm, const void *at)
{
    WEFT__LIST_EACH(&comm->registered, link)
    {
        weft__registration *r = WEFT__LIST_ENTRY(link, weft__registration, link);
        if (r->at == at) return r;
    }
    return NULL;
}

/* False: something is there already.  An abort that comes from here on knows of it. */
static bool registered_claim(weft__comm *comm, weft__registration *of)
{
    bool there;
    pthread_mutex_lock(&comm->lock);
    there = registered_at(comm, of->at) != NULL;
    if (!there) weft__list_append(&comm->registered, &of->link);
    pthread_mutex_unlock(&comm->lock);
    return !there;
}

static void registered_to(weft__comm *comm, weft__registration *of, registration_state state)
{
    pthread_mutex_lock(&comm->lock);
    of->state = state;
    pthread_mutex_unlock(&comm->lock);
}

/* One that nobody else is about to deregister; NULL: there is none, or (busy) NCCL has still to come back with it. */
static weft__registration *registered_take(weft__comm *comm, const void *at, bool *busy)
{
    weft__registration *found;
    pthread_mutex_lock(&comm->lock);
    found = registered_at(comm, at);
    *busy = found && found->state != REGISTERED;
    if (found && !*busy) found->state = DEREGISTERING;
    pthread_mutex_unlock(&comm->lock);
    return *busy ? NULL : found;
}

static void forget(weft__comm *comm, weft__registration *of)
{
    pthread_mutex_lock(&comm->lock);
    weft__list_remove(&of->link);
    pthread_mutex_unlock(&comm->lock);
    free(of);
}

static bool has_succeeded(const struct registering *task)
{
    return task->carried_out && task->result == ncclSuccess;
}

/* What has become of a task that is done. */
static weft_status registered_ended(const struct registering *task)
{
    weft__comm *comm = task->comm;
    char why[WEFT__NCCL_SENTENCE];
    const weft__nccl *nccl = comm->nccl;
    if (has_succeeded(task)) return WEFT_OK;
    if (task->carried_out)
        return weft__nccl_fail(nccl, WEFT_ERR_SYSTEM, "%s: %s: %.400s", task->name, task->call,
                               ncclGetErrorString(task->result));
    if (!weft__comm_doomed(comm) && !weft__comm_suspects(comm))
        return weft__nccl_fail(nccl, WEFT_ERR_STATE, "%s: communicator %s is in use", task->name,
                               comm->label);
    pthread_mutex_lock(&comm->lock);
    memcpy(why, weft__comm_doomed(comm) ? comm->why : comm->found_why, sizeof why);
    pthread_mutex_unlock(&comm->lock);
    if (!weft__comm_doomed(comm))
        return weft__nccl_fail(nccl, WEFT_ERR_BROKEN, "%s: communicator %s has failed: %.400s", task->name,
                               comm->label, why);
    return weft__nccl_fail(nccl, WEFT_ERR_BROKEN, "%s: communicator %s is stopped: %.400s", task->name,
                           comm->label, why);
}

static void registered_run(weft__errand *errand)
{
    struct registering *task = (struct registering *)(void *)errand;
    task->run(task);
    weft__comm_unref(task->comm); /* who still waits has a reference of its own */
}

/* WEFT_ERR_MEMORY: it has not begun, and is the caller's still; else the thread's. */
static weft_status carry_out(struct registering of_call)
{
    weft__nccl *nccl = of_call.comm->nccl;
    struct registering *task = malloc(sizeof *task);
    weft_status status = WEFT_ERR_MEMORY;
    weft__comm_ref(of_call.comm);
    if (task) {
        *task = of_call;
        task->errand = (weft__errand){.nccl = nccl, .run = registered_run};
        status = weft__errand_await(&task->errand, weft__nccl_now(nccl) + TURN_WAIT_NS + CALL_WAIT_NS);
    }
    if (status == WEFT_ERR_TIMEOUT)
        return weft__nccl_fail(nccl, WEFT_ERR_TIMEOUT,
                               "%s: %s on communicator %s has not come back after %.1f s; it goes on",
                               of_call.name, of_call.call, of_call.comm->label,
                               (double)(TURN_WAIT_NS + CALL_WAIT_NS) / 1e9);
    if (status == WEFT_OK) {
        status = registered_ended(task);
    } else {
        weft__comm_unref(of_call.comm);
        weft__nccl_fail(nccl, status, "%s: no memory, or no thread, for it", of_call.name);
    }
    free(task);
    return status;
}

/* ---- registering ---- */

static void register_it(struct registering *task)
{
    weft__comm *comm = task->comm;
    weft__turn turn;
    weft__turn_ask(comm, &turn);
    if (weft__turn_take_sound(comm, &turn, weft__nccl_now(comm->nccl) + TURN_WAIT_NS)) {
        weft__comm_inside(comm, task->call);
        task->carried_out = true;
        task->result = ncclCommRegister(comm->handle, task->of->at, task->of->bytes, &task->of->handle);
        task->result = weft__comm_await(comm, task->result);
        weft__turn_give(comm, &turn);
    }
    if (has_succeeded(task))
        registered_to(comm, task->of, REGISTERED);
    else
        forget(comm, task->of);
}

static weft_status check_range(weft__comm *comm, char *at, size_t bytes)
{
    weft__nccl *nccl = comm->nccl;
    bool first = false, last = false;
    weft_status status = weft__device_owns(&nccl->seam, at, &first);
    if (bytes - 1 > UINTPTR_MAX - (uintptr_t)at) first = false;
    if (status == WEFT_OK && first) status = weft__device_owns(&nccl->seam, at + bytes - 1, &last);
    if (status != WEFT_OK || last) return status;
    return weft__nccl_fail(nccl, WEFT_ERR_ARGUMENT,
                           "mem_register: %zu bytes at %p are not memory of device %d", bytes, (void *)at,
                           nccl->seam.device);
}

weft_status weft__registered_add(weft__comm *comm, void *at, size_t bytes)
{
    weft__nccl *nccl = comm->nccl;
    weft_status status = check_range(comm, at, bytes);
    weft__registration *of;
    if (status != WEFT_OK) return status;
    of = calloc(1, sizeof *of);
    if (!of) return weft__nccl_fail(nccl, WEFT_ERR_MEMORY, "mem_register: no memory for it");
    *of = (weft__registration){.state = REGISTERING, .at = at, .bytes = bytes};
    if (!registered_claim(comm, of)) {
        free(of);
        return weft__nccl_fail(nccl, WEFT_ERR_STATE,
                               "mem_register: %p is registered with communicator %s already", at,
                               comm->label);
    }
    status = carry_out((struct registering){
        .comm = comm, .of = of, .name = "mem_register", .call = "ncclCommRegister", .run = register_it});
    if (status == WEFT_ERR_MEMORY) forget(comm, of);
    return status;
}

/* ---- deregistering ---- */

static ncclResult_t registered_end(weft__comm *comm, const weft__registration *of)
{
    if (!of->handle) return ncclSuccess;
    return weft__comm_await(comm, ncclCommDeregister(comm->handle, of->handle));
}

static void deregister_it(struct registering *task)
{
    weft__comm *comm = task->comm;
    int64_t deadline_ns = weft__nccl_now(comm->nccl) + TURN_WAIT_NS;
    weft__turn turn;
    weft__turn_ask(comm, &turn);
    if (weft__turn_take_sound(comm, &turn, deadline_ns)) {
        weft__comm_inside(comm, task->call);
        task->carried_out = true;
        task->result = registered_end(comm, task->of);
        weft__turn_give(comm, &turn);
    }
    /* Its call may have hung until now, and what let it out comes before the abort. */
    if (!has_succeeded(task) && (weft__comm_doomed(comm) || weft__comm_suspects(comm)) &&
        weft__comm_outwait_abort_until(comm, deadline_ns + CALL_WAIT_NS - BACK_NS)) {
        task->carried_out = true; /* the abort has taken it back */
        task->result = ncclSuccess;
    }
    if (has_succeeded(task))
        forget(comm, task->of);
    else
        registered_to(comm, task->of, REGISTERED);
}

weft_status weft__registered_remove(weft__comm *comm, void *at)
{
    bool busy;
    weft__registration *of = registered_take(comm, at, &busy);
    weft_status status;
    if (busy)
        return weft__nccl_fail(comm->nccl, WEFT_ERR_STATE,
                               "mem_deregister: an earlier call for %p with communicator %s goes on", at,
                               comm->label);
    if (!of)
        return weft__nccl_fail(comm->nccl, WEFT_ERR_ARGUMENT,
                               "mem_deregister: %p is not registered with communicator %s", at, comm->label);
    status = carry_out((struct registering){.comm = comm,
                                            .of = of,
                                            .name = "mem_deregister",
                                            .call = "ncclCommDeregister",
                                            .run = deregister_it});
    if (status == WEFT_ERR_MEMORY) registered_to(comm, of, REGISTERED);
    return status;
}

/* ---- the end of the communicator ---- */

bool weft__registered_any(weft__comm *comm)
{
    bool any;
    pthread_mutex_lock(&comm->lock);
    any = !weft__list_empty(&comm->registered);
    pthread_mutex_unlock(&comm->lock);
    return any;
}

void weft__registered_leave(weft__comm *comm)
{
    WEFT__LIST_EACH(&comm->registered, link)
    {
        weft__registration *r = WEFT__LIST_ENTRY(link, weft__registration, link);
        if (comm->handle && !weft__comm_doomed(comm) && registered_end(comm, r) != ncclSuccess)
            weft__nccl_log(comm->nccl, 2, "communicator %s keeps memory at %p registered", comm->label,
                           r->at);
        free(r);
    }
    weft__list_init(&comm->registered);
}
