/* tcp.c - the TCP transport as the engine sees it: its slots, its peers and what is queued for them.
 *
 * A frame that is sent waits in its peer's queue; the first one makes this rank dial.  Once a connection
 * stands (tcp_link.c) frames flow, urgent ones before bulk.  A peer goes through its states so: IDLE -> DIALLING
 * -> UP <-> MENDING, and from each to GONE; where the runtime knows that it lives, GONE -> ASTRAY -> UP or GONE.  A
 * connection that ends is mended (tcp_mend.c).  Whatever ends the
 * peer (refused, not mended in time, nonsense received) goes through weft__tcp_lose, which tells the sink once
 * and gives every queued frame back with ERR_PEER.  A
 * connection from outside the job ends alone and touches no peer. */
#include "clock.h"
#include "status.h"
#include "tcp_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LAZY_POLLS   64           /* of a rank that waits: some 30 us */
#define EAGER_BYTES  (64u * 1024) /* above, asking costs less than what may have to be copied once more */
#define DIRECT_LINKS 2 /* so few are read without asking the set first which of them has something */

static weft__tcp *tcp_of(const weft__transport *t)
{
    return WEFT__OWNER(t, weft__tcp, transport);
}

static weft__tcp_peer *peer_of(weft__tcp *tcp, int rank)
{
    WEFT__ASSERT(rank >= 0 && rank < tcp->world);
    return &tcp->peer[rank];
}

/* What may follow on each state: whoever connects to us may be the first. */
static const uint8_t peer_follows[] = {
    [WEFT__TCP_IDLE] = WEFT__MAY_BECOME(WEFT__TCP_DIALLING) | WEFT__MAY_BECOME(WEFT__TCP_UP) |
                       WEFT__MAY_BECOME(WEFT__TCP_GONE),
    [WEFT__TCP_DIALLING] = WEFT__MAY_BECOME(WEFT__TCP_UP) | WEFT__MAY_BECOME(WEFT__TCP_GONE),
    [WEFT__TCP_UP] = WEFT__MAY_BECOME(WEFT__TCP_MENDING) | WEFT__MAY_BECOME(WEFT__TCP_GONE),
    [WEFT__TCP_MENDING] = WEFT__MAY_BECOME(WEFT__TCP_UP) | WEFT__MAY_BECOME(WEFT__TCP_GONE),
    [WEFT__TCP_ASTRAY] = WEFT__MAY_BECOME(WEFT__TCP_UP) | WEFT__MAY_BECOME(WEFT__TCP_GONE),
    [WEFT__TCP_GONE] = WEFT__MAY_BECOME(WEFT__TCP_ASTRAY)};

/* The one place that stores a peer's state.  The transport is the engine's: no order of memory is needed. */
void weft__tcp_peer_to(weft__tcp_peer *peer, weft__tcp_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(peer_follows, peer->state, to), peer->rank, peer->state, to);
    peer->state = to;
}

/* ---- the end of a peer ---- */

/* What is all written is in the kernel's hands: `written` tells what its owners hear of it. */
static void give_back(weft__tcp_peer *peer, weft_status status, weft_status written)
{
    weft__list kept, ended;
    weft__list_init(&kept);
    weft__list_init(&ended);
    weft__tcp_kept_take_out(peer, &kept, &ended);
    WEFT__LIST_EACH(&peer->urgent, at)
    {
        weft__list_remove(at);
        weft__list_append(&ended, at);
    }
    WEFT__LIST_EACH(&peer->bulk, at)
    {
        weft__list_remove(at);
        weft__list_append(&ended, at);
    }
    weft__tcp_kept_free(peer);
    /* One by one from the front: `sent` may retract others of them. */
    weft__tcp_kept_tell(&kept, written);
    weft__tcp_kept_tell(&ended, status);
}

void weft__tcp_lazy_no_more(weft__tcp_peer *peer)
{
    WEFT__ASSERT(peer->lazy <= peer->tcp->lazy, peer->lazy, peer->tcp->lazy);
    if (!peer->lazy) return;
    weft__list_remove(&peer->lazies);
    peer->tcp->lazy -= peer->lazy;
    peer->lazy = 0;
}

