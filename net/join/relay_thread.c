/* relay_thread.c - the thread of a relay (relay.h): its sockets, what it waits for, and its end. */
#include "clock.h"
#include "descriptor.h"
#include "keys.h"
#include "quota.h"
#include "relay.h"
#include "slices.h"
#include "status.h"
#include "zap.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RELAY_DESCRIPTORS 16 /* its sockets; and one for each rank of its host, and for each relay below it */
#define LAST_WORDS_MS     250 /* for what is still under way when its sockets close */
#define BACKLOG           1024 /* ranks that come at once; an abstract socket turns those away that are too many */

/* Made with a key of the job that goes over no wire: who does not know the secret cannot bind it before a relay has. */
void weft__relay_name(const weft__keys *keys, const weft__address *server, char name[WEFT__RELAY_NAME_BYTES])
{
    struct {
        char purpose[8], host_id[WEFT__HOST_ID_BYTES], address[WEFT__ADDRESS_BYTES];
        int port;
    } of;
    uint8_t hash[16];
    char text[2 * sizeof hash + 1];
    memset(&of, 0, sizeof of);
    memcpy(of.purpose, "relay", sizeof "relay");
    weft__host_id(of.host_id);
    weft__address_text(server, of.address);
    of.port = weft__address_port(server);
    crypto_generichash(hash, sizeof hash, (const uint8_t *)&of, sizeof of, keys->data, sizeof keys->data);
    sodium_bin2hex(text, sizeof text, hash, sizeof hash);
    snprintf(name, WEFT__RELAY_NAME_BYTES, "ipc://@weft-join-%s", text);
}

/* Whoever has learned the relay's name, which all on this host can see once it is bound, may have bound it since.  It
 * cannot prove the secret; but who of another user listens there is not even waited for. */
bool weft__relay_may_be_there(int fd)
{
    struct ucred owner;
    socklen_t bytes = sizeof owner;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) && owner.uid == geteuid();
}

bool weft__relay_stands(const weft__keys *keys, const weft__address *server)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX}; /* and a zero before its name */
    char endpoint[WEFT__RELAY_NAME_BYTES];
    const char *name = endpoint + strlen("ipc://@");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool stands;
    _Static_assert(sizeof endpoint <= sizeof at.sun_path, "it fits");
    if (fd < 0) return false;
    weft__relay_name(keys, server, endpoint);
    memcpy(at.sun_path + 1, name, strlen(name));
    stands = !connect(fd, (const struct sockaddr *)&at,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) &&
             weft__relay_may_be_there(fd);
    close(fd);
    return stands;
}

/* ---- what it hears ---- */

/* False: nothing is there.  Ends of connections are told before the next message is taken, so that who comes in
 * the place of one that has gone finds it free. */
static bool take_from_client(weft__relay *relay)
{
    weft__relayed from = {.fd = -1};
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (!weft__frame_take(relay->router, &frame)) {
        zmq_msg_close(&frame);
        return false;
    }
    from.route_bytes = zmq_msg_size(&frame);
    if (from.route_bytes <= sizeof from.route) memcpy(from.route, zmq_msg_data(&frame), from.route_bytes);
    if (zmq_msg_more(&frame) && weft__slices_take(relay->router, &frame, relay->longest, &from.fd) &&
        from.route_bytes <= sizeof from.route) {
        from.ended = !weft__strangers_spoke(&relay->strangers, from.fd);
        weft__relay_up(relay, &from, &frame);
    } else {
        zmq_msg_close(&frame);
    }
    return true;
}

static void take_from_server(weft__relay *relay)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    while (relay->upstream &&
           weft__slices_take(relay->upstream, &frame, WEFT__RENDEZVOUS_TOTAL_MAX + 4096, NULL)) {
        weft__relay_down(relay, &frame);
        zmq_msg_init(&frame);
    }
    zmq_msg_close(&frame);
}

/* Whatever ends its connection: ZeroMQ would make another, which the server knows nothing of. */
static void take_events(weft__relay *relay)
{
    unsigned char frame[6];
    char where[256];
    while (relay->monitor && zmq_recv(relay->monitor, frame, sizeof frame, ZMQ_DONTWAIT) == sizeof frame) {
        uint16_t event;
        memcpy(&event, frame, sizeof event);
        zmq_recv(relay->monitor, where, sizeof where, 0);
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        case ZMQ_EVENT_DISCONNECTED:
        case ZMQ_EVENT_CLOSED: weft__relay_lose(relay); break;
        default: break;
        }
    }
}

static void connection_seen(void *arg, int fd, bool came)
{
    if (!came) weft__relay_connection_ended(arg, fd);
}

/* ---- its sockets ---- */

