/* join_game.c - ranks meet at a server, directly and through relays of their hosts, which may stand below relays of
 * other hosts, in any order; ranks die, and with a leader its relay; ranks leave a relay that they take for silent, and
 * so do relays.
 *
 * The server and the relays are the library's (rendezvous_server.c, relay.c); the clients do what via_server.c
 * does.  Functions of ZeroMQ put what is sent into queues here.  What must hold: nobody's place is taken twice;
 * who lives hears of each gather once, with every rank's block in it; and if a rank died after all had joined, the
 * server misses it and nobody else. */
#include "bundle.h"
#include "chance.h"
#include "clock.h"
#include "games.h"
#include "relay.h"
#include "rendezvous_server.h"
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS_MOST = 12,
    CLIENTS_MOST = 28,
    WAYS_MOST = 160,
    GATHERS = 3,
    BLOCK = 24,
    ALIKE = 12,
    SERVER = -1
};

typedef struct frame {
    struct frame *next;
    size_t bytes;
    char data[];
} frame;

typedef struct queue {
    frame *first, **end;
} queue;

/* A connection, to the server or to the relay of a client. */
typedef struct way {
    int to;
    queue up, down;
    bool ended, told; /* its lower end has gone; the upper one has been told */
} way;

/* A process of a rank.  Its relay is its own if it leads. */
typedef struct client {
    int rank, host, heir; /* heir: who is to come in its place; -1: nobody needs to */
    bool came, dead, joined, done, leads;
    bool gone;          /* it has hung up when it was done */
    bool stray;         /* of a run that is to follow: waits for it, at this one's server or relay */
    int way, relay_way; /* to what it joins by; its relay's to the server, or to a relay; -1: none */
    uint32_t attempts, step;
    weft__relay relay;
} client;

static weft__rendezvous_server server;
static char server_socket; /* only its address counts */
static client clients[CLIENTS_MOST];
static int client_count, ranks, hosts;
static way ways[WAYS_MOST];
static int way_count;
static int next_way; /* that the next part of a message goes to; -1: nowhere */

/* ---- ways ---- */

static void append(queue *q, const void *data, size_t bytes)
{
    frame *f = malloc(sizeof *f + bytes);
    if (!f) abort();
    f->next = NULL;
    f->bytes = bytes;
    memcpy(f->data, data, bytes);
    if (!q->first) q->end = &q->first;
    *q->end = f;
    q->end = &f->next;
}

static frame *take_first(queue *q)
{
    frame *f = q->first;
    if (f) q->first = f->next;
    return f;
}

static void drop_all(queue *q)
{
    for (frame *f; (f = take_first(q));) free(f);
}

static int open_way(int to)
{
    ways[way_count] = (way){.to = to};
    return way_count++;
}

/* The relay at whose end; NULL: it is the server. */
static client *upper_end(int number)
{
    return ways[number].to == SERVER ? NULL : &clients[ways[number].to];
}

static void end_way(int number)
{
    if (number < 0) return;
    ways[number].ended = true;
    drop_all(&ways[number].down);
}

int __real_zmq_send(void *socket, const void *data, size_t bytes, int flags);
int __real_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
int __wrap_zmq_send(void *socket, const void *data, size_t bytes, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);

static client *relay_of(const void *socket)
{
    for (int i = 0; i < client_count; i++)
        if (socket == &clients[i].relay || socket == &clients[i].relay_way) return &clients[i];
    return NULL;
}

/* The first part: where to.  A server is told that nobody is there, a relay is not. */
int __wrap_zmq_send(void *socket, const void *data, size_t bytes, int flags)
{
    const unsigned char *route = data;
    if (socket != &server_socket && !relay_of(socket)) return __real_zmq_send(socket, data, bytes, flags);
    next_way = route[0];
    if (!ways[next_way].ended) return (int)bytes;
    next_way = -1;
    if (socket != &server_socket) return (int)bytes;
    errno = EHOSTUNREACH;
    return -1;
}

