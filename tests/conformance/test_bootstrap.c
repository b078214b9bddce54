/* test_bootstrap.c - joining through a channel that the caller brings: here a table in shared memory. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    TABLES = 64,      /* a new one for each joining */
    BLOCK_MAX = 4096, /* of one rank */
    CALLS_MAX = 40,   /* that one joining may make */
};

/* Ranks meet at a count of arrivals; two sets of blocks suffice, for who writes into one again knows that all
 * have left it. */
typedef struct table {
    atomic_int arrived;
    atomic_bool broken; /* a call has failed: all others do */
    unsigned char blocks[2][JOB_RANKS_MAX][BLOCK_MAX];
} table;

static table *tables; /* before any rank is forked */
static atomic_int *used;

typedef struct seat { /* a rank's place at a table */
    table *at;
    int place, size;
    int calls, fails_at; /* from 1; 0: never */
    int fails_with;
    int late_ms; /* its first call comes so long after those of all others; 0: when it comes */
} seat;

static void come_late(const seat *s, int64_t until)
{
    while (atomic_load(&s->at->arrived) < s->size - 1) {
        CHECK(job_now_ns() < until);
        job_sleep_ms(1);
    }
    job_sleep_ms(s->late_ms);
}

static weft_status gather_at(void *state, const void *in, void *out, size_t bytes)
{
    seat *s = state;
    int set = s->calls++ % 2;
    int64_t until = job_now_ns() + (int64_t)JOB_WAIT_MS * 1000000;
    if (s->late_ms && s->calls == 1) come_late(s, until);
    CHECK(bytes > 0 && bytes <= BLOCK_MAX && s->calls <= CALLS_MAX);
    if (s->calls == s->fails_at) {
        atomic_store(&s->at->broken, true);
        return s->fails_with;
    }
    memcpy(s->at->blocks[set][s->place], in, bytes);
    atomic_fetch_add(&s->at->arrived, 1);
    while (atomic_load(&s->at->arrived) < s->calls * s->size) {
        /* The next call may have failed, before which all have come to this one. */
        if (atomic_load(&s->at->broken) && atomic_load(&s->at->arrived) < s->calls * s->size)
            return WEFT_ERR_PEER;
        CHECK(job_now_ns() < until);
        job_sleep_ms(0);
    }
    for (int i = 0; i < s->size; i++)
        memcpy((unsigned char *)out + (size_t)i * bytes, s->at->blocks[set][i], bytes);
    return WEFT_OK;
}

typedef struct trial {
    seat seat;
    weft_bootstrap bootstrap;
    weft_config config;
    weft_status status;
    char told[1024];
} trial;

/* A new table for each; all ranks of a job make their trials in the same order. */
static trial new_trial(job_rank *me)
{
    static const weft_config standard = WEFT_CONFIG_INIT;
    trial t = {.config = standard};
    job_meet(me);
    if (me->rank == 0) atomic_fetch_add(used, 1);
    job_meet(me);
    CHECK(atomic_load(used) <= TABLES);
    t.seat = (seat){.at = &tables[atomic_load(used) - 1], .place = me->rank, .size = me->size};
    t.bootstrap = (weft_bootstrap){NULL, me->rank, me->size, gather_at};
    t.config.timeout_ms = JOB_WAIT_MS;
    return t;
}

static void try_it(job_rank *me, trial *t)
{
    t->bootstrap.state = &t->seat;
    t->config.bootstrap = &t->bootstrap;
    t->status = weft_init(&t->config, &me->ctx);
    snprintf(t->told, sizeof t->told, "%s", t->status == WEFT_OK ? "" : weft_last_error());
    job_results(me, me->rank)[0] = t->seat.calls;
    if (t->status == WEFT_OK) me->world = weft_world(me->ctx);
}

static void all_called_alike(job_rank *me)
{
    job_meet(me);
    for (int i = 0; i < me->size; i++) CHECK_INT(job_results(me, i)[0], job_results(me, 0)[0]);
    job_meet(me);
}

/* ---- joining ------------------------------------------------------------------------------------------- */

/* The job's own store needs no server of the meeting. */
static void store_works(job_rank *me)
{
    int64_t sum = 0;
    char key[32];
    for (int i = 0; i < me->size; i++) {
        snprintf(key, sizeof key, "of rank %d", i);
        if (i == me->rank) CHECK_OK(weft_store_add(weft_context_store(me->ctx), key, 7 + i, &sum));
        CHECK_OK(weft_store_wait(weft_context_store(me->ctx), &(const char *){key}, 1, JOB_WAIT_MS));
        CHECK_OK(weft_store_add(weft_context_store(me->ctx), key, 0, &sum));
        CHECK_INT(sum, 7 + i);
    }
}

