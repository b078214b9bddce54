/* heartbeat_game.c - which hosts live: each rank is on a host of its own, and listens.
 *
 * One host vanishes, or a pair loses each other, one way or both, or ways are lost for less than the limit, for longer on
 * slow links, or while all machines sleep, or of two connections to one host the one is silent, which is made anew, or of a
 * host that is heard elsewhere one rank is said to be dead, which the others are not, or a host of two loses another one, of
 * one rank or two, or of two connections to one host the one is made anew as the other one is given up, and the host vanishes
 * later, or all ways from most hosts to the others are lost, or all back, or both; ranks are away meanwhile, stopped or in a
 * debugger, for up to seconds.  What must hold: a host that vanishes is presumed dead by all others in time, and
 * finds itself without them; and nobody ever is presumed dead otherwise, whoever is away.  Of a pair that a third host reaches
 * the two are unreachable for each other, once their connection could not be made again in time: the groups of both break at
 * all members, the others do not, and when the way is there again so is their connection.
 *
 * For some pairs the members of a group of both, or the two alone, shrink it when it has broken: all who get a group have the
 * same one, and of the two one goes at most; nobody goes where the one that has found the loss shrinks last, when the two
 * have met again.  Of two hosts that have lost each other one goes, whole, and all others go on, though one of all shrinks up to
 * two seconds later than the others; where they have two ranks and one it is the one, whoever has found it: so few others may be
 * left that they are no majority with the one. */
#include "chance.h"
#include "engine.h"
#include "executors.h"
#include "games.h"
#include "peer.h"
#include "trace.h"
#include "wires_hearing.h"
#include "world.h"

#include <string.h>

enum {
    RANKS_MOST = 9,
    LIMIT_MS = 1000, /* as by default */
    NAMED_MS = 2 * LIMIT_MS,
    CUT_OFF_MS = 3 * LIMIT_MS, /* by then who is cut off has given up all others */
    SHORT_MS = LIMIT_MS / 2,
    RENEWED_MS = 6 * LIMIT_MS, /* by then what is silent alone has been made anew */
    RECONNECT_MS = 3000,
    HEALED_MS = 3 * LIMIT_MS,                        /* by then ways that are there again are used */
    SHRINK_MS = 4 * LIMIT_MS,                        /* a shrink has */
    PATIENT_MS = CUT_OFF_MS + HEALED_MS + SHRINK_MS, /* one that waits until the two meet again */
    BOTH_GO_MS = RECONNECT_MS + 8 * LIMIT_MS, /* a host of which the one rank was unreachable vanishes */
    ROUND_MS = 2 * LIMIT_MS,      /* SLOW: it takes 2.25 of them to suspect a host, and 8 for answers */
    AWAKE_MS = 6 * LIMIT_MS / 10, /* SUSPENDED: ways are there again after it */
    SAID_MS = 2 * LIMIT_MS        /* by then the host is heard elsewhere */
};

/* When a pair's ways are there again: before it is given up, or afterwards. */
typedef enum healing { NEVER, IN_TIME, LATE, HEALINGS } healing;

/* Which group of the pair is shrunk, and when. */
typedef enum shrinking {
    NOT_SHRUNK,
    BY_ALL,      /* the group of all */
    BY_THE_PAIR, /* a group of the two */
    FINDER_LAST, /* the group of all, and by who has found the loss only when the two have met again */
    SHRINKINGS
} shrinking;

typedef enum trouble {
    NOTHING,
    VANISHES,
    PAIR,
    SHORTLY,
    SLOW,
    SUSPENDED,
    SILENT,
    HEARSAY,
    HOSTS,
    SIBLING,
    PARTS,
    TROUBLES
} trouble;