int __wrap_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags)
{
    const client *c = relay_of(socket);
    size_t bytes = zmq_msg_size(msg);
    if (socket != &server_socket && !c) return __real_zmq_msg_send(msg, socket, flags);
    if (c && socket == &c->relay_way && c->relay_way < 0)
        trace_blame("the relay of client %d speaks before it knows to whom", (int)(c - clients));
    else if (c && socket == &c->relay_way)
        append(&ways[c->relay_way].up, zmq_msg_data(msg), bytes);
    else if (next_way >= 0)
        append(&ways[next_way].down, zmq_msg_data(msg), bytes);
    next_way = -1;
    zmq_msg_close(msg);
    zmq_msg_init(msg);
    return (int)bytes;
}

/* ---- clients ---- */

static void say(const client *c, enum weft__rendezvous_kind kind, const void *payload, size_t bytes)
{
    char all[sizeof(weft__rendezvous_header) + 512];
    weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                 .version = WEFT__RENDEZVOUS_VERSION,
                                 .kind = (uint16_t)kind,
                                 .rank = c->rank,
                                 .world = ranks,
                                 .step = kind == WEFT__RENDEZVOUS_JOIN ? c->attempts : c->step,
                                 .alike = ALIKE};
    h.client[0] = (uint8_t)(c - clients + 1);
    memcpy(all, &h, sizeof h);
    if (bytes) memcpy(all + sizeof h, payload, bytes);
    append(&ways[c->way].up, all, sizeof h + bytes);
}

static void fill(char block[BLOCK], int rank, uint32_t step)
{
    memset(block, 'a' + rank % 3, ALIKE);
    memset(block + ALIKE, (int)('A' + (unsigned)rank + step), BLOCK - ALIKE);
}

static void say_gather(const client *c)
{
    char block[BLOCK];
    fill(block, c->rank, c->step);
    say(c, WEFT__RENDEZVOUS_GATHER, block, sizeof block);
}

/* On a fresh way; what it waits for it asks for again.  The place of its relay is told by a number: its own. */
static void introduce(client *c, int to)
{
    struct {
        weft__rendezvous_who who;
        weft__rendezvous_place place;
    } all = {{.pid = c->rank}, {.port = 1 + (int32_t)(c - clients)}};
    snprintf(all.who.host_id, sizeof all.who.host_id, "host %d", c->host);
    c->way = open_way(to);
    c->attempts++;
    say(c, WEFT__RENDEZVOUS_JOIN, &all, c->relay.seeks ? sizeof all : sizeof all.who);
    if (c->joined && !c->done) say_gather(c);
    if (c->done) say(c, WEFT__RENDEZVOUS_DONE, NULL, 0);
}

static client *leader_of(int host)
{
    for (int i = 0; i < client_count; i++)
        if (clients[i].leads && !clients[i].dead && clients[i].host == host &&
            clients[i].relay.phase == WEFT__RELAY_SERVING)
            return &clients[i];
    return NULL;
}

/* To the server, or to the relay of that client, which may have died meanwhile. */
static void place_relay(client *c, int to)
{
    TRACE("the relay of client %d goes to %d", (int)(c - clients), to);
    c->relay_way = open_way(to);
    c->relay.seeks = false;
}

static void lead(client *c)
{
    c->leads = true;
    c->relay.router = &c->relay;
    c->relay.upstream = &c->relay_way;
    if (chance_one_in(4))
        place_relay(c, SERVER);
    else
        c->relay.seeks = true;
}

static void hear_place(client *c, const char *payload)
{
    weft__rendezvous_place place;
    memcpy(&place, payload, sizeof place);
    if (!c->relay.seeks) return;
    place_relay(c, place.port ? place.port - 1 : SERVER);
    if (!place.port) return;
    end_way(c->way);
    introduce(c, (int)(c - clients));
}

static void come(client *c)
{
    client *leader = leader_of(c->host);
    bool alone = chance_one_in(6);
    TRACE("client %d comes as rank %d of host %d, %s", (int)(c - clients), c->rank, c->host,
          alone    ? "alone"
          : leader ? "by its relay"
                   : "and leads");
    c->came = true;
    if (!alone && !leader) lead(c);
    introduce(c, alone || !leader ? SERVER : (int)(leader - clients));
}

