/* collective.c - lays out the buffers of one collective as weft.h describes them, runs and judges it. */
#include "collective.h"

#include "device.h"
#include "lengths.h"

#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

enum { GUARD_BYTES = 64, GUARD = 0xa5 };

static const char *const names[COLLECTIVE_KINDS] = {
    "broadcast", "reduce",           "all_reduce",   "reduce_scatter", "all_gather",
    "gather",    "scatter",          "all_to_all",   "all_gather_v",   "gather_v",
    "scatter_v", "reduce_scatter_v", "all_to_all_v", "barrier",
};

bool collective_has_root(collective_kind kind)
{
    return kind == BROADCAST || kind == REDUCE || kind == GATHER || kind == SCATTER || kind == GATHER_V ||
           kind == SCATTER_V;
}

bool collective_reduces(collective_kind kind)
{
    return kind == REDUCE || kind == ALL_REDUCE || kind == REDUCE_SCATTER || kind == REDUCE_SCATTER_V;
}

bool collective_is_uneven(collective_kind kind)
{
    return kind >= ALL_GATHER_V && kind <= ALL_TO_ALL_V;
}

/* The device column of the table above weft_op; or what the toy has.  What a device makes of 8-bit floats depends on its age. */
static bool device_supports(weft_dtype dtype, weft_op op)
{
    if (job_by_host()) {
        return oracle_supports(dtype, op);
    }
    if (job_memory() == WEFT_MEMORY_OTHER) {
        return op <= WEFT_MAX && (dtype <= WEFT_UINT64 || dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT64);
    }
    switch (dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_INT64:
    case WEFT_UINT64:
        return op == WEFT_AVG || op == WEFT_SUM || op == WEFT_PROD || op == WEFT_MIN || op == WEFT_MAX;
    case WEFT_INT16:
    case WEFT_UINT16:
    case WEFT_FLOAT8_E4M3:
    case WEFT_FLOAT8_E5M2: return false;
    case WEFT_BOOL: return op == WEFT_MIN || op == WEFT_MAX || op == WEFT_BAND || op == WEFT_BOR;
    default: return oracle_supports(dtype, op);
    }
}

bool collective_supports(weft_dtype dtype, weft_op op)
{
    return job_on_device() ? device_supports(dtype, op) : oracle_supports(dtype, op);
}

const char *collective_name(collective_kind kind)
{
    return names[kind];
}

/* ---- buffers ----------------------------------------------------------------------------------------- */

/* Whether in and out have a block of each rank, where they are used. */
static bool many_in(collective_kind kind)
{
    return kind == REDUCE_SCATTER || kind == REDUCE_SCATTER_V || kind == SCATTER || kind == SCATTER_V ||
           kind == ALL_TO_ALL || kind == ALL_TO_ALL_V;
}

static bool many_out(collective_kind kind)
{
    return kind == ALL_GATHER || kind == ALL_GATHER_V || kind == GATHER || kind == GATHER_V ||
           kind == ALL_TO_ALL || kind == ALL_TO_ALL_V;
}

/* Elements that go from one rank to another: on every rank the same function. */
static size_t length_of(const running *r, int from, int to)
{
    const collective *w = &r->what;
    if (!collective_is_uneven(w->kind)) {
        return w->count;
    }
    return length_between(w->seed, w->count, many_out(w->kind) ? from : 0, many_in(w->kind) ? to : 0);
}

/* The first element of rank `from`'s block for `to`: elements are counted through all blocks. */
static size_t first_of(const running *r, int from, int to)
{
    size_t first = 0;
    for (int k = 0; k < to && many_in(r->what.kind); k++) first += length_of(r, from, k);
    return first;
}

