/* test_fork.c - a child of fork has no context: every public call says so, and nothing of its parent's job
 * stays in its hands, so that the parent's end is seen while the child lives on. */
#include "job.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/cuda.h>

/* ---- every public call ---- */

typedef struct used { /* made by the parent before it forked */
    weft_context *ctx;
    weft_group *world, *made;
    weft_mesh *mesh;
    weft_batch *batch, *dropped;
    weft_store *store;
    weft_request *pending, *settled;
    void *memory;
} used;

typedef struct public_call {
    const char *name;
    bool (*is_right)(const used *u);
} public_call;

static int32_t in[2], out[2];
static const size_t counts[2] = {1, 1};

/* A call that returns a status is refused. */
#define REFUSED(name, ...)                                  \
    static bool check_##name(const used *u)                 \
    {                                                       \
        weft_request *req = NULL;                           \
        (void)u;                                            \
        (void)req;                                          \
        return name(__VA_ARGS__) == WEFT_ERR_STATE && !req; \
    }
/* One that returns something else, or needs no context, returns what weft.h says. */
#define RETURNS(name, expression)           \
    static bool check_##name(const used *u) \
    {                                       \
        (void)u;                            \
        return expression;                  \
    }

RETURNS(weft_version, weft_version() == WEFT_VERSION)
RETURNS(weft_status_name, !strcmp(weft_status_name(WEFT_OK), "WEFT_OK"))
RETURNS(weft_status_text, !strcmp(weft_status_text(WEFT_OK), "success"))
RETURNS(weft_last_error, weft_wait(u->pending, 0) == WEFT_ERR_STATE && strstr(weft_last_error(), "fork"))
RETURNS(weft_dtype_size, weft_dtype_size(WEFT_INT32) == 4)
RETURNS(weft_set_log, (weft_set_log(NULL, NULL), true))

static bool check_weft_init(const used *u)
{
    weft_context *ctx = NULL;
    (void)u;
    return weft_init(NULL, &ctx) == WEFT_ERR_STATE && !ctx;
}
REFUSED(weft_finalize, u->ctx, 0)
RETURNS(weft_abort, (weft_abort(u->ctx, "nothing happens"), true))
REFUSED(weft_dump, u->ctx, "never")
RETURNS(weft_current, !weft_current())
RETURNS(weft_world, !weft_world(u->ctx))
RETURNS(weft_host_group, !weft_host_group(u->ctx))
RETURNS(weft_context_store, !weft_context_store(u->ctx))
RETURNS(weft_local_rank, weft_local_rank(u->ctx) == -1)
RETURNS(weft_local_size, weft_local_size(u->ctx) == -1)
RETURNS(weft_device, weft_device(u->ctx) == -1)
RETURNS(weft_backends, !*weft_backends(u->ctx))

static bool check_weft_new_group(const used *u)
{
    static const int ranks[] = {0, 1};
    weft_group *group = NULL;
    weft_request *req = NULL;
    return weft_new_group(u->world, ranks, 2, NULL, &group, &req) == WEFT_ERR_STATE && !group && !req;
}
static bool check_weft_split_group(const used *u)
{
    weft_group *group = NULL;
    weft_request *req = NULL;
    return weft_split_group(u->world, 0, 0, NULL, &group, &req) == WEFT_ERR_STATE && !group && !req;
}
static bool check_weft_shrink_group(const used *u)
{
    weft_group *group = NULL;
    weft_request *req = NULL;
    return weft_shrink_group(u->world, NULL, &group, &req) == WEFT_ERR_STATE && !group && !req;
}
static bool check_weft_mesh_create(const used *u)
{
    weft_mesh *mesh = NULL;
    weft_request *req = NULL;
    return weft_mesh_create(u->world, "a=-1", NULL, &mesh, &req) == WEFT_ERR_STATE && !mesh && !req;
}
/* What only reads the names and numbers of a group goes on. */
RETURNS(weft_group_rank, weft_group_rank(u->world) >= 0)
RETURNS(weft_group_size, weft_group_size(u->world) == 2)
RETURNS(weft_group_to_world, weft_group_to_world(u->world, 1) == 1)
RETURNS(weft_group_from_world, weft_group_from_world(u->world, 1) == 1)
RETURNS(weft_group_label, !strcmp(weft_group_label(u->world), "world"))
RETURNS(weft_group_dead, weft_group_dead(u->world, NULL, 0) == 0)
REFUSED(weft_group_status, u->world)
REFUSED(weft_group_set_timeout, u->world, 1000)
REFUSED(weft_group_abort, u->world, "never")
static bool check_weft_group_report(const used *u)
{
    char text[512] = "";
    return weft_group_report(u->world, text, sizeof text) == WEFT_ERR_STATE && !*text;
}
REFUSED(weft_group_free, u->made)
RETURNS(weft_mesh_group, !weft_mesh_group(u->mesh, "a"))
RETURNS(weft_mesh_coord, weft_mesh_coord(u->mesh, "a") == -1)
RETURNS(weft_mesh_size, weft_mesh_size(u->mesh, "a") == -1)
REFUSED(weft_mesh_free, u->mesh)

