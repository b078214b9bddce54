/* test_recorded.c - what the records of ranks say of an operation on device memory: how far it is on each of them while it
 * stands still in a call of NCCL, or for a rank that has not come or was stopped, and that it is done there in the end; and
 * that a module was loaded, was lost, has gone.  Read in a dump, as whoever looks for a rank that keeps the others would. */
#include "device.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHY         "to see how far it is"
#define EVENT(what) "\"what\":\"module " what "\",\"module\":\"nccl\""

enum { RANKS = 3, ODD = 1, COUNT = 1000 };
static const size_t bytes = COUNT * sizeof(int32_t);

static char folder[64];

typedef enum how { ABSENT, STOPPED, SCRIPTED } how;

typedef struct stop {
    how how; /* the odd rank: it has not come, was stopped once it had, or stands still by the script */
    const char *script;
    bool first; /* the operation is the group's first on a device */
    const char *odd, *others;
} stop;

static weft_request *begin_sum(job_rank *me, weft_group *group, const char *label)
{
    const weft_call call = {.label = label};
    void *in = job_buffer(me, bytes), *out = job_buffer(me, bytes);
    weft_request *req = NULL;
    CHECK_OK(weft_all_reduce(group, in, out, COUNT, WEFT_INT32, WEFT_SUM, &call, &req));
    return req;
}

static bool read_file(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    CHECK(file);
    text[fread(text, 1, room - 1, file)] = 0;
    fclose(file);
    return strstr(text, "\"why\":\"" WHY "\"") != NULL;
}

/* A failure has another rank write one of its own accord, and one at a time is written. */
static void write_dump(job_rank *me)
{
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    weft_status status = weft_dump(me->ctx, WHY);
    while (status != WEFT_OK && strstr(weft_last_error(), "another rank is writing") &&
           job_now_ns() < until) {
        job_sleep_ms(5);
        status = weft_dump(me->ctx, WHY);
    }
    CHECK_OK(status);
}

/* The one that is asked for here: a failure may have left another one beside it. */
static const char *dump(job_rank *me)
{
    static char text[8 << 20];
    char pattern[96];
    glob_t found;
    size_t i = 0;
    write_dump(me);
    snprintf(pattern, sizeof pattern, "%s/dump.*.json", folder);
    CHECK_INT(glob(pattern, 0, NULL, &found), 0);
    while (i < found.gl_pathc && !read_file(found.gl_pathv[i], text, sizeof text)) i++;
    CHECK(i < found.gl_pathc);
    unlink(found.gl_pathv[i]);
    globfree(&found);
    return text;
}

/* Where the dump has the word in what is told of that rank. */
static const char *find(const char *text, int rank, const char *word)
{
    char name[32];
    const char *at, *next;
    snprintf(name, sizeof name, "{\"rank\":%d,\"pid\":", rank);
    at = strstr(text, name);
    CHECK(at);
    next = strstr(at + strlen(name), ",\"pid\":"); /* another rank's */
    at = strstr(at, word);
    return at && next && at > next ? NULL : at;
}

/* What that rank says of the operation: "" where it has it, but no phase of it. */
static void phase_of(const char *text, int rank, char phase[32])
{
    const char *op = find(text, rank, "\"label\":\"probe\""), *end = op ? strchr(op, '}') : NULL,
               *at = op ? strstr(op, "\"phase\":\"") : NULL;
    snprintf(phase, 32, op ? "" : "not begun");
    if (at && at < end) sscanf(at, "\"phase\":\"%31[^\"]", phase);
}

static void await_phases(job_rank *me, const char *odd, const char *others)
{
    int64_t end = job_now_ns() + job_late_ms() * INT64_C(1000000);
    char phase[32];
    const char *text, *wanted;
    int rank = 0;
    do {
        text = dump(me);
        for (rank = 0; rank < RANKS; rank++) {
            wanted = rank == ODD ? odd : others;
            phase_of(text, rank, phase);
            if (strcmp(phase, wanted) != 0) break;
        }
        if (rank < RANKS) job_sleep_ms(10);
    } while (rank < RANKS && job_now_ns() < end);
    if (rank < RANKS) CHECK_TEXT(phase, wanted);
}

static void join(job_rank *me)
{
    job_setenv(me, "WEFT_RECORD", "64");
    job_setenv(me, "WEFT_DUMP_DIR", folder);
    job_join(me);
}

