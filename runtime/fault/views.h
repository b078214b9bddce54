/* views.h - one rank's part in deciding who is in the job.  The algorithm, and why no two ranks have different views of one
 * number, is in views.md.
 *
 * It does nothing by itself: it is told of messages, of deaths and of the time, and hands out messages.  What goes out
 * may be lost, overtaken or repeated.  Memory in proportion to the ranks. */
#ifndef WEFT_FAULT_VIEWS_H
#define WEFT_FAULT_VIEWS_H
#include "quorum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This rank's own ballot; views_to (views.c) alone stores it. */
typedef enum weft__views_state {
    WEFT__VIEWS_RESTING,   /* it has none */
    WEFT__VIEWS_PREPARING, /* waits for promises */
    WEFT__VIEWS_PROPOSING, /* waits for votes */
    WEFT__VIEWS_PAUSING,   /* another's is under way: it begins then, unless that has ended */
    WEFT__VIEWS_OUT        /* a later view is decided, and this rank is not in it: for ever */
} weft__views_state;

typedef enum weft__view_word {
    WEFT__VIEW_PREPARE = 1,
    WEFT__VIEW_PROMISE,
    WEFT__VIEW_ACCEPT,
    WEFT__VIEW_ACCEPTED,
    WEFT__VIEW_IS,   /* no more than what each message says: this is the view of that number */
    WEFT__VIEW_WHICH /* that, and which have you? */
} weft__view_word;

/* What ranks tell each other. */
typedef struct weft__view_message {
    uint32_t word; /* weft__view_word */
    uint32_t view; /* number of the sender's */
    uint64_t ballot;
    uint64_t vote_at; /* PROMISE: ballot of the sender's vote; 0: it has not voted */
    unsigned char
        sets[]; /* a bit for each rank: the members of the sender's view; PROMISE: its vote, ACCEPT: the ranks
                             proposed, ACCEPTED: who is certainly dead to it; else none */
} weft__view_message;

/* How long each of the two sets is in a job of so many ranks: with WEFT__QUORUM_WITNESS the witness is one voter more, whose bit is
 * behind theirs. */
static inline size_t weft__view_set_bytes(int ranks, weft__quorum quorum)
{
    return ((size_t)ranks + (quorum == WEFT__QUORUM_WITNESS) + 7) / 8;
}

typedef struct weft__views weft__views;
/* to: a rank, or `ranks`, which is the witness (acceptor.h). */
typedef struct weft__views_events {
    void (*send)(void *arg, int to, const weft__view_message *message, size_t bytes);
    void (*decided)(void *arg); /* this rank has a later view, or is out */
    void *arg;
} weft__views_events;

/* View 1, of all ranks.  chance: for pauses; another one on each rank.  NULL: no memory. */
weft__views *weft__views_new(int rank, int ranks, weft__quorum quorum, uint64_t chance,
                             weft__views_events events);
void weft__views_free(weft__views *v); /* NULL: nothing */

/* A view after this one is wanted: a ballot begins, now or when the one before it is over. */
void weft__views_want(weft__views *v, int64_t now_ns);
/* That rank is no more heard of: no answer of it is waited for.  It may live, and what it says counts. */
void weft__views_presume_dead(weft__views *v, int rank, int64_t now_ns);
/* It is certain that it has died. */
void weft__views_died(weft__views *v, int rank, int64_t now_ns);
/* It cannot be asked here: so another rank of its half has its turn. */
void weft__views_witness_fails(weft__views *v);
/* From that rank, or the witness.  False: nobody who goes by these rules says that, and it is dropped. */
bool weft__views_take(weft__views *v, int from, const weft__view_message *message, size_t bytes,
                      int64_t now_ns);
/* Time has passed: says again what may be lost.  When it wants to be called again; WEFT__NEVER: it does not. */
int64_t weft__views_check(weft__views *v, int64_t now_ns);

weft__views_state weft__views_state_of(const weft__views *v);
uint32_t weft__views_number(const weft__views *v);    /* OUT: of the view that left it out */
bool weft__views_has(const weft__views *v, int rank); /* is in that view */
/* Is a quorum left of those not taken for dead?  With the witness where that answers. */
bool weft__views_can_decide(const weft__views *v, bool witness);
#endif
