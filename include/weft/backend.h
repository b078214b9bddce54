/* weft/backend.h - the seam for running whole operations on another kind of memory, or in another way.
 *
 * A backend is a module: a shared object libweft_NAME.so with one export, weft_backend_open.  It is handed one
 * table of what it may call, so it needs no symbol of the library, and works with libweft.a too.  This header
 * needs no other one than weft.h.  WEFT_BACKENDS=NAME loads a module from the folder of modules (PREFIX/lib/weft,
 * or WEFT_MODULE_DIR).  A context may have several, one for each kind of memory.
 *
 * What the runtime has seen to before a module is given a work: every rank that takes part has submitted it and
 * agrees what it is; the communicator that it runs on has been joined by all of them; and all of them are given
 * what they share in the same order, over all modules of a context but those that are `independent`.  (In program
 * order, "Order" in weft.h, the program promises that order, and nobody has agreed before: slots enter and issue.)  So a
 * module begins works as they come, at once, and in that order.  A message is shared by its two ranks alone, also on a
 * communicator of more: between the collectives there, others are given messages of their own, or nothing.
 *
 * Threads: each slot says whose thread calls it.  "The progress thread": the one of the context, or with any_thread
 * whoever waits, no two calls at once; it serves all modules of the context, so what blocks there holds up the others.  A slot that must not block
 * may be called with locks of the runtime held.
 *
 * Versions: WEFT_BACKEND_VERSION is raised whenever anything below changes.  A module that was made for another one
 * is not loaded, and says so. */
#ifndef WEFT_BACKEND_H
#define WEFT_BACKEND_H
#include <weft/weft.h>
#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_BACKEND_VERSION 25
#define WEFT_BACKEND_ID_MOST 8192 /* bytes of a communicator's id */

/* What a work is.  MEM_ALLOC is its second step alone: the memory is there. */
typedef enum weft_backend_kind {
    WEFT_BACKEND_BARRIER = 0, WEFT_BACKEND_BROADCAST = 1, WEFT_BACKEND_REDUCE = 2, WEFT_BACKEND_ALL_REDUCE = 3,
    WEFT_BACKEND_REDUCE_SCATTER = 4, WEFT_BACKEND_ALL_GATHER = 5, WEFT_BACKEND_GATHER = 6,
    WEFT_BACKEND_SCATTER = 7, WEFT_BACKEND_ALL_TO_ALL = 8, WEFT_BACKEND_ALL_GATHER_V = 9,
    WEFT_BACKEND_GATHER_V = 10, WEFT_BACKEND_SCATTER_V = 11, WEFT_BACKEND_REDUCE_SCATTER_V = 12,
    WEFT_BACKEND_ALL_TO_ALL_V = 13, WEFT_BACKEND_ISEND = 14, WEFT_BACKEND_IRECV = 15, WEFT_BACKEND_SEND_RECV = 16,
    WEFT_BACKEND_MEM_ALLOC = 17 /* make what mem_alloc gave (out, count bytes) known to the communicator's ranks */
} weft_backend_kind;
#define WEFT_BACKEND_KINDS 18

/* An operation as the caller passed it, checked by the rules of weft.h.  What its kind does not use is 0. */
typedef struct weft_backend_operation {
    weft_backend_kind kind;
    const char *name; /* "all_reduce" */
    weft_dtype dtype;
    weft_op reduction;
    weft_memory memory;
    int root;
    size_t count; /* as in weft.h: elements of a block; of uneven kinds this rank's; of a receive that has met its
                     message what was sent, which is what moves */
    const void *in; /* broadcast: both are its buffer */
    void *out;
    double scale; /* PREMUL_SUM; else 1 */
    bool uneven;  /* one of the kinds _V: then the blocks of the two buffers, by rank, in elements */
    const size_t *in_counts, *in_displs;   /* NULL: this rank has no such blocks at in */
    const size_t *out_counts, *out_displs; /* likewise at out */
} weft_backend_operation;

struct weft_nccl_options; /* weft/cuda.h */

