/* via_server.c - meeting at a server: find the place, serve it if nobody does, say who we are, gather.
 *
 *   1. ask the finder (locate.h) where to try; bind that address and serve; or, if another rank is to,
 *   2. connect plainly and read the first bytes: a ZeroMQ greeting, or something else that holds the port; who finds
 *      the relay of its host leaves that out;
 *   3. connect for good, prove the secret (CURVE), say JOIN, and wait until all are there: to the server, or to
 *      the rank of this host that relays for the others (relay.h), which is who comes first.  Whatever is wrong
 *      with that one, this rank goes to the server itself and joins again there, and asks again for what it waits
 *      for; then what is wrong with the server shows as ever.  Who leads its host in a job of many hosts may be sent
 *      on to another host's relay: then its own relay goes there, and it joins by that one as its host's others do.
 * Back to 1 when the server vanishes before that, turns out to be of another run, or when this rank serves
 * and another one is to.  Later a connection that breaks is made again, and the server has gone where nobody listens.
 * Every wait ends at the deadline; then the server is asked who is missing.  The connection itself tells a wrong
 * secret and a server that has gone (server_link.h). */
#include "bundle.h"
#include "clock.h"
#include "locate.h"
#include "relay.h"
#include "rendezvous_answer.h"
#include "server_link.h"
#include "status.h"
#include "zap.h"

#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define RETRY_MS   20               /* between two looks for a place, once the first ones have been in vain */
#define ANSWER_MS  1000             /* for "who is missing?", past the deadline */
#define RELAYED_MS 300              /* for its answer by a relay */
#define GOODBYE_MS 2000             /* how long the serving rank stays for the others */
#define FAILED_MS  500              /* the same where joining has failed and the deadline has passed */
#define REFUSED_MS 500              /* who refuses for so long means it: a server that is closing does too */
#define RELAYS     2                /* that have failed this rank; then it goes by none */
#define NONE       WEFT_PENDING     /* nothing is here yet */
#define AGAIN      ((weft_status)2) /* this is not the place: search again */

typedef struct client {
    weft__rendezvous *r;
    weft__finder *finder;
    weft__locator place;
    char address[WEFT__ADDRESS_BYTES]; /* our end of the connection to it */

    uint8_t id[WEFT__RENDEZVOUS_ID_BYTES];
    weft__link link;
    weft__rendezvous_server *server; /* on the serving rank */
    weft__relay *relay;              /* on the rank that leads its host */
    int relays_lost;
    bool misled;           /* a relay has failed it, this server's or another's: it looks at servers itself */
    struct {               /* what it waits for: said again over the next connection */
        const void *block; /* GATHERED; NULL: it does not */
        size_t bytes, alike;
        bool missing; /* MISSING */
    } waits;
    bool known;         /* to the server: it waits for our last word */
    bool busy;          /* the server's job is complete, without us */
    bool told;          /* a failure has come from, or gone to, the server */
    bool has_all;       /* this rank has its last answer: joining went well */
    int64_t refused_ns; /* since when whoever answers refuses; 0: nobody does */
    int rest_ms;        /* the last rest between two looks; 0: there was none */
    uint32_t step;
} client;

static double via_server_elapsed(const client *c)
{
    return (double)(weft__now_ns() - c->r->started_ns) / 1e9;
}

static bool is_late(const client *c)
{
    return weft__now_ns() >= c->r->deadline_ns;
}

/* ---- words to and from the server ---- */

static void say(client *c, enum weft__rendezvous_kind kind, weft_status status, const void *payload,
                size_t bytes)
{
    weft__rendezvous_header h = {WEFT__RENDEZVOUS_MAGIC,
                                 WEFT__RENDEZVOUS_VERSION,
                                 (uint16_t)kind,
                                 {0},
                                 c->r->rank,
                                 c->r->world_size,
                                 status,
                                 c->step,
                                 0};
    if (kind == WEFT__RENDEZVOUS_JOIN)
        h.step = c->link.attempts; /* one from a connection given up may arrive after this */
    if (kind == WEFT__RENDEZVOUS_GATHER) h.alike = (uint32_t)c->waits.alike;
    memcpy(h.client, c->id, sizeof h.client);
    weft__link_say(&c->link, &h, payload, bytes);
}