static void close_peer(weft__tcp_peer *peer)
{
    if (peer->state != WEFT__TCP_GONE) weft__tcp_peer_to(peer, WEFT__TCP_GONE);
    weft__tcp_lazy_no_more(peer);
    weft__tcp_dial_end(peer);
    if (peer->link) weft__tcp_link_end(peer->link);
}

/* The cause first, so that whoever is told of a failed frame can know it. */
static void end_peer(weft__tcp_peer *peer, void (*tell)(weft__sink *sink, int peer, const char *why),
                     const char *why)
{
    close_peer(peer);
    tell(peer->tcp->transport.sink, peer->rank, why);
    give_back(peer, WEFT_ERR_PEER, WEFT_ERR_PEER);
}

void weft__tcp_lose(weft__tcp_peer *peer, const char *format, ...)
{
    char why[WEFT__SENTENCE_BYTES];
    va_list args;
    if (peer->state == WEFT__TCP_GONE) return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    end_peer(peer, peer->tcp->transport.sink->lost, why);
}

/* ---- one that lives ---- */

static void tcp_begin_anew(weft__transport *t, int rank)
{
    weft__tcp_peer *peer = peer_of(tcp_of(t), rank);
    if (peer->state != WEFT__TCP_GONE) return;
    if (peer->link) weft__tcp_link_end(peer->link); /* it was dropped from inside of its reading */
    weft__tcp_peer_to(peer, WEFT__TCP_ASTRAY);
    peer->course++;
    peer->in = (weft__tcp_arriving){0};
    peer->taken = peer->moved_then = 0;
    peer->untold = peer->untold_bytes = peer->links = peer->known = peer->fruitless = 0;
    peer->broken_ns = 0;
    peer->met = false;
    weft__tcp_dial_begin(peer, "it was unreachable for a while");
}

static const char *tcp_want(const weft__transport *t, int rank)
{
    return weft__tcp_dial_want(peer_of(tcp_of(t), rank));
}

static uint32_t tcp_course(const weft__transport *t, int rank)
{
    return peer_of(tcp_of(t), rank)->course;
}

bool weft__tcp_follow(weft__tcp_peer *peer, uint32_t course)
{
    weft__sink *sink = peer->tcp->transport.sink;
    if (peer->state != WEFT__TCP_ASTRAY && peer->state != WEFT__TCP_GONE)
        end_peer(peer, sink->let_go ? sink->let_go : sink->lost,
                 "was unreachable: it could not reach this rank for a while, and begins anew");
    if (peer->state == WEFT__TCP_ASTRAY) peer->course = course;
    return peer->state == WEFT__TCP_ASTRAY;
}

/* ---- slots ---- */

static void tcp_send(weft__transport *t, int rank, weft__outgoing *out)
{
    weft__tcp *tcp = tcp_of(t);
    weft__tcp_peer *peer = peer_of(tcp, rank);
    WEFT__ASSERT(out->frame.length <= WEFT__FRAME_PAYLOAD_MAX && (!out->frame.length || out->payload));
    out->done = 0;
    out->numbered = false;
    out->peer = rank;
    weft__list_init(&out->link);
    if (peer->state == WEFT__TCP_GONE || peer->state == WEFT__TCP_ASTRAY) {
        out->sent(out, WEFT_ERR_PEER);
        return;
    }
    weft__list_append(out->bulk ? &peer->bulk : &peer->urgent, &out->link);
    if (peer->state == WEFT__TCP_UP && out->lazy && peer->lazy + 1 < WEFT__TCP_LAZY) {
        if (peer->lazy++ == 0) weft__list_append(&tcp->lazies, &peer->lazies);
        tcp->lazy++;
        tcp->lazy_polls = LAZY_POLLS;
    } else if (peer->state == WEFT__TCP_UP) {
        weft__tcp_link_write(peer->link);
    } else if (peer->state == WEFT__TCP_IDLE) {
        weft__tcp_dial_begin(peer, NULL);
    }
}

static void tcp_release(weft__transport *t, int rank, weft__outgoing *out)
{
    weft__tcp_peer *peer = peer_of(tcp_of(t), rank);
    if (!weft__tcp_kept_release(peer, out) && peer->link) weft__tcp_link_broken(peer->link, ENOMEM);
}

