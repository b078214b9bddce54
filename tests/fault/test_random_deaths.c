/* test_random_deaths.c - ranks that die at any moment: who is left is told of the dead and of nobody else, in
 * time, and all of them go on in the same group.
 *
 * Each case is a seed, which gives the number of ranks, who dies and when, how hosts are laid out and what
 * runs meanwhile.  A thread of the victim sleeps for some microseconds and then kills the process wherever
 * its other threads are.  DEATHS_FIRST and DEATHS_COUNT in the environment choose the seeds; a run may thus
 * be resumed. */
#include "job.h"

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DEFAULT_SEEDS = 12,
    RANKS_LEAST = 2,
    RANKS_MOST = 6,
    STEPS_MAX = 100000,
    FLIGHT = 6,             /* operations of one step */
    BYTES_MOST = 256 << 10, /* of one rank's block */
    DELAY_US_MOST = 40000,
    SHRINKS_MAX = 4,
    TOO_FEW_MS = 2000,         /* deadline of a shrink that nobody can agree to */
    KILLED_AT = 0,             /* results */
    MEMBERS_AT = 1,            /* and on: the members after each shrink, as bits */
    LATE_MS = 5 * JOB_LATE_MS, /* runs of thousands go beside other work */
    DONE = 0                   /* mark */
};

typedef enum layout { SHARED, TCP, MIXED, LAYOUTS } layout;
static const char *const layout_names[LAYOUTS] = {"shared memory", "tcp", "two hosts"};

typedef struct scene {
    uint64_t seed;
    int ranks;
    unsigned victims;
    layout layout;
    bool any; /* WEFT_QUORUM: no majority is asked for */
    char name[128], run_dir[64];
    job_plan plan;
} scene;

static int pick(uint64_t *state, int n)
{
    return (int)(job_random(state) % (uint64_t)n);
}

static int count_bits(unsigned mask)
{
    return __builtin_popcount(mask);
}

/* ---- the victim's end
 * -------------------------------------------------------------------------------------------- */

typedef struct bomb {
    job_rank *me;
    int delay_us;
} bomb;

static void *tick(void *arg)
{
    const bomb *b = arg;
    usleep((useconds_t)b->delay_us);
    job_results(b->me, b->me->rank)[KILLED_AT] = job_now_ns();
    kill(getpid(), SIGKILL);
    return NULL;
}

static void arm(job_rank *me, int delay_us)
{
    bomb *b = job_alloc(me, sizeof *b);
    pthread_t thread;
    *b = (bomb){me, delay_us};
    CHECK(pthread_create(&thread, NULL, tick, b) == 0);
    pthread_detach(thread);
}

/* ---- what runs meanwhile
 * ------------------------------------------------------------------------------------------ */

typedef struct traffic {
    weft_group *world;
    weft_request *reqs[FLIGHT];
    weft_group *made[FLIGHT];
    bool message[FLIGHT];
    char *in, *out;
} traffic;

/* The state is that of all ranks alike: they submit the same. */
static void submit_one(job_rank *me, traffic *t, int at, uint64_t *state)
{
    size_t bytes = (size_t)1 << pick(state, 19);
    int kind = pick(state, 8), root = pick(state, me->size), shift = 1 + pick(state, me->size);
    int to = (me->rank + shift) % me->size, from = (me->rank + me->size - shift % me->size) % me->size;
    weft_status status = WEFT_OK;
    t->message[at] = kind == 5 || kind == 6;
    if (bytes > BYTES_MOST) bytes = BYTES_MOST;
    switch (kind) {
    case 0: status = weft_barrier(t->world, NULL, &t->reqs[at]); break;
    case 1:
        status = weft_all_reduce(t->world, t->in, t->out, bytes, WEFT_UINT8, WEFT_MAX, NULL, &t->reqs[at]);
        break;
    case 2: status = weft_broadcast(t->world, t->out, bytes, WEFT_UINT8, root, NULL, &t->reqs[at]); break;
    case 3: status = weft_all_gather(t->world, t->in, t->out, bytes, WEFT_UINT8, NULL, &t->reqs[at]); break;
    case 4: status = weft_all_to_all(t->world, t->in, t->out, bytes, WEFT_UINT8, NULL, &t->reqs[at]); break;
    case 5: status = weft_isend(t->world, t->in, bytes, WEFT_UINT8, to, at, NULL, &t->reqs[at]); break;
    case 7: status = weft_split_group(t->world, me->rank % 2, 0, NULL, &t->made[at], &t->reqs[at]); break;
    default:
        status = weft_irecv(t->world, t->out, BYTES_MOST, WEFT_UINT8, from, WEFT_ANY_TAG, NULL, &t->reqs[at]);
        break;
    }
    if (status != WEFT_OK) CHECK(status == WEFT_ERR_PEER || status == WEFT_ERR_BROKEN);
}

