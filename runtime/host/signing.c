/* signing.c - see signing.h. */
#include "signing.h"
#include "alarm.h"
#include "early.h"
#include "engine.h"
#include "group_break.h"
#include "mismatch.h"
#include "peer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64 /* operations by which two may be apart before more memory is asked for; a power of 2 */

typedef struct signed_op {
    uint64_t number;
    weft__signature signature;
} signed_op;

/* What one member tells the next: only so many of them go with it. */
typedef struct word {
    uint64_t group;
    uint64_t count;
    signed_op of[WEFT__SIGNED_MOST];
} word;

/* Whose operations are kept. */
typedef enum side { MINE, THEIRS } side;

/* A group's, from its first operation of that kind on. */
struct weft__signing {
    weft__list link; /* of those that have something untold; the group is held meanwhile */
    weft_group *group;
    int64_t due_ns;    /* when that is told */
    int before, after; /* members: who tells this one, and whom this one tells */
    word untold;
    uint64_t heard;    /* the last number that was told */
    uint64_t not_kept; /* not compared are those up to it, from behind what is kept on; 0: none */
    side ahead;        /* whose these are: */
    signed_op *ops;    /* by number, from `first` on and round */
    size_t first, count, room;
};

static weft__list *untold_of(weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_SIGNING];
}

/* ---- the end of it ---- */

static void drop_untold(weft__signing *s)
{
    if (!s->untold.count) return;
    s->untold.count = 0;
    weft__list_remove(&s->link);
    weft__group_unref(s->group);
}

/* Over what weft_last_error() says. */
static void break_here(weft_group *group, weft_status cause)
{
    char text[WEFT__SENTENCE_BYTES];
    snprintf(text, sizeof text, "rank %d: %.900s", group->ctx->rank, weft_last_error());
    weft__group_break(group, &(weft__verdict){cause, 0, -1, text}, true);
}

/* One of the two has begun that on its device, and the other one has something else under its number, which it tells
 * nothing of. */
static void tell_lone(weft__signing *s, const signed_op *lone, side whose)
{
    weft_group *group = s->group;
    int me = group->world[group->rank], other = group->world[s->before];
    const weft__signature *mine = whose == THEIRS ? weft__signature_meant(group, lone->number) : NULL;
    char a[128], text[WEFT__SENTENCE_BYTES];
    if (mine && !weft__same_signature(*mine, lone->signature)) {
        weft__group_mismatch(group, lone->number, *mine, s->before, lone->signature);
        return;
    }
    weft__signature_text(lone->signature, a, sizeof a);
    snprintf(text, sizeof text,
             "operation #%llu on group %s: rank %d passed %s, and rank %d passed what is in host memory",
             (unsigned long long)lone->number, group->label, whose == THEIRS ? other : me, a,
             whose == THEIRS ? me : other);
    weft__group_break(group, &(weft__verdict){WEFT_ERR_MISMATCH, lone->number, -1, text}, true);
}

/* ---- comparing ---- */

/* False: no memory, and a sentence. */
static bool grow(weft__signing *s)
{
    size_t room = s->room ? 2 * s->room : FIRST_ROOM;
    signed_op *ops = malloc(room * sizeof *ops);
    if (!ops) {
        weft__fail_memory(room * sizeof *ops,
                          "what ranks mean by operations that only one of them has begun");
        return false;
    }
    for (size_t i = 0; i < s->count; i++) ops[i] = s->ops[(s->first + i) % s->room];
    free(s->ops);
    s->ops = ops;
    s->first = 0;
    s->room = room;
    return true;
}

static void keep(weft__signing *s, const signed_op *op, side whose)
{
    if (whose == THEIRS && (s->count == WEFT__SIGNED_APART_MOST || s->not_kept > s->group->started)) {
        s->not_kept = op->number;
        return;
    }
    if (s->count == s->room && !grow(s)) {
        break_here(s->group, WEFT_ERR_MEMORY);
        return;
    }
    s->ahead = whose;
    s->ops[(s->first + s->count++) % s->room] = *op;
}