static void add_blocks(const running *r, layout *l, bool output)
{
    int rank = weft_group_rank(r->group), size = weft_group_size(r->group);
    bool many = (output ? many_out : many_in)(r->what.kind);
    l->n = many ? size : 1;
    for (int k = 0; k < l->n; k++) {
        l->counts[k] = output ? length_of(r, k, rank) : length_of(r, rank, k);
        l->total += l->counts[k];
    }
    /* reduce_scatter_v has no displacements. */
    l->packed = !many || !collective_is_uneven(r->what.kind) || r->what.kind == REDUCE_SCATTER_V ||
                (r->what.seed + output) % 3 == 0;
    if (!l->packed) {
        l->extent = spread_blocks(r->what.seed + (uint64_t)output, l->n, l->counts, l->displs);
        return;
    }
    for (int k = 0; k < l->n; k++) {
        l->displs[k] = l->extent;
        l->extent += l->counts[k];
    }
}

static void set_blocks(running *r)
{
    collective_kind kind = r->what.kind;
    bool root = weft_group_rank(r->group) == r->what.root;
    bool only_root_reads = kind == SCATTER || kind == SCATTER_V;
    bool only_root_writes = kind == REDUCE || kind == GATHER || kind == GATHER_V;
    CHECK(weft_group_size(r->group) <= JOB_RANKS_MAX);
    /* A broadcast's one buffer stands at out. */
    if (kind != BARRIER && kind != BROADCAST && (root || !only_root_reads)) {
        add_blocks(r, &r->in_blocks, false);
    }
    if (kind != BARRIER && (root || !only_root_writes)) {
        add_blocks(r, &r->out_blocks, true);
    }
}

/* Where the other buffer lies when both are one: the blocks of weft.h's "In place". */
static void place(running *r, size_t element)
{
    int rank = weft_group_rank(r->group);
    bool in = many_in(r->what.kind), out = many_out(r->what.kind);
    if (in && !out) {
        r->out = r->in + r->in_blocks.displs[rank] * element;
    } else if (out && !in) {
        r->in = r->out + r->out_blocks.displs[rank] * element;
    } else {
        r->in = r->out;
    }
}

static _Thread_local collective_pool *pool;

void collective_draw_from(collective_pool *from)
{
    pool = from;
}

static bool on_device(const running *r)
{
    return job_on_device() && !r->what.host;
}

static void take_memory(running *r)
{
    unsigned char *piece = NULL;
    bool outside =
        r->what.host || !pool || job_random(&pool->random) % 4 == 0 || r->memory_bytes > POOL_PIECE_BYTES;
    for (unsigned i = 0; !outside && !piece && i < POOL_PIECES; i++) {
        if (!(pool->used >> i & 1)) {
            pool->used |= 1U << i;
            piece = pool->base + (size_t)i * POOL_PIECE_BYTES;
        }
    }
    r->pool = piece ? pool : NULL;
    if (on_device(r)) {
        r->memory = piece ? piece : device_take(DEVICE_MEMORY, r->memory_bytes);
        r->image = device_take(DEVICE_PINNED, r->memory_bytes);
    } else {
        r->memory = r->image = piece ? piece : aligned_alloc(64, r->memory_bytes);
    }
}

static void give_memory(running *r)
{
    if (on_device(r)) {
        device_sync(r->stream); /* the operation may never have waited for it */
        device_give(r->image);
    }
    if (r->pool) {
        r->pool->used &= ~(1U << (size_t)(r->memory - r->pool->base) / POOL_PIECE_BYTES);
    } else if (on_device(r)) {
        device_give(r->memory);
    } else {
        free(r->memory);
    }
    r->memory = NULL;
}

/* Where the host sees what Weft knows as `at`. */
static unsigned char *image_of(const running *r, const unsigned char *at)
{
    return at ? r->image + (at - r->memory) : NULL;
}

