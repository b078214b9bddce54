/* telling.c - see telling.h. */
#include "telling.h"
#include "alarm.h"
#include "check.h"
#include "deaths.h"
#include "engine.h"
#include "group_break.h"
#include "group_telling.h"
#include "host_tree.h"
#include "peer.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

#define SILENCE_NS (150 * WEFT__MS) /* then a host is gone past */
#define STILL_NS   (50 * WEFT__MS)  /* who waits for others itself says so this often */

enum { NO_SIDE = -1, SIDES = -2 }; /* beside a host beside this one */

typedef enum told_state { UNTOLD, TOLD, DONE } told_state;

typedef struct told_host {
    told_state state;
    bool unheard;     /* it was gone past, here or elsewhere, and not all of its ranks are known to be told */
    int rank;         /* to which a PASS went; -1: to none, or it was gone past */
    int64_t since_ns; /* it has last been heard then, or told */
} told_host;

struct weft__told_hosts {
    bool *wants;         /* by member: it has told this rank, and wants to know when that was passed on */
    bool begun;          /* the notice is made, and this host has been told, */
    bool covers;         /* and that this rank tells the others */
    bool sees_to;        /* this rank broke it, and tells those that others have gone past */
    weft__notice notice; /* as it goes to other hosts, the same to all */
    told_host of[];      /* and behind them `wants` */
};

static const uint8_t told_follows[] = {
    [UNTOLD] = WEFT__MAY_BECOME(TOLD) | WEFT__MAY_BECOME(DONE), [TOLD] = WEFT__MAY_BECOME(DONE), [DONE] = 0};

/* ---- groups that are still to be told of ---- */

bool weft__telling_goes_on(const weft__telling *t)
{
    return t->put_off_ns || t->awaited;
}

/* Between the two somebody is to be told later, or an answer is awaited. */
static void list_from(weft__telling *t, bool was_listed, int64_t check_ns)
{
    if (!was_listed) {
        if (t->group) weft__group_ref(t->group);
        weft__list_init(&t->link);
        weft__list_append(&t->ctx->to_tell, &t->link);
    }
    weft__alarm_check(t->ctx, check_ns);
}

static void list_until(weft__telling *t, bool was_listed)
{
    if (!was_listed || weft__telling_goes_on(t)) return;
    weft__list_remove(&t->link);
    if (t->group) weft__group_unref(t->group);
}

void weft__telling_put_off(weft__telling *t, int64_t after_ns)
{
    const bool was_listed = weft__telling_goes_on(t);
    t->put_off_ns = weft__now_ns() + after_ns;
    list_from(t, was_listed, t->put_off_ns);
}

void weft__telling_put_off_no_more(weft__telling *t)
{
    const bool was_listed = weft__telling_goes_on(t);
    t->put_off_ns = 0;
    list_until(t, was_listed);
}

/* That host of the tree. */
static void told_to(weft__telling *t, int host, told_state to)
{
    told_host *told = &t->hosts->of[host];
    const bool was_listed = weft__telling_goes_on(t);
    WEFT__ASSERT(WEFT__ALLOWS(told_follows, told->state, to), told->state, to);
    t->awaited += (to == TOLD) - (told->state == TOLD);
    told->state = to;
    if (to != TOLD) {
        list_until(t, was_listed);
        return;
    }
    told->since_ns = weft__now_ns();
    list_from(t, was_listed, told->since_ns + SILENCE_NS);
}

/* ---- whom and what ---- */

/* A death is told to all ranks, each of which is the member of its number. */
static const weft__seats *tree_of(const weft__telling *t)
{
    return t->group ? t->group->host_tree : t->ctx->host_tree;
}

static int size_of(const weft__telling *t)
{
    return t->group ? t->group->size : t->ctx->world_size;
}

static int rank_of(const weft__telling *t, int member)
{
    return t->group ? t->group->world[member] : member;
}

static int member_of(const weft__telling *t, int rank)
{
    return t->group ? weft__group_member(t->group, rank) : rank;
}

static int own_host(const weft__telling *t)
{
    return weft__host_of(tree_of(t), t->group ? t->group->rank : t->ctx->rank);
}

static weft__peer *peer_of(const weft__telling *t, int member)
{
    return &t->ctx->peers[rank_of(t, member)];
}

static bool is_mate(const weft__telling *t, int member)
{
    const weft_context *ctx = t->ctx;
    return rank_of(t, member) != ctx->rank &&
           peer_of(t, member)->host_lead == ctx->peers[ctx->rank].host_lead;
}

