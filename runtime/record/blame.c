/* blame.c - follows the waits of ranks: circles first, then from each rank that waits for nobody back to all
 * that wait for it.  Of several ends of one chain the worst counts: a dead rank before one that computes. */
#include "blame.h"
#include "status.h"
#include "waits.h"

#include <stdlib.h>
#include <string.h>

#define LONG_NS INT64_C(1000000000) /* worth a word, though nobody waits, or all have come */

/* ---- the nodes ---- */

static int by_rank(const void *a, const void *b)
{
    const weft__witness *left = a, *right = b;
    return left->shot->rank < right->shot->rank ? -1 : left->shot->rank > right->shot->rank;
}

/* Is it as it was at that moment, or had it gone before? */
static bool is_frozen(const weft__blame *blame, size_t i)
{
    return blame->frozen &&
           !(blame->endings[i].end == WEFT__END_DIED && blame->endings[i].at_ns < blame->now_ns);
}

/* Had others seen that this rank, which is gone like all, was stopped after it was last heard of? */
static bool was_seen_stopped(const weft__blame *blame, const weft__witness *sorted, const weft__node *node)
{
    for (size_t i = 0; i < blame->count; i++)
        for (size_t e = 0; e < sorted[i].shot->event_count; e++) {
            const weft__recorded_event *event = &sorted[i].shot->events[e];
            if (event->what == WEFT__HAPPENED_RANK_STOPPED && event->rank == node->rank &&
                event->at_ns > node->is.sign_ns && event->at_ns <= blame->now_ns)
                return true;
        }
    return false;
}

static void blame_fill(weft__blame *blame, const weft__witness *sorted)
{
    for (size_t i = 0; i < blame->count; i++) {
        weft__node *node = &blame->nodes[i];
        node->rank = sorted[i].shot->rank;
        node->shot = sorted[i].shot;
        node->process = sorted[i].process;
        node->root = -1;
        node->is = weft__doing_of(&sorted[i], is_frozen(blame, i), blame->now_ns);
        if (is_frozen(blame, i) && was_seen_stopped(blame, sorted, node)) {
            node->is.conduct = WEFT__CONDUCT_STOPPED;
            node->is.since_ns = node->is.sign_ns;
        }
        if (node->is.op) node->group = weft__recorded_group_of(node->shot, node->is.op->group);
        if (node->is.conduct == WEFT__CONDUCT_WAITING)
            node->waited_ns = weft__recorded_ago(blame->now_ns, node->is.since_ns);
    }
}

/* Sorted by rank, and of two of one rank the first. */
static weft__witness *sort(const weft__witness *witnesses, size_t *count)
{
    weft__witness *sorted = malloc((*count ? *count : 1) * sizeof *sorted);
    size_t n = 0;
    if (!sorted) return NULL;
    memcpy(sorted, witnesses, *count * sizeof *sorted);
    qsort(sorted, *count, sizeof *sorted, by_rank);
    for (size_t i = 0; i < *count; i++)
        if (!n || sorted[n - 1].shot->rank != sorted[i].shot->rank) sorted[n++] = sorted[i];
    *count = n;
    return sorted;
}

static bool make_nodes(const weft__witness *witnesses, size_t count, int64_t now_ns, weft__blame *blame)
{
    weft__witness *sorted = sort(witnesses, &count);
    if (!sorted) return false;
    blame->nodes = calloc(count ? count : 1, sizeof *blame->nodes);
    blame->endings = calloc(count ? count : 1, sizeof *blame->endings);
    blame->verdicts = calloc(2 * count + 1, sizeof *blame->verdicts);
    if (blame->nodes && blame->endings && blame->verdicts) {
        blame->count = count;
        blame->now_ns = now_ns;
        blame->frozen = count;
        for (size_t i = 0; i < count; i++)
            if (sorted[i].process != WEFT__PROCESS_GONE) blame->frozen = false;
        if (blame->frozen) now_ns = INT64_MAX; /* its clock may have been another host's */
        weft__endings_of(sorted, count, now_ns, blame->endings);
        if (blame->frozen) blame->now_ns = weft__last_well(sorted, blame->endings, count, now_ns);
        blame_fill(blame, sorted);
    }
    free(sorted);
    return blame->nodes && blame->endings && blame->verdicts;
}

