/* test_damage.c - whatever may happen to a job, drawn by seed: every survivor settles in time, the culprit is right, nobody
 * living is called dead, all who have a group have the same one, each sum is right, and nothing is left behind.
 *
 * DAMAGE_FIRST and DAMAGE_COUNT in the environment choose the seeds, so that a run may be resumed, in place of those of
 * seeds.h; DAMAGE_FIRST=411 DAMAGE_COUNT=1 plays one again.  What a failed one has written down lies in DAMAGE_DIR (/tmp). */
#include "damages.h"
#include "judge.h"
#include "operations.h"
#include "router.h"
#include "scene.h"
#include "seeds.h"
#include "skip.h"

#include <ftw.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SEEDS_SANITIZED = 8, /* of the list */
    STEPS_MOST = 100000,
    AFTER = 3, /* steps of a group that goes on */
    STEPS_BEFORE_LEAVING = 3,
    JOIN_MS = 5000 * JOB_SLOWER,  /* where somebody does not come */
    FINAL_MS = 4000 * JOB_SLOWER, /* deadline of a shrink that nobody can agree to */
    LEAVE_MS = 20000 * JOB_SLOWER,
    MEETS_MS = 2000,                  /* until a packet has been changed, where few of them are */
    TOLD_MS = 10000 + SCENE_LATE_MS,  /* from a damage until all have broken */
    RECONNECT_MS = 1000 * JOB_SLOWER, /* where somebody dies unseen */
    SHRINKS_MOST = 5
};
enum { LEFT, BROKEN, GOES_ON, IS_OUT, MADE, GROUPS }; /* results of each rank, and behind them its groups */
enum { BEGUN, OVER };                                 /* of rank 0 alone, after those */
enum { TIMES = 16 };
_Static_assert(GROUPS + SHRINKS_MOST <= TIMES && TIMES + OVER < JOB_RESULTS, "results");
enum { ALL_DONE }; /* mark */

static const char *unable; /* why nothing can be played here; NULL: it can */

static int64_t told(job_rank *me, int rank, int what)
{
    return __atomic_load_n(job_results(me, rank) + what, __ATOMIC_SEQ_CST);
}

static void tell(job_rank *me, int rank, int what, int64_t number)
{
    __atomic_store_n(job_results(me, rank) + what, number, __ATOMIC_SEQ_CST);
}

static bool lives(const scene *s, int rank)
{
    return !(s->dead >> rank & 1U);
}

/* ---- the damage ---- */

typedef struct hand {
    job_rank *me;
    const scene *scene;
    pthread_t thread;
    bool armed;
} hand;

/* A host that is lost is found before its cable is in again. */
static bool all_have_broken(job_rank *me, const scene *s)
{
    for (int i = 0; i < s->ranks; i++)
        if (lives(s, i) && !told(me, i, BROKEN)) return false;
    return true;
}

/* Amid work there is always something on the ways, and one packet of some is changed. */
static bool meets_something(const scene *s)
{
    return s->phase == AMID && s->damage->by_ways && s->damage->hosts_least < 3;
}

static void *strike(void *arg)
{
    const hand *h = arg;
    const scene *s = h->scene;
    bool there;
    while (!job_pid(h->me, s->victim)) usleep(100); /* it has not been started yet */
    usleep((useconds_t)s->delay_us);
    tell(h->me, 0, TIMES + BEGUN, job_now_ns());
    there = !told(h->me, s->victim, LEFT);
    if (s->damage->outcome == VICTIM_DIES) atomic_store(s->hit, there);
    s->damage->begin(h->me, s);
    job_sleep_ms(s->lasts_ms);
    for (int waited = 0; meets_something(s) && !damage_was_done(s->damage) && waited < MEETS_MS; waited += 5)
        job_sleep_ms(5);
    while (s->damage->outcome == HOST_IS_LOST && s->phase != LEAVING && !all_have_broken(h->me, s) &&
           job_now_ns() < told(h->me, 0, TIMES + BEGUN) + TOLD_MS * INT64_C(1000000))
        job_sleep_ms(5);
    if (s->damage->end) s->damage->end(h->me, s);
    atomic_store(s->hit, there && damage_was_done(s->damage));
    tell(h->me, 0, TIMES + OVER, job_now_ns());
    return NULL;
}

static void arm(hand *h)
{
    if (h->me->rank != h->scene->actor || h->armed) return;
    CHECK(!pthread_create(&h->thread, NULL, strike, h));
    h->armed = true;
}

