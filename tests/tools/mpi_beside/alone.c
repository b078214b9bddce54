/* alone.c - a program that does not call MPI, over an MPI that gives no more than the level of threads in the first
 * argument: serialized, where the module works and no two threads are inside MPI at a time, or funneled, single, where
 * it cannot be had.  The functions of MPI that the module calls are found here first, and count who is inside, and what
 * is made and given back.  Arguments: LEVEL [GROUPS, as many for each of the threads]; or left: one of MPI's requests does
 * not end while Weft's is waited for; or failing: MPI_Test fails once, on one rank. */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

enum { THREADS = 3, ROUNDS = 10 };

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (condition) break;                                                                   \
        fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, weft_last_error()); \
        exit(1);                                                                                \
    } while (0)

static int given = MPI_THREAD_SERIALIZED;
static _Atomic int inside;
static _Atomic long calls, communicators, requests, own; /* own: the module's, of no communication */
static _Atomic bool holds; /* the sum that is begun next does not end until this is not set any more */
static _Atomic bool fails; /* the next MPI_Test of a sum does, which ends that */
static MPI_Request held = MPI_REQUEST_NULL;
static MPI_Request endless = MPI_REQUEST_NULL;

/* ---- MPI, as the module sees it ---- */

static void enter(const char *call)
{
    if (atomic_fetch_add(&inside, 1)) {
        fprintf(stderr, "%s: two threads are inside MPI\n", call);
        _Exit(1);
    }
    atomic_fetch_add(&calls, 1);
}

static int leave(int error)
{
    atomic_fetch_sub(&inside, 1);
    return error;
}

#define SHOWN __attribute__((visibility("default")))
/* A call inside of MPI to a function of MPI's own name would count twice: their inner names are called. */
#define GUARDED(name, parameters, arguments) \
    SHOWN int MPI_##name parameters          \
    {                                        \
        enter("MPI_" #name);                 \
        return leave(PMPI_##name arguments); \
    }

SHOWN int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level)
{
    enter("MPI_Init_thread");
    return leave(PMPI_Init_thread(argc, argv, wanted < given ? wanted : given, level));
}

SHOWN int MPI_Query_thread(int *level)
{
    int most = 0, error = PMPI_Query_thread(&most);
    *level = most < given ? most : given; /* some give more than what was asked for */
    return error;
}

/* Guarded, and counted: what makes or gives back one of a kind. */
#define COUNTED(name, kind, by, parameters, arguments) \
    SHOWN int MPI_##name parameters                    \
    {                                                  \
        enter("MPI_" #name);                           \
        atomic_fetch_add(&(kind), by);                 \
        return leave(PMPI_##name arguments);           \
    }

SHOWN int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    bool there = *request != MPI_REQUEST_NULL && *request != endless;
    int error;
    enter("MPI_Test");
    if (atomic_load(&holds) && there && *request == held) {
        *done = 0;
        return leave(MPI_SUCCESS);
    }
    if (there && atomic_exchange(&fails, false)) { /* the other ranks' end well */
        PMPI_Wait(request, status);
        atomic_fetch_sub(&requests, 1);
        return leave(MPI_ERR_OTHER);
    }
    error = PMPI_Test(request, done, status);
    if (there && *done) atomic_fetch_sub(&requests, 1);
    return leave(error);
}

GUARDED(Finalize, (void), ())
GUARDED(Cancel, (MPI_Request * request), (request))
SHOWN int MPI_Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *freed,
                             MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *request)
{
    int error;
    enter("MPI_Grequest_start");
    atomic_fetch_add(&own, 1);
    error = PMPI_Grequest_start(query, freed, cancel, state, request);
    endless = *request;
    return leave(error);
}

GUARDED(Grequest_complete, (MPI_Request request), (request))
SHOWN int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    enter("MPI_Wait");
    atomic_fetch_sub(*request == endless ? &own : &requests, 1);
    return leave(PMPI_Wait(request, status));
}
COUNTED(Request_free, requests, -1, (MPI_Request * request), (request))
COUNTED(Isend, requests, 1,
        (const void *buf, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request),
        (buf, n, type, to, tag, comm, request))
COUNTED(Irecv, requests, 1,
        (void *buf, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request),
        (buf, n, type, from, tag, comm, request))