/* ---- circles ---- */

typedef struct walk {
    size_t *path, *next; /* nodes, and of each how many of its waits have been followed */
    unsigned char *seen; /* 1: on the path; 2: done */
    size_t length;
} walk;

static bool waits_for_all(const weft__node *node, int64_t least_ns)
{
    return node && node->is.conduct == WEFT__CONDUCT_WAITING && !node->some && node->count &&
           node->waited_ns >= least_ns;
}

static bool judge_circle(weft__blame *blame, const walk *w, size_t from)
{
    weft__finding *v = &blame->verdicts[blame->verdict_count];
    *v = (weft__finding){.deadlock = true,
                         .conduct = WEFT__CONDUCT_WAITING,
                         .first = blame->told.count,
                         .rank = blame->nodes[w->path[from]].rank,
                         .waiter = -1};
    for (size_t i = from; i < w->length; i++)
        if (blame->nodes[w->path[i]].circles) return true; /* that one is told already */
    blame->verdict_count++;
    for (size_t i = from; i < w->length; i++) {
        weft__node *node = &blame->nodes[w->path[i]];
        node->circles = true;
        node->root = v->rank;
        v->count++;
        if (v->waiter < 0 || node->waited_ns > v->longest_ns) {
            v->longest_ns = node->waited_ns;
            v->waiter = node->rank;
        }
        if (!weft__rank_list_add(&blame->told, node->rank)) return false;
    }
    return true;
}

/* Follows one wait of the last node of the path. */
static bool step(weft__blame *blame, walk *w, int64_t least_ns)
{
    size_t at = w->path[w->length - 1], to, from = 0;
    const weft__node *node = &blame->nodes[at], *next;
    if (w->next[at] == node->count) {
        w->seen[at] = 2;
        w->length--;
        return true;
    }
    next = weft__blame_node(blame, blame->waits.ranks[node->first + w->next[at]++]);
    if (!waits_for_all(next, least_ns)) return true;
    to = (size_t)(next - blame->nodes);
    if (w->seen[to] == 1) {
        while (w->path[from] != to) from++;
        return judge_circle(blame, w, from);
    }
    if (!w->seen[to]) {
        w->seen[to] = 1;
        w->path[w->length++] = to;
    }
    return true;
}

static bool find_circles(weft__blame *blame, int64_t least_ns)
{
    size_t n = blame->count ? blame->count : 1;
    walk w = {calloc(n, sizeof *w.path), calloc(n, sizeof *w.next), calloc(n, 1), 0};
    bool done = w.path && w.next && w.seen;
    for (size_t i = 0; i < blame->count && done; i++) {
        if (w.seen[i] || !waits_for_all(&blame->nodes[i], least_ns)) continue;
        w.seen[i] = 1;
        w.path[w.length++] = i;
        while (w.length && done) done = step(blame, &w, least_ns);
    }
    free(w.path);
    free(w.next);
    free(w.seen);
    return done;
}

/* ---- the ends of chains ---- */

static bool ends_a_chain(const weft__node *node)
{
    return node->is.conduct != WEFT__CONDUCT_WAITING || !node->count;
}

static bool waits_for(const weft__blame *blame, const weft__node *node, int rank)
{
    for (size_t i = 0; i < node->count; i++)
        if (blame->waits.ranks[node->first + i] == rank) return true;
    return false;
}

