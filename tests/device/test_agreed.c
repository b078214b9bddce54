/* test_agreed.c - the agreed order of collectives on devices (runtime/device/order.h): how many messages it costs, by count,
 * that programs which wait for one operation before they begin the next one never wait for each other, and that a group's
 * operations are issued in the order of their numbers. */
#include "device.h"
#include "device_hold.h"
#include "p2p.h"
#include "protocol.h"
#include "status.h"
#include "sum.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, SUMS = 50 };

/* ---- what this process sends about the order (the linker puts this in the place of the library's) ---- */

static atomic_int messages, questions, payloads;
static atomic_int without_memory; /* a type of message; 0: none */

#define CONTROL weft__p2p *p2p, int peer, int type, const void *data, size_t length
#define SEND \
    weft__p2p *p2p, const weft__envelope *to, const void *data, size_t length, weft__completion *completion

weft_status __real_weft__p2p_control(CONTROL);
weft_status __wrap_weft__p2p_control(CONTROL);
weft__send *__real_weft__p2p_send(SEND);
weft__send *__wrap_weft__p2p_send(SEND);

weft_status __wrap_weft__p2p_control(CONTROL)
{
    if (type >= WEFT__MESSAGE_PROPOSE && type <= WEFT__MESSAGE_RAISED) atomic_fetch_add(&messages, 1);
    if (type == WEFT__MESSAGE_RAISE) atomic_fetch_add(&questions, 1);
    if (type == atomic_load(&without_memory)) return weft__fail_memory(length, "a control message");
    return __real_weft__p2p_control(p2p, peer, type, data, length);
}

weft__send *__wrap_weft__p2p_send(SEND)
{
    atomic_fetch_add(&payloads, 1);
    return __real_weft__p2p_send(p2p, to, data, length, completion);
}

/* What all ranks have counted there so far; where they are threads of one process each has counted for all. */
static int counted_by_all(job_rank *me, atomic_int *what)
{
    int64_t sum = 0;
    job_meet(me);
    *job_results(me, me->rank) = atomic_load(what);
    job_meet(me);
    for (int i = 0; i < me->size; i++)
        if (i == 0 || job_pid(me, i) != job_pid(me, 0)) sum += *job_results(me, i);
    job_meet(me);
    return (int)sum;
}

static int sent_by_all(job_rank *me)
{
    return counted_by_all(me, &messages);
}

/* ---- in which order this process issues a group's collectives (likewise) ---- */

static pthread_mutex_t issued_lock = PTHREAD_MUTEX_INITIALIZER;
static struct issued {
    const weft_group *group;
    uint64_t last;
} issued[8];
static atomic_int overtaken; /* operations issued before one of their group with a smaller number */

void __real_weft__hold_on_its_way(weft__device *d);
void __wrap_weft__hold_on_its_way(weft__device *d);

void __wrap_weft__hold_on_its_way(weft__device *d)
{
    const weft_request *req = d->req;
    pthread_mutex_lock(&issued_lock);
    for (size_t i = 0; i < sizeof issued / sizeof *issued; i++) {
        if (issued[i].group != req->group) continue;
        if (req->sequence < issued[i].last) atomic_fetch_add(&overtaken, 1);
        issued[i].last = req->sequence;
    }
    pthread_mutex_unlock(&issued_lock);
    __real_weft__hold_on_its_way(d);
}

static void watch(const weft_group *group, bool on)
{
    pthread_mutex_lock(&issued_lock);
    for (size_t i = 0; i < sizeof issued / sizeof *issued; i++) {
        if (issued[i].group != (on ? NULL : group)) continue;
        issued[i] = (struct issued){.group = on ? group : NULL};
        break;
    }
    pthread_mutex_unlock(&issued_lock);
}

/* ---- groups ---- */

/* A group of those ranks, with its communicator; NULL for the others. */
static weft_group *group_of(job_rank *me, const int *ranks, int n, operands o)
{
    weft_group *group = NULL;
    weft_request *req;
    bool in = false;
    for (int i = 0; i < n; i++) in = in || ranks[i] == me->rank;
    if (in) {
        CHECK_OK(weft_new_group(me->world, ranks, n, NULL, &group, NULL));
        req = begin_sum(group, o, NULL);
        WAIT_OK(req);
    }
    job_meet(me);
    return group;
}

static weft_group *pair_of(job_rank *me, int a, int b, operands o)
{
    return group_of(me, (const int[]){a, b}, 2, o);
}

