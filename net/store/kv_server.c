/* kv_server.c - see kv_server.h.  What is not a request is dropped.  The connection's events tell which
 * clients have gone; the calls that they left waiting go with them.  Fails when the
 * sockets cannot be made. */
#include "kv_server.h"
#include "address.h"
#include "clock.h"
#include "keys.h"
#include "kv_table.h"
#include "kv_wire.h"
#include "reserve.h"
#include "slices.h"
#include "status.h"
#include "strangers.h"
#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#define ROUTE_BYTES   16   /* of a peer's address inside the ROUTER; ZeroMQ makes them of 5 bytes */
#define QUIET_MS      200  /* when it stops: nothing asked for so long */
#define STOP_MS       1000 /* and at most so long */
#define LAST_WORDS_MS 1000 /* for answers still under way when the socket closes */

/* A connection, by its descriptor. */
typedef struct connection {
    unsigned char route[ROUTE_BYTES];
    size_t route_bytes; /* 0: it has not asked anything yet */
    weft__list waiting; /* of waiting_call.mine */
    bool open;
} connection;

/* A call that waits for keys. */
typedef struct waiting_call {
    weft__kv_waiter waiter;
    weft__list mine;
    connection *from;
    uint64_t id;
    weft__kv_call call; /* points into request */
    zmq_msg_t request;
} waiting_call;

struct weft__kv_server {
    void *context, *router;
    weft__strangers strangers;
    int stop_fd;
    pthread_t thread;
    weft__keys *keys;
    weft__kv_table *table;
    connection **connections; /* by descriptor; NULL: none yet */
    int connection_room, open;
};

/* ---- answers ---- */

static void release_value(void *data, void *value)
{
    (void)data;
    weft__kv_value_unref(value);
}

/* The value itself goes out, not a copy. */
static bool wrap_value(zmq_msg_t *msg, weft__kv_value *value)
{
    if (!value) return zmq_msg_init(msg) == 0;
    atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
    if (!zmq_msg_init_data(msg, value->data, value->bytes, release_value, value)) return true;
    weft__kv_value_unref(value);
    return false;
}

