/* telling.c - see telling.h. */
#include "telling.h"
#include "alarm.h"
#include "check.h"
#include "engine.h"
#include "group_break.h"
#include "host_tree.h"
#include "peer.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

#define TELL_PERIOD_NS (150 * WEFT__MS)
#define SILENCE_NS     (150 * WEFT__MS) /* then a host is gone past */
#define STILL_NS       (50 * WEFT__MS)  /* who waits for others itself says so this often */

enum { NO_SIDE = -1, SIDES = -2 }; /* beside a host beside this one */

typedef enum told_state { UNTOLD, TOLD, DONE } told_state;

typedef struct told_host {
    told_state state;
    bool unheard;     /* it was gone past, here or elsewhere, and not all of its ranks are known to be told */
    int rank;         /* to which a PASS went; -1: to none */
    int64_t since_ns; /* it has last been heard then, or told */
} told_host;

struct weft__told_hosts {
    bool begun;          /* the notice is made, and this host has been told, */
    bool covers;         /* and that this rank tells the others */
    bool sees_to;        /* this rank broke it, and tells those that others have gone past */
    weft__notice notice; /* as it goes to other hosts, the same to all */
    told_host of[];
};

static const uint8_t told_follows[] = {
    [UNTOLD] = WEFT__MAY_BECOME(TOLD) | WEFT__MAY_BECOME(DONE), [TOLD] = WEFT__MAY_BECOME(DONE), [DONE] = 0};

/* ---- groups that are still to be told of ---- */

static bool is_listed(const weft_group *group)
{
    return group->telling.put_off_ns || group->telling.awaited;
}

/* Between the two somebody is to be told later, or an answer is awaited. */
static void list_from(weft_group *group, bool was_listed, int64_t check_ns)
{
    weft_context *ctx = group->ctx;
    if (!was_listed) {
        weft__group_ref(group);
        weft__list_init(&group->telling.link);
        weft__list_append(&ctx->to_tell, &group->telling.link);
    }
    weft__alarm_check(ctx, check_ns);
}

static void list_until(weft_group *group, bool was_listed)
{
    if (!was_listed || is_listed(group)) return;
    weft__list_remove(&group->telling.link);
    weft__group_unref(group);
}

static void put_off(weft_group *group, int64_t after_ns)
{
    const bool was_listed = is_listed(group);
    group->telling.put_off_ns = weft__now_ns() + after_ns;
    list_from(group, was_listed, group->telling.put_off_ns);
}

static void put_off_no_more(weft_group *group)
{
    const bool was_listed = is_listed(group);
    group->telling.put_off_ns = 0;
    list_until(group, was_listed);
}

/* That host of the tree. */
static void told_to(weft_group *group, int host, told_state to)
{
    told_host *told = &group->telling.hosts->of[host];
    const bool was_listed = is_listed(group);
    WEFT__ASSERT(WEFT__ALLOWS(told_follows, told->state, to), told->state, to);
    group->telling.awaited += (to == TOLD) - (told->state == TOLD);
    told->state = to;
    if (to != TOLD) {
        list_until(group, was_listed);
        return;
    }
    told->since_ns = weft__now_ns();
    list_from(group, was_listed, told->since_ns + SILENCE_NS);
}

/* ---- whom and what ---- */

static weft__peer *peer_of(const weft_group *group, int member)
{
    return &group->ctx->peers[group->world[member]];
}

/* By what it shows on the board: it needs not be told. */
static bool is_broken_at(const weft_group *group, int member)
{
    weft__row row;
    return weft__group_shown(group, member, &row) && atomic_load(&row.broken);
}

static bool is_beside(const weft_context *ctx, int rank, int other)
{
    return ctx->peers[rank].first_on_host == ctx->peers[other].first_on_host;
}

static int own_host(const weft_group *group)
{
    return weft__host_of(group, group->rank);
}

static bool is_mate(const weft_group *group, int member)
{
    return member != group->rank &&
           peer_of(group, member)->host_lead == peer_of(group, group->rank)->host_lead;
}