static void sum_works(weft_group *group, operands o)
{
    CHECK_OK(weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, NULL, NULL));
}

/* ---- the usual case ---- */

static void one_group(job_rank *me)
{
    weft_request *reqs[SUMS];
    operands o = take_operands(me);
    sum_works(me->world, o);
    int before = sent_by_all(me), frames = counted_by_all(me, &payloads);
    for (int i = 0; i < SUMS; i++) sum_works(me->world, o);
    for (int i = 0; i < SUMS; i++) reqs[i] = begin_sum(me->world, o, NULL);
    for (int i = 0; i < SUMS; i++) WAIT_OK(reqs[i]);
    CHECK_INT(sent_by_all(me), before);
    /* The agreement: in memory that all share, or by recursive doubling, which takes four frames among three ranks. */
    CHECK(counted_by_all(me, &payloads) - frames <= (getenv("JOB_HOSTS") ? 2 * SUMS * 4 : 0));
    check_sum(me->size, o.out);
}

static void a_batch(job_rank *me)
{
    operands o = take_operands(me);
    sum_works(me->world, o);
    int before = sent_by_all(me);
    for (int i = 0; i < SUMS; i++) {
        weft_call call = {.batch = NULL};
        CHECK_OK(weft_batch_begin(me->world, &call.batch));
        for (int k = 0; k < 3; k++)
            CHECK_OK(weft_all_reduce(me->world, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, &call, NULL));
        CHECK_OK(weft_batch_end(call.batch, NULL, NULL));
    }
    CHECK_INT(sent_by_all(me), before);
    check_sum(me->size, o.out);
}

static void one_after_the_other(job_rank *me)
{
    operands o = take_operands(me);
    weft_group *pair = pair_of(me, 0, 1, o);
    sum_works(me->world, o);
    int before = sent_by_all(me);
    for (int i = 0; i < SUMS; i++) {
        sum_works(me->world, o);
        if (pair) sum_works(pair, o);
    }
    CHECK_INT(sent_by_all(me), before);
}

static uint64_t calls(void)
{
    return device_is_emulated() ? device()->emu_calls("ncclAllReduce") : 0;
}

/* One rank issues two together, or one at a time, where the others do not: all know of it before a device has anything. */
static void one_batches_alone(job_rank *me, bool alone)
{
    enum { ODD = 1 };
    operands o = take_operands(me);
    weft_group *group = group_of(me, (const int[]){0, 1, 2}, RANKS, o);
    weft_call call = {.batch = NULL};
    weft_request *reqs[2] = {NULL};
    const bool batches = (me->rank == ODD) == alone;
    const uint64_t before = calls();
    job_meet(me);
    if (me->rank == ODD) job_meet(me); /* it comes last, and finds all of theirs there */
    if (batches) CHECK_OK(weft_batch_begin(group, &call.batch));
    for (int i = 0; i < 2; i++) {
        weft_status status = weft_all_reduce(group, o.in, o.out, COUNT, WEFT_INT32, WEFT_SUM, &call,
                                             batches ? NULL : &reqs[i]);
        CHECK(status == WEFT_OK || (i && !batches && status == WEFT_ERR_BROKEN)); /* by the first */
    }
    if (batches) CHECK_OK(weft_batch_end(call.batch, NULL, &reqs[0]));
    if (me->rank != ODD) job_meet(me);
    CHECK_INT(job_await_break(group, job_late_ms()), WEFT_ERR_MISMATCH);
    CHECK_TEXT(weft_last_error(), "issues 1"); /* one of these is the others', or of whoever has told of it */
    CHECK_TEXT(weft_last_error(), "issues 2");
    CHECK_TEXT(weft_last_error(), "batch the same collectives");
    CHECK_INT(calls(), before);
    for (int i = 0; i < 2 && reqs[i]; i++) {
        CHECK(weft_wait(reqs[i], job_wait_ms()) < 0);
        weft_release(reqs[i]);
    }
    job_meet(me);
}

static void one_batches(job_rank *me)
{
    one_batches_alone(me, true);
}

static void all_but_one_batch(job_rank *me)
{
    one_batches_alone(me, false);
}

/* ---- groups that overlap in time ---- */

/* Collectives that begin before their communicator is there go by messages, and no others: though nothing is ever waited for but
 * what was begun long before, and one rank is always late. */