static void say_join(client *c)
{
    struct {
        weft__rendezvous_who who;
        weft__rendezvous_place place; /* only where its relay seeks one */
    } all = {.who = {.pid = (int32_t)getpid()}};
    const weft__rendezvous_place *place = weft__relay_seeks(c->relay);
    _Static_assert(sizeof all == sizeof all.who + sizeof all.place, "one lies behind the other");
    memcpy(all.who.run, c->place.nonce, sizeof all.who.run);
    weft__host_id(all.who.host_id);
    if (gethostname(all.who.host, sizeof all.who.host - 1)) memcpy(all.who.host, "?", 2);
    if (place) all.place = *place;
    say(c, WEFT__RENDEZVOUS_JOIN, WEFT_OK, &all, place ? sizeof all : sizeof all.who);
    c->known = true;
}

static void say_gather(client *c)
{
    say(c, WEFT__RENDEZVOUS_GATHER, WEFT_OK, c->waits.block, c->waits.bytes);
}

/* Over a fresh connection: the first, or one that has taken the place of one that broke or of a relay that was given
 * up.  What was on its way is said again, by both ends. */
static void go_on(client *c)
{
    say_join(c);
    if (c->waits.block) say_gather(c);
    if (c->waits.missing) say(c, WEFT__RENDEZVOUS_ASK, WEFT_OK, NULL, 0);
}

typedef struct answer {
    weft__rendezvous_answer said; /* inside msg */
    zmq_msg_t msg;
} answer;

/* The place has not kept what it promised.  NONE: stay there all the same. */
static weft_status in_vain(client *c, enum weft__in_vain what)
{
    weft_status status = c->finder->in_vain(c->finder, &c->place, what, NULL);
    return status == WEFT_OK ? AGAIN : status;
}

static weft_status connect_for_good(client *c)
{
    weft_status status;
    c->link.world = c->r->world_size;
    status = weft__link_connect(&c->link, &c->place.at);
    if (!status) c->busy = c->known = false;
    return status;
}

/* To whom the relay that this rank leads is to speak.  To another one: this rank joins by its own from now on. */
static weft_status take_place(client *c, const weft__rendezvous_answer *said)
{
    weft__rendezvous_place place;
    weft__address above;
    if (!weft__relay_seeks(c->relay) || said->bytes != sizeof place) return WEFT_OK;
    memcpy(&place, said->payload, sizeof place);
    place.address[sizeof place.address - 1] = '\0';
    if (!place.port || weft__address_resolve(place.address, place.port, &above)) {
        weft__relay_go(c->relay, NULL, 0);
        if (place.port) say_join(c); /* it was sent elsewhere, and is nobody's member yet */
        return WEFT_OK;
    }
    weft__relay_go(c->relay, &above, c->link.silent_ms);
    weft__link_close(&c->link);
    c->link.through = true;
    return connect_for_good(c);
}

static weft_status server_gone(const client *c)
{
    return weft__fail(WEFT_ERR_PEER, "the rank that serves at %s has gone while the job was starting",
                      c->place.text);
}

/* Takes one message.  OK: it is of that kind (and this step, for gathers); NONE: none such is here yet. */
static weft_status take_answer(client *c, enum weft__rendezvous_kind wanted, answer *a)
{
    const weft__rendezvous_header *h = &a->said.header;
    while (weft__link_take(&c->link, &a->msg, &a->said)) {
        if (h->kind == WEFT__RENDEZVOUS_FAILED) {
            c->told = true;
            return weft__rendezvous_answer_failure(&a->said);
        }
        if (c->link.joined && (h->kind == WEFT__RENDEZVOUS_ANOTHER || h->kind == WEFT__REGISTRY_BUSY))
            return server_gone(c); /* another run's has its address now */
        if (h->kind == WEFT__RENDEZVOUS_ANOTHER) return in_vain(c, WEFT__ANOTHER);
        if (h->kind == WEFT__REGISTRY_BUSY) {
            weft_status status = in_vain(c, WEFT__COMPLETE);
            if (status != NONE) return status;
            c->busy = true;
            weft__relay_go(c->relay, NULL, 0); /* its ranks are to hear that too */
        }
        if (h->kind == WEFT__RENDEZVOUS_PLACED) {
            const weft_status status = take_place(c, &a->said);
            if (status) return status;
        }
        if (h->kind == wanted && (wanted != WEFT__RENDEZVOUS_GATHERED || h->step == c->step)) return WEFT_OK;
    }
    return NONE;
}

/* ---- connecting ---- */

