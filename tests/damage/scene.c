/* scene.c - see scene.h. */
#include "scene.h"
#include "damages.h"
#include "operations.h"

#include <stdio.h>

static const char *const layouts[LAYOUTS] = {"shared memory", "TCP", "hosts, plain", "hosts, encrypted"};
static const char *const phases[PHASES] = {"while they join", "idle", "amid work", "while they shrink",
                                           "while they leave"};
static const char *const quorums[QUORUMS] = {"majority", "any", "witness"};

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

const char *scene_quorum(const scene *s)
{
    return quorums[s->quorum];
}

/* The dead are counted too, where somebody is left out whose end nobody has seen.  Two halves may have the witness. */
static bool is_enough(const scene *s, unsigned part)
{
    const unsigned living = part & ~s->dead;
    const int n = 2 * __builtin_popcount(living);
    if (s->quorum == ANY) return n > 0;
    return n > s->ranks || (n == s->ranks && (s->quorum == WITNESS || (living & 1U)));
}

/* Nobody who lives is on its host, so that no one has seen its end. */
static bool is_unseen_death(const scene *s)
{
    for (int h = 0; s->layout >= PLAIN && h < s->hosts; h++)
        if (!(scene_ranks_of(s, h) & ~s->dead)) return true;
    return false;
}

unsigned scene_beside(const scene *s, int rank)
{
    unsigned side = scene_all(s);
    if (s->damage->outcome == HOST_IS_LOST) side = s->part >> rank & 1U ? s->part : s->other;
    return side & ~s->dead;
}

static bool is_enough_somewhere(const scene *s)
{
    if (s->damage->outcome != HOST_IS_LOST) return is_enough(s, scene_all(s));
    return is_enough(s, s->part) || is_enough(s, s->other);
}

/* Where it is open, those that it goes on with if it does: a part may be too few of all, and enough of those that have been agreed
 * on since. */
unsigned scene_goal(const scene *s, int rank)
{
    const unsigned beside = scene_beside(s, rank);
    const bool asks = s->damage->outcome == HOST_IS_LOST || is_unseen_death(s);
    return !asks || scene_is_open(s) || is_enough(s, beside) ? beside : 0;
}

bool scene_is_open(const scene *s)
{
    return is_unseen_death(s) && (s->phase == SHRINKING || s->damage->tells) && !is_enough_somewhere(s);
}

bool scene_is_contested(const scene *s)
{
    return s->quorum == WITNESS && s->damage->outcome == HOST_IS_LOST && is_enough(s, s->part) &&
           is_enough(s, s->other);
}

unsigned scene_lost(const scene *s, int rank)
{
    return scene_all(s) & ~scene_beside(s, rank);
}

unsigned scene_suspects(const scene *s, int rank)
{
    const bool may_be_out = !scene_goal(s, rank) || scene_is_open(s) || scene_is_contested(s);
    if (s->damage->outcome == HOST_IS_LOST && may_be_out)
        return scene_all(s); /* who is left out gives up all others */
    return scene_lost(s, rank);
}

bool scene_may_leave_witness(const scene *s)
{
    return s->dead && (s->phase == JOINING || s->phase == LEAVING || !is_enough_somewhere(s));
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

static int living_hosts(const scene *s)
{
    int n = 0;
    for (int h = 0; h < s->hosts; h++) n += (scene_ranks_of(s, h) & ~s->dead) != 0;
    return n;
}

/* For so long two hosts may lose each other that a third one hears, and no longer where nobody lives there. */
static void bound_time(scene *s)
{
    if (s->damage->outcome == NOTHING_ENDS && living_hosts(s) < s->damage->hosts_least)
        s->lasts_ms = s->damage->lasts_ms[0];
}

/* Behind all else, which is as it was before there was a choice.  Every second one goes by the default. */
static void draw_quorum(scene *s, uint64_t *words)
{
    static const quorum choice[] = {MAJORITY, MAJORITY, ANY, WITNESS};
    s->quorum = choice[pick(words, sizeof choice / sizeof *choice)];
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
    bound_time(s);
    draw_quorum(s, &words);
    snprintf(s->name, sizeof s->name,
             "seed %llu: %s%s%.0d%s of rank %d, %s, %s, %d ranks, %d host%s (%s), quorum %s",
             (unsigned long long)seed, s->damage->name, s->lasts_ms ? " for " : "", s->lasts_ms,
             s->lasts_ms ? " ms" : "", s->victim, phases[s->phase], s->operation->name, s->ranks, s->hosts,
             s->hosts > 1 ? "s" : "", layouts[s->layout], quorums[s->quorum]);
}
