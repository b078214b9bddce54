/* split.c - split_group: an all_gather of colours and keys on the parent, and what follows from it on each
 * rank. */
#include "device_options.h"
#include "device_split.h"
#include "entries.h"
#include "group.h"
#include "group_create_common.h"
#include "reserve.h"
#include "submit.h"
#include "terms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct split {
    weft__continuation continuation;
    weft_group *group; /* NULL: this rank is in none */
    weft__split_entry mine;
    weft__split_entry all[];
} split;

typedef struct place {
    int32_t key;
    int rank; /* in the parent */
} place;

static int by_key(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

static weft__group_params terms_of(const weft_context *ctx, int rank, const weft__split_entry *told)
{
    weft__group_params terms = weft__terms_of(ctx, rank);
    terms.program = told->program;
    return terms;
}

static weft_status split_make(weft_request *req, split *s)
{
    weft_group *parent = req->group, *group = s->group;
    const weft__split_entry *low = &s->mine;
    weft__group_params params = terms_of(req->ctx, req->ctx->rank, &s->mine);
    place *places = weft__reserve_get((size_t)parent->size * sizeof *places);
    int n = 0;
    if (!places) return weft__fail_memory((size_t)parent->size * sizeof *places, "a split");
    for (int i = 0; i < parent->size; i++)
        if (s->all[i].color == s->mine.color) places[n++] = (place){s->all[i].key, i};
    qsort(places, (size_t)n, sizeof *places, by_key);
    for (int i = 0, lowest = req->ctx->rank; i < n; i++) {
        const weft__split_entry *e = &s->all[places[i].rank];
        group->world[i] = parent->world[places[i].rank];
        const weft__group_params theirs = terms_of(req->ctx, group->world[i], e);
        weft__group_params_merge(&params, &theirs);
        if (group->world[i] >= lowest) continue;
        lowest = group->world[i];
        low = e;
    }
    group->size = n;
    group->rank = weft__group_member(group, req->ctx->rank);
    weft__reserve_give(places);
    return weft__group_ready(group, low->id, &params);
}

static split *split_of(weft_request *req)
{
    return WEFT__OWNER(req->continuation, split, continuation);
}

static void split_on_device(const weft_request *req, const split *s)
{
    uint32_t all = s->mine.on_device;
    for (int i = 0; i < req->group->size; i++) all &= s->all[i].on_device;
    for (int i = 0; i < WEFT__MEMORIES; i++)
        if (all >> i & 1)
            weft__device_split(req->group, (weft_memory)i, req->sequence, s->group, s->mine.color,
                               s->mine.key);
}

static void split_finish(weft_request *req)
{
    split *s = split_of(req);
    weft_group *group = s->group;
    weft_status status;
    for (int i = 0; i < req->group->size; i++)
        if (!weft__split_entry_holds(req, i, &s->all[i])) return; /* breaking the parent settled it */
    status = group ? split_make(req, s) : WEFT_OK;
    if (status == WEFT_OK) split_on_device(req, s);
    if (group && status == WEFT_OK) {
        s->group = NULL;
        weft__group_unref(group);
    }
    weft__request_settle(req, status, status == WEFT_OK ? NULL : weft_last_error());
}

static void split_fail(weft_request *req, const char *why)
{
    split *s = split_of(req);
    if (s->group) weft__group_fail(s->group, req->status, why);
}

static void split_free(weft_request *req)
{
    split *s = split_of(req);
    if (s->group) weft__group_unref(s->group);
    free(s);
}

/* "PARENT.COLOR": the same on all its members. */
static void label_of(const weft_group *parent, int color, const weft_call *call,
                     char label[WEFT__LABEL_BYTES])
{
    char number[16], *digit = number + sizeof number;
    unsigned left = color > 0 ? (unsigned)color : 0; /* below 0 there is no group */
    size_t length, room;
    if (call && call->label && *call->label) {
        snprintf(label, WEFT__LABEL_BYTES, "%s", call->label);
        return;
    }
    do *--digit = (char)('0' + left % 10); /* by hand: printf takes longer than all the rest of it */
    while (left /= 10);
    *--digit = '.';
    length = (size_t)(number + sizeof number - digit);
    room = strnlen(parent->label, WEFT__LABEL_BYTES - 1 - length);
    memcpy(label, parent->label, room);
    memcpy(label + room, digit, length);
    label[room + length] = 0;
}

/* In program order a communicator's split has to come between the same operations on all ranks.  It begins when the ranks
 * have told their colours; so of one that is waited for, and else the groups' communicators are made anew. */
static bool splits_in_line(const weft_group *parent, weft_request **req)
{
    return !parent->params.program || !req;
}

weft_status weft_split_group(weft_group *parent, int color, int key, const weft_call *call,
                             weft_group **group, weft_request **req)
{
    weft_context *ctx;
    weft_group *made = NULL;
    weft_request *r;
    split *s;
    weft__op op = {.kind = WEFT__OP_SPLIT_GROUP,
                   .dtype = WEFT_UINT8,
                   .memory = WEFT_MEMORY_HOST,
                   .count = sizeof(weft__split_entry),
                   .scale = 1};
    weft_status status;
    size_t bytes;

    if (!parent || !group) return weft__fail(WEFT_ERR_ARGUMENT, "split_group: parent or group is NULL");
    ctx = parent->ctx;
    if ((status = weft__usable(ctx)) != WEFT_OK || (status = weft__call_check(call)) != WEFT_OK)
        return status;
    if ((status = weft__group_usable(parent)) != WEFT_OK) return status;
    r = weft__request_new(ctx, parent, &op, call);
    if (!r) return WEFT_ERR_MEMORY;
    bytes = sizeof *s + (size_t)parent->size * sizeof(weft__split_entry);
    s = calloc(1, bytes);
    if (!s) {
        weft__request_unref(r);
        return weft__fail_memory(bytes, "a split");
    }
    s->continuation = (weft__continuation){split_finish, split_fail, split_free};
    r->continuation = &s->continuation;
    s->mine =
        (weft__split_entry){.color = color < 0 ? -1 : color,
                            .key = key,
                            .on_device = splits_in_line(parent, req) ? weft__device_split_can(parent) : 0,
                            .program = weft__asks_for_program(call)};
    r->op.in = &s->mine;
    r->op.out = s->all;
    if (color >= 0) {
        char label[WEFT__LABEL_BYTES];
        label_of(parent, color, call, label);
        made =
            weft__group_new(ctx, parent->world, parent->size, label,
                            call && call->timeout_ms ? call->timeout_ms : atomic_load(&parent->timeout_ms));
        if (!made) {
            weft__request_unref(r);
            return WEFT_ERR_MEMORY;
        }
        s->group = made;
        weft__group_ref(made);
        status = weft__options_take_over(made, parent); /* as they are now, which is for all the same */
        if (status != WEFT_OK) {
            weft__group_unref(made);
            weft__request_unref(r);
            return status;
        }
        s->mine.id = weft__group_ids(ctx, 1);
    }
    return weft__submit_making(r, call, made, group, req);
}
