/* store.c - see store.h.  A failure is final: it is told to all who are here and to all who come later.
 * Frames that are not ours are dropped; a client that vanishes is missed by the others' deadlines. */
#include "store.h"
#include "clock.h"
#include "status.h"
#include "url.h"
#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ROUTE_BYTES   16   /* of a peer's address inside the ROUTER; ZeroMQ makes them of 5 bytes */
#define NAMED_MISSING 16   /* ranks that a sentence lists by number */
#define MOMENT_MS     500  /* by which the deadlines of ranks that began together may differ */
#define LAST_WORDS_MS 1000 /* for answers still under way when the socket closes */

typedef struct member {
    uint8_t id[WEFT__STORE_ID_BYTES];
    uint8_t route[ROUTE_BYTES];
    size_t route_bytes;
    int given_rank, given_world; /* -1: not given */
    int rank;                    /* once all are there */
    int host;                    /* order of its host's first arrival; the server's own is 0 */
    int arrival;
    weft__store_who who;
    bool done;
    void *block;      /* its part of the gather under way */
    uint32_t attempt; /* of its connections, the newest it has joined by */
} member;

/* Whose time ran out before all were there. */
struct quitter {
    int rank;
    int64_t at_ns;
};

enum phase { JOINING, COMPLETE, FAILED };

struct weft__store_server {
    void *router;
    void *owner_end, *thread_end; /* inproc pair: the owner's word that it is time to stop */
    pthread_t thread;
    weft__keys keys;
    uint8_t own[WEFT__STORE_ID_BYTES];
    char host_id[WEFT__HOST_ID_BYTES];

    enum phase phase;
    member *members;
    int count, room, arrivals;
    struct quitter *quitters; /* each rank once */
    int quitter_count;
    uint8_t nonce[16]; /* of this run of the job, once all are there */
    int world;         /* -1 until somebody says it */
    int expected;      /* clients that are to hear of a failure before the server may go */
    int step;          /* of the gather under way */
    int gathered;      /* parts of it that are here */
    size_t block_bytes;
    weft_status status;
    char sentence[WEFT__SENTENCE_BYTES];
};

/* ---- answers ---- */

