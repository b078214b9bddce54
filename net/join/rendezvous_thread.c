/* rendezvous_thread.c - the thread that serves where ranks meet: its sockets, what it waits for, and its end.  What
 * the server knows and answers is rendezvous_server.c's. */
#include "clock.h"
#include "keys.h"
#include "rendezvous_server.h"
#include "slices.h"
#include "status.h"
#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define RESIGN        INT64_C(-1) /* an order in place of a deadline */
#define SPARE         INT64_C(-2) /* likewise; a bool for each rank is behind it */
#define LAST_WORDS_MS 500         /* for answers still under way when the socket closes */
#define CLAIM_MS      100         /* between two looks at who claims a rank that is another's */

/* False: nothing is there. */
static bool take_one(weft__rendezvous_server *s, zmq_msg_t *msg)
{
    weft__rendezvous_member from = {.rank = -1};
    int fd;
    if (!weft__frame_take(s->router, msg)) return false;
    from.route_bytes = zmq_msg_size(msg);
    if (from.route_bytes <= sizeof from.route) memcpy(from.route, zmq_msg_data(msg), from.route_bytes);
    if (!zmq_msg_more(msg) || !weft__slices_take(s->router, msg, s->longest, &fd)) return true;
    if (from.route_bytes > sizeof from.route) return true;
    weft__strangers_spoke(&s->strangers, fd);
    weft__rendezvous_take(s, &from, zmq_msg_data(msg), zmq_msg_size(msg));
    return true;
}

/* Somebody claims a rank that another one has, until it is known which of the two is there. */
static bool has_claims(const weft__rendezvous_server *s)
{
    return s->phase == WEFT__SERVER_JOINING && s->claim_count > 0;
}

/* What a client said before it hung up is here once that shows: so once it is known who has, all is read
 * again, and only who has gone without a word is dropped unnoticed. */
static void take_all(weft__rendezvous_server *s, zmq_msg_t *msg)
{
    while (take_one(s, msg)) continue;
    if (!s->ask_count && !has_claims(s)) return;
    while (s->phase == WEFT__SERVER_JOINING && weft__rendezvous_some_have_gone(s) && take_one(s, msg))
        continue;
    weft__rendezvous_answer_asks(s);
}

/* That one of two who claim a rank has gone is found by writing to it: no frame tells of it, and the monitor may do so before
 * such a write fails. */
static int wait_ms(const weft__rendezvous_server *s, int64_t deadline_ns)
{
    const int64_t next_ns = s->strangers.next_ns;
    const int ms = weft__poll_ms(next_ns < deadline_ns ? next_ns : deadline_ns);
    return has_claims(s) && (ms < 0 || ms > CLAIM_MS) ? CLAIM_MS : ms;
}

static void obey(weft__rendezvous_server *s, zmq_msg_t *msg, int64_t *deadline_ns, bool *stopping)
{
    const bool *gone = (const bool *)((const char *)zmq_msg_data(msg) + sizeof(int64_t));
    int64_t order;
    memcpy(&order, zmq_msg_data(msg), sizeof order);
    if (order == RESIGN) {
        order = weft__rendezvous_give_way(s);
        zmq_send(s->thread_end, &order, sizeof order, 0);
    } else if (order == SPARE) {
        weft__rendezvous_take_gone(s, gone, (int)(zmq_msg_size(msg) - sizeof order));
    } else {
        *deadline_ns = order;
        *stopping = true;
    }
}

/* The owner's word: stop by then, RESIGN or SPARE. */
static void take_order(weft__rendezvous_server *s, int64_t *deadline_ns, bool *stopping)
{
    zmq_msg_t msg;
    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, s->thread_end, ZMQ_DONTWAIT) >= (int)sizeof(int64_t))
        obey(s, &msg, deadline_ns, stopping);
    zmq_msg_close(&msg);
}

static void *server_serve(void *arg)
{
    weft__rendezvous_server *s = arg;
    int64_t deadline_ns = WEFT__NEVER;
    bool stopping = false;
    zmq_msg_t msg;
    pthread_setname_np(pthread_self(), "weft-rendezvous");
    zmq_msg_init(&msg);
    for (;;) {
        zmq_pollitem_t items[3] = {{.socket = s->router, .events = ZMQ_POLLIN},
                                   {.socket = s->thread_end, .events = ZMQ_POLLIN},
                                   {.socket = s->strangers.monitor, .events = ZMQ_POLLIN}};
        take_all(s, &msg);
        weft__strangers_bound(&s->strangers);
        if (stopping && (weft__rendezvous_all_done(s) || weft__now_ns() >= deadline_ns)) break;
        zmq_poll(items, 3, wait_ms(s, deadline_ns));
        if (items[1].revents & ZMQ_POLLIN) take_order(s, &deadline_ns, &stopping);
    }
    zmq_msg_close(&msg);
    return NULL;
}

/* The port that ZeroMQ has bound: "tcp://127.0.0.1:4711". */
static void learn_port(weft__rendezvous_server *s, weft__address *address)
{
    char endpoint[256];
    size_t bytes = sizeof endpoint;
    if (zmq_getsockopt(s->router, ZMQ_LAST_ENDPOINT, endpoint, &bytes) == 0)
        weft__address_set_port(address, atoi(strrchr(endpoint, ':') + 1));
}

