/* rendezvous_twice.c - a rank that two clients say to be, and a client that is one too many meanwhile.
 *
 * One of them may have died, and the other one have been started in its place, while word of that is still on its way
 * through relays; or what the dead one said last comes after what its heir says first.  So where one of the two stands
 * behind a relay, the second is kept as a claim, and the relays are asked whether their clients are there (HERE), in an
 * order in which each was there after both had come.  If both were, the rank was given twice; who was not gives its
 * place up.  Meanwhile the job does not become complete.  A relay that does not answer is left by its clients, who join
 * by another way: so what is to be asked is looked at again whenever something has come. */
#include "rendezvous_server.h"

#include <stdlib.h>
#include <string.h>

static weft__rendezvous_member *holder_of(const weft__rendezvous_server *s, int rank)
{
    return rank >= 0 && rank < s->ranks && s->by_rank[rank] ? &s->members[s->by_rank[rank] - 1] : NULL;
}

static struct weft__claim *claim_of(const weft__rendezvous_server *s, const uint8_t *id)
{
    for (int i = 0; i < s->claim_count; i++)
        if (!memcmp(s->claims[i].from.id, id, sizeof s->claims[i].from.id)) return &s->claims[i];
    return NULL;
}

static void take_out(weft__rendezvous_server *s, struct weft__claim *claim)
{
    memmove(claim, claim + 1, (size_t)(&s->claims[--s->claim_count] - claim) * sizeof *claim);
}

bool weft__rendezvous_claims_by_newer(const weft__rendezvous_server *s, const weft__rendezvous_header *h)
{
    const struct weft__claim *claim = claim_of(s, h->client);
    return claim && h->step < claim->from.attempt;
}

void weft__rendezvous_claim_ends(weft__rendezvous_server *s, const uint8_t *id)
{
    struct weft__claim *claim = claim_of(s, id);
    if (claim) take_out(s, claim);
}

/* Who claims has gone. */
static void lose(weft__rendezvous_server *s, struct weft__claim *claim)
{
    weft__rendezvous_note_end(s, &claim->from);
    take_out(s, claim);
}

/* ---- questions ---- */

/* Whose own connection has ended is told apart by writing to it. */
static void ask(weft__rendezvous_server *s, weft__rendezvous_member *m)
{
    weft__rendezvous_header h = weft__rendezvous_header_for(s, WEFT__RENDEZVOUS_HERE, m->rank);
    zmq_msg_t msg;
    m->asked = h.step = s->questions;
    m->here = !m->relayed;
    memcpy(h.client, m->id, sizeof h.client);
    if (m->here || zmq_msg_init_size(&msg, sizeof h)) return;
    memcpy(zmq_msg_data(&msg), &h, sizeof h);
    weft__rendezvous_send(s, m, &msg);
}

static void ask_both(weft__rendezvous_server *s, struct weft__claim *claim, weft__rendezvous_member *holder)
{
    memcpy(claim->against, holder->id, sizeof claim->against);
    s->questions++;
    ask(s, holder);
    ask(s, &claim->from);
}

void weft__rendezvous_take_here(weft__rendezvous_server *s, const uint8_t *id, uint32_t question)
{
    weft__rendezvous_member *m = weft__rendezvous_find(s, id);
    struct weft__claim *claim = claim_of(s, id);
    if (!m && claim) m = &claim->from;
    if (m && m->asked == question) m->here = true;
}

/* ---- claims ---- */

bool weft__rendezvous_claims(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                             const weft__rendezvous_header *h, const void *payload, size_t bytes)
{
    weft__rendezvous_member *holder = holder_of(s, h->rank);
    struct weft__claim *claim = claim_of(s, h->client);
    if (!weft__rendezvous_say(s, from, WEFT__RENDEZVOUS_STILL, NULL, 0)) return true; /* it has gone */
    if (holder && (from->asked || (!holder->relayed && !from->relayed))) return false;
    if (!claim) {
        struct weft__claim *more = realloc(s->claims, (size_t)(s->claim_count + 1) * sizeof *more);
        if (!more) { /* it cannot wait until that is known, and no job of this size has a place for it */
            weft__rendezvous_refuse(s, WEFT_ERR_MEMORY,
                                    "the serving rank has no memory left for who claims a rank");
            return false;
        }
        s->claims = more;
        claim = &s->claims[s->claim_count++];
        *claim = (struct weft__claim){0};
    }
    claim->from = *from;
    claim->from.attempt = h->step;
    claim->from.asked = 0;
    claim->rank = holder ? h->rank : -1;
    claim->bytes = sizeof *h + bytes;
    memcpy(claim->frame, h, sizeof *h);
    memcpy(claim->frame + sizeof *h, payload, bytes);
    if (holder) ask_both(s, claim, holder);
    return true;
}

bool weft__rendezvous_is_in_doubt(const weft__rendezvous_server *s)
{
    for (int i = 0; i < s->claim_count; i++)
        if (s->claims[i].rank >= 0) return true;
    return false;
}

void weft__rendezvous_claim_left(weft__rendezvous_server *s, const weft__rendezvous_member *from)
{
    struct weft__claim *claim = claim_of(s, from->id);
    const weft__rendezvous_member *m = claim ? &claim->from : NULL;
    if (m && !weft__rendezvous_by_route(&m, &from)) lose(s, claim);
}

void weft__rendezvous_claim_done(weft__rendezvous_server *s, const uint8_t *id)
{
    struct weft__claim *claim = claim_of(s, id);
    if (!claim) return;
    weft__rendezvous_note_quitter(s, claim->rank);
    lose(s, claim);
}

/* Where the holder is another one by now, or has come by another way, it is not known whether that one is there. */
static bool is_decided(weft__rendezvous_server *s, struct weft__claim *claim)
{
    weft__rendezvous_member *holder = holder_of(s, claim->rank);
    if (s->phase != WEFT__SERVER_JOINING) return true;
    if (!holder) return claim->rank >= 0 || s->count < s->world;
    if (!holder->asked || memcmp(claim->against, holder->id, sizeof claim->against) != 0)
        ask_both(s, claim, holder);
    return holder->here && claim->from.here;
}

bool weft__rendezvous_next_claim(weft__rendezvous_server *s, struct weft__claim *next)
{
    for (int i = 0; i < s->claim_count;) {
        struct weft__claim *claim = &s->claims[i];
        if (!weft__rendezvous_say(s, &claim->from, WEFT__RENDEZVOUS_STILL, NULL, 0)) {
            lose(s, claim);
        } else if (is_decided(s, claim)) {
            *next = *claim;
            take_out(s, claim);
            return true;
        } else {
            i++;
        }
    }
    return false;
}
