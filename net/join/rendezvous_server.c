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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* ---- answers ---- */

static weft__rendezvous_header header_for(const weft__rendezvous_server *s, enum weft__rendezvous_kind kind,
                                          int rank)
{
    return (weft__rendezvous_header){
        WEFT__RENDEZVOUS_MAGIC, WEFT__RENDEZVOUS_VERSION, (uint16_t)kind, {0}, rank, s->world, s->status,
        (uint32_t)s->step};
}

/* False: its connection is gone.  The message is used up. */
static bool send_message(weft__rendezvous_server *s, const weft__rendezvous_member *to, zmq_msg_t *msg)
{
    if (zmq_send(s->router, to->route, to->route_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_msg_send(msg, s->router, ZMQ_DONTWAIT) >= 0)
        return true;
    zmq_msg_close(msg);
    return errno != EHOSTUNREACH;
}

/* False: its connection is gone. */
static bool send_to(weft__rendezvous_server *s, const weft__rendezvous_member *to,
                    enum weft__rendezvous_kind kind, const void *payload, size_t bytes)
{
    const weft__rendezvous_header header = header_for(s, kind, to->rank);
    zmq_msg_t msg;
    if (zmq_msg_init_size(&msg, sizeof header + bytes))
        return true; /* no memory: that client runs into its deadline */
    memcpy(zmq_msg_data(&msg), &header, sizeof header);
    if (bytes) memcpy((char *)zmq_msg_data(&msg) + sizeof header, payload, bytes);
    return send_message(s, to, &msg);
}

static void send_to_all(weft__rendezvous_server *s, enum weft__rendezvous_kind kind, const void *payload,
                        size_t bytes)
{
    for (int i = 0; i < s->count; i++)
        if (!s->members[i].done) send_to(s, &s->members[i], kind, payload, bytes);
}

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

static void server_fail(weft__rendezvous_server *s, weft_status status, const char *format, ...)
    WEFT__PRINTF(3, 4);
static void server_fail(weft__rendezvous_server *s, weft_status status, const char *format, ...)
{
    va_list args;
    if (s->phase == WEFT__SERVER_FAILED) return; /* the first cause wins */
    va_start(args, format);
    vsnprintf(s->sentence, sizeof s->sentence, format, args);
    va_end(args);
    server_to(s, WEFT__SERVER_FAILED);
    s->status = status;
    if (s->expected < s->count) s->expected = s->count;
    send_to_all(s, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
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
        server_fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left to assign ranks");
        return;
    }
    qsort(s->members, (size_t)s->count, sizeof *s->members, by_rank); /* from here on rank r is members[r] */
    WEFT__ASSERT(s->count == s->world, s->count, s->world);
    server_to(s, WEFT__SERVER_COMPLETE);
    s->step = 1;
    send_to_all(s, WEFT__RENDEZVOUS_JOINED, s->nonce, sizeof s->nonce);
}

bool weft__rendezvous_some_have_gone(weft__rendezvous_server *s)
{
    for (int i = 0; i < s->count; i++)
        if (!send_to(s, &s->members[i], WEFT__RENDEZVOUS_STILL, NULL, 0)) return true;
    return false;
}

/* Before all are there, who has died or hung up gives its place back; who only lost its connection joins
 * again. */
static void drop_the_gone(weft__rendezvous_server *s)
{
    for (int i = 0; i < s->count;)
        if (send_to(s, &s->members[i], WEFT__RENDEZVOUS_STILL, NULL, 0))
            i++;
        else
            s->members[i] = s->members[--s->count];
}

static bool is_taken(const weft__rendezvous_server *s, int rank)
{
    for (int i = 0; i < s->count; i++)
        if (rank >= 0 && s->members[i].given_rank == rank) return true;
    return false;
}

/* Whether what the newcomer was given contradicts what others were given. */
static void check_newcomer(weft__rendezvous_server *s, const weft__rendezvous_member *m)
{
    for (int i = 0; i < s->count; i++) {
        const weft__rendezvous_member *other = &s->members[i];
        if (other == m) continue;
        if (m->given_world > 0 && other->given_world > 0 && m->given_world != other->given_world) {
            s->expected = m->given_world > other->given_world ? m->given_world : other->given_world;
            server_fail(
                s, WEFT_ERR_MISMATCH,
                "different world sizes: %d was given to a rank on host %s, pid %d, and %d to one on host "
                "%s, pid %d",
                other->given_world, other->who.host, other->who.pid, m->given_world, m->who.host, m->who.pid);
            return;
        }
        if (m->given_rank >= 0 && m->given_rank == other->given_rank) {
            s->expected = s->world;
            server_fail(s, WEFT_ERR_ARGUMENT,
                        "rank %d was given twice: on host %s, pid %d, and on host %s, pid %d", m->given_rank,
                        other->who.host, other->who.pid, m->who.host, m->who.pid);
            return;
        }
    }
    for (int i = 0; i < s->count && s->world > 0; i++) /* the world's size may have come after the rank */
        if (s->members[i].given_rank >= s->world) {
            s->expected = s->world;
            server_fail(s, WEFT_ERR_ARGUMENT,
                        "rank %d (host %s, pid %d) is out of range: the world has %d ranks, 0 to %d",
                        s->members[i].given_rank, s->members[i].who.host, s->members[i].who.pid, s->world,
                        s->world - 1);
            return;
        }
}

static int host_order(weft__rendezvous_server *s, const weft__rendezvous_who *who)
{
    int highest = 0;
    if (!strcmp(who->host_id, s->host_id)) return 0;
    for (int i = 0; i < s->count; i++) {
        if (!strcmp(s->members[i].who.host_id, who->host_id)) return s->members[i].host;
        if (s->members[i].host > highest) highest = s->members[i].host;
    }
    return highest + 1;
}

static weft__rendezvous_member *add_member(weft__rendezvous_server *s)
{
    if (s->count == s->room) {
        int room = s->room ? 2 * s->room : 64;
        weft__rendezvous_member *more =
            s->room < WEFT__WORLD_MAX ? realloc(s->members, (size_t)room * sizeof *more) : NULL;
        if (!more) return NULL;
        s->members = more;
        s->room = room;
    }
    return memset(&s->members[s->count++], 0, sizeof *s->members);
}

static weft__rendezvous_member *find_member(weft__rendezvous_server *s, const uint8_t *id)
{
    for (int i = 0; i < s->count; i++)
        if (!memcmp(s->members[i].id, id, WEFT__RENDEZVOUS_ID_BYTES)) return &s->members[i];
    return NULL;
}

static void take_join(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                      const weft__rendezvous_header *h, const void *payload, size_t bytes)
{
    weft__rendezvous_who who;
    weft__rendezvous_member *m;
    int host;
    if (bytes != sizeof who || h->rank >= WEFT__WORLD_MAX || h->world > WEFT__WORLD_MAX) {
        weft__log(WEFT__INFO, "a rank that joins is dropped: it says rank %d of %d, in %zu bytes", h->rank,
                  h->world, bytes);
        return;
    }
    memcpy(&who, payload, sizeof who);
    if (!sodium_is_zero(who.run, sizeof who.run) && memcmp(who.run, s->nonce, sizeof who.run) != 0) {
        send_to(s, from, WEFT__RENDEZVOUS_ANOTHER, NULL, 0);
        return;
    }
    if (s->phase == WEFT__SERVER_COMPLETE) {
        send_to(s, from, WEFT__REGISTRY_BUSY, NULL, 0);
        return;
    }
    who.host[sizeof who.host - 1] = who.host_id[sizeof who.host_id - 1] = '\0';
    host = host_order(s, &who);
    if (s->phase == WEFT__SERVER_JOINING) {
        if (s->world < 0 && h->world > 0) s->world = h->world;
        if (s->count + 1 == s->world || is_taken(s, h->rank)) drop_the_gone(s);
    }
    m = add_member(s);
    if (!m) {
        server_fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left for another member");
        send_to(s, from, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
        return;
    }
    *m = *from;
    m->who = who;
    m->attempt = h->step;
    m->given_rank = m->rank = h->rank >= 0 ? h->rank : -1;
    m->given_world = h->world > 0 ? h->world : -1;
    m->host = host;
    m->joined_ns = weft__now_ns();
    m->arrival = memcmp(m->id, s->own, sizeof m->id) == 0 ? -1 : s->arrivals++;
    if (s->phase == WEFT__SERVER_FAILED) {
        send_to(s, m, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
        return;
    }
    check_newcomer(s, m);
    if (s->phase == WEFT__SERVER_JOINING && s->count == s->world) complete(s);
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
    for (int i = 0; i < s->ask_count; i++) {
        weft__rendezvous_missing(s, find_member(s, s->asks[i].id), words, sizeof words);
        send_to(s, &s->asks[i], WEFT__RENDEZVOUS_MISSING, words, strlen(words));
    }
    s->ask_count = 0;
}

/* ---- gathering ---- */

void weft__rendezvous_forget(weft__rendezvous_server *s)
{
    if (s->has_last) zmq_msg_close(&s->last);
    s->has_last = false;
}

static void send_last(weft__rendezvous_server *s, const weft__rendezvous_member *to)
{
    zmq_msg_t one;
    zmq_msg_init(&one);
    if (zmq_msg_copy(&one, &s->last) == 0) send_message(s, to, &one);
}

/* All get one message, of which ZeroMQ counts the users: rank 0 would not hold a copy for each of thousands. */
static void finish_gather(weft__rendezvous_server *s)
{
    const weft__rendezvous_header header = header_for(s, WEFT__RENDEZVOUS_GATHERED, -1);
    size_t bytes = s->block_bytes;
    char *at;
    weft__rendezvous_forget(s);
    if (zmq_msg_init_size(&s->last, sizeof header + bytes * (size_t)s->world)) {
        server_fail(s, WEFT_ERR_MEMORY,
                    "the serving rank has no memory left to gather %zu bytes from each rank", bytes);
        return;
    }
    s->has_last = true;
    at = zmq_msg_data(&s->last);
    memcpy(at, &header, sizeof header);
    at += sizeof header;
    for (int r = 0; r < s->world; r++) {
        if (bytes) memcpy(at + (size_t)r * bytes, s->members[r].block, bytes);
        free(s->members[r].block);
        s->members[r].block = NULL;
    }
    for (int i = 0; i < s->count; i++)
        if (!s->members[i].done) send_last(s, &s->members[i]);
    s->gathered = 0;
    s->step++;
}

static void take_gather(weft__rendezvous_server *s, weft__rendezvous_member *m,
                        const weft__rendezvous_header *h, const void *payload, size_t bytes)
{
    if (s->phase != WEFT__SERVER_COMPLETE) return;
    if (s->has_last &&
        h->step + 1 == (uint32_t)s->step) { /* over another connection: the answer may be lost */
        send_last(s, m);
        return;
    }
    if (m->block) return;
    if (h->step != (uint32_t)s->step || (s->gathered && bytes != s->block_bytes)) {
        server_fail(s, WEFT_ERR_MISMATCH,
                    "rank %d gathers %zu bytes in step %u of joining, others %zu bytes in step %d", m->rank,
                    bytes, h->step, s->block_bytes, s->step);
        return;
    }
    m->block = bytes <= WEFT__RENDEZVOUS_TOTAL_MAX / (size_t)s->world ? malloc(bytes + 1) : NULL;
    if (!m->block) {
        server_fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left for %zu bytes of rank %d", bytes,
                    m->rank);
        return;
    }
    if (bytes) memcpy(m->block, payload, bytes);
    s->block_bytes = bytes;
    if (++s->gathered == s->world) finish_gather(s);
}

/* ---- what a client says ---- */

static void take_fail(weft__rendezvous_server *s, const weft__rendezvous_member *m,
                      const weft__rendezvous_header *h, const void *payload, size_t bytes)
{
    const int length = (int)strnlen(payload, bytes < WEFT__SENTENCE_BYTES ? bytes : WEFT__SENTENCE_BYTES - 1);
    weft_status status = weft__is_failure(h->status) ? h->status : WEFT_ERR_SYSTEM;
    /* Whose time ran out does not matter: it tells who is missing. */
    if (status == WEFT_ERR_TIMEOUT && length)
        server_fail(s, status, "%.*s", length, (const char *)payload);
    else
        server_fail(s, status, "rank %d (host %s, pid %d): %.*s", m->rank, m->who.host, m->who.pid, length,
                    (const char *)payload);
}

static void take_done(weft__rendezvous_server *s, weft__rendezvous_member *m)
{
    m->done = true;
    if (s->phase != WEFT__SERVER_JOINING) return;
    weft__rendezvous_note_quitter(s, m->given_rank);
    *m = s->members[--s->count]; /* gives up before all are there: its place is free again */
}

static void take_message(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                         const weft__rendezvous_header *h, const char *payload, size_t bytes)
{
    weft__rendezvous_member *m = find_member(s, h->client);
    if (s->phase == WEFT__SERVER_RESIGNED) return;
    if (h->kind == WEFT__RENDEZVOUS_ASK) {
        take_ask(s, from);
        return;
    }
    if (!m) {
        if (h->kind == WEFT__RENDEZVOUS_JOIN) take_join(s, from, h, payload, bytes);
        return;
    }
    if (h->kind == WEFT__RENDEZVOUS_JOIN && h->step < m->attempt)
        return; /* overtaken by a newer connection's */
    if (h->kind == WEFT__RENDEZVOUS_JOIN) m->attempt = h->step;
    if (m->route_bytes != from->route_bytes || memcmp(m->route, from->route, from->route_bytes) != 0) {
        memcpy(m->route, from->route, from->route_bytes); /* it has reconnected */
        m->route_bytes = from->route_bytes;
    }
    switch (h->kind) {
    case WEFT__RENDEZVOUS_JOIN:
        /* The answer to its first JOIN went to a connection that it had given up meanwhile. */
        if (s->phase == WEFT__SERVER_FAILED)
            send_to(s, m, WEFT__RENDEZVOUS_FAILED, s->sentence, strlen(s->sentence));
        if (s->phase == WEFT__SERVER_COMPLETE)
            send_to(s, m, WEFT__RENDEZVOUS_JOINED, s->nonce, sizeof s->nonce);
        break;
    case WEFT__RENDEZVOUS_GATHER: take_gather(s, m, h, payload, bytes); break;
    case WEFT__RENDEZVOUS_FAIL: take_fail(s, m, h, payload, bytes); break;
    case WEFT__RENDEZVOUS_DONE: take_done(s, m); break;
    default: break;
    }
}

void weft__rendezvous_take(weft__rendezvous_server *s, weft__rendezvous_member *from, const void *frame,
                           size_t bytes)
{
    weft__rendezvous_header header;
    if (bytes < sizeof header) return;
    memcpy(&header, frame, sizeof header);
    if (header.magic != WEFT__RENDEZVOUS_MAGIC || header.version != WEFT__RENDEZVOUS_VERSION) return;
    memcpy(from->id, header.client, sizeof from->id);
    take_message(s, from, &header, (const char *)frame + sizeof header, bytes - sizeof header);
}

/* ---- its end ---- */

bool weft__rendezvous_all_done(const weft__rendezvous_server *s)
{
    if (s->phase == WEFT__SERVER_FAILED && s->count < s->expected) return false;
    for (int i = 0; i < s->count; i++)
        if (!s->members[i].done) return false;
    return true;
}

bool weft__rendezvous_give_way(weft__rendezvous_server *s)
{
    if (s->phase == WEFT__SERVER_JOINING) server_to(s, WEFT__SERVER_RESIGNED);
    return s->phase == WEFT__SERVER_RESIGNED;
}