static void compare(weft__signing *s, const signed_op *one, const signed_op *other, side whose)
{
    const signed_op *mine = whose == MINE ? one : other, *theirs = whose == MINE ? other : one;
    if (!weft__same_signature(mine->signature, theirs->signature))
        weft__group_mismatch(s->group, mine->number, mine->signature, s->before, theirs->signature);
}

/* The next operation of one side. */
static void meet(weft__signing *s, const signed_op *op, side whose)
{
    signed_op first;
    if (!s->count && whose == MINE && op->number <= s->not_kept) return;
    if (!s->count || s->ahead == whose) {
        /* What this rank has begun by now and does not keep it has begun in another way. */
        if (whose == THEIRS && op->number <= s->group->started)
            tell_lone(s, op, THEIRS);
        else
            keep(s, op, whose);
        return;
    }
    first = s->ops[s->first];
    s->first = (s->first + 1) % s->room;
    s->count--;
    if (first.number == op->number)
        compare(s, op, &first, whose);
    else if (first.number < op->number)
        tell_lone(s, &first, s->ahead);
    else
        tell_lone(s, op, whose);
}

/* ---- telling ---- */

static void tell(weft__signing *s)
{
    weft_group *group = s->group;
    weft_context *ctx = group->ctx;
    size_t length = offsetof(word, of) + s->untold.count * sizeof s->untold.of[0];
    int to = group->world[s->after];
    weft__group_ref(group);
    s->untold.group = group->id;
    if (weft__p2p_control(ctx->p2p, to, WEFT__MESSAGE_SIGNED, &s->untold, length) != WEFT_OK &&
        !weft__is_gone(&ctx->peers[to]))
        break_here(group, WEFT_ERR_MEMORY);
    drop_untold(s);
    weft__group_unref(group);
}

/* What is added first says when all of it is told. */
static void add(weft__signing *s, const signed_op *op)
{
    weft_context *ctx = s->group->ctx;
    s->untold.of[s->untold.count++] = *op;
    if (s->untold.count == 1) {
        weft__group_ref(s->group);
        s->due_ns = weft__now_ns() + WEFT__SIGNED_AFTER_NS;
        weft__list_append(untold_of(ctx), &s->link);
        weft__alarm_check(ctx, s->due_ns);
    }
    if (s->untold.count == WEFT__SIGNED_MOST) tell(s);
}

static int64_t signing_due(weft_context *ctx, int64_t now_ns)
{
    weft__list *untold = untold_of(ctx);
    while (!weft__list_empty(untold)) { /* in the order of their times */
        weft__signing *s = WEFT__LIST_ENTRY(untold->next, weft__signing, link);
        if (now_ns < s->due_ns) return s->due_ns;
        tell(s);
    }
    return WEFT__NEVER;
}

/* ---- both ---- */

/* NULL: no memory, and a sentence. */
static weft__signing *signing_of(weft_group *group)
{
    const weft__seats *seats = group->seats;
    int seat = seats->seat_of[group->rank];
    weft__signing *s = group->signing;
    if (s) return s;
    s = group->signing = calloc(1, sizeof *s);
    if (!s) {
        weft__fail_memory(sizeof *s, "what ranks mean by their operations");
        return NULL;
    }
    weft__list_init(&s->link);
    s->group = group;
    s->before = seats->rank_at[weft__modulo(seat - 1, group->size)];
    s->after = seats->rank_at[weft__modulo(seat + 1, group->size)];
    return s;
}

static bool is_ready(const weft_group *group)
{
    return atomic_load(&group->state) == WEFT__READY;
}

bool weft__sign(weft_group *group, uint64_t number, weft__signature mine)
{
    const signed_op op = {number, mine};
    weft__signing *s = signing_of(group);
    bool stays;
    WEFT__ASSERT(weft__holds_engine(group->ctx) && number == group->started, number, group->started);
    weft__group_ref_held(group); /* its last request may go as it breaks */
    if (s)
        add(s, &op); /* first: who differs is told by each side */
    else
        break_here(group, WEFT_ERR_MEMORY);
    if (s && is_ready(group)) meet(s, &op, MINE);
    stays = is_ready(group);
    weft__group_unref_held(group);
    return stays;
}

