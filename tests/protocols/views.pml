/* views.pml - how the living agree on the next view of a job: a model for spin.  The page is runtime/fault/views.md.
 *
 * One instance of Paxos decides each view; its acceptors are the members of the view before.  Whatever was sent stays
 * readable for ever: a rank reads a message at any time, as often as it likes, or never.  So messages overtake each
 * other, are lost and come twice, and a partition is what its other side never reads.  A rank that acts no more has
 * crashed or is cut off, which nobody can tell apart; `dead` are those whose crash is certain, which is asked for where a rule
 * goes by it.  Who presumes whom dead is no input: a rank begins a ballot whenever it likes, and the next view is
 * whoever answered it, with any that did not: those are late to its owner, and not dead.
 *
 *   -DRANKS=3 -DBALLOTS=3 -DVIEWS=2   so many ranks, ballots in each instance (by rank in turn), views in all
 *   -DPROVEN                          all members whose crash is not certain may decide too, however few, each with a vote
 *                                     that knows of all crashes that the one who decides knows of
 *   -DWITNESS                         with a voter that is no rank, for when exactly half of a view has come
 *   -DBEGUN                           with RANKS=4: rank 0 has decided a view of 0 and 2 by its first ballot, of which nobody
 *                                     else has heard yet; what may follow on that is far from a beginning with nothing
 * Rules that are wrong, each of which has to break an assertion:
 *   -DANY        no quorum (WEFT_QUORUM=any, which takes that risk)
 *   -DMINORITY   half of a view is enough, whichever half
 *   -DLEAVES     who is certainly dead counts no more, without a view that says so
 *   -DFORGETS    an answer does not tell of the vote before
 *   -DEARLIER    a vote is cast for a ballot older than one that was answered
 *   -DHEARS      with PROVEN: a vote decides whatever crashes its voter knows of
 *   -DLOWEST     with WITNESS: of exactly half the one with the lowest rank may decide without it too
 *   -DLOSES      with WITNESS: it may forget what it has promised and voted for, as where its file is made anew */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef BALLOTS
#define BALLOTS RANKS
#endif
#ifndef VIEWS
#define VIEWS 2
#endif
#define INSTANCES   (VIEWS - 1)
#define ALL         ((1 << RANKS) - 1)
#define BIT(i)      (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define OWNER(b)    ((b) % RANKS)
#define AT(v, b)    (((v) - 1) * BALLOTS + (b))
#define HERE        AT(view[i], b)
#define COUNT(s)    (HAS(s, 0) + HAS(s, 1) + HAS(s, 2) + HAS(s, 3) + HAS(s, 4))
#define FIRST(s)    ((s) & -(s))
#define HALF_OF_4   5 /* 0 and 2 */
#ifdef WITNESS
#define VOTERS (RANKS + 1)
#else
#define VOTERS RANKS
#endif
#define FROM(at, x) ((at) * VOTERS + (x))

/* May `s` of the members `m` decide?  Two sets that may have a voter in common. */
#define MOST(s, m)   (2 * COUNT((s) & (m)) > COUNT(m))
#define HALF(s, m)   (2 * COUNT((s) & (m)) == COUNT(m))
#define HALVES(s, m) (MOST(s, m) || (HALF(s, m) && ((s) & FIRST(m))))
#if defined(ANY)
#define BY_COUNT(s, m) ((s) & (m))
#elif defined(MINORITY)
#define BY_COUNT(s, m) (2 * COUNT((s) & (m)) + 1 >= COUNT(m))
#elif defined(LEAVES)
#define BY_COUNT(s, m) (HALVES(s, m) || HALVES(s, (m) & ~dead))
#elif defined(LOWEST)
#define BY_COUNT(s, m) (HALVES(s, m) || (HALF(s, m) && HAS(s, RANKS)))
#elif defined(WITNESS)
#define BY_COUNT(s, m) (MOST(s, m) || (HALF(s, m) && HAS(s, RANKS)))
#else
#define BY_COUNT(s, m) HALVES(s, m)
#endif
#ifdef PROVEN
#define QUORUM(s, m)  (BY_COUNT(s, m) || ((m) & ~((s) | knows[i])) == 0)
#define DECIDES(s, m) (BY_COUNT(s, m) || ((m) & ~(deaf | knows[i])) == 0)
#define IS_DEAF_TO(x) HAS(knows[i], x)
#else
#define QUORUM(s, m)  BY_COUNT(s, m)
#define DECIDES(s, m) BY_COUNT(s, m)
#define IS_DEAF_TO(x) 0
#endif

