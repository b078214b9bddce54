/* sentence.c - writes verdicts and ends as sentences. */
#include "sentence.h"
#include "status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OP_BYTES = 160, RANKS_BYTES = 96, TIME_BYTES = 32 };

static void sentence_append(char *text, size_t bytes, const char *format, ...) WEFT__PRINTF(3, 4);

static void sentence_append(char *text, size_t bytes, const char *format, ...)
{
    size_t length = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + length, bytes - length, format, args);
    va_end(args);
}

void weft__time_text(int64_t ns, char *text, size_t bytes)
{
    const double s = (double)ns / 1e9;
    const int64_t minutes = ns / INT64_C(60000000000);
    if (ns < 1000)
        snprintf(text, bytes, "%" PRId64 " ns", ns);
    else if (s < 1e-3)
        snprintf(text, bytes, "%.0f us", s * 1e6);
    else if (s < 1)
        snprintf(text, bytes, "%.0f ms", s * 1e3);
    else if (s < 120)
        snprintf(text, bytes, "%.1f s", s);
    else if (minutes < 120)
        snprintf(text, bytes, "%" PRId64 " min %" PRId64 " s", minutes, ns / 1000000000 % 60);
    else
        snprintf(text, bytes, "%" PRId64 " h %" PRId64 " min", minutes / 60, minutes % 60);
}

/* Ranks that follow on each other are one entry. */
void weft__ranks_text(const int *ranks, size_t count, char *text, size_t bytes)
{
    char entry[48];
    *text = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && ranks[end] == ranks[end - 1] + 1;) end++;
        if (end - i > 2)
            snprintf(entry, sizeof entry, "%d-%d", ranks[i], ranks[end - 1]);
        else
            snprintf(entry, sizeof entry, "%d", ranks[end = i, end++]);
        if (strlen(text) + (i ? 2 : 0) + strlen(entry) + sizeof ", ..." > bytes) {
            sentence_append(text, bytes, i ? ", ..." : "...");
            return;
        }
        sentence_append(text, bytes, "%s%s", i ? ", " : "", entry);
    }
}

void weft__recorded_group_text(const weft__snapshot *shot, uint64_t id, char *text, size_t bytes)
{
    const weft__group_record *group = weft__recorded_group_of(shot, id);
    if (!group)
        snprintf(text, bytes, "a group that is not kept");
    else if (*group->label)
        snprintf(text, bytes, "%s", group->label);
    else if (group->size == shot->world)
        snprintf(text, bytes, "world");
    else
        snprintf(text, bytes, "a group of %d", group->size);
}

/* ", tag 9", and whom it is to or from. */
static void message_text(const weft__snapshot *shot, const weft__recorded_op *op, char *text, size_t bytes)
{
    const weft__group_record *group = weft__recorded_group_of(shot, op->group);
    weft__sort sort = weft__sort_of(shot, op);
    int rank = group && op->whom >= 0 ? weft__recorded_member(shot, group, op->whom) : -1;
    sentence_append(text, bytes, "%s",
                    sort == WEFT__SORT_SEND      ? " to"
                    : sort == WEFT__SORT_RECEIVE ? " from"
                                                 : " with");
    if (op->whom < 0)
        sentence_append(text, bytes, " any rank");
    else if (rank >= 0)
        sentence_append(text, bytes, " rank %d", rank);
    else
        sentence_append(text, bytes, " member %d", op->whom);
    if (op->tag >= 0)
        sentence_append(text, bytes, ", tag %d", op->tag);
    else
        sentence_append(text, bytes, ", any tag");
}

void weft__recorded_op_text(const weft__snapshot *shot, const weft__recorded_op *op, char *text, size_t bytes)
{
    weft__sort sort = weft__sort_of(shot, op);
    char group[65];
    snprintf(text, bytes, "%s", weft__recorded_kind(shot, op->kind));
    if (sort == WEFT__SORT_COLLECTIVE) sentence_append(text, bytes, " %" PRIu64, op->number);
    if (sort == WEFT__SORT_SEND || sort == WEFT__SORT_RECEIVE || sort == WEFT__SORT_EXCHANGE)
        message_text(shot, op, text, bytes);
    if (*op->label) sentence_append(text, bytes, " \"%s\"", op->label);
    weft__recorded_group_text(shot, op->group, group, sizeof group);
    sentence_append(text, bytes, " of %s", group);
    if (op->phase && op->state < WEFT__RECORDED_OP_SETTLED)
        sentence_append(text, bytes, " (%s)", weft__recorded_phase_name(op->phase));
}

