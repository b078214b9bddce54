/* world.c - see world.h.
 *
 * The library runs as it is but for four things, each put in its place by the linker: the clock, the
 * processor's counter, the watchdogs' wire (wires.c), and slots in shared memory (slots_memory.c).  No thread
 * of it runs: what the progress thread and the watchdog would do is done here, in steps. */
#include "world.h"
#include "alarm.h"
#include "chance.h"
#include "deadlines.h"
#include "engine.h"
#include "events.h"
#include "heartbeat.h"
#include "leave.h"
#include "peer.h"
#include "protocols.h"
#include "slots_memory.h"
#include "trace.h"
#include "watchdog.h"
#include "wires_hearing.h"

#include <stdio.h>
#include <stdlib.h>

#define BEGIN_NS      (1000 * 1000 * WEFT__MS)
#define HASTY_NS      (400 * WEFT__MS)   /* that pass at once at most */
#define SETTLE_NS     (30000 * WEFT__MS) /* every deadline of a job, and what comes after it, is before */
#define FUSE_MOST     40
#define SOCKETS_NEVER UINT32_MAX
#define STEPS_MOST    (6000 * WIRES_RANKS_MAX) /* of one job: the longest take some ten thousand of 33 ranks */

world_way world;

static struct {
    weft_context *ctx;
    int64_t away_ns, listen_ns; /* its threads do nothing until then; it listens then, where world.listens */
} ranks[WIRES_RANKS_MAX];
static int64_t now_ns = BEGIN_NS, slept_ns;
static int deaths_wanted; /* between steps, still to come */
static int steps;
static bool waited;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
void __wrap_weft__ticker_open(weft__ticker *ticker);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    const int64_t ns = clock == CLOCK_BOOTTIME ? now_ns + slept_ns : now_ns;
    *t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return 0;
}

void __wrap_weft__ticker_open(weft__ticker *ticker)
{
    *ticker = (weft__ticker){.usable = false}; /* who asks it asks the clock */
}

/* ---- ranks ---- */

static void set_peers(weft_context *ctx)
{
    weft__transport *t = wires_transport(ctx->rank, weft__p2p_sink(ctx->p2p));
    ctx->peers = calloc((size_t)world.ranks, sizeof *ctx->peers);
    if (!ctx->peers) abort();
    for (int i = 0; i < world.ranks; i++) {
        ctx->peers[i] = (weft__peer){.host = "host",
                                     .pid = i,
                                     .local = world.one_host ? i : -1,
                                     .host_lead = world.one_host ? 0 : i,
                                     .ctx = ctx,
                                     .rank = i};
        ctx->peers[i].death.fd = ctx->peers[i].tie.fd = -1;
        if (i != ctx->rank) weft__p2p_route(ctx->p2p, i, t);
    }
}

static weft_context *open_rank(int rank, const weft__executor *const *executors)
{
    static const weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx = weft__context_new(&config, executors, weft__protocols);
    if (!ctx) abort();
    ctx->quorum = WEFT__QUORUM_ANY; /* deaths are told of by connections alone, and are deaths all the same */
    weft__events_init(ctx);
    ctx->wire = wires_control(rank);
    ctx->rank = rank;
    ctx->world_size = world.ranks;
    ctx->sockets_in = SOCKETS_NEVER;
    ctx->segment = world.one_host ? slots_memory_segment(rank, world.ranks) : NULL;
    ctx->slot_bytes = 4096;
    if (weft__p2p_open(rank, world.ranks, WEFT__EAGER_BY_ROUTE, &ctx->p2p_events, &ctx->p2p)) abort();
    set_peers(ctx);
    return ctx;
}

/* Most jobs are small: there all orders of few messages come up. */
static int draw_size(int most)
{
    int size = 2 + chance_below(4);
    if (chance_one_in(4)) size += chance_below(8);
    if (chance_one_in(24)) size = 2 + chance_below(WIRES_RANKS_MAX - 1);
    return size < most ? size : most;
}

static void open_world(world_way way, const weft__executor *const *executors)
{
    const bool one_host = way.one_host;
    now_ns = BEGIN_NS;
    slept_ns = 0;
    world = way;
    deaths_wanted = 0;
    steps = 0;
    waited = false;
    TRACE("%d ranks%s%s", world.ranks, one_host ? " on one host" : "", world.hasty ? ", hasty" : "");
    wires_open(world.ranks, one_host);
    if (one_host) slots_memory_open(world.ranks);
    for (int i = 0; i < world.ranks; i++) {
        ranks[i].away_ns = ranks[i].listen_ns = 0;
        ranks[i].ctx = open_rank(i, executors);
    }
    for (int i = 0; i < world.ranks; i++) {
        weft__engine_take(ranks[i].ctx);
        weft__peer_watch_next(ranks[i].ctx);
        weft__engine_drop(ranks[i].ctx);
    }
}

