/* rendezvous.c - the client's side of joining: find the place, serve it if nobody does, say who we are,
 * gather.
 *
 *   1. bind HOST:PORT and serve; or, if it is taken or not ours,
 *   2. connect plainly and look at the first bytes: a ZeroMQ greeting, or something else that holds the port;
 *   3. connect for good, prove the secret (CURVE), say JOIN, and wait until all are there.
 * Back to 1 when the server vanishes before that.  Every wait ends at the deadline; then the server is asked
 * who is missing.  The connection's own events tell a wrong secret and a server that has gone. */
#include "rendezvous.h"
#include "address.h"
#include "clock.h"
#include "probe.h"
#include "settings.h"
#include "status.h"
#include "store.h"
#include "url.h"
#include "zap.h"

#include <errno.h>
#include <limits.h>
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

struct weft__rendezvous {
    weft__url url;
    weft__keys keys;
    weft__address place;
    char place_text[WEFT__ADDRESS_BYTES];
    char address[WEFT__ADDRESS_BYTES];
    char job_dir[PATH_MAX];
    char nonce[33];
    int job_dir_fd;
    int64_t started_ns, deadline_ns;

    uint8_t id[WEFT__STORE_ID_BYTES];
    void *context; /* NULL: a world of one that meets nobody */
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
};

static double elapsed(const weft__rendezvous *r)
{
    return (double)(weft__now_ns() - r->started_ns) / 1e9;
}

static bool is_late(const weft__rendezvous *r)
{
    return weft__now_ns() >= r->deadline_ns;
}

/* ---- words to and from the server ---- */

