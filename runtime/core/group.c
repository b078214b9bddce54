/* group.c - groups: made, found, numbered, retired, and what the public header asks of them. */
#include "group.h"
#include "engine.h"
#include "group_break.h"
#include "log.h"
#include "plain.h"
#include "protocol.h"
#include "recorded.h"
#include "recording.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOCK_REFS 64 /* references that the engine takes at once, for requests */

/* What may follow on each state. */
static const uint8_t group_follows[] = {[WEFT__FORMING] =
                                            WEFT__MAY_BECOME(WEFT__READY) | WEFT__MAY_BECOME(WEFT__FAILED),
                                        [WEFT__READY] = WEFT__MAY_BECOME(WEFT__BROKEN),
                                        [WEFT__BROKEN] = 0,
                                        [WEFT__FAILED] = 0};

/* In one order with all else that is read without the engine; a group changes seldom. */
void weft__group_to(weft_group *group, weft__group_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(group_follows, atomic_load(&group->state), to));
    atomic_store(&group->state, to);
    if (to == WEFT__BROKEN) atomic_store(&group->row->broken, 1);
    weft__recorded_group(group);
}

/* Its row on the board, by which the others of this host see how far this rank is. */
static void show(weft_group *group)
{
    weft__row *row = weft__board_take(group->ctx->segment, group->id, &group->own_row);
    if (row) group->row = row;
}

static void show_no_more(weft_group *group)
{
    if (group->row == &group->own_row) return;
    if (atomic_load(&group->row->broken))
        weft__board_leave(group->row);
    else
        weft__board_give(group->ctx->segment, group->row);
    group->row = &group->own_row;
}

bool weft__group_shown(const weft_group *group, int member, weft__row *row)
{
    weft_context *ctx = group->ctx;
    int local = ctx->peers[group->world[member]].local;
    return ctx->segment && local >= 0 && weft__board_read(ctx->segment, local, group->id, row);
}

bool weft__group_shown_broken(const weft_group *group, int member)
{
    weft__row row;
    return weft__group_shown(group, member, &row) && atomic_load(&row.broken);
}

/* Room for its seats, had before anybody hears of the group: one who had no memory once others have theirs would
 * leave them alone there.  Its members may become fewer.  False: no memory. */
static bool reserve_seats(weft_group *group)
{
    if (group->size == 1 || weft__on_one_segment(group->ctx, group->world, group->size)) return true;
    group->seats = weft__seats_new(group->size, group->ctx->world_size);
    return group->seats != NULL;
}

/* Who sits where, which all members find alike: it follows from where they are. */
static void take_seats(weft_group *group)
{
    weft__seats *seats = group->seats;
    if (!seats) return;
    for (int i = 0; i < group->size; i++) seats->host[i] = group->ctx->peers[group->world[i]].first_on_host;
    group->seats = weft__seats_deal(seats, group->size);
}

weft_group *weft__group_new(weft_context *ctx, const int *world, int size, const char *label,
                            int64_t timeout_ms)
{
    weft_group *group = calloc(1, sizeof *group);
    if (!group) goto no_memory;
    group->world = malloc((size_t)size * sizeof *group->world);
    group->pair_numbers = calloc((size_t)size + 1, sizeof *group->pair_numbers);
    group->reports = calloc((size_t)size, sizeof *group->reports);
    if (!group->world || !group->pair_numbers || !group->reports ||
        !weft__members_reserve(&group->members, size))
        goto no_memory;
    group->ctx = ctx;
    group->row = &group->own_row;
    group->size = size;
    group->strays = atomic_load(&ctx->strays);
    memcpy(group->world, world, (size_t)size * sizeof *world);
    if (!reserve_seats(group)) goto no_memory;
    group->rank = weft__group_member(group, ctx->rank);
    snprintf(group->label, sizeof group->label, "%s", label && *label ? label : "(unnamed)");
    atomic_store(&group->timeout_ms, timeout_ms);
    atomic_store(&group->refs, 1);
    atomic_store(&group->state, WEFT__FORMING);
    weft__list_init(&group->shm_coll.link);
    weft__list_init(&group->shm_coll.ops);
    weft__list_init(&group->shm_coll.read);
    weft__list_init(&group->by_id);
    weft__list_init(&group->line);
    weft__list_init(&group->unplaced);
    weft__lock_take(&ctx->groups_lock);
    weft__list_prepend(&ctx->groups, &group->link);
    weft__lock_drop(&ctx->groups_lock);
    return group;
no_memory:
    if (group) {
        weft__members_free(&group->members);
        free(group->world);
        free(group->pair_numbers);
        free(group->reports);
    }
    free(group);
    weft__fail_memory((size_t)size * sizeof(weft__report), "a group");
    return NULL;
}

