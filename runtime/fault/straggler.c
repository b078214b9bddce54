/* straggler.c - who is late: finds out how far the other members of a group have come, and makes of that the
 * sentence that a timeout tells.  Those of this host are read from the board; the others are asked shortly
 * before a deadline, so that the answer is there when it is needed. */
#include "straggler.h"
#include "alarm.h"
#include "born.h"
#include "engine.h"
#include "executor.h"
#include "group.h"
#include "late.h"
#include "late_rows.h"
#include "peer.h"
#include "protocol.h"
#include "submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_WAIT_NS (1000 * WEFT__MS)
#define AGAIN_NS       (100 * WEFT__MS) /* until who is late in what others stand behind is asked again */
#define REPORT_LINE    800              /* bytes of one rank's line at most */
#define MORE_BYTES     20               /* for "; and 1000000 more" */
#define NAMED_MOST     16               /* late ranks in one sentence; of more their number is told */

/* Each for itself.  number: of an operation on device memory, whose phase is wanted; 0: none.  messages: what
 * is pending too. */
static void ask_each(weft_group *group, uint64_t number, bool messages)
{
    weft__notice who = {.kind = WEFT__NOTICE_WHO, .group = group->id, .asked = number, .messages = messages};
    int64_t now = weft__now_ns();
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    for (int i = 0; i < group->size; i++) {
        if (i == group->rank || weft__late_gone(group, i)) continue;
        group->reports[i].asked_ns = now;
        if (messages) {
            free(group->reports[i].messages);
            group->reports[i].messages = NULL;
        } else if (weft__late_read_board(group, i, number)) {
            continue;
        }
        weft__late_tell(group->ctx, group->world[i], &who);
    }
}

static uint64_t phases_wanted(const weft_request *req)
{
    return req->executor->traits & WEFT__HAS_PHASES ? req->sequence : 0;
}

/* How old an answer may be: little beside what has passed, and what is left. */
static int64_t stale_ns(const weft_request *req, int64_t now)
{
    int64_t waited = now - req->submitted_ns, left = req->deadline_ns > now ? req->deadline_ns - now : 0;
    return (left < waited ? left : waited) / 8;
}

/* Returns since when an answer is one to this question, which others may have asked before. */
static int64_t ask_elsewhere(const weft_request *req, int64_t now)
{
    weft_group *group = req->group;
    int64_t since = weft__late_ask(group, req->sequence, stale_ns(req, now));
    for (int i = 0; i < group->size; i++)
        if (group->ctx->peers[group->world[i]].local < 0) group->reports[i].asked_ns = since;
    return since;
}

/* Members of this host are read, those of others are asked by the way of late.h.  Returns like ask_elsewhere. */
static int64_t ask_of(const weft_request *req)
{
    weft_group *group = req->group;
    weft__notice who = {.kind = WEFT__NOTICE_WHO, .group = group->id};
    bool elsewhere = false;
    int64_t now = weft__now_ns();
    if (phases_wanted(req)) {
        ask_each(group, req->sequence, false);
        return now;
    }
    for (int i = 0; i < group->size; i++) {
        if (i == group->rank || weft__late_gone(group, i)) continue;
        if (group->ctx->peers[group->world[i]].local < 0) {
            elsewhere = true;
            continue;
        }
        group->reports[i].asked_ns = now;
        if (!weft__late_read_board(group, i, 0)) weft__late_tell(group->ctx, group->world[i], &who);
    }
    return elsewhere ? ask_elsewhere(req, now) : now;
}

/* Certain: what shared memory shows, or the member has said so. */
static bool has_joined(const weft_request *req, int member)
{
    const weft_group *group = req->group;
    if (member == group->rank || group->reports[member].submitted >= req->sequence) return true;
    return req->executor->has_joined && req->executor->has_joined(req, member);
}

/* Those of this host that are late and cannot answer: after the end of all, nothing else shows it. */
static void record_stopped(const weft_request *req)
{
    const weft_group *group = req->group;
    weft_context *ctx = group->ctx;
    if (!ctx->record.ops) return;
    for (int i = 0; i < group->size; i++) {
        const weft__peer *m = &ctx->peers[group->world[i]];
        if (m->death.fd >= 0 && !weft__late_gone(group, i) && !has_joined(req, i) && weft__is_stopped(m->pid))
            weft__record_happened(&ctx->record, WEFT__HAPPENED_RANK_STOPPED, group->world[i], 0);
    }
}