REFUSED(weft_isend, u->world, in, 1, WEFT_INT32, 1, 0, NULL, &req)
REFUSED(weft_irecv, u->world, out, 1, WEFT_INT32, 1, 0, NULL, &req)
REFUSED(weft_probe, u->world, 1, 0, NULL, &req)
REFUSED(weft_receive_probed, u->settled, out, 1, WEFT_INT32, NULL, &req)
REFUSED(weft_send_recv, u->world, in, out, 1, WEFT_INT32, 1, NULL, &req)
REFUSED(weft_broadcast, u->world, in, 1, WEFT_INT32, 0, NULL, &req)
REFUSED(weft_reduce, u->world, in, out, 1, WEFT_INT32, WEFT_SUM, 0, NULL, &req)
REFUSED(weft_all_reduce, u->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, &req)
REFUSED(weft_reduce_scatter, u->world, in, out, 1, WEFT_INT32, WEFT_SUM, NULL, &req)
REFUSED(weft_all_gather, u->world, in, out, 1, WEFT_INT32, NULL, &req)
REFUSED(weft_gather, u->world, in, out, 1, WEFT_INT32, 0, NULL, &req)
REFUSED(weft_scatter, u->world, in, out, 1, WEFT_INT32, 0, NULL, &req)
REFUSED(weft_all_to_all, u->world, in, out, 1, WEFT_INT32, NULL, &req)
REFUSED(weft_barrier, u->world, NULL, &req)
REFUSED(weft_all_gather_v, u->world, in, 1, out, counts, NULL, WEFT_INT32, NULL, &req)
REFUSED(weft_gather_v, u->world, in, 1, out, counts, NULL, WEFT_INT32, 0, NULL, &req)
REFUSED(weft_scatter_v, u->world, in, counts, NULL, out, 1, WEFT_INT32, 0, NULL, &req)
REFUSED(weft_reduce_scatter_v, u->world, in, out, counts, WEFT_INT32, WEFT_SUM, NULL, &req)
REFUSED(weft_all_to_all_v, u->world, in, counts, NULL, out, counts, NULL, WEFT_INT32, NULL, &req)

static bool check_weft_batch_begin(const used *u)
{
    weft_batch *batch = NULL;
    return weft_batch_begin(u->world, &batch) == WEFT_ERR_STATE && !batch;
}
REFUSED(weft_batch_end, u->batch, NULL, &req)
RETURNS(weft_batch_discard, (weft_batch_discard(u->dropped), true))

/* A request that had settled before can be asked what came of it. */
RETURNS(weft_is_completed, weft_is_completed(u->settled) && !weft_is_completed(u->pending))
RETURNS(weft_test, weft_test(u->pending) == WEFT_ERR_STATE && weft_test(u->settled) == WEFT_OK)
RETURNS(weft_wait, weft_wait(u->pending, 1000) == WEFT_ERR_STATE && weft_wait(u->settled, 0) == WEFT_OK)
REFUSED(weft_wait_all, &u->pending, 1, 1000)
static bool check_weft_wait_any(const used *u)
{
    size_t index = 7;
    return weft_wait_any(&u->pending, 1, 1000, &index) == WEFT_ERR_STATE && index == 7;
}
static bool check_weft_wait_some(const used *u)
{
    size_t indices[1], settled = 7;
    return weft_wait_some(&u->pending, 1, 1000, indices, &settled) == WEFT_ERR_STATE && settled == 7;
}
RETURNS(weft_completion_fd, weft_completion_fd(u->ctx) == -1)
RETURNS(weft_cancel, (weft_cancel(u->pending), true))
RETURNS(weft_release, (weft_release(u->pending), true))
RETURNS(weft_request_message, strstr(weft_request_message(u->pending), "irecv") != NULL)
static bool check_weft_request_get_info(const used *u)
{
    weft_request_info info;
    weft_request_get_info(u->pending, &info);
    return info.status == WEFT_PENDING && info.peer == 1;
}
static bool check_weft_mem_alloc(const used *u)
{
    void *memory = NULL;
    return weft_mem_alloc(u->world, 4096, WEFT_MEMORY_HOST, &memory) == WEFT_ERR_STATE && !memory;
}
REFUSED(weft_mem_free, u->world, u->memory)

