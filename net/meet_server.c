/* meet_server.c - meeting at a server: find the place, serve it if nobody does, say who we are, gather.
 *
 *   1. bind HOST:PORT and serve; or, if it is taken or not ours,
 *   2. connect plainly and look at the first bytes: a ZeroMQ greeting, or something else that holds the port;
 *   3. connect for good, prove the secret (CURVE), say JOIN, and wait until all are there.
 * Back to 1 when the server vanishes before that.  Every wait ends at the deadline; then the server is asked
 * who is missing.  The connection's own events tell a wrong secret and a server that has gone. */
#include "clock.h"
#include "meet.h"
#include "probe.h"
#include "status.h"
#include "store.h"
#include "zap.h"

#include <errno.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define RETRY_MS     20   /* between two looks at an address where nobody listens */
#define HOLD_BACK_MS 200  /* how long ranks other than 0 leave the serving to rank 0 */
#define ANSWER_MS    200  /* for "who is missing?", past the deadline */
#define LINGER_MS    250  /* for our last word */
#define GOODBYE_MS   2000 /* how long the serving rank stays for the others */
#define REFUSALS     3    /* failed handshakes in a row that mean a wrong secret */
#define AGAIN        WEFT_PENDING

typedef struct client {
    weft__rendezvous *r;
    char host[WEFT__HOST_BYTES]; /* as it was given */
    int port;
    weft__address place;
    char place_text[WEFT__ADDRESS_BYTES];
    char address[WEFT__ADDRESS_BYTES]; /* our end of the connection to it */

    uint8_t id[WEFT__STORE_ID_BYTES];
    void *context;
    void *dealer, *monitor;
    weft__store_server *server; /* on the serving rank */
    bool known;                 /* to the server: it waits for our last word */
    bool joined;
    uint32_t attempts; /* connections made so far */
    int silences;      /* times that the place accepted a connection and did not greet */
    bool busy;         /* the server's job is complete, without us */
    bool told;         /* a failure has come from, or gone to, the server */
    int refusals;
    uint32_t step;
} client;

static double elapsed(const client *c)
{
    return (double)(weft__now_ns() - c->r->started_ns) / 1e9;
}

static bool is_late(const client *c)
{
    return weft__now_ns() >= c->r->deadline_ns;
}

/* ---- words to and from the server ---- */