/* Over the data plane on this host, which needs no connection there and is driven whatever the other does. */
static void tell(weft_group *group, int member, const weft__notice *notice)
{
    weft_context *ctx = group->ctx;
    const int rank = group->world[member];
    if (ctx->peers[rank].local < 0 ||
        weft__p2p_control(ctx->p2p, rank, WEFT__MESSAGE_BROKEN, notice, sizeof *notice) != WEFT_OK)
        weft__alarm_tell(ctx, rank, notice);
}

/* Whom this rank does not reach it cannot tell either: of the members that reach both one is asked to pass it on, that which
 * has heard the culprit's host if it is one of them.  -1: it is no such break, or there is none. */
static int passer_of(const weft_group *group)
{
    const weft_context *ctx = group->ctx;
    int passer = -1;
    if (group->culprit < 0 || atomic_load(&ctx->peers[group->culprit].gone) != WEFT__UNREACHABLE) return -1;
    for (int i = 0; i < group->size; i++) {
        const int rank = group->world[i];
        if (atomic_load(&ctx->peers[rank].gone) != WEFT__LIVES || is_beside(ctx, rank, group->culprit) ||
            is_beside(ctx, rank, ctx->rank))
            continue;
        if (passer < 0 || rank == ctx->peers[group->culprit].heard_by) passer = i;
    }
    return passer;
}

/* ---- few hosts ---- */

static void tell_each(weft_group *group, bool elsewhere)
{
    weft__notice notice = weft__break_notice(group);
    const int passer = passer_of(group);
    group->telling.all = group->telling.all || elsewhere;
    for (int i = 0; i < group->size; i++) {
        if (i == group->rank || weft__is_gone(peer_of(group, i)) || is_broken_at(group, i)) continue;
        if (elsewhere != (peer_of(group, i)->local < 0)) continue;
        notice.knows = i == passer ? 1 : 0;
        tell(group, i, &notice);
    }
}

/* ---- many ---- */

/* False: they are few; or there is no memory for more than telling each. */
static bool has_many_hosts(weft_group *group)
{
    const int at_once = group->ctx->told_at_once;
    weft__told_hosts *hosts = group->telling.hosts;
    if (hosts || group->size <= at_once) return hosts != NULL;
    if (!weft__host_tree_made(group) || group->host_tree->hosts <= at_once) return false;
    hosts = calloc(1, sizeof *hosts + (size_t)group->host_tree->hosts * sizeof hosts->of[0]);
    if (!hosts) return false;
    for (int h = 0; h < group->host_tree->hosts; h++) hosts->of[h].rank = -1;
    group->telling.hosts = hosts;
    told_to(group, weft__host_of(group, group->rank), DONE);
    return true;
}

/* The lowest of that host's; -1: none can be asked. */
static int speaker_of(const weft_group *group, int host)
{
    const weft__seats *hosts = group->host_tree;
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++)
        if (atomic_load(&peer_of(group, hosts->rank_at[seat])->gone) == WEFT__LIVES)
            return hosts->rank_at[seat];
    return -1;
}

static int ranks_on(const weft_group *group, int host)
{
    return group->host_tree->first[host + 1] - group->host_tree->first[host];
}

static void tell_beyond(weft_group *group, int host, int from);

/* Each of them but that one. */
static void tell_ranks(weft_group *group, int host, int but)
{
    const weft__seats *hosts = group->host_tree;
    weft__notice told = group->telling.hosts->notice;
    told.operation = WEFT__BREAK_TOLD;
    for (int seat = hosts->first[host]; seat < hosts->first[host + 1]; seat++) {
        const int member = hosts->rank_at[seat];
        if (group->world[member] != but && !weft__is_gone(peer_of(group, member))) tell(group, member, &told);
    }
}

/* cannot: its speaker has answered so, and knows of the break. */
static void go_past(weft_group *group, int host, bool cannot)
{
    told_host *told = &group->telling.hosts->of[host];
    told->unheard = !cannot || ranks_on(group, host) > 1;
    told_to(group, host, DONE);
    tell_ranks(group, host, told->rank);
    tell_beyond(group, host, own_host(group));
}

