/* router.h - hosts as network namespaces, and one process between them through which every packet goes: it does to packets
 * what networks do.  Ways are in memory that all see, so whoever changes one has changed it.
 *
 * Nothing of it shows outside of the process that starts it, and nothing is left once that has ended. */
#ifndef TESTS_SUPPORT_ROUTER_H
#define TESTS_SUPPORT_ROUTER_H
#include <stdatomic.h>
#include <stdbool.h>

#define ROUTER_HOSTS_MOST 8

/* What becomes of packets from one host to another; 0 and false: they arrive.  one_in: of so many, by chance, one. */
typedef struct router_way {
    atomic_bool lost;
    atomic_int delay_us;
    atomic_int late_one_in, late_us; /* others overtake it */
    atomic_int twice_one_in;
    atomic_int flip_one_in;  /* a bit */
    atomic_bool flip_unseen; /* of what TCP carries, and the checksum is made right again */
    atomic_int resets;       /* so many with data become a reset of their connection */
    atomic_int done;         /* packets that did not arrive as they were */
} router_way;

/* False: it cannot be done here; router_why has a sentence. */
bool router_start(int hosts);
const char *router_why(void);
void router_stop(void);
bool router_enter(int host); /* this thread, and whatever it starts */
void router_leave(void);     /* it is back where the router was started */
const char *router_address(int host);
router_way *router_way_of(int from, int to);
void router_cut(int host, bool cut); /* its cable: no packet to it or from it arrives */
void router_mend(void);              /* all ways, as at the start */
int router_done(void);               /* of all ways, since they were mended */
#endif