static void hear_gathered(client *c, const weft__rendezvous_header *h, const char *payload, size_t bytes)
{
    char all[RANKS_MOST * BLOCK], room[RANKS_MOST * (BLOCK + 4) + 8], expected[BLOCK];
    weft__bundle_head head;
    if (h->step != c->step || c->done) return; /* once more, on a way that it had taken meanwhile */
    if (!weft__bundle_head_read(payload, bytes, sizeof all, &head) || head.blocks != (uint32_t)ranks ||
        head.block_bytes != BLOCK || !weft__bundle_read(payload, bytes, &head, room, all)) {
        trace_blame("rank %d hears of a gather that is none", c->rank);
        return;
    }
    for (int r = 0; r < ranks; r++) {
        fill(expected, r, c->step);
        if (memcmp(all + r * BLOCK, expected, BLOCK) != 0)
            trace_blame("rank %d hears something else from rank %d in step %u", c->rank, r, c->step);
    }
    if (c->step++ < GATHERS) {
        say_gather(c);
        return;
    }
    c->done = true;
    say(c, WEFT__RENDEZVOUS_DONE, NULL, 0);
}

static void hear(client *c, const frame *f)
{
    weft__rendezvous_header h;
    memcpy(&h, f->data, sizeof h);
    if (h.kind == WEFT__RENDEZVOUS_FAILED)
        trace_blame("rank %d is told of a failure: %.*s", c->rank, (int)(f->bytes - sizeof h),
                    f->data + sizeof h);
    if (h.kind == WEFT__RENDEZVOUS_GATHERED && c->joined)
        hear_gathered(c, &h, f->data + sizeof h, f->bytes - sizeof h);
    if (h.kind == WEFT__RENDEZVOUS_PLACED) hear_place(c, f->data + sizeof h);
    if (h.kind == WEFT__REGISTRY_BUSY && c->relay.seeks) place_relay(c, SERVER);
    if (h.kind != WEFT__RENDEZVOUS_JOINED || c->joined) return;
    c->joined = true;
    if (c->relay.seeks) place_relay(c, SERVER);
    c->step = 1;
    if (h.rank != c->rank) trace_blame("rank %d is welcomed as rank %d", c->rank, h.rank);
    say_gather(c);
}

/* What it takes for silence, or has seen end. */
static void leave_relay(client *c)
{
    TRACE("client %d leaves its relay", (int)(c - clients));
    end_way(c->way);
    introduce(c, SERVER);
}

/* That has ended, or is taken for silent: its ranks take their own way, and relays below notice. */
static void lose_relay(client *leader)
{
    TRACE("the relay of client %d is lost", (int)(leader - clients));
    weft__relay_lose(&leader->relay);
    end_way(leader->relay_way);
}

static void die(client *c)
{
    bool heir = server.phase == WEFT__SERVER_JOINING && client_count < CLIENTS_MOST;
    TRACE("client %d dies", (int)(c - clients));
    c->dead = true;
    end_way(c->way);
    if (c->leads) end_way(c->relay_way);
    c->heir = heir ? client_count : -1;
    if (heir)
        clients[client_count++] =
            (client){.rank = c->rank, .host = c->host, .heir = -1, .way = -1, .relay_way = -1};
}

/* ---- what happens ---- */

/* An end is told before what came before it is read, or after, as it falls out; all are by when a relay answers that somebody is
 * there, as it waits before it does. */
static void tell_ends(client *leader)
{
    for (int i = 0; i < way_count; i++)
        if (ways[i].to == leader - clients && ways[i].ended && !ways[i].told &&
            (!ways[i].up.first || leader->relay.asks || chance_one_in(2))) {
            ways[i].told = true;
            weft__relay_connection_ended(&leader->relay, i);
        }
}

/* A relay settles only when it has read what came before the ends that it knows of. */
static bool may_settle(const client *leader)
{
    for (int i = 0; i < way_count; i++)
        if (ways[i].to == leader - clients && ways[i].told && ways[i].up.first) return false;
    return true;
}

