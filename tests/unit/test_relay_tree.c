/* test_relay_tree.c - hosts meet through relays of other hosts: what that costs where they all meet, and what becomes of
 * those below a relay that dies or stops.
 *
 * Messages are counted (join_traffic.h), and time goes ahead where it would have to be waited for (moved_clock.h).  A
 * host is a WEFT_HOSTID here. */
#include "join_meetings.h"
#include "join_traffic.h"
#include "join_waits.h"
#include "joiners.h"
#include "moved_clock.h"

enum {
    TREE_HOSTS = 2, /* that speak to the server; others to one of these, or to one below them */
    TREE_FAN = 2,
    SILENT_MS = WEFT__RELAY_SILENT_MS,
    QUICK_MS = 300,           /* of silence, where it has to be waited for */
    PATIENT_MS = 9 * LONG_MS, /* where nobody is to take his time's end for it */
    N = 6                     /* ranks of a chain */
};

/* ---- what it costs ---- */

static void be_rank(int rank, int n, int per_host, const char *method)
{
    weft__join join = {.init_method = method,
                       .job = "tree",
                       .rank = rank,
                       .world_size = n,
                       .tree = {TREE_HOSTS, TREE_FAN},
                       .deadline_ns = weft__deadline(weft__now_ns(), JOB_LIMIT_MS)};
    weft__rendezvous *r;
    char host[32];
    alarm(JOB_ALARM_S);
    snprintf(host, sizeof host, "host%d", rank / per_host);
    setenv("WEFT_HOSTID", host, 1);
    own = &ranks[rank];
    if (weft__rendezvous_open(&join, &r) == WEFT_OK) {
        own->met = gather(r, rank, n, per_host);
        if (own->met) weft__rendezvous_done(r);
    }
    snprintf(own->sentence, sizeof own->sentence, "%s", weft_last_error());
    if (own->met) weft__rendezvous_close(r);
    weft__log_flush();
    exit(0);
}

/* Over what stays: of each host that speaks to the server its leader and its relay, and the serving rank's own.  Of each
 * further host there is one message, by which its leader asks where to go, and the answer.
 *
 * In: a JOIN and a DONE of each of those connections' ends, for a relay all that have come in 10 ms in one message; and a
 * message a gather.  On a busy machine what is late goes alone, so that words of all ranks are possible, and tried again. */
static void the_servers_cost_does_not_grow_with_hosts(void **state)
{
    static const int ranks_of[] = {16, 32, 64};
    (void)state;
    for (int k = 0; k < 3; k++) {
        const int n = ranks_of[k], hosts = n / 2, stay = 2 * TREE_HOSTS + 1, sent_on = hosts - TREE_HOSTS;
        const traffic *s = NULL;
        for (int tries = 0; tries < TRIES; tries++) {
            meet(n, 2, be_rank);
            s = server_of(n);
            if (s->connections <= stay + sent_on && s->in <= 3 * sent_on + (2 + 2 * GATHERS) * stay) break;
        }
        print_message("%d ranks on %d hosts: %d connections, %d messages in, %d out, %zu bytes in, %zu out\n",
                      n, hosts, s->connections, s->in, s->out, s->bytes_in, s->bytes_out);
        assert_in_range(s->connections, stay, stay + sent_on);
        assert_in_range(s->out, 1, hosts + (3 + GATHERS) * stay);
        assert_in_range(s->in, 1, sent_on + (2 + GATHERS) * n);
    }
}

/* ---- when the middle fails ---- */

/* Rank 0 serves, rank 1's relay speaks to the server, that of 2, which leads 3, to rank 1's, and that of 4 to rank 2's.
 * Rank 5 is on 4's host, and comes last.  When this returns the others have joined. */
static void come_as_chain(int silent_ms, int wait_ms, pid_t *pids)
{
    static const char *const hosts[N] = {"a", "b", "c", "c", "d", "d"};
    cast(N);
    for (int i = 0; i < N; i++) {
        parts[i].secret = secret;
        parts[i].relay_silent_ms = silent_ms;
        parts[i].timeout_ms = i == 0 || i == 2 ? 2 * wait_ms : wait_ms;
        parts[i].tree = (weft__tree){1, 1};
        parts[i].host = hosts[i];
        if (i) parts[i].world_size = -1; /* so that they look for a relay */
    }
    memset(&ranks[0], 0, sizeof ranks[0]);
    own = &ranks[0];
    pids[0] = play_as_process(0);
    own = NULL;
    while (!server_is_up()) usleep(1000);
    for (int i = 1; i < N - 1; i++) {
        pids[i] = play_as_process(i);
        await_all_before(i + 1);
    }
}

