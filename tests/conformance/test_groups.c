/* test_groups.c - groups that come to be: new_group, split, host group, translation, freeing. */
#include "job.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum { SOME_GROUPS = 40, MANY_GROUPS = 10000 };

#define GROWTH_MOST ((size_t)512 << 10) /* of MANY_GROUPS that lose a request record each: 7 MB */

static weft_group *make_group(weft_group *parent, const int *ranks, int n, const char *label)
{
    weft_group *group = NULL;
    weft_call call = {.label = label, .timeout_ms = JOB_WAIT_MS};
    CHECK_OK(weft_new_group(parent, ranks, n, &call, &group, NULL));
    CHECK(group);
    CHECK_OK(weft_group_status(group));
    return group;
}

/* Only the members call; the others do not even know. */
static void members_only(job_rank *me)
{
    static const int ranks[] = {3, 1}; /* their order is the group's */
    if (me->rank % 2 == 0) {
        return;
    }
    weft_group *group = make_group(me->world, ranks, 2, "odd");
    CHECK_INT(weft_group_size(group), 2);
    CHECK_INT(weft_group_rank(group), me->rank == 3 ? 0 : 1);
    CHECK_INT(weft_group_to_world(group, 0), 3);
    CHECK_INT(weft_group_to_world(group, 1), 1);
    CHECK_INT(weft_group_to_world(group, 2), -1);
    CHECK_INT(weft_group_to_world(group, -1), -1);
    CHECK_INT(weft_group_from_world(group, 3), 0);
    CHECK_INT(weft_group_from_world(group, 1), 1);
    CHECK_INT(weft_group_from_world(group, 0), -1);
    CHECK_INT(weft_group_from_world(group, 99), -1);
    CHECK_INT(strcmp(weft_group_label(group), "odd"), 0);
    CHECK_INT(weft_group_dead(group, NULL, 0), 0);
    job_sum_works(group);
    job_message_works(group, 1, 0, 12); /* ranks of the group, not of the world */
    CHECK_OK(weft_group_free(group));
}

/* A ring of pairs, all in flight at once, waited for in reverse. */
static void overlapping(job_rank *me)
{
    int next = (me->rank + 1) % me->size, previous = (me->rank + me->size - 1) % me->size;
    int pairs[2][2] = {{me->rank, next}, {previous, me->rank}};
    weft_group *groups[2] = {NULL, NULL};
    weft_request *reqs[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_new_group(me->world, pairs[i], 2, NULL, &groups[i], &reqs[i]));
        CHECK(groups[i] && reqs[i]); /* written before the call returns */
        weft_status status = weft_group_status(groups[i]);
        CHECK(status == WEFT_OK || status == WEFT_PENDING);
    }
    for (int i = 2; i-- > 0;) WAIT_OK(reqs[i]);
    /* Even ranks use the pair to their right first, odd ones the pair to their left. */
    for (int i = 0; i < 2; i++) job_sum_works(groups[(i + me->rank) % 2]);
    for (int i = 0; i < 2; i++) CHECK_OK(weft_group_free(groups[i]));
    job_sum_works(me->world);
}

static void of_a_group(job_rank *me)
{
    static const int outer[] = {3, 2, 1}, inner[] = {2, 0}; /* ranks of the parent: world 1 and 3 */
    if (me->rank == 0) {
        return;
    }
    weft_group *parent = make_group(me->world, outer, 3, "outer");
    if (me->rank != 2) {
        weft_group *group = make_group(parent, inner, 2, "inner");
        CHECK_INT(weft_group_to_world(group, 0), 1);
        CHECK_INT(weft_group_to_world(group, 1), 3);
        job_sum_works(group);
    }
    job_sum_works(parent);
}

static void of_one(job_rank *me)
{
    int32_t in = 7, out = 0;
    weft_group *group = make_group(me->world, &me->rank, 1, NULL);
    CHECK_INT(weft_group_size(group), 1);
    CHECK_OK(weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(out, 7);
    CHECK_OK(weft_barrier(group, NULL, NULL));
}

/* Equal calls pair in order of submission: two groups of the same ranks are two groups. */
static void same_ranks_twice(job_rank *me)
{
    int ranks[JOB_RANKS_MAX];
    weft_group *groups[3] = {NULL};
    weft_request *reqs[3] = {NULL}, *sums[3] = {NULL};
    int32_t in[3], out[3];
    for (int i = 0; i < me->size; i++) ranks[i] = i;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_new_group(me->world, ranks, me->size, NULL, &groups[i], &reqs[i]));
    }
    CHECK_OK(weft_wait_all(reqs, 3, JOB_WAIT_MS));
    for (int i = 0; i < 3; i++) {
        int g = (i + me->rank) % 3; /* every rank begins with another one */
        in[g] = 10 * g + me->rank;
        CHECK_OK(weft_all_reduce(groups[g], &in[g], &out[g], 1, WEFT_INT32, WEFT_SUM, NULL, &sums[g]));
    }
    CHECK_OK(weft_wait_all(sums, 3, JOB_WAIT_MS));
    for (int i = 0; i < 3; i++) {
        CHECK_INT(out[i], 10 * i * me->size + me->size * (me->size - 1) / 2);
        weft_release(reqs[i]);
        weft_release(sums[i]);
    }
}

