/* tcp_accept.c - connections that somebody makes to us.
 *
 * Whoever connects is a stranger until its proof is there.  It gets one of a fixed number of places (the
 * oldest makes room), a time limit, and nothing is read from it but a hello and a proof of fixed size.
 * Silence, garbage and a wrong secret end that connection alone; the first is told as a warning, the others
 * as information, so that a port scanner cannot fill the log.  Likewise, apart from those, whoever knows the name of the launch
 * and claims to be a rank without its key: no scanner can have that line instead. */
#include "clock.h"
#include "descriptor.h"
#include "log.h"
#include "settings.h"
#include "status.h"
#include "tcp_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SHORTAGE_MS 100 /* no descriptors were left: try again after */

/* What may follow on each step: a place is given up at any of them. */
static const uint8_t guest_follows[] = {[WEFT__GUEST_FREE] = WEFT__MAY_BECOME(WEFT__GUEST_HELLO),
                                        [WEFT__GUEST_HELLO] = WEFT__MAY_BECOME(WEFT__GUEST_ANSWER) |
                                                              WEFT__MAY_BECOME(WEFT__GUEST_FREE),
                                        [WEFT__GUEST_ANSWER] = WEFT__MAY_BECOME(WEFT__GUEST_PROOF) |
                                                               WEFT__MAY_BECOME(WEFT__GUEST_FREE),
                                        [WEFT__GUEST_PROOF] = WEFT__MAY_BECOME(WEFT__GUEST_FREE)};

/* The one place that stores a guest's step; each begins with its first byte. */
static void guest_to(weft__tcp_guest *guest, weft__tcp_guest_step to)
{
    WEFT__ASSERT(WEFT__ALLOWS(guest_follows, guest->step, to), guest->step, to);
    guest->step = to;
    guest->done = 0;
}

/* Its place is free; its descriptor has been closed, or is another's now. */
static void free_place(weft__tcp_guest *guest)
{
    guest_to(guest, WEFT__GUEST_FREE);
    guest->polled.fd = -1;
    sodium_memzero(&guest->handshake, sizeof guest->handshake);
    WEFT__ASSERT_HOT(weft__list_has(&guest->tcp->guests, &guest->link));
    weft__list_remove(&guest->link);
    weft__list_append(&guest->tcp->free_guests, &guest->link);
}

void weft__tcp_guest_end(weft__tcp_guest *guest)
{
    if (guest->polled.fd < 0) return;
    weft__poller_remove(guest->tcp->poller, &guest->polled);
    close(guest->polled.fd);
    free_place(guest);
}

static void turn_away_as(weft__tcp_guest *guest, bool *told, const char *why)
{
    char text[WEFT__TCP_TEXT];
    weft__tcp_address_text(&guest->address, text);
    weft__log(*told ? WEFT__INFO : WEFT__WARN, "tcp: connection from %s closed: %s", text, why);
    *told = true;
    weft__tcp_guest_end(guest);
}

static void turn_away(weft__tcp_guest *guest, const char *why)
{
    turn_away_as(guest, &guest->tcp->stranger_told, why);
}

/* Both ends come to the same choice: the lower rank's connection stays.  Where that one is making none, or has been at it for longer than a
 * connection may take, or than a kernel takes to answer, it takes the other's: who is told to wait is told so for the sake of one that may
 * still come. */
static weft__tcp_verdict judge(const weft__tcp *tcp, const weft__tcp_peer *peer,
                               const weft__tcp_standing *theirs)
{
    if (theirs->course < peer->course && peer->state != WEFT__TCP_GONE) return WEFT__TCP_BEHIND;
    switch (peer->state) {
    case WEFT__TCP_IDLE: return WEFT__TCP_TAKEN;
    case WEFT__TCP_DIALLING:
    case WEFT__TCP_ASTRAY:
    case WEFT__TCP_MENDING:
        return peer->rank < tcp->me || !weft__tcp_dial_is_hopeful(peer) ? WEFT__TCP_TAKEN : WEFT__TCP_CROSSED;
    case WEFT__TCP_UP:
        if (weft__tcp_is_newer(peer, theirs)) return WEFT__TCP_TAKEN;
        break;
    case WEFT__TCP_GONE: break;
    }
    return WEFT__TCP_UNWANTED;
}