static bool send_before(weft__kv_server *s, const void *bytes, size_t length)
{
    int rc;
    do {
        rc = zmq_send(s->router, bytes, length, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    return rc >= 0;
}

/* Route, header, payload.  What cannot be sent is for a client that has gone, or there is no memory: then it
 * runs into its deadline. */
static void answer(weft__kv_server *s, const connection *to, weft__kv_answer *header, const void *payload,
                   size_t bytes, weft__kv_value *value)
{
    zmq_msg_t msg;
    header->magic = WEFT__KV_MAGIC;
    header->version = WEFT__KV_VERSION;
    header->kind = WEFT__KV_ANSWER;
    if (!to->open) return;
    if (value ? !wrap_value(&msg, value) : zmq_msg_init_size(&msg, bytes)) return;
    if (!value && bytes) memcpy(zmq_msg_data(&msg), payload, bytes);
    if (send_before(s, to->route, to->route_bytes) && send_before(s, header, sizeof *header))
        (void)weft__slices_send(s->router, &msg);
    else
        zmq_msg_close(&msg);
}

static void answer_call(weft__kv_server *s, const connection *to, uint64_t id, const weft__kv_call *call,
                        weft_status status, const weft__kv_result *result, weft__kv_value *found)
{
    weft__kv_answer header = {.id = id,
                              .status = status,
                              .flag = result->flag,
                              .number = result->number,
                              .bytes = result->bytes,
                              .missing = result->missing};
    uint32_t named = result->missing < WEFT__KV_MISSING_MAX ? result->missing : WEFT__KV_MISSING_MAX;
    if (status == WEFT_OK && found && found->bytes > call->room_bytes) {
        header.status = WEFT_ERR_TRUNCATED;
        found = NULL;
    }
    if (status == WEFT_PENDING)
        answer(s, to, &header, result->which, named * sizeof *result->which, NULL);
    else if (status < 0)
        answer(s, to, &header, weft_last_error(), strlen(weft_last_error()), NULL);
    else
        answer(s, to, &header, NULL, 0, found);
}

/* ---- calls ---- */

static weft_status carry_out(weft__kv_server *s, const weft__kv_call *call, weft__kv_result *result,
                             weft__kv_value **found)
{
    weft__kv_change change;
    weft_status status = weft__kv_decide(s->table, call, &change, result, found);
    return status == WEFT_OK ? weft__kv_apply(s->table, &change) : status;
}

static void end_wait(waiting_call *w)
{
    weft__list_remove(&w->mine);
    zmq_msg_close(&w->request);
    free(w);
}

/* Takes the request's message over; false, with the sentence: no memory. */
static bool begin_wait(weft__kv_server *s, connection *from, uint64_t id, const weft__kv_call *call,
                       zmq_msg_t *msg)
{
    waiting_call *w = calloc(1, sizeof *w);
    int kind;
    if (!w) {
        weft__fail_memory(sizeof *w, "a call that waits");
        return false;
    }
    w->from = from;
    w->id = id;
    zmq_msg_init(&w->request);
    zmq_msg_move(&w->request, msg);
    /* Again: a short message lies in zmq_msg_t itself and has moved with it. */
    weft__kv_request_read(zmq_msg_data(&w->request), zmq_msg_size(&w->request), &id, &kind, &w->call);
    if (weft__kv_hang(s->table, &w->call, &w->waiter)) {
        zmq_msg_close(&w->request);
        free(w);
        return false;
    }
    weft__list_append(&from->waiting, &w->mine);
    (void)call;
    return true;
}

/* Those whose key has come: they go on waiting for their next one, or have their answer. */
static void serve_woken(weft__kv_server *s)
{
    for (weft__kv_waiter *at; (at = weft__kv_woken(s->table));) {
        waiting_call *w = WEFT__OWNER(at, waiting_call, waiter);
        weft__kv_result result;
        weft__kv_value *found;
        weft_status status = carry_out(s, &w->call, &result, &found);
        if (status == WEFT_PENDING && !(status = weft__kv_hang(s->table, &w->call, &w->waiter))) continue;
        answer_call(s, w->from, w->id, &w->call, status, &result, found);
        end_wait(w);
    }
}

static void peek_now(weft__kv_server *s, connection *from, uint64_t id)
{
    WEFT__LIST_EACH(&from->waiting, at)
    {
        waiting_call *w = WEFT__LIST_ENTRY(at, waiting_call, mine);
        weft__kv_result result;
        weft__kv_value *found;
        if (w->id != id) continue;
        weft_status status = carry_out(s, &w->call, &result, &found);
        answer_call(s, from, id, &w->call, status, &result, found);
        weft__kv_unhang(s->table, &w->waiter);
        end_wait(w);
        return;
    }
}

static void take_request(weft__kv_server *s, connection *from, zmq_msg_t *msg)
{
    weft__kv_call call;
    weft__kv_result result;
    weft__kv_value *found;
    uint64_t id;
    int kind;
    weft_status status;
    if (!weft__kv_request_read(zmq_msg_data(msg), zmq_msg_size(msg), &id, &kind, &call)) return;
    if (kind == WEFT__KV_PEEK) {
        peek_now(s, from, id);
        return;
    }
    status = carry_out(s, &call, &result, &found);
    if (status == WEFT_PENDING && call.patient) {
        if (begin_wait(s, from, id, &call, msg)) return;
        status = WEFT_ERR_MEMORY;
    }
    answer_call(s, from, id, &call, status, &result, found);
    serve_woken(s);
}

/* ---- connections ---- */

static void drop_connection(weft__kv_server *s, int fd)
{
    connection *c = fd >= 0 && fd < s->connection_room ? s->connections[fd] : NULL;
    if (!c || !c->open) return;
    WEFT__LIST_EACH(&c->waiting, at)
    {
        waiting_call *w = WEFT__LIST_ENTRY(at, waiting_call, mine);
        weft__kv_unhang(s->table, &w->waiter);
        end_wait(w);
    }
    c->open = false;
    s->open--;
}

static void add_connection(weft__kv_server *s, int fd)
{
    connection *c;
    if (fd < 0) return;
    if (fd >= s->connection_room) {
        int room = fd < 32 ? 64 : 2 * fd;
        connection **more = weft__reserve_zeroed((size_t)room * sizeof *more);
        if (!more) return; /* no memory: nothing that it asks is answered */
        if (s->connections) memcpy(more, s->connections, (size_t)s->connection_room * sizeof *more);
        weft__reserve_give((void *)s->connections);
        s->connections = more;
        s->connection_room = room;
    }
    if (!s->connections[fd]) s->connections[fd] = weft__reserve_zeroed(sizeof **s->connections);
    c = s->connections[fd];
    if (!c) return;
    weft__list_init(&c->waiting);
    c->route_bytes = 0;
    c->open = true;
    s->open++;
}

static void on_connection(void *server, int fd, bool came)
{
    drop_connection(server, fd);
    if (came) add_connection(server, fd);
}

static connection *connection_of(weft__kv_server *s, int fd, const void *route, size_t route_bytes)
{
    connection *c = fd >= 0 && fd < s->connection_room ? s->connections[fd] : NULL;
    if (!c || !c->open || route_bytes > ROUTE_BYTES) return NULL;
    memcpy(c->route, route, route_bytes);
    c->route_bytes = route_bytes;
    return c;
}

/* ---- the thread ---- */

/* False: nothing is there. */
static bool take_one(weft__kv_server *s, zmq_msg_t *msg)
{
    unsigned char route[ROUTE_BYTES];
    size_t route_bytes;
    connection *from;
    int fd;
    if (!weft__frame_take(s->router, msg)) return false;
    route_bytes = zmq_msg_size(msg);
    if (route_bytes <= sizeof route) memcpy(route, zmq_msg_data(msg), route_bytes);
    if (!zmq_msg_more(msg) || !weft__slices_take(s->router, msg, WEFT__KV_REQUEST_MAX, &fd)) return true;
    weft__strangers_spoke(&s->strangers,
                          fd); /* so that an earlier connection is not mixed up with this one */
    from = connection_of(s, fd, route, route_bytes);
    if (from) take_request(s, from, msg);
    return true;
}

static int64_t next_of(const weft__kv_server *s, int64_t until_ns)
{
    return s->strangers.next_ns < until_ns ? s->strangers.next_ns : until_ns;
}

static void *kv_server_serve(void *arg)
{
    weft__kv_server *s = arg;
    int64_t quiet_ns = WEFT__NEVER, stop_ns = WEFT__NEVER;
    zmq_msg_t msg;
    pthread_setname_np(pthread_self(), "weft-store");
    zmq_msg_init(&msg);
    for (;;) {
        zmq_pollitem_t items[3] = {{.socket = s->router, .events = ZMQ_POLLIN},
                                   {.socket = s->strangers.monitor, .events = ZMQ_POLLIN},
                                   {.fd = s->stop_fd, .events = ZMQ_POLLIN}};
        bool stopping = stop_ns != WEFT__NEVER;
        while ((!stopping || weft__now_ns() < stop_ns) && take_one(s, &msg))
            if (stopping) quiet_ns = weft__deadline(weft__now_ns(), QUIET_MS);
        weft__strangers_bound(&s->strangers);
        if (stopping && (s->open == 0 || weft__now_ns() >= (quiet_ns < stop_ns ? quiet_ns : stop_ns))) break;
        zmq_poll(items, stopping ? 2 : 3, weft__poll_ms(next_of(s, quiet_ns < stop_ns ? quiet_ns : stop_ns)));
        if (!stopping && items[2].revents & ZMQ_POLLIN) {
            quiet_ns = weft__deadline(weft__now_ns(), QUIET_MS);
            stop_ns = weft__deadline(weft__now_ns(), STOP_MS);
        }
    }
    zmq_msg_close(&msg);
    return NULL;
}

/* ---- starting and stopping ---- */

static weft_status open_router(weft__kv_server *s, const char *address, int *port)
{
    char endpoint[WEFT__ADDRESS_BYTES + 32];
    size_t bytes = sizeof endpoint;
    int linger = LAST_WORDS_MS, unlimited = 0;
    s->router = weft__zmq_socket(s->context, ZMQ_ROUTER, true, strchr(address, ':'), s->keys);
    if (!s->router) return WEFT_ERR_SYSTEM;
    zmq_setsockopt(s->router, ZMQ_LINGER, &linger, sizeof linger);
    /* An answer must never be dropped; there are no more of them than calls that wait for one. */
    zmq_setsockopt(s->router, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    s->strangers.seen = on_connection;
    s->strangers.arg = s;
    weft__strangers_limit(&s->strangers, WEFT__KV_REQUEST_MAX, WEFT__STRANGERS_WAKES_MS);
    if (weft__strangers_open(&s->strangers, s->context, s->router)) return WEFT_ERR_SYSTEM;
    weft__address_endpoint(address, *port ? port : NULL, endpoint, sizeof endpoint);
    if (weft__zmq_bind(s->router, endpoint)) return WEFT_PENDING;
    if (zmq_getsockopt(s->router, ZMQ_LAST_ENDPOINT, endpoint, &bytes))
        return weft__fail(WEFT_ERR_SYSTEM, "the store's address is not known: %s", zmq_strerror(errno));
    *port = atoi(strrchr(endpoint, ':') + 1);
    return WEFT_OK;
}

static weft_status start_thread(weft__kv_server *s)
{
    sigset_t all, before;
    int error;
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop_fd < 0) return weft__fail_errno("no descriptor for the store's server");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&s->thread, NULL, kv_server_serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return error ? weft__fail_errno("the store's thread cannot be started") : WEFT_OK;
}

/* Everything but the thread; keeps errno. */
static void take_down(weft__kv_server *s)
{
    int reason = errno;
    for (int i = 0; i < s->connection_room; i++) {
        drop_connection(s, i);
        weft__reserve_give(s->connections[i]);
    }
    weft__reserve_give((void *)s->connections);
    weft__strangers_close(&s->strangers);
    if (s->router) zmq_close(s->router);
    if (s->stop_fd >= 0) close(s->stop_fd);
    weft__zap_dismiss(s->keys);
    weft__keys_drop(s->keys);
    weft__zmq_give();
    weft__kv_table_free(s->table);
    free(s);
    errno = reason;
}

weft_status weft__kv_serve(const char *address, int *port, weft__keys *keys, weft__kv_server **server)
{
    weft__kv_server *s = calloc(1, sizeof *s);
    weft_status status;
    if (!s) return weft__fail_memory(sizeof *s, "the store's server");
    s->keys = weft__keys_take(keys);
    s->stop_fd = -1;
    if ((status = weft__zmq_take(&s->context))) goto free_server;
    if ((status = weft__zap_admit(keys))) goto give_context;
    s->table = weft__kv_table_new(WEFT__KV_TOTAL_MAX);
    status = s->table ? open_router(s, address, port) : weft__fail_memory(4096, "the store's values");
    if (status == WEFT_OK) status = start_thread(s);
    if (status == WEFT_OK)
        *server = s;
    else
        take_down(s);
    return status;

give_context:
    weft__zmq_give();
free_server:
    weft__keys_drop(keys);
    free(s);
    return status;
}

void weft__kv_server_stop(weft__kv_server *s)
{
    uint64_t one = 1;
    if (!s) return;
    while (write(s->stop_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
    pthread_join(s->thread, NULL);
    take_down(s);
}
