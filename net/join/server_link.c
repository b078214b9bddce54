/* server_link.c - see server_link.h. */
#include "server_link.h"
#include "clock.h"
#include "relay.h"
#include "rendezvous_wire.h"
#include "slices.h"
#include "status.h"
#include "zap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LINGER_MS 250 /* for our last word */
#define REFUSALS  3   /* failed handshakes in a row that mean a wrong secret */

/* ---- connecting ---- */

void weft__link_close(weft__link *link)
{
    if (link->dealer) {
        zmq_socket_monitor(link->dealer, NULL, 0);
        zmq_close(link->dealer);
    }
    if (link->monitor) zmq_close(link->monitor);
    link->dealer = link->monitor = NULL;
}

weft_status weft__link_connect(weft__link *link, const weft__address *server)
{
    static _Atomic unsigned made;
    char text[WEFT__ADDRESS_BYTES], endpoint[WEFT__ADDRESS_BYTES + 32], events[64];
    int linger = LINGER_MS, port = weft__address_port(server);
    _Static_assert(sizeof endpoint >= WEFT__RELAY_NAME_BYTES, "either fits");
    snprintf(events, sizeof events, "inproc://weft-joining-%u", made++);
    weft__address_text(server, text);
    weft__address_endpoint(text, &port, endpoint, sizeof endpoint);
    if (link->through) weft__relay_name(link->keys, server, endpoint);
    link->dealer =
        weft__zmq_socket(link->context, ZMQ_DEALER, false, server->any.sa_family == AF_INET6, link->keys);
    if (!link->dealer) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(link->dealer, ZMQ_LINGER, &linger, sizeof linger);
    link->monitor = zmq_socket(link->context, ZMQ_PAIR);
    if (!link->monitor || weft__zmq_monitor(link->dealer, events, ZMQ_EVENT_ALL) ||
        weft__zmq_connect(link->monitor, events) || weft__zmq_connect(link->dealer, endpoint)) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
        weft__link_close(link);
        return WEFT_ERR_SYSTEM;
    }
    link->attempts++;
    link->heard_ns = weft__now_ns();
    link->refusals = 0;
    return WEFT_OK;
}

/* ---- words ---- */

void weft__link_say(const weft__link *link, const weft__rendezvous_header *header, const void *payload,
                    size_t bytes)
{
    zmq_msg_t msg;
    if (zmq_msg_init_size(&msg, sizeof *header + bytes)) return;
    memcpy(zmq_msg_data(&msg), header, sizeof *header);
    if (bytes) memcpy((char *)zmq_msg_data(&msg) + sizeof *header, payload, bytes);
    (void)weft__slices_send(link->dealer, &msg);
}

bool weft__link_take(weft__link *link, zmq_msg_t *msg, weft__rendezvous_answer *said)
{
    while (weft__slices_take(link->dealer, msg, weft__rendezvous_longest(link->world), NULL)) {
        link->heard_ns = weft__now_ns();
        if (weft__rendezvous_answer_read(zmq_msg_data(msg), zmq_msg_size(msg), said)) return true;
    }
    return false;
}

/* ---- what becomes of it ---- */

/* One event, 0 if none is there. */
static int take_event(const weft__link *link, uint32_t *value)
{
    unsigned char frame[6];
    uint16_t event;
    char where[256];
    if (zmq_recv(link->monitor, frame, sizeof frame, ZMQ_DONTWAIT) != sizeof frame) return 0;
    zmq_recv(link->monitor, where, sizeof where, 0);
    memcpy(&event, frame, sizeof event);
    memcpy(value, frame + 2, sizeof *value);
    return event;
}

/* Once all are there the server is who it was: what then looks like another one was changed on its way. */
static bool breaks(int event)
{
    return event == ZMQ_EVENT_DISCONNECTED || event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
           event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL || event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
}

static weft__link_news opened(weft__link *link)
{
    link->refusals = 0;
    link->heard_ns = weft__now_ns(); /* a relay that was asked before it heard of this rank says nothing */
    link->asked_ns = 0;
    return WEFT__LINK_OPEN;
}

weft__link_news weft__link_look(weft__link *link, bool own)
{
    uint32_t value;
    for (int event; (event = take_event(link, &value));) {
        if (link->joined && breaks(event)) return WEFT__LINK_BROKEN;
        switch (event) {
        case ZMQ_EVENT_CONNECTED: /* value: its descriptor; one that is closed already is nobody's, and the relay's no more */
            if (link->through && !weft__relay_may_be_there((int)value)) return WEFT__LINK_STRANGE;
            break;
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return opened(link);
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return WEFT__LINK_REFUSED;
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            return value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? WEFT__LINK_STRANGE
                                                                       : WEFT__LINK_REFUSED;
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL: /* it hung up: a wrong key, or its process just ended */
            if (++link->refusals >= REFUSALS) return WEFT__LINK_REFUSED;
            break;
        case ZMQ_EVENT_DISCONNECTED: /* also follows a failed handshake, which is counted above */
            if (link->refusals == 0 && !own) return WEFT__LINK_GONE;
            break;
        case ZMQ_EVENT_CLOSED: /* nobody listens there any more, or not yet: a relay binds its name before it listens */
            if (link->through && ++link->refusals < REFUSALS) break;
            if (link->joined || !own) return WEFT__LINK_GONE;
            break;
        default: break;
        }
    }
    return WEFT__LINK_GOES_ON;
}

/* ---- silence ---- */

bool weft__link_is_asked(const weft__link *link)
{
    return link->asked_ns > link->heard_ns;
}

int64_t weft__link_patience_ns(const weft__link *link)
{
    const int still_ms = link->silent_ms / WEFT__RELAY_ASKED;
    return weft__link_is_asked(link) ? weft__deadline(link->asked_ns, link->silent_ms - still_ms)
                                     : weft__deadline(link->heard_ns, still_ms);
}