/* What this rank's has to let go first; NULL: nothing, or no collective. */
static weft_request *find_behind(const weft_request *req)
{
    weft_request *other = req->executor->behind ? req->executor->behind(req) : NULL;
    return other && weft__kind_traits(other->op.kind) & WEFT__COLLECTIVE ? other : NULL;
}

static bool was_asked_lately(const weft_group *group)
{
    const int64_t since = weft__now_ns() - AGAIN_NS;
    for (int i = 0; i < group->size; i++)
        if (i != group->rank && group->reports[i].asked_ns > since) return true;
    return false;
}

/* On behalf of all that stand behind it. */
static void ask_of_behind(const weft_request *req)
{
    weft_request *behind = find_behind(req);
    int64_t since;
    if (!behind || (behind->asked_ns && was_asked_lately(behind->group))) return;
    atomic_fetch_add_explicit(&behind->refs, 1, memory_order_relaxed); /* who is found dead may end it */
    since = ask_of(behind);
    if (!behind->asked_ns) behind->asked_ns = since;
    weft__request_unref(behind);
}

void weft__straggler_ask(weft_request *req)
{
    bool first = req->asked_ns == 0;
    int64_t since;
    if (first) req->asked_ns = weft__now_ns();
    weft__record_happened(&req->ctx->record, WEFT__HAPPENED_ASKED, -1, req->sequence);
    ask_of_behind(req);
    if (!(weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)) return;
    since = ask_of(req);
    if (first) req->asked_ns = since;
    record_stopped(req);
}

/* Has said something since it was first asked on behalf of this request. */
static bool has_answered(const weft_request *req, int member)
{
    return req->asked_ns && req->group->reports[member].answered_ns >= req->asked_ns;
}

/* Those of this host that seemed late when they were last checked. */
static void look_again(const weft_request *req)
{
    for (int i = 0; req->asked_ns && i < req->group->size; i++)
        if (!has_joined(req, i)) (void)weft__late_read_board(req->group, i, phases_wanted(req));
}

bool weft__straggler_answered(const weft_request *req)
{
    if (!(weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)) return true;
    look_again(req);
    for (int i = 0; i < req->group->size; i++)
        if (!has_joined(req, i) && !has_answered(req, i) && !weft__late_gone(req->group, i)) return false;
    return true;
}

/* Since it was asked last. */
static bool answered(const weft_group *group, int member)
{
    const weft__report *r = &group->reports[member];
    return member == group->rank || weft__late_gone(group, member) || r->answered_ns >= r->asked_ns;
}

bool weft__straggler_answered_again(const weft_request *req)
{
    if (!weft__straggler_answered(req)) return false;
    if (!(weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)) return true;
    for (int i = 0; i < req->group->size; i++)
        if (!has_joined(req, i) && !answered(req->group, i)) return false;
    return true;
}

static size_t straggler_add(char *text, size_t bytes, size_t at, const char *more)
{
    int n = at < bytes ? snprintf(text + at, bytes - at, "%s", more) : 0;
    return at + (size_t)(n > 0 ? n : 0);
}

/* "; its last was broadcast #40, 1.4 s ago" */
static void last_text(const weft__report *r, char *text, size_t bytes)
{
    if (r->submitted == 0)
        snprintf(text, bytes, "; it has submitted nothing on this group");
    else
        snprintf(text, bytes, "; its last was %s #%llu, %.1f s ago",
                 weft__kind_name(r->kind < WEFT__OP_KINDS ? (weft__kind)r->kind : WEFT__OP_BARRIER),
                 (unsigned long long)r->submitted, (double)r->ago_ns / 1e9);
}

static const char *phase_text(weft__phase phase)
{
    switch (phase) {
    case WEFT__PHASE_AGREEING: return "has not agreed to it";
    case WEFT__PHASE_CONNECTING: return "has not made its communicator";
    case WEFT__PHASE_ORDERING: return "waits for its place in the order";
    case WEFT__PHASE_ISSUING: return "has not come back from issuing it";
    case WEFT__PHASE_RUNNING: return "has issued it, its device has not finished it";
    case WEFT__PHASE_BEHIND: return "has issued it, but the caller's stream has not reached it";
    case WEFT__PHASE_OVER: break;
    }
    return "is done with it";
}

static weft__phase phase_of(const weft_request *req, int member)
{
    const weft__report *r = &req->group->reports[member];
    if (member == req->group->rank) return req->executor->phase(req);
    return r->phase_of == req->sequence ? (weft__phase)r->phase : WEFT__PHASE_OVER;
}