/* All are in the job; but for rank 2 they gather once that has ended. */
static void come_last(pid_t *pids)
{
    for (int i = 0; i < N; i++) {
        parts[i].stay = i == 2 ? 0 : 1U << 2;
        parts[i].stay_ms = i == 2 ? LONG_MS : 0;
    }
    pids[N - 1] = play_as_process(N - 1);
    await_all((1U << N) - 1, OPENED);
}

/* The server's connections: its own rank's; those of the first leader and its relay; of two leaders that ask where to
 * go; and of this test, one for each rank that it has awaited. */
static void the_tree_is_one(void)
{
    assert_in_range(ranks[0].server.connections, 1, 5 + N - 2);
}

/* Rank 2 leads the middle of the chain; its part is missing, and no part of those behind it, on its host and below. */
static void the_middle_is_named_alone(int how, int silent_ms)
{
    pid_t pids[N];
    come_as_chain(silent_ms, PATIENT_MS, pids);
    if (silent_ms == SILENT_MS) the_tree_is_one();
    come_last(pids);
    if (how == SIGKILL)
        end_rank(pids[2]);
    else
        kill(pids[2], how);
    parts[2].stage = ENDED;
    await_words("rank 2 is missing");
    pass_time(PATIENT_MS);
    reap(pids, 0x3a);
    pass_time(PATIENT_MS); /* the rank that serves hears no last word of it */
    reap(pids, 0x1);
    if (how != SIGKILL) end_rank(pids[2]);
    for (int i = 0; i < N; i++)
        if (i != 2) told(i, WEFT_ERR_TIMEOUT, ": rank 2 is missing after ");
}

static void a_middle_that_dies_is_named_alone(void **state)
{
    (void)state;
    the_middle_is_named_alone(SIGKILL, SILENT_MS);
}

static void a_middle_that_stops_is_named_alone(void **state)
{
    (void)state;
    the_middle_is_named_alone(SIGSTOP, QUICK_MS);
}

/* Those behind it join again where they can. */
static void a_middle_that_dies_before_all_are_there_can_be_replaced(void **state)
{
    pid_t pids[N];
    (void)state;
    come_as_chain(SILENT_MS, LONG_MS, pids);
    end_rank(pids[2]);
    await_all_before(2); /* that it has gone is known */
    pids[2] = play_as_process(2);
    usleep(100000);
    pids[N - 1] = play_as_process(N - 1);
    reap(pids, (1U << N) - 1);
    all_met(N);
}

/* Word of its end is still on its way through relays when it is there again, and the last one too. */
static void a_middle_that_dies_can_be_replaced_at_once(void **state)
{
    pid_t pids[N];
    (void)state;
    for (int i = 0; i < 3; i++) {
        come_as_chain(SILENT_MS, LONG_MS, pids);
        end_rank(pids[2]);
        pids[2] = play_as_process(2);
        pids[N - 1] = play_as_process(N - 1);
        reap(pids, (1U << N) - 1);
        all_met(N);
    }
}

/* Who is below two relays and brings nothing. */
static void who_does_not_gather_is_named_behind_relays(void **state)
{
    pid_t pids[N];
    (void)state;
    come_as_chain(PATIENT_MS, LONG_MS, pids);
    parts[N - 1].stay = (1U << (N - 1)) - 1;
    pids[N - 1] = play_as_process(N - 1);
    await_all((1U << N) - 1, OPENED);
    await_words("rank 5 is missing");
    pass_time(
        2 *
        LONG_MS); /* at once: who wakes up between two leaps has asked, and takes the second for silence */
    reap(pids, (1U << N) - 1);
    for (int i = 0; i < N - 1; i++) told(i, WEFT_ERR_TIMEOUT, ": rank 5 is missing after ");
}

/* What one fails by below two relays is told to all. */
static void who_fails_below_is_heard(void **state)
{
    pid_t pids[N];
    (void)state;
    come_as_chain(SILENT_MS, LONG_MS, pids);
    parts[N - 1].fails = 1;
    pids[N - 1] = play_as_process(N - 1);
    reap(pids, (1U << N) - 1);
    for (int i = 0; i < N - 1; i++) told(i, WEFT_ERR_MEMORY, "rank 5 (host ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_servers_cost_does_not_grow_with_hosts),
        cmocka_unit_test(a_middle_that_dies_is_named_alone),
        cmocka_unit_test(a_middle_that_stops_is_named_alone),
        cmocka_unit_test(a_middle_that_dies_before_all_are_there_can_be_replaced),
        cmocka_unit_test(a_middle_that_dies_can_be_replaced_at_once),
        cmocka_unit_test(who_does_not_gather_is_named_behind_relays),
        cmocka_unit_test(who_fails_below_is_heard),
    };
    if (!traffic_begin() || !clock_begin()) return 1;
    setenv("RELAY_SECRET", secret_text, 1);
    return run_joiners(tests, sizeof tests / sizeof tests[0]);
}
