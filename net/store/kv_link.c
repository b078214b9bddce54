/* kv_link.c - see kv_link.h.  A caller leaves its call in the outbox, rings, and sleeps on a word of its own.
 * When the connection ends, every call under way and every later one fails with ERR_PEER: what the server
 * held is gone with it, so it is never dialled again. */
#include "kv_link.h"
#include "clock.h"
#include "keys.h"
#include "kv_wire.h"
#include "list.h"
#include "lock.h"
#include "slices.h"
#include "status.h"
#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#define ANSWER_MS      1000 /* for the answer to "what is missing?", past the deadline */
#define LINGER_MS      250  /* for what ZeroMQ is amid of */
#define ENDPOINT_BYTES 128

/* One message to be sent, under the link's lock until the thread has taken it. */
typedef struct outgoing {
    weft__list node;
    zmq_msg_t msg;
} outgoing;

/* A call under way; it lies on its caller's stack. */
typedef struct pending {
    weft__list node; /* link->pending until it is answered or given up */
    uint64_t id;
    outgoing request, peek;
    weft__kv_answer answer;
    zmq_msg_t payload;
    bool gone;              /* there will be no answer */
    _Atomic uint32_t ended; /* futex; after it nobody else touches this */
} pending;

enum link_state { MAKING, OPEN, GONE };

struct weft__kv_link {
    weft__kv_link *next; /* the process's list */
    char endpoint[ENDPOINT_BYTES];
    weft__keys *keys;
    int users;
    _Atomic uint32_t state; /* enum link_state; changed by link_to */

