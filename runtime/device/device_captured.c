/* device_captured.c - messages that graphs record, in program order; device_pair.c has all the others.
 *
 *   recorded  by the call that submits one, at once, on its group's communicator: a capture does not wait
 *   met       both sides have found each other as those of any message do, and recorded the same
 *
 * It settles when it is both, in whichever order.  In a replay no tags are there: NCCL gives the nth that one rank sends
 * another to the nth receive there.  So each rank counts what it has recorded to and from each other one, a sender says its
 * count in the place of a set's id, and the receiver compares that, and the length, which NCCL wants to be the same.
 * Fails: half a message in a graph would hang a replay, so whatever ends one of them breaks its group. */
#include "device_captured.h"
#include "device_bundle.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "host.h"
#include "peer.h"
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTS 0x3fffffffu /* what is left of a word beside its other two bits; around and around */

static uint32_t says(uint32_t count)
{
    return WEFT__SAYS_RECORDED | (count & COUNTS) << WEFT__SAYS_SET;
}

/* In the world.  A receive from any rank, which is not recorded, knows it once it has met. */
static int other_rank(const weft_request *req)
{
    return req->recv_result.peer >= 0 ? req->recv_result.peer : req->group->world[req->op.peer];
}

/* With "REQUEST: RANK" before it. */
WEFT__PRINTF(3, 4) static void captured_fail(weft_request *req, weft_status status, const char *format, ...)
{
    char name[256], who[192], what[WEFT__SENTENCE_BYTES - 480], text[WEFT__SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    weft__request_name(req, name, sizeof name);
    weft__peer_name(req->ctx, other_rank(req), who, sizeof who);
    snprintf(text, sizeof text, "%s: %s %s", name, who, what);
    if (status == WEFT_ERR_PEER) req->culprit = req->op.peer;
    weft__request_fail(req, status, text);
}

/* On the other side it would wait for the communicator of the two. */
static void give_up_pair(weft_request *req, const char *why)
{
    weft__device_comm *pair = weft__device_comm_of_pair(req->group, req->device->module, other_rank(req));
    if (pair) weft__device_comm_doom(pair, WEFT_ERR_MISMATCH, why);
}

void weft__captured_differs(weft_request *req)
{
    if (!req->capture) {
        captured_fail(req, WEFT_ERR_MISMATCH, "has recorded it in a graph, and here it is received at once");
        return;
    }
    give_up_pair(req, "the other rank has recorded it in a graph");
    captured_fail(req, WEFT_ERR_MISMATCH, "has sent it at once, and here it is recorded in a graph");
}

/* What has come is not what this rank has recorded.  An empty one is no part of a graph, so where it stands, and whether
 * the other side records it, is the same to a replay. */
static bool is_another(weft__device *d)
{
    weft_request *req = d->req;
    const weft__recv_result *got = &req->recv_result;
    size_t room = req->op.count * weft__op_element(&req->op);
    uint32_t sent = got->said >> WEFT__SAYS_SET & COUNTS, own = d->match.expects >> WEFT__SAYS_SET & COUNTS;
    if (!got->offered && !room) return false;
    if (!(got->said & WEFT__SAYS_RECORDED))
        weft__captured_differs(req);
    else if (got->offered != room)
        captured_fail(req, WEFT_ERR_MISMATCH,
                      "sends %zu bytes, and here %zu are received: recorded in a graph both are the same",
                      got->offered, room);
    else if (sent != own)
        captured_fail(
            req, WEFT_ERR_MISMATCH,
            "sends it as number %u of what it has recorded for this rank, and here it is received as "
            "number %u: replays match by order alone",
            (unsigned)sent, (unsigned)own);
    else
        return false;
    return true;
}

static void settle_if_over(weft__device *d)
{
    weft_request *req = d->req;
    const weft__match *m = &d->match;
    if (!d->done || m->out.state == WEFT__HALF_OPEN || m->in.state == WEFT__HALF_OPEN ||
        weft__request_state(req) >= WEFT__DRAINING)
        return;
    weft__device_pair_stop(req);
    req->recv_result.bytes = req->recv_result.offered;
    weft__device_settles(d);
    weft__request_settle(req, WEFT_OK, NULL);
}

static void half_is(weft__device *d, weft__half *half, weft__half_state state)
{
    weft__half_to(half, state);
    settle_if_over(d);
}

static bool out_matched(weft__match_hook *hook)
{
    weft__device *d = WEFT__OWNER(hook, weft__device, match.out.hook);
    half_is(d, &d->match.out, WEFT__HALF_MET);
    return true;
}

/* Who has recorded what differs hears that it is refused; who sends it at once would take that for its end, and fails as the
 * group breaks. */
static bool in_matched(weft__match_hook *hook)
{
    weft__device *d = WEFT__OWNER(hook, weft__device, match.in.hook);
    const bool at_once = !(d->req->recv_result.said & WEFT__SAYS_RECORDED);
    if (is_another(d)) return at_once;
    half_is(d, &d->match.in, WEFT__HALF_MET);
    return true;
}

/* Its sender gave it up, and breaks the group for it. */
static bool in_unmatched(weft__match_hook *hook)
{
    weft__half_to(&WEFT__OWNER(hook, weft__device, match.in.hook)->match.in, WEFT__HALF_OPEN);
    return true;
}

/* It is empty, or cannot be.  A send that is refused ends well, as any does, but it is half a message then: its receiver
 * ends alone where it does not record, in whatever memory, and knows of no graph. */
static void captured_over(weft__device *d, weft__half *half)
{
    weft_request *req = d->req;
    const weft__recv_result *got = &req->recv_result;
    weft_status status = half->completion.status;
    bool is_in = half == &d->match.in;
    char who[WEFT__SENTENCE_BYTES];
    if (is_in && (status == WEFT_OK || status == WEFT_ERR_TRUNCATED)) {
        if (is_another(d)) return;
        status = WEFT_OK;
    }
    if (status == WEFT_OK && !is_in && req->op.count) {
        captured_fail(
            req, WEFT_ERR_MISMATCH,
            "does not take what is recorded here in a graph: there it is received at once, in another "
            "order, or as something else");
    } else if (status == WEFT_OK) {
        half_is(d, half, WEFT__HALF_NONE);
    } else if (status == WEFT_ERR_MISMATCH) {
        captured_fail(req, status, "sends %s in %s memory, and here %s in %s memory is received",
                      weft__dtype_name((weft_dtype)got->dtype),
                      weft__memory_name(got->apart ? (weft_memory)got->way : WEFT_MEMORY_HOST),
                      weft__dtype_name(req->op.dtype), weft__memory_name(req->op.memory));
    } else if (status == WEFT_ERR_PEER) {
        weft__peer_fate(req->ctx, req->group->world[req->op.peer], who, sizeof who);
        captured_fail(req, status, "is not there for it: %.700s", who);
    } else {
        captured_fail(req, status, "does not get it: %s", weft_status_text(status));
    }
}

static void out_over(weft__completion *completion)
{
    weft__device *d = WEFT__OWNER(completion, weft__device, match.out.completion);
    captured_over(d, &d->match.out);
}

static void in_over(weft__completion *completion)
{
    weft__device *d = WEFT__OWNER(completion, weft__device, match.in.completion);
    captured_over(d, &d->match.in);
}

/* What a rank has recorded to each other one, and behind it from each. */
weft_status weft__captured_prepare(const weft_request *req)
{
    weft_group *group = req->group;
    weft__device_comm *dev_comm =
        weft__device_comm_of_group(group, weft__module_for(req->ctx, req->op.memory));
    size_t n = 2 * (size_t)group->size;
    WEFT__ASSERT(dev_comm && weft__holds_engine(req->ctx));
    if (!dev_comm->captured) dev_comm->captured = calloc(n, sizeof *dev_comm->captured);
    return dev_comm->captured ? WEFT_OK
                              : weft__fail_memory(n * sizeof *dev_comm->captured, "messages in graphs");
}

/* To and from one rank, both for an exchange. */
static void captured_open(weft_request *req)
{
    weft__device *d = req->device;
    weft__match *m = &d->match;
    weft__p2p *p2p = req->ctx->p2p;
    unsigned way = weft__kind_way(req->op.kind);
    weft__envelope at = weft__pair_envelope(req->group, &req->op, way);
    size_t bytes = req->op.count * weft__op_element(&req->op);
    uint32_t *counts = d->dev_comm->captured + req->op.peer;
    uint8_t by = (uint8_t)weft__module_memory(req->ctx, d->module);
    m->out = (weft__half){.hook = {.matched = out_matched, .way = by}, .completion = {out_over, 1, WEFT_OK}};
    m->in = (weft__half){.hook = {.matched = in_matched, .unmatched = in_unmatched, .way = by},
                         .completion = {in_over, 1, WEFT_OK}};
    if (way & WEFT__SENDS) {
        weft__half_to(&m->out, WEFT__HALF_OPEN);
        m->says = says(counts[0] += bytes != 0);
    }
    if (way & WEFT__RECEIVES) {
        weft__half_to(&m->in, WEFT__HALF_OPEN);
        m->expects = says(counts[req->group->size] += bytes != 0);
    }
    at.signature[0] = req->sequence;
    at.signature[1] = by | (uint64_t)m->says << 8;
    at.hook = &m->in.hook;
    if (way & WEFT__RECEIVES &&
        !weft__p2p_receive(p2p, &at, NULL, bytes, &req->recv_result, &m->in.completion))
        weft__complete(&m->in.completion, WEFT_ERR_MEMORY);
    at.hook = &m->out.hook;
    if (way & WEFT__SENDS && weft__request_state(req) < WEFT__DRAINING &&
        !weft__p2p_send(p2p, &at, NULL, bytes, &m->out.completion))
        weft__complete(&m->out.completion, WEFT_ERR_MEMORY);
}

void weft__captured_start(weft_request *req)
{
    weft__device *d = req->device;
    char text[WEFT__SENTENCE_BYTES];
    weft_status status;
    d->dev_comm = weft__device_comm_of_group(req->group, d->module);
    if (atomic_load(&req->group->state) == WEFT__BROKEN) {
        status = weft__broken_text(req, text, sizeof text);
        weft__request_fail(req, status, text);
        return;
    }
    d->work.op = weft__module_operation(&req->op);
    d->work.rank = d->dev_comm->rank;
    d->work.size = d->dev_comm->size;
    d->work.peer = req->op.peer;
    atomic_fetch_add_explicit(&req->refs, 1, memory_order_relaxed); /* it may settle in here */
    captured_open(req);
    if (weft__request_state(req) < WEFT__DRAINING) weft__device_enter(req);
    weft__request_unref(req);
}

void weft__captured_done(weft_request *req)
{
    req->device->done = true;
    settle_if_over(req->device);
}