/* A moment, or until the finder has heard something. */
static void via_server_rest(client *c)
{
    struct pollfd item = {.fd = c->finder->fd, .events = POLLIN};
    c->rest_ms = !c->rest_ms ? 1 : c->rest_ms < RETRY_MS / 2 ? 2 * c->rest_ms : RETRY_MS;
    poll(&item, 1, c->rest_ms);
}

/* ---- what the connection tells ---- */

/* It takes us for no member of the job.  NONE: that is final, as it is where no time is left to see whether
 * it goes on. */
static weft_status turned_down(client *c)
{
    int64_t now_ns = weft__now_ns(), until_ns;
    weft_status status;
    if (c->link.joined || c->server) return NONE;
    if ((status = in_vain(c, WEFT__REFUSED)) != NONE) return status;
    if (!c->refused_ns) c->refused_ns = now_ns;
    until_ns = weft__deadline(c->refused_ns, REFUSED_MS);
    return now_ns < until_ns && until_ns < c->r->deadline_ns ? AGAIN : NONE;
}

static weft_status refused(client *c)
{
    weft_status status = turned_down(c);
    if (status != NONE) return status;
    return weft__fail(
        WEFT_ERR_AUTH,
        "what serves at %s does not accept this rank: the job's secret or the job's name differs",
        c->place.text);
}

static weft_status not_ours(client *c)
{
    weft_status status = turned_down(c);
    if (status != NONE) return status;
    return weft__fail(
        WEFT_ERR_PEER,
        "%s is in use by something else: it speaks ZeroMQ, but without the job's kind of authentication",
        c->place.text);
}

/* Until it tells of an end or nothing more. */
static weft__link_news take_news(client *c)
{
    weft__link_news news;
    while ((news = weft__link_look(&c->link, c->server != NULL)) == WEFT__LINK_OPEN) go_on(c);
    return news;
}

/* ZeroMQ makes some again by itself, and others not: all are made anew. */
static weft_status mend_connection(client *c)
{
    weft__link_close(&c->link);
    via_server_rest(c);
    return connect_for_good(c);
}

/* AGAIN: the server vanished before all were there. */
static weft_status end_of_connection(client *c, weft__link_news news)
{
    switch (news) {
    case WEFT__LINK_BROKEN: return mend_connection(c);
    case WEFT__LINK_REFUSED: return refused(c);
    case WEFT__LINK_STRANGE: return not_ours(c);
    case WEFT__LINK_GONE: return c->link.joined ? server_gone(c) : in_vain(c, WEFT__GONE);
    default: return WEFT_OK;
    }
}

/* What a serving rank does for those who are still searching.  AGAIN: it has given up
 * serving, for another one. */
static weft_status take_turn(client *c)
{
    weft_status status = c->finder->turn(c->finder, &c->place);
    if (status == WEFT_PENDING)
        return weft__rendezvous_resign(c->server) ? AGAIN : WEFT_OK; /* complete: too late to */
    return status;
}

static bool may_be_relayed(const client *c)
{
    if (c->server || c->relay || c->relays_lost >= RELAYS) return false;
    return c->r->world_size <= 0 || c->r->world_size >= WEFT__RELAY_RANKS;
}

/* Whether there can be more hosts than may all speak to the server. */
static bool may_be_a_tree(const client *c)
{
    return c->r->world_size <= 0 || c->r->world_size > c->r->tree.hosts;
}

/* Before this rank says JOIN: leads its host, goes by the rank that does, or, where neither is possible or the job
 * is known to be small, alone. */
static void choose_way(client *c)
{
    weft_status status;
    if (c->link.through || !may_be_relayed(c)) return;
    status = weft__relay_open(c->link.context, c->r->keys, &c->place.at, may_be_a_tree(c) ? c->address : NULL,
                              c->r->world_size, &c->relay);
    c->link.through = status == WEFT_PENDING;
}

/* The relay has hung up, or does not take this rank, or is silent.  The server is where it was. */
static weft_status leave_relay(client *c)
{
    c->relays_lost++;
    c->misled = true;
    c->link.through = false;
    weft__link_close(&c->link);
    return connect_for_good(c);
}

/* Until when to wait before this is to be called again.  A relay that does not answer is left; one that was not asked,
 * for this rank had no processor, is asked first. */
