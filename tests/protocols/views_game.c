/* views_game.c - who is in the job: ranks ask for views, presume each other dead, rightly or not, crash, and are parted;
 * messages are lost, come twice and overtake each other; some are stopped, and go on later or when all is over.
 *
 * With a witness, which each of them reaches or not, that votes too; it is never stopped, as it keeps its votes, and in some
 * jobs slow: then a rank has one question under way, and the next one waits for that (witness_asking.h).
 *
 * What must hold: all who have the view of a number have the same ranks in it, of those that live; where nobody is known
 * to be dead for certain, of all.  Nobody is left out whom nobody took for dead.  Once nothing is lost any more and who has
 * crashed is known, all that live have the same view or are told that they are in none, if those that are left of it are a
 * quorum; before that those that are not stopped, if they are one. */
#include "acceptor.h"
#include "chance.h"
#include "clock.h"
#include "games.h"
#include "rank_set.h"
#include "trace.h"
#include "wires.h"

#include <stdlib.h>
#include <string.h>

enum { JOBS = 16 }; /* of a seed: most are over in few steps */
enum {
    SLOW_MOST = 900,
    SLOW_IDLE_MOST = 1600
}; /* ms a question, and steps until the end: 2 or 3 questions a view */
enum { WORDS_MOST = 4096, WORD_BYTES = 64, VIEWS_MOST = 64, SETTLE_STEPS = 200000 };
enum {
    STEP_MS = 10,
    IDLE_MOST = 800
}; /* so that 8 s without a word are the end: whoever waits does so for less (views.c) */

typedef struct word {
    int from, to;
    size_t bytes;
    _Alignas(weft__view_message) unsigned char message[WORD_BYTES];
} word;

static struct {
    int ranks, crashed_count, crashes_most;
    weft__quorum quorum;
    weft__views *views[WIRES_RANKS_MAX];
    bool crashed[WIRES_RANKS_MAX];
    bool stopped[WIRES_RANKS_MAX];   /* takes nothing and does nothing */
    bool doubted[WIRES_RANKS_MAX];   /* somebody has taken it for dead */
    bool proved[WIRES_RANKS_MAX];    /* somebody knows that it has crashed */
    int side[WIRES_RANKS_MAX];       /* of a partition: words go between equal ones */
    bool witnessed[WIRES_RANKS_MAX]; /* it reaches the witness */
    weft__acceptor witness;
    int slow_ms; /* so long a question takes */
    struct {
        word begun, next;
        bool has_next;
        int64_t ends_ns; /* 0: none is under way */
    } asking[WIRES_RANKS_MAX];
    uint64_t had[WIRES_RANKS_MAX]
                [VIEWS_MOST]; /* by number, a bit for each member; 0: it has not had that one */
    bool stops;               /* some are stopped */
    bool certain;             /* some rank has been told of a certain death */
    int64_t now_ns;
    int lossy; /* of 16 words so many are lost, and as many come twice */
    int word_count, late_count;
    word words[WORDS_MOST];
    word late[WORDS_MOST]; /* to who is stopped */
} game;

/* ---- words on their way ---- */

static void begin_question(int rank)
{
    if (!game.asking[rank].has_next || game.asking[rank].ends_ns) return;
    game.asking[rank].begun = game.asking[rank].next;
    game.asking[rank].has_next = false;
    game.asking[rank].ends_ns = game.now_ns + game.slow_ms * WEFT__MS;
}

static void ask_slowly(int rank, const weft__view_message *message, size_t bytes)
{
    bool same = !memcmp(game.asking[rank].begun.message, message, bytes);
    if (game.asking[rank].ends_ns && !game.asking[rank].has_next && same) return;
    game.asking[rank].has_next = true;
    game.asking[rank].next = (word){.from = rank, .to = game.ranks, .bytes = bytes};
    memcpy(game.asking[rank].next.message, message, bytes);
    begin_question(rank);
}

static void send(void *arg, int to, const weft__view_message *message, size_t bytes)
{
    int from = (int)(intptr_t)arg, at = game.word_count;
    if (bytes > WORD_BYTES) abort();
    if (to == game.ranks && game.slow_ms) {
        ask_slowly(from, message, bytes);
        return;
    }
    if (at == WORDS_MOST)
        at = chance_below(WORDS_MOST); /* another is lost */
    else
        game.word_count++;
    game.words[at] = (word){.from = from, .to = to, .bytes = bytes};
    memcpy(game.words[at].message, message, bytes);
}