int weft__group_member(const weft_group *group, int world_rank)
{
    static const weft__members unknown = {.slots = NULL};
    bool forming = atomic_load_explicit(&group->state, memory_order_acquire) == WEFT__FORMING;
    return weft__members_find(forming ? &unknown : &group->members, group->world, group->size, world_rank);
}

#define MAKER_SHIFT 40 /* an id: the rank that made it, above a count of its own */

uint64_t weft__group_ids(weft_context *ctx, unsigned n)
{
    return (uint64_t)(ctx->rank + 1) << MAKER_SHIFT | (atomic_fetch_add(&ctx->groups_made, n) + 1);
}

/* Where groups of that id are, if there are any; under groups_lock. */
static weft__list *with_id(weft_context *ctx, uint64_t id)
{
    return &ctx->groups_by_id[(id ^ id >> MAKER_SHIFT) % WEFT__GROUP_LISTS];
}

bool weft__on_one_segment(const weft_context *ctx, const int *world, int size)
{
    if (!ctx->segment) return false;
    for (int i = 0; i < size; i++)
        if (ctx->peers[world[i]].local < 0) return false;
    return true;
}

uint8_t weft__group_modules(const weft_group *group)
{
    unsigned common = (1U << WEFT__MEMORIES) - 1;
    for (int i = 0; i < group->size; i++) common &= group->ctx->peers[group->world[i]].modules;
    return (uint8_t)common;
}

static void group_free(weft_group *group)
{
    WEFT__EACH_PROTOCOL(group->ctx, p)
    {
        if (p->group_gone) p->group_gone(group);
    }
    weft__members_free(&group->members);
    free(group->world);
    free(group->pair_numbers);
    for (int i = 0; i < group->size; i++) free(group->reports[i].messages);
    free(group->reports);
    weft__seats_free(group->seats);
    weft__seats_free(group->host_tree);
    free(group->telling.hosts);
    free(group->telling_abort.hosts);
    free(group->late_abort);
    free(group->options);
    free(group);
}

static bool is_kept(const weft_group *group)
{
    bool kept = false;
    WEFT__EACH_PROTOCOL(group->ctx, p) kept = kept || (p->keeps_group && p->keeps_group(group));
    return kept;
}

void weft__groups_reclaim(weft_context *ctx)
{
    WEFT__LIST_EACH(&ctx->retiring, at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, link);
        if (is_kept(group)) continue;
        weft__list_remove(at);
        group_free(group);
    }
}

void weft__groups_retire(weft_context *ctx)
{
    weft__mpsc_node *node = weft__mpsc_take_all(&ctx->retired);
    while (node) {
        weft_group *group = WEFT__OWNER(node, weft_group, retired);
        node = node->next;
        weft__p2p_forget_group(ctx->p2p, group->id);
        if (group->id) weft__early_forget(ctx, group->id); /* else it was never ready */
        show_no_more(group);
        WEFT__EACH_PROTOCOL(ctx, p)
        {
            if (p->group_retired) p->group_retired(group);
        }
        weft__list_append(&ctx->retiring, &group->link);
    }
    weft__groups_reclaim(ctx);
}

