/* test_shrink.c - the living go on: after a death, an abort, a timeout, without any of it, and when ranks die
 * while they do. */
#include "frame.h"
#include "job.h"
#include "protocol.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANKS = 4, MANY = 8, SOON_MS = 100 };

static weft_group *shrink(weft_group *group)
{
    weft_group *survivors = NULL;
    weft_call call = {.timeout_ms = JOB_WAIT_MS};
    CHECK_OK(weft_shrink_group(group, &call, &survivors, NULL));
    CHECK(survivors);
    return survivors;
}

static void has_members(weft_group *group, const int *world, int n)
{
    CHECK_INT(weft_group_size(group), n);
    for (int i = 0; i < n; i++) CHECK_INT(weft_group_to_world(group, i), world[i]);
}

/* ---- after what went wrong
 * --------------------------------------------------------------------------------- */

static void dies(job_rank *me, int rank, int living)
{
    job_mark(me, 0);
    if (me->rank == rank) {
        job_await(me, 0, living + 1);
        raise(SIGKILL);
    }
    job_await(me, 0, living + 1);
}

static void after_a_death(job_rank *me)
{
    weft_group *survivors;
    weft_request *sum = NULL;
    int32_t in = 1, out = 0;
    if (me->rank != 1) CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &sum));
    dies(me, 1, RANKS - 1);
    survivors = shrink(me->world); /* some may not have heard of the death yet */
    has_members(survivors, (int[]){0, 2, 3}, 3);
    CHECK_INT(strcmp(weft_group_label(survivors), weft_group_label(me->world)), 0);
    CHECK_INT(weft_group_dead(survivors, NULL, 0), 0);
    CHECK_INT(weft_group_dead(me->world, NULL, 0), 1);
    weft_status status = weft_wait(sum, JOB_WAIT_MS);
    CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
    weft_release(sum);
    for (int i = 0; i < 3; i++) job_sum_works(survivors);
    job_message_works(me->world, 0, 2, 4);
}

/* The lowest member, on whom the others would have counted. */
static void after_the_lead(job_rank *me)
{
    static const int backwards[] = {3, 2, 1, 0};
    weft_group *group = NULL, *survivors;
    CHECK_OK(weft_new_group(me->world, backwards, RANKS, NULL, &group, NULL));
    dies(me, 0, RANKS - 1);
    survivors = shrink(group);
    has_members(survivors, (int[]){3, 2, 1}, 3); /* in the old order */
    job_sum_works(survivors);
}

static void of_a_mesh(job_rank *me)
{
    weft_mesh *mesh = NULL;
    CHECK_OK(weft_mesh_create(me->world, "dp=2,tp=2", NULL, &mesh, NULL));
    weft_group *dp = weft_mesh_group(mesh, "dp"), *tp = weft_mesh_group(mesh, "tp");
    dies(me, 0, RANKS - 1);
    if (me->rank >= 2) job_sum_works(tp); /* untouched, and used for the first time */
    weft_group *survivors = shrink(dp);   /* never used */
    CHECK_INT(weft_group_size(survivors), me->rank == 2 ? 1 : 2);
    job_sum_works(survivors);
    survivors = shrink(weft_mesh_group(mesh, "dp,tp"));
    has_members(survivors, (int[]){1, 2, 3}, 3);
    job_sum_works(survivors);
    CHECK_OK(weft_mesh_free(mesh));
    job_sum_works(survivors);
}

static void after_an_abort(job_rank *me)
{
    static const int all[] = {0, 1, 2, 3};
    if (me->rank == 2) CHECK_OK(weft_group_abort(me->world, "enough"));
    weft_group *survivors = shrink(me->world);
    has_members(survivors, all, RANKS);
    job_sum_works(survivors);
    CHECK_STATUS(WEFT_ERR_CANCELLED, weft_group_status(me->world)); /* the first cause stays */
}

static void after_a_timeout(job_rank *me)
{
    static const int all[] = {0, 1, 2, 3};
    weft_call call = {.timeout_ms = JOB_SHORT_MS};
    job_meet(me);
    if (me->rank != 3) {
        weft_status status = weft_barrier(me->world, &call, NULL);
        if (status != WEFT_ERR_BROKEN)
            CHECK_INT(status, WEFT_ERR_TIMEOUT); /* or it has come too late for that */
        job_mark(me, 0);
    }
    job_await(me, 0, RANKS - 1);
    weft_group *survivors = shrink(me->world);
    has_members(survivors, all, RANKS);
    job_sum_works(survivors);
}