/* Whether it is told of here at all: ranks of the host of one that has died see it by themselves; but nothing of one
 * that is only presumed dead. */
static bool wants_word(const weft__telling *t, int member)
{
    if (weft__is_gone(peer_of(t, member))) return false;
    if (t->group || t->hosts->notice.number != WEFT__DIED) return true;
    return !weft__peer_sees_end(t->ctx, rank_of(t, member), t->hosts->notice.subject);
}

/* A break goes over the data plane on this host, which needs no connection there and is driven whatever the other does; but
 * it may need memory. */
void weft__telling_word(weft__telling *t, int member, const weft__notice *notice)
{
    weft_context *ctx = t->ctx;
    const int rank = rank_of(t, member);
    if (notice->kind != WEFT__NOTICE_BROKEN || ctx->peers[rank].local < 0 ||
        weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_BROKEN, notice, sizeof *notice) != WEFT_OK ||
        weft__peer_want(ctx, rank))
        weft__alarm_tell(ctx, rank, notice);
}

/* ---- along the tree ---- */

size_t weft__telling_bytes(const weft__telling *t)
{
    const weft__seats *tree = tree_of(t);
    return sizeof *t->hosts + (size_t)tree->hosts * sizeof t->hosts->of[0] +
           (size_t)tree->size * sizeof(bool);
}

bool weft__telling_open(weft__telling *t, const weft__notice *notice)
{
    const weft__seats *tree = tree_of(t);
    weft__told_hosts *hosts;
    if (tree->hosts <= t->ctx->told_at_once) return false;
    hosts = calloc(1, weft__telling_bytes(t));
    if (!hosts) return false;
    hosts->wants = (bool *)&hosts->of[tree->hosts];
    hosts->notice = *notice;
    for (int h = 0; h < tree->hosts; h++) hosts->of[h].rank = -1;
    t->hosts = hosts;
    told_to(t, own_host(t), DONE);
    return true;
}

/* The lowest of that host's; -1: none can be asked. */
static int speaker_of(const weft__telling *t, int host)
{
    const weft__seats *hosts = tree_of(t);
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++)
        if (atomic_load(&peer_of(t, hosts->rank_at[seat])->gone) == WEFT__LIVES) return hosts->rank_at[seat];
    return -1;
}

static void tell_beyond(weft__telling *t, int host, int from);

/* Each of them but that one. */
static void tell_ranks(weft__telling *t, int host, int but)
{
    const weft__seats *hosts = tree_of(t);
    weft__notice told = t->hosts->notice;
    told.operation = WEFT__BREAK_TOLD;
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++) {
        const int member = hosts->rank_at[seat];
        if (rank_of(t, member) != but && wants_word(t, member)) weft__telling_word(t, member, &told);
    }
}

/* In place of its speaker. */
static void tell_past(weft__telling *t, int host)
{
    tell_ranks(t, host, t->hosts->of[host].rank);
    t->hosts->of[host].rank = -1;
    tell_beyond(t, host, own_host(t));
}

/* cannot: its speaker has answered so, and knows of it. */
static void go_past(weft__telling *t, int host, bool cannot)
{
    t->hosts->of[host].unheard = !cannot || tree_of(t)->first[host + 1] - tree_of(t)->first[host] > 1;
    told_to(t, host, DONE);
    tell_past(t, host);
}

static void tell_host(weft__telling *t, int host)
{
    told_host *told = &t->hosts->of[host];
    int speaker;
    if (told->state != UNTOLD) return;
    speaker = speaker_of(t, host);
    if (speaker < 0) {
        go_past(t, host, false);
        return;
    }
    told->rank = rank_of(t, speaker);
    told_to(t, host, TOLD);
    weft__alarm_tell(t->ctx, told->rank, &t->hosts->notice);
}

/* The hosts beside that one, but the one on whose side `from` is; where `from` is the host itself, all of them. */
static void tell_beyond(weft__telling *t, int host, int from)
{
    const weft_context *ctx = t->ctx;
    const int child = weft__host_below(ctx, host);
    if (host > 0 && weft__host_is_below(ctx, from, host)) tell_host(t, weft__host_above(ctx, host));
    for (int i = 0; i < ctx->fan_out && child + i < tree_of(t)->hosts; i++)
        if (!weft__host_is_below(ctx, from, child + i)) tell_host(t, child + i);
}

/* Who shows that the group is broken there may not know yet that it was aborted then. */
static bool knows_of_it(const weft__telling *t, int member)
{
    return t->group && !t->late && weft__group_shown_broken(t->group, member);
}

