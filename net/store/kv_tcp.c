/* kv_tcp.c - a store at tcp://HOST:PORT: serve it if the address is ours and free, else connect.
 *
 *   1. bind and serve; or, if it is taken or not ours,
 *   2. connect plainly and read the first bytes: a ZeroMQ greeting, or something else that holds the port;
 *   3. connect for good and prove the secret (CURVE).
 * Back to 1 when nobody is there, until the deadline.  A process that is connected to the place already
 * shares that connection. */
#include "address.h"
#include "clock.h"
#include "keys.h"
#include "kv_link.h"
#include "kv_server.h"
#include "kv_wire.h"
#include "probe.h"
#include "settings.h"
#include "status.h"
#include "zap.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define RETRY_MS 20          /* between two tries of an address where nobody listens */
#define LOOK_MS  1000        /* what one try may take, whatever the deadline */
#define REFUSALS 3           /* failed handshakes in a row that mean a wrong secret */
#define PURPOSE  "\x01store" /* in the place of a job's name: no job shares its keys with a store */

typedef struct tcp_store {
    weft__kv kv;
    char host[WEFT__HOST_NAME_BYTES];
    int port;
    weft__keys *keys;
    weft__address place;
    char place_text[WEFT__ADDRESS_BYTES], endpoint[WEFT__ADDRESS_BYTES + 32];
    char directory[PATH_MAX]; /* of the secret that was made for it */
    int directory_fd;
    int64_t began_ns, deadline_ns;
    bool may_serve;
    weft__kv_server *server; /* NULL: somebody else serves */
    weft__kv_link *link;
} tcp_store;

/* ---- connecting ---- */

static weft_status refused(const tcp_store *s)
{
    return weft__fail(WEFT_ERR_AUTH,
                      "what serves at %s port %d does not accept this secret, or is not a store",
                      s->place_text, s->port);
}

static weft_status taken_by_other(const tcp_store *s, const char *how)
{
    return weft__fail(WEFT_ERR_PEER, "%s port %d is in use by something that is not a store: %s",
                      s->place_text, s->port, how);
}

/* OK: the handshake is done; PENDING: nothing has happened yet, or it has gone again (*gone). */
static weft_status take_event(const tcp_store *s, weft__kv_socket *socket, int *refusals, bool *gone)
{
    unsigned char frame[6];
    char where[256];
    while (zmq_recv(socket->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == sizeof frame) {
        uint16_t event;
        uint32_t value;
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + 2, sizeof value);
        zmq_recv(socket->monitor, where, sizeof where, 0);
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return WEFT_OK;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return refused(s);
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            if (value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
                return taken_by_other(s, "it speaks ZeroMQ, but without a store's kind of authentication");
            return refused(s);
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: /* it hung up: a wrong key, or it ended just now */
            if (++*refusals >= REFUSALS) return refused(s);
            *gone = true;
            break;
        case ZMQ_EVENT_DISCONNECTED:
        case ZMQ_EVENT_CLOSED: *gone = true; break;
        default: break;
        }
    }
    return WEFT_PENDING;
}

/* PENDING: it is not there any more. */
static weft_status shake_hands(const tcp_store *s, weft__kv_socket *socket, int *refusals)
{
    int64_t look_ns = weft__deadline(weft__now_ns(), LOOK_MS);
    int64_t deadline_ns = s->deadline_ns > look_ns ? s->deadline_ns : look_ns;
    weft_status status;
    bool gone = false;
    while ((status = take_event(s, socket, refusals, &gone)) == WEFT_PENDING && !gone) {
        zmq_pollitem_t item = {.socket = socket->monitor, .events = ZMQ_POLLIN};
        if (weft__now_ns() >= deadline_ns)
            return weft__fail(WEFT_ERR_TIMEOUT,
                              "the store at %s port %d has not finished its greeting after %.1f s",
                              s->place_text, s->port, (double)(weft__now_ns() - s->began_ns) / 1e9);
        zmq_poll(&item, 1, weft__poll_ms(deadline_ns));
    }
    return status;
}

