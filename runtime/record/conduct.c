/* conduct.c - takes one rank's record for what the rank is about.
 *
 * A caller that waits shows by the operation that it sleeps for, or by the count of those that sleep.  While it does,
 * it or the watchdog drives what goes on, so that it is "waiting" whatever its progress thread is about. */
#include "conduct.h"
#include "born.h"
#include "check.h"
#include "clock.h"

#include <string.h>

#define SILENT_NS (20 * WEFT__MS)

const char *weft__conduct_name(weft__conduct conduct)
{
    static const char *const names[] = {
#define CONDUCT_NAME(id, name) [WEFT__CONDUCT_##id] = name,
        WEFT__CONDUCTS(CONDUCT_NAME)
#undef CONDUCT_NAME
    };
    return (unsigned)conduct < WEFT__CONDUCT_KINDS ? names[conduct] : "?";
}

weft__process weft__process_of(const weft__snapshot *shot)
{
    if (!weft__recorded_lives(shot)) return WEFT__PROCESS_GONE;
    return weft__is_stopped(shot->pid) ? WEFT__PROCESS_STOPPED : WEFT__PROCESS_LIVES;
}

weft__sort weft__sort_of(const weft__snapshot *shot, const weft__recorded_op *op)
{
    static const struct {
        const char *name;
        weft__sort sort;
    } others[] = {{"isend", WEFT__SORT_SEND},        {"irecv", WEFT__SORT_RECEIVE},
                  {"probe", WEFT__SORT_RECEIVE},     {"send_recv", WEFT__SORT_EXCHANGE},
                  {"new_group", WEFT__SORT_FORMING}, {"shrink_group", WEFT__SORT_FORMING},
                  {"batch", WEFT__SORT_BATCH}};
    const char *name = weft__recorded_kind(shot, op->kind);
    for (size_t i = 0; i < WEFT__LENGTH(others); i++)
        if (!strcmp(name, others[i].name)) return others[i].sort;
    return op->flags & WEFT__FLAG_PAIRED ? WEFT__SORT_EXCHANGE : WEFT__SORT_COLLECTIVE;
}

bool weft__recorded_over(const weft__recorded_op *op, int64_t now_ns)
{
    return op->state > WEFT__RECORDED_OP_DRAINING && op->over_ns <= now_ns;
}

int64_t weft__recorded_ago(int64_t now_ns, int64_t then_ns)
{
    return then_ns <= 0 || then_ns > now_ns ? 0 : now_ns - then_ns;
}

static bool is_waited_for(const weft__recorded_op *op, int64_t now_ns)
{
    return op->flags & WEFT__FLAG_BLOCKS || (op->waiting_ns && op->waiting_ns <= now_ns);
}

/* A batch is held up by its oldest operation that goes on. */
static const weft__recorded_op *inside(const weft__snapshot *shot, const weft__recorded_op *batch,
                                       int64_t now_ns)
{
    for (size_t i = 0; i < shot->op_count; i++) {
        const weft__recorded_op *op = &shot->ops[i];
        if (op->group == batch->group && op->submitted_ns >= batch->submitted_ns &&
            !weft__recorded_over(op, now_ns) && weft__sort_of(shot, op) != WEFT__SORT_BATCH)
            return op;
    }
    return batch;
}

static void later(int64_t *last, int64_t at_ns, int64_t most_ns)
{
    if (at_ns > *last && at_ns <= most_ns) *last = at_ns;
}

int64_t weft__last_sign(const weft__snapshot *shot, int64_t now_ns)
{
    static const weft__life times[] = {WEFT__LIFE_LEAVING, WEFT__LIFE_CALLING, WEFT__LIFE_MODULE,
                                       WEFT__LIFE_WAITING, WEFT__LIFE_WATCHED};
    int64_t last = 0;
    later(&last, shot->monotonic_ns, now_ns);
    for (size_t i = 0; i < WEFT__LENGTH(times); i++) later(&last, (int64_t)shot->life[times[i]], now_ns);
    later(&last, (int64_t)(shot->life[WEFT__LIFE_REST] >> 8), now_ns);
    for (size_t i = 0; i < shot->op_count; i++) {
        const weft__recorded_op *op = &shot->ops[i];
        later(&last, op->submitted_ns, now_ns);
        later(&last, op->started_ns, now_ns);
        later(&last, op->over_ns, now_ns);
        later(&last, op->phase_ns, now_ns);
    }
    for (size_t i = 0; i < shot->event_count; i++) later(&last, shot->events[i].at_ns, now_ns);
    return last;
}

/* Then it waits for what it has begun. */
static bool finalizes(const weft__snapshot *shot, int64_t now_ns)
{
    return shot->life[WEFT__LIFE_STAGE] == WEFT__STAGE_LEAVING &&
           shot->life[WEFT__LIFE_LEAVING] <= (uint64_t)now_ns;
}