typedef struct again {
    weft_group *old, *made, *refused;
    weft_request *req;
    weft_status status[2];
} again;

static void told(weft_request *req, weft_status status, void *arg)
{
    again *a = arg;
    (void)req;
    (void)status;
    a->status[0] = weft_shrink_group(a->old, NULL, &a->refused, NULL); /* it would have to wait */
    a->status[1] = weft_shrink_group(a->old, NULL, &a->made, &a->req);
}

/* Nobody is dead: a fresh group of the same members; what was under way is broken, messages go on. */
static void healthy(job_rank *me)
{
    static const int all[] = {0, 1, 2, 3};
    weft_request *barrier = NULL, *receive = NULL;
    int32_t value = 0;
    if (me->rank == 0) {
        CHECK_OK(weft_barrier(me->world, NULL, &barrier));
        CHECK_OK(weft_irecv(me->world, &value, 1, WEFT_INT32, 1, 8, NULL, &receive));
    }
    job_meet(me);
    weft_group *survivors = shrink(me->world);
    has_members(survivors, all, RANKS);
    if (me->rank == 0) {
        WAIT_STATUS(WEFT_ERR_BROKEN, barrier);
        CHECK_TEXT(weft_request_message(barrier), "shrinks the group");
        weft_release(barrier);
    }
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, NULL));
    CHECK_TEXT(weft_last_error(), "shrinks the group");
    CHECK_STATUS(WEFT_ERR_CANCELLED, weft_group_status(me->world));
    job_sum_works(survivors);
    if (me->rank == 1) {
        value = 77;
        CHECK_OK(weft_isend(me->world, &value, 1, WEFT_INT32, 0, 8, NULL, NULL));
    }
    if (receive) {
        WAIT_OK(receive);
        CHECK_INT(value, 77);
    }
    job_meet(me); /* all have their sum */
    /* And from a callback, twice in a row on one group. */
    again a = {.old = survivors};
    weft_call call = {.done = told, .arg = &a, .label = "second"};
    weft_group *second = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_shrink_group(survivors, &call, &second, &req));
    CHECK(second && req);
    WAIT_OK(req);
    CHECK_STATUS(WEFT_ERR_STATE, a.status[0]);
    CHECK(!a.refused);
    CHECK_OK(a.status[1]);
    WAIT_OK(a.req);
    CHECK_INT(strcmp(weft_group_label(second), "second"), 0);
    job_sum_works(a.made);
    job_sum_works(second);
}

/* Who has not called it is told all the same: what it waits for will not come. */
static void of_one_that_others_wait_for(job_rank *me)
{
    weft_group *survivors = NULL;
    weft_request *req = NULL;
    job_sum_works(me->world);
    if (me->rank == 1) {
        job_await(me, 0, RANKS - 1);
        CHECK_OK(weft_shrink_group(me->world, NULL, &survivors, &req));
    } else {
        CHECK_OK(weft_barrier(me->world, NULL, &req));
        job_mark(me, 0);
        WAIT_STATUS(WEFT_ERR_BROKEN, req);
        CHECK_TEXT(weft_request_message(req), "rank 1 shrinks the group");
        weft_release(req);
        CHECK_OK(weft_shrink_group(me->world, NULL, &survivors, &req));
    }
    WAIT_OK(req);
    CHECK_INT(weft_group_size(survivors), RANKS);
    job_sum_works(survivors);
}

/* The end of the later one of two that wait is not that of the earlier one. */
static void two_at_once(job_rank *me)
{
    weft_group *made[2] = {NULL, NULL};
    weft_request *reqs[2] = {NULL, NULL};
    if (me->rank != 3) {
        for (int i = 0; i < 2; i++) CHECK_OK(weft_shrink_group(me->world, NULL, &made[i], &reqs[i]));
        job_mark(me, 0);
        job_await(me, 0, RANKS - 1);
        if (me->rank == 1) weft_cancel(reqs[1]);
        WAIT_STATUS(WEFT_ERR_CANCELLED, reqs[1]);
        weft_release(reqs[1]);
        CHECK_OK(weft_group_free(made[1]));
        CHECK_INT(weft_test(reqs[0]), WEFT_PENDING);
        job_mark(me, 1);
    } else {
        job_await(me, 1, RANKS - 1);
        CHECK_OK(weft_shrink_group(me->world, NULL, &made[0], &reqs[0]));
    }
    WAIT_OK(reqs[0]);
    CHECK_INT(weft_group_size(made[0]), RANKS);
    job_sum_works(made[0]);
}