static bool check_weft_store_open(const used *u)
{
    weft_store *store = NULL;
    (void)u;
    return weft_store_open("tcp://127.0.0.1:1", NULL, 1000, &store) == WEFT_ERR_STATE && !store;
}
RETURNS(weft_store_close, (weft_store_close(u->store), true))
REFUSED(weft_store_set, u->store, "key", "v", 1)
static bool check_weft_store_get(const used *u)
{
    char room[8];
    size_t bytes = sizeof room;
    return weft_store_get(u->store, "key", room, &bytes, 1000) == WEFT_ERR_STATE;
}
REFUSED(weft_store_add, u->store, "number", 1, NULL)
REFUSED(weft_store_compare_set, u->store, "key", NULL, 0, "v", 1, NULL)
static bool check_weft_store_wait(const used *u)
{
    const char *keys[] = {"key"};
    return weft_store_wait(u->store, keys, 1, 1000) == WEFT_ERR_STATE;
}
REFUSED(weft_store_delete, u->store, "key", NULL)
REFUSED(weft_stream_wait, u->pending, NULL)
REFUSED(weft_nccl_configure, u->world, NULL)
REFUSED(weft_mem_register, u->world, u->memory, 64)
REFUSED(weft_mem_deregister, u->world, u->memory)
static bool check_weft_mem_window(const used *u)
{
    weft_nccl_window window;
    size_t offset;
    return weft_mem_window(u->world, u->memory, &window, &offset) == WEFT_ERR_STATE;
}
static bool check_weft_mem_peer(const used *u)
{
    void *there;
    return weft_mem_peer(u->world, u->memory, 0, &there) == WEFT_ERR_STATE;
}
static bool check_weft_device_memory(const used *u)
{
    size_t bytes;
    return weft_device_memory(u->ctx, &bytes) == WEFT_ERR_STATE;
}
static bool check_weft_graph_replays(const used *u)
{
    uint64_t begun;
    return weft_graph_replays(u->world, &begun) == WEFT_ERR_STATE;
}
static bool check_weft_nccl_communicator(const used *u)
{
    return !weft_nccl_communicator(u->world);
}
static bool check_weft_nccl_stream(const used *u)
{
    return !weft_nccl_stream(u->world);
}

#define CALL(name)          \
    {                       \
#name, check_##name \
    }
