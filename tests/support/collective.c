/* collective.c - lays out the buffers of one collective as weft.h describes them, runs and judges it. */
#include "collective.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, GUARD = 0xa5 };

static const char *const names[COLLECTIVE_KINDS] = {
    "broadcast", "reduce",  "all_reduce", "reduce_scatter", "all_gather",
    "gather",    "scatter", "all_to_all", "barrier",
};

bool collective_has_root(collective_kind kind)
{
    return kind == BROADCAST || kind == REDUCE || kind == GATHER || kind == SCATTER;
}

bool collective_reduces(collective_kind kind)
{
    return kind == REDUCE || kind == ALL_REDUCE || kind == REDUCE_SCATTER;
}

const char *collective_name(collective_kind kind)
{
    return names[kind];
}

/* ---- buffers ----------------------------------------------------------------------------------------- */

static void set_counts(running *r)
{
    size_t count = r->what.count, whole = count * (size_t)weft_group_size(r->group);
    bool root = weft_group_rank(r->group) == r->what.root;
    r->in_count = r->out_count = count;
    switch (r->what.kind) {
    case BROADCAST: r->in_count = 0; break; /* its one buffer stands at out */
    case REDUCE: r->out_count = root ? count : 0; break;
    case ALL_REDUCE: break;
    case REDUCE_SCATTER: r->in_count = whole; break;
    case ALL_GATHER: r->out_count = whole; break;
    case GATHER: r->out_count = root ? whole : 0; break;
    case SCATTER: r->in_count = root ? whole : 0; break;
    case ALL_TO_ALL: r->in_count = r->out_count = whole; break;
    case BARRIER: r->in_count = r->out_count = 0; break;
    }
}

/* Where the other buffer lies when both are one: the blocks of weft.h's "In place". */
static void place(running *r, size_t element)
{
    size_t block = r->what.count * element;
    size_t rank = (size_t)weft_group_rank(r->group), root = (size_t)r->what.root;
    switch (r->what.kind) {
    case REDUCE_SCATTER: r->out = r->in + rank * block; break;
    case SCATTER: r->out = r->in + root * block; break;
    case ALL_GATHER:
    case GATHER: r->in = r->out + rank * block; break;
    default: r->in = r->out;
    }
}

static void lay_out(running *r)
{
    size_t element = weft_dtype_size(r->what.dtype);
    size_t in_bytes = (r->in_count * element + 63) & ~(size_t)63;
    size_t out_bytes = (r->out_count * element + 63) & ~(size_t)63;
    r->memory_bytes = 3 * GUARD_BYTES + in_bytes + out_bytes;
    r->memory = aligned_alloc(64, r->memory_bytes);
    CHECK(r->memory);
    memset(r->memory, GUARD, r->memory_bytes);
    r->in = r->in_count ? r->memory + GUARD_BYTES : NULL;
    r->out = r->out_count ? r->memory + 2 * GUARD_BYTES + in_bytes : NULL;
    if (r->what.in_place && r->in && r->out) {
        place(r, element);
    }
}

static void fill(running *r)
{
    int rank = weft_group_rank(r->group);
    if (r->what.kind == BROADCAST) {
        if (rank == r->what.root) {
            oracle_fill(&r->oracle, rank, 0, r->out_count, r->out);
        }
    } else {
        oracle_fill(&r->oracle, rank, 0, r->in_count, r->in);
    }
}

void collective_drop(running *r)
{
    bool held = r->req && job_info(r->req).buffers_held;
    weft_release(r->req);
    if (!held) {
        free(r->memory);
    }
    r->req = NULL;
    r->memory = NULL;
}

/* ---- running ----------------------------------------------------------------------------------------- */

static weft_status submit(running *r, const weft_call *call)
{
    const collective *w = &r->what;
    weft_group *g = r->group;
    weft_request **req = call->batch ? NULL : &r->req;
    switch (w->kind) {
    case BROADCAST: return weft_broadcast(g, r->out, w->count, w->dtype, w->root, call, req);
    case REDUCE: return weft_reduce(g, r->in, r->out, w->count, w->dtype, w->op, w->root, call, req);
    case ALL_REDUCE: return weft_all_reduce(g, r->in, r->out, w->count, w->dtype, w->op, call, req);
    case REDUCE_SCATTER: return weft_reduce_scatter(g, r->in, r->out, w->count, w->dtype, w->op, call, req);
    case ALL_GATHER: return weft_all_gather(g, r->in, r->out, w->count, w->dtype, call, req);
    case GATHER: return weft_gather(g, r->in, r->out, w->count, w->dtype, w->root, call, req);
    case SCATTER: return weft_scatter(g, r->in, r->out, w->count, w->dtype, w->root, call, req);
    case ALL_TO_ALL: return weft_all_to_all(g, r->in, r->out, w->count, w->dtype, call, req);
    case BARRIER: return weft_barrier(g, call, req);
    }
    return WEFT_ERR_ARGUMENT;
}