static void say(client *c, enum weft__store_kind kind, weft_status status, const void *payload, size_t bytes)
{
    weft__store_header h = {WEFT__STORE_MAGIC, WEFT__STORE_VERSION, (uint16_t)kind, {0},
                            c->r->rank,        c->r->world_size,    status,         c->step};
    zmq_msg_t msg;
    if (kind == WEFT__STORE_JOIN)
        h.step = c->attempts; /* one from a connection given up may arrive after this */
    memcpy(h.client, c->id, sizeof h.client);
    if (zmq_msg_init_size(&msg, sizeof h + bytes))
        return; /* not said: the deadline ends the wait for an answer */
    memcpy(zmq_msg_data(&msg), &h, sizeof h);
    if (bytes) memcpy((char *)zmq_msg_data(&msg) + sizeof h, payload, bytes);
    while (zmq_msg_send(&msg, c->dealer, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) {
            zmq_msg_close(&msg);
            return;
        }
}

static void say_join(client *c)
{
    weft__store_who who = {.pid = (int32_t)getpid()};
    weft__host_id(who.host_id);
    if (gethostname(who.host, sizeof who.host - 1)) memcpy(who.host, "?", 2);
    say(c, WEFT__STORE_JOIN, WEFT_OK, &who, sizeof who);
    c->known = true;
}

typedef struct answer {
    weft__store_header header;
    const void *payload; /* inside msg */
    size_t bytes;
    zmq_msg_t msg;
} answer;

/* Takes one message.  OK: it is of that kind (and this step, for gathers); AGAIN: none such is here yet. */
static weft_status take_answer(client *c, enum weft__store_kind wanted, answer *a)
{
    while (zmq_msg_recv(&a->msg, c->dealer, ZMQ_DONTWAIT) >= 0) {
        size_t bytes = zmq_msg_size(&a->msg);
        if (zmq_msg_more(&a->msg) || bytes < sizeof a->header) continue;
        memcpy(&a->header, zmq_msg_data(&a->msg), sizeof a->header);
        if (a->header.magic != WEFT__STORE_MAGIC || a->header.version != WEFT__STORE_VERSION) continue;
        a->payload = (const char *)zmq_msg_data(&a->msg) + sizeof a->header;
        a->bytes = bytes - sizeof a->header;
        if (a->header.kind == WEFT__STORE_FAILED) {
            c->told = true;
            return weft__fail(a->header.status < 0 ? a->header.status : WEFT_ERR_SYSTEM, "%.*s",
                              (int)a->bytes, (const char *)a->payload);
        }
        if (a->header.kind == WEFT__STORE_BUSY) c->busy = true;
        if (a->header.kind == wanted && (wanted != WEFT__STORE_GATHERED || a->header.step == c->step))
            return WEFT_OK;
    }
    return AGAIN;
}

/* ---- what the connection tells ---- */

/* One event, 0 if none is there. */
static int take_event(client *c, uint32_t *value)
{
    unsigned char frame[6];
    uint16_t event;
    char where[256];
    if (zmq_recv(c->monitor, frame, sizeof frame, ZMQ_DONTWAIT) != sizeof frame) return 0;
    zmq_recv(c->monitor, where, sizeof where, 0);
    memcpy(&event, frame, sizeof event);
    memcpy(value, frame + 2, sizeof *value);
    return event;
}

static weft_status refused(const client *c)
{
    return weft__fail(
        WEFT_ERR_AUTH,
        "what serves at %s port %d does not accept this rank: the job's secret or the job's name differs",
        c->place_text, c->port);
}

static weft_status server_gone(const client *c)
{
    return weft__fail(WEFT_ERR_PEER, "the rank that serves at %s port %d has gone while the job was starting",
                      c->place_text, c->port);
}

static weft_status taken_by_other(const client *c, const char *how)
{
    return weft__fail(WEFT_ERR_PEER, "%s port %d is in use by something else: %s", c->place_text, c->port,
                      how);
}

/* OK: nothing that matters; AGAIN: the server vanished before all were there, so look for the place once
 * more. */
static weft_status take_events(client *c)
{
    uint32_t value;
    for (int event; (event = take_event(c, &value));) {
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            c->refusals = 0;
            if (!c->joined) say_join(c);
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return refused(c);
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
                return taken_by_other(c, "it speaks ZeroMQ, but without the job's kind of authentication");
            return refused(c);
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: /* it hung up: a wrong key, or its process ended just now
                                                    */
            if (++c->refusals >= REFUSALS) return refused(c);
            break;
        case ZMQ_EVENT_DISCONNECTED: /* also follows a failed handshake, which is counted above */
            if (c->joined) return server_gone(c);
            if (c->refusals == 0 && !c->server) return AGAIN;
            break;
        case ZMQ_EVENT_CLOSED: /* nobody listens there any more */
            if (c->joined) return server_gone(c);
            if (!c->server) return AGAIN;
            break;
        default: break;
        }
    }
    return WEFT_OK;
}

/* Waits for one kind of answer.  ERR_TIMEOUT comes without a sentence: the caller knows what it waited for.
 */
static weft_status await(client *c, enum weft__store_kind wanted, int64_t deadline_ns, answer *a)
{
    for (;;) {
        zmq_pollitem_t items[2] = {{.socket = c->dealer, .events = ZMQ_POLLIN},
                                   {.socket = c->monitor, .events = ZMQ_POLLIN}};
        weft_status status =
            take_answer(c, wanted, a); /* before the events: an answer may stand before the end */
        if (status != AGAIN) return status;
        status = take_events(c);
        if (status == AGAIN || status < 0) return status;
        if (weft__now_ns() >= deadline_ns) return WEFT_ERR_TIMEOUT;
        zmq_poll(items, 2, weft__poll_ms(deadline_ns));
    }
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
        say(c, WEFT__STORE_ASK, WEFT_OK, NULL, 0);
        weft_status status = await(c, WEFT__STORE_MISSING, weft__now_ns() + ANSWER_MS * WEFT__MS, &a);
        if (c->told) {
            zmq_msg_close(&a.msg);
            return status;
        }
        if (!status) {
            missing = a.payload;
            length = (int)a.bytes;
        }
    }
    snprintf(sentence, sizeof sentence, "joining at %s port %d: %.*s after %.1f s", c->place_text, c->port,
             length, missing, elapsed(c));
    zmq_msg_close(&a.msg);
    if (c->server || c->joined) say(c, WEFT__STORE_FAIL, WEFT_ERR_TIMEOUT, sentence, strlen(sentence));
    c->told = true;
    return weft__fail(WEFT_ERR_TIMEOUT, "%s", sentence);
}

/* ---- connecting ---- */

static void disconnect(client *c)
{
    if (c->dealer) {
        zmq_socket_monitor(c->dealer, NULL, 0);
        zmq_close(c->dealer);
    }
    if (c->monitor) zmq_close(c->monitor);
    c->dealer = c->monitor = NULL;
}