static void send_to(weft__store_server *s, const member *to, enum weft__store_kind kind, const void *payload,
                    size_t bytes)
{
    weft__store_header header = {WEFT__STORE_MAGIC, WEFT__STORE_VERSION, (uint16_t)kind,   {0}, to->rank,
                                 s->world,          s->status,           (uint32_t)s->step};
    zmq_msg_t msg;
    if (zmq_msg_init_size(&msg, sizeof header + bytes))
        return; /* no memory: that client runs into its deadline */
    memcpy(zmq_msg_data(&msg), &header, sizeof header);
    if (bytes) memcpy((char *)zmq_msg_data(&msg) + sizeof header, payload, bytes);
    if (zmq_send(s->router, to->route, to->route_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_msg_send(&msg, s->router, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&msg);
}

static void send_to_all(weft__store_server *s, enum weft__store_kind kind, const void *payload, size_t bytes)
{
    for (int i = 0; i < s->count; i++)
        if (!s->members[i].done) send_to(s, &s->members[i], kind, payload, bytes);
}

static void fail(weft__store_server *s, weft_status status, const char *format, ...) WEFT__PRINTF(3, 4);
static void fail(weft__store_server *s, weft_status status, const char *format, ...)
{
    va_list args;
    if (s->phase == FAILED) return; /* the first cause wins */
    va_start(args, format);
    vsnprintf(s->sentence, sizeof s->sentence, format, args);
    va_end(args);
    s->phase = FAILED;
    s->status = status;
    if (s->expected < s->count) s->expected = s->count;
    send_to_all(s, WEFT__STORE_FAILED, s->sentence, strlen(s->sentence));
}

/* ---- joining ---- */

static int by_host_and_arrival(const void *left, const void *right)
{
    const member *a = left, *b = right;
    if (a->host != b->host) return a->host < b->host ? -1 : 1;
    return a->arrival < b->arrival ? -1 : a->arrival > b->arrival;
}

/* Given ranks are kept; the others get the free ones in the order of host and arrival, ascending. */
static weft_status assign_ranks(weft__store_server *s)
{
    bool *taken = calloc((size_t)s->world, sizeof *taken);
    int next = 0;
    if (!taken) return WEFT_ERR_MEMORY;
    for (int i = 0; i < s->count; i++)
        if (s->members[i].given_rank >= 0) taken[s->members[i].given_rank] = true;
    qsort(s->members, (size_t)s->count, sizeof *s->members, by_host_and_arrival);
    for (int i = 0; i < s->count; i++) {
        member *m = &s->members[i];
        m->rank = m->given_rank;
        if (m->rank >= 0) continue;
        while (taken[next]) next++;
        m->rank = next++;
    }
    free(taken);
    return WEFT_OK;
}

static int by_rank(const void *left, const void *right)
{
    const member *a = left, *b = right;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void complete(weft__store_server *s)
{
    if (assign_ranks(s)) {
        fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left to assign ranks");
        return;
    }
    qsort(s->members, (size_t)s->count, sizeof *s->members, by_rank); /* from here on rank r is members[r] */
    s->phase = COMPLETE;
    s->step = 1;
    randombytes_buf(s->nonce, sizeof s->nonce);
    send_to_all(s, WEFT__STORE_JOINED, s->nonce, sizeof s->nonce);
}

/* Whether what the newcomer was given contradicts what others were given. */
static void check_newcomer(weft__store_server *s, const member *m)
{
    for (int i = 0; i < s->count; i++) {
        const member *other = &s->members[i];
        if (other == m) continue;
        if (m->given_world > 0 && other->given_world > 0 && m->given_world != other->given_world) {
            s->expected = m->given_world > other->given_world ? m->given_world : other->given_world;
            fail(s, WEFT_ERR_MISMATCH,
                 "different world sizes: %d was given to a rank on host %s, pid %d, and %d to one on host "
                 "%s, pid %d",
                 other->given_world, other->who.host, other->who.pid, m->given_world, m->who.host,
                 m->who.pid);
            return;
        }
        if (m->given_rank >= 0 && m->given_rank == other->given_rank) {
            s->expected = s->world;
            fail(s, WEFT_ERR_ARGUMENT, "rank %d was given twice: on host %s, pid %d, and on host %s, pid %d",
                 m->given_rank, other->who.host, other->who.pid, m->who.host, m->who.pid);
            return;
        }
    }
    for (int i = 0; i < s->count && s->world > 0; i++) /* the world's size may have come after the rank */
        if (s->members[i].given_rank >= s->world) {
            s->expected = s->world;
            fail(s, WEFT_ERR_ARGUMENT,
                 "rank %d (host %s, pid %d) is out of range: the world has %d ranks, 0 to %d",
                 s->members[i].given_rank, s->members[i].who.host, s->members[i].who.pid, s->world,
                 s->world - 1);
            return;
        }
}

static int host_order(weft__store_server *s, const weft__store_who *who)
{
    int highest = 0;
    if (!strcmp(who->host_id, s->host_id)) return 0;
    for (int i = 0; i < s->count; i++) {
        if (!strcmp(s->members[i].who.host_id, who->host_id)) return s->members[i].host;
        if (s->members[i].host > highest) highest = s->members[i].host;
    }
    return highest + 1;
}

static member *add_member(weft__store_server *s)
{
    if (s->count == s->room) {
        int room = s->room ? 2 * s->room : 64;
        member *more = s->room < WEFT__WORLD_MAX ? realloc(s->members, (size_t)room * sizeof *more) : NULL;
        if (!more) return NULL;
        s->members = more;
        s->room = room;
    }
    return memset(&s->members[s->count++], 0, sizeof *s->members);
}

static member *find_member(weft__store_server *s, const uint8_t *id)
{
    for (int i = 0; i < s->count; i++)
        if (!memcmp(s->members[i].id, id, WEFT__STORE_ID_BYTES)) return &s->members[i];
    return NULL;
}

static void take_join(weft__store_server *s, const member *from, const weft__store_header *h,
                      const void *payload, size_t bytes)
{
    weft__store_who who;
    member *m;
    int host;
    if (bytes != sizeof who) return;
    if (s->phase == COMPLETE) {
        send_to(s, from, WEFT__STORE_BUSY, NULL, 0);
        return;
    }
    memcpy(&who, payload, sizeof who);
    who.host[sizeof who.host - 1] = who.host_id[sizeof who.host_id - 1] = '\0';
    host = host_order(s, &who);
    m = add_member(s);
    if (!m) {
        fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left for another member");
        send_to(s, from, WEFT__STORE_FAILED, s->sentence, strlen(s->sentence));
        return;
    }
    *m = *from;
    m->who = who;
    m->attempt = h->step;
    m->given_rank = m->rank = h->rank >= 0 ? h->rank : -1;
    m->given_world = h->world > 0 ? h->world : -1;
    m->host = host;
    m->arrival = memcmp(m->id, s->own, sizeof m->id) == 0 ? -1 : s->arrivals++;
    if (s->phase == FAILED) {
        send_to(s, m, WEFT__STORE_FAILED, s->sentence, strlen(s->sentence));
        return;
    }
    if (s->world < 0) s->world = m->given_world;
    check_newcomer(s, m);
    if (s->phase == JOINING && s->count == s->world) complete(s);
}

/* ---- who is missing ---- */

typedef struct text {
    char *at;
    size_t left;
} text;

static void append(text *t, const char *format, ...) WEFT__PRINTF(2, 3);
static void append(text *t, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(t->at, t->left, format, args);
    va_end(args);
    if (n < 0) return;
    if ((size_t)n >= t->left) n = (int)t->left - 1;
    t->at += n;
    t->left -= (size_t)n;
}

/* "rank 3", "rank 2 and rank 5", "rank 1, rank 2, rank 3 and 40 more". */
static void list_ranks(text *t, const bool *missing, int world, int total)
{
    int listed = 0;
    for (int r = 0; r < world && listed < NAMED_MISSING; r++) {
        if (!missing[r]) continue;
        append(t, listed == 0 ? "rank %d" : listed == total - 1 ? " and rank %d" : ", rank %d", r);
        listed++;
    }
    if (listed < total) append(t, " and %d more", total - listed);
}

/* Whose time ran out just now is not to blame, unless nobody else is.  Returns how many. */
static int excuse(const weft__store_server *s, bool *missing, int total)
{
    int64_t since_ns = weft__now_ns() - MOMENT_MS * WEFT__MS;
    int excused = 0;
    for (int i = 0; i < s->quitter_count; i++)
        excused += missing[s->quitters[i].rank] && s->quitters[i].at_ns >= since_ns;
    if (excused >= total) return 0;
    for (int i = 0; i < s->quitter_count; i++)
        if (s->quitters[i].at_ns >= since_ns) missing[s->quitters[i].rank] = false;
    return excused;
}

static void describe_missing(weft__store_server *s, text *t)
{
    bool *missing;
    int total = 0, unassigned = 0;
    if (s->world < 0) {
        append(t, "nobody was given the world size (%d joined)", s->count);
        return;
    }
    missing = malloc((size_t)s->world * sizeof *missing);
    if (!missing) return;
    for (int r = 0; r < s->world; r++) missing[r] = s->phase != COMPLETE || !s->members[r].block;
    if (s->phase == JOINING)
        for (int i = 0; i < s->count; i++) {
            if (s->members[i].given_rank < 0)
                unassigned++;
            else
                missing[s->members[i].given_rank] = false;
        }
    for (int r = 0; r < s->world; r++) total += missing[r];
    if (s->phase == JOINING) total -= excuse(s, missing, total - unassigned);
    if (unassigned)
        append(t, "%d of %d ranks", total - unassigned, s->world);
    else
        list_ranks(t, missing, s->world, total);
    append(t, total - unassigned == 1 ? " is missing" : " are missing");
    free(missing);
}

static void take_ask(weft__store_server *s, const member *from)
{
    char words[WEFT__SENTENCE_BYTES / 2] = "";
    text t = {words, sizeof words};
    describe_missing(s, &t);
    send_to(s, from, WEFT__STORE_MISSING, words, strlen(words));
}

/* ---- gathering ---- */

static void finish_gather(weft__store_server *s)
{
    size_t bytes = s->block_bytes;
    char *all = malloc(bytes * (size_t)s->world + 1);
    if (!all) {
        fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left to gather %zu bytes from each rank",
             bytes);
        return;
    }
    for (int r = 0; r < s->world; r++) {
        if (bytes) memcpy(all + (size_t)r * bytes, s->members[r].block, bytes);
        free(s->members[r].block);
        s->members[r].block = NULL;
    }
    send_to_all(s, WEFT__STORE_GATHERED, all, bytes * (size_t)s->world);
    free(all);
    s->gathered = 0;
    s->step++;
}

static void take_gather(weft__store_server *s, member *m, const weft__store_header *h, const void *payload,
                        size_t bytes)
{
    if (s->phase != COMPLETE || m->block) return;
    if (h->step != (uint32_t)s->step || (s->gathered && bytes != s->block_bytes)) {
        fail(s, WEFT_ERR_MISMATCH,
             "rank %d gathers %zu bytes in step %u of joining, others %zu bytes in step %d", m->rank, bytes,
             h->step, s->block_bytes, s->step);
        return;
    }
    m->block = malloc(bytes + 1);
    if (!m->block) {
        fail(s, WEFT_ERR_MEMORY, "the serving rank has no memory left for %zu bytes of rank %d", bytes,
             m->rank);
        return;
    }
    if (bytes) memcpy(m->block, payload, bytes);
    s->block_bytes = bytes;
    if (++s->gathered == s->world) finish_gather(s);
}

/* ---- the thread ---- */

static void take_fail(weft__store_server *s, const member *m, const weft__store_header *h,
                      const void *payload, size_t bytes)
{
    int length = bytes < WEFT__SENTENCE_BYTES ? (int)bytes : WEFT__SENTENCE_BYTES - 1;
    weft_status status = h->status < 0 ? h->status : WEFT_ERR_SYSTEM;
    if (status == WEFT_ERR_TIMEOUT) /* whose time ran out does not matter: it tells who is missing */
        fail(s, status, "%.*s", length, (const char *)payload);
    else
        fail(s, status, "rank %d (host %s, pid %d): %.*s", m->rank, m->who.host, m->who.pid, length,
             (const char *)payload);
}

static void note_quitter(weft__store_server *s, int rank)
{
    struct quitter *more;
    int i = 0;
    if (rank < 0 || rank >= s->world) return;
    while (i < s->quitter_count && s->quitters[i].rank != rank) i++;
    if (i == s->quitter_count) {
        more = realloc(s->quitters, (size_t)(i + 1) * sizeof *more);
        if (!more) return;
        s->quitters = more;
        s->quitter_count++;
    }
    s->quitters[i] = (struct quitter){rank, weft__now_ns()};
}

static void take_done(weft__store_server *s, member *m)
{
    m->done = true;
    if (s->phase != JOINING) return;
    note_quitter(s, m->given_rank);
    *m = s->members[--s->count]; /* gives up before all are there: its place is free again */
}

static void take_message(weft__store_server *s, const member *from, const weft__store_header *h,
                         const char *payload, size_t bytes)
{
    member *m = find_member(s, h->client);
    if (h->kind == WEFT__STORE_ASK) {
        take_ask(s, from);
        return;
    }
    if (!m) {
        if (h->kind == WEFT__STORE_JOIN) take_join(s, from, h, payload, bytes);
        return;
    }
    if (h->kind == WEFT__STORE_JOIN && h->step < m->attempt) return; /* overtaken by a newer connection's */
    if (h->kind == WEFT__STORE_JOIN) m->attempt = h->step;
    if (m->route_bytes != from->route_bytes || memcmp(m->route, from->route, from->route_bytes) != 0) {
        memcpy(m->route, from->route, from->route_bytes); /* it has reconnected */
        m->route_bytes = from->route_bytes;
    }
    switch (h->kind) {
    case WEFT__STORE_JOIN:
        /* The answer to its first JOIN went to a connection that it had given up meanwhile. */
        if (s->phase == FAILED) send_to(s, m, WEFT__STORE_FAILED, s->sentence, strlen(s->sentence));
        if (s->phase == COMPLETE) send_to(s, m, WEFT__STORE_JOINED, s->nonce, sizeof s->nonce);
        break;
    case WEFT__STORE_GATHER: take_gather(s, m, h, payload, bytes); break;
    case WEFT__STORE_FAIL: take_fail(s, m, h, payload, bytes); break;
    case WEFT__STORE_DONE: take_done(s, m); break;
    default: break;
    }
}

static bool receive_frame(weft__store_server *s, zmq_msg_t *msg)
{
    int rc;
    do {
        rc = zmq_msg_recv(msg, s->router, ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    return rc >= 0;
}

/* False: nothing is there. */
static bool take_one(weft__store_server *s, zmq_msg_t *msg)
{
    member from = {.rank = -1};
    weft__store_header header;
    int frames = 1;
    if (!receive_frame(s, msg)) return false;
    if (zmq_msg_size(msg) > ROUTE_BYTES) return true;
    from.route_bytes = zmq_msg_size(msg);
    memcpy(from.route, zmq_msg_data(msg), from.route_bytes);
    while (zmq_msg_more(msg) && receive_frame(s, msg)) frames++;
    if (frames != 2 || zmq_msg_size(msg) < sizeof header) return true;
    memcpy(&header, zmq_msg_data(msg), sizeof header);
    if (header.magic != WEFT__STORE_MAGIC || header.version != WEFT__STORE_VERSION) return true;
    memcpy(from.id, header.client, sizeof from.id);
    take_message(s, &from, &header, (char *)zmq_msg_data(msg) + sizeof header,
                 zmq_msg_size(msg) - sizeof header);
    return true;
}

static bool all_done(const weft__store_server *s)
{
    if (s->phase == FAILED && s->count < s->expected) return false;
    for (int i = 0; i < s->count; i++)
        if (!s->members[i].done) return false;
    return true;
}

static void *serve(void *arg)
{
    weft__store_server *s = arg;
    int64_t deadline_ns = WEFT__NEVER;
    bool stopping = false;
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    for (;;) {
        zmq_pollitem_t items[2] = {{.socket = s->router, .events = ZMQ_POLLIN},
                                   {.socket = s->thread_end, .events = ZMQ_POLLIN}};
        while (take_one(s, &msg)) continue;
        if (stopping && (all_done(s) || weft__now_ns() >= deadline_ns)) break;
        zmq_poll(items, 2, weft__poll_ms(deadline_ns));
        if (items[1].revents & ZMQ_POLLIN &&
            zmq_recv(s->thread_end, &deadline_ns, sizeof deadline_ns, ZMQ_DONTWAIT) == sizeof deadline_ns)
            stopping = true;
    }
    zmq_msg_close(&msg);
    return NULL;
}

static weft_status bind_router(weft__store_server *s, void *context, const char *address, int port)
{
    char endpoint[WEFT__ADDRESS_BYTES + 32];
    int reason, linger = LAST_WORDS_MS;
    s->router = weft__zmq_socket(context, ZMQ_ROUTER, true, strchr(address, ':'), &s->keys,
                                 WEFT__STORE_BLOCK_MAX + 4096);
    if (!s->router) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(s->router, ZMQ_LINGER, &linger, sizeof linger);
    weft__address_endpoint(address, &port, endpoint, sizeof endpoint);
    if (!zmq_bind(s->router, endpoint)) return WEFT_OK;
    reason = errno;
    zmq_close(s->router);
    errno = reason;
    return WEFT_PENDING;
}

static weft_status start_thread(weft__store_server *s, void *context)
{
    static _Atomic unsigned made;
    char name[64];
    sigset_t all, old;
    int rc;
    snprintf(name, sizeof name, "inproc://weft-store-%u", made++);
    s->owner_end = zmq_socket(context, ZMQ_PAIR);
    s->thread_end = zmq_socket(context, ZMQ_PAIR);
    if (!s->owner_end || !s->thread_end || zmq_bind(s->thread_end, name) || zmq_connect(s->owner_end, name)) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot make the store's sockets: %s", zmq_strerror(errno));
        goto close_ends;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&s->thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!rc) return WEFT_OK;
    weft__fail(WEFT_ERR_SYSTEM, "cannot start the store's thread: %s", strerror(rc));
close_ends:
    if (s->owner_end) zmq_close(s->owner_end);
    if (s->thread_end) zmq_close(s->thread_end);
    return WEFT_ERR_SYSTEM;
}

weft_status weft__store_serve(void *context, const char *address, int port, const weft__keys *keys,
                              const uint8_t own[WEFT__STORE_ID_BYTES], weft__store_server **server)
{
    weft__store_server *s = calloc(1, sizeof *s);
    weft_status status;
    int reason;
    if (!s) return weft__fail_memory(sizeof *s, "the store");
    s->keys = *keys;
    s->world = -1;
    s->phase = JOINING;
    memcpy(s->own, own, sizeof s->own);
    weft__host_id(s->host_id);
    if ((status = weft__zap_admit(keys))) goto free_server;
    if ((status = bind_router(s, context, address, port))) goto dismiss;
    if ((status = start_thread(s, context))) goto close_router;
    *server = s;
    return WEFT_OK;

close_router:
    zmq_close(s->router);
dismiss:
    reason = errno;
    weft__zap_dismiss(keys);
    errno = reason;
free_server:
    reason = errno;
    free(s);
    errno = reason;
    return status;
}

void weft__store_stop(weft__store_server *s, int64_t deadline_ns)
{
    if (!s) return;
    while (zmq_send(s->owner_end, &deadline_ns, sizeof deadline_ns, 0) < 0 && errno == EINTR) continue;
    pthread_join(s->thread, NULL);
    zmq_close(s->owner_end);
    zmq_close(s->thread_end);
    zmq_close(s->router);
    weft__zap_dismiss(&s->keys);
    for (int i = 0; i < s->count; i++) free(s->members[i].block);
    free(s->members);
    free(s->quitters);
    free(s);
}