static void lay_out(running *r)
{
    size_t element = weft_dtype_size(r->what.dtype);
    size_t in_bytes = (r->in_blocks.extent * element + 63) & ~(size_t)63;
    size_t out_bytes = (r->out_blocks.extent * element + 63) & ~(size_t)63;
    r->memory_bytes = 3 * GUARD_BYTES + in_bytes + out_bytes;
    take_memory(r);
    CHECK(r->memory);
    memset(r->image, GUARD, r->memory_bytes);
    r->in = r->in_blocks.total ? r->memory + GUARD_BYTES : NULL;
    r->out = r->out_blocks.total ? r->memory + 2 * GUARD_BYTES + in_bytes : NULL;
    if (r->what.in_place && r->in && r->out) {
        place(r, element);
    }
}

static void fill(running *r)
{
    int rank = weft_group_rank(r->group);
    size_t element = weft_dtype_size(r->what.dtype), first = 0;
    if (r->what.kind == BROADCAST) {
        if (rank == r->what.root) {
            oracle_fill(&r->oracle, rank, 0, r->out_blocks.total, image_of(r, r->out));
        }
        return;
    }
    for (int k = 0; k < r->in_blocks.n; k++) {
        size_t n = r->in_blocks.counts[k];
        if (n) {
            oracle_fill(&r->oracle, rank, first, n, image_of(r, r->in) + r->in_blocks.displs[k] * element);
        }
        first += n;
    }
}

/* In a while, and without waiting for it: the operation is to be ordered after it. */
static void send_image(running *r, weft_call *call)
{
    if (!on_device(r)) {
        return;
    }
    call->memory = job_memory();
    r->stream = call->stream = call->stream ? call->stream : device_stream(0);
    if (r->what.seed % 4 == 0) {
        device_delay(r->stream, 300);
    }
    device_copy(r->memory, r->image, r->memory_bytes, r->stream);
}

/* What is in the memory now that the request has settled; no earlier where a stream has waited for it. */
static void fetch_image(running *r)
{
    if (on_device(r)) {
        device_copy(r->image, r->memory, r->memory_bytes, device_stream(1));
        device_sync(device_stream(1));
    }
}

void collective_drop(running *r)
{
    bool held = r->req && job_info(r->req).buffers_held;
    weft_release(r->req);
    if (!held) {
        give_memory(r);
    }
    r->req = NULL;
    r->memory = NULL;
}

/* ---- running ----------------------------------------------------------------------------------------- */

/* What is to be had from a layout; nothing where this rank has no such blocks. */
static const size_t *counts_of(const layout *l)
{
    return l->n ? l->counts : NULL;
}

static const size_t *displs_of(const layout *l)
{
    return l->n && !l->packed ? l->displs : NULL;
}

static weft_status submit_uneven(running *r, const weft_call *call, weft_request **req)
{
    const collective *w = &r->what;
    layout in = r->in_blocks, out = r->out_blocks;
    const size_t *in_counts = counts_of(&in), *out_counts = counts_of(&out);
    const size_t *in_displs = displs_of(&in), *out_displs = displs_of(&out);
    weft_group *g = r->group;
    weft_status status;
    switch (w->kind) {
    case ALL_GATHER_V:
        status = weft_all_gather_v(g, r->in, in.total, r->out, out_counts, out_displs, w->dtype, call, req);
        break;
    case GATHER_V:
        status =
            weft_gather_v(g, r->in, in.total, r->out, out_counts, out_displs, w->dtype, w->root, call, req);
        break;
    case SCATTER_V:
        status =
            weft_scatter_v(g, r->in, in_counts, in_displs, r->out, out.total, w->dtype, w->root, call, req);
        break;
    case REDUCE_SCATTER_V:
        status = weft_reduce_scatter_v(g, r->in, r->out, in_counts, w->dtype, w->op, call, req);
        break;
    default:
        status = weft_all_to_all_v(g, r->in, in_counts, in_displs, r->out, out_counts, out_displs, w->dtype,
                                   call, req);
    }
    /* They are copied by the call. */
    memset(&in, GUARD, sizeof in);
    memset(&out, GUARD, sizeof out);
    return status;
}

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
    default: return submit_uneven(r, call, req);
    }
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
                         .ranks = weft_group_size(group),
                         .divides_first = on_device(r) && !job_by_host()};
    r->what.in_place = what->in_place && what->kind != ALL_TO_ALL_V;
    if (what->kind == ALL_TO_ALL && on_device(r)) {
        r->what.in_place = false;
    }
    set_blocks(r);
    lay_out(r);
    fill(r);
    send_image(r, &scaled);
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

