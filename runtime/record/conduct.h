/* conduct.h - what one rank is about, as its record and its process tell. */
#ifndef WEFT_RECORD_CONDUCT_H
#define WEFT_RECORD_CONDUCT_H
#include "snapshot.h"

/* What the system knows of its process. */
typedef enum weft__process { WEFT__PROCESS_LIVES, WEFT__PROCESS_STOPPED, WEFT__PROCESS_GONE } weft__process;

/* What a rank is about, from what can least be waited for on; X(id, name). */
#define WEFT__CONDUCTS(X)                                                                                    \
    X(DEAD, "dead")                                                                                          \
    X(STOPPED, "stopped") /* by a signal, or a debugger */                                                   \
    X(LEFT, "left")       /* there is nothing more to come of it */                                          \
    X(CALLBACK,                                                                                              \
      "in a callback")       /* its callers cannot go on, since what they wait for is told them behind it */ \
    X(MODULE, "in a module") /* its progress thread is inside a call of a module */                          \
    X(LEAVING, "leaving")                                                                                    \
    X(OWN, "own code")    /* nothing of its own goes on */                                                   \
    X(RUNNING, "running") /* operations go on, and nobody waits for one: it computes, or polls */            \
    X(UNSEEN, "not seen") /* there is no record of it */                                                     \
    X(WAITING, "waiting")

typedef enum weft__conduct {
#define WEFT__CONDUCT_ID(id, name) WEFT__CONDUCT_##id,
    WEFT__CONDUCTS(WEFT__CONDUCT_ID)
#undef WEFT__CONDUCT_ID
        WEFT__CONDUCT_KINDS
} weft__conduct;

const char *weft__conduct_name(weft__conduct conduct);

weft__process weft__process_of(const weft__snapshot *shot); /* as it is now */

/* A rank whose record has been read. */
typedef struct weft__witness {
    const weft__snapshot *shot;
    weft__process process;
} weft__witness;

typedef struct weft__doing {
    weft__conduct conduct;
    int64_t since_ns;            /* 0: not known */
    const weft__recorded_op *op; /* what it waits for; else the oldest that goes on; NULL: none */
    const weft__recorded_op
        *was; /* of those that are over the one that was the last to begin; NULL: none is kept */
    const weft__recorded_op *called; /* CALLBACK: whose callback that is; NULL: not known */
    bool one_of;                     /* it waits for one of several: op is the oldest of them */
    size_t inflight;                 /* operations that go on, as far as they are recorded */
    int64_t sign_ns;                 /* when it was last heard of */
} weft__doing;

/* What it is about.  frozen: its process is gone like all others, and what is asked is how it was at that moment: what
 * it did afterwards has not happened. */
weft__doing weft__doing_of(const weft__witness *witness, bool frozen, int64_t now_ns);
int64_t weft__last_sign(const weft__snapshot *shot,
                        int64_t now_ns); /* the last time up to then that it tells of */

/* What kinds of operations mean here, whatever their numbers are in the library that wrote the record. */
typedef enum weft__sort {
    WEFT__SORT_COLLECTIVE, /* numbered in its group, in the same order on all members */
    WEFT__SORT_SEND,
    WEFT__SORT_RECEIVE, /* or a probe */
    WEFT__SORT_EXCHANGE,
    WEFT__SORT_FORMING, /* makes a group of some members of another */
    WEFT__SORT_BATCH    /* others, which have records of their own */
} weft__sort;
weft__sort weft__sort_of(const weft__snapshot *shot, const weft__recorded_op *op);
bool weft__recorded_over(const weft__recorded_op *op, int64_t now_ns); /* its outcome was fixed by then */

/* Nanoseconds from then to now; 0 where either is not known, or nonsense. */
int64_t weft__recorded_ago(int64_t now_ns, int64_t then_ns);
#endif
