/* fd_exchange_lead.c - the leader's side of fd_exchange.c: who sits, who is still a stranger, and handing
 * out.
 *
 * Waits for all connections at once, so that one that says nothing holds up nobody; one that proves nothing
 * within WEFT_HANDSHAKE_MS is turned away, the last reason being told if the deadline passes with ranks
 * missing. */
#include "clock.h"
#include "fd_exchange_wire.h"
#include "reserve.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Connections that have not proven anything, at once, beside one for each rank, since all may come together;
 * then the oldest has to go. */
#define STRANGERS_MAX 32

typedef enum guest_phase { GUEST_HELLO, GUEST_PROOF, GUEST_SEATED } guest_phase;

typedef struct guest {
    int fd;
    guest_phase phase;
    int local;           /* the rank it says it is, from GUEST_PROOF on */
    int64_t deadline_ns; /* to be seated */
    weft__hello hello;
    weft__answer answer;
    weft__credentials shown;
    int fds[WEFT__HELLO_FDS];
    weft__fd_message in;
} guest;

typedef struct table {
    const weft__segment_config *config;
    weft__segment_peer *peers;
    weft__fd_hello *fd_hellos; /* by local rank */
    guest **seats;             /* by local rank; NULL: missing */
    int missing;
    int listen_fd;
    guest *guests; /* not seated; fd -1: free */
    int places;    /* for guests */
    struct pollfd *looks;
    char refusal[160]; /* why the last connection was turned away */
} table;

static const uint8_t guest_follows[] = {[GUEST_HELLO] = WEFT__MAY_BECOME(GUEST_PROOF),
                                        [GUEST_PROOF] = WEFT__MAY_BECOME(GUEST_SEATED),
                                        [GUEST_SEATED] = 0};

/* The one place that stores a guest's phase.  One that connects anew begins in a place that is made anew. */
static void guest_to(guest *g, guest_phase to)
{
    WEFT__ASSERT(WEFT__ALLOWS(guest_follows, g->phase, to), g->phase, to);
    g->phase = to;
}

static void guest_leave(guest *g)
{
    weft__close_fds(&g->fd, 1);
    weft__close_fds(g->fds, WEFT__HELLO_FDS);
    g->fd = g->fds[0] = g->fds[1] = g->fds[2] = -1;
}

static void turn_away(table *t, guest *g, const char *why)
{
    snprintf(t->refusal, sizeof t->refusal, "%s", why);
    guest_leave(g);
}

static guest *free_guest(table *t)
{
    guest *oldest = &t->guests[0];
    for (int i = 0; i < t->places; i++) {
        guest *g = &t->guests[i];
        if (g->fd < 0) return g;
        if (g->deadline_ns < oldest->deadline_ns) oldest = g;
    }
    turn_away(t, oldest, "too many connections that did not prove anything");
    return oldest;
}