static void tell_host(weft_group *group, int host)
{
    told_host *told = &group->telling.hosts->of[host];
    int speaker;
    if (told->state != UNTOLD) return;
    speaker = speaker_of(group, host);
    if (speaker < 0) {
        go_past(group, host, false);
        return;
    }
    told->rank = group->world[speaker];
    told_to(group, host, TOLD);
    weft__alarm_tell(group->ctx, told->rank, &group->telling.hosts->notice);
}

/* The hosts beside that one, but the one on whose side `from` is; where `from` is the host itself, all of them. */
static void tell_beyond(weft_group *group, int host, int from)
{
    const int child = weft__host_below(group, host);
    if (host > 0 && weft__host_is_below(group, from, host)) tell_host(group, weft__host_above(group, host));
    for (int i = 0; i < group->ctx->fan_out && child + i < group->host_tree->hosts; i++)
        if (!weft__host_is_below(group, from, child + i)) tell_host(group, child + i);
}

static void tell_mates(weft_group *group, weft__notice notice, weft__break_word word)
{
    notice.operation = word;
    for (int i = 0; i < group->size; i++)
        if (is_mate(group, i) && !weft__is_gone(peer_of(group, i)) &&
            (word == WEFT__BREAK_COVERS || !is_broken_at(group, i)))
            tell(group, i, &notice);
}

/* A member of another host would not hear it by itself of a rank that left, and the rank's own word may be lost.  That
 * others presume somebody dead is theirs to say. */
static weft__notice notice_to_pass(const weft_group *group, const weft__notice *told)
{
    weft__notice notice = weft__break_notice(group);
    if (told && notice.gone == WEFT__PRESUMED_DEAD && weft__by_agreement(group->ctx)) {
        notice.gone = WEFT__LIVES;
        notice.fate[0] = '\0';
    }
    if (told && told->gone == WEFT__LEFT && told->culprit == notice.culprit && notice.gone == WEFT__LIVES) {
        notice.gone = WEFT__LEFT;
        memcpy(notice.fate, told->fate, sizeof notice.fate);
    }
    notice.operation = WEFT__BREAK_PASS;
    return notice;
}

/* Another host is heard: so what this rank had to tell has left it, and those of its host that would tell the same need not. */
static void cover(weft_group *group)
{
    weft__told_hosts *hosts = group->telling.hosts;
    if (!hosts->begun || hosts->covers || group->cause != WEFT_ERR_TIMEOUT) return;
    hosts->covers = true;
    tell_mates(group, hosts->notice, WEFT__BREAK_COVERS);
}

/* told: by a rank of host `from`; NULL: it has broken here, and `from` is this host. */
static void tell_along(weft_group *group, int from, const weft__notice *told)
{
    weft__told_hosts *hosts = group->telling.hosts;
    const int passer = told ? -1 : passer_of(group);
    if (!hosts->begun) {
        hosts->begun = true;
        hosts->covers = told; /* else who told it would go past this rank */
        hosts->sees_to = !told;
        hosts->notice = notice_to_pass(group, told);
        tell_mates(group, hosts->notice, told ? WEFT__BREAK_COVERS : WEFT__BREAK_TOLD);
    }
    tell_beyond(group, own_host(group), from);
    if (passer >= 0) {
        weft__notice notice = hosts->notice;
        notice.operation = WEFT__BREAK_TOLD;
        notice.knows = 1;
        tell(group, passer, &notice);
    }
}

/* ---- when ---- */

/* How long the other hosts are not told yet, as other ranks have the same to tell them (telling.h).  If the one that tells
 * first has died in the middle, that breaks the group everywhere. */
static int64_t tells_after_ns(const weft_group *group, bool many)
{
    int before = 0, periods = 0;
    if (group->cause != WEFT_ERR_TIMEOUT || group->broken_number == 0 ||
        group->broken_number == WEFT__AFTER_ALL)
        return 0;
    for (int i = 0; i < group->rank; i++)
        before += group->reports[i].submitted >= group->broken_number && !weft__is_gone(peer_of(group, i)) &&
                  (!many || is_mate(group, i));
    for (; before; before /= 2) periods++;
    return periods * TELL_PERIOD_NS;
}

