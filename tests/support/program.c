/* program.c - runs a random program and compares all it moves with the oracle. */
#include "program.h"

#include "collective.h"
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

enum { GROUPS = 3, WINDOW = 12, TAGS = 3, BATCH = 6, BYTES_MAX = 200000, OWN_SEED = 1 << 20 };

/* One step in flight on this rank: a collective or one end of a message. */
typedef struct flight {
    bool used, message, sending;
    running running;
    oracle oracle;
    size_t count;
    int from;
    unsigned char *bytes; /* with an image of them, where the host can look */
    unsigned char *image;
    bool host; /* is in host memory, whatever the job's is */
    weft_request *req;
    struct flight *parts; /* BATCH of them, and req is the batch's */
} flight;

typedef struct walker {
    const program *program;
    uint64_t common;            /* random words on which all ranks agree */
    uint64_t own;               /* and those of this rank alone */
    weft_group *groups[GROUPS]; /* NULL where this rank is no member */
    int sizes[GROUPS];
    flight flights[WINDOW];
} walker;

/* Each group is a random subset in random order; all ranks draw it, its members make it. */
static void make_groups(walker *w, job_rank *me, int thread)
{
    CHECK(me->size > 1);
    for (int g = 0; g < GROUPS; g++) {
        int order[JOB_RANKS_MAX] = {0};
        char label[32];
        bool member = false;
        int n = g == 0 ? me->size : 2 + (int)(job_random(&w->common) % (uint64_t)(me->size - 1));
        for (int i = 0; i < me->size; i++) order[i] = i;
        for (int i = me->size - 1; i > 0; i--) {
            int other = (int)(job_random(&w->common) % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (int i = 0; i < n; i++) member = member || order[i] == me->rank;
        w->sizes[g] = n;
        snprintf(label, sizeof label, "thread %d group %d", thread, g);
        if (member) {
            weft_call call = {.label = label, .timeout_ms = JOB_WAIT_MS};
            CHECK_OK(weft_new_group(me->world, order, n, &call, &w->groups[g], NULL));
        }
    }
}

/* ---- steps: every rank draws all of their words, member or not
 * ------------------------------------------- */

/* Mostly small, sometimes none, sometimes beyond every threshold. */
static size_t draw_count(walker *w)
{
    uint64_t word = job_random(&w->common), size = word >> 8;
    switch (word % 8) {
    case 0: return 0;
    case 1: return size % 20000;
    case 2: return size % 3000;
    default: return 1 + size % 100;
    }
}

/* On a device both kinds of memory stand side by side. */
static bool draw_host(walker *w)
{
    return job_random(&w->common) % 4 == 0;
}

static collective draw_collective(walker *w, int size)
{
    collective what = {.kind = (collective_kind)(job_random(&w->common) % COLLECTIVE_KINDS),
                       .dtype = (weft_dtype)(job_random(&w->common) % DTYPES),
                       .count = draw_count(w)};
    what.root = (int)(job_random(&w->common) % (uint64_t)size);
    what.in_place = job_random(&w->common) % 2;
    what.seed = job_random(&w->common);
    what.host = draw_host(w);
    int first = (int)(job_random(&w->common) % OPS);
    for (int tries = 0; tries < OPS; tries++) {
        what.op = (weft_op)((first + tries) % OPS);
        /* What host memory has too: a rank that gives and gets nothing has no pointer to a device. */
        if (collective_supports(what.dtype, what.op) && oracle_supports(what.dtype, what.op)) {
            return what;
        }
    }
    what.dtype = WEFT_UINT8; /* what moves only is more than what a device reduces: test_collectives has it */
    what.op = WEFT_MAX;
    return what;
}

static void post_collective(walker *w, int g, flight *f, const weft_call *call)
{
    collective what = draw_collective(w, w->sizes[g]);
    if (w->groups[g]) {
        *f = (flight){.used = true};
        CHECK_OK(collective_submit(&f->running, w->groups[g], &what, call));
    }
}

static void post_message(walker *w, int g, flight *f, const weft_call *call)
{
    weft_request **req = call ? NULL : &f->req;
    uint64_t size = (uint64_t)w->sizes[g];
    int from = (int)(job_random(&w->common) % size), to = (int)(job_random(&w->common) % size);
    int tag = (int)(job_random(&w->common) % TAGS);
    size_t count = draw_count(w) * 8 % BYTES_MAX;
    oracle what = {.dtype = WEFT_UINT8, .op = WEFT_MAX, .seed = job_random(&w->common), .ranks = 1};
    bool host = draw_host(w) || !job_on_device();
    int rank = w->groups[g] ? weft_group_rank(w->groups[g]) : -1;
    if (from == to || (rank != from && rank != to)) {
        return; /* to itself would take both ends of a window: test_p2p has that */
    }
    *f = (flight){
        .used = true, .message = true, .sending = rank == from, .oracle = what, .count = count, .from = from};
    f->host = host;
    f->image = malloc(count + 1);
    f->bytes = host ? f->image : device_take(DEVICE_MEMORY, count + 1);
    CHECK(f->image);
    weft_call here = call ? *call : (weft_call){.batch = NULL};
    here.memory = host ? WEFT_MEMORY_HOST : job_memory();
    if (f->sending) {
        oracle_fill(&what, from, 0, count, f->image);
        if (!host) {
            job_put(f->bytes, f->image, count);
        }
        CHECK_OK(weft_isend(w->groups[g], f->bytes, count, WEFT_UINT8, to, tag, &here, req));
    } else {
        CHECK_OK(weft_irecv(w->groups[g], f->bytes, count, WEFT_UINT8, from, tag, &here, req));
    }
}

static void post_one(walker *w, int g, flight *f, const weft_call *call)
{
    if (job_random(&w->common) % 3) {
        post_collective(w, g, f, call);
    } else {
        post_message(w, g, f, call);
    }
}

static void post_batch(walker *w, int g, flight *f)
{
    weft_call call = {.batch = NULL};
    flight none[BATCH] = {{0}}, *parts = none;
    if (w->groups[g]) {
        CHECK_OK(weft_batch_begin(w->groups[g], &call.batch));
        parts = calloc(BATCH, sizeof *parts);
        CHECK(parts);
        *f = (flight){.used = true, .parts = parts};
    }
    for (int i = 0; i < BATCH; i++) post_one(w, g, &parts[i], &call);
    if (w->groups[g]) {
        CHECK_OK(weft_batch_end(call.batch, NULL, &f->req));
    }
}

static void finish_one(flight *f)
{
    if (!f->used) {
        return;
    }
    f->used = false;
    if (!f->message) {
        collective_finish(&f->running);
        return;
    }
    WAIT_STATUS(WEFT_OK, f->req);
    CHECK(f->sending || !f->req || job_info(f->req).received_bytes == f->count);
    if (!f->host) {
        job_get(f->image, f->bytes, f->count);
        device_give(f->bytes);
    }
    CHECK_INT(oracle_differs(&f->oracle, f->from, 0, f->count, f->image), f->count);
    weft_release(f->req);
    free(f->image);
}

static void finish(flight *f)
{
    if (!f->parts) {
        finish_one(f);
        return;
    }
    WAIT_OK(f->req);
    for (int i = 0; i < BATCH; i++) finish_one(&f->parts[i]);
    free(f->parts);
    *f = (flight){.used = false};
}

/* Waiting only for steps behind the own one cannot deadlock: the rank that is furthest behind waits for
 * steps that all their members have posted. */
static void walk(walker *w)
{
    for (int step = 0; step < w->program->steps; step++) {
        flight *f = &w->flights[job_random(&w->own) % WINDOW];
        int g = (int)(job_random(&w->common) % GROUPS);
        finish(f);
        if (job_random(&w->common) % 8) {
            post_one(w, g, f, NULL);
        } else {
            post_batch(w, g, f);
        }
    }
    for (int i = 0; i < WINDOW; i++) finish(&w->flights[i]);
}

static void run_thread(job_rank *me, int thread, void *arg)
{
    const program *p = arg;
    walker *w = calloc(1, sizeof *w);
    CHECK(w);
    w->program = p;
    w->common = p->seed * 1000 + (uint64_t)thread;
    w->own = w->common + OWN_SEED * (uint64_t)(me->rank + 1);
    make_groups(w, me, thread);
    collective_pool pool = {.random = w->own};
    if (p->shared) {
        void *base = NULL;
        CHECK_OK(weft_mem_alloc(w->groups[0], POOL_BYTES, job_memory(), &base));
        pool.base = base;
        collective_draw_from(&pool);
    }
    walk(w);
    if (p->shared) {
        collective_draw_from(NULL);
        CHECK_OK(weft_mem_free(w->groups[0], pool.base));
    }
    for (int g = 0; g < GROUPS; g++) {
        if (w->groups[g]) {
            CHECK_OK(weft_group_free(w->groups[g]));
        }
    }
    free(w);
}

void program_run(job_rank *me)
{
    program p = *(const program *)me->arg;
    if (me->rank == 0) {
        fprintf(stderr, "random program: seed %llu, %d threads, %d steps\n", (unsigned long long)p.seed,
                p.threads, p.steps);
    }
    job_threads(me, p.threads, run_thread, &p);
    job_sum_works(me->world);
}