static uint64_t members_at(int rank)
{
    uint64_t set = 0;
    for (int i = 0; i < game.ranks; i++) set |= (uint64_t)weft__views_has(game.views[rank], i) << i;
    return set;
}

/* One that has crashed may have had another view where a certain death let those that are left decide alone, and who is
 * in neither may hear of that. */
static bool is_bound(int rank, uint64_t set)
{
    return !game.certain || (!game.crashed[rank] && set >> rank & 1);
}

static void check_agreement(int rank, uint32_t number, uint64_t set)
{
    for (int i = 0; i < game.ranks && game.quorum != WEFT__QUORUM_ANY; i++) {
        uint64_t other = game.had[i][number];
        if (other && other != set && is_bound(i, other) && is_bound(rank, set))
            trace_blame("view %u is %#llx to rank %d, and %#llx to rank %d", number, (unsigned long long)set,
                        rank, (unsigned long long)other, i);
    }
}

static void decided(void *arg)
{
    int rank = (int)(intptr_t)arg;
    uint32_t number = weft__views_number(game.views[rank]);
    uint64_t set = members_at(rank);
    TRACE("rank %d has view %u: %#llx", rank, number, (unsigned long long)set);
    if (number >= VIEWS_MOST) abort();
    check_agreement(rank, number, set);
    for (int i = 0; i < game.ranks; i++)
        if (!game.doubted[i] && !(set >> i & 1))
            trace_blame("view %u of rank %d leaves rank %d out, which nobody took for dead", number, rank, i);
    game.had[rank][number] = set;
}

static bool is_parted(const word *w)
{
    if (w->to == game.ranks) return !game.witnessed[w->from];
    if (w->from == game.ranks) return !game.witnessed[w->to];
    return game.side[w->from] != game.side[w->to];
}

static void ask_witness(const word *w)
{
    _Alignas(weft__view_message) unsigned char answer[WORD_BYTES];
    size_t bytes = weft__acceptor_take(&game.witness, (const void *)w->message, w->bytes, (void *)answer);
    TRACE("rank %d asks the witness, whose view is %u", w->from, game.witness.view);
    if (bytes) send((void *)(intptr_t)game.ranks, w->from, (const void *)answer, bytes);
}

/* What it was asked long enough ago. */
static void witness_answers(void)
{
    for (int i = 0; i < game.ranks; i++) {
        if (!game.asking[i].ends_ns || game.now_ns < game.asking[i].ends_ns) continue;
        game.asking[i].ends_ns = 0;
        if (game.witnessed[i]) ask_witness(&game.asking[i].begun);
        begin_question(i);
    }
}

/* It arrives, is lost, or arrives and stays on its way; over to another side it may come once that is none any more. */
static void deliver(int at)
{
    word w = game.words[at];
    const weft__view_message *m = (const void *)w.message;
    int fate = chance_below(16);
    if (is_parted(&w) && fate >= game.lossy) return;
    if (fate >= game.lossy) game.words[at] = game.words[--game.word_count];
    if (is_parted(&w) || (fate >= game.lossy && fate < 2 * game.lossy)) return;
    if (w.to == game.ranks) {
        ask_witness(&w);
        return;
    }
    if (game.crashed[w.to]) return;
    if (game.stopped[w.to]) {
        if (game.late_count < WORDS_MOST) game.late[game.late_count++] = w;
        return;
    }
    TRACE("word %u of view %u, ballot %u, from %d to %d", m->word, m->view, (unsigned)m->ballot, w.from,
          w.to);
    if (!weft__views_take(game.views[w.to], w.from, m, w.bytes, game.now_ns))
        trace_blame("rank %d refuses what rank %d says", w.to, w.from);
}

/* ---- what happens ---- */

static bool acts(int rank)
{
    return !game.crashed[rank] && !game.stopped[rank];
}

/* One that acts: there always is. */
static int some_rank(void)
{
    int rank;
    do rank = chance_below(game.ranks);
    while (!acts(rank));
    return rank;
}

static int acting(void)
{
    int n = 0;
    for (int i = 0; i < game.ranks; i++) n += acts(i);
    return n;
}

static void learn(int rank, int of, bool certainly)
{
    if (rank == of) return;
    TRACE("rank %d %s that rank %d is dead", rank, certainly ? "knows" : "presumes", of);
    game.doubted[of] = true;
    if (certainly) {
        game.certain = game.proved[of] = true;
        weft__views_died(game.views[rank], of, game.now_ns);
    } else {
        weft__views_presume_dead(game.views[rank], of, game.now_ns);
    }
}

