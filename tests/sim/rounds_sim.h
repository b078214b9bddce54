/* rounds_sim.h - runs a collective over simulated shared slots, in an order drawn from the seed. */
#ifndef WEFT_TESTS_SIM_ROUNDS_SIM_H
#define WEFT_TESTS_SIM_ROUNDS_SIM_H
#include "cases.h"
#include "rounds.h"

/* `groups` run one after the other as one group's operations: a rank may publish the next before others have
 * finished the last.  All have one size.  Fails the test when it gets stuck or a slot is reused too early.
 * Bit r of shares: others read rank r's blocks where they lie. */
void sim_rounds(sim_group *const *groups, int n, size_t slot_bytes, weft__rounds_rule rule, uint64_t seed,
                uint64_t shares);
#endif
