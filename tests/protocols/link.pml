/* link.pml - two ranks and what goes between them over TCP connections that break: a model for spin of net/tcp_kept.c,
 * tcp_mend.c, tcp_connect.c and tcp_accept.c, whose rules stand in net/README.md, "A connection that breaks".
 *
 * Each rank sends DATA frames with a payload, of which the last one is long: it settles when it is acknowledged, the others
 * once they are written.  Then it says goodbye, answers the other's, and leaves.  A frame is a header and, if it is data, a
 * payload; what is under way knows its number, which the ranks count and never send.  Some receives are cancelled: their
 * frames count all the same.
 *
 * A connection breaks at any moment, RESETS times in all.  Each end sees that when it likes, or never sees it before the
 * other one dials anew: so it may be half open; and what was under way is read up to any place.  Both dial at once, an
 * attempt that its end has given up is heard at any time later, or never, and each connection is a fresh one.
 * What is left out: courses, encryption, ranks that lack something, and when a rank is given up.
 *
 *   -DRESETS=2 -DDATA=1   so many breaks, and frames of data from each rank
 *   -DLATES=1             so many attempts wait so long that the other rank's connection is taken in their place
 * Rules that are wrong, each of which has to break an assertion:
 *   -DFORGETS     a frame whose receive was cancelled is not counted
 *   -DTAKEN_BACK  what was begun and taken back is not written again
 *   -DTWICE       all that was not acknowledged is written again, though it has arrived
 *   -DWHOLE       a frame that has arrived in part is written again from its header
 *   -DEARLY       a long frame settles when it is written
 *   -DAT_HEADER   a frame counts as arrived with its header
 *   -DOLD_READS   the old connection is read on after its end has told over a new one where it stands
 *   -DOVERTAKEN   where an attempt stood that was overtaken counts while no connection stands
 *   -DUNHEARD     nothing that comes over an accepted connection tells that its verdict has arrived
 *   -DIN_VAIN     the higher rank is told to wait for the lower one's connection also while that one is making none
 *   -DASKER       connections are counted by the one that asks for them, whatever the other end has counted
 *   -DHASTY       who leaves does not wait until its goodbye is taken */
#ifndef RESETS
#define RESETS 2
#endif
#ifndef DATA
#define DATA 1
#endif
#define SLOTS 3 /* connections at once: the old one, an attempt of each, or one that is heard late */
#define NONE  SLOTS
#ifndef LATES
#define LATES 0
#endif
#define LONG  (DATA - 1)
#define UNSAID 255

mtype = { TRYING, UP, GONE };           /* of a rank: DIALLING and MENDING are one, but for `known` */
mtype = { FREE, ASKS, STANDS, CLOSED }; /* of an end of a connection */
mtype = { NO, TAKEN, CROSSED, UNWANTED };
mtype = { HEADER, PAYLOAD, WORD };

mtype state[2] = TRYING;
byte dial[2] = NONE, link[2] = NONE;
byte links[2], known[2];
byte taken[2], half[2];     /* frames that have arrived, and whether the header of the next one has */
byte first[2], begun[2];    /* acknowledged, and begun, of its own frames */
byte at[2], at_half[2];     /* what is written next */
byte told[2];               /* of what has arrived, over this connection */
byte bye[2] = UNSAID, answer[2] = UNSAID; /* the numbers of these frames */
bool said[2], answered[2];  /* the other's have come */
bool settled[2];            /* its long frame */
byte resets, lates;

/* A connection: of its ends the first is who made it. */
mtype maker[SLOTS] = FREE, acceptor[SLOTS] = FREE;
byte by[SLOTS];
bool broken[SLOTS];
byte proof_links[SLOTS], proof_taken[SLOTS], proof_half[SLOTS];
mtype verdict[SLOTS] = NO;
byte verdict_links[SLOTS], verdict_taken[SLOTS], verdict_half[SLOTS];
chan way[2 * SLOTS] = [2] of { mtype, byte, byte }; /* from rank e over c: way[2 * c + e] */
#define WAY(c, e) way[2 * (c) + (e)]

hidden byte c, n, w;
hidden mtype kind;

inline empty_ways(k)
{
    do
    :: nempty(WAY(k, 0)) -> WAY(k, 0) ? kind, n, w
    :: nempty(WAY(k, 1)) -> WAY(k, 1) ? kind, n, w
    :: empty(WAY(k, 0)) && empty(WAY(k, 1)) -> break
    od;
    n = 0; w = 0
}