/* ---- who does not come
 * ----------------------------------------------------------------------------------------- */

static void names_the_missing(job_rank *me)
{
    weft_call call = {.timeout_ms = JOB_SHORT_MS};
    weft_group *survivors = NULL, *before = NULL;
    weft_request *req = NULL;
    job_acquaint(me);
    if (me->rank != 2) {
        int64_t from = job_results(me, me->rank)[0] = job_now_ns();
        CHECK_OK(weft_shrink_group(me->world, &call, &survivors, &req));
        CHECK(survivors);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_PERIOD(job_earliest(me, 0), job_now_ns(), JOB_SHORT_MS, INT32_MAX);
        CHECK_PERIOD(from, job_now_ns(), 0, JOB_SHORT_MS + JOB_LATE_MS);
        CHECK_NAMES(weft_request_message(req), 1U << 2, me->size);
        CHECK(weft_group_status(survivors) < 0);
        CHECK_OK(weft_group_free(survivors));
        weft_release(req);
        job_mark(me, 0);
    } else { /* too late: told at once, and nothing is written */
        job_await(me, 0, RANKS - 1);
        int64_t from = job_now_ns();
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_shrink_group(me->world, NULL, &survivors, NULL));
        CHECK_PERIOD(from, job_now_ns(), 0, JOB_LATE_MS);
        CHECK(survivors == before);
    }
    survivors = shrink(me->world); /* and once more, together */
    CHECK_INT(weft_group_size(survivors), me->size);
    job_sum_works(survivors);
}

/* One that cancels, or aborts the group to be, ends the attempt for all. */
static void cancelled(job_rank *me)
{
    weft_group *survivors = NULL;
    weft_request *req = NULL;
    for (int round = 0; round < 2; round++) {
        if (me->rank == 3) {
            job_await(me, round, RANKS - 1);
        } else {
            CHECK_OK(weft_shrink_group(me->world, NULL, &survivors, &req));
            if (me->rank == 1 && round == 0) weft_cancel(req);
            if (me->rank == 1 && round == 1) CHECK_OK(weft_group_abort(survivors, "no"));
            WAIT_STATUS(WEFT_ERR_CANCELLED, req);
            weft_release(req);
            CHECK_OK(weft_group_free(survivors));
            job_mark(me, round);
        }
        if (me->rank == 3)
            CHECK_STATUS(WEFT_ERR_CANCELLED, weft_shrink_group(me->world, NULL, &survivors, NULL));
    }
    job_sum_works(shrink(me->world));
}

/* One that left does not count. */
static void without_one_that_left(job_rank *me)
{
    job_join(me);
    if (me->rank != 0) {
        weft_group *survivors = NULL;
        weft_call call = {.timeout_ms = JOB_WAIT_MS};
        CHECK_OK(weft_shrink_group(me->world, &call, &survivors, NULL));
        has_members(survivors, (int[]){1, 2, 3}, 3);
        job_sum_works(survivors);
    }
    job_leave(me);
}

