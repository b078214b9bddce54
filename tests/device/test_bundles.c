/* test_bundles.c - messages of one batch that devices get in one call: how many calls there are, and what
 * becomes of those that go together when one of them does not. */
#include "device.h"

#include <string.h>
#include <weft/cuda.h>

enum {
    SHORT_MS = 300 * JOB_SLOWER,
    MANY = 32,
    MOST = 300, /* more than go in two calls */
    LARGE = 4 << 20
};

/* What goes over which communicator: over the group's there is one for all. */
static weft_group *group_of(job_rank *me, bool shared)
{
    weft_group *group = job_group(me, me->size, "bundles", 0);
    if (shared) {
        job_sum_works(group);
        job_meet(me); /* before one of them breaks it, which would end the others' sum */
    }
    return group;
}

enum { CALLED }; /* marks */

static uint64_t calls(void)
{
    return device_is_emulated() ? device()->emu_calls("ncclGroupEnd") : 0;
}

/* ---- a plan, by one of its sides --------------------------------------------------------------------- */

static int32_t value_of(int from, int tag)
{
    return from * 100000 + tag;
}

typedef struct side {
    job_rank *me;
    weft_group *group;
    int32_t *values; /* of message i of the plan: &values[i] */
    weft_batch *batch;
    bool may_break; /* somebody ends what is under way, and the group with it */
} side;

static side side_of(job_rank *me, weft_group *group, int n)
{
    return (side){.me = me, .group = group, .values = job_buffer(me, (size_t)n * sizeof(int32_t))};
}

static bool may_end_so(weft_status status)
{
    return status == WEFT_ERR_CANCELLED || status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_BROKEN;
}

static void check_begun(const side *s, weft_status status)
{
    if (!s->may_break || !may_end_so(status)) CHECK_OK(status);
}

/* No batch of a group that has broken: then what follows is refused singly. */
static void begin(side *s)
{
    check_begun(s, weft_batch_begin(s->group, &s->batch));
}

/* Joins the batch if there is one. */
static void put(side *s, int i, int peer, int tag, weft_request **req)
{
    weft_call call = {.stream = WEFT_NO_STREAM, .batch = s->batch};
    job_put_int(&s->values[i], value_of(s->me->rank, tag));
    check_begun(s,
                weft_isend(s->group, &s->values[i], 1, WEFT_INT32, peer, tag, &call, s->batch ? NULL : req));
}

static void get(side *s, int i, int peer, int tag, weft_request **req)
{
    weft_call call = {.stream = WEFT_NO_STREAM, .batch = s->batch};
    job_put_int(&s->values[i], -1);
    check_begun(s,
                weft_irecv(s->group, &s->values[i], 1, WEFT_INT32, peer, tag, &call, s->batch ? NULL : req));
}

static weft_request *end(side *s, int64_t timeout_ms)
{
    weft_call call = {.timeout_ms = timeout_ms};
    weft_request *whole = NULL;
    if (s->may_break && !s->batch) return NULL;
    check_begun(s, weft_batch_end(s->batch, &call, &whole));
    s->batch = NULL;
    return whole;
}

static void wait_for(weft_request *req)
{
    WAIT_OK(req);
    weft_release(req);
}

static void check_got(side *s, int i, int from, int tag)
{
    CHECK_INT(job_get_int(&s->values[i]), value_of(from, tag));
}

/* ---- how many calls ------------------------------------------------------------------------------------ */

typedef enum who_first { SENDER, RECEIVER, NOBODY } who_first;

