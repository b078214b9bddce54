/* test_join_places.c - joining where nobody was told an address: at a file, and by multicast.  Without a
 * secret, so all of it stays on this host's loopback. */
#include "job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOIN_MS = JOB_SANITIZED ? 10000 : 4000, REFUSED_BY_MS = 5000 };

/* One per job of a test: the ports of running jobs are theirs alone. */
static void file_of(const job_rank *me, char path[64], char url[96])
{
    snprintf(path, 64, "/tmp/weft-test-join-%d", job_port(me, 0));
    snprintf(url, 96, "file://%s", path);
}

static void group_of(const job_rank *me, char url[96])
{
    snprintf(url, 96, "tcp://239.77.2.1:%d", job_port(me, 1));
}

static weft_config config_of(const char *url)
{
    weft_config config = WEFT_CONFIG_INIT;
    config.init_method = url;
    config.timeout_ms = JOB_WAIT_MS;
    return config;
}

static void enter(job_rank *me, const weft_config *config)
{
    CHECK_OK(weft_init(config, &me->ctx));
    me->world = weft_world(me->ctx);
}

/* All ranks 0 .. size-1, each once. */
static void check_ranks(job_rank *me)
{
    job_results(me, weft_group_rank(me->world))[0]++;
    CHECK_INT(weft_group_size(me->world), me->size);
    job_sum_works(me->world);
    job_meet(me);
    for (int rank = 0; rank < me->size; rank++) CHECK_INT(job_results(me, rank)[0], 1);
}

static void leave(job_rank *me)
{
    CHECK_OK(weft_finalize(me->ctx, JOB_WAIT_MS));
    me->ctx = NULL;
}

static void check_no_file(job_rank *me, const char *path)
{
    job_meet(me);
    CHECK(access(path, F_OK) != 0);
}

/* ---- a file --------------------------------------------------------------------------------------- */

static void file_given(job_rank *me)
{
    char path[64], url[96], whole[128];
    file_of(me, path, url);
    snprintf(whole, sizeof whole, "%s?rank=%d&world_size=%d", url, me->size - 1 - me->rank, me->size);
    weft_config config = config_of(whole);
    enter(me, &config);
    CHECK_INT(weft_group_rank(me->world), me->size - 1 - me->rank);
    check_ranks(me);
    leave(me);
    check_no_file(me, path);
}

/* Runs follow each other at once, at one file. */
static void file_assigned(job_rank *me)
{
    char path[64], url[96];
    file_of(me, path, url);
    for (int run = 1; run <= 3; run++) {
        weft_config config = config_of(url);
        if (me->rank == 0) config.world_size = me->size;
        enter(me, &config);
        job_results(me, weft_group_rank(me->world))[0]++;
        job_sum_works(me->world);
        job_meet(me);
        for (int rank = 0; rank < me->size; rank++) CHECK_INT(job_results(me, rank)[0], run);
        leave(me);
    }
    check_no_file(me, path);
}

static void file_two_jobs(job_rank *me)
{
    char path[64], url[96];
    int half = me->size / 2;
    file_of(me, path, url);
    weft_config config = config_of(url);
    config.job = me->rank < half ? "first" : "second";
    config.world_size = half;
    config.rank = me->rank % half;
    enter(me, &config);
    int64_t sum = me->rank;
    CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT64, WEFT_SUM, NULL, NULL));
    CHECK_INT(sum, me->rank < half ? 1 : 5);
    leave(me);
    check_no_file(me, path);
}

/* The second of two runs of one name is refused, and the first goes on. */
static void file_same_name(job_rank *me)
{
    char path[64], url[96], words[128];
    int half = me->size / 2;
    file_of(me, path, url);
    weft_config config = config_of(url);
    config.world_size = half;
    config.rank = me->rank % half;
    if (me->rank < half) enter(me, &config);
    job_meet(me);
    if (me->rank >= half) {
        int64_t before = job_now_ns();
        CHECK_STATUS(WEFT_ERR_STATE, weft_init(&config, &me->ctx));
        CHECK_PERIOD(before, job_now_ns(), 0, REFUSED_BY_MS + job_late_ms());
        CHECK(!me->ctx);
        snprintf(words, sizeof words, "job \"default\" at the file %s is running already", path);
        CHECK_TEXT(weft_last_error(), words);
    }
    job_meet(me);
    if (me->rank < half) {
        job_sum_works(me->world);
        leave(me);
    }
    check_no_file(me, path);
}

static void file_missing(job_rank *me)
{
    char path[64], url[96];
    file_of(me, path, url);
    weft_config config = config_of(url);
    config.world_size = me->size;
    config.rank = me->rank;
    config.timeout_ms = JOIN_MS;
    if (me->rank != 2) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_init(&config, &me->ctx));
        CHECK_TEXT(weft_last_error(), path);
        CHECK_NAMES(weft_last_error(), 1U << 2, 3);
    }
    check_no_file(me, path);
}

