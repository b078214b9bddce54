/* test_scarce.c - a rank whose memory runs out: each allocation that the library makes gets nothing once.
 *
 * That is this rank's own failure.  It goes well all the same, or is refused, or ends in ERR_MEMORY; the
 * others are told of that and no more: nobody living is given up, and the job goes on. */
#include "job.h"
#include "scarce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RANKS = 3, POINTS_MAX = 2000, LARGE = 100000, REFUSALS = 3 };
enum { STEP = JOB_SANITIZED ? 5 : 1 }; /* a job takes long there; SCARCE_STEP says otherwise */

typedef struct scenario {
    void (*body)(job_rank *me);
    int poor;   /* the rank that has none */
    bool joins; /* that rank is poor while it joins already */
} scenario;

typedef struct point {
    const scenario *what;
    int64_t nth;
    bool *reached; /* shared with the parent */
} point;

static const scenario *what_of(const job_rank *me)
{
    return ((const point *)me->arg)->what;
}

static bool is_poor(const job_rank *me)
{
    return what_of(me)->poor == me->rank;
}

/* ---- what may come of an operation ---- */

static void accept(weft_group *group, const char *what, weft_status status, const char *text)
{
    char why[1024];
    snprintf(why, sizeof why, "%s", text);
    if (status == WEFT_OK || status == WEFT_ERR_MEMORY) return;
    if (status == WEFT_ERR_BROKEN && weft_group_status(group) == WEFT_ERR_MEMORY) return;
    job_fail(__FILE__, __LINE__, "%s: %s (%s)", what, weft_status_name(status), why);
}

