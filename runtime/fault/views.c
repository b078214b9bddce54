/* views.c - see views.h.  The names are those of views.md: a ballot is prepared, promised, proposed, voted for. */
#include "views.h"
#include "check.h"
#include "clock.h"
#include "rank_set.h"
#include "voters.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS   (50 * WEFT__MS) /* what has not been answered is said again, then after twice as long, */
#define AGAIN_MOST (40 * AGAIN_NS) /* and so on, up to this */
#define PAUSE_NS   (20 * WEFT__MS) /* of a ballot that gave way, at first; a few times as long later */
#define OTHERS_NS \
    (150 * WEFT__MS) /* from the beginning of a ballot on its quorum waits so long for all others */
#define PATIENCE_NS \
    (300 * WEFT__MS) /* for the end of another's ballot, after its last word; longer than that */
/* So long those who have answered are kept from giving up while the witness is asked: twice what a slow disk takes, as a
 * question of before may be under way. */
#define WITNESS_NS     (2000 * WEFT__MS)
#define TURN_NS        (100 * WEFT__MS) /* longer for each rank whose turn is before */
#define TURNS_MOST     16
#define LONGER_MOST    5
#define BALLOT_MOST    (UINT64_MAX / 4)
#define BALLOT_JUMP    (UINT64_C(1) << 48) /* no two words are so far apart, whatever was lost between them */
#define VIEW_MOST      (UINT32_MAX / 2)
#define VIEW_JUMP      (UINT32_C(1) << 20) /* likewise */
#define MESSAGE_SETS   2
#define SETS_OF_VOTERS 2 /* members, dead */
#define SETS(X)                                                                                     \
    X(before)   /* of the one before */                                                             \
    X(vote)     /* this rank's, in the ballot vote_at */                                            \
    X(answered) /* own ballot: who has promised, the witness too */                                 \
    X(voted)    /* and who has voted */                                                             \
    X(deaf)     /* who of these takes no word any more of those that are certainly dead */          \
    X(proposed) /* PREPARING: the newest vote told, of best_at; PROPOSING: what is to be decided */ \
    X(presumed) /* to be dead */                                                                    \
    X(have)     /* this view, as they have said */                                                  \
    X(heard_of) /* neither; of can_decide alone, and who is not told again */

enum {
#define COUNT_SET(name) SET_##name,
    SETS(COUNT_SET)
#undef COUNT_SET
        SET_COUNT
};

struct weft__views {
    weft__views_state state;
    int rank;
    weft__voters who; /* of the view */
    weft__views_events events;
    uint32_t number, wanted; /* view that it has; first that would do */
    uint64_t promised, vote_at;
    uint64_t ballot, best_at; /* own */
    uint64_t heard;           /* the latest ballot of anybody's in this view */
    int64_t next_ns;          /* PREPARING, PROPOSING: says it again; PAUSING: begins again */
    int64_t again_ns;         /* PREPARING, PROPOSING: after so long */
    int64_t others_ns;   /* PREPARING: until then who has not answered is waited for, with a quorum too */
    bool asked;          /* the witness has been, since this was last said to all */
    int64_t asked_ns;    /* and first in this step of the ballot; 0: it has not been */
    bool refused;        /* and then could not be asked */
    int64_t which_ns;    /* asks whether the next one has this view; WEFT__NEVER: it does */
    int64_t which_again; /* and again after so long */
    uint64_t chance;
    int gave_way; /* so many times in a row */
#define NAME_SET(name) unsigned char *name;
    SETS(NAME_SET)
#undef NAME_SET
    weft__view_message *out;
};

static void clear(const weft__views *v, unsigned char *set)
{
    memset(set, 0, v->who.bytes);
}

/* ---- quorums ---- */

/* Its ballot has the votes that it needs.  By proof one counts that hears nothing any more of who has died: a view that the
 * dead have decided among themselves may be told in a word that is still on its way. */
static bool has_decided(const weft__views *v)
{
    return v->who.quorum == WEFT__QUORUM_ANY || weft__voters_majority(&v->who, v->voted) ||
           weft__voters_by_proof(&v->who, v->deaf);
}

bool weft__views_can_decide(const weft__views *v, bool witness)
{
    for (size_t i = 0; i < v->who.bytes; i++)
        v->heard_of[i] = (unsigned char)~(v->who.dead[i] | v->presumed[i]);
    if (v->who.quorum == WEFT__QUORUM_WITNESS && !witness) weft__set_remove(v->heard_of, v->who.ranks);
    return weft__voters_quorum(&v->who, v->heard_of);
}

