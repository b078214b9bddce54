/* test_stops.c - ranks, or all ranks of a host, that are stopped at random for up to 3 s on a busy machine, by a signal or by a
 * debugger, or whose callbacks take so long, are late, and no more: nobody is accused, nothing ends, every sum is right.
 *
 * Six ranks on three hosts work and rest by turns, with the heartbeat as by default.  A process of its own stops them, as any of
 * them may be stopped; others compute and nothing else.  STOPS_SECONDS=n goes on for so long, STOPS_LOAD=n has n others compute,
 * STOPS_SEED=n draws otherwise. */
#include "cables.h"
#include "job.h"
#include "skip.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    HOSTS = 3,
    RANKS = 6, /* two on each, in blocks */
    COUNT_MOST = 1 << 18,
    STOP_MOST_MS = 3000,
    PAUSE_MOST_MS = 1000,
    REST_MOST_MS = 200,
    LONG_MS = 3000,    /* of a callback: longer than a host may be silent */
    THREADS_MOST = 64, /* of one rank, which a debugger stops */
    LOAD_MOST = 256,
    WAIT_MS = 300 * 1000, /* of one operation: who is late may be so for long */
    GROUP_EACH = 16       /* rounds */
};

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static int host_of(int rank)
{
    return rank * HOSTS / RANKS;
}

/* ---- who stops them, and who is in the way ---- */

/* In a child that ends with its parent, whatever ends that. */
static pid_t child_of(pid_t parent)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    return 0;
}

static void compute(void)
{
    volatile uint64_t word = 0;
    for (;;) word++;
}

static uint64_t draw_victims(uint64_t *words)
{
    const int first = (int)(job_random(words) % RANKS);
    uint64_t victims = 0;
    if (job_random(words) % 2) return UINT64_C(1) << first;
    for (int r = 0; r < RANKS; r++) victims |= host_of(r) == host_of(first) ? UINT64_C(1) << r : 0;
    return victims;
}

static void signal_all(const job_rank *me, uint64_t victims, int number)
{
    for (int r = 0; r < RANKS; r++)
        if (victims >> r & 1) kill(job_pid(me, r), number);
}

/* As a debugger that is attached: each thread of it stops where it is.  How many; 0: nobody may debug it here. */
static int hold(pid_t pid, pid_t threads[THREADS_MOST])
{
    char path[64];
    int n = 0, status;
    DIR *dir;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    dir = opendir(path);
    for (const struct dirent *e; dir && n < THREADS_MOST && (e = readdir(dir));) {
        const pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        if (thread <= 0 || ptrace(PTRACE_SEIZE, thread, NULL, NULL)) continue;
        if (!ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) && waitpid(thread, &status, __WALL) == thread)
            threads[n++] = thread;
    }
    if (dir) closedir(dir);
    return n;
}

/* Returns for how many ranks it could. */
static int debug(const job_rank *me, uint64_t victims, int64_t ms)
{
    pid_t threads[RANKS][THREADS_MOST];
    int count[RANKS] = {0}, held = 0;
    for (int r = 0; r < RANKS; r++)
        if (victims >> r & 1) held += (count[r] = hold(job_pid(me, r), threads[r])) > 0;
    job_sleep_ms(ms);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < count[r]; i++) ptrace(PTRACE_DETACH, threads[r][i], NULL, NULL);
    return held;
}

static void stop(const job_rank *me, uint64_t victims, int64_t ms)
{
    signal_all(me, victims, SIGSTOP);
    job_sleep_ms(ms);
    signal_all(me, victims, SIGCONT);
}

/* Until `over` has an end, which is when who began it has closed the other side; nobody stays stopped. */
static void stop_them(const job_rank *me, int over, uint64_t seed)
{
    struct pollfd end = {.fd = over};
    uint64_t words = seed;
    int stops = 0, debugged = 0;
    while (!poll(&end, 1, (int)(job_random(&words) % PAUSE_MOST_MS))) {
        const uint64_t victims = draw_victims(&words);
        const int64_t ms = 1 + (int64_t)(job_random(&words) % STOP_MOST_MS);
        if (stops++ % 2)
            debugged += debug(me, victims, ms) > 0;
        else
            stop(me, victims, ms);
    }
    printf("             one rank, or a host's, was stopped %d times, %d of them by a debugger\n", stops,
           debugged);
    fflush(stdout);
}

