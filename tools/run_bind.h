/* run_bind.h - where weft-run --bind puts the ranks of a host: by hwloc where weft-run was built with it. */
#ifndef WEFT_RUN_BIND_H
#define WEFT_RUN_BIND_H
#include "run_place.h"

#include <stdbool.h>

enum run_bind { RUN_BIND_NONE, RUN_BIND_CORE, RUN_BIND_NUMA };
enum { RUN_SPOT_TEXT = 128 };

/* Processors that a rank may run on, as cpu_set_t has them. */
struct run_spot {
    unsigned long set[RUN_CORES_MAX / (8 * sizeof(unsigned long))];
    char text[RUN_SPOT_TEXT]; /* "core 1 of NUMA node 0, package 0: processor 2" */
};

struct run_spots {
    int n;
    struct run_spot *spot;
    enum run_bind bind;
};

/* The spots for one rank each among the processors allowed.  Cores: package by package, in each NUMA node by NUMA node,
 * in each core by core; no core twice before all have a rank.  Nodes: those with processors.  Without hwloc: the
 * processors by number, and no nodes.  False, and one sentence: it cannot be. */
bool run_spots_find(struct run_spots *spots, enum run_bind bind, const struct run_cores *allowed,
                    char *sentence, size_t bytes);
/* The r-th of so many ranks has this one: of cores the r-th, beginning again; nodes are shared out in blocks. */
const struct run_spot *run_spots_of(const struct run_spots *spots, int r, int ranks);
/* For the calling process. */
bool run_spot_bind(const struct run_spot *spot);
void run_spots_free(struct run_spots *spots);
#endif