static void say(weft__rendezvous *r, enum weft__store_kind kind, weft_status status, const void *payload,
                size_t bytes)
{
    weft__store_header h = {WEFT__STORE_MAGIC, WEFT__STORE_VERSION, (uint16_t)kind, {0},
                            r->url.rank,       r->url.world_size,   status,         r->step};
    zmq_msg_t msg;
    if (kind == WEFT__STORE_JOIN)
        h.step = r->attempts; /* one from a connection given up may arrive after this */
    memcpy(h.client, r->id, sizeof h.client);
    if (zmq_msg_init_size(&msg, sizeof h + bytes))
        return; /* not said: the deadline ends the wait for an answer */
    memcpy(zmq_msg_data(&msg), &h, sizeof h);
    if (bytes) memcpy((char *)zmq_msg_data(&msg) + sizeof h, payload, bytes);
    while (zmq_msg_send(&msg, r->dealer, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) {
            zmq_msg_close(&msg);
            return;
        }
}

static void say_join(weft__rendezvous *r)
{
    weft__store_who who = {.pid = (int32_t)getpid()};
    weft__host_id(who.host_id);
    if (gethostname(who.host, sizeof who.host - 1)) memcpy(who.host, "?", 2);
    say(r, WEFT__STORE_JOIN, WEFT_OK, &who, sizeof who);
    r->known = true;
}

typedef struct answer {
    weft__store_header header;
    const void *payload; /* inside msg */
    size_t bytes;
    zmq_msg_t msg;
} answer;

/* Takes one message.  OK: it is of that kind (and this step, for gathers); AGAIN: none such is here yet. */
static weft_status take_answer(weft__rendezvous *r, enum weft__store_kind wanted, answer *a)
{
    while (zmq_msg_recv(&a->msg, r->dealer, ZMQ_DONTWAIT) >= 0) {
        size_t bytes = zmq_msg_size(&a->msg);
        if (zmq_msg_more(&a->msg) || bytes < sizeof a->header) continue;
        memcpy(&a->header, zmq_msg_data(&a->msg), sizeof a->header);
        if (a->header.magic != WEFT__STORE_MAGIC || a->header.version != WEFT__STORE_VERSION) continue;
        a->payload = (const char *)zmq_msg_data(&a->msg) + sizeof a->header;
        a->bytes = bytes - sizeof a->header;
        if (a->header.kind == WEFT__STORE_FAILED) {
            r->told = true;
            return weft__fail(a->header.status < 0 ? a->header.status : WEFT_ERR_SYSTEM, "%.*s",
                              (int)a->bytes, (const char *)a->payload);
        }
        if (a->header.kind == WEFT__STORE_BUSY) r->busy = true;
        if (a->header.kind == wanted && (wanted != WEFT__STORE_GATHERED || a->header.step == r->step))
            return WEFT_OK;
    }
    return AGAIN;
}

/* ---- what the connection tells ---- */

/* One event, 0 if none is there. */
static int take_event(weft__rendezvous *r, uint32_t *value)
{
    unsigned char frame[6];
    uint16_t event;
    char where[256];
    if (zmq_recv(r->monitor, frame, sizeof frame, ZMQ_DONTWAIT) != sizeof frame) return 0;
    zmq_recv(r->monitor, where, sizeof where, 0);
    memcpy(&event, frame, sizeof event);
    memcpy(value, frame + 2, sizeof *value);
    return event;
}

static weft_status refused(const weft__rendezvous *r)
{
    return weft__fail(
        WEFT_ERR_AUTH,
        "what serves at %s port %d does not accept this rank: the job's secret or the job's name differs",
        r->place_text, r->url.port);
}

static weft_status server_gone(const weft__rendezvous *r)
{
    return weft__fail(WEFT_ERR_PEER, "the rank that serves at %s port %d has gone while the job was starting",
                      r->place_text, r->url.port);
}

static weft_status taken_by_other(const weft__rendezvous *r, const char *how)
{
    return weft__fail(WEFT_ERR_PEER, "%s port %d is in use by something else: %s", r->place_text, r->url.port,
                      how);
}

/* OK: nothing that matters; AGAIN: the server vanished before all were there, so look for the place once
 * more. */
static weft_status take_events(weft__rendezvous *r)
{
    uint32_t value;
    for (int event; (event = take_event(r, &value));) {
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            r->refusals = 0;
            if (!r->joined) say_join(r);
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return refused(r);
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
                return taken_by_other(r, "it speaks ZeroMQ, but without the job's kind of authentication");
            return refused(r);
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: /* it hung up: a wrong key, or its process ended just now
                                                    */
            if (++r->refusals >= REFUSALS) return refused(r);
            break;
        case ZMQ_EVENT_DISCONNECTED: /* also follows a failed handshake, which is counted above */
            if (r->joined) return server_gone(r);
            if (r->refusals == 0 && !r->server) return AGAIN;
            break;
        case ZMQ_EVENT_CLOSED: /* nobody listens there any more */
            if (r->joined) return server_gone(r);
            if (!r->server) return AGAIN;
            break;
        default: break;
        }
    }
    return WEFT_OK;
}

/* Waits for one kind of answer.  ERR_TIMEOUT comes without a sentence: the caller knows what it waited for.
 */
static weft_status await(weft__rendezvous *r, enum weft__store_kind wanted, int64_t deadline_ns, answer *a)
{
    for (;;) {
        zmq_pollitem_t items[2] = {{.socket = r->dealer, .events = ZMQ_POLLIN},
                                   {.socket = r->monitor, .events = ZMQ_POLLIN}};
        weft_status status =
            take_answer(r, wanted, a); /* before the events: an answer may stand before the end */
        if (status != AGAIN) return status;
        status = take_events(r);
        if (status == AGAIN || status < 0) return status;
        if (weft__now_ns() >= deadline_ns) return WEFT_ERR_TIMEOUT;
        zmq_poll(items, 2, weft__poll_ms(deadline_ns));
    }
}

/* At the deadline: the server knows who is missing; the serving rank tells all. */
static weft_status time_is_up(weft__rendezvous *r)
{
    char sentence[WEFT__SENTENCE_BYTES];
    answer a;
    const char *missing = "its server does not answer";
    int length = (int)strlen(missing);
    zmq_msg_init(&a.msg);
    if (r->busy) {
        missing = "another run of it is complete there, and no rank is free";
        length = (int)strlen(missing);
    } else {
        say(r, WEFT__STORE_ASK, WEFT_OK, NULL, 0);
        weft_status status = await(r, WEFT__STORE_MISSING, weft__now_ns() + ANSWER_MS * WEFT__MS, &a);
        if (r->told) {
            zmq_msg_close(&a.msg);
            return status;
        }
        if (!status) {
            missing = a.payload;
            length = (int)a.bytes;
        }
    }
    snprintf(sentence, sizeof sentence, "joining at %s port %d: %.*s after %.1f s", r->place_text,
             r->url.port, length, missing, elapsed(r));
    zmq_msg_close(&a.msg);
    if (r->server || r->joined) say(r, WEFT__STORE_FAIL, WEFT_ERR_TIMEOUT, sentence, strlen(sentence));
    r->told = true;
    return weft__fail(WEFT_ERR_TIMEOUT, "%s", sentence);
}