void weft__groups_close(weft_context *ctx)
{
    for (weft__mpsc_node *node = weft__mpsc_take_all(&ctx->retired); node;) {
        weft_group *group = WEFT__OWNER(node, weft_group, retired);
        node = node->next;
        group_free(group);
    }
    WEFT__LIST_EACH(&ctx->retiring, at) group_free(WEFT__LIST_ENTRY(at, weft_group, link));
    WEFT__LIST_EACH(&ctx->groups, at) group_free(WEFT__LIST_ENTRY(at, weft_group, link));
}

bool weft__asks_for_program(const weft_call *call)
{
    if (call && call->order != WEFT_ORDER_DEFAULT) return call->order == WEFT_ORDER_PROGRAM;
    return strcmp(weft__setting_text(WEFT__SET_DEVICE_ORDER), "agreed") != 0;
}

weft__group_params weft__own_params(const weft_context *ctx)
{
    weft__group_params params = {.lowest = (uint32_t)ctx->rank, .choices = ctx->choices};
    params.slot_bytes = (uint32_t)ctx->slot_bytes;
    params.plain = WEFT__PLAIN;
    params.rank_order = *weft__setting_text(WEFT__SET_REDUCE) != 0;
    params.program = weft__asks_for_program(NULL);
    return params;
}

void weft__group_ref(weft_group *group)
{
    atomic_fetch_add_explicit(&group->refs, 1, memory_order_relaxed);
}

bool weft__group_hold(weft_group *group)
{
    uint32_t refs = atomic_load(&group->refs);
    while (refs && !atomic_compare_exchange_weak(&group->refs, &refs, refs + 1)) {
    }
    return refs > 0;
}

static WEFT__NOINLINE void give_refs(weft_group *group, uint32_t n)
{
    weft_context *ctx = group->ctx;
    uint32_t before = atomic_fetch_sub_explicit(&group->refs, n, memory_order_acq_rel);
    WEFT__ASSERT(before >= n, before, n);
    if (before != n) return;
    weft__lock_take(&ctx->groups_lock);
    weft__list_remove(&group->link);
    weft__list_remove(&group->by_id);
    weft__lock_drop(&ctx->groups_lock);
    weft__mpsc_push(&ctx->retired, &group->retired);
}

void weft__group_unref(weft_group *group)
{
    give_refs(group, 1);
}

void weft__group_ref_held(weft_group *group)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (!group->spare_refs) {
        atomic_fetch_add_explicit(&group->refs, STOCK_REFS, memory_order_relaxed);
        group->spare_refs = STOCK_REFS;
    }
    WEFT__ASSERT_HOT(group->spare_refs < atomic_load(&group->refs), group->spare_refs);
    group->spare_refs--;
}

void weft__group_unref_held(weft_group *group)
{
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (WEFT__UNLIKELY(group->let_go))
        give_refs(group, 1);
    else
        group->spare_refs++;
    WEFT__ASSERT_HOT(group->let_go || group->spare_refs < atomic_load(&group->refs), group->spare_refs);
}

void weft__group_let_go(weft_group *group)
{
    weft_context *ctx = group->ctx;
    bool entered = weft__engine_enter(ctx);
    group->let_go = true;
    if (group->record)
        weft__record_group_let_go(&ctx->record, group->record, group->id, weft__engine_clock(ctx));
    give_refs(group, 1 + group->spare_refs);
    if (entered) weft__groups_retire(ctx); /* else this is inside progress, which sees to it at its end */
    weft__engine_leave(ctx, entered);
}

weft_group *weft__group_find(weft_context *ctx, uint64_t id)
{
    weft_group *found = NULL;
    weft__lock_take(&ctx->groups_lock);
    WEFT__LIST_EACH(with_id(ctx, id), at)
    {
        weft_group *group = WEFT__LIST_ENTRY(at, weft_group, by_id);
        if (group->id != id) continue;
        if (weft__group_hold(group)) found = group;
        break;
    }
    weft__lock_drop(&ctx->groups_lock);
    return found;
}

