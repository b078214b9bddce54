/* watchdog_wire.c - see watchdog_wire.h.  A message is two frames: the sender's rank, the bytes.  What is
 * malformed is dropped, as is what has another rank than the one whose key its connection was proved by: nobody but members
 * gets through CURVE, each as itself. */
#include "watchdog_wire.h"
#include "address.h"
#include "clock.h"
#include "keys.h"
#include "log.h"
#include "reserve.h"
#include "status.h"
#include "strangers.h"
#include "zap.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define QUEUE_MESSAGES 256
#define LINGER_MS      100
#define LOOK_MS        10000 /* for messages without end; who is idle sleeps */

struct weft__watchdog_wire {
    int me, world;
    bool ipv6;
    weft__keys *keys;
    void *context;
    void *router;
    int router_fd, monitor_fd;
    bool claim_told;
    weft__strangers strangers;
    char *endpoints; /* world strings */
    void **dealers;  /* world sockets, NULL until first used */
};

weft_status weft__watchdog_wire_open(const char *address, weft__keys *keys, int me, weft__watchdog_wire **out,
                                     char endpoint[WEFT__ENDPOINT_BYTES])
{
    weft__watchdog_wire *wire = calloc(1, sizeof *wire);
    char any_port[WEFT__ENDPOINT_BYTES];
    size_t bytes = WEFT__ENDPOINT_BYTES, fd_bytes = sizeof wire->router_fd;
    weft_status status;
    if (!wire) return weft__fail_memory(sizeof *wire, "the watchdogs' wire");
    wire->me = me;
    wire->keys = weft__keys_take(keys);
    wire->ipv6 = strchr(address, ':') != NULL;
    if ((status = weft__zmq_take(&wire->context))) goto free_wire;
    if ((status = weft__zap_admit_ranks(keys))) goto give_context;
    wire->router = weft__zmq_rank_socket(wire->context, ZMQ_ROUTER, -1, wire->ipv6, keys);
    status = WEFT_ERR_SYSTEM; /* the sentence is set */
    if (!wire->router) goto dismiss;
    weft__strangers_limit(&wire->strangers, WEFT__WATCHDOG_WORD_MAX, LOOK_MS);
    if (weft__strangers_open(&wire->strangers, wire->context, wire->router)) goto close_router;
    weft__address_endpoint(address, NULL, any_port, sizeof any_port);
    if (weft__zmq_bind(wire->router, any_port) ||
        zmq_getsockopt(wire->router, ZMQ_LAST_ENDPOINT, endpoint, &bytes) ||
        zmq_getsockopt(wire->router, ZMQ_FD, &wire->router_fd, &fd_bytes) ||
        zmq_getsockopt(wire->strangers.monitor, ZMQ_FD, &wire->monitor_fd, &fd_bytes)) {
        status = weft__fail(WEFT_ERR_SYSTEM, "cannot bind the watchdog's socket at %s: %s", address,
                            zmq_strerror(errno));
        goto close_router;
    }
    *out = wire;
    return WEFT_OK;

close_router:
    weft__strangers_close(&wire->strangers);
    zmq_close(wire->router);
dismiss:
    weft__zap_dismiss_ranks(keys);
give_context:
    weft__zmq_give();
free_wire:
    weft__keys_drop(keys);
    free(wire);
    return status;
}

weft_status weft__watchdog_wire_peers(weft__watchdog_wire *wire, int world, const char *endpoints)
{
    size_t n = (size_t)world;
    /* The reserve serves too: the others are past where they could hear that this rank failed. */
    char *copy = weft__reserve_get(n * WEFT__ENDPOINT_BYTES);
    void **dealers = weft__reserve_zeroed(n * sizeof *dealers);
    WEFT__ASSERT(!wire->dealers);
    if (!copy || !dealers) {
        weft__reserve_give(copy);
        weft__reserve_give((void *)dealers);
        return weft__fail_memory(n * WEFT__ENDPOINT_BYTES, "the watchdogs' addresses");
    }
    memcpy(copy, endpoints, n * WEFT__ENDPOINT_BYTES);
    for (size_t i = 0; i < n; i++) {
        const char *endpoint = copy + i * WEFT__ENDPOINT_BYTES;
        copy[(i + 1) * WEFT__ENDPOINT_BYTES - 1] = '\0';
        if (!*endpoint || !strncmp(endpoint, "tcp://", 6))
            continue; /* ZeroMQ would also open files by name */
        weft__fail(WEFT_ERR_PEER,
                   "the watchdog of rank %zu is said to be at \"%s\": expected tcp://ADDRESS:PORT", i,
                   endpoint);
        weft__reserve_give(copy);
        weft__reserve_give((void *)dealers);
        return WEFT_ERR_PEER;
    }
    wire->endpoints = copy;
    wire->dealers = dealers;
    wire->world = world;
    WEFT__ASSERT(wire->keys->world == world, wire->keys->world, world);
    weft__zap_ranks_told(wire->keys);
    return WEFT_OK;
}