static const public_call calls[] = {CALL(weft_version),
                                    CALL(weft_status_name),
                                    CALL(weft_status_text),
                                    CALL(weft_last_error),
                                    CALL(weft_dtype_size),
                                    CALL(weft_set_log),
                                    CALL(weft_init),
                                    CALL(weft_finalize),
                                    CALL(weft_abort),
                                    CALL(weft_dump),
                                    CALL(weft_current),
                                    CALL(weft_world),
                                    CALL(weft_host_group),
                                    CALL(weft_context_store),
                                    CALL(weft_local_rank),
                                    CALL(weft_local_size),
                                    CALL(weft_device),
                                    CALL(weft_backends),
                                    CALL(weft_new_group),
                                    CALL(weft_split_group),
                                    CALL(weft_shrink_group),
                                    CALL(weft_mesh_create),
                                    CALL(weft_group_rank),
                                    CALL(weft_group_size),
                                    CALL(weft_group_to_world),
                                    CALL(weft_group_from_world),
                                    CALL(weft_group_label),
                                    CALL(weft_group_dead),
                                    CALL(weft_group_status),
                                    CALL(weft_group_set_timeout),
                                    CALL(weft_group_abort),
                                    CALL(weft_group_report),
                                    CALL(weft_group_free),
                                    CALL(weft_mesh_group),
                                    CALL(weft_mesh_coord),
                                    CALL(weft_mesh_size),
                                    CALL(weft_mesh_free),
                                    CALL(weft_isend),
                                    CALL(weft_irecv),
                                    CALL(weft_probe),
                                    CALL(weft_receive_probed),
                                    CALL(weft_send_recv),
                                    CALL(weft_broadcast),
                                    CALL(weft_reduce),
                                    CALL(weft_all_reduce),
                                    CALL(weft_reduce_scatter),
                                    CALL(weft_all_gather),
                                    CALL(weft_gather),
                                    CALL(weft_scatter),
                                    CALL(weft_all_to_all),
                                    CALL(weft_barrier),
                                    CALL(weft_all_gather_v),
                                    CALL(weft_gather_v),
                                    CALL(weft_scatter_v),
                                    CALL(weft_reduce_scatter_v),
                                    CALL(weft_all_to_all_v),
                                    CALL(weft_batch_begin),
                                    CALL(weft_batch_end),
                                    CALL(weft_batch_discard),
                                    CALL(weft_is_completed),
                                    CALL(weft_test),
                                    CALL(weft_wait),
                                    CALL(weft_wait_all),
                                    CALL(weft_wait_any),
                                    CALL(weft_wait_some),
                                    CALL(weft_completion_fd),
                                    CALL(weft_cancel),
                                    CALL(weft_request_message),
                                    CALL(weft_request_get_info),
                                    CALL(weft_release),
                                    CALL(weft_mem_alloc),
                                    CALL(weft_mem_free),
                                    CALL(weft_store_open),
                                    CALL(weft_store_close),
                                    CALL(weft_store_set),
                                    CALL(weft_store_get),
                                    CALL(weft_store_add),
                                    CALL(weft_store_compare_set),
                                    CALL(weft_store_wait),
                                    CALL(weft_store_delete),
                                    CALL(weft_stream_wait),
                                    CALL(weft_nccl_configure),
                                    CALL(weft_mem_register),
                                    CALL(weft_mem_deregister),
                                    CALL(weft_mem_window),
                                    CALL(weft_mem_peer),
                                    CALL(weft_device_memory),
                                    CALL(weft_graph_replays),
                                    CALL(weft_nccl_communicator),
                                    CALL(weft_nccl_stream)};
enum { CALLS = sizeof calls / sizeof *calls };

static bool is_checked(const char *name)
{
    for (int i = 0; i < CALLS; i++)
        if (!strcmp(calls[i].name, name)) return true;
    return false;
}

/* The name that a declaration of a public header is followed by: what comes before its first parenthesis. */
static void check_header(const char *path)
{
    char line[512], name[64];
    int found = 0;
    FILE *header = fopen(path, "r");
    CHECK(header);
    while (fgets(line, sizeof line, header)) {
        const char *end = strchr(line, '('), *start = end;
        if (strncmp(line, "WEFT_API ", 9) != 0) continue;
        CHECK(end);
        while (start > line && start[-1] != ' ' && start[-1] != '*') start--;
        snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
        if (!is_checked(name)) job_fail(__FILE__, __LINE__, "%s is not tried after fork", name);
        found++;
    }
    fclose(header);
    CHECK(found > 0);
}

enum { BITS = 32 }; /* of a result */

/* Notes the calls that are wrong, where the parent sees them. */
static _Noreturn void use_in_child(job_rank *me, const used *u)
{
    int64_t *wrong = job_results(me, me->rank);
    for (int i = 0; i < CALLS; i++)
        if (!calls[i].is_right(u)) wrong[i / BITS] |= INT64_C(1) << i % BITS;
    _exit(0);
}

static void check_noted(job_rank *me)
{
    const int64_t *wrong = job_results(me, me->rank);
    char names[CALLS * 32] = "";
    for (int i = 0; i < CALLS; i++)
        if (wrong[i / BITS] >> i % BITS & 1) {
            size_t at = strlen(names);
            snprintf(names + at, sizeof names - at, " %s", calls[i].name);
        }
    if (*names) job_fail(__FILE__, __LINE__, "wrong after fork:%s", names);
}

