/* Meeting at a multicast address: ranks given and assigned, several that begin to serve at once, jobs beside
 * each other and one after the other, killed servers, wrong secrets and a stranger who sends old beacons
 * again. */
#include "beacon.h"
#include "joiners.h"
#include "multicast.h"

static int port;

/* n ranks that meet at one group. */
static void cast_at_group(int n, const char *group)
{
    port = cast(n);
    for (int i = 0; i < n; i++)
        snprintf(parts[i].init_method, sizeof parts[i].init_method,
                 strchr(group, ':') ? "tcp://[%s]:%d" : "tcp://%s:%d", group, port);
}

/* ---- meeting ---- */

static void given_and_assigned_ranks_meet(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n += n < 3 ? 1 : 5)
        for (int way = 0; way < 4; way++) {
            cast_at_group(n, n == 2 ? "ff15::77:1" : "239.77.1.1");
            for (int i = 0; i < n && way > 1; i++) parts[i].rank = -1;
            for (int i = 1; i < n && way > 1; i++) parts[i].world_size = -1; /* one is enough to say it */
            if (way % 2)
                play_as_threads(n);
            else
                play_as_processes(n);
            all_met(n);
            assert_string_equal(parts[n - 1].address, "127.0.0.1");
        }
}

static void the_url_may_say_it(void **state)
{
    (void)state;
    cast_at_group(2, "239.77.1.1");
    for (int i = 0; i < 2; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method,
                 "tcp://239.77.1.1:%d?rank=%d&world_size=2", port, 1 - i);
        parts[i].rank = parts[i].world_size = -1;
    }
    play_as_processes(2);
    all_met(2);
    assert_int_equal(parts[0].got_rank, 1);
}

static void sixteen_at_once_meet(void **state)
{
    (void)state;
    for (int run = 0; run < 3; run++) {
        cast_at_group(16, "239.77.1.1");
        for (int i = 0; i < 16; i++) parts[i].rank = -1;
        play_as_processes(16);
        all_met(16);
    }
}

static void a_late_rank_is_heard(void **state)
{
    (void)state;
    cast_at_group(3, "239.77.1.1");
    parts[1].delay_ms = 700;
    parts[2].delay_ms = 1300; /* when beacons have become rare */
    play_as_processes(3);
    all_met(3);
    assert_true(parts[2].seconds < 3 + JOB_LATE_MS / 1e3); /* before its deadline */
}

static void runs_follow_each_other(void **state)
{
    (void)state;
    cast_at_group(3, "239.77.1.1");
    for (int run = 0; run < 10; run++) {
        char method[128];
        memcpy(method, parts[0].init_method, sizeof method);
        cast(3);
        for (int i = 0; i < 3; i++) memcpy(parts[i].init_method, method, sizeof method), parts[i].rank = -1;
        parts[run % 3].stay_ms = run % 4;
        play_as_threads(3);
        all_met(3);
    }
}

/* ---- jobs ---- */

static void jobs_of_different_names_share_an_address(void **state)
{
    (void)state;
    cast_at_group(8, "239.77.1.1");
    two_names_meet_apart();
}

/* While the first run lives; a server of multicast is no fixed place. */
static void a_second_run_is_one_of_its_own(void **state)
{
    (void)state;
    cast_at_group(4, "239.77.1.1");
    for (int i = 0; i < 4; i++) parts[i].world_size = 2, parts[i].rank = i % 2;
    for (int i = 0; i < 2; i++) parts[i].stay = 1U << 2 | 1U << 3; /* which is why they cannot wait for it */
    for (int i = 2; i < 4; i++) parts[i].after = 1U << 0 | 1U << 1;
    play_as_processes(4);
    for (int i = 0; i < 4; i++) assert_true(parts[i].status == WEFT_OK && parts[i].gathered);
    assert_string_equal(parts[0].nonce, parts[1].nonce);
    assert_string_equal(parts[2].nonce, parts[3].nonce);
    assert_string_not_equal(parts[0].nonce, parts[3].nonce);
}

/* ---- what goes wrong ---- */

static void missing_ranks_are_named(void **state)
{
    (void)state;
    cast_at_group(4, "239.77.1.1");
    for (int i = 0; i < 4; i++)
        parts[i].timeout_ms = 5000 * JOB_SLOWER; /* three find each other well within it */
    play_as_processes(3);
    for (int i = 0; i < 3; i++) {
        told(i, WEFT_ERR_TIMEOUT, "joining at 239.77.1.1 port ");
        told(i, WEFT_ERR_TIMEOUT, "rank 3 is missing after ");
    }
}