/* Whose stream has not reached it holds up those whose devices work at it. */
static bool is_less_far(weft__phase a, weft__phase b)
{
    if (a == WEFT__PHASE_BEHIND) return b == WEFT__PHASE_RUNNING || b == WEFT__PHASE_OVER;
    return b == WEFT__PHASE_BEHIND ? a < WEFT__PHASE_RUNNING : a < b;
}

static void missing_text(const weft_request *req, int member, char *text, size_t bytes);

/* Where it stands, and who has not come to what is before it, if anybody was asked: ", behind all_reduce #3 on group tp;
 * rank 2 ..." */
static void behind_text(const weft_request *req, char *text, size_t bytes)
{
    const weft_request *other = find_behind(req);
    int n;
    *text = 0;
    if (!other) return;
    n = snprintf(text, bytes, ", behind %s #%llu on group %s", weft__kind_name(other->op.kind),
                 (unsigned long long)other->sequence, other->group->label);
    if (!other->asked_ns) return;
    look_again(other);
    for (int i = 0; i < other->group->size; i++) {
        if (has_joined(other, i)) continue;
        missing_text(other, i, text + n, bytes - (size_t)n);
        return;
    }
}

/* All have submitted it: those that are least far. */
static size_t phases_text(const weft_request *req, char *text, size_t bytes, size_t at)
{
    const weft_group *group = req->group;
    weft__phase least = WEFT__PHASE_OVER;
    char who[192], behind[500], line[800];
    for (int i = 0; i < group->size; i++)
        if (is_less_far(phase_of(req, i), least)) least = phase_of(req, i);
    for (int i = 0; i < group->size; i++) {
        if (phase_of(req, i) != least) continue;
        weft__peer_name(group->ctx, group->world[i], who, sizeof who);
        *behind = 0;
        if (i == group->rank && least == WEFT__PHASE_ORDERING) behind_text(req, behind, sizeof behind);
        snprintf(line, sizeof line, "; %s %s%s", who, phase_text(least), behind);
        at = straggler_add(text, bytes, at, line);
    }
    return at;
}

/* One that has not joined, as far as this rank knows. */
static void missing_text(const weft_request *req, int member, char *text, size_t bytes)
{
    const weft_group *group = req->group;
    char who[192], last[128] = "";
    bool known = has_answered(req, member);
    weft__peer_name(group->ctx, group->world[member], who, sizeof who);
    if (known) last_text(&group->reports[member], last, sizeof last);
    snprintf(text, bytes, "; %s %s%s", who, known ? "has not joined" : "has not answered", last);
}

static size_t collective_text(const weft_request *req, char *text, size_t bytes, size_t at)
{
    const weft_group *group = req->group;
    char line[400];
    int missing = 0, named = 0, unnamed = 0, told = (int)weft__late_total(group);
    look_again(req);
    for (int i = 0; i < group->size; i++) {
        if (has_joined(req, i)) continue;
        if (group->reports[i].unnamed) {
            unnamed++;
            continue;
        }
        missing++;
        if (missing > named + 1) continue; /* there was no room for the one before */
        missing_text(req, i, line, sizeof line);
        if (named == NAMED_MOST || at + strlen(line) + MORE_BYTES > bytes) continue;
        at = straggler_add(text, bytes, at, line);
        named++;
    }
    if (told > missing) missing = told < missing + unnamed ? told : missing + unnamed;
    if (missing > named) {
        snprintf(line, sizeof line, "; and %d more", missing - named);
        at = straggler_add(text, bytes, at, line);
    }
    if (missing) return at;
    return req->executor->traits & WEFT__HAS_PHASES
               ? phases_text(req, text, bytes, at)
               : straggler_add(text, bytes, at, "; all ranks have joined, it was under way");
}

static size_t pair_text(const weft_request *req, char *text, size_t bytes, size_t at)
{
    char who[192], line[300];
    unsigned way = weft__kind_way(req->op.kind);
    if (req->executor->traits & WEFT__HAS_PHASES && req->executor->has_met(req)) {
        weft__peer_name(req->ctx, req->ctx->rank, who, sizeof who);
        snprintf(line, sizeof line, "; both sides are there; %s %s", who,
                 phase_text(req->executor->phase(req)));
        return straggler_add(text, bytes, at, line);
    }
    if (req->op.peer < 0) return straggler_add(text, bytes, at, "; no rank has sent a message that fits");
    weft__peer_name(req->ctx, req->group->world[req->op.peer], who, sizeof who);
    snprintf(line, sizeof line, "; %s has not %s", who,
             way == WEFT__SENDS       ? "received it"
             : way == WEFT__EXCHANGES ? "taken part"
                                      : "sent a message that fits");
    return straggler_add(text, bytes, at, line);
}

