/* ends.c - reads from all records how each rank has ended, and when the first did. */
#include "ends.h"
#include "clock.h"

#define OUTLIVED_NS (60 * 1000 * WEFT__MS)

const char *weft__end_name(weft__end end)
{
    static const char *const names[] = {
#define END_NAME(id, name) [WEFT__END_##id] = name,
        WEFT__ENDS(END_NAME)
#undef END_NAME
    };
    return (unsigned)end < WEFT__END_KINDS ? names[end] : "?";
}

static weft__rank_ending own_end(const weft__witness *w, int64_t now_ns)
{
    const uint64_t *life = w->shot->life;
    weft_status status = (weft_status)(int32_t)(uint32_t)life[WEFT__LIFE_STATUS];
    bool leaves = life[WEFT__LIFE_STAGE] >= WEFT__STAGE_LEAVING && life[WEFT__LIFE_STAGE] < WEFT__STAGES;
    weft__rank_ending e = {.end = WEFT__END_LIVES, .by = -1, .status = status, .why = ""};
    if (life[WEFT__LIFE_STAGE] == WEFT__STAGE_LEFT && status == WEFT_OK)
        e.end = WEFT__END_LEFT;
    else if (leaves && (status != WEFT_OK || life[WEFT__LIFE_STAGE] == WEFT__STAGE_ABORTING))
        e.end = WEFT__END_FAILED;
    else if (w->process == WEFT__PROCESS_GONE)
        e.end = WEFT__END_VANISHED;
    if (e.end == WEFT__END_VANISHED)
        e.at_ns = weft__last_sign(w->shot, now_ns);
    else if (e.end != WEFT__END_LIVES && life[WEFT__LIFE_LEAVING] <= INT64_MAX)
        e.at_ns = (int64_t)life[WEFT__LIFE_LEAVING];
    return e;
}

/* What that one has seen of the rank's end. */
static void seen_by(const weft__snapshot *shot, int rank, weft__rank_ending *e)
{
    for (size_t i = 0; i < shot->event_count; i++) {
        const weft__recorded_event *event = &shot->events[i];
        if (event->rank != rank || event->at_ns < 0 || !weft__is_death(event)) continue;
        if (e->end == WEFT__END_DIED && event->at_ns >= e->at_ns) continue;
        e->end = WEFT__END_DIED;
        e->at_ns = event->at_ns;
        e->by = shot->rank;
    }
    for (size_t i = 0; i < shot->group_count; i++)
        if (shot->groups[i].culprit == rank && !*e->why) e->why = shot->groups[i].why;
}

void weft__endings_of(const weft__witness *witnesses, size_t count, int64_t now_ns,
                      weft__rank_ending *endings)
{
    for (size_t i = 0; i < count; i++) {
        weft__rank_ending *e = &endings[i];
        *e = own_end(&witnesses[i], now_ns);
        for (size_t j = 0; j < count && e->end != WEFT__END_LIVES && e->end != WEFT__END_LEFT; j++)
            if (j != i) seen_by(witnesses[j].shot, witnesses[i].shot->rank, e);
    }
}

int weft__first_to_go(const weft__rank_ending *endings, size_t count)
{
    int first = -1;
    for (size_t i = 0; i < count; i++) {
        bool told = endings[i].end == WEFT__END_DIED || endings[i].end == WEFT__END_FAILED, first_told;
        if (!told && endings[i].end != WEFT__END_VANISHED) continue;
        first_told = first >= 0 && endings[first].end != WEFT__END_VANISHED;
        if (first < 0 || told > first_told || (told == first_told && endings[i].at_ns < endings[first].at_ns))
            first = (int)i;
    }
    return first;
}

/* Calls that for each moment at which something went wrong. */
static void each_trouble(const weft__witness *witnesses, const weft__rank_ending *endings, size_t count,
                         void (*at)(int64_t at_ns, int64_t bound[2]), int64_t bound[2])
{
    for (size_t i = 0; i < count; i++) {
        const weft__snapshot *shot = witnesses[i].shot;
        if (endings[i].end == WEFT__END_DIED || endings[i].end == WEFT__END_FAILED)
            at(endings[i].at_ns, bound);
        for (size_t g = 0; g < shot->group_count; g++)
            if (shot->groups[g].state == WEFT__RECORDED_GROUP_BROKEN) at(shot->groups[g].ended_ns, bound);
    }
}

static void find_last(int64_t at_ns, int64_t bound[2])
{
    if (at_ns > bound[0] && at_ns <= bound[1]) bound[0] = at_ns;
}

static void find_first(int64_t at_ns, int64_t bound[2])
{
    if (at_ns > bound[0] - OUTLIVED_NS && at_ns > 0 && at_ns < bound[1]) bound[1] = at_ns;
}

int64_t weft__last_well(const weft__witness *witnesses, const weft__rank_ending *endings, size_t count,
                        int64_t now_ns)
{
    int64_t bound[2] = {0, now_ns};
    each_trouble(witnesses, endings, count, find_last, bound);
    if (bound[0]) {
        bound[1] = bound[0];
        each_trouble(witnesses, endings, count, find_first, bound);
        return bound[1] - 1;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t sign = weft__last_sign(witnesses[i].shot, now_ns);
        if (sign > bound[0]) bound[0] = sign;
    }
    return bound[0];
}