/* ---- connecting ---- */

static void disconnect(weft__rendezvous *r)
{
    if (r->dealer) {
        zmq_socket_monitor(r->dealer, NULL, 0);
        zmq_close(r->dealer);
    }
    if (r->monitor) zmq_close(r->monitor);
    r->dealer = r->monitor = NULL;
}

static weft_status connect_for_good(weft__rendezvous *r)
{
    static _Atomic unsigned made;
    char endpoint[WEFT__ADDRESS_BYTES + 32], events[64];
    int linger = LINGER_MS;
    snprintf(events, sizeof events, "inproc://weft-joining-%u", made++);
    weft__address_endpoint(r->place_text, &r->url.port, endpoint, sizeof endpoint);
    r->dealer = weft__zmq_socket(r->context, ZMQ_DEALER, false, r->place.any.sa_family == AF_INET6, &r->keys,
                                 WEFT__STORE_TOTAL_MAX + 4096);
    if (!r->dealer) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(r->dealer, ZMQ_LINGER, &linger, sizeof linger);
    r->monitor = zmq_socket(r->context, ZMQ_PAIR);
    if (!r->monitor || zmq_socket_monitor(r->dealer, events, ZMQ_EVENT_ALL) ||
        zmq_connect(r->monitor, events) || zmq_connect(r->dealer, endpoint)) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
        disconnect(r);
        return WEFT_ERR_SYSTEM;
    }
    r->attempts++;
    r->refusals = 0;
    r->busy = r->known = false;
    return WEFT_OK;
}

static weft_status nobody_listens(const weft__rendezvous *r, enum weft__probe_result seen, const char *why)
{
    const char *how = seen == WEFT__PROBE_CLOSED      ? "every connection is closed before a greeting"
                      : seen == WEFT__PROBE_NO_ANSWER ? "the host does not answer"
                                                      : "nobody listens there";
    return weft__fail(WEFT_ERR_TIMEOUT, "joining at %s port %d: %s after %.1f s%s%s", r->place_text,
                      r->url.port, how, elapsed(r), *why ? ", and this host cannot serve it: " : "", why);
}

/* One look at the place.  OK: a server greets; AGAIN: not yet. */
static weft_status look(weft__rendezvous *r, weft__probe *probe)
{
    weft__probe_look(&r->place, r->deadline_ns, probe);
    switch (probe->result) {
    case WEFT__PROBE_GREETED: weft__address_text(&probe->local, r->address); return WEFT_OK;
    case WEFT__PROBE_SILENT: /* one that is just ending may leave a connection unanswered */
        if (r->silences++ == 0) return AGAIN;
        return taken_by_other(r, "it accepts connections but does not greet");
    case WEFT__PROBE_STRANGE: return taken_by_other(r, "its first bytes are not a ZeroMQ greeting");
    case WEFT__PROBE_UNREACHABLE:
        return weft__fail(WEFT_ERR_PEER, "host %s (%s) cannot be reached: %s", r->url.host, r->place_text,
                          strerror(probe->error));
    default: return AGAIN;
    }
}

static weft_status serve(weft__rendezvous *r, weft__probe *probe)
{
    weft_status status =
        weft__store_serve(r->context, r->place_text, r->url.port, &r->keys, r->id, &r->server);
    probe->why[0] = '\0';
    if (status == WEFT_OK) memcpy(r->address, r->place_text, sizeof r->address);
    if (status == WEFT_PENDING && errno != EADDRINUSE && errno != EADDRNOTAVAIL && errno != ENODEV)
        snprintf(probe->why, sizeof probe->why, "%s", zmq_strerror(errno));
    return status;
}