bool weft__begun_untold(weft_group *group, uint64_t number)
{
    weft__signing *s = group->signing;
    WEFT__ASSERT(weft__holds_engine(group->ctx) && s);
    if (!s->count || s->ahead == MINE || s->ops[s->first].number > number) return true;
    tell_lone(s, &s->ops[s->first], THEIRS);
    return false;
}

/* ---- what is told ---- */

static void hear(weft_group *group, int peer, const word *told)
{
    weft__signing *s;
    if (!group->seats || !group->params.program) {
        weft__peer_refused(group->ctx, peer,
                           "it tells what it means by operations of a group that agrees on them first");
        return;
    }
    if (!is_ready(group)) return;
    s = signing_of(group);
    if (!s) {
        break_here(group, WEFT_ERR_MEMORY);
        return;
    }
    if (weft__group_member(group, peer) != s->before) {
        weft__peer_refused(group->ctx, peer,
                           "it tells what it means by operations, and sits not before this rank");
        return;
    }
    for (uint64_t i = 0; i < told->count && is_ready(group); i++) {
        if (told->of[i].number <= s->heard) {
            weft__peer_refused(group->ctx, peer, "it tells what it means by operations in another order");
            return;
        }
        s->heard = told->of[i].number;
        meet(s, &told->of[i], THEIRS);
    }
}

static bool is_sound(const word *told, size_t length)
{
    return length >= offsetof(word, of) && told->count >= 1 && told->count <= WEFT__SIGNED_MOST &&
           length == offsetof(word, of) + told->count * sizeof told->of[0];
}

static void signing_message(weft_context *ctx, int peer, int type, const void *bytes, size_t length)
{
    word told = {0};
    weft_group *group;
    memcpy(&told, bytes, length < sizeof told ? length : sizeof told);
    if (!is_sound(&told, length)) {
        weft__peer_refused(ctx, peer, "what it means by its operations takes another number of bytes");
        return;
    }
    group = weft__group_find(ctx, told.group);
    if (group) {
        hear(group, peer, &told);
        weft__group_unref(group);
    } else {
        weft__early_keep(ctx, told.group, type, peer, bytes, length);
    }
}

static bool signing_take_early(void *arg, int peer, const void *bytes)
{
    word told = {0};
    memcpy(&told, bytes, offsetof(word, of));
    memcpy(told.of, (const char *)bytes + offsetof(word, of), told.count * sizeof told.of[0]);
    hear(arg, peer, &told);
    return true;
}

static void signing_group_ready(weft_group *group)
{
    weft__early_offer(group->ctx, group->id, WEFT__MESSAGE_SIGNED, signing_take_early, group);
}

/* Nothing is compared any more. */
static void signing_group_broken(weft_group *group)
{
    weft__signing *s = group->signing;
    if (!s) return;
    drop_untold(s);
    free(s->ops);
    s->ops = NULL;
    s->first = s->count = s->room = 0;
}

static void signing_group_gone(weft_group *group)
{
    if (!group->signing) return;
    weft__list_remove(&group->signing->link); /* of a context that ends with something untold */
    free(group->signing->ops);
    free(group->signing);
    group->signing = NULL;
}

static weft_status open_signing(weft_context *ctx)
{
    return weft__protocol_open_list(ctx, WEFT__PROTOCOL_SIGNING);
}

static void close_signing(weft_context *ctx)
{
    free(untold_of(ctx));
}

const weft__protocol weft__signing_protocol = {.name = "signing",
                                               .first = WEFT__MESSAGE_SIGNED,
                                               .last = WEFT__MESSAGE_SIGNED,
                                               .open = open_signing,
                                               .close = close_signing,
                                               .message = signing_message,
                                               .due = signing_due,
                                               .group_ready = signing_group_ready,
                                               .group_broken = signing_group_broken,
                                               .group_gone = signing_group_gone};