/* The root of one that it waits for and that has that conduct, or whose root has; -1: none. */
static int root_through(const weft__blame *blame, const weft__node *node, weft__conduct conduct, bool circle)
{
    for (size_t i = 0; i < node->count; i++) {
        int rank = blame->waits.ranks[node->first + i];
        const weft__node *next = weft__blame_node(blame, rank), *root;
        if (!next) {
            if (conduct == WEFT__CONDUCT_UNSEEN) return rank;
            continue;
        }
        if (circle ? next->circles : ends_a_chain(next) && next->is.conduct == conduct)
            return circle ? next->root : rank;
        if (ends_a_chain(next) || next->root < 0) continue;
        root = weft__blame_node(blame, next->root);
        if (circle  ? root && root->circles
            : !root ? conduct == WEFT__CONDUCT_UNSEEN
                    : root->is.conduct == conduct && !root->circles)
            return next->root;
    }
    return -1;
}

static void find_roots_of(weft__blame *blame, weft__conduct conduct, bool circle)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < blame->count; i++) {
            weft__node *node = &blame->nodes[i];
            if (ends_a_chain(node) || node->root >= 0) continue;
            node->root = root_through(blame, node, conduct, circle);
            more |= node->root >= 0;
        }
    }
}

static void find_roots(weft__blame *blame)
{
    find_roots_of(blame, WEFT__CONDUCT_WAITING, true);
    for (int conduct = 0; conduct < WEFT__CONDUCT_KINDS; conduct++)
        find_roots_of(blame, (weft__conduct)conduct, false);
}

/* ---- verdicts ---- */

/* Those whose chain ends there: first those who wait for it themselves. */
static bool tell_waiters(weft__blame *blame, weft__finding *v)
{
    v->first = v->deadlock ? v->first : blame->told.count;
    for (int direct = 1; direct >= 0; direct--)
        for (size_t i = 0; i < blame->count; i++) {
            const weft__node *node = &blame->nodes[i];
            if (node->root != v->rank || node->circles || ends_a_chain(node)) continue;
            if ((!v->deadlock && waits_for(blame, node, v->rank)) != direct) continue;
            if (!weft__rank_list_add(&blame->told, node->rank)) return false;
            *(direct ? &v->count : &v->more) += 1;
            if (v->waiter >= 0 && node->waited_ns <= v->longest_ns) continue;
            v->longest_ns = node->waited_ns;
            v->waiter = node->rank;
        }
    return true;
}

static bool is_worth_it(const weft__finding *v, int64_t now_ns, int64_t least_ns)
{
    bool waited = v->count && v->longest_ns >= least_ns,
         lasts = weft__recorded_ago(now_ns, v->since_ns) >= LONG_NS;
    switch (v->conduct) {
    case WEFT__CONDUCT_DEAD:
    case WEFT__CONDUCT_STOPPED: return true;
    case WEFT__CONDUCT_CALLBACK:
    case WEFT__CONDUCT_MODULE: return waited || lasts;
    default: return waited;
    }
}

static bool judge(weft__blame *blame, weft__conduct conduct, int rank, int64_t since_ns, int64_t least_ns)
{
    weft__finding *v = &blame->verdicts[blame->verdict_count];
    *v = (weft__finding){.conduct = conduct, .rank = rank, .since_ns = since_ns, .waiter = -1};
    if (!tell_waiters(blame, v)) return false;
    if (is_worth_it(v, blame->now_ns, least_ns))
        blame->verdict_count++;
    else
        blame->told.count = v->first;
    return true;
}

static bool in_one(const weft__node *a, const weft__node *b)
{
    return a->is.op->group == b->is.op->group && a->is.op->number == b->is.op->number;
}