/* MANY in one batch, received in another order in one batch: one call on each side, whoever is first. */
static void one_call(job_rank *me)
{
    weft_group *group = group_of(me, me->arg != NULL);
    side s = side_of(me, group, MANY);
    for (int round = 0; round < 9; round++) {
        who_first first = (who_first)(round % 3);
        bool waits = first != NOBODY && me->rank != (first == SENDER ? 0 : 1);
        uint64_t before;
        job_meet(me);
        if (me->rank == 2) continue; /* has no part in them */
        before = calls();
        if (waits) job_sleep_ms(20);
        begin(&s);
        for (int k = 0; k < MANY; k++) {
            int i = me->rank ? (k * 7 + round) % MANY : k;
            if (me->rank)
                get(&s, i, k % 2 ? 0 : WEFT_ANY_RANK, i, NULL);
            else
                put(&s, i, 1, i, NULL);
        }
        wait_for(end(&s, 0));
        for (int i = 0; i < MANY && me->rank; i++) check_got(&s, i, 0, i);
        if (device_is_emulated()) CHECK_INT(calls() - before, 1);
    }
}

/* No call has more than its most, and together they have all. */
static void several_calls(job_rank *me)
{
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, MOST);
    uint64_t before;
    job_meet(me);
    before = calls();
    begin(&s);
    for (int i = 0; i < MOST; i++) {
        if (me->rank)
            get(&s, i, 0, i, NULL);
        else
            put(&s, i, 1, i, NULL);
    }
    wait_for(end(&s, 0));
    for (int i = 0; i < MOST && me->rank; i++) check_got(&s, i, 0, i);
    if (device_is_emulated()) CHECK_INT(calls() - before, 3);
}

/* The receiver waits for each before it asks for the next, or for a part of them. */
static void cut_differently(job_rank *me)
{
    int part = *(const int *)me->arg;
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, MANY);
    uint64_t before;
    job_meet(me);
    before = calls();
    if (me->rank == 0) {
        begin(&s);
        for (int i = 0; i < MANY; i++) put(&s, i, 1, i, NULL);
        wait_for(end(&s, 0));
    }
    for (int i = MANY - 1; i >= 0 && me->rank;) {
        weft_request *req = NULL;
        if (part > 1) begin(&s);
        for (int k = 0; k < part; k++) get(&s, i - k, 0, i - k, &req);
        wait_for(part > 1 ? end(&s, 0) : req);
        for (int k = 0; k < part; k++) check_got(&s, i - k, 0, i - k);
        i -= part;
    }
    if (device_is_emulated()) CHECK_INT(calls() - before, MANY / part);
}

/* Each sends to each, and asks for what each sends: a call for each way of each pair. */
static void among_all(job_rank *me)
{
    enum { EACH = 5 };
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, 2 * EACH * JOB_RANKS_MAX);
    for (int round = 0; round < 3; round++) {
        int n = 0, got[EACH * JOB_RANKS_MAX];
        uint64_t before;
        job_meet(me);
        before = calls();
        begin(&s);
        for (int k = 0; k < EACH; k++)
            for (int step = 1; step < me->size; step++) {
                int peer = (me->rank + step) % me->size;
                put(&s, EACH * JOB_RANKS_MAX + n, peer, k, NULL);
                got[n] = peer;
                get(&s, n++, peer, k, NULL);
            }
        wait_for(end(&s, 0));
        for (int i = 0; i < n; i++) check_got(&s, i, got[i], i / (me->size - 1));
        if (device_is_emulated()) CHECK_INT(calls() - before, 2 * (me->size - 1));
    }
}

/* Each sends to the next one around, and asks the one before: a call for each way. */
static void around(job_rank *me)
{
    enum { EACH = 4 };
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, 2 * EACH);
    int next = (me->rank + 1) % me->size, before = (me->rank + me->size - 1) % me->size;
    for (int round = 0; round < 10; round++) {
        uint64_t counted;
        job_meet(me);
        counted = calls();
        begin(&s);
        for (int k = 0; k < EACH; k++) {
            put(&s, k, next, k, NULL);
            get(&s, EACH + k, before, k, NULL);
        }
        wait_for(end(&s, 0));
        for (int k = 0; k < EACH; k++) check_got(&s, EACH + k, before, k);
        if (device_is_emulated()) CHECK_INT(calls() - counted, 2);
    }
}

