/* interleaving.c - see interleaving.h. */
#include "interleaving.h"
#include "alarm.h"
#include "engine.h"
#include "group_break.h"
#include "peer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAVES     UINT64_MAX /* in the place of a number: that group is not compared any more */
#define NOT_BEGUN  UINT64_MAX /* in the place of an order: comes behind all that has begun */
#define FIRST_ROOM 4

/* A stretch of operations on one group, with none on another one between them. */
typedef struct stretch {
    uint64_t group;
    uint64_t before; /* the number of its last one before that; 0: none */
    uint64_t last;
} stretch;

/* What one rank tells another. */
typedef struct word {
    uint64_t count;
    stretch of[2 * WEFT__INTERLEAVED_MOST];
} word;

/* This rank's own operations of a group. */
typedef struct begun {
    uint64_t number, order;
} begun;

struct weft__course {
    weft__list link; /* of all courses */
    weft_group *group;
    uint64_t last;  /* number; 0: none */
    uint64_t count; /* of all that have begun; the last ones are kept: */
    begun *of;      /* round; NULL: none yet */
};

/* A group that this rank shares with another one. */
typedef struct common {
    weft__course *course;
    uint64_t told;  /* to that one: the last number; */
    bool is_told;   /* and that there is the group */
    uint64_t heard; /* from it */
    bool is_heard;
} common;

/* Another rank. */
typedef struct pair {
    weft__list link;   /* of all pairs */
    weft__list untold; /* of those with something to tell */
    int64_t due_ns;
    int rank;
    bool tells;  /* this rank, that one */
    bool failed; /* to tell it: what came later would not follow on what it has heard */
    common *groups;
    size_t count, room;
    stretch *ahead; /* what that one has begun, and this one has not come to; round, NULL: nothing yet */
    size_t first, ahead_count;
    size_t news; /* and what this one has to tell it */
    stretch to_tell[WEFT__INTERLEAVED_MOST];
} pair;

typedef struct interleaving {
    weft__list courses, pairs, untold;
    uint64_t order; /* operations on all of them */
} interleaving;

static interleaving *state_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_INTERLEAVING];
}

/* ---- courses ---- */

static const begun *nth(const weft__course *c, uint64_t n)
{
    return &c->of[n % WEFT__INTERLEAVED_KEPT];
}

/* False: no memory; then nothing of it is compared. */
static bool note(weft__course *c, uint64_t number, uint64_t order)
{
    if (!c->of) c->of = malloc(WEFT__INTERLEAVED_KEPT * sizeof *c->of);
    if (!c->of) return false;
    c->of[c->count++ % WEFT__INTERLEAVED_KEPT] = (begun){number, order};
    c->last = number;
    return true;
}

/* The first of this rank's operations behind that number.  NULL: it has begun none, or that is not known any more. */
static const begun *first_behind(const weft__course *c, uint64_t number)
{
    uint64_t low = c->count > WEFT__INTERLEAVED_KEPT ? c->count - WEFT__INTERLEAVED_KEPT : 0, high = c->count;
    if (c->last <= number || (low && nth(c, low)->number > number)) return NULL;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (nth(c, middle)->number > number)
            high = middle;
        else
            low = middle + 1;
    }
    return nth(c, low);
}

/* When this rank has begun that operation.  0: that is not known any more, or it is another kind of operation here. */
static uint64_t order_of(const weft__course *c, uint64_t number)
{
    const begun *b;
    if (number > c->last) return NOT_BEGUN;
    b = first_behind(c, number - 1);
    return b && b->number == number ? b->order : 0;
}

/* ---- pairs ---- */

static common *common_of(const pair *p, uint64_t group)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->groups[i].course->group->id == group) return &p->groups[i];
    return NULL;
}

static pair *pair_with(const weft_context *ctx, int rank)
{
    WEFT__LIST_EACH(&state_of(ctx)->pairs, at)
    {
        pair *p = WEFT__LIST_ENTRY(at, pair, link);
        if (p->rank == rank) return p;
    }
    return NULL;
}

