/* memory.c - memory of the device, and windows on it.
 *
 * Happy path: NCCL's allocator, else CUDA's; zeroed.  A work of kind MEM_ALLOC makes it a window of its
 * group's communicator.  Freeing goes to a thread, since CUDA may wait for kernels that hang; the caller
 * waits for it a while.  Fails: mem_alloc, with what CUDA said.  What could not be freed in time is freed
 * later. */
#include "memory.h"

#include "thread.h"

#include <stdlib.h>

#define FREE_WAIT_NS (2000 * WEFT__NCCL_MS) /* a caller of mem_free at most */
#define ASK_WAIT_NS  (1000 * WEFT__NCCL_MS) /* a caller of memory_held, for each communicator */

typedef struct weft__memory {
    weft__list link; /* nccl->memory; under nccl->lock */
    weft__nccl *nccl;
    void *at;
    size_t bytes;
    cudaError_t error; /* of making it */
    bool from_nccl;
    weft__comm *comm; /* whose window it is; changes under nccl->windows */
    void *window;
} weft__memory;

/* ---- making ---- */

/* On a stream of its own: what else is under way is nobody's business here. */
static cudaError_t zero(void *at, size_t bytes)
{
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return error;
    error = cudaMemsetAsync(at, 0, bytes, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return error;
}

static void give_back(weft__memory *memory)
{
    cudaError_t error = cudaSuccess;
    if (memory->from_nccl)
        ncclMemFree(memory->at);
    else
        error = cudaFree(memory->at);
    if (error != cudaSuccess) cudaGetLastError();
}

static void memory_make(void *arg)
{
    weft__memory *memory = arg;
    cudaError_t error = cudaSuccess;
    memory->from_nccl = ncclMemAlloc(&memory->at, memory->bytes) == ncclSuccess && memory->at;
    if (!memory->from_nccl) error = cudaMalloc(&memory->at, memory->bytes);
    if (error == cudaSuccess && (error = zero(memory->at, memory->bytes)) != cudaSuccess) give_back(memory);
    cudaGetLastError(); /* of NCCL's try, or told below */
    memory->error = error;
}

weft_status weft__memory_alloc(weft_backend *backend, size_t bytes, void **ptr)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__memory *memory = calloc(1, sizeof *memory);
    cudaError_t error;
    if (!memory) return weft__nccl_fail(nccl, WEFT_ERR_MEMORY, "mem_alloc: no memory to keep account of it");
    memory->nccl = nccl;
    memory->bytes = bytes ? bytes : 1;
    memory->error = cudaErrorMemoryAllocation;
    if (!weft__thread_call(nccl, memory_make, memory) || memory->error != cudaSuccess) {
        error = memory->error;
        free(memory);
        return weft__nccl_fail(nccl, error == cudaErrorMemoryAllocation ? WEFT_ERR_MEMORY : WEFT_ERR_SYSTEM,
                               "mem_alloc: device %d gives no %zu bytes: CUDA says \"%s\"", backend->device,
                               bytes, cudaGetErrorString(error));
    }
    *ptr = memory->at;
    pthread_mutex_lock(&nccl->lock);
    weft__list_append(&nccl->memory, &memory->link);
    pthread_mutex_unlock(&nccl->lock);
    return WEFT_OK;
}

static weft__memory *memory_find(weft__nccl *nccl, const void *at)
{
    weft__memory *found = NULL;
    pthread_mutex_lock(&nccl->lock);
    WEFT__LIST_EACH(&nccl->memory, node)
    {
        weft__memory *memory = WEFT__LIST_ENTRY(node, weft__memory, link);
        if (memory->at == at) found = memory;
    }
    pthread_mutex_unlock(&nccl->lock);
    return found;
}

/* NCCL makes no window of what CUDA's own allocator gives: that fails before the ranks meet, and the others wait for it. */
bool weft__memory_is_shareable(weft_backend *backend, const void *ptr)
{
    const weft__memory *memory = memory_find(weft__nccl_of(backend), ptr);
    return memory && memory->from_nccl;
}

/* ---- windows ---- */