/* Somebody whose late answer is this rank's own doing; one is enough. */
static void want_text(const weft_request *req, char *text, size_t bytes, size_t at)
{
    const weft_group *group = req->group;
    const bool pair = weft__kind_traits(req->op.kind) & WEFT__PAIR;
    char line[300];
    for (int i = 0; i < group->size; i++) {
        const char *want = weft__peer_want(group->ctx, group->world[i]);
        if (!want || (pair && req->op.peer >= 0 && i != req->op.peer)) continue;
        snprintf(line, sizeof line, "; this rank (rank %d) has no connection to rank %d: %s",
                 group->ctx->rank, group->world[i], want);
        (void)straggler_add(text, bytes, at, line);
        return;
    }
}

void weft__straggler_text(const weft_request *req, int64_t now_ns, char *text, size_t bytes)
{
    char name[256];
    size_t at;
    WEFT__ASSERT(weft__holds_engine(req->ctx));
    weft__request_name(req, name, sizeof name);
    snprintf(text, bytes, "%s: %.1f s passed", name, (double)(now_ns - req->submitted_ns) / 1e9);
    at = strlen(text);
    if (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE)
        at = collective_text(req, text, bytes, at);
    else if (weft__kind_traits(req->op.kind) & WEFT__PAIR)
        at = pair_text(req, text, bytes, at);
    else
        return;
    want_text(req, text, bytes, at);
}

void weft__straggler_messages(const weft_group *group, int64_t now_ns, char *text, size_t bytes)
{
    const weft_request *oldest = NULL;
    char name[256];
    int n = 0;
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    WEFT__LIST_EACH(&group->ctx->pending, at)
    {
        const weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group != group || !(weft__kind_traits(req->op.kind) & WEFT__PAIR)) continue;
        if (!oldest) oldest = req;
        n++;
    }
    text[0] = 0;
    if (!oldest) return;
    weft__request_name(oldest, name, sizeof name);
    snprintf(text, bytes, "; %d message%s pending, the oldest is %s, %.1f s old", n, n == 1 ? " is" : "s are",
             name, (double)(now_ns - oldest->submitted_ns) / 1e9);
}

static void report_line(const weft_group *group, int i, char *line, size_t bytes)
{
    char who[192], last[128], own_messages[400] = "";
    const weft__report *r = &group->reports[i];
    const char *messages = r->messages ? r->messages : "";
    weft__report own = {.submitted = atomic_load(&group->row->submitted),
                        .kind = (uint8_t)atomic_load(&group->row->kind),
                        .ago_ns = weft__now_ns() - atomic_load(&group->row->at_ns)};
    weft__peer_name(group->ctx, group->world[i], who, sizeof who);
    if (weft__late_gone(group, i)) {
        weft__peer_fate(group->ctx, group->world[i], line, bytes - 1);
        memcpy(line + strlen(line), "\n", 2);
        return;
    }
    if (!answered(group, i)) {
        snprintf(line, bytes, "%s does not answer\n", who);
        return;
    }
    if (i == group->rank) {
        weft__straggler_messages(group, weft__now_ns(), own_messages, sizeof own_messages);
        messages = own_messages;
    }
    last_text(i == group->rank ? &own : r, last, sizeof last);
    snprintf(line, bytes, "%s%s%s\n", who, last, messages);
}

/* Asks all members and waits for their answers, up to REPORT_WAIT_NS. */
static void ask_and_wait(weft_group *group)
{
    weft_context *ctx = group->ctx;
    int64_t until = weft__now_ns() + REPORT_WAIT_NS;
    bool all = false;
    WEFT__ASSERT(!weft__holds_any_engine());
    weft__engine_take(ctx);
    ask_each(group, 0, true);
    weft__engine_drop(ctx);
    while (!all && weft__now_ns() < until) {
        struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
        weft__engine_take(ctx);
        all = true;
        for (int i = 0; i < group->size; i++) all = all && answered(group, i);
        weft__engine_drop(ctx);
    }
}

