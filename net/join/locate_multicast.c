/* locate_multicast.c - meeting at a multicast address.
 *
 * A rank asks who serves, and listens for a moment, longer or shorter by chance.  If it hears nobody it
 * serves, on a free port, and says so: at once to who asks, and in growing periods.  Of two that serve the
 * one with the lower nonce stays; the other resigns, and its clients search again.  When all are there it falls
 * silent, so the next run of the same name finds an empty field.
 *
 * A beacon that leads to nothing - the server has gone, is complete, is another one - is not followed again
 * for a while, or ever: sent again by a stranger it costs a connection.  Without a secret nothing leaves this
 * host.  Fails where the multicast address cannot be joined or sent to. */
#include "beacon.h"
#include "clock.h"
#include "locate.h"
#include "multicast.h"
#include "status.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define LISTEN_MS     30 /* least time before a rank serves */
#define LISTEN_MORE   90 /* by chance, as much as this longer */
#define RANK_0_EARLY  30 /* by which rank 0 listens shorter */
#define ASK_MS        40 /* between two questions */
#define PERIOD_MS     50 /* between the first two beacons; grows by half each time */
#define PERIOD_MAX_MS 1000
#define PAUSE_MS      10   /* between two beacons, whoever asks */
#define AVOID_MS      1000 /* for this long a server that did not answer is not tried again */
#define LOOK_MS       200  /* for a rival to greet */
#define AVOIDED_MAX   16
#define BATCH         64 /* datagrams taken in one go: noise must not hold us */

enum part { LISTENS, SERVES, HAS_MET };

/* What may follow on each part.  It listens anew where what it heard of was in vain. */
static const uint8_t part_follows[] = {[LISTENS] = WEFT__MAY_BECOME(LISTENS) | WEFT__MAY_BECOME(SERVES) |
                                                   WEFT__MAY_BECOME(HAS_MET),
                                       [SERVES] = WEFT__MAY_BECOME(LISTENS) | WEFT__MAY_BECOME(HAS_MET),
                                       [HAS_MET] = 0};

typedef struct by_multicast {
    weft__finder finder;
    const weft__rendezvous *r;
    weft__multicast net;
    char name[WEFT__ADDRESS_BYTES + 32]; /* of the meeting, for sentences */
    enum part part;
    uint8_t nonce[WEFT__RUN_NONCE_BYTES]; /* ours */
    bool heard;                           /* another server, */
    weft__beacon another;                 /* the one with the lowest nonce */
    bool asked;                           /* somebody wants to know who serves */
    bool spoken;                          /* what we said has left */
    bool strangers;                       /* a beacon of another job, or with another secret */
    int64_t serve_ns;                     /* when we have listened enough */
    int64_t ask_ns, sent_ns, period_ns;
    weft__address served;
    struct {
        uint8_t nonce[WEFT__RUN_NONCE_BYTES];
        int64_t until_ns;
    } avoided[AVOIDED_MAX]; /* a ring */
    int avoided_next;
} by_multicast;

/* ---- beacons ---- */

static void avoid(by_multicast *f, const uint8_t *nonce, int64_t until_ns)
{
    memcpy(f->avoided[f->avoided_next].nonce, nonce, sizeof f->nonce);
    f->avoided[f->avoided_next].until_ns = until_ns;
    f->avoided_next = (f->avoided_next + 1) % AVOIDED_MAX;
}

static bool is_avoided(const by_multicast *f, const uint8_t *nonce)
{
    int64_t now_ns = weft__now_ns();
    for (int i = 0; i < AVOIDED_MAX; i++)
        if (f->avoided[i].until_ns > now_ns && !memcmp(f->avoided[i].nonce, nonce, sizeof f->nonce))
            return true;
    return false;
}