/* What has no room is not compared. */
static void share(pair *p, weft__course *course)
{
    if (weft__group_member(course->group, p->rank) < 0) return;
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : FIRST_ROOM;
        common *groups = realloc(p->groups, room * sizeof *groups);
        if (!groups) return;
        p->groups = groups;
        p->room = room;
    }
    p->groups[p->count++] = (common){.course = course, .told = course->last};
}

/* NULL: no memory, and it is not compared with that one. */
static pair *pair_new(weft_context *ctx, int rank)
{
    interleaving *s = state_of(ctx);
    pair *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->rank = rank;
    weft__list_init(&p->untold);
    weft__list_append(&s->pairs, &p->link);
    WEFT__LIST_EACH(&s->courses, at)
    {
        share(p, WEFT__LIST_ENTRY(at, weft__course, link));
    }
    return p;
}

/* The next one behind this rank, of those in both groups, by their numbers in the job.  -1: there is no other one. */
static int next_in_both(const weft_group *a, const weft_group *b)
{
    const int me = a->ctx->rank;
    int next = -1, lowest = -1;
    if (a->size > b->size) return next_in_both(b, a);
    for (int i = 0; i < a->size; i++) {
        const int rank = a->world[i];
        if (rank == me || weft__group_member(b, rank) < 0) continue;
        if (rank > me && (next < 0 || rank < next)) next = rank;
        if (lowest < 0 || rank < lowest) lowest = rank;
    }
    return next >= 0 ? next : lowest;
}

static void is_due(weft_context *ctx, pair *p)
{
    if (!weft__list_empty(&p->untold)) return;
    p->due_ns = weft__now_ns() + WEFT__INTERLEAVED_AFTER_NS;
    weft__list_append(&state_of(ctx)->untold, &p->untold);
    weft__alarm_check(ctx, p->due_ns);
}

/* From where this rank stands now; the order of what it has begun before is not told. */
static void begin_to_tell(pair *p)
{
    p->tells = true;
    for (size_t i = 0; i < p->count; i++) p->groups[i].told = p->groups[i].course->last;
}

/* Whom to tell of that group and another one. */
static void pair_up(weft_context *ctx, const weft__course *one, const weft__course *other)
{
    const int rank = next_in_both(one->group, other->group);
    pair *p = rank < 0 ? NULL : pair_with(ctx, rank);
    if (rank >= 0 && !p) p = pair_new(ctx, rank);
    if (!p || p->failed) return;
    if (!p->tells) begin_to_tell(p);
    is_due(ctx, p); /* how far this rank is as it begins to tell */
}

/* ---- differences ---- */

typedef struct difference {
    weft_group *first; /* the other rank has begun this one's before the other one's; this rank not */
    uint64_t first_number;
    weft_group *second;
    uint64_t second_number;
    int rank; /* the other one */
} difference;

/* False: one of the two was let go, and so none of its operations waits. */
static bool tell_difference(const difference *d)
{
    const int me = d->first->ctx->rank, low = me < d->rank ? me : d->rank, high = me < d->rank ? d->rank : me;
    const bool swapped = low == me;
    const weft_group *a = swapped ? d->second : d->first, *b = swapped ? d->first : d->second;
    const unsigned long long na = swapped ? d->second_number : d->first_number,
                             nb = swapped ? d->first_number : d->second_number;
    char text[WEFT__SENTENCE_BYTES];
    if (!weft__group_hold(d->first)) return false;
    if (!weft__group_hold(d->second)) {
        weft__group_unref(d->first);
        return false;
    }
    snprintf(text, sizeof text,
             "ranks differ in the order of their groups, which are in program order: rank %d began operation "
             "#%llu "
             "on group %s before #%llu on group %s, rank %d began #%llu on group %s before #%llu on group %s",
             low, na, a->label, nb, b->label, high, nb, b->label, na, a->label);
    weft__group_break(d->first, &(weft__verdict){WEFT_ERR_MISMATCH, d->first_number, -1, text}, true);
    weft__group_break(d->second, &(weft__verdict){WEFT_ERR_MISMATCH, d->second_number, -1, text}, true);
    weft__group_unref(d->first);
    weft__group_unref(d->second);
    return true;
}

