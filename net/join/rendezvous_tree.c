/* rendezvous_tree.c - which relays speak to the server, and which to other relays.
 *
 * The first hosts that come speak to the server; each further one is sent to the first that has come and has not enough
 * below it, though that one may still be on its own way to where it was sent.  So a relay above another came before it,
 * and there is no circle.  Where none is left, or there is no memory to know of it, a relay speaks to the server. */
#include "rendezvous_server.h"

#include <stdlib.h>
#include <string.h>

static struct weft__leader *leader_of(const weft__rendezvous_server *s, const uint8_t *id)
{
    const int at = weft__index_find(&s->by_leader, s->leaders, id);
    return at < 0 ? NULL : &s->leaders[at];
}

/* -1: none.  Those that are full or gone are not looked at again. */
static int find_above(weft__rendezvous_server *s)
{
    for (; s->leaders && s->open < s->leader_count; s->open++) {
        const struct weft__leader *l = &s->leaders[s->open];
        if (!l->gone && l->below < s->tree.fan) return s->open;
    }
    return -1;
}

/* NULL: no memory. */
static struct weft__leader *add_leader(weft__rendezvous_server *s, const uint8_t *id, const void *at)
{
    struct weft__leader *l;
    if (!s->leaders || s->leader_count == s->leader_room) {
        const int room = s->leader_room ? 2 * s->leader_room : 16;
        l = realloc(s->leaders, (size_t)room * sizeof *l);
        if (!l) return NULL;
        s->leaders = l;
        s->leader_room = room;
    }
    l = &s->leaders[s->leader_count];
    *l = (struct weft__leader){.above = -1};
    memcpy(l->id, id, sizeof l->id);
    memcpy(&l->at, at, sizeof l->at);
    if (!weft__index_append(&s->by_leader, s->leaders, s->leader_count + 1)) return NULL;
    s->leader_count++;
    return l;
}

static struct weft__leader *place_anew(weft__rendezvous_server *s, const uint8_t *id, const void *at)
{
    const int above = s->heads < s->tree.hosts ? -1 : find_above(s);
    struct weft__leader *l = add_leader(s, id, at);
    if (!l) return NULL;
    l->above = above;
    if (above >= 0)
        s->leaders[above].below++;
    else
        s->heads++;
    return l;
}

/* Who was sent elsewhere comes by its own relay next; later only if what it was sent to has failed it. */
static void note_return(weft__rendezvous_server *s, const struct weft__leader *l, uint32_t attempt)
{
    if (l->above >= 0 && attempt > l->attempt + 1) s->leaders[l->above].gone = true;
}

bool weft__rendezvous_place_leader(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                                   const weft__rendezvous_header *h, const void *at, bool known)
{
    static const weft__rendezvous_place here;
    struct weft__leader *l = leader_of(s, h->client);
    if (s->phase != WEFT__SERVER_JOINING || (!l && !at)) return false;
    if (!at) {
        note_return(s, l, h->step);
        return false;
    }
    if (!l && !known) l = place_anew(s, h->client, at);
    if (l) l->attempt = h->step;
    if (!l || known || l->above < 0 || s->leaders[l->above].gone) {
        weft__rendezvous_say(s, from, WEFT__RENDEZVOUS_PLACED, &here, sizeof here);
        return false;
    }
    weft__rendezvous_say(s, from, WEFT__RENDEZVOUS_PLACED, &s->leaders[l->above].at, sizeof l->at);
    return true;
}

void weft__rendezvous_leader_left(weft__rendezvous_server *s, const uint8_t *id)
{
    struct weft__leader *l = leader_of(s, id);
    if (!l || l->gone) return;
    l->gone = true;
    s->heads -= l->above < 0;
}