static weft_status make_socket(const tcp_store *s, weft__kv_socket *socket)
{
    static _Atomic unsigned made;
    char events[64];
    int never = -1, unlimited = 0;
    weft_status status = weft__zmq_take(&socket->context);
    if (status) return status;
    socket->dealer =
        weft__zmq_socket(socket->context, ZMQ_DEALER, false, s->place.any.sa_family == AF_INET6, s->keys);
    if (!socket->dealer) return WEFT_ERR_SYSTEM;
    snprintf(events, sizeof events, "inproc://weft-kv-link-%u", made++);
    socket->monitor = zmq_socket(socket->context, ZMQ_PAIR);
    /* A connection that ends stays ended: what the server held has ended with it.  No queue has a limit:
     * there is one message for each call that waits. */
    if (!socket->monitor || zmq_setsockopt(socket->dealer, ZMQ_RECONNECT_IVL, &never, sizeof never) ||
        zmq_setsockopt(socket->dealer, ZMQ_SNDHWM, &unlimited, sizeof unlimited) ||
        zmq_setsockopt(socket->dealer, ZMQ_RCVHWM, &unlimited, sizeof unlimited) ||
        weft__zmq_monitor(socket->dealer, events, ZMQ_EVENT_ALL) ||
        weft__zmq_connect(socket->monitor, events) || weft__zmq_connect(socket->dealer, s->endpoint))
        return weft__fail(WEFT_ERR_SYSTEM, "cannot connect to %s: %s", s->endpoint, zmq_strerror(errno));
    return WEFT_OK;
}

/* It peeks at no call: that has no answer, but whoever has not said a word is a stranger to the server. */
static void say_a_word(weft__kv_socket *socket)
{
    weft__kv_request peek = {.magic = WEFT__KV_MAGIC, .version = WEFT__KV_VERSION, .kind = WEFT__KV_PEEK};
    while (zmq_send(socket->dealer, &peek, sizeof peek, ZMQ_DONTWAIT) < 0 && errno == EINTR) continue;
}

static weft_status connect_for_good(const tcp_store *s, weft__kv_socket *socket, int *refusals)
{
    weft_status status = make_socket(s, socket);
    if (status == WEFT_OK) status = shake_hands(s, socket, refusals);
    if (status == WEFT_OK)
        say_a_word(socket);
    else
        weft__kv_socket_close(socket);
    return status;
}

/* ---- finding the place ---- */

static weft_status nobody(const tcp_store *s, enum weft__probe_result seen, const char *why)
{
    const char *how = "nobody serves a store there";
    if (seen == WEFT__PROBE_CLOSED) how = "every connection is closed before a greeting";
    if (seen == WEFT__PROBE_NO_ANSWER) how = "the host does not answer";
    if (seen == WEFT__PROBE_SILENT)
        how = "it accepts connections but does not greet: something else is there, or its server gets no "
              "processor; given up";
    return weft__fail(WEFT_ERR_TIMEOUT, "%s: %s after %.1f s%s", s->kv.name, how,
                      (double)(weft__now_ns() - s->began_ns) / 1e9, why);
}

/* One try: who is there?  OK: a ZeroMQ greeting; PENDING: nobody yet, and *seen is what to say of that in the end.  A silent
 * one may be a server that a busy machine keeps from greeting. */
static weft_status kv_tcp_look(const tcp_store *s, enum weft__probe_result *seen)
{
    int64_t look_ns = weft__deadline(weft__now_ns(), LOOK_MS);
    weft__probe probe;
    weft__probe_look(&s->place, s->deadline_ns > look_ns ? s->deadline_ns : look_ns, &probe);
    switch (probe.result) {
    case WEFT__PROBE_GREETED: return WEFT_OK;
    case WEFT__PROBE_STRANGE: return taken_by_other(s, "its first bytes are not a ZeroMQ greeting");
    case WEFT__PROBE_UNREACHABLE:
        return weft__fail(WEFT_ERR_PEER, "host %s (%s) cannot be reached: %s", s->host, s->place_text,
                          strerror(probe.error));
    case WEFT__PROBE_NO_ANSWER:
        return WEFT_PENDING; /* the deadline has cut it short: an earlier one knows better */
    default: *seen = probe.result; return WEFT_PENDING;
    }
}

