/* test_uneven.c - the _v forms where they are refused, where ranks disagree, and at their edges.  That they
 * move and reduce the right elements is tested together with all other collectives. */
#include "collective.h"
#include "device.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 3 };

/* ---- refused calls ------------------------------------------------------------------------------------- */

static void refused(job_rank *me, weft_status status, const char *words)
{
    (void)me;
    CHECK_INT(status, WEFT_ERR_ARGUMENT);
    CHECK_TEXT(weft_last_error(), words);
}

/* All of them before they are numbered, so the group stays as it is. */
static void arguments(job_rank *me)
{
    weft_group *g = me->world;
    weft_request *req = NULL;
    int8_t in[16] = {0}, out[16] = {0};
    const size_t ones[] = {1, 1, 1}, twos[] = {2, 2, 2}, apart[] = {0, 2, 4}, hit[] = {4, 0, 1};
    const size_t huge[] = {1, SIZE_MAX - 1, 1}, far[] = {0, SIZE_MAX, 4}, mixed[] = {1, 2, 3};
    size_t mine = mixed[me->rank];
    refused(me, weft_all_gather_v(g, in, 1, out, NULL, NULL, WEFT_INT8, NULL, &req), "counts is NULL");
    refused(me, weft_all_gather_v(g, in, 2, out, ones, NULL, WEFT_INT8, NULL, &req), "count is 2");
    refused(me, weft_all_gather_v(g, in, 2, out, twos, hit, WEFT_INT8, NULL, &req), "rank 1");
    CHECK_TEXT(weft_last_error(), "rank 2");
    CHECK_TEXT(weft_last_error(), "overlap");
    refused(me, weft_all_gather_v(g, in, mine, out, huge, NULL, WEFT_INT8, NULL, &req), "rank 1's block");
    refused(me, weft_all_gather_v(g, in, 1, out, ones, far, WEFT_INT8, NULL, &req), "rank 1's block");
    refused(me, weft_all_gather_v(g, NULL, 1, out, ones, NULL, WEFT_INT8, NULL, &req), "in is NULL");
    refused(me, weft_all_gather_v(g, in, 1, NULL, ones, NULL, WEFT_INT8, NULL, &req), "out is NULL");
    refused(me, weft_all_gather_v(g, out + (me->rank + 1) % 3, 1, out, ones, NULL, WEFT_INT8, NULL, &req),
            "in == out + displs[rank]");
    refused(me, weft_gather_v(g, in, 1, out, ones, NULL, WEFT_INT8, RANKS, NULL, &req), "root is 3");
    refused(me, weft_reduce_scatter_v(g, in, out, NULL, WEFT_INT8, WEFT_SUM, NULL, &req), "counts is NULL");
    refused(me, weft_reduce_scatter_v(g, in, in + 5, mixed, WEFT_INT8, WEFT_SUM, NULL, &req),
            "out == in + displs[rank]");
    refused(me, weft_all_to_all_v(g, in, ones, NULL, out, NULL, NULL, WEFT_INT8, NULL, &req),
            "out_counts is NULL");
    refused(me, weft_all_to_all_v(g, in, ones, NULL, out, twos, NULL, WEFT_INT8, NULL, &req), "in_counts[");
    refused(me, weft_all_to_all_v(g, in, twos, apart, in, twos, apart, WEFT_INT8, NULL, &req), "overlap");
    CHECK(!req);
    if (me->rank == 0) {
        refused(me, weft_gather_v(g, in, 1, out, NULL, NULL, WEFT_INT8, 0, NULL, &req), "counts is NULL");
        refused(me, weft_gather_v(g, in, 2, out, ones, NULL, WEFT_INT8, 0, NULL, &req), "counts[0] is 1");
        refused(me, weft_scatter_v(g, in, ones, NULL, out, 2, WEFT_INT8, 0, NULL, &req), "counts[0] is 1");
    }
    job_sum_works(g);
}

