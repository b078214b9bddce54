/* test_mishaps.c - random programs on devices to which something happens, drawn by seed: everything settles in time, what ends
 * well is right, what does not says what it was, groups without the rank that it befalls live on, leaving ends, and nothing
 * is left behind.
 *
 * MISHAPS_FIRST and MISHAPS_COUNT in the environment choose the seeds, so that a run may be resumed, in place of those that are
 * listed below; MISHAPS_FIRST=411 MISHAPS_COUNT=1 plays one again.  What the ranks of a failed one did last lies in MISHAPS_DIR
 * (/tmp). */
#include "collective.h"
#include "skip.h"
#include "wanderer.h"

#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each mishap; and those in which the library once went wrong: a group that is freed before it is split off (4), an event that
 * cannot be asked for (59), a caller inside of what is aborted (166).  `ends`: something has to end over it, or the seed shows
 * nothing any more. */
static const struct listed {
    uint64_t seed;
    bool ends;
} listed[] = {{4, true},   {59, true}, {315, true}, {15, true},  {1, false}, {35, true},  {53, true},
              {178, true}, {2, true},  {3, true},   {6, false},  {46, true}, {9, true},   {352, true},
              {18, false}, {28, true}, {85, true},  {111, true}, {70, true}, {120, true}, {166, true}};
enum { LISTED = sizeof listed / sizeof *listed, LISTED_SANITIZED = 8 };
enum { ARMED, WALKED, LOOKED, MARKS };

static bool own_shared_memory; /* where only this program's jobs make something */

/* What a lost device has is not given back, nor what a test leaves that has failed: the leak sanitizer asks. */
__attribute__((visibility("default"))) int
__lsan_is_turned_off(void);    /* NOLINT(bugprone-reserved-identifier) */
int __lsan_is_turned_off(void) /* NOLINT(bugprone-reserved-identifier) */
{
    return device_is_lost();
}

/* ---- a rank's life ---- */

static int living(const mishap *m)
{
    return m->ranks - mishap_kills(m);
}

static void arm(job_rank *me, const mishap *m)
{
    if (me->rank != m->victim) return;
    if (m->costs_device) device_may_be_lost();
    if (m->script[0]) device()->emu_script(m->script);
}

static int64_t *breaks_of(job_rank *me, int rank, const wanderer *w)
{
    return job_results(me, rank) + (ptrdiff_t)w->thread * WANDERER_GROUPS;
}

static void sum_on(const wanderer *w, weft_group *group, bool host)
{
    const collective what = {.kind = ALL_REDUCE,
                             .dtype = WEFT_INT32,
                             .op = WEFT_SUM,
                             .count = 33,
                             .seed = w->m->seed,
                             .host = host || !wanderer_may_use_devices(w)};
    collective_run(group, &what);
}

/* Who lives goes on together. */
static void go_on(const wanderer *w)
{
    const weft_call call = {.timeout_ms = job_wait_ms()};
    weft_group *next = NULL;
    CHECK_OK(weft_shrink_group(w->groups[0], &call, &next, NULL));
    CHECK_INT(weft_group_size(next), living(w->m));
    sum_on(w, next, true);
    if (mishap_spares_devices(w->m)) sum_on(w, next, false);
    CHECK_OK(weft_group_free(next));
}

/* What has broken it has to be what may befall it, also where nothing was under way by then. */
static bool has_broken(wanderer *w, int g)
{
    const weft_status status = w->groups[g] ? weft_group_status(w->groups[g]) : WEFT_OK;
    if (status != WEFT_OK) wanderer_judge(w, g, status, weft_last_error());
    return status != WEFT_OK;
}

