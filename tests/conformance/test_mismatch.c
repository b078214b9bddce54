/* test_mismatch.c - ranks that disagree: everyone is told who passed what, the group breaks, the rest goes
 * on.
 *
 * Rank 1 is the odd one.  A rank that had what it needed before the difference was seen may keep its OK
 * ("OK speaks for this rank alone"); whoever had not settled gets ERR_MISMATCH. */
#include "collective.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, COUNT = 30 };

typedef struct disagreement {
    collective usual, odd;
    const char *values[2]; /* what both passed, as a message must tell it */
    bool certain;          /* no rank can be done without rank 1's matching part */
} disagreement;

#define WHAT(kind, dtype, op, count, root)            \
    {                                                 \
        kind, dtype, op, count, root, false, 0, false \
    }
#define MOVED(kind, count, root) WHAT(kind, WEFT_INT8, WEFT_SUM, count, root)

static const disagreement operation = {MOVED(ALL_REDUCE, COUNT, 0),
                                       MOVED(REDUCE_SCATTER, COUNT, 0),
                                       {"all_reduce", "reduce_scatter"},
                                       true};
static const disagreement barrier = {MOVED(BARRIER, 0, 0),
                                     MOVED(ALL_REDUCE, COUNT, 0),
                                     {"barrier", "all_reduce"},
                                     true};
static const disagreement count = {MOVED(ALL_REDUCE, COUNT, 0), MOVED(ALL_REDUCE, 50, 0), {"30", "50"}, true};
static const disagreement large_count = {MOVED(ALL_REDUCE, 3000000, 0),
                                         MOVED(ALL_REDUCE, 50, 0),
                                         {"rank", "rank"},
                                         true};
static const disagreement gathered_count = {MOVED(ALL_GATHER, COUNT, 0),
                                            MOVED(ALL_GATHER, 50, 0),
                                            {"30", "50"},
                                            true};
static const disagreement type = {WHAT(ALL_REDUCE, WEFT_INT32, WEFT_SUM, COUNT, 0),
                                  WHAT(ALL_REDUCE, WEFT_FLOAT32, WEFT_SUM, COUNT, 0),
                                  {"int32", "float32"},
                                  true};
static const disagreement empty_type = {WHAT(ALL_REDUCE, WEFT_INT32, WEFT_SUM, 0, 0),
                                        WHAT(ALL_REDUCE, WEFT_FLOAT32, WEFT_SUM, 0, 0),
                                        {"int32", "float32"},
                                        false};
static const disagreement reduction = {WHAT(ALL_REDUCE, WEFT_INT8, WEFT_SUM, COUNT, 0),
                                       WHAT(ALL_REDUCE, WEFT_INT8, WEFT_MAX, COUNT, 0),
                                       {"sum", "max"},
                                       true};
static const disagreement broadcast_root = {MOVED(BROADCAST, COUNT, 0),
                                            MOVED(BROADCAST, COUNT, 1),
                                            {"0", "1"},
                                            false};
static const disagreement reduce_root = {MOVED(REDUCE, COUNT, 0), MOVED(REDUCE, COUNT, 1), {"0", "1"}, false};
static const disagreement broadcast_count = {MOVED(BROADCAST, COUNT, 0),
                                             MOVED(BROADCAST, 50, 0),
                                             {"30", "50"},
                                             false};

/* Rounds in shared memory on one side, messages on the other. */
static const disagreement uneven = {MOVED(ALL_GATHER, COUNT, 0),
                                    MOVED(ALL_GATHER_V, COUNT, 0),
                                    {"all_gather of", "all_gather_v"},
                                    true};
static const disagreement even = {MOVED(REDUCE_SCATTER_V, COUNT, 0),
                                  MOVED(ALL_REDUCE, COUNT, 0),
                                  {"reduce_scatter_v", "all_reduce"},
                                  true};
static const disagreement uneven_root = {MOVED(GATHER_V, COUNT, 0),
                                         MOVED(GATHER_V, COUNT, 1),
                                         {"root 0", "root 1"},
                                         false};
static const disagreement uneven_barrier = {MOVED(SCATTER_V, COUNT, 0),
                                            MOVED(BARRIER, 0, 0),
                                            {"scatter_v", "barrier"},
                                            true};
static const disagreement uneven_counts = {MOVED(ALL_GATHER_V, COUNT, 0),
                                           MOVED(ALL_GATHER_V, 50, 0),
                                           {"all_gather_v of ", "in blocks "},
                                           true};

