/* cases.h - one collective with known data on every rank of a simulated group, and what must come out.
 *
 * Uneven kinds have blocks of random lengths around count, not in the order of ranks and with gaps.
 * Inputs are a function of seed, rank and index.  Integers are checked exactly, floats within rounding.  Also
 * checked: inputs that are no outputs keep their bytes, nothing is written past an output, and what all ranks
 * have is the same to the bit. */
#ifndef WEFT_TESTS_SIM_CASES_H
#define WEFT_TESTS_SIM_CASES_H
#include "op.h"
#include "seats.h"

/* How ranks are dealt to hosts. */
typedef enum sim_layout {
    SIM_ONE_HOST,
    SIM_BLOCKS,      /* the first half on one host, the others on another */
    SIM_ROUND_ROBIN, /* in turn to three */
    SIM_ALONE,       /* each on a host of its own */
    SIM_UNEVEN,      /* hosts of one, two, three, ... ranks, which lie apart */
    SIM_LAYOUTS,
    SIM_PACKED = SIM_LAYOUTS, /* sim_case.each on every host, one behind the other; fewer on the last */
    SIM_DEALT                 /* to as many full hosts, in turn: some have one more */
} sim_layout;

typedef struct sim_case {
    weft__kind kind;
    weft_dtype dtype; /* INT32, FLOAT32 or UINT8 */
    weft_op reduction;
    int size, root;
    size_t count;
    bool in_place, repeats;
    sim_layout layout;
    uint64_t seed;
    int each;  /* ranks of a host: SIM_PACKED, SIM_DEALT */
    bool bare; /* no data: for the clock alone */
    bool
        one; /* of SIM_PACKED the first host is played and stands for all: where what a rank does depends, but for
                  tags and peers, on its place in the host alone, as in a ring */
} sim_case;

typedef struct sim_group {
    sim_case c;
    weft__op *ops;          /* by rank; checked by weft__op_check */
    unsigned char **memory; /* by rank: two areas with a guard behind each; NULL: no data */
    size_t area_bytes;
    weft__seats *seats; /* NULL: one host */
    int played;         /* the first so many ranks: all of them, or those of a host */
    double *reduced;    /* by element: what a reduction comes to, once it has been asked for */
    bool *is_reduced;
} sim_group;

int sim_hosts(const sim_group *g);

sim_group *sim_group_make(sim_case c);
void sim_group_check(const sim_group *g); /* once: it uses the memory up */
void sim_group_free(sim_group *g);
const char *sim_case_text(sim_case c); /* of the last call */

typedef struct sim_random {
    uint64_t state;
} sim_random;
uint64_t sim_next(sim_random *r);
int sim_below(sim_random *r, int limit);
#endif
