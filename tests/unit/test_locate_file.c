/* Meeting at a file: ranks given and assigned, jobs beside each other and one after the other, killed ones,
 * and those that must be refused. */
#include "joiners.h"

#include <fcntl.h>

static char path[64];

/* n ranks that meet at one file. */
static void cast_at_file(int n)
{
    cast(n);
    snprintf(path, sizeof path, "%s/meeting", root);
    for (int i = 0; i < n; i++)
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "file://%s", path);
}

/* Who makes it serves. */
static bool file_is_there(void)
{
    return access(path, F_OK) == 0;
}

/* Only rank 0 has little time, and it serves; the others begin when it does. */
static void hurry_the_server(int n)
{
    parts[0].timeout_ms = 2 * SHORT_MS;
    for (int i = 1; i < n; i++) parts[i].ready = file_is_there;
}

static void nothing_is_left(void)
{
    assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- meeting ---- */

static void given_and_assigned_ranks_meet(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n += n < 2 ? 1 : 3)
        for (int way = 0; way < 4; way++) {
            cast_at_file(n);
            for (int i = 0; i < n && way > 1; i++) parts[i].rank = -1;
            for (int i = 1; i < n && way > 1; i++) parts[i].world_size = -1; /* one is enough to say it */
            if (way % 2)
                play_as_threads(n);
            else
                play_as_processes(n);
            all_met(n);
            assert_string_equal(parts[n - 1].address, "127.0.0.1");
            nothing_is_left();
        }
}

static void the_url_may_say_it(void **state)
{
    (void)state;
    cast_at_file(3);
    for (int i = 0; i < 3; i++) {
        snprintf(parts[i].init_method, sizeof parts[i].init_method, "file://%s?rank=%d&world_size=3", path,
                 2 - i);
        parts[i].rank = parts[i].world_size = -1;
    }
    play_as_processes(3);
    for (int i = 0; i < 3; i++) parts[i].rank = 2 - i;
    all_met(3);
}

static void sixteen_at_once_meet(void **state)
{
    (void)state;
    for (int run = 0; run < 3; run++) {
        cast_at_file(16);
        for (int i = 0; i < 16; i++) parts[i].rank = -1;
        play_as_processes(16);
        all_met(16);
        nothing_is_left();
    }
}

/* The early ones of a run find the end of the last one. */
static void runs_follow_each_other(void **state)
{
    (void)state;
    for (int run = 0; run < 15; run++) {
        cast_at_file(3);
        for (int i = 0; i < 3; i++) parts[i].rank = -1;
        parts[run % 3].stay_ms = run % 4;
        play_as_threads(3);
        all_met(3);
    }
}

static void jobs_of_different_names_share_a_file(void **state)
{
    (void)state;
    cast_at_file(8);
    two_names_meet_apart();
    nothing_is_left();
}

/* ---- who may not ---- */

static void a_running_job_keeps_its_name(void **state)
{
    (void)state;
    cast_at_file(4);
    for (int i = 0; i < 4; i++) parts[i].world_size = 2, parts[i].rank = i % 2;
    for (int i = 0; i < 2; i++) parts[i].stay = 1U << 2 | 1U << 3;
    for (int i = 2; i < 4; i++) parts[i].after = 1U << 0 | 1U << 1;
    play_as_processes(4);
    for (int i = 0; i < 2; i++) assert_true(parts[i].status == WEFT_OK && parts[i].gathered);
    for (int i = 2; i < 4; i++) {
        told(i, WEFT_ERR_STATE, "job \"test\" at the file ");
        told(i, WEFT_ERR_STATE, "is running already, at 127.0.0.1 port ");
        told(i, WEFT_ERR_STATE, "(pid ");
        assert_true(parts[i].seconds > 2 &&
                    parts[i].seconds < 3 + JOB_LATE_MS / 1e3); /* it might have ended */
    }
    nothing_is_left();
}

static void a_running_job_may_end_in_time(void **state)
{
    (void)state;
    cast_at_file(4);
    for (int i = 0; i < 4; i++) parts[i].world_size = 2, parts[i].rank = i % 2;
    for (int i = 0; i < 2; i++) parts[i].stay_ms = 500;
    for (int i = 2; i < 4; i++) parts[i].after = 1U << 0 | 1U << 1;
    play_as_processes(4);
    for (int i = 0; i < 4; i++) assert_true(parts[i].status == WEFT_OK && parts[i].gathered);
    assert_string_equal(parts[2].nonce, parts[3].nonce);
    assert_string_not_equal(parts[0].nonce, parts[3].nonce);
}