static void meets(job_rank *me)
{
    for (int again = 0; again < 3; again++) {
        trial t = new_trial(me);
        int calls;
        if (again == 1) t.config.rank = me->rank, t.config.world_size = me->size; /* the same said twice */
        if (again == 2) t.config.secret = "env:TEST_SECRET", t.config.job = "another";
        try_it(me, &t);
        CHECK_STATUS(WEFT_OK, t.status);
        CHECK_INT(weft_group_rank(me->world), me->rank);
        CHECK_INT(weft_group_size(me->world), me->size);
        CHECK_INT(weft_local_size(me->ctx), me->size);
        all_called_alike(me);
        calls = t.seat.calls;
        job_sum_works(me->world);
        job_sum_works(weft_host_group(me->ctx));
        store_works(me);
        job_leave(me);
        CHECK_INT(t.seat.calls, calls); /* inside weft_init only */
    }
}

static void two_contexts(job_rank *me)
{
    trial first = new_trial(me), second;
    weft_context *ctx;
    try_it(me, &first);
    CHECK_STATUS(WEFT_OK, first.status);
    ctx = me->ctx;
    second = new_trial(me);
    try_it(me, &second);
    CHECK_STATUS(WEFT_OK, second.status);
    job_sum_works(weft_world(ctx));
    job_sum_works(me->world);
    CHECK_OK(weft_finalize(ctx, JOB_WAIT_MS));
}

/* Without a secret on one host only; with one anywhere. */
static void hosts(job_rank *me)
{
    char host[16];
    trial t = new_trial(me);
    snprintf(host, sizeof host, "host%d", me->rank / 2);
    job_setenv(me, "WEFT_HOSTID", host);
    job_setenv(me, "WEFT_SOCKET_IFNAME", "lo");
    job_setenv(me, "WEFT_TRANSPORT", "shm,tcp");
    try_it(me, &t);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, t.status);
    CHECK_TEXT(t.told, "WEFT_SECRET");
    CHECK_TEXT(t.told, "rank 2");
    all_called_alike(me);
    t = new_trial(me);
    t.config.secret = "env:TEST_SECRET";
    try_it(me, &t);
    CHECK_STATUS(WEFT_OK, t.status);
    CHECK_INT(weft_local_size(me->ctx), 2);
    job_sum_works(me->world);
}

/* ---- a channel that fails ------------------------------------------------------------------------------ */

static void failing_call(job_rank *me)
{
    bool over = false;
    for (int n = 1; !over; n++) {
        trial t = new_trial(me);
        bool mine = me->rank == n % me->size;
        if (mine) t.seat.fails_at = n, t.seat.fails_with = n % 2 ? WEFT_ERR_CANCELLED : 1000 + n;
        try_it(me, &t);
        over = t.seat.calls < n;
        if (over) {
            CHECK(n > 2); /* something was called */
            CHECK_STATUS(WEFT_OK, t.status);
            job_sum_works(me->world);
            return;
        }
        CHECK_STATUS(!mine ? WEFT_ERR_PEER : n % 2 ? WEFT_ERR_CANCELLED : WEFT_ERR_SYSTEM, t.status);
        CHECK_TEXT(t.told, "all_gather returned");
        if (mine && n % 2 == 0) {
            char number[16];
            snprintf(number, sizeof number, "%d", 1000 + n);
            CHECK_TEXT(t.told, number);
        }
        CHECK(!me->ctx);
        CHECK_INT(t.seat.calls, n); /* none after the failure */
    }
}

/* ---- a rank that fails --------------------------------------------------------------------------------- */

static void unreadable_secret(job_rank *me)
{
    for (int who = 0; who < me->size; who++) {
        trial t = new_trial(me);
        t.config.secret = me->rank == who ? "file:/nowhere/secret" : "env:TEST_SECRET";
        try_it(me, &t);
        CHECK_STATUS(WEFT_ERR_SYSTEM, t.status);
        CHECK_TEXT(t.told, "/nowhere/secret");
        if (me->rank != who) CHECK_NAMES(t.told, 1U << who, me->size);
        all_called_alike(me);
    }
}

static void bad_setting(job_rank *me)
{
    trial t = new_trial(me);
    if (me->rank == 1) job_setenv(me, "WEFT_LOG", "loud");
    try_it(me, &t);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, t.status);
    CHECK_TEXT(t.told, "loud");
    if (me->rank != 1) CHECK_NAMES(t.told, 1U << 1, me->size);
    all_called_alike(me);
}

static void bad_transport(job_rank *me)
{
    trial t = new_trial(me);
    if (me->rank == 2) job_setenv(me, "WEFT_TRANSPORT", "pigeon");
    try_it(me, &t);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, t.status);
    CHECK_TEXT(t.told, "pigeon");
    if (me->rank != 2) CHECK_NAMES(t.told, 1U << 2, me->size);
    all_called_alike(me);
}