/* ---- states ---- */

static void views_to(weft__views *v, weft__views_state to)
{
    static const unsigned may_follow[] = {
        [WEFT__VIEWS_RESTING] = WEFT__MAY_BECOME(WEFT__VIEWS_PREPARING) |
                                WEFT__MAY_BECOME(WEFT__VIEWS_PAUSING) | WEFT__MAY_BECOME(WEFT__VIEWS_OUT),
        [WEFT__VIEWS_PREPARING] = WEFT__MAY_BECOME(WEFT__VIEWS_PROPOSING) |
                                  WEFT__MAY_BECOME(WEFT__VIEWS_PAUSING) |
                                  WEFT__MAY_BECOME(WEFT__VIEWS_RESTING) | WEFT__MAY_BECOME(WEFT__VIEWS_OUT),
        [WEFT__VIEWS_PROPOSING] = WEFT__MAY_BECOME(WEFT__VIEWS_PAUSING) |
                                  WEFT__MAY_BECOME(WEFT__VIEWS_RESTING) | WEFT__MAY_BECOME(WEFT__VIEWS_OUT),
        [WEFT__VIEWS_PAUSING] = WEFT__MAY_BECOME(WEFT__VIEWS_PREPARING) |
                                WEFT__MAY_BECOME(WEFT__VIEWS_RESTING) | WEFT__MAY_BECOME(WEFT__VIEWS_OUT),
        [WEFT__VIEWS_OUT] = 0};
    WEFT__ASSERT(may_follow[v->state] & WEFT__MAY_BECOME(to), v->state, to);
    v->state = to;
}

static bool has_ballot(const weft__views *v)
{
    return v->state == WEFT__VIEWS_PREPARING || v->state == WEFT__VIEWS_PROPOSING;
}

/* ---- messages ---- */

static size_t message_bytes(const weft__views *v)
{
    return sizeof *v->out + MESSAGE_SETS * v->who.bytes;
}

static void say(weft__views *v, int to, weft__view_word word, uint64_t ballot, const unsigned char *ranks)
{
    *v->out = (weft__view_message){.word = word, .view = v->number, .ballot = ballot};
    if (word == WEFT__VIEW_PROMISE) v->out->vote_at = v->vote_at;
    memcpy(v->out->sets, v->who.members, v->who.bytes);
    if (ranks)
        memcpy(v->out->sets + v->who.bytes, ranks, v->who.bytes);
    else
        memset(v->out->sets + v->who.bytes, 0, v->who.bytes);
    v->events.send(v->events.arg, to, v->out, message_bytes(v));
}

/* To all members but those of `set`; whether they are presumed dead or not. */
static void say_to_others(weft__views *v, const unsigned char *set, weft__view_word word,
                          const unsigned char *ranks)
{
    for (int i = 0; i < v->who.ranks; i++)
        if (weft__set_has(v->who.members, i) && !weft__set_has(set, i) && !weft__set_has(v->who.dead, i))
            say(v, i, word, v->ballot, ranks);
}

/* Where its vote is all that is missing. */
static void ask_witness(weft__views *v, unsigned char *set, weft__view_word word, const unsigned char *ranks,
                        int64_t now_ns)
{
    if (v->asked || !weft__voters_half(&v->who, set)) return;
    v->asked = true;
    if (!v->asked_ns) {
        v->asked_ns = now_ns;
        v->refused = false;
    }
    say(v, v->who.ranks, word, v->ballot, ranks);
}

/* It promises to vote for nothing before that ballot; to who asked for an older one this says that it is too late. */
static void say_promise(weft__views *v, int to)
{
    say(v, to, WEFT__VIEW_PROMISE, v->promised, v->vote);
}

/* ---- a view is decided ---- */

static void begin(weft__views *v, int64_t now_ns);

/* The next one is asked soon: the view is new, or who is next has changed. */
static void look_after_next(weft__views *v, int64_t now_ns)
{
    if (v->state == WEFT__VIEWS_OUT || v->number == 1) return;
    v->which_again = AGAIN_NS;
    v->which_ns = now_ns + AGAIN_NS;
}

