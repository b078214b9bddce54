/* waits.c - finds the ranks that have not done their part of an operation, from their own records.
 *
 * A collective: members whose records have none of its number or a later one in that group.  If all have
 * come, then those that have stopped, died or given up in the midst of it.  A message: the other end, unless
 * that is at it as well. Where the records of all that can be seen are in order, a rank that cannot be seen
 * is named. */
#include "waits.h"
#include "check.h"

#include <stdlib.h>

#define MEMBERS_MOST 65536 /* that are read, whatever a record says that there are */

bool weft__rank_list_add(weft__rank_list *list, int rank)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        int *more = realloc(list->ranks, room * sizeof *more);
        if (!more) return false;
        list->ranks = more;
        list->room = room;
    }
    list->ranks[list->count++] = rank;
    return true;
}

static bool waits_add(weft__blame *blame, weft__node *node, int rank)
{
    if (!weft__rank_list_add(&blame->waits, rank)) return false;
    node->count++;
    return true;
}

static int64_t until(const weft__blame *blame)
{
    return blame->frozen ? blame->now_ns : INT64_MAX;
}

static bool is_gone(const weft__node *node)
{
    return node->is.conduct == WEFT__CONDUCT_DEAD || node->is.conduct == WEFT__CONDUCT_LEFT;
}

/* ---- collectives ---- */

typedef enum begun { BEGUN_NOT, BEGUN_UNKNOWN, BEGUN, BEGUN_STUCK } begun;

/* How far that member is with the collective. */
static begun begun_of(const weft__blame *blame, const weft__node *node, const weft__recorded_op *sought)
{
    const weft__snapshot *shot = node->shot;
    const weft__recorded_op *same = NULL;
    begun answer = BEGUN_NOT;
    bool group_seen = false;
    for (size_t i = 0; i < shot->op_count; i++) {
        const weft__recorded_op *op = &shot->ops[i];
        if (op->group != sought->group || op->submitted_ns > until(blame) ||
            weft__sort_of(shot, op) != WEFT__SORT_COLLECTIVE)
            continue;
        group_seen = true;
        if (op->number >= sought->number) answer = BEGUN;
        if (op->number == sought->number) same = op;
    }
    if (!group_seen && shot->lapped) return BEGUN_UNKNOWN;
    if (!same) return answer;
    if (weft__recorded_over(same, until(blame))) return same->status == WEFT_OK ? BEGUN : BEGUN_STUCK;
    return is_gone(node) || node->is.conduct == WEFT__CONDUCT_STOPPED ? BEGUN_STUCK : BEGUN;
}

static int other_member(const weft__node *node, int at)
{
    int rank = weft__recorded_member(node->shot, node->group, at);
    return rank == node->rank ? -1 : rank;
}

/* Adds the members that are that far; counts those that cannot be seen. */
static bool add_those(weft__blame *blame, weft__node *node, begun which, int *unseen)
{
    int size = node->group->size < MEMBERS_MOST ? node->group->size : MEMBERS_MOST;
    *unseen = -1;
    for (int m = 0; m < size; m++) {
        int rank = other_member(node, m);
        const weft__node *other = rank < 0 ? NULL : weft__blame_node(blame, rank);
        if (rank >= 0 && !other && *unseen < 0) *unseen = rank;
        if (other && begun_of(blame, other, node->is.op) == which && !waits_add(blame, node, rank))
            return false;
    }
    return true;
}

static bool goes_on(const weft__node *node)
{
    return node->is.conduct == WEFT__CONDUCT_WAITING || node->is.conduct == WEFT__CONDUCT_RUNNING;
}

/* One that is in the same collective waits for the same ranks. */
static bool take_from_earlier(const weft__blame *blame, weft__node *node)
{
    for (const weft__node *other = blame->nodes; other < node; other++) {
        const weft__recorded_op *op = other->is.op;
        if (!op || !other->group || !goes_on(other) || op->group != node->is.op->group ||
            op->number != node->is.op->number || weft__sort_of(other->shot, op) != WEFT__SORT_COLLECTIVE ||
            other->is.one_of || (!other->count && !other->arrived))
            continue;
        node->first = other->first;
        node->count = other->count;
        node->some |= other->some;
        node->arrived = other->arrived;
        return true;
    }
    return false;
}