static void file_garbage(job_rank *me)
{
    char path[64], url[96], text[16] = "";
    file_of(me, path, url);
    weft_config config = config_of(url);
    config.world_size = 2;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(write(fd, "dear diary", 10) == 10);
    CHECK_STATUS(WEFT_ERR_SYSTEM, weft_init(&config, &me->ctx));
    CHECK_TEXT(weft_last_error(), path);
    CHECK_TEXT(weft_last_error(), "something else");
    CHECK(pread(fd, text, sizeof text, 0) == 10 && !strcmp(text, "dear diary"));
    close(fd);
    unlink(path);
    config.init_method = "file:///proc/none/here";
    CHECK_STATUS(WEFT_ERR_SYSTEM, weft_init(&config, &me->ctx));
    CHECK_TEXT(weft_last_error(), "/proc/none/here");
    config.init_method = "file://here";
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_init(&config, &me->ctx));
    CHECK_TEXT(weft_last_error(), "file:///PATH");
}

/* Killed while it runs: what it left is taken over at once. */
static void file_after_kill(job_rank *me)
{
    char path[64], url[96];
    pid_t child;
    file_of(me, path, url);
    job_meet(me);
    child = fork(); /* before this process has a context */
    if (!child) {
        weft_config config = config_of(url);
        weft_context *ctx;
        config.world_size = me->size;
        if (weft_init(&config, &ctx) != WEFT_OK) _exit(1);
        job_mark(me, 0);
        for (;;) pause();
    }
    CHECK(child > 0);
    job_await(me, 0, me->size);
    CHECK_INT(kill(child, SIGKILL), 0);
    CHECK_INT(waitpid(child, NULL, 0), child);
    job_meet(me);
    CHECK_INT(access(path, F_OK), 0);
    weft_config config = config_of(url);
    config.world_size = me->size;
    int64_t before = job_now_ns();
    job_meet(me);
    enter(me, &config);
    CHECK_PERIOD(before, job_now_ns(), 0, REFUSED_BY_MS + job_late_ms());
    check_ranks(me);
    leave(me);
    check_no_file(me, path);
}

/* ---- multicast -------------------------------------------------------------------------------------- */

static void multicast_given(job_rank *me)
{
    char url[96], whole[128];
    group_of(me, url);
    snprintf(whole, sizeof whole, "%s?rank=%d&world_size=%d", url, me->size - 1 - me->rank, me->size);
    weft_config config = config_of(whole);
    enter(me, &config);
    CHECK_INT(weft_group_rank(me->world), me->size - 1 - me->rank);
    check_ranks(me);
}

static void multicast_assigned(job_rank *me)
{
    char url[96];
    snprintf(url, sizeof url, "tcp://[ff15::77:2]:%d", job_port(me, 1));
    weft_config config = config_of(url);
    if (me->rank == 0) config.world_size = me->size;
    enter(me, &config);
    check_ranks(me);
}

/* By name they are apart; of one name, the second is a run of its own. */
static void multicast_two_jobs(job_rank *me)
{
    char url[96];
    int half = me->size / 2;
    group_of(me, url);
    weft_config config = config_of(url);
    config.job = *(const int *)me->arg ? "same" : me->rank < half ? "first" : "second";
    config.world_size = half;
    config.rank = me->rank % half;
    if (*(const int *)me->arg && me->rank >= half) job_await(me, 0, half);
    enter(me, &config);
    job_mark(me, 0);
    int64_t sum = me->rank;
    CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT64, WEFT_SUM, NULL, NULL));
    CHECK_INT(sum, me->rank < half ? 1 : 5);
    job_meet(me); /* both live until here */
}

static void multicast_missing(job_rank *me)
{
    char url[96];
    group_of(me, url);
    weft_config config = config_of(url);
    config.world_size = me->size;
    config.rank = me->rank;
    config.timeout_ms = JOIN_MS;
    if (me->rank == 2) return;
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_init(&config, &me->ctx));
    CHECK_TEXT(weft_last_error(), "239.77.2.1");
    CHECK_NAMES(weft_last_error(), 1U << 2, 3);
}

static const int no = 0, yes = 1;

#define JOIN(sentence, ...) JOB_TEST(sentence, .bare = true, __VA_ARGS__)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOIN("file: given ranks", .ranks = 4, .body = file_given),
        JOIN("file: assigned ranks, runs after each other", .ranks = 4, .body = file_assigned),
        JOIN("file: two jobs", .ranks = 4, .body = file_two_jobs),
        JOIN("file: the same name twice", .ranks = 4, .body = file_same_name),
        JOIN("file: a missing rank is named", .ranks = 3, .body = file_missing),
        JOIN("file: what is no meeting file", .ranks = 1, .body = file_garbage),
        JOIN("file: a killed job starts again", .ranks = 3, .body = file_after_kill, .processes = true),
        JOIN("multicast: given ranks", .ranks = 4, .body = multicast_given),
        JOIN("multicast: assigned ranks", .ranks = 4, .body = multicast_assigned),
        JOIN("multicast: two jobs", .ranks = 4, .body = multicast_two_jobs, .arg = &no),
        JOIN("multicast: the same name twice", .ranks = 4, .body = multicast_two_jobs, .arg = &yes),
        JOIN("multicast: a missing rank is named", .ranks = 3, .body = multicast_missing),
    };
    unsetenv("WEFT_SECRET");
    return JOB_MAIN(tests, argc, argv);
}