static const disagreement memory = {MOVED(ALL_REDUCE, COUNT, 0),
                                    {ALL_REDUCE, WEFT_INT8, WEFT_SUM, COUNT, 0, false, 0, true},
                                    {"(sum) in device memory", "(sum)"},
                                    true};

static void check_told(job_rank *me, const char *message, const disagreement *d)
{
    CHECK_TEXT(message, d->values[0]);
    CHECK_TEXT(message, d->values[1]);
    CHECK(me->rank == 1 ? strstr(message, "rank ") != NULL : job_names(message, 1));
}

static void check_broken(weft_group *group)
{
    weft_request *req = NULL;
    CHECK(job_await_break(group, job_late_ms()) < 0);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group, NULL, &req));
    CHECK(!req);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group, NULL, NULL));
    CHECK(strlen(weft_last_error()) > 0);
}

/* How the operation ended on which they disagree, and what came after it. */
static weft_status ends_badly(job_rank *me, weft_group *group, running *first)
{
    const disagreement *d = me->arg;
    running later;
    collective agreed = MOVED(BARRIER, 0, 0);
    weft_status begun = collective_submit(first, group, me->rank == 1 ? &d->odd : &d->usual, NULL);
    if (begun != WEFT_OK) { /* the others had found out before this rank came */
        CHECK(me->rank != 1);
        CHECK_INT(begun, WEFT_ERR_BROKEN);
        check_told(me, weft_last_error(), d);
        return begun;
    }
    weft_status refused = collective_submit(&later, group, &agreed, NULL);
    weft_status status = weft_wait(first->req, JOB_WAIT_MS);
    CHECK(status == WEFT_ERR_MISMATCH || (status == WEFT_OK && !d->certain));
    if (status == WEFT_ERR_MISMATCH) {
        check_told(me, weft_request_message(first->req), d);
    }
    if (refused == WEFT_OK) {
        /* Numbered after the difference: told the cause, or that the group is broken, or done before. */
        weft_status second = weft_wait(later.req, JOB_WAIT_MS);
        CHECK(second == WEFT_ERR_MISMATCH || second == WEFT_ERR_BROKEN || second == WEFT_OK);
        collective_drop(&later);
    } else {
        CHECK_INT(refused, WEFT_ERR_BROKEN);
    }
    return status;
}

/* In program order members of several hosts compare afterwards: all of them may have ended what they differ in. */
static bool all_may_have_ended(void)
{
    const char *order = getenv("WEFT_DEVICE_ORDER");
    return job_on_device() && order && !strcmp(order, "program") && getenv("JOB_HOSTS");
}

static void disagree(job_rank *me)
{
    running first;
    weft_group *group = job_group(me, RANKS, "divided", 0), *other = job_group(me, RANKS, "united", 0);
    job_results(me, me->rank)[0] = ends_badly(me, group, &first);
    check_broken(group);
    collective_drop(&first);
    job_meet(me);
    CHECK(job_results(me, 0)[0] < 0 || job_results(me, 1)[0] < 0 || job_results(me, 2)[0] < 0 ||
          all_may_have_ended());
    job_sum_works(other);
    job_sum_works(me->world);
    job_message_works(group, 0, 2, 4); /* point to point goes on, with the odd one too */
    job_message_works(group, 1, 0, 5);
}

/* Rank 1 passes host memory. */
static void kind_of_memory(job_rank *me)
{
    disagreement here = memory;
    if (!job_on_device()) {
        return;
    }
    if (job_memory() == WEFT_MEMORY_OTHER) {
        here.values[0] = "(sum) in other memory";
    }
    me->arg = &here;
    disagree(me);
}

#define ROW(sentence, what) JOB_TEST(sentence, .ranks = RANKS, .body = disagree, .arg = &(what))

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ROW("operation", operation),
        ROW("barrier or not", barrier),
        ROW("count", count),
        ROW("large against small count", large_count),
        ROW("count of all_gather", gathered_count),
        ROW("type", type),
        ROW("type of nothing", empty_type),
        ROW("reduction", reduction),
        ROW("root of broadcast", broadcast_root),
        ROW("root of reduce", reduce_root),
        ROW("count of broadcast", broadcast_count),
        ROW("even and uneven", uneven),
        ROW("uneven and even", even),
        ROW("root of gather_v", uneven_root),
        ROW("uneven and barrier", uneven_barrier),
        ROW("counts of all_gather_v", uneven_counts),
        JOB_TEST("kind of memory", .ranks = RANKS, .body = kind_of_memory, .arg = &memory),
    };
    return JOB_MAIN(tests, argc, argv);
}
