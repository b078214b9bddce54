/* pacing.c - what a context learns from polling and sleeping, and when its progress thread rests and
 * moves. */
#include "pacing.h"

/* As multiples of WEFT_SPIN_US: sleeps shorter than this were not worth it, and polling grows to at most that.  A
 * virtual processor that has halted may take 2 ms to be back.  Where ranks share processors, less. */
#define SLEEP_WORTH         20
#define SPIN_MOST           32
#define SLEEP_WORTH_CROWDED 4
#define SPIN_MOST_CROWDED   8
#define IN_VAIN_MOST        4 /* times the longest: polls that found nothing, in one wait */

void weft__pacing_open(weft__pacing *pacing, int64_t spin_ns)
{
    pacing->crowded = false;
    pacing->home_cpu = -1;
    pacing->spin_least_ns = spin_ns;
    atomic_init(&pacing->spin_ns, spin_ns);
    atomic_init(&pacing->caller, -1);
}

void weft__pacing_meet(weft__pacing *pacing, int ranks, int processors)
{
    pacing->crowded = ranks > processors;
}

/* ---- a caller who waits ---- */

static int64_t spin_most(const weft__pacing *pacing)
{
    return pacing->spin_least_ns * (pacing->crowded ? SPIN_MOST_CROWDED : SPIN_MOST);
}

static int64_t sleep_worth(const weft__pacing *pacing)
{
    return pacing->spin_least_ns * (pacing->crowded ? SLEEP_WORTH_CROWDED : SLEEP_WORTH);
}

/* The one place where polling grows and shrinks.  Two ranks that wait for each other, and each sleep until
 * the other's bell, may each time be woken too late for the other to be still polling, and so never come out
 * of it: hence it grows after short sleeps. */
static void learn(weft__pacing *pacing, bool sleep_was_worth_it)
{
    int64_t twice = 2 * atomic_load_explicit(&pacing->spin_ns, memory_order_relaxed);
    int64_t most = spin_most(pacing);
    if (sleep_was_worth_it) twice = pacing->spin_least_ns;
    if (twice > most) twice = most;
    atomic_store_explicit(&pacing->spin_ns, twice, memory_order_relaxed);
}

/* What comes in slowly would keep it polling to the end, where polling has grown beyond its pace: hence the
 * limit in all. */
weft__pace weft__pacing_after_clock(const weft__pacing *pacing, weft__polling *polling, int64_t now_ns,
                                    int64_t deadline_ns)
{
    polling->polls = 0;
    polling->now_ns = now_ns;
    if (polling->began_ns == 0) polling->began_ns = now_ns;
    if (polling->stop_ns == 0)
        polling->stop_ns = now_ns + atomic_load_explicit(&pacing->spin_ns, memory_order_relaxed);
    if (polling->last_ns) polling->in_vain_ns += now_ns - polling->last_ns;
    polling->last_ns = now_ns;
    return now_ns >= polling->stop_ns || now_ns >= deadline_ns ||
                   polling->in_vain_ns >= IN_VAIN_MOST * spin_most(pacing)
               ? WEFT__PACE_SLEEP
               : WEFT__PACE_POLL;
}

/* A wait that found something now and then, as from a network, but mostly nothing, and for so long that
 * sleeping would have been worth it.  No sleep will teach that to those that come like it.  Where ranks share
 * processors, what others do with this one meanwhile is not in vain. */
void weft__pacing_after_polling(weft__pacing *pacing, const weft__polling *polling)
{
    int64_t lasted = polling->now_ns - polling->began_ns;
    if (!polling->in_vain_ns || pacing->crowded) return;
    if (polling->in_vain_ns >= sleep_worth(pacing) && 2 * polling->in_vain_ns >= lasted) learn(pacing, true);
}

int weft__pacing_after_sleep(weft__pacing *pacing, int64_t slept_ns)
{
    learn(pacing, slept_ns >= sleep_worth(pacing));
    return pacing->home_cpu;
}

