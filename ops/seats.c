/* seats.c - orders a group's members by host: counts each host's, then deals out the seats.  Pure. */
#include "seats.h"

#include "status.h"

#include <stdlib.h>
#include <string.h>

weft__seats *weft__seats_new(int size_most, int hosts_most)
{
    size_t n = (size_t)size_most;
    weft__seats *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->hosts_most = hosts_most;
    s->rank_at = malloc((4 * n + 1) * sizeof *s->rank_at);
    s->host = malloc((2 * n + (size_t)hosts_most) * sizeof *s->host); /* what dealing out needs, too */
    if (!s->rank_at || !s->host) {
        weft__seats_free(s);
        return NULL;
    }
    s->seat_of = s->rank_at + n;
    s->host_at = s->seat_of + n;
    s->first = s->host_at + n;
    return s;
}

/* Numbers the hosts in the order of their first members: number_of[host], -1 of one that has none.  Counts the
 * members of each. */
static void number_hosts(weft__seats *s, int *number_of, int *members)
{
    for (int h = 0; h < s->hosts_most; h++) number_of[h] = -1;
    for (int r = 0; r < s->size; r++) {
        int *number = &number_of[s->host[r]];
        if (*number < 0) {
            members[s->hosts] = 0;
            *number = s->hosts++;
        }
        members[*number]++;
    }
}

weft__seats *weft__seats_deal(weft__seats *s, int size)
{
    int at = 0, *members = s->host + size, *number_of = members + size;
    s->size = size;
    number_hosts(s, number_of, members);
    if (s->hosts <= 1) {
        weft__seats_free(s);
        return NULL;
    }
    for (int h = 0; h < s->hosts; h++) {
        s->first[h] = at;
        at += members[h];
        members[h] = s->first[h]; /* the next seat there */
    }
    s->first[s->hosts] = at;
    for (int r = 0; r < size; r++) {
        int h = number_of[s->host[r]], seat = members[h]++;
        s->rank_at[seat] = r;
        s->seat_of[r] = seat;
        s->host_at[seat] = h;
    }
    free(s->host);
    s->host = NULL;
    return s;
}

weft_status weft__seats_make(weft__seats **seats, const int *host, int hosts_most, int size)
{
    *seats = weft__seats_new(size, hosts_most);
    if (!*seats) return weft__fail_memory(6 * (size_t)size * sizeof(int), "the seats of a group");
    memcpy((*seats)->host, host, (size_t)size * sizeof *host);
    *seats = weft__seats_deal(*seats, size);
    return WEFT_OK;
}

void weft__seats_free(weft__seats *seats)
{
    if (!seats) return;
    free(seats->rank_at);
    free(seats->host);
    free(seats);
}
