/* seeds.c - see seeds.h.  A row more in one of the tables, and each seed draws another scene: then this list is made again. */
#include "seeds.h"
#include "damages.h"

#include <stddef.h>

/* Each damage, most of them amid work; and scenes in which the library once went wrong: a storm while they join, a rank that
 * stands still and whose connections are made anew, hosts that are lost while others leave or shrink. */
const uint64_t seeds[] = {
    23,   /* the cable out for 3 s, amid work, encrypted: who is alone is told why */
    415,  /* SIGSTOP, and resets */
    331,  /* flipped bits that TCP does not see */
    143,  /* a storm of signals while they join */
    12,   /* fork, then kill -9, amid work, encrypted */
    231,  /* no memory once */
    21,   /* a connection half open */
    94,   /* _exit while they shrink, 4 hosts */
    2,    /* a full disk, then kill -9 */
    4,    /* a segfault amid work, 8 ranks over shared memory */
    9,    /* kill -9 while they leave, hosts */
    16,   /* repetition */
    19,   /* a jump of the clock while they join, 3 hosts */
    22,   /* no descriptor amid work */
    24,   /* a segfault of rank 0 while they join */
    26,   /* resets on the way amid groups */
    28,   /* the cable out for 3 s while they leave */
    30,   /* kill -9 */
    31,   /* SIGSTOP for 0.3 s while they shrink */
    34,   /* abort */
    37,   /* SIGSTOP for 0.3 s while they join */
    54,   /* resets on the way while they join */
    60,   /* a way lost for 2.5 s */
    100,  /* a full disk */
    104,  /* reordering */
    170,  /* exit */
    379,  /* resets of its connections */
    409,  /* flipped bits */
    427,  /* the cable out for 3 s while they shrink */
    568,  /* delay */
    643,  /* the cable out for 0.5 s amid work */
    911,  /* the cable out for 3 s, of two halves, with a witness */
    29,   /* the cable out for 3 s, and both parts go on */
    1929, /* abort of rank 0, which is half of the job, with a witness */
    667,  /* SIGSTOP of all ranks of the host for 0.3 s */
    1386, /* both ways lost for 0.3 s */
};
const int seed_count = sizeof seeds / sizeof *seeds;

static const char *misses_damage(const scene *drawn, int n)
{
    for (int d = 0; d < damage_count; d++) {
        int i = 0;
        while (i < n && drawn[i].damage != &damages[d]) i++;
        if (i == n) return damages[d].name;
    }
    return NULL;
}

static const char *misses_operation(const scene *drawn, int n)
{
    for (int o = 0; o < operation_count; o++) {
        int i = 0;
        while (i < n && drawn[i].operation != &operations[o]) i++;
        if (i == n) return operations[o].name;
    }
    return NULL;
}

/* So that the quorum says who goes on: by a witness, which of two halves. */
static bool is_parted(const scene *s)
{
    return s->damage->outcome == HOST_IS_LOST && s->phase != LEAVING &&
           (s->quorum != WITNESS || scene_is_contested(s));
}

static const char *misses_place(const scene *drawn, int n)
{
    unsigned phases = 0, layouts = 0, quorums = 0;
    for (int i = 0; i < n; i++) {
        phases |= 1U << drawn[i].phase;
        layouts |= 1U << drawn[i].layout;
        if (is_parted(&drawn[i])) quorums |= 1U << drawn[i].quorum;
    }
    if (phases != (1U << PHASES) - 1) return "a phase";
    if (layouts != (1U << LAYOUTS) - 1) return "a layout";
    return quorums == (1U << QUORUMS) - 1 ? NULL : "a quorum where hosts are parted";
}

const char *seeds_miss(void)
{
    static scene drawn[sizeof seeds / sizeof *seeds];
    const char *missed;
    for (int i = 0; i < seed_count; i++) {
        drawn[i] = (scene){0};
        scene_draw(&drawn[i], seeds[i]);
    }
    missed = misses_damage(drawn, seed_count);
    if (!missed) missed = misses_operation(drawn, seed_count);
    return missed ? missed : misses_place(drawn, seed_count);
}