/* ---- verdicts ---- */

static void name(const weft__blame *blame, int rank, char *text, size_t bytes)
{
    const weft__node *node = weft__blame_node(blame, rank);
    sentence_append(text, bytes, node ? "rank %d (pid %" PRId64 ")" : "rank %d", rank,
                    node ? node->shot->pid : 0);
}

/* since_ns 0: how long is not known. */
static void conduct_text(const weft__blame *blame, const weft__finding *v, char *text, size_t bytes)
{
    static const struct {
        const char *what, *then, *before, *behind; /* with a time, and before and behind it */
    } words[WEFT__CONDUCT_KINDS] = {
        [WEFT__CONDUCT_DEAD] = {" is dead", " was dead", ", last heard of ", " ago"},
        [WEFT__CONDUCT_STOPPED] = {" is stopped by a signal", " was stopped", ", last heard of ", " ago"},
        [WEFT__CONDUCT_LEFT] = {" has left the job", " had left the job", ", ", " ago"},
        [WEFT__CONDUCT_CALLBACK] = {" is in a callback", " was in a callback",
                                    ", which has not returned for ", ""},
        [WEFT__CONDUCT_MODULE] = {" is in a call of a module", " was in a call of a module",
                                  ", which has not returned for ", ""},
        [WEFT__CONDUCT_LEAVING] = {" is leaving the job", " was leaving the job", ", for ", ""},
        [WEFT__CONDUCT_OWN] = {" is in its own code", " was in its own code", " for ", ""},
        [WEFT__CONDUCT_RUNNING] = {" is in its own code", " was in its own code", " for ", ""},
        [WEFT__CONDUCT_UNSEEN] = {" has no record here: it runs on another host, or keeps none",
                                  " left no record here: it ran on another host, or kept none", "", ""},
        [WEFT__CONDUCT_WAITING] = {" does not go on, though all have come to what it is in",
                                   " did not go on, though all had come to what it was in", ", for ", ""},
    };
    char time[TIME_BYTES];
    sentence_append(text, bytes, "%s", blame->frozen ? words[v->conduct].then : words[v->conduct].what);
    if (v->since_ns <= 0) return;
    weft__time_text(weft__recorded_ago(blame->now_ns, v->since_ns), time, sizeof time);
    sentence_append(text, bytes, "%s%s%s", words[v->conduct].before, time, words[v->conduct].behind);
}

/* "ranks 0, 1": as they are told from there on. */
static void ranks(const weft__blame *blame, size_t first, size_t count, char *text, size_t bytes)
{
    char list[RANKS_BYTES];
    weft__ranks_text(blame->told.ranks + first, count, list, sizeof list);
    sentence_append(text, bytes, "rank%s %s", count > 1 ? "s" : "", list);
}

/* What the one is in that waits longest. */
static void waited_in(const weft__blame *blame, int rank, char *text, size_t bytes)
{
    const weft__node *node = rank < 0 ? NULL : weft__blame_node(blame, rank);
    char op[OP_BYTES], time[TIME_BYTES];
    if (!node || !node->is.op) return;
    weft__recorded_op_text(node->shot, node->is.op, op, sizeof op);
    weft__time_text(node->waited_ns, time, sizeof time);
    sentence_append(text, bytes, " in %s, for %s", op, time);
}

static const char *wait(const weft__blame *blame, size_t count)
{
    return blame->frozen ? "waited" : count > 1 ? "wait" : "waits";
}