void world_open(int most, bool one_host, const weft__executor *const *executors)
{
    world_way way = {.ranks = draw_size(most), .one_host = one_host};
    way.hasty = chance_one_in(3);
    open_world(way, executors);
}

void world_open_all(int size, const weft__executor *const *executors)
{
    open_world((world_way){.ranks = size}, executors);
}

void world_share_hosts(int each)
{
    slots_memory_open(world.ranks);
    for (int i = 0; i < world.ranks; i++) {
        weft_context *ctx = ranks[i].ctx;
        ctx->segment = slots_memory_segment(i, world.ranks);
        for (int k = 0; k < world.ranks; k++) {
            ctx->peers[k].local = k / each == i / each ? k : -1;
            ctx->peers[k].host_lead = ctx->peers[k].first_on_host = k / each * each;
        }
    }
}

void world_draw_tree(void)
{
    int fan_out = 2 + chance_below(3), at_once = chance_below(5), beside = 1 + chance_below(3);
    for (int rank = 0; rank < world.ranks && !world.one_host; rank++) {
        world_rank(rank)->fan_out = fan_out;
        world_rank(rank)->told_at_once = at_once;
        for (int i = 0; i < world.ranks; i++) world_rank(rank)->peers[i].host_lead = i / beside * beside;
    }
}

static void close_rank(weft_context *ctx)
{
    weft__engine_take(ctx);
    while (!weft__list_empty(&ctx->pending))
        weft__request_fail(WEFT__LIST_ENTRY(ctx->pending.next, weft_request, pending), WEFT_ERR_CANCELLED,
                           "over");
    weft__engine_progress(ctx);
    weft__engine_drop(ctx);
    weft__alarm_send(ctx); /* to nobody */
    weft__requests_close(ctx);
    weft__groups_close(ctx);
    weft__list_init(&ctx->groups);
    weft__list_init(&ctx->retiring);
    ctx->segment = NULL;
    ctx->wire = NULL;
    weft__context_free(ctx);
}

/* Whose end is told of by connections alone is presumed dead, whoever else told that and however. */
static void check_knowledge(const weft_context *ctx)
{
    for (int i = 0; i < world.ranks && !world.one_host; i++)
        if (atomic_load(&ctx->peers[i].gone) == WEFT__DIED)
            trace_blame("rank %d is sure that rank %d has died, which nobody can know", ctx->rank, i);
}

void world_close(void)
{
    for (int i = 0; i < world.ranks; i++)
        if (world_lives(i)) check_knowledge(ranks[i].ctx);
    for (int i = 0; i < world.ranks; i++) wires_kill(i);
    for (int i = 0; i < world.ranks; i++) close_rank(ranks[i].ctx);
    wires_close();
}

weft_context *world_rank(int rank)
{
    return ranks[rank].ctx;
}

bool world_lives(int rank)
{
    return !wires_is_dead(rank);
}

int world_deaths(void)
{
    int n = 0;
    for (int i = 0; i < world.ranks; i++) n += wires_is_dead(i);
    return n;
}

int world_some_rank(void)
{
    int rank;
    do rank = chance_below(world.ranks);
    while (!world_lives(rank));
    return rank;
}

void world_plan_deaths(int most)
{
    int dying[WIRES_RANKS_MAX];
    int n = chance_below(most + 1);
    if (n > world.ranks - 2) n = world.ranks - 2;
    for (int i = 0; i < world.ranks; i++) dying[i] = i;
    chance_shuffle(dying, world.ranks);
    for (int i = 0; i < n; i++)
        if (chance_one_in(2))
            wires_set_fuse(dying[i], 1 + chance_below(chance_one_in(2) ? FUSE_MOST : 6));
        else
            deaths_wanted++;
}

static void kill_some(void)
{
    if (!deaths_wanted || world_deaths() == world.ranks || !chance_one_in(8 + 2 * world.ranks)) return;
    deaths_wanted--;
    wires_kill(world_some_rank());
}

weft_group *world_group(int rank, uint64_t id, const int *members, int size)
{
    weft_context *ctx = ranks[rank].ctx;
    weft_group *group = weft__group_new(ctx, members, size, "world", WEFT_FOREVER);
    weft__group_params params = weft__own_params(ctx);
    if (!group) abort();
    weft__engine_take(ctx);
    if (weft__group_ready(group, id, &params) != WEFT_OK) abort();
    weft__engine_drop(ctx);
    return group;
}

