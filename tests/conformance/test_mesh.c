/* test_mesh.c - grids with named axes: their shapes, their groups, what is refused, and that a group costs
 * nothing until it is used. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_mesh *make_mesh(weft_group *parent, const char *axes, const char *label)
{
    weft_mesh *mesh = NULL;
    weft_call call = {.label = label, .timeout_ms = JOB_WAIT_MS};
    CHECK_OK(weft_mesh_create(parent, axes, &call, &mesh, NULL));
    CHECK(mesh);
    return mesh;
}

static weft_group *group_of(weft_mesh *mesh, const char *axes)
{
    weft_group *group = weft_mesh_group(mesh, axes);
    if (!group) job_fail(__FILE__, __LINE__, "no group \"%s\": %s", axes, weft_last_error());
    return group;
}

static void has_members(weft_group *group, const int *world, int n)
{
    CHECK_INT(weft_group_size(group), n);
    for (int i = 0; i < n; i++) CHECK_INT(weft_group_to_world(group, i), world[i]);
}

/* ---- shapes and groups --------------------------------------------------------------------------------- */

static void by_hand(job_rank *me)
{
    int r = me->rank, dp = r / 2 % 2, tp = r % 2, pp = r / 4;
    weft_mesh *mesh = make_mesh(me->world, "pp = 2, dp=-1 ,tp= 2", NULL);
    CHECK_INT(weft_mesh_size(mesh, "pp"), 2);
    CHECK_INT(weft_mesh_size(mesh, "dp"), 2);
    CHECK_INT(weft_mesh_size(mesh, "tp"), 2);
    CHECK_INT(weft_mesh_coord(mesh, "pp"), pp);
    CHECK_INT(weft_mesh_coord(mesh, "dp"), dp);
    CHECK_INT(weft_mesh_coord(mesh, "tp"), tp);
    CHECK_OK(weft_group_status(group_of(mesh, "tp")));
    has_members(group_of(mesh, "tp"), (int[]){r - tp, r - tp + 1}, 2);
    has_members(group_of(mesh, "dp"), (int[]){r - 2 * dp, r - 2 * dp + 2}, 2);
    has_members(group_of(mesh, "pp"), (int[]){r % 4, r % 4 + 4}, 2);
    has_members(group_of(mesh, "pp,tp"), (int[]){2 * dp, 2 * dp + 1, 2 * dp + 4, 2 * dp + 5}, 4);
    has_members(group_of(mesh, "pp,dp,tp"), (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    CHECK(group_of(mesh, "dp") == group_of(mesh, "dp"));
    CHECK(group_of(mesh, "dp,tp") != group_of(mesh, "dp"));
    CHECK_INT(strcmp(weft_group_label(group_of(mesh, "dp,tp")), "dp,tp"), 0);
    job_sum_works(group_of(mesh, "tp"));
    job_sum_works(group_of(mesh, "dp"));
    job_sum_works(group_of(mesh, "pp"));
    job_sum_works(group_of(mesh, "dp,tp"));
    job_sum_works(group_of(mesh, "pp,dp,tp"));
    job_message_works(group_of(mesh, "pp"), 0, 1, 3);
    CHECK_OK(weft_mesh_free(mesh));
    job_sum_works(me->world);
}

/* What a plain loop finds: the ranks of the parent that differ from `rank` in no axis
 * but those of the mask. */
static int plain_line(const int *sizes, int axes, unsigned mask, int ranks, int rank, int *line)
{
    int n = 0;
    for (int other = 0; other < ranks; other++) {
        int a = rank, b = other;
        bool same = true;
        for (int i = axes; i-- > 0;) {
            if (!(mask >> i & 1)) same = same && a % sizes[i] == b % sizes[i];
            a /= sizes[i];
            b /= sizes[i];
        }
        if (same) line[n++] = other;
    }
    return n;
}

/* The sizes of a random grid of that many ranks; the names are a0, a1, ... */
static int random_sizes(uint64_t *seed, int ranks, int sizes[8])
{
    int axes = 1 + (int)(job_random(seed) % 8), left = ranks;
    for (int i = 0; i < axes; i++) sizes[i] = 1;
    for (int prime = 2; left > 1; prime++)
        for (; left % prime == 0; left /= prime) sizes[job_random(seed) % (unsigned)axes] *= prime;
    return axes;
}

/* The names of a mask, with blanks of this rank's own. */
static void spaced_names(uint64_t *seed, unsigned mask, char text[128])
{
    text[0] = 0;
    for (int i = 0; i < 8; i++)
        if (mask >> i & 1)
            snprintf(text + strlen(text), 16, "%s%*sa%d%*s", *text ? "," : "", (int)(job_random(seed) % 3),
                     "", i, (int)(job_random(seed) % 3), "");
}

static void check_random_mesh(job_rank *me, uint64_t *seed, uint64_t *own_seed, weft_group *parent)
{
    int sizes[8], line[JOB_RANKS_MAX], world[JOB_RANKS_MAX], inferred;
    int ranks = weft_group_size(parent), rank = weft_group_rank(parent);
    int axes = random_sizes(seed, ranks, sizes), a = rank;
    char text[128] = "", names[128];
    inferred = (int)(job_random(seed) % (unsigned)(axes + 1)); /* axes: none is */
    for (int i = 0; i < axes; i++)
        snprintf(text + strlen(text), 16, "%sa%d=%d", i ? "," : "", i, i == inferred ? -1 : sizes[i]);
    weft_mesh *mesh = make_mesh(parent, text, NULL);
    for (int i = axes; i-- > 0; a /= sizes[i]) {
        snprintf(names, sizeof names, "a%d", i);
        CHECK_INT(weft_mesh_size(mesh, names), sizes[i]);
        CHECK_INT(weft_mesh_coord(mesh, names), a % sizes[i]);
    }
    unsigned first = 1 + (unsigned)(job_random(seed) % ((1U << axes) - 1));
    for (unsigned k = 0; k < 12 && k < (1U << axes) - 1; k++) {
        unsigned mask = 1 + (first + k * 37) % ((1U << axes) - 1);
        spaced_names(own_seed, mask, names);
        int n = plain_line(sizes, axes, mask, ranks, rank, line);
        for (int i = 0; i < n; i++) world[i] = weft_group_to_world(parent, line[i]);
        has_members(group_of(mesh, names), world, n);
        job_sum_works(group_of(mesh, names));
    }
    CHECK_OK(weft_mesh_free(mesh));
    (void)me;
}

static void random_shapes(job_rank *me)
{
    uint64_t seed = 20, own_seed = (uint64_t)me->rank;
    for (int i = 0; i < 12; i++) check_random_mesh(me, &seed, &own_seed, me->world);
}

/* The parent's order counts, not the world's. */
static void of_a_group(job_rank *me)
{
    static const int backwards[] = {5, 3, 2, 1};
    uint64_t seed = 7, own_seed = (uint64_t)me->rank;
    weft_group *parent = NULL;
    if (me->rank == 0 || me->rank == 4) {
        return;
    }
    CHECK_OK(weft_new_group(me->world, backwards, 4, NULL, &parent, NULL));
    for (int i = 0; i < 5; i++) check_random_mesh(me, &seed, &own_seed, parent);
    /* And a mesh of a mesh's group. */
    weft_mesh *outer = make_mesh(parent, "x=2,y=2", "outer"), *inner;
    inner = make_mesh(group_of(outer, "y"), "z=-1", NULL);
    CHECK_INT(weft_mesh_size(inner, "z"), 2);
    CHECK_INT(strcmp(weft_group_label(group_of(outer, "y")), "outer.y"), 0);
    job_sum_works(group_of(inner, "z"));
    CHECK_OK(weft_mesh_free(outer));
    job_sum_works(group_of(inner, "z"));
}

static void of_one(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me->world, "dp=-1,tp=1", "one");
    int32_t in = 7, out = 0;
    CHECK_INT(weft_mesh_size(mesh, "dp"), 1);
    CHECK_INT(weft_mesh_coord(mesh, "tp"), 0);
    CHECK_OK(weft_all_reduce(group_of(mesh, "dp,tp"), &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    CHECK_INT(out, 7);
    CHECK_INT(strcmp(weft_group_label(group_of(mesh, "dp, tp")), "one.dp,tp"), 0);
}

static void eight_axes(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me->world, "a=1,b=2,c=1,d=2,e_=1,f9=1,_g=1,H=-1", NULL);
    CHECK_INT(weft_mesh_size(mesh, "H"), 1);
    CHECK_INT(weft_mesh_size(mesh, "b"), 2);
    CHECK_INT(weft_mesh_coord(mesh, "b"), me->rank / 2);
    CHECK_INT(weft_mesh_coord(mesh, "d"), me->rank % 2);
    job_sum_works(group_of(mesh, "a,b,c,d,e_,f9,_g,H"));
    job_sum_works(group_of(mesh, "b,_g"));
    CHECK_INT(weft_group_size(group_of(mesh, "a,c,e_")), 1);
    job_sum_works(group_of(mesh, "a,c,e_"));
}

/* ---- what is refused
 * ------------------------------------------------------------------------------------- */

static void refused(weft_group *parent, const char *axes, const char *part)
{
    weft_mesh *mesh = (weft_mesh *)parent;
    weft_request *req = (weft_request *)parent;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(parent, axes, NULL, &mesh, &req));
    CHECK_TEXT(weft_last_error(), part);
    CHECK(mesh == (weft_mesh *)parent && req == (weft_request *)parent);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(parent, axes, NULL, &mesh, NULL));
    CHECK(mesh == (weft_mesh *)parent);
}