weft_status weft_group_report(weft_group *group, char *text, size_t bytes)
{
    size_t room, at = 0;
    weft_status status;
    char *whole;
    if (!group || !text || !bytes)
        return weft__fail(WEFT_ERR_ARGUMENT, "group_report: group or text is NULL, or bytes is 0");
    if ((status = weft__usable(group->ctx)) != WEFT_OK || (status = weft__group_usable(group)) != WEFT_OK)
        return status;
    if (weft__in_callback()) return weft__fail(WEFT_ERR_STATE, "group_report waits: not in a callback");
    room = (size_t)group->size * REPORT_LINE + 1;
    whole = malloc(room);
    if (!whole) return weft__fail_memory(room, "a report");
    ask_and_wait(group);
    weft__engine_take(group->ctx);
    for (int i = 0; i < group->size; i++) {
        char line[REPORT_LINE];
        report_line(group, i, line, sizeof line);
        at = straggler_add(whole, room, at, line);
    }
    weft__engine_drop(group->ctx);
    if (at < bytes)
        memcpy(text, whole, at + 1);
    else
        status = weft__fail(WEFT_ERR_TRUNCATED,
                            "group_report: the report has %zu bytes, there is room for %zu", at + 1, bytes);
    free(whole);
    return status;
}

/* ---- questions of other ranks, and their answers ---- */

/* How far this rank has come with that operation on device memory.  Engine held. */
static weft__phase phase_here(weft_group *group, uint64_t number)
{
    weft_context *ctx = group->ctx;
    weft__phase phase = WEFT__PHASE_OVER;
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        const weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->group == group && req->sequence == number && req->executor->traits & WEFT__HAS_PHASES &&
            (weft__kind_traits(req->op.kind) & WEFT__COLLECTIVE))
            phase = req->executor->phase(req);
    }
    return phase;
}

/* Engine held. */
static void answer_who(weft_context *ctx, int from, const weft__notice *notice)
{
    weft_group *group = weft__group_find(ctx, notice->group);
    weft__notice here = {.kind = WEFT__NOTICE_HERE, .group = notice->group};
    if (group) {
        const weft__row *row = group->row;
        here.knows = 1;
        here.asked = notice->asked;
        if (notice->asked) here.phase = (uint32_t)phase_here(group, notice->asked);
        here.number = atomic_load_explicit(&row->submitted, memory_order_acquire);
        here.operation = atomic_load_explicit(&row->kind, memory_order_relaxed);
        here.ago_ns = weft__now_ns() - atomic_load_explicit(&row->at_ns, memory_order_relaxed);
        here.messages = notice->messages;
        if (notice->messages) weft__straggler_messages(group, weft__now_ns(), here.text, sizeof here.text);
        weft__group_unref(group);
    }
    weft__late_tell(ctx, from, &here);
}

static void take_answer(weft_context *ctx, int from, const weft__notice *notice)
{
    weft_group *group = weft__group_find(ctx, notice->group);
    int member = group ? weft__group_member(group, from) : -1;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (member >= 0) {
        weft__report *r = &group->reports[member];
        r->answered_ns = weft__now_ns();
        r->submitted = notice->number;
        r->kind = (uint8_t)notice->operation;
        r->ago_ns = notice->ago_ns;
        r->knows = notice->knows;
        r->phase_of = notice->asked;
        r->phase = (uint8_t)notice->phase;
        if (notice->messages) {
            free(r->messages);
            r->messages = *notice->text ? strdup(notice->text) : NULL; /* no memory: untold */
        }
    }
    if (group) weft__group_unref(group);
}

static void take(weft_context *ctx, int from, const weft__notice *told)
{
    if (told->subject != WEFT__LATE_MEMBER) {
        weft_group *group = weft__group_find(ctx, told->group);
        weft__late_take(ctx, group, from, told);
        if (group) weft__group_unref(group);
    } else if (told->kind == WEFT__NOTICE_WHO)
        answer_who(ctx, from, told);
    else
        take_answer(ctx, from, told);
}

static void straggler_notice(weft_context *ctx, int from, const weft__notice *told)
{
    weft__engine_take(ctx);
    take(ctx, from, told);
    weft__engine_drop(ctx);
}

static void straggler_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    weft__notice told;
    (void)type;
    if (!weft__notice_read(ctx, peer, bytes, length, &told)) return;
    if (told.kind == WEFT__NOTICE_WHO || told.kind == WEFT__NOTICE_HERE)
        take(ctx, peer, &told);
    else
        weft__peer_refused(ctx, peer, "another notice in the place of who is late");
}

const weft__protocol weft__straggler_protocol = {.name = "who is late",
                                                 .first = WEFT__MESSAGE_LATE,
                                                 .last = WEFT__MESSAGE_LATE,
                                                 .message = straggler_message,
                                                 .first_notice = WEFT__NOTICE_WHO,
                                                 .last_notice = WEFT__NOTICE_HERE,
                                                 .notice = straggler_notice,
                                                 .group_broken = weft__late_end,
                                                 .group_retired = weft__late_forget};
