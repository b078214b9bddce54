/* test_report.c - what a program can be told without anything having failed: who has submitted what, and log
 * lines. */
#include "job.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 8192 };

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* The line of that rank, cut out. */
static void line_of(const char *text, int line, char out[512])
{
    while (line-- > 0) text = strchr(text, '\n') + 1;
    size_t n = strcspn(text, "\n");
    CHECK(n < 512);
    memcpy(out, text, n);
    out[n] = 0;
}

static void reports(job_rank *me)
{
    static char text[ROOM];
    char line[512];
    weft_request *req = NULL;
    job_sum_works(me->world);
    if (me->rank == 0) {
        CHECK_OK(weft_barrier(me->world, NULL, &req));
        job_report(me->world, text, sizeof text);
        CHECK_INT(lines_of(text), me->size);
        for (int i = 0; i < me->size; i++) {
            line_of(text, i, line);
            CHECK_NAMES(line, 1U << i, me->size);
            CHECK_TEXT(line, i == 0 ? "its last was barrier #" : "its last was all_reduce #");
            CHECK_TEXT(line, "s ago");
        }
    }
    job_meet(me);
    if (me->rank != 0) CHECK_OK(weft_barrier(me->world, NULL, &req));
    WAIT_OK(req);
}

/* What each rank has under way to others, and waits for from them: how much, and the oldest of it. */
static void messages(job_rank *me)
{
    char *text = job_alloc(me, ROOM), line[512];
    int32_t *large = job_alloc(me, sizeof *large << 20), value[3];
    weft_request *reqs[3] = {NULL};
    if (me->rank == 0) {
        CHECK_OK(weft_irecv(me->world, &value[0], 1, WEFT_INT32, 1, 7, NULL, &reqs[0]));
        CHECK_OK(weft_isend(me->world, large, 1 << 20, WEFT_INT32, 2, 8, NULL, &reqs[1]));
        CHECK_OK(weft_probe(me->world, WEFT_ANY_RANK, 9, NULL, &reqs[2]));
    } else if (me->rank == 1) {
        CHECK_OK(weft_probe(me->world, WEFT_ANY_RANK, 9, NULL, &reqs[0]));
    }
    job_meet(me);
    job_report(me->world, text, ROOM);
    CHECK_INT(lines_of(text), me->size);
    line_of(text, 0, line);
    CHECK_TEXT(line,
               "; 3 messages are pending, the oldest is irecv #1 on group world (4 B int32 from rank 1), ");
    CHECK_TEXT(line, " s old");
    line_of(text, 1, line);
    CHECK_TEXT(line, "; 1 message is pending, the oldest is probe #1 on group world (from any rank), ");
    line_of(text, 2, line);
    CHECK(!strstr(line, "pending"));
    job_meet(me);
    if (me->rank == 0) {
        weft_cancel(reqs[0]);
        weft_cancel(reqs[1]);
        WAIT_STATUS(WEFT_ERR_CANCELLED, reqs[1]);
    }
    job_meet(me);
    job_report(me->world, text, ROOM);
    line_of(text, 0, line);
    CHECK_TEXT(line, "; 1 message is pending, the oldest is probe #1");
    job_meet(me);
    for (int i = 0; i < 3; i++) {
        weft_cancel(reqs[i]);
        weft_release(reqs[i]);
    }
    job_meet(me);
    job_report(me->world, text, ROOM);
    CHECK(!strstr(text, "pending"));
    job_meet(me);
}

/* A group that the others have not even asked for. */
static void unused(job_rank *me)
{
    static char text[ROOM];
    weft_mesh *mesh = NULL;
    CHECK_OK(weft_mesh_create(me->world, "a=-1", NULL, &mesh, NULL));
    if (me->rank == 1) {
        job_report(weft_mesh_group(mesh, "a"), text, sizeof text);
        CHECK_INT(lines_of(text), me->size);
        CHECK_TEXT(text, "it has submitted nothing on this group");
        CHECK_TEXT(text, "rank 2 (host ");
    }
    job_meet(me);
}

