/* host_schedule.c - runs a schedule (ops/schedule.h) of one collective over the point-to-point layer.
 *
 * Steps whose predecessors are done stand in a queue; messages are issued from it at once, copies and
 * reductions of more than a chunk are worked off chunk by chunk in later passes.  A group keeps the schedules
 * it has run, and their records, for the next operation of the same shape; of the room that these need beside the
 * program's buffers no more than IDLE_TMP_BYTES, or what the last KEPT_RUNS large ones needed: programs have two that take
 * turns, as the all_gather and the reduce_scatter of a training step.
 *
 * A run of a schedule in blocks has the steps of two, and is not kept: where one block is done the next comes in its place,
 * with the same numbers.
 *
 * Failing: the first error of a step breaks the group; stopping takes back every message, after which nothing
 * touches a buffer. */
#include "executor.h"
#include "group.h"
#include "group_break.h"
#include "host.h"
#include "peer.h"
#include "reduce.h"
#include "schedule.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES     ((size_t)256 * 1024)
#define HUGE_PAGE_BYTES ((size_t)2 * 1024 * 1024)
#define IDLE_TMP_BYTES  ((size_t)64 * 1024 * 1024)
#define LARGE_TMP_BYTES ((size_t)1024 * 1024)
#define KEPT_RUNS       2 /* of those with that much */

typedef struct weft__run weft__run;

typedef struct flight { /* one step under way */
    weft__completion completion;
    weft__run *run;
    int step;
    weft__send *send;
    weft__recv *recv;
    weft__recv_result recv_result;
    weft__token token;
} flight;

struct weft__run {
    weft__list work; /* ctx->at_work[WEFT__EXECUTOR_SCHEDULE] while local work is left */
    weft__run *next; /* kept for reuse */
    weft_request *req;
    struct weft__plan *plan; /* NULL: the schedule is this run's own */
    weft__schedule *schedule;
    char *tmp;          /* NULL too where an idle run gave it up */
    int *waits, *queue; /* predecessors left; steps that are ready */
    int head, tail, remaining;
    size_t done; /* elements, or of a copy of several rows rows, of the step at the head that are done */
    bool stepping, stopped;
    weft_status failed;
    int failed_step;
    size_t failed_bytes; /* MISMATCH: length of the message that came */
    flight flights[];
};

typedef struct weft__plan {
    weft_group *group;
    weft__signature signature;
    bool in_place, repeats;
    int running;   /* runs of it that are not idle */
    uint64_t used; /* number of the operation that had it last */
    weft__schedule *schedule;
    weft__run *idle;
} weft__plan;

/* Idle runs alone do: it is made again when the run is taken. */
static void give_up_tmp(weft__run *run)
{
    if (!run->tmp) return;
    run->plan->group->idle_tmp -= run->schedule->tmp_bytes;
    free(run->tmp);
    run->tmp = NULL;
}

static void run_free(weft__run *run)
{
    if (!run->plan) weft__schedule_free(run->schedule);
    free(run->tmp);
    free(run->waits);
    free(run);
}

static void plan_empty(weft__plan *plan)
{
    while (plan->idle) {
        weft__run *run = plan->idle;
        plan->idle = run->next;
        give_up_tmp(run);
        run_free(run);
    }
    weft__schedule_free(plan->schedule);
}

void weft__plans_free(weft_group *group)
{
    for (int i = 0; i < group->plan_count; i++) plan_empty(&group->plans[i]);
    free(group->plans);
    group->plans = NULL;
    group->plan_count = 0;
}

/* For large ones the kernel is asked for large pages: a fault for each small one, in the middle of what comes
 * in, can cost more than the data. */
static char *tmp_new(size_t bytes)
{
    size_t unit = bytes < 2 * HUGE_PAGE_BYTES ? 64 : HUGE_PAGE_BYTES;
    size_t room = (bytes + unit - 1) / unit * unit;
    char *tmp = aligned_alloc(unit, room);
    if (tmp && unit == HUGE_PAGE_BYTES) madvise(tmp, room, MADV_HUGEPAGE);
    return tmp;
}

static weft__run *run_new(weft__schedule *schedule, weft__plan *plan)
{
    weft__run *run = calloc(1, sizeof *run + (size_t)schedule->n * sizeof(flight));
    if (!run) return NULL;
    run->plan = plan;
    run->schedule = schedule;
    run->waits = malloc((size_t)(2 * schedule->n + 1) * sizeof *run->waits);
    run->tmp = schedule->tmp_bytes ? tmp_new(schedule->tmp_bytes) : NULL;
    if (!run->waits || (schedule->tmp_bytes && !run->tmp)) {
        run->schedule = NULL; /* stays the caller's */
        run_free(run);
        return NULL;
    }
    run->queue = run->waits + schedule->n;
    return run;
}