/* Whether it has something to say. */
static bool has_news(const client *leader)
{
    const weft__relay *r = &leader->relay;
    return !r->seeks &&
           (r->some_ended || (r->phase == WEFT__RELAY_SERVING && (r->parts || r->words.count || r->asks)));
}

static void deliver_up(int number)
{
    way *w = &ways[number];
    frame *f = take_first(&w->up);
    if (w->to == SERVER) {
        weft__rendezvous_member from = {.rank = -1, .route = {(uint8_t)number}, .route_bytes = 1};
        weft__rendezvous_take(&server, &from, f->data, f->bytes);
    } else if (!clients[w->to].dead) {
        weft__relayed from = {.route = {(uint8_t)number}, .route_bytes = 1, .fd = number};
        zmq_msg_t msg;
        zmq_msg_init_size(&msg, f->bytes);
        memcpy(zmq_msg_data(&msg), f->data, f->bytes);
        tell_ends(&clients[w->to]);
        from.ended = w->told;
        weft__relay_up(&clients[w->to].relay, &from, &msg);
        if (clients[w->to].relay.seeks && may_settle(&clients[w->to]))
            weft__relay_settle(&clients[w->to].relay, WEFT__NEVER - 1);
    }
    free(f);
}

static void deliver_down(int number)
{
    frame *f = take_first(&ways[number].down);
    if (!f) return;
    for (int i = 0; i < client_count; i++) {
        zmq_msg_t msg;
        if (clients[i].dead) continue;
        if (clients[i].way == number) {
            hear(&clients[i], f);
            break;
        }
        if (!clients[i].leads || clients[i].relay_way != number) continue;
        zmq_msg_init_size(&msg, f->bytes);
        memcpy(zmq_msg_data(&msg), f->data, f->bytes);
        weft__relay_down(&clients[i].relay, &msg);
    }
    free(f);
}

/* The heir of a dead one may, though all that one has said, and the word of its end, is still on its way. */
static bool may_come(int number)
{
    return !clients[number].came && !clients[number].dead;
}

/* One thing that can happen, from a place that is drawn.  False: nothing can. */
static bool happen(void)
{
    int begin = chance_below(way_count + 1);
    if (chance_one_in(4))
        for (int k = 0, i = chance_below(client_count); k < client_count; k++, i = (i + 1) % client_count) {
            client *c = &clients[i];
            if (may_come(i) && way_count < WAYS_MOST - 2) {
                come(c);
                return true;
            }
            if (c->leads && !c->dead && c->relay.asks) tell_ends(c);
            if (c->leads && !c->dead && has_news(c) && may_settle(c) && chance_one_in(3)) {
                weft__relay_settle(&c->relay, WEFT__NEVER - 1);
                return true;
            }
        }
    for (int k = 0; k < way_count; k++) {
        int i = (begin + k) % way_count;
        if (ways[i].up.first && (!ways[i].down.first || chance_one_in(2))) {
            deliver_up(i);
            return true;
        }
        if (ways[i].down.first) {
            deliver_down(i);
            return true;
        }
    }
    return false;
}

static bool is_lost(const client *leader)
{
    return leader && (leader->dead || leader->relay.phase == WEFT__RELAY_LOST);
}

static bool has_ended(const client *leader)
{
    return leader && (leader->dead || leader->relay.phase != WEFT__RELAY_SERVING);
}

/* What is noticed when nothing else happens: ends of connections, timers. */
static bool notice(void)
{
    bool some = false;
    for (int i = 0; i < client_count; i++) {
        client *c = &clients[i];
        if (c->dead) continue;
        if (c->came && !c->gone && is_lost(upper_end(c->way)) && way_count < WAYS_MOST) {
            leave_relay(c);
            some = true;
        }
        if (!c->leads || c->relay.seeks) continue;
        if (c->relay.phase == WEFT__RELAY_SERVING && has_ended(upper_end(c->relay_way))) {
            lose_relay(c);
            some = true;
        }
        tell_ends(c);
        some = some || has_news(c);
        weft__relay_settle(&c->relay, WEFT__NEVER - 1);
    }
    for (int i = 0; i < client_count && !some; i++) some = may_come(i);
    return some;
}