/* Rank 0's time is up while it waits for rank 1, which comes late but well. */
static void time_is_up(job_rank *me)
{
    trial t = new_trial(me);
    if (me->rank == 0) t.config.timeout_ms = 50;
    if (me->rank == 1) t.seat.late_ms = JOB_SHORT_MS;
    job_meet(me);
    try_it(me, &t);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, t.status);
    if (me->rank == 1) CHECK_NAMES(t.told, 1U << 0, me->size);
    all_called_alike(me);
}

/* ---- disagreeing --------------------------------------------------------------------------------------- */

static void disagree(job_rank *me, trial *t, weft_status status, const char *words)
{
    try_it(me, t);
    CHECK_STATUS(status, t->status);
    CHECK_TEXT(t->told, words);
    CHECK(!me->ctx);
    all_called_alike(me);
}

static void disagreements(job_rank *me)
{
    bool last = me->rank == me->size - 1;
    trial t = new_trial(me);
    if (last) t.config.job = "other";
    disagree(me, &t, WEFT_ERR_MISMATCH, "\"other\"");
    t = new_trial(me);
    if (last) t.bootstrap.rank = 0;
    disagree(me, &t, WEFT_ERR_MISMATCH, "given twice");
    t = new_trial(me);
    if (last) t.bootstrap.world_size++;
    disagree(me, &t, WEFT_ERR_MISMATCH, "world sizes");
    t = new_trial(me);
    if (last) t.config.secret = "env:TEST_SECRET";
    disagree(me, &t, WEFT_ERR_AUTH, "was given a secret");
    t = new_trial(me);
    t.config.secret = last ? "env:TEST_OTHER_SECRET" : "env:TEST_SECRET";
    disagree(me, &t, WEFT_ERR_AUTH, "is not that of rank 0");
}

/* ---- wrong arguments ----------------------------------------------------------------------------------- */

static weft_status never(void *state, const void *in, void *out, size_t bytes)
{
    (void)state, (void)in, (void)out, (void)bytes;
    job_fail(__FILE__, __LINE__, "called in spite of a wrong argument");
}

static void refused(job_rank *me, weft_bootstrap b, weft_config config, const char *words)
{
    config.bootstrap = &b;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_init(&config, &me->ctx));
    CHECK_TEXT(weft_last_error(), words);
    CHECK(!me->ctx);
}

static void arguments(job_rank *me)
{
    const weft_bootstrap good = {NULL, 1, 2, never};
    const weft_config standard = WEFT_CONFIG_INIT;
    weft_bootstrap b = good;
    weft_config config = standard;
    b.all_gather = NULL;
    refused(me, b, config, "all_gather");
    b = good, b.rank = 2;
    refused(me, b, config, "rank 2");
    b = good, b.rank = -1;
    refused(me, b, config, "rank -1");
    b = good, b.world_size = 0;
    refused(me, b, config, "world_size 0");
    b = good, b.world_size = 1 << 30, b.rank = 0;
    refused(me, b, config, "world_size 1073741824");
    config.init_method = "env://";
    refused(me, good, config, "init_method");
    config = standard, config.store = (weft_store *)me;
    refused(me, good, config, "store");
    config = standard, config.rank = 0;
    refused(me, good, config, "rank 0");
    config = standard, config.world_size = 3;
    refused(me, good, config, "world_size 3");
}

#define ALONG(sentence, n, function) JOB_TEST(sentence, .ranks = n, .body = function, .bare = true)
/* Each with an environment of its own. */
#define ALONG_APART(sentence, n, function) \
    JOB_TEST(sentence, .ranks = n, .body = function, .bare = true, .processes = true)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ALONG("a world of one", 1, meets),
        ALONG("two ranks", 2, meets),
        ALONG("five ranks", 5, meets),
        ALONG("two contexts at once", 2, two_contexts),
        ALONG_APART("hosts need a secret between them", 4, hosts),
        ALONG("a failing call", 3, failing_call),
        ALONG("a secret that cannot be read", 3, unreadable_secret),
        ALONG_APART("a bad setting", 3, bad_setting),
        ALONG_APART("a bad transport", 3, bad_transport),
        ALONG("time is up", 2, time_is_up),
        ALONG("disagreements", 3, disagreements),
        ALONG("wrong arguments", 1, arguments),
    };
    size_t bytes = TABLES * sizeof *tables + sizeof *used;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    tables = memory;
    used = (atomic_int *)(tables + TABLES);
    setenv("TEST_SECRET", "the secret of all ranks", 1);
    setenv("TEST_OTHER_SECRET", "the secret of one rank", 1);
    return JOB_MAIN(tests, argc, argv);
}