typedef struct others {
    pid_t stopper, load[LOAD_MOST];
    int count, over;
} others;

static void others_begin(job_rank *me, others *o)
{
    const pid_t parent = getpid();
    const uint64_t seed = (uint64_t)number_of("STOPS_SEED", 1);
    int ends[2];
    o->count = (int)number_of("STOPS_LOAD", 8);
    CHECK(o->count >= 0 && o->count <= LOAD_MOST);
    for (int i = 0; i < o->count; i++)
        if (!(o->load[i] = child_of(parent))) compute();
    CHECK(!pipe(ends));
    o->stopper = child_of(parent);
    if (!o->stopper) {
        close(ends[1]);
        stop_them(me, ends[0], seed);
        _exit(0);
    }
    close(ends[0]);
    o->over = ends[1];
}

static void others_end(const others *o)
{
    int status;
    close(o->over);
    CHECK_INT(waitpid(o->stopper, &status, 0), o->stopper);
    CHECK_INT(status, 0);
    for (int i = 0; i < o->count; i++) {
        kill(o->load[i], SIGKILL);
        waitpid(o->load[i], NULL, 0);
    }
}

/* ---- what goes on ---- */

typedef struct work {
    job_rank *me;
    uint64_t words; /* equal on all ranks */
    int32_t *in, *out;
    int64_t slowest_ns;
} work;

static void await(work *w, weft_request *req)
{
    const int64_t begun = job_now_ns();
    int64_t took;
    if (weft_wait(req, WAIT_MS) != WEFT_OK) job_fail(__FILE__, __LINE__, "%s", weft_request_message(req));
    took = job_now_ns() - begun;
    if (took > w->slowest_ns) w->slowest_ns = took;
    weft_release(req);
}

static void sum_is_right(work *w, weft_group *group)
{
    const int count = 1 + (int)(job_random(&w->words) % COUNT_MOST);
    weft_request *req = NULL;
    for (int i = 0; i < count; i++) w->in[i] = (w->me->rank + 1) * (i % 1000);
    CHECK_OK(weft_all_reduce(group, w->in, w->out, (size_t)count, WEFT_INT32, WEFT_SUM, NULL, &req));
    await(w, req);
    for (int i = 0; i < count; i++)
        if (w->out[i] != RANKS * (RANKS + 1) / 2 * (i % 1000))
            job_fail(__FILE__, __LINE__, "element %d of %d is %d", i, count, w->out[i]);
}

static void message_is_right(work *w)
{
    const int distance = 1 + (int)(job_random(&w->words) % (RANKS - 1)),
              tag = (int)(job_random(&w->words) % 1000);
    const int to = (w->me->rank + distance) % RANKS, from = (w->me->rank + RANKS - distance) % RANKS;
    const int32_t mine = w->me->rank * 1000 + tag;
    int32_t other = -1;
    weft_request *sent = NULL, *received = NULL;
    CHECK_OK(weft_irecv(w->me->world, &other, 1, WEFT_INT32, from, tag, NULL, &received));
    CHECK_OK(weft_isend(w->me->world, &mine, 1, WEFT_INT32, to, tag, NULL, &sent));
    await(w, received);
    await(w, sent);
    CHECK_INT(other, from * 1000 + tag);
}

static void group_is_made(work *w)
{
    const int ranks[RANKS] = {0, 1, 2, 3, 4, 5};
    const weft_call call = {.timeout_ms = WAIT_MS, .label = "made amid stops"};
    weft_group *group = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_new_group(w->me->world, ranks, RANKS, &call, &group, &req));
    await(w, req);
    sum_is_right(w, group);
    CHECK_OK(weft_group_free(group));
}