static void wrong_texts(job_rank *me)
{
    static const char *const wrong[][2] = {
        {"", "NAME=SIZE"},
        {"tp", "NAME=SIZE"},
        {"tp=", "size of tp"},
        {"=2", "NAME=SIZE"},
        {"tp=0", "\"0\""},
        {"tp=-2", "\"-2\""},
        {"tp=-1x", "\"-1x\""},
        {"tp=4x", "\"4x\""},
        {"tp=2,", "NAME=SIZE"},
        {",tp=4", "NAME=SIZE"},
        {"tp=2,tp=2", "twice"},
        {"2p=4", "NAME=SIZE"},
        {"t-p=4", "NAME=SIZE"},
        {"t p=4", "NAME=SIZE"},
        {"tp=2 2", "\"2 2\""},
        {"tp=- 1", "\"- 1\""},
        {" ", "NAME=SIZE"},
        {"tp= ", "size of tp"},
        {"tp=4, ", "NAME=SIZE"},
        {"tp=+4", "\"+4\""},
        {"tp=-1,dp=-1", "both"},
        {"tp=3", "3 ranks"},
        {"tp=2,dp=4", "8 ranks"},
        {"tp=3,dp=-1", "divide"},
        {"tp=8,dp=-1", "divide"},
        {"tp=1", "expected 4"},
        {"tp=4,,dp=1", ",dp=1"},
        {"tp==4", "\"=4\""},
        {"tp=99999999999999999999999", "size of tp"},
        {"a=65536,b=65536,c=65536,d=65536,e=65536", "more than"},
        {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=4", "at most 8"},
        {"a_name_of_more_than_thirty_one_bytes=4", "at most 31"},
    };
    weft_mesh *mesh = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) refused(me->world, wrong[i][0], wrong[i][1]);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(NULL, "tp=4", NULL, &mesh, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(me->world, NULL, NULL, &mesh, NULL));
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(me->world, "tp=4", NULL, NULL, NULL));
    CHECK(!mesh);
    job_sum_works(me->world); /* no number was taken */
}