void weft__telling_mates(weft__telling *t, weft__notice notice, weft__break_word word)
{
    notice.operation = word;
    for (int i = 0; i < size_of(t); i++)
        if (is_mate(t, i) && wants_word(t, i) && (word == WEFT__BREAK_COVERS || !knows_of_it(t, i)))
            weft__telling_word(t, i, &notice);
}

/* Another host is heard: so what this rank had to tell has left it, and those of its host that would tell the same need not. */
static void cover(weft__telling *t)
{
    weft__told_hosts *hosts = t->hosts;
    if (!hosts->begun || hosts->covers || !t->group || t->late || t->group->cause != WEFT_ERR_TIMEOUT) return;
    hosts->covers = true;
    weft__telling_mates(t, hosts->notice, WEFT__BREAK_COVERS);
}

/* notice: what to pass on, if that has not begun.  told: by a rank of host `from`; else it is known here, and `from` is this
 * host. */
static void tell_from(weft__telling *t, int from, bool told, const weft__notice *notice)
{
    weft__told_hosts *hosts = t->hosts;
    if (!hosts->begun) {
        hosts->begun = true;
        hosts->covers = told; /* else who told it would go past this rank */
        hosts->notice = *notice;
        weft__telling_mates(t, hosts->notice, told ? WEFT__BREAK_COVERS : WEFT__BREAK_TOLD);
    }
    hosts->sees_to = hosts->sees_to || !told;
    tell_beyond(t, own_host(t), from);
}

void weft__telling_along(weft__telling *t, const weft__notice *notice)
{
    tell_from(t, own_host(t), false, notice);
}

/* ---- what comes ---- */

/* With what it is known by. */
static weft__notice answer_to(const weft__notice *told, weft__break_word word)
{
    weft__notice answer = {.kind = told->kind, .subject = told->subject, .culprit = -1, .operation = word};
    if (told->kind == WEFT__NOTICE_BROKEN) {
        answer.group = told->group;
        answer.knows = weft__is_late_abort(told);
    } else {
        answer.number = told->number;
    }
    return answer;
}

void weft__telling_refuse(weft_context *ctx, int from, const weft__notice *told)
{
    const weft__notice cannot = answer_to(told, WEFT__BREAK_CANNOT);
    if (told->operation == WEFT__BREAK_PASS) weft__alarm_tell(ctx, from, &cannot);
}

/* The side of all hosts whose words are awaited; NO_SIDE: there are none; SIDES: of several. */
static int awaited_side(const weft__telling *t)
{
    int side = NO_SIDE;
    for (int h = 0; t->awaited && h < tree_of(t)->hosts; h++) {
        int toward;
        if (t->hosts->of[h].state != TOLD) continue;
        toward = weft__host_toward(t->ctx, own_host(t), h);
        if (side != NO_SIDE && side != toward) return SIDES;
        side = toward;
    }
    return side;
}

static void list_unheard(const weft__telling *t, weft__notice *answer)
{
    for (uint32_t h = 0; h < (uint32_t)tree_of(t)->hosts && answer->phase < WEFT__UNHEARD_MOST; h++)
        if (t->hosts->of[h].unheard) memcpy(&answer->text[answer->phase++ * sizeof h], &h, sizeof h);
}

static void answer_all(weft__telling *t, weft__break_word word, int side)
{
    weft__notice answer;
    if (!t->owed) return;
    answer = answer_to(&t->hosts->notice, word);
    if (word == WEFT__BREAK_PASSED) list_unheard(t, &answer);
    for (int i = 0; t->owed && i < size_of(t); i++) {
        if (!t->hosts->wants[i] ||
            (side != NO_SIDE && side != weft__host_toward(t->ctx, own_host(t), weft__host_of(tree_of(t), i))))
            continue;
        weft__alarm_tell(t->ctx, rank_of(t, i), &answer);
        if (word == WEFT__BREAK_STILL) continue;
        t->hosts->wants[i] = false;
        t->owed--;
    }
}

/* Who went past them may not reach them, where this rank does. */
static void see_to_unheard(weft__telling *t, const weft__notice *told)
{
    weft__told_hosts *hosts = t->hosts;
    for (uint32_t i = 0, h; i < told->phase; i++) {
        memcpy(&h, &told->text[i * sizeof h], sizeof h);
        if (h >= (uint32_t)tree_of(t)->hosts || (int)h == own_host(t) || hosts->of[h].unheard) continue;
        hosts->of[h].unheard = true;
        if (hosts->sees_to) tell_ranks(t, (int)h, -1);
    }
}