static void every_call(job_rank *me)
{
    used u = {.ctx = me->ctx, .world = me->world};
    int status = -1;
    pid_t child;
    check_header(TEST_SOURCE_DIR "/../include/weft/weft.h");
    check_header(TEST_SOURCE_DIR "/../include/weft/cuda.h");
    u.made = job_group(me, 2, "made", 0);
    CHECK_OK(weft_mesh_create(me->world, "a=-1", NULL, &u.mesh, NULL));
    CHECK_OK(weft_batch_begin(me->world, &u.batch));
    CHECK_OK(weft_batch_begin(me->world, &u.dropped));
    CHECK(u.store = weft_context_store(me->ctx));
    CHECK_OK(weft_mem_alloc(me->world, 4096, WEFT_MEMORY_HOST, &u.memory));
    CHECK_OK(weft_barrier(me->world, NULL, &u.settled));
    WAIT_STATUS(WEFT_OK, u.settled);
    CHECK_OK(weft_irecv(me->world, out, 1, WEFT_INT32, 1, 5, NULL, &u.pending));
    child = fork();
    if (child == 0) use_in_child(me, &u);
    CHECK(child > 0);
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_noted(me);
    job_meet(me); /* nobody sends before all have looked */
    /* The parent's are as they were. */
    if (me->rank == 1)
        for (int i = 0; i < 2; i++) CHECK_OK(weft_isend(me->world, in, 1, WEFT_INT32, i, 5, NULL, NULL));
    WAIT_OK(u.pending);
    weft_release(u.settled);
    weft_batch_discard(u.batch);
    weft_batch_discard(u.dropped);
    job_sum_works(u.made);
    CHECK_OK(weft_mem_free(me->world, u.memory));
}

/* ---- a rank that is killed while its child lives on ---- */

enum { RANKS = 3, VICTIM = 2 };
enum { READY, OVER };        /* marks */
enum { DESCRIPTORS, CHILD }; /* results of the victim */

/* How many descriptors of this process lead to something of that name. */
static int count_descriptors(const char *what)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], target[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, what)) n++;
    }
    if (dir) closedir(dir);
    return n;
}

/* Nothing is left that others could take for the rank itself. */
static _Noreturn void live_on(job_rank *me)
{
    job_results(me, VICTIM)[DESCRIPTORS] = count_descriptors("memfd:weft") + count_descriptors("[pidfd]");
    job_results(me, VICTIM)[CHILD] = getpid();
    job_mark(me, READY);
    job_await(me, OVER, RANKS - 1);
    _exit(0);
}

/* Waits for a process that is no child of this one. */
static void await_end(pid_t pid)
{
    int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    while (kill(pid, 0) == 0 && job_now_ns() < end) job_sleep_ms(5);
}

static void killed_with_child(job_rank *me)
{
    static const int both[] = {0, 1};
    weft_group *survivors = NULL;
    job_message_works(me->world, 0, VICTIM, 1); /* there are connections */
    job_message_works(me->world, 1, VICTIM, 2);
    job_sum_works(me->world);
    job_meet(me);
    if (me->rank == VICTIM) {
        pid_t child = fork();
        if (child == 0) live_on(me);
        CHECK(child > 0);
        job_sleep_ms(JOB_LIMIT_MS);
    }
    job_await(me, READY, 1);
    if (me->rank == 0) job_kill(me, VICTIM);
    CHECK(job_await_break(me->world, JOB_WAIT_MS) == WEFT_ERR_PEER); /* rank 0 may be late with it */
    CHECK(job_names(weft_last_error(), VICTIM));
    CHECK_OK(weft_shrink_group(me->world, NULL, &survivors, NULL));
    CHECK_INT(weft_group_size(survivors), 2);
    for (int i = 0; i < 2; i++) CHECK_INT(weft_group_to_world(survivors, i), both[i]);
    job_sum_works(survivors);
    CHECK_INT(job_results(me, VICTIM)[DESCRIPTORS], 0);
    job_mark(me, OVER);
    await_end((pid_t)job_results(me, VICTIM)[CHILD]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("every public call", .ranks = 2, .processes = true, .body = every_call),
        JOB_TEST("killed while its child lives", .ranks = RANKS, .body = killed_with_child,
                 .killed = 1U << VICTIM),
    };
    return JOB_MAIN(tests, argc, argv);
}
