/* test_join.c - how ranks find each other, and what is said when they do not. */
#include "job.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { JOIN_MS = JOB_SANITIZED ? 10000 : 4000, TOLD_BY = 0 };

/* Joins by hand and leaves again; on failure *told has the sentence. */
static weft_status try_to_join(job_rank *me, const weft_config *config, char told[512])
{
    int64_t before = job_now_ns();
    weft_status status = weft_init(config, &me->ctx);
    CHECK_PERIOD(before, job_now_ns(), 0, JOB_WAIT_MS * 3 / 2 + job_late_ms());
    snprintf(told, 512, "%s", status == WEFT_OK ? "" : weft_last_error());
    if (status == WEFT_OK) {
        me->world = weft_world(me->ctx);
    } else {
        CHECK(!me->ctx && strlen(told) > 0);
    }
    return status;
}

static void given_ranks(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    config.rank = me->size - 1 - me->rank;
    CHECK_OK(try_to_join(me, &config, told));
    CHECK_INT(weft_group_rank(me->world), config.rank);
    job_sum_works(me->world);
}

static void in_the_url(job_rank *me)
{
    char url[64], told[512], whole[128];
    weft_config config = job_config(me, url, 0);
    snprintf(whole, sizeof whole, "%s?rank=%d&world_size=%d", url, me->rank, me->size);
    config.init_method = whole;
    config.rank = config.world_size = -1;
    CHECK_OK(try_to_join(me, &config, told));
    CHECK_INT(weft_group_rank(me->world), me->rank);
    CHECK_INT(weft_group_size(me->world), me->size);
    job_sum_works(me->world);
}

/* Rank 2 asks for its number, the others take what is free. */
static void assigned_ranks(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    config.rank = me->rank == 1 ? 2 : -1;
    CHECK_OK(try_to_join(me, &config, told));
    CHECK(me->rank != 1 || weft_group_rank(me->world) == 2);
    job_results(me, weft_group_rank(me->world))[0]++;
    job_sum_works(me->world);
    job_meet(me);
    for (int rank = 0; rank < me->size; rank++) CHECK_INT(job_results(me, rank)[0], 1);
}

/* The fields of the configuration win over the environment. */
static void configuration_wins(job_rank *me)
{
    char told[512];
    weft_config config = WEFT_CONFIG_INIT;
    config.rank = (me->rank + 1) % me->size;
    CHECK_OK(try_to_join(me, &config, told));
    CHECK_INT(weft_group_rank(me->world), config.rank);
    job_sum_works(me->world);
}

/* ---- what goes wrong
 * -------------------------------------------------------------------------------------- */

static void missing_variable(job_rank *me)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE"};
    char told[512];
    setenv("WORLD_SIZE", "2", 1); /* a world of one needs no port */
    for (int i = 0; i < 2; i++) {
        char kept[64];
        snprintf(kept, sizeof kept, "%s", getenv(names[i]));
        unsetenv(names[i]);
        CHECK(try_to_join(me, NULL, told) < 0);
        CHECK_TEXT(told, names[i]);
        setenv(names[i], kept, 1);
    }
    unsetenv("MASTER_PORT"); /* the usual one is taken where nobody else can come to it */
    setenv("MASTER_ADDR", "192.0.2.1", 1);
    CHECK(try_to_join(me, NULL, told) < 0);
    CHECK_TEXT(told, "WEFT_SECRET");
    setenv("RANK", "many", 1);
    CHECK(try_to_join(me, NULL, told) < 0);
    CHECK_TEXT(told, "many");
}

static void missing_rank(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    if (me->rank == 2) {
        return;
    }
    config.timeout_ms = JOIN_MS;
    int64_t before = job_now_ns();
    CHECK_STATUS(WEFT_ERR_TIMEOUT, try_to_join(me, &config, told));
    CHECK_PERIOD(before, job_now_ns(), me->rank == 0 ? JOIN_MS : 0, JOIN_MS + job_late_ms());
    CHECK_NAMES(told, 1U << 2, 3);
}

static void no_server(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    if (me->rank == 0) {
        return;
    }
    config.timeout_ms = JOIN_MS;
    CHECK(try_to_join(me, &config, told) < 0);
    CHECK_TEXT(told, "127.0.0.1");
}

/* Both say they are rank 0; whoever can know it is told, nobody joins. */
static void same_rank_twice(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    config.rank = 0;
    config.timeout_ms = JOIN_MS;
    CHECK(try_to_join(me, &config, told) < 0);
    job_results(me, me->rank)[TOLD_BY] = job_names(told, 0);
    job_meet(me);
    CHECK(job_results(me, 0)[TOLD_BY] || job_results(me, 1)[TOLD_BY]);
}

static void different_sizes(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    config.world_size = me->rank ? 5 : 2;
    config.timeout_ms = JOIN_MS;
    CHECK(try_to_join(me, &config, told) < 0);
    job_results(me, me->rank)[TOLD_BY] = strstr(told, "5") && strstr(told, "2");
    job_meet(me);
    CHECK(job_results(me, 0)[TOLD_BY] || job_results(me, 1)[TOLD_BY]);
}

/* All are told what differs, by whom. */
static void different_quorums(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    job_setenv(me, "WEFT_QUORUM", me->rank == 1 ? "any" : "majority");
    CHECK_STATUS(WEFT_ERR_MISMATCH, try_to_join(me, &config, told));
    CHECK_TEXT(told, "WEFT_QUORUM is \"majority\" on rank 0");
    CHECK_TEXT(told, "\"any\" on rank 1");
}

/* Something else listens there and never greets. */
static void port_in_use(job_rank *me)
{
    char url[64], told[512];
    weft_config config = job_config(me, url, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)job_port(me, 0))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(fd, 8), 0);
    config.timeout_ms = JOIN_MS;
    config.world_size = 2; /* a world of one meets nobody */
    CHECK(try_to_join(me, &config, told) < 0);
    snprintf(url, sizeof url, "%d", job_port(me, 0));
    CHECK_TEXT(told, url);
    close(fd);
}

#define JOIN(sentence, n, function) JOB_TEST(sentence, .ranks = n, .body = function, .bare = true)
/* Each with an environment of its own. */
#define JOIN_APART(sentence, n, function) \
    JOB_TEST(sentence, .ranks = n, .body = function, .bare = true, .processes = true)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOIN("given ranks", 3, given_ranks),
        JOIN("in the url", 3, in_the_url),
        JOIN("assigned ranks", 4, assigned_ranks),
        JOIN_APART("the configuration wins", 2, configuration_wins),
        JOIN_APART("a missing variable is named", 1, missing_variable),
        JOIN("a missing rank is named", 3, missing_rank),
        JOIN("no server", 2, no_server),
        JOIN("the same rank twice", 2, same_rank_twice),
        JOIN("different sizes", 2, different_sizes),
        JOIN_APART("different quorums", 3, different_quorums),
        JOIN("a port in use", 1, port_in_use),
    };
    return JOB_MAIN(tests, argc, argv);
}