    weft__lock lock; /* outbox, pending, next id */
    weft__list outbox, pending;
    uint64_t last_id;
    weft__kv_socket socket; /* the thread's */
    int bell_fd;
    bool stop;
    pthread_t thread;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    weft__kv_link *links;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

void weft__kv_socket_close(weft__kv_socket *socket)
{
    if (socket->dealer) {
        zmq_socket_monitor(socket->dealer, NULL, 0);
        zmq_close(socket->dealer);
    }
    if (socket->monitor) zmq_close(socket->monitor);
    if (socket->context) weft__zmq_give();
    *socket = (weft__kv_socket){0};
}

/* ---- the thread ---- */

static void ring(weft__kv_link *link)
{
    uint64_t one = 1;
    while (write(link->bell_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static void end(pending *p)
{
    weft__list_remove(&p->node);
    atomic_store_explicit(&p->ended, 1, memory_order_release);
    weft__wake_all(&p->ended); /* its stack may be gone by now: a stray wake-up hurts nobody */
}

/* Lock held.  The queue has no limit, so what fails is the connection. */
static void send_all(weft__kv_link *link)
{
    WEFT__LIST_EACH(&link->outbox, at)
    {
        outgoing *out = WEFT__LIST_ENTRY(at, outgoing, node);
        weft__list_remove(at);
        (void)weft__slices_send(link->socket.dealer, &out->msg);
    }
}

static void hand_out(weft__kv_link *link, const weft__kv_answer *answer, zmq_msg_t *payload)
{
    weft__lock_take(&link->lock);
    WEFT__LIST_EACH(&link->pending, at)
    {
        pending *p = WEFT__LIST_ENTRY(at, pending, node);
        if (p->id != answer->id) continue;
        p->answer = *answer;
        zmq_msg_move(&p->payload, payload);
        end(p);
        break;
    }
    weft__lock_drop(&link->lock);
}

/* False: nothing is there. */
static bool take_answer(weft__kv_link *link, zmq_msg_t *header, zmq_msg_t *payload)
{
    weft__kv_answer answer;
    if (!weft__frame_take(link->socket.dealer, header)) return false;
    if (zmq_msg_more(header) &&
        weft__slices_take(link->socket.dealer, payload, WEFT__KV_VALUE_MAX + 4096, NULL) &&
        weft__kv_answer_read(zmq_msg_data(header), zmq_msg_size(header), zmq_msg_size(payload), &answer))
        hand_out(link, &answer, payload);
    return true;
}

/* True: the connection has ended. */
static bool has_ended(weft__kv_link *link)
{
    unsigned char frame[6];
    char where[256];
    bool ended = false;
    while (zmq_recv(link->socket.monitor, frame, sizeof frame, ZMQ_DONTWAIT) == sizeof frame) {
        uint16_t event;
        memcpy(&event, frame, sizeof event);
        zmq_recv(link->socket.monitor, where, sizeof where, 0);
        ended = ended || event == ZMQ_EVENT_DISCONNECTED || event == ZMQ_EVENT_CLOSED;
    }
    return ended;
}

static const uint8_t link_follows[] = {
    [MAKING] = WEFT__MAY_BECOME(OPEN) | WEFT__MAY_BECOME(GONE), [OPEN] = WEFT__MAY_BECOME(GONE), [GONE] = 0};

/* The one place that stores a link's state.  Its lock is held; those who look without it take it before they
 * count on what they have seen. */
static void link_to(weft__kv_link *link, enum link_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(link_follows, link->state, to), link->state, to);
    link->state = to;
}

static void give_up_all(weft__kv_link *link)
{
    weft__lock_take(&link->lock);
    link_to(link, GONE);
    WEFT__LIST_EACH(&link->outbox, at)
    {
        weft__list_remove(at);
        zmq_msg_close(&WEFT__LIST_ENTRY(at, outgoing, node)->msg);
    }
    WEFT__LIST_EACH(&link->pending, at)
    {
        pending *p = WEFT__LIST_ENTRY(at, pending, node);
        p->gone = true;
        end(p);
    }
    weft__lock_drop(&link->lock);
}

/* A caller may have given up a call whose long value is half out.  ZeroMQ, without linger, may not read the rest of a message once its
 * socket is closed, and aborts where it has to: where the connection ends just then. */
static void let_it_finish(weft__kv_link *link)
{
    int linger = LINGER_MS;
    zmq_setsockopt(link->socket.dealer, ZMQ_LINGER, &linger, sizeof linger);
}

static void *kv_link_attend(void *arg)
{
    weft__kv_link *link = arg;
    zmq_msg_t header, payload;
    bool stop = false, ended = false;
    pthread_setname_np(pthread_self(), "weft-store-link");
    zmq_msg_init(&header);
    zmq_msg_init(&payload);
    while (!stop && !ended) {
        zmq_pollitem_t items[3] = {{.socket = link->socket.dealer, .events = ZMQ_POLLIN},
                                   {.socket = link->socket.monitor, .events = ZMQ_POLLIN},
                                   {.fd = link->bell_fd, .events = ZMQ_POLLIN}};
        uint64_t rings;
        zmq_poll(items, 3, -1);
        if (items[2].revents & ZMQ_POLLIN && read(link->bell_fd, &rings, sizeof rings) < 0 && errno == EINTR)
            continue;
        weft__lock_take(&link->lock);
        send_all(link);
        stop = link->stop;
        weft__lock_drop(&link->lock);
        /* The end first, then the answers: those that came before it count. */
        ended = has_ended(link);
        while (take_answer(link, &header, &payload)) continue;
    }
    zmq_msg_close(&header);
    zmq_msg_close(&payload);
    if (!ended) let_it_finish(link);
    give_up_all(link);
    return NULL;
}

/* ---- the process's connections ---- */

static weft_status kv_link_start(weft__kv_link *link)
{
    sigset_t all, before;
    int error;
    link->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->bell_fd < 0) return weft__fail_errno("no descriptor for the store's connection");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&link->thread, NULL, kv_link_attend, link);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return WEFT_OK;
    close(link->bell_fd);
    errno = error;
    return weft__fail_errno("the thread of the store's connection cannot be started");
}

static weft__kv_link *kv_link_find(const char *endpoint, const weft__keys *keys)
{
    for (weft__kv_link *at = process.links; at; at = at->next) {
        if (at->state != GONE && !strcmp(at->endpoint, endpoint) &&
            !sodium_memcmp(at->keys->data, keys->data, sizeof keys->data))
            return at;
    }
    return NULL;
}

/* Lock held. */
static void take_off(weft__kv_link *link)
{
    for (weft__kv_link **at = &process.links; *at; at = &(*at)->next)
        if (*at == link) {
            *at = link->next;
            break;
        }
}

static weft__kv_link *put_on(const char *endpoint, weft__keys *keys)
{
    weft__kv_link *link = calloc(1, sizeof *link);
    if (!link) return NULL;
    snprintf(link->endpoint, sizeof link->endpoint, "%s", endpoint);
    link->keys = weft__keys_take(keys);
    link->users = 1;
    weft__list_init(&link->outbox);
    weft__list_init(&link->pending);
    link->next = process.links;
    process.links = link;
    return link;
}

static void kv_link_prepare(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&process.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* False: the deadline has passed. */
static bool wait_for_change(int64_t deadline_ns)
{
    struct timespec at = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    if (deadline_ns == WEFT__NEVER) return !pthread_cond_wait(&process.changed, &process.lock);
    return !pthread_cond_timedwait(&process.changed, &process.lock, &at);
}

weft_status weft__kv_link_take(const char *endpoint, weft__keys *keys, int64_t deadline_ns,
                               weft__kv_connect_fn *connect, void *arg, weft__kv_link **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    weft__kv_link *link;
    weft_status status;
    pthread_once(&once, kv_link_prepare);
    pthread_mutex_lock(&process.lock);
    while ((link = kv_link_find(endpoint, keys)) && link->state == MAKING)
        if (!wait_for_change(deadline_ns)) break;
    if (link && link->state == OPEN) link->users++;
    if (link) {
        status = link->state == OPEN
                     ? WEFT_OK
                     : weft__fail(WEFT_ERR_TIMEOUT,
                                  "the store at %s cannot be reached yet: another thread of this "
                                  "process is still trying",
                                  endpoint);
        pthread_mutex_unlock(&process.lock);
        if (status == WEFT_OK) *out = link;
        return status;
    }
    link = put_on(endpoint, keys);
    pthread_mutex_unlock(&process.lock);
    if (!link) return weft__fail_memory(sizeof *link, "the store's connection");
    status = connect(arg, &link->socket);
    if (status == WEFT_OK) status = kv_link_start(link);
    pthread_mutex_lock(&process.lock);
    if (status == WEFT_OK) {
        weft__lock_take(&link->lock);
        if (link->state == MAKING) link_to(link, OPEN); /* it may have ended at once */
        weft__lock_drop(&link->lock);
    } else {
        take_off(link);
    }
    pthread_cond_broadcast(&process.changed);
    pthread_mutex_unlock(&process.lock);
    if (status == WEFT_OK) {
        *out = link;
    } else {
        weft__kv_socket_close(&link->socket);
        weft__keys_drop(link->keys);
        free(link);
    }
    return status;
}

void weft__kv_link_give(weft__kv_link *link)
{
    bool last;
    pthread_mutex_lock(&process.lock);
    last = --link->users == 0;
    if (last) take_off(link);
    pthread_mutex_unlock(&process.lock);
    if (!last) return;
    weft__lock_take(&link->lock);
    link->stop = true;
    weft__lock_drop(&link->lock);
    ring(link);
    pthread_join(link->thread, NULL);
    weft__kv_socket_close(&link->socket);
    close(link->bell_fd);
    weft__keys_drop(link->keys);
    free(link);
}

/* ---- a call ---- */

static weft_status write_request(pending *p, const weft__kv_call *call)
{
    size_t bytes = weft__kv_request_bytes(call);
    if (bytes > WEFT__KV_REQUEST_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "a call of %zu bytes is too long for a store: at most %u", bytes,
                          WEFT__KV_REQUEST_MAX);
    if (zmq_msg_init_size(&p->request.msg, bytes)) return weft__fail_memory(bytes, "a call to the store");
    weft__kv_request_write(call, p->id, zmq_msg_data(&p->request.msg));
    return WEFT_OK;
}

static bool write_peek(pending *p)
{
    weft__kv_request peek = {.magic = WEFT__KV_MAGIC,
                             .version = WEFT__KV_VERSION,
                             .kind = WEFT__KV_PEEK,
                             .id = p->id};
    if (zmq_msg_init_size(&p->peek.msg, sizeof peek)) return false;
    memcpy(zmq_msg_data(&p->peek.msg), &peek, sizeof peek);
    return true;
}

/* Lock held. */
static void withdraw(outgoing *out)
{
    if (weft__list_empty(&out->node)) return;
    weft__list_remove(&out->node);
    zmq_msg_close(&out->msg);
}

/* True: it has ended.  At a patient call's deadline the server is asked what is missing. */
static bool await(weft__kv_link *link, pending *p, const weft__kv_call *call)
{
    int64_t deadline_ns = call->deadline_ns;
    bool peeks = call->patient;
    while (!atomic_load_explicit(&p->ended, memory_order_acquire)) {
        if (weft__now_ns() < deadline_ns) {
            weft__sleep_on(&p->ended, 0, deadline_ns);
            continue;
        }
        if (!peeks || !write_peek(p)) break;
        peeks = false;
        deadline_ns = weft__deadline(weft__now_ns(), ANSWER_MS);
        weft__lock_take(&link->lock);
        if (link->state != GONE)
            weft__list_append(&link->outbox, &p->peek.node);
        else
            zmq_msg_close(&p->peek.msg);
        weft__lock_drop(&link->lock);
        ring(link);
    }
    weft__lock_take(&link->lock);
    weft__list_remove(&p->node);
    withdraw(&p->request);
    withdraw(&p->peek);
    weft__lock_drop(&link->lock);
    return atomic_load_explicit(&p->ended, memory_order_acquire);
}

static weft_status take_result(const weft__kv_link *link, pending *p, const weft__kv_call *call,
                               weft__kv_result *result)
{
    const void *payload = zmq_msg_data(&p->payload);
    size_t bytes = zmq_msg_size(&p->payload);
    if (p->gone)
        return weft__fail(WEFT_ERR_PEER,
                          "the store at %s is no longer served: the process that served it has "
                          "closed it or died",
                          link->endpoint);
    *result = (weft__kv_result){.bytes = p->answer.bytes,
                                .number = p->answer.number,
                                .flag = p->answer.flag != 0,
                                .missing = p->answer.missing};
    if (p->answer.status == WEFT_PENDING && (result->missing < 1 || result->missing > call->n))
        return weft__fail(WEFT_ERR_PEER, "the store at %s misses %u of %u keys: expected 1 to %u",
                          link->endpoint, result->missing, call->n, call->n);
    if (p->answer.status == WEFT_PENDING) memcpy(result->which, payload, bytes);
    if (p->answer.status == WEFT_OK && call->kind == WEFT__KV_GET) {
        if (bytes > call->room_bytes) return WEFT_ERR_TRUNCATED;
        if (bytes) memcpy(call->room, payload, bytes);
    }
    if (p->answer.status < 0 && p->answer.status != WEFT_ERR_TRUNCATED)
        return weft__fail(p->answer.status, "%.*s",
                          (int)(bytes < WEFT__SENTENCE_BYTES ? bytes : WEFT__SENTENCE_BYTES),
                          (const char *)payload);
    return p->answer.status;
}

weft_status weft__kv_link_perform(weft__kv_link *link, const weft__kv_call *call, weft__kv_result *result)
{
    pending p = {.gone = false};
    weft_status status;
    int64_t began_ns = weft__now_ns();
    weft__list_init(&p.node);
    weft__list_init(&p.request.node);
    weft__list_init(&p.peek.node);
    zmq_msg_init(&p.payload);
    weft__lock_take(&link->lock);
    p.id = ++link->last_id;
    weft__lock_drop(&link->lock);
    if ((status = write_request(&p, call))) return status;
    weft__lock_take(&link->lock);
    weft__list_append(&link->pending, &p.node);
    weft__list_append(&link->outbox, &p.request.node);
    if (link->state == GONE) {
        withdraw(&p.request);
        p.gone = true;
        end(&p);
    }
    weft__lock_drop(&link->lock);
    ring(link);
    if (await(link, &p, call))
        status = take_result(link, &p, call, result);
    else
        status = weft__fail(WEFT_ERR_TIMEOUT,
                            "the store at %s has not answered for %.1f s; whether the call was "
                            "carried out is not known",
                            link->endpoint, (double)(weft__now_ns() - began_ns) / 1e9);
    zmq_msg_close(&p.payload);
    return status;
}