/* Whether all go on: rank 0 says so. */
static bool all_go_on(work *w, int64_t end_ns)
{
    int32_t on = job_now_ns() < end_ns;
    weft_request *req = NULL;
    CHECK_OK(weft_broadcast(w->me->world, &on, 1, WEFT_INT32, 0, NULL, &req));
    await(w, req);
    return on;
}

static void nobody_is_accused(const work *w)
{
    int dead[RANKS];
    CHECK_STATUS(WEFT_OK, weft_group_status(w->me->world));
    CHECK_INT(weft_group_dead(w->me->world, dead, RANKS), 0);
}

static void work_on(work *w, int64_t end_ns)
{
    int round = 0;
    for (; all_go_on(w, end_ns); round++) {
        sum_is_right(w, w->me->world);
        message_is_right(w);
        if (round % GROUP_EACH == 0) group_is_made(w);
        if (job_random(&w->words) % 3 == 0) job_sleep_ms((int64_t)(job_random(&w->words) % REST_MOST_MS));
        nobody_is_accused(w);
    }
    CHECK(round > 0);
    if (w->me->rank) return;
    printf("             %d rounds, the slowest operation took %.1f s\n", round, (double)w->slowest_ns / 1e9);
    fflush(stdout);
}

static void late_is_not_dead(job_rank *me)
{
    others o = {.over = -1};
    work w = {.me = me, .words = (uint64_t)number_of("STOPS_SEED", 1)};
    w.in = job_alloc(me, COUNT_MOST * sizeof *w.in);
    w.out = job_alloc(me, COUNT_MOST * sizeof *w.out);
    cables_enter_job(me, host_of(me->rank));
    job_join(me);
    job_meet(me);
    if (!me->rank) others_begin(me, &o);
    work_on(&w, job_now_ns() + number_of("STOPS_SECONDS", 5) * INT64_C(1000000000));
    if (!me->rank) others_end(&o);
    job_meet(me);
    nobody_is_accused(&w);
    job_leave(me);
}

/* All ranks of a host at once are in callbacks, one of them twice as long. */
static void be_long(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    (void)status;
    job_sleep_ms(*(const int64_t *)arg);
}

static void callbacks_are_long(job_rank *me)
{
    const int64_t ms = me->rank == RANKS - 1 ? (int64_t)2 * LONG_MS : LONG_MS;
    const weft_call call = {.done = be_long, .arg = (void *)&ms, .timeout_ms = WAIT_MS};
    work w = {.me = me, .words = 1};
    weft_request *req = NULL;
    int64_t from;
    w.in = job_alloc(me, COUNT_MOST * sizeof *w.in);
    w.out = job_alloc(me, COUNT_MOST * sizeof *w.out);
    cables_enter_job(me, host_of(me->rank));
    job_join(me);
    job_acquaint(me);
    from = job_now_ns();
    CHECK_OK(weft_barrier(me->world, host_of(me->rank) == HOSTS - 1 ? &call : NULL, &req));
    for (int i = 0; i < GROUP_EACH; i++) sum_is_right(&w, w.me->world); /* nobody is held up by that */
    group_is_made(&w);
    job_sleep_ms(LONG_MS); /* and idle */
    nobody_is_accused(&w);
    await(&w, req);
    if (host_of(me->rank) == HOSTS - 1) CHECK(job_now_ns() - from >= ms * INT64_C(1000000));
    job_meet(me);
    nobody_is_accused(&w);
    job_leave(me);
}

static void callbacks(void **state)
{
    (void)state;
    CABLES_OR_SKIP();
    job_run(&(job_plan){
        .ranks = RANKS, .body = callbacks_are_long, .bare = true, .processes = true, .timeout_ms = WAIT_MS});
}

static void stops(void **state)
{
    (void)state;
    CABLES_OR_SKIP();
    job_run(&(job_plan){.ranks = RANKS,
                        .body = late_is_not_dead,
                        .bare = true,
                        .processes = true,
                        .limit_ms = (int)number_of("STOPS_SECONDS", 5) * 1000 + 2 * JOB_LIMIT_MS,
                        .timeout_ms = WAIT_MS});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stops), cmocka_unit_test(callbacks)};
    return CABLES_MAIN(HOSTS, tests, argc, argv);
}