/* ---- edges
 * ----------------------------------------------------------------------------------------------- */

/* Blocks that overlap in an input go to their ranks all the same. */
static void overlapping_inputs(job_rank *me)
{
    const int8_t in[] = {1, 2, 3, 4};
    const size_t counts[] = {2, 3, 1}, displs[] = {0, 1, 1};
    int8_t *sent = job_buffer(me, sizeof in), *out = job_buffer(me, 3), got[3];
    job_put(sent, in, sizeof in);
    CHECK_OK(weft_scatter_v(me->world, me->rank == 1 ? sent : NULL, me->rank == 1 ? counts : NULL,
                            me->rank == 1 ? displs : NULL, out, counts[me->rank], WEFT_INT8, 1, NULL, NULL));
    job_get(got, out, sizeof got);
    CHECK_INT(memcmp(got, in + displs[me->rank], counts[me->rank]), 0);
}

/* The input may stand in a gap of the output. */
static void input_in_a_gap(job_rank *me)
{
    int8_t image[] = {0, 0, 0, (int8_t)(me->rank + 1), 0}, *buffer = job_buffer(me, sizeof image);
    const size_t counts[] = {1, 1, 1}, displs[] = {4, 2, 0};
    job_put(buffer, image, sizeof image);
    CHECK_OK(weft_all_gather_v(me->world, buffer + 3, 1, buffer, counts, displs, WEFT_INT8, NULL, NULL));
    const int8_t expected[] = {3, 0, 2, (int8_t)(me->rank + 1), 1};
    job_get(image, buffer, sizeof image);
    CHECK_INT(memcmp(image, expected, sizeof expected), 0);
}