static void tcp_retract(weft__transport *t, weft__outgoing *out)
{
    weft__tcp_peer *peer = peer_of(tcp_of(t), out->peer);
    if (out == peer->current && !peer->link)
        peer->current = NULL; /* the peer has ended, and it was about to be given back */
    else if (out == peer->current)
        weft__tcp_link_detach(peer->link, out);
    else if (!out->numbered)
        weft__list_remove(&out->link);
    else if (!weft__tcp_kept_stand_in(peer, out) && peer->link)
        weft__tcp_link_broken(peer->link, ENOMEM);
}

static void tcp_forget(weft__transport *t, int rank, void *where)
{
    weft__tcp_arriving *in = &peer_of(tcp_of(t), rank)->in;
    if (in->begun && in->where == where) in->where = NULL;
}

/* Asking the set costs as much as reading, so while links are few, and nothing else is waited for, they are
 * read at each poll and the set is asked now and then. */
static void read_directly(weft__tcp *tcp)
{
    weft__tcp_link *direct[DIRECT_LINKS];
    int n = 0;
    tcp->poller->spared = tcp->poller->sparing && tcp->links > 0 && tcp->links <= DIRECT_LINKS;
    if (!tcp->poller->spared) return;
    WEFT__LIST_EACH(&tcp->up, at)
    {
        WEFT__ASSERT(n < DIRECT_LINKS, n, tcp->links);
        direct[n++] = WEFT__LIST_ENTRY(at, weft__tcp_link, up);
    }
    /* Reading one may end the other, which is there until the next poll. */
    for (int i = 0; i < n; i++) weft__tcp_link_read(direct[i]);
}

static void take_all(weft__list *list, weft__list *taken)
{
    weft__list_init(taken);
    WEFT__LIST_EACH(list, at)
    {
        weft__list_remove(at);
        weft__list_append(taken, at);
    }
}

/* What has arrived, to those that nothing else is sent to.  A link that is blocked goes on telling. */
static void tell_all(weft__tcp *tcp)
{
    const int before = tcp->moved;
    weft__list now;
    take_all(&tcp->telling, &now);
    while (!weft__list_empty(&now)) {
        weft__tcp_link *link = WEFT__LIST_ENTRY(now.next, weft__tcp_link, telling);
        weft__list_remove(&link->telling);
        weft__list_append(&tcp->telling, &link->telling);
        weft__tcp_link_write(link);
    }
    tcp->tell_polls = WEFT__TCP_TELL_POLLS;
    tcp->moved = before;
}

static void tcp_hurry(weft__transport *t)
{
    weft__tcp *tcp = tcp_of(t);
    const int before = tcp->moved;
    weft__list now;
    tcp->lazy_polls = 0;
    if (!weft__list_empty(&tcp->telling)) tell_all(tcp);
    if (!tcp->lazy) return;
    take_all(&tcp->lazies, &now);
    while (!weft__list_empty(&now)) {
        weft__tcp_peer *peer = WEFT__LIST_ENTRY(now.next, weft__tcp_peer, lazies);
        weft__list_remove(&peer->lazies);
        weft__list_append(&tcp->lazies, &peer->lazies); /* where it is being written already it stays there */
        if (peer->link) weft__tcp_link_write(peer->link);
    }
    tcp->moved = before; /* nothing came of it that somebody waits for */
}

static int tcp_poll(weft__transport *t, int budget)
{
    weft__tcp *tcp = tcp_of(t);
    weft__list queued;
    const int before = tcp->moved;
    int moved;
    weft__tcp_links_sweep(tcp);
    if (tcp->accept_again) weft__tcp_accept_all(tcp);
    read_directly(tcp);
    if (tcp->lazy_polls && --tcp->lazy_polls == 0) tcp_hurry(t);
    if (!weft__list_empty(&tcp->telling) && --tcp->tell_polls <= 0) tell_all(tcp);

    take_all(&tcp->resume, &queued);
    while (!weft__list_empty(&queued)) {
        weft__tcp_link *link = WEFT__LIST_ENTRY(queued.next, weft__tcp_link, queued);
        weft__list_remove(&link->queued);
        if (tcp->moved - before >= budget) {
            weft__list_append(&tcp->resume, &link->queued);
            continue;
        }
        weft__tcp_link_write(link);
        weft__tcp_link_read(link);
    }
    moved = tcp->moved;
    tcp->moved = 0;
    return moved;
}

