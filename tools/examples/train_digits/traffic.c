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
    *sum = (struct sum){.kind = kind, .bytes = n * sizeof(*at), .called = where->mark()};
    snprintf(sum->label, sizeof(sum->label), "%s %d", nouns[kind], layer + 1);
    /* The label shows in Weft's own messages too, should this sum ever come to nothing. */
    check(weft_all_reduce(group, at, at, n, WEFT_FLOAT32, WEFT_SUM,
                          &(weft_call){.stream = where->stream(), .label = sum->label}, &sum->request),
          sum->label);
    sum->returned = where->mark();
    timeline_exposed(t->timeline, sum->called, sum->returned, sum->label);
    if (t->pace == PACE_ONE_BY_ONE) traffic_land(t, sum);
    return sum;
}

void traffic_land(struct traffic *t, struct sum *sum)
{
    if (!sum || sum->landed) return; /* nothing to do, or done */
    sum->landed = true;
    if (weft_is_completed(sum->request)) return;
    sum->wait = where->mark();
    check(where->await(sum->request), sum->label);
    sum->woken = where->mark();
    timeline_exposed(t->timeline, sum->wait, sum->woken, sum->label);
}

/* Its times. */
struct times {
    int64_t called, end, exposed;
};

static struct times times_of(const struct sum *sum, int64_t settled)
{
    int64_t returned = where->time_of(sum->returned), woken = where->time_of(sum->woken);
    struct times times = {.called = where->time_of(sum->called), .end = settled};
    times.exposed = returned - times.called + woken - where->time_of(sum->wait);
    if (returned > times.end) times.end = returned;
    if (woken > times.end) times.end = woken;
    return times;
}

/* Whoever only had the stream wait has not seen yet whether it went well. */
static int64_t close_request(struct sum *sum)
{
    weft_request_info info;
    check(weft_wait(sum->request, WEFT_FOREVER), sum->label);
    weft_request_get_info(sum->request, &info);
    weft_release(sum->request);
    return info.settled_ns;
}

void traffic_end_step(struct traffic *t)
{
    struct traffic_account *account = &t->account[t->pace];
    int64_t in_flight = 0, all_exposed = 0, covered = 0; /* until there time has been counted */
    int64_t settled[SUMS_IN_A_STEP];
    for (size_t i = 0; i < t->sums; i++) settled[i] = close_request(&t->sum[i]);
    where->settle();
    for (size_t i = 0; i < t->sums; i++) {
        const struct sum *sum = &t->sum[i];
        struct times times = times_of(sum, settled[i]);
        int64_t from = times.called > covered ? times.called : covered;
        account->kind[sum->kind].count++;
        account->kind[sum->kind].bytes += (int64_t)sum->bytes;
        account->kind[sum->kind].in_flight_ns += times.end - times.called;
        account->kind[sum->kind].exposed_ns += times.exposed;
        all_exposed += times.exposed;
        if (times.end > from) {
            in_flight += times.end - from;
            covered = times.end;
        }
        timeline_add(t->timeline, sum->kind == SUM_GRADIENTS ? SPAN_SUM_DP : SPAN_SUM_TP, times.called,
                     times.end, sum->label);
    }
    account->in_flight_ns += in_flight;
    account->exposed_ns += all_exposed;
    timeline_cost(t->timeline, in_flight, all_exposed);
    t->sums = 0;
}