static void from_a_thread(job_rank *me, int thread, void *arg)
{
    char label[16];
    int ranks[JOB_RANKS_MAX];
    (void)arg;
    snprintf(label, sizeof label, "thread%d", thread);
    for (int i = 0; i < me->size; i++) ranks[i] = (i + thread) % me->size;
    for (int round = 0; round < 5; round++) {
        weft_group *group = make_group(me->world, ranks, me->size, label);
        CHECK_INT(strcmp(weft_group_label(group), label), 0);
        CHECK_INT(weft_group_to_world(group, 0), thread % me->size);
        for (int i = 0; i < 5; i++) job_sum_works(group);
        CHECK_OK(weft_group_free(group));
    }
}

/* Labels tell apart what several threads make in no common order. */
static void from_threads(job_rank *me)
{
    job_threads(me, 4, from_a_thread, NULL);
}

/* ---- split and the host's group ------------------------------------------------------------------------ */

static void split(job_rank *me)
{
    int color = me->rank == 4 ? -1 : me->rank % 2;
    weft_group *group = me->world;
    weft_request *req = NULL;
    weft_call call = {.label = "half"};
    CHECK_OK(weft_split_group(me->world, color, -me->rank, &call, &group, &req));
    WAIT_OK(req);
    if (color < 0) {
        CHECK(!group);
    } else {
        /* 0 and 2, 1 and 3: the keys turn their order round */
        CHECK_INT(weft_group_size(group), 2);
        CHECK_INT(weft_group_rank(group), me->rank < 2 ? 1 : 0);
        CHECK_INT(weft_group_to_world(group, 0), color + 2);
        CHECK_INT(weft_group_to_world(group, 1), color);
        job_sum_works(group);
    }
    job_sum_works(me->world);
}

/* Equal keys keep the order of the parent; a split is ordered with the parent's other collectives. */
static void split_among_others(job_rank *me)
{
    int32_t in = 1, out[2] = {0, 0};
    weft_group *group = NULL;
    weft_request *reqs[3] = {NULL};
    CHECK_OK(weft_all_reduce(me->world, &in, &out[0], 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[0]));
    CHECK_OK(weft_split_group(me->world, me->rank / 2, 5, NULL, &group, &reqs[1]));
    CHECK_OK(weft_all_reduce(me->world, &in, &out[1], 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[2]));
    CHECK_OK(weft_wait_all(reqs, 3, JOB_WAIT_MS));
    CHECK_INT(out[0], me->size);
    CHECK_INT(out[1], me->size);
    CHECK_INT(weft_group_rank(group), me->rank % 2);
    CHECK(!strcmp(weft_group_label(group), me->rank / 2 ? "world.1" : "world.0"));
    job_sum_works(group);
    for (int i = 0; i < 3; i++) weft_release(reqs[i]);
}

/* One without a label has its parent's, cut where that is too long, and its colour. */
static void split_labels(job_rank *me)
{
    enum { LONGEST = 63 };
    char name[LONGEST + 1] = "";
    weft_call call = {.label = name};
    weft_group *groups[3] = {NULL};
    memset(name, 'x', LONGEST);
    CHECK_OK(weft_split_group(me->world, 2147483647, 0, &call, &groups[0], NULL));
    CHECK(!strcmp(weft_group_label(groups[0]), name));
    CHECK_OK(weft_split_group(groups[0], 2147483647, 0, NULL, &groups[1], NULL));
    memcpy(name + LONGEST - 11, ".2147483647", 12);
    CHECK(!strcmp(weft_group_label(groups[1]), name));
    call.label = "";
    CHECK_OK(weft_split_group(me->world, 7, 0, &call, &groups[2], NULL));
    CHECK(!strcmp(weft_group_label(groups[2]), "world.7"));
    for (int i = 0; i < 3; i++) {
        job_sum_works(groups[i]);
        CHECK_OK(weft_group_free(groups[i]));
    }
}

static void host_group(job_rank *me)
{
    weft_group *host = weft_host_group(me->ctx);
    CHECK(host);
    CHECK_INT(weft_group_size(host), weft_local_size(me->ctx));
    CHECK_INT(weft_group_rank(host), weft_local_rank(me->ctx));
    CHECK_INT(weft_group_to_world(host, weft_group_rank(host)), me->rank);
    for (int i = 0; i < 3; i++) job_sum_works(host);
}

/* ---- freeing
 * ---------------------------------------------------------------------------------------------- */

