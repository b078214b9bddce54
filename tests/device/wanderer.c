/* wanderer.c - see wanderer.h. */
#include "wanderer.h"

#include "collective.h"

#include <weft/cuda.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAGS = 3,
    TAGS_APART = 1000,
    BATCH = 4,
    BYTES_MAX = 100000,
    OWN_SEED = 1 << 20,
    TIMED = 4,
    CANCELLED = 3,
    RINGS = 12
};

/* A step under way on this rank: a collective, one end of a message, or a batch of both. */
typedef struct flight {
    bool used, message, sending;
    int group;
    running running;
    oracle oracle;
    size_t count;
    int from;
    unsigned char *bytes, *image; /* the image is where the host can look */
    bool host;                    /* in host memory */
    weft_request *req;
    struct flight *parts; /* BATCH of them, and req is the batch's */
} flight;

/* ---- what may come ---- */

static bool may_end_so(const mishap *m, weft_status status)
{
    switch (status) {
    case WEFT_ERR_PEER: return mishap_kills(m) || m->script[0];      /* NCCL's error may say so */
    case WEFT_ERR_CANCELLED: return m->kind == CANCEL || m->program; /* another rank has given the group up */
    case WEFT_ERR_MISMATCH:
    case WEFT_ERR_TRUNCATED: return m->kind == MISMATCH || m->program; /* one records what another does not */
    case WEFT_ERR_TIMEOUT:
    case WEFT_ERR_BROKEN: return true;
    case WEFT_ERR_ARGUMENT: /* a stream or a pointer that CUDA does not know then */
    case WEFT_ERR_SYSTEM:
    case WEFT_ERR_MEMORY:
    case WEFT_ERR_STATE:
    case WEFT_ERR_UNSUPPORTED: return m->script[0] != 0; /* what CUDA or NCCL answer then */
    default: return false;
    }
}

static bool says_something(const mishap *m, const char *text)
{
    for (int i = 0; i < m->ranks; i++)
        if (job_names(text, i)) return true;
    if (strstr(text, "all ranks have joined")) return true; /* the last one just now */
    if (strstr(text, "is being captured into a graph, and operations before it"))
        return true; /* which something has held up */
    return strcasestr(text, "cuda") || strcasestr(text, "nccl") || strstr(text, "device ");
}

void wanderer_judge(wanderer *w, int group, weft_status status, const char *text)
{
    const mishap *m = w->m;
    const char *wrong = NULL;
    if (mishap_is_calm(m)) wrong = "ends, and nothing is to end";
    if (!wrong && !w->has_victim[group]) wrong = "ends in a group without the one that it befalls";
    if (!wrong && !may_end_so(m, status)) wrong = "ends as it may not";
    if (!wrong && !says_something(m, text)) wrong = "names nothing";
    if (!wrong && status == WEFT_ERR_PEER && !job_names(text, m->victim) && !strstr(text, "NCCL says"))
        wrong = "does not name who has died";
    if (wrong)
        job_fail(__FILE__, __LINE__, "thread %d, step %d, group %d of %d: %s: %s: \"%s\"", w->thread, w->step,
                 group, w->sizes[group], wrong, weft_status_name(status), text);
    w->over[group] = true;
    atomic_store(&m->outcome->ended, true);
    /* A message that fails alone breaks nothing.  In program order this rank would leave out, from here on, what the others go on
     * with, between its operations on other groups, and that is a difference. */
    if (m->program && weft_group_status(w->groups[group]) == WEFT_OK)
        CHECK_OK(weft_group_abort(w->groups[group], text));
}

static int limit_ms(const wanderer *w, int group)
{
    const bool brief = w->has_victim[group] && !mishap_is_calm(w->m);
    return (brief ? MISHAP_SHORT_MS : job_wait_ms()) + job_late_ms();
}

bool wanderer_settle(wanderer *w, int group, weft_request *req, bool *held)
{
    const weft_status status = weft_wait(req, limit_ms(w, group));
    const char *text = weft_request_message(req);
    weft_request_info info;
    *held = false;
    if (status == WEFT_PENDING)
        job_fail(__FILE__, __LINE__, "thread %d, step %d, group %d of %d hangs: \"%s\"", w->thread, w->step,
                 group, w->sizes[group], text);
    if (status != WEFT_OK) {
        info = job_info(req);
        *held = info.buffers_held;
        wanderer_judge(w, group, status, text);
    }
    weft_release(req);
    return status == WEFT_OK;
}

bool wanderer_may_use_devices(const wanderer *w)
{
    return !w->m->program || w->thread == 0;
}

/* ---- a group's ---- */