static void hear(by_multicast *f, weft__beacon *b)
{
    bool near = weft__address_is_loopback(&b->server);
    if (!memcmp(b->nonce, f->nonce, sizeof f->nonce)) return; /* our own voice */
    if (b->kind == WEFT__BEACON_ASK) {
        f->asked = true;
        return;
    }
    if (near != !f->net.interface || is_avoided(f, b->nonce)) return;
    if (f->heard && memcmp(b->nonce, f->another.nonce, sizeof f->nonce) > 0) return;
    if (b->server.any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&b->server.v6.sin6_addr))
        b->server.v6.sin6_scope_id = f->net.interface;
    f->heard = true;
    f->another = *b;
}

static void listen_in(by_multicast *f)
{
    uint8_t bytes[WEFT__BEACON_BYTES + 1];
    weft__beacon beacon;
    for (int i = 0; i < BATCH; i++) {
        ssize_t n = weft__multicast_take(&f->net, bytes, sizeof bytes);
        if (n < 0) return;
        switch (weft__beacon_read(f->r->keys, bytes, (size_t)n, &beacon)) {
        case WEFT__BEACON_OURS: hear(f, &beacon); break;
        case WEFT__BEACON_OTHERS: f->strangers = true; break;
        default: break;
        }
    }
}

static weft_status say(by_multicast *f, enum weft__beacon_kind kind)
{
    uint8_t bytes[WEFT__BEACON_BYTES];
    weft__beacon beacon = {.kind = kind, .server = f->served};
    weft_status status;
    memcpy(beacon.nonce, f->nonce, sizeof beacon.nonce);
    weft__beacon_write(f->r->keys, &beacon, bytes);
    status = weft__multicast_send(&f->net, bytes, sizeof bytes);
    f->spoken = f->spoken || status == WEFT_OK;
    return f->spoken ? WEFT_OK : status; /* a network that worked may work again */
}

static void write_place(const by_multicast *f, weft__locator *place)
{
    char name[sizeof f->name + 96];
    snprintf(name, sizeof name, "%s%s", f->name,
             f->strangers ? ", where another job or one with another secret is heard too," : "");
    weft__locate_text(place, name);
}

/* ---- the finder ---- */

static void part_to(by_multicast *f, enum part to)
{
    WEFT__ASSERT(WEFT__ALLOWS(part_follows, f->part, to), f->part, to);
    f->part = to;
}

static void begin_to_listen(by_multicast *f)
{
    int64_t now_ns = weft__now_ns();
    uint32_t ms = LISTEN_MS + randombytes_uniform(LISTEN_MORE) - (f->r->rank == 0 ? RANK_0_EARLY : 0);
    randombytes_buf(f->nonce, sizeof f->nonce);
    part_to(f, LISTENS);
    f->heard = false;
    f->serve_ns = now_ns + ms * WEFT__MS;
    f->ask_ns = now_ns;
}

static weft_status multicast_locator_look(weft__finder *finder, weft__locator *place)
{
    by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    weft_status status = WEFT_OK;
    memset(place, 0, sizeof *place);
    listen_in(f);
    if (f->heard) {
        place->go = true;
        place->at = f->another.server;
        memcpy(place->nonce, f->another.nonce, sizeof place->nonce);
    } else if (weft__now_ns() >= f->serve_ns) {
        place->serve = true;
        place->at = f->net.own;
        memcpy(place->nonce, f->nonce, sizeof place->nonce);
    } else if (weft__now_ns() >= f->ask_ns) {
        f->ask_ns = weft__now_ns() + ASK_MS * WEFT__MS;
        status = say(f, WEFT__BEACON_ASK);
    }
    write_place(f, place);
    return status;
}

static weft_status in_vain(weft__finder *finder, const weft__locator *place, enum weft__in_vain what,
                           const weft__probe *probe)
{
    by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    bool for_ever = what == WEFT__COMPLETE || what == WEFT__ANOTHER;
    (void)probe;
    if (what == WEFT__NOT_BOUND)
        return weft__fail(WEFT_ERR_SYSTEM, "cannot serve at %s: %s", place->text, zmq_strerror(errno));
    /* Whoever sent that beacon knows the secret: a refusal comes from a server that is just closing. */
    avoid(f, place->nonce, for_ever ? WEFT__NEVER : weft__now_ns() + AVOID_MS * WEFT__MS);
    begin_to_listen(f);
    return WEFT_OK;
}