static void nothing_at_all(job_rank *me)
{
    const size_t none[RANKS] = {0};
    weft_group *g = me->world;
    weft_call call = {.memory = job_memory()};
    CHECK_OK(weft_all_gather_v(g, NULL, 0, NULL, none, NULL, WEFT_INT8, &call, NULL));
    CHECK_OK(weft_gather_v(g, NULL, 0, NULL, none, none, WEFT_INT8, 2, &call, NULL));
    CHECK_OK(weft_scatter_v(g, NULL, none, none, NULL, 0, WEFT_INT8, 2, &call, NULL));
    CHECK_OK(weft_reduce_scatter_v(g, NULL, NULL, none, WEFT_INT8, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_all_to_all_v(g, NULL, none, NULL, NULL, none, NULL, WEFT_INT8, &call, NULL));
}

/* Groups that cost nothing until they are used: whichever kind comes first. */
static void first_on_a_group(job_rank *me)
{
    for (int uneven_first = 0; uneven_first < 2; uneven_first++) {
        weft_group *group = NULL;
        CHECK_OK(weft_split_group(me->world, 0, 0, NULL, &group, NULL));
        for (int i = 0; i < 6; i++) {
            collective what = {.kind = (i + uneven_first) % 2 ? ALL_GATHER_V : ALL_GATHER,
                               .dtype = WEFT_INT16,
                               .op = WEFT_SUM,
                               .count = 40,
                               .seed = (uint64_t)i};
            collective_run(group, &what);
        }
        CHECK_OK(weft_group_free(group));
    }
}

/* What agrees by messages stands before what agrees in shared memory, and may be later: a module is given them in their
 * order all the same. */
static void both_ways(job_rank *me)
{
    enum { PAIRS = 50 };
    static const size_t ones[RANKS] = {1, 1, 1};
    weft_request *reqs[2 * PAIRS] = {NULL};
    job_setenv(me, "WEFT_ALGORITHM", "barrier:dissemination");
    job_join(me);
    int32_t *numbers = job_alloc(me, sizeof(int32_t) * PAIRS * 2 * (1 + RANKS));
    for (int i = 0; i < PAIRS; i++) {
        int32_t *at = numbers + (size_t)i * 2 * (1 + RANKS);
        at[0] = i + me->rank;
        for (int to = 0; to < RANKS; to++) at[2 + to] = 100 * i + 10 * me->rank + to;
        CHECK_OK(weft_all_reduce(me->world, at, at + 1, 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[2 * i]));
        CHECK_OK(weft_all_to_all_v(me->world, at + 2, ones, NULL, at + 2 + RANKS, ones, NULL, WEFT_INT32,
                                   NULL, &reqs[2 * i + 1]));
    }
    for (int i = 2 * PAIRS; i--;) {
        WAIT_OK(reqs[i]);
        weft_release(reqs[i]);
    }
    for (int i = 0; i < PAIRS; i++) {
        const int32_t *at = numbers + (size_t)i * 2 * (1 + RANKS);
        CHECK_INT(at[1], RANKS * i + RANKS * (RANKS - 1) / 2);
        for (int from = 0; from < RANKS; from++)
            CHECK_INT(at[2 + RANKS + from], 100 * i + 10 * from + me->rank);
    }
}

/* There one side waits for the other's rows, and the other has none to tell. */
static void first_differs(job_rank *me)
{
    const size_t counts[] = {1, 1, 1};
    for (int odd = 0; odd < RANKS; odd++) {
        weft_group *group = NULL;
        weft_request *req = NULL;
        int8_t *in = job_buffer(me, 1), *out = job_buffer(me, RANKS);
        CHECK_OK(weft_split_group(me->world, 0, 0, NULL, &group, NULL));
        weft_status status = me->rank == odd
                                 ? weft_all_gather(group, in, out, 1, WEFT_INT8, NULL, &req)
                                 : weft_all_gather_v(group, in, 1, out, counts, NULL, WEFT_INT8, NULL, &req);
        status = status == WEFT_OK ? weft_wait(req, JOB_WAIT_MS) : status;
        CHECK(status == WEFT_ERR_MISMATCH || status == WEFT_ERR_BROKEN);
        CHECK_TEXT(status == WEFT_ERR_MISMATCH ? weft_request_message(req) : weft_last_error(),
                   "all_gather_v");
        CHECK_STATUS(WEFT_ERR_MISMATCH, job_await_break(group, job_late_ms()));
        weft_release(req);
        CHECK_OK(weft_group_free(group));
        job_meet(me); /* nobody leaves before all were told */
    }
}

static void messages(job_rank *me)
{
    const size_t counts[] = {1024, 1024, 1024};
    float *in = job_buffer(me, sizeof *in * 1024), *out = job_buffer(me, sizeof *out * 3072);
    weft_request *req = NULL;
    CHECK_OK(weft_all_gather_v(me->world, in, 1024, out, counts, NULL, WEFT_FLOAT32, NULL, &req));
    CHECK_TEXT(weft_request_message(req), "all_gather_v #");
    CHECK_TEXT(weft_request_message(req), "(12 KiB float32)");
    CHECK_INT(job_info(req).bytes, 12288);
    CHECK_TEXT(job_info(req).operation, "all_gather_v");
    WAIT_OK(req);
}

/* ---- two ranks of one block
 * ------------------------------------------------------------------------------ */

typedef struct difference {
    collective_kind kind;
    size_t sent, expected; /* between rank 1 and rank 2 */
} difference;

static weft_status submit(weft_group *g, const difference *d, int8_t *in, int8_t *out, weft_request **req)
{
    size_t usual = 5;
    int rank = weft_group_rank(g);
    size_t ins[RANKS] = {usual, usual, usual}, outs[RANKS] = {usual, usual, usual};
    if (d->kind == ALL_TO_ALL_V) {
        if (rank == 1) ins[2] = d->sent;
        if (rank == 2) outs[1] = d->expected;
        return weft_all_to_all_v(g, in, ins, NULL, out, outs, NULL, WEFT_INT8, NULL, req);
    }
    if (d->kind == GATHER_V) { /* to rank 2 */
        outs[1] = d->expected;
        return weft_gather_v(g, in, rank == 1 ? d->sent : usual, out, outs, NULL, WEFT_INT8, 2, NULL, req);
    }
    ins[2] = d->sent; /* scatter_v from rank 1 */
    return weft_scatter_v(g, in, ins, NULL, out, rank == 2 ? d->expected : usual, WEFT_INT8, 1, NULL, req);
}

static void pair_differs(job_rank *me)
{
    const difference *d = me->arg;
    weft_group *group = job_group(me, RANKS, "divided", 0);
    size_t room = (d->sent > d->expected ? d->sent : d->expected) + 100;
    int8_t *in = job_buffer(me, room), *out = job_buffer(me, room);
    char numbers[2][32];
    weft_request *req = NULL;
    weft_status status = submit(group, d, in, out, &req);
    for (int i = 0; i < 2; i++) snprintf(numbers[i], sizeof numbers[i], "%zu ", i ? d->expected : d->sent);
    if (status != WEFT_OK) {
        CHECK_INT(status, WEFT_ERR_BROKEN); /* the others had found out before this rank came */
        CHECK(me->rank == 0);
    } else {
        status = weft_wait(req, JOB_WAIT_MS);
        CHECK(status == WEFT_ERR_MISMATCH || (status == WEFT_OK && me->rank != 2));
    }
    if (status == WEFT_ERR_MISMATCH) {
        const char *message = weft_request_message(req);
        CHECK_TEXT(message, "rank 1 sends ");
        CHECK_TEXT(message, "to rank 2, which expects ");
        CHECK_TEXT(message, numbers[0]);
        CHECK_TEXT(message, numbers[1]);
    }
    CHECK_STATUS(WEFT_ERR_MISMATCH, job_await_break(group, job_late_ms()));
    weft_release(req);
    job_sum_works(me->world);
}

#define DIFFERS(sentence, kind, sent, expected) \
    JOB_TEST(sentence, .ranks = RANKS, .body = pair_differs, .arg = &(const difference){kind, sent, expected})

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("arguments", .ranks = RANKS, .body = arguments),
        JOB_TEST("overlapping inputs", .ranks = RANKS, .body = overlapping_inputs),
        JOB_TEST("input in a gap", .ranks = RANKS, .body = input_in_a_gap),
        JOB_TEST("nothing at all", .ranks = RANKS, .body = nothing_at_all),
        JOB_TEST("first on a group", .ranks = RANKS, .body = first_on_a_group),
        JOB_TEST("first on a group, and they differ", .ranks = RANKS, .body = first_differs),
        JOB_TEST("agreed on by both ways", .ranks = RANKS, .processes = true, .bare = true,
                 .body = both_ways),
        JOB_TEST("messages", .ranks = RANKS, .body = messages),
        DIFFERS("all_to_all_v sends less", ALL_TO_ALL_V, 7, 9),
        DIFFERS("all_to_all_v sends nothing", ALL_TO_ALL_V, 0, 9),
        DIFFERS("all_to_all_v sends more", ALL_TO_ALL_V, 9, 7),
        DIFFERS("all_to_all_v sends much more", ALL_TO_ALL_V, 1000003, 7),
        DIFFERS("all_to_all_v sends much less", ALL_TO_ALL_V, 1000003, 2000003),
        DIFFERS("gather_v sends less", GATHER_V, 7, 9),
        DIFFERS("gather_v sends what is not expected", GATHER_V, 7, 0),
        DIFFERS("gather_v sends much more", GATHER_V, 1000003, 9),
        DIFFERS("scatter_v sends less", SCATTER_V, 7, 9),
        DIFFERS("scatter_v sends more", SCATTER_V, 1000004, 1000003),
    };
    return JOB_MAIN(tests, argc, argv);
}