static void goes_by_gates_again(job_rank *me)
{
    enum { TIMES = 60, AHEAD = 8 };
    static const int all[RANKS] = {0, 1, 2};
    operands o[AHEAD];
    weft_request *reqs[AHEAD] = {NULL};
    weft_group *group;
    for (int i = 0; i < AHEAD; i++) o[i] = take_operands(me);
    CHECK_OK(weft_new_group(me->world, all, RANKS, NULL, &group, NULL));
    int before = sent_by_all(me);
    for (int i = 0; i < TIMES; i++) {
        if (reqs[i % AHEAD]) WAIT_OK(reqs[i % AHEAD]);
        if (me->rank == 1) usleep(3000);
        reqs[i % AHEAD] = begin_sum(group, o[i % AHEAD], NULL);
    }
    for (int i = 0; i < AHEAD; i++) WAIT_OK(reqs[i]);
    CHECK(sent_by_all(me) - before <= 2 * AHEAD * 2 * (RANKS - 1));
    job_meet(me);
    weft_group_free(group);
}

/* Rank 0 has begun the pair's, and rank 1 begins that only after many of all ranks' that come behind it. */
static void pass_the_pairs(job_rank *me, weft_group *pair, operands o)
{
    operands other = take_operands(me);
    weft_request *req = NULL;
    sum_works(me->world, o);
    int before = sent_by_all(me);
    if (me->rank == 0) req = begin_sum(pair, other, NULL);
    for (int i = 0; i < SUMS; i++) sum_works(me->world, o);
    if (me->rank == 1) req = begin_sum(pair, other, NULL);
    if (req) {
        WAIT_OK(req);
        check_sum(2, other.out);
    }
    /* One that asks, and its answer, for all of them; in memory that they share, none. */
    CHECK(sent_by_all(me) - before <= (getenv("JOB_HOSTS") ? 2 : 0));
}

static void waits_for_what_comes_behind(job_rank *me)
{
    operands o = take_operands(me);
    pass_the_pairs(me, pair_of(me, 0, 1, o), o);
}

/* Nothing of the group that had its slots before. */
static void waits_in_a_group_that_is_new(job_rank *me)
{
    operands o = take_operands(me);
    weft_group *before = pair_of(me, 0, 1, o);
    for (int i = 0; i < SUMS && before; i++) sum_works(before, o);
    if (before) CHECK_OK(weft_group_free(before));
    job_meet(me);
    pass_the_pairs(me, pair_of(me, 0, 1, o), o);
}

/* Each begins what it shares with the next rank, and after that what it shares with the one before. */
static void round_a_circle(job_rank *me)
{
    operands o = take_operands(me), other = take_operands(me);
    weft_group *pairs[RANKS], *next, *previous;
    for (int i = 0; i < RANKS; i++) pairs[i] = pair_of(me, i, (i + 1) % RANKS, o);
    next = pairs[me->rank];
    previous = pairs[(me->rank + RANKS - 1) % RANKS];
    int before = sent_by_all(me);
    for (int i = 0; i < SUMS; i++) {
        weft_request *first = begin_sum(next, o, NULL), *second = begin_sum(previous, other, NULL);
        WAIT_OK(second);
        WAIT_OK(first);
    }
    CHECK(sent_by_all(me) - before <= SUMS * 2 * RANKS * 2);
}

/* What is at its gate as others pass, and never opens. */
static void one_dies_at_the_gate(job_rank *me)
{
    operands o = take_operands(me), other = take_operands(me);
    weft_group *dying = pair_of(me, 0, 2, o), *pair = pair_of(me, 0, 1, o);
    weft_request *req = NULL;
    if (me->rank == 2) job_sleep_ms(JOB_LIMIT_MS);
    if (me->rank == 0) req = begin_sum(dying, other, NULL);
    for (int i = 0; i < SUMS; i++) {
        if (i == SUMS / 2 && me->rank == 0) job_kill(me, 2);
        sum_works(pair, o);
    }
    if (req) {
        WAIT_STATUS(WEFT_ERR_PEER, req);
        CHECK(job_names(weft_request_message(req), 2));
        weft_release(req);
    }
    sum_works(pair, o);
}

/* It is taken back as others stand behind it. */
static void one_is_cancelled_at_the_gate(job_rank *me)
{
    operands o = take_operands(me), other = take_operands(me);
    weft_group *given_up = pair_of(me, 0, 2, o), *pair = pair_of(me, 0, 1, o);
    weft_request *req = NULL;
    if (me->rank == 0) req = begin_sum(given_up, other, NULL);
    for (int i = 0; i < SUMS && pair; i++) {
        if (i == SUMS / 2 && req) weft_cancel(req);
        sum_works(pair, o);
    }
    if (req) {
        WAIT_STATUS(WEFT_ERR_CANCELLED, req);
        weft_release(req);
    }
    job_meet(me);
    sum_works(me->world, o);
}