/* That rank has begun `number` of this group, and of each other one nothing behind what was heard.  False: they differ,
 * and groups have broken, and are none of the pair's any more. */
static bool is_as_here(const pair *p, const common *of, uint64_t number)
{
    const uint64_t order = order_of(of->course, number);
    for (size_t i = 0; i < p->count; i++) {
        const common *other = &p->groups[i];
        const begun *b = other == of || !other->is_heard ? NULL : first_behind(other->course, other->heard);
        if (!b || b->order >= order) continue;
        if (tell_difference(
                &(difference){of->course->group, number, other->course->group, b->number, p->rank}))
            return false;
    }
    return true;
}

/* ---- what another rank has begun and this one has not come to ---- */

static stretch *nth_ahead(const pair *p, size_t n)
{
    return &p->ahead[(p->first + n) % WEFT__INTERLEAVED_KEPT];
}

static void keep(pair *p, const stretch *s)
{
    if (!p->ahead) p->ahead = malloc(WEFT__INTERLEAVED_KEPT * sizeof *p->ahead);
    if (!p->ahead || p->ahead_count == WEFT__INTERLEAVED_KEPT) return;
    *nth_ahead(p, p->ahead_count++) = *s;
}

/* This rank has come to it by now, or it is of no group that is compared. */
static bool is_past(const pair *p, const stretch *s)
{
    const common *c = common_of(p, s->group);
    return !c || s->last <= c->course->last;
}

/* How far that rank had come in a group as it began the first of those. */
static uint64_t heard_then(const pair *p, const common *c)
{
    for (size_t i = 1; i < p->ahead_count; i++)
        if (nth_ahead(p, i)->group == c->course->group->id) return nth_ahead(p, i)->before;
    return c->heard;
}

/* This rank begins its next one of that group: is it that of the other one too? */
static bool is_next_there(pair *p, const common *mine, uint64_t number)
{
    const stretch *next;
    while (p->ahead_count && is_past(p, nth_ahead(p, 0))) {
        p->first = (p->first + 1) % WEFT__INTERLEAVED_KEPT;
        p->ahead_count--;
    }
    if (!p->ahead_count || !mine->is_heard) return true;
    next = nth_ahead(p, 0);
    if (next->group == mine->course->group->id || number <= heard_then(p, mine)) return true;
    return !tell_difference(&(difference){common_of(p, next->group)->course->group, next->last,
                                          mine->course->group, number, p->rank});
}

/* ---- telling ---- */

static void fall_silent(pair *p)
{
    p->tells = false;
    p->failed = true;
    weft__list_remove(&p->untold);
}

/* Groups of which that rank has heard nothing come first; those for which there is no room have a message of their own. */
static void tell(weft_context *ctx, pair *p)
{
    word w = {0};
    weft__list_remove(&p->untold);
    for (size_t i = 0; i < p->count; i++) {
        common *c = &p->groups[i];
        if (c->is_told) continue;
        if (w.count == WEFT__INTERLEAVED_MOST) {
            is_due(ctx, p);
            break;
        }
        w.of[w.count++] = (stretch){c->course->group->id, c->told, c->told};
        c->is_told = true;
    }
    memcpy(&w.of[w.count], p->to_tell, p->news * sizeof p->to_tell[0]);
    w.count += p->news;
    p->news = 0;
    if (w.count && weft__p2p_control(ctx->p2p, p->rank, WEFT__MESSAGE_INTERLEAVED, &w,
                                     offsetof(word, of) + w.count * sizeof w.of[0]) != WEFT_OK)
        fall_silent(p); /* no memory, or it is gone */
}