/* Who is accused must be one who dies. */
static void judge_request(job_rank *me, const scene *s, const traffic *t, int at)
{
    weft_request *req = t->reqs[at];
    weft_request_info info = job_info(req);
    if (info.status == WEFT_OK || (t->message[at] && info.status == WEFT_ERR_CANCELLED)) return;
    if (info.status != WEFT_ERR_PEER && info.status != WEFT_ERR_BROKEN)
        job_fail(__FILE__, __LINE__, "%s: %s", weft_status_name(info.status), weft_request_message(req));
    if (info.status != WEFT_ERR_PEER) return;
    if (info.peer < 0 || !(s->victims >> info.peer & 1U))
        job_fail(__FILE__, __LINE__, "rank %d is accused: %s", info.peer, weft_request_message(req));
    for (int rank = 0; rank < me->size && !t->message[at]; rank++)
        if (!(s->victims >> rank & 1U) && job_names(weft_request_message(req), rank) &&
            !strstr(weft_request_message(req), "root"))
            job_fail(__FILE__, __LINE__, "rank %d is named: %s", rank, weft_request_message(req));
}

/* True: all went well. */
static bool take_a_step(job_rank *me, const scene *s, traffic *t, uint64_t *state)
{
    int n = 1 + pick(state, FLIGHT);
    bool well = true;
    memset(t->reqs, 0, sizeof t->reqs);
    memset(t->made, 0, sizeof t->made);
    for (int i = 0; i < n; i++) submit_one(me, t, i, state);
    for (int i = 0; i < n; i++) {
        if (!t->reqs[i]) {
            well = false;
        } else if (t->message[i]) { /* its other end may have stopped before it got so far */
            weft_cancel(t->reqs[i]);
        }
    }
    for (int i = 0; i < n; i++) {
        if (!t->reqs[i]) continue;
        weft_status status = weft_wait(t->reqs[i], JOB_WAIT_MS);
        if (status == WEFT_PENDING)
            job_fail(__FILE__, __LINE__, "hangs: %s", weft_request_message(t->reqs[i]));
        if (status != WEFT_OK && !t->message[i]) well = false;
        judge_request(me, s, t, i);
        weft_release(t->reqs[i]);
        if (t->made[i]) CHECK_OK(weft_group_free(t->made[i]));
    }
    return well && weft_group_status(t->world) == WEFT_OK;
}

/* ---- afterwards
 * ------------------------------------------------------------------------------------------ */

static unsigned members(weft_group *group)
{
    unsigned mask = 0;
    for (int i = 0; i < weft_group_size(group); i++) mask |= 1U << weft_group_to_world(group, i);
    return mask;
}

static void judge_dead(const scene *s, weft_group *group)
{
    int dead[RANKS_MOST];
    int n = weft_group_dead(group, dead, RANKS_MOST);
    for (int i = 0; i < n; i++)
        if (!(s->victims >> weft_group_to_world(group, dead[i]) & 1U))
            job_fail(__FILE__, __LINE__, "rank %d is called dead", weft_group_to_world(group, dead[i]));
}

/* Is one of two hosts lost whole, and with it rank 0 and half of all ranks?  Nobody who lives has seen the end of its last
 * rank, so rank 0 might be the one that goes on. */
static bool too_few_are_left(const scene *s)
{
    unsigned even = 0x55555555U & ((1U << s->ranks) - 1);
    return s->layout == MIXED && !s->any && (s->victims & even) == even &&
           2 * (s->ranks - count_bits(s->victims)) == s->ranks;
}