weft_status collective_submit(running *r, weft_group *group, const collective *what, const weft_call *call)
{
    weft_call scaled = call ? *call : (weft_call){.batch = NULL};
    if (scaled.scale == 0) {
        scaled.scale = oracle_scale(weft_group_rank(group));
    }
    *r = (running){.what = *what, .group = group};
    r->oracle = (oracle){.dtype = what->dtype,
                         .op = collective_reduces(what->kind) ? what->op : WEFT_MAX,
                         .seed = what->seed,
                         .ranks = weft_group_size(group)};
    set_counts(r);
    lay_out(r);
    fill(r);
    weft_status status = submit(r, &scaled);
    if (status != WEFT_OK) {
        collective_drop(r);
    }
    return status;
}

void collective_start(running *r, weft_group *group, const collective *what)
{
    CHECK_OK(collective_submit(r, group, what, NULL));
}

/* ---- judging ----------------------------------------------------------------------------------------- */

/* Elements from `first` of what the ranks passed stand here as blocks, one of each rank. */
static size_t blocks_differ(const running *r, size_t first)
{
    size_t count = r->what.count, block = count * weft_dtype_size(r->what.dtype);
    for (size_t rank = 0; rank < (size_t)weft_group_size(r->group); rank++) {
        size_t at = oracle_differs(&r->oracle, (int)rank, first, count, r->out + rank * block);
        if (at < count) {
            return rank * count + at;
        }
    }
    return r->out_count;
}

static size_t output_differs(const running *r)
{
    size_t own = (size_t)weft_group_rank(r->group) * r->what.count;
    switch (r->what.kind) {
    case BROADCAST: return oracle_differs(&r->oracle, r->what.root, 0, r->out_count, r->out);
    case REDUCE:
    case ALL_REDUCE: return oracle_reduction_differs(&r->oracle, 0, r->out_count, r->out);
    case REDUCE_SCATTER: return oracle_reduction_differs(&r->oracle, own, r->out_count, r->out);
    case SCATTER: return oracle_differs(&r->oracle, r->what.root, own, r->out_count, r->out);
    case ALL_GATHER:
    case GATHER: return r->out_count ? blocks_differ(r, 0) : 0;
    case ALL_TO_ALL: return blocks_differ(r, own);
    case BARRIER: break;
    }
    return r->out_count;
}

static bool guarded(const running *r)
{
    size_t used = 0;
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        used += r->memory[i] != GUARD;
        used += r->memory[r->memory_bytes - GUARD_BYTES + i] != GUARD;
    }
    if (!r->what.in_place && r->out) {
        for (size_t i = 1; i <= GUARD_BYTES; i++) used += r->out[-(ptrdiff_t)i] != GUARD;
    }
    return used == 0;
}

static void judge(const running *r)
{
    const collective *w = &r->what;
    size_t at = output_differs(r);
    int rank = weft_group_rank(r->group), size = weft_group_size(r->group);
    if (at < r->out_count) {
        job_fail(__FILE__, __LINE__,
                 "%s: wrong element %zu (count %zu, dtype %d, op %d, root %d, %s, rank %d of %d, seed %llu)",
                 names[w->kind], at, w->count, (int)w->dtype, (int)w->op, w->root,
                 w->in_place ? "in place" : "out of place", rank, size, (unsigned long long)w->seed);
    }
    if (!w->in_place && oracle_differs(&r->oracle, rank, 0, r->in_count, r->in) < r->in_count) {
        job_fail(__FILE__, __LINE__, "%s of %zu has changed its input", names[w->kind], w->count);
    }
    if (!guarded(r)) {
        job_fail(__FILE__, __LINE__, "%s of %zu has written beside its buffers", names[w->kind], w->count);
    }
}

void collective_finish(running *r)
{
    CHECK(r->memory); /* started, and not finished yet */
    WAIT_STATUS(WEFT_OK, r->req);
    judge(r);
    collective_drop(r);
}

void collective_run(weft_group *group, const collective *what)
{
    running r;
    collective_start(&r, group, what);
    collective_finish(&r);
}
