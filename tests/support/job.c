/* job.c - the parent's half: forks the ranks, watches them, ends what runs too long,
 * tells what went wrong. */
#include "device.h"
#include "hung.h"
#include "job_shared.h"
#include "port.h"
#include "skip.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long the others may go on after the first failure: long enough to tell what they saw. */
enum { GRACE_MS = 5000 * JOB_SLOWER, TEXT_BYTES = 8192 };

typedef struct children {
    const job_plan *plan;
    job_shared *shared;
    int shared_fd; /* of a rank that runs the other library; -1: none does */
    int n;
    pid_t group; /* their process group, so that what they start is found too */
    pid_t pid[JOB_RANKS_MAX];
    bool ended[JOB_RANKS_MAX];
    char text[TEXT_BYTES]; /* what went wrong, a line each; empty: nothing */
} children;

__attribute__((format(printf, 2, 3))) static void tell(children *c, const char *format, ...)
{
    size_t used = strlen(c->text);
    va_list args;
    va_start(args, format);
    vsnprintf(c->text + used, sizeof c->text - used, format, args);
    va_end(args);
}

/* JOB_HOSTIDS=1: several ranks on one GPU, which NCCL allows only to processes of different hosts. */
static bool wants_hostids(void)
{
    const char *wanted = getenv("JOB_HOSTIDS");
    return wanted && strcmp(wanted, "1") == 0;
}

/* JOB_HOSTS=2: ranks go in turn to two hosts, as the library tells them apart; JOB_HOSTS=2:blocks: one half to
 * each. */
static void set_host(const children *c, int rank)
{
    const char *hosts = getenv("JOB_HOSTS");
    char *rest, text[32];
    long n = hosts ? strtol(hosts, &rest, 10) : 0;
    if (n < 1) return;
    snprintf(text, sizeof text, "host%ld",
             strcmp(rest, ":blocks") == 0 ? rank * n / c->plan->ranks : rank % n);
    setenv("WEFT_HOSTID", text, 1);
}

static void set_environment(const children *c, int rank)
{
    char text[32];
    set_host(c, rank);
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%d", c->plan->ranks);
    setenv("WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", c->shared->ports[0]);
    setenv("MASTER_PORT", text, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    if (wants_hostids()) {
        snprintf(text, sizeof text, "rank%d", rank);
        setenv("NCCL_HOSTID", text, 1);
    }
}

/* Leaks are looked for at exit, so a child that did well ends by exit and not by _exit. */
static _Noreturn void run_child(children *c, int child)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, c->group);
    if (c->plan->threads) {
        exit(job__run_threads(c->plan, c->shared));
    }
    set_environment(c, child);
    if (job__by_mpirun()) job__become_mpirun(c->plan->ranks, c->shared_fd);
    if (job__runs_other(child)) job__become_other(child, c->shared_fd);
    job__run_process(c->plan, c->shared, child);
    exit(0);
}

static void start_child(children *c, int child)
{
    pid_t pid = fork();
    if (pid == 0) {
        run_child(c, child);
    }
    if (pid < 0) {
        tell(c, "fork: %s\n", strerror(errno));
        c->ended[child] = true;
        return;
    }
    setpgid(pid, c->group);
    if (!c->group) {
        c->group = pid;
    }
    c->pid[child] = pid;
    if (c->plan->threads) {
        for (int rank = 0; rank < c->plan->ranks; rank++) atomic_store(&c->shared->rank[rank].pid, (int)pid);
    } else if (!job__by_mpirun()) { /* whose ranks say so themselves */
        atomic_store(&c->shared->rank[child].pid, (int)pid);
    }
}