static bool tcp_busy(const weft__transport *t)
{
    const weft__tcp *tcp = tcp_of(t);
    return tcp->accept_again || tcp->lazy || !weft__list_empty(&tcp->resume);
}

static void tcp_recheck(weft__transport *t)
{
    weft__tcp_recheck(tcp_of(t));
}

static bool tcp_flushed(const weft__transport *t, int rank)
{
    weft__tcp_peer *peer = peer_of(tcp_of(t), rank);
    return weft__list_empty(&peer->urgent) && weft__list_empty(&peer->bulk) && !peer->current &&
           !(peer->kept && !weft__list_empty(weft__tcp_again(peer))) &&
           !(peer->link && weft__tcp_sealed_waits(peer->link->sealed));
}

static void drop_peer(weft__tcp_peer *peer, weft_status written)
{
    if (peer->state == WEFT__TCP_GONE) return;
    weft__tcp_peer_to(peer, WEFT__TCP_GONE);
    weft__tcp_lazy_no_more(peer);
    weft__tcp_dial_end(peer);
    if (peer->link) weft__tcp_link_drop(peer->link);
    give_back(peer, WEFT_ERR_PEER, written);
}

static void tcp_drop(weft__transport *t, int rank)
{
    drop_peer(peer_of(tcp_of(t), rank), WEFT_OK);
}

static void tcp_drop_living(weft__transport *t, int rank)
{
    drop_peer(peer_of(tcp_of(t), rank), WEFT_ERR_PEER);
}

static void close_polled(weft__tcp *tcp, weft__polled *w)
{
    if (w->fd < 0) return;
    weft__poller_remove(tcp->poller, w);
    close(w->fd);
    w->fd = -1;
}

static void tcp_close(weft__transport *t)
{
    weft__tcp *tcp = tcp_of(t);
    close_polled(tcp, &tcp->listener);
    weft__tcp_held_end(tcp);
    close_polled(tcp, &tcp->alarm);
    while (!weft__list_empty(&tcp->guests))
        weft__tcp_guest_end(WEFT__LIST_ENTRY(tcp->guests.next, weft__tcp_guest, link));
    /* All are closed before the first `sent`, which may try to send again. */
    for (int r = 0; r < tcp->world; r++) close_peer(&tcp->peer[r]);
    for (int r = 0; r < tcp->world; r++) give_back(&tcp->peer[r], WEFT_ERR_CANCELLED, WEFT_ERR_CANCELLED);
    weft__tcp_links_sweep(tcp);
    weft__rests_close(&tcp->rests);
    free(tcp);
}

/* ---- time limits ---- */

