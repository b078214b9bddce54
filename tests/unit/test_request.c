/* test_request.c - a request that settles: the first outcome is what it keeps; and who goes to sleep on it meanwhile
 * sees it settled, or is woken.  The second is a litmus test: litmus.h tells how long it runs. */
#include "holder.h"
#include "litmus.h"
#include "request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

enum { ALARM_S = 600 };

static weft_context ctx;
static weft_request req;
static bool woken;

/* The thread that has run its callback, and does not hold the engine. */
static void publish(litmus *l, int who)
{
    unsigned seed = (unsigned)who;
    for (uint64_t round = 1; litmus_meet(l, who, 2 * round - 1); round++) {
        uint32_t before = atomic_load(&ctx.settlings);
        atomic_load(&ctx.settling_sleepers); /* it is at hand, so that only the order makes it read late */
        litmus_stagger(&seed);
        weft__request_publish(&req);
        woken = atomic_load(&ctx.settlings) != before;
        if (!litmus_meet(l, who, 2 * round)) break;
    }
}

static void begin(void)
{
    req.ctx = &ctx;
    req.steps = WEFT__ANYWHERE;
    atomic_store(&req.refs, 2);
    atomic_store(&req.sleepers, 0);
    atomic_store(&ctx.settling_sleepers, 0);
    atomic_store(&req.state, WEFT__RUNNING);
}

/* As in wait.c: what tests/tools/memory_orders.sh looks at. */
static void go_to_sleep(litmus *l, int who)
{
    unsigned seed = (unsigned)who;
    bool saw;
    for (uint64_t round = 1;; round++) {
        begin();
        if (!litmus_meet(l, who, 2 * round - 1)) break;
        litmus_stagger(&seed);
        atomic_fetch_add_explicit(&ctx.settling_sleepers, 1, memory_order_seq_cst);
        atomic_fetch_add_explicit(&req.sleepers, 1, memory_order_seq_cst);
        saw = atomic_load_explicit(&req.state, memory_order_seq_cst) == WEFT__SETTLED;
        if (!litmus_meet(l, who, 2 * round)) break;
        if (!saw && !woken) litmus_wrong(l);
    }
}

static void test_settled_or_woken(void **state)
{
    (void)state;
    weft__completion_fd_init(&ctx.completion_fd);
    assert_true(litmus_run("settling", LITMUS_THREADS, NULL, publish, go_to_sleep) == 0);
}

/* What fails in two ways at once, as a message of which each way does, settles with the first. */
static void test_first_outcome_counts(void **state)
{
    (void)state;
    weft__completion_fd_init(&ctx.completion_fd);
    begin();
    weft__engine_held = &ctx;
    weft__list_init(&req.pending);
    weft__request_settle(&req, WEFT_ERR_PEER, NULL);
    assert_int_equal(weft__request_state(&req), WEFT__SETTLED);
    assert_int_equal(atomic_load(&req.refs), 1);
    weft__request_settle(&req, WEFT_OK, NULL);
    weft__engine_held = NULL;
    assert_int_equal(req.status, WEFT_ERR_PEER);
    assert_int_equal(atomic_load(&req.refs), 1);
}

static int64_t settled(weft_status status)
{
    begin();
    req.timed = true;
    req.submitted_ns = req.started_ns = 1;
    weft__list_init(&req.pending);
    ctx.progress_ns = 2; /* this call of progress has read the clock a while ago */
    weft__engine_held = &ctx;
    weft__request_settle(&req, status, NULL);
    weft__engine_held = NULL;
    return req.settled_ns;
}

/* What fails may do so by what has happened since then. */
static void test_failed_end_reads_the_clock(void **state)
{
    const int64_t before = weft__now_ns();
    (void)state;
    weft__completion_fd_init(&ctx.completion_fd);
    assert_true(settled(WEFT_OK) == 2);
    assert_true(settled(WEFT_ERR_PEER) >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_outcome_counts),
                                       cmocka_unit_test(test_failed_end_reads_the_clock),
                                       cmocka_unit_test(test_settled_or_woken)};
    alarm(ALARM_S);
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
