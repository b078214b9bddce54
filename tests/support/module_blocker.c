/* module_blocker.c - a backend whose start blocks for 2 s (BLOCKER_MS says otherwise), or until blocker_opens: the seam's
 * worst guest; blocker_blocked counts the threads that it blocks.  It serves WEFT_MEMORY_CUDA and moves nothing: what is
 * tested is that everything else goes on.  With BLOCKER_KEEPS
 * set start returns, and finishes what it was given once that is not set any more: what a dead rank never ends.  With
 * BLOCKER_ANY set a caller that waits may call it too; two threads in it at a time then end the process, blocker_begun_by
 * says by whom the last work was begun, and blocker_blocks whom alone it blocks, or 0: everybody.  blocker_held counts what
 * it keeps, until blocker_lets_go; and blocker_polls how often blocker_watched, a thread, has polled it.  With BLOCKER_WAITS set
 * it says all the while that it waits for other ranks. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <weft/backend.h>

static const weft_backend_runtime *_Atomic runtime; /* contexts of one process share it */

static weft_status owns(weft_backend *backend, const void *pointer, bool *owned)
{
    (void)backend;
    (void)pointer;
    *owned = false; /* only what the caller says to be device memory */
    return WEFT_OK;
}

static weft_status check(weft_backend *backend, const weft_backend_operation *op)
{
    (void)backend;
    (void)op;
    return WEFT_OK;
}

/* Its communicators are nothing but their owners, and are there at once. */
struct weft_backend_comm {
    void *owner;
    _Atomic int holders; /* the runtime, and answers under way */
};

static void let_go(weft_backend_comm *comm)
{
    if (--comm->holders == 0) free(comm);
}

static void *answer_named(void *comm)
{
    const unsigned char id = 0;
    runtime->named(((weft_backend_comm *)comm)->owner, &id);
    let_go(comm);
    return NULL;
}

static void *answer_joined(void *comm)
{
    runtime->joined(((weft_backend_comm *)comm)->owner, WEFT_OK, NULL);
    let_go(comm);
    return NULL;
}

static void answer(void *(*with)(void *), weft_backend_comm *comm)
{
    pthread_t thread;
    comm->holders++;
    if (pthread_create(&thread, NULL, with, comm) == 0)
        pthread_detach(thread);
    else
        comm->holders--; /* the runtime still has it */
}

static weft_backend_comm *open_comm(weft_backend *backend, void *owner, int rank, int size, const char *label,
                                    bool names)
{
    weft_backend_comm *comm = calloc(1, sizeof *comm);
    (void)backend;
    (void)rank;
    (void)size;
    (void)label;
    if (!comm) return NULL;
    comm->owner = owner;
    comm->holders = 1;
    if (names) answer(answer_named, comm);
    return comm;
}

static void join(weft_backend_comm *comm, const void *id)
{
    (void)id;
    answer(answer_joined, comm);
}

static void doom(weft_backend_comm *comm, const char *why)
{
    /* What sleeps cannot be called back: it finishes when start is through. */
    (void)comm;
    (void)why;
}

static void drop(weft_backend_comm *comm)
{
    let_go(comm);
}

static weft_backend_work *kept; /* the progress thread's */

__attribute__((visibility("default"))) _Atomic int blocker_begun_by, blocker_blocks, blocker_held,
    blocker_lets_go, blocker_watched, blocker_polls, blocker_looks, blocker_blocked, blocker_opens;
static atomic_flag inside = ATOMIC_FLAG_INIT;

static void enter(void)
{
    if (getenv("BLOCKER_ANY") && atomic_flag_test_and_set(&inside)) abort();
}

static void leave(void)
{
    atomic_flag_clear(&inside);
}

static void finish_all(weft_backend_work *first)
{
    while (first) {
        weft_backend_work *next = first->next;
        runtime->finish(first, WEFT_OK, NULL);
        first = next;
    }
}

static bool keeps(void)
{
    return getenv("BLOCKER_KEEPS") && !atomic_load(&blocker_lets_go);
}

static void keep(weft_backend_work *first)
{
    weft_backend_work *last = first;
    for (atomic_fetch_add(&blocker_held, 1); last->next; last = last->next)
        atomic_fetch_add(&blocker_held, 1);
    last->next = kept;
    kept = first;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void block(void)
{
    const char *given = getenv("BLOCKER_MS");
    const struct timespec pause = {.tv_nsec = 1000000};
    const long end_ms = now_ms() + (given ? atol(given) : 2000);
    atomic_fetch_add(&blocker_blocked, 1);
    while (!atomic_load(&blocker_opens) && now_ms() < end_ms) {
        nanosleep(&pause, NULL);
        if (getenv("BLOCKER_WAITS")) runtime->waits();
    }
    atomic_fetch_sub(&blocker_blocked, 1);
}

static void start(weft_backend *backend, weft_backend_work *first)
{
    (void)backend;
    if (keeps()) {
        keep(first);
        return;
    }
    enter();
    int blocks = atomic_load(&blocker_blocks), me = (int)gettid();
    atomic_store(&blocker_begun_by, me);
    if (!blocks || blocks == me) block();
    finish_all(first);
    leave();
}

static int poll(weft_backend *backend)
{
    weft_backend_work *first = kept;
    int watched = atomic_load(&blocker_watched);
    (void)backend;
    atomic_fetch_add(&blocker_looks, 1);
    if (watched && watched == (int)gettid()) atomic_fetch_add(&blocker_polls, 1);
    if (keeps()) return 0;
    enter();
    kept = NULL;
    finish_all(first);
    atomic_store(&blocker_held, 0);
    leave();
    return first ? 1 : 0;
}

static void close_backend(weft_backend *backend)
{
    (void)backend;
}

static weft_backend blocker = {.version = WEFT_BACKEND_VERSION,
                               .name = "blocker",
                               .memory = WEFT_MEMORY_CUDA,
                               .device = 0,
                               .id_bytes = 1,
                               .owns = owns,
                               .check = check,
                               .open = open_comm,
                               .join = join,
                               .doom = doom,
                               .drop = drop,
                               .start = start,
                               .poll = poll,
                               .close = close_backend};

__attribute__((visibility("default"))) weft_backend *
weft_backend_open(const weft_backend_runtime *table, const weft_backend_place *place, const char **why);

weft_backend *weft_backend_open(const weft_backend_runtime *table, const weft_backend_place *place,
                                const char **why)
{
    (void)place;
    if (table->version != WEFT_BACKEND_VERSION) {
        *why = "the library is of another version";
        return NULL;
    }
    runtime = table;
    blocker.any_thread = getenv("BLOCKER_ANY") != NULL;
    blocker.lingers = getenv("BLOCKER_LINGERS") != NULL;
    blocker.unstoppable = getenv("BLOCKER_KEEPS") != NULL;
    return &blocker;
}