ncclResult_t weft__memory_window(weft__comm *comm, const weft_backend_operation *op, const char **call)
{
    weft__nccl *nccl = comm->nccl;
    weft__memory *memory = memory_find(nccl, op->out);
    ncclResult_t result;
    *call = "ncclCommWindowRegister";
    if (!nccl->newer.window_register) return ncclSuccess;
    if (!memory || memory->window) return ncclInvalidUsage;
    weft__comm_inside(comm, *call);
    result =
        nccl->newer.window_register(comm->handle, op->out, op->count, &memory->window, WEFT__NCCL_WINDOW_ANY);
    result = weft__comm_await_begun(comm, result);
    /* Where the communicator is doomed meanwhile, NCCL may still write the window: the memory goes after the abort. */
    if (result == ncclInProgress || (result == ncclSuccess && memory->window)) {
        pthread_mutex_lock(&nccl->windows);
        memory->comm = comm;
        pthread_mutex_unlock(&nccl->windows);
        return result;
    }
    memory->window = NULL;
    weft__nccl_log(nccl, 3, "communicator %s: no window: %s", comm->label, ncclGetErrorString(result));
    return weft__comm_await(comm, ncclInProgress); /* only if the communicator has not suffered by it */
}

/* With the turn, or as the last one to hold the communicator, so that nobody else closes it; under nccl->windows, which is
 * let go while NCCL, or a kernel that it waits for, takes its time: others ask for windows of other communicators. */
static void close_window(weft__comm *comm, weft__memory *memory)
{
    weft__nccl *nccl = comm->nccl;
    ncclResult_t result;
    if (memory->comm != comm) return;
    if (comm->handle && !weft__comm_doomed(comm) && !weft__comm_suspects(comm)) {
        void *window = memory->window;
        memory->window = NULL; /* handed to nobody any more */
        pthread_mutex_unlock(&nccl->windows);
        result = nccl->newer.window_deregister(comm->handle, window);
        if (weft__comm_await(comm, result) != ncclSuccess)
            weft__nccl_log(nccl, 2, "communicator %s keeps a window", comm->label);
        pthread_mutex_lock(&nccl->windows);
    }
    memory->comm = NULL;
    memory->window = NULL;
}

/* Under nccl->windows. */
static weft__memory *first_window_of(weft__comm *comm)
{
    weft__nccl *nccl = comm->nccl;
    weft__memory *found = NULL;
    pthread_mutex_lock(&nccl->lock);
    for (weft__list *at = nccl->memory.next; at != &nccl->memory && !found; at = at->next)
        if (WEFT__LIST_ENTRY(at, weft__memory, link)->comm == comm)
            found = WEFT__LIST_ENTRY(at, weft__memory, link);
    pthread_mutex_unlock(&nccl->lock);
    return found;
}

void weft__memory_leave(weft__comm *comm)
{
    weft__nccl *nccl = comm->nccl;
    weft__memory *memory;
    pthread_mutex_lock(&nccl->windows);
    while ((memory = first_window_of(comm))) close_window(comm, memory);
    pthread_mutex_unlock(&nccl->windows);
}

bool weft__memory_has_window(weft__comm *comm)
{
    weft__nccl *nccl = comm->nccl;
    bool has;
    pthread_mutex_lock(&nccl->windows);
    has = first_window_of(comm) != NULL;
    pthread_mutex_unlock(&nccl->windows);
    return has;
}

/* The communicator whose window it is, referenced; NULL: none, or not any more. */
static weft__comm *window_owner(weft__memory *memory)
{
    weft__nccl *nccl = memory->nccl;
    weft__comm *comm;
    unsigned turns = 0;
    bool dying;
    do {
        pthread_mutex_lock(&nccl->windows);
        comm = memory->comm;
        dying = comm && !weft__comm_ref_living(comm);
        pthread_mutex_unlock(&nccl->windows);
        if (dying) weft__thread_pause(&turns); /* it takes its windows back itself */
    } while (dying);
    return comm;
}

/* ---- for the program's kernels ---- */

/* Under nccl->windows and nccl->lock. */
static const weft__memory *memory_around(const weft__nccl *nccl, const void *at)
{
    for (const weft__list *node = nccl->memory.next; node != &nccl->memory; node = node->next) {
        const weft__memory *memory = WEFT__LIST_ENTRY(node, const weft__memory, link);
        if ((uintptr_t)at - (uintptr_t)memory->at < memory->bytes) return memory;
    }
    return NULL;
}