static struct {
    trouble what;
    int a,
        b; /* the host that vanishes; or the pair; or who hears nothing of ranks 0 and 1, and who says that 0 is dead, if anybody */
    int on_b; /* HOSTS: ranks of the host that ranks 0 and 1 do not reach, from a on */
    int late; /* likewise: this rank shrinks that much later than it could; -1: none does */
    int64_t late_ns, could_ns;
    int64_t mends_ns;  /* SIBLING: the way to rank 1 is there again; 0: it is not known yet */
    bool idles;        /* likewise: over its connection nothing comes by itself from then on */
    bool stood;        /* likewise: the connection to it has, */
    uint32_t strayed;  /* and then it had last been unreachable */
    bool apart;        /* likewise: rank 0 was unreachable from a as both vanished, and rank 1 was not */
    int64_t sleeps_ns; /* SUSPENDED */
    bool gone_by_then, silenced;
    bool is_few[RANKS_MOST]; /* PARTS: it is of the smaller part, */
    bool to_few, from_few;   /* to which all ways are lost, or from which */
    bool said;
    bool one_way;
    healing heals;
    shrinking shrinks;
    bool notices_lost;                                 /* of the pair too */
    weft_group *shrunk[RANKS_MOST], *made[RANKS_MOST]; /* NULL: it is in none */
    weft_request *reqs[RANKS_MOST];                    /* of that; NULL: it has not asked yet */
    weft_group *both[RANKS_MOST],
        *others[RANKS_MOST]; /* of a pair, and all others; of all but b.  NULL: it is in none */
    int64_t at_ns, ends_ns;
    bool was_away[RANKS_MOST]; /* since then: its limits have begun anew */
} game;

/* Ranks 0 and 1, and others, do not reach each other. */
static bool is_by_host(void)
{
    return game.what == HEARSAY || game.what == HOSTS || game.what == SIBLING;
}

static void lose_both_ways(int rank, int other, bool lost)
{
    wires_lose_way(rank, other, lost);
    wires_lose_way(other, rank, lost);
}

static bool both_go(void)
{
    return game.what == SIBLING && weft__now_ns() >= game.at_ns + BOTH_GO_MS * WEFT__MS;
}

/* Rank 1 is reached again just before rank 0 is given up, or after both are; then neither is, by anybody. */
static void lose_a_sibling(bool lost)
{
    const int64_t now = weft__now_ns(), broke_ns = wires_broke_ns(game.a, 0);
    const bool mends = game.mends_ns && now >= game.mends_ns;
    if (!game.mends_ns && broke_ns)
        game.mends_ns = broke_ns + (RECONNECT_MS - LIMIT_MS + chance_below(3 * LIMIT_MS)) * WEFT__MS;
    if (lost && !game.silenced) wires_silence(game.a, 1, 1);
    game.silenced = game.silenced || lost;
    lose_both_ways(game.a, 0, lost);
    lose_both_ways(game.a, 1, lost && !mends);
    if (mends && game.idles) wires_fall_idle(game.a, 1);
    for (int i = 2; i < world.ranks && both_go(); i++) {
        lose_both_ways(i, 0, true);
        lose_both_ways(i, 1, true);
    }
}

static void lose_parts(bool lost)
{
    for (int i = 0; i < world.ranks; i++)
        for (int k = 0; k < world.ranks; k++)
            if (game.is_few[i] != game.is_few[k])
                wires_lose_way(i, k, lost && (game.is_few[k] ? game.to_few : game.from_few));
}

static void lose_ways(bool lost)
{
    if (game.what == SILENT) return;
    if (game.what == PARTS) {
        lose_parts(lost);
        return;
    }
    if (game.what == SIBLING) lose_a_sibling(lost);
    for (int i = 0; i < 2 * game.on_b && is_by_host() && game.what != SIBLING; i++)
        lose_both_ways(game.a + i / 2, i % 2, lost);
    if (is_by_host()) return;
    if (game.what == PAIR) {
        wires_lose_way(game.a, game.b, lost);
        if (!game.one_way) wires_lose_way(game.b, game.a, lost);
        return;
    }
    for (int i = 0; i < world.ranks; i++) {
        if (i == game.a) continue;
        wires_lose_way(i, game.a, lost);
        wires_lose_way(game.a, i, lost);
    }
}

static bool is_gone(int rank, int other)
{
    return weft__is_gone(&world_rank(rank)->peers[other]);
}

static bool is_unreachable(int rank, int other)
{
    return atomic_load(&world_rank(rank)->peers[other].gone) == WEFT__UNREACHABLE;
}

static bool is_pair(int rank, int other)
{
    return (rank == game.a && other == game.b) || (rank == game.b && other == game.a);
}

static bool is_of_pair(int rank)
{
    return rank == game.a || rank == game.b;
}