/* Cut to nothing rather than in the middle; and never more than there is room for. */
static void truncated(job_rank *me)
{
    static char text[ROOM], exact[ROOM];
    if (me->rank == 0) {
        memset(text, 'x', sizeof text);
        CHECK_STATUS(WEFT_ERR_TRUNCATED, weft_group_report(me->world, text, 20));
        CHECK_TEXT(weft_last_error(), "20");
        for (size_t i = 0; i < sizeof text; i++) CHECK(text[i] == 'x');
        job_report(me->world, exact, sizeof exact);
        size_t need = strlen(exact) + 1; /* nothing was submitted: no time in it that may grow */
        job_report(me->world, text, need);
        CHECK_INT(strcmp(text, exact), 0);
        CHECK(text[need] == 'x');
    }
    job_meet(me);
}

static void refuses(weft_request *req, weft_status status, void *arg)
{
    weft_status *got = arg;
    char text[64];
    (void)req;
    (void)status;
    *got = weft_group_report(weft_world(weft_current()), text, sizeof text);
}

static void refused(job_rank *me)
{
    char text[64];
    const int other[] = {0, 1};
    weft_status inside = WEFT_OK;
    weft_call call = {.done = refuses, .arg = &inside};
    weft_request *req = NULL, *forming = NULL;
    weft_group *group = NULL;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_group_report(NULL, text, sizeof text));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_group_report(me->world, NULL, 5));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_group_report(me->world, text, 0));
    CHECK_OK(weft_barrier(me->world, &call, &req));
    WAIT_OK(req);
    CHECK_INT(inside, WEFT_ERR_STATE);
    if (me->rank == 0) {
        CHECK_OK(weft_new_group(me->world, other, 2, NULL, &group, &forming));
        CHECK_STATUS(WEFT_ERR_STATE, weft_group_report(group, text, sizeof text));
    }
    job_meet(me);
    if (me->rank == 1) CHECK_OK(weft_new_group(me->world, other, 2, NULL, &group, &forming));
    if (forming) WAIT_OK(forming);
}

/* One that is stopped does not answer: told after a second. */
static void no_answer(job_rank *me)
{
    enum { TRIES = 10 };
    static char text[ROOM];
    char line[512] = "";
    job_meet(me);
    if (me->rank == 0) {
        job_report(me->world, text, sizeof text); /* connects */
        job_stop(me, 1);
        for (int try = 0; try < TRIES && !strstr(line, "nothing on this group"); try++) { /* it may be busy */
            int64_t from = job_now_ns();
            CHECK_OK(weft_group_report(me->world, text, sizeof text));
            CHECK_PERIOD(from, job_now_ns(), 1000, 1000 + job_late_ms());
            line_of(text, 1, line);
            CHECK_TEXT(line, "does not answer");
            line_of(text, 2, line);
        }
        CHECK_TEXT(line, "nothing on this group");
        CHECK(kill(job_pid(me, 1), SIGCONT) == 0);
    }
    job_meet(me);
}

/* ---- the log
 * ------------------------------------------------------------------------------------------------ */

typedef struct heard {
    _Atomic int warnings, other;
    _Atomic int inside; /* what a call that waits said in the log function */
    weft_group *group;
    char line[1200];
} heard;

static void hear(int level, const char *line, void *arg)
{
    heard *h = arg;
    if (!strstr(line, "has not joined")) {
        atomic_fetch_add(&h->other, 1);
        return;
    }
    char text[64];
    h->inside = weft_barrier(h->group, NULL, NULL) == WEFT_ERR_STATE
                    ? weft_group_report(h->group, text, sizeof text)
                    : WEFT_OK;
    strncpy(h->line, line, sizeof h->line - 1);
    if (level == 1) atomic_fetch_add(&h->warnings, 1);
}