static void *connect_peer(weft__watchdog_wire *wire, int peer)
{
    const char *endpoint = wire->endpoints + (size_t)peer * WEFT__ENDPOINT_BYTES;
    int queue = QUEUE_MESSAGES, linger = LINGER_MS;
    void *dealer;
    if (!*endpoint) {
        weft__fail(WEFT_ERR_PEER, "rank %d is gone, and its watchdog with it", peer);
        return NULL;
    }
    dealer = weft__zmq_rank_socket(wire->context, ZMQ_DEALER, peer, strchr(endpoint, '['), wire->keys);
    if (!dealer) return NULL;
    zmq_setsockopt(dealer, ZMQ_SNDHWM, &queue, sizeof queue);
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
    if (!weft__zmq_connect(dealer, endpoint)) return dealer;
    weft__fail(WEFT_ERR_PEER, "the watchdog of rank %d cannot be reached at \"%s\": %s", peer, endpoint,
               zmq_strerror(errno));
    zmq_close(dealer);
    return NULL;
}

weft_status weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes, size_t length)
{
    int32_t me = wire->me;
    void *dealer;
    int rc;
    if (peer < 0 || peer >= wire->world)
        return weft__fail(WEFT_ERR_PEER, "there is no watchdog of rank %d", peer);
    if (length > WEFT__WATCHDOG_WORD_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "a watchdog's message of %zu bytes is longer than %u", length,
                          WEFT__WATCHDOG_WORD_MAX);
    if (!wire->dealers[peer]) wire->dealers[peer] = connect_peer(wire, peer);
    dealer = wire->dealers[peer];
    if (!dealer) return WEFT_ERR_PEER;
    do {
        rc = zmq_send(dealer, &me, sizeof me, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    } while (rc < 0 && errno == EINTR);
    if (rc >= 0) do { /* once the first frame is in, the second has its room */
            rc = zmq_send(dealer, bytes, length, ZMQ_DONTWAIT);
        } while (rc < 0 && errno == EINTR);
    if (rc >= 0) return WEFT_OK;
    if (errno == EAGAIN)
        return weft__fail(WEFT_ERR_MEMORY, "%d messages to the watchdog of rank %d have not left yet",
                          QUEUE_MESSAGES, peer);
    return weft__fail(WEFT_ERR_PEER, "cannot send to the watchdog of rank %d: %s", peer, zmq_strerror(errno));
}

void weft__watchdog_wire_forget(weft__watchdog_wire *wire, int peer)
{
    if (peer < 0 || peer >= wire->world) return;
    wire->endpoints[(size_t)peer * WEFT__ENDPOINT_BYTES] = '\0';
    if (wire->dealers[peer]) zmq_close(wire->dealers[peer]);
    wire->dealers[peer] = NULL;
}

/* One frame into msg; false: nothing is there. */
static bool take_frame(void *router, zmq_msg_t *msg)
{
    int rc;
    do {
        rc = zmq_msg_recv(msg, router, ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    return rc >= 0;
}

/* The rank that a message says it is from, if its connection's key is that rank's; else -1. */
static int proved(weft__watchdog_wire *wire, zmq_msg_t *bytes, int32_t said)
{
    const int rank = weft__zmq_rank_of(bytes);
    if (rank == said) return rank;
    weft__log(wire->claim_told ? WEFT__INFO : WEFT__WARN,
              "the watchdog of rank %d says that it is rank %d: what it says is not heard", rank, (int)said);
    wire->claim_told = true;
    return -1;
}

/* One whole message: identity, rank, bytes.  True: a message was taken, *from tells whose, or -1 for a bad
 * one. */
static bool take_message(weft__watchdog_wire *wire, zmq_msg_t *bytes, int *from)
{
    int frames = 0;
    int32_t rank = -1;
    *from = -1;
    do {
        if (!take_frame(wire->router, bytes)) return frames > 0;
        frames++;
        if (frames == 2 && zmq_msg_size(bytes) == sizeof rank)
            memcpy(&rank, zmq_msg_data(bytes), sizeof rank);
    } while (zmq_msg_more(bytes));
    weft__strangers_spoke(&wire->strangers, zmq_msg_get(bytes, ZMQ_SRCFD));
    if (frames == 3 && zmq_msg_size(bytes) <= WEFT__WATCHDOG_WORD_MAX) *from = proved(wire, bytes, rank);
    return true;
}

int weft__watchdog_wire_take(weft__watchdog_wire *wire, weft__watchdog_wire_fn *fn, void *arg)
{
    zmq_msg_t bytes;
    int taken = 0, from;
    zmq_msg_init(&bytes);
    while (take_message(wire, &bytes, &from)) {
        if (from < 0) continue;
        fn(arg, from, zmq_msg_data(&bytes), zmq_msg_size(&bytes));
        taken++;
    }
    zmq_msg_close(&bytes);
    return taken;
}

void weft__watchdog_wire_close(weft__watchdog_wire *wire)
{
    if (!wire) return;
    for (int peer = 0; peer < wire->world; peer++) weft__watchdog_wire_forget(wire, peer);
    weft__strangers_close(&wire->strangers);
    zmq_close(wire->router);
    weft__zap_dismiss_ranks(wire->keys);
    weft__keys_drop(wire->keys);
    weft__zmq_give();
    weft__reserve_give((void *)wire->dealers);
    weft__reserve_give(wire->endpoints);
    free(wire);
}

/* Also makes ZeroMQ read its mailbox: only after that may its descriptor be trusted to become readable. */
static bool has_message(const weft__watchdog_wire *wire)
{
    int events = 0;
    size_t bytes = sizeof events;
    return zmq_getsockopt(wire->router, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLIN);
}

#define POLL_FEW 8 /* wires slept on without an allocation: more than one context in a process is rare */

void weft__watchdog_wire_sleep(weft__watchdog_wire *const *wires, int n, int wake_fd, int64_t deadline_ns)
{
    struct pollfd few[2 * POLL_FEW + 1], *fds = few;
    size_t count = 2 * (size_t)n + 1;
    if (n > POLL_FEW && !(fds = calloc(count, sizeof *fds))) return;
    for (size_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = !i               ? wake_fd
                                       : i <= (size_t)n ? wires[i - 1]->router_fd
                                                        : wires[i - 1 - (size_t)n]->monitor_fd,
                                 .events = POLLIN};
    for (;;) {
        struct timespec left = {0};
        int64_t until_ns = deadline_ns, ns;
        bool ready = false;
        for (int i = 0; i < n; i++) {
            if (!has_message(wires[i])) weft__strangers_bound(&wires[i]->strangers);
            ready |= has_message(wires[i]); /* what has spoken is no stranger: taken first */
            if (wires[i]->strangers.next_ns < until_ns) until_ns = wires[i]->strangers.next_ns;
        }
        ns = until_ns == WEFT__NEVER ? 0 : until_ns - weft__now_ns();
        if (ready || ns < 0) ns = 0;
        left.tv_sec = (time_t)(ns / 1000000000);
        left.tv_nsec = (long)(ns % 1000000000);
        if (ppoll(fds, count, until_ns == WEFT__NEVER && !ready ? NULL : &left, NULL) < 0 && errno != EINTR)
            break;
        if (fds[0].revents & POLLIN) {
            uint64_t rings;
            if (read(wake_fd, &rings, sizeof rings) < 0 && errno == EINTR) continue;
            break;
        }
        if (ready || weft__now_ns() >= deadline_ns) break;
    }
    if (fds != few) free(fds);
}