static weft_status keep_in_touch(client *c, int64_t *until_ns)
{
    const int64_t now_ns = weft__now_ns();
    int64_t next_ns;
    if (!c->link.through) return WEFT_OK;
    if (!weft__link_is_asked(&c->link) && now_ns >= weft__link_patience_ns(&c->link)) {
        say(c, WEFT__RENDEZVOUS_STILL, WEFT_OK, NULL, 0);
        c->link.asked_ns = now_ns;
    }
    next_ns = weft__link_patience_ns(&c->link);
    if (now_ns >= next_ns) return leave_relay(c);
    if (next_ns < *until_ns) *until_ns = next_ns;
    return WEFT_OK;
}

/* ---- waiting ---- */

/* On the sockets that there are now: what was done before may have closed others. */
static void wait_for_news(const client *c, bool leads, int64_t until_ns)
{
    zmq_pollitem_t items[3] = {{.socket = c->link.dealer, .events = ZMQ_POLLIN},
                               {.socket = c->link.monitor, .events = ZMQ_POLLIN},
                               {.fd = c->finder->fd, .events = ZMQ_POLLIN}};
    zmq_poll(items, leads ? 3 : 2, weft__poll_ms(until_ns));
}

/* Waits for one kind of answer.  ERR_TIMEOUT comes without a sentence: the caller knows what it waited for. */
static weft_status await(client *c, enum weft__rendezvous_kind wanted, int64_t deadline_ns, answer *a)
{
    bool leads = c->server && c->finder->turn && wanted == WEFT__RENDEZVOUS_JOINED;
    for (;;) {
        int64_t until_ns = leads && c->finder->next_ns < deadline_ns ? c->finder->next_ns : deadline_ns;
        weft__link_news news = take_news(c);
        weft_status status = take_answer(c, wanted, a); /* one that came before the end counts more than it */
        if (status != NONE) return status;
        status = news && c->link.through ? leave_relay(c) : end_of_connection(c, news);
        if (status) return status;
        if ((status = keep_in_touch(c, &until_ns))) return status;
        if (leads && (status = take_turn(c))) return status;
        if (weft__now_ns() >= deadline_ns) return WEFT_ERR_TIMEOUT;
        wait_for_news(c, leads, until_ns);
    }
}

/* The server itself, where a relay does not answer, or has not answered lately: the server stays only so long. */
static weft_status ask_who_is_missing(client *c, answer *a)
{
    bool relayed = c->link.through;
    weft_status status = WEFT_ERR_TIMEOUT;
    c->waits.missing = true;
    if (!relayed || !weft__link_is_asked(&c->link)) {
        say(c, WEFT__RENDEZVOUS_ASK, WEFT_OK, NULL, 0);
        status = await(c, WEFT__RENDEZVOUS_MISSING,
                       weft__deadline(weft__now_ns(), relayed ? RELAYED_MS : ANSWER_MS), a);
    }
    if (status == WEFT_ERR_TIMEOUT && !c->told && relayed && (!c->link.through || !leave_relay(c)))
        status = await(c, WEFT__RENDEZVOUS_MISSING, weft__deadline(weft__now_ns(), ANSWER_MS), a);
    c->waits.missing = false;
    return status;
}

/* At the deadline: the server knows who is missing; the serving rank tells all. */
static weft_status time_is_up(client *c)
{
    char sentence[WEFT__SENTENCE_BYTES];
    answer a;
    const char *missing = "its server does not answer";
    int length = (int)strlen(missing);
    zmq_msg_init(&a.msg);
    if (c->busy) {
        missing = "another run of it is complete there, and no rank is free";
        length = (int)strlen(missing);
    } else {
        weft_status status = ask_who_is_missing(c, &a);
        if (c->told) {
            zmq_msg_close(&a.msg);
            return status;
        }
        if (!status) {
            missing = a.said.payload;
            length = (int)a.said.bytes;
        }
    }
    snprintf(sentence, sizeof sentence, "joining at %s: %.*s after %.1f s%s", c->place.text, length, missing,
             via_server_elapsed(c), c->place.note);
    zmq_msg_close(&a.msg);
    if (c->server || c->link.joined)
        say(c, WEFT__RENDEZVOUS_FAIL, WEFT_ERR_TIMEOUT, sentence, strlen(sentence));
    c->told = true;
    return weft__fail(WEFT_ERR_TIMEOUT, "%s", sentence);
}

/* ---- finding the place ---- */

/* Who leads this host has been greeted by the server: who finds its relay need not look itself. */
static bool via_server_is_relayed(client *c)
{
    weft__address own;
    if (c->misled || !may_be_relayed(c)) return false;
    if (!weft__relay_stands(c->r->keys, &c->place.at) || !weft__address_towards(&c->place.at, &own))
        return false;
    weft__address_text(&own, c->address);
    return true;
}