/* ---- the progress thread ---- */

void weft__resting_open(weft__resting *resting, weft__takes takes, int64_t now_ns)
{
    static const int64_t least_us[] = {WEFT__NAP_LEAST_US, WEFT__NAP_LEAST_US, WEFT__DEVICE_NAP_LEAST_US};
    static const int64_t most_us[] = {WEFT__NAP_MOST_US, WEFT__NAP_REST_MOST_US, WEFT__DEVICE_NAP_MOST_US};
    *resting = (weft__resting){.last_ns = now_ns,
                               .least_us = least_us[takes],
                               .most_us = most_us[takes],
                               .nap_us = least_us[takes]};
}

/* Between two polls of what runs on the device: the longer it runs, the longer, and always a small part of
 * it. */
static weft__rest_next watch_device(const weft__pacing *pacing, int64_t since_ns)
{
    int64_t us = since_ns / 1000 / WEFT__DEVICE_NAP_PART;
    if (since_ns < WEFT__DEVICE_SPIN_NS && !pacing->crowded) return (weft__rest_next){WEFT__PACE_POLL, 0};
    if (us < WEFT__DEVICE_NAP_LEAST_US) us = WEFT__DEVICE_NAP_LEAST_US;
    if (us > WEFT__DEVICE_NAP_MOST_US) us = WEFT__DEVICE_NAP_MOST_US;
    return (weft__rest_next){WEFT__PACE_NAP, us};
}

/* Naps grow while callers who wait drive the engine, since a timer on their processor costs them more than a
 * poll, and are short again once work is left to this thread. */
static void learn_from_work(weft__resting *resting, bool callers_drive)
{
    int64_t half = resting->nap_us / 2;
    resting->nap_us = !callers_drive || half < resting->least_us ? resting->least_us : half;
    resting->worked = false;
}

/* A nap longer than the last one. */
static weft__rest_next take_nap(weft__resting *resting)
{
    weft__rest_next nap = {WEFT__PACE_NAP, resting->nap_us};
    resting->nap_us = nap.nap_us * 2 < resting->most_us ? nap.nap_us * 2 : resting->most_us;
    return nap;
}

weft__rest_next weft__resting_next(weft__resting *resting, const weft__pacing *pacing,
                                   const weft__resting_sight *sight, int64_t now_ns)
{
    if (resting->worked || sight->others_worked) resting->last_ns = now_ns;
    if (resting->worked) learn_from_work(resting, sight->callers_drive);
    if (sight->device_pending) return watch_device(pacing, now_ns - resting->last_ns);
    /* Where sockets wake it, a timer would only come too early or too late. */
    if (!sight->callers_sleep && now_ns - resting->last_ns < WEFT__NAP_SPAN_NS &&
        (sight->others_worked || !sight->sockets_wake))
        return take_nap(resting);
    resting->nap_us = resting->least_us;
    return (weft__rest_next){WEFT__PACE_SLEEP, 0};
}

/* ---- processors ---- */

weft__room weft__pacing_room(int running, int processors)
{
    if (running <= processors) return WEFT__ROOM_FREE;
    return running > WEFT__ROOM_FEW * processors ? WEFT__ROOM_CROWDED : WEFT__ROOM_TAKEN;
}

int weft__staying_next(weft__staying *staying, weft__room room, int caller)
{
    switch (room) {
    case WEFT__ROOM_FREE: staying->taken -= staying->taken > 0; break;
    case WEFT__ROOM_TAKEN: staying->taken += staying->taken < WEFT__ROOM_SURE; break;
    case WEFT__ROOM_CROWDED:
        staying->taken = 0;
        break; /* one pass is enough: it may have waited long for it */
    }
    if (staying->taken <= WEFT__ROOM_LEAVE) return WEFT__ANY_PROCESSOR;
    return staying->taken >= WEFT__ROOM_GO ? caller : WEFT__STAY;
}
