/* bench_run.c - see bench_run.h.  Layouts are functions of (rank, block), so that a rank can tell where its
 * block lies in the buffer of any other. */
#include "bench_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xa5, ELEMENT_BYTES_MAX = 16 };

/* ---- layout -------------------------------------------------------------------------------------------- */

size_t bench_run_room(size_t bytes, int ranks)
{
    /* One element a rank at least, however small the size; uneven blocks of an odd number of ranks may
     * come to half a block more. */
    return bytes + bytes / 2 + 2 * (size_t)ranks * ELEMENT_BYTES_MAX;
}

size_t bench_run_block(const struct bench_run *run, int owner, int b)
{
    enum bench_layout layout = run->point.what->layout;
    size_t half = run->count / 2;
    int turn = layout == BENCH_UNEVEN_PAIRS ? owner + b : b;
    if (layout != BENCH_UNEVEN && layout != BENCH_UNEVEN_PAIRS) return run->count;
    return turn % 2 ? run->count - half : run->count + half;
}

/* Elements of `owner` before its block b. */
static size_t offset(const struct bench_run *run, int owner, int b)
{
    size_t sum = 0;
    for (int i = 0; i < b; i++) sum += bench_run_block(run, owner, i);
    return sum;
}

static int blocks(const struct bench_run *run)
{
    return run->point.what->layout == BENCH_WHOLE ? 1 : run->job->ranks;
}

static void lay_out(struct bench_run *run)
{
    int n = blocks(run), me = run->job->rank;
    size_t elements = run->point.bytes / run->pattern.element;
    if (run->point.what->layout == BENCH_NO_DATA) return;
    run->count = elements / (size_t)n;
    if (run->count == 0) run->count = 1;
    for (int b = 0; b < run->job->ranks; b++) {
        run->counts[b] = bench_run_block(run, me, b);
        run->displs[b] = offset(run, me, b);
    }
    run->total = offset(run, me, n);
    run->bytes = offset(run, 0, n) * run->pattern.element;
}

bool bench_run_make(struct bench_run *run, const struct bench_job *job, const struct bench_point *point,
                    const struct bench_buffers *buffers)
{
    size_t n = (size_t)job->ranks;
    weft_op op = point->what->reduces ? point->op : WEFT_MAX;
    *run = (struct bench_run){.job = job, .point = *point, .buffers = *buffers};
    run->call.scale = oracle_scale(job->rank);
    run->counts = calloc(n, sizeof(*run->counts));
    run->displs = calloc(n, sizeof(*run->displs));
    if (!run->counts || !run->displs || !bench_pattern_make(&run->pattern, point->dtype, op, job->ranks)) {
        bench_run_free(run);
        return false;
    }
    lay_out(run);
    return true;
}

void bench_run_free(struct bench_run *run)
{
    free(run->counts);
    free(run->displs);
    bench_pattern_free(&run->pattern);
    run->counts = run->displs = NULL;
}