/* A group that has broken on one member does so on all; one that has not works, where it has to. */
static void compare(job_rank *me, wanderer *w)
{
    const mishap *m = w->m;
    for (int g = 0; g < WANDERER_GROUPS; g++)
        __atomic_store_n(&breaks_of(me, me->rank, w)[g], has_broken(w, g), __ATOMIC_SEQ_CST);
    job_mark(me, WALKED);
    job_await(me, WALKED, living(m) * m->threads);
    for (int g = 0; g < WANDERER_GROUPS; g++) {
        bool broken = false;
        for (int rank = 0; rank < m->ranks; rank++)
            broken = broken || __atomic_load_n(&breaks_of(me, rank, w)[g], __ATOMIC_SEQ_CST);
        if (!w->groups[g]) continue;
        if (!broken && (mishap_is_calm(m) || !w->has_victim[g])) sum_on(w, w->groups[g], false);
        if (broken && (job_await_break(w->groups[g], job_late_ms()) >= 0 || !has_broken(w, g)))
            job_fail(__FILE__, __LINE__, "thread %d group %d is broken elsewhere alone", w->thread, g);
        if (broken && g == 0) go_on(w);
    }
}

static void wander(job_rank *me, int thread, void *arg)
{
    const mishap *m = arg;
    wanderer w;
    wanderer_make(&w, me, m, thread);
    job_mark(me, ARMED); /* groups are made before anything happens */
    job_await(me, ARMED, m->ranks * m->threads);
    if (thread == 0) arm(me, m);
    wanderer_walk(&w);
    if (mishap_kills(m) && me->rank == m->victim) { /* what was to kill it has not come to it */
        atomic_store(&m->outcome->outlived, true);
        raise(SIGKILL);
    }
    compare(me, &w);
    wanderer_free(&w);
}

/* The module takes the libnccl that the process has. */
static void load_old_nccl(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/emulation-2.19/libnccl.so.2", getenv("WEFT_MODULE_DIR"));
    if (!dlopen(path, RTLD_NOW)) job_fail(__FILE__, __LINE__, "%s", dlerror());
}

static void live(job_rank *me)
{
    mishap m = *(const mishap *)me->arg;
    int64_t before;
    job_setenv(me, "WEFT_DEVICE_ORDER", m.program ? "program" : "agreed");
    if (m.old_nccl) load_old_nccl();
    if (m.blocking) job_setenv(me, "WEFT_NCCL_BLOCKING", "1");
    if (m.shares) job_setenv(me, "WEFT_NCCL_SHARE", "1");
    if (m.kind == MISMATCH)
        job_setenv(me, "CUDA_EMULATION_MISUSE", "report"); /* they may both have launched it */
    job_join(me);
    job_threads(me, m.threads, wander, &m);
    if (me->rank == m.victim && m.script[0])
        atomic_store(&m.outcome->carried, device()->emu_script_applied() > 0);
    if (!mishap_kills(&m)) job_host_sum_works(me->world);
    job_mark(me, LOOKED);
    job_await(me, LOOKED, living(&m));
    if (m.kind == CALL_STUCK && m.seed % 2) device()->emu_release();
    before = job_now_ns();
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    CHECK_PERIOD(before, job_now_ns(), 0, job_late_ms());
    me->ctx = NULL;
    me->world = NULL;
}

/* ---- a seed ---- */

static char run_dir[64], left[300];
static const mishap *played;

/* What the ranks write down stays where one has died or failed, and so does the secret that the job's next run may use. */
static bool may_stay(const char *name)
{
    return !strncmp(name, "dump.", 5) || !strcmp(name, "secret") ||
           (!mishap_is_calm(played) && !strncmp(name, "record.", 7));
}

static int remove_left(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    if (kind != FTW_DP && !may_stay(path + where->base)) snprintf(left, sizeof left, "%s", path);
    if (where->level) remove(path);
    return 0;
}

