/* wires_hearing.c - see wires_hearing.h. */
#include "wires_hearing.h"
#include "chance.h"
#include "check.h"
#include "clock.h"
#include "trace.h"
#include "wires.h"

#include <string.h>

enum { KNOCKS_MOST = 64 };

typedef struct connection {
    int64_t waits_ns, heard_ns; /* as net/tcp_hearing.c has them */
    int64_t broke_ns;           /* it is being made anew since; 0: it stands */
    bool lost;
    bool astray; /* it was, and another one is tried for (wires_is_astray) */
    bool silent; /* nothing of it is acknowledged, though its host answers; until it is made anew */
    bool busy;   /* something comes over it all the time */
} connection;

static struct {
    bool is_open;
    int64_t reconnect_ns;
    int64_t round_ns; /* that an answer takes, as all connections have shown; 0: they have not */
    bool beside[WIRES_RANKS_MAX / 2 + 1]; /* ranks 2i and 2i + 1 have one host */
    bool away[WIRES_RANKS_MAX];
    bool lost[WIRES_RANKS_MAX][WIRES_RANKS_MAX];
    connection of[WIRES_RANKS_MAX][WIRES_RANKS_MAX];
    weft__transport *transport[WIRES_RANKS_MAX];
    struct {
        weft__knock *knock;
        int from, to;
    } knocks[KNOCKS_MOST]; /* that are answered later, if at all */
} all;

static bool reaches(int rank, int other)
{
    return !all.lost[rank][other] && !all.lost[other][rank];
}

static bool stands(const connection *c)
{
    return !c->broke_ns && !c->astray && !c->lost;
}

static weft__silence silence_of(weft__transport *t, int peer, int64_t beat_ns, int64_t now_ns)
{
    const int rank = wires_rank_of(t);
    connection *c = &all.of[rank][peer];
    weft__silence silence = {.sent = true, .stands = stands(c), .round_ns = all.round_ns};
    all.transport[rank] = t;
    if (c->lost) return silence;
    if (reaches(rank, peer) && !c->silent) {
        if (c->waits_ns || beat_ns || c->busy) c->heard_ns = now_ns;
        c->waits_ns = 0;
    } else if (!c->waits_ns &&
               (beat_ns || c->broke_ns || c->astray || c->silent || wires_is_under_way(rank, peer))) {
        c->waits_ns = now_ns;
    }
    silence.since_ns = c->waits_ns > c->heard_ns ? c->waits_ns : c->waits_ns ? c->heard_ns : 0;
    silence.heard_ns = c->broke_ns || c->astray ? 0 : c->heard_ns;
    return silence;
}

static void end_knock(weft__knock *knock)
{
    for (int i = 0; i < KNOCKS_MOST; i++)
        if (all.knocks[i].knock == knock) all.knocks[i].knock = NULL;
    knock->end = NULL;
}

static bool knock_at(weft__transport *t, int peer, weft__knock *knock)
{
    const int rank = wires_rank_of(t);
    int i = 0;
    weft__knock_end(knock);
    if (chance_one_in(2)) {
        if (reaches(rank, peer)) knock->answered(knock);
        return true;
    }
    while (i < KNOCKS_MOST && all.knocks[i].knock) i++;
    if (i == KNOCKS_MOST) return false;
    all.knocks[i].knock = knock;
    all.knocks[i].from = rank;
    all.knocks[i].to = peer;
    knock->end = end_knock;
    return true;
}

static void renew(weft__transport *t, int peer, const char *why)
{
    connection *c = &all.of[wires_rank_of(t)][peer];
    (void)why;
    TRACE("rank %d makes its connection to rank %d anew", wires_rank_of(t), peer);
    if (!c->broke_ns && !c->lost && !c->astray) c->broke_ns = weft__now_ns();
}

static bool is_beside(const weft__transport *t, int peer, int other)
{
    (void)t;
    return peer == other || (peer / 2 == other / 2 && all.beside[peer / 2]);
}

void wires_hearing_check(int rank, int64_t now_ns)
{
    for (int i = 0; i < KNOCKS_MOST; i++) {
        weft__knock *knock = all.knocks[i].knock;
        if (!knock || all.knocks[i].from != rank || !reaches(rank, all.knocks[i].to)) continue;
        weft__knock_end(knock);
        knock->answered(knock);
    }
    for (int peer = 0; peer < WIRES_RANKS_MAX; peer++) {
        connection *c = &all.of[rank][peer];
        if (!c->broke_ns) continue;
        if (reaches(rank, peer)) {
            c->silent = false;
            c->broke_ns = c->waits_ns = 0;
            c->heard_ns = now_ns;
        } else if (now_ns - c->broke_ns >= all.reconnect_ns) {
            c->broke_ns = 0;
            c->lost = true;
            all.transport[rank]->sink->lost(all.transport[rank]->sink, peer, "it cannot be made again");
        }
    }
}

bool wires_hearing_meets(int rank, int peer)
{
    return all.is_open && wires_is_astray(rank, peer) && reaches(rank, peer) && !all.away[rank] &&
           !all.away[peer];
}

void wires_hearing_begin_anew(int rank, int peer)
{
    all.of[rank][peer] = (connection){.astray = true, .busy = all.of[rank][peer].busy};
}

void wires_hearing_connected(int rank, int peer)
{
    all.of[rank][peer] = (connection){.heard_ns = weft__now_ns(), .busy = all.of[rank][peer].busy};
}

static const weft__hearing hearing = {.silence = silence_of,
                                      .knock = knock_at,
                                      .renew = renew,
                                      .is_beside = is_beside};

const weft__hearing *wires_hearing_of(int rank)
{
    (void)rank;
    return all.is_open ? &hearing : NULL;
}

void wires_hearing_open(int64_t reconnect_ns)
{
    memset(&all, 0, sizeof all);
    all.is_open = true;
    all.reconnect_ns = reconnect_ns;
}

void wires_hearing_close(void)
{
    memset(&all, 0, sizeof all);
}

void wires_slow(int64_t round_ns)
{
    all.round_ns = round_ns;
}

void wires_lose_way(int from, int to, bool lost)
{
    if (all.lost[from][to] != lost) TRACE("the way from %d to %d is %s", from, to, lost ? "lost" : "there");
    all.lost[from][to] = lost;
}

void wires_set_beside(int rank)
{
    all.beside[rank / 2] = true;
}

void wires_silence(int rank, int peer, int busy)
{
    TRACE("the connection of rank %d to rank %d is silent, and that to rank %d is not", rank, peer, busy);
    all.of[rank][peer].silent = true;
    all.of[rank][busy].busy = true;
}

void wires_fall_idle(int rank, int peer)
{
    all.of[rank][peer].busy = false;
}

bool wires_is_silent(int rank, int peer)
{
    return all.of[rank][peer].silent;
}

int64_t wires_broke_ns(int rank, int peer)
{
    return all.of[rank][peer].broke_ns;
}

bool wires_stands(int rank, int peer)
{
    return stands(&all.of[rank][peer]) && !all.of[rank][peer].silent && reaches(rank, peer);
}

void wires_set_away(int rank, bool away)
{
    all.away[rank] = away;
}

bool wires_is_away(int rank)
{
    return all.away[rank];
}

bool wires_way_is_lost(int from, int to)
{
    return all.lost[from][to];
}