static void disarm(const hand *h)
{
    if (h->armed) pthread_join(h->thread, NULL);
}

/* ---- a rank's life ---- */

static void set(const job_rank *me, const scene *s)
{
    static const char *const transports[LAYOUTS] = {"shm", "tcp", "shm,tcp", "shm,tcp"};
    const struct rlimit none = {0, 0};
    char ms[16], witness[sizeof s->witness_dir + 16];
    setrlimit(RLIMIT_CORE, &none);
    job_setenv(me, "WEFT_TRANSPORT", transports[s->layout]);
    snprintf(witness, sizeof witness, "file:%s/votes", s->witness_dir);
    if (s->quorum != MAJORITY) job_setenv(me, "WEFT_QUORUM", scene_quorum(s)); /* which is the default */
    if (s->quorum == WITNESS) job_setenv(me, "WEFT_WITNESS", witness);
    snprintf(ms, sizeof ms, "%d", RECONNECT_MS);
    if (s->damage->outcome == VICTIM_DIES) job_setenv(me, "WEFT_RECONNECT_MS", ms);
    if (s->layout < PLAIN) return;
    CHECK(router_enter(scene_host(s, me->rank)));
    job_setenv(me, "MASTER_ADDR", router_address(0));
    job_setenv(me, "WEFT_SOCKET_IFNAME", "cable");
    job_setenv(me, "WEFT_TEST_SECRET", "the secret of hosts with a router");
    job_setenv(me, "WEFT_SECRET", "env:WEFT_TEST_SECRET");
    job_setenv(me, "WEFT_WIRE", s->layout == PLAIN ? "plain" : "encrypted");
}

/* False: somebody is missing, who has been named. */
static bool join(job_rank *me, const scene *s)
{
    const int64_t from = job_now_ns();
    weft_config config = WEFT_CONFIG_INIT;
    weft_status status;
    config.timeout_ms = s->phase == JOINING && s->dead ? JOIN_MS : JOB_WAIT_MS;
    status = weft_init(&config, &me->ctx);
    judge_join(me, s, status, from, JOIN_MS + 2000);
    if (status != WEFT_OK) return false;
    me->world = weft_world(me->ctx);
    return true;
}

static bool is_over(job_rank *me, const scene *s)
{
    return s->phase == LEAVING || (!s->dead && told(me, 0, TIMES + OVER));
}

/* True: to the end of the damage, and nothing has ended. */
static bool work(job_rank *me, const scene *s, unsigned char *room)
{
    const uint64_t first = s->phase == LEAVING ? STEPS_BEFORE_LEAVING : 0;
    bool all = false;
    for (uint64_t n = 0; n < STEPS_MOST && (!all || n < first); n++) {
        ending e = {.status = WEFT_OK, .peer = -1};
        if (s->phase == AMID || s->phase == LEAVING || all)
            e = operation_run(s->operation, me, me->world, room, n);
        judge_ending(me, s, &e);
        /* Who had no memory for a message that came early alone has missed it: the others know nothing of that, and wait.
         * Nor does it break the world where a group was broken by it that the operation has made. */
        if (e.status == WEFT_OK || (judge_is_shortage(&e) && weft_group_status(me->world) == WEFT_OK)) {
            e = operation_all_say(me, me->world, is_over(me, s), &all);
            judge_ending(me, s, &e);
        }
        if (e.status == WEFT_ERR_PEER || weft_group_status(me->world) != WEFT_OK) return false;
        if (s->phase != AMID) job_sleep_ms(s->phase == IDLE ? 20 : 1);
    }
    return true;
}

/* ---- those who go on ---- */

#define OTHERS_GO_ON "the job goes on without this rank"

/* Where both halves reach the witness, the one that does not go on is told so. */
static bool is_final(const scene *s, const char *text)
{
    char setting[32];
    snprintf(setting, sizeof setting, "WEFT_QUORUM=%s", scene_quorum(s));
    return strstr(text, OTHERS_GO_ON) || (!scene_is_contested(s) && strstr(text, setting));
}

