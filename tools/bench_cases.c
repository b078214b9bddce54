/* bench_cases.c - see bench_cases.h. */
#include "bench_cases.h"

enum { TAG = 1, ANSWER = 2 };

/* ---- messages ------------------------------------------------------------------------------------------ */

static weft_status send_to(struct bench_run *r, int peer)
{
    return weft_isend(r->job->world, r->from, r->total, r->point.dtype, peer, TAG, &r->call,
                      bench_run_slot(r));
}

static weft_status receive_from(struct bench_run *r, int peer)
{
    return weft_irecv(r->job->world, r->to, r->total, r->point.dtype, peer, TAG, &r->call, bench_run_slot(r));
}

static weft_status settled(struct bench_run *r, weft_status submitted)
{
    weft_status status = bench_run_settle(r);
    return submitted ? submitted : status;
}

static weft_status ping_pong(struct bench_run *r)
{
    int peer = bench_run_peer(r);
    weft_status status;
    if (peer < 0) return WEFT_OK;
    if (r->job->rank < peer) {
        status = settled(r, send_to(r, peer));
        return status ? status : settled(r, receive_from(r, peer));
    }
    status = receive_from(r, peer);
    if (!status && r->job->rank != peer) status = bench_run_settle(r);
    return status ? status : settled(r, send_to(r, peer));
}

static weft_status send_recv(struct bench_run *r)
{
    int peer = bench_run_peer(r);
    if (peer < 0) return WEFT_OK;
    return weft_send_recv(r->job->world, r->from, r->to, r->total, r->point.dtype, peer, &r->call,
                          bench_run_slot(r));
}

static weft_status window(struct bench_run *r)
{
    int peer = bench_run_peer(r);
    size_t each = r->total / BENCH_WINDOW, bytes = each * r->pattern.element;
    bool sends = r->job->rank < peer;
    weft_group *world = r->job->world;
    weft_dtype dtype = r->point.dtype;
    weft_status status = WEFT_OK;
    if (peer < 0) return WEFT_OK;
    for (size_t i = 0; i < BENCH_WINDOW && !status; i++) {
        if (sends)
            status = weft_isend(world, (unsigned char *)r->from + i * bytes, each, dtype, peer, TAG, NULL,
                                bench_run_slot(r));
        else
            status = weft_irecv(world, (unsigned char *)r->to + i * bytes, each, dtype, peer, TAG, NULL,
                                bench_run_slot(r));
    }
    status = settled(r, status);
    if (status) return status;
    return sends ? weft_irecv(world, NULL, 0, dtype, peer, ANSWER, NULL, NULL)
                 : weft_isend(world, NULL, 0, dtype, peer, ANSWER, NULL, NULL);
}

/* ---- collectives --------------------------------------------------------------------------------------- */

static weft_status barrier(struct bench_run *r)
{
    return weft_barrier(r->job->world, &r->call, bench_run_slot(r));
}

/* Its one buffer is the root's input and the others' output, so that it can go on and on. */
static weft_status broadcast(struct bench_run *r)
{
    void *buf = r->job->rank == r->root ? r->from : r->to;
    return weft_broadcast(r->job->world, buf, r->total, r->point.dtype, r->root, &r->call, bench_run_slot(r));
}

static weft_status reduce(struct bench_run *r)
{
    return weft_reduce(r->job->world, r->from, r->to, r->total, r->point.dtype, r->point.op, r->root,
                       &r->call, bench_run_slot(r));
}

static weft_status all_reduce(struct bench_run *r)
{
    return weft_all_reduce(r->job->world, r->from, r->to, r->total, r->point.dtype, r->point.op, &r->call,
                           bench_run_slot(r));
}

static weft_status reduce_scatter(struct bench_run *r)
{
    return weft_reduce_scatter(r->job->world, r->from, r->to, r->count, r->point.dtype, r->point.op, &r->call,
                               bench_run_slot(r));
}

static weft_status all_gather(struct bench_run *r)
{
    return weft_all_gather(r->job->world, r->from, r->to, r->count, r->point.dtype, &r->call,
                           bench_run_slot(r));
}

static weft_status gather(struct bench_run *r)
{
    return weft_gather(r->job->world, r->from, r->to, r->count, r->point.dtype, r->root, &r->call,
                       bench_run_slot(r));
}