/* NULL: it has to try again, or was told why not. */
static weft__tcp_link *take_member(weft__tcp_guest *guest, weft__tcp_peer *peer)
{
    weft__tcp_standing mine = {0};
    weft__tcp_verdict verdict;
    weft__tcp_link *link = NULL;
    weft__tcp_judgement told;
    size_t done = 0;
    if (guest->standing.course > peer->course) (void)weft__tcp_follow(peer, guest->standing.course);
    if (weft__tcp_is_overtaken(peer, &guest->standing)) {
        turn_away(guest, "its end has had another one since");
        return NULL;
    }
    mine.course = peer->course;
    verdict = judge(guest->tcp, peer, &guest->standing);
    if (verdict == WEFT__TCP_TAKEN) {
        link = weft__tcp_link_new(peer);
        if (!link) {
            turn_away(guest, "no memory for it"); /* the member tries again */
            return NULL;
        }
        if (peer->link) weft__tcp_unlink(peer);
        mine = weft__tcp_stand(peer);
    }
    weft__tcp_verdict_make(&guest->handshake, (uint8_t)verdict, &mine, &told);
    if (link) weft__tcp_link_take_keys(link, &guest->handshake);
    if (weft__tcp_step_write(guest->polled.fd, &told, sizeof told, &done) == WEFT__STEP_DONE && link)
        return link;
    if (link) weft__list_append(&guest->tcp->closed, &link->queued);
    weft__tcp_guest_end(guest);
    if (peer->state == WEFT__TCP_MENDING && !peer->dial) weft__tcp_dial_begin(peer, "its connection broke");
    return NULL;
}

/* A member: its proof fits. */
static void receive_member(weft__tcp_guest *guest)
{
    weft__tcp_peer *peer = &guest->tcp->peer[guest->hello.hello.from];
    weft__tcp_link *link = take_member(guest, peer);
    const weft__tcp_standing theirs = guest->standing;
    if (!link) return;
    weft__tcp_link_take_over(link, &guest->polled);
    free_place(guest);
    weft__tcp_link_start(link, &theirs);
}

static weft__tcp_step tcp_accept_advance(weft__tcp_guest *guest)
{
    const int fd = guest->polled.fd;
    switch (guest->step) {
    case WEFT__GUEST_HELLO: return weft__tcp_step_read(fd, &guest->hello, sizeof guest->hello, &guest->done);
    case WEFT__GUEST_ANSWER:
        return weft__tcp_step_write(fd, &guest->answer, sizeof guest->answer, &guest->done);
    case WEFT__GUEST_PROOF: break;
    case WEFT__GUEST_FREE: break;
    }
    return weft__tcp_step_read(fd, &guest->proof, sizeof guest->proof, &guest->done);
}

/* Whose key is another one, and who does not know the job's secret, cannot be told apart. */
static void turn_away_unproved(weft__tcp_guest *guest)
{
    const int from = guest->hello.hello.from;
    weft__fail(WEFT_ERR_AUTH,
               "it says that it is rank %d and does not prove it: it has another key than that rank, does "
               "not know the job's "
               "secret, or what it said was changed on its way",
               from);
    turn_away_as(guest, &guest->tcp->claim_told, weft_last_error());
}

/* What speaks against a hello before anything of it is opened; NULL: nothing. */
static const char *why_not(weft__tcp_guest *guest)
{
    const weft__tcp *tcp = guest->tcp;
    const weft__hello *hello = &guest->hello.hello;
    weft__tcp_wire wire;
    if (weft__hello_check(tcp->keys, WEFT__PURPOSE_DATA, tcp->me, tcp->world, hello))
        return weft_last_error();
    wire = tcp->peer[hello->from].wire;
    if (hello->wire != wire) {
        weft__fail(
            WEFT_ERR_AUTH,
            "it says that it is rank %d and wants a connection that is %s, and one that is %s was agreed on: "
            "it is not, or what it said was changed on its way",
            (int)hello->from, weft__tcp_wire_name(hello->wire), weft__tcp_wire_name((int)wire));
        return weft_last_error();
    }
    return NULL;
}