static weft_status announce(by_multicast *f)
{
    f->sent_ns = weft__now_ns();
    f->asked = false;
    f->finder.next_ns = f->sent_ns + f->period_ns;
    f->period_ns += f->period_ns / 2;
    if (f->period_ns > PERIOD_MAX_MS * WEFT__MS) f->period_ns = PERIOD_MAX_MS * WEFT__MS;
    return say(f, WEFT__BEACON_HERE);
}

static weft_status multicast_locator_serves(weft__finder *finder, weft__locator *place)
{
    by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    part_to(f, SERVES);
    f->served = place->at;
    f->period_ns = PERIOD_MS * WEFT__MS;
    write_place(f, place);
    return announce(f);
}

/* Not a beacon of old. */
static bool is_there(by_multicast *f)
{
    weft__probe probe;
    weft__probe_look(&f->another.server, weft__now_ns() + LOOK_MS * WEFT__MS, &probe);
    if (probe.result != WEFT__PROBE_GREETED) avoid(f, f->another.nonce, weft__now_ns() + AVOID_MS * WEFT__MS);
    return probe.result == WEFT__PROBE_GREETED;
}

static weft_status turn(weft__finder *finder, weft__locator *place)
{
    by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    if (f->part != SERVES) return WEFT_OK;
    listen_in(f);
    write_place(f, place);
    if (f->heard && memcmp(f->another.nonce, f->nonce, sizeof f->nonce) < 0 && is_there(f)) {
        part_to(f, LISTENS); /* from now on we follow that one */
        finder->next_ns = WEFT__NEVER;
        return WEFT_PENDING;
    }
    if (f->heard) f->asked = true; /* a server that has not heard of us yet */
    f->heard = false;
    if (f->asked && f->sent_ns + PAUSE_MS * WEFT__MS < finder->next_ns)
        finder->next_ns = f->sent_ns + PAUSE_MS * WEFT__MS;
    return weft__now_ns() >= finder->next_ns ? announce(f) : WEFT_OK;
}

static weft_status met(weft__finder *finder)
{
    by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    part_to(f, HAS_MET);
    weft__multicast_close(&f->net);
    finder->fd = -1;
    finder->next_ns = WEFT__NEVER;
    return WEFT_OK;
}

static weft_status multicast_locator_late(weft__finder *finder, double seconds)
{
    const by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    return weft__fail(WEFT_ERR_TIMEOUT, "joining at %s: no server was found after %.1f s", f->name, seconds);
}

static void close_finder(weft__finder *finder)
{
    by_multicast *f = WEFT__OWNER(finder, by_multicast, finder);
    weft__multicast_close(&f->net);
    free(f);
}

weft_status weft__via_at_multicast(weft__rendezvous *r, const weft__join *how, const weft__address *group)
{
    bool one_host = !*weft__via_secret_source(how);
    char text[WEFT__ADDRESS_BYTES], id[128];
    by_multicast *f;
    weft_status status = weft__via_address(r, group->any.sa_family);
    if (status) return status;
    snprintf(id, sizeof id, "%.100s-%d", how->job, weft__address_port(group));
    if ((status = weft__via_keys(r, how, id))) return status;
    if (r->world_size == 1) return weft__via_nobody(r);
    f = calloc(1, sizeof *f);
    if (!f) return weft__fail_memory(sizeof *f, "joining");
    if ((status = weft__multicast_open(group, one_host, &f->net))) {
        free(f);
        return status;
    }
    f->finder = (weft__finder){multicast_locator_look,
                               in_vain,
                               multicast_locator_serves,
                               turn,
                               met,
                               multicast_locator_late,
                               close_finder,
                               f->net.fd,
                               WEFT__NEVER};
    f->r = r;
    weft__address_text(group, text);
    snprintf(f->name, sizeof f->name, "%s port %d", text, weft__address_port(group));
    begin_to_listen(f);
    return weft__via_at_server(r, &f->finder);
}