static void close_watched(void **socket, void **monitor)
{
    if (*socket) zmq_socket_monitor(*socket, NULL, 0);
    if (*monitor) zmq_close(*monitor);
    if (*socket) zmq_close(*socket);
    *socket = *monitor = NULL;
}

bool weft__relay_connect(weft__relay *relay)
{
    static _Atomic unsigned made;
    char text[WEFT__ADDRESS_BYTES], endpoint[WEFT__ADDRESS_BYTES + 32], events[64];
    int linger = LAST_WORDS_MS, unlimited = 0, port = weft__address_port(&relay->above);
    snprintf(events, sizeof events, "inproc://weft-relay-%u", made++);
    weft__address_text(&relay->above, text);
    weft__address_endpoint(text, &port, endpoint, sizeof endpoint);
    relay->upstream = weft__zmq_socket(relay->context, ZMQ_DEALER, false,
                                       relay->above.any.sa_family == AF_INET6, relay->keys);
    relay->monitor = zmq_socket(relay->context, ZMQ_PAIR);
    if (relay->upstream && relay->monitor &&
        !zmq_setsockopt(relay->upstream, ZMQ_LINGER, &linger, sizeof linger) &&
        !zmq_setsockopt(relay->upstream, ZMQ_SNDHWM, &unlimited, sizeof unlimited) &&
        !zmq_setsockopt(relay->upstream, ZMQ_RCVHWM, &unlimited, sizeof unlimited) &&
        !weft__zmq_monitor(relay->upstream, events, ZMQ_EVENT_ALL) &&
        !weft__zmq_connect(relay->monitor, events) && !weft__zmq_connect(relay->upstream, endpoint))
        return true;
    close_watched(&relay->upstream, &relay->monitor);
    return false;
}

static void close_sockets(weft__relay *relay)
{
    close_watched(&relay->upstream, &relay->monitor);
    weft__strangers_close(&relay->strangers);
    zmq_close(relay->router);
    relay->router = NULL;
}

/* For other hosts, at that address and a port that is free.  Where that is not possible they do without it. */
static void listen_at(weft__relay *relay, const char *own)
{
    char endpoint[WEFT__ADDRESS_BYTES + 32], bound[256];
    size_t bytes = sizeof bound;
    if (strchr(own, '%')) return; /* it says which interface of this host, which means nothing elsewhere */
    weft__address_endpoint(own, NULL, endpoint, sizeof endpoint);
    if (weft__zmq_bind(relay->router, endpoint) ||
        zmq_getsockopt(relay->router, ZMQ_LAST_ENDPOINT, bound, &bytes))
        return;
    snprintf(relay->place.address, sizeof relay->place.address, "%s", own);
    relay->place.port = atoi(strrchr(bound, ':') + 1);
    atomic_store(&relay->seeks, true);
}