/* The host that has lost another one; -1: neither. */
static int lost_host(int rank)
{
    return rank < 2 ? 0 : rank >= game.a && rank < game.a + game.on_b ? 1 : -1;
}

static void check_gone(int rank, int other)
{
    const int64_t since = weft__now_ns() - game.at_ns;
    const bool goes = game.shrinks != NOT_SHRUNK && (game.shrinks != FINDER_LAST || game.heals == NEVER);
    if (game.what == PAIR && goes && (is_of_pair(rank) || is_of_pair(other)) &&
        since >= RECONNECT_MS * WEFT__MS)
        return;
    if (game.what == HOSTS && (lost_host(rank) >= 0 || lost_host(other) >= 0) &&
        since >= RECONNECT_MS * WEFT__MS)
        return;
    if (both_go() && (rank < 2) != (other < 2)) return;
    if (game.what == PARTS && (game.is_few[rank] || game.is_few[other]) &&
        since >= (LIMIT_MS * WEFT__MS) * 3 / 4)
        return;
    const bool between = (rank == game.a) != (other == game.a);
    if (game.what == VANISHES && between && since >= (LIMIT_MS * WEFT__MS) * 3 / 4) return;
    if (game.what == HEARSAY && game.said && (other == 0 || other == game.b || rank == 0 || rank == game.b))
        return;
    trace_blame("rank %d counts rank %d as gone after %lld ms: %s", rank, other,
                (long long)(since / WEFT__MS), world_rank(rank)->peers[other].why);
}

/* What the two are for a as they vanish. */
static void note_parted(void)
{
    game.gone_by_then = true;
    game.apart = is_unreachable(game.a, 0) && !is_gone(game.a, 1) && !is_unreachable(game.a, 1);
    for (int i = 2; i < world.ranks; i++)
        game.apart = game.apart && !is_gone(i, game.a) && !is_gone(game.a, i);
}

static bool is_of_pair_or_sibling(int rank, int other)
{
    return (rank == game.a && other < 2) || (other == game.a && rank < 2);
}

static void check_unreachable(int rank, int other)
{
    const int64_t since = weft__now_ns() - game.at_ns;
    if (game.what == PAIR && is_pair(rank, other) && game.heals != IN_TIME &&
        since >= RECONNECT_MS * WEFT__MS)
        return;
    if (game.what == HOSTS && lost_host(rank) + lost_host(other) == 1 &&
        lost_host(rank) * lost_host(other) == 0 && since >= RECONNECT_MS * WEFT__MS)
        return;
    if (game.what == SIBLING && is_of_pair_or_sibling(rank, other) && (!game.stood || rank * other == 0) &&
        since >= RECONNECT_MS * WEFT__MS)
        return;
    trace_blame("rank %d is unreachable from rank %d after %lld ms", other, rank,
                (long long)(since / WEFT__MS));
}

/* It may be reached again in the same step: then only groups of both have broken. */
static void check_sibling(void)
{
    const uint32_t strayed = atomic_load(&world_rank(game.a)->peers[1].strayed);
    if (game.stood && strayed != game.strayed && !both_go())
        trace_blame("rank 1 has been unreachable from rank %d, though there is a connection", game.a);
    if (!game.mends_ns || !wires_stands(game.a, 1) || is_unreachable(game.a, 1)) return;
    game.stood = true;
    game.strayed = strayed;
}

static void check_all(void)
{
    if (game.what == SIBLING) check_sibling();
    if (both_go() && !game.gone_by_then) note_parted();
    for (int i = 0; i < world.ranks; i++)
        for (int k = 0; k < world.ranks; k++) {
            if (is_gone(i, k)) check_gone(i, k);
            if (is_unreachable(i, k)) check_unreachable(i, k);
        }
}

static void swap_pair(void)
{
    const int a = game.a;
    game.a = game.b;
    game.b = a;
}

/* Less than half of all, whichever. */
static void draw_parts(void)
{
    int order[RANKS_MOST];
    for (int i = 0; i < world.ranks; i++) order[i] = i;
    chance_shuffle(order, world.ranks);
    for (int few = 1 + chance_below((world.ranks - 1) / 2); few > 0; few--)
        game.is_few[order[few - 1]] = true;
    game.to_few = !chance_one_in(3);
    game.from_few = !game.to_few || chance_one_in(3);
}