/* One try of the place.  OK: a server greets; NONE: not yet. */
static weft_status via_server_look(client *c)
{
    weft__probe probe;
    weft_status status;
    if ((c->link.through = via_server_is_relayed(c))) return WEFT_OK;
    weft__probe_look(&c->place.at, c->r->deadline_ns, &probe);
    if (probe.result == WEFT__PROBE_GREETED) {
        weft__address_text(&probe.local, c->address);
        return WEFT_OK;
    }
    c->refused_ns = 0;
    status = c->finder->in_vain(c->finder, &c->place, WEFT__NO_SERVER, &probe);
    return status ? status : NONE;
}

/* OK: we do; NONE: that address is not for us. */
static weft_status via_server_serve(client *c)
{
    weft_status status = weft__rendezvous_serve(c->link.context, &c->place.at, c->r->keys, c->id,
                                                c->place.nonce, c->r->world_size, &c->r->tree, &c->server);
    if (status == WEFT_PENDING) {
        status = c->finder->in_vain(c->finder, &c->place, WEFT__NOT_BOUND, NULL);
        return status ? status : NONE;
    }
    if (status) return status;
    weft__address_text(&c->place.at, c->address);
    return c->finder->serves(c->finder, &c->place);
}

/* Until we serve or a server greets us. */
static weft_status find_place(client *c)
{
    c->link.through = false;
    for (;;) {
        weft_status status = c->finder->look(c->finder, &c->place);
        if (status) return status;
        if (c->place.serve && (status = via_server_serve(c)) != NONE) return status;
        if (c->place.go && (status = via_server_look(c)) != NONE) return status;
        if (is_late(c)) return c->finder->late(c->finder, via_server_elapsed(c));
        via_server_rest(c);
    }
}

/* The server that we were with, or were ourselves, is not the one any more. */
static void leave_place(client *c)
{
    weft__link_close(&c->link);
    weft__relay_stop(c->relay, weft__now_ns());
    c->relay = NULL;
    c->relays_lost = 0; /* those of the next one are others */
    weft__rendezvous_stop(c->server, weft__now_ns());
    c->server = NULL;
}

static weft_status join_once(client *c)
{
    answer a;
    weft_status status;
    if ((status = find_place(c))) return status;
    choose_way(c);
    if ((status = connect_for_good(c))) return status;
    zmq_msg_init(&a.msg);
    status = await(c, WEFT__RENDEZVOUS_JOINED, c->r->deadline_ns, &a);
    if (!status) {
        c->link.joined = true;
        weft__relay_go(c->relay, NULL, 0); /* where its place has not been told: it is too late for another */
        status = weft__rendezvous_answer_welcome(&a.said, c->r->rank, c->r->world_size);
    }
    if (!status) {
        weft__via_nonce(c->r, a.said.payload);
        memcpy(c->place.nonce, a.said.payload,
               sizeof c->place.nonce); /* no other run's server, from now on */
        c->r->rank = a.said.header.rank;
        c->r->world_size = a.said.header.world;
    }
    zmq_msg_close(&a.msg);
    if (status == AGAIN) leave_place(c);
    return status == WEFT_ERR_TIMEOUT && !c->told ? time_is_up(c) : status;
}

static weft_status via_server_join(client *c)
{
    weft_status status = weft__zmq_take(&c->link.context);
    if (status) return status;
    while ((status = join_once(c)) == AGAIN && !is_late(c)) via_server_rest(c);
    if (status == AGAIN)
        status = weft__fail(WEFT_ERR_TIMEOUT, "joining at %s: the server there went away after %.1f s",
                            c->place.text, via_server_elapsed(c));
    c->step = 1;
    return status ? status : c->finder->met(c->finder);
}

/* ---- gathering, failing, leaving ---- */

