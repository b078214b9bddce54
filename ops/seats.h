/* seats.h - a group's members in the order of their hosts.
 *
 * Schedules of a group that spans hosts are built over seats and not over ranks: who sits beside whom is then on
 * the same host wherever that can be, however the launcher dealt the ranks.  Hosts stand in the order of their
 * first members, and the members of one host in that of their ranks, so all members find the same.  Buffers keep
 * the order of ranks.
 *
 * A group within one host has no seats: NULL stands for them here, and seats are ranks. */
#ifndef WEFT_OPS_SEATS_H
#define WEFT_OPS_SEATS_H
#include <weft/weft.h>

typedef struct weft__seats {
    int size, hosts;
    int *rank_at; /* by seat */
    int *seat_of; /* by rank */
    int *host_at; /* by seat: number of its host, counted in the order of seats */
    int *first;   /* by host: its first seat; behind the last host: size */
    int *
        host; /* by rank, until they are dealt out: any numbers below hosts_most that differ where hosts do */
    int hosts_most;
} weft__seats;

/* Room for the seats of at most size_most members, not dealt out yet; NULL: no memory. */
weft__seats *weft__seats_new(int size_most, int hosts_most);
/* Deals them out to `size` members, whose hosts the caller has filled in.  Returns them, or NULL, and they are
 * freed, where all are on one host.  Cannot fail. */
weft__seats *weft__seats_deal(weft__seats *seats, int size);
/* Both, of hosts that are known.  Fails when memory runs out. */
weft_status weft__seats_make(weft__seats **seats, const int *host, int hosts_most, int size);
void weft__seats_free(weft__seats *seats);
#endif