/* Beside messages between devices a batch has some in host memory, some to the rank itself, an exchange and a sum. */
static void mixed(job_rank *me)
{
    enum { EACH = 3 };
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, 5 * EACH);
    int32_t *sum = job_buffer(me, 3 * sizeof *sum), host[2 * EACH];
    int other = 1 - me->rank;
    for (int round = 0; round < 10; round++) {
        uint64_t before;
        weft_call call = {.stream = WEFT_NO_STREAM};
        job_put_int(sum, 1 + me->rank);
        job_put_int(sum + 1, me->rank);
        job_meet(me);
        before = calls();
        begin(&s);
        call.batch = s.batch;
        for (int k = 0; k < EACH; k++) {
            put(&s, k, other, k, NULL);
            get(&s, EACH + k, other, k, NULL);
            put(&s, 2 * EACH + k, me->rank, 10 + k, NULL);
            get(&s, 3 * EACH + k, me->rank, 10 + k, NULL);
            host[k] = value_of(me->rank, 20 + k);
            CHECK_OK(weft_isend(group, &host[k], 1, WEFT_INT32, other, 20 + k, &call, NULL));
            CHECK_OK(weft_irecv(group, &host[EACH + k], 1, WEFT_INT32, other, 20 + k, &call, NULL));
        }
        CHECK_OK(weft_all_reduce(group, sum, sum, 1, WEFT_INT32, WEFT_SUM, &call, NULL));
        CHECK_OK(weft_send_recv(group, sum + 1, sum + 2, 1, WEFT_INT32, other, &call, NULL));
        wait_for(end(&s, 0));
        for (int k = 0; k < EACH; k++) {
            check_got(&s, EACH + k, other, k);
            check_got(&s, 3 * EACH + k, me->rank, 10 + k);
            CHECK_INT(host[EACH + k], value_of(other, 20 + k));
        }
        CHECK_INT(job_get_int(sum), 3);
        CHECK_INT(job_get_int(sum + 2), other);
        if (device_is_emulated()) CHECK_INT(calls() - before, 4); /* each way, the exchange and the sum */
    }
}

/* One is empty, one too long and one of another type: the rest go together. */
static void some_do_not(job_rank *me)
{
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, 8);
    weft_call batched = {.stream = WEFT_NO_STREAM};
    weft_request *whole;
    uint64_t before;
    job_meet(me);
    before = calls();
    begin(&s);
    batched.batch = s.batch;
    for (int i = 0; i < 8; i++) {
        size_t count = i == 1 ? 0 : i == 3 ? 2 : 1;
        int32_t *at = &s.values[i == 3 ? 0 : i];
        if (me->rank == 0) {
            job_put_int(at, i);
            CHECK_OK(weft_isend(group, at, count, WEFT_INT32, 1, i, &batched, NULL));
        } else if (i == 5) {
            CHECK_OK(weft_irecv(group, at, 1, WEFT_FLOAT32, 0, i, &batched, NULL));
        } else {
            CHECK_OK(weft_irecv(group, at, i == 3 ? 1 : count, WEFT_INT32, 0, i, &batched, NULL));
        }
    }
    whole = end(&s, 0);
    WAIT_STATUS(me->rank ? WEFT_ERR_TRUNCATED : WEFT_OK, whole);
    if (me->rank) CHECK_TEXT(weft_request_message(whole), "irecv #4");
    weft_release(whole);
    if (device_is_emulated()) CHECK_INT(calls() - before, 1);
    job_sum_works(group);
}

/* ---- what does not go ------------------------------------------------------------------------------------ */