static void refusals(job_rank *me)
{
    static const int ranks[] = {0, 1};
    weft_group *group = (weft_group *)me, *forming = NULL;
    weft_request *req = NULL, *other = NULL;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_shrink_group(NULL, NULL, &group, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_shrink_group(me->world, NULL, NULL, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT,
                 weft_shrink_group(me->world, &(weft_call){.timeout_ms = -2}, &group, NULL));
    if (me->rank == 0) {
        CHECK_OK(weft_new_group(me->world, ranks, 2, NULL, &forming, &req));
        CHECK_STATUS(WEFT_ERR_STATE, weft_shrink_group(forming, NULL, &group, &other));
        job_mark(me, 0);
    } else {
        job_await(me, 0, 1);
        CHECK_OK(weft_new_group(me->world, ranks, 2, NULL, &forming, &req));
    }
    CHECK(group == (weft_group *)me && !other);
    WAIT_OK(req);
    job_sum_works(me->world); /* a refused call breaks nothing */
}

/* ---- a lead that dies between two verdicts
 * ------------------------------------------------------------------------- */

static atomic_int verdicts_left = -1; /* of this rank, until it dies; below 0: it lives on */

/* In place of the C library's: the library's frames go through here.  A connection that is there has each
 * control message in a call of its own. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const weft__frame *frame = message->msg_iovlen ? message->msg_iov[0].iov_base : NULL;
    if (atomic_load(&verdicts_left) >= 0 && frame && message->msg_iov[0].iov_len == sizeof *frame &&
        frame->kind == WEFT__FRAME_CONTROL && frame->tag == WEFT__MESSAGE_SHRINK_READY &&
        atomic_fetch_sub(&verdicts_left, 1) == 0)
        raise(SIGKILL);
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* The lowest member tells the highest of the new group and dies before it tells the next lead, which has to
 * hear of it from the highest: all who get a group get that one. */
static void between_two_verdicts(job_rank *me)
{
    static const int backwards[] = {3, 2, 1, 0};
    weft_group *group = NULL, *survivors;
    job_setenv(me, "WEFT_TRANSPORT", "tcp"); /* what it sends can be counted there */
    job_join(me);
    CHECK_OK(weft_new_group(me->world, backwards, RANKS, NULL, &group, NULL));
    for (int to = 0; to < RANKS - 1; to++) job_message_works(group, RANKS - 1, to, to);
    for (int to = 0; to < RANKS - 1; to++) job_message_works(group, to, RANKS - 1, to);
    job_meet(me);
    if (me->rank == 0) atomic_store(&verdicts_left, 1);
    survivors = shrink(group);
    has_members(survivors, backwards, RANKS); /* the dead one was alive when it said so */
    CHECK_STATUS(WEFT_ERR_PEER, job_await_break(survivors, JOB_LATE_MS));
    survivors = shrink(survivors);
    has_members(survivors, backwards, RANKS - 1);
    job_sum_works(survivors);
}

/* One whose time is up tells the lowest member, which is stopped and then dies: the next one hears it too,
 * and ends what it waits for itself. */
static void given_up_to_a_dead_lead(job_rank *me)
{
    weft_group *survivors = NULL;
    weft_request *req = NULL;
    weft_call call = {.timeout_ms = JOB_SHORT_MS};
    const volatile int64_t *too_late = job_results(me, 2);
    int64_t until = job_now_ns() + JOB_WAIT_MS * 1000000LL;
    job_join(me);
    job_acquaint(me);
    for (int i = 1; i < RANKS; i++)
        for (int k = 1; k < i; k++)
            if (me->rank == i || me->rank == k) job_message_works(me->world, k, i, k);
    job_meet(me);
    if (me->rank == 1) {
        CHECK_OK(weft_shrink_group(me->world, NULL, &survivors, &req));
        job_stop(me, 0);
        job_mark(me, 0);
        while (!weft_is_completed(req) && !*too_late && job_now_ns() < until) job_sleep_ms(1);
        if (!*too_late) {
            CHECK_INT(weft_test(req), WEFT_ERR_TIMEOUT);
            CHECK(job_names(weft_request_message(req), 3)); /* and who has not been heard of to be dead */
        }
        weft_cancel(req);
        weft_release(req);
        job_mark(me, 1);
        job_await(me, 3, 1); /* once this rank has left, rank 2 would be all that is left, and succeed */
    } else if (me->rank == 2) {
        job_await(me, 0, 1);
        CHECK_OK(weft_shrink_group(me->world, &call, &survivors, &req));
        job_sleep_ms(JOB_SHORT_MS + SOON_MS); /* it has given up, and the lead's answer is not due yet */
        int64_t killed = job_now_ns();
        job_kill(me, 0);
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        /* On a loaded machine the death may have come too late for it. */
        job_results(me, 2)[0] = strstr(weft_request_message(req), "does not answer") &&
                                job_info(req).settled_ns < killed + SOON_MS * 1000000LL;
        weft_release(req);
        job_mark(me, 3);
        job_await(me, 1, 1);
    } else if (me->rank == 3) {
        job_await(me, 1, 1);
        job_await(me, 3, 1);
    } else {
        for (;;) job_sleep_ms(1000);
    }
    job_leave(me);
}

/* ---- ranks that die during it
 * -------------------------------------------------------------------------------------- */

static uint64_t members_of(weft_group *group)
{
    uint64_t mask = 0;
    for (int i = 0; i < weft_group_size(group); i++)
        mask = mask << 4 | (unsigned)weft_group_to_world(group, i);
    return mask << 4 | (unsigned)weft_group_size(group);
}

typedef struct many {
    uint64_t seed;
    int survivor;
} many;

/* Eight ranks become one.  In each round one dies at a random moment of the shrink; it may still be in what
 * the others get, but they all get the same, and when it is not, that works. */
static void eight_to_one(job_rank *me)
{
    const many *plan = me->arg;
    uint64_t seed = plan->seed, own = seed * 31 + (uint64_t)me->rank;
    int order[MANY]; /* of their deaths; the last one stays */
    weft_group *group = me->world;
    job_meet(me); /* the rank that serves the joining may be the first to die */
    for (int i = 0; i < MANY; i++) order[i] = (plan->survivor + 1 + i) % MANY;
    for (int i = MANY - 1; i-- > 1;) {
        int k = (int)(job_random(&seed) % (unsigned)(i + 1)), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (int round = 0; round < MANY - 1; round++) {
        int victim = order[round], living = MANY - 1 - round;
        if (me->rank == victim) {
            weft_request *req = NULL;
            weft_group *survivors = NULL;
            int64_t until = job_now_ns() + (int64_t)(job_random(&own) % 500000);
            CHECK_OK(weft_shrink_group(group, NULL, &survivors, &req));
            while (job_now_ns() < until) weft_is_completed(req);
            raise(SIGKILL);
        }
        job_sleep_ms((int64_t)(job_random(&own) % 2));
        group = shrink(group);
        job_results(me, me->rank)[round] = (int64_t)members_of(group);
        job_mark(me, round);
        job_await(me, round, living);
        for (int i = round + 1; i < MANY; i++)
            CHECK_INT(job_results(me, order[i])[round], job_results(me, me->rank)[round]);
        CHECK(weft_group_size(group) == living || weft_group_size(group) == living + 1);
        if (weft_group_size(group) == living) job_sum_works(group);
        job_mark(me, MANY + round); /* all have their sum before the next one breaks the group */
        job_await(me, MANY + round, living);
    }
    group = shrink(group);
    CHECK_INT(weft_group_size(group), 1);
    job_sum_works(group);
}

#define SHRINK(sentence, function) JOB_TEST(sentence, .ranks = RANKS, .body = function)
#define KILLED(sentence, function, ...) \
    JOB_TEST(sentence, .ranks = RANKS, .body = function, .killed = __VA_ARGS__)

#define EIGHT(seed, survivor)                                                     \
    JOB_TEST("eight become one, " #survivor, .ranks = MANY, .body = eight_to_one, \
             .arg = &(many){seed, survivor}, .killed = 0xffu & ~(1U << (survivor)))

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        KILLED("after a death", after_a_death, 1U << 1),
        KILLED("after the death of the lowest", after_the_lead, 1U << 0),
        KILLED("groups of a mesh", of_a_mesh, 1U << 0),
        SHRINK("after an abort", after_an_abort),
        SHRINK("after a timeout", after_a_timeout),
        SHRINK("nobody is dead", healthy),
        SHRINK("one that others wait for", of_one_that_others_wait_for),
        SHRINK("two at once", two_at_once),
        SHRINK("a timeout names who is missing", names_the_missing),
        SHRINK("cancelled and aborted", cancelled),
        JOB_TEST("one that left does not count", .ranks = RANKS, .body = without_one_that_left, .bare = true),
        KILLED("the lead dies between two verdicts", between_two_verdicts, 1U << 0, .bare = true),
        KILLED("given up, and the lead dies", given_up_to_a_dead_lead, 1U << 0, .bare = true),
        EIGHT(1, 7),
        EIGHT(2, 1),
        EIGHT(3, 4),
        EIGHT(4, 7),
        JOB_TEST("what is refused", .ranks = 2, .body = refusals),
    };
    return JOB_MAIN(tests, argc, argv);
}