static bool collective(weft__blame *blame, weft__node *node)
{
    static const begun steps[] = {BEGUN_NOT, BEGUN_STUCK, BEGUN_UNKNOWN};
    int unseen = -1, last;
    if (take_from_earlier(blame, node)) return true;
    for (size_t i = 0; i < WEFT__LENGTH(steps) && !node->count; i++) {
        if (steps[i] == BEGUN_UNKNOWN && unseen < 0) break; /* it has long been over there */
        if (!add_those(blame, node, steps[i], &unseen)) return false;
        if (steps[i] == BEGUN_UNKNOWN) node->some = true;
    }
    if (node->count) return true;
    last = node->is.op->awaited >= 0 ? other_member(node, node->is.op->awaited) : -1;
    if (last >= 0 && !weft__blame_node(blame, last)) return waits_add(blame, node, last);
    if (unseen >= 0) {
        node->some = true;
        return waits_add(blame, node, unseen);
    }
    node->arrived = true;
    return true;
}

/* ---- messages ---- */

static bool meets(weft__sort mine, weft__sort theirs)
{
    if (mine == WEFT__SORT_EXCHANGE || theirs == WEFT__SORT_EXCHANGE) return true;
    return mine != theirs;
}

static bool is_p2p(weft__sort sort)
{
    return sort == WEFT__SORT_SEND || sort == WEFT__SORT_RECEIVE || sort == WEFT__SORT_EXCHANGE;
}

/* Is the other end at it as well? */
static bool has_counterpart(const weft__blame *blame, const weft__node *node, const weft__node *peer)
{
    const weft__recorded_op *own = node->is.op;
    weft__sort sort = weft__sort_of(node->shot, own);
    for (size_t i = 0; i < peer->shot->op_count; i++) {
        const weft__recorded_op *op = &peer->shot->ops[i];
        weft__sort theirs = weft__sort_of(peer->shot, op);
        if (op->group != own->group || op->tag != own->tag || op->submitted_ns > until(blame) ||
            weft__recorded_over(op, until(blame)) || !is_p2p(theirs) || !meets(sort, theirs))
            continue;
        if (op->whom == node->group->rank || op->whom < 0) return true;
    }
    return false;
}

static bool message(weft__blame *blame, weft__node *node)
{
    int size = node->group->size < MEMBERS_MOST ? node->group->size : MEMBERS_MOST, rank;
    const weft__node *peer;
    if (node->is.op->whom < 0) { /* from anybody */
        node->some = true;
        for (int m = 0; m < size; m++)
            if ((rank = other_member(node, m)) >= 0 && !waits_add(blame, node, rank)) return false;
        return true;
    }
    rank = weft__recorded_member(node->shot, node->group, node->is.op->whom);
    if (rank < 0) return true;
    peer = weft__blame_node(blame, rank);
    node->arrived = peer && peer != node && !is_gone(peer) && peer->is.conduct != WEFT__CONDUCT_STOPPED &&
                    has_counterpart(blame, node, peer);
    return node->arrived || waits_add(blame, node, rank);
}

/* ---- the making of a group ---- */

static bool forms(const weft__blame *blame, const weft__node *node, const weft__recorded_op *sought)
{
    for (size_t i = 0; i < node->shot->op_count; i++) {
        const weft__recorded_op *op = &node->shot->ops[i];
        if (op->group == sought->group && weft__sort_of(node->shot, op) == WEFT__SORT_FORMING &&
            op->submitted_ns <= until(blame) && !weft__recorded_over(op, until(blame)))
            return true;
    }
    return false;
}

/* Which members of the old group the new one is to have is not recorded. */
static bool forming(weft__blame *blame, weft__node *node)
{
    int size = node->group->size < MEMBERS_MOST ? node->group->size : MEMBERS_MOST;
    node->some = true;
    for (int m = 0; m < size; m++) {
        int rank = other_member(node, m);
        const weft__node *other = rank < 0 ? NULL : weft__blame_node(blame, rank);
        if (rank < 0 || (other && forms(blame, other, node->is.op))) continue;
        if (!waits_add(blame, node, rank)) return false;
    }
    return true;
}

bool weft__waits_find(weft__blame *blame)
{
    for (size_t i = 0; i < blame->count; i++) {
        weft__node *node = &blame->nodes[i];
        weft__sort sort;
        bool done = true;
        node->first = blame->waits.count;
        if (!node->is.op || !node->group || !goes_on(node)) continue;
        node->some = node->is.one_of;
        sort = weft__sort_of(node->shot, node->is.op);
        if (sort == WEFT__SORT_COLLECTIVE) done = collective(blame, node);
        if (is_p2p(sort)) done = message(blame, node);
        if (sort == WEFT__SORT_FORMING) done = forming(blame, node);
        if (!done) return false;
    }
    return true;
}
