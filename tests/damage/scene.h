/* scene.h - one case of the damage suite, drawn from its seed: who is where, what goes on, what is done to whom when, and
 * what must come of it. */
#ifndef TESTS_DAMAGE_SCENE_H
#define TESTS_DAMAGE_SCENE_H
#include "operations.h"

enum { SCENE_LATE_MS = 5 * JOB_LATE_MS }; /* behind a deadline: runs of thousands go beside other work */
enum { SCENE_RANKS_LEAST = 2, SCENE_RANKS_MOST = 8, SCENE_HOSTS_MOST = 4 };

typedef enum layout {
    SHARED,
    LOOPBACK,
    PLAIN,
    ENCRYPTED,
    LAYOUTS
} layout; /* the last two: on several hosts */
typedef enum phase { JOINING, IDLE, AMID, SHRINKING, LEAVING, PHASES } phase;
typedef enum quorum { MAJORITY, ANY, WITNESS, QUORUMS } quorum; /* WEFT_QUORUM */

/* Bits of these: where and when a damage may be done. */
enum {
    ON_ONE = 1 << SHARED | 1 << LOOPBACK,
    ON_HOSTS = 1 << PLAIN | 1 << ENCRYPTED,
    BY_TCP = ON_HOSTS | 1 << LOOPBACK,
    EVERYWHERE = ON_ONE | ON_HOSTS,
    AT_WORK = 1 << IDLE | 1 << AMID,
    FROM_IDLE_ON = AT_WORK | 1 << SHRINKING | 1 << LEAVING,
    ANY_TIME = FROM_IDLE_ON | 1 << JOINING
};

/* What must come. */
typedef enum outcome {
    NOTHING_ENDS, /* nobody notices but by the time that it takes */
    VICTIM_DIES,  /* the others are told so, and go on */
    HOST_IS_LOST, /* two parts do not reach each other: one goes on, and the other one is told that it does not */
    OWN_FAILURE /* the victim's memory: it may be told so, and the others, and all of them go on */
} outcome;

typedef struct scene scene;

typedef struct damage {
    const char *name;
    unsigned where, when; /* bits */
    outcome outcome;
    int hosts_least;
    bool by_another; /* not in the victim's own process */
    bool tells;      /* the others of its end, if that gets so far */
    bool by_ways;    /* done to packets, if any come that way meanwhile */
    bool counts;     /* it is told whether it has come to what it does */
    int lasts_ms[4]; /* one of these is drawn; 0 ends them */
    void (*begin)(job_rank *me, const scene *s);
    void (*end)(job_rank *me, const scene *s); /* NULL: there is nothing to mend */
} damage;

struct scene {
    uint64_t seed;
    int ranks, hosts;
    layout layout;
    phase phase;
    const operation *operation;
    const damage *damage;
    quorum quorum;
    int victim, actor; /* the actor's process does it */
    int first;         /* has died before, where the damage comes while the others shrink; -1: none has */
    int lasts_ms, delay_us;
    unsigned dead;        /* bits: the victim of a death, and the first */
    unsigned part, other; /* that do not reach each other, where a host is lost */
    char name[224], run_dir[112], witness_dir[128];
    atomic_bool *hit; /* seen by all processes: the damage has taken place */
    job_plan plan;
};

void scene_draw(scene *s, uint64_t seed);
int scene_host(const scene *s, int rank);
unsigned scene_ranks_of(const scene *s, int host);
unsigned scene_all(const scene *s);
unsigned scene_beside(const scene *s, int rank);   /* who lives and reaches it, itself included */
unsigned scene_suspects(const scene *s, int rank); /* whom that rank may call dead */
unsigned scene_lost(const scene *s, int rank);     /* and whom where it goes on */
unsigned scene_goal(const scene *s, int rank);     /* the ranks that it goes on with; 0: it does not */
/* Whether it goes on depends on what comes first: the word of who dies and its silence, or of two deaths that nobody has seen
 * the one that is agreed on. */
bool scene_is_open(const scene *s);
/* It depends on which half the witness votes with: one goes on, and the other one is told so. */
bool scene_is_contested(const scene *s);
/* Somebody ends without having left whom nobody may count as out of the job. */
bool scene_may_leave_witness(const scene *s);
const char *scene_quorum(const scene *s); /* as WEFT_QUORUM says it */
#endif