/* One rank is late in many operations of a group, which two others pass with those of another one: each of them asks once for
 * all that it passes, at most all members, of which those answer that have not begun. */
static void one_is_late(job_rank *me)
{
    enum { LATE = 3, PASSED, BEHIND = 10 };
    weft_request *reqs[BEHIND];
    operands o = take_operands(me);
    weft_group *pair = pair_of(me, 0, 1, o);
    sum_works(me->world, o);
    int before = sent_by_all(me);
    if (me->rank == LATE) job_await(me, PASSED, 2);
    for (int i = 0; i < BEHIND; i++) reqs[i] = begin_sum(me->world, o, NULL);
    if (pair) {
        operands others = take_operands(me);
        for (int i = 0; i < SUMS; i++) sum_works(pair, others);
        job_mark(me, PASSED);
    }
    for (int i = 0; i < BEHIND; i++) WAIT_OK(reqs[i]);
    CHECK(sent_by_all(me) - before <= (getenv("JOB_HOSTS") ? 2 * 2 * (me->size - 1) : 0));
}

/* ---- a group's own ---- */

/* One of each rank's to each other, of lengths that have to be compared first. */
static weft_request *begin_exchange(job_rank *me, operands o)
{
    size_t counts[RANKS], places[RANKS];
    weft_request *req = NULL;
    for (int i = 0; i < RANKS; i++) {
        counts[i] = 1;
        places[i] = (size_t)i;
    }
    CHECK_OK(
        weft_all_to_all_v(me->world, o.in, counts, places, o.out, counts, places, WEFT_INT32, NULL, &req));
    return req;
}

/* The first has its place by messages, as it has lengths; who is late changes which agreement ends first. */
static void none_passes_an_exchange(job_rank *me)
{
    enum { TIMES = 12 };
    operands exchanged = take_operands(me), o = take_operands(me), other = take_operands(me);
    sum_works(me->world, o);
    watch(me->world, true);
    for (int i = 0; i < TIMES; i++) {
        job_meet(me);
        if (i % (RANKS + 1) == me->rank) job_sleep_ms(5);
        weft_request *first = begin_exchange(me, exchanged);
        weft_request *second = begin_sum(me->world, o, NULL), *third = begin_sum(me->world, other, NULL);
        WAIT_OK(third);
        WAIT_OK(second);
        WAIT_OK(first);
    }
    CHECK_INT(atomic_load(&overtaken), 0);
    watch(me->world, false);
}

/* Collectives that begin before their communicator is there have their places by messages. */
static void none_passes_the_first_of_a_group(job_rank *me)
{
    enum { TIMES = 4, EACH = 6 };
    static const int all[RANKS] = {0, 1, 2};
    operands o[EACH];
    weft_request *reqs[EACH];
    for (int i = 0; i < EACH; i++) o[i] = take_operands(me);
    for (int i = 0; i < TIMES; i++) {
        weft_group *group;
        CHECK_OK(weft_new_group(me->world, all, RANKS, NULL, &group, NULL));
        watch(group, true);
        if (me->rank == i % RANKS) job_sleep_ms(20);
        for (int k = 0; k < EACH; k++) {
            reqs[k] = begin_sum(group, o[k], NULL);
            if (me->rank == i % RANKS) job_sleep_ms(k);
        }
        for (int k = 0; k < EACH; k++) WAIT_OK(reqs[k]);
        job_meet(me);
        CHECK_INT(atomic_load(&overtaken), 0);
        watch(group, false);
        weft_group_free(group);
    }
}

/* ---- what holds up others, and what does not ---- */

enum { IN_ITS_PLACE = 2, GOES_ON }; /* marks */

/* An operation on devices whose agreement comes behind a collective in host memory, which may take long, stands in no order: so
 * nobody has to be asked to let others pass. */