/* What there is of each rank, and of the witness for each instance: a set of ranks is a byte; a ballot counts from 1, and
 * 0 is none. */
byte dead;
byte view[RANKS];     /* number of its view; the first is 1 */
byte members[RANKS];  /* of that view */
byte promised[RANKS]; /* the ballot that it has answered last in its view's instance */
byte vote_at[RANKS];  /* the ballot of its vote */
byte vote[RANKS];     /* whom it has voted for */
#ifdef PROVEN
byte knows[RANKS];    /* whose crash is certain to it: it reads nothing of these any more */
#endif
#ifdef WITNESS
byte witness_promised[INSTANCES], witness_vote_at[INSTANCES], witness_vote[INSTANCES];
#endif

/* What has been sent, by instance and ballot. */
byte answers[INSTANCES * BALLOTS];            /* promise: from whom; its owner's own tells that it has begun, */
byte answer_at[INSTANCES * BALLOTS * VOTERS]; /* with which vote of before */
byte answer[INSTANCES * BALLOTS * VOTERS];
byte proposed[INSTANCES * BALLOTS];           /* accept: the view; 0: none */
byte votes[INSTANCES * BALLOTS];              /* accepted: from whom, */
#ifdef PROVEN
byte known[INSTANCES * BALLOTS * VOTERS];     /* and what that one knew, when it said so last */
#endif

byte followed[INSTANCES * RANKS];             /* the view that a rank has had, which it tells of; 0: none */

hidden byte i, j, b, s, best, value, late, deaf; /* of one step */

inline pick(x, most)
{
    x = 0;
    do
    :: x < most -> x = x + 1
    :: break
    od
}

/* The newest of the votes that were told with the answers of `s` decides. */
inline newest(at)
{
    best = 0;
    value = 0;
    j = 0;
    do
    :: j < VOTERS ->
        if
        :: HAS(s, j) && answer_at[FROM(at, j)] > best ->
            best = answer_at[FROM(at, j)];
            value = answer[FROM(at, j)]
        :: else
        fi;
        j = j + 1
    :: else -> break
    od
}

inline promise(at, x, its_promise, its_vote_at, its_vote)
{
    its_promise = b + 1;
    answers[at] = answers[at] | BIT(x);
#ifndef FORGETS
    answer_at[FROM(at, x)] = its_vote_at;
    answer[FROM(at, x)] = its_vote
#endif
}

inline accept(at, x, its_promise, its_vote_at, its_vote)
{
    its_promise = b + 1;
    its_vote_at = b + 1;
    its_vote = proposed[at];
    votes[at] = votes[at] | BIT(x);
#ifdef PROVEN
    if
    :: x < RANKS -> known[FROM(at, x)] = knows[x]
    :: else
    fi
#endif
}

/* Of those who have voted: whose vote knows of all the crashes that rank i knows of. */
inline heard(at)
{
    deaf = 0;
#ifdef PROVEN
    j = 0;
    do
    :: j < VOTERS ->
        if
#ifdef HEARS
        :: HAS(votes[at], j) -> deaf = deaf | BIT(j)
#else
        :: HAS(votes[at], j) && (members[i] & knows[i] & ~known[FROM(at, j)]) == 0 -> deaf = deaf | BIT(j)
#endif
        :: else
        fi;
        j = j + 1
    :: else -> break
    od
#endif
}

#ifdef EARLIER
#define MAY_VOTE(its_promise, its_vote_at) ((its_vote_at) < b + 1)
#else
#define MAY_VOTE(its_promise, its_vote_at) ((its_promise) <= b + 1 && (its_vote_at) < b + 1)
#endif

/* Rank i has learned that the ranks of `s` are the next view; where it is none of them it is out. */
inline install()
{
    assert(s && (s & ~members[i]) == 0);
    followed[(view[i] - 1) * RANKS + i] = s;
    view[i] = view[i] + 1;
    members[i] = s;
    promised[i] = 0;
    vote_at[i] = 0;
    vote[i] = 0;
    j = 0;
    do
    :: j < RANKS ->
#ifdef PROVEN
        /* Agreement of those that live: ranks that are all dead may have decided otherwise. */
        assert(view[j] != view[i] || members[j] == s || HAS(dead, j));
#else
        /* Agreement, with what the dead had too. */
        assert(view[j] != view[i] || members[j] == s);
#endif
        j = j + 1
    :: else -> break
    od
}