typedef struct weft_backend weft_backend;
typedef struct weft_backend_comm weft_backend_comm; /* a communicator; the struct is the module's own */

/* What a module is given to carry out.  The runtime owns it, and keeps it and the buffers until the module has called
 * `finish`, even if the request has settled meanwhile because its time ran out or it was cancelled. */
typedef struct weft_backend_work {
    weft_backend_operation op;
    weft_backend_comm *comm; /* NULL: a message to itself, which needs none */
    int rank, size;          /* in the communicator */
    int peer;                /* messages: rank in the communicator, or -1 with comm NULL */
    void *marker;            /* what `mark` gave: the module's again from `start` on */
    struct weft_backend_work *next; /* to be begun together with this one; read it before finish */
    void *state;             /* the module's; NULL before start */
    void *hold;              /* the module's; NULL before `hold` */
    void *owner;             /* the runtime's */
} weft_backend_work;

/* What is known of replays of graphs that have recorded works on one communicator. */
typedef struct weft_backend_replays {
    uint64_t begun;       /* all of them; counted as each begins */
    int64_t since_ns;     /* one is under way, and has not moved since then, as far as was seen.  0: there is none to be told of */
    unsigned done, calls; /* of that one: how many calls are over, of how many */
    int64_t next_ns;      /* since when another one has not moved, of which nothing was told: of several for longest.  0: none */
} weft_backend_replays;

/* What a module may call: from any thread, but with no lock of its own held.  None of these blocks. */
typedef struct weft_backend_runtime {
    int version;
    /* The work is over and nothing touches its buffers any more.  Exactly once for each work, which is gone
     * afterwards.  status: WEFT_OK or a failure; sentence: NULL, or why. */
    void (*finish)(weft_backend_work *work, weft_status status, const char *sentence);
    /* The device has it: later work on a stream can be ordered after it (see `order`).  At most once, before finish. */
    void (*issued)(weft_backend_work *work);
    /* Issued: the device has not begun it, since the stream of its marker has not reached that; or, false, has reached it
     * since.  For sentences: a module that looks now and then tells of what it saw last. */
    void (*behind)(weft_backend_work *work, bool behind);
    /* Answers to `open` with names, and to `join`.  owner: what open was given.  id: id_bytes of the backend. */
    void (*named)(void *owner, const void *id);
    void (*joined)(void *owner, weft_status status, const char *sentence);
    /* Sets the calling thread's weft_last_error and returns status. */
    weft_status (*fail)(weft_status status, const char *sentence);
    void (*log)(int level, const char *line); /* level: 0 error .. 3 debug */
    int64_t (*now_ns)(void);                  /* CLOCK_MONOTONIC */
    /* Inside `start` or `poll`, told again and again: no call keeps this thread, it waits for other ranks, and comes back as soon as
     * that communicator is doomed.  Where neither this nor anything else is told for half a second, as something is given up,
     * the device counts as lost. */
    void (*waits)(void);
} weft_backend_runtime;

/* The host plane, for a module that moves its memory by way of the host's: groups, and operations in host memory, as
 * in weft.h.  From any thread but one that is inside a slot that the runtime calls with its locks held (those of
 * communicators); none of these blocks.  A module's own groups show in reports and dumps like any other. */
typedef struct weft_backend_host {
    /* A group of those ranks of the world; all of them ask for it, by the same label.  req settles when it is there;
     * *group is freed then, or later, whatever became of it.  Neither it nor what runs on it has a deadline. */
    weft_status (*group)(weft_context *ctx, const int *world, int size, const char *label, weft_group **group,
                         weft_request **req);
    void (*group_free)(weft_group *group);
    /* Begins op on buffers in host memory.  peer: of messages, which are of one tag.  What it does not take, memory
     * allocations, is ERR_UNSUPPORTED. */
    weft_status (*begin)(weft_group *group, const weft_backend_operation *op, int peer, weft_request **req);
    /* Whether an operation of that kind, type and reduction can be begun; a refusal sets weft_last_error. */
    weft_status (*check)(const weft_backend_operation *op);
    weft_status (*test)(weft_request *req); /* as weft_test; the next four likewise */
    void (*cancel)(weft_request *req);
    const char *(*message)(weft_request *req);
    void (*release)(weft_request *req);
    const char *(*last_error)(void);
    size_t (*dtype_bytes)(weft_dtype dtype);
} weft_backend_host;