static weft_status shrink(job_rank *me, const scene *s, weft_group *group, weft_group **next, char *text,
                          size_t bytes)
{
    const unsigned goal = scene_goal(s, me->rank);
    const int64_t limit = goal && !scene_is_open(s) ? JOB_WAIT_MS : FINAL_MS, from = job_now_ns();
    weft_call call = {.timeout_ms = limit};
    weft_request *req = NULL;
    weft_status status;
    CHECK_OK(weft_shrink_group(group, &call, next, &req));
    (void)weft_wait(req, limit + SCENE_LATE_MS);
    judge_stand_aside();
    status = weft_test(req);
    snprintf(text, bytes, "%s", weft_request_message(req));
    if (status == WEFT_PENDING) job_fail(__FILE__, __LINE__, "hangs: %s", text);
    CHECK_PERIOD(from, job_now_ns(), 0, limit + SCENE_LATE_MS);
    weft_release(req);
    return status;
}

/* One that has said goodbye breaks no group that does not need it. */
static void await_end(job_rank *me, const scene *s, weft_group *group)
{
    const int64_t until = job_now_ns() + TOLD_MS * INT64_C(1000000);
    ending e = {.status = WEFT_OK, .peer = -1};
    bool all;
    while (e.status == WEFT_OK && weft_group_status(group) == WEFT_OK && job_now_ns() < until) {
        e = operation_all_say(me, group, true, &all);
        judge_ending(me, s, &e);
        job_sleep_ms(1);
    }
    if (e.status == WEFT_OK && weft_group_status(group) == WEFT_OK)
        job_fail(__FILE__, __LINE__, "%x go on", judge_members(group));
}

/* Whoever has not died yet, or is not lost yet, takes part; the next one is without it.  NULL: this rank does not go on. */
static weft_group *go_on(job_rank *me, const scene *s)
{
    const bool open = scene_is_open(s) || scene_is_contested(s);
    const unsigned goal = scene_goal(s, me->rank);
    weft_group *group = me->world, *next;
    char text[1024];
    for (int n = 0; n < SHRINKS_MOST; n++) {
        const weft_status status = shrink(me, s, group, &next, text, sizeof text);
        if (status == WEFT_ERR_PEER && (!goal || open) && is_final(s, text)) {
            tell(me, me->rank, IS_OUT, strstr(text, OTHERS_GO_ON) != NULL);
            return NULL;
        }
        if (status != WEFT_OK) job_fail(__FILE__, __LINE__, "shrink: %s: %s", weft_status_name(status), text);
        group = next;
        tell(me, me->rank, GROUPS + n, judge_members(group));
        tell(me, me->rank, MADE, n + 1);
        if (goal && (judge_members(group) & goal) != goal)
            job_fail(__FILE__, __LINE__, "a group of %x, and %x live", judge_members(group), goal);
        if (judge_members(group) == goal) return group;
        await_end(me, s, group);
    }
    job_fail(__FILE__, __LINE__, "no group of %x after %d", goal, SHRINKS_MOST);
}

static void compare(job_rank *me, int rank, int mine, int theirs)
{
    const unsigned long long members = (unsigned long long)told(me, me->rank, GROUPS + mine),
                             others = (unsigned long long)told(me, rank, GROUPS + theirs);
    if (members != others)
        job_fail(__FILE__, __LINE__, "rank %d has the members %llx by its shrink %d, this one %llx by its %d",
                 rank, others, theirs, members, mine);
}

/* The nth groups of all who have one are the same.  By WEFT_QUORUM=any each goes by what it sees, when it sees it: so the last ones
 * are, of all who reach each other. */
static void compare_groups(job_rank *me, const scene *s)
{
    const unsigned others = s->quorum == ANY ? scene_beside(s, me->rank) : scene_all(s);
    const int made = (int)told(me, me->rank, MADE);
    for (int rank = 0; rank < s->ranks; rank++) {
        const int theirs = (int)told(me, rank, MADE);
        if (!(others >> rank & 1U) || !lives(s, rank)) continue;
        if (s->quorum == ANY && made && theirs) compare(me, rank, made - 1, theirs - 1);
        for (int n = 0; s->quorum != ANY && n < theirs && n < made; n++) compare(me, rank, n, n);
    }
}

/* Where the witness decides between two halves, one goes on, and all of it.  Where somebody is told that the job goes on without it,
 * somebody does. */
static void compare_halves(job_rank *me, const scene *s)
{
    unsigned on = 0, out = 0;
    for (int rank = 0; rank < s->ranks; rank++) {
        on |= told(me, rank, GOES_ON) ? 1U << rank : 0;
        out |= told(me, rank, IS_OUT) ? 1U << rank : 0;
    }
    if (scene_is_contested(s) && on != s->part && on != s->other)
        job_fail(__FILE__, __LINE__, "of %x and %x go on %x", s->part, s->other, on);
    if (out && !on) job_fail(__FILE__, __LINE__, "%x are told that others go on, and nobody does", out);
}