static void missing_ranks_are_named(void **state)
{
    (void)state;
    cast_at_file(4);
    hurry_the_server(3);
    play_as_processes(3);
    for (int i = 0; i < 3; i++) told(i, WEFT_ERR_TIMEOUT, "rank 3 is missing after ");
    told(0, WEFT_ERR_TIMEOUT, path);
    nothing_is_left();
}

static void secrets_must_agree(void **state)
{
    char *right = password_file("right"), *wrong = password_file("wrong");
    (void)state;
    setenv("WEFT_SOCKET_IFNAME", "lo", 1); /* with a secret a server could be reached from elsewhere */
    cast_at_file(3);
    for (int i = 0; i < 3; i++) parts[i].secret = right;
    play_as_processes(3);
    all_met(3);
    hurry_the_server(3);
    parts[2].secret = wrong;
    play_as_processes(3);
    told(2, WEFT_ERR_AUTH, "the job's secret or the job's name differs");
    told(0, WEFT_ERR_TIMEOUT, "rank 2 is missing");
    unsetenv("WEFT_SOCKET_IFNAME");
    free(right);
    free(wrong);
}

static void a_bad_file_is_refused(void **state)
{
    char text[64] = "";
    int fd;
    (void)state;
    cast_at_file(2);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "dear diary", 10), 10);
    play(&parts[0]);
    told(0, WEFT_ERR_SYSTEM, "it holds something else, which is left as it is");
    told(0, WEFT_ERR_SYSTEM, path);
    assert_int_equal(pread(fd, text, sizeof text, 0), 10);
    assert_string_equal(text, "dear diary");
    close(fd);
    unlink(path);
    snprintf(parts[0].init_method, sizeof parts[0].init_method, "file:///proc/weft-rendezvous");
    play(&parts[0]);
    told(0, WEFT_ERR_SYSTEM, "/proc/weft-rendezvous");
}

/* ---- killed ---- */

static void a_killed_job_starts_again(void **state)
{
    pid_t pids[3];
    (void)state;
    cast_at_file(3);
    for (int i = 0; i < 3; i++) {
        parts[i].stay = 1U << i; /* for ever */
        pids[i] = play_as_process(i);
    }
    await_all(7, OPENED);
    for (int i = 0; i < 3; i++) kill(pids[i], SIGKILL);
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    assert_int_equal(access(path, F_OK), 0); /* what they left */
    cast_at_file(3);
    play_as_processes(3);
    all_met(3);
    for (int i = 0; i < 3; i++) assert_true(parts[i].seconds < 3 + JOB_LATE_MS / 1e3);
    nothing_is_left();
}

/* Whoever serves: another one does so, and the killed rank's number is free again. */
static void a_rank_killed_while_joining_is_replaced(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        pid_t pids[3];
        cast_at_file(3);
        for (int i = 0; i < 2; i++) {
            pids[i] = play_as_process(i);
            usleep(300000);
        }
        kill(pids[killed], SIGKILL);
        waitpid(pids[killed], NULL, 0);
        usleep(1000000 * JOB_SLOWER); /* until the serving rank has noticed */
        pids[killed] = play_as_process(killed);
        pids[2] = play_as_process(2);
        for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
        all_met(3);
        nothing_is_left();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secrets_must_agree), /* first: this process has not read its settings yet */
        cmocka_unit_test(given_and_assigned_ranks_meet),
        cmocka_unit_test(the_url_may_say_it),
        cmocka_unit_test(sixteen_at_once_meet),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(jobs_of_different_names_share_a_file),
        cmocka_unit_test(a_running_job_keeps_its_name),
        cmocka_unit_test(a_running_job_may_end_in_time),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(a_bad_file_is_refused),
        cmocka_unit_test(a_killed_job_starts_again),
        cmocka_unit_test(a_rank_killed_while_joining_is_replaced),
    };
    return run_joiners(tests, sizeof tests / sizeof *tests);
}