static void welcome(table *t)
{
    int fd;
    while ((fd = accept4(t->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        guest *g;
        unsigned uid;
        if (!weft__same_user(fd, &uid)) {
            snprintf(t->refusal, sizeof t->refusal, "a process of user %u connected", uid);
            close(fd);
            continue;
        }
        g = free_guest(t);
        *g = (guest){.fd = fd, .fds = {-1, -1, -1}};
        g->deadline_ns = weft__deadline(weft__now_ns(), weft__setting_int(WEFT__SET_HANDSHAKE_MS));
        g->in = (weft__fd_message){.bytes = &g->hello, .length = sizeof g->hello};
    }
}

static int local_of(const weft__segment_config *config, int world_rank)
{
    for (int i = 0; i < config->size; i++)
        if (config->world_ranks[i] == world_rank) return i;
    return -1;
}

static void guest_hello(table *t, guest *g)
{
    const weft__segment_config *config = t->config;
    int world = config->world_ranks[config->size - 1] + 1;

    if (weft__hello_check(config->keys, WEFT__PURPOSE_FD_EXCHANGE, config->world_ranks[0], world,
                          &g->hello)) {
        turn_away(t, g, weft_last_error());
        return;
    }
    g->local = local_of(config, g->hello.from);
    if (g->local <= 0 || t->seats[g->local]) {
        turn_away(t, g, "a rank that is not of this host, or has joined already, connected");
        return;
    }
    if (!weft__is_process_of(config, g->local, g->fd)) {
        turn_away(t, g, "another process than that of the rank which it says it is connected");
        return;
    }
    weft__answer_make(config->keys, &g->hello, &g->answer);
    if (weft__fd_message_send(g->fd, &g->answer, sizeof g->answer, NULL, 0, 0)) {
        turn_away(t, g, weft_last_error());
        return;
    }
    guest_to(g, GUEST_PROOF);
    g->in = (weft__fd_message){.bytes = &g->shown,
                               .length = sizeof g->shown,
                               .fds = g->fds,
                               .max_fds = WEFT__HELLO_FDS};
}

static weft_status guest_proof(table *t, guest *g)
{
    int *fds = g->fds, n_fds = g->in.n_fds;
    guest *seat;

    if (!weft__proof_check(t->config->keys, &g->hello, &g->answer, &g->shown.proof)) {
        turn_away(t, g, "a process that does not know the job's secret connected");
        return WEFT_OK;
    }
    if (t->seats[g->local] || n_fds != (g->shown.fd_hello.has_pidfd ? 3 : 2) || g->shown.fd_hello.pid <= 0) {
        turn_away(t, g, "a rank came twice, or without its descriptors or its process");
        return WEFT_OK;
    }
    seat = weft__reserve_get(sizeof *seat);
    if (!seat) return weft__fail_memory(sizeof *seat, "joining a segment");
    weft__fd_hello_take(&g->shown.fd_hello, &fds, &n_fds, &t->peers[g->local]);
    t->fd_hellos[g->local] = g->shown.fd_hello;
    guest_to(g, GUEST_SEATED);
    *seat = *g;
    seat->fds[0] = seat->fds[1] = seat->fds[2] = -1;
    t->seats[g->local] = seat;
    WEFT__ASSERT(t->missing > 0 && g->local > 0, t->missing, g->local);
    t->missing--;
    g->fd = g->fds[0] = g->fds[1] = g->fds[2] = -1;
    return WEFT_OK;
}

/* Whatever can be read from it. */
static weft_status guest_step(table *t, guest *g)
{
    int state = 1;
    while (g->fd >= 0 && g->phase != GUEST_SEATED && (state = weft__fd_message_step(g->fd, &g->in)) > 0) {
        if (g->phase == GUEST_HELLO) {
            guest_hello(t, g);
        } else {
            weft_status status = guest_proof(t, g);
            if (status) return status;
        }
    }
    if (state < 0) turn_away(t, g, "a connection was closed before it proved anything");
    return WEFT_OK;
}

static weft_status fail_missing(const table *t)
{
    char who[160] = "";
    size_t used = 0;

    for (int i = 1; i < t->config->size && used + 16 < sizeof who; i++)
        if (!t->seats[i])
            used += (size_t)snprintf(who + used, sizeof who - used, " %d", t->config->world_ranks[i]);
    return weft__fail(WEFT_ERR_TIMEOUT,
                      "joining the segment of this host: the time ran out; %d of %d ranks missing:%s%s%s",
                      t->missing, t->config->size, who,
                      t->refusal[0] ? "; the last connection refused: " : "", t->refusal);
}

/* Waits for something to read, and reads it.  Seated members have nothing to say: reading from one means that
 * it has gone. */
static weft_status table_turn(table *t, int64_t until_ns)
{
    int size = t->config->size, n = 0;
    weft_status status = WEFT_OK;

    t->looks[n++] = (struct pollfd){.fd = t->listen_fd, .events = POLLIN};
    for (int i = 1; i < size; i++)
        t->looks[n++] = (struct pollfd){.fd = t->seats[i] ? t->seats[i]->fd : -1, .events = POLLIN};
    for (int i = 0; i < t->places; i++)
        t->looks[n++] = (struct pollfd){.fd = t->guests[i].fd, .events = POLLIN};
    if (poll(t->looks, (nfds_t)n, weft__poll_ms(until_ns)) <= 0) return WEFT_OK;
    for (int i = 1; i < size; i++)
        if (t->looks[i].revents)
            return weft__fail(WEFT_ERR_PEER, "rank %d left while the ranks of its host were joining",
                              t->config->world_ranks[i]);
    for (int i = 0; i < t->places && !status; i++)
        if (t->looks[size + i].revents) status = guest_step(t, &t->guests[i]);
    if (t->looks[0].revents) welcome(t);
    return status;
}

static weft_status seat_all(table *t)
{
    while (t->missing) {
        int64_t now = weft__now_ns(), until = t->config->deadline_ns;
        weft_status status;
        if (now >= until) return fail_missing(t);
        for (int i = 0; i < t->places; i++) {
            guest *g = &t->guests[i];
            if (g->fd >= 0 && g->deadline_ns <= now)
                turn_away(t, g, "a process did not prove in time that it knows the secret");
            if (g->fd >= 0) until = weft__soonest(until, g->deadline_ns);
        }
        status = table_turn(t, until);
        if (status) return status;
    }
    return WEFT_OK;
}

static weft_status deliver_batch(const table *t, int fd, int memfd, int first)
{
    int count = t->config->size - first, n_fds = 0, fds[WEFT__BATCH_FDS];
    weft__batch message = {.head = {.kind = WEFT__FD_EXCHANGE_HELLOS, .first = (uint32_t)first}};

    if (count > WEFT__BATCH_HELLOS) count = WEFT__BATCH_HELLOS;
    message.head.count = (uint32_t)count;
    if (first == 0) fds[n_fds++] = memfd;
    for (int i = 0; i < count; i++) {
        message.body.fd_hellos[i] = t->fd_hellos[first + i];
        n_fds += weft__fd_hello_fds(&t->peers[first + i], &fds[n_fds]);
    }
    return weft__fd_message_send(fd, &message, sizeof message, fds, n_fds, t->config->deadline_ns);
}

/* One member after the other: the descriptors under way at once are bounded by the user's limit. */
static weft_status deliver(const table *t, int memfd)
{
    const weft__batch go = {.head = {.kind = WEFT__FD_EXCHANGE_GO}};
    const weft__segment_config *config = t->config;
    weft_status status = WEFT_OK;

    for (int i = 1; i < config->size && !status; i++) {
        char have_all;
        weft__fd_message in = {.bytes = &have_all, .length = 1};
        for (int first = 0; first < config->size && !status; first += WEFT__BATCH_HELLOS)
            status = deliver_batch(t, t->seats[i]->fd, memfd, first);
        if (!status) status = weft__fd_message_receive(t->seats[i]->fd, &in, config->deadline_ns);
        if (status)
            return weft__fail(status, "handing the segment to rank %d: %s", config->world_ranks[i],
                              weft_last_error());
    }
    for (int i = 1; i < config->size && !status; i++)
        status = weft__fd_message_send(t->seats[i]->fd, &go, sizeof go, NULL, 0, config->deadline_ns);
    return status;
}

static void tell_failure(const table *t, weft_status status)
{
    weft__batch message = {.head = {.kind = WEFT__FD_EXCHANGE_FAILED, .status = status}};
    char reason[WEFT__SENTENCE_BYTES];

    snprintf(reason, sizeof reason, "%s", weft_last_error());
    snprintf(message.body.reason, sizeof message.body.reason, "%.*s", WEFT__REASON_BYTES - 1, reason);
    for (int i = 1; i < t->config->size; i++)
        if (t->seats && t->seats[i])
            weft__fd_message_send(t->seats[i]->fd, &message, sizeof message, NULL, 0, 0);
    weft__fail(status, "%s", reason); /* what sending said meanwhile is of no interest */
}

static weft_status listen_as_leader(const weft__segment_config *config, int *listen_fd)
{
    struct sockaddr_un address;
    socklen_t length = weft__fd_exchange_name(config->name, &address);

    *listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listen_fd < 0) return weft__fail_errno("making a Unix socket");
    while (bind(*listen_fd, (struct sockaddr *)&address, length)) {
        if (errno != EADDRINUSE) return weft__fail_errno("binding the Unix socket @%s", address.sun_path + 1);
        if (weft__now_ns() >= config->deadline_ns)
            return weft__fail(WEFT_ERR_TIMEOUT, "another process holds the Unix socket @%s",
                              address.sun_path + 1);
        poll(NULL, 0, WEFT__RETRY_MS);
    }
    if (listen(*listen_fd, WEFT__SEGMENT_RANKS_MAX)) return weft__fail_errno("listening on a Unix socket");
    return WEFT_OK;
}

static weft_status table_allocate(table *t)
{
    size_t n = (size_t)t->config->size;
    t->fd_hellos = weft__reserve_zeroed(n * sizeof *t->fd_hellos);
    t->seats = weft__reserve_zeroed(n * sizeof *t->seats);
    t->places = t->config->size + STRANGERS_MAX;
    t->guests = weft__reserve_get((size_t)t->places * sizeof *t->guests);
    t->looks = weft__reserve_zeroed((n + (size_t)t->places) * sizeof *t->looks);
    for (int i = 0; t->guests && i < t->places; i++) t->guests[i].fd = -1;
    if (t->fd_hellos && t->seats && t->guests && t->looks) return WEFT_OK;
    return weft__fail_memory((size_t)t->places * sizeof *t->guests, "joining a segment");
}

static void table_clear(table *t)
{
    for (int i = 0; t->guests && i < t->places; i++)
        if (t->guests[i].fd >= 0) guest_leave(&t->guests[i]);
    for (int i = 1; t->seats && i < t->config->size; i++)
        if (t->seats[i]) {
            close(t->seats[i]->fd);
            weft__reserve_give(t->seats[i]);
        }
    weft__close_fds(&t->listen_fd, 1);
    weft__reserve_give(t->fd_hellos);
    weft__reserve_give((void *)t->seats);
    weft__reserve_give(t->guests);
    weft__reserve_give(t->looks);
}

weft_status weft__fd_exchange_lead(const weft__segment_config *config, int memfd, weft__segment_peer *peers,
                                   const uint8_t own_cookie[WEFT__COOKIE_BYTES])
{
    table t = {.config = config, .peers = peers, .missing = config->size - 1, .listen_fd = -1};
    weft_status status;

    status = table_allocate(&t);
    if (!status) {
        weft__fd_hello_make(&peers[0], own_cookie, &t.fd_hellos[0]);
        status = listen_as_leader(config, &t.listen_fd);
    }
    if (!status) status = seat_all(&t);
    if (!status) status = deliver(&t, memfd);
    if (status) tell_failure(&t, status);
    for (int i = 0; i < config->size && !status; i++)
        weft__same_process(&peers[i], t.fd_hellos[i].cookie, &peers[0], own_cookie);
    table_clear(&t);
    return status;
}