static void draw_game(void)
{
    game.what = (trouble)chance_below(TROUBLES);
    game.a = chance_below(world.ranks);
    game.b = (game.a + 1 + chance_below(world.ranks - 1)) % world.ranks;
    if (game.what == PAIR && world.ranks < 3) game.what = VANISHES; /* nobody reaches both */
    if (game.what == SILENT && world.ranks < 3) game.what = NOTHING;
    if (game.what == HEARSAY && world.ranks < 6) game.what = NOTHING;
    if (game.what == HOSTS && world.ranks < 4) game.what = NOTHING;
    if (game.what == SIBLING && world.ranks < 5) game.what = NOTHING;
    if (game.what == PARTS && world.ranks < 3) game.what = NOTHING;
    memset(game.is_few, 0, sizeof game.is_few);
    if (game.what == PARTS) draw_parts();
    game.mends_ns = 0;
    game.stood = game.apart = game.gone_by_then = false;
    game.on_b = game.what == HOSTS && world.ranks > 4 && chance_one_in(2) ? 2 : 1;
    game.late = -1;
    game.said = false;
    game.one_way = chance_one_in(2);
    game.heals = (healing)chance_below(HEALINGS);
    game.shrinks = game.what == PAIR ? (shrinking)chance_below(SHRINKINGS) : NOT_SHRUNK;
    if (game.what == HOSTS || game.what == PARTS) game.shrinks = BY_ALL;
    if (game.shrinks != NOT_SHRUNK) game.b = (game.a + 1) % world.ranks; /* the one listens to the other */
    if (game.shrinks != NOT_SHRUNK && chance_one_in(2)) swap_pair();
    game.notices_lost = game.what == PAIR && game.heals == NEVER && chance_one_in(2);
    game.at_ns = weft__now_ns() + (1000 + chance_below(1000)) * WEFT__MS;
    game.ends_ns = WEFT__NEVER;
    if (game.what == SHORTLY) game.ends_ns = game.at_ns + (1 + chance_below(SHORT_MS)) * WEFT__MS;
    if (game.what == SLOW)
        game.ends_ns = game.at_ns + (9 * ROUND_MS + chance_below(3 * ROUND_MS / 4)) * WEFT__MS;
    wires_slow(game.what == SLOW ? ROUND_MS * WEFT__MS : 0);
    game.sleeps_ns = game.at_ns + (LIMIT_MS * 4 / 10 + chance_below(LIMIT_MS * 3 / 10)) * WEFT__MS;
    if (game.what == PAIR && game.heals == IN_TIME)
        game.ends_ns = game.at_ns + (1 + chance_below(RECONNECT_MS)) * WEFT__MS;
    if (game.what == PAIR && game.heals == LATE)
        game.ends_ns = game.at_ns + (RECONNECT_MS + chance_below(CUT_OFF_MS)) * WEFT__MS;
    if (game.what == HEARSAY)
        game.ends_ns = game.at_ns + (RECONNECT_MS - chance_below(RECONNECT_MS - SAID_MS)) * WEFT__MS;
    memset(game.was_away, 0, sizeof game.was_away);
    memset(game.both, 0, sizeof game.both);
    memset(game.others, 0, sizeof game.others);
    memset(game.shrunk, 0, sizeof game.shrunk);
    memset(game.made, 0, sizeof game.made);
    memset(game.reqs, 0, sizeof game.reqs);
    game.idles = game.what == SIBLING && chance_one_in(2);
}

static void make_groups(void)
{
    const int pair[] = {game.a, game.b};
    int all[RANKS_MOST], others[RANKS_MOST], n = 0;
    for (int i = 0; i < world.ranks; i++) {
        all[i] = i;
        if (i != game.b) others[n++] = i;
    }
    for (int i = 0; i < world.ranks && (game.what == HOSTS || game.what == PARTS); i++)
        game.shrunk[i] = world_group(i, world_group_id(0), all, world.ranks);
    for (int i = 0; i < world.ranks && game.what == PAIR; i++) {
        game.both[i] = world_group(i, world_group_id(0), all, world.ranks);
        if (i != game.b) game.others[i] = world_group(i, world_group_id(1), others, n);
        if (game.shrinks == BY_THE_PAIR && is_of_pair(i))
            game.shrunk[i] = world_group(i, world_group_id(2), pair, 2);
        else if (game.shrinks == BY_ALL || game.shrinks == FINDER_LAST)
            game.shrunk[i] = game.both[i];
    }
}

