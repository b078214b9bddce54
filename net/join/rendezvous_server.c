/* rendezvous_server.c - see rendezvous_wire.h.  A failure is final: it is told to all who are here and to all
 * who come later. Frames that are not ours are dropped.  A client that vanishes before all are there gives
 * its place back; later it is missed by the others' deadlines. */
#include "rendezvous_server.h"
#include "clock.h"
#include "keys.h"
#include "log.h"
#include "status.h"
#include "url.h"
#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* ---- how far joining is ---- */

static const uint8_t server_follows[] = {[WEFT__SERVER_JOINING] = WEFT__MAY_BECOME(WEFT__SERVER_COMPLETE) |
                                                                  WEFT__MAY_BECOME(WEFT__SERVER_FAILED) |
                                                                  WEFT__MAY_BECOME(WEFT__SERVER_RESIGNED),
                                         [WEFT__SERVER_COMPLETE] = WEFT__MAY_BECOME(WEFT__SERVER_FAILED),
                                         [WEFT__SERVER_FAILED] = 0,
                                         [WEFT__SERVER_RESIGNED] = 0};

/* The one place that stores the phase.  It is the server's thread's alone: no order of memory is needed. */
static void server_to(weft__rendezvous_server *s, enum weft__server_phase to)
{
    WEFT__ASSERT(WEFT__ALLOWS(server_follows, s->phase, to), s->phase, to);
    s->phase = to;
}