static void look_at_ops(const weft__snapshot *shot, int64_t now_ns, weft__doing *is)
{
    const weft__recorded_op *oldest = NULL, *waited = NULL;
    for (size_t i = 0; i < shot->op_count; i++) {
        const weft__recorded_op *op = &shot->ops[i];
        if (op->submitted_ns > now_ns) continue;
        if (weft__recorded_over(op, now_ns)) {
            is->was = op;
            continue;
        }
        is->inflight++;
        if (!oldest) oldest = op;
        if (!waited && is_waited_for(op, now_ns)) waited = op;
    }
    is->op = waited ? waited : oldest;
    is->one_of = !waited && is->inflight > 1;
    if (waited || shot->life[WEFT__LIFE_WAITERS] || (oldest && finalizes(shot, now_ns)))
        is->conduct = WEFT__CONDUCT_WAITING;
    if (is->op && weft__sort_of(shot, is->op) == WEFT__SORT_BATCH) is->op = inside(shot, is->op, now_ns);
}

/* Since when it waits for that; else since it last had to do with an operation. */
static int64_t since_ops(const weft__snapshot *shot, const weft__doing *is, int64_t now_ns)
{
    int64_t since = 0;
    if (is->conduct == WEFT__CONDUCT_WAITING)
        return is->op && is->op->submitted_ns ? is->op->submitted_ns
                                              : (int64_t)shot->life[WEFT__LIFE_WAITING];
    for (size_t i = 0; i < shot->op_count; i++) {
        later(&since, shot->ops[i].over_ns, now_ns);
        later(&since, shot->ops[i].submitted_ns, now_ns);
    }
    return since;
}

/* A module is looked at again and again; only what lasts holds anything up. */
static bool is_inside(const weft__snapshot *shot, int64_t now_ns)
{
    return weft__recorded_ago(now_ns, (int64_t)shot->life[WEFT__LIFE_MODULE]) > SILENT_NS;
}

static void look_at_life(const weft__snapshot *shot, int64_t now_ns, weft__doing *is)
{
    const uint64_t *life = shot->life;
    if (is->conduct == WEFT__CONDUCT_WAITING && is->op) return;
    if (life[WEFT__LIFE_CALLING]) {
        is->conduct = WEFT__CONDUCT_CALLBACK;
        for (size_t i = 0; life[WEFT__LIFE_CALLED] && i < shot->op_count; i++)
            if (shot->ops[i].record == life[WEFT__LIFE_CALLED]) is->called = &shot->ops[i];
        is->since_ns = (int64_t)life[WEFT__LIFE_CALLING];
    } else if (is_inside(shot, now_ns)) {
        is->conduct = WEFT__CONDUCT_MODULE;
        is->since_ns = (int64_t)life[WEFT__LIFE_MODULE];
    } else if (life[WEFT__LIFE_STAGE] == WEFT__STAGE_LEAVING ||
               life[WEFT__LIFE_STAGE] == WEFT__STAGE_ABORTING) {
        is->conduct = WEFT__CONDUCT_LEAVING;
        is->since_ns = (int64_t)life[WEFT__LIFE_LEAVING];
    }
}

/* Had that process, which has gone, been stopped before?  The progress thread of one that runs says within milliseconds
 * that it has gone to sleep, and if it naps, each time; here it was still about, and then nothing was heard for long. */
static bool had_been_stopped(const weft__snapshot *shot, const weft__doing *is, int64_t now_ns)
{
    uint64_t rest = shot->life[WEFT__LIFE_REST];
    int64_t since_ns = (int64_t)(rest >> 8);
    return is->conduct == WEFT__CONDUCT_OWN && since_ns > 0 && since_ns <= now_ns &&
           (rest & 0xff) < WEFT__RESTS_ASLEEP && now_ns - is->sign_ns > SILENT_NS;
}

weft__doing weft__doing_of(const weft__witness *witness, bool frozen, int64_t now_ns)
{
    const weft__snapshot *shot = witness->shot;
    int64_t until_ns = frozen ? now_ns : INT64_MAX; /* a record that goes on may be younger than now */
    int64_t left_ns = (int64_t)shot->life[WEFT__LIFE_LEAVING];
    weft__doing is = {.conduct = WEFT__CONDUCT_OWN};
    is.sign_ns = weft__last_sign(shot, now_ns);
    look_at_ops(shot, until_ns, &is);
    if (is.conduct == WEFT__CONDUCT_OWN && is.op) is.conduct = WEFT__CONDUCT_RUNNING;
    is.since_ns = since_ops(shot, &is, until_ns);
    if (!frozen || left_ns <= now_ns) look_at_life(shot, now_ns, &is);
    if (shot->life[WEFT__LIFE_STAGE] == WEFT__STAGE_LEFT && left_ns <= until_ns) {
        is.conduct = WEFT__CONDUCT_LEFT;
        is.since_ns = left_ns;
    } else if (witness->process == WEFT__PROCESS_GONE && !frozen) {
        is.conduct = WEFT__CONDUCT_DEAD;
        is.since_ns = is.sign_ns;
    } else if (witness->process == WEFT__PROCESS_STOPPED || (frozen && had_been_stopped(shot, &is, now_ns))) {
        is.conduct = WEFT__CONDUCT_STOPPED;
        is.since_ns = is.sign_ns;
    }
    return is;
}
