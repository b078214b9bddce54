/* heartbeat_game.c - which hosts live: each rank is on a host of its own, and listens.
 *
 * One host vanishes, or a pair loses each other, one way or both, or ways are lost for less than the limit, or of two
 * connections to one host the one is silent, which is made anew, or of a host that is heard elsewhere one rank is said to be
 * dead, which the others are not; ranks are away meanwhile,
 * stopped or in a debugger, for up to seconds.  What must hold: a host that vanishes is presumed dead by all others in time, and
 * finds itself without them; of a pair that a third host reaches nobody is presumed dead before their connection could be made
 * again, and one of the two afterwards; and nobody ever is otherwise, whoever is away. */
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
    SAID_MS = 2 * LIMIT_MS /* by then the host is heard elsewhere */
};

typedef enum trouble { NOTHING, VANISHES, PAIR, SHORTLY, SILENT, HEARSAY, TROUBLES } trouble;

static struct {
    trouble what;
    int a,
        b; /* the host that vanishes; or the pair; or who hears nothing of ranks 0 and 1, and who says that 0 is dead */
    bool said;
    bool one_way, heals;
    int64_t at_ns, ends_ns;
    bool was_away[RANKS_MOST]; /* since then: its limits have begun anew */
} game;

static void lose_ways(bool lost)
{
    if (game.what == SILENT) return;
    for (int i = 0; i < 2 && game.what == HEARSAY; i++) {
        wires_lose_way(game.a, i, lost);
        wires_lose_way(i, game.a, lost);
    }
    if (game.what == HEARSAY) return;
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
    return atomic_load(&world_rank(rank)->peers[other].gone) != WEFT__LIVES;
}

static void check_gone(int rank, int other)
{
    const int64_t since = weft__now_ns() - game.at_ns;
    const bool between = (rank == game.a) != (other == game.a);
    if (game.what == VANISHES && between && since >= (LIMIT_MS * WEFT__MS) * 3 / 4) return;
    if (game.what == PAIR && !game.heals &&
        (other == game.a || other == game.b || rank == game.a || rank == game.b) &&
        since >= RECONNECT_MS * WEFT__MS)
        return;
    if (game.what == HEARSAY && game.said && (other == 0 || other == game.b || rank == 0 || rank == game.b))
        return;
    trace_blame("rank %d counts rank %d as gone after %lld ms: %s", rank, other,
                (long long)(since / WEFT__MS), world_rank(rank)->peers[other].why);
}

static void check_all(void)
{
    for (int i = 0; i < world.ranks; i++)
        for (int k = 0; k < world.ranks; k++)
            if (is_gone(i, k)) check_gone(i, k);
}

static void draw_game(void)
{
    game.what = (trouble)chance_below(TROUBLES);
    game.a = chance_below(world.ranks);
    game.b = (game.a + 1 + chance_below(world.ranks - 1)) % world.ranks;
    if (game.what == PAIR && world.ranks < 3) game.what = VANISHES; /* nobody reaches both */
    if (game.what == SILENT && world.ranks < 3) game.what = NOTHING;
    if (game.what == HEARSAY && world.ranks < 6) game.what = NOTHING;
    game.said = false;
    game.one_way = chance_one_in(2);
    game.heals = chance_one_in(2);
    game.at_ns = weft__now_ns() + (1000 + chance_below(1000)) * WEFT__MS;
    game.ends_ns = WEFT__NEVER;
    if (game.what == SHORTLY) game.ends_ns = game.at_ns + (1 + chance_below(SHORT_MS)) * WEFT__MS;
    if (game.what == PAIR && game.heals)
        game.ends_ns = game.at_ns + (1 + chance_below(RECONNECT_MS)) * WEFT__MS;
    if (game.what == HEARSAY)
        game.ends_ns = game.at_ns + (RECONNECT_MS - chance_below(RECONNECT_MS - SAID_MS)) * WEFT__MS;
    memset(game.was_away, 0, sizeof game.was_away);
}

/* A rank that is away can give no answer, so where a pair is lost nobody is: those who reach both have to say so. */
static void send_away(void)
{
    int rank = chance_below(world.ranks);
    if (game.what == PAIR || game.what == SILENT || game.what == HEARSAY || !chance_one_in(6)) return;
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
    lose_ways(now >= game.at_ns && now < game.ends_ns && game.what != NOTHING);
    while (world_step()) check_all();
    check_all();
}

/* Nobody listens to a host while its watcher is away; and of a pair, unless one watches the other or waits for it. */
static void check_end(void)
{
    const int watcher = (game.a + world.ranks - 1) % world.ranks;
    const bool listen = (game.a + 1) % world.ranks == game.b || (game.b + 1) % world.ranks == game.a;
    for (int i = 0; i < world.ranks && game.what == VANISHES; i++)
        if (i != game.a && !game.was_away[i] && !game.was_away[watcher] && !game.was_away[game.a] &&
            (!is_gone(i, game.a) || !is_gone(game.a, i)))
            trace_blame("rank %d has vanished, which rank %d does not know, or not the other way round",
                        game.a, i);
    if (game.what == PAIR && !game.heals && listen && !is_gone(game.a, game.b) && !is_gone(game.b, game.a))
        trace_blame("rank %d and rank %d have lost each other, and go on", game.a, game.b);
    if (game.what == SILENT && wires_is_silent(game.a, game.b))
        trace_blame("the connection of rank %d to rank %d has not been made anew", game.a, game.b);
}

/* Ranks 0 and 1 have one host, and another one hears nothing of either of them over its connection, or of neither. */
static void share_a_host(void)
{
    const int b = chance_below(2);
    game.a =
        game.what == HEARSAY ? world.ranks - 1 : 2 + chance_below(world.ranks - 2); /* which watches rank 0 */
    game.b = b;
    wires_set_beside(1);
    for (int i = 0; i < world.ranks; i++) world_rank(i)->peers[1].first_on_host = 0;
    if (game.what == SILENT)
        wires_silence(game.a, b, 1 - b);
    else
        game.b = 2 + (game.a - 1 + chance_below(world.ranks - 3)) % (world.ranks - 2);
}

static int64_t end_after_ms(void)
{
    return game.what == PAIR || game.what == HEARSAY ? RECONNECT_MS + CUT_OFF_MS
           : game.what == SILENT                     ? RENEWED_MS
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
    if (game.what == SILENT || game.what == HEARSAY) share_a_host();
    until = game.at_ns + end_after_ms() * WEFT__MS;
    step();
    while (weft__now_ns() < until && world_pass_time()) {
        send_away();
        step();
    }
    check_end();
    world_close();
    wires_hearing_close();
}