active proctype job()
{
    d_step {
        i = 0;
        do
        :: i < RANKS ->
            view[i] = 1;
            members[i] = ALL;
            i = i + 1
        :: else -> break
        od;
#ifdef BEGUN
        answers[0] = HALF_OF_4;
        proposed[0] = HALF_OF_4;
        votes[0] = HALF_OF_4;
        promised[2] = 1;
        vote_at[2] = 1;
        vote[2] = HALF_OF_4;
        followed[0] = HALF_OF_4;
        view[0] = 2;
        members[0] = HALF_OF_4
#endif
    }
    do
    :: atomic {
        pick(i, RANKS - 1);
        if
        :: HAS(dead, i)
        :: else ->
            if
#if defined(PROVEN) || defined(LEAVES)
            :: dead = dead | BIT(i)
#endif
            :: view[i] == VIEWS || !HAS(members[i], i)
            :: view[i] < VIEWS && HAS(members[i], i) ->
                if
#ifdef PROVEN
                /* It learns of a crash, and gives its vote once more. */
                :: pick(j, RANKS - 1);
                    knows[i] = knows[i] | (BIT(j) & dead);
                    if
                    :: vote_at[i] -> known[FROM(AT(view[i], vote_at[i] - 1), i)] = knows[i]
                    :: else
                    fi
#endif
                :: pick(b, BALLOTS - 1);
                    if
                    /* Prepare, and answer that oneself. */
                    :: OWNER(b) == i && promised[i] < b + 1 -> promise(HERE, i, promised[i], vote_at[i], vote[i])
                    /* Promise: no ballot before this one gets its vote from now on. */
                    :: HAS(answers[HERE], OWNER(b)) && HAS(members[i], OWNER(b)) && !IS_DEAF_TO(OWNER(b)) &&
                            promised[i] < b + 1 ->
                        promise(HERE, i, promised[i], vote_at[i], vote[i])
                    /* Propose, and vote for that oneself: those who answered, and who is late, are the view, unless one of
                     * them has voted. */
                    :: OWNER(b) == i && HAS(answers[HERE], i) && !proposed[HERE] && promised[i] == b + 1 ->
                        pick(s, (1 << VOTERS) - 1);
                        if
                        :: (s & ~answers[HERE]) == 0 && HAS(s, i) && QUORUM(s, members[i]) ->
                            newest(HERE);
                            if
                            :: best
                            :: !best ->
                                pick(late, ALL);
                                late = late & members[i];
                                if
                                :: value = (s & members[i]) | late
                                :: value = ((s & members[i]) | late) & ~dead
                                fi
                            fi;
                            proposed[HERE] = value;
                            accept(HERE, i, promised[i], vote_at[i], vote[i])
                        :: else
                        fi
                    /* Accept. */
                    :: proposed[HERE] && HAS(members[i], OWNER(b)) && !IS_DEAF_TO(OWNER(b)) &&
                            MAY_VOTE(promised[i], vote_at[i]) ->
                        accept(HERE, i, promised[i], vote_at[i], vote[i])
                    /* Decide: who began the ballot counts votes. */
                    :: OWNER(b) == i && HAS(votes[HERE], i) ->
                        heard(HERE);
                        if
                        :: DECIDES(votes[HERE], members[i]) ->
                            s = proposed[HERE];
                            install()
                        :: else
                        fi
                    :: else
                    fi
                :: pick(j, RANKS - 1); /* It is told what another has. */
                    s = followed[(view[i] - 1) * RANKS + j];
                    if
                    :: s && (s & ~members[i]) == 0 && !IS_DEAF_TO(j) -> install()
                    :: else
                    fi
                fi
            fi
        fi
    }
#ifdef WITNESS
    :: atomic {
        pick(i, INSTANCES - 1);
        pick(b, BALLOTS - 1);
        if
        :: HAS(answers[AT(i + 1, b)], OWNER(b)) && witness_promised[i] < b + 1 ->
            promise(AT(i + 1, b), RANKS, witness_promised[i], witness_vote_at[i], witness_vote[i])
        :: proposed[AT(i + 1, b)] && MAY_VOTE(witness_promised[i], witness_vote_at[i]) ->
            accept(AT(i + 1, b), RANKS, witness_promised[i], witness_vote_at[i], witness_vote[i])
#ifdef LOSES
        :: witness_promised[i] ->
            witness_promised[i] = 0;
            witness_vote_at[i] = 0;
            witness_vote[i] = 0
#endif
        :: else
        fi
    }
#endif
    od
}