static weft_status connect_for_good(client *c)
{
    static _Atomic unsigned made;
    char endpoint[WEFT__ADDRESS_BYTES + 32], events[64];
    int linger = LINGER_MS;
    snprintf(events, sizeof events, "inproc://weft-joining-%u", made++);
    weft__address_endpoint(c->place_text, &c->port, endpoint, sizeof endpoint);
    c->dealer = weft__zmq_socket(c->context, ZMQ_DEALER, false, c->place.any.sa_family == AF_INET6,
                                 &c->r->keys, WEFT__STORE_TOTAL_MAX + 4096);
    if (!c->dealer) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(c->dealer, ZMQ_LINGER, &linger, sizeof linger);
    c->monitor = zmq_socket(c->context, ZMQ_PAIR);
    if (!c->monitor || zmq_socket_monitor(c->dealer, events, ZMQ_EVENT_ALL) ||
        zmq_connect(c->monitor, events) || zmq_connect(c->dealer, endpoint)) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
        disconnect(c);
        return WEFT_ERR_SYSTEM;
    }
    c->attempts++;
    c->refusals = 0;
    c->busy = c->known = false;
    return WEFT_OK;
}

static weft_status nobody_listens(const client *c, enum weft__probe_result seen, const char *why)
{
    const char *how = seen == WEFT__PROBE_CLOSED      ? "every connection is closed before a greeting"
                      : seen == WEFT__PROBE_NO_ANSWER ? "the host does not answer"
                                                      : "nobody listens there";
    return weft__fail(WEFT_ERR_TIMEOUT, "joining at %s port %d: %s after %.1f s%s%s", c->place_text, c->port,
                      how, elapsed(c), *why ? ", and this host cannot serve it: " : "", why);
}

/* One look at the place.  OK: a server greets; AGAIN: not yet. */
static weft_status look(client *c, weft__probe *probe)
{
    weft__probe_look(&c->place, c->r->deadline_ns, probe);
    switch (probe->result) {
    case WEFT__PROBE_GREETED: weft__address_text(&probe->local, c->address); return WEFT_OK;
    case WEFT__PROBE_SILENT: /* one that is just ending may leave a connection unanswered */
        if (c->silences++ == 0) return AGAIN;
        return taken_by_other(c, "it accepts connections but does not greet");
    case WEFT__PROBE_STRANGE: return taken_by_other(c, "its first bytes are not a ZeroMQ greeting");
    case WEFT__PROBE_UNREACHABLE:
        return weft__fail(WEFT_ERR_PEER, "host %s (%s) cannot be reached: %s", c->host, c->place_text,
                          strerror(probe->error));
    default: return AGAIN;
    }
}

static weft_status serve(client *c, weft__probe *probe)
{
    weft_status status =
        weft__store_serve(c->context, c->place_text, c->port, &c->r->keys, c->id, &c->server);
    probe->why[0] = '\0';
    if (status == WEFT_OK) memcpy(c->address, c->place_text, sizeof c->address);
    if (status == WEFT_PENDING && errno != EADDRINUSE && errno != EADDRNOTAVAIL && errno != ENODEV)
        snprintf(probe->why, sizeof probe->why, "%s", zmq_strerror(errno));
    return status;
}

/* Until we serve or a server greets us. */
static weft_status find_place(client *c)
{
    int64_t held_back_ns = c->r->started_ns + (c->r->rank > 0 ? HOLD_BACK_MS : 0) * WEFT__MS;
    enum weft__probe_result seen = WEFT__PROBE_NO_ANSWER;
    weft__probe probe = {.why = ""};
    for (;;) {
        weft_status status = weft__now_ns() >= held_back_ns ? serve(c, &probe) : WEFT_PENDING;
        if (status != WEFT_PENDING) return status;
        status = look(c, &probe);
        if (status != AGAIN) return status;
        /* The last look may have been cut short by the deadline: an earlier one knows better. */
        if (probe.result != WEFT__PROBE_NO_ANSWER) seen = probe.result;
        if (is_late(c)) return nobody_listens(c, seen, probe.why);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * WEFT__MS}, NULL);
    }
}