/* own: where it listens for other hosts too; NULL: it does not, and hears single ranks alone. */
static weft_status bind_name(weft__relay *relay, const char *name, const char *own)
{
    int linger = LAST_WORDS_MS, unlimited = 0, backlog = BACKLOG, reason;
    relay->router = weft__zmq_socket(relay->context, ZMQ_ROUTER, true, own && strchr(own, ':'), relay->keys);
    if (!relay->router) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(relay->router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(relay->router, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(relay->router, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(relay->router, ZMQ_BACKLOG, &backlog, sizeof backlog);
    if (weft__strangers_open(&relay->strangers, relay->context, relay->router)) {
        zmq_close(relay->router);
        return WEFT_ERR_SYSTEM;
    }
    relay->strangers.seen = connection_seen;
    relay->strangers.arg = relay;
    if (!weft__zmq_bind(relay->router, name)) {
        snprintf(relay->strangers.name, sizeof relay->strangers.name, "%s", name + strlen("ipc://@"));
        if (own) listen_at(relay, own);
        return WEFT_OK;
    }
    reason = errno;
    close_sockets(relay);
    if (reason == EADDRINUSE) return WEFT_PENDING;
    errno = reason;
    return weft__fail_errno("cannot serve the ranks of this host at %s", name);
}

/* ---- its thread ---- */

/* Who is not in the job that all have joined waits for the next one, which this relay does not stay for. */
static bool may_end(const weft__relay *relay, int64_t stop_ns)
{
    const bool all_in = atomic_load(&relay->all_in);
    if (stop_ns == WEFT__NEVER && !all_in) return false;
    if (weft__now_ns() >= stop_ns) return true;
    if (!all_in) return !relay->count;
    for (int i = 0; i < relay->count; i++)
        if (relay->clients[i].welcomed) return false;
    return true;
}

static void *relay_serve(void *arg)
{
    weft__relay *relay = arg;
    pthread_setname_np(pthread_self(), "weft-relay");
    for (;;) {
        int64_t stop_ns, until_ns;
        uint64_t orders;
        zmq_pollitem_t items[5] = {{.fd = relay->order_fd, .events = ZMQ_POLLIN},
                                   {.socket = relay->router, .events = ZMQ_POLLIN},
                                   {.socket = relay->strangers.monitor, .events = ZMQ_POLLIN},
                                   {.socket = relay->upstream, .events = ZMQ_POLLIN},
                                   {.socket = relay->monitor, .events = ZMQ_POLLIN}};
        while (take_from_client(relay)) continue;
        weft__strangers_bound(&relay->strangers);
        while (take_from_client(relay)) continue; /* what they said before the ends that are known now */
        take_from_server(relay);
        take_events(relay);
        until_ns = weft__relay_settle(relay, weft__now_ns());
        if (relay->strangers.next_ns < until_ns) until_ns = relay->strangers.next_ns;
        if (items[3].socket != relay->upstream) continue; /* it is new */
        stop_ns = atomic_load(&relay->stop_ns);
        if (relay->phase != WEFT__RELAY_SERVING) break;
        if (may_end(relay, stop_ns)) break;
        zmq_poll(items, relay->upstream ? 5 : 3, weft__poll_ms(stop_ns < until_ns ? stop_ns : until_ns));
        if (items[0].revents) (void)!read(relay->order_fd, &orders, sizeof orders);
    }
    relay->silent_ms = 0;                             /* it asks nobody any more */
    (void)weft__relay_settle(relay, WEFT__NEVER - 1); /* what has not been waited for long enough */
    close_sockets(relay);
    return NULL;
}

static weft_status start_thread(weft__relay *relay)
{
    sigset_t all, old;
    int rc;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&relay->thread, NULL, relay_serve, relay);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc ? weft__fail(WEFT_ERR_SYSTEM, "cannot start the thread of this host's relay: %s", strerror(rc))
              : WEFT_OK;
}

weft_status weft__relay_open(void *context, weft__keys *keys, const weft__address *server, const char *own,
                             int world, weft__relay **relay)
{
    weft__relay *made = calloc(1, sizeof *made);
    char name[WEFT__RELAY_NAME_BYTES];
    weft_status status = WEFT_ERR_SYSTEM;
    if (!made) return weft__fail_memory(sizeof *made, "joining");
    made->context = context;
    made->keys = weft__keys_take(keys);
    made->above = *server;
    made->longest = weft__rendezvous_longest(own ? world : 1);
    weft__strangers_limit(&made->strangers, made->longest, WEFT__STRANGERS_WAKES_MS);
    atomic_store(&made->stop_ns, WEFT__NEVER);
    made->order_fd = -1;
    weft__relay_name(keys, server, name);
    if ((status = weft__quota_descriptors(RELAY_DESCRIPTORS + (own ? WEFT__TREE_FAN : 0), "joining")))
        goto free_relay;
    made->order_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->order_fd < 0) {
        status = weft__fail_errno("no descriptor for this host's relay");
        goto free_relay;
    }
    weft__descriptor_own(made->order_fd);
    if ((status = weft__zap_admit(keys))) goto free_relay;
    if ((status = bind_name(made, name, own))) goto dismiss;
    if ((status = start_thread(made))) goto close_router;
    *relay = made;
    return WEFT_OK;

close_router:
    close_sockets(made);
dismiss:
    weft__zap_dismiss(keys);
free_relay:
    if (made->order_fd >= 0) close(made->order_fd);
    weft__keys_drop(keys);
    free(made);
    return status;
}

static void look_at_orders(const weft__relay *relay)
{
    const uint64_t one = 1;
    (void)!write(relay->order_fd, &one, sizeof one);
}

const weft__rendezvous_place *weft__relay_seeks(const weft__relay *relay)
{
    return relay && atomic_load(&relay->seeks) ? &relay->place : NULL;
}

void weft__relay_go(weft__relay *relay, const weft__address *above, int silent_ms)
{
    if (!weft__relay_seeks(relay)) return;
    if (above) {
        relay->above = *above;
        relay->silent_ms = silent_ms;
    }
    atomic_store(&relay->seeks, false); /* its thread reads those after this */
    look_at_orders(relay);
}

void weft__relay_finish(weft__relay *relay)
{
    if (!relay) return;
    atomic_store(&relay->all_in, true);
    look_at_orders(relay);
}

void weft__relay_stop(weft__relay *relay, int64_t until_ns)
{
    if (!relay) return;
    atomic_store(&relay->stop_ns, until_ns);
    look_at_orders(relay);
    pthread_join(relay->thread, NULL);
    close(relay->order_fd);
    weft__zap_dismiss(relay->keys);
    weft__keys_drop(relay->keys);
    weft__relay_forget(relay);
    free(relay);
}