static void judge_end(children *c, int child, int status)
{
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool to_be_killed = !c->plan->threads && !job__by_mpirun() && (c->plan->killed >> child & 1);
    const char *who = c->plan->threads ? "the process of all ranks, first" : "rank";
    if ((to_be_killed && killed) || (!c->plan->threads && c->plan->dying >> child & 1)) {
        return;
    }
    if (job__by_mpirun() && job__all_finished(c->plan, c->shared)) {
        return; /* what mpirun says then is about a process that left without MPI_Finalize */
    }
    if (WIFSIGNALED(status)) {
        tell(c, "%s %d (pid %d) ended by signal %d (%s)\n", who, child, (int)c->pid[child], WTERMSIG(status),
             strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0 || to_be_killed) {
        tell(c, "%s %d (pid %d) ended with exit code %d%s\n", who, child, (int)c->pid[child],
             WEXITSTATUS(status), to_be_killed ? " and should have been killed" : "");
    }
}

/* Reaps whom it can; returns how many still run. */
static int reap(children *c)
{
    int running = 0;
    for (int child = 0; child < c->n; child++) {
        int status = 0;
        if (c->ended[child]) {
            continue;
        }
        if (waitpid(c->pid[child], &status, WNOHANG) == c->pid[child]) {
            c->ended[child] = true;
            judge_end(c, child, status);
        } else {
            running++;
        }
    }
    return running;
}

static void tell_running(children *c)
{
    for (int rank = 0; rank < c->plan->ranks; rank++) {
        job_rank_shared *r = &c->shared->rank[rank];
        const char *file =
            job__runs_other(rank) || job__by_mpirun() ? NULL : atomic_load(&r->file); /* it was not forked */
        if (!atomic_load(&r->finished) && !c->ended[c->plan->threads ? 0 : rank]) {
            tell(c, "rank %d (pid %d) still ran, last check %s:%d\n", rank, atomic_load(&r->pid),
                 file ? file : "none", atomic_load(&r->line));
        }
    }
}

static void kill_all(children *c)
{
    for (int child = 0; child < c->n; child++) {
        if (!c->ended[child]) {
            kill(c->pid[child], SIGKILL);
            waitpid(c->pid[child], NULL, 0);
            c->ended[child] = true;
        }
    }
}

static void poller(children *c)
{
    int limit_ms = c->plan->limit_ms ? c->plan->limit_ms : JOB_LIMIT_MS * (job_wait_ms() / JOB_WAIT_MS);
    int64_t end = job_now_ns() + limit_ms * INT64_C(1000000);
    bool failed = false;
    while (reap(c)) {
        if (!failed && (c->text[0] || atomic_load(&c->shared->failed))) {
            int64_t grace_end = job_now_ns() + GRACE_MS * INT64_C(1000000);
            failed = true;
            end = end < grace_end ? end : grace_end;
        }
        if (job_now_ns() > end) {
            tell(c, "%s: killed\n", failed ? "after the first failure" : "the job's time is up");
            tell_running(c);
            if (!failed && c->group) hung_tell(c->group);
            kill_all(c);
            return;
        }
        job_sleep_ms(2);
    }
}

/* A rank that has ended may have left a child behind: nothing may outlive the job. */
static void end_orphans(children *c)
{
    for (int i = 0; c->group && kill(-c->group, 0) == 0; i++) {
        if (i == 200) {
            tell(c, "a process of the job outlived its ranks\n");
            kill(-c->group, SIGKILL);
            return;
        }
        job_sleep_ms(5);
    }
}

static void tell_failures(children *c)
{
    for (int rank = 0; rank < c->plan->ranks; rank++) {
        if (c->shared->rank[rank].failure[0]) {
            tell(c, "%s\n", c->shared->rank[rank].failure);
        }
    }
}

static void run(const job_plan *plan)
{
    children c = {.plan = plan, .n = plan->threads || job__by_mpirun() ? 1 : plan->ranks};
    assert_in_range(plan->ranks, 1, JOB_RANKS_MAX);
    c.shared = job__shared_new(&c.shared_fd);
    assert_non_null(c.shared);
    for (int i = 0; i < JOB_PORTS; i++) c.shared->ports[i] = port_take();
    fflush(stdout);
    fflush(stderr);
    for (int child = 0; child < c.n; child++) start_child(&c, child);
    poller(&c);
    end_orphans(&c);
    tell_failures(&c);
    for (int i = 0; i < JOB_PORTS; i++) port_give(c.shared->ports[i]);
    munmap(c.shared, sizeof *c.shared);
    if (c.shared_fd >= 0) close(c.shared_fd);
    if (c.text[0]) {
        fail_msg("%s", c.text);
    }
}

enum { DEVICES_SLOWER = JOB_SANITIZED ? 1 : 3, DEVICE_SHORT_MS = 4000, DEVICE_LATE_MS = 10000 };

int job_wait_ms(void)
{
    return job_on_device() ? JOB_WAIT_MS * DEVICES_SLOWER : JOB_WAIT_MS;
}

int job_short_ms(void)
{
    return job_on_device() ? DEVICE_SHORT_MS : JOB_SHORT_MS;
}

int job_late_ms(void)
{
    return job_on_device() ? DEVICE_LATE_MS : JOB_LATE_MS;
}

/* JOB_RANKS=threads: as threads what can be, for the thread sanitizer, which sees one process. */
static bool as_threads(const job_plan *plan)
{
    const char *wanted = getenv("JOB_RANKS");
    return plan->threads || (!plan->processes && !plan->killed && wanted && strcmp(wanted, "threads") == 0);
}

/* JOB_RANKS_MOST=N: jobs of more ranks are skipped, as there are no GPUs for them. */
static bool too_many(const job_plan *plan)
{
    const char *most = getenv("JOB_RANKS_MOST");
    return most && plan->ranks > atoi(most);
}

void job_run(const job_plan *given)
{
    job_plan plan = *given;
    if (job__other_job(given)) return;
    plan.threads = as_threads(given);
    if (plan.ahead && !job_all_fast()) SKIP("no rank runs ahead in the plain build");
    if (plan.threads && job__other_library()) SKIP("ranks of one process have one library");
    if (plan.threads && job__by_mpirun()) SKIP("ranks of one process are one rank of MPI");
    if (plan.killed && job__by_mpirun() && !getenv("JOB_MPIRUN_SURVIVES"))
        SKIP("mpirun ends all ranks when one is killed");
    if (too_many(&plan)) SKIP("%d ranks, and JOB_RANKS_MOST is %s", plan.ranks, getenv("JOB_RANKS_MOST"));
    if (plan.threads && plan.ranks > 1 && wants_hostids())
        SKIP("ranks that are threads of one process cannot have hosts of their own (JOB_HOSTIDS)");
    run(&plan);
}

void job_test(void **state)
{
    job_run(*state);
}

int job_main(const char *file, const struct CMUnitTest *tests, size_t n, int argc, char **argv)
{
    const char *name = strrchr(file, '/');
    job__other_begin(argv);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return _cmocka_run_group_tests(name ? name + 1 : file, tests, n, NULL, NULL);
}