weft_status weft__memory_find_window(weft__comm *comm, const void *at, void **window, size_t *offset)
{
    weft__nccl *nccl = comm->nccl;
    const weft__memory *memory;
    const weft__comm *of = NULL;
    pthread_mutex_lock(&nccl->windows);
    pthread_mutex_lock(&nccl->lock);
    memory = memory_around(nccl, at);
    if (memory) {
        of = memory->comm;
        *window = memory->window;
        *offset = (uintptr_t)at - (uintptr_t)memory->at;
    }
    pthread_mutex_unlock(&nccl->lock);
    pthread_mutex_unlock(&nccl->windows);
    if (!memory)
        return weft__nccl_fail(nccl, WEFT_ERR_ARGUMENT, "mem_window: %p is not in memory of weft_mem_alloc",
                               at);
    if (of == comm && *window) return WEFT_OK;
    if (!nccl->newer.window_register)
        return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED,
                               "mem_window: NCCL %d.%d has no windows; 2.27 and later do",
                               nccl->version / 10000, nccl->version / 100 % 100);
    return weft__nccl_fail(
        nccl, of && of != comm ? WEFT_ERR_ARGUMENT : WEFT_ERR_UNSUPPORTED,
        of && of != comm ? "mem_window: %p is in a window of another group than %s"
                         : "mem_window: %p is in no window: NCCL has made none, or its group has ended (%s)",
        at, comm->label);
}

/* As one who looks, so that an abort does not free what it needs meanwhile.  False: an abort has begun, or will. */
static bool peer_pointer(weft__comm *comm, void *window, size_t offset, int rank, void **there,
                         ncclResult_t *result)
{
    bool stays;
    pthread_mutex_lock(&comm->lock);
    stays = !weft__comm_doomed(comm) && !weft__comm_suspects(comm) && comm->handle;
    comm->lookers += stays;
    pthread_mutex_unlock(&comm->lock);
    if (!stays) return false;
    *result = comm->nccl->newer.peer_pointer(window, offset, rank, there);
    pthread_mutex_lock(&comm->lock);
    comm->lookers--;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    return true;
}

weft_status weft__memory_find_peer(weft__comm *comm, const void *at, int rank, void **there)
{
    weft__nccl *nccl = comm->nccl;
    void *window = NULL;
    size_t offset = 0;
    weft_status status = weft__memory_find_window(comm, at, &window, &offset);
    ncclResult_t result;
    *there = NULL;
    if (status != WEFT_OK) return status;
    if (!nccl->newer.peer_pointer)
        return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED,
                               "mem_peer: NCCL %d.%d does not tell the host what a peer's memory is; 2.29 "
                               "and later do, and kernels have "
                               "ncclGetPeerPointer(window, offset, rank)",
                               nccl->version / 10000, nccl->version / 100 % 100);
    if (!peer_pointer(comm, window, offset, rank, there, &result))
        return weft__nccl_fail(nccl, WEFT_ERR_BROKEN,
                               "mem_peer: communicator %s is suspected of an error, or stopped", comm->label);
    if (result != ncclSuccess)
        return weft__nccl_fail(nccl, WEFT_ERR_SYSTEM, "mem_peer: ncclGetPeerDevicePointer: %s",
                               ncclGetErrorString(result));
    if (*there) return WEFT_OK;
    return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED,
                           "mem_peer: this device cannot load from memory of rank %d of %s", rank,
                           comm->label);
}

/* ---- freeing ---- */

/* Between the caller of mem_free and the thread that does it. */
struct release {
    weft__errand errand;
    weft__memory *memory;
};

static void unlink_closed(weft__memory *memory, weft__comm *comm)
{
    weft__nccl *nccl = memory->nccl;
    pthread_mutex_lock(&nccl->windows);
    if (comm) close_window(comm, memory);
    pthread_mutex_lock(&nccl->lock);
    weft__list_remove(&memory->link);
    pthread_mutex_unlock(&nccl->lock);
    pthread_mutex_unlock(&nccl->windows);
}

static void free_memory(weft__memory *memory)
{
    weft__comm *comm = window_owner(memory);
    weft__turn turn;
    bool has_turn, ended = true;
    if (comm) weft__turn_ask(comm, &turn);
    has_turn = comm && weft__turn_take_sound(comm, &turn, WEFT__NCCL_NEVER);
    if (has_turn)
        weft__comm_inside(comm, "ncclCommWindowDeregister");
    else if (comm)
        weft__comm_outwait_abort(comm); /* which takes the window back, of which it knows until then */
    unlink_closed(memory, comm);
    if (has_turn) weft__turn_give(comm, &turn);
    if (comm && weft__comm_doomed(comm)) ended = weft__comm_outwait_abort(comm);
    if (comm) weft__comm_unref(comm);
    if (ended) give_back(memory); /* else what NCCL had begun may touch it */
    free(memory);
}