static bool draw_members(wanderer *w, int g, int order[])
{
    const int n = g == 0 ? w->me->size : 2 + (int)(job_random(&w->common) % (uint64_t)(w->me->size - 1));
    bool member = false;
    for (int i = 0; i < w->me->size; i++) order[i] = i;
    for (int i = w->me->size - 1; i > 0; i--) {
        const int other = (int)(job_random(&w->common) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < n; i++) {
        member = member || order[i] == w->me->rank;
        w->has_victim[g] = w->has_victim[g] || order[i] == w->m->victim;
    }
    w->sizes[g] = n;
    return member;
}

void wanderer_make(wanderer *w, job_rank *me, const mishap *m, int thread)
{
    *w = (wanderer){.me = me, .m = m, .thread = thread, .common = m->seed * 1000 + (uint64_t)thread};
    w->own = w->common + OWN_SEED * (uint64_t)(me->rank + 1);
    w->flights = calloc(WANDERER_WINDOW, sizeof *w->flights);
    CHECK(w->flights);
    for (int g = 0; g < WANDERER_GROUPS; g++) {
        int order[JOB_RANKS_MAX] = {0};
        char label[32];
        const bool member = draw_members(w, g, order);
        snprintf(label, sizeof label, "thread %d group %d", thread, g);
        const weft_call call = {.label = label, .timeout_ms = job_wait_ms()};
        if (!member) continue;
        CHECK_OK(weft_new_group(me->world, order, w->sizes[g], &call, &w->groups[g], NULL));
        if (w->has_victim[g] && !mishap_is_calm(m))
            CHECK_OK(weft_group_set_timeout(w->groups[g], MISHAP_SHORT_MS));
    }
    if (m->program && thread == 0) recorded_ring_take(w);
}

/* ---- steps: every rank draws all of their words, whether it carries them out or not ---- */

static bool acts(const wanderer *w, int g)
{
    return w->groups[g] && !w->over[g] && !device_is_lost();
}

static bool is_victim(const wanderer *w)
{
    return w->me->rank == w->m->victim && w->step >= w->m->step;
}

static size_t draw_count(wanderer *w)
{
    const uint64_t word = job_random(&w->common), size = word >> 8;
    switch (word % 8) {
    case 0: return 0;
    case 1: return size % 10000;
    default: return 1 + size % 200;
    }
}

static collective draw_collective(wanderer *w, int size)
{
    collective what = {.kind = (collective_kind)(job_random(&w->common) % COLLECTIVE_KINDS),
                       .dtype = (weft_dtype)(job_random(&w->common) % DTYPES),
                       .count = draw_count(w)};
    what.root = (int)(job_random(&w->common) % (uint64_t)size);
    what.in_place = job_random(&w->common) % 2;
    what.seed = job_random(&w->common);
    what.host = job_random(&w->common) % 4 == 0 || !wanderer_may_use_devices(w);
    what.op = (weft_op)(job_random(&w->common) % OPS);
    if (!collective_supports(what.dtype, what.op) || !oracle_supports(what.dtype, what.op)) {
        what.dtype = WEFT_INT32;
        what.op = WEFT_SUM;
    }
    return what;
}

static void post_collective(wanderer *w, int g, flight *f, weft_call call)
{
    collective what = draw_collective(w, w->sizes[g]);
    weft_status status;
    if (!acts(w, g)) return;
    if (is_victim(w) && w->m->kind == MISMATCH && w->has_victim[g] && what.kind <= ALL_TO_ALL && what.count)
        what.count++;
    *f = (flight){.used = true, .group = g};
    status = collective_submit(&f->running, w->groups[g], &what, &call);
    f->used = status == WEFT_OK;
    if (!f->used) wanderer_judge(w, g, status, weft_last_error());
}

static weft_status begin_message(wanderer *w, flight *f, int other, int tag, weft_call call)
{
    weft_request **req = call.batch ? NULL : &f->req;
    weft_group *group = w->groups[f->group];
    call.memory = f->host ? WEFT_MEMORY_HOST : job_memory();
    if (!f->sending) return weft_irecv(group, f->bytes, f->count, WEFT_UINT8, other, tag, &call, req);
    oracle_fill(&f->oracle, f->from, 0, f->count, f->image);
    if (!f->host) job_put(f->bytes, f->image, f->count);
    return weft_isend(group, f->bytes, f->count, WEFT_UINT8, other, tag, &call, req);
}

/* Buffers that are to be left alone until the end of the job, and as long. */
static void keep(void *buffer)
{
    static _Atomic(void *) kept[1024];
    static atomic_uint count;
    const unsigned at = atomic_fetch_add(&count, 1);
    CHECK(at < sizeof kept / sizeof *kept);
    atomic_store(&kept[at], buffer);
}

static void give_message(flight *f, bool held)
{
    if (held && f->host) {
        keep(f->image);
        return;
    }
    if (!f->host && !held) device_give(f->bytes);
    free(f->image);
}

/* A message that ends alone breaks nothing, and the receive that was for it gets the next one of its tag: where that may come,
 * no two have the same. */
static int draw_tag(wanderer *w, int g)
{
    const int tag = (int)(job_random(&w->common) % TAGS);
    w->messages++;
    return w->has_victim[g] && !mishap_is_calm(w->m) ? TAGS_APART + w->messages : tag;
}

/* In program order messages between devices run in another order than collectives: here there are none. */
static void post_message(wanderer *w, int g, flight *f, weft_call call)
{
    const uint64_t size = (uint64_t)w->sizes[g];
    const int from = (int)(job_random(&w->common) % size), to = (int)(job_random(&w->common) % size);
    const int tag = draw_tag(w, g);
    const size_t count = draw_count(w) * 8 % BYTES_MAX;
    const oracle what = {.dtype = WEFT_UINT8, .op = WEFT_MAX, .seed = job_random(&w->common), .ranks = 1};
    const bool host = job_random(&w->common) % 4 == 0 || w->m->program;
    const int rank = w->groups[g] ? weft_group_rank(w->groups[g]) : -1;
    weft_status status;
    if (from == to || (rank != from && rank != to) || !acts(w, g)) return;
    *f = (flight){
        .used = true, .message = true, .sending = rank == from, .group = g, .oracle = what, .from = from};
    f->count = count;
    f->host = host;
    f->image = malloc(count + 1);
    f->bytes = host ? f->image : device_take(DEVICE_MEMORY, count + 1);
    CHECK(f->image);
    status = begin_message(w, f, rank == from ? to : from, tag, call);
    if (status == WEFT_OK) return;
    f->used = false;
    give_message(f, false);
    wanderer_judge(w, g, status, weft_last_error());
}

static void post_one(wanderer *w, int g, flight *f, weft_call call)
{
    if (job_random(&w->common) % 3)
        post_collective(w, g, f, call);
    else
        post_message(w, g, f, call);
}

static void drop_part(flight *part, bool held)
{
    if (!part->used) return;
    if (part->message)
        give_message(part, held);
    else if (held)
        keep(part->running.memory);
    else
        collective_drop(&part->running);
    part->used = false;
}

static void post_batch(wanderer *w, int g, flight *f, weft_call call)
{
    weft_call joins = {.batch = NULL};
    flight none[BATCH] = {{0}}, *parts = none;
    weft_status status = WEFT_ERR_STATE;
    if (acts(w, g)) {
        status = weft_batch_begin(w->groups[g], &joins.batch);
        if (status != WEFT_OK) wanderer_judge(w, g, status, weft_last_error());
    }
    if (status == WEFT_OK) {
        parts = calloc(BATCH, sizeof *parts);
        CHECK(parts);
        *f = (flight){.used = true, .group = g, .parts = parts};
    }
    for (int i = 0; i < BATCH; i++) post_one(w, g, &parts[i], joins);
    if (status != WEFT_OK) return;
    status = weft_batch_end(joins.batch, &call, &f->req);
    if (status == WEFT_OK) return;
    for (int i = 0; i < BATCH; i++) drop_part(&parts[i], false);
    free(parts);
    f->used = false;
    wanderer_judge(w, g, status, weft_last_error());
}

/* ---- ends ---- */

static void finish_message(flight *f)
{
    if (!f->host) job_get(f->image, f->bytes, f->count);
    if (!device_is_lost()) CHECK_INT(oracle_differs(&f->oracle, f->from, 0, f->count, f->image), f->count);
    give_message(f, false);
}

/* It has settled well. */
static void finish_part(flight *f)
{
    if (!f->used) return;
    f->used = false;
    if (f->message)
        finish_message(f);
    else if (device_is_lost())
        collective_drop(&f->running);
    else
        collective_finish(&f->running);
}

static bool is_on_device(const flight *f)
{
    return !f->message && !f->parts && !f->running.what.host;
}

/* No longer than until the deadline; what it says is the end of what has ended badly by then. */
static void order_behind(wanderer *w, const flight *f, weft_request *req)
{
    const int64_t before = job_now_ns();
    const weft_status status = weft_stream_wait(req, device_stream(1));
    CHECK_PERIOD(before, job_now_ns(), 0, limit_ms(w, f->group));
    if (status != WEFT_OK) wanderer_judge(w, f->group, status, weft_last_error());
}

static weft_request **request_of(flight *f)
{
    return f->message || f->parts ? &f->req : &f->running.req;
}

static void finish(wanderer *w, flight *f)
{
    flight *parts = f->parts ? f->parts : f;
    const int n = f->parts ? BATCH : 1;
    weft_request *req;
    bool held, well;
    if (!f->used) return;
    req = *request_of(f);
    *request_of(f) = NULL;
    if (is_on_device(f) && job_random(&w->own) % 2) order_behind(w, f, req);
    well = wanderer_settle(w, f->group, req, &held);
    for (int i = 0; i < n; i++)
        if (well)
            finish_part(&parts[i]);
        else
            drop_part(&parts[i], held);
    free(f->parts);
    *f = (flight){.used = false};
}

static void finish_all(wanderer *w)
{
    for (int i = 0; i < WANDERER_WINDOW; i++) finish(w, &w->flights[i]);
}

/* ---- the walk ---- */

static void *die_later(void *arg)
{
    job_sleep_ms(((const mishap *)arg)->after_ms);
    raise(SIGKILL);
    return NULL;
}

static void befall(wanderer *w)
{
    pthread_t thread;
    if (w->me->rank != w->m->victim || w->step != w->m->step) return;
    if (w->m->kind == KILLED) CHECK(!pthread_create(&thread, NULL, die_later, (void *)w->m));
    if (w->m->kind == RANK_LATE) job_sleep_ms(MISHAP_LATE_MS);
    if (w->m->kind == STREAM_HELD) device_delay(device_stream(0), MISHAP_LATE_MS * 1000);
}

static weft_call draw_call(wanderer *w, int g)
{
    weft_call call = {.batch = NULL};
    const bool soon = job_random(&w->own) % TIMED == 0 && w->m->kind == SHORT_TIMES && w->has_victim[g];
    if (soon && is_victim(w)) call.timeout_ms = 1 + (int64_t)(job_random(&w->own) % 40);
    return call;
}

static void walk_on(wanderer *w)
{
    flight *f = &w->flights[job_random(&w->own) % WANDERER_WINDOW];
    const int g = (int)(job_random(&w->common) % WANDERER_GROUPS);
    const weft_call call = draw_call(w, g);
    finish(w, f);
    if (job_random(&w->common) % 8)
        post_one(w, g, f, call);
    else
        post_batch(w, g, f, call);
    if (f->used && is_victim(w) && w->m->kind == CANCEL && w->has_victim[g] &&
        job_random(&w->own) % CANCELLED == 0)
        weft_cancel(*request_of(f));
}

static void work_once(wanderer *w, int g, weft_group *group, collective what)
{
    running r;
    weft_status status = collective_submit(&r, group, &what, NULL);
    flight f = {.used = status == WEFT_OK, .group = g, .running = r};
    if (status != WEFT_OK) wanderer_judge(w, g, status, weft_last_error());
    finish(w, &f);
}

/* A group of the same members, perhaps with the communicator that is split off, for one collective. */
static void walk_beside(wanderer *w)
{
    const int g = (int)(job_random(&w->common) % WANDERER_GROUPS);
    const bool waits = job_random(&w->common) % 2;
    const collective what = draw_collective(w, w->sizes[g]);
    const bool brief = w->has_victim[g] && !mishap_is_calm(w->m);
    const weft_call call = {.label = "beside", .timeout_ms = brief ? MISHAP_SHORT_MS : job_wait_ms()};
    weft_request *req = NULL;
    weft_group *beside = NULL;
    weft_status status;
    bool held;
    if (!acts(w, g)) return;
    status =
        weft_split_group(w->groups[g], 0, weft_group_rank(w->groups[g]), &call, &beside, waits ? NULL : &req);
    if (status != WEFT_OK)
        wanderer_judge(w, g, status, weft_last_error());
    else if (waits || wanderer_settle(w, g, req, &held))
        work_once(w, g, beside, what);
    if (beside) CHECK_OK(weft_group_free(beside));
}

/* Recorded anew, or replayed: behind all that this rank has under way. */
static void walk_in_a_ring(wanderer *w, bool anew)
{
    if (!w->m->program || w->thread != 0) return;
    finish_all(w);
    if (anew)
        recorded_ring_record(w);
    else
        recorded_ring_replay(w);
}

/* Waiting only for steps behind its own cannot deadlock: the rank that is furthest behind waits for steps that all their
 * members have begun, or leave alone for what has befallen them. */
void wanderer_walk(wanderer *w)
{
    for (w->step = 0; w->step < w->m->steps; w->step++) {
        const uint64_t ring = job_random(&w->common) % RINGS;
        befall(w);
        if (ring < 2)
            walk_in_a_ring(w, ring == 0 || w->ring.times == 0);
        else if (ring == 2)
            walk_beside(w);
        else
            walk_on(w);
    }
    finish_all(w);
}

void wanderer_free(wanderer *w)
{
    recorded_ring_drop(w);
    for (int g = 0; g < WANDERER_GROUPS; g++)
        if (w->groups[g]) CHECK_OK(weft_group_free(w->groups[g]));
    free(w->flights);
}
