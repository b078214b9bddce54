/* operations.c - see operations.h. */
#include "operations.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK_MOST = 1 << 20, DEADLINE_MS = 15000 * JOB_SLOWER, SLICE_MS = 20, TRIES = 3 };

struct step {
    job_rank *me;
    weft_group *group;
    unsigned char *in, *out; /* a block for each rank */
    size_t bytes;            /* of a block */
    uint64_t number;
    int rank, size;
    ending end;
};

static const weft_call in_time = {.timeout_ms = DEADLINE_MS};

size_t operation_room(int ranks)
{
    return (size_t)2 * BLOCK_MOST * (size_t)ranks;
}

/* ---- how it ends ---- */

static void note(step *s, weft_status status, int peer, const char *text)
{
    if (status == WEFT_OK || (s->end.status != WEFT_OK && status != WEFT_ERR_PEER)) return;
    s->end.status = status;
    s->end.cause = status == WEFT_ERR_BROKEN ? weft_group_status(s->group) : status;
    s->end.peer = peer;
    snprintf(s->end.text, sizeof s->end.text, "%s", text);
}

/* A call that is refused for want of memory has done nothing, and is made again. */
#define ASK(s, req, call)                                                       \
    do {                                                                        \
        weft_status asked_ = WEFT_ERR_MEMORY;                                   \
        for (int try_ = 0; asked_ == WEFT_ERR_MEMORY && try_ < TRIES; try_++) { \
            (req) = NULL;                                                       \
            asked_ = (call);                                                    \
        }                                                                       \
        if (asked_ != WEFT_OK) note(s, asked_, -1, weft_last_error());          \
    } while (0)

static void settle(step *s, weft_request *req)
{
    weft_request_info info;
    if (!req) return;
    if (weft_wait(req, DEADLINE_MS + JOB_LATE_MS) == WEFT_PENDING)
        job_fail(__FILE__, __LINE__, "hangs: %s", weft_request_message(req));
    info = job_info(req);
    note(s, info.status, info.peer < 0 ? -1 : weft_group_to_world(s->group, info.peer),
         weft_request_message(req));
    weft_release(req);
}

static void settle_message(step *s, weft_request *req)
{
    if (!req) return;
    while (weft_wait(req, SLICE_MS) == WEFT_PENDING && weft_group_status(s->group) == WEFT_OK) continue;
    if (weft_test(req) == WEFT_PENDING) {
        weft_cancel(req);
        if (weft_wait(req, DEADLINE_MS + JOB_LATE_MS) == WEFT_ERR_CANCELLED) {
            weft_release(req);
            note(s, WEFT_ERR_BROKEN, -1, "a message of a broken group was cancelled");
            return;
        }
    }
    settle(s, req);
}

/* ---- data ---- */

static unsigned char byte_of(const step *s, int from, int to, size_t at)
{
    return (unsigned char)(s->number * 31 + (uint64_t)from * 7 + (uint64_t)to * 3 + at % 251);
}

static void fill(const step *s, int to, unsigned char *block)
{
    for (size_t i = 0; i < s->bytes; i++) block[i] = byte_of(s, s->rank, to, i);
}

static void look(const step *s, int from, int to, const unsigned char *block)
{
    if (s->end.status != WEFT_OK) return;
    for (size_t i = 0; i < s->bytes; i++)
        if (block[i] != byte_of(s, from, to, i))
            job_fail(__FILE__, __LINE__, "step %llu: byte %zu of %zu from rank %d is %d, and not %d",
                     (unsigned long long)s->number, i, s->bytes, from, block[i], byte_of(s, from, to, i));
}

/* ---- the operations ---- */

static void run_barrier(step *s)
{
    weft_request *req;
    ASK(s, req, weft_barrier(s->group, &in_time, &req));
    settle(s, req);
}

static size_t numbers_of(const step *s)
{
    return s->bytes / sizeof(int32_t);
}

static void fill_numbers(const step *s, int32_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) in[i] = (int32_t)(i % 1000) * (s->rank + 1) + (int32_t)s->number;
}