/* One end has closed it.  A proof that nobody has read stays, to be heard late. */
inline close_end(k, r)
{
    broken[k] = true;
    if
    :: by[k] == r -> maker[k] = CLOSED
    :: else -> acceptor[k] = CLOSED
    fi;
    if
    :: maker[k] == CLOSED && acceptor[k] == CLOSED ->
        empty_ways(k);
        maker[k] = FREE; acceptor[k] = FREE; by[k] = 0; broken[k] = false; verdict[k] = NO;
        proof_links[k] = 0; proof_taken[k] = 0; proof_half[k] = 0; verdict_links[k] = 0; verdict_taken[k] = 0; verdict_half[k] = 0
    :: else
    fi
}

inline unlink(r)
{
    close_end(link[r], r);
    link[r] = NONE;
    told[r] = 0;
    state[r] = TRYING
}

/* The other end has told that so many of r's frames have arrived there. */
inline acknowledged(r, count)
{
    assert(count <= taken[1 - r]); /* nothing is acknowledged that was not delivered */
    first[r] = count;
    if
    :: LONG < count -> settled[r] = true
    :: else
    fi
}

/* `mine` is what this end has counted, `told` what the other one has. */
#ifdef ASKER
#define MORE(mine, theirs) (theirs)
#else
#define MORE(mine, theirs) ((mine) > (theirs) -> (mine) : (theirs))
#endif

/* The connection k stands for r, whose other end stands there. */
inline start(r, k, count, part)
{
    if
    :: dial[r] != NONE && dial[r] != k -> close_end(dial[r], r)
    :: else
    fi;
    dial[r] = NONE;
    link[r] = k;
    state[r] = UP;
    told[r] = taken[r];
    assert(count >= first[r] && count <= begun[r]);
    assert(!part || count < begun[r]);
#ifdef TWICE
    at[r] = first[r];
#else
    at[r] = count;
#endif
    acknowledged(r, count);
#ifdef WHOLE
    at_half[r] = 0
#else
    at_half[r] = part
#endif
}

#define HAS_PAYLOAD(r, number) ((number) != bye[r] && (number) != answer[r])
#define SENT_DATA(r)           (begun[r] - (bye[r] != UNSAID) - (answer[r] != UNSAID))
#define MINE_SETTLED(r)        (SENT_DATA(r) == DATA && settled[r])

/* May it leave?  Its goodbye is taken, or the other one has said its own; and what it wrote is out. */
#ifdef HASTY
#define MAY_LEAVE(r) (bye[r] != UNSAID && at[r] == begun[r] && !at_half[r])
#else
#define MAY_LEAVE(r)                                                                                      \
    (bye[r] != UNSAID && (answered[r] || said[r]) && (!said[r] || answer[r] != UNSAID) &&                 \
     (state[r] != UP || (at[r] == begun[r] && !at_half[r])))
#endif

inline write_header(r)
{
    if
    :: at[r] == begun[r] -> begun[r] = begun[r] + 1
    :: else
    fi;
    WAY(link[r], r) ! HEADER, at[r], taken[r];
    told[r] = taken[r];
    if
    :: HAS_PAYLOAD(r, at[r]) -> at_half[r] = 1
    :: else -> at[r] = at[r] + 1
    fi
}

/* What was begun is written again, in order; then comes what has not been. */
inline write(r)
{
    if
    :: at_half[r] ->
        WAY(link[r], r) ! PAYLOAD, at[r], 0;
        at_half[r] = 0;
#ifdef EARLY
        if
        :: at[r] == LONG -> settled[r] = true; assert(taken[1 - r] > LONG)
        :: else
        fi;
#endif
        at[r] = at[r] + 1
    :: !at_half[r] && at[r] < begun[r] ->
#ifdef TAKEN_BACK
        if
        :: at[r] == 0 -> at[r] = 1
        :: at[r] > 0 -> write_header(r)
        fi
#else
        write_header(r)
#endif
    :: !at_half[r] && at[r] == begun[r] && SENT_DATA(r) < DATA && bye[r] == UNSAID -> write_header(r)
    :: !at_half[r] && at[r] == begun[r] && bye[r] == UNSAID && MINE_SETTLED(r) ->
        bye[r] = begun[r];
        write_header(r)
    :: !at_half[r] && at[r] == begun[r] && said[r] && answer[r] == UNSAID ->
        answer[r] = begun[r];
        write_header(r)
    :: told[r] != taken[r] ->
        WAY(link[r], r) ! WORD, 0, taken[r];
        told[r] = taken[r]
    fi
}