static void no_group(weft_mesh *mesh, const char *axes, const char *part)
{
    CHECK(!weft_mesh_group(mesh, axes));
    CHECK_TEXT(weft_last_error(), part);
}

static void wrong_axes(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=2", NULL);
    no_group(mesh, "pp", "\"pp\"");
    no_group(mesh, "pp", "dp,tp"); /* what there is */
    no_group(mesh, "dp,pp", "\"pp\"");
    no_group(mesh, "", "no axis");
    no_group(mesh, "dp,", "no axis");
    no_group(mesh, "dp,dp", "twice");
    no_group(mesh, "tp,dp", "in another order than this mesh: expected \"dp,tp\"");
    no_group(mesh, "d", "no axis");
    no_group(mesh, "dp2", "no axis");
    no_group(mesh, NULL, "NULL");
    no_group(NULL, "dp", "NULL");
    CHECK_INT(weft_mesh_coord(mesh, "pp"), -1);
    CHECK_TEXT(weft_last_error(), "\"pp\"");
    CHECK_INT(weft_mesh_size(mesh, "dp,tp"), -1);
    CHECK_TEXT(weft_last_error(), "more than one");
    CHECK_INT(weft_mesh_size(mesh, NULL), -1);
    CHECK_INT(weft_mesh_coord(NULL, "dp"), -1);
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_group_free(group_of(mesh, "dp")));
    CHECK_TEXT(weft_last_error(), "belongs to its mesh");
    CHECK_OK(weft_mesh_free(NULL));
    CHECK_OK(weft_mesh_free(mesh));
}