/* A kept plan of that shape, or NULL.  Factors and uneven blocks are in the steps and not in the signature,
 * so such plans are not kept; nor are schedules in blocks, which a run uses up. */
static weft__plan *find_plan(weft_group *group, const weft_request *req, weft__signature signature)
{
    bool in_place = req->host_op->in == req->host_op->out;
    for (int i = 0; i < group->plan_count; i++)
        if (weft__same_signature(group->plans[i].signature, signature) &&
            group->plans[i].in_place == in_place && group->plans[i].repeats == req->host_op->repeats)
            return &group->plans[i];
    return NULL;
}

/* Where a new one may be kept: a free place, or that of the one that nobody has used for longest.  NULL: all
 * are in use. */
static weft__plan *place_for_plan(weft_group *group)
{
    weft__plan *oldest = NULL;
    if (!group->plans) group->plans = calloc(WEFT__PLANS, sizeof *group->plans);
    if (!group->plans) return NULL;
    if (group->plan_count < WEFT__PLANS) return &group->plans[group->plan_count++];
    for (int i = 0; i < group->plan_count; i++) {
        weft__plan *plan = &group->plans[i];
        if (!plan->running && (!oldest || plan->used < oldest->used)) oldest = plan;
    }
    if (oldest) plan_empty(oldest);
    return oldest;
}

static weft__plan *keep_plan(weft_group *group, const weft_request *req, weft__signature signature,
                             weft__schedule *s)
{
    if (req->host_op->reduction == WEFT_PREMUL_SUM || req->host_op->uneven || s->block) return NULL;
    if (req->continuation && req->op.memory == WEFT_MEMORY_HOST) return NULL; /* done once */
    weft__plan *plan = place_for_plan(group);
    if (plan)
        *plan = (weft__plan){.group = group,
                             .signature = signature,
                             .in_place = req->host_op->in == req->host_op->out,
                             .repeats = req->host_op->repeats,
                             .schedule = s};
    return plan;
}

/* NULL: no memory. */
static weft__run *take_idle(weft__plan *plan)
{
    weft__run *run = plan->idle;
    size_t bytes = plan->schedule->tmp_bytes;
    if (!run) return run_new(plan->schedule, plan);
    if (run->tmp) {
        plan->group->idle_tmp -= bytes;
    } else if (bytes) {
        run->tmp = tmp_new(bytes);
        if (!run->tmp) return NULL;
    }
    plan->idle = run->next;
    return run;
}

static weft__run *take_run(weft_request *req, weft__signature signature)
{
    weft_group *group = req->group;
    weft__plan *plan = find_plan(group, req, signature);
    weft__run *run;
    if (!plan) {
        weft__schedule *schedule =
            weft__schedule_make(req->host_op, group->rank, group->size, group->seats,
                                weft__select(req->host_op, group->size, &group->selection));
        if (!schedule) return NULL;
        plan = keep_plan(group, req, signature, schedule);
        if (!plan) {
            run = run_new(schedule, NULL);
            if (!run) weft__schedule_free(schedule);
            return run;
        }
    }
    run = take_idle(plan);
    if (!run) return NULL;
    plan->running++;
    plan->used = req->sequence;
    return run;
}

static bool is_large(const weft__run *run)
{
    return run->tmp && run->schedule->tmp_bytes >= LARGE_TMP_BYTES;
}

static bool has_large_to_spare(const weft_group *group)
{
    int n = 0;
    for (int i = 0; i < group->plan_count; i++)
        for (const weft__run *run = group->plans[i].idle; run; run = run->next) n += is_large(run);
    return n > KEPT_RUNS;
}

/* The one with TMP whose plan nobody has used for longest, but for `last`, and for large ones where they are no more than
 * KEPT_RUNS. */
static weft__run *longest_idle(const weft_group *group, const weft__run *last)
{
    const bool spare = has_large_to_spare(group);
    weft__run *longest = NULL;
    for (int i = 0; i < group->plan_count; i++)
        for (weft__run *run = group->plans[i].idle; run; run = run->next)
            if (run->tmp && run != last && (spare || !is_large(run)) &&
                (!longest || run->plan->used < longest->plan->used))
                longest = run;
    return longest;
}

