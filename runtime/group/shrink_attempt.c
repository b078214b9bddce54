/* shrink_attempt.c - see shrink_attempt.h. */
#include "shrink_attempt.h"

#include "peer.h"
#include "protocol.h"
#include "reserve.h"
#include "shrink_joins.h"
#include "spreading.h"

#include <string.h>

weft__list *weft__shrink_attempts(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_SHRINK];
}

void weft__shrink_attempt_free(weft__shrink_attempt *a)
{
    weft__list_remove(&a->link);
    weft__reserve_give(a->world);
    weft__reserve_give(a->members);
    weft__reserve_give(a->joined);
    weft__reserve_give(a->stored);
    weft__reserve_give(a->tables);
    weft__reserve_give(a->verdict);
    weft__shrink_joins_free(a);
    weft__reserve_give(a);
}

weft__shrink_attempt *weft__shrink_find(weft_context *ctx, uint64_t group, uint32_t occurrence)
{
    WEFT__LIST_EACH(weft__shrink_attempts(ctx), at)
    {
        weft__shrink_attempt *a = WEFT__LIST_ENTRY(at, weft__shrink_attempt, link);
        if (a->group == group && a->occurrence == occurrence) return a;
    }
    return NULL;
}

bool weft__shrink_is_of(const weft_context *ctx, const weft__shrink_attempt *a, const unsigned char *members)
{
    return !memcmp(a->members, members, weft__set_bytes(ctx->world_size));
}

/* False: no memory. */
static bool has_room(const weft_context *ctx, weft__shrink_attempt *a)
{
    const size_t n = (size_t)a->size;
    a->world = weft__reserve_get(n * sizeof *a->world);
    a->members = weft__reserve_get(weft__set_bytes(ctx->world_size));
    a->joined = weft__reserve_zeroed(n * sizeof *a->joined);
    a->stored = weft__reserve_zeroed(n * sizeof *a->stored);
    a->tables = weft__reserve_zeroed(n * sizeof *a->tables);
    return a->world && a->members && a->joined && a->stored && a->tables;
}

weft__shrink_attempt *weft__shrink_attempt_for(weft_context *ctx, uint64_t group, uint32_t occurrence,
                                               const unsigned char *members)
{
    weft__shrink_attempt *a = weft__shrink_find(ctx, group, occurrence);
    int n = 0;
    if (a) return weft__shrink_is_of(ctx, a, members) ? a : NULL;
    a = weft__reserve_zeroed(sizeof *a);
    if (!a) return NULL;
    weft__list_init(&a->link);
    a->group = group;
    a->occurrence = occurrence;
    a->size = weft__set_count(members, ctx->world_size);
    WEFT__ASSERT(a->size > 0);
    if (!has_room(ctx, a)) {
        weft__shrink_attempt_free(a);
        return NULL;
    }
    memcpy(a->members, members, weft__set_bytes(ctx->world_size));
    for (int rank = weft__set_next(members, 0, ctx->world_size); rank >= 0;
         rank = weft__set_next(members, rank + 1, ctx->world_size))
        a->world[n++] = rank;
    weft__list_append(weft__shrink_attempts(ctx), &a->link);
    return a;
}

weft__shrink_attempt *weft__shrink_attempt_of(weft_request *req)
{
    weft_context *ctx = req->ctx;
    const weft_group *group = req->group;
    unsigned char *members = weft__reserve_zeroed(weft__set_bytes(ctx->world_size));
    weft__shrink_attempt *known = weft__shrink_find(ctx, group->id, (uint32_t)req->sequence);
    if (!members) return known;
    for (int i = 0; i < group->size; i++) weft__set_add(members, group->world[i]);
    /* One told of before this rank's caller came, with members that the group has not. */
    if (known && !weft__shrink_is_of(ctx, known, members)) weft__shrink_attempt_free(known);
    known = weft__shrink_attempt_for(ctx, group->id, (uint32_t)req->sequence, members);
    weft__reserve_give(members);
    return known;
}