/* Block k of the output: its first wrong element, or its length. */
static size_t block_differs(const running *r, int k)
{
    const collective *w = &r->what;
    int rank = weft_group_rank(r->group);
    int from = w->kind == BROADCAST || w->kind == SCATTER || w->kind == SCATTER_V ? w->root : k;
    size_t n = r->out_blocks.counts[k], first = first_of(r, from, rank);
    const unsigned char *block = image_of(r, r->out);
    if (n == 0) {
        return 0;
    }
    block += r->out_blocks.displs[k] * weft_dtype_size(w->dtype);
    return collective_reduces(w->kind) ? oracle_reduction_differs(&r->oracle, first, n, block)
                                       : oracle_differs(&r->oracle, from, first, n, block);
}

static bool input_differs(const running *r)
{
    size_t element = weft_dtype_size(r->what.dtype), first = 0;
    for (int k = 0; k < r->in_blocks.n; k++) {
        size_t n = r->in_blocks.counts[k];
        if (n && oracle_differs(&r->oracle, weft_group_rank(r->group), first, n,
                                image_of(r, r->in) + r->in_blocks.displs[k] * element) < n) {
            return true;
        }
        first += n;
    }
    return false;
}

static void erase(const layout *l, unsigned char *buffer, size_t element)
{
    for (int k = 0; buffer && k < l->n; k++)
        memset(buffer + l->displs[k] * element, GUARD, l->counts[k] * element);
}

/* Without its blocks all of the memory is as it was: gaps, and what lies before and
 * behind.  The last look. */
static bool guarded(const running *r)
{
    size_t element = weft_dtype_size(r->what.dtype);
    erase(&r->in_blocks, image_of(r, r->in), element);
    erase(&r->out_blocks, image_of(r, r->out), element);
    return r->image[0] == GUARD && memcmp(r->image, r->image + 1, r->memory_bytes - 1) == 0;
}

static void judge(const running *r)
{
    const collective *w = &r->what;
    int rank = weft_group_rank(r->group), size = weft_group_size(r->group);
    for (int k = 0; k < r->out_blocks.n; k++) {
        size_t at = block_differs(r, k);
        if (at < r->out_blocks.counts[k]) {
            job_fail(__FILE__, __LINE__,
                     "%s: wrong element %zu of block %d (count %zu, dtype %d, op %d, root %d, %s, rank %d of "
                     "%d, seed %llu)",
                     names[w->kind], at, k, w->count, (int)w->dtype, (int)w->op, w->root,
                     w->in_place ? "in place" : "out of place", rank, size, (unsigned long long)w->seed);
        }
    }
    if (!w->in_place && input_differs(r)) {
        job_fail(__FILE__, __LINE__, "%s of %zu has changed its input", names[w->kind], w->count);
    }
    if (!guarded(r)) {
        job_fail(__FILE__, __LINE__, "%s of %zu has written beside its buffers", names[w->kind], w->count);
    }
}

void collective_finish(running *r)
{
    CHECK(r->memory); /* started, and not finished yet */
    if (on_device(r) && device_has_streams() && r->req &&
        ((r->what.seed ^ r->what.seed >> 6) & 1)) { /* the stream waits, before anybody else does */
        CHECK_OK(weft_stream_wait(r->req, device_stream(1)));
        fetch_image(r);
        WAIT_STATUS(WEFT_OK, r->req);
    } else {
        WAIT_STATUS(WEFT_OK, r->req);
        fetch_image(r);
    }
    if (!device_is_lost()) judge(r);
    collective_drop(r);
}

void collective_run(weft_group *group, const collective *what)
{
    running r;
    collective_start(&r, group, what);
    collective_finish(&r);
}