/* ---- what a pair's group is shrunk to ---- */

static bool has_found(int rank)
{
    const int other = rank == game.a ? game.b : game.a;
    return is_of_pair(rank) && is_unreachable(rank, other) && !world_rank(rank)->peers[other].by_hearsay;
}

static void may_shrink(int rank)
{
    const bool is_patient = game.shrinks == FINDER_LAST || game.what == PARTS;
    const weft_call call = {.timeout_ms = is_patient ? PATIENT_MS : SHRINK_MS};
    weft_group *group = game.shrunk[rank];
    if (!group || game.reqs[rank] || atomic_load(&group->state) != WEFT__BROKEN || chance_one_in(4)) return;
    if (game.shrinks == FINDER_LAST && has_found(rank)) return;
    if (rank == game.late && !game.could_ns) game.could_ns = weft__now_ns();
    if (rank == game.late && weft__now_ns() < game.could_ns + game.late_ns) return;
    TRACE("rank %d shrinks a group", rank);
    if (weft_shrink_group(group, &call, &game.made[rank], &game.reqs[rank]) != WEFT_OK)
        trace_blame("rank %d cannot shrink its group: %s", rank, weft_last_error());
}

static bool has_made(int rank)
{
    return game.reqs[rank] && weft_is_completed(game.reqs[rank]) && game.reqs[rank]->status == WEFT_OK;
}

static void check_same(const weft_group *a, const weft_group *b)
{
    if (a->id != b->id || a->size != b->size ||
        memcmp(a->world, b->world, (size_t)a->size * sizeof *a->world) != 0)
        trace_blame("rank %d and rank %d have different groups of one attempt", a->ctx->rank, b->ctx->rank);
}

static void check_shrunk(void)
{
    int first = -1, of_pair = 0;
    for (int i = 0; i < world.ranks; i++) {
        if (game.reqs[i] && !weft_is_completed(game.reqs[i])) trace_blame("rank %d waits for ever", i);
        if (!has_made(i)) continue;
        if (first < 0) first = i;
        check_same(game.made[first], game.made[i]);
        of_pair += is_of_pair(i);
        if (game.shrinks == FINDER_LAST && game.heals == LATE &&
            (game.made[i]->size != world.ranks || atomic_load(&game.made[i]->state) == WEFT__BROKEN))
            trace_blame("rank %d has a group of %d, or one that is broken: all had met again", i,
                        game.made[i]->size);
    }
    for (int i = 0; i < world.ranks; i++) {
        if (!is_of_pair(i) && is_gone(i, game.a) && is_gone(i, game.b))
            trace_blame("rank %d has lost both of a pair", i);
        if (game.shrinks == FINDER_LAST && game.heals == LATE && game.reqs[i] && !has_made(i))
            trace_blame("rank %d has no group, though all had met again: %s", i,
                        weft_request_message(game.reqs[i]));
        if (game.shrinks == BY_ALL && game.reqs[i] && !is_of_pair(i) && !has_made(i))
            trace_blame("rank %d has no group: %s", i, weft_request_message(game.reqs[i]));
    }
    if (game.heals == NEVER && of_pair > 1) trace_blame("two that do not reach each other are in one group");
}

static void check_hosts(void)
{
    const int stays = game.on_b == 2 && has_made(game.a) ? game.a : 0;
    for (int i = 0; i < world.ranks; i++) {
        const bool goes = lost_host(i) == 1 - lost_host(stays);
        if (!game.reqs[i] || !weft_is_completed(game.reqs[i])) trace_blame("rank %d waits for ever", i);
        if (has_made(i) == goes)
            trace_blame("rank %d has %s group, and rank %d has %s: %s", i, has_made(i) ? "a" : "no", stays,
                        has_made(stays) ? "one" : "none",
                        game.reqs[i] ? weft_request_message(game.reqs[i]) : "it has not asked");
        if (has_made(i) && has_made(stays)) check_same(game.made[stays], game.made[i]);
    }
}

