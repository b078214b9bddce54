/* seats.c - orders a group's members by host: counts each host's, then deals out the seats.  Pure; fails when
 * memory runs out, with a sentence. */
#include "seats.h"

#include "status.h"

#include <stdlib.h>

/* Numbers the hosts in the order of their first members: number_of[host], -1 of one that has none.  Returns how
 * many there are; fills in how many members each has. */
static int number_hosts(const int *host, int hosts_most, int size, int *number_of, int *members)
{
    int hosts = 0;
    for (int h = 0; h < hosts_most; h++) number_of[h] = -1;
    for (int r = 0; r < size; r++) {
        if (number_of[host[r]] < 0) {
            members[hosts] = 0;
            number_of[host[r]] = hosts++;
        }
        members[number_of[host[r]]]++;
    }
    return hosts;
}

static weft__seats *seats_new(int size, int hosts)
{
    weft__seats *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->size = size;
    s->hosts = hosts;
    s->rank_at = malloc((3 * (size_t)size + (size_t)hosts + 1) * sizeof *s->rank_at);
    if (!s->rank_at) {
        free(s);
        return NULL;
    }
    s->seat_of = s->rank_at + size;
    s->host_at = s->seat_of + size;
    s->first = s->host_at + size;
    return s;
}

static void deal(weft__seats *s, const int *host, const int *number_of, int *members)
{
    int at = 0;
    for (int h = 0; h < s->hosts; h++) {
        s->first[h] = at;
        at += members[h];
        members[h] = s->first[h]; /* the next seat there */
    }
    s->first[s->hosts] = at;
    for (int r = 0; r < s->size; r++) {
        int h = number_of[host[r]], seat = members[h]++;
        s->rank_at[seat] = r;
        s->seat_of[r] = seat;
        s->host_at[seat] = h;
    }
}

weft_status weft__seats_make(weft__seats **seats, const int *host, int hosts_most, int size)
{
    size_t bytes = 2 * (size_t)hosts_most * sizeof(int);
    int *number_of = malloc(bytes), hosts;
    *seats = NULL;
    if (!number_of) return weft__fail_memory(bytes, "the hosts of a group");
    hosts = number_hosts(host, hosts_most, size, number_of, number_of + hosts_most);
    if (hosts > 1) {
        *seats = seats_new(size, hosts);
        if (*seats) deal(*seats, host, number_of, number_of + hosts_most);
    }
    free(number_of);
    if (hosts > 1 && !*seats)
        return weft__fail_memory(3 * (size_t)size * sizeof(int), "the seats of a group");
    return WEFT_OK;
}

void weft__seats_free(weft__seats *seats)
{
    if (!seats) return;
    free(seats->rank_at);
    free(seats);
}