static void stands_still(job_rank *me)
{
    const stop *at = me->arg;
    const char *text;
    weft_request *req = NULL;
    weft_group *group;
    if (!device_is_emulated()) return;
    join(me);
    group = job_group(me, RANKS, "probed", 0);
    if (!at->first) {
        req = begin_sum(me, group, "before");
        WAIT_OK(req);
    }
    if (me->rank == ODD && at->how != ABSENT) {
        if (at->script) device()->emu_script(at->script);
        req = begin_sum(me, group, "probe");
        CHECK_STATUS(WEFT_PENDING, weft_wait(req, 10)); /* the others can see that it has come */
    }
    job_meet(me);
    if (me->rank == 0 && at->how == STOPPED) job_stop(me, ODD);
    if (me->rank == 0) job_mark(me, 0);
    if (me->rank != ODD) {
        job_await(me, 0, 1);
        req = begin_sum(me, group, "probe");
    }
    if (me->rank == 0) await_phases(me, at->odd, at->others);
    if (me->rank == 0 && at->how == STOPPED) CHECK_INT(kill(job_pid(me, ODD), SIGCONT), 0);
    job_meet(me);
    if (me->rank == ODD && at->how == SCRIPTED) device()->emu_release();
    if (!req) req = begin_sum(me, group, "probe");
    WAIT_OK(req);
    job_meet(me);
    if (me->rank == 0) {
        await_phases(me, "done there", "done there");
        text = dump(me);
        for (int rank = 0; rank < RANKS; rank++) {
            CHECK(find(text, rank, EVENT("loaded")));
            CHECK(!find(text, rank, EVENT("unloaded")));
            CHECK(!find(text, rank, EVENT("lost")));
        }
    }
    job_meet(me);
    job_leave(me);
}

/* ---- what becomes of the module ---- */

static void await_event(job_rank *me, const char *what)
{
    int64_t end = job_now_ns() + job_late_ms() * INT64_C(1000000);
    const char *text = dump(me);
    while (!find(text, ODD, what) && job_now_ns() < end) {
        job_sleep_ms(10);
        text = dump(me);
    }
    for (int rank = 0; rank < RANKS; rank++) CHECK_INT(rank == ODD, find(text, rank, what) != NULL);
}

static void end(job_rank *me)
{
    weft_abort(me->ctx, "the test is over");
    me->ctx = NULL;
}

/* The odd rank's operation has failed, and NCCL has not let go of its buffers. */
static void await_drain(job_rank *me)
{
    int64_t end = job_now_ns() + (job_short_ms() + job_late_ms()) * INT64_C(1000000);
    bool seen;
    do seen = find(dump(me), ODD, "\"state\":\"draining\"") != NULL;
    while (!seen && job_now_ns() < end);
    CHECK(seen);
}

static void is_lost(job_rank *me)
{
    weft_request *req;
    weft_group *group;
    if (!device_is_emulated()) return;
    job_setenv(me, "WEFT_DRAIN_MS",
               "5000"); /* that it drains is seen by dumps, each of which takes its time */
    join(me);
    group = job_group(me, RANKS, "probed", 0);
    req = begin_sum(me, group, "before");
    WAIT_OK(req);
    CHECK_OK(weft_group_set_timeout(group, job_short_ms()));
    job_meet(me);
    if (me->rank == ODD) device()->emu_script("dev1:ncclGroupEnd@1=stuck");
    req = begin_sum(me, group, "probe");
    if (me->rank == 0) await_drain(me);
    CHECK(weft_wait(req, job_wait_ms()) < 0);
    weft_release(req);
    if (me->rank == 0) await_event(me, EVENT("lost"));
    job_meet(me);
    if (me->rank == ODD) device()->emu_release();
    end(me);
}

/* Whoever aborts leaves its record behind. */
static void is_unloaded(job_rank *me)
{
    if (!device_is_emulated()) return;
    join(me);
    if (me->rank == ODD) end(me);
    job_meet(me);
    if (me->rank == 0) await_event(me, EVENT("unloaded"));
    job_meet(me);
    if (me->rank != ODD) end(me);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weft-test-recorded-XXXXXX");
    return !mkdtemp(folder);
}

static int remove_folder(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

#define CASE(sentence, ...)                                              \
    {                                                                    \
        sentence, job_test, make_folder, remove_folder, &(job_plan)      \
        {                                                                \
            .ranks = RANKS, .bare = true, .processes = true, __VA_ARGS__ \
        }                                                                \
    }
#define STOP(sentence, ...) CASE(sentence, .body = stands_still, .arg = &(const stop){__VA_ARGS__})

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STOP("a rank that has not come", ABSENT, NULL, false, "not begun", "agreeing"),
        STOP("a call that makes a communicator", SCRIPTED, "dev1:ncclCommInitRankConfig@1=hang", true,
             "connecting", "connecting"),
        STOP("a rank that was stopped once it had come", STOPPED, NULL, false, "agreeing", "on the device"),
        STOP("a call that issues", SCRIPTED, "dev1:ncclGroupEnd@1=hang", false, "issuing", "on the device"),
        CASE("a call that does not return loses the module", .body = is_lost),
        CASE("whoever aborts unloads its module", .body = is_unloaded),
    };
    return JOB_MAIN(tests, argc, argv);
}