/* The word that told of it may be lost, and who has heard nothing of a view asks nobody.  So each member sees to it that the
 * next living one has it, and who stands between the two and may be alive.  False: they have. */
static bool ask_next(weft__views *v)
{
    bool asks = false;
    for (int i = (v->rank + 1) % v->who.ranks; i != v->rank; i = (i + 1) % v->who.ranks) {
        if (!weft__set_has(v->before, i) || weft__set_has(v->who.dead, i)) continue;
        if (!weft__set_has(v->have, i)) {
            say(v, i, WEFT__VIEW_WHICH, 0, NULL);
            asks = true;
        }
        if (weft__set_has(v->who.members, i) && !weft__set_has(v->presumed, i)) break;
    }
    return asks;
}

static void forget_instance(weft__views *v)
{
    v->promised = v->vote_at = v->ballot = v->best_at = v->heard = 0;
    v->gave_way = 0;
    v->asked = false;
    v->asked_ns = 0;
    clear(v, v->vote);
    clear(v, v->answered);
    clear(v, v->voted);
    clear(v, v->deaf);
    clear(v, v->proposed);
    clear(v, v->have);
    v->which_ns = WEFT__NEVER;
}

/* ranks: in a message, or `proposed`. */
static void install(weft__views *v, uint32_t number, const unsigned char *ranks, int64_t now_ns)
{
    WEFT__ASSERT(number > v->number && !weft__set_is_empty(ranks, v->who.bytes) &&
                     weft__set_is_within(ranks, v->who.members, v->who.bytes),
                 number, v->number);
    v->number = number;
    memcpy(v->before, v->who.members, v->who.bytes);
    memcpy(v->who.members, ranks, v->who.bytes);
    forget_instance(v);
    if (!weft__set_has(v->who.members, v->rank))
        views_to(v, WEFT__VIEWS_OUT);
    else if (v->state != WEFT__VIEWS_RESTING)
        views_to(v, WEFT__VIEWS_RESTING);
    look_after_next(v, now_ns);
    v->events.decided(v->events.arg);
    if (v->state == WEFT__VIEWS_RESTING && v->wanted > v->number) begin(v, now_ns);
}

/* All who were asked are told, those too whom it leaves out. */
static void decide(weft__views *v, int64_t now_ns)
{
    WEFT__ASSERT(v->state == WEFT__VIEWS_PROPOSING && weft__set_has(v->voted, v->rank) && has_decided(v),
                 v->number);
    install(v, v->number + 1, v->proposed, now_ns);
    for (int i = 0; i < v->who.ranks; i++)
        if (i != v->rank && weft__set_has(v->before, i) && !weft__set_has(v->who.dead, i))
            say(v, i, WEFT__VIEW_IS, 0, NULL);
    if (v->who.quorum == WEFT__QUORUM_WITNESS) say(v, v->who.ranks, WEFT__VIEW_IS, 0, NULL);
}

/* ---- this rank's ballot ---- */

static void try_to_decide(weft__views *v, int64_t now_ns)
{
    if (v->state != WEFT__VIEWS_PROPOSING) return;
    if (has_decided(v))
        decide(v, now_ns);
    else if (v->who.quorum == WEFT__QUORUM_WITNESS && weft__set_has(v->answered, v->who.ranks))
        ask_witness(v, v->voted, WEFT__VIEW_ACCEPT, v->proposed, now_ns);
}

/* Everybody from whom an answer can be expected has given it. */
static bool all_have_answered(const weft__views *v)
{
    for (size_t i = 0; i < v->who.bytes; i++)
        if (v->who.members[i] & ~(v->answered[i] | v->presumed[i] | v->who.dead[i])) return false;
    return true;
}

/* What is said, or has got an answer, is said again soon. */
static void say_again_soon(weft__views *v, int64_t now_ns)
{
    v->again_ns = AGAIN_NS;
    v->next_ns = now_ns + AGAIN_NS;
}

static void cast_vote(weft__views *v, uint64_t ballot, const unsigned char *ranks)
{
    WEFT__ASSERT(ballot >= v->promised && ballot >= v->vote_at, ballot, v->promised, v->vote_at);
    v->promised = v->vote_at = ballot;
    memcpy(v->vote, ranks, v->who.bytes);
}