void weft__rendezvous_refuse(weft__rendezvous_server *s, weft_status status, const char *format, ...)
{
    va_list args;
    if (s->phase == WEFT__SERVER_FAILED) return; /* the first cause wins */
    va_start(args, format);
    vsnprintf(s->sentence, sizeof s->sentence, format, args);
    va_end(args);
    server_to(s, WEFT__SERVER_FAILED);
    s->status = status;
    if (s->expected < s->count) s->expected = s->count;
    weft__rendezvous_say_to_all(s, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
}

/* ---- members ---- */

void weft__rendezvous_begin(weft__rendezvous_server *s, const weft__tree *tree)
{
    s->world = -1; /* and its phase is JOINING */
    s->tree = *tree;
    s->by_leader = (weft__index){.key_bytes = WEFT__RENDEZVOUS_ID_BYTES, .stride = sizeof *s->leaders};
    s->by_id = (weft__index){.key_bytes = WEFT__RENDEZVOUS_ID_BYTES, .stride = sizeof *s->members};
    s->by_host = (weft__index){.key_bytes = WEFT__HOST_ID_BYTES, .stride = WEFT__HOST_ID_BYTES};
}

void weft__rendezvous_forget(weft__rendezvous_server *s)
{
    for (int i = 0; i < s->count; i++) free(s->members[i].block);
    free(s->members);
    free(s->waiting);
    weft__index_free(&s->by_id);
    free(s->by_rank);
    free(s->hosts);
    weft__index_free(&s->by_host);
    free(s->quitters);
    free(s->dropped);
    free(s->claims);
    free(s->leaders);
    weft__index_free(&s->by_leader);
    free(s->asks);
    weft__rendezvous_drop_last(s);
}

weft__rendezvous_member *weft__rendezvous_find(weft__rendezvous_server *s, const uint8_t *id)
{
    int at = weft__index_find(&s->by_id, s->members, id);
    return at < 0 ? NULL : &s->members[at];
}

/* False: no memory. */
static bool make_room_for_rank(weft__rendezvous_server *s, int rank)
{
    int ranks = s->ranks ? s->ranks : 64;
    int *more;
    if (rank < s->ranks) return true;
    while (ranks <= rank) ranks *= 2;
    more = realloc(s->by_rank, (size_t)ranks * sizeof *more);
    if (!more) return false;
    memset(more + s->ranks, 0, (size_t)(ranks - s->ranks) * sizeof *more);
    s->by_rank = more;
    s->ranks = ranks;
    return true;
}

/* False: no memory. */
static bool make_room(weft__rendezvous_server *s)
{
    const size_t room = s->room ? 2 * (size_t)s->room : 64;
    weft__rendezvous_member *members, **waiting;
    if (s->room >= WEFT__WORLD_MAX) return false;
    waiting = realloc(s->waiting, room * sizeof(weft__rendezvous_member *));
    if (!waiting) return false;
    s->waiting = waiting;
    members = realloc(s->members, room * sizeof *members);
    if (!members) return false;
    s->members = members;
    s->room = (int)room;
    return true;
}

static weft__rendezvous_member *add_member(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                                           int given_rank)
{
    weft__rendezvous_member *m;
    if ((!s->members || s->count == s->room) && !make_room(s)) return NULL;
    m = &s->members[s->count];
    *m = *from;
    m->given_rank = m->rank = given_rank >= 0 ? given_rank : -1;
    if (given_rank >= 0 && !make_room_for_rank(s, given_rank)) return NULL;
    if (!weft__index_append(&s->by_id, s->members, s->count + 1)) return NULL;
    s->count++;
    if (given_rank >= 0 && !s->by_rank[given_rank]) s->by_rank[given_rank] = s->count;
    return m;
}

static void note_dropped(weft__rendezvous_server *s, const weft__rendezvous_member *m)
{
    struct weft__dropped *more;
    if (m->attempt < 2) return;
    more = realloc(s->dropped, (size_t)(s->dropped_count + 1) * sizeof *more);
    if (!more) return;
    s->dropped = more;
    memcpy(more[s->dropped_count].id, m->id, sizeof m->id);
    more[s->dropped_count++].attempt = m->attempt;
}

static bool is_overtaken(const weft__rendezvous_server *s, const uint8_t *id, uint32_t attempt)
{
    for (int i = 0; i < s->dropped_count; i++)
        if (!memcmp(s->dropped[i].id, id, sizeof s->dropped[i].id) && attempt < s->dropped[i].attempt)
            return true;
    return false;
}

void weft__rendezvous_note_end(weft__rendezvous_server *s, const weft__rendezvous_member *m)
{
    note_dropped(s, m);
    weft__rendezvous_leader_left(s, m->id);
}

/* The last takes its place.  Until index_members nobody is found by id. */
static void take_away(weft__rendezvous_server *s, int place)
{
    weft__rendezvous_member *gone = &s->members[place], *last = &s->members[--s->count];
    weft__rendezvous_note_end(s, gone);
    s->done -= gone->done;
    if (gone->given_rank >= 0 && s->by_rank[gone->given_rank] == place + 1) s->by_rank[gone->given_rank] = 0;
    if (gone == last) return;
    if (last->given_rank >= 0 && s->by_rank[last->given_rank] == s->count + 1)
        s->by_rank[last->given_rank] = place + 1;
    *gone = *last;
}

/* There is room: it has held all of them before. */
static void index_members(weft__rendezvous_server *s)
{
    (void)weft__index_build(&s->by_id, s->members, s->count);
}

/* ---- joining ---- */

static int by_host_and_arrival(const void *left, const void *right)
{
    const weft__rendezvous_member *a = left, *b = right;
    if (a->host != b->host) return a->host < b->host ? -1 : 1;
    return a->arrival < b->arrival ? -1 : a->arrival > b->arrival;
}

/* Given ranks are kept; the others get the free ones in the order of host and arrival, ascending. */
static weft_status assign_ranks(weft__rendezvous_server *s)
{
    bool *taken = calloc((size_t)s->world, sizeof *taken);
    int next = 0;
    if (!taken) return WEFT_ERR_MEMORY;
    for (int i = 0; i < s->count; i++)
        if (s->members[i].given_rank >= 0) taken[s->members[i].given_rank] = true;
    qsort(s->members, (size_t)s->count, sizeof *s->members, by_host_and_arrival);
    for (int i = 0; i < s->count; i++) {
        weft__rendezvous_member *m = &s->members[i];
        m->rank = m->given_rank;
        if (m->rank >= 0) continue;
        while (taken[next]) next++;
        m->rank = next++;
    }
    free(taken);
    return WEFT_OK;
}

static int by_rank(const void *left, const void *right)
{
    const weft__rendezvous_member *a = left, *b = right;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void complete(weft__rendezvous_server *s)
{
    if (assign_ranks(s)) {
        weft__rendezvous_refuse(s, WEFT_ERR_MEMORY, "the serving rank has no memory left to assign ranks");
        return;
    }
    qsort(s->members, (size_t)s->count, sizeof *s->members, by_rank); /* from here on rank r is members[r] */
    index_members(s);
    WEFT__ASSERT(s->count == s->world, s->count, s->world);
    server_to(s, WEFT__SERVER_COMPLETE);
    s->step = 1;
    weft__rendezvous_say_to_all(s, WEFT__RENDEZVOUS_JOINED, s->nonce, sizeof s->nonce);
}

/* Once it is known who they are.  True: they are since now. */
static bool complete_if_all_are_there(weft__rendezvous_server *s)
{
    if (s->phase != WEFT__SERVER_JOINING || s->count != s->world || weft__rendezvous_is_in_doubt(s))
        return false;
    complete(s);
    return true;
}

bool weft__rendezvous_some_have_gone(weft__rendezvous_server *s)
{
    int n, together;
    weft__rendezvous_member **members = weft__rendezvous_waiting(s, &n);
    bool some = false;
    for (int i = 0; i < n; i += together) {
        together = weft__rendezvous_of_one_route(&members[i], n - i);
        bool gone = !weft__rendezvous_say(s, members[i], WEFT__RENDEZVOUS_STILL, NULL, 0);
        for (int k = i; k < i + together; k++) members[k]->gone = gone;
        some = some || gone;
    }
    return some;
}

/* Before all are there, who has died or hung up gives its place back; who only lost its connection joins
 * again. */
static void drop_the_gone(weft__rendezvous_server *s)
{
    if (!weft__rendezvous_some_have_gone(s)) return;
    for (int i = 0; i < s->count;)
        if (s->members[i].gone)
            take_away(s, i);
        else
            i++;
    index_members(s);
}

static bool is_taken(const weft__rendezvous_server *s, int rank)
{
    return rank >= 0 && rank < s->ranks && s->by_rank[rank];
}

static void refuse_world(weft__rendezvous_server *s, const weft__rendezvous_member *m,
                         const weft__rendezvous_member *other)
{
    s->expected = m->given_world > other->given_world ? m->given_world : other->given_world;
    weft__rendezvous_refuse(
        s, WEFT_ERR_MISMATCH,
        "different world sizes: %d was given to a rank on host %s, pid %d, and %d to one on host "
        "%s, pid %d",
        other->given_world, other->who.host, other->who.pid, m->given_world, m->who.host, m->who.pid);
}

static void refuse_rank_twice(weft__rendezvous_server *s, const weft__rendezvous_member *m,
                              const weft__rendezvous_member *other)
{
    s->expected = s->world;
    weft__rendezvous_refuse(s, WEFT_ERR_ARGUMENT,
                            "rank %d was given twice: on host %s, pid %d, and on host %s, pid %d",
                            m->given_rank, other->who.host, other->who.pid, m->who.host, m->who.pid);
}

static void refuse_beyond_world(weft__rendezvous_server *s, const weft__rendezvous_member *m)
{
    s->expected = s->world;
    weft__rendezvous_refuse(s, WEFT_ERR_ARGUMENT,
                            "rank %d (host %s, pid %d) is out of range: the world has %d ranks, 0 to %d",
                            m->given_rank, m->who.host, m->who.pid, s->world, s->world - 1);
}

/* Whether what the newcomer was given contradicts what others were given.  Only where it tells something new all
 * of them are looked at.  had_world: the world's size was known before it came. */
static void check_newcomer(weft__rendezvous_server *s, const weft__rendezvous_member *m, bool had_world)
{
    if (m->given_world > 0 && m->given_world != s->world)
        for (int i = 0; i < s->count; i++)
            if (s->members[i].given_world > 0 && s->members[i].given_world != m->given_world) {
                refuse_world(s, m, &s->members[i]);
                return;
            }
    if (m->given_rank >= 0 && s->by_rank[m->given_rank] != m - s->members + 1) {
        refuse_rank_twice(s, m, &s->members[s->by_rank[m->given_rank] - 1]);
        return;
    }
    for (int i = had_world ? s->count - 1 : 0; i < s->count && s->world > 0; i++)
        if (s->members[i].given_rank >= s->world) {
            refuse_beyond_world(s, &s->members[i]);
            return;
        }
}

/* -1: no memory. */
static int host_order(weft__rendezvous_server *s, const weft__rendezvous_who *who)
{
    char host[WEFT__HOST_ID_BYTES] = "";
    int at;
    memcpy(host, who->host_id, strlen(who->host_id)); /* what stands behind its end does not count */
    if (!strcmp(host, s->host_id)) return 0;
    if ((at = weft__index_find(&s->by_host, s->hosts, host)) >= 0) return 1 + at;
    if (!(s->host_count & (s->host_count - 1))) {
        void *more = realloc(s->hosts, (s->host_count ? 2 * (size_t)s->host_count : 1) * sizeof *s->hosts);
        if (!more) return -1;
        s->hosts = more;
    }
    memcpy(s->hosts[s->host_count], host, sizeof host);
    if (!weft__index_append(&s->by_host, s->hosts, s->host_count + 1)) return -1;
    return ++s->host_count;
}

/* What stands behind who it is that joins; NULL: nothing, or what is too long. */
static const void *place_in(const void *payload, size_t bytes)
{
    const size_t who_bytes = sizeof(weft__rendezvous_who);
    return bytes == who_bytes + sizeof(weft__rendezvous_place) ? (const char *)payload + who_bytes : NULL;
}

static void take_join(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                      const weft__rendezvous_header *h, const void *payload, size_t bytes)
{
    const void *place = place_in(payload, bytes);
    weft__rendezvous_who who;
    weft__rendezvous_member *m;
    int host;
    bool had_world = s->world > 0;
    if ((bytes != sizeof who && !place) || h->rank >= WEFT__WORLD_MAX || h->world > WEFT__WORLD_MAX) {
        weft__log(WEFT__INFO, "a rank that joins is dropped: it says rank %d of %d, in %zu bytes", h->rank,
                  h->world, bytes);
        return;
    }
    memcpy(&who, payload, sizeof who);
    if (!sodium_is_zero(who.run, sizeof who.run) && memcmp(who.run, s->nonce, sizeof who.run) != 0) {
        weft__rendezvous_say(s, from, WEFT__RENDEZVOUS_ANOTHER, NULL, 0);
        return;
    }
    if (is_overtaken(s, h->client, h->step) || weft__rendezvous_claims_by_newer(s, h)) return;
    if (s->phase == WEFT__SERVER_COMPLETE) {
        weft__rendezvous_say(s, from, WEFT__REGISTRY_BUSY, NULL, 0);
        return;
    }
    if (weft__rendezvous_place_leader(s, from, h, place, false)) return;
    who.host[sizeof who.host - 1] = who.host_id[sizeof who.host_id - 1] = '\0';
    host = host_order(s, &who);
    if (s->phase == WEFT__SERVER_JOINING) {
        if (s->count + 1 == (had_world ? s->world : h->world) || is_taken(s, h->rank)) drop_the_gone(s);
        if ((is_taken(s, h->rank) || (had_world && s->count == s->world)) &&
            weft__rendezvous_claims(s, from, h, payload, bytes))
            return;
        if (!had_world && h->world > 0)
            s->world = h->world; /* of one who is taken, and looked at beside the others */
    }
    weft__rendezvous_claim_ends(s, h->client);
    m = host < 0 ? NULL : add_member(s, from, h->rank);
    if (!m) {
        weft__rendezvous_refuse(s, WEFT_ERR_MEMORY, "the serving rank has no memory left for another member");
        weft__rendezvous_say(s, from, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
        return;
    }
    m->who = who;
    m->attempt = h->step;
    m->given_world = h->world > 0 ? h->world : -1;
    m->host = host;
    m->joined_ns = weft__now_ns();
    m->arrival = memcmp(m->id, s->own, sizeof m->id) == 0 ? -1 : s->arrivals++;
    if (s->phase == WEFT__SERVER_FAILED) {
        weft__rendezvous_say(s, m, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
        return;
    }
    check_newcomer(s, m, had_world);
    (void)complete_if_all_are_there(s);
}

/* Claims of which it is known by now whether who claims, and whose place that is, are there. */
static void settle_claims(weft__rendezvous_server *s)
{
    struct weft__claim claim;
    if (s->phase == WEFT__SERVER_RESIGNED) return;
    if (s->phase == WEFT__SERVER_JOINING && s->claim_count) drop_the_gone(s);
    do {
        while (weft__rendezvous_next_claim(s, &claim)) {
            weft__rendezvous_header h;
            memcpy(&h, claim.frame, sizeof h);
            take_join(s, &claim.from, &h, claim.frame + sizeof h, claim.bytes - sizeof h);
        }
    } while (complete_if_all_are_there(s));
}

/* ---- who is missing ---- */

/* Answered when all that has arrived is read: who has left meanwhile may have said so. */
static void take_ask(weft__rendezvous_server *s, const weft__rendezvous_member *from)
{
    weft__rendezvous_member *more = realloc(s->asks, (size_t)(s->ask_count + 1) * sizeof *more);
    if (!more) return; /* it is told that nobody answers */
    s->asks = more;
    s->asks[s->ask_count++] = *from;
}

void weft__rendezvous_answer_asks(weft__rendezvous_server *s)
{
    char words[WEFT__SENTENCE_BYTES / 2] = "";
    if (s->phase == WEFT__SERVER_JOINING) drop_the_gone(s);
    settle_claims(s);
    for (int i = 0; i < s->ask_count; i++) {
        weft__rendezvous_missing(s, weft__rendezvous_find(s, s->asks[i].id), words, sizeof words);
        weft__rendezvous_say(s, &s->asks[i], WEFT__RENDEZVOUS_MISSING, words, strlen(words));
    }
    s->ask_count = 0;
}

/* ---- what a client says ---- */

static void take_fail(weft__rendezvous_server *s, const weft__rendezvous_member *m,
                      const weft__rendezvous_header *h, const void *payload, size_t bytes)
{
    const int length = (int)strnlen(payload, bytes < WEFT__SENTENCE_BYTES ? bytes : WEFT__SENTENCE_BYTES - 1);
    weft_status status = weft__is_failure(h->status) ? h->status : WEFT_ERR_SYSTEM;
    /* Whose time ran out does not matter: it tells who is missing. */
    if (status == WEFT_ERR_TIMEOUT && length)
        weft__rendezvous_refuse(s, status, "%.*s", length, (const char *)payload);
    else
        weft__rendezvous_refuse(s, status, "rank %d (host %s, pid %d): %.*s", m->rank, m->who.host,
                                m->who.pid, length, (const char *)payload);
}

static void take_done(weft__rendezvous_server *s, weft__rendezvous_member *m)
{
    s->done += !m->done;
    m->done = true;
    if (s->phase == WEFT__SERVER_COMPLETE && s->done == s->count) weft__rendezvous_drop_last(s);
    if (s->phase != WEFT__SERVER_JOINING) return;
    weft__rendezvous_note_quitter(s, m->given_rank);
    take_away(s, (int)(m - s->members)); /* gives up before all are there: its place is free again */
    index_members(s);
}

/* A relay tells it of its own clients: of one that has come by another way meanwhile it knows nothing. */
static void take_left(weft__rendezvous_server *s, weft__rendezvous_member *m,
                      const weft__rendezvous_member *from)
{
    if (s->phase != WEFT__SERVER_JOINING || weft__rendezvous_by_route(&m, &from) != 0) return;
    take_away(s, (int)(m - s->members));
    index_members(s);
}

static void take_message(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                         const weft__rendezvous_header *h, const char *payload, size_t bytes)
{
    weft__rendezvous_member *m = weft__rendezvous_find(s, h->client);
    if (s->phase == WEFT__SERVER_RESIGNED) return;
    if (h->kind == WEFT__RENDEZVOUS_ASK) {
        take_ask(s, from);
        return;
    }
    if (h->kind == WEFT__RENDEZVOUS_PARTS) {
        weft__rendezvous_take_parts(s, from, h->step, payload, bytes);
        return;
    }
    if (h->kind == WEFT__RENDEZVOUS_HERE) {
        weft__rendezvous_take_here(s, h->client, h->step);
        return;
    }
    if (!m) {
        if (h->kind == WEFT__RENDEZVOUS_JOIN) take_join(s, from, h, payload, bytes);
        if (h->kind == WEFT__RENDEZVOUS_LEFT) weft__rendezvous_claim_left(s, from);
        if (h->kind == WEFT__RENDEZVOUS_DONE) weft__rendezvous_claim_done(s, h->client);
        return;
    }
    if (h->kind == WEFT__RENDEZVOUS_JOIN && h->step < m->attempt)
        return; /* overtaken by a newer connection's */
    if (h->kind == WEFT__RENDEZVOUS_LEFT) {
        take_left(s, m, from);
        return;
    }
    if (h->kind == WEFT__RENDEZVOUS_JOIN) m->attempt = h->step;
    if (m->route_bytes != from->route_bytes || memcmp(m->route, from->route, from->route_bytes) != 0) {
        memcpy(m->route, from->route, from->route_bytes); /* it has reconnected */
        m->route_bytes = from->route_bytes;
        m->relayed = from->relayed;
        m->asked = 0;
    }
    switch (h->kind) {
    case WEFT__RENDEZVOUS_JOIN:
        weft__rendezvous_place_leader(s, from, h, place_in(payload, bytes), true);
        /* The answer to its first JOIN went to a connection that it had given up meanwhile. */
        if (s->phase == WEFT__SERVER_FAILED)
            weft__rendezvous_say(s, m, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
        if (s->phase == WEFT__SERVER_COMPLETE)
            weft__rendezvous_say(s, m, WEFT__RENDEZVOUS_JOINED, s->nonce, sizeof s->nonce);
        break;
    case WEFT__RENDEZVOUS_GATHER: weft__rendezvous_take_part(s, m, h->step, h->alike, payload, bytes); break;
    case WEFT__RENDEZVOUS_STILL: weft__rendezvous_say(s, m, WEFT__RENDEZVOUS_STILL, NULL, 0); break;
    case WEFT__RENDEZVOUS_FAIL: take_fail(s, m, h, payload, bytes); break;
    case WEFT__RENDEZVOUS_DONE: take_done(s, m); break;
    default: break;
    }
}

static bool read_header(const void *frame, size_t bytes, weft__rendezvous_header *header)
{
    if (bytes < sizeof *header) return false;
    memcpy(header, frame, sizeof *header);
    return header->magic == WEFT__RENDEZVOUS_MAGIC && header->version == WEFT__RENDEZVOUS_VERSION;
}

static void take_frame(weft__rendezvous_server *s, weft__rendezvous_member *from, const char *frame,
                       size_t bytes)
{
    weft__rendezvous_header header;
    if (!read_header(frame, bytes, &header)) return;
    memcpy(from->id, header.client, sizeof from->id);
    take_message(s, from, &header, frame + sizeof header, bytes - sizeof header);
}

void weft__rendezvous_take(weft__rendezvous_server *s, weft__rendezvous_member *from, const void *frame,
                           size_t bytes)
{
    weft__rendezvous_header header;
    const char *list, *one;
    size_t left, one_bytes;
    if (!read_header(frame, bytes, &header)) return;
    if (header.kind != WEFT__RENDEZVOUS_WORDS) {
        take_frame(s, from, frame, bytes);
    } else {
        atomic_store(&s->relayed, true);
        from->relayed = true;
        list = (const char *)frame + sizeof header;
        left = bytes - sizeof header;
        while ((one = weft__words_next(&list, &left, &one_bytes))) take_frame(s, from, one, one_bytes);
    }
    settle_claims(s);
}

/* ---- its end ---- */

bool weft__rendezvous_all_done(const weft__rendezvous_server *s)
{
    if (s->phase == WEFT__SERVER_FAILED && s->count < s->expected) return false;
    return s->done == s->count;
}

void weft__rendezvous_take_gone(weft__rendezvous_server *s, const bool *gone, int ranks)
{
    for (int r = 0; r < ranks && r < s->count && s->phase == WEFT__SERVER_COMPLETE; r++)
        if (gone[r]) take_done(s, &s->members[r]);
}

bool weft__rendezvous_give_way(weft__rendezvous_server *s)
{
    if (s->phase == WEFT__SERVER_JOINING) server_to(s, WEFT__SERVER_RESIGNED);
    return s->phase == WEFT__SERVER_RESIGNED;
}
