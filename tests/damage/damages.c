/* damages.c - see damages.h. */
#include "damages.h"
#include "resets.h"
#include "router.h"
#include "scarce.h"
#include "wall_clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXIT_CODE = 7, CHILD_LIVES_US = 300000, JUMP_S = 86400, STORM_US = 300, FDS_MOST = 4096 };

static atomic_bool ending_now;
static atomic_uint counted; /* what was refused, or reset */

bool damage_is_ending(void)
{
    return atomic_load(&ending_now);
}

bool damage_was_done(const damage *d)
{
    if (d->by_ways) return router_done() > 0;
    return !d->counts || atomic_load(&counted) > 0;
}

static uint64_t chance(const scene *s)
{
    uint64_t words = s->seed * 31;
    return job_random(&words);
}

/* ---- ends of the victim ---- */

static void kill_it(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    kill(getpid(), SIGKILL);
}

static void exit_it(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    exit(EXIT_CODE); /* NOLINT(concurrency-mt-unsafe): that is the damage */
}

static void leave_at_once(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    _exit(0);
}

static void abort_it(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    abort();
}

static void segfault(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would have much to say */
    raise(SIGSEGV);
}

/* The child lives on, with all descriptors that it has; not among the job's processes, as whoever gets it may not reap it. */
static void fork_and_kill(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    if (fork() == 0) {
        setpgid(0, 0);
        usleep(CHILD_LIVES_US);
        _exit(0);
    }
    kill(getpid(), SIGKILL);
}

/* ---- it is stopped ---- */

/* Unless it has left the job, and ended. */
static void stop(job_rank *me, const scene *s)
{
    kill(job_pid(me, s->victim), SIGSTOP);
}

static void go_on(job_rank *me, const scene *s)
{
    kill(job_pid(me, s->victim), SIGCONT);
}

/* All ranks of its host but the one that has to wake them. */
static void stop_host(job_rank *me, const scene *s)
{
    for (int r = 0; r < s->ranks; r++)
        if (s->part >> r & 1U && !(s->dead >> r & 1U) && r != me->rank) kill(job_pid(me, r), SIGSTOP);
}

static void wake_host(job_rank *me, const scene *s)
{
    for (int r = 0; r < s->ranks; r++)
        if (s->part >> r & 1U && !(s->dead >> r & 1U) && r != me->rank) kill(job_pid(me, r), SIGCONT);
}

/* ---- what it runs out of ---- */

static int taken[FDS_MOST], taken_count;
static struct rlimit limit_before;

static int highest_descriptor(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int most = 0;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        const int fd = (int)strtol(e->d_name, NULL, 10);
        if (fd > most) most = fd;
    }
    if (dir) closedir(dir);
    return most;
}

static void take_descriptors(job_rank *me, const scene *s)
{
    struct rlimit limit;
    (void)me;
    (void)s;
    getrlimit(RLIMIT_NOFILE, &limit_before);
    limit = limit_before;
    limit.rlim_cur = (rlim_t)highest_descriptor() + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (taken_count < FDS_MOST) {
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            atomic_store(&counted, 1);
            return;
        }
        taken[taken_count++] = fd;
    }
}

static void give_descriptors(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    while (taken_count) close(taken[--taken_count]);
    setrlimit(RLIMIT_NOFILE, &limit_before);
}

static void lack_memory(job_rank *me, const scene *s)
{
    (void)me;
    scarce_begin(1 + (int64_t)(chance(s) % 40), 0);
}

static void have_memory(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    atomic_store(&counted, scarce_end());
}

static void filler(const scene *s, char path[128])
{
    snprintf(path, 128, "%s/filler", s->run_dir);
}

/* The job's folder is a file system of its own. */
static void fill_disk(job_rank *me, const scene *s)
{
    static const char nothing[4096];
    char path[128];
    int fd;
    ssize_t written = 1;
    (void)me;
    filler(s, path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && written > 0) written = write(fd, nothing, sizeof nothing);
    atomic_store(&counted, written < 0);
    if (fd >= 0) close(fd);
}

static void fill_disk_and_kill(job_rank *me, const scene *s)
{
    fill_disk(me, s);
    kill(getpid(), SIGKILL);
}

static void empty_disk(job_rank *me, const scene *s)
{
    char path[128];
    (void)me;
    filler(s, path);
    unlink(path);
}

/* ---- what disturbs it ---- */

static void jump(job_rank *me, const scene *s)
{
    (void)me;
    wall_clock_jump(chance(s) % 2 ? JUMP_S : -JUMP_S);
}

static void jump_back(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    wall_clock_jump(0);
}

static void on_signal(int number)
{
    (void)number;
}

static void interrupt_all(void)
{
    DIR *dir = opendir("/proc/self/task");
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') syscall(SYS_tgkill, getpid(), strtol(e->d_name, NULL, 10), SIGUSR1);
    if (dir) closedir(dir);
}