/* All are told both shapes, and nothing is made. */
static void mismatch(job_rank *me)
{
    weft_mesh *mesh = NULL;
    weft_request *req = NULL;
    const char *axes = me->rank == 2 ? "dp=4,tp=1" : "dp=-1,tp=2";
    CHECK_OK(weft_mesh_create(me->world, axes, NULL, &mesh, &req));
    CHECK(mesh && req);
    WAIT_STATUS(WEFT_ERR_MISMATCH, req);
    CHECK_TEXT(weft_request_message(req), "rank 0 passed \"dp=2,tp=2\"");
    CHECK_TEXT(weft_request_message(req), "rank 2 passed \"dp=4,tp=1\"");
    no_group(mesh, "dp", "was not made");
    CHECK_INT(weft_mesh_size(mesh, "dp"), -1);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, NULL));
    CHECK_OK(weft_mesh_free(mesh));
    weft_release(req);
}

/* ---- as a request
 * ------------------------------------------------------------------------------------------ */

static void until_settled(job_rank *me)
{
    weft_mesh *mesh = NULL, *gone = NULL;
    weft_request *req = NULL, *other = NULL;
    if (me->rank != 0) job_await(me, 0, 1);
    CHECK_OK(weft_mesh_create(me->world, "dp=2,tp=-1", NULL, &mesh, &req));
    CHECK_OK(weft_mesh_create(me->world, "dp=4", NULL, &gone, &other));
    CHECK(mesh && req && gone);
    if (me->rank == 0) {
        CHECK_INT(weft_test(req), WEFT_PENDING);
        no_group(mesh, "dp", "not settled");
        CHECK_INT(weft_mesh_coord(mesh, "dp"), -1);
        CHECK_INT(weft_mesh_size(mesh, "dp"), -1);
        CHECK_TEXT(weft_last_error(), "not settled");
    }
    CHECK_OK(weft_mesh_free(gone)); /* while it is being made, or not */
    if (me->rank == 0) job_mark(me, 0);
    WAIT_OK(req);
    WAIT_OK(other);
    job_sum_works(group_of(mesh, "dp"));
    job_sum_works(me->world);
}

static void fails_in_time(job_rank *me)
{
    weft_call call = {.timeout_ms = JOB_SHORT_MS};
    weft_mesh *mesh = NULL;
    job_acquaint(me);
    if (me->rank != 1) {
        int64_t from = job_results(me, me->rank)[0] = job_now_ns();
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_mesh_create(me->world, "dp=4", &call, &mesh, NULL));
        CHECK_PERIOD(job_earliest(me, 0), job_now_ns(), JOB_SHORT_MS, INT32_MAX);
        CHECK_PERIOD(from, job_now_ns(), 0, JOB_SHORT_MS + job_late_ms());
        CHECK_NAMES(weft_last_error(), 1U << 1, me->size);
        CHECK(!mesh); /* with req NULL a failure writes nothing */
    }
    job_meet(me);
}

static void timeouts(job_rank *me)
{
    enum { TIMEOUT_MS = 2 * JOB_SHORT_MS }; /* enough to make the mesh in, too */
    weft_call call = {.timeout_ms = TIMEOUT_MS, .label = "NAME"};
    weft_mesh *mesh = NULL;
    job_acquaint(me);
    CHECK_OK(weft_mesh_create(me->world, "dp=2,tp=2", &call, &mesh, NULL));
    CHECK_INT(strcmp(weft_group_label(group_of(mesh, "tp")), "NAME.tp"), 0);
    job_meet(me);
    if (me->rank != 3) { /* in dp with 1, in tp with 2 */
        int64_t from = job_results(me, me->rank)[0] = job_now_ns();
        weft_request *req = NULL;
        CHECK_OK(weft_barrier(group_of(mesh, "dp,tp"), NULL, &req));
        CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group_of(mesh, "dp,tp"), NULL, NULL));
        WAIT_STATUS(WEFT_ERR_TIMEOUT, req);
        CHECK_PERIOD(job_earliest(me, 0), job_now_ns(), TIMEOUT_MS, INT32_MAX);
        CHECK_PERIOD(from, job_now_ns(), 0, TIMEOUT_MS + job_late_ms());
        CHECK_NAMES(weft_request_message(req), 1U << 3, me->size);
        weft_release(req);
    }
    job_meet(me);
    if (me->rank == 3) { /* it comes too late, and is told so */
        CHECK(job_await_break(group_of(mesh, "dp,tp"), job_late_ms()) < 0);
        CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(group_of(mesh, "dp,tp"), NULL, NULL));
    }
    CHECK_OK(weft_group_set_timeout(group_of(mesh, "tp"), JOB_WAIT_MS));
    CHECK_OK(weft_group_set_timeout(group_of(mesh, "dp"), JOB_WAIT_MS));
    job_sum_works(group_of(mesh, "tp"));
    job_sum_works(group_of(mesh, "dp"));
}

