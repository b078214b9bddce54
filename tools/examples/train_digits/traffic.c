/* traffic.c - see traffic.h. */
#include "traffic.h"
#include "check.h"

#include <stdio.h>

static const char *const nouns[SUM_KINDS] = {"outputs", "input gradient", "gradients"};

struct sum *traffic_start(struct traffic *t, enum sum_kind kind, int layer, weft_group *group, float *at,
                          size_t n)
{
    struct sum *sum;
    if (t->pace == PACE_LEFT_OUT || weft_group_size(group) == 1 || n == 0) return NULL;
    if (t->sums == SUMS_IN_A_STEP) fail("a step has more than %d sums", SUMS_IN_A_STEP);
    sum = &t->sum[t->sums++];
    *sum = (struct sum){.kind = kind, .bytes = n * sizeof(*at), .called_ns = now_ns()};
    snprintf(sum->label, sizeof(sum->label), "%s %d", nouns[kind], layer + 1);
    /* The label shows in Weft's own messages too, should this sum ever come to nothing. */
    check(weft_all_reduce(group, at, at, n, WEFT_FLOAT32, WEFT_SUM, &(weft_call){.label = sum->label},
                          &sum->request),
          sum->label);
    sum->returned_ns = now_ns();
    timeline_exposed(t->timeline, sum->called_ns, sum->returned_ns, sum->label);
    if (t->pace == PACE_ONE_BY_ONE) traffic_land(t, sum);
    return sum;
}

void traffic_land(struct traffic *t, struct sum *sum)
{
    weft_request_info info;
    int64_t before = now_ns(), after;
    if (!sum || !sum->request) return; /* nothing to do, or done */
    check(weft_wait(sum->request, WEFT_FOREVER), sum->label);
    after = now_ns();
    weft_request_get_info(sum->request, &info);
    weft_release(sum->request);
    sum->request = NULL;
    sum->settled_ns = info.settled_ns;
    if (info.settled_ns <= before) return;
    /* info.waited_ns is this wait up to the settling; the waking up after it costs this thread as much. */
    sum->wait_ns = before;
    sum->woken_ns = after;
    timeline_exposed(t->timeline, before, after, sum->label);
}

static int64_t end_of(const struct sum *sum)
{
    int64_t end = sum->settled_ns > sum->returned_ns ? sum->settled_ns : sum->returned_ns;
    return sum->woken_ns > end ? sum->woken_ns : end;
}

void traffic_end_step(struct traffic *t)
{
    struct traffic_account *account = &t->account[t->pace];
    int64_t in_flight = 0, all_exposed = 0, covered = 0; /* until there time has been counted */
    for (size_t i = 0; i < t->sums; i++) {
        const struct sum *sum = &t->sum[i];
        int64_t end = end_of(sum), from = sum->called_ns > covered ? sum->called_ns : covered;
        int64_t exposed = sum->returned_ns - sum->called_ns + sum->woken_ns - sum->wait_ns;
        account->kind[sum->kind].count++;
        account->kind[sum->kind].bytes += (int64_t)sum->bytes;
        account->kind[sum->kind].in_flight_ns += end - sum->called_ns;
        account->kind[sum->kind].exposed_ns += exposed;
        all_exposed += exposed;
        if (end > from) {
            in_flight += end - from;
            covered = end;
        }
        timeline_add(t->timeline, sum->kind == SUM_GRADIENTS ? SPAN_SUM_DP : SPAN_SUM_TP, sum->called_ns, end,
                     sum->label);
    }
    account->in_flight_ns += in_flight;
    account->exposed_ns += all_exposed;
    timeline_cost(t->timeline, in_flight, all_exposed);
    t->sums = 0;
}