/* What all ranks' numbers from that one on add up to. */
static void look_at_sums(const step *s, size_t first, const int32_t *out, size_t n)
{
    if (s->end.status != WEFT_OK) return;
    for (size_t i = 0; i < n; i++) {
        const int32_t sum =
            (int32_t)((first + i) % 1000) * s->size * (s->size + 1) / 2 + (int32_t)s->number * s->size;
        if (out[i] != sum)
            job_fail(__FILE__, __LINE__, "step %llu: sum %zu of %zu is %d, and not %d",
                     (unsigned long long)s->number, i, n, out[i], sum);
    }
}

static int root_of(const step *s)
{
    return (int)(s->number % (uint64_t)s->size);
}

static void run_all_reduce(step *s)
{
    const size_t n = numbers_of(s);
    int32_t *in = (void *)s->in, *out = (void *)s->out;
    weft_request *req;
    fill_numbers(s, in, n);
    ASK(s, req, weft_all_reduce(s->group, in, out, n, WEFT_INT32, WEFT_SUM, &in_time, &req));
    settle(s, req);
    look_at_sums(s, 0, out, n);
}

static void run_reduce(step *s)
{
    const size_t n = numbers_of(s);
    int32_t *in = (void *)s->in, *out = (void *)s->out;
    weft_request *req;
    fill_numbers(s, in, n);
    ASK(s, req, weft_reduce(s->group, in, out, n, WEFT_INT32, WEFT_SUM, root_of(s), &in_time, &req));
    settle(s, req);
    if (s->rank == root_of(s)) look_at_sums(s, 0, out, n);
}

static void run_reduce_scatter(step *s)
{
    const size_t n = numbers_of(s);
    int32_t *in = (void *)s->in, *out = (void *)s->out;
    weft_request *req;
    fill_numbers(s, in, n * (size_t)s->size);
    ASK(s, req, weft_reduce_scatter(s->group, in, out, n, WEFT_INT32, WEFT_SUM, &in_time, &req));
    settle(s, req);
    look_at_sums(s, n * (size_t)s->rank, out, n);
}

static void run_broadcast(step *s)
{
    const int root = root_of(s);
    weft_request *req;
    if (s->rank == root) fill(s, 0, s->out);
    ASK(s, req, weft_broadcast(s->group, s->out, s->bytes, WEFT_UINT8, root, &in_time, &req));
    settle(s, req);
    look(s, root, 0, s->out);
}

static void run_all_gather(step *s)
{
    weft_request *req;
    fill(s, 0, s->in);
    ASK(s, req, weft_all_gather(s->group, s->in, s->out, s->bytes, WEFT_UINT8, &in_time, &req));
    settle(s, req);
    for (int i = 0; i < s->size; i++) look(s, i, 0, s->out + (size_t)i * s->bytes);
}

static void run_gather(step *s)
{
    weft_request *req;
    fill(s, 0, s->in);
    ASK(s, req, weft_gather(s->group, s->in, s->out, s->bytes, WEFT_UINT8, root_of(s), &in_time, &req));
    settle(s, req);
    for (int i = 0; i < s->size && s->rank == root_of(s); i++) look(s, i, 0, s->out + (size_t)i * s->bytes);
}

static void run_scatter(step *s)
{
    weft_request *req;
    for (int i = 0; i < s->size; i++) fill(s, i, s->in + (size_t)i * s->bytes);
    ASK(s, req, weft_scatter(s->group, s->in, s->out, s->bytes, WEFT_UINT8, root_of(s), &in_time, &req));
    settle(s, req);
    look(s, root_of(s), s->rank, s->out);
}

static weft_status submit_batch(step *s, unsigned char *shared, weft_request **req)
{
    weft_call member = {.batch = NULL};
    weft_status status = weft_batch_begin(s->group, &member.batch);
    if (status == WEFT_OK) {
        status = weft_broadcast(s->group, shared, s->bytes, WEFT_UINT8, root_of(s), &member, NULL);
        if (status == WEFT_OK)
            status = weft_all_gather(s->group, s->in, s->out, s->bytes, WEFT_UINT8, &member, NULL);
        if (status == WEFT_OK) return weft_batch_end(member.batch, &in_time, req);
        weft_batch_discard(member.batch);
    }
    return status;
}