static void look_at_what_is_left(const mishap *m)
{
    left[0] = 0;
    played = m;
    nftw(own_shared_memory ? "/dev/shm" : run_dir, remove_left, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    if (!own_shared_memory) remove(run_dir);
    if (left[0]) fail_msg("%s is left", left);
}

/* What the ranks of one that failed did last. */
static int keep_dump(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    static char text[1 << 20];
    char to[512];
    FILE *in, *out;
    (void)what;
    if (kind != FTW_F || strncmp(path + where->base, "dump.", 5) != 0) return 0;
    snprintf(to, sizeof to, "%s/weft-mishap-%llu.%s", getenv("MISHAPS_DIR") ? getenv("MISHAPS_DIR") : "/tmp",
             (unsigned long long)played->seed, path + where->base);
    in = fopen(path, "re");
    out = fopen(to, "we");
    for (size_t n; in && out && (n = fread(text, 1, sizeof text, in));) fwrite(text, 1, n, out);
    if (in) fclose(in);
    if (out && !fclose(out)) printf("             what its ranks did last: %s\n", to);
    return 0;
}

static bool went_well;

static int put_away(void **state)
{
    (void)state;
    if (!went_well) nftw(run_dir, keep_dump, 8, FTW_PHYS);
    return 0;
}

static int played_so_far, ended_so_far;

/* A script whose functions nobody calls any more leaves a job to which nothing happens, and a seed that shows nothing. */
static void look_at_outcome(const mishap *m)
{
    const bool ended = atomic_load(&m->outcome->ended);
    if (!mishap_is_calm(m)) played_so_far++;
    if (ended) ended_so_far++;
    if (m->has_to_end && !ended) fail_msg("nothing has ended over it");
    if (m->has_to_happen && m->script[0] && !mishap_kills(m) && !atomic_load(&m->outcome->carried))
        fail_msg("no call has come to its script");
    if (m->has_to_happen && m->kind == DIES_IN_CALL && atomic_load(&m->outcome->outlived))
        fail_msg("it has not come to the call in which it was to die");
}

static void play(void **state)
{
    const mishap *m = *state;
    const job_plan plan = {.ranks = m->ranks,
                           .body = live,
                           .arg = m,
                           .processes = true,
                           .bare = true,
                           .killed = mishap_kills(m) ? UINT64_C(1) << m->victim : 0,
                           .limit_ms = 2 * JOB_LIMIT_MS};
    if (!device_is_emulated()) SKIP("a script is the emulation's");
    played = m;
    went_well = false;
    snprintf(run_dir, sizeof run_dir, "/dev/shm/weft-mishaps-%d", getpid());
    nftw(run_dir, remove_left, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); /* what one that failed has left */
    if (mkdir(run_dir, 0700) && errno != EEXIST) fail_msg("%s cannot be made", run_dir);
    setenv("WEFT_RUN_DIR", run_dir, 1);
    atomic_store(&m->outcome->ended, false);
    atomic_store(&m->outcome->carried, false);
    atomic_store(&m->outcome->outlived, false);
    job_run(&plan);
    look_at_what_is_left(m);
    look_at_outcome(m);
    went_well = true;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const bool chosen = getenv("MISHAPS_FIRST") || getenv("MISHAPS_COUNT");
    const uint64_t first = number("MISHAPS_FIRST", 1), count = chosen          ? number("MISHAPS_COUNT", 1)
                                                               : JOB_SANITIZED ? LISTED_SANITIZED
                                                                               : LISTED;
    mishap *all = calloc(count, sizeof *all);
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    mishap_outcome *outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed;
    if (!all || !tests || outcome == MAP_FAILED) abort();
    own_shared_memory = !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                        !mount("weft-mishaps", "/dev/shm", "tmpfs", 0, "size=2g,mode=1777");
    for (uint64_t i = 0; i < count; i++) {
        mishap_draw(&all[i], chosen ? first + i : listed[i].seed);
        all[i].outcome = outcome;
        all[i].has_to_happen = !chosen;
        all[i].has_to_end = !chosen && listed[i].ends;
        tests[i] = (struct CMUnitTest){all[i].name, play, NULL, put_away, &all[i]};
    }
    failed = job_main(__FILE__, tests, count, argc, argv);
    printf("mishaps: of %d seeds in which something may end it did in %d\n", played_so_far, ended_so_far);
    free(all);
    free(tests);
    return failed;
}