/* False: this is no guest any more. */
static bool answer_hello(weft__tcp_guest *guest)
{
    const char *why = why_not(guest);
    if (why)
        turn_away(guest, why);
    else if (weft__tcp_hello_take(&guest->handshake, guest->tcp->keys, &guest->hello) &&
             weft__tcp_answer_make(&guest->handshake, &guest->answer))
        return true;
    else
        turn_away_unproved(guest);
    return false;
}

/* False: this is no guest any more. */
static bool next_step(weft__tcp_guest *guest)
{
    if (guest->step == WEFT__GUEST_PROOF) {
        if (weft__tcp_proof_take(&guest->handshake, &guest->proof, &guest->standing))
            receive_member(guest);
        else
            turn_away_unproved(guest);
        return false;
    }
    if (guest->step == WEFT__GUEST_HELLO && !answer_hello(guest)) return false;
    guest_to(guest, guest->step == WEFT__GUEST_HELLO ? WEFT__GUEST_ANSWER : WEFT__GUEST_PROOF);
    return true;
}

static void guest_ready(weft__polled *w, uint32_t events)
{
    weft__tcp_guest *guest = WEFT__OWNER(w, weft__tcp_guest, polled);
    weft__tcp_step step;
    (void)events;
    guest->looks.made++;
    do step = tcp_accept_advance(guest);
    while (step == WEFT__STEP_DONE && next_step(guest));
    if (step != WEFT__STEP_ENDED) return;
    /* It hung up: a member whose own attempt lost against ours, or who leaves, or a
     * stranger who only probed. */
    weft__tcp_guest_end(guest);
}

static void accept_later(weft__tcp *tcp)
{
    tcp->accept_at_ns = weft__now_ns() + SHORTAGE_MS * WEFT__MS;
    weft__tcp_wake_at(tcp, tcp->accept_at_ns);
}

void weft__tcp_held_end(weft__tcp *tcp)
{
    if (tcp->held_fd < 0) return;
    weft__descriptor_disown(tcp->held_fd);
    close(tcp->held_fd);
    tcp->held_fd = -1;
}

/* It cannot be watched, which is this rank's own want: to whoever connects that is to look as a rank that is slow.  No other one is
 * accepted until this one has a place. */
static void hold(weft__tcp *tcp, int fd, const weft__tcp_address *address)
{
    if (!tcp->held_told) weft__log(WEFT__WARN, "tcp: connections wait: %s", weft_last_error());
    tcp->held_told = true;
    weft__tcp_held_end(tcp);
    weft__descriptor_own(fd); /* of which the set has not been told */
    tcp->held_fd = fd;
    tcp->held = *address;
    accept_later(tcp);
}

/* False: one is, still. */
static bool take_held(weft__tcp *tcp)
{
    const int fd = tcp->held_fd;
    tcp->held_fd = -1;
    if (fd >= 0) weft__tcp_guest_begin(tcp, fd, &tcp->held);
    return tcp->held_fd < 0;
}

