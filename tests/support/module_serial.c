/* module_serial.c - a backend for ranks that are threads of one process, whose devices are the strictest
 * there may be: each runs one call after the other in the order in which they are given to it, and each call
 * occupies it until all ranks of its communicator run the same one.  So two ranks that issue two calls in
 * different order hang here, always.  Giving a communicator up is seen by the rank that does so alone.
 *
 * Any memory is its own.  It has messages, broadcast, and sums of int32.  Ranks that issue calls that do not
 * fit each other end the process. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/backend.h>

enum { RANKS_MAX = 16 };

typedef struct unit { /* what was given in one call */
    weft_backend_work *first;
    struct weft_backend_comm *comm;
    bool done;
    struct unit *next;
} unit;

typedef struct device {
    weft_backend backend; /* first */
    pthread_t thread;
    bool closing;
    unit *head;
    struct weft_backend_comm *comms;
} device;

typedef struct segment { /* a communicator as all its ranks see it */
    uint64_t id;
    int present, left; /* ranks that have joined, that have closed it since */
    struct weft_backend_comm *comms[RANKS_MAX];
    struct segment *next;
} segment;

struct weft_backend_comm {
    void *owner;
    int rank, size;
    device *device;
    bool names, told, doomed, dropped;
    segment *segment;
    struct weft_backend_comm *next;
};

static const weft_backend_runtime *_Atomic runtime;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* everything below, and all records */
static segment *segments;
static uint64_t ids;

_Noreturn static void die(const char *why, const weft_backend_work *a, const weft_backend_work *b)
{
    fprintf(stderr, "serial device: %s: kinds %d and %d, counts %zu and %zu\n", why, (int)a->op.kind,
            (int)b->op.kind, a->op.count, b->op.count);
    abort();
}

/* ---- running: under the lock ---- */

static void copy(const weft_backend_work *from, const weft_backend_work *to)
{
    if (from->op.kind != WEFT_BACKEND_SEND_RECV &&
        (from->op.kind != WEFT_BACKEND_ISEND || to->op.kind != WEFT_BACKEND_IRECV))
        die("two calls that do not fit", from, to);
    if (from->op.count != to->op.count || from->op.dtype != to->op.dtype)
        die("two messages of other lengths", from, to);
    memmove(to->op.out, from->op.in, from->op.count * weft_dtype_size(from->op.dtype));
}

static void exchange(const weft_backend_work *a, const weft_backend_work *b)
{
    size_t bytes = a->op.count * weft_dtype_size(a->op.dtype);
    void *kept = malloc(bytes);
    if (b->op.kind != WEFT_BACKEND_SEND_RECV || !kept) die("half an exchange", a, b);
    memcpy(kept, a->op.in, bytes);
    copy(b, a);
    memcpy(b->op.out, kept, bytes);
    free(kept);
}

static void run_pair(const weft_backend_work *a, const weft_backend_work *b)
{
    if (a->op.kind == WEFT_BACKEND_SEND_RECV)
        exchange(a, b);
    else if (a->op.kind == WEFT_BACKEND_ISEND)
        copy(a, b);
    else
        copy(b, a);
}

static void run_collective(weft_backend_work *const *works, int n)
{
    const weft_backend_operation *op = &works[0]->op;
    size_t bytes = op->count * weft_dtype_size(op->dtype);
    int32_t *sum = calloc(op->count + 1, sizeof *sum);
    if (!sum) die("no memory", works[0], works[0]);
    for (int i = 0; i < n; i++) {
        if (works[i]->op.kind != op->kind || works[i]->op.count != op->count)
            die("two collectives that differ", works[0], works[i]);
        if (op->kind == WEFT_BACKEND_BROADCAST && i != op->root)
            memcpy(works[i]->op.out, works[op->root]->op.in, bytes);
        for (size_t k = 0; op->kind == WEFT_BACKEND_ALL_REDUCE && k < op->count; k++)
            sum[k] += ((const int32_t *)works[i]->op.in)[k];
    }
    for (int i = 0; op->kind == WEFT_BACKEND_ALL_REDUCE && i < n; i++) memcpy(works[i]->op.out, sum, bytes);
    free(sum);
}

static void run_self(unit *u)
{
    weft_backend_work *w = u->first;
    if (w->op.kind == WEFT_BACKEND_SEND_RECV)
        memmove(w->op.out, w->op.in, w->op.count * weft_dtype_size(w->op.dtype));
    else
        copy(w, w->next);
    u->done = true;
}