int bench_run_peer(const struct bench_run *run)
{
    int peer = run->job->rank ^ 1;
    if (run->job->ranks == 1) return 0;
    return peer < run->job->ranks ? peer : -1;
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

static bool is_root(const struct bench_run *run)
{
    return run->job->rank == run->root;
}

static void *element_at(const struct bench_run *run, void *buf, size_t i)
{
    return (unsigned char *)buf + i * run->pattern.element;
}

/* weft.h's places for a call in place; with a root, only there. */
void bench_run_place(struct bench_run *run)
{
    const struct bench_case *what = run->point.what;
    size_t mine = run->displs[run->job->rank];
    run->from = run->buffers.in;
    run->to = run->buffers.out;
    if (!run->point.in_place || (what->has_root && !is_root(run))) return;
    if (what->in == BENCH_MINE)
        run->from = element_at(run, run->to, mine);
    else
        run->to = element_at(run, run->from, what->out == BENCH_MINE ? mine : 0);
}

static size_t share(const struct bench_run *run, enum bench_share what)
{
    switch (what) {
    case BENCH_MINE: return run->counts[run->job->rank];
    case BENCH_ALL: return run->total;
    default: return 0;
    }
}

/* Where this process can touch what lies, or is to lie, at `p`. */
static void *near(const struct bench_run *run, const void *p)
{
    const struct bench_buffers *b = &run->buffers;
    size_t from_in = (uintptr_t)p - (uintptr_t)b->in, from_out = (uintptr_t)p - (uintptr_t)b->out;
    if (!b->copy) return (void *)p;
    return from_in < b->bytes ? (unsigned char *)b->near_in + from_in
                              : (unsigned char *)b->near_out + from_out;
}

static void carry(const struct bench_run *run, void *to, const void *from, size_t elements)
{
    if (run->buffers.copy && elements) run->buffers.copy(to, from, elements * run->pattern.element);
}

void bench_run_fill(struct bench_run *run, int seed)
{
    size_t in = share(run, run->point.what->in), out = share(run, run->point.what->out);
    bench_run_place(run);
    memset(near(run, run->to), POISON, out * run->pattern.element);
    bench_pattern_fill(&run->pattern, seed, run->job->rank, 0, in, near(run, run->from));
    carry(run, run->to, near(run, run->to), out);
    carry(run, run->from, near(run, run->from), in);
}

static size_t wrong_at(struct bench_run *run, int seed, int rank, size_t first, size_t n, size_t at)
{
    const void *there = element_at(run, run->to, at);
    void *here = near(run, there);
    carry(run, here, there, n);
    return bench_pattern_wrong(&run->pattern, seed, rank, first, n, here);
}

/* Blocks of all ranks in this one's output; `first`: from where in each rank's input. */
static size_t wrong_blocks(struct bench_run *run, int seed, bool from_start)
{
    int me = run->job->rank;
    size_t wrong = 0;
    for (int b = 0; b < run->job->ranks; b++)
        wrong += wrong_at(run, seed, b, from_start ? 0 : offset(run, b, me), run->counts[b], run->displs[b]);
    return wrong;
}

size_t bench_run_wrong(struct bench_run *run, int seed)
{
    const struct bench_case *what = run->point.what;
    int me = run->job->rank, peer = bench_run_peer(run);
    if (what->at_root && !is_root(run)) return 0;
    switch (what->expect) {
    case BENCH_EXPECT_NONE: return 0;
    case BENCH_EXPECT_ROOT: return is_root(run) ? 0 : wrong_at(run, seed, run->root, 0, run->total, 0);
    case BENCH_EXPECT_PEER: return peer < 0 ? 0 : wrong_at(run, seed, peer, 0, run->total, 0);
    case BENCH_EXPECT_BELOW: return peer < 0 || peer > me ? 0 : wrong_at(run, seed, peer, 0, run->total, 0);
    case BENCH_EXPECT_REDUCED: return wrong_at(run, seed, BENCH_REDUCED, 0, run->total, 0);
    case BENCH_EXPECT_MY_PART: return wrong_at(run, seed, BENCH_REDUCED, run->displs[me], run->counts[me], 0);
    case BENCH_EXPECT_GATHERED: return wrong_blocks(run, seed, true);
    case BENCH_EXPECT_SCATTERED: return wrong_at(run, seed, run->root, run->displs[me], run->counts[me], 0);
    case BENCH_EXPECT_EXCHANGED: return wrong_blocks(run, seed, false);
    }
    return 0;
}

/* ---- running ------------------------------------------------------------------------------------------- */

weft_request **bench_run_slot(struct bench_run *run)
{
    weft_request **slot = &run->requests[run->pending];
    if (run->point.blocking && !run->noting) return NULL;
    *slot = NULL; /* which stays if the call is refused */
    run->pending++;
    return slot;
}

static void note_algorithm(struct bench_run *run)
{
    weft_request_info info;
    if (!run->requests[0]) return;
    weft_request_get_info(run->requests[0], &info);
    snprintf(run->algorithm, sizeof(run->algorithm), "%s", info.algorithm ? info.algorithm : "");
}

weft_status bench_run_settle(struct bench_run *run)
{
    weft_status status;
    if (!run->pending) return WEFT_OK;
    status = weft_wait_all(run->requests, run->pending, WEFT_FOREVER);
    if (run->noting) note_algorithm(run);
    for (size_t i = 0; i < run->pending; i++) weft_release(run->requests[i]);
    run->pending = 0;
    return status;
}

weft_status bench_run_start(struct bench_run *run)
{
    bench_run_place(run);
    return run->point.what->start(run);
}

weft_status bench_run_once(struct bench_run *run)
{
    const struct bench_case *what = run->point.what;
    weft_status status, settled;
    bench_run_place(run);
    status = what->whole ? what->whole(run) : what->start(run);
    settled = bench_run_settle(run);
    return status ? status : settled;
}

void bench_run_next(struct bench_run *run)
{
    run->root = run->root + 1 < run->job->ranks ? run->root + 1 : 0;
}