/* Whatever waits in the kernel is told EINTR, again and again. */
static void storm(job_rank *me, const scene *s)
{
    const struct sigaction taken_note = {.sa_handler = on_signal};
    const int64_t until = job_now_ns() + s->lasts_ms * INT64_C(1000000);
    (void)me;
    sigaction(SIGUSR1, &taken_note, NULL);
    while (job_now_ns() < until) {
        interrupt_all();
        usleep(STORM_US);
    }
}

/* ---- the network ---- */

typedef void way_change(router_way *way, int value);

static void each_way(const scene *s, way_change *change, int value)
{
    const int host = scene_host(s, s->victim);
    for (int i = 0; i < s->hosts; i++) {
        if (i == host) continue;
        change(router_way_of(host, i), value);
        change(router_way_of(i, host), value);
    }
}

static void set_delay(router_way *way, int value)
{
    atomic_store(&way->delay_us, value);
}

static void set_late(router_way *way, int value)
{
    atomic_store(&way->late_us, 15000);
    atomic_store(&way->late_one_in, value);
}

static void set_twice(router_way *way, int value)
{
    atomic_store(&way->twice_one_in, value);
}

static void set_flip(router_way *way, int value)
{
    atomic_store(&way->flip_unseen, false);
    atomic_store(&way->flip_one_in, value);
}

static void set_flip_unseen(router_way *way, int value)
{
    atomic_store(&way->flip_unseen, true);
    atomic_store(&way->flip_one_in, value);
}

static void set_resets(router_way *way, int value)
{
    atomic_store(&way->resets, value);
}

#define CHANGE(name, change, value)                \
    static void name(job_rank *me, const scene *s) \
    {                                              \
        (void)me;                                  \
        each_way(s, change, value);                \
    }
CHANGE(delay_all, set_delay, 30000)
CHANGE(delay_none, set_delay, 0)
CHANGE(reorder, set_late, 5)
CHANGE(order, set_late, 0)
CHANGE(send_twice, set_twice, 3)
CHANGE(send_once, set_twice, 0)
CHANGE(flip_bits, set_flip, 8)
CHANGE(flip_unseen_bits, set_flip_unseen, 40)
CHANGE(flip_none, set_flip, 0)
CHANGE(reset_all, set_resets, 2)
CHANGE(reset_none, set_resets, 0)

static void stop_and_reset(job_rank *me, const scene *s)
{
    stop(me, s);
    reset_all(me, s);
}

static void wake_and_end_resets(job_rank *me, const scene *s)
{
    reset_none(me, s);
    go_on(me, s);
}

static void cut_cable(job_rank *me, const scene *s)
{
    (void)me;
    router_cut(scene_host(s, s->victim), true);
}

static void mend_cable(job_rank *me, const scene *s)
{
    (void)me;
    router_cut(scene_host(s, s->victim), false);
}

static router_way *way_to_next(const scene *s, bool back)
{
    const int host = scene_host(s, s->victim), next = (host + 1) % s->hosts;
    return back ? router_way_of(next, host) : router_way_of(host, next);
}

static void lose_one_way(job_rank *me, const scene *s)
{
    (void)me;
    atomic_store(&way_to_next(s, false)->lost, true);
}

static void lose_both_ways(job_rank *me, const scene *s)
{
    lose_one_way(me, s);
    atomic_store(&way_to_next(s, true)->lost, true);
}

static void lose_none(job_rank *me, const scene *s)
{
    (void)me;
    atomic_store(&way_to_next(s, false)->lost, false);
    atomic_store(&way_to_next(s, true)->lost, false);
}

/* One end is told that its connection is over, and what its kernel says of it does not arrive at the other one. */
static void open_half(job_rank *me, const scene *s)
{
    (void)me;
    atomic_store(&way_to_next(s, false)->resets, 1);
    atomic_store(&way_to_next(s, true)->lost, true);
}

static void end_half(job_rank *me, const scene *s)
{
    atomic_store(&way_to_next(s, false)->resets, 0);
    lose_none(me, s);
}

static void reset_here(job_rank *me, const scene *s)
{
    (void)me;
    resets_begin(s->seed, 10);
}

static void end_resets(job_rank *me, const scene *s)
{
    (void)me;
    (void)s;
    atomic_store(&counted, resets_end());
}

/* ---- the table ---- */

/* The end of the victim is under way before it begins. */
#define DEATH(name, f)                             \
    static void name(job_rank *me, const scene *s) \
    {                                              \
        atomic_store(&ending_now, true);           \
        f(me, s);                                  \
    }
DEATH(killed, kill_it)
DEATH(exits, exit_it)
DEATH(exits_at_once, leave_at_once)
DEATH(aborts, abort_it)
DEATH(crashes, segfault)
DEATH(forks_and_dies, fork_and_kill)
DEATH(dies_with_a_full_disk, fill_disk_and_kill)

