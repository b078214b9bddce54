/* link_layouts.h - eight ranks on two to four hosts, and the least that the busiest of the hosts' links has to carry for a
 * collective among them. */
#ifndef TESTS_SUPPORT_LINK_LAYOUTS_H
#define TESTS_SUPPORT_LINK_LAYOUTS_H
#include "op.h"

#include <stdbool.h>
#include <stddef.h>

enum { LINK_RANKS = 8, LINK_HOSTS_MOST = 4, LINK_LAYOUTS = 12 };

typedef struct link_layout {
    const char *name;
    int members[LINK_HOSTS_MOST]; /* of each host */
    bool dealt;  /* ranks go to hosts in turn, while these have room; else the first go to the first */
    bool halved; /* the group is every second rank */
} link_layout;

extern const link_layout link_layouts[LINK_LAYOUTS];

/* Who is where. */
typedef struct link_group {
    int size, hosts;              /* of the group: hosts that have a member */
    int host[LINK_RANKS];         /* by rank of the group */
    int host_of[LINK_RANKS];      /* by rank of the world */
    int members[LINK_HOSTS_MOST]; /* of the group, by host */
} link_group;

link_group link_group_of(const link_layout *layout);
/* Bytes one way, for a larger buffer of so many bytes; a collective of blocks has one of bytes / size for each rank. */
double link_least(const link_group *group, weft__kind kind, size_t bytes);
/* How much more than that is allowed where only collectives in two levels would reach it. */
double link_allowance(weft__kind kind);

#endif