static void check_parts(void)
{
    int most = -1;
    for (int i = 0; i < world.ranks; i++)
        if (!game.is_few[i] && (most < 0 || has_made(i))) most = i;
    for (int i = 0; i < world.ranks; i++) {
        if (has_made(i) == game.is_few[i] || !game.reqs[i] || !weft_is_completed(game.reqs[i]))
            trace_blame("rank %d of the %s part has %s group: %s", i, game.is_few[i] ? "smaller" : "larger",
                        has_made(i) ? "a" : "no",
                        game.reqs[i] ? weft_request_message(game.reqs[i]) : "it has not asked");
        if (has_made(i) && has_made(most)) check_same(game.made[most], game.made[i]);
    }
}

static void release_all(void)
{
    for (int i = 0; i < world.ranks; i++) weft_release(game.reqs[i]);
}

/* A rank that is away can give no answer, so where a pair is lost nobody is: those who reach both have to say so. */
static void send_away(void)
{
    int rank = chance_below(world.ranks);
    if (game.what == PAIR || game.what == SILENT || game.what == SUSPENDED || game.what == PARTS ||
        is_by_host() || !chance_one_in(6))
        return;
    if (weft__now_ns() >= game.at_ns - 3000 * WEFT__MS) game.was_away[rank] = true;
    world_away(rank, (1 + chance_below(3000)) * WEFT__MS);
}

static void say_dead(void)
{
    weft_context *ctx = world_rank(game.b);
    game.said = true;
    TRACE("rank %d presumes rank 0 dead", game.b);
    weft__engine_take(ctx);
    weft__peer_gone(ctx, 0, WEFT__PRESUMED_DEAD, false, "is lost");
    weft__engine_drop(ctx);
}

static void step(void)
{
    const int64_t now = weft__now_ns();
    if (game.what == HEARSAY && !game.said && now >= game.at_ns + SAID_MS * WEFT__MS) say_dead();
    if (game.what == SUSPENDED && game.ends_ns == WEFT__NEVER && now >= game.sleeps_ns) {
        world_suspend((20 + chance_below(3600000)) * WEFT__MS);
        game.ends_ns = now + AWAKE_MS * WEFT__MS;
    }
    lose_ways(now >= game.at_ns && now < game.ends_ns && game.what != NOTHING);
    if (game.notices_lost && now >= game.at_ns) wires_part(game.a, game.b);
    while (world_step()) {
        check_all();
        may_shrink(chance_below(world.ranks));
    }
    check_all();
    for (int i = 0; i < world.ranks; i++) may_shrink(i);
}

static bool is_broken(const weft_group *group)
{
    return atomic_load(&group->state) == WEFT__BROKEN;
}

static void check_pair(bool listen)
{
    const bool lost = is_unreachable(game.a, game.b) || is_unreachable(game.b, game.a);
    const bool broken = is_broken(game.both[game.a]);
    if (game.shrinks != NOT_SHRUNK) return;
    if (game.heals == NEVER && listen && !lost)
        trace_blame("rank %d and rank %d have lost each other, and do not know it", game.a, game.b);
    if (game.heals == NEVER && is_unreachable(game.a, game.b) != is_unreachable(game.b, game.a))
        trace_blame("of ranks %d and %d one does not know that they do not reach each other", game.a, game.b);
    if (game.heals != NEVER && lost)
        trace_blame("rank %d and rank %d could reach each other, and do not", game.a, game.b);
    if (game.heals == IN_TIME && broken) trace_blame("a group is broken, though nothing was lost");
    if (game.heals == NEVER && lost && !broken && !is_broken(game.both[game.b]))
        trace_blame("ranks %d and %d do not reach each other, and have a group", game.a, game.b);
    for (int i = 0; i < world.ranks; i++) {
        if (is_broken(game.both[i]) != broken)
            trace_blame("a group is broken at rank %d, or at rank %d, and not at the other", i, game.a);
        if (game.others[i] && is_broken(game.others[i]))
            trace_blame("a group without rank %d is broken at rank %d", game.b, i);
    }
}