static void tell_elsewhere(weft_group *group, bool many)
{
    if (many)
        tell_along(group, own_host(group), NULL);
    else
        tell_each(group, true);
}

void weft__telling_begin(weft_group *group)
{
    const bool many = has_many_hosts(group);
    const int64_t after_ns = tells_after_ns(group, many);
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    if (!many)
        tell_each(group, false);
    else if (after_ns)
        tell_mates(group, weft__break_notice(group), WEFT__BREAK_TOLD);
    if (after_ns)
        put_off(group, after_ns);
    else
        tell_elsewhere(group, many);
}

/* ---- what comes ---- */

static weft__notice answer_of(int32_t cause, uint64_t group, weft__break_word word)
{
    return (weft__notice){
        .kind = WEFT__NOTICE_BROKEN, .subject = cause, .group = group, .culprit = -1, .operation = word};
}

void weft__telling_refuse(weft_context *ctx, int from, const weft__notice *told)
{
    const weft__notice cannot = answer_of(told->subject, told->group, WEFT__BREAK_CANNOT);
    if (told->operation == WEFT__BREAK_PASS) weft__alarm_tell(ctx, from, &cannot);
}

/* The side of all hosts whose words are awaited; NO_SIDE: there are none; SIDES: of several. */
static int awaited_side(const weft_group *group)
{
    int side = NO_SIDE;
    for (int h = 0; group->telling.awaited && h < group->host_tree->hosts; h++) {
        int toward;
        if (group->telling.hosts->of[h].state != TOLD) continue;
        toward = weft__host_toward(group, own_host(group), h);
        if (side != NO_SIDE && side != toward) return SIDES;
        side = toward;
    }
    return side;
}

static void list_unheard(const weft_group *group, weft__notice *answer)
{
    for (uint32_t h = 0; h < (uint32_t)group->host_tree->hosts && answer->number < WEFT__UNHEARD_MOST; h++)
        if (group->telling.hosts->of[h].unheard)
            memcpy(&answer->text[answer->number++ * sizeof h], &h, sizeof h);
}

static void answer_all(weft_group *group, weft__break_word word, int side)
{
    weft__notice told = answer_of(group->cause, group->id, word);
    if (group->telling.owed && word == WEFT__BREAK_PASSED) list_unheard(group, &told);
    for (int i = 0; group->telling.owed && i < group->size; i++) {
        if (!group->reports[i].wants_passed ||
            (side != NO_SIDE && side != weft__host_toward(group, own_host(group), weft__host_of(group, i))))
            continue;
        weft__alarm_tell(group->ctx, group->world[i], &told);
        if (word != WEFT__BREAK_PASSED) continue;
        group->reports[i].wants_passed = false;
        group->telling.owed--;
    }
}

/* Who went past them may not reach them, where this rank does. */
static void see_to_unheard(weft_group *group, const weft__notice *told)
{
    weft__told_hosts *hosts = group->telling.hosts;
    for (uint32_t i = 0, h; i < told->number; i++) {
        memcpy(&h, &told->text[i * sizeof h], sizeof h);
        if (h >= (uint32_t)group->host_tree->hosts || (int)h == own_host(group) || hosts->of[h].unheard)
            continue;
        hosts->of[h].unheard = true;
        if (hosts->sees_to) tell_ranks(group, (int)h, -1);
    }
}

/* Those are answered on whose side alone somebody is awaited, or nobody is on any. */
static void settle(weft_group *group)
{
    const int side = group->telling.owed ? awaited_side(group) : SIDES;
    if (side != SIDES) answer_all(group, WEFT__BREAK_PASSED, side);
}