static weft_status bind_router(weft__rendezvous_server *s, void *context, weft__address *address)
{
    char host[WEFT__ADDRESS_BYTES], endpoint[WEFT__ADDRESS_BYTES + 32];
    int reason, linger = LAST_WORDS_MS, mandatory = 1, unlimited = 0, port = weft__address_port(address);
    s->router = weft__zmq_socket(context, ZMQ_ROUTER, true, address->any.sa_family == AF_INET6, s->keys);
    if (!s->router) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(s->router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(s->router, ZMQ_SNDHWM, &unlimited, sizeof unlimited); /* a relay gets an answer a rank */
    zmq_setsockopt(s->router, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory); /* tells who has gone */
    if (weft__strangers_open(&s->strangers, context, s->router)) {
        zmq_close(s->router);
        return WEFT_ERR_SYSTEM;
    }
    weft__address_text(address, host);
    weft__address_endpoint(host, port ? &port : NULL, endpoint, sizeof endpoint);
    if (!weft__zmq_bind(s->router, endpoint)) {
        learn_port(s, address);
        return WEFT_OK;
    }
    reason = errno;
    weft__strangers_close(&s->strangers);
    zmq_close(s->router);
    errno = reason;
    if (reason != EMFILE && reason != ENFILE) return WEFT_PENDING;
    return weft__fail_errno("no descriptor is left to serve at %s", endpoint);
}

static weft_status start_thread(weft__rendezvous_server *s, void *context)
{
    static _Atomic unsigned made;
    char name[64];
    sigset_t all, old;
    int rc;
    snprintf(name, sizeof name, "inproc://weft-rendezvous-%u", made++);
    s->owner_end = zmq_socket(context, ZMQ_PAIR);
    s->thread_end = zmq_socket(context, ZMQ_PAIR);
    if (!s->owner_end || !s->thread_end || weft__zmq_bind_inside(s->thread_end, name) ||
        weft__zmq_connect(s->owner_end, name)) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot make the sockets of the server at which ranks meet: %s",
                   zmq_strerror(errno));
        goto close_ends;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&s->thread, NULL, server_serve, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!rc) return WEFT_OK;
    weft__fail(WEFT_ERR_SYSTEM, "cannot start the thread of the server at which ranks meet: %s",
               strerror(rc));
close_ends:
    if (s->owner_end) zmq_close(s->owner_end);
    if (s->thread_end) zmq_close(s->thread_end);
    return WEFT_ERR_SYSTEM;
}

weft_status weft__rendezvous_serve(void *context, weft__address *address, weft__keys *keys,
                                   const uint8_t own[WEFT__RENDEZVOUS_ID_BYTES],
                                   const uint8_t nonce[WEFT__RUN_NONCE_BYTES], int world,
                                   const weft__tree *tree, weft__rendezvous_server **server)
{
    weft__rendezvous_server *s = calloc(1, sizeof *s);
    weft_status status;
    int reason;
    if (!s) return weft__fail_memory(sizeof *s, "the server at which ranks meet");
    s->keys = weft__keys_take(keys);
    s->longest = weft__rendezvous_longest(world);
    weft__strangers_limit(&s->strangers, s->longest, WEFT__STRANGERS_WAKES_MS);
    weft__rendezvous_begin(s, tree);
    memcpy(s->own, own, sizeof s->own);
    memcpy(s->nonce, nonce, sizeof s->nonce);
    if (sodium_is_zero(nonce, sizeof s->nonce)) randombytes_buf(s->nonce, sizeof s->nonce);
    weft__host_id(s->host_id);
    if ((status = weft__zap_admit(keys))) goto free_server;
    if ((status = bind_router(s, context, address))) goto dismiss;
    if ((status = start_thread(s, context))) goto close_router;
    *server = s;
    return WEFT_OK;

close_router:
    weft__strangers_close(&s->strangers);
    zmq_close(s->router);
dismiss:
    reason = errno;
    weft__zap_dismiss(keys);
    errno = reason;
free_server:
    reason = errno;
    weft__keys_drop(keys);
    free(s);
    errno = reason;
    return status;
}

bool weft__rendezvous_resign(weft__rendezvous_server *s)
{
    int64_t word = RESIGN;
    while (zmq_send(s->owner_end, &word, sizeof word, 0) < 0 && errno == EINTR) continue;
    while (zmq_recv(s->owner_end, &word, sizeof word, 0) < 0 && errno == EINTR) continue;
    return word == 1;
}

void weft__rendezvous_spare(weft__rendezvous_server *s, const bool *gone, int ranks)
{
    const int64_t word = SPARE;
    const size_t bytes = sizeof word + (size_t)ranks;
    unsigned char *order = s ? malloc(bytes) : NULL;
    _Static_assert(sizeof *gone == 1, "as many bytes as ranks");
    if (!order) return; /* no memory: they are waited for */
    memcpy(order, &word, sizeof word);
    memcpy(order + sizeof word, gone, (size_t)ranks);
    while (zmq_send(s->owner_end, order, bytes, 0) < 0 && errno == EINTR) continue;
    free(order);
}

bool weft__rendezvous_is_relayed(const weft__rendezvous_server *s)
{
    return s && atomic_load(&s->relayed);
}

void weft__rendezvous_stop(weft__rendezvous_server *s, int64_t deadline_ns)
{
    if (!s) return;
    while (zmq_send(s->owner_end, &deadline_ns, sizeof deadline_ns, 0) < 0 && errno == EINTR) continue;
    pthread_join(s->thread, NULL);
    zmq_close(s->owner_end);
    zmq_close(s->thread_end);
    weft__strangers_close(&s->strangers);
    zmq_close(s->router);
    weft__zap_dismiss(s->keys);
    weft__keys_drop(s->keys);
    weft__rendezvous_forget(s);
    free(s);
}
