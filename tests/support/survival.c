/* survival.c - see survival.h. */
#include "survival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHRINKS_MOST = 12, /* of one rank: of some its time is up */
    CALM_SUMS = 5      /* by a group that goes on */
};

survival_parts survival_draw(const char *sizes, int ranks, uint64_t *words)
{
    survival_parts parts = {.size = ranks};
    int order[JOB_RANKS_MAX] = {0}, next = 0;
    for (int i = 0; i < ranks; i++) order[i] = i;
    for (int i = ranks - 1; i > 0; i--) {
        int k = (int)(job_random(words) % (unsigned)(i + 1)), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (int part = 0; sizes && sizes[part]; part++)
        for (int i = 0; i < sizes[part] - '0'; i++) parts.of[order[next++]] = part;
    return parts;
}

int64_t survival_members(weft_group *group)
{
    int64_t mask = 0;
    for (int i = 0; i < weft_group_size(group); i++) mask |= INT64_C(1) << weft_group_to_world(group, i);
    return mask;
}

weft_status survival_shrink(weft_group *group, weft_group **survivors, char *text, size_t bytes)
{
    weft_call call = {.timeout_ms = SURVIVAL_SHRINK_MS};
    weft_request *req = NULL;
    weft_status status;
    *survivors = NULL;
    CHECK_OK(weft_shrink_group(group, &call, survivors, &req));
    (void)weft_wait(req, JOB_WAIT_MS);
    status = weft_test(req);
    CHECK(status != WEFT_PENDING);
    snprintf(text, bytes, "%s", weft_request_message(req));
    weft_release(req);
    return status;
}

/* Counts the members for whom the parting is over, by their clocks: all get the same number; -1: it failed. */
static int calm_members(weft_group *group, int64_t calm_ns)
{
    weft_call call = {.timeout_ms = SURVIVAL_SUM_MS};
    int32_t in[2] = {1, job_now_ns() >= calm_ns}, out[2] = {0, 0};
    if (weft_all_reduce(group, in, out, 2, WEFT_INT32, WEFT_SUM, &call, NULL) != WEFT_OK) return -1;
    CHECK_INT(out[0], weft_group_size(group));
    return out[1];
}

/* Whoever has gone so far waits for the others of its group: that may break for them yet. */
static bool all_are_done(job_rank *me, weft_group *group, int64_t made)
{
    for (int i = 0; i < me->size; i++)
        if (survival_members(group) >> i & 1 &&
            (job_results(me, i)[SURVIVAL_MADE] != made || !job_results(me, i)[SURVIVAL_DONE]))
            return false;
    return true;
}

static bool is_calm(job_rank *me, weft_group *group, int64_t calm_ns, int64_t until)
{
    int64_t *told = job_results(me, me->rank), made = told[SURVIVAL_MADE];
    bool calm = false;
    for (int sums = 0, here = 0; sums < CALM_SUMS || here < weft_group_size(group); sums++) {
        here = calm_members(group, calm_ns);
        if (here < 0) return false;
        job_sleep_ms(5);
    }
    told[SURVIVAL_DONE] = 1;
    while (!calm && weft_group_status(group) == WEFT_OK && job_now_ns() < until) {
        calm = all_are_done(me, group, made);
        job_sleep_ms(1);
    }
    if (!calm) told[SURVIVAL_DONE] = 0;
    return calm;
}

static bool is_final(const char *text)
{
    return strstr(text, "the job goes on without this rank") || strstr(text, "WEFT_QUORUM=");
}

/* By a call that waits: in the time that an error of this rank's own takes. */
static void check_ends(const char *what, weft_status status, int64_t from_ns)
{
    if (getenv("SURVIVAL_TELLS")) printf("%s: %s\n", what, weft_last_error());
    if (status != WEFT_ERR_PEER || !strstr(weft_last_error(), "the job goes on without this rank (rank ") ||
        !strstr(weft_last_error(), ") since view ") || !strstr(weft_last_error(), " tells, for this rank "))
        job_fail(__FILE__, __LINE__, "%s by a rank that is left out: %s: %s", what, weft_status_name(status),
                 weft_last_error());
    CHECK_PERIOD(from_ns, job_now_ns(), 0, JOB_LATE_MS);
}

#define CHECK_ENDS(what, call)                 \
    do {                                       \
        const int64_t from_ns_ = job_now_ns(); \
        const weft_status status_ = (call);    \
        check_ends(what, status_, from_ns_);   \
    } while (0)

/* Whoever is told that the job goes on without it gets nothing done any more with anybody, those on its own host too, by
 * whichever operation, and each says why.  What it has for itself alone goes on. */
static void check_fenced(weft_group *group)
{
    const int size = weft_group_size(group), me = weft_group_rank(group);
    int all[JOB_RANKS_MAX] = {0};
    int32_t in = 1, out = 0;
    weft_group *next = NULL;
    CHECK_ENDS("barrier", weft_barrier(group, NULL, NULL));
    CHECK_ENDS("all_reduce", weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_ENDS("split", weft_split_group(group, 0, me, NULL, &next, NULL));
    CHECK_ENDS("shrink", weft_shrink_group(group, NULL, &next, NULL));
    for (int i = 0; i < size; i++) {
        all[i] = i;
        if (i == me) continue;
        CHECK_ENDS("isend", weft_isend(group, &in, 1, WEFT_INT32, i, 77, NULL, NULL));
        CHECK_ENDS("irecv", weft_irecv(group, &out, 1, WEFT_INT32, i, 77, NULL, NULL));
    }
    CHECK_ENDS("new_group", weft_new_group(group, all, size, NULL, &next, NULL));
    CHECK_INT(weft_group_dead(group, NULL, 0), size - 1);
    CHECK_OK(weft_new_group(group, &me, 1, NULL, &next, NULL));
    job_sum_works(next);
    CHECK_OK(weft_group_free(next));
}

weft_status survival_go_on(job_rank *me, int64_t calm_ns, char *text, size_t bytes)
{
    int64_t *told = job_results(me, me->rank), until = job_now_ns() + SURVIVAL_END_MS * INT64_C(1000000);
    weft_group *group = me->world, *next;
    weft_status status;
    for (int n = 0; n < SHRINKS_MOST; n++) {
        if (is_calm(me, group, calm_ns, until)) return WEFT_OK;
        CHECK(job_now_ns() < until);
        status = survival_shrink(group, &next, text, bytes);
        if (status == WEFT_OK) {
            CHECK(told[SURVIVAL_MADE] < SURVIVAL_GROUPS_MOST);
            told[SURVIVAL_GROUPS + told[SURVIVAL_MADE]] = survival_members(next);
            ++told[SURVIVAL_MADE];
            group = next;
        } else if (status == WEFT_ERR_PEER) {
            CHECK(is_final(text));
            if (strstr(text, "the job goes on without this rank")) check_fenced(group);
            return status;
        } else {
            CHECK_INT(status, WEFT_ERR_TIMEOUT); /* some have not come */
        }
    }
    return WEFT_ERR_TIMEOUT;
}

void survival_check_groups(job_rank *me)
{
    const int64_t *here = job_results(me, me->rank);
    for (int i = 0; i < me->size; i++) {
        const int64_t *there = job_results(me, i);
        for (int n = 0; n < here[SURVIVAL_MADE] && n < there[SURVIVAL_MADE]; n++)
            CHECK_INT(here[SURVIVAL_GROUPS + n], there[SURVIVAL_GROUPS + n]);
        if (here[SURVIVAL_STATUS] == WEFT_OK && there[SURVIVAL_STATUS] == WEFT_OK)
            CHECK_INT(here[SURVIVAL_MADE], there[SURVIVAL_MADE]);
    }
}

void survival_check_parts(job_rank *me, const survival_parts *parts, const char *text)
{
    int size = 0;
    for (int i = 0; i < me->size; i++) size += parts->of[i] == parts->of[me->rank];
    if (2 * size > me->size || (2 * size == me->size && parts->of[0] == parts->of[me->rank])) {
        if (job_results(me, me->rank)[SURVIVAL_STATUS] != WEFT_OK)
            job_fail(__FILE__, __LINE__, "the part of most ranks does not go on: %s", text);
        CHECK_INT(job_results(me, me->rank)[SURVIVAL_MADE] > 0, 1);
    } else {
        CHECK_INT(job_results(me, me->rank)[SURVIVAL_STATUS], WEFT_ERR_PEER);
        if (!parts->heard) CHECK_TEXT(text, "WEFT_QUORUM=majority");
    }
}

void survival_check_halves(job_rank *me, const survival_parts *parts, const char *text)
{
    int here = 0, all = 0;
    for (int i = 0; i < me->size; i++) {
        bool on = job_results(me, i)[SURVIVAL_STATUS] == WEFT_OK;
        all += on;
        here += on && parts->of[i] == parts->of[me->rank];
    }
    CHECK_INT(all, me->size / 2);
    if (here) {
        CHECK_INT(here, all);
    } else {
        CHECK_INT(job_results(me, me->rank)[SURVIVAL_STATUS], WEFT_ERR_PEER);
        CHECK_TEXT(text, "the job goes on without this rank");
    }
}