/* What nobody has received is given up, with the rest of its batch received or not; nothing breaks. */
static void given_up(job_rank *me)
{
    enum { EACH = 6 };
    bool cancels = me->arg != NULL;
    weft_group *group = group_of(me, true);
    side s = side_of(me, group, EACH);
    for (int received = 0; received < EACH; received += 4) {
        weft_request *whole = NULL, *reqs[EACH] = {NULL};
        for (int i = 0; i < received && me->rank; i++) get(&s, i, 0, i, &reqs[i]);
        job_meet(me);
        if (me->rank == 0) {
            begin(&s);
            for (int i = 0; i < EACH; i++) put(&s, i, 1, i, NULL);
            whole = end(&s, cancels    ? 0
                            : received ? job_short_ms()
                                       : SHORT_MS); /* those have to go by then */
        }
        for (int i = 0; i < received && me->rank; i++) {
            wait_for(reqs[i]);
            check_got(&s, i, 0, i);
        }
        job_sum_works(group); /* behind those, on the same communicator: they are through on both sides */
        if (me->rank == 0) {
            if (cancels) weft_cancel(whole);
            WAIT_STATUS(cancels ? WEFT_ERR_CANCELLED : WEFT_ERR_TIMEOUT, whole);
            weft_release(whole);
        }
        job_meet(me);
        CHECK_OK(weft_group_status(group));
        job_sum_works(group);
    }
}

/* It aborts the group, or is alone in a sum, which breaks it too, but spares what has met over another communicator. */
static void break_group(job_rank *me, weft_group *group, bool aborts)
{
    int32_t *sum = job_buffer(me, sizeof *sum);
    const weft_call call = {.timeout_ms = 1};
    weft_status status;
    if (aborts) {
        CHECK_OK(weft_group_abort(group, "on purpose"));
        return;
    }
    status = weft_all_reduce(group, sum, sum, 1, WEFT_INT32, WEFT_SUM, &call, NULL);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, status);
}

/* A third rank breaks the group while some have met and some have not: all end at once, and those that go are right. */
static void broken_by_another(job_rank *me)
{
    enum { ROUNDS = JOB_SANITIZED ? 40 : 400, EACH = 12 };
    uint64_t own = (uint64_t)me->rank * 31 + 7;
    for (int round = 0; round < ROUNDS; round++) {
        weft_group *group = group_of(me, round % 2);
        side s = side_of(me, group, EACH);
        weft_request *reqs[EACH] = {NULL};
        int n = 0;
        s.may_break = true;
        job_meet(me);
        if (me->rank == 2) {
            job_sleep_ms((int64_t)(job_random(&own) % 2));
            break_group(me, group, round % 4 < 2);
        } else if (me->rank == 0) {
            begin(&s);
            for (int i = 0; i < EACH; i++) put(&s, i, 1, i, NULL);
            reqs[n++] = end(&s, 0);
        } else {
            for (int i = 0; i < EACH; i++) get(&s, i, 0, i, &reqs[n++]);
        }
        for (int i = 0; i < n; i++) {
            weft_status status = reqs[i] ? weft_wait(reqs[i], job_late_ms()) : WEFT_ERR_BROKEN;
            CHECK(status == WEFT_OK || may_end_so(status));
            if (me->rank == 1 && status == WEFT_OK) check_got(&s, i, 0, i);
            weft_release(reqs[i]);
        }
        weft_group_free(group);
    }
    job_sum_works(me->world);
}

typedef enum ending { TIME, CANCEL, DEATH } ending;
typedef struct middle {
    ending by;
    bool shared;
} middle;

/* Both sides have called NCCL for them; where ranks are threads of one process it has counted for both. */
static void await_calls(job_rank *me, uint64_t before)
{
    const uint64_t own = job_pid(me, 0) == job_pid(me, 1) ? 2 : 1;
    if (device_is_emulated())
        while (calls() < before + own) job_sleep_ms(1);
    else
        job_sleep_ms(SHORT_MS);
    job_mark(me, CALLED);
    job_await(me, CALLED, 2);
}