static void add(weft_context *ctx, pair *p, common *c, uint64_t number)
{
    const uint64_t group = c->course->group->id;
    if (p->news && p->to_tell[p->news - 1].group == group && number != LEAVES) {
        p->to_tell[p->news - 1].last = number;
    } else {
        p->to_tell[p->news++] = (stretch){group, c->told, number};
        c->is_told = true; /* it tells how far that was before, too */
    }
    c->told = number;
    is_due(ctx, p);
    if (p->news == WEFT__INTERLEAVED_MOST) tell(ctx, p);
}

static int64_t interleaving_due(weft_context *ctx, int64_t now_ns)
{
    weft__list *untold = &state_of(ctx)->untold;
    while (!weft__list_empty(untold)) { /* in the order of their times */
        pair *p = WEFT__LIST_ENTRY(untold->next, pair, untold);
        if (now_ns == WEFT__NEVER) { /* this rank leaves: all that it could tell of is over */
            fall_silent(p);
        } else if (now_ns < p->due_ns) {
            return p->due_ns;
        } else {
            tell(ctx, p);
        }
    }
    return WEFT__NEVER;
}

/* ---- a group that is not compared any more ---- */

/* Telling may end a rank, and so break other groups, which are none of the pair's then. */
static void leave(weft_context *ctx, pair *p, const weft_group *group)
{
    common *c = common_of(p, group->id);
    if (c && p->tells && c->is_told && !atomic_load(&ctx->closing)) {
        add(ctx, p, c, LEAVES);
        c = common_of(p, group->id);
    }
    if (c) *c = p->groups[--p->count];
}

static void interleaving_group_over(weft_group *group)
{
    weft__course *course = group->course;
    if (!course) return;
    group->course = NULL;
    WEFT__LIST_EACH(&state_of(group->ctx)->pairs, at)
    {
        leave(group->ctx, WEFT__LIST_ENTRY(at, pair, link), group);
    }
    weft__list_remove(&course->link);
    free(course->of);
    free(course);
}

/* ---- which groups ---- */

/* What began before all could be told of it is told with the next one. */
static void join(weft_group *group)
{
    weft_context *ctx = group->ctx;
    interleaving *s = state_of(ctx);
    weft__course *course;
    if (group->course || !group->params.program || group->size < 2 ||
        atomic_load(&group->state) != WEFT__READY)
        return;
    course = group->course = calloc(1, sizeof *course);
    if (!course) return; /* it is not compared */
    course->group = group;
    WEFT__LIST_EACH(&s->pairs, at)
    {
        share(WEFT__LIST_ENTRY(at, pair, link), course);
    }
    weft__list_append(&s->courses, &course->link);
    for (weft__list *at = s->courses.next; s->order && at != &course->link; at = at->next)
        pair_up(ctx, course, WEFT__LIST_ENTRY(at, weft__course, link));
}

/* The host's, which few programs use on devices, joins when this rank uses it, or hears that another one does: else each job
 * would have two groups. */
static void join_host_group(weft_context *ctx, uint64_t heard_of)
{
    if (ctx->host_group && ctx->host_group->id == heard_of) join(ctx->host_group);
}

/* ---- this rank's own ---- */

/* From its first operation in program order on others are told. */
static void begin(weft_context *ctx)
{
    interleaving *s = state_of(ctx);
    WEFT__LIST_EACH(&s->courses, at)
    {
        for (weft__list *other = at->next; other != &s->courses; other = other->next)
            pair_up(ctx, WEFT__LIST_ENTRY(at, weft__course, link),
                    WEFT__LIST_ENTRY(other, weft__course, link));
    }
}

bool weft__interleave(weft_group *group, uint64_t number)
{
    weft_context *ctx = group->ctx;
    interleaving *s = state_of(ctx);
    WEFT__ASSERT(weft__holds_engine(ctx));
    join_host_group(ctx, group->id);
    if (!group->course) return true;
    if (s->order == 0) begin(ctx);
    if (!note(group->course, number, ++s->order)) {
        interleaving_group_over(group);
        return true;
    }
    WEFT__LIST_EACH(&s->pairs, at)
    {
        pair *p = WEFT__LIST_ENTRY(at, pair, link);
        common *c = common_of(p, group->id);
        if (c && p->tells) { /* which may end that rank, and so break groups */
            add(ctx, p, c, number);
            if (!group->course) return false;
            c = common_of(p, group->id);
        }
        if (c && !is_next_there(p, c, number)) return false;
    }
    return true;
}