/* ---- steps ---- */

typedef void meet_fn(int rank, int other);

static void with_engine(meet_fn *fn, int rank, int other)
{
    weft__engine_take(ranks[rank].ctx);
    fn(rank, other);
    weft__engine_drop(ranks[rank].ctx);
}

/* The connection that `rank` asks for comes: the other end lets go too, or refuses it. */
static void meet(int rank, int other)
{
    if (!wires_is_astray(other, rank)) with_engine(wires_let_go, other, rank);
    if (!wires_is_astray(other, rank) || !wires_is_astray(rank, other)) {
        if (wires_is_astray(rank, other)) with_engine(wires_refused, rank, other);
        return;
    }
    wires_begin_anew(rank, other);
    with_engine(wires_connected, other, rank);
    with_engine(wires_connected, rank, other);
}

/* As the watchdog's thread does for one context. */
static void attend(weft_context *ctx)
{
    weft__alarm_send(ctx);
    weft__watchdog_wire_take(ctx->wire, weft__watchdog_take, ctx);
    weft__alarm_send(ctx);
    if (now_ns >= atomic_load(&ctx->check_ns)) weft__deadlines_check(ctx);
    if (!world.listens) return;
    weft__engine_take(ctx);
    wires_hearing_check(ctx->rank, now_ns);
    weft__engine_drop(ctx);
    for (int i = 0; i < world.ranks; i++)
        if (wires_hearing_meets(ctx->rank, i)) meet(ctx->rank, i);
    ranks[ctx->rank].listen_ns = weft__heartbeat_attend(ctx, true, now_ns);
}

void world_away(int rank, int64_t ns)
{
    TRACE("rank %d is away", rank);
    ranks[rank].away_ns = now_ns + ns;
}

void world_suspend(int64_t ns)
{
    TRACE("all machines sleep");
    slept_ns += ns;
}

bool world_is_away(int rank)
{
    return now_ns < ranks[rank].away_ns;
}

static int64_t next_look(int rank)
{
    int64_t next = atomic_load(&ranks[rank].ctx->check_ns);
    if (world.listens && ranks[rank].listen_ns < next) next = ranks[rank].listen_ns;
    if (!weft__mpsc_empty(&ranks[rank].ctx->notices)) next = now_ns;
    return next > ranks[rank].away_ns ? next : ranks[rank].away_ns;
}

static void turn(weft_context *ctx)
{
    weft__engine_take(ctx);
    ctx->sockets_in = SOCKETS_NEVER;
    weft__engine_progress(ctx);
    weft__engine_drop(ctx);
}

static const char *plane_text(wires_plane plane)
{
    return plane == WIRES_FRAMES ? "message" : plane == WIRES_NOTICES ? "notice" : "end";
}

static void deliver(const wires_path *path)
{
    weft_context *ctx = ranks[path->to].ctx;
    TRACE("%s from %d to %d", plane_text(path->plane), path->from, path->to);
    wires_release(path);
    if (path->plane == WIRES_NOTICES) {
        attend(ctx);
    } else if (path->plane == WIRES_FRAMES) {
        turn(ctx);
    } else {
        weft__engine_take(ctx);
        weft__peer_gone(ctx, path->from, WEFT__DIED, false, "has died");
        weft__engine_drop(ctx);
    }
}

static bool is_due(int rank)
{
    return world_lives(rank) && now_ns >= next_look(rank);
}

/* One whose watchdog has something to do, from a rank drawn by chance on; -1: none has. */
static int next_due(void)
{
    int first = chance_below(world.ranks);
    for (int i = 0; i < world.ranks; i++) {
        int rank = (first + i) % world.ranks;
        if (is_due(rank)) return rank;
    }
    return -1;
}

bool world_step(void)
{
    wires_path path;
    int due;
    bool some;
    if (++steps > STEPS_MOST) {
        if (steps == STEPS_MOST + 1) trace_blame("messages have no end");
        return false;
    }
    kill_some();
    for (int i = 0; i < world.ranks; i++) wires_set_away(i, now_ns < ranks[i].away_ns);
    if (world.hasty && chance_one_in(12)) now_ns += 1 + (int64_t)(chance_next() % HASTY_NS);
    due = next_due();
    some = wires_draw(&path);
    if (due < 0 && !some) return false;
    if (world.step_ns) now_ns += (int64_t)(chance_next() % (uint64_t)world.step_ns);
    if (due >= 0 && (!some || chance_one_in(3))) {
        TRACE("rank %d's watchdog looks", due);
        attend(ranks[due].ctx);
    } else {
        deliver(&path);
    }
    return true;
}