/* The receiver's stream stands while they are on the device, and the sender ends: all of them end. */
static void in_the_middle(job_rank *me)
{
    enum { EACH = 3 };
    const middle *m = me->arg;
    weft_group *group = group_of(me, m->shared);
    side s = side_of(me, group, 1);
    weft_request *whole, *first = NULL;
    weft_call call = {.stream = device_stream(1)};
    char *buf = job_buffer(me, (size_t)EACH * LARGE);
    if (me->rank == 0) put(&s, 0, 1, EACH, &first);
    if (me->rank == 1) get(&s, 0, 0, EACH, &first);
    if (me->rank < 2) wait_for(first); /* the communicator is there */
    const uint64_t before = calls();
    job_meet(me);
    device_gate *gate = me->rank == 1 ? device_shut(call.stream) : NULL;
    if (me->rank == 2) {
        CHECK(job_await_break(group, JOB_WAIT_MS) != WEFT_OK);
        if (m->by != DEATH) job_sum_works(me->world);
        return;
    }
    begin(&s);
    call.batch = s.batch;
    for (int i = 0; i < EACH; i++) {
        if (me->rank == 0)
            CHECK_OK(weft_isend(group, buf + i * LARGE, LARGE, WEFT_UINT8, 1, i, &call, NULL));
        else
            CHECK_OK(weft_irecv(group, buf + i * LARGE, LARGE, WEFT_UINT8, 0, i, &call, NULL));
    }
    whole = end(&s, m->by == TIME && me->rank == 0 ? job_short_ms() : 0);
    if (m->by != TIME) await_calls(me, before);
    if (me->rank == 0) {
        if (m->by == DEATH) job_kill(me, 0);
        if (m->by == CANCEL) weft_cancel(whole);
        WAIT_STATUS(m->by == TIME ? WEFT_ERR_TIMEOUT : WEFT_ERR_CANCELLED, whole);
    } else {
        CHECK(job_await_break(group, JOB_WAIT_MS) != WEFT_OK);
        device_open(gate);
        WAIT_STATUS(m->by == DEATH ? WEFT_ERR_PEER : WEFT_ERR_BROKEN, whole);
        CHECK_TEXT(weft_request_message(whole), "rank 0");
    }
    CHECK(!job_info(whole).buffers_held);
    weft_release(whole);
    CHECK(job_await_break(group, job_late_ms()) != WEFT_OK);
    if (m->by != DEATH) job_sum_works(me->world);
}

/* ---- at random ------------------------------------------------------------------------------------------- */

enum { RANDOM_MOST = 12, HASTE_MS = 4 };

/* What one round is, the same on all ranks. */
typedef struct random_round {
    int n, from, to;
    bool shared, hasty;
} random_round;

static random_round draw(uint64_t *shared, int ranks)
{
    random_round r = {.n = 2 + (int)(job_random(shared) % (RANDOM_MOST - 2)),
                      .from = (int)(job_random(shared) % (uint64_t)ranks),
                      .shared = job_random(shared) % 2,
                      .hasty = job_random(shared) % 2};
    r.to = (r.from + 1 + (int)(job_random(shared) % (uint64_t)(ranks - 1))) % ranks;
    return r;
}

/* In one batch, or as a receiver in two or one by one.  Returns how many requests there are. */
static int submit_at_random(side *s, const random_round *r, uint64_t *own, weft_request **reqs)
{
    bool sends = s->me->rank == r->from, batched = sends || job_random(own) % 3;
    int count = 0, cut = !sends && job_random(own) % 2 ? r->n / 2 : -1;
    if (batched) begin(s);
    for (int i = 0; i < r->n; i++) {
        weft_request **req = batched ? NULL : &reqs[count++];
        if (sends)
            put(s, i, r->to, i, req);
        else
            get(s, i, r->from, i, req);
        if (!batched || i != cut) continue;
        reqs[count++] = end(s, 0);
        begin(s);
    }
    if (batched)
        reqs[count++] =
            end(s, sends && r->hasty && job_random(own) % 2 ? 1 + (int64_t)(job_random(own) % HASTE_MS) : 0);
    return count;
}