static weft_status all_gather(void *state, const void *in, void *out, size_t bytes_each, size_t alike)
{
    client *c = state;
    size_t world = (size_t)c->r->world_size;
    weft_status status;
    void *room;
    answer a;
    if (bytes_each > WEFT__RENDEZVOUS_BLOCK_MAX || bytes_each * world > WEFT__RENDEZVOUS_TOTAL_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%zu bytes from each of %d ranks are too many to gather while joining", bytes_each,
                          c->r->world_size);
    room = malloc(weft__bundle_room(world, bytes_each)); /* as long as all others wait for this rank's part */
    if (!room) return weft__fail_memory(weft__bundle_room(world, bytes_each), "joining");
    c->waits.block = bytes_each ? in : "";
    c->waits.bytes = bytes_each;
    c->waits.alike = alike;
    say_gather(c);
    zmq_msg_init(&a.msg);
    status = await(c, WEFT__RENDEZVOUS_GATHERED, c->r->deadline_ns, &a);
    if (!status) status = weft__rendezvous_answer_blocks(&a.said, world, bytes_each, room, out);
    free(room);
    zmq_msg_close(&a.msg);
    if (status == WEFT_ERR_TIMEOUT && !c->told) status = time_is_up(c);
    c->waits.block = NULL;
    c->step++;
    return status;
}

/* Before a last word, which nothing answers: a relay that has gone, or has not been heard lately, may not hand it on.
 * Then this rank is known to the server itself when this returns, where that is possible.  What went wrong here is no
 * news: this thread's last sentence stays. */
static void be_heard(client *c)
{
    char sentence[WEFT__SENTENCE_BYTES];
    answer a;
    if (!c->link.through || !c->link.joined || !c->link.dealer) return;
    if (!take_news(c) && !weft__link_is_asked(&c->link) && weft__now_ns() < weft__link_patience_ns(&c->link))
        return;
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    zmq_msg_init(&a.msg);
    if (!leave_relay(c))
        (void)await(c, WEFT__RENDEZVOUS_JOINED, weft__deadline(weft__now_ns(), ANSWER_MS), &a);
    zmq_msg_close(&a.msg);
    weft__fail(WEFT_ERR_PEER, "%s", sentence);
}

static void tell_failure(void *state, weft_status status, const char *why)
{
    client *c = state;
    if (!c->link.dealer || c->told) return;
    be_heard(c);
    if (c->link.dealer && !c->told) say(c, WEFT__RENDEZVOUS_FAIL, status, why, strlen(why));
    c->told = true;
}

static void say_goodbye(client *c)
{
    be_heard(c);
    if (c->link.dealer && c->known) say(c, WEFT__RENDEZVOUS_DONE, WEFT_OK, NULL, 0);
    weft__link_close(&c->link);
}

static void be_done(void *state)
{
    client *c = state;
    c->has_all = true;
    say_goodbye(c);
    weft__relay_finish(c->relay);
}

/* Gives the server back only when all others have got their last answer, as who has left the job has: those behind a relay that stands still ask for
 * it themselves once they have noticed.  A failure does not keep weft_init
 * long past its deadline: who comes later finds nobody. */
static void via_server_leave(void *state)
{
    client *c = state;
    const int64_t now_ns = weft__now_ns();
    const int hidden_ms = weft__rendezvous_is_relayed(c->server) ? c->r->relay_silent_ms : 0;
    int64_t until_ns = weft__deadline(now_ns, hidden_ms + GOODBYE_MS);
    int64_t end_ns = c->r->deadline_ns > now_ns ? c->r->deadline_ns : now_ns;
    if (!c->has_all && end_ns < until_ns && weft__deadline(end_ns, FAILED_MS) < until_ns)
        until_ns = weft__deadline(end_ns, FAILED_MS);
    say_goodbye(c);
    weft__relay_go(c->relay, NULL,
                   0); /* where it has been told no place: its ranks are to hear what went wrong */
    weft__relay_stop(c->relay, until_ns);
    if (c->r->gone) weft__rendezvous_spare(c->server, c->r->gone, c->r->world_size);
    weft__rendezvous_stop(c->server, until_ns);
    if (c->link.context) weft__zmq_give();
    c->finder->close(c->finder); /* last: until here this rank has its part in the meeting */
    free(c);
}

static const weft__via at_server = {all_gather, tell_failure, be_done, via_server_leave};

weft_status weft__via_at_server(weft__rendezvous *r, weft__finder *finder)
{
    client *c = calloc(1, sizeof *c);
    weft_status status;
    if (!c) {
        finder->close(finder);
        return weft__fail_memory(sizeof *c, "joining");
    }
    c->r = r;
    c->link.keys = r->keys;
    c->link.silent_ms = r->relay_silent_ms;
    c->finder = finder;
    r->way = &at_server;
    r->state = c;
    randombytes_buf(c->id, sizeof c->id);
    if ((status = via_server_join(c))) return status;
    if (!*r->address) memcpy(r->address, c->address, sizeof r->address);
    return WEFT_OK;
}
