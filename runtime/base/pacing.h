/* pacing.h - how long to poll, when to give the processor away, nap or sleep, and on which processor to run.
 *
 * Every such decision of a context is made here and in pacing.c.  Who waits, and the progress thread, tell
 * what has happened: they polled and found something or nothing, the processor was back after so long, a
 * sleep lasted so long.  They are told what to do next, and doing it is theirs: the futex in wait.c, timer
 * and doorbell in progress.c, sched_setaffinity in affinity.c.  Nothing here makes a system call or reads
 * a clock.  Times are passed in, so a test plays a minute in a moment (tests/unit/test_pacing.c), and what is
 * asked between two polls is inline. */
#ifndef WEFT_BASE_PACING_H
#define WEFT_BASE_PACING_H
#include "clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What to do next. */
typedef enum weft__pace {
    WEFT__PACE_POLL,  /* poll again at once */
    WEFT__PACE_PAUSE, /* poll again, after the processor's own short pause */
    WEFT__PACE_YIELD, /* give the processor to others for a moment, and tell how long that was */
    WEFT__PACE_NAP,   /* rest by a timer */
    WEFT__PACE_SLEEP  /* rest until somebody rings */
} weft__pace;

/* One for each context; any thread may use it. */
typedef struct weft__pacing {
    bool crowded;          /* more ranks on this host than processors: they take turns on them */
    int home_cpu;          /* crowded: the processor where its callers belong; -1: nowhere */
    int64_t spin_least_ns; /* WEFT_SPIN_US */
    _Atomic int64_t
        spin_ns;        /* a wait polls for so long before it sleeps: that, or what short sleeps taught */
    _Atomic int caller; /* processor of whoever left work to the progress thread last; -1: nobody has */
} weft__pacing;

void weft__pacing_open(weft__pacing *pacing, int64_t spin_ns);
/* Before anybody waits: so many ranks are on this host, and may use so many processors. */
void weft__pacing_meet(weft__pacing *pacing, int ranks, int processors);

static inline bool weft__pacing_is_crowded(const weft__pacing *pacing)
{
    return pacing->crowded;
}

/* ---- a caller who waits, and drives the engine meanwhile ---- */

#define WEFT__CLOCK_EVERY 64 /* polls of the engine between readings of the clock */
#define WEFT__PLACE_POLLS 8  /* polls of the one place where its end will show, to one progress pass */
/* Where ranks share processors: polls before another gets this one.  A message's other end may well be
 * running, and answer within these; rounds need every rank, also those that wait for this processor. */
#define WEFT__CROWDED_POLLS_MESSAGE 16
#define WEFT__CROWDED_POLLS         4
/* A processor that has been given away for so long has many who want it, by a clock of 1 to 10 ms: it is left
 * to them.  Of hundreds of threads that are never done with their polling none runs for seconds, nor
 * does the one that all wait for. */
#define WEFT__YIELD_LONG_NS (10 * WEFT__MS)
#define WEFT__CHECKS_FREE   16 /* times weft_is_completed only checks before it helps */
/* Messages that a blocking send answers at once, from which on it lets others have the processor. */
#define WEFT__ANSWERS_MANY 16
/* Between polls of a sleeper whom nobody may wake: it waits for requests of several contexts, which have no
 * word in common, or the progress thread is in a callback, and drives nothing. */
#define WEFT__SLEEP_SHORT_NS WEFT__MS

/* One wait; on the caller's stack. */
typedef struct weft__polling {
    int polls;        /* since the clock was read last */
    int64_t began_ns; /* the first reading of the clock; 0: there was none, as in the next three */
    int64_t now_ns;   /* the last one */
    int64_t last_ns;  /* the same, unless something has moved since */
    int64_t stop_ns; /* it has polled for long enough then, unless something moves before; 0: not known yet */
    int64_t in_vain_ns; /* in all, between readings of the clock with nothing moving */
} weft__polling;
#define WEFT__POLLING_BEGINS \
    {                        \
        .polls = 1           \
    } /* it has made a progress pass before */

/* Is this poll one of its place alone, where it has one?  Else a progress pass. */
static inline bool weft__pacing_at_place(int polls)
{
    return polls % WEFT__PLACE_POLLS != 0;
}