static void crash(bool tells_certain)
{
    int rank = some_rank();
    if (game.crashed_count == game.crashes_most || acting() == 1) return;
    TRACE("rank %d crashes", rank);
    game.crashed[rank] = true;
    game.crashed_count++;
    for (int i = 0; i < game.ranks && tells_certain; i++)
        if (acts(i) && chance_one_in(2)) learn(i, rank, true);
}

static void go_on(int rank)
{
    int late = game.late_count;
    TRACE("rank %d goes on", rank);
    game.stopped[rank] = false;
    game.late_count = 0;
    for (int i = 0; i < late; i++) {
        if (game.late[i].to != rank)
            game.late[game.late_count++] = game.late[i];
        else if (game.word_count < WORDS_MOST)
            game.words[game.word_count++] = game.late[i];
    }
}

static void stop_or_go_on(void)
{
    int rank = chance_below(game.ranks);
    if (game.stopped[rank]) {
        go_on(rank);
    } else if (game.stops && !game.crashed[rank] && acting() > 1) {
        TRACE("rank %d is stopped", rank);
        game.stopped[rank] = true;
    }
}

static bool has_room(int rank)
{
    return weft__views_number(game.views[rank]) < VIEWS_MOST - 1;
}

static void want(int rank)
{
    if (!has_room(rank)) return;
    TRACE("rank %d wants a view", rank);
    weft__views_want(game.views[rank], game.now_ns);
}

/* Who is on another side is no more heard of, which some find out at once. */
static void part(void)
{
    int sides = 1 + chance_below(3);
    TRACE("%d sides", sides);
    for (int i = 0; i < game.ranks; i++) game.side[i] = chance_below(sides);
    for (int i = 0; i < game.ranks; i++) game.witnessed[i] = !chance_one_in(4);
    for (int i = 0; i < game.ranks; i++)
        for (int of = 0; of < game.ranks; of++)
            if (acts(i) && game.side[i] != game.side[of] && chance_one_in(2)) learn(i, of, false);
}

static void pass_time(void)
{
    int rank = some_rank();
    game.now_ns += chance_below(100) * WEFT__MS;
    witness_answers();
    weft__views_check(game.views[rank], game.now_ns);
}

static void act(bool tells_certain)
{
    int rank = some_rank(), of = chance_below(game.ranks);
    switch (chance_below(13)) {
    case 0:
    case 1:
    case 2: want(rank); break;
    case 3:
    case 4:
    case 5: learn(rank, of, tells_certain && game.crashed[of]); break;
    case 6:
    case 7: pass_time(); break;
    case 8:
    case 9: part(); break;
    case 10: stop_or_go_on(); break;
    default:
        if (chance_one_in(2)) crash(tells_certain);
    }
}

/* ---- and how it ends ---- */

static uint64_t living(void)
{
    uint64_t set = 0;
    for (int i = 0; i < game.ranks; i++) set |= (uint64_t)!game.crashed[i] << i;
    return set;
}

/* A view with somebody in it who has crashed is not the last one: it was voted for before. */
static void check_all(void)
{
    for (int i = 0; i < game.ranks; i++) {
        if (!acts(i)) continue;
        (void)weft__views_check(game.views[i], game.now_ns);
        if (members_at(i) & ~living()) want(i);
    }
}

/* Nothing is lost any more, and all who act know who has crashed, and want to be rid of them. */
static void settle(void)
{
    game.lossy = 0;
    for (int i = 0; i < game.ranks; i++) game.side[i] = 0;
    for (int i = 0; i < game.ranks; i++) game.witnessed[i] = true;
    for (int i = 0; i < game.ranks; i++)
        for (int of = 0; of < game.ranks && acts(i); of++)
            if (game.crashed[of]) learn(i, of, game.proved[of]); /* who has proof tells all others */
    for (int steps = 0, idle = 0; idle < (game.slow_ms ? SLOW_IDLE_MOST : IDLE_MOST); steps++) {
        if (steps == SETTLE_STEPS) {
            trace_blame("messages have no end");
            return;
        }
        if (game.word_count) {
            deliver(chance_below(game.word_count));
            continue;
        }
        game.now_ns += STEP_MS * WEFT__MS;
        witness_answers();
        check_all();
        idle++;
    }
}

static int latest(void)
{
    int rank = -1;
    for (int i = 0; i < game.ranks; i++)
        if (acts(i) && (rank < 0 || weft__views_number(game.views[i]) > weft__views_number(game.views[rank])))
            rank = i;
    return rank;
}