/* Until we serve or a server greets us. */
static weft_status find_place(weft__rendezvous *r)
{
    int64_t held_back_ns = r->started_ns + (r->url.rank > 0 ? HOLD_BACK_MS : 0) * WEFT__MS;
    enum weft__probe_result seen = WEFT__PROBE_NO_ANSWER;
    weft__probe probe = {.why = ""};
    for (;;) {
        weft_status status = weft__now_ns() >= held_back_ns ? serve(r, &probe) : WEFT_PENDING;
        if (status != WEFT_PENDING) return status;
        status = look(r, &probe);
        if (status != AGAIN) return status;
        /* The last look may have been cut short by the deadline: an earlier one knows better. */
        if (probe.result != WEFT__PROBE_NO_ANSWER) seen = probe.result;
        if (is_late(r)) return nobody_listens(r, seen, probe.why);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * WEFT__MS}, NULL);
    }
}

static weft_status join_once(weft__rendezvous *r)
{
    answer a;
    weft_status status;
    if (!r->server && (status = find_place(r))) return status;
    if ((status = connect_for_good(r))) return status;
    zmq_msg_init(&a.msg);
    status = await(r, WEFT__STORE_JOINED, r->deadline_ns, &a);
    if (!status) {
        r->url.rank = a.header.rank;
        r->url.world_size = a.header.world;
        r->joined = true;
        sodium_bin2hex(r->nonce, sizeof r->nonce, a.payload, a.bytes == 16 ? 16 : 0);
    }
    zmq_msg_close(&a.msg);
    if (status == AGAIN) disconnect(r);
    return status == WEFT_ERR_TIMEOUT && !r->told ? time_is_up(r) : status;
}

static weft_status join(weft__rendezvous *r)
{
    weft_status status = weft__zmq_take(&r->context);
    if (status) return status;
    do {
        status = join_once(r);
    } while (status == AGAIN && !is_late(r));
    if (status == AGAIN)
        status =
            weft__fail(WEFT_ERR_TIMEOUT, "joining at %s port %d: the server there went away after %.1f s",
                       r->place_text, r->url.port, elapsed(r));
    r->step = 1;
    return status;
}

/* ---- opening ---- */

static weft_status find_secret(weft__rendezvous *r, const weft__join *join, weft__secret *secret)
{
    const char *source = join->secret && *join->secret ? join->secret : weft__setting_text(WEFT__SET_SECRET);
    if (*source) return weft__secret_read(source, secret);
    if (r->url.port && !weft__address_is_loopback(&r->place))
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "%s (%s) can be reached from other hosts, and the job has no secret: set WEFT_SECRET=file:PATH "
            "on every rank, or meet at 127.0.0.1",
            r->url.host, r->place_text);
    return weft__secret_of_job(r->job_dir, secret);
}

static weft_status prepare(weft__rendezvous *r, const weft__join *join)
{
    const char *interface = weft__setting_text(WEFT__SET_SOCKET_IFNAME);
    char id[128];
    weft__secret secret;
    weft_status status = weft__url_read(join->init_method, join->rank, join->world_size, &r->url);
    if (status) return status;
    if (r->url.port && (status = weft__address_resolve(r->url.host, r->url.port, &r->place))) return status;
    if (r->url.port)
        weft__address_text(&r->place, r->place_text);
    else
        memcpy(r->place_text, "127.0.0.1", sizeof "127.0.0.1");
    if (*interface &&
        (status = weft__address_of_interface(interface, r->url.port ? r->place.any.sa_family : AF_INET,
                                             r->address)))
        return status;
    snprintf(id, sizeof id, "%.100s-%s%d", join->job, r->url.port ? "" : "pid",
             r->url.port ? r->url.port : (int)getpid());
    if ((status = weft__job_dir_open(id, r->job_dir, sizeof r->job_dir, &r->job_dir_fd))) return status;
    if ((status = find_secret(r, join, &secret))) return status;
    status = weft__keys_derive(secret.bytes, secret.length, join->job, &r->keys);
    weft__secret_wipe(&secret);
    return status;
}