/* That rank of the communicator has at the head of its queue what it does there with peer (-1: with all). */
static bool is_there(const weft_backend_comm *c, int peer)
{
    const unit *head = c && !c->doomed ? c->device->head : NULL;
    return head && head->comm == c && !head->done && head->first->peer == peer;
}

static bool all_there(const segment *b, int size)
{
    for (int i = 0; i < size; i++)
        if (!is_there(b->comms[i], -1)) return false;
    return true;
}

/* Messages, in which the other ranks of the communicator take no part. */
static void run_messages(unit *u)
{
    const weft_backend_comm *other = u->comm->segment->comms[u->first->peer];
    const weft_backend_work *a = u->first, *b;
    if (!is_there(other, u->comm->rank)) return;
    for (b = other->device->head->first; a && b; a = a->next, b = b->next) {
        if (a->peer != other->rank || b->peer != u->comm->rank) die("messages that do not fit", a, b);
        run_pair(a, b);
    }
    if (a || b) die("one more message than the other side has", u->first, other->device->head->first);
    u->done = other->device->head->done = true;
}

static void run(unit *u)
{
    const segment *b = u->comm->segment;
    weft_backend_work *works[RANKS_MAX] = {NULL};
    int size = u->comm->size;
    if (u->first->peer >= 0) {
        run_messages(u);
        return;
    }
    if (!all_there(b, size)) return;
    for (int i = 0; i < size; i++) works[i] = b->comms[i]->device->head->first;
    while (works[0]) {
        for (int i = 0; i < size; i++)
            if (!works[i] || works[i]->peer >= 0) die("calls that do not fit", works[0], works[0]);
        run_collective(works, size);
        for (int i = 0; i < size; i++) works[i] = works[i]->next;
    }
    for (int i = 0; i < size; i++) b->comms[i]->device->head->done = true;
}

/* ---- each device's thread ---- */

/* An answer that a communicator is owed; given without the lock. */
static bool answer(device *d)
{
    for (weft_backend_comm *c = d->comms; c; c = c->next) {
        uint64_t id;
        if (c->dropped || c->doomed) continue;
        if (c->names) {
            c->names = false;
            id = ++ids;
            pthread_mutex_unlock(&lock);
            runtime->named(c->owner, &id);
        } else if (c->segment && !c->told && c->segment->present == c->size) {
            c->told = true;
            pthread_mutex_unlock(&lock);
            runtime->joined(c->owner, WEFT_OK, NULL);
        } else {
            continue;
        }
        pthread_mutex_lock(&lock);
        return true;
    }
    return false;
}

static bool work(device *d)
{
    unit *u = d->head;
    weft_backend_work *w;
    weft_status status = WEFT_OK;
    if (!u) return false;
    if (!u->comm)
        run_self(u);
    else if (!u->done && !u->comm->doomed)
        run(u);
    if (!u->done && !(u->comm && u->comm->doomed)) return false;
    if (!u->done) status = WEFT_ERR_BROKEN;
    d->head = u->next;
    pthread_mutex_unlock(&lock);
    for (w = u->first; w;) {
        weft_backend_work *next = w->next;
        runtime->finish(w, status, NULL);
        w = next;
    }
    free(u);
    pthread_mutex_lock(&lock);
    return true;
}