static void keep_tmp(weft__run *run)
{
    weft_group *group = run->plan->group;
    weft__run *other;
    group->idle_tmp += run->schedule->tmp_bytes;
    while (group->idle_tmp > IDLE_TMP_BYTES && (other = longest_idle(group, run))) give_up_tmp(other);
}

static void give_run(weft__run *run)
{
    weft__list_remove(&run->work);
    if (!run->plan) {
        run_free(run);
        return;
    }
    WEFT__ASSERT(run->plan->running > 0);
    run->plan->running--;
    run->next = run->plan->idle;
    run->plan->idle = run;
    if (run->tmp) keep_tmp(run);
}

static char *at(const weft__run *run, weft__place place)
{
    const weft__op *op = run->req->host_op;
    char *base = place.area == WEFT__TMP   ? run->tmp
                 : place.area == WEFT__OUT ? op->out
                                           : (char *)(uintptr_t)op->in;
    return base ? base + place.offset : NULL;
}

static void step_done(weft__run *run, int step)
{
    const weft__schedule *s = run->schedule;
    const weft__step *done = &s->steps[step];
    for (int i = 0; i < done->next_count; i++) {
        int next = s->next[done->first_next + i];
        WEFT__ASSERT(run->waits[next] > 0, step, next);
        if (--run->waits[next] == 0) run->queue[run->tail++] = next;
    }
    WEFT__ASSERT(run->remaining > 0, step);
    run->waits[step] = WEFT__STEP_DONE;
    run->remaining--;
}

static void pump(weft__run *run);

static void flight_done(weft__completion *completion)
{
    flight *f = WEFT__OWNER(completion, flight, completion);
    weft__run *run = f->run;
    f->send = NULL;
    f->recv = NULL;
    /* Its sender has given the message up half way, because the group has broken there, and tells why on
     * another way, which may take longer.  This step is never done, so nothing else is said of the operation
     * before. */
    if (WEFT__UNLIKELY(completion->status == WEFT_ERR_CANCELLED)) return;
    if (WEFT__UNLIKELY(completion->status != WEFT_OK) && run->failed == WEFT_OK) {
        run->failed = completion->status;
        run->failed_step = f->step;
        run->failed_bytes = f->recv_result.offered;
    }
    step_done(run, f->step);
    if (!run->stepping) pump(run);
}

static void token_passed(weft__token *token)
{
    flight *f = WEFT__OWNER(token, flight, token);
    step_done(f->run, f->step);
    if (!f->run->stepping) pump(f->run);
}

/* One that goes out is the point-to-point layer's from then on, and one that is here is done with.  For
 * others the operation does not wait, unless too many are owed. */
static void issue_token(weft__run *run, int step, const weft__envelope *envelope)
{
    weft__p2p *p2p = run->req->ctx->p2p;
    flight *f = &run->flights[step];
    f->token.number = envelope->sequence;
    f->token.signature = run->req->signature;
    f->token.passed = token_passed;
    f->run = run;
    f->step = step;
    if (run->schedule->steps[step].kind == WEFT__STEP_SEND)
        weft__p2p_send_token(p2p, envelope);
    else if (!weft__p2p_drop_token(p2p, envelope) && !weft__token_owe(run->req->group, &f->token))
        return;
    step_done(run, step);
}

static void issue(weft__run *run, int step)
{
    const weft__step *st = &run->schedule->steps[step];
    weft_request *req = run->req;
    weft_group *group = req->group;
    weft__signature signature = req->signature;
    flight *f = &run->flights[step];
    size_t bytes = st->count * run->schedule->element;
    weft__envelope to = {.peer = group->world[st->peer],
                         .channel = WEFT__CHANNEL_COLLECTIVE,
                         .group = group->id,
                         .sequence = req->sequence,
                         .tag = (int)st->tag,
                         .dtype = (uint8_t)req->host_op->dtype,
                         .signature = {signature.word[0], signature.word[1]}};
    if (st->token) {
        issue_token(run, step, &to);
        return;
    }
    *f = (flight){.completion = {flight_done, 1, WEFT_OK}, .run = run, .step = step};
    weft__list_init(&f->token.link);
    if (st->kind == WEFT__STEP_SEND) {
        weft__send *send = weft__p2p_send(req->ctx->p2p, &to, at(run, st->a), bytes, &f->completion);
        if (!send)
            weft__complete(&f->completion, WEFT_ERR_MEMORY);
        else if (f->completion.count)
            f->send = send;
    } else {
        weft__recv *recv =
            weft__p2p_receive(req->ctx->p2p, &to, at(run, st->out), bytes, &f->recv_result, &f->completion);
        if (!recv)
            weft__complete(&f->completion, WEFT_ERR_MEMORY);
        else if (f->completion.count)
            f->recv = recv;
    }
}

