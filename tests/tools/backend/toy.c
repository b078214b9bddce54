/* toy.c - see toy.h.
 *
 * A communicator has a thread, from open to drop: it names the communicator, joins the others, and then carries
 * works out in the order in which they come.  Whatever waits there looks whether it is doomed.
 * Fails: joining, by runtime->joined; a work that is under way when its communicator is doomed, by ERR_BROKEN. */
#include "toy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef WEFT_TOY_HOST
#define NAME   "toyhost"
#define MEMORY WEFT_MEMORY_HOST
#else
#define NAME   "toy"
#define MEMORY WEFT_MEMORY_OTHER
#endif

__attribute__((visibility("default"))) weft_backend_open_fn weft_backend_open;

static toy *toy_of(weft_backend *backend)
{
    return (toy *)(void *)backend;
}

static void finish_all(const toy *t, weft_backend_work *work, weft_status status)
{
    while (work) {
        weft_backend_work *next = work->next;
        t->runtime->finish(work, status, NULL);
        work = next;
    }
}

/* ---- the thread of a communicator ---- */

static size_t segment_bytes(const weft_backend_comm *comm)
{
    return sizeof(toy_segment) + (size_t)comm->size * sizeof(toy_rank) + 64;
}

/* An id is where the segment can be opened, and a pattern to its end, so that one that was cut off is seen. */
static void write_id(char id[TOY_ID_BYTES], int fd)
{
    int n = snprintf(id, TOY_ID_BYTES, "/proc/%ld/fd/%d", (long)getpid(), fd) + 1;
    for (int i = n; i < TOY_ID_BYTES; i++) id[i] = (char)(i * 7 + n);
}

static bool id_is_whole(const char id[TOY_ID_BYTES])
{
    int n = (int)strnlen(id, 64) + 1;
    for (int i = n; i < TOY_ID_BYTES; i++)
        if (id[i] != (char)(i * 7 + n)) return false;
    return true;
}

static const char *name_it(weft_backend_comm *comm)
{
    char id[TOY_ID_BYTES];
    comm->fd = memfd_create("weft-toy", MFD_CLOEXEC);
    if (comm->fd < 0 || ftruncate(comm->fd, (off_t)segment_bytes(comm))) return "no memory for a segment";
    write_id(id, comm->fd);
    comm->backend->runtime->named(comm->owner, id);
    return NULL;
}