/* Local, does not wait: what is pending finishes, then the group goes. */
static void freed_while_pending(job_rank *me)
{
    static const int ranks[] = {0, 1};
    int32_t value = 5, got = 0, in = 1, sum = 0;
    weft_request *receive = NULL, *reduce = NULL;
    weft_group *group = make_group(me->world, ranks, 2, "leaving");
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(group, &got, 1, WEFT_INT32, 1, 0, NULL, &receive));
        CHECK_OK(weft_all_reduce(group, &in, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &reduce));
        CHECK_OK(weft_group_free(group));
        CHECK_INT(weft_test(receive), WEFT_PENDING);
        job_mark(me, 0);
        WAIT_OK(reduce);
        WAIT_OK(receive);
        CHECK_INT(got, 5);
    } else {
        job_await(me, 0, 1);
        CHECK_OK(weft_all_reduce(group, &in, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
        CHECK_OK(weft_isend(group, &value, 1, WEFT_INT32, 0, 0, NULL, NULL));
        CHECK_OK(weft_group_free(group));
    }
    CHECK_INT(sum, 2);
    job_sum_works(me->world);
}

/* A group that is still being made may be freed: its request settles all the same. */
static void freed_while_made(job_rank *me)
{
    static const int ranks[] = {0, 1};
    weft_group *group = NULL;
    weft_request *req = NULL;
    weft_call call = {.timeout_ms = 300, .label = "never"};
    if (me->rank == 0) {
        CHECK_OK(weft_new_group(me->world, ranks, 2, &call, &group, &req));
        CHECK_OK(weft_group_free(group));
        CHECK(weft_wait(req, JOB_WAIT_MS) < 0); /* the other one never calls */
        weft_release(req);
    }
    job_meet(me);
    job_sum_works(me->world);
}

static void many_groups(job_rank *me)
{
    static const int ranks[] = {0, 1};
    for (int i = 0; i < 200; i++) {
        weft_group *group = make_group(me->world, ranks, 2, i % 2 ? "again" : NULL);
        job_sum_works(group);
        CHECK_OK(weft_group_free(group));
    }
}

/* One rank lets each go at once and makes the next, the others later; and each is used less than the one
 * before. */
static void one_after_the_other(job_rank *me)
{
    char first[64] = "";
    weft_group *before = NULL;
    for (int i = 0; i < SOME_GROUPS; i++) {
        weft_group *group = job_group(me, me->size, "next", 0);
        weft_request *req = NULL;
        int32_t mine = 1, sum = 0;
        for (int k = i; k < SOME_GROUPS; k++) CHECK_OK(weft_barrier(group, NULL, NULL));
        CHECK_OK(weft_all_reduce(group, &mine, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
        WAIT_STATUS(WEFT_OK, req);
        if (!i) snprintf(first, sizeof first, "%s", job_info(req).algorithm);
        CHECK(!strcmp(job_info(req).algorithm, first)); /* what the first had was given back in time */
        weft_release(req);
        CHECK_OK(weft_group_free(before));
        before = me->rank ? group : NULL;
        if (!me->rank) CHECK_OK(weft_group_free(group));
    }
    CHECK_OK(weft_group_free(before));
}

/* glibc's heap: a sanitizer's allocator shows nothing there. */
static void memory_is_used_again(job_rank *me)
{
    int many = JOB_SANITIZED ? 200 : MANY_GROUPS;
    size_t before = 0, after;
    for (int i = 0; i < 2 * many; i++) {
        if (i == many) before = mallinfo2().uordblks;
        CHECK_OK(weft_group_free(make_group(me->world, &me->rank, 1, NULL)));
    }
    after = mallinfo2().uordblks;
    if (after > before + GROWTH_MOST)
        job_fail(__FILE__, __LINE__, "%zu bytes more are in use after %d groups", after - before,
                 MANY_GROUPS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("members only", .ranks = 4, .body = members_only),
        JOB_TEST("overlapping, several in flight", .ranks = 4, .body = overlapping),
        JOB_TEST("of a group", .ranks = 4, .body = of_a_group),
        JOB_TEST("of one", .ranks = 2, .body = of_one),
        JOB_TEST("the same ranks twice", .ranks = 3, .body = same_ranks_twice),
        JOB_TEST("from several threads", .ranks = 3, .body = from_threads),
        JOB_TEST("split", .ranks = 5, .body = split),
        JOB_TEST("split among other collectives", .ranks = 4, .body = split_among_others),
        JOB_TEST("labels of splits", .ranks = 2, .body = split_labels),
        JOB_TEST("host group", .ranks = 3, .body = host_group),
        JOB_TEST("freed while pending", .ranks = 2, .body = freed_while_pending),
        JOB_TEST("freed while made", .ranks = 2, .body = freed_while_made),
        JOB_TEST("many groups", .ranks = 2, .body = many_groups),
        JOB_TEST("one after the other", .ranks = 3, .body = one_after_the_other),
        JOB_TEST("memory is used again", .ranks = 2, .body = memory_is_used_again),
    };
    return JOB_MAIN(tests, argc, argv);
}