/* count elements of a copy or reduction, from `offset` bytes on. */
static void compute(const weft__run *run, const weft__step *st, size_t offset, size_t count)
{
    const weft__op *op = run->req->host_op;
    char *out = at(run, st->out) + offset;
    const char *a = at(run, st->a) + offset;
    if (st->kind == WEFT__STEP_FOLD) {
        weft__reduce_rows(out, a, st->count * run->schedule->element, st->rows, count, op->dtype,
                          op->reduction, st->scale);
    } else if (st->kind == WEFT__STEP_REDUCE) {
        const void *sources[2] = {a, at(run, st->b) + offset};
        weft__reduce_kernel(op->dtype, op->reduction)(out, sources, 2, count, st->scale);
    } else if (st->scale != 1.0) {
        weft__scale(out, a, count, op->dtype, st->scale);
    } else if (out != a) {
        memmove(out, a, count * run->schedule->element);
    }
}

static bool work_rows(weft__run *run, const weft__step *st)
{
    const size_t rows = (size_t)st->rows, left = rows - run->done,
                 most = CHUNK_BYTES / (st->count * run->schedule->element);
    const size_t end = run->done + (left < most ? left : most ? most : 1);
    weft__copy_rows(run->schedule, st, at(run, st->out), at(run, st->a), run->done, end);
    run->done = end;
    if (end < rows) return false;
    run->done = 0;
    return true;
}

static bool has_rows(const weft__step *st)
{
    return st->kind == WEFT__STEP_COPY && st->rows > 1 && st->count;
}

/* One chunk of the copy or reduction at the head of the queue.  True: the step is done. */
static bool work(weft__run *run, const weft__step *st)
{
    if (has_rows(st)) return work_rows(run, st);
    size_t element = run->schedule->element, left = st->count - run->done;
    size_t most = CHUNK_BYTES / element / (st->kind == WEFT__STEP_FOLD ? (size_t)st->rows : 1);
    size_t count = left < most ? left : most ? most : 1;
    if (count) compute(run, st, run->done * element, count);
    run->done += count;
    if (run->done < st->count) return false;
    run->done = 0;
    return true;
}

/* Breaks the group, which stops this run too. */
static void schedule_fail(weft__run *run)
{
    weft_request *req = run->req;
    weft_group *group = req->group;
    const weft__step *st = &run->schedule->steps[run->failed_step];
    int peer = group->world[st->peer];
    char name[256], fate[WEFT__SENTENCE_BYTES], text[WEFT__SENTENCE_BYTES];
    bool gone = run->failed == WEFT_ERR_PEER;
    weft__request_name(req, name, sizeof name);
    if (gone) weft__peer_fate(req->ctx, peer, fate, sizeof fate);
    snprintf(text, sizeof text, "%.240s: %.*s", name, WEFT__SENTENCE_BYTES - 256,
             gone ? fate : weft_status_text(run->failed));
    if (run->failed == WEFT_ERR_MEMORY)
        snprintf(text, sizeof text, "%s: rank %d has no memory for it", name, req->ctx->rank);
    if (run->failed == WEFT_ERR_MISMATCH) /* the others have other sizes in their names */
        snprintf(text, sizeof text,
                 "%s #%llu on group %s: rank %d sends %zu %s to rank %d, which expects %zu of it",
                 weft__kind_name(req->host_op->kind), (unsigned long long)req->sequence, group->label, peer,
                 run->failed_bytes / run->schedule->element, weft__dtype_name(req->host_op->dtype),
                 group->world[group->rank], st->count);
    weft__group_break(group, &(weft__verdict){run->failed, req->sequence, gone ? peer : -1, text}, true);
}

static void schedule_finish(weft__run *run)
{
    weft_request *req = run->req;
    if (run->failed != WEFT_OK) {
        schedule_fail(run);
        return;
    }
    give_run(run);
    req->u.run = NULL;
    if (req->continuation)
        req->continuation->finish(req);
    else
        weft__request_settle(req, WEFT_OK, NULL);
}