/* What a module is told of the context that it works for. */
typedef struct weft_backend_place {
    weft_context *context;
    const weft_backend_host *host;
    int device;           /* weft_config.device; -1: for the module to choose, as by local_rank */
    int rank, local_rank; /* in the world; among those of this host */
    int world_size;
    int64_t grace_ns;     /* what is cancelled and inside a call is given this long before it is aborted */
} weft_backend_place;

/* What a module offers to one context: made by weft_backend_open, ended by `close`, read-only in between.  A slot
 * that may be NULL says so. */
struct weft_backend {
    int version;        /* WEFT_BACKEND_VERSION */
    const char *name;   /* that of the file: small letters, digits, _ */
    weft_memory memory; /* the kind of memory it moves: CUDA, OTHER; or HOST: collectives there, see `check` */
    int device;         /* in use; what weft_device tells, of one for CUDA.  -1: that means nothing here */
    size_t id_bytes;    /* of an id, 1 to WEFT_BACKEND_ID_MOST, on every rank the same */
    uint64_t address;   /* what this rank is where the module moves data, for `members` on the others */
    bool any_thread;    /* start, poll and split may be called by a caller that waits as well, still no two calls at
                           once: it spares the hand-over to the progress thread.  None blocks then */
    bool unstoppable;   /* what has begun never ends once one of its ranks is dead, and `doom` stops nothing: then a
                           request that has failed does not wait for it (WEFT_DRAIN_MS), and its buffers are held */

    bool independent;   /* HOST: what has begun on one communicator ends whatever has begun, or has not, on others: then
                           its ranks are given works on each in one order, but on different ones in any */
    bool lingers;       /* other ranks may need it to go on once its own works are finished (it owes an acknowledgement,
                           say): from its first communicator on, until the context ends, poll is called without works
                           as well, 1 ms after the last one and then more and more seldom, down to 50 times a second */

    /* ---- the caller's threads; none of these blocks ---- */

    /* *owned: does that pointer point to memory of its kind?  A failure, with a sentence (runtime->fail): it does, but to
     * memory that this rank's device cannot use; or that cannot be told, and the host cannot read there.  Not called, and
     * may be NULL, for HOST. */
    weft_status (*owns)(weft_backend *backend, const void *pointer, bool *owned);
    /* Can it carry out that operation?  ERR_UNSUPPORTED and a sentence (runtime->fail): no.
     * HOST: takes an operation by OK; what it does not take the library does itself.  It is asked for collectives
     * that move data, and all ranks must answer alike: from kind, dtype, reduction, root and, but for uneven kinds,
     * count, and nothing else. */
    weft_status (*check)(weft_backend *backend, const weft_backend_operation *op);
    /* Marks the place on the caller's stream (weft_call.stream) after which the work may begin; WEFT_NO_STREAM:
     * *marker is NULL.  NULL: it has no streams, and calls that name one are refused. */
    weft_status (*mark)(weft_backend *backend, void *stream, void **marker);
    /* Is what mark gave a place on a stream that is being captured into a graph, now and not only when it was marked?  Its
     * work, a collective in program order, is only recorded there, by enter and issue, and finished with that; start ends
     * what comes to it with ERR_STATE.  NULL: mark refuses such streams. */
    bool (*captures)(weft_backend *backend, const void *marker);
    /* The marker, which may be NULL, is not needed.  Any thread.  NULL: only together with mark. */
    void (*unmark)(weft_backend *backend, void *marker);
    /* Later work on stream waits for this work, which is issued; if it is over by now there is nothing to do.
     * NULL: only together with mark. */
    weft_status (*order)(weft_backend *backend, weft_backend_work *work, void *stream);