static void stray_in(void)
{
    client *c = &clients[client_count++];
    *c = (client){
        .rank = -1, .host = chance_below(hosts), .stray = true, .heir = -1, .way = -1, .relay_way = -1};
    come(c);
}

static void run(int deaths)
{
    for (int idle = 0; idle < 100;) {
        client *c = &clients[chance_below(client_count)];
        if (server.phase == WEFT__SERVER_COMPLETE && chance_one_in(5) && client_count < CLIENTS_MOST &&
            way_count < WAYS_MOST - 20)
            stray_in();
        if (deaths && chance_one_in(20) && c->came && !c->dead && c != &clients[0]) {
            die(c);
            deaths--;
        }
        if (c->done && !c->dead && !c->gone && chance_one_in(2)) {
            c->gone = true;
            end_way(c->way);
        }
        if (chance_one_in(60) && c->leads && !c->dead && c->relay_way >= 0 &&
            ways[c->relay_way].to != SERVER && c->relay.phase == WEFT__RELAY_SERVING &&
            way_count < WAYS_MOST - 40)
            lose_relay(c);
        if (chance_one_in(40) && c->came && !c->dead && !c->gone && ways[c->way].to != SERVER &&
            way_count < WAYS_MOST - 20)
            leave_relay(c);
        if (happen() || notice()) {
            idle = 0;
            continue;
        }
        idle++;
    }
}

/* ---- what must hold ---- */

/* Whether its last words have reached the server: whoever they went by lives. */
static bool must_be_known(const client *c)
{
    for (const client *upper = upper_end(c->way); upper; upper = upper_end(upper->relay_way))
        if (is_lost(upper) || upper->relay_way < 0) return false;
    return true;
}

static void check(void)
{
    bool some_missing = false;
    if (server.phase != WEFT__SERVER_COMPLETE) {
        trace_blame("all came, and the server is in phase %d: %s", (int)server.phase, server.sentence);
        return;
    }
    for (int r = 0; r < ranks; r++) {
        const client *c = &clients[server.members[r].id[0] - 1];
        if (c->rank != r) trace_blame("rank %d is taken for rank %d", c->rank, r);
        if (c->dead && !server.members[r].done) some_missing = true;
        if (c->done && !server.members[r].done && must_be_known(c))
            trace_blame("rank %d has said that it is done, and the server does not know", r);
    }
    for (int i = 0; i < client_count; i++) {
        const client *c = &clients[i];
        const weft__rendezvous_member *m = &server.members[c->stray ? 0 : c->rank];
        if (c->dead || c->stray) continue;
        if (m->id[0] != i + 1) { /* its forerunner died when all had come */
            if (!clients[m->id[0] - 1].dead) trace_blame("client %d is not in the job, and its rank is", i);
            continue;
        }
        if (!c->joined) trace_blame("rank %d is never welcomed", c->rank);
        if (!some_missing && !c->done) trace_blame("rank %d waits for ever in step %u", c->rank, c->step);
        if (some_missing && !c->done && !m->block)
            trace_blame("rank %d is taken for missing in step %d", c->rank, server.step);
    }
}

void play_join(void)
{
    memset(&server, 0, sizeof server);
    memset(clients, 0, sizeof clients);
    weft__rendezvous_begin(&server, &(weft__tree){1 + chance_below(3), 1 + chance_below(2)});
    server.router = &server_socket;
    memset(server.nonce, 1, sizeof server.nonce);
    ranks = 2 + chance_below(RANKS_MOST - 1);
    hosts = 1 + chance_below(ranks);
    client_count = ranks;
    way_count = 0;
    for (int i = 0; i < ranks; i++)
        clients[i] = (client){.rank = i, .host = chance_below(hosts), .heir = -1, .way = -1, .relay_way = -1};
    run(chance_one_in(2) ? chance_below(4) : 0);
    check();
    for (int i = 0; i < client_count; i++) weft__relay_forget(&clients[i].relay);
    for (int i = 0; i < way_count; i++) {
        drop_all(&ways[i].up);
        drop_all(&ways[i].down);
    }
    weft__rendezvous_forget(&server);
}