static weft_status join_once(client *c)
{
    answer a;
    weft_status status;
    if (!c->server && (status = find_place(c))) return status;
    if ((status = connect_for_good(c))) return status;
    zmq_msg_init(&a.msg);
    status = await(c, WEFT__STORE_JOINED, c->r->deadline_ns, &a);
    if (!status) {
        c->r->rank = a.header.rank;
        c->r->world_size = a.header.world;
        c->joined = true;
        if (a.bytes == WEFT__RUN_NONCE_BYTES)
            weft__meet_nonce(c->r, a.payload);
        else
            status = weft__fail(WEFT_ERR_MISMATCH, "the server's welcome has %zu bytes instead of %d",
                                a.bytes, WEFT__RUN_NONCE_BYTES);
    }
    zmq_msg_close(&a.msg);
    if (status == AGAIN) disconnect(c);
    return status == WEFT_ERR_TIMEOUT && !c->told ? time_is_up(c) : status;
}

static weft_status join(client *c)
{
    weft_status status = weft__zmq_take(&c->context);
    if (status) return status;
    do {
        status = join_once(c);
    } while (status == AGAIN && !is_late(c));
    if (status == AGAIN)
        status =
            weft__fail(WEFT_ERR_TIMEOUT, "joining at %s port %d: the server there went away after %.1f s",
                       c->place_text, c->port, elapsed(c));
    c->step = 1;
    return status;
}

/* ---- gathering, failing, leaving ---- */

static weft_status all_gather(void *state, const void *in, void *out, size_t bytes_each)
{
    client *c = state;
    size_t total = bytes_each * (size_t)c->r->world_size;
    weft_status status;
    answer a;
    if (bytes_each > WEFT__STORE_BLOCK_MAX || total > WEFT__STORE_TOTAL_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%zu bytes from each of %d ranks are too many to gather while joining", bytes_each,
                          c->r->world_size);
    say(c, WEFT__STORE_GATHER, WEFT_OK, in, bytes_each);
    zmq_msg_init(&a.msg);
    status = await(c, WEFT__STORE_GATHERED, c->r->deadline_ns, &a);
    if (!status && a.bytes != total)
        status = weft__fail(WEFT_ERR_MISMATCH, "the server sent %zu bytes instead of %zu", a.bytes, total);
    if (!status && total) memcpy(out, a.payload, total);
    zmq_msg_close(&a.msg);
    c->step++;
    return status == WEFT_ERR_TIMEOUT && !c->told ? time_is_up(c) : status;
}

static void tell_failure(void *state, weft_status status, const char *why)
{
    client *c = state;
    if (!c->dealer || c->told) return;
    say(c, WEFT__STORE_FAIL, status, why, strlen(why));
    c->told = true;
}

/* Gives the server back only when all others have got their last answer. */
static void leave(void *state)
{
    client *c = state;
    if (c->dealer && c->known) say(c, WEFT__STORE_DONE, WEFT_OK, NULL, 0);
    disconnect(c);
    weft__store_stop(c->server, weft__now_ns() + GOODBYE_MS * WEFT__MS);
    if (c->context) weft__zmq_give();
    free(c);
}

static const weft__way at_server = {all_gather, tell_failure, leave};

/* ---- joining ---- */

/* Who can be reached from other hosts must be given a secret: one made here would only be known here. */
static weft_status check_secret(const client *c, const weft__join *how)
{
    if (*weft__meet_secret_source(how) || weft__address_is_loopback(&c->place)) return WEFT_OK;
    return weft__fail(WEFT_ERR_ARGUMENT,
                      "%s (%s) can be reached from other hosts, and the job has no secret: set "
                      "WEFT_SECRET=file:PATH on every rank, or meet at 127.0.0.1",
                      c->host, c->place_text);
}

static weft_status prepare(client *c, const weft__join *how)
{
    char id[128];
    weft_status status = weft__address_resolve(c->host, c->port, &c->place);
    if (status) return status;
    weft__address_text(&c->place, c->place_text);
    if ((status = weft__meet_address(c->r, c->place.any.sa_family))) return status;
    if ((status = check_secret(c, how))) return status;
    snprintf(id, sizeof id, "%.100s-%d", how->job, c->port);
    return weft__meet_keys(c->r, how, id);
}

weft_status weft__meet_at_server(weft__rendezvous *r, const weft__join *how, const weft__url *url)
{
    client *c = calloc(1, sizeof *c);
    weft_status status;
    if (!c) return weft__fail_memory(sizeof *c, "joining");
    c->r = r;
    memcpy(c->host, url->host, sizeof c->host);
    c->port = url->port;
    r->way = &at_server;
    r->state = c;
    randombytes_buf(c->id, sizeof c->id);
    if ((status = prepare(c, how))) return status;
    if (r->world_size == 1) {
        at_server.close(c);
        return weft__meet_nobody(r);
    }
    if ((status = join(c))) return status;
    if (!*r->address) memcpy(r->address, c->address, sizeof r->address);
    return WEFT_OK;
}