    /* Later work on stream waits for this work, which is not issued yet, and of which another thread may be about to give the
     * rest to start: like has its op, comm, rank, size and peer.  The stream goes on by itself once the work is done, or by
     * let_go.  ERR_UNSUPPORTED: it cannot be made to wait now, and does not; a sentence is not needed.  NULL: none can. */
    weft_status (*hold)(weft_backend *backend, weft_backend_work *work, const weft_backend_work *like, void *stream);
    /* The request of a work on which hold was called is about to settle, whether the work is given to start or not: streams
     * that wait for it go on.  Once.  With locks of the runtime held.  NULL: only together with hold. */
    void (*let_go)(weft_backend *backend, weft_backend_work *work);
    /* Has its stream come to the place that mark gave?  With locks of the runtime held.  NULL: that is not known. */
    bool (*reached)(weft_backend *backend, const void *marker);

    /* ---- communicators: any thread; none of these blocks: each begins, on a thread of the module ---- */

    /* One to be, of rank among size.  names: make its id, and tell that by runtime->named.  label is for people, and
     * the caller's.  Gives the communicator to the runtime, until drop.  NULL, with a sentence: no memory. */
    weft_backend_comm *(*open)(weft_backend *backend, void *owner, int rank, int size, const char *label, bool names);
    /* The address of each of its ranks, in their order, which the ranks have told each other when they joined the job.
     * After open, before join, from its thread; the array is gone afterwards.  NULL: the module has no use for it. */
    void (*members)(weft_backend_comm *comm, const uint64_t *addresses);
    /* Its group is in program order: works on it are begun by callers, by enter and issue.  After open, before join or
     * split, from its thread; all of its ranks are told.  NULL, together with enter and issue: works of such groups
     * are agreed on, and come in the agreed order, as all others. */
    void (*by_callers)(weft_backend_comm *comm);
    /* The world is in program order, as all ranks have agreed: what they share can be made for it.  Before each open, from its
     * thread.  NULL: that makes no difference. */
    void (*all_by_callers)(weft_backend *backend);
    /* Can it make communicators with these (weft/cuda.h)?  ERR_UNSUPPORTED and a sentence (runtime->fail): no. */
    weft_status (*may_configure)(weft_backend *backend, const struct weft_nccl_options *options);
    /* Make it with these, which it has taken, and which are gone afterwards.  After open, before join or split, from its
     * thread; all of its ranks have the same, but for the stream's priority.  NULL, together with may_configure: it has no
     * such options. */
    void (*configure)(weft_backend_comm *comm, const struct weft_nccl_options *options);
    /* Join the others, which do so with the same id; runtime->joined follows. */
    void (*join)(weft_backend_comm *comm, const void *id);
    /* Make comm, which is open, of those ranks of parent that pass the same color, in the order of key.  parent has
     * been joined; all of its ranks call this, in the order of the works on it.  runtime->joined of comm follows.
     * comm NULL, color < 0: takes part without getting one.  The progress thread.  NULL: what is split is joined
     * by an id like any other. */
    void (*split)(weft_backend_comm *parent, weft_backend_comm *comm, int color, int key);
    /* It is not to be used any more, and what is under way on it will not end by itself: stop it.  Works on it are
     * finished, with ERR_BROKEN if nothing better is known, once nothing touches their buffers.  May be called
     * more than once. */
    void (*doom)(weft_backend_comm *comm, const char *why);
    /* What it is underneath, for a program that uses it itself: *handle, and the stream that works are issued on.  It has
     * been joined.  A failure, with a sentence (runtime->fail): works are on it, or it is doomed.  Does not block.
     * NULL: it is nothing that a program could use; else mem_register, mem_window and mem_peer are there too. */
    weft_status (*lend)(weft_backend_comm *comm, void **handle, void **stream);
    /* Given back; no work is on it.  owner is not told anything any more, but for an answer that is under way. */
    void (*drop)(weft_backend_comm *comm);

    /* ---- program order: the caller's thread, in the call that submits ---- */