/* Those are answered on whose side alone somebody is awaited, or nobody is on any. */
static void settle(weft__telling *t)
{
    const int side = t->owed ? awaited_side(t) : SIDES;
    if (side != SIDES) answer_all(t, WEFT__BREAK_PASSED, side);
}

void weft__telling_pass_on(weft__telling *t, int member, const weft__notice *notice)
{
    if (!t->owed) t->still_ns = weft__now_ns() + STILL_NS;
    t->owed += !t->hosts->wants[member];
    t->hosts->wants[member] = true;
    cover(t);
    tell_from(t, weft__host_of(tree_of(t), member), true, notice);
    settle(t);
    if (t->owed) weft__alarm_check(t->ctx, t->still_ns);
}

void weft__telling_sees_to_none(weft__telling *t)
{
    t->hosts->sees_to = false;
}

void weft__telling_take_answer(weft__telling *t, int from, const weft__notice *told)
{
    const int member = member_of(t, from);
    told_host *by;
    if (member < 0 || !t->hosts) return;
    cover(t);
    if (told->operation == WEFT__BREAK_PASSED) see_to_unheard(t, told);
    by = &t->hosts->of[weft__host_of(tree_of(t), member)];
    if (by->state != TOLD || by->rank != from) return; /* it was gone past meanwhile */
    by->since_ns = weft__now_ns();
    if (told->operation == WEFT__BREAK_PASSED)
        told_to(t, weft__host_of(tree_of(t), member), DONE);
    else if (told->operation == WEFT__BREAK_CANNOT)
        go_past(t, weft__host_of(tree_of(t), member), true);
    settle(t);
}

void weft__telling_loses(weft__telling *t, int rank)
{
    const int host = weft__host_of(tree_of(t), rank);
    told_host *told = &t->hosts->of[host];
    if (told->state != DONE || told->rank != rank) return;
    told->unheard = true;
    tell_past(t, host);
}

/* ---- time ---- */

static void look_at_hosts(weft__telling *t, int64_t now_ns, int64_t *next)
{
    for (int h = 0; t->awaited && h < tree_of(t)->hosts; h++) {
        const told_host *told = &t->hosts->of[h];
        if (told->state != TOLD) continue;
        if (now_ns == WEFT__NEVER)
            told_to(t, h, DONE);
        else if (atomic_load(&t->ctx->peers[told->rank].gone) != WEFT__LIVES ||
                 now_ns >= told->since_ns + SILENCE_NS)
            go_past(t, h, false);
        else if (told->since_ns + SILENCE_NS < *next)
            *next = told->since_ns + SILENCE_NS;
    }
}

static void look_at(weft__telling *t, int64_t now_ns, int64_t *next)
{
    if (t->put_off_ns && t->put_off_ns < *next) *next = t->put_off_ns;
    if (now_ns == WEFT__NEVER && t->awaited)
        answer_all(t, WEFT__BREAK_CANNOT, NO_SIDE); /* and sees to its side no more */
    look_at_hosts(t, now_ns, next);
    settle(t);
    if (!t->owed) return;
    if (now_ns >= t->still_ns) {
        answer_all(t, WEFT__BREAK_STILL, NO_SIDE);
        t->still_ns = now_ns + STILL_NS;
    }
    if (t->still_ns < *next) *next = t->still_ns;
}

/* It may leave the list meanwhile, and come back. */
static void look_at_held(weft__telling *t, int64_t now_ns, int64_t *next)
{
    weft_group *group = t->group;
    if (!group) {
        look_at(t, now_ns, next);
        weft__death_told(t);
        return;
    }
    weft__group_ref(group);
    if (t->put_off_ns && now_ns >= t->put_off_ns) {
        weft__group_tell_due(group);
        weft__telling_put_off_no_more(t);
    }
    look_at(t, now_ns, next);
    weft__group_unref(group);
}

/* Telling one may end others, as a rank is found to have died: each is looked at where it is the first that has not been. */
int64_t weft__telling_check(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER, kept_ns;
    weft__list due;
    weft__list_init(&due);
    if (!weft__list_empty(&ctx->to_tell)) {
        weft__list_append(ctx->to_tell.next, &due); /* it is the head of what was in the list */
        weft__list_remove(&ctx->to_tell);
    }
    while (!weft__list_empty(&due)) {
        weft__telling *t = WEFT__LIST_ENTRY(due.next, weft__telling, link);
        weft__list_remove(&t->link);
        weft__list_append(&ctx->to_tell, &t->link);
        look_at_held(t, now_ns, &next);
    }
    kept_ns = weft__deaths_check(ctx, now_ns);
    return kept_ns < next ? kept_ns : next;
}