static void pass_on(weft_group *group, int from, const weft__notice *told)
{
    const int member = weft__group_member(group, from);
    weft__telling *telling = &group->telling;
    if (member < 0 || !has_many_hosts(group)) {
        weft__telling_refuse(group->ctx, from, told);
        return;
    }
    if (!telling->owed) telling->still_ns = weft__now_ns() + STILL_NS;
    telling->owed += !group->reports[member].wants_passed;
    group->reports[member].wants_passed = true;
    if (group->cause == WEFT_ERR_TIMEOUT) telling->hosts->sees_to = false; /* time is up elsewhere too */
    cover(group);
    tell_along(group, weft__host_of(group, member), told);
    settle(group);
    if (telling->owed) weft__alarm_check(group->ctx, telling->still_ns);
}

void weft__telling_heard(weft_group *group, int from, const weft__notice *told)
{
    const weft_context *ctx = group->ctx;
    const bool elsewhere =
        ctx->peers[from].local < 0 && ctx->peers[from].host_lead != ctx->peers[ctx->rank].host_lead;
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (group->telling.put_off_ns && (elsewhere || told->operation == WEFT__BREAK_COVERS))
        put_off_no_more(group);
    if (told->operation == WEFT__BREAK_PASS) pass_on(group, from, told);
}

bool weft__telling_answered(weft_group *group, int from, const weft__notice *told)
{
    const int member = group ? weft__group_member(group, from) : -1;
    told_host *by;
    if (told->operation < WEFT__BREAK_PASSED) return false;
    if (member < 0 || !group->telling.hosts) return true;
    cover(group);
    if (told->operation == WEFT__BREAK_PASSED) see_to_unheard(group, told);
    by = &group->telling.hosts->of[weft__host_of(group, member)];
    if (by->state != TOLD || by->rank != from) return true; /* it was gone past meanwhile */
    by->since_ns = weft__now_ns();
    if (told->operation == WEFT__BREAK_PASSED)
        told_to(group, weft__host_of(group, member), DONE);
    else if (told->operation == WEFT__BREAK_CANNOT)
        go_past(group, weft__host_of(group, member), true);
    settle(group);
    return true;
}

/* ---- time ---- */

static void look_at_hosts(weft_group *group, int64_t now_ns, int64_t *next)
{
    const weft__telling *telling = &group->telling;
    for (int h = 0; telling->awaited && h < group->host_tree->hosts; h++) {
        const told_host *told = &telling->hosts->of[h];
        if (told->state != TOLD) continue;
        if (now_ns == WEFT__NEVER)
            told_to(group, h, DONE);
        else if (atomic_load(&group->ctx->peers[told->rank].gone) != WEFT__LIVES ||
                 now_ns >= told->since_ns + SILENCE_NS)
            go_past(group, h, false);
        else if (told->since_ns + SILENCE_NS < *next)
            *next = told->since_ns + SILENCE_NS;
    }
}

static void look_at(weft_group *group, int64_t now_ns, int64_t *next)
{
    const weft__telling *telling = &group->telling;
    if (telling->put_off_ns && now_ns >= telling->put_off_ns) {
        tell_elsewhere(group, has_many_hosts(group));
        put_off_no_more(group);
    }
    if (telling->put_off_ns && telling->put_off_ns < *next) *next = telling->put_off_ns;
    look_at_hosts(group, now_ns, next);
    settle(group);
    if (!telling->owed) return;
    if (now_ns >= telling->still_ns) {
        answer_all(group, WEFT__BREAK_STILL, NO_SIDE);
        group->telling.still_ns = now_ns + STILL_NS;
    }
    if (telling->still_ns < *next) *next = telling->still_ns;
}

/* Telling one may end others, as a rank is found to have died: each is looked at where it is the first that has not been. */
int64_t weft__telling_check(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    weft__list due;
    weft__list_init(&due);
    if (!weft__list_empty(&ctx->to_tell)) {
        weft__list_append(ctx->to_tell.next, &due); /* it is the head of what was in the list */
        weft__list_remove(&ctx->to_tell);
    }
    while (!weft__list_empty(&due)) {
        weft_group *group = WEFT__LIST_ENTRY(due.next, weft_group, telling.link);
        weft__list_remove(&group->telling.link);
        weft__list_append(&ctx->to_tell, &group->telling.link);
        weft__group_ref(group); /* it may leave the list, and come back */
        look_at(group, now_ns, &next);
        weft__group_unref(group);
    }
    return next;
}