    /* A place for this work and those behind ->next among the works on their communicator, whose marks start no thread
     * and whose calls only launch: issue follows, from this thread.  Must not block.  False: give it to start, as where
     * it is the first of its kind, or the device's queue is full. */
    bool (*enter)(weft_backend *backend, weft_backend_work *first);
    /* Begin what has entered.  May block as a launch does, and where one hangs, until doom.  May finish it. */
    void (*issue)(weft_backend *backend, weft_backend_work *first);
    /* What is known of replays: any thread, with locks of the runtime's held; does not block.  One that is under way has been
     * seen to stand still from the first call that finds it so.  One that has not moved since until_ns, or for longer, is told,
     * each time that it stands once.  NULL: only where captures is. */
    void (*replays)(weft_backend_comm *comm, int64_t until_ns, weft_backend_replays *told);

    /* ---- the progress thread; these may block, for short ---- */

    /* Begin this work and those behind ->next, which are on one communicator.  May finish them. */
    void (*start)(weft_backend *backend, weft_backend_work *first);
    /* Look after what has been started.  Returns how much was done; called as long as works are not finished, but only now
     * and then once the requests of all of them have been given up (buffers_held), or all are finished and it `lingers`. */
    int (*poll)(weft_backend *backend);

    /* ---- memory: the caller's threads; these may block.  NULL: none is given ---- */

    weft_status (*mem_alloc)(weft_backend *backend, size_t bytes, void **ptr); /* zeroed */
    /* Can it be made known to a communicator's ranks, of which all have such memory?  NULL: always. */
    bool (*mem_is_shareable)(weft_backend *backend, const void *ptr);
    weft_status (*mem_free)(weft_backend *backend, void *ptr);
    weft_status (*memory_held)(weft_backend *backend, size_t *bytes); /* by its communicators; NULL: not known */
    /* What the program has allocated is known to a communicator that has been joined, until mem_deregister, or until it
     * ends or is stopped; all of its ranks say so of theirs.  No work is on it. */
    weft_status (*mem_register)(weft_backend_comm *comm, void *ptr, size_t bytes);
    weft_status (*mem_deregister)(weft_backend_comm *comm, void *ptr); /* NULL: only together with mem_register */
    /* The window that at lies in, memory of mem_alloc that is known to comm's ranks, and where there.  NULL: none is. */
    weft_status (*mem_window)(weft_backend_comm *comm, const void *at, void **window, size_t *offset);
    /* Where a rank's part of it lies in this rank's addresses. */
    weft_status (*mem_peer)(weft_backend_comm *comm, const void *at, int rank, void **there);

    /* What it runs on, for people: "CUDA 13.0, NCCL 2.28.9, device 0: NVIDIA H100".  Stays valid.  May be NULL. */
    const char *(*describe)(weft_backend *backend);
    /* What its communicators send from host to host beside the host plane may be read, or changed, on its way: a sentence that says
     * so, which is logged once at *level where the job's own connections are encrypted.  NULL, or it gives NULL: nothing may. */
    const char *(*exposes)(weft_backend *backend, int *level);
    /* Every communicator is dropped, and what the module has of the host plane goes next, by itself: it makes no call
     * of weft_backend_host any more once this returns.  May block a bounded time.  NULL: it has nothing there. */
    void (*leave_host)(weft_backend *backend);
    /* A rank of the world has died: what all ranks end together would wait for it for ever.  Comes right before close.
     * NULL: nothing is ended together. */
    void (*abandon)(weft_backend *backend);
    /* No work is left, every communicator is dropped, the progress thread is gone.  Its threads have ended when this
     * returns.  May block a bounded time. */
    void (*close)(weft_backend *backend);
};

/* The one export of a module.  NULL and *why: it cannot run here ("no CUDA driver"), or runtime->version is not that
 * of its header.  place NULL: it is only asked whether it can run, and what on (describe); of the table it then has
 * nothing but the version.  Contexts of one process may be opened at the same time. */
typedef weft_backend *weft_backend_open_fn(const weft_backend_runtime *runtime, const weft_backend_place *place,
                                           const char **why);
#define WEFT_BACKEND_OPEN "weft_backend_open"

#ifdef __cplusplus
}
#endif
#endif