static void check(const ending *e)
{
    if (e->status != WEFT_OK)
        job_fail(__FILE__, __LINE__, "after it: %s: %s", weft_status_name(e->status), e->text);
}

/* Where the damage is none to this group, until it is over. */
static void check_works(job_rank *me, const scene *s, weft_group *group, unsigned char *room)
{
    bool over = s->damage->outcome != NOTHING_ENDS;
    for (uint64_t i = 0; i < AFTER || !over; i++) {
        ending e = operation_run(s->operation, me, group, room, i);
        check(&e);
        if (over) continue;
        e = operation_all_say(me, group, told(me, 0, TIMES + OVER), &over);
        check(&e);
    }
}

/* ---- the parts of a scene ---- */

static void leave(job_rank *me, const scene *s)
{
    const int64_t from = job_now_ns();
    const weft_status status = weft_finalize(me->ctx, LEAVE_MS);
    tell(me, me->rank, LEFT, 1);
    judge_leave(me, s, status, from, LEAVE_MS);
    me->ctx = NULL;
}

/* Nobody has been left in the middle of what they do: all see it broken, or all its end. */
static void work_and_go_on(job_rank *me, const scene *s, hand *h, unsigned char *room)
{
    weft_group *group = me->world;
    const bool well = work(me, s, room);
    judge_dead(me->world, scene_suspects(s, me->rank));
    if (s->damage->outcome == NOTHING_ENDS && s->phase != SHRINKING) CHECK(well);
    if (!well) {
        tell(me, me->rank, BROKEN, 1);
        if (s->phase == SHRINKING) arm(h);
        group = go_on(me, s);
    }
    if (group) check_works(me, s, group, room);
    judge_dead(me->world, group ? scene_lost(s, me->rank) : scene_suspects(s, me->rank));
    tell(me, me->rank, GOES_ON, group != NULL);
    job_mark(me, ALL_DONE);
    job_await(me, ALL_DONE, s->ranks - __builtin_popcount(s->dead));
    compare_groups(me, s);
    compare_halves(me, s);
    disarm(h);
    leave(me, s);
}

static void live(job_rank *me)
{
    const scene *s = me->arg;
    hand h = {.me = me, .scene = s};
    unsigned char *room;
    set(me, s);
    if (s->phase == JOINING) arm(&h);
    if (!join(me, s)) {
        disarm(&h);
        return;
    }
    room = job_alloc(me, operation_room(s->ranks));
    if (s->phase != JOINING) job_acquaint(me);
    if (s->phase == IDLE || s->phase == AMID) arm(&h);
    if (s->first == me->rank) {
        job_sleep_ms(10);
        raise(SIGKILL);
    }
    if (s->phase != LEAVING) {
        work_and_go_on(me, s, &h, room);
        return;
    }
    CHECK(work(me, s, room));
    job_meet(me);
    arm(&h);
    while (s->damage->outcome == HOST_IS_LOST && !told(me, 0, TIMES + BEGUN))
        job_sleep_ms(1); /* else all have left */
    leave(me, s);
    disarm(&h);
}

/* ---- a scene ---- */

/* A file system each: the job's, so that its disk may be full; and the witness's beside it, whose disk is not full then and
 * where nothing at all is left. */
static bool made[2], mounted[2];

static void make_folder(int n, const char *path)
{
    made[n] = !mkdir(path, 0700);
    if (!made[n]) fail_msg("%s cannot be made", path);
    mounted[n] = !mount("weft-damage", path, "tmpfs", 0, "size=4m,mode=0700");
    if (!mounted[n]) fail_msg("%s cannot be mounted", path);
}

static void make_folders(scene *s)
{
    const char *where = getenv("DAMAGE_DIR");
    int n = snprintf(s->run_dir, sizeof s->run_dir, "%s/weft-damage-%d-%llu", where ? where : "/tmp",
                     getpid(), (unsigned long long)s->seed);
    if (n < 0 || (size_t)n >= sizeof s->run_dir) fail_msg("DAMAGE_DIR is too long: %s", where);
    snprintf(s->witness_dir, sizeof s->witness_dir, "%s.witness", s->run_dir);
    make_folder(0, s->run_dir);
    make_folder(1, s->witness_dir);
}

static void keep(const char *from, const char *to)
{
    static char text[1 << 20];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    for (size_t n; in && out && (n = fread(text, 1, sizeof text, in));) fwrite(text, 1, n, out);
    if (in) fclose(in);
    if (out && !fclose(out)) printf("             what its ranks did last: %s\n", to);
}