static void *device_main(void *arg)
{
    device *d = arg;
    pthread_mutex_lock(&lock);
    while (!d->closing) {
        struct timespec t = {0, 20000};
        if (answer(d) || work(d)) continue;
        pthread_mutex_unlock(&lock);
        nanosleep(&t, NULL);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- the seam ---- */

static weft_status owns(weft_backend *backend, const void *pointer, bool *owned)
{
    (void)backend;
    (void)pointer;
    *owned = true;
    return WEFT_OK;
}

static weft_status check(weft_backend *backend, const weft_backend_operation *op)
{
    bool sums = op->kind == WEFT_BACKEND_ALL_REDUCE && op->reduction == WEFT_SUM && op->dtype == WEFT_INT32;
    (void)backend;
    if (sums || op->kind == WEFT_BACKEND_BROADCAST || op->kind == WEFT_BACKEND_ISEND ||
        op->kind == WEFT_BACKEND_IRECV || op->kind == WEFT_BACKEND_SEND_RECV)
        return WEFT_OK;
    return runtime->fail(WEFT_ERR_UNSUPPORTED,
                         "the serial device has messages, broadcast, and sums of int32");
}

static weft_backend_comm *open_comm(weft_backend *backend, void *owner, int rank, int size, const char *label,
                                    bool names)
{
    device *d = (device *)(void *)backend;
    weft_backend_comm *comm = calloc(1, sizeof *comm);
    (void)label;
    if (!comm || size > RANKS_MAX) {
        free(comm);
        runtime->fail(WEFT_ERR_MEMORY, "no memory for a communicator, or too many ranks");
        return NULL;
    }
    comm->owner = owner;
    comm->rank = rank;
    comm->size = size;
    comm->names = names;
    comm->device = d;
    pthread_mutex_lock(&lock);
    comm->next = d->comms;
    d->comms = comm;
    pthread_mutex_unlock(&lock);
    return comm;
}

static void join(weft_backend_comm *comm, const void *id)
{
    segment *b;
    pthread_mutex_lock(&lock);
    b = segments;
    while (b && memcmp(&b->id, id, sizeof b->id) != 0) b = b->next;
    if (!b) {
        b = calloc(1, sizeof *b);
        if (!b) abort();
        memcpy(&b->id, id, sizeof b->id);
        b->next = segments;
        segments = b;
    }
    b->comms[comm->rank] = comm;
    b->present++;
    comm->segment = b;
    pthread_mutex_unlock(&lock);
}

static void doom(weft_backend_comm *comm, const char *why)
{
    (void)why;
    pthread_mutex_lock(&lock);
    comm->doomed = true;
    pthread_mutex_unlock(&lock);
}

static void drop(weft_backend_comm *comm)
{
    pthread_mutex_lock(&lock);
    comm->dropped = comm->doomed = true;
    pthread_mutex_unlock(&lock);
}

static void start(weft_backend *backend, weft_backend_work *first)
{
    device *d = (device *)(void *)backend;
    unit *u = calloc(1, sizeof *u), **at = &d->head;
    if (!u) abort();
    u->first = first;
    u->comm = first->comm;
    for (weft_backend_work *w = first; w; w = w->next) runtime->issued(w);
    pthread_mutex_lock(&lock);
    while (*at) at = &(*at)->next;
    *at = u;
    pthread_mutex_unlock(&lock);
}

static int poll(weft_backend *backend)
{
    (void)backend;
    return 0;
}

static void leave(weft_backend_comm *comm)
{
    segment *b = comm->segment, **at = &segments;
    if (!b) return;
    b->comms[comm->rank] = NULL;
    if (++b->left < b->present) return;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    free(b);
}

static void close_comms(device *d)
{
    while (d->comms) {
        weft_backend_comm *c = d->comms;
        d->comms = c->next;
        leave(c);
        free(c);
    }
}

static void close(weft_backend *backend)
{
    device *d = (device *)(void *)backend;
    pthread_mutex_lock(&lock);
    d->closing = true;
    pthread_mutex_unlock(&lock);
    pthread_join(d->thread, NULL);
    pthread_mutex_lock(&lock);
    close_comms(d);
    pthread_mutex_unlock(&lock);
    free(d);
}

static const weft_backend slots = {.version = WEFT_BACKEND_VERSION,
                                   .name = "serial",
                                   .memory = WEFT_MEMORY_CUDA,
                                   .device = 0,
                                   .id_bytes = sizeof(uint64_t),
                                   .owns = owns,
                                   .check = check,
                                   .open = open_comm,
                                   .join = join,
                                   .doom = doom,
                                   .drop = drop,
                                   .start = start,
                                   .poll = poll,
                                   .close = close};

__attribute__((visibility("default"))) weft_backend *
weft_backend_open(const weft_backend_runtime *table, const weft_backend_place *place, const char **why);

weft_backend *weft_backend_open(const weft_backend_runtime *table, const weft_backend_place *place,
                                const char **why)
{
    device *d = table->version == WEFT_BACKEND_VERSION ? calloc(1, sizeof *d) : NULL;
    (void)place;
    *why = "no memory, or the library is of another version";
    if (!d) return NULL;
    runtime = table;
    d->backend = slots;
    if (pthread_create(&d->thread, NULL, device_main, d) != 0) {
        free(d);
        return NULL;
    }
    return &d->backend;
}