static const char *map(weft_backend_comm *comm)
{
    int fd;
    void *at;
    if (!id_is_whole(comm->id)) return "the id is not what was told";
    fd = open(comm->id, O_RDWR | O_CLOEXEC);
    if (fd < 0) return "the segment of the first rank cannot be opened";
    at = mmap(NULL, segment_bytes(comm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return "the segment of the first rank cannot be mapped";
    comm->segment = at;
    atomic_fetch_add(&comm->segment->present, 1);
    return NULL;
}

/* Until it is to join; false: it never will. */
static bool await_join(weft_backend_comm *comm)
{
    toy *t = comm->backend;
    bool joins;
    pthread_mutex_lock(&t->lock);
    while (!comm->joins && !comm->dropped && !atomic_load(&comm->doomed))
        pthread_cond_wait(&t->changed, &t->lock);
    joins = comm->joins;
    pthread_mutex_unlock(&t->lock);
    return joins;
}

static void tell_joined(weft_backend_comm *comm, weft_status status, const char *why)
{
    toy *t = comm->backend;
    bool dropped;
    pthread_mutex_lock(&t->lock);
    dropped = comm->dropped;
    pthread_mutex_unlock(&t->lock);
    if (!dropped) t->runtime->joined(comm->owner, status, why);
}

static bool join_others(weft_backend_comm *comm)
{
    const char *why = comm->names ? name_it(comm) : NULL;
    int tries = 0;
    if (!why && !await_join(comm)) return false;
    if (!why) why = map(comm);
    while (!why && atomic_load(&comm->segment->present) < comm->size)
        if (!toy_wait(comm, &tries)) why = "it was stopped";
    tell_joined(comm, why ? WEFT_ERR_SYSTEM : WEFT_OK, why);
    return !why;
}

/* The next to be run; NULL: it is dropped. */
static weft_backend_work *next_work(weft_backend_comm *comm)
{
    toy *t = comm->backend;
    weft_backend_work *work;
    pthread_mutex_lock(&t->lock);
    while (!comm->first && !comm->dropped) pthread_cond_wait(&t->changed, &t->lock);
    work = comm->first;
    if (work) comm->first = work->state;
    pthread_mutex_unlock(&t->lock);
    return work;
}

static void run_all(weft_backend_comm *comm, bool joined)
{
    weft_backend_work *work;
    while ((work = next_work(comm))) {
        while (work) { /* those to be begun together */
            weft_backend_work *next = work->next;
            bool done = joined && !atomic_load(&comm->doomed);
            if (done) {
                comm->backend->runtime->issued(work);
                done = toy_run(comm, work);
            }
            comm->backend->runtime->finish(work, done ? WEFT_OK : WEFT_ERR_BROKEN, NULL);
            work = next;
        }
    }
}

static void *comm_main(void *arg)
{
    weft_backend_comm *comm = arg;
    toy *t = comm->backend;
    run_all(comm, join_others(comm));
    if (comm->segment) munmap(comm->segment, segment_bytes(comm));
    if (comm->fd >= 0) close(comm->fd);
    pthread_mutex_lock(&t->lock);
    comm->ended = true;
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* Those whose thread has ended; all: waits for it. */
static void reap(toy *t, bool all)
{
    weft_backend_comm *comm, **at = &t->comms;
    pthread_mutex_lock(&t->lock);
    while ((comm = *at)) {
        if (!comm->ended && !all) {
            at = &comm->next;
            continue;
        }
        *at = comm->next;
        pthread_mutex_unlock(&t->lock);
        pthread_join(comm->thread, NULL);
        free(comm);
        pthread_mutex_lock(&t->lock);
        at = &t->comms;
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- the seam ---- */

static weft_status owns(weft_backend *backend, const void *pointer, bool *owned)
{
    (void)backend;
    *owned = toy_owns(pointer);
    return WEFT_OK;
}

static weft_status check(weft_backend *backend, const weft_backend_operation *op)
{
    const char *why;
    return toy_supports(op, &why) ? WEFT_OK : toy_of(backend)->runtime->fail(WEFT_ERR_UNSUPPORTED, why);
}

static weft_backend_comm *open_comm(weft_backend *backend, void *owner, int rank, int size, const char *label,
                                    bool names)
{
    toy *t = toy_of(backend);
    weft_backend_comm *comm = size <= TOY_RANKS ? calloc(1, sizeof *comm) : NULL;
    bool started;
    (void)label;
    reap(t, false);
    if (comm) {
        comm->backend = t;
        comm->owner = owner;
        comm->rank = rank;
        comm->size = size;
        comm->names = names;
        comm->fd = -1;
        pthread_mutex_lock(&t->lock);
        started = pthread_create(&comm->thread, NULL, comm_main, comm) == 0;
        if (started) {
            comm->next = t->comms;
            t->comms = comm;
        }
        pthread_mutex_unlock(&t->lock);
        if (started) return comm;
    }
    free(comm);
    t->runtime->fail(WEFT_ERR_MEMORY, "no memory for a communicator of the toy, or more than 64 ranks");
    return NULL;
}

static void join(weft_backend_comm *comm, const void *id)
{
    toy *t = comm->backend;
    pthread_mutex_lock(&t->lock);
    memcpy(comm->id, id, sizeof comm->id);
    comm->joins = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void doom(weft_backend_comm *comm, const char *why)
{
    toy *t = comm->backend;
    (void)why;
    atomic_store(&comm->doomed, true);
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void drop(weft_backend_comm *comm)
{
    toy *t = comm->backend;
    atomic_store(&comm->doomed, true);
    pthread_mutex_lock(&t->lock);
    comm->dropped = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* A message to itself: its send and its receive, or both in one. */
static void to_itself(const toy *t, weft_backend_work *first)
{
    const weft_backend_operation *from = &first->op, *to = first->next ? &first->next->op : from;
    if (from->count) memmove(to->out, from->in, from->count * toy_element(from->dtype));
    finish_all(t, first, WEFT_OK);
}

static void start(weft_backend *backend, weft_backend_work *first)
{
    toy *t = toy_of(backend);
    weft_backend_comm *comm = first->comm;
    if (!comm) {
        to_itself(t, first);
        return;
    }
    first->state = NULL;
    pthread_mutex_lock(&t->lock);
    if (comm->first)
        comm->last->state = first;
    else
        comm->first = first;
    comm->last = first;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static int poll(weft_backend *backend)
{
    (void)backend; /* threads see to it */
    return 0;
}

static weft_status mem_alloc(weft_backend *backend, size_t bytes, void **ptr)
{
    *ptr = toy_take(bytes);
    return *ptr ? WEFT_OK : toy_of(backend)->runtime->fail(WEFT_ERR_MEMORY, "the toy has no memory left");
}

static weft_status mem_free(weft_backend *backend, void *ptr)
{
    if (toy_give(ptr)) return WEFT_OK;
    return toy_of(backend)->runtime->fail(WEFT_ERR_ARGUMENT, "that is no memory of the toy's");
}

static const char *describe(weft_backend *backend)
{
    (void)backend;
    return "a toy, built against an installed Weft";
}

static void close_backend(weft_backend *backend)
{
    toy *t = toy_of(backend);
    reap(t, true);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

weft_backend *weft_backend_open(const weft_backend_runtime *runtime, const weft_backend_place *place,
                                const char **why)
{
    toy *t = runtime->version == WEFT_BACKEND_VERSION ? calloc(1, sizeof *t) : NULL;
    (void)place;
    if (!t) {
        *why = "no memory, or the library is of another version";
        return NULL;
    }
    t->runtime = runtime;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->seam = (weft_backend){.version = WEFT_BACKEND_VERSION,
                             .name = NAME,
                             .memory = MEMORY,
                             .device = -1,
                             .independent = MEMORY == WEFT_MEMORY_HOST, /* a thread each */
                             .id_bytes = TOY_ID_BYTES,
                             .owns = owns,
                             .check = check,
                             .open = open_comm,
                             .join = join,
                             .doom = doom,
                             .drop = drop,
                             .start = start,
                             .poll = poll,
                             .mem_alloc = mem_alloc,
                             .mem_free = mem_free,
                             .describe = describe,
                             .close = close_backend};
    return &t->seam;
}