/* A rank that brought something else is told so once: its other groups will mostly be the same. */
static void tell_of_choices(const weft_group *group)
{
    weft_context *ctx = group->ctx;
    const weft__choices *theirs = &group->params.choices;
    bool other_names = memcmp(ctx->choices.forced, theirs->forced, sizeof theirs->forced) != 0;
    bool other_limits = memcmp(ctx->choices.upto, theirs->upto, sizeof theirs->upto) != 0;
    if (other_names && !ctx->told_of_names) {
        char here[256], there[256];
        weft__choices_forced_text(&ctx->choices, here, sizeof here);
        weft__choices_forced_text(theirs, there, sizeof there);
        ctx->told_of_names = true;
        weft__log(WEFT__WARN,
                  "rank %d: WEFT_ALGORITHM is \"%s\" here, but group %s goes by that of its lowest rank %u, "
                  "\"%s\"",
                  ctx->rank, here, group->label, group->params.lowest, there);
    }
    if (other_limits && !ctx->told_of_limits) {
        ctx->told_of_limits = true;
        weft__log(WEFT__INFO,
                  "rank %d: group %s goes by the tuning file of its lowest rank %u, which is another",
                  ctx->rank, group->label, group->params.lowest);
    }
}

/* Groups made one after the other mostly agree in all that their selection follows from. */
static void select_algorithms(weft_group *group, bool shared)
{
    weft__selected *last = &group->ctx->selected;
    if (last->size != group->size || last->shared != shared ||
        memcmp(&last->params, &group->params, sizeof last->params) != 0) {
        weft__selection_make(&last->selection, &group->params, group->size, shared);
        last->params = group->params;
        last->size = group->size;
        last->shared = shared;
    }
    group->selection = last->selection;
}

weft_status weft__group_ready(weft_group *group, uint64_t id, const weft__group_params *params)
{
    weft_context *ctx = group->ctx;
    bool shared = group->size > 1 && weft__on_one_segment(ctx, group->world, group->size);
    WEFT__ASSERT(weft__holds_engine(ctx));
    weft__lock_take(&ctx->groups_lock);
    group->id = id;
    weft__list_append(with_id(ctx, id), &group->by_id);
    weft__lock_drop(&ctx->groups_lock);
    if (shared && params->slot_bytes != ctx->slot_bytes)
        return weft__fail(WEFT_ERR_PEER, "group %s: a member told of slots of %u bytes where they have %zu",
                          group->label, params->slot_bytes, ctx->slot_bytes);
    take_seats(group);
    weft__members_fill(&group->members, group->world, group->size);
    group->params = *params;
    group->params.rounds = shared;
    group->params.hosts = group->seats ? (uint32_t)group->seats->hosts : 1;
    group->modules = weft__group_modules(group);
    select_algorithms(group, shared);
    tell_of_choices(group);
    if (group->size > 1) show(group);
    WEFT__ASSERT(weft__members_known(&group->members), group->size);
    weft__group_to(group, WEFT__READY);
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->group_ready) p->group_ready(group);
    }
    return WEFT_OK;
}

void weft__group_fail(weft_group *group, weft_status status, const char *why)
{
    if (atomic_load(&group->state) != WEFT__FORMING) return;
    group->cause = status;
    snprintf(group->why, sizeof group->why, "%s", why);
    weft__group_to(group, WEFT__FAILED);
}

weft_status weft__group_usable(const weft_group *group)
{
    switch ((weft__group_state)atomic_load_explicit(&group->state, memory_order_acquire)) {
    case WEFT__FORMING:
        return weft__fail(WEFT_ERR_STATE, "group %s is not ready: its request has not settled", group->label);
    case WEFT__FAILED:
        return weft__fail(WEFT_ERR_STATE, "group %s was not made: %.*s", group->label, 800, group->why);
    case WEFT__READY:
    case WEFT__BROKEN: break;
    }
    return WEFT_OK;
}