#define MAY_WRITE(r)                                                                                             \
    (state[r] == UP && nfull(WAY(link[r], r)) &&                                                                 \
     (at_half[r] || at[r] < begun[r] || told[r] != taken[r] || (SENT_DATA(r) < DATA && bye[r] == UNSAID) ||      \
      (bye[r] == UNSAID && MINE_SETTLED(r)) || (said[r] && answer[r] == UNSAID)))

inline arrived(r)
{
    if
    :: n == bye[1 - r] -> said[r] = true
    :: n == answer[1 - r] -> answered[r] = true
    :: else
    fi;
    half[r] = 0;
#ifdef FORGETS
    if
    :: taken[r] = taken[r] + 1
    :: HAS_PAYLOAD(1 - r, n) -> skip /* its receive was cancelled */
    fi
#else
    taken[r] = taken[r] + 1
#endif
}

inline read(r)
{
    WAY(link[r], 1 - r) ? kind, n, w;
#ifndef UNHEARD
    known[r] = links[r];
#endif
    if
    :: kind == PAYLOAD ->
        assert(half[r] && n == taken[r]);
        arrived(r)
    :: else ->
        assert(w >= first[r] && w <= at[r]); /* else the peer, which lives, would be lost */
        acknowledged(r, w);
        if
        :: kind == WORD
        :: kind == HEADER ->
            assert(!half[r] && n == taken[r]); /* each frame once, and in order */
            if
            :: HAS_PAYLOAD(1 - r, n) ->
                half[r] = 1;
#ifdef AT_HEADER
                told[r] = taken[r] + 1;
                WAY(link[r], r) ! WORD, 0, told[r]
#endif
            :: else -> arrived(r)
            fi
        fi
    fi;
    n = 0; w = 0; kind = NO
}

/* An attempt, up to its proof, which says where its end stands: it reads from no connection. */
inline begin_dial(r, k)
{
    assert(link[r] == NONE);
    dial[r] = k;
    by[k] = r;
    maker[k] = ASKS;
    acceptor[k] = ASKS;
    proof_links[k] = links[r];
    proof_taken[k] = taken[r];
    proof_half[k] = half[r]
}

#ifdef OVERTAKEN
#define IS_OVERTAKEN(r, k) false
#else
#define IS_OVERTAKEN(r, k) (state[r] == TRYING && proof_links[k] < known[r])
#endif
/* The lower rank makes one, which is to stay; if it has waited for it too long it may take the other's (IS_LATE). */
#ifdef IN_VAIN
#define MAKES_ONE(r) true
#else
#define MAKES_ONE(r) (dial[r] != NONE)
#endif
#define IS_CROSSED(r, k) (state[r] == TRYING && by[k] > r && MAKES_ONE(r) && !IS_OVERTAKEN(r, k))
#define IS_LATE(r, k)    (IS_CROSSED(r, k) && dial[r] != NONE && lates < LATES)
#define IS_OLD(r, k)     (state[r] == UP && proof_links[k] < known[r])

/* The proof is heard by r, now or long after its end has given it up. */
inline hear(r, k)
{
    if
    :: IS_OLD(r, k) ->
        verdict[k] = UNWANTED;
        close_end(k, r)
    :: IS_OVERTAKEN(r, k) -> close_end(k, r)
    :: IS_CROSSED(r, k) ->
        assert(dial[r] != NONE); /* else nothing comes of its waiting */
        verdict[k] = CROSSED;
        acceptor[k] = CLOSED /* what it has said is read first */
    :: !IS_OLD(r, k) && !IS_OVERTAKEN(r, k) && (!IS_CROSSED(r, k) || IS_LATE(r, k)) ->
        if
        :: IS_LATE(r, k) -> lates = lates + 1
        :: else
        fi;
        verdict_taken[k] = taken[r];
        verdict_half[k] = half[r];
#ifdef OLD_READS
        if
        :: state[r] == UP && nempty(WAY(link[r], 1 - r)) -> read(r)
        :: true
        fi;
#endif
        if
        :: state[r] == UP -> unlink(r)
        :: state[r] != UP
        fi;
        verdict[k] = TAKEN;
        acceptor[k] = STANDS;
        verdict_links[k] = links[r];
        links[r] = MORE(links[r], proof_links[k]) + 1;
        known[r] = proof_links[k];
        start(r, k, proof_taken[k], proof_half[k])
    fi
}