/* A call that is refused has done nothing: it is made again. */
#define ASK(group, req, call)                                                 \
    do {                                                                      \
        weft_status status_ = WEFT_ERR_MEMORY;                                \
        for (int i_ = 0; i_ < REFUSALS && status_ == WEFT_ERR_MEMORY; i_++) { \
            (req) = NULL;                                                     \
            status_ = call;                                                   \
        }                                                                     \
        accept(group, #call, status_, weft_last_error());                     \
    } while (0)

/* True: it went well. */
static bool ends(weft_group *group, const char *what, weft_request *req)
{
    weft_status status;
    if (!req) return false;
    status = weft_wait(req, JOB_WAIT_MS);
    accept(group, what, status, weft_request_message(req));
    weft_release(req);
    return status == WEFT_OK;
}

/* ---- scenarios ---- */

static int32_t buffers[2][RANKS * LARGE]; /* what the test allocates would be counted too */

/* To rank 1 from all others, before it asks for any of it: what comes has to be kept. */
static void messages(job_rank *me)
{
    static const size_t sizes[] = {1, 50, 3000, LARGE};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    int32_t *buf = buffers[0];
    weft_request *reqs[SIZES] = {NULL}, *req = NULL;
    int peer = me->rank == 0 ? 1 : 0;
    if (me->rank > 1) return;
    for (int i = 0; i < SIZES; i++) {
        for (int again = 0; again < REFUSALS; again++) { /* one that ended so has sent nothing */
            ASK(me->world, reqs[i],
                weft_isend(me->world, buf, sizes[i], WEFT_INT32, peer, i, NULL, &reqs[i]));
            if (!reqs[i] || weft_test(reqs[i]) != WEFT_ERR_MEMORY) break;
            weft_release(reqs[i]);
        }
    }
    job_mark(me, 0);
    job_await(me, 0, 2);
    for (int i = 0; i < SIZES; i++) {
        int32_t *in = buffers[1];
        weft_request *receive = NULL;
        ASK(me->world, receive, weft_irecv(me->world, in, sizes[i], WEFT_INT32, peer, i, NULL, &receive));
        ends(me->world, "receive", receive);
    }
    for (int i = 0; i < SIZES; i++) ends(me->world, "send", reqs[i]);
    ASK(me->world, req, weft_send_recv(me->world, buf, buf, 3000, WEFT_INT32, peer, NULL, &req));
    ends(me->world, "send_recv", req);
}

static void collectives(job_rank *me)
{
    static const size_t counts[RANKS] = {5, 1, 700};
    weft_group *world = me->world;
    int32_t *in = buffers[0], *out = buffers[1];
    weft_request *reqs[10] = {NULL};
    int n = 0;
    ASK(world, reqs[n], weft_barrier(world, NULL, &reqs[n]));
    n++;
    ASK(world, reqs[n], weft_all_reduce(world, in, out, 3, WEFT_INT32, WEFT_SUM, NULL, &reqs[n]));
    n++;
    ASK(world, reqs[n], weft_all_reduce(world, in, out, LARGE, WEFT_INT32, WEFT_MAX, NULL, &reqs[n]));
    n++;
    ASK(world, reqs[n], weft_broadcast(world, out, LARGE, WEFT_INT32, 2, NULL, &reqs[n]));
    n++;
    ASK(world, reqs[n],
        weft_all_gather_v(world, in, counts[me->rank], out, counts, NULL, WEFT_INT32, NULL, &reqs[n]));
    n++;
    ASK(world, reqs[n], weft_all_to_all(world, in, out, 2000, WEFT_INT32, NULL, &reqs[n]));
    n++;
    ASK(world, reqs[n], weft_reduce_scatter(world, in, out, 500, WEFT_INT32, WEFT_SUM, NULL, &reqs[n]));
    n++;
    for (int i = 0; i < n; i++) ends(world, "collective", reqs[i]);
}

/* Each in its turn, for a refusal of one rank must not keep the others waiting for their next. */
static void groups(job_rank *me)
{
    static const int backwards[RANKS] = {2, 1, 0};
    weft_group *made = NULL, *split = NULL, *shrunk = NULL;
    weft_mesh *mesh = NULL;
    weft_request *req = NULL;
    ASK(me->world, req, weft_new_group(me->world, backwards, RANKS, NULL, &made, &req));
    if (ends(me->world, "new_group", req)) {
        ASK(made, req, weft_barrier(made, NULL, &req));
        ends(made, "barrier of new_group", req);
    }
    ASK(me->world, req, weft_split_group(me->world, 0, -me->rank, NULL, &split, &req));
    ends(me->world, "split_group", req);
    ASK(me->world, req, weft_mesh_create(me->world, "a=-1", NULL, &mesh, &req));
    if (ends(me->world, "mesh_create", req)) {
        weft_group *along = weft_mesh_group(mesh, "a");
        for (int i = 0; i < REFUSALS && !along; i++) along = weft_mesh_group(mesh, "a");
        CHECK(along);
        ASK(along, req, weft_barrier(along, NULL, &req));
        ends(along, "barrier of a mesh", req);
    }
    job_meet(me); /* that breaks what others have under way */
    ASK(me->world, req, weft_shrink_group(me->world, NULL, &shrunk, &req));
    if (ends(me->world, "shrink_group", req)) {
        ASK(shrunk, req, weft_barrier(shrunk, NULL, &req));
        ends(shrunk, "barrier of shrink_group", req);
    }
}

static void batch(job_rank *me)
{
    int32_t in[4] = {0}, out[4] = {0};
    weft_call call = {0};
    weft_request *req = NULL;
    for (int i = 0; i < REFUSALS && !call.batch; i++) weft_batch_begin(me->world, &call.batch);
    CHECK(call.batch);
    for (int i = 0; i < 10; i++) {
        weft_status status = weft_all_reduce(me->world, in, out, 4, WEFT_INT32, WEFT_SUM, &call, NULL);
        CHECK(status == WEFT_OK || status == WEFT_ERR_MEMORY);
    }
    weft_status status = weft_batch_end(call.batch, NULL, &req);
    if (is_poor(me) && status == WEFT_ERR_MEMORY) { /* refused as a whole: the others wait for this rank */
        weft_group_abort(me->world, "no memory for a batch");
        return;
    }
    if (status == WEFT_OK) status = weft_wait(req, JOB_WAIT_MS);
    CHECK(status == WEFT_OK || status == WEFT_ERR_CANCELLED || status == WEFT_ERR_MEMORY ||
          status == WEFT_ERR_BROKEN);
    weft_release(req);
}

static void store(job_rank *me)
{
    weft_store *s = NULL;
    char key[16], value[16] = "";
    size_t bytes = sizeof value;
    weft_status status = WEFT_ERR_MEMORY;
    for (int i = 0; i < REFUSALS && !s; i++) s = weft_context_store(me->ctx);
    if (!s) job_fail(__FILE__, __LINE__, "context_store: %s", weft_last_error());
    snprintf(key, sizeof key, "rank%d", me->rank);
    for (int i = 0; i < REFUSALS && status == WEFT_ERR_MEMORY; i++) status = weft_store_set(s, key, "1", 2);
    CHECK_OK(status);
    snprintf(key, sizeof key, "rank%d", (me->rank + 1) % me->size);
    status = WEFT_ERR_MEMORY;
    for (int i = 0; i < REFUSALS && status == WEFT_ERR_MEMORY; i++)
        status = weft_store_get(s, key, value, &bytes, JOB_WAIT_MS);
    CHECK_OK(status);
}

static void nothing(job_rank *me)
{
    (void)me;
}

/* ---- one rank, one allocation ---- */

/* Who could not join for want of memory comes again; the others too, where they have been told of it.  The
 * first meeting may still be telling that when they do. */
static void join(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    weft_status status;
    int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    while ((status = weft_init(&config, &me->ctx)) == WEFT_ERR_MEMORY && job_now_ns() < end) job_sleep_ms(20);
    if (status != WEFT_OK)
        job_fail(__FILE__, __LINE__, "init: %s (%s)", weft_status_name(status), weft_last_error());
    me->world = weft_world(me->ctx);
}

static void with_one_less(job_rank *me)
{
    const point *p = me->arg;
    if (is_poor(me) && p->what->joins) scarce_begin(p->nth, 0);
    join(me);
    if (is_poor(me) && p->what->joins) *p->reached = scarce_end();
    if (!p->what->joins) {
        job_acquaint(me);
        if (is_poor(me)) scarce_begin(p->nth, 0);
        p->what->body(me);
        job_meet(me);
        if (is_poor(me)) *p->reached = scarce_end();
    }
    job_sum_works(job_group(me, me->size, "afterwards", 0)); /* all are there */
    CHECK_INT(weft_group_dead(me->world, NULL, 0), 0);
    job_leave(me);
}

static int64_t last_nth;

/* Also after a failure: then at which it was. */
static int tell_last(void **state)
{
    (void)state;
    print_message("up to allocation %lld\n", (long long)last_nth);
    return 0;
}

static int step(void)
{
    const char *wanted = getenv("SCARCE_STEP");
    return wanted && atoi(wanted) > 0 ? atoi(wanted) : STEP;
}

static void sweep(void **state)
{
    const scenario *what = *state;
    bool *reached = mmap(NULL, sizeof *reached, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    point p = {.what = what, .reached = reached};
    job_plan plan = {.ranks = RANKS, .processes = true, .bare = true, .body = with_one_less, .arg = &p};
    assert_ptr_not_equal(reached, MAP_FAILED);
    do {
        *reached = false;
        last_nth = p.nth += p.nth ? step() : 1;
        job_run(&plan);
    } while (*reached && p.nth < POINTS_MAX);
    assert_in_range(p.nth, 2, POINTS_MAX - 1); /* there was something to count, and an end */
    munmap(reached, sizeof *reached);
}

/* ---- none at all ---- */

/* More comes than notes can be kept of: receives from there fail, for the rank's own want, and what it sends
 * goes on. */
static void nothing_to_keep_with(job_rank *me)
{
    enum { MESSAGES = 200, INTS = 100, READ_MS = 300 };
    int32_t *buf = buffers[0];
    int lost = 0;
    job_message_works(me->world, 0, 1, MESSAGES);
    job_message_works(me->world, 1, 0, MESSAGES);
    if (me->rank == 0) {
        job_await(me, 0, 1);
        for (int i = 0; i < MESSAGES; i++)
            CHECK_OK(weft_isend(me->world, buf, INTS, WEFT_INT32, 1, i, NULL, NULL));
        job_mark(me, 1);
    } else {
        scarce_begin(1, INT64_MAX - 1);
        job_mark(me, 0);
        job_await(me, 1, 1);
        for (int i = 0; i < JOB_WAIT_MS && !scarce_refused(); i++) job_sleep_ms(1);
        job_sleep_ms(READ_MS); /* more of them are read meanwhile */
        CHECK(scarce_end());
        for (int i = 0; i < MESSAGES; i++) {
            weft_status status = weft_irecv(me->world, buf, INTS, WEFT_INT32, 0, i, NULL, NULL);
            CHECK(status == WEFT_OK || status == WEFT_ERR_MEMORY);
            if (status != WEFT_OK) CHECK_TEXT(weft_last_error(), "rank 1 has no memory");
            lost += status != WEFT_OK;
        }
        CHECK(lost > 0);
    }
    job_message_works(me->world, 1, 0, MESSAGES + 1);
    CHECK_OK(weft_group_status(me->world));
    job_meet(me);
}

#define SWEEP(sentence, ...)                          \
    {                                                 \
        sentence, sweep, NULL, tell_last, &(scenario) \
        {                                             \
            __VA_ARGS__                               \
        }                                             \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SWEEP("joining, rank 0", nothing, 0, true),
        SWEEP("joining, rank 1", nothing, 1, true),
        SWEEP("messages", messages, 1, false),
        SWEEP("collectives, rank 0", collectives, 0, false),
        SWEEP("collectives, rank 1", collectives, 1, false),
        SWEEP("groups, rank 0", groups, 0, false),
        SWEEP("groups, rank 1", groups, 1, false),
        SWEEP("a batch", batch, 1, false),
        SWEEP("the store, rank 0", store, 0, false),
        SWEEP("the store, rank 1", store, 1, false),
        JOB_TEST("nothing to keep messages with", .ranks = 2, .processes = true,
                 .body = nothing_to_keep_with),
    };
    return JOB_MAIN(tests, argc, argv);
}