/* Who has not answered, and is not presumed dead, is late: stopped, or slow.  It is in the next view too. */
static void choose_next(weft__views *v)
{
    for (size_t i = 0; i < v->who.bytes; i++)
        v->proposed[i] =
            (unsigned char)(v->who.members[i] & (v->answered[i] | ~v->presumed[i]) & ~v->who.dead[i]);
}

/* A quorum has answered, and all others or their time is up. */
static void try_to_propose(weft__views *v, int64_t now_ns)
{
    if (v->state != WEFT__VIEWS_PREPARING) return;
    if (!weft__voters_quorum(&v->who, v->answered) && !weft__voters_half(&v->who, v->answered)) return;
    if (now_ns < v->others_ns && !all_have_answered(v)) return;
    if (!weft__voters_quorum(&v->who, v->answered)) {
        ask_witness(v, v->answered, WEFT__VIEW_PREPARE, NULL, now_ns);
        return;
    }
    WEFT__ASSERT(v->promised == v->ballot && weft__set_has(v->answered, v->rank), v->promised, v->ballot);
    if (!v->best_at) choose_next(v);
    views_to(v, WEFT__VIEWS_PROPOSING);
    v->asked = false;
    v->asked_ns = 0;
    cast_vote(v, v->ballot, v->proposed);
    clear(v, v->voted);
    clear(v, v->deaf);
    weft__set_add(v->voted, v->rank);
    weft__set_add(v->deaf, v->rank);
    say_again_soon(v, now_ns);
    say_to_others(v, v->voted, WEFT__VIEW_ACCEPT, v->proposed);
    try_to_decide(v, now_ns);
}

static void note_vote(weft__views *v, uint64_t vote_at, const unsigned char *vote)
{
    if (vote_at <= v->best_at) return;
    v->best_at = vote_at;
    memcpy(v->proposed, vote, v->who.bytes);
}

static uint64_t latest_ballot(const weft__views *v)
{
    return v->promised > v->heard ? v->promised : v->heard;
}

/* The next ballot that is this rank's, after all that it knows of. */
static uint64_t next_ballot(const weft__views *v)
{
    uint64_t ranks = (uint64_t)v->who.ranks, last = latest_ballot(v);
    uint64_t ballot = last / ranks * ranks + (uint64_t)v->rank + 1;
    return ballot > last ? ballot : ballot + ranks;
}

static void begin(weft__views *v, int64_t now_ns)
{
    views_to(v, WEFT__VIEWS_PREPARING);
    v->ballot = v->promised = next_ballot(v);
    v->best_at = 0;
    v->asked = false;
    v->asked_ns = 0;
    clear(v, v->answered);
    clear(v, v->proposed);
    weft__set_add(v->answered, v->rank);
    note_vote(v, v->vote_at, v->vote);
    v->others_ns = now_ns + OTHERS_NS;
    say_again_soon(v, now_ns);
    say_to_others(v, v->answered, WEFT__VIEW_PREPARE, NULL);
    try_to_propose(v, now_ns);
}