static weft_status scatter(struct bench_run *r)
{
    return weft_scatter(r->job->world, r->from, r->to, r->count, r->point.dtype, r->root, &r->call,
                        bench_run_slot(r));
}

static weft_status all_to_all(struct bench_run *r)
{
    return weft_all_to_all(r->job->world, r->from, r->to, r->count, r->point.dtype, &r->call,
                           bench_run_slot(r));
}

/* ---- uneven blocks, batches ---------------------------------------------------------------------------- */

static size_t own_count(const struct bench_run *r)
{
    return r->counts[r->job->rank];
}

static weft_status all_gather_v(struct bench_run *r)
{
    return weft_all_gather_v(r->job->world, r->from, own_count(r), r->to, r->counts, r->displs,
                             r->point.dtype, &r->call, bench_run_slot(r));
}

static weft_status gather_v(struct bench_run *r)
{
    return weft_gather_v(r->job->world, r->from, own_count(r), r->to, r->counts, r->displs, r->point.dtype,
                         r->root, &r->call, bench_run_slot(r));
}

static weft_status scatter_v(struct bench_run *r)
{
    return weft_scatter_v(r->job->world, r->from, r->counts, r->displs, r->to, own_count(r), r->point.dtype,
                          r->root, &r->call, bench_run_slot(r));
}

static weft_status reduce_scatter_v(struct bench_run *r)
{
    return weft_reduce_scatter_v(r->job->world, r->from, r->to, r->counts, r->point.dtype, r->point.op,
                                 &r->call, bench_run_slot(r));
}

static weft_status all_to_all_v(struct bench_run *r)
{
    return weft_all_to_all_v(r->job->world, r->from, r->counts, r->displs, r->to, r->counts, r->displs,
                             r->point.dtype, &r->call, bench_run_slot(r));
}