/* Nobody listens to a host while its watcher is away; and of a pair, unless one watches the other or waits for it. */
static void check_end(void)
{
    for (int i = 2; i < world.ranks && game.apart; i++)
        if (!is_gone(i, 0) || !is_gone(i, 1))
            trace_blame("ranks 0 and 1 have vanished, which rank %d does not know", i);
    const int watcher = (game.a + world.ranks - 1) % world.ranks;
    const bool listen = (game.a + 1) % world.ranks == game.b || (game.b + 1) % world.ranks == game.a;
    for (int i = 0; i < world.ranks && game.what == VANISHES; i++)
        if (i != game.a && !game.was_away[i] && !game.was_away[watcher] && !game.was_away[game.a] &&
            (!is_gone(i, game.a) || !is_gone(game.a, i)))
            trace_blame("rank %d has vanished, which rank %d does not know, or not the other way round",
                        game.a, i);
    if (game.what == PAIR) check_pair(listen);
    if (game.what == PAIR) check_shrunk();
    if (game.what == HOSTS) check_hosts();
    if (game.what == PARTS) check_parts();
    if (game.what == SILENT && wires_is_silent(game.a, game.b))
        trace_blame("the connection of rank %d to rank %d has not been made anew", game.a, game.b);
}

static void lose_a_host(void)
{
    if (game.on_b == 1)
        game.a = chance_one_in(2) ? 2 : world.ranks - 1; /* rank 1 watches it, or it watches rank 0 */
    else
        game.a = 2;
    if (game.on_b == 2) wires_set_beside(3);
    for (int i = 0; i < world.ranks && game.on_b == 2; i++) world_rank(i)->peers[3].first_on_host = 2;
    if (chance_one_in(3)) return;
    game.late = chance_below(world.ranks);
    game.late_ns = (200 + chance_below(1800)) * WEFT__MS;
    game.could_ns = 0;
}

/* Ranks 0 and 1 have one host, and another one hears nothing of either of them over its connection, or of neither. */
static void share_a_host(void)
{
    const int b = chance_below(2);
    game.a = game.what == HEARSAY || game.what == SIBLING
                 ? world.ranks - 1
                 : 2 + chance_below(world.ranks - 2); /* which watches rank 0 */
    game.b = b;
    wires_set_beside(1);
    for (int i = 0; i < world.ranks; i++) world_rank(i)->peers[1].first_on_host = 0;
    if (game.what == HOSTS)
        lose_a_host();
    else if (game.what == SIBLING)
        game.silenced = false;
    else if (game.what == SILENT)
        wires_silence(game.a, b, 1 - b);
    else
        game.b = 2 + (game.a - 1 + chance_below(world.ranks - 3)) % (world.ranks - 2);
}

static int64_t end_after_ms(void)
{
    return game.shrinks != NOT_SHRUNK                  ? RECONNECT_MS + PATIENT_MS + CUT_OFF_MS
           : game.what == PAIR && game.heals == LATE   ? RECONNECT_MS + CUT_OFF_MS + HEALED_MS
           : game.what == PAIR || game.what == HEARSAY ? RECONNECT_MS + CUT_OFF_MS
           : game.what == SILENT                       ? RENEWED_MS
           : game.what == SLOW                         ? 12 * ROUND_MS
           : game.what == SIBLING                      ? BOTH_GO_MS + CUT_OFF_MS + LIMIT_MS
                                                       : CUT_OFF_MS;
}

void play_heartbeat(void)
{
    int64_t until;
    wires_hearing_open(RECONNECT_MS * WEFT__MS);
    world_open(RANKS_MOST, false, weft__executors);
    world.listens = true;
    world.hasty = false;
    for (int i = 0; i < world.ranks; i++) {
        world_rank(i)->quorum = WEFT__QUORUM_MAJORITY;
        for (int k = 0; k < world.ranks; k++) world_rank(i)->peers[k].first_on_host = k;
    }
    draw_game();
    if (game.what == SILENT || is_by_host()) share_a_host();
    make_groups();
    until = game.at_ns + end_after_ms() * WEFT__MS;
    step();
    while (weft__now_ns() < until && world_pass_time()) {
        send_away();
        step();
    }
    check_end();
    release_all();
    world_close();
    wires_hearing_close();
}