/* ---- what is told ---- */

static void hear(weft_context *ctx, pair *p, const stretch *s)
{
    common *c = common_of(p, s->group);
    if (!c) return; /* it is not ready here yet, or not compared any more */
    if (s->before != c->heard) {
        weft__peer_refused(ctx, p->rank, "it tells of operations that do not follow on those before");
        leave(ctx, p, c->course->group);
        return;
    }
    c->heard = s->last;
    if (s->last == LEAVES) {
        *c = p->groups[--p->count];
        return;
    }
    if (s->last && !is_as_here(p, c, s->last)) return;
    if (s->last > c->course->last && s->last > s->before) keep(p, s);
}

static bool is_sound(const word *w, size_t length)
{
    if (length < offsetof(word, of) || w->count < 1 || w->count > WEFT__LENGTH(w->of) ||
        length != offsetof(word, of) + w->count * sizeof w->of[0])
        return false;
    for (uint64_t i = 0; i < w->count; i++)
        if (w->of[i].last < w->of[i].before) return false;
    return true;
}

static void interleaving_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    word w = {0};
    pair *p = pair_with(ctx, peer);
    (void)type;
    memcpy(&w, bytes, length < sizeof w ? length : sizeof w);
    if (!is_sound(&w, length)) {
        weft__peer_refused(ctx, peer, "the order of its operations is none that can be");
        return;
    }
    if (!p) p = pair_new(ctx, peer);
    if (!p) return;
    for (uint64_t i = 0; i < w.count; i++) join_host_group(ctx, w.of[i].group);
    for (uint64_t i = 0; i < w.count; i++) {
        common *c = common_of(p, w.of[i].group);
        if (!c || c->is_heard) continue;
        c->heard = w.of[i].before;
        c->is_heard = true;
    }
    for (uint64_t i = 0; i < w.count; i++) hear(ctx, p, &w.of[i]);
}

/* ---- the life of a group and of a rank ---- */

static void interleaving_group_ready(weft_group *group)
{
    if (group != group->ctx->host_group) join(group);
}

/* The groups of which it was not told have broken. */
static void interleaving_peer_returns(weft_context *ctx, int rank)
{
    pair *p = pair_with(ctx, rank);
    if (p) p->failed = false;
}

static weft_status open_interleaving(weft_context *ctx)
{
    interleaving *s = calloc(1, sizeof *s);
    ctx->protocol_state[WEFT__PROTOCOL_INTERLEAVING] = s;
    if (!s) return weft__fail_memory(sizeof *s, "a context");
    weft__list_init(&s->courses);
    weft__list_init(&s->pairs);
    weft__list_init(&s->untold);
    return WEFT_OK;
}

static void close_interleaving(weft_context *ctx)
{
    interleaving *s = state_of(ctx);
    if (!s) return;
    WEFT__LIST_EACH(&s->pairs, at)
    {
        pair *p = WEFT__LIST_ENTRY(at, pair, link);
        free(p->groups);
        free(p->ahead);
        free(p);
    }
    free(s);
}

const weft__protocol weft__interleaving_protocol = {.name = "interleaving",
                                                    .first = WEFT__MESSAGE_INTERLEAVED,
                                                    .last = WEFT__MESSAGE_INTERLEAVED,
                                                    .open = open_interleaving,
                                                    .close = close_interleaving,
                                                    .message = interleaving_message,
                                                    .peer_returns = interleaving_peer_returns,
                                                    .due = interleaving_due,
                                                    .group_ready = interleaving_group_ready,
                                                    .group_broken = interleaving_group_over,
                                                    .group_retired = interleaving_group_over,
                                                    .group_gone = interleaving_group_over};