static const char *kept_in;

static int keep_dump(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    char to[256];
    (void)what;
    if (kind != FTW_F || strncmp(path + where->base, "dump.", 5) != 0) return 0;
    snprintf(to, sizeof to, "%s.%s", kept_in, path + where->base);
    keep(path, to);
    return 0;
}

/* The folder goes with this process. */
static void keep_dumps(const scene *s)
{
    kept_in = s->run_dir;
    nftw(s->run_dir, keep_dump, 8, FTW_PHYS);
}

static void remove_folder(int n, const char *path)
{
    if (mounted[n]) umount2(path, MNT_DETACH);
    if (made[n]) rmdir(path);
    mounted[n] = made[n] = false;
}

static bool went_well;
static int played, hits;

/* A damage may come too late, or meet nothing. */
static void judge_hit(const scene *s)
{
    played++;
    if (atomic_load(s->hit)) {
        hits++;
    } else if (meets_something(s)) {
        fail_msg("the damage has not taken place");
    } else {
        printf("             the damage came too late, or met nothing\n");
    }
}

static void play(void **state)
{
    scene *s = *state;
    went_well = false;
    if (unable) SKIP("no network namespaces here: %s", unable);
    router_mend();
    make_folders(s);
    setenv("WEFT_RUN_DIR", s->run_dir, 1);
    atomic_store(s->hit, false);
    job_run(&s->plan);
    judge_hit(s);
    judge_left(s);
    went_well = true;
}

static int put_away(void **state)
{
    const scene *s = *state;
    if (mounted[0] && !went_well) keep_dumps(s);
    remove_folder(0, s->run_dir);
    remove_folder(1, s->witness_dir);
    return 0;
}

static bool own_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    const int control =
        unshare(CLONE_NEWNET | CLONE_NEWNS) ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool well = control >= 0 && !ioctl(control, SIOCSIFFLAGS, &loopback);
    if (control >= 0) close(control);
    return well && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("weft-damage", "/dev/shm", "tmpfs", 0, "size=4g,mode=1777");
}

static void check_list(void **state)
{
    const char *missed = seeds_miss();
    (void)state;
    if (missed) fail_msg("no seed of the list draws %s", missed);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static struct CMUnitTest test_of(scene *s, uint64_t seed, atomic_bool *hit)
{
    scene_draw(s, seed);
    s->hit = hit;
    s->plan = (job_plan){.ranks = s->ranks,
                         .body = live,
                         .arg = s,
                         .bare = true,
                         .processes = true,
                         .dying = s->dead,
                         .limit_ms = 2 * JOB_LIMIT_MS};
    return (struct CMUnitTest){s->name, play, NULL, put_away, s};
}

static void prepare(void)
{
    unsetenv("WEFT_TRANSPORT"); /* the seed says */
    setenv("WEFT_LOG", "0", 0);
    setenv("WEFT_RECORD", "4096", 1); /* what a dump is made of */
    if (!own_network())
        unable = "this process cannot have one of its own";
    else if (!router_start(SCENE_HOSTS_MOST))
        unable = router_why();
}

int main(int argc, char **argv)
{
    const bool listed = !getenv("DAMAGE_FIRST") && !getenv("DAMAGE_COUNT");
    const uint64_t first = number("DAMAGE_FIRST", 1),
                   listed_count = (uint64_t)(JOB_SANITIZED ? SEEDS_SANITIZED : seed_count),
                   count = listed ? listed_count : number("DAMAGE_COUNT", 1);
    scene *scenes = calloc(count, sizeof *scenes);
    struct CMUnitTest *tests = calloc(count + 1, sizeof *tests);
    atomic_bool *hit = mmap(NULL, sizeof *hit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed;
    if (!scenes || !tests || hit == MAP_FAILED) abort();
    prepare();
    tests[0] = (struct CMUnitTest)cmocka_unit_test(check_list);
    tests[0].name = "seeds of the list: each damage, operation, phase and layout is drawn by one";
    for (uint64_t i = 0; i < count; i++)
        tests[i + 1] = test_of(&scenes[i], listed ? seeds[i] : first + i, hit);
    failed = job_main(__FILE__, tests, count + 1, argc, argv);
    if (!unable) printf("damage: %d of %d seeds met what they were to damage\n", hits, played);
    router_stop();
    free(scenes);
    free(tests);
    return failed;
}
