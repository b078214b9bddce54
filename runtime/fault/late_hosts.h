/* late_hosts.h - the tree of a group's hosts along which it is found out who is late (late.h).
 *
 * Hosts stand in the order of their first members; the parent of host h is (h - 1) / fan-out, so that all members
 * find the same tree and no word is needed for it.  A host is here whose ranks read each other's boards. */
#ifndef WEFT_RUNTIME_LATE_HOSTS_H
#define WEFT_RUNTIME_LATE_HOSTS_H
#include "group.h"

/* Makes it when it is first asked for.  False: all members are on one host, or there is no memory. */
bool weft__late_has_hosts(weft_group *group);
int weft__late_host(const weft_group *group, int member);
int weft__late_parent(const weft_group *group, int host); /* not of host 0 */
/* The others follow it; there may be none. */
int weft__late_first_child(const weft_group *group, int host);
/* It is that host, or below it. */
bool weft__late_is_below(const weft_group *group, int host, int top);
#endif