/* A world of one meets nobody. */
static void be_alone(weft__rendezvous *r)
{
    uint8_t nonce[16];
    randombytes_buf(nonce, sizeof nonce);
    sodium_bin2hex(r->nonce, sizeof r->nonce, nonce, sizeof nonce);
    if (!*r->address) memcpy(r->address, "127.0.0.1", sizeof "127.0.0.1");
    r->url.rank = 0;
}

weft_status weft__rendezvous_open(const weft__join *how, weft__rendezvous **out)
{
    weft__rendezvous *r = calloc(1, sizeof *r);
    char advertised[WEFT__ADDRESS_BYTES];
    weft_status status;
    if (!r) return weft__fail_memory(sizeof *r, "joining");
    r->job_dir_fd = -1;
    r->started_ns = weft__now_ns();
    r->deadline_ns = how->deadline_ns;
    if (sodium_init() < 0) {
        status = weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised");
        goto close;
    }
    randombytes_buf(r->id, sizeof r->id);
    if ((status = prepare(r, how))) goto close;
    if (r->url.world_size == 1) {
        be_alone(r);
    } else {
        memcpy(advertised, r->address,
               sizeof advertised); /* joining writes what it learns; the setting wins */
        if ((status = join(r))) goto close;
        if (*advertised) memcpy(r->address, advertised, sizeof advertised);
    }
    *out = r;
    return WEFT_OK;

close:
    weft__rendezvous_close(r);
    return status;
}

int weft__rendezvous_rank(const weft__rendezvous *r)
{
    return r->url.rank;
}

int weft__rendezvous_world(const weft__rendezvous *r)
{
    return r->url.world_size;
}

const weft__keys *weft__rendezvous_keys(const weft__rendezvous *r)
{
    return &r->keys;
}

const char *weft__rendezvous_address(const weft__rendezvous *r)
{
    return r->address;
}

const char *weft__rendezvous_job_dir(const weft__rendezvous *r)
{
    return r->job_dir;
}

const char *weft__rendezvous_nonce(const weft__rendezvous *r)
{
    return r->nonce;
}

/* ---- gathering, failing, leaving ---- */

weft_status weft__rendezvous_all_gather(void *rendezvous, const void *in, void *out, size_t bytes_each)
{
    weft__rendezvous *r = rendezvous;
    size_t total = bytes_each * (size_t)r->url.world_size;
    weft_status status;
    answer a;
    if (bytes_each > WEFT__STORE_BLOCK_MAX || total > WEFT__STORE_TOTAL_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%zu bytes from each of %d ranks are too many to gather while joining", bytes_each,
                          r->url.world_size);
    if (!r->context) {
        if (bytes_each) memcpy(out, in, bytes_each);
        return WEFT_OK;
    }
    say(r, WEFT__STORE_GATHER, WEFT_OK, in, bytes_each);
    zmq_msg_init(&a.msg);
    status = await(r, WEFT__STORE_GATHERED, r->deadline_ns, &a);
    if (!status && a.bytes != total)
        status = weft__fail(WEFT_ERR_MISMATCH, "the server sent %zu bytes instead of %zu", a.bytes, total);
    if (!status && total) memcpy(out, a.payload, total);
    zmq_msg_close(&a.msg);
    r->step++;
    return status == WEFT_ERR_TIMEOUT && !r->told ? time_is_up(r) : status;
}

void weft__rendezvous_fail(weft__rendezvous *r, weft_status status, const char *why)
{
    if (!r->dealer || r->told) return;
    say(r, WEFT__STORE_FAIL, status, why, strlen(why));
    r->told = true;
}

void weft__rendezvous_close(weft__rendezvous *r)
{
    if (!r) return;
    if (r->dealer && r->known) say(r, WEFT__STORE_DONE, WEFT_OK, NULL, 0);
    disconnect(r);
    weft__store_stop(r->server, weft__now_ns() + GOODBYE_MS * WEFT__MS);
    if (r->context) weft__zmq_give();
    if (r->job_dir_fd >= 0) close(r->job_dir_fd);
    sodium_memzero(&r->keys, sizeof r->keys);
    free(r);
}