/* Its view of that number is what some had decided who have died since, where those that are left went on by proof. */
static bool witness_has_another(uint64_t set, uint32_t number)
{
    for (int i = 0; i < game.ranks; i++)
        if (game.witness.view == number && weft__set_has(game.witness.members, i) != (set >> i & 1))
            return true;
    return false;
}

/* Those of that view that act can decide without those that are stopped. */
static bool can_go_on(uint64_t set, uint32_t number)
{
    int all = 0, here = 0, stopped = 0, lowest = -1;
    for (int i = 0; i < game.ranks; i++) {
        if (!(set >> i & 1)) continue;
        if (lowest < 0) lowest = i;
        all++;
        here += acts(i);
        stopped += game.stopped[i];
    }
    return !stopped || 2 * here > all ||
           (2 * here == all &&
            (game.quorum == WEFT__QUORUM_WITNESS ? !witness_has_another(set, number) : acts(lowest)));
}

/* A member whose words were all lost hears of the view from the one before it: if that is stopped, later. */
static bool hears_later(int rank, uint64_t set, uint32_t number)
{
    if (weft__views_state_of(game.views[rank]) != WEFT__VIEWS_RESTING) return false;
    for (int n = 1; n < game.ranks; n++) {
        int before = (rank + game.ranks - n) % game.ranks;
        if (!(set >> before & 1)) continue;
        if (game.stopped[before]) return true;
        if (weft__views_number(game.views[before]) == number) return false;
    }
    return false;
}

static void check_end(void)
{
    int last = latest();
    uint32_t number = weft__views_number(game.views[last]);
    uint64_t set = members_at(last);
    if (game.quorum == WEFT__QUORUM_ANY || number >= VIEWS_MOST - 1 || !can_go_on(set, number)) return;
    for (int i = 0; i < game.ranks; i++) {
        weft__views_state state = weft__views_state_of(game.views[i]);
        if (!acts(i) || !(set >> i & 1)) continue;
        if (!weft__views_can_decide(game.views[i], true) || hears_later(i, set, number)) continue;
        if (weft__views_number(game.views[i]) != number)
            trace_blame("rank %d has view %u, and rank %d view %u", i, weft__views_number(game.views[i]),
                        last, number);
        if (state != WEFT__VIEWS_RESTING) trace_blame("rank %d waits for ever, in state %d", i, (int)state);
        if (set & ~living())
            trace_blame("view %u has a rank that has crashed: %#llx", number, (unsigned long long)set);
    }
}

/* First those end that are not stopped, and then all. */
static void end_job(void)
{
    settle();
    check_end();
    if (!game.late_count && acting() == game.ranks - game.crashed_count) return;
    for (int i = 0; i < game.ranks; i++)
        if (game.stopped[i]) go_on(i);
    settle();
    check_end();
}

static void play_job(void)
{
    bool tells_certain = chance_one_in(2);
    int steps;
    memset(&game, 0, sizeof game);
    game.ranks = chance_one_in(24) ? 2 + chance_below(WIRES_RANKS_MAX - 1) : 2 + chance_below(4);
    game.quorum = chance_one_in(16)  ? WEFT__QUORUM_ANY
                  : chance_one_in(3) ? WEFT__QUORUM_WITNESS
                                     : WEFT__QUORUM_MAJORITY;
    weft__acceptor_init(&game.witness, game.ranks);
    game.slow_ms = game.quorum == WEFT__QUORUM_WITNESS && chance_one_in(2) ? 1 + chance_below(SLOW_MOST) : 0;
    game.crashes_most = chance_below(game.ranks);
    game.lossy = chance_below(4);
    game.stops = chance_one_in(4);
    game.now_ns = 1000 * WEFT__MS;
    for (int i = 0; i < game.ranks; i++) {
        weft__views_events events = {send, decided, (void *)(intptr_t)i};
        game.views[i] = weft__views_new(i, game.ranks, game.quorum, chance_next(), events);
        if (!game.views[i]) abort();
    }
    TRACE("%d ranks", game.ranks);
    part();
    steps = 50 + chance_below(400);
    for (int i = 0; i < steps; i++) {
        if (game.word_count && !chance_one_in(6))
            deliver(chance_below(game.word_count));
        else
            act(tells_certain);
    }
    end_job();
    for (int i = 0; i < game.ranks; i++) weft__views_free(game.views[i]);
}

void play_views(void)
{
    for (int i = 0; i < JOBS; i++) play_job();
}