static void behind_one_in_host_memory(job_rank *me)
{
    if (getenv("JOB_HOSTS")) return; /* there each agreement goes by itself */
    int32_t mine = me->rank, sum = 0;
    operands o = take_operands(me), other = take_operands(me);
    weft_group *pair = pair_of(me, 0, 1, o), *others = pair_of(me, 0, 2, o);
    weft_call on_host = {.memory = WEFT_MEMORY_HOST};
    weft_request *reqs[2] = {NULL};
    int before = counted_by_all(me, &questions), messages_before = sent_by_all(me);
    if (me->rank == 1) job_await(me, IN_ITS_PLACE, 1);
    if (pair) {
        CHECK_OK(weft_all_reduce(pair, &mine, &sum, 1, WEFT_INT32, WEFT_SUM, &on_host, &reqs[0]));
        reqs[1] = begin_sum(pair, other, NULL);
    }
    for (int i = 0; i < SUMS && others; i++) sum_works(others, o);
    if (me->rank == 0) job_mark(me, IN_ITS_PLACE);
    for (int i = 0; i < 2 && pair; i++) WAIT_OK(reqs[i]);
    if (pair) CHECK_INT(sum, 1);
    if (pair) check_sum(2, other.out);
    CHECK_INT(counted_by_all(me, &questions) - before, 0);
    CHECK_INT(sent_by_all(me) - messages_before, 2); /* it has its place by a proposal and its answer */
}

/* Rank 2 is late, and the others cannot ask it to come behind the sum that they have begun next: their group with it ends
 * at once, and nothing waits for it. */
static void no_memory_to_ask(job_rank *me)
{
    if (!getenv("JOB_HOSTS")) return; /* memory that is shared asks without a word */
    operands o = take_operands(me), other = take_operands(me);
    weft_group *pair = pair_of(me, 0, 1, o), *all = group_of(me, (const int[]){0, 1, 2}, RANKS, o);
    weft_request *req = NULL;
    job_meet(me);
    if (pair) {
        CHECK_OK(weft_group_set_timeout(pair, job_short_ms()));
        atomic_store(&without_memory, WEFT__MESSAGE_RAISE);
        req = begin_sum(all, other, NULL);
        sum_works(pair, o);
        WAIT_STATUS(WEFT_ERR_MEMORY, req);
        CHECK_TEXT(weft_request_message(req), "a control message");
        weft_release(req);
        atomic_store(&without_memory, 0);
    }
    CHECK_STATUS(WEFT_ERR_MEMORY, job_await_break(all, job_late_ms()));
    job_meet(me);
    sum_works(me->world, o);
}

/* One whose communicator is not there yet gets its place by a proposal and its answer: whoever lacks memory for that breaks the
 * group, in which the others would wait. */
static void no_memory_for_a_place(job_rank *me, int rank, int type)
{
    operands o = take_operands(me);
    weft_group *group;
    weft_request *req = NULL;
    CHECK_OK(weft_new_group(me->world, (const int[]){0, 1, 2}, RANKS, NULL, &group, NULL));
    job_meet(me);
    if (me->rank == rank) atomic_store(&without_memory, type);
    req = begin_sum(group, o, NULL);
    WAIT_STATUS(WEFT_ERR_MEMORY, req);
    CHECK(job_names(weft_request_message(req), rank));
    CHECK_TEXT(weft_request_message(req), "a control message");
    weft_release(req);
    job_meet(me);
    atomic_store(&without_memory, 0);
    CHECK_OK(weft_group_free(group));
    job_meet(me);
}

static void no_memory_to_propose(job_rank *me)
{
    no_memory_for_a_place(me, 1, WEFT__MESSAGE_PROPOSE);
}

static void no_memory_to_answer(job_rank *me)
{
    no_memory_for_a_place(me, 0, WEFT__MESSAGE_FINAL);
}

static void let_go_on(job_rank *me)
{
    CHECK_INT(kill(job_pid(me, 2), SIGCONT), 0);
    job_mark(me, GOES_ON);
}

/* Rank 2 has stopped before it has begun the sum of itself and rank 0, which has: others of rank 0 need not wait for that, nor
 * does what it does alone. */
static void one_is_stopped(job_rank *me)
{
    operands o = take_operands(me), other = take_operands(me);
    weft_group *pair = pair_of(me, 0, 1, o), *stopped = pair_of(me, 0, 2, o);
    weft_group *alone = group_of(me, (const int[]){0}, 1, o);
    weft_request *req = NULL;
    if (me->rank == 2) {
        job_await(me, GOES_ON, 1);
        return;
    }
    if (me->rank == 0) {
        job_stop(me, 2);
        req = begin_sum(stopped, other, NULL);
        job_mark(me, IN_ITS_PLACE);
    }
    job_await(me, IN_ITS_PLACE, 1);
    CHECK_OK(weft_group_set_timeout(pair, job_short_ms()));
    for (int i = 0; i < SUMS; i++) sum_works(pair, o);
    if (!req) return;
    sum_works(alone, o);
    CHECK_INT(weft_test(req), WEFT_PENDING);
    weft_cancel(req);
    weft_wait(req, job_wait_ms());
    weft_release(req);
    let_go_on(me);
}