const damage damages[] = {
    {"kill -9", EVERYWHERE, ANY_TIME, VICTIM_DIES, .begin = killed},
    {"exit", EVERYWHERE, ANY_TIME, VICTIM_DIES, .tells = true, .begin = exits},
    {"_exit", EVERYWHERE, ANY_TIME, VICTIM_DIES, .begin = exits_at_once},
    {"abort", EVERYWHERE, ANY_TIME, VICTIM_DIES, .begin = aborts},
    {"a segfault", EVERYWHERE, ANY_TIME, VICTIM_DIES, .begin = crashes},
    {"fork, then kill -9", EVERYWHERE, ANY_TIME, VICTIM_DIES, .begin = forks_and_dies},
    {"a full disk, then kill -9", EVERYWHERE, AT_WORK | 1 << SHRINKING, VICTIM_DIES,
     .begin = dies_with_a_full_disk},
    {"SIGSTOP", EVERYWHERE, ANY_TIME, NOTHING_ENDS, .by_another = true, .lasts_ms = {50, 300, 3000},
     .begin = stop, .end = go_on},
    {"SIGSTOP of all ranks of the host", ON_HOSTS, FROM_IDLE_ON, NOTHING_ENDS, .by_another = true,
     .lasts_ms = {300, 3000}, .begin = stop_host, .end = wake_host},
    {"SIGSTOP, and resets,", ON_HOSTS, AT_WORK, NOTHING_ENDS, .by_another = true, .lasts_ms = {7000},
     .by_ways = true, .begin = stop_and_reset, .end = wake_and_end_resets},
    {"no descriptor", EVERYWHERE, FROM_IDLE_ON, NOTHING_ENDS, .lasts_ms = {300}, .counts = true,
     .begin = take_descriptors, .end = give_descriptors},
    {"no memory once", EVERYWHERE, AT_WORK, OWN_FAILURE, .lasts_ms = {200}, .counts = true,
     .begin = lack_memory, .end = have_memory},
    {"a full disk", EVERYWHERE, FROM_IDLE_ON, NOTHING_ENDS, .lasts_ms = {300}, .counts = true,
     .begin = fill_disk, .end = empty_disk},
    {"a jump of the clock", EVERYWHERE, ANY_TIME, NOTHING_ENDS, .lasts_ms = {500}, .begin = jump,
     .end = jump_back},
    {"a storm of signals", EVERYWHERE, ANY_TIME, NOTHING_ENDS, .lasts_ms = {300}, .begin = storm},
    {"resets of its connections", 1 << LOOPBACK, FROM_IDLE_ON, NOTHING_ENDS, .lasts_ms = {300},
     .counts = true, .begin = reset_here, .end = end_resets},
    {"resets on the way", ON_HOSTS, ANY_TIME, NOTHING_ENDS, .lasts_ms = {300}, .by_ways = true,
     .begin = reset_all, .end = reset_none},
    {"a connection half open", ON_HOSTS, FROM_IDLE_ON, NOTHING_ENDS, .lasts_ms = {400}, .by_ways = true,
     .begin = open_half, .end = end_half},
    {"a way lost", ON_HOSTS, FROM_IDLE_ON, NOTHING_ENDS, .hosts_least = 3, .lasts_ms = {300, 2500},
     .by_ways = true, .begin = lose_one_way, .end = lose_none},
    {"both ways lost", ON_HOSTS, FROM_IDLE_ON, NOTHING_ENDS, .hosts_least = 3, .lasts_ms = {300, 2500},
     .by_ways = true, .begin = lose_both_ways, .end = lose_none},
    {"delay", ON_HOSTS, ANY_TIME, NOTHING_ENDS, .lasts_ms = {400}, .by_ways = true, .begin = delay_all,
     .end = delay_none},
    {"reordering", ON_HOSTS, ANY_TIME, NOTHING_ENDS, .lasts_ms = {400}, .by_ways = true, .begin = reorder,
     .end = order},
    {"repetition", ON_HOSTS, ANY_TIME, NOTHING_ENDS, .lasts_ms = {400}, .by_ways = true, .begin = send_twice,
     .end = send_once},
    {"flipped bits", ON_HOSTS, ANY_TIME, NOTHING_ENDS, .lasts_ms = {400}, .by_ways = true, .begin = flip_bits,
     .end = flip_none},
    {"flipped bits that TCP does not see", 1 << ENCRYPTED, AT_WORK, NOTHING_ENDS, .lasts_ms = {300},
     .by_ways = true, .begin = flip_unseen_bits, .end = flip_none},
    {"the cable out", ON_HOSTS, FROM_IDLE_ON, NOTHING_ENDS, .by_another = true, .lasts_ms = {500},
     .by_ways = true, .begin = cut_cable, .end = mend_cable},
    {"the cable out", ON_HOSTS, FROM_IDLE_ON, HOST_IS_LOST, .by_another = true,
     .lasts_ms = {3000, 3000, 3000, 30000}, .by_ways = true, .begin = cut_cable, .end = mend_cable},
};
const int damage_count = sizeof damages / sizeof *damages;