weft_request *weft__shrink_request_of(weft_context *ctx, const weft__shrink_attempt *a)
{
    WEFT__LIST_EACH(&ctx->pending, at)
    {
        weft_request *req = WEFT__LIST_ENTRY(at, weft_request, pending);
        if (req->op.kind == WEFT__OP_SHRINK_GROUP && req->group->id == a->group &&
            req->sequence == a->occurrence)
            return req;
    }
    return NULL;
}

void weft__shrink_to(weft__shrink_attempt *a, weft__shrink_state to)
{
    static const unsigned may_follow[] = {[WEFT__SHRINK_GATHERING] = WEFT__MAY_BECOME(WEFT__SHRINK_HELD) |
                                                                     WEFT__MAY_BECOME(WEFT__SHRINK_FAILED),
                                          [WEFT__SHRINK_HELD] = WEFT__MAY_BECOME(WEFT__SHRINK_SETTLED) |
                                                                WEFT__MAY_BECOME(WEFT__SHRINK_FAILED),
                                          [WEFT__SHRINK_SETTLED] = 0,
                                          [WEFT__SHRINK_FAILED] = 0};
    WEFT__ASSERT(may_follow[a->state] & WEFT__MAY_BECOME(to), a->state, to);
    a->state = to;
}

bool weft__shrink_is_over(const weft__shrink_attempt *a)
{
    return a->state == WEFT__SHRINK_SETTLED || a->state == WEFT__SHRINK_FAILED;
}

int weft__shrink_member(const weft__shrink_attempt *a, int world_rank)
{
    int low = 0, high = a->size;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (a->world[middle] < world_rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < a->size && a->world[low] == world_rank ? low : -1;
}

bool weft__shrink_lives(const weft_context *ctx, const weft__shrink_attempt *a, int member)
{
    return !weft__is_gone(&ctx->peers[a->world[member]]);
}

bool weft__shrink_has_joined(const weft_context *ctx, const weft__shrink_attempt *a, int member)
{
    return a->joined[member] &&
           (!a->by_others || atomic_load(&ctx->peers[a->world[member]].gone) != WEFT__UNREACHABLE);
}

int weft__shrink_lead(const weft_context *ctx, const weft__shrink_attempt *a)
{
    for (int i = 0; i < a->size && a->world[i] < ctx->rank; i++)
        if (weft__shrink_lives(ctx, a, i)) return a->world[i];
    return ctx->rank;
}

bool weft__shrink_are_many(const weft_context *ctx, const weft__shrink_attempt *a, unsigned char *set)
{
    int *living = weft__reserve_get((size_t)a->size * sizeof *living), n = 0;
    bool many;
    if (!living) return false;
    for (int i = 0; i < a->size; i++)
        if (a->world[i] == ctx->rank || weft__shrink_lives(ctx, a, i)) living[n++] = a->world[i];
    many = weft__spread_goes_by_others(ctx, living, n);
    for (int i = 0; many && set && i < n; i++)
        if (living[i] != ctx->rank) weft__set_add(set, living[i]);
    weft__reserve_give(living);
    return many;
}

bool weft__shrink_go_by_others(const weft_context *ctx, const weft__shrink_attempt *a)
{
    return a->by_others || weft__shrink_are_many(ctx, a, NULL);
}

weft_status weft__shrink_attempts_open(weft_context *ctx)
{
    return weft__protocol_open_list(ctx, WEFT__PROTOCOL_SHRINK);
}

static void free_entry(weft__list *link)
{
    weft__shrink_attempt_free(WEFT__LIST_ENTRY(link, weft__shrink_attempt, link));
}

void weft__shrink_attempts_close(weft_context *ctx)
{
    weft__protocol_close_list(ctx, WEFT__PROTOCOL_SHRINK, free_entry);
}