/* A broadcast and an all_gather. */
static void run_batch(step *s)
{
    unsigned char *shared = s->in + s->bytes;
    weft_request *req;
    fill(s, 0, s->in);
    if (s->rank == root_of(s)) fill(s, 1, shared);
    ASK(s, req, submit_batch(s, shared, &req));
    settle(s, req);
    look(s, root_of(s), 1, shared);
    for (int i = 0; i < s->size; i++) look(s, i, 0, s->out + (size_t)i * s->bytes);
}

static void run_all_to_all(step *s)
{
    weft_request *req;
    for (int i = 0; i < s->size; i++) fill(s, i, s->in + (size_t)i * s->bytes);
    ASK(s, req, weft_all_to_all(s->group, s->in, s->out, s->bytes, WEFT_UINT8, &in_time, &req));
    settle(s, req);
    for (int i = 0; i < s->size; i++) look(s, i, s->rank, s->out + (size_t)i * s->bytes);
}

static void run_messages(step *s)
{
    const int next = (s->rank + 1) % s->size, before = (s->rank + s->size - 1) % s->size,
              tag = (int)(s->number % 1000);
    weft_request *sent, *got;
    fill(s, next, s->in);
    ASK(s, got, weft_irecv(s->group, s->out, s->bytes, WEFT_UINT8, before, tag, &in_time, &got));
    ASK(s, sent, weft_isend(s->group, s->in, s->bytes, WEFT_UINT8, next, tag, &in_time, &sent));
    settle_message(s, sent);
    settle_message(s, got);
    look(s, before, s->rank, s->out);
}

static void run_groups(step *s)
{
    weft_group *const parent = s->group, *made = NULL;
    weft_request *req;
    int32_t one = 1, all = 0;
    ASK(s, req, weft_split_group(parent, 0, s->size - s->rank, &in_time, &made, &req));
    settle(s, req);
    if (s->end.status == WEFT_OK) {
        CHECK_INT(weft_group_size(made), s->size);
        CHECK_INT(weft_group_rank(made), s->size - 1 - s->rank);
        s->group = made;
        ASK(s, req, weft_all_reduce(made, &one, &all, 1, WEFT_INT32, WEFT_SUM, &in_time, &req));
        settle(s, req);
        s->group = parent;
        if (s->end.status == WEFT_OK) CHECK_INT(all, s->size);
    }
    if (made) CHECK_OK(weft_group_free(made));
}

const operation operations[] = {
    {"barrier", run_barrier},       {"all_reduce", run_all_reduce}, {"broadcast", run_broadcast},
    {"all_gather", run_all_gather}, {"all_to_all", run_all_to_all}, {"messages", run_messages},
    {"groups", run_groups},         {"reduce", run_reduce},         {"reduce_scatter", run_reduce_scatter},
    {"gather", run_gather},         {"scatter", run_scatter},       {"a batch", run_batch},
};
const int operation_count = sizeof operations / sizeof *operations;

static size_t length_of(uint64_t number)
{
    static const size_t lengths[] = {8, 4096, 100, 1 << 16, 40, BLOCK_MOST};
    return lengths[number % (sizeof lengths / sizeof *lengths)];
}

ending operation_run(const operation *o, job_rank *me, weft_group *group, unsigned char *room,
                     uint64_t number)
{
    const int size = weft_group_size(group);
    step s = {.me = me,
              .group = group,
              .in = room,
              .out = room + (size_t)BLOCK_MOST * (size_t)me->size,
              .bytes = length_of(number),
              .number = number,
              .rank = weft_group_rank(group),
              .size = size,
              .end = {.status = WEFT_OK, .peer = -1}};
    o->run(&s);
    return s.end;
}

ending operation_all_say(job_rank *me, weft_group *group, bool yes, bool *all)
{
    step s = {.me = me,
              .group = group,
              .size = weft_group_size(group),
              .end = {.status = WEFT_OK, .peer = -1}};
    int32_t in = yes, out = 0;
    weft_request *req;
    ASK(&s, req, weft_all_reduce(group, &in, &out, 1, WEFT_INT32, WEFT_SUM, &in_time, &req));
    settle(&s, req);
    *all = s.end.status == WEFT_OK && out == s.size;
    return s.end;
}