/* One line for an operation that has waited for WEFT_WARN_MS, and none on stderr. */
static void logs(job_rank *me)
{
    static heard h;
    job_setenv(me, "WEFT_WARN_MS", "100");
    job_join(me);
    if (me->rank == 0) {
        weft_request *req = NULL;
        h.group = me->world;
        weft_set_log(hear, &h);
        CHECK_OK(weft_barrier(me->world, NULL, &req));
        for (int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
             !h.warnings && job_now_ns() < until;)
            job_sleep_ms(5);
        job_sleep_ms(200);
        CHECK_INT(h.warnings, 1);
        CHECK_INT(h.inside, WEFT_ERR_STATE);
        CHECK_TEXT(h.line, "barrier #1 on group world");
        CHECK_NAMES(h.line, 1U << 1, 2);
        CHECK(!strchr(h.line, '\n'));
        weft_set_log(NULL, NULL);
        job_mark(me, 0);
        WAIT_OK(req);
    } else {
        job_await(me, 0, 1);
        CHECK_OK(weft_barrier(me->world, NULL, NULL));
    }
    job_leave(me);
}

/* ---- the program's log function
 * ------------------------------------------------------------------------------------------------ */

typedef struct listener {
    job_rank *me;
    atomic_int lines, asks, answered;
    char last[1200];
} listener;

/* It needs another thread of the program, which needs the engine of the context that the line is about. */
static void listen_and_ask(int level, const char *line, void *arg)
{
    listener *l = arg;
    (void)level;
    if (!strstr(line, "has not")) return;
    strncpy(l->last, line, sizeof l->last - 1);
    atomic_fetch_add(&l->lines, 1);
    atomic_fetch_add(&l->asks, 1);
    for (int i = 0; !atomic_load(&l->answered) && i < JOB_WAIT_MS / 2; i++) job_sleep_ms(1);
}

