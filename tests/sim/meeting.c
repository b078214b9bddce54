/* meeting.c - a table with open addressing; a key is in it as long as steps of one side wait. */
#include "meeting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLOTS_FIRST = 1024 };

/* Steps of one side, the oldest first: nearly always one. */
typedef struct slot {
    sim_message_key key;
    int sends; /* which side waits */
    int n;     /* 0: the slot is free */
    union {
        int one;
        int *steps; /* n of them, where there are more than one */
    } waits;
} slot;

struct sim_meeting {
    slot *slots;
    size_t room, used; /* room: a power of two */
};

sim_meeting *sim_meeting_new(void)
{
    sim_meeting *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->room = SLOTS_FIRST;
    m->slots = calloc(m->room, sizeof *m->slots);
    assert_non_null(m->slots);
    return m;
}

void sim_meeting_free(sim_meeting *m)
{
    for (size_t i = 0; i < m->room; i++)
        if (m->slots[i].n > 1) free(m->slots[i].waits.steps);
    free(m->slots);
    free(m);
}

size_t sim_meeting_left(const sim_meeting *m)
{
    return m->used;
}

static size_t home_of(const sim_meeting *m, sim_message_key key)
{
    uint64_t h = (uint64_t)(uint32_t)key.from * 0x9e3779b97f4a7c15U;
    h = (h ^ (uint32_t)key.to) * 0xbf58476d1ce4e5b9U;
    h = (h ^ (uint32_t)key.apart ^ (uint64_t)key.tag << 20) * 0x94d049bb133111ebU;
    return (size_t)(h >> 32) & (m->room - 1);
}

static bool is_key(sim_message_key a, sim_message_key b)
{
    return a.from == b.from && a.to == b.to && a.apart == b.apart && a.tag == b.tag;
}

static size_t place_of(const sim_meeting *m, sim_message_key key)
{
    size_t at = home_of(m, key);
    while (m->slots[at].n && !is_key(m->slots[at].key, key)) at = (at + 1) & (m->room - 1);
    return at;
}

static void grow(sim_meeting *m)
{
    slot *old = m->slots;
    size_t n = m->room;
    m->room *= 2;
    m->slots = calloc(m->room, sizeof *m->slots);
    assert_non_null(m->slots);
    for (size_t i = 0; i < n; i++)
        if (old[i].n) m->slots[place_of(m, old[i].key)] = old[i];
    free(old);
}

/* Those behind it that would not be found over the gap move up. */
static void vacate(sim_meeting *m, size_t gap)
{
    size_t mask = m->room - 1;
    m->used--;
    for (size_t at = gap;;) {
        m->slots[gap].n = 0;
        do {
            at = (at + 1) & mask;
            if (!m->slots[at].n) return;
        } while (((at - home_of(m, m->slots[at].key)) & mask) < ((at - gap) & mask));
        m->slots[gap] = m->slots[at];
        gap = at;
    }
}

static void wait_there(slot *s, int step)
{
    int *steps = malloc((size_t)(s->n + 1) * sizeof *steps);
    assert_non_null(steps);
    memcpy(steps, s->n > 1 ? s->waits.steps : &s->waits.one, (size_t)s->n * sizeof *steps);
    if (s->n > 1) free(s->waits.steps);
    steps[s->n++] = step;
    s->waits.steps = steps;
}

static int take_oldest(sim_meeting *m, size_t at)
{
    slot *s = &m->slots[at];
    int *steps = s->waits.steps, oldest;
    if (s->n == 1) {
        oldest = s->waits.one;
        vacate(m, at);
        return oldest;
    }
    oldest = steps[0];
    memmove(steps, steps + 1, (size_t)--s->n * sizeof *steps);
    if (s->n == 1) {
        s->waits.one = steps[0];
        free(steps);
    }
    return oldest;
}

int sim_meet(sim_meeting *m, sim_message_key key, int sends, int step)
{
    size_t at = place_of(m, key);
    slot *s = &m->slots[at];
    if (s->n && s->sends != sends) return take_oldest(m, at);
    if (s->n) {
        wait_there(s, step);
        return -1;
    }
    *s = (slot){.key = key, .sends = sends, .n = 1, .waits.one = step};
    if (2 * ++m->used > m->room) grow(m);
    return -1;
}
