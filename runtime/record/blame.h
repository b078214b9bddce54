/* blame.h - who waits for whom among the ranks of a job, down to where it comes from: the end of each chain, and the
 * circles.
 *
 * Pure: it asks neither a clock nor the system.  A collective waits for all members that have not begun it, a message
 * for the other end, so a circle of such waits is a deadlock.  A receive from any rank, a wait for one of several and
 * the making of a group wait for some of those that are listed: these make chains, but no circle.
 *
 * Records are read one after another while ranks go on, so what is young may be seen on one side only; least_ns keeps
 * that apart.  Whatever a record says has been checked by its reader, and may be a lie even so. */
#ifndef WEFT_RECORD_BLAME_H
#define WEFT_RECORD_BLAME_H
#include "ends.h"

typedef struct weft__node {
    int rank;
    const weft__snapshot *shot;
    weft__process process;
    weft__doing is;
    const weft__group_record *group; /* of what it is in; NULL: not known */
    size_t first, count;             /* whom that waits for, in the blame's waits: ranks of the world */
    bool some;                       /* for some of them, rather than for all */
    bool arrived;                    /* for nobody: all have come, and it goes on, or should */
    int64_t waited_ns;               /* WAITING: for how long */
    int root;                        /* WAITING: rank at the end of its chain; -1: none */
    bool circles;                    /* it is a part of a deadlock */
} weft__node;

/* What stands still and where it comes from. */
typedef struct weft__finding {
    bool deadlock;
    bool together; /* all have come to an operation, which lasts: told are those that wait in it */
    weft__conduct
        conduct; /* else of that rank; WAITING: all have come to what it is in, and it is held up there */
    int rank;    /* where it comes from; of a deadlock one of its ranks */
    size_t first,
        count;   /* in the blame's told: of a deadlock its ranks, each waits for the next and the last for the
                              first; else those who wait for the rank itself */
    size_t more; /* behind these: those who wait for them, or for those, and so on */
    int64_t since_ns;   /* 0: not known */
    int64_t longest_ns; /* that somebody has waited */
    int waiter;         /* rank that has; -1: nobody waits */
} weft__finding;

typedef struct weft__rank_list {
    int *ranks;
    size_t count, room;
} weft__rank_list;

typedef struct weft__blame {
    int64_t now_ns;
    bool frozen;       /* no process lives: it is as of just before the first of them went */
    weft__node *nodes; /* by rank */
    size_t count;
    weft__rank_ending *endings; /* one a node */
    weft__rank_list waits, told;
    weft__finding *verdicts; /* the worst first: deadlocks, then by conduct, then by time */
    size_t verdict_count;
} weft__blame;

/* The witnesses' snapshots are of one run and host, and stay.  now_ns: on their clock, taken before the first was read; where
 * no process lives the moment of weft__last_well counts in its place.  Waits shorter than least_ns are none.
 * ERR_MEMORY. */
weft_status weft__blame_make(const weft__witness *witnesses, size_t count, int64_t now_ns, int64_t least_ns,
                             weft__blame *blame);
void weft__blame_free(weft__blame *blame); /* of one that was made, or is zeroed */

static inline weft__node *weft__blame_node(const weft__blame *blame, int rank) /* NULL: it has no record */
{
    size_t low = 0, high = blame->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blame->nodes[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < blame->count && blame->nodes[low].rank == rank ? &blame->nodes[low] : NULL;
}
#endif