static weft_status batch(struct bench_run *r)
{
    weft_call join = r->call;
    weft_status status = weft_batch_begin(r->job->world, &join.batch);
    size_t done = 0;
    for (size_t part = 1; part <= BENCH_BATCH_PARTS && !status; part++) {
        size_t end = r->total * part / BENCH_BATCH_PARTS, bytes = done * r->pattern.element;
        /* A refusal comes back from batch_end as well. */
        (void)weft_all_reduce(r->job->world, (unsigned char *)r->from + bytes, (unsigned char *)r->to + bytes,
                              end - done, r->point.dtype, r->point.op, &join, NULL);
        done = end;
    }
    return status ? status : weft_batch_end(join.batch, NULL, bench_run_slot(r));
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const struct bench_case bench_cases[] = {
    {.name = "barrier", .layout = BENCH_NO_DATA, .start = barrier, .text = "no data"},
    {.name = "broadcast",
     .layout = BENCH_WHOLE,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_ROOT,
     .has_root = true,
     .start = broadcast,
     .text = "the root goes round"},
    {.name = "reduce",
     .layout = BENCH_WHOLE,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_REDUCED,
     .reduces = true,
     .has_root = true,
     .at_root = true,
     .in_place = true,
     .start = reduce,
     .text = "the root goes round"},
    {.name = "all_reduce",
     .layout = BENCH_WHOLE,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_REDUCED,
     .factor = BENCH_FACTOR_TWICE,
     .reduces = true,
     .in_place = true,
     .start = all_reduce,
     .text = "every rank gets the whole"},
    {.name = "reduce_scatter",
     .layout = BENCH_EVEN,
     .in = BENCH_ALL,
     .out = BENCH_MINE,
     .expect = BENCH_EXPECT_MY_PART,
     .factor = BENCH_FACTOR_REST,
     .reduces = true,
     .in_place = true,
     .start = reduce_scatter,
     .text = "every rank gets its block"},
    {.name = "all_gather",
     .layout = BENCH_EVEN,
     .in = BENCH_MINE,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_GATHERED,
     .factor = BENCH_FACTOR_REST,
     .in_place = true,
     .start = all_gather,
     .text = "every rank gets all blocks"},
    {.name = "gather",
     .layout = BENCH_EVEN,
     .in = BENCH_MINE,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_GATHERED,
     .factor = BENCH_FACTOR_REST,
     .has_root = true,
     .at_root = true,
     .in_place = true,
     .start = gather,
     .text = "the root goes round"},
    {.name = "scatter",
     .layout = BENCH_EVEN,
     .in = BENCH_ALL,
     .out = BENCH_MINE,
     .expect = BENCH_EXPECT_SCATTERED,
     .factor = BENCH_FACTOR_REST,
     .has_root = true,
     .in_place = true,
     .start = scatter,
     .text = "the root goes round"},
    {.name = "all_to_all",
     .layout = BENCH_EVEN,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_EXCHANGED,
     .factor = BENCH_FACTOR_REST,
     .in_place = true,
     .in_place_on_host = true,
     .start = all_to_all,
     .text = "a block from every rank to every rank"},
    {.name = "send_recv",
     .layout = BENCH_WHOLE,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_PEER,
     .in_place = true,
     .in_place_on_host = true,
     .ranks_least = 2,
     .start = send_recv,
     .text = "ranks 2k and 2k + 1 exchange"},
    {.name = "p2p",
     .calls = "isend, irecv",
     .layout = BENCH_WHOLE,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_PEER,
     .ranks_least = 2,
     .parts = 2,
     .whole = ping_pong,
     .text = "isend and irecv between ranks 2k and 2k + 1, to and fro; half of it counts"},
    {.name = "all_gather_v",
     .layout = BENCH_UNEVEN,
     .in = BENCH_MINE,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_GATHERED,
     .factor = BENCH_FACTOR_REST,
     .in_place = true,
     .start = all_gather_v,
     .text = "blocks of three parts and one, by turns"},
    {.name = "gather_v",
     .layout = BENCH_UNEVEN,
     .in = BENCH_MINE,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_GATHERED,
     .factor = BENCH_FACTOR_REST,
     .has_root = true,
     .at_root = true,
     .in_place = true,
     .start = gather_v,
     .text = "the same blocks"},
    {.name = "scatter_v",
     .layout = BENCH_UNEVEN,
     .in = BENCH_ALL,
     .out = BENCH_MINE,
     .expect = BENCH_EXPECT_SCATTERED,
     .factor = BENCH_FACTOR_REST,
     .has_root = true,
     .in_place = true,
     .start = scatter_v,
     .text = "the same blocks"},
    {.name = "reduce_scatter_v",
     .layout = BENCH_UNEVEN,
     .in = BENCH_ALL,
     .out = BENCH_MINE,
     .expect = BENCH_EXPECT_MY_PART,
     .factor = BENCH_FACTOR_REST,
     .reduces = true,
     .in_place = true,
     .start = reduce_scatter_v,
     .text = "the same blocks"},
    {.name = "all_to_all_v",
     .layout = BENCH_UNEVEN_PAIRS,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_EXCHANGED,
     .factor = BENCH_FACTOR_REST,
     .start = all_to_all_v,
     .text = "the same blocks, by turns also from rank to rank"},
    {.name = "batch",
     .calls = "a batch of all_reduce",
     .layout = BENCH_WHOLE,
     .in = BENCH_ALL,
     .out = BENCH_ALL,
     .expect = BENCH_EXPECT_REDUCED,
     .factor = BENCH_FACTOR_TWICE,
     .reduces = true,
     .in_place = true,
     .start = batch,
     .text = "16 all_reduces of a sixteenth each, as one batch"},
};

const int bench_cases_n = sizeof(bench_cases) / sizeof(bench_cases[0]);

const struct bench_case bench_rate_case = {
    .name = "p2p",
    .layout = BENCH_WHOLE,
    .in = BENCH_ALL,
    .out = BENCH_ALL,
    .expect = BENCH_EXPECT_BELOW,
    .ranks_least = 2,
    .parts = BENCH_WINDOW,
    .whole = window,
};

double bench_case_factor(const struct bench_case *what, int ranks)
{
    double rest = (double)(ranks - 1) / ranks;
    if (what->layout == BENCH_NO_DATA) return 0;
    switch (what->factor) {
    case BENCH_FACTOR_REST: return rest;
    case BENCH_FACTOR_TWICE: return 2 * rest;
    default: return 1;
    }
}