GUARDED(Comm_rank, (MPI_Comm comm, int *rank), (comm, rank))
GUARDED(Comm_size, (MPI_Comm comm, int *size), (comm, size))
GUARDED(Comm_get_attr, (MPI_Comm comm, int key, void *value, int *there), (comm, key, value, there))
GUARDED(Comm_group, (MPI_Comm comm, MPI_Group *group), (comm, group))
COUNTED(Comm_create_group, communicators, 1, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made),
        (comm, group, tag, made))
GUARDED(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler))
COUNTED(Comm_free, communicators, -1, (MPI_Comm * comm), (comm))
GUARDED(Group_incl, (MPI_Group group, int n, const int *ranks, MPI_Group *made), (group, n, ranks, made))
GUARDED(Group_free, (MPI_Group * group), (group))
GUARDED(Op_create, (MPI_User_function * function, int commutes, MPI_Op *op), (function, commutes, op))
GUARDED(Op_free, (MPI_Op * op), (op))
GUARDED(Error_string, (int error, char *text, int *length), (error, text, length))
SHOWN int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                         MPI_Request *request)
{
    int error;
    enter("MPI_Iallreduce");
    atomic_fetch_add(&requests, 1);
    error = PMPI_Iallreduce(in, out, n, type, op, comm, request);
    if (atomic_load(&holds) && held == MPI_REQUEST_NULL) held = *request;
    return leave(error);
}
COUNTED(Ibcast, requests, 1,
        (void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request),
        (buf, n, type, root, comm, request))

/* ---- the program ---- */

static weft_context *ctx;
static int groups = 5;

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

static void use_group(weft_group *group)
{
    int rank = weft_group_rank(group), size = weft_group_size(group);
    for (int i = 0; i < ROUNDS; i++) {
        weft_request *req = NULL;
        weft_request_info info = {0};
        int32_t in = i + rank, out = 0, sent = rank ? 0 : i;
        CHECK(weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req) == WEFT_OK);
        CHECK(weft_wait(req, 60000) == WEFT_OK && out == size * i + size * (size - 1) / 2);
        weft_request_get_info(req, &info);
        CHECK(!strcmp(info.algorithm, "mpi"));
        weft_release(req);
        CHECK(weft_broadcast(group, &sent, 1, WEFT_INT32, 0, NULL, NULL) == WEFT_OK && sent == i);
    }
}

/* Groups of its own, made and used while the other threads do the same. */
static void *make_groups(void *arg)
{
    weft_group *world = weft_world(ctx);
    int size = weft_group_size(world), members[64];
    char label[16];
    weft_call call = {.label = label, .timeout_ms = 60000};
    snprintf(label, sizeof label, "of %d", *(int *)arg);
    for (int i = 0; i < size; i++) members[i] = i;
    for (int i = 0; i < groups; i++) {
        weft_group *group = NULL;
        CHECK(weft_new_group(world, members, size, &call, &group, NULL) == WEFT_OK);
        use_group(group);
        weft_group_free(group);
    }
    return NULL;
}