/* The next group, or NULL where too few are left. */
static weft_group *shrink_once(weft_group *group, bool too_few)
{
    weft_call call = {.timeout_ms = too_few ? TOO_FEW_MS : JOB_WAIT_MS};
    const int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    weft_group *next = NULL;
    weft_request *req = NULL;
    CHECK_OK(weft_shrink_group(group, &call, &next, &req));
    weft_status status = weft_wait(req, JOB_WAIT_MS);
    while (too_few && status == WEFT_ERR_TIMEOUT &&
           job_now_ns() < until) { /* a victim may be late with its end */
        weft_release(req);
        CHECK_OK(weft_group_free(next));
        CHECK_OK(weft_shrink_group(group, &call, &next, &req));
        status = weft_wait(req, JOB_WAIT_MS);
    }
    if (!too_few || status == WEFT_OK) {
        CHECK_OK(status);
        weft_release(req);
        return next;
    }
    CHECK(status == WEFT_ERR_PEER);
    if (!strstr(weft_request_message(req), "WEFT_QUORUM=majority"))
        job_fail(__FILE__, __LINE__, "does not say why: %s", weft_request_message(req));
    weft_release(req);
    CHECK_OK(weft_group_free(next));
    return NULL;
}

/* A victim that has not died yet takes part; the next one is without it.  NULL: those who are left may not go on. */
static weft_group *shrink_to_the_living(job_rank *me, const scene *s, int *shrinks)
{
    weft_group *group = me->world;
    unsigned living = ((1U << me->size) - 1) & ~s->victims;
    bool too_few = too_few_are_left(s);
    for (*shrinks = 0; *shrinks < SHRINKS_MAX && (!*shrinks || members(group) != living); ++*shrinks) {
        while (*shrinks && weft_group_status(group) == WEFT_OK) job_sleep_ms(1); /* until it dies */
        group = shrink_once(group, too_few);
        if (!group) return NULL;
        CHECK((members(group) & living) == living);
        job_results(me, me->rank)[MEMBERS_AT + *shrinks] = members(group);
    }
    CHECK_INT(members(group), living);
    CHECK(!too_few);
    return group;
}

static void compare_groups(job_rank *me, const scene *s, int shrinks)
{
    job_mark(me, DONE);
    job_await(me, DONE, me->size - count_bits(s->victims));
    for (int rank = 0; rank < me->size; rank++) {
        if (s->victims >> rank & 1U) continue;
        for (int i = 0; i < shrinks; i++)
            if (job_results(me, rank)[MEMBERS_AT + i] != job_results(me, me->rank)[MEMBERS_AT + i])
                job_fail(__FILE__, __LINE__, "shrink %d: rank %d has the members %llx, this one %llx", i,
                         rank, (unsigned long long)job_results(me, rank)[MEMBERS_AT + i],
                         (unsigned long long)job_results(me, me->rank)[MEMBERS_AT + i]);
    }
}

static void live(job_rank *me)
{
    const scene *s = me->arg;
    uint64_t state = s->seed * 7919 + 1, own = s->seed * 104729 + (uint64_t)me->rank;
    traffic t = {0};
    int64_t died = 0, told;
    int shrinks = 0;
    job_setenv(me, "WEFT_TRANSPORT", s->layout == SHARED ? "shm" : s->layout == TCP ? "tcp" : "shm,tcp");
    if (s->layout == MIXED) job_setenv(me, "WEFT_HOSTID", me->rank % 2 ? "odd" : "even");
    job_setenv(me, "WEFT_QUORUM", s->any ? "any" : "majority");
    job_join(me);
    t.world = me->world;
    t.in = job_alloc(me, (size_t)BYTES_MOST * RANKS_MOST);
    t.out = job_alloc(me, (size_t)BYTES_MOST * RANKS_MOST);
    if (s->victims >> me->rank & 1U) arm(me, pick(&own, DELAY_US_MOST));
    for (int step = 0; step < STEPS_MAX && take_a_step(me, s, &t, &state); step++) {
    }
    told = job_now_ns();
    judge_dead(s, me->world);
    weft_group *group = shrink_to_the_living(me, s, &shrinks);
    for (int rank = 0; rank < me->size; rank++)
        if (s->victims >> rank & 1U && (!died || job_results(me, rank)[KILLED_AT] < died))
            died = job_results(me, rank)[KILLED_AT];
    CHECK_PERIOD(died, told, 0, LATE_MS);
    for (int i = 0; group && i < 3; i++) job_sum_works(group);
    judge_dead(s, me->world);
    compare_groups(me, s, shrinks);
    job_leave(me);
}

/* ---- scenes
 * ------------------------------------------------------------------------------------------ */