static void deadlock_text(const weft__blame *blame, const weft__finding *v, char *text, size_t bytes)
{
    sentence_append(text, bytes, "deadlock: ");
    for (size_t i = 0; i < v->count; i++) {
        int next = i + 1 < v->count ? blame->told.ranks[v->first + i + 1] : v->rank;
        sentence_append(text, bytes, "%s", i ? "; " : "");
        name(blame, blame->told.ranks[v->first + i], text, bytes);
        sentence_append(text, bytes, " %s for ", wait(blame, 1));
        sentence_append(text, bytes, v->count > 1 ? "rank %d" : "itself", next);
        waited_in(blame, blame->told.ranks[v->first + i], text, bytes);
    }
}

/* The waiter that stands for all: the direct one that has waited longest. */
static int speaker(const weft__blame *blame, const weft__finding *v)
{
    const weft__node *best = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const weft__node *node = weft__blame_node(blame, blame->told.ranks[v->first + i]);
        if (node && (!best || node->waited_ns > best->waited_ns)) best = node;
    }
    return best ? best->rank : -1;
}

static void waiters_text(const weft__blame *blame, const weft__finding *v, char *text, size_t bytes)
{
    int who = speaker(blame, v);
    const weft__node *node = who < 0 ? NULL : weft__blame_node(blame, who);
    sentence_append(text, bytes, "; ");
    ranks(blame, v->first, v->count, text, bytes);
    sentence_append(text, bytes, " %s for it%s", wait(blame, v->count),
                    node && node->some ? ", among others," : "");
    waited_in(blame, who, text, bytes);
}

/* What it did last, or is in. */
static void detail(const weft__node *node, char *text, size_t bytes)
{
    char op[OP_BYTES];
    const weft__recorded_op *in = node->is.op, *was = node->is.was;
    if (node->is.called) {
        weft__recorded_op_text(node->shot, node->is.called, op, sizeof op);
        sentence_append(text, bytes, ", of %s", op);
    } else if (in) {
        weft__recorded_op_text(node->shot, in, op, sizeof op);
        if (node->is.inflight > 1)
            sentence_append(text, bytes, ", with %zu operations in flight, the oldest %s", node->is.inflight,
                            op);
        else
            sentence_append(text, bytes, ", with %s in flight", op);
    } else if (was) {
        weft__recorded_op_text(node->shot, was, op, sizeof op);
        sentence_append(text, bytes, ", after %s", op);
    }
}

void weft__finding_text(const weft__blame *blame, const weft__finding *v, char *text, size_t bytes)
{
    const weft__node *node = weft__blame_node(blame, v->rank);
    *text = 0;
    if (v->deadlock) {
        deadlock_text(blame, v, text, bytes);
    } else if (v->together) {
        ranks(blame, v->first, v->count, text, bytes);
        sentence_append(text, bytes, " %s", wait(blame, v->count));
        waited_in(blame, v->waiter, text, bytes);
        sentence_append(text, bytes,
                        blame->frozen ? ": all that it needs had come" : ": all that it needs have come");
    } else {
        name(blame, v->rank, text, bytes);
        conduct_text(blame, v, text, bytes);
        if (node) detail(node, text, bytes);
        if (v->count) waiters_text(blame, v, text, bytes);
    }
    if (!v->more) return;
    sentence_append(text, bytes, "; for %s in turn ", v->deadlock ? "these" : "those");
    ranks(blame, v->first + v->count, v->more, text, bytes);
    sentence_append(text, bytes, " %s", wait(blame, v->more));
}

void weft__ending_text(const weft__blame *blame, const weft__node *node, char *text, size_t bytes)
{
    const weft__rank_ending *e = &blame->endings[node - blame->nodes];
    *text = 0;
    if (e->end == WEFT__END_LIVES) return;
    name(blame, node->rank, text, bytes);
    switch (e->end) {
    case WEFT__END_LEFT: sentence_append(text, bytes, " left in order"); break;
    case WEFT__END_FAILED:
        sentence_append(text, bytes, " left with %s",
                        e->status == WEFT_OK ? "an operation given up" : weft_status_name(e->status));
        break;
    case WEFT__END_DIED: sentence_append(text, bytes, " died: rank %d saw it first", e->by); break;
    default: sentence_append(text, bytes, " was gone, and no other rank has told of it"); break;
    }
    if (*e->why && (strstr(e->why, "killed") || !strstr(e->why, "has died"))) /* more than that */
        sentence_append(text, bytes, " (%s)", e->why);
}