void weft__tcp_wake_at(weft__tcp *tcp, int64_t when_ns)
{
    struct itimerspec at = {.it_value = {.tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000}};
    if (when_ns >= tcp->alarm_at_ns) return;
    tcp->alarm_at_ns = when_ns;
    timerfd_settime(tcp->alarm.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void alarm_rang(weft__polled *w, uint32_t events)
{
    weft__tcp *tcp = WEFT__OWNER(w, weft__tcp, alarm);
    uint64_t times;
    int64_t now = weft__now_ns();
    (void)events;
    if (read(w->fd, &times, sizeof times) < 0) return;
    tcp->alarm_at_ns = WEFT__NEVER;
    weft__tcp_guests_due(tcp, now);
    weft__tcp_dials_due(tcp, now);
    if (tcp->accept_at_ns <= now) {
        tcp->accept_at_ns = WEFT__NEVER;
        weft__tcp_accept_all(tcp);
    } else if (tcp->accept_at_ns != WEFT__NEVER) {
        weft__tcp_wake_at(tcp, tcp->accept_at_ns);
    }
}

/* ---- opening ---- */

static void listener_ready(weft__polled *w, uint32_t events)
{
    (void)events;
    weft__tcp_accept_all(WEFT__OWNER(w, weft__tcp, listener));
}

static void tcp_init(weft__tcp *tcp, const weft__tcp_address *peers)
{
    weft__list_init(&tcp->resume);
    weft__list_init(&tcp->closed);
    weft__list_init(&tcp->up);
    weft__list_init(&tcp->telling);
    weft__list_init(&tcp->lazies);
    weft__list_init(&tcp->dials);
    weft__list_init(&tcp->guests);
    weft__list_init(&tcp->free_guests);
    for (size_t i = 0; i < WEFT__TCP_GUESTS; i++) {
        tcp->guest[i].tcp = tcp;
        weft__list_append(&tcp->free_guests, &tcp->guest[i].link);
    }
    for (int r = 0; r < tcp->world; r++) {
        tcp->peer[r].tcp = tcp;
        tcp->peer[r].rank = r;
        tcp->peer[r].address = peers[r];
        tcp->peer[r].wire = weft__tcp_wire_between(&peers[tcp->me], &peers[r]);
        weft__list_init(&tcp->peer[r].lazies);
        weft__list_init(&tcp->peer[r].urgent);
        weft__list_init(&tcp->peer[r].bulk);
    }
    /* Nobody is connected to itself. */
    weft__tcp_peer_to(&tcp->peer[tcp->me], WEFT__TCP_GONE);
}

weft_status weft__tcp_open(int me, int world, const weft__tcp_address *peers, int listen_fd,
                           const weft__keys *keys, weft__poller *poller, weft__sink *sink,
                           weft__transport **transport)
{
    static const weft__transport slots = {.eager_bytes = EAGER_BYTES,
                                          .prefix_bytes = EAGER_BYTES,
                                          .send = tcp_send,
                                          .retract = tcp_retract,
                                          .release = tcp_release,
                                          .forget = tcp_forget,
                                          .poll = tcp_poll,
                                          .hurry = tcp_hurry,
                                          .busy = tcp_busy,
                                          .recheck = tcp_recheck,
                                          .flushed = tcp_flushed,
                                          .drop = tcp_drop,
                                          .drop_living = tcp_drop_living,
                                          .begin_anew = tcp_begin_anew,
                                          .course = tcp_course,
                                          .want = tcp_want,
                                          .close = tcp_close,
                                          .hearing = &weft__tcp_hearing};
    size_t bytes = sizeof(weft__tcp) + (size_t)world * sizeof(weft__tcp_peer);
    weft__tcp *tcp;
    weft_status status = weft__tcp_wires_agree(me, world, peers);
    if (status) return status;
    tcp = calloc(1, bytes);
    if (!tcp || !weft__rests_open(&tcp->rests)) {
        free(tcp);
        return weft__fail_memory(bytes + WEFT__REST_BYTES, "the TCP transport");
    }
    tcp->transport = slots;
    tcp->transport.sink = sink;
    tcp->me = me;
    tcp->world = world;
    tcp->keys = keys;
    tcp->poller = poller;
    tcp->accept_at_ns = tcp->alarm_at_ns = WEFT__NEVER;
    tcp->held_fd = -1;
    tcp->listener = (weft__polled){.fd = listen_fd, .ready = listener_ready};
    tcp_init(tcp, peers);

    tcp->alarm = (weft__polled){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                                .ready = alarm_rang};
    if (tcp->alarm.fd < 0) {
        status = weft__fail_errno("no timer for the TCP transport");
        goto free_tcp;
    }
    status = weft__poller_add(poller, &tcp->alarm, EPOLLIN);
    if (status) goto close_alarm;
    status = listen_fd < 0 ? WEFT_OK : weft__poller_add(poller, &tcp->listener, EPOLLIN);
    if (status) goto unwatch_alarm;
    *transport = &tcp->transport;
    return WEFT_OK;

unwatch_alarm:
    weft__poller_remove(poller, &tcp->alarm);
close_alarm:
    close(tcp->alarm.fd);
free_tcp:
    weft__rests_close(&tcp->rests);
    free(tcp);
    return status;
}