inline judged(r, k)
{
    assert(verdict[k] != UNWANTED); /* else the peer, which lives, would be lost */
    if
    :: verdict[k] == CROSSED ->
        dial[r] = NONE;
        close_end(k, r)
    :: verdict[k] == TAKEN ->
        maker[k] = STANDS;
        links[r] = MORE(verdict_links[k], links[r]) + 1;
        known[r] = links[r];
        start(r, k, verdict_taken[k], verdict_half[k]);
        verdict[k] = NO
    fi
}

/* Nobody listens there any more. */
inline refused(r)
{
    assert(said[r] || bye[r] != UNSAID); /* else who has left would count as dead */
    state[r] = GONE
}

inline leave(r)
{
    assert(MINE_SETTLED(r));
    assert(taken[1 - r] > LONG);                             /* what has settled has arrived */
    assert(said[r] || taken[1 - r] > bye[r]);                /* its goodbye too, or the other leaves as well */
    if
    :: link[r] != NONE -> close_end(link[r], r)
    :: else
    fi;
    link[r] = NONE;
    if
    :: dial[r] != NONE -> close_end(dial[r], r)
    :: else
    fi;
    dial[r] = NONE;
    state[r] = GONE
}

#define IDLE(e)      (state[e] == TRYING && dial[e] == NONE)
#define GUEST(e, k)  (maker[k] != FREE && by[k] != e && acceptor[k] == ASKS)
#define ATTEMPTS(e, k, others) (IDLE(e) && state[1 - e] != GONE && maker[k] == FREE && (others))

active [2] proctype rank()
{
    do
    :: atomic { state[_pid] == GONE && state[1 - _pid] == GONE -> break }
    :: atomic { MAY_WRITE(_pid) -> write(_pid) }
    :: atomic { state[_pid] == UP && nempty(WAY(link[_pid], 1 - _pid)) -> read(_pid) }
    :: atomic { state[_pid] == UP && broken[link[_pid]] -> unlink(_pid) }
    :: atomic { state[_pid] != GONE && MAY_LEAVE(_pid) -> leave(_pid) }
    :: atomic { IDLE(_pid) && state[1 - _pid] == GONE -> refused(_pid) }
    :: atomic { ATTEMPTS(_pid, 0, true) -> begin_dial(_pid, 0) }
    :: atomic { ATTEMPTS(_pid, 1, maker[0] != FREE) -> begin_dial(_pid, 1) }
    :: atomic { ATTEMPTS(_pid, 2, maker[0] != FREE && maker[1] != FREE) -> begin_dial(_pid, 2) }
    :: atomic { dial[_pid] != NONE && verdict[dial[_pid]] != NO -> c = dial[_pid]; judged(_pid, c) }
    :: atomic { dial[_pid] != NONE && broken[dial[_pid]] -> c = dial[_pid]; dial[_pid] = NONE; close_end(c, _pid) }
    :: atomic { state[_pid] != GONE && GUEST(_pid, 0) -> hear(_pid, 0) }
    :: atomic { state[_pid] != GONE && GUEST(_pid, 1) -> hear(_pid, 1) }
    :: atomic { state[_pid] != GONE && GUEST(_pid, 2) -> hear(_pid, 2) }
    :: atomic { GUEST(_pid, 0) && (broken[0] || state[_pid] == GONE) -> close_end(0, _pid) }
    :: atomic { GUEST(_pid, 1) && (broken[1] || state[_pid] == GONE) -> close_end(1, _pid) }
    :: atomic { GUEST(_pid, 2) && (broken[2] || state[_pid] == GONE) -> close_end(2, _pid) }
    :: atomic { by[0] == _pid && resets < RESETS && maker[0] != FREE && !broken[0] -> broken[0] = true; resets = resets + 1 }
    :: atomic { by[1] == _pid && resets < RESETS && maker[1] != FREE && !broken[1] -> broken[1] = true; resets = resets + 1 }
    :: atomic { by[2] == _pid && resets < RESETS && maker[2] != FREE && !broken[2] -> broken[2] = true; resets = resets + 1 }
    od
}