/* ---- nothing until used
 * ------------------------------------------------------------------------------------ */

static void held(job_rank *me)
{
    enum { OPS = 20 };
    weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=2", NULL);
    weft_request *reqs[OPS] = {NULL};
    int32_t in[OPS], out[OPS];
    weft_group *all;
    if (me->rank == 3) job_await(me, 0, 3);
    all = group_of(mesh, "dp,tp"); /* only now, at rank 3 */
    for (int i = 0; i < OPS; i++) {
        in[i] = i + me->rank;
        CHECK_OK(weft_all_reduce(all, &in[i], &out[i], 1, WEFT_INT32, WEFT_SUM, NULL, &reqs[i]));
        if (me->rank != 3) CHECK_INT(weft_test(reqs[i]), WEFT_PENDING);
    }
    if (me->rank != 3) { /* messages need no meeting */
        if (me->rank != 2) job_message_works(all, 0, 1, 7);
        job_mark(me, 0);
    }
    CHECK_OK(weft_wait_all(reqs, OPS, JOB_WAIT_MS));
    for (int i = 0; i < OPS; i++) {
        CHECK_INT(out[i], 4 * i + 6);
        weft_release(reqs[i]);
    }
    CHECK_OK(weft_mesh_free(mesh));
}

/* A message to a member that has not asked for the group yet. */
static void early_message(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=2", NULL);
    int32_t value = 40 + me->rank, got = 0;
    if (me->rank % 2 == 0) {
        CHECK_OK(weft_isend(group_of(mesh, "tp"), &value, 1, WEFT_INT32, 1, 5, NULL, NULL));
        job_mark(me, 0);
    } else {
        job_await(me, 0, 2);
        job_sleep_ms(20);
        CHECK_OK(weft_irecv(group_of(mesh, "tp"), &got, 1, WEFT_INT32, 0, 5, NULL, NULL));
        CHECK_INT(got, 39 + me->rank);
    }
    job_sum_works(group_of(mesh, "tp"));
}

/* What is first on a group may be a batch, or memory for it. */
static void first_of_other_kinds(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=2", NULL);
    weft_group *all = group_of(mesh, "dp,tp"), *dp = group_of(mesh, "dp");
    int32_t in = 1, out[2] = {0, 0};
    weft_batch *batch = NULL;
    void *memory = NULL;
    CHECK_OK(weft_batch_begin(all, &batch));
    weft_call call = {.batch = batch};
    for (int i = 0; i < 2; i++)
        CHECK_OK(weft_all_reduce(all, &in, &out[i], 1, WEFT_INT32, WEFT_SUM, &call, NULL));
    CHECK_OK(weft_batch_end(batch, NULL, NULL));
    CHECK_INT(out[0], 4);
    CHECK_INT(out[1], 4);
    CHECK_OK(weft_mem_alloc(dp, 4096, WEFT_MEMORY_HOST, &memory));
    CHECK_OK(weft_mem_free(dp, memory));
    job_sum_works(dp);
    /* A batch takes no mesh. */
    weft_mesh *none = NULL;
    CHECK_OK(weft_batch_begin(me->world, &batch));
    call.batch = batch;
    CHECK_STATUS(WEFT_ERR_ARGUMENT, weft_mesh_create(me->world, "a=4", &call, &none, NULL));
    CHECK(!none);
    weft_batch_discard(batch);
    job_sum_works(me->world);
}

/* A group not used yet as a parent: of new_group, split and a mesh. */
static void unused_as_parent(job_rank *me)
{
    static const int both[] = {1, 0};
    weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=2", NULL);
    weft_group *made = NULL, *split = NULL;
    CHECK_OK(weft_new_group(group_of(mesh, "tp"), both, 2, NULL, &made, NULL));
    CHECK_INT(weft_group_rank(made), 1 - me->rank % 2);
    CHECK_OK(weft_split_group(group_of(mesh, "dp"), 0, -me->rank, NULL, &split, NULL));
    CHECK_INT(weft_group_rank(split), 1 - me->rank / 2);
    weft_mesh *inner = make_mesh(group_of(mesh, "dp,tp"), "x=-1", NULL);
    job_sum_works(made);
    job_sum_works(split);
    job_sum_works(group_of(inner, "x"));
    job_meet(me); /* all have their sum */
    CHECK_OK(weft_group_abort(group_of(inner, "x"), "enough"));
    CHECK(job_await_break(group_of(inner, "x"), job_late_ms()) < 0);
}