/* All have come to what that one is in, and yet it lasts. */
static bool judge_arrived(weft__blame *blame, size_t first)
{
    const weft__node *node = &blame->nodes[first];
    weft__finding *v = &blame->verdicts[blame->verdict_count];
    if (!node->arrived || node->waited_ns < LONG_NS) return true;
    *v = (weft__finding){.together = true,
                         .conduct = WEFT__CONDUCT_WAITING,
                         .rank = node->rank,
                         .first = blame->told.count,
                         .since_ns = node->is.since_ns,
                         .longest_ns = node->waited_ns,
                         .waiter = node->rank};
    for (size_t i = 0; i < blame->count; i++) {
        const weft__node *other = &blame->nodes[i];
        if (other->is.conduct != WEFT__CONDUCT_WAITING || !other->arrived || !in_one(node, other)) continue;
        if (i < first) return true; /* told with that one */
        if (!weft__rank_list_add(&blame->told, other->rank)) return false;
        v->count++;
    }
    blame->verdict_count++;
    return true;
}

/* Others are further than that, and wait for one that is held up in it. */
static bool judge_waiting(weft__blame *blame, size_t at, int64_t least_ns)
{
    const weft__node *node = &blame->nodes[at];
    size_t before = blame->verdict_count;
    if (node->arrived && !judge(blame, WEFT__CONDUCT_WAITING, node->rank, node->is.since_ns, least_ns))
        return false;
    return blame->verdict_count > before || judge_arrived(blame, at);
}

/* A rank that cannot be seen, for which somebody waits; each once. */
static bool judge_unseen(weft__blame *blame, size_t at, int64_t least_ns)
{
    int rank = blame->nodes[at].root;
    if (rank < 0 || weft__blame_node(blame, rank)) return true;
    for (size_t i = 0; i < at; i++)
        if (blame->nodes[i].root == rank) return true;
    return judge(blame, WEFT__CONDUCT_UNSEEN, rank, 0, least_ns);
}

static int the_worse(const void *a, const void *b)
{
    const weft__finding *left = a, *right = b;
    if (left->deadlock != right->deadlock) return left->deadlock ? -1 : 1;
    if (left->conduct != right->conduct) return left->conduct < right->conduct ? -1 : 1;
    if (left->longest_ns != right->longest_ns) return left->longest_ns > right->longest_ns ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static bool judge_all(weft__blame *blame, int64_t least_ns)
{
    size_t circles = blame->verdict_count;
    bool done = true;
    for (size_t i = 0; i < circles && done; i++) {
        weft__finding *v = &blame->verdicts[i];
        size_t ranks = v->count, first = blame->told.count;
        for (size_t r = 0; r < ranks && done; r++) /* what is told of one lies side by side */
            done = weft__rank_list_add(&blame->told, blame->told.ranks[v->first + r]);
        v->first = first;
        done = done && tell_waiters(blame, v);
    }
    for (size_t i = 0; i < blame->count && done; i++) {
        const weft__node *node = &blame->nodes[i];
        if (node->is.conduct != WEFT__CONDUCT_WAITING)
            done = judge(blame, node->is.conduct, node->rank, node->is.since_ns, least_ns);
        else
            done = judge_waiting(blame, i, least_ns) && judge_unseen(blame, i, least_ns);
    }
    if (blame->verdict_count)
        qsort(blame->verdicts, blame->verdict_count, sizeof *blame->verdicts, the_worse);
    return done;
}

weft_status weft__blame_make(const weft__witness *witnesses, size_t count, int64_t now_ns, int64_t least_ns,
                             weft__blame *blame)
{
    memset(blame, 0, sizeof *blame);
    if (make_nodes(witnesses, count, now_ns, blame) && weft__waits_find(blame) &&
        find_circles(blame, least_ns)) {
        find_roots(blame);
        if (judge_all(blame, least_ns)) return WEFT_OK;
    }
    weft__blame_free(blame);
    return weft__fail_memory(count * sizeof *blame->nodes, "who waits for whom");
}

void weft__blame_free(weft__blame *blame)
{
    free(blame->nodes);
    free(blame->endings);
    free(blame->verdicts);
    free(blame->waits.ranks);
    free(blame->told.ranks);
    memset(blame, 0, sizeof *blame);
}
