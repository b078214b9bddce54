#include "litmus.h"
#include "clock.h"
#include "job.h"
#include "lock.h"
#include "skip.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DEFAULT_MS = 1500,
    LOOKS = 2000,     /* at the other side's arrival before the processor is offered to it */
    CLOCK_EVERY = 64, /* rounds */
    STAGGER_MOST = 63,
    NO_FILTERS = 3 /* exit status */
};

void *litmus_share(unsigned long bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    return shared;
}

bool litmus_meet(litmus *l, int who, uint64_t round)
{
    if (who == 0 && round % CLOCK_EVERY == 0 && weft__now_ns() >= l->until_ns)
        atomic_store_explicit(&l->last, round - 1, memory_order_relaxed);
    atomic_store_explicit(&l->arrival[who].round, round, memory_order_release);
    for (int looks = 1; atomic_load_explicit(&l->arrival[!who].round, memory_order_acquire) < round; looks++)
        if (looks % LOOKS == 0)
            sched_yield();
        else
            weft__pause();
    return round <= atomic_load_explicit(&l->last, memory_order_relaxed);
}

void litmus_stagger(unsigned *seed)
{
    *seed = *seed * 1103515245 + 12345;
    for (unsigned n = (*seed >> 16) & STAGGER_MOST; n; n--) atomic_signal_fence(memory_order_seq_cst);
}

/* ---- the sides ---------------------------------------------------------------------------------- */

typedef struct side {
    litmus *l;
    litmus_side *run;
    int who;
} side;

/* Side 0 on the first processor there is for us, side 1 on the last.  Where that cannot
 * be they run anywhere. */
static void go_apart(int who)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            if (who) CPU_ZERO(&one);
            CPU_SET(i, &one);
            if (!who) break;
        }
    sched_setaffinity(0, sizeof one, &one);
}

static void *run_side(void *arg)
{
    const side *s = arg;
    go_apart(s->who);
    s->run(s->l, s->who);
    return NULL;
}

static void run_threads(side sides[2])
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_side, &sides[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void run_processes(side sides[2])
{
    pid_t pids[2];
    int status;
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_side(&sides[i]);
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

uint64_t litmus_run(const char *name, litmus_place place, void *shared, litmus_side *zero, litmus_side *one)
{
    const char *ms = getenv("LITMUS_MS");
    litmus *l = litmus_share(sizeof *l);
    side sides[2] = {{l, zero, 0}, {l, one, 1}};
    uint64_t wrong;
    *l = (litmus){.shared = shared, .until_ns = weft__now_ns() + (ms ? atoi(ms) : DEFAULT_MS) * WEFT__MS};
    atomic_store(&l->last, UINT64_MAX);
    if (place == LITMUS_PROCESSES)
        run_processes(sides);
    else
        run_threads(sides);
    wrong = atomic_load(&l->wrong);
    print_message("%s, %s: %llu rounds, %llu wrong\n", name,
                  place == LITMUS_PROCESSES ? "processes" : "threads",
                  (unsigned long long)atomic_load(&l->last), (unsigned long long)wrong);
    munmap(l, sizeof *l);
    return wrong;
}

/* ---- refusals ----------------------------------------------------------------------------------- */

void litmus_refuse_membarrier(int error)
{
    struct sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof refuse / sizeof *refuse, refuse};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(NO_FILTERS);
}

void litmus_need_filters(void)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        litmus_refuse_membarrier(EPERM);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!status) return;
    SKIP("this system has no filters of system calls (seccomp)");
}