static void set(scene *s, uint64_t seed)
{
    uint64_t state = seed;
    int dying;
    s->seed = seed;
    s->ranks = RANKS_LEAST + pick(&state, RANKS_MOST - RANKS_LEAST + 1);
    dying = 1 + (s->ranks > 3 && pick(&state, 3) == 0);
    while (count_bits(s->victims) < dying) s->victims |= 1U << pick(&state, s->ranks);
    s->layout = (layout)pick(&state, LAYOUTS);
    s->any = pick(&state, 4) == 0;
    snprintf(s->name, sizeof s->name, "seed %llu: %d ranks, %s, victims %x%s", (unsigned long long)seed,
             s->ranks, layout_names[s->layout], s->victims, s->any ? ", any quorum" : "");
    s->plan = (job_plan){.ranks = s->ranks, .body = live, .arg = s, .bare = true, .killed = s->victims};
}

static const scene *judged; /* whose files remove_left looks at */
static int dumps, telling;  /* telling: of these, those that name a victim */

static bool tells(const char *text, const char *format, int rank)
{
    char what[64];
    snprintf(what, sizeof what, format, rank);
    return strstr(text, what);
}

/* Tells of the end of a victim, and of nobody else's.  Of one on another host it has no record, and only tells that it
 * is dead, or presumed to be; and one of two hosts may have seen no more than what came of a death: then the other one's file has to tell. */
static void judge_dump(const char *path)
{
    static char text[8 << 20];
    FILE *file = fopen(path, "re");
    int named = 0;
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (int rank = 0; rank < judged->ranks; rank++) {
        const bool dead = judged->victims >> rank & 1U;
        const bool told =
            tells(text, "\"ended\":\"rank %d (pid", rank) || tells(text, "\"found\":[\"rank %d (pid", rank) ||
            (judged->layout == MIXED && (tells(text, "{\"rank\":%d,\"state\":\"dead\"", rank) ||
                                         tells(text, "{\"rank\":%d,\"state\":\"presumed dead\"", rank)));
        if (dead && told) named++;
        if (!dead && tells(text, "\"ended\":\"rank %d (pid", rank))
            fail_msg("%s tells of rank %d, which lives on", path, rank);
    }
    if (!named && judged->layout != MIXED) fail_msg("%s names none of the victims: %.600s", path, text);
    dumps++;
    telling += named > 0;
}

/* What a job leaves in files is its folder, and in that the secret that its next run may use and a dump that tells who
 * has died. */
static int remove_left(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    const char *name = path + where->base;
    bool is_dump = S_ISREG(what->st_mode) && !strncmp(name, "dump.", 5) && strstr(name, ".json");
    bool expected = kind == FTW_DP || is_dump || (S_ISREG(what->st_mode) && !strcmp(name, "secret"));
    if (is_dump) judge_dump(path);
    if (remove(path) || !expected) fail_msg("%s is left", path);
    return 0;
}

static void play(void **state)
{
    scene *s = *state;
    snprintf(s->run_dir, sizeof s->run_dir, "/tmp/weft-deaths-XXXXXX");
    assert_non_null(mkdtemp(s->run_dir));
    setenv("WEFT_RUN_DIR", s->run_dir, 1);
    job_run(&s->plan);
    judged = s;
    dumps = telling = 0;
    nftw(s->run_dir, remove_left, 8, FTW_DEPTH | FTW_PHYS);
    if (!dumps) fail_msg("nobody has written down what all did last");
    if (!telling) fail_msg("none of %d files names a victim", dumps);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const char *transport =
        getenv("WEFT_TRANSPORT"); /* as for the tests beside this one: other seeds for each */
    uint64_t first = number("DEATHS_FIRST", transport && !strcmp(transport, "tcp") ? DEFAULT_SEEDS + 1 : 1),
             count = number("DEATHS_COUNT", DEFAULT_SEEDS);
    scene *scenes = calloc(count, sizeof *scenes);
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    int failed;
    unsetenv("WEFT_TRANSPORT");       /* the seed says */
    setenv("WEFT_RECORD", "4096", 1); /* what a dump is made of */
    for (uint64_t i = 0; i < count; i++) {
        set(&scenes[i], first + i);
        tests[i] = (struct CMUnitTest){scenes[i].name, play, NULL, NULL, &scenes[i]};
    }
    failed = job_main(__FILE__, tests, count, argc, argv);
    free(scenes);
    free(tests);
    return failed;
}
