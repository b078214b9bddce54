/* test_mesh.c - ranks that die before a mesh's group was ever used, and while its members meet. */
#include "job.h"

#include <signal.h>

enum { RANKS = 4 };
enum { ENDS_AT }; /* result of a rank */

static weft_mesh *make_mesh(job_rank *me)
{
    weft_mesh *mesh = NULL;
    CHECK_OK(weft_mesh_create(me->world, "dp=2,tp=2", NULL, &mesh, NULL));
    return mesh;
}

/* A call was refused, or a request failed, because of that rank's end. */
static void check_refused(job_rank *me, weft_status status, int victim)
{
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    CHECK_NAMES(weft_last_error(), 1U << victim, me->size);
}

static void check_dead(job_rank *me, weft_request *req, int victim)
{
    weft_status status = weft_wait(req, JOB_WAIT_MS);
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    CHECK_NAMES(weft_request_message(req), 1U << victim, me->size);
}

/* Asked for before the death, or after it; never used. */
static void before_first_use(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me);
    weft_group *tp = me->rank % 2 ? weft_mesh_group(mesh, "tp") : NULL;
    int32_t value = 1, out = 0;
    weft_request *req = NULL;
    job_mark(me, 0);
    if (me->rank == 0) {
        job_await(me, 0, RANKS);
        raise(SIGKILL);
    }
    CHECK(job_await_break(me->world, JOB_WAIT_MS) < 0); /* rank 0 may be late with its end */
    if (!tp) tp = weft_mesh_group(mesh, "tp");
    CHECK(tp);
    if (me->rank == 1) { /* with the dead */
        check_refused(me, weft_all_reduce(tp, &value, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req), 0);
        CHECK(!req);
        CHECK_INT(weft_group_dead(tp, NULL, 0), 1);
        CHECK_STATUS(WEFT_ERR_PEER, weft_group_status(tp));
        CHECK_STATUS(WEFT_ERR_PEER, weft_isend(tp, &value, 1, WEFT_INT32, 0, 0, NULL, NULL));
    } else {
        CHECK_OK(weft_group_status(tp));
        for (int i = 0; i < 3; i++) job_sum_works(tp);
    }
}

/* Some wait for the one that will not come: all are told of its end, with all that they hold. */
static void while_held(job_rank *me)
{
    enum { OPS = 5 };
    weft_mesh *mesh = make_mesh(me);
    weft_group *all = weft_mesh_group(mesh, "dp,tp");
    weft_request *reqs[OPS] = {NULL};
    int32_t in = 1, out[OPS];
    if (me->rank == 0) {
        job_await(me, 0, RANKS - 1);
        job_results(me, 0)[ENDS_AT] = job_now_ns();
        raise(SIGKILL);
    }
    for (int i = 0; i < OPS; i++)
        CHECK_OK(weft_all_reduce(all, &in, &out[i], 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[i]));
    job_mark(me, 0);
    for (int i = 0; i < OPS; i++) {
        check_dead(me, reqs[i], 0);
        weft_release(reqs[i]);
    }
    CHECK_PERIOD(job_results(me, 0)[ENDS_AT], job_now_ns(), 0, JOB_LATE_MS);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(all, NULL, NULL));
    if (me->rank >= 2) job_sum_works(weft_mesh_group(mesh, "tp"));
    CHECK_OK(weft_mesh_free(mesh));
}

/* At a random moment of the meeting of many groups: what comes through is right, the
 * rest tells of the death. */
static void amid_meeting(job_rank *me)
{
    enum { MESHES = 6 };
    static const char *const sets[] = {"dp,tp", "tp", "dp"};
    uint64_t seed = *(const uint64_t *)me->arg;
    weft_mesh *meshes[MESHES];
    for (int i = 0; i < MESHES; i++) meshes[i] = make_mesh(me);
    job_meet(me);
    int64_t until = job_now_ns() + (int64_t)(job_random(&seed) % 300000);
    for (int i = 0; i < MESHES; i++)
        for (int k = 0; k < 3; k++) {
            int32_t in = 1, out = 0;
            weft_request *req = NULL;
            weft_group *group = weft_mesh_group(meshes[i], sets[k]);
            weft_status status = weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req);
            if (me->rank == 0) {
                while (job_now_ns() < until) weft_is_completed(req);
                raise(SIGKILL);
            }
            bool with_it = weft_group_from_world(group, 0) >= 0;
            if (status != WEFT_OK) {
                CHECK(with_it);
                check_refused(me, status, 0);
                continue;
            }
            status = weft_wait(req, JOB_WAIT_MS);
            if (status == WEFT_OK)
                CHECK_INT(out, weft_group_size(group));
            else
                check_dead(me, req, 0);
            CHECK(status == WEFT_OK || with_it);
            weft_release(req);
        }
    for (int i = 0; i < MESHES; i++) CHECK_OK(weft_mesh_free(meshes[i]));
}

/* Left without ever using a group that the others do. */
static void without_one_that_left(job_rank *me)
{
    job_join(me);
    weft_mesh *mesh = make_mesh(me);
    weft_request *req = NULL;
    if (me->rank != 2) {
        CHECK_OK(weft_barrier(weft_mesh_group(mesh, "dp,tp"), NULL, &req));
        job_mark(me, 0);
        check_dead(me, req, 2);
        CHECK_TEXT(weft_request_message(req), "has left");
        weft_release(req);
        CHECK(job_await_break(weft_mesh_group(mesh, "dp,tp"), JOB_LATE_MS) < 0);
        if (me->rank == 3) check_refused(me, weft_barrier(weft_mesh_group(mesh, "tp"), NULL, NULL), 2);
        job_mark(me, 1);
        job_await(me, 1, RANKS - 1);
    } else {
        job_await(me, 0, RANKS - 1);
    }
    job_leave(me);
}

#define AMID(n)                                                                                           \
    JOB_TEST("amid the meeting of members, " #n, .ranks = RANKS, .body = amid_meeting, .killed = 1U << 0, \
             .arg = &(uint64_t){n})

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("before the first use", .ranks = RANKS, .body = before_first_use, .killed = 1U << 0),
        JOB_TEST("operations that are held", .ranks = RANKS, .body = while_held, .killed = 1U << 0),
        AMID(1),
        AMID(2),
        JOB_TEST("one that left", .ranks = RANKS, .body = without_one_that_left, .bare = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