/* Until nothing is ready, or a chunk has been moved, of which `moved` bytes already. */
static size_t work_off(weft__run *run, size_t moved)
{
    while (run->head < run->tail && !run->stopped && run->failed == WEFT_OK && moved < CHUNK_BYTES) {
        int step = run->queue[run->head];
        const weft__step *st = &run->schedule->steps[step];
        if (st->kind == WEFT__STEP_SEND || st->kind == WEFT__STEP_RECV) {
            run->head++;
            issue(run, step);
            continue;
        }
        moved += st->count * run->schedule->element * (has_rows(st) ? (size_t)st->rows : 1);
        if (work(run, st)) {
            run->head++;
            step_done(run, step);
        }
    }
    return moved;
}

static void begin_step(weft__run *run, int step)
{
    run->flights[step].send = NULL;
    run->flights[step].recv = NULL;
    weft__list_init(&run->flights[step].token.link);
    if (run->waits[step] == 0) run->queue[run->tail++] = step;
}

/* The next block in the place of one that is done.  False: that is not so. */
static bool open_block(weft__run *run)
{
    weft__opened next;
    if (WEFT__LIKELY(!run->schedule->block) || run->stopped || run->failed != WEFT_OK) return false;
    if (!weft__block_is_done(run->schedule, run->waits)) return false;
    next = weft__schedule_advance(run->schedule, run->req->host_op, run->waits);
    if (next.count < 0) {
        run->failed = WEFT_ERR_MEMORY;
        run->failed_step = 0;
        return false;
    }
    /* So the queue has room for all steps of two blocks. */
    run->tail -= run->head;
    memmove(run->queue, run->queue + run->head, (size_t)run->tail * sizeof *run->queue);
    run->head = 0;
    for (int i = next.first; i < next.first + next.count; i++) begin_step(run, i);
    return true;
}

static void pump(weft__run *run)
{
    size_t moved = 0;
    WEFT__ASSERT(!run->stepping);
    run->stepping = true;
    do moved = work_off(run, moved);
    while (open_block(run));
    run->stepping = false;
    weft__list_remove(&run->work);
    if (run->stopped)
        give_run(run);
    else if (run->failed != WEFT_OK || run->remaining == 0)
        schedule_finish(run);
    else if (run->head < run->tail)
        weft__list_append(&run->req->ctx->at_work[WEFT__EXECUTOR_SCHEDULE], &run->work);
}

void weft__run_start(weft_request *req)
{
    weft__run *run = take_run(req, weft__op_sign(req->host_op));
    if (!run) {
        char text[WEFT__SENTENCE_BYTES];
        snprintf(text, sizeof text, "rank %d: %.*s", req->ctx->rank, 900, weft_last_error());
        weft__group_break(req->group, &(weft__verdict){WEFT_ERR_MEMORY, req->sequence, -1, text}, true);
        return;
    }
    weft__list_init(&run->work);
    run->req = req;
    run->head = run->tail = 0;
    run->done = 0;
    run->remaining = run->schedule->total;
    run->stepping = run->stopped = false;
    run->failed = WEFT_OK;
    req->u.run = run;
    req->algorithm = run->schedule->algorithm;
    for (int i = 0; i < run->schedule->n; i++) {
        run->waits[i] = run->schedule->steps[i].waits;
        begin_step(run, i);
    }
    pump(run);
}

static void schedule_stop(weft_request *req)
{
    weft__run *run = req->u.run;
    if (!run || run->stopped) return;
    run->stopped = true;
    req->u.run = NULL;
    for (int i = 0; i < run->schedule->n; i++) {
        flight *f = &run->flights[i];
        if (f->recv) weft__p2p_cancel_receive(req->ctx->p2p, f->recv);
        if (f->send) weft__p2p_cancel_send(req->ctx->p2p, f->send);
        weft__list_remove(&f->token.link);
        f->recv = NULL;
        f->send = NULL;
    }
    if (!run->stepping) give_run(run); /* else pump does, when it is back */
}

static int schedule_advance(weft_context *ctx)
{
    weft__run *run;
    if (weft__list_empty(&ctx->at_work[WEFT__EXECUTOR_SCHEDULE])) return 0;
    run = WEFT__LIST_ENTRY(ctx->at_work[WEFT__EXECUTOR_SCHEDULE].next, weft__run, work);
    pump(run);
    return 1;
}

const weft__executor weft__schedule_executor = {.name = "schedule",
                                                .traits = WEFT__BEGINS_IN_CALL,
                                                .start = weft__run_start,
                                                .stop = schedule_stop,
                                                .progress = schedule_advance};
