/* warn.c - after WEFT_WARN_MS the log tells who is waited for.
 *
 * A program may have a million operations that wait for one rank.  So there is one line for a group's
 * collectives, and one for its messages with each peer: about the oldest, with the number of the others.
 * A collective that hangs hangs at many ranks: the first of a host to tell is the only one that warns, the
 * others' lines are information.
 * What comes to wait later is told of together, after WEFT_WARN_MS more. */
#include "warn.h"
#include "group.h"
#include "holder.h"
#include "log.h"
#include "straggler.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_NS (2000 * WEFT__MS) /* for answers, before the log tells who is late */
#define RETRY_NS  (20 * WEFT__MS)

/* The time before which nothing more is told of what waits like this request. */
static int64_t *quiet_until(const weft_request *req)
{
    weft_group *group = req->group;
    bool message = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    return message && req->op.peer >= 0 ? &group->reports[req->op.peer].quiet_until_ns
                                        : &group->quiet_until_ns;
}

/* A receive or a probe that stands open is nothing to warn about. */
static bool is_told_of(const weft_request *req)
{
    unsigned traits = weft__kind_traits(req->op.kind);
    return req->warned || (traits & (WEFT__RECEIVES | WEFT__PROBES) && !(traits & WEFT__SENDS));
}

/* Operations that wait like this one, and have waited long enough, are told of with it. */
static int count_others(const weft_request *req, int64_t now_ns)
{
    int n = 0;
    WEFT__LIST_EACH(&req->ctx->pending, at)
    {
        weft_request *other = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (other == req || is_told_of(other) || now_ns < other->warn_ns) continue;
        if (other->group != req->group || quiet_until(other) != quiet_until(req)) continue;
        other->warned = true;
        n++;
    }
    return n;
}

/* Another rank of this host has: a collective that hangs is one line of a host's, not one of each rank's. */
static bool told_on_this_host(const weft_request *req)
{
    const weft_group *group = req->group;
    weft__row row;
    if (!(weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)) return false;
    for (int i = 0; i < group->size; i++)
        if (i != group->rank && !weft__is_gone(&group->ctx->peers[group->world[i]]) &&
            weft__group_shown(group, i, &row) && atomic_load(&row.warned) == (uint32_t)req->sequence)
            return true;
    return false;
}

static void warn_tell(weft_request *req, int64_t now_ns)
{
    char text[WEFT__SENTENCE_BYTES];
    int others = count_others(req, now_ns);
    enum weft__log_level level = told_on_this_host(req) ? WEFT__INFO : WEFT__WARN;
    req->warned = true;
    if (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)
        atomic_store(&req->group->row->warned, (uint32_t)req->sequence);
    weft__straggler_text(req, now_ns, text, sizeof text);
    if (others)
        weft__log(level, "%s; %d more operation%s wait%s like it", text, others, others > 1 ? "s" : "",
                  others > 1 ? "" : "s");
    else
        weft__log(level, "%s", text);
}

int64_t weft__warn_check(weft_request *req, int64_t now_ns)
{
    int64_t *quiet = quiet_until(req);
    int64_t first = req->warn_ns > *quiet ? req->warn_ns : *quiet;
    WEFT__ASSERT(weft__holds_engine(req->ctx) && weft__request_state(req) < WEFT__CALLING,
                 weft__request_state(req));
    if (is_told_of(req)) return WEFT__NEVER;
    if (!req->warn_by_ns) {
        if (now_ns < first) return first;
        weft__straggler_ask(req);
        *quiet = req->warn_by_ns = now_ns + ANSWER_NS; /* the others wait for what this one learns */
    }
    if (!weft__straggler_answered(req) && now_ns < req->warn_by_ns) return now_ns + RETRY_NS;
    warn_tell(req, now_ns);
    *quiet = now_ns + req->ctx->warn_after_ns;
    return WEFT__NEVER;
}