static inline bool weft__pacing_clock_is_due(int polls)
{
    return polls >= WEFT__CLOCK_EVERY;
}

/* Crowded, and it found nothing: does another get this processor now? */
static inline bool weft__pacing_gives_way(int polls, bool waits_for_message)
{
    return polls % (waits_for_message ? WEFT__CROWDED_POLLS_MESSAGE : WEFT__CROWDED_POLLS) == 0;
}

/* After a stay in the engine.  counted: its polls stand in `polls` already. */
static inline weft__pace weft__pacing_after_polls(const weft__pacing *pacing, weft__polling *polling,
                                                  bool moved, bool counted)
{
    if (moved || !counted) polling->polls++;
    if (!moved) return pacing->crowded ? WEFT__PACE_YIELD : WEFT__PACE_PAUSE;
    polling->stop_ns = polling->last_ns = 0; /* worth staying */
    return WEFT__PACE_POLL;
}

/* It gave the processor away for so long.  POLL or SLEEP. */
static inline weft__pace weft__pacing_after_yield(int64_t away_ns)
{
    return away_ns < WEFT__YIELD_LONG_NS ? WEFT__PACE_POLL : WEFT__PACE_SLEEP;
}

/* It has read the clock.  POLL or SLEEP: it has polled for long enough, since something moved or in all,
 * or for as long as it may. */
weft__pace weft__pacing_after_clock(const weft__pacing *pacing, weft__polling *polling, int64_t now_ns,
                                    int64_t deadline_ns);
/* It polls no more, for whatever reason. */
void weft__pacing_after_polling(weft__pacing *pacing, const weft__polling *polling);

/* It sleeps until somebody wakes it, or not longer than until weft__pacing_sleep_short? */
static inline bool weft__pacing_sleeps_short(bool progress_is_in_callback, bool several_contexts)
{
    return progress_is_in_callback || several_contexts;
}

static inline int64_t weft__pacing_sleep_short(int64_t now_ns, int64_t deadline_ns)
{
    return now_ns + WEFT__SLEEP_SHORT_NS < deadline_ns ? now_ns + WEFT__SLEEP_SHORT_NS : deadline_ns;
}

/* It has slept for so long.  Returns the processor it goes back to; -1: it stays. */
int weft__pacing_after_sleep(weft__pacing *pacing, int64_t slept_ns);

/* weft_is_completed was asked so often before and said no.  May it only check?  Of a probe it never does. */
static inline bool weft__pacing_only_checks(uint32_t checks, bool probe)
{
    return checks < WEFT__CHECKS_FREE && !probe;
}

/* Crowded: a send that nobody waits for answers so many messages.  Who has taken many and answers them will
 * mostly ask for as many more, and would wait for each of them, while the other, who may send them now, waits
 * for this processor.  It costs a switch, which is little beside so many, and much beside few. */
static inline bool weft__pacing_yields_after_send(uint32_t unanswered)
{
    return unanswered >= WEFT__ANSWERS_MANY;
}

/* ---- the progress thread ---- */

#define WEFT__IDLE_PASSES         16 /* passes that find nothing before it rests */
#define WEFT__NAP_LEAST_US        250
#define WEFT__NAP_MOST_US         4000
#define WEFT__NAP_REST_MOST_US    1000           /* of a work of a module that nobody waits for */
#define WEFT__NAP_SPAN_NS         (8 * WEFT__MS) /* without any activity for so long it goes to sleep */
#define WEFT__DEVICE_SPIN_NS      (WEFT__MS / 20) /* what runs on a device is polled without rest for so long */
#define WEFT__DEVICE_NAP_LEAST_US 20
#define WEFT__DEVICE_NAP_MOST_US  250
#define WEFT__DEVICE_NAP_PART     16 /* a nap is this part of the time it has run */

/* The thread's own. */
typedef struct weft__resting {
    int idle;        /* passes in a row that found nothing */
    bool worked;     /* one has found something since it rested last */
    int64_t last_ns; /* the last activity that it knows of, its own or others' */
    int64_t least_us, most_us;
    int64_t nap_us; /* the next nap */
} weft__resting;