static bool pass_time(int64_t until_ns)
{
    int64_t next = WEFT__NEVER;
    for (int i = 0; i < world.ranks; i++) {
        if (world_lives(i) && next_look(i) < next) next = next_look(i);
    }
    if (next > until_ns) return false;
    if (next > now_ns) {
        now_ns = next;
        waited = true;
        TRACE("time passes");
    }
    return true;
}

bool world_pass_time(void)
{
    return pass_time(BEGIN_NS + SETTLE_NS);
}

void world_sleep(int64_t ns)
{
    now_ns += ns;
    TRACE("time passes");
}

void world_settle(void)
{
    do {
        while (world_step()) {
        }
    } while (steps <= STEPS_MOST && world_pass_time());
    world_progress_all();
}

void world_settle_for(int64_t ns)
{
    const int64_t until = now_ns + ns;
    do {
        while (world_step()) {
        }
    } while (steps <= STEPS_MOST && pass_time(until));
    if (now_ns < until) now_ns = until;
}

bool world_waited(void)
{
    return waited;
}

void world_progress_all(void)
{
    for (int i = 0; i < world.ranks; i++)
        if (world_lives(i)) turn(ranks[i].ctx);
}

/* ---- promises ---- */

static int broken_at(weft_group *const *groups, int n)
{
    for (int i = 0; i < n; i++)
        if (groups[i] && world_lives(groups[i]->ctx->rank) && atomic_load(&groups[i]->state) == WEFT__BROKEN)
            return i;
    return -1;
}

static void check_cause(const weft_group *group, const char *what)
{
    if (group->culprit >= 0 && world_lives(group->culprit))
        trace_blame("%s: rank %d says that it is broken by rank %d, which lives", what, group->ctx->rank,
                    group->culprit);
}

static int dead_peer(const weft_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (!world_lives(group->world[i])) return group->world[i];
    return -1;
}

void world_check_broken(weft_group *const *groups, int n, const char *what)
{
    int broken = broken_at(groups, n);
    for (int i = 0; i < n; i++) {
        const weft_group *group = groups[i];
        if (!group || !world_lives(group->ctx->rank)) continue;
        if (atomic_load(&group->state) == WEFT__BROKEN) {
            check_cause(group, what);
        } else if (atomic_load(&group->state) == WEFT__READY) {
            if (broken >= 0)
                trace_blame("%s: broken at rank %d (%s), not at rank %d", what, groups[broken]->ctx->rank,
                            groups[broken]->why, group->ctx->rank);
            if (dead_peer(group) >= 0)
                trace_blame("%s: rank %d has died, and it is not broken at rank %d", what, dead_peer(group),
                            group->ctx->rank);
        }
    }
}

void world_check_told(weft_group *const *groups, int n, const char *what)
{
    weft_group *running[WIRES_RANKS_MAX] = {NULL};
    int broken;
    for (int i = 0; i < n; i++)
        running[i] = groups[i] && !world_is_away(groups[i]->ctx->rank) ? groups[i] : NULL;
    broken = broken_at(running, n);
    for (int i = 0; i < n && broken >= 0; i++)
        if (running[i] && world_lives(i) && atomic_load(&running[i]->state) == WEFT__READY)
            trace_blame("%s: broken at rank %d (%s), of which rank %d has not been told in time", what,
                        groups[broken]->ctx->rank, groups[broken]->why, groups[i]->ctx->rank);
}

static bool keep_counting(void *arg, int peer, const void *bytes)
{
    (void)peer;
    (void)bytes;
    ++*(int *)arg;
    return false;
}

void world_check_early(int rank, uint64_t id)
{
    weft_context *ctx = ranks[rank].ctx;
    int n = 0;
    weft__engine_take(ctx);
    for (int type = WEFT__MESSAGE_NONE; type <= WEFT__MESSAGE_GO_TOGETHER; type++)
        weft__early_offer(ctx, id, type, keep_counting, &n);
    weft__engine_drop(ctx);
    if (n)
        trace_blame("rank %d keeps %d messages for group %llu, which is over", rank, n,
                    (unsigned long long)id);
}

void world_check_culprit(const weft_request *req, const char *what)
{
    int rank = req->culprit >= 0 ? req->group->world[req->culprit] : -1;
    if (rank >= 0 && world_lives(rank))
        trace_blame("%s: rank %d is told that rank %d is gone, which lives", what, req->ctx->rank, rank);
}