/* Does the sentence name that rank first among those that have not come to what the operation stands behind? */
static bool names_behind(const char *text, int rank)
{
    const char *behind = strstr(text, ", behind all_reduce #2 on group "), *who;
    char name[32];
    if (!behind || !(who = strchr(behind, ';'))) return false;
    snprintf(name, sizeof name, "; rank %d (", rank);
    return !strncmp(who, name, strlen(name));
}

/* Over hosts others wait for it, and say so: rank 1, which has come to that too, is not named for it. */
static void one_is_stopped_elsewhere(job_rank *me)
{
    operands o = take_operands(me), other = take_operands(me);
    weft_group *pair = pair_of(me, 0, 1, o), *stopped = group_of(me, (const int[]){0, 1, 2}, RANKS, o);
    weft_request *req, *behind;
    if (me->rank == 2) {
        job_await(me, GOES_ON, 1);
        return;
    }
    if (me->rank == 0) {
        job_stop(me, 2);
        job_mark(me, IN_ITS_PLACE);
    }
    job_await(me, IN_ITS_PLACE, 1);
    req = begin_sum(stopped, other, NULL);
    CHECK_OK(weft_group_set_timeout(pair, job_short_ms()));
    behind = begin_sum(pair, o, NULL);
    CHECK(weft_wait(behind, job_wait_ms()) < 0);
    if (job_info(behind).status == WEFT_ERR_TIMEOUT && strstr(weft_request_message(behind), ", behind "))
        CHECK(names_behind(weft_request_message(behind), 2));
    else
        CHECK(me->rank == 1); /* that it stands behind that is said by whose time is up first */
    if (me->rank == 0) {
        weft_cancel(req);
        let_go_on(me);
    }
    CHECK(weft_wait(req, job_wait_ms()) < 0);
    weft_release(req);
    weft_release(behind);
}

int main(int argc, char **argv)
{
    const bool hosts = getenv("JOB_HOSTS");
    const struct CMUnitTest tests[] = {
        JOB_TEST("one group costs no message", .ranks = RANKS, .body = one_group),
        JOB_TEST("a batch costs no message", .ranks = RANKS, .body = a_batch),
        JOB_TEST("groups one after the other cost no message", .ranks = RANKS, .body = one_after_the_other),
        JOB_TEST("one batches", .ranks = RANKS, .body = one_batches),
        JOB_TEST("all but one batch", .ranks = RANKS, .body = all_but_one_batch),
        JOB_TEST("none passes an exchange", .ranks = RANKS, .body = none_passes_an_exchange),
        JOB_TEST("none passes the first of a group", .ranks = RANKS,
                 .body = none_passes_the_first_of_a_group),
        JOB_TEST("it goes by gates again", .ranks = RANKS, .body = goes_by_gates_again),
        JOB_TEST("one waits for what comes behind", .ranks = RANKS, .body = waits_for_what_comes_behind),
        JOB_TEST("one waits in a group that is new", .ranks = RANKS, .body = waits_in_a_group_that_is_new),
        JOB_TEST("one is late in many", .ranks = RANKS + 1, .body = one_is_late),
        JOB_TEST("round a circle", .ranks = RANKS, .body = round_a_circle),
        JOB_TEST("one dies at the gate", .ranks = RANKS, .body = one_dies_at_the_gate, .killed = 1U << 2),
        JOB_TEST("behind one in host memory", .ranks = RANKS, .body = behind_one_in_host_memory),
        hosts ? (struct CMUnitTest)JOB_TEST("one is stopped on another host", .ranks = RANKS,
                                            .body = one_is_stopped_elsewhere, .processes = true)
              : (struct CMUnitTest)JOB_TEST("one is stopped", .ranks = RANKS, .body = one_is_stopped,
                                            .processes = true),
        JOB_TEST("no memory to ask", .ranks = RANKS, .body = no_memory_to_ask, .processes = true),
        JOB_TEST("no memory to propose", .ranks = RANKS, .body = no_memory_to_propose, .processes = true),
        JOB_TEST("no memory to answer", .ranks = RANKS, .body = no_memory_to_answer, .processes = true),
        JOB_TEST("one is cancelled at the gate", .ranks = RANKS, .body = one_is_cancelled_at_the_gate),
    };
    return JOB_MAIN(tests, argc, argv);
}