/* What it sees when it might rest. */
typedef struct weft__resting_sight {
    bool others_worked;  /* something moved in others' hands since it rested last */
    bool callers_drive;  /* and in those of callers who wait */
    bool device_pending; /* a device is at work */
    bool callers_sleep;  /* a caller sleeps in a wait */
    bool sockets_wake;   /* all that is under way goes on when bytes come, for which it can sleep */
} weft__resting_sight;

typedef struct weft__rest_next {
    weft__pace pace; /* POLL, NAP or SLEEP */
    int64_t nap_us;
} weft__rest_next;

/* Who takes what modules have, and so how long a nap may be. */
typedef enum weft__takes {
    WEFT__TAKES_NONE,  /* there is no module */
    WEFT__TAKES_REST,  /* callers who wait do, and the thread what nobody waits for */
    WEFT__TAKES_ALONE, /* the thread alone */
} weft__takes;
void weft__resting_open(weft__resting *resting, weft__takes takes, int64_t now_ns);

static inline void weft__resting_found(weft__resting *resting)
{
    resting->idle = 0;
    resting->worked = true;
}

/* A pass found nothing.  Is it time to rest? */
static inline bool weft__resting_is_due(weft__resting *resting, const weft__pacing *pacing, bool sockets_wake)
{
    if (++resting->idle < WEFT__IDLE_PASSES && !pacing->crowded && !sockets_wake) return false;
    resting->idle = 0;
    return true;
}

weft__rest_next weft__resting_next(weft__resting *resting, const weft__pacing *pacing,
                                   const weft__resting_sight *sight, int64_t now_ns);

/* ---- processors ---- */

/* The machine's, for the threads that could run. */
typedef enum weft__room {
    WEFT__ROOM_FREE,   /* one is free, or it is not known */
    WEFT__ROOM_TAKEN,  /* none is, but each thread waits for few others */
    WEFT__ROOM_CROWDED /* each waits for many */
} weft__room;

#define WEFT__ROOM_EVERY_NS (2 * WEFT__MS) /* between checks of how many threads could run */
/* What is seen in one moment is little: the progress thread goes to its callers' processor when it is sure
 * that none is free, and leaves when it is no more. */
#define WEFT__ROOM_SURE  4
#define WEFT__ROOM_GO    3
#define WEFT__ROOM_LEAVE 1
#define WEFT__ROOM_FEW   3 /* threads for each processor: its caller, two ranks' progress threads */

/* The progress thread's own: whether it stays where its callers are. */
typedef struct weft__staying {
    int taken;          /* how sure it is that no processor is free, 0 to WEFT__ROOM_SURE */
    int64_t checked_ns; /* when it last checked whether one is */
} weft__staying;

enum { WEFT__STAY = -2, WEFT__ANY_PROCESSOR = -1 };

weft__room weft__pacing_room(int running, int processors);
/* Is it time to check again whether a processor is free?  Then it is taken for done. */
static inline bool weft__staying_checks(weft__staying *staying, int64_t now_ns)
{
    if (now_ns - staying->checked_ns < WEFT__ROOM_EVERY_NS) return false;
    staying->checked_ns = now_ns;
    return true;
}
/* What it saw.  Returns the processor it goes to, for now: `caller`; or one of the two above. */
int weft__staying_next(weft__staying *staying, weft__room room, int caller);

/* Work was left to the progress thread, from this processor. */
static inline void weft__pacing_left_work(weft__pacing *pacing, int processor)
{
    atomic_store_explicit(&pacing->caller, processor, memory_order_relaxed);
}

/* Do callers have a processor where they belong?  Ranks that outnumber the processors and meet in shared
 * memory take turns by the microsecond: the kernel takes none of them for one that has rested and may be
 * moved.  So of four on two processors three stay together for seconds, and all wait for these.  Over sockets
 * they sleep and wake all the time, and the kernel has its say. */
static inline bool weft__pacing_has_home(const weft__pacing *pacing, bool shares_memory,
                                         bool descriptors_wake)
{
    return pacing->crowded && shares_memory && !descriptors_wake;
}

/* Which of so many processors is that of the number-th of count ranks.  Neighbours are together. */
static inline int weft__pacing_home_cpu(int number, int count, int processors)
{
    return (int)((int64_t)number * processors / count);
}
#endif