/* Who has the wrong secret is alone, and told why that may be. */
static void a_wrong_secret_is_told(void **state)
{
    char *right = password_file("right"), *wrong = password_file("wrong");
    (void)state;
    setenv("WEFT_SOCKET_IFNAME", "lo", 1);
    cast_at_group(3, "239.77.1.1");
    for (int i = 0; i < 3; i++) parts[i].secret = right;
    play_as_processes(3);
    all_met(3);
    for (int i = 0; i < 3; i++)
        parts[i].secret = i == 2 ? wrong : right, parts[i].timeout_ms = 3000 * JOB_SLOWER;
    play_as_processes(3);
    unsetenv("WEFT_SOCKET_IFNAME");
    told(0, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    told(1, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    told(2, WEFT_ERR_TIMEOUT, "rank 0 and rank 1 are missing");
    told(2, WEFT_ERR_TIMEOUT, "another job or one with another secret is heard too");
    free(right);
    free(wrong);
}

/* Without a secret there is no way out of this host, with one it must be known which. */
static void no_way_is_told(void **state)
{
    char *secret = password_file("way");
    (void)state;
    cast_at_group(2, "239.77.1.1");
    parts[0].secret = secret;
    setenv("WEFT_SOCKET_IFNAME", "nosuch0", 1);
    pid_t pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    unsetenv("WEFT_SOCKET_IFNAME");
    told(0, WEFT_ERR_ARGUMENT, "WEFT_SOCKET_IFNAME is \"nosuch0\"");
    free(secret);
}

static void a_killed_server_is_replaced(void **state)
{
    pid_t pids[3];
    (void)state;
    cast_at_group(3, "239.77.1.1");
    for (int i = 0; i < 2; i++) {
        pids[i] = play_as_process(i);
        usleep(400000 * JOB_SLOWER);
    }
    kill(pids[0], SIGKILL); /* who came first serves */
    waitpid(pids[0], NULL, 0);
    usleep(200000 * JOB_SLOWER);
    pids[0] = play_as_process(0);
    pids[2] = play_as_process(2);
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    all_met(3);
}

/* Three ranks that begin to serve, since each hears nothing of those before: two have to resign. */
static void of_those_that_serve_one_stays(void **state)
{
    pid_t pids[3];
    (void)state;
    cast_at_group(3, "239.77.1.1");
    for (int i = 0; i < 3; i++) {
        pids[i] = play_as_process(i);
        usleep(400000 * JOB_SLOWER); /* it serves */
        if (i < 2) kill(pids[i], SIGSTOP);
    }
    for (int i = 0; i < 2; i++) kill(pids[i], SIGCONT);
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    all_met(3);
}

/* ---- strangers ---- */

static uint32_t random32(void)
{
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* Sends again all that it hears for a while after, and noise in between. */
static void *send_again(void *arg)
{
    static uint8_t kept[256][WEFT__BEACON_BYTES];
    int n = 0;
    weft__address group;
    weft__multicast m;
    const _Atomic bool *stop = arg;
    if (weft__address_resolve("239.77.1.1", port, &group) || weft__multicast_open(&group, true, &m))
        return NULL;
    while (!*stop) {
        uint8_t noise[600];
        ssize_t bytes = weft__multicast_take(&m, kept[n % 256], WEFT__BEACON_BYTES);
        if (bytes == WEFT__BEACON_BYTES) n++;
        if (n) weft__multicast_send(&m, kept[random32() % (n < 256 ? (unsigned)n : 256)], WEFT__BEACON_BYTES);
        for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)random32();
        weft__multicast_send(&m, noise, random32() % sizeof noise);
        usleep(500);
    }
    weft__multicast_close(&m);
    return NULL;
}

static void old_beacons_cost_a_retry(void **state)
{
    _Atomic bool stop = false;
    pthread_t stranger;
    (void)state;
    cast_at_group(3, "239.77.1.1");
    assert_int_equal(pthread_create(&stranger, NULL, send_again, (void *)&stop), 0);
    for (int run = 0; run < 3; run++) {
        char method[128];
        memcpy(method, parts[0].init_method, sizeof method);
        cast(3);
        for (int i = 0; i < 3; i++) memcpy(parts[i].init_method, method, sizeof method), parts[i].rank = -1;
        play_as_threads(3);
        if (parts[0].status || parts[1].status || parts[2].status) stop = true;
        all_met(3);
        for (int i = 0; i < 3; i++) assert_true(parts[i].seconds < 3 + JOB_LATE_MS / 1e3);
    }
    stop = true;
    pthread_join(stranger, NULL);
}

/* Sends one beacon again, many times in the time that a rank listens: the last one of a server heard. */
static void *send_one_again(void *arg)
{
    uint8_t bytes[WEFT__BEACON_BYTES], kept[WEFT__BEACON_BYTES];
    bool has = false;
    weft__address group;
    weft__multicast m;
    const _Atomic bool *stop = arg;
    if (weft__address_resolve("239.77.1.1", port, &group) || weft__multicast_open(&group, true, &m))
        return NULL;
    while (!*stop) {
        while (weft__multicast_take(&m, bytes, sizeof bytes) == WEFT__BEACON_BYTES)
            if (bytes[5] == WEFT__BEACON_HERE && !has) memcpy(kept, bytes, sizeof kept), has = true;
        if (has) weft__multicast_send(&m, kept, sizeof kept);
        usleep(1000);
    }
    weft__multicast_close(&m);
    return NULL;
}

/* The next one of a server, but for that one. */
static void hear_server(weft__multicast *m, const uint8_t *but, uint8_t kept[WEFT__BEACON_BYTES])
{
    for (;;) { /* ended by the alarm */
        ssize_t n = weft__multicast_take(m, kept, WEFT__BEACON_BYTES);
        if (n == WEFT__BEACON_BYTES && kept[5] == WEFT__BEACON_HERE && memcmp(kept, but, (size_t)n) != 0)
            return;
        if (n < 0) usleep(1000);
    }
}

static int compare_nonces(const uint8_t *a, const uint8_t *b)
{
    enum { AT = 24 }; /* beacon.c */
    return memcmp(a + AT, b + AT, WEFT__RUN_NONCE_BYTES);
}

static void end_part(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Though it would have to, for one that is there. */
static void nobody_resigns_for_a_beacon_of_old(void **state)
{
    uint8_t old[WEFT__BEACON_BYTES] = {0}, own[WEFT__BEACON_BYTES], any[WEFT__BEACON_BYTES];
    int64_t until;
    weft__address group;
    weft__multicast m;
    pid_t pids[2];
    (void)state;
    cast_at_group(2, "239.77.1.1");
    assert_int_equal(weft__address_resolve("239.77.1.1", port, &group), WEFT_OK);
    assert_int_equal(weft__multicast_open(&group, true, &m), WEFT_OK);
    for (bool ready = false; !ready;) {
        pids[0] = play_as_process(0);
        hear_server(&m, old, own);
        ready = old[5] && compare_nonces(old, own) < 0;
        if (!ready) {
            end_part(pids[0]);
            memcpy(old, own, sizeof old);
        }
    }
    until = weft__now_ns() + 500 * JOB_SLOWER * WEFT__MS;
    while (weft__now_ns() < until) {
        weft__multicast_send(&m, old, sizeof old);
        while (weft__multicast_take(&m, any, sizeof any) == WEFT__BEACON_BYTES)
            if (any[5] == WEFT__BEACON_HERE && memcmp(any, old, sizeof old) != 0)
                assert_int_equal(compare_nonces(any, own), 0);
        usleep(1000);
    }
    weft__multicast_close(&m);
    pids[1] = play_as_process(1);
    for (int i = 0; i < 2; i++) waitpid(pids[i], NULL, 0);
    all_met(2);
}

/* Beside a thread of this process, from which the thread sanitizer lets nobody fork. */
static void play_apart(int n)
{
#if defined(__SANITIZE_THREAD__)
    play_as_threads(n);
#else
    play_as_processes(n);
#endif
}

/* The server of that beacon is gone: a rank that followed it again and again would never serve. */
static void a_beacon_replayed_is_followed_once(void **state)
{
    _Atomic bool stop = false;
    pthread_t stranger;
    char method[128];
    (void)state;
    cast_at_group(2, "239.77.1.1");
    memcpy(method, parts[0].init_method, sizeof method);
    assert_int_equal(pthread_create(&stranger, NULL, send_one_again, (void *)&stop), 0);
    for (int run = 0; run < 2; run++) {
        cast(2);
        for (int i = 0; i < 2; i++) {
            memcpy(parts[i].init_method, method, sizeof method);
            parts[i].rank = -1; /* rank 0 may serve before it has listened */
            parts[i].timeout_ms = 8 * SHORT_MS;
        }
        play_apart(2);
        if (parts[0].status || parts[1].status) stop = true;
        all_met(2);
    }
    stop = true;
    pthread_join(stranger, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_secret_is_told), /* first: this process has not read its settings yet */
        cmocka_unit_test(no_way_is_told),
        cmocka_unit_test(given_and_assigned_ranks_meet),
        cmocka_unit_test(the_url_may_say_it),
        cmocka_unit_test(sixteen_at_once_meet),
        cmocka_unit_test(a_late_rank_is_heard),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(jobs_of_different_names_share_an_address),
        cmocka_unit_test(a_second_run_is_one_of_its_own),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(a_killed_server_is_replaced),
        cmocka_unit_test(of_those_that_serve_one_stays),
        cmocka_unit_test(nobody_resigns_for_a_beacon_of_old),
        cmocka_unit_test(old_beacons_cost_a_retry),
        cmocka_unit_test(a_beacon_replayed_is_followed_once),
    };
    (void)be_apart();
    return run_joiners(tests, sizeof tests / sizeof *tests);
}