/* Batches and single messages between three ranks.  Where nobody is hasty all of them go; else each ends in time, in
 * what it may end in. */
static void at_random(job_rank *me)
{
    enum { ROUNDS = JOB_SANITIZED ? 40 : 150 };
    uint64_t own = (uint64_t)me->rank * 77 + 5, shared = 3;
    for (int round = 0; round < ROUNDS; round++) {
        random_round r = draw(&shared, me->size);
        weft_group *group = group_of(me, r.shared);
        side s = {.me = me, .group = group, .values = job_buffer(me, RANDOM_MOST * sizeof(int32_t))};
        weft_request *reqs[RANDOM_MOST + 1] = {NULL};
        int count = 0;
        s.may_break = r.hasty;
        if (me->rank == r.from || me->rank == r.to) {
            job_sleep_ms((int64_t)(job_random(&own) % 3));
            count = submit_at_random(&s, &r, &own, reqs);
            job_sleep_ms((int64_t)(job_random(&own) % HASTE_MS));
        }
        if (r.hasty && job_random(&own) % 2)
            for (int i = 0; i < count; i++) weft_cancel(reqs[i]);
        if (r.hasty) job_meet(me);
        for (int i = 0; i < count; i++) {
            weft_status status;
            if (r.hasty) weft_cancel(reqs[i]);
            status = reqs[i] ? weft_wait(reqs[i], JOB_WAIT_MS) : WEFT_ERR_BROKEN;
            CHECK(status == WEFT_OK || (r.hasty && may_end_so(status)));
            weft_release(reqs[i]);
        }
        for (int i = 0; i < r.n && me->rank == r.to && !r.hasty; i++) check_got(&s, i, r.from, i);
        job_meet(me);
        weft_group_free(group);
    }
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    static const int one = 1, four = 4;
#define MIDDLE(...) .ranks = 3, .body = in_the_middle, .arg = &(const middle)__VA_ARGS__
    const struct CMUnitTest tests[] = {
        JOB_TEST("a batch is one call", .ranks = 3, .body = one_call, .processes = true, .arg = "shared"),
        JOB_TEST("a batch over the two ranks' own is one call", .ranks = 3, .body = one_call,
                 .processes = true),
        JOB_TEST("a large one is several", .ranks = 2, .body = several_calls, .processes = true),
        JOB_TEST("received one by one", .ranks = 2, .body = cut_differently, .processes = true, .arg = &one),
        JOB_TEST("received in parts", .ranks = 2, .body = cut_differently, .processes = true, .arg = &four),
        JOB_TEST("among all", .ranks = 4, .body = among_all, .processes = true),
        JOB_TEST("around", .ranks = 4, .body = around, .processes = true),
        JOB_TEST("with others in the batch", .ranks = 2, .body = mixed, .processes = true),
        JOB_TEST("some of them do not", .ranks = 2, .body = some_do_not, .processes = true),
        JOB_TEST("time runs out for those not received", .ranks = 2, .body = given_up),
        JOB_TEST("those not received are cancelled", .ranks = 2, .body = given_up, .arg = "cancels"),
        JOB_TEST("time runs out in the middle", MIDDLE({TIME, true})),
        JOB_TEST("cancelled in the middle", MIDDLE({CANCEL, true})),
        JOB_TEST("a death in the middle", MIDDLE({DEATH, true}), .processes = true, .killed = 1),
        JOB_TEST("time runs out in the middle, over the two ranks' own", MIDDLE({TIME, false})),
        JOB_TEST("cancelled in the middle, over the two ranks' own", MIDDLE({CANCEL, false})),
        JOB_TEST("a death in the middle, over the two ranks' own", MIDDLE({DEATH, false}), .processes = true,
                 .killed = 1),
        JOB_TEST("the group breaks", .ranks = 3, .body = broken_by_another),
        JOB_TEST("at random", .ranks = 3, .body = at_random),
    };
    return JOB_MAIN(tests, argc, argv);
}