/* It is called with no lock held: what it waits for can happen. */
static void outside_locks(job_rank *me)
{
    listener *l = job_alloc(me, sizeof *l);
    int32_t *number = job_alloc(me, 2 * sizeof *number);
    weft_request *barrier = NULL, *in = NULL;
    job_setenv(me, "WEFT_WARN_MS", "100");
    job_join(me);
    if (me->rank == 0) {
        weft_set_log(listen_and_ask, l);
        CHECK_OK(weft_barrier(me->world, NULL, &barrier));
        for (int i = 0; !atomic_load(&l->asks) && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
        CHECK_INT(atomic_load(&l->asks), 1);
        int64_t from = job_now_ns();
        CHECK_OK(weft_irecv(me->world, number, 1, WEFT_INT32, 0, 1, NULL, &in));
        CHECK_OK(weft_isend(me->world, number + 1, 1, WEFT_INT32, 0, 1, NULL, NULL));
        WAIT_OK(in);
        CHECK_PERIOD(from, job_now_ns(), 0, JOB_WAIT_MS / 4);
        atomic_store(&l->answered, 1);
        job_mark(me, 0);
        WAIT_OK(barrier);
    } else {
        job_await(me, 0, 1);
        CHECK_OK(weft_barrier(me->world, NULL, NULL));
    }
    job_leave(me);
    weft_set_log(NULL, NULL);
}

/* Many requests that wait for one rank: a line for that rank, with their number. */
static void one_line_a_peer(job_rank *me)
{
    enum { MANY = 500, PEERS = 2, BYTES = 300000 }; /* above what is sent without a receive */
    enum { WARN_MS = 300 };                         /* once in so long a line may come for a peer */
    listener *l = job_alloc(me, sizeof *l);
    char *bytes = job_alloc(me, BYTES);
    weft_request **reqs = job_alloc(me, (MANY + 1) * PEERS * sizeof(weft_request *));
    job_setenv(me, "WEFT_WARN_MS", "300");
    job_join(me);
    if (me->rank == 0) {
        int n = 0;
        int64_t began = job_now_ns();
        atomic_store(&l->answered, 1);
        weft_set_log(listen_and_ask, l);
        for (int i = 0; i < MANY; i++)
            for (int peer = 1; peer <= PEERS; peer++)
                CHECK_OK(weft_isend(me->world, bytes, BYTES, WEFT_INT8, peer, 3, NULL, &reqs[n++]));
        for (int i = 0; atomic_load(&l->lines) < PEERS && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
        job_sleep_ms(1000); /* for more lines than should come */
        const int lines = atomic_load(&l->lines);
        CHECK(lines >= PEERS && lines <= ((job_now_ns() - began) / 1000000 / WARN_MS + 2) * PEERS);
        CHECK_TEXT(l->last, "more operations wait like it");
        job_mark(me, 0);
        for (int i = 0; i < n; i++) WAIT_OK(reqs[i]);
    } else {
        job_await(me, 0, 1);
        for (int i = 0; i < MANY; i++)
            CHECK_OK(weft_irecv(me->world, bytes, BYTES, WEFT_INT8, 0, 3, NULL, NULL));
    }
    job_leave(me);
    weft_set_log(NULL, NULL);
}

/* What waits like it, and not for so long yet, is not counted with it. */
static void counts_those_that_are_due(job_rank *me)
{
    enum { WARN_MS = 2000, BYTES = 300000 };
    listener *l = job_alloc(me, sizeof *l);
    char *bytes = job_alloc(me, BYTES);
    weft_request *reqs[2] = {NULL};
    job_setenv(me, "WEFT_WARN_MS", "2000");
    job_join(me);
    if (me->rank == 0) {
        int64_t second;
        atomic_store(&l->answered, 1);
        weft_set_log(listen_and_ask, l);
        CHECK_OK(weft_isend(me->world, bytes, BYTES, WEFT_INT8, 1, 3, NULL, &reqs[0]));
        job_sleep_ms(WARN_MS / 2);
        second = job_now_ns();
        CHECK_OK(weft_isend(me->world, bytes, BYTES, WEFT_INT8, 1, 3, NULL, &reqs[1]));
        for (int i = 0; atomic_load(&l->lines) == 0 && i < JOB_WAIT_MS; i++) job_sleep_ms(1);
        CHECK(atomic_load(&l->lines) > 0);
        if (job_now_ns() < second + WARN_MS * 1000000LL) CHECK(!strstr(l->last, "more operation"));
        job_mark(me, 0);
        for (int i = 0; i < 2; i++) WAIT_OK(reqs[i]);
    } else {
        job_await(me, 0, 1);
        for (int i = 0; i < 2; i++)
            CHECK_OK(weft_irecv(me->world, bytes, BYTES, WEFT_INT8, 0, 3, NULL, NULL));
    }
    job_leave(me);
    weft_set_log(NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a line per rank", .ranks = 3, .body = reports),
        JOB_TEST("pending messages", .ranks = 3, .body = messages),
        JOB_TEST("a group that others have not used", .ranks = 3, .body = unused),
        JOB_TEST("too little room", .ranks = 2, .body = truncated),
        JOB_TEST("what is refused", .ranks = 2, .body = refused, .processes = true),
        JOB_TEST("a rank that is stopped", .ranks = 3, .body = no_answer, .processes = true),
        JOB_TEST("log lines go to a function", .ranks = 2, .body = logs, .bare = true, .processes = true),
        JOB_TEST("which is called outside locks", .ranks = 2, .body = outside_locks, .bare = true,
                 .processes = true),
        JOB_TEST("one line a peer, however many wait", .ranks = 3, .body = one_line_a_peer, .bare = true,
                 .processes = true),
        JOB_TEST("the line counts those that are due", .ranks = 2, .body = counts_those_that_are_due,
                 .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
