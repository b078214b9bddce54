/* scene.c - see scene.h. */
#include "scene.h"
#include "damages.h"
#include "operations.h"

#include <stdio.h>

static const char *const layouts[LAYOUTS] = {"shared memory", "TCP", "hosts, plain", "hosts, encrypted"};
static const char *const phases[PHASES] = {"while they join", "idle", "amid work", "while they shrink",
                                           "while they leave"};

static int pick(uint64_t *words, int n)
{
    return (int)(job_random(words) % (uint64_t)n);
}

int scene_host(const scene *s, int rank)
{
    return rank * s->hosts / s->ranks;
}

unsigned scene_ranks_of(const scene *s, int host)
{
    unsigned mask = 0;
    for (int i = 0; i < s->ranks; i++) mask |= scene_host(s, i) == host ? 1U << i : 0;
    return mask;
}

unsigned scene_all(const scene *s)
{
    return (1U << s->ranks) - 1;
}

/* By WEFT_QUORUM=majority.  In whose count are the dead too, where somebody is left out whose end nobody has seen. */
static bool is_majority(const scene *s, unsigned part)
{
    const int n = 2 * __builtin_popcount(part & ~s->dead);
    return n > s->ranks || (n == s->ranks && (part & ~s->dead & 1U));
}

/* Nobody who lives is on its host, so that no one has seen its end. */
static bool is_unseen_death(const scene *s)
{
    for (int h = 0; s->layout >= PLAIN && h < s->hosts; h++)
        if (!(scene_ranks_of(s, h) & ~s->dead)) return true;
    return false;
}

/* Where it is open, those that it goes on with if it does: a part may be too few of all, and enough of those that have been agreed
 * on since. */
unsigned scene_goal(const scene *s, int rank)
{
    const unsigned living = scene_all(s) & ~s->dead;
    if (s->damage->outcome == HOST_IS_LOST) {
        const unsigned mine = s->part >> rank & 1U ? s->part : s->other;
        return scene_is_open(s) || is_majority(s, mine) ? mine & living : 0;
    }
    return is_unseen_death(s) && !is_majority(s, living) && !scene_is_open(s) ? 0 : living;
}

bool scene_is_open(const scene *s)
{
    return is_unseen_death(s) && (s->phase == SHRINKING || s->damage->tells);
}

unsigned scene_suspects(const scene *s, int rank)
{
    if (s->damage->outcome != HOST_IS_LOST) return s->dead;
    if (!scene_goal(s, rank) || scene_is_open(s))
        return scene_all(s); /* who is left out gives up all others */
    return s->dead | (s->part >> rank & 1U ? s->other : s->part);
}

/* One that suits; there is one wherever and whenever. */
static const damage *draw_damage(const scene *s, uint64_t *words)
{
    const damage *d;
    do {
        d = &damages[pick(words, damage_count)];
    } while (!(d->where >> s->layout & 1U) || !(d->when >> s->phase & 1U) || s->hosts < d->hosts_least);
    return d;
}

static int draw_time(const damage *d, uint64_t *words)
{
    int n = 0;
    while (n < 4 && d->lasts_ms[n]) n++;
    return n ? d->lasts_ms[pick(words, n)] : 0;
}

static void draw_places(scene *s, uint64_t *words)
{
    s->ranks = SCENE_RANKS_LEAST + pick(words, SCENE_RANKS_MOST - SCENE_RANKS_LEAST + 1);
    s->layout = (layout)pick(words, LAYOUTS);
    s->hosts = 1;
    if (s->layout < PLAIN) return;
    s->hosts = 2 + pick(words, SCENE_HOSTS_MOST - 1);
    if (s->hosts > s->ranks) s->hosts = s->ranks;
}

static void draw_roles(scene *s, uint64_t *words)
{
    s->victim = pick(words, s->ranks);
    s->actor = s->damage->by_another ? (s->victim + 1) % s->ranks : s->victim;
    s->first = -1;
    if (s->phase == SHRINKING) do {
            s->first = pick(words, s->ranks);
        } while (s->first == s->victim || s->first == s->actor);
    if (s->damage->outcome == VICTIM_DIES) s->dead |= 1U << s->victim;
    if (s->first >= 0) s->dead |= 1U << s->first;
    s->part = scene_ranks_of(s, scene_host(s, s->victim));
    s->other = scene_all(s) & ~s->part;
}

void scene_draw(scene *s, uint64_t seed)
{
    uint64_t words = seed;
    s->seed = seed;
    draw_places(s, &words);
    do {
        s->phase = (phase)pick(&words, PHASES);
    } while (s->phase == SHRINKING && s->ranks < 3);
    s->operation = &operations[pick(&words, operation_count)];
    s->damage = draw_damage(s, &words);
    s->lasts_ms = draw_time(s->damage, &words);
    s->delay_us = pick(&words, 20000);
    draw_roles(s, &words);
    snprintf(s->name, sizeof s->name, "seed %llu: %s%s%.0d%s of rank %d, %s, %s, %d ranks, %d host%s (%s)",
             (unsigned long long)seed, s->damage->name, s->lasts_ms ? " for " : "", s->lasts_ms,
             s->lasts_ms ? " ms" : "", s->victim, phases[s->phase], s->operation->name, s->ranks, s->hosts,
             s->hosts > 1 ? "s" : "", layouts[s->layout]);
}