static void asks(job_rank *me, int thread, void *arg)
{
    static const char *const names[] = {"tp", "dp", "dp,tp", "dp , tp"};
    weft_group **seen = arg;
    weft_mesh *mesh = (weft_mesh *)seen[16];
    for (int i = 0; i < 4; i++) {
        int k = (i + thread) % 4;
        seen[4 * thread + k] = group_of(mesh, names[k]);
    }
    (void)me;
}

static void many_threads(job_rank *me)
{
    for (int round = 0; round < 20; round++) {
        weft_group *seen[17] = {NULL};
        weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=-1", NULL);
        seen[16] = (weft_group *)mesh;
        job_threads(me, 4, asks, seen);
        for (int t = 1; t < 4; t++)
            for (int k = 0; k < 4; k++) CHECK(seen[4 * t + k] == seen[k]);
        CHECK(seen[2] == seen[3]);
        for (int k = 0; k < 3; k++) job_sum_works(seen[k]);
        CHECK_OK(weft_mesh_free(mesh));
    }
}

/* Local, does not wait: what is pending on its groups finishes. */
static void freed_while_pending(job_rank *me)
{
    weft_mesh *mesh = make_mesh(me->world, "dp=2,tp=2", NULL);
    int32_t in = 1, out = 0, got = 0;
    weft_request *sum = NULL, *receive = NULL;
    weft_group *all = group_of(mesh, "dp,tp");
    if (me->rank == 3) job_await(me, 0, 3);
    CHECK_OK(weft_all_reduce(all, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &sum));
    if (me->rank == 0) CHECK_OK(weft_irecv(all, &got, 1, WEFT_INT32, 3, 1, NULL, &receive));
    if (me->rank == 3) CHECK_OK(weft_isend(all, &in, 1, WEFT_INT32, 0, 1, NULL, NULL));
    CHECK_OK(weft_mesh_free(mesh));
    if (me->rank != 3) job_mark(me, 0);
    WAIT_OK(sum);
    CHECK_INT(out, 4);
    if (receive) WAIT_OK(receive);
    job_sum_works(me->world);
}

/* More groups than a host has rows for: all work, and go. */
static void many_meshes(job_rank *me)
{
    enum { MESHES = 12 };
    weft_mesh *meshes[MESHES];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < MESHES; i++) meshes[i] = make_mesh(me->world, "dp=2,tp=2", NULL);
        for (int i = 0; i < MESHES; i++) {
            job_sum_works(group_of(meshes[i], "dp"));
            job_sum_works(group_of(meshes[i], "tp"));
            job_sum_works(group_of(meshes[i], "dp,tp"));
        }
        for (int i = 0; i < MESHES; i++) CHECK_OK(weft_mesh_free(meshes[i]));
    }
}

#define MESH(sentence, n, function) JOB_TEST(sentence, .ranks = n, .body = function)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        MESH("a mesh of three axes", 8, by_hand),
        MESH("random shapes", 12, random_shapes),
        MESH("a mesh of a group, and of a mesh's group", 6, of_a_group),
        MESH("a mesh of one rank", 1, of_one),
        MESH("eight axes", 4, eight_axes),
        MESH("wrong texts", 4, wrong_texts),
        MESH("wrong axes", 4, wrong_axes),
        MESH("ranks that disagree", 4, mismatch),
        MESH("not to be used before it is settled", 4, until_settled),
        MESH("a rank that does not come", 4, fails_in_time),
        MESH("its groups' time, and one that comes too late", 4, timeouts),
        MESH("operations are held until all have come", 4, held),
        MESH("a message before the group is asked for", 4, early_message),
        MESH("a group not used yet as a parent", 4, unused_as_parent),
        MESH("first used by a batch, or for memory", 4, first_of_other_kinds),
        MESH("many threads ask for groups", 4, many_threads),
        MESH("freed with operations pending", 4, freed_while_pending),
        MESH("more groups than rows", 4, many_meshes),
    };
    return JOB_MAIN(tests, argc, argv);
}