weft_status weft__group_refuse(const weft_group *group)
{
    const char *left_out = atomic_load(&group->ctx->left_out);
    char text[WEFT__SENTENCE_BYTES];
    if (left_out && group->size > 1)
        return weft__fail(WEFT_ERR_PEER, "group %s: %.900s", group->label, left_out);
    snprintf(text, sizeof text, "group %s is broken: %.*s", group->label, 900, group->why);
    if (group->cause != WEFT_ERR_CANCELLED) weft__recording_where(group->ctx, text, sizeof text);
    return weft__fail(WEFT_ERR_BROKEN, "%s", text);
}

bool weft__group_has_strayed(const weft_group *group, int member)
{
    const weft__peer *m = &group->ctx->peers[group->world[member]];
    return atomic_load(&m->gone) == WEFT__UNREACHABLE || atomic_load(&m->strayed) > group->strays;
}

bool weft__group_has_met_again(const weft_group *group, int member)
{
    return member >= 0 && weft__group_has_strayed(group, member) &&
           atomic_load(&group->ctx->peers[group->world[member]].gone) == WEFT__LIVES;
}

/* ---- public ---- */

int weft_group_rank(const weft_group *group)
{
    return group ? group->rank : -1;
}

int weft_group_size(const weft_group *group)
{
    return group ? group->size : -1;
}

int weft_group_to_world(const weft_group *group, int rank)
{
    return group && rank >= 0 && rank < group->size ? group->world[rank] : -1;
}

int weft_group_from_world(const weft_group *group, int world_rank)
{
    return group ? weft__group_member(group, world_rank) : -1;
}

const char *weft_group_label(const weft_group *group)
{
    return group ? group->label : "";
}

weft_status weft_group_status(const weft_group *group)
{
    char text[WEFT__SENTENCE_BYTES];
    weft_status status;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "group is NULL");
    if ((status = weft__usable(group->ctx)) != WEFT_OK) return status;
    switch ((weft__group_state)atomic_load_explicit(&group->state, memory_order_acquire)) {
    case WEFT__READY: return WEFT_OK;
    case WEFT__FORMING: return WEFT_PENDING;
    case WEFT__BROKEN:
    case WEFT__FAILED: break;
    }
    snprintf(text, sizeof text, "%s", group->why);
    if (group->cause != WEFT_ERR_CANCELLED) weft__recording_where(group->ctx, text, sizeof text);
    return weft__fail(group->cause, "%s", text);
}

int weft_group_dead(const weft_group *group, int *ranks, int room)
{
    int n = 0;
    if (!group) return 0;
    for (int i = 0; i < group->size; i++) {
        if (!weft__is_dead(&group->ctx->peers[group->world[i]])) continue;
        if (ranks && n < room) ranks[n] = i;
        n++;
    }
    return n;
}

weft_status weft_group_set_timeout(weft_group *group, int64_t timeout_ms)
{
    weft_status status;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "group is NULL");
    if ((status = weft__usable(group->ctx)) != WEFT_OK) return status;
    if (timeout_ms <= 0 && timeout_ms != WEFT_FOREVER)
        return weft__fail(WEFT_ERR_ARGUMENT, "timeout_ms is %lld: expected more than 0, or WEFT_FOREVER",
                          (long long)timeout_ms);
    atomic_store_explicit(&group->timeout_ms, timeout_ms, memory_order_relaxed);
    return WEFT_OK;
}

weft_status weft_group_free(weft_group *group)
{
    weft_status status;
    if (!group) return WEFT_OK;
    if ((status = weft__usable(group->ctx)) != WEFT_OK) return status;
    if (group->owner != WEFT__OF_CALLER)
        return weft__fail(WEFT_ERR_ARGUMENT, "group %s belongs to its %s: it is not to be freed",
                          group->label, group->owner == WEFT__OF_MESH ? "mesh" : "context");
    weft__group_let_go(group);
    return WEFT_OK;
}