static uint64_t draw(weft__views *v) /* splitmix64 */
{
    uint64_t z = v->chance += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t pause_ns(weft__views *v)
{
    return PAUSE_NS + (int64_t)(draw(v) % (uint64_t)(PAUSE_NS << v->gave_way));
}

static int owner_of(const weft__views *v, uint64_t ballot)
{
    return (int)((ballot - 1) % (uint64_t)v->who.ranks);
}

/* The next one behind the owner goes on first, so that not all do at once. */
static int64_t patience_ns(const weft__views *v, int owner)
{
    int64_t before = 0;
    for (int i = (owner + 1) % v->who.ranks; i != v->rank && before < TURNS_MOST; i = (i + 1) % v->who.ranks)
        before += weft__set_has(v->who.members, i) && !weft__set_has(v->who.dead, i) &&
                  !weft__set_has(v->presumed, i);
    return PATIENCE_NS + before * TURN_NS;
}

/* A later ballot is under way: that one has its chance first, though it may have to wait for others. */
static void give_way(weft__views *v, uint64_t ballot, int64_t now_ns)
{
    bool is_news = ballot > latest_ballot(v);
    if (ballot > v->heard) v->heard = ballot;
    if (has_ballot(v) && ballot > v->ballot)
        views_to(v, WEFT__VIEWS_PAUSING);
    else if (v->state != WEFT__VIEWS_PAUSING || !is_news)
        return;
    if (v->wanted <= v->number) { /* it waits for whoever does */
        v->next_ns = now_ns + patience_ns(v, owner_of(v, ballot)) + pause_ns(v);
        return;
    }
    if (v->gave_way < LONGER_MOST) v->gave_way++;
    v->next_ns = now_ns + OTHERS_NS + pause_ns(v);
}

/* This rank has answered: the owner's next word is awaited.  It may not come, and then somebody has to go on; soon, where
 * this rank wants a view itself. */
static void await_end(weft__views *v, int owner, int64_t now_ns)
{
    int64_t next_ns = now_ns + pause_ns(v);
    if (has_ballot(v)) return;
    if (v->state == WEFT__VIEWS_RESTING) views_to(v, WEFT__VIEWS_PAUSING);
    next_ns += v->wanted > v->number ? OTHERS_NS : patience_ns(v, owner);
    if (v->wanted <= v->number || next_ns > v->next_ns) v->next_ns = next_ns;
}

void weft__views_want(weft__views *v, int64_t now_ns)
{
    if (v->state == WEFT__VIEWS_OUT || v->wanted > v->number) return;
    v->wanted = v->number + 1;
    if (v->state == WEFT__VIEWS_RESTING)
        begin(v, now_ns);
    else if (v->state == WEFT__VIEWS_PAUSING)
        v->next_ns = now_ns + pause_ns(v);
}

void weft__views_presume_dead(weft__views *v, int rank, int64_t now_ns)
{
    WEFT__ASSERT(rank >= 0 && rank < v->who.ranks && rank != v->rank, rank, v->who.ranks);
    if (!weft__set_has(v->presumed, rank)) look_after_next(v, now_ns);
    weft__set_add(v->presumed, rank);
    try_to_propose(v, now_ns);
}

static void say_vote(weft__views *v)
{
    say(v, owner_of(v, v->vote_at), WEFT__VIEW_ACCEPTED, v->vote_at, v->who.dead);
}

/* Votes are asked for, or given, once more: that this one is dead was not in them. */
static void renew_votes(weft__views *v, int64_t now_ns)
{
    if (v->state == WEFT__VIEWS_PROPOSING) {
        clear(v, v->deaf);
        weft__set_add(v->deaf, v->rank);
        say_again_soon(v, now_ns);
        say_to_others(v, v->deaf, WEFT__VIEW_ACCEPT, v->proposed);
    } else if (v->vote_at && owner_of(v, v->vote_at) != v->rank &&
               !weft__set_has(v->who.dead, owner_of(v, v->vote_at))) {
        say_vote(v);
    }
}

void weft__views_died(weft__views *v, int rank, int64_t now_ns)
{
    bool is_news = !weft__set_has(v->who.dead, rank);
    WEFT__ASSERT(rank >= 0 && rank < v->who.ranks && rank != v->rank, rank, v->who.ranks);
    weft__set_add(v->who.dead, rank);
    if (is_news) {
        look_after_next(v, now_ns);
        if (weft__set_has(v->who.members, rank)) renew_votes(v, now_ns);
    }
    try_to_propose(v, now_ns);
    try_to_decide(v, now_ns);
}

void weft__views_witness_fails(weft__views *v)
{
    v->refused = true;
}

/* ---- what comes in ---- */

static void on_prepare(weft__views *v, int from, uint64_t ballot, int64_t now_ns)
{
    give_way(v, ballot, now_ns);
    if (ballot >= v->promised) {
        v->promised = ballot;
        await_end(v, from, now_ns);
    }
    say_promise(v, from);
}

static void on_promise(weft__views *v, int from, const weft__view_message *m, int64_t now_ns)
{
    give_way(v, m->ballot, now_ns);
    if (v->state != WEFT__VIEWS_PREPARING || m->ballot != v->ballot) return;
    if (!weft__set_has(v->answered, from)) say_again_soon(v, now_ns);
    weft__set_add(v->answered, from);
    note_vote(v, m->vote_at, m->sets + v->who.bytes);
    try_to_propose(v, now_ns);
}

/* False: its owner proposes two things in one ballot. */
static bool on_accept(weft__views *v, int from, const weft__view_message *m, int64_t now_ns)
{
    const unsigned char *ranks = m->sets + v->who.bytes;
    if (v->vote_at == m->ballot && memcmp(v->vote, ranks, v->who.bytes) != 0) return false;
    give_way(v, m->ballot, now_ns);
    if (m->ballot < v->promised) {
        say_promise(v, from);
        return true;
    }
    cast_vote(v, m->ballot, ranks);
    await_end(v, from, now_ns);
    say_vote(v);
    return true;
}

/* All members that are dead to this rank are so to whom says that. */
static bool knows_of_all(const weft__views *v, const unsigned char *dead)
{
    for (size_t i = 0; i < v->who.bytes; i++)
        if (v->who.members[i] & v->who.dead[i] & ~dead[i]) return false;
    return true;
}

static void on_accepted(weft__views *v, int from, const weft__view_message *m, int64_t now_ns)
{
    if (v->state != WEFT__VIEWS_PROPOSING || m->ballot != v->ballot) return;
    if (!weft__set_has(v->voted, from)) say_again_soon(v, now_ns);
    weft__set_add(v->voted, from);
    if (knows_of_all(v, m->sets + v->who.bytes)) weft__set_add(v->deaf, from);
    try_to_decide(v, now_ns);
}

/* No rank that does not exist, and somebody. */
static bool is_set(const weft__views *v, const unsigned char *set)
{
    for (int i = v->who.ranks; i < 8 * (int)v->who.bytes; i++)
        if (weft__set_has(set, i)) return false;
    return !weft__set_is_empty(set, v->who.bytes);
}

static bool is_sound(const weft__views *v, int from, const weft__view_message *m, size_t bytes)
{
    const unsigned char *members, *ranks;
    bool owns, votes;
    if (bytes != message_bytes(v) || m->word < WEFT__VIEW_PREPARE || m->word > WEFT__VIEW_WHICH) return false;
    if (!m->view || m->view > VIEW_MOST || (m->view > v->number && m->view - v->number > VIEW_JUMP))
        return false;
    members = m->sets;
    ranks = members + v->who.bytes;
    votes = m->word == WEFT__VIEW_ACCEPT || (m->word == WEFT__VIEW_PROMISE && m->vote_at);
    owns = m->ballot && owner_of(v, m->ballot) == from;
    if (!is_set(v, members) ||
        (m->word != WEFT__VIEW_IS && from < v->who.ranks && !weft__set_has(members, from)))
        return false;
    if (votes && (!is_set(v, ranks) || !weft__set_is_within(ranks, members, v->who.bytes))) return false;
    if (m->word == WEFT__VIEW_PREPARE || m->word == WEFT__VIEW_ACCEPT)
        return owns && m->ballot <= BALLOT_MOST;
    return m->word == WEFT__VIEW_IS || (m->ballot <= BALLOT_MOST && m->vote_at <= m->ballot);
}

bool weft__views_take(weft__views *v, int from, const weft__view_message *m, size_t bytes, int64_t now_ns)
{
    WEFT__ASSERT(from >= 0 && from < weft__voters_places(&v->who) && from != v->rank, from, v->who.ranks);
    if (!is_sound(v, from, m, bytes)) return false;
    if (weft__set_has(v->who.dead, from)) return true; /* it was on its way: has_decided */
    if (m->view < v->number) {
        say(v, from, WEFT__VIEW_IS, 0, NULL);
        return true;
    }
    if (m->view > v->number && v->state != WEFT__VIEWS_OUT) { /* to its sender that is decided */
        /* Not within: of another part, which the quorum `any` allows to go on. */
        if (!weft__set_is_within(m->sets, v->who.members, v->who.bytes)) return true;
        install(v, m->view, m->sets, now_ns);
    }
    if (m->word == WEFT__VIEW_WHICH) say(v, from, WEFT__VIEW_IS, 0, NULL);
    if (v->state == WEFT__VIEWS_OUT) return true;
    if (memcmp(m->sets, v->who.members, v->who.bytes) != 0) return true;
    weft__set_add(v->have, from);
    if (m->ballot > latest_ballot(v) + BALLOT_JUMP) return false;
    switch (m->word) {
    case WEFT__VIEW_PREPARE: on_prepare(v, from, m->ballot, now_ns); break;
    case WEFT__VIEW_PROMISE: on_promise(v, from, m, now_ns); break;
    case WEFT__VIEW_ACCEPT: return on_accept(v, from, m, now_ns);
    case WEFT__VIEW_ACCEPTED: on_accepted(v, from, m, now_ns); break;
    default: break;
    }
    return true;
}

/* ---- time ---- */

static int64_t next_of_ballot(const weft__views *v, int64_t now_ns)
{
    if (v->state == WEFT__VIEWS_RESTING || v->state == WEFT__VIEWS_OUT) return WEFT__NEVER;
    if (v->state == WEFT__VIEWS_PREPARING && now_ns < v->others_ns && v->others_ns < v->next_ns)
        return v->others_ns;
    return v->next_ns;
}

static int64_t next_check(const weft__views *v, int64_t now_ns)
{
    int64_t next = next_of_ballot(v, now_ns);
    return v->which_ns < next ? v->which_ns : next;
}

/* To those too who have answered, while it is the witness that has not: else they would begin ballots of their own. */
static void say_again_to_all(weft__views *v, weft__view_word word, const unsigned char *ranks)
{
    clear(v, v->heard_of);
    weft__set_add(v->heard_of, v->rank);
    say_to_others(v, v->heard_of, word, ranks);
}

static void say_again(weft__views *v, int64_t now_ns)
{
    bool prepares = v->state == WEFT__VIEWS_PREPARING;
    weft__view_word word = prepares ? WEFT__VIEW_PREPARE : WEFT__VIEW_ACCEPT;
    const unsigned char *ranks = prepares ? NULL : v->proposed;
    bool by_proof =
        !prepares &&
        weft__voters_by_proof(&v->who, v->voted); /* who has not heard of a death is asked again */
    unsigned char *set = prepares ? v->answered : by_proof ? v->deaf : v->voted;
    bool witness =
        v->asked_ns && !v->refused && weft__voters_half(&v->who, set) && now_ns - v->asked_ns < WITNESS_NS;
    v->again_ns = witness ? AGAIN_NS : 2 * v->again_ns < AGAIN_MOST ? 2 * v->again_ns : AGAIN_MOST;
    v->next_ns = now_ns + v->again_ns;
    v->asked = false;
    if (witness)
        say_again_to_all(v, word, ranks);
    else
        say_to_others(v, set, word, ranks);
    if (prepares)
        try_to_propose(v, now_ns);
    else
        ask_witness(v, set, word, ranks, now_ns);
}

int64_t weft__views_check(weft__views *v, int64_t now_ns)
{
    try_to_propose(v, now_ns);
    if (v->state == WEFT__VIEWS_PAUSING && now_ns >= v->next_ns)
        begin(v, now_ns);
    else if (has_ballot(v) && now_ns >= v->next_ns)
        say_again(v, now_ns);
    if (now_ns >= v->which_ns) {
        v->which_again *= 2;
        v->which_ns = ask_next(v) ? now_ns + v->which_again : WEFT__NEVER;
    }
    return next_check(v, now_ns);
}

/* ---- the whole ---- */

weft__views *weft__views_new(int rank, int ranks, weft__quorum quorum, uint64_t chance,
                             weft__views_events events)
{
    size_t bytes = weft__view_set_bytes(ranks, quorum);
    weft__views *v = calloc(1, sizeof *v);
    unsigned char *sets = calloc(SETS_OF_VOTERS + SET_COUNT, bytes);
    weft__view_message *out = calloc(1, sizeof *out + MESSAGE_SETS * bytes);
    if (!v || !sets || !out) {
        free(v);
        free(sets);
        free(out);
        return NULL;
    }
    *v = (weft__views){
        .rank = rank,
        .who = {.ranks = ranks, .bytes = bytes, .quorum = quorum, .members = sets, .dead = sets + bytes},
        .events = events,
        .number = 1,
        .wanted = 1,
        .which_ns = WEFT__NEVER,
        .chance = chance,
        .out = out};
#define PLACE_SET(name) v->name = sets + (SETS_OF_VOTERS + SET_##name) * bytes;
    SETS(PLACE_SET)
#undef PLACE_SET
    for (int i = 0; i < ranks; i++) weft__set_add(v->who.members, i);
    return v;
}

void weft__views_free(weft__views *v)
{
    if (!v) return;
    free(v->who.members); /* the first of the sets */
    free(v->out);
    free(v);
}

weft__views_state weft__views_state_of(const weft__views *v)
{
    return v->state;
}

uint32_t weft__views_number(const weft__views *v)
{
    return v->number;
}

bool weft__views_has(const weft__views *v, int rank)
{
    return weft__set_has(v->who.members, rank);
}