static weft_status find_place(void *arg, weft__kv_socket *socket)
{
    tcp_store *s = arg;
    enum weft__probe_result seen = WEFT__PROBE_NO_ANSWER;
    char why[128] = "";
    int refusals = 0;
    for (;;) {
        int port = s->port;
        weft_status status = WEFT_PENDING;
        if (s->server)
            status = WEFT_OK;
        else if (s->may_serve && (status = weft__kv_serve(s->place_text, &port, s->keys, &s->server)))
            snprintf(why, sizeof why, ", and this host cannot: %s", zmq_strerror(errno));
        if (status == WEFT_PENDING) status = kv_tcp_look(s, &seen);
        if (status == WEFT_OK) status = connect_for_good(s, socket, &refusals);
        if (status != WEFT_PENDING) return status;
        if (weft__now_ns() >= s->deadline_ns) return nobody(s, seen, why);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * WEFT__MS}, NULL);
    }
}

/* ---- opening ---- */

static weft_status find_secret(tcp_store *s, const char *source, weft__secret *secret)
{
    char id[32];
    weft_status status;
    if (!source || !*source) source = weft__setting_text(WEFT__SET_SECRET);
    if (*source) return weft__secret_take(source, PURPOSE, "", secret);
    if (!weft__address_is_loopback(&s->place))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s (%s) can be reached from other hosts, and the store has no secret: give "
                          "\"file:PATH\" or set WEFT_SECRET, or open it at 127.0.0.1",
                          s->host, s->place_text);
    snprintf(id, sizeof id, "store-%d", s->port);
    status = weft__job_dir_open(id, s->directory, sizeof s->directory, &s->directory_fd);
    return status ? status : weft__secret_of_job(s->directory, secret);
}

static weft_status find_address(tcp_store *s, const char *url)
{
    const char *why = weft__address_split(url + strlen("tcp://"), s->host, &s->port);
    weft_status status;
    if (why) return weft__fail(WEFT_ERR_ARGUMENT, "store \"%s\": %s; expected tcp://HOST:PORT", url, why);
    if ((status = weft__address_resolve(s->host, s->port, &s->place)) != WEFT_OK) return status;
    weft__address_text(&s->place, s->place_text);
    weft__address_endpoint(s->place_text, &s->port, s->endpoint, sizeof s->endpoint);
    return WEFT_OK;
}

static weft_status find_keys(tcp_store *s, const char *source)
{
    weft__secret secret;
    weft_status status = find_secret(s, source, &secret);
    if (status != WEFT_OK) return status;
    status = weft__keys_make(secret.bytes, secret.length, PURPOSE, &s->keys);
    weft__secret_wipe(&secret);
    return status;
}

static weft_status perform(weft__kv *kv, const weft__kv_call *call, weft__kv_result *result)
{
    return weft__kv_link_perform(WEFT__OWNER(kv, tcp_store, kv)->link, call, result);
}

/* The connection first: a server alone need not wait for others. */
static void close_store(weft__kv *kv)
{
    tcp_store *s = WEFT__OWNER(kv, tcp_store, kv);
    if (s->link) weft__kv_link_give(s->link);
    weft__kv_server_stop(s->server);
    if (s->directory_fd >= 0) close(s->directory_fd);
    weft__keys_drop(s->keys);
    free(s);
}

/* keys: NULL, or those of a server that is there already; source: of the secret, where there are none. */
static weft_status open_store(const char *url, weft__keys *keys, const char *source, int64_t deadline_ns,
                              weft__kv **kv)
{
    static const weft__kv_ops ops = {perform, close_store};
    tcp_store *s = calloc(1, sizeof *s);
    weft_status status;
    if (!s) return weft__fail_memory(sizeof *s, "a store");
    s->kv.ops = &ops;
    s->directory_fd = -1;
    s->began_ns = weft__now_ns();
    s->deadline_ns = deadline_ns;
    s->may_serve = !keys;
    snprintf(s->kv.name, sizeof s->kv.name, "%s", url);
    status = find_address(s, url);
    if (status == WEFT_OK && keys)
        s->keys = weft__keys_take(keys);
    else if (status == WEFT_OK)
        status = find_keys(s, source);
    if (status == WEFT_OK)
        status = weft__kv_link_take(s->endpoint, s->keys, deadline_ns, find_place, s, &s->link);
    if (status == WEFT_OK)
        *kv = &s->kv;
    else
        close_store(&s->kv);
    return status;
}

weft_status weft__kv_open_tcp(const char *url, const char *secret, int64_t deadline_ns, weft__kv **kv)
{
    return open_store(url, NULL, secret, deadline_ns, kv);
}

weft_status weft__kv_connect(const char *endpoint, weft__keys *keys, int64_t deadline_ns, weft__kv **kv)
{
    return open_store(endpoint, keys, NULL, deadline_ns, kv);
}