void weft__tcp_guest_begin(weft__tcp *tcp, int fd, const weft__tcp_address *address)
{
    weft__tcp_guest *guest;
    if (weft__list_empty(&tcp->free_guests))
        turn_away(WEFT__LIST_ENTRY(tcp->guests.next, weft__tcp_guest, link), "too many are waiting");
    guest = WEFT__LIST_ENTRY(tcp->free_guests.next, weft__tcp_guest, link);
    guest->polled = (weft__polled){.fd = fd, .ready = guest_ready};
    guest->address = *address;
    guest->looks.made++; /* it is another one */
    if (weft__poller_add(tcp->poller, &guest->polled, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
        guest->polled.fd = -1;
        hold(tcp, fd, address);
        return;
    }
    guest_to(guest, WEFT__GUEST_HELLO);
    weft__list_remove(&guest->link);
    weft__list_append(&tcp->guests, &guest->link);
    guest->deadline_ns = weft__now_ns() + weft__setting_int(WEFT__SET_HANDSHAKE_MS) * WEFT__MS;
    weft__tcp_wake_at(tcp, guest->deadline_ns);
}

/* The oldest first.  One more check before it is sent away: it may be us who were late. */
void weft__tcp_guests_due(weft__tcp *tcp, int64_t now_ns)
{
    while (!weft__list_empty(&tcp->guests)) {
        weft__tcp_guest *guest = WEFT__LIST_ENTRY(tcp->guests.next, weft__tcp_guest, link);
        if (guest->deadline_ns > now_ns) {
            weft__tcp_wake_at(tcp, guest->deadline_ns);
            return;
        }
        guest_ready(&guest->polled, 0);
        if (tcp->guests.next == &guest->link) turn_away(guest, "it took too long to prove itself");
    }
}

static weft__tcp_address address_of(const struct sockaddr_storage *name)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    weft__tcp_address address = {0};
    if (name->ss_family == AF_INET) {
        memcpy(&v4, name, sizeof v4);
        address.family = 4;
        address.port = ntohs(v4.sin_port);
        memcpy(address.bytes, &v4.sin_addr, 4);
    } else {
        memcpy(&v6, name, sizeof v6);
        address.family = 6;
        address.port = ntohs(v6.sin6_port);
        memcpy(address.bytes, &v6.sin6_addr, 16);
    }
    return address;
}

void weft__tcp_accept_all(weft__tcp *tcp)
{
    tcp->accept_again = false;
    tcp->accepts.made++;
    if (!take_held(tcp)) return;
    for (int i = 0; i < WEFT__TCP_ACCEPTS; i++) {
        struct sockaddr_storage name = {0};
        socklen_t length = sizeof name;
        weft__tcp_address address;
        char why[128];
        int fd = accept4(tcp->listener.fd, (struct sockaddr *)&name, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == EAGAIN) return;
        if (fd < 0 && weft__tcp_is_own_want(errno)) {
            weft__log(WEFT__WARN, "tcp: connections wait, but none can be accepted: %s",
                      strerror_r(errno, why, sizeof why));
            accept_later(tcp);
            return;
        }
        if (fd < 0) continue; /* that one connection failed before it was taken */
        weft__tcp_socket_options(fd);
        address = address_of(&name);
        weft__tcp_guest_begin(tcp, fd, &address);
        if (tcp->held_fd >= 0) return;
    }
    tcp->accept_again = true;
}

static uint32_t guest_events(const weft__tcp_guest *guest)
{
    return weft__tcp_ready(guest->polled.fd, guest->step == WEFT__GUEST_ANSWER ? POLLOUT : POLLIN);
}

/* A connection that must wait for a descriptor, or for the next poll, needs no edge. */
void weft__tcp_accept_note(weft__tcp *tcp)
{
    bool waits = !tcp->accept_again && tcp->accept_at_ns == WEFT__NEVER;
    weft__tcp_looks_note(&tcp->accepts, waits ? weft__tcp_ready(tcp->listener.fd, POLLIN) : 0);
    WEFT__LIST_EACH(&tcp->guests, at)
    {
        weft__tcp_guest *guest = WEFT__LIST_ENTRY(at, weft__tcp_guest, link);
        weft__tcp_looks_note(&guest->looks, guest_events(guest));
    }
}

void weft__tcp_accept_recheck(weft__tcp *tcp)
{
    if (weft__tcp_looks_missed(&tcp->accepts)) {
        weft__log(WEFT__WARN, "tcp: a connection had come, and nothing told of that: it is accepted now");
        weft__tcp_accept_all(tcp);
    }
    WEFT__LIST_EACH(&tcp->guests, at)
    {
        weft__tcp_guest *guest = WEFT__LIST_ENTRY(at, weft__tcp_guest, link);
        char text[WEFT__TCP_TEXT];
        if (!weft__tcp_looks_missed(&guest->looks)) continue;
        weft__tcp_address_text(&guest->address, text);
        weft__log(WEFT__WARN, "tcp: the handshake of %s could go on, and nothing told of that: it does now",
                  text);
        guest_ready(&guest->polled, 0);
    }
}