static void release(weft__errand *errand)
{
    free_memory(((struct release *)(void *)errand)->memory);
}

weft_status weft__memory_free(weft_backend *backend, void *ptr)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    weft__memory *memory = memory_find(nccl, ptr);
    struct release *task = memory ? malloc(sizeof *task) : NULL;
    weft_status status = WEFT_ERR_MEMORY;
    if (!memory)
        return weft__nccl_fail(nccl, WEFT_ERR_ARGUMENT, "mem_free: %p is not memory of weft_mem_alloc", ptr);
    if (task) {
        *task = (struct release){.errand = {.nccl = nccl, .run = release}, .memory = memory};
        status = weft__errand_await(&task->errand, weft__nccl_now(nccl) + FREE_WAIT_NS);
    }
    if (status != WEFT_ERR_TIMEOUT) free(task);
    if (status != WEFT_ERR_MEMORY) return WEFT_OK; /* what takes longer goes on */
    return weft__nccl_fail(nccl, status, "mem_free: no memory, or no thread, to free %p", ptr);
}

/* What was never freed; nobody else is left. */
void weft__memory_close(weft__nccl *nccl)
{
    WEFT__LIST_EACH(&nccl->memory, at)
    {
        weft__memory *memory = WEFT__LIST_ENTRY(at, weft__memory, link);
        weft__list_remove(&memory->link);
        give_back(memory);
        free(memory);
    }
}

/* ---- account ---- */

/* The next communicator after one in the list (NULL: the first), referenced. */
static weft__comm *next_comm(weft__nccl *nccl, weft__comm *after)
{
    weft__comm *found = NULL;
    pthread_mutex_lock(&nccl->lock);
    for (weft__list *at = after ? after->link.next : nccl->comms.next; at != &nccl->comms && !found;
         at = at->next) {
        weft__comm *comm = WEFT__LIST_ENTRY(at, weft__comm, link);
        if (weft__comm_ref_living(comm)) found = comm;
    }
    pthread_mutex_unlock(&nccl->lock);
    if (after) weft__comm_unref(after);
    return found;
}

static ncclResult_t memory_ask(weft__comm *comm, uint64_t *bytes)
{
    weft__turn turn;
    ncclResult_t result = ncclSuccess;
    uint64_t root = 0;
    *bytes = 0;
    weft__turn_ask(comm, &turn);
    if (!weft__turn_take_sound(comm, &turn, weft__nccl_now(comm->nccl) + ASK_WAIT_NS)) return ncclSuccess;
    if (comm->handle) {
        weft__comm_inside(comm, "ncclCommMemStats");
        result = comm->nccl->newer.memory(comm->handle, WEFT__NCCL_MEMORY_TOTAL, bytes);
        if (result == ncclSuccess && comm->root)
            result = comm->nccl->newer.memory(comm->root, WEFT__NCCL_MEMORY_TOTAL, &root);
        *bytes += root;
    }
    weft__turn_give(comm, &turn);
    return result;
}

weft_status weft__memory_held(weft_backend *backend, size_t *bytes)
{
    weft__nccl *nccl = weft__nccl_of(backend);
    ncclResult_t result = ncclSuccess;
    uint64_t total = 0, more;
    if (!nccl->newer.memory)
        return weft__nccl_fail(
            nccl, WEFT_ERR_UNSUPPORTED,
            "NCCL %d.%d does not tell what memory its communicators hold; 2.29 and later do",
            nccl->version / 10000, nccl->version / 100 % 100);
    for (weft__comm *comm = next_comm(nccl, NULL); comm; comm = next_comm(nccl, comm)) {
        if (result != ncclSuccess) continue;
        result = memory_ask(comm, &more);
        total += more;
    }
    if (result != ncclSuccess)
        return weft__nccl_fail(nccl, WEFT_ERR_SYSTEM, "ncclCommMemStats: NCCL says \"%s\"",
                               ncclGetErrorString(result));
    *bytes = (size_t)total;
    return WEFT_OK;
}