static void use_all(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(!pthread_create(&threads[i], NULL, make_groups, &numbers[i]));
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* Bytes that are true in different ways. */
static void reduce_bools(void)
{
    static const weft_op ops[] = {WEFT_MIN, WEFT_MAX, WEFT_BAND, WEFT_BOR, WEFT_BXOR};
    weft_group *world = weft_world(ctx);
    const int rank = weft_group_rank(world), size = weft_group_size(world);
    const uint8_t in[] = {(uint8_t)(1 << rank), rank ? 4 : 0, 0};
    const uint8_t odd = size % 2, but_one = (size - 1) % 2;
    const uint8_t expected[][3] = {{1, 0, 0}, {1, 1, 0}, {1, 0, 0}, {1, 1, 0}, {odd, but_one, 0}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        weft_request *req = NULL;
        weft_request_info info = {0};
        uint8_t out[sizeof in] = {7, 7, 7};
        CHECK(weft_all_reduce(world, in, out, sizeof in, WEFT_BOOL, ops[i], NULL, &req) == WEFT_OK);
        CHECK(weft_wait(req, 60000) == WEFT_OK && !memcmp(out, expected[i], sizeof in));
        weft_request_get_info(req, &info);
        CHECK(!strcmp(info.algorithm, "mpi"));
        weft_release(req);
    }
}

static weft_group *all_of(weft_group *world)
{
    weft_group *group = NULL;
    int members[64];
    for (int i = 0; i < weft_group_size(world); i++) members[i] = i;
    CHECK(weft_new_group(world, members, weft_group_size(world), NULL, &group, NULL) == WEFT_OK);
    return group;
}

/* MPI's error is the operation's, with MPI's own words for it, and ends its group on all ranks, and no other. */
static void fail_once(void)
{
    weft_group *world = weft_world(ctx), *other = all_of(world);
    const bool mine = weft_group_rank(world) == 0;
    char words[MPI_MAX_ERROR_STRING] = "";
    int32_t in = 1, out = 0;
    int length;
    use_group(world);
    use_group(other);
    PMPI_Error_string(MPI_ERR_OTHER, words, &length);
    atomic_store(&fails, mine);
    if (mine) {
        CHECK(weft_all_reduce(world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL) == WEFT_ERR_SYSTEM);
        CHECK(strstr(weft_last_error(), "MPI_Test: ") && strstr(weft_last_error(), words));
    } else { /* all is well with it here, and then the group is heard to be broken */
        CHECK(weft_all_reduce(world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL) != WEFT_ERR_TIMEOUT);
    }
    CHECK(weft_all_reduce(world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL) == WEFT_ERR_BROKEN);
    CHECK(!atomic_load(&fails));
    use_group(other);
    weft_group_free(other);
}

/* Its time is up, and MPI has it still: that is the group's end and nobody else's, and so is MPI's own end of it. */
static void leave_one_behind(void)
{
    enum { TIME_MS = 300, LATE_MS = 10000 };
    weft_group *world = weft_world(ctx), *other = all_of(world);
    const weft_call call = {.timeout_ms = TIME_MS};
    const struct timespec pause = {0, 1000000};
    weft_request *req = NULL;
    weft_request_info info = {0};
    static int32_t in = 1, out;
    use_group(world);
    use_group(other);
    atomic_store(&holds, true);
    CHECK(weft_all_reduce(world, &in, &out, 1, WEFT_INT32, WEFT_SUM, &call, &req) == WEFT_OK);
    CHECK(weft_wait(req, WEFT_FOREVER) == WEFT_ERR_TIMEOUT);
    weft_request_get_info(req, &info);
    CHECK(info.buffers_held);
    weft_release(req);
    use_group(other);
    CHECK(atomic_load(&requests) == 1);
    atomic_store(&holds, false);
    for (int i = 0; i < LATE_MS && atomic_load(&requests); i++) nanosleep(&pause, NULL);
    CHECK(atomic_load(&requests) == 0);
    use_group(other);
    weft_group_free(other);
}

int main(int argc, char **argv)
{
    weft_config config = WEFT_CONFIG_INIT;
    bool leaves = argc > 1 && !strcmp(argv[1], "left"), failing = argc > 1 && !strcmp(argv[1], "failing");
    bool refused = argc > 1 && strcmp(argv[1], "serialized") && !leaves && !failing;
    int most = argc > 2 ? atoi(argv[2]) : groups, descriptors;
    if (refused) given = strcmp(argv[1], "single") ? MPI_THREAD_FUNNELED : MPI_THREAD_SINGLE;
    config.backends = "mpi";
    if (refused) {
        CHECK(weft_init(&config, &ctx) != WEFT_OK);
        puts(weft_last_error());
        return 0;
    }
    CHECK(weft_init(&config, &ctx) == WEFT_OK);
    CHECK(!strcmp(weft_backends(ctx), "host,mpi"));
    if (leaves || failing) {
        leaves ? leave_one_behind() : fail_once();
        CHECK(weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK);
        CHECK(atomic_load(&communicators) == 0);
        puts(leaves ? "ended later" : "failed once");
        return 0;
    }
    reduce_bools();
    use_all();
    descriptors = open_descriptors(); /* MPI opens some when they are first needed */
    groups = most;
    use_all();
    CHECK(open_descriptors() == descriptors);
    CHECK(weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK);
    CHECK(atomic_load(&calls) > (long)THREADS * groups * ROUNDS); /* they came here */
    CHECK(atomic_load(&communicators) == 0 && atomic_load(&requests) == 0 && atomic_load(&own) == 0);
    puts("one at a time");
    return 0;
}
