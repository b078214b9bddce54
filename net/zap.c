/* zap.c - see zap.h.  ZAP is ZeroMQ's RFC 27: the handler is asked over inproc, before a connection may say
 * anything. */
#include "zap.h"
#include "list.h"
#include "lock.h"
#include "quota.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ZAP_FRAMES    7   /* version, request id, domain, address, identity, mechanism, credentials */
#define ZAP_FRAME_MAX 256 /* longest frame that is read */
#define KEY_BYTES     32
#define DOMAIN_BYTES \
    40 /* "weft-" and the job's public id in hex, or "rank-" and the beginning of that rank's key */
#define CURVE_BYTES 64 /* and more: what encryption adds to a frame before its length is judged */
/* What the first socket takes at once, and a bind to list the network interfaces: where libzmq gets
 * none of them it aborts. */
#define START_DESCRIPTORS 8
#define BIND_DESCRIPTORS  4
#define START_THREADS     6     /* two of ZeroMQ's, and what a rank starts of its own besides */
#define MAX_SOCKETS       16384 /* in a process: 64 ranks as threads that all talk to all, thrice over */

typedef struct admitted {
    weft__list node;
    char domain[DOMAIN_BYTES];
    uint8_t client_key[KEY_BYTES];
    const weft__keys *ranks; /* in place of that key, those of these; NULL: it counts */
    bool told;               /* they are known */
    int count;
} admitted;

/* What comes of a connection's key; a rank's own: that rank. */
enum { MEMBER = -1, STRANGER = -2, TOO_EARLY = -3 };

static struct {
    weft__lock lock; /* users, context, thread */
    int users;
    void *context;
    void *socket; /* handed to the thread when it starts */
    pthread_t thread;
    weft__lock list_lock; /* apart: the thread must answer while a give waits for it */
    weft__list list;
} process = {.list = {&process.list, &process.list}};

static void domain_of(const weft__keys *keys, char domain[DOMAIN_BYTES])
{
    memcpy(domain, "weft-", 5);
    sodium_bin2hex(domain + 5, DOMAIN_BYTES - 5, keys->job, sizeof keys->job);
}

static void domain_of_rank(const weft__keys *keys, char domain[DOMAIN_BYTES])
{
    memcpy(domain, "rank-", 5);
    sodium_bin2hex(domain + 5, DOMAIN_BYTES - 5, keys->own_public.bytes, sizeof keys->job);
}

static admitted *find_admitted(const char *domain)
{
    WEFT__LIST_EACH(&process.list, at)
    {
        admitted *entry = WEFT__LIST_ENTRY(at, admitted, node);
        if (!strcmp(entry->domain, domain)) return entry;
    }
    return NULL;
}

static weft_status admit(const weft__keys *keys, bool ranks, const char domain[DOMAIN_BYTES])
{
    admitted *entry;
    weft_status status = WEFT_OK;
    weft__lock_take(&process.list_lock);
    entry = find_admitted(domain);
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        memcpy(entry->domain, domain, DOMAIN_BYTES);
        if (ranks)
            entry->ranks = keys;
        else
            zmq_z85_decode(entry->client_key, keys->curve_client_public);
        weft__list_append(&process.list, &entry->node);
    }
    if (entry)
        entry->count++;
    else
        status = weft__fail_memory(sizeof *entry, "the list of jobs let in");
    weft__lock_drop(&process.list_lock);
    return status;
}

weft_status weft__zap_admit(const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    domain_of(keys, domain);
    return admit(keys, false, domain);
}

weft_status weft__zap_admit_ranks(const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    domain_of_rank(keys, domain);
    return admit(keys, true, domain);
}

void weft__zap_ranks_told(const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    admitted *entry;
    domain_of_rank(keys, domain);
    weft__lock_take(&process.list_lock);
    entry = find_admitted(domain);
    if (entry) entry->told = true;
    weft__lock_drop(&process.list_lock);
}

static void dismiss(const char domain[DOMAIN_BYTES])
{
    admitted *entry;
    weft__lock_take(&process.list_lock);
    entry = find_admitted(domain);
    if (entry && --entry->count == 0) {
        weft__list_remove(&entry->node);
        free(entry);
    }
    weft__lock_drop(&process.list_lock);
}

void weft__zap_dismiss(const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    domain_of(keys, domain);
    dismiss(domain);
}

void weft__zap_dismiss_ranks(const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    domain_of_rank(keys, domain);
    dismiss(domain);
}

/* Public keys: how they are compared tells nothing. */
static int rank_with(const weft__keys *keys, const void *key)
{
    for (int rank = 0; rank < keys->world; rank++)
        if (!memcmp(keys->ranks[rank].bytes, key, KEY_BYTES)) return rank;
    return STRANGER;
}

static int who_enters(const char *domain, const void *key, size_t key_bytes)
{
    const admitted *entry;
    int who = STRANGER;
    if (key_bytes != KEY_BYTES) return STRANGER;
    weft__lock_take(&process.list_lock);
    entry = find_admitted(domain);
    if (entry && entry->ranks)
        who = entry->told ? rank_with(entry->ranks, key) : TOO_EARLY;
    else if (entry && sodium_memcmp(entry->client_key, key, KEY_BYTES) == 0)
        who = MEMBER;
    weft__lock_drop(&process.list_lock);
    return who;
}

typedef struct zap_request {
    char frame[ZAP_FRAMES][ZAP_FRAME_MAX];
    size_t bytes[ZAP_FRAMES];
    int frames;
} zap_request;

/* False: the context ends.  Takes a whole request even when it is malformed. */
static bool zap_receive(void *socket, zap_request *request)
{
    int more = 1;
    size_t more_bytes = sizeof more;
    memset(request, 0, sizeof *request);
    while (more) {
        char *frame = request->frame[request->frames < ZAP_FRAMES ? request->frames : ZAP_FRAMES - 1];
        int n = zmq_recv(socket, frame, ZAP_FRAME_MAX - 1, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        if (request->frames < ZAP_FRAMES) {
            request->bytes[request->frames] = (size_t)n; /* over-long ones are cut, but tell their length */
            frame[n < ZAP_FRAME_MAX ? n : ZAP_FRAME_MAX - 1] = '\0';
        }
        request->frames++;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &more_bytes);
    }
    return true;
}

static void *answer_requests(void *socket)
{
    zap_request request;
    pthread_setname_np(pthread_self(), "weft-zap");
    while (zap_receive(socket, &request)) {
        const bool good = request.frames == ZAP_FRAMES && !strcmp(request.frame[0], "1.0") &&
                          request.bytes[1] < ZAP_FRAME_MAX && !strcmp(request.frame[5], "CURVE");
        const int who = good ? who_enters(request.frame[2], request.frame[6], request.bytes[6]) : STRANGER;
        char user[16] = ""; /* goes with each of its messages */
        if (who >= 0) snprintf(user, sizeof user, "%d", who);
        zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
        zmq_send(socket, request.frame[1], request.bytes[1] < ZAP_FRAME_MAX ? request.bytes[1] : 0,
                 ZMQ_SNDMORE);
        zmq_send(socket, who >= MEMBER ? "200" : who == TOO_EARLY ? "300" : "400", 3, ZMQ_SNDMORE);
        zmq_send(socket, "", 0, ZMQ_SNDMORE);
        zmq_send(socket, user, strlen(user), ZMQ_SNDMORE);
        zmq_send(socket, "", 0, 0);
    }
    zmq_close(socket);
    return NULL;
}

/* The parent's context and thread do not exist in a child; it may make its own. */
static void forget_in_child(void)
{
    process.users = 0;
    process.context = process.socket = NULL;
    atomic_store(&process.lock.word, 0);
    atomic_store(&process.list_lock.word, 0);
    weft__list_init(&process.list);
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

static weft_status zap_start(void)
{
    sigset_t all, old;
    int rc;
    if (weft__quota_descriptors(START_DESCRIPTORS, "ZeroMQ") ||
        weft__quota_threads(START_THREADS, "this rank"))
        return WEFT_ERR_SYSTEM;
    process.context = zmq_ctx_new();
    if (!process.context) return weft__fail_errno("cannot make a ZeroMQ context");
    zmq_ctx_set(process.context, ZMQ_MAX_SOCKETS, MAX_SOCKETS);
    zmq_ctx_set(process.context, ZMQ_BLOCKY, 0);
    process.socket = zmq_socket(process.context, ZMQ_REP);
    if (!process.socket || weft__zmq_bind_inside(process.socket, "inproc://zeromq.zap.01")) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot make the ZeroMQ authenticator: %s", zmq_strerror(errno));
        goto close_socket;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&process.thread, NULL, answer_requests, process.socket);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!rc) return WEFT_OK;
    weft__fail(WEFT_ERR_SYSTEM, "cannot start the ZeroMQ authenticator: %s", strerror(rc));
close_socket:
    if (process.socket) zmq_close(process.socket);
    zmq_ctx_term(process.context);
    process.context = process.socket = NULL;
    return WEFT_ERR_SYSTEM;
}

weft_status weft__zmq_take(void **context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    weft_status status = WEFT_OK;
    pthread_once(&once, register_fork_handler);
    weft__lock_take(&process.lock);
    if (!process.context) status = zap_start();
    if (!status) {
        process.users++;
        *context = process.context;
    }
    weft__lock_drop(&process.lock);
    return status;
}

void weft__zmq_give(void)
{
    weft__lock_take(&process.lock);
    if (process.users > 0 && --process.users == 0) {
        zmq_ctx_shutdown(process.context); /* ends the thread's receive */
        pthread_join(process.thread, NULL);
        while (zmq_ctx_term(process.context) && errno == EINTR) continue;
        process.context = process.socket = NULL;
    }
    weft__lock_drop(&process.lock);
}

int weft__zmq_bind(void *socket, const char *endpoint)
{
    if (!weft__quota_descriptors(BIND_DESCRIPTORS, "ZeroMQ")) return weft__zmq_bind_inside(socket, endpoint);
    errno = EMFILE;
    return -1;
}

int weft__zmq_bind_inside(void *socket, const char *endpoint)
{
    int rc;
    do rc = zmq_bind(socket, endpoint);
    while (rc && errno == EINTR);
    return rc;
}

int weft__zmq_connect(void *socket, const char *endpoint)
{
    int rc;
    do rc = zmq_connect(socket, endpoint);
    while (rc && errno == EINTR);
    return rc;
}

int weft__zmq_monitor(void *socket, const char *endpoint, int events)
{
    int rc;
    do rc = zmq_socket_monitor(socket, endpoint, events);
    while (rc && errno == EINTR);
    return rc;
}

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

static int set_domain(void *socket, const char domain[DOMAIN_BYTES])
{
#ifdef ZMQ_ZAP_ENFORCE_DOMAIN
    if (set_int(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1)) return -1;
#endif
    return set_int(socket, ZMQ_CURVE_SERVER, 1) ||
           zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
}

/* As bytes: in that form they are in weft__keys. */
static int set_rank_curve(void *socket, int peer, const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    if (zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->own_secret, KEY_BYTES)) return -1;
    if (peer >= 0)
        return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->ranks[peer].bytes, KEY_BYTES) ||
               zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->own_public.bytes, KEY_BYTES);
    domain_of_rank(keys, domain);
    return set_domain(socket, domain);
}

static int set_curve(void *socket, bool server, const weft__keys *keys)
{
    char domain[DOMAIN_BYTES];
    if (!server)
        return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->curve_server_public, 41) ||
               zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->curve_client_public, 41) ||
               zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->curve_client_secret, 41);
    domain_of(keys, domain);
    return zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->curve_server_secret, 41) ||
           set_domain(socket, domain);
}

static void *make_socket(void *context, int type, bool ipv6)
{
    void *socket = zmq_socket(context, type);
    const int64_t frame_max = WEFT__SLICE_BYTES + CURVE_BYTES;
    int handshake_ms = (int)weft__setting_int(WEFT__SET_HANDSHAKE_MS);
    if (!socket) {
        weft__fail(errno == EMFILE ? WEFT_ERR_MEMORY : WEFT_ERR_SYSTEM, "cannot make a ZeroMQ socket: %s",
                   zmq_strerror(errno));
        return NULL;
    }
    if (set_int(socket, ZMQ_LINGER, 0) || set_int(socket, ZMQ_IPV6, ipv6) ||
        set_int(socket, ZMQ_HANDSHAKE_IVL, handshake_ms) || set_int(socket, ZMQ_RECONNECT_IVL, 50) ||
        set_int(socket, ZMQ_RECONNECT_IVL_MAX, 10000) ||
        zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max)) {
        weft__fail(WEFT_ERR_SYSTEM, "cannot prepare a ZeroMQ socket: %s", zmq_strerror(errno));
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

static void *with_keys(void *socket, int failed)
{
    if (!failed) return socket;
    weft__fail(WEFT_ERR_SYSTEM, "a ZeroMQ socket takes no keys (is libzmq built with CURVE?): %s",
               zmq_strerror(errno));
    zmq_close(socket);
    return NULL;
}

void *weft__zmq_socket(void *context, int type, bool server, bool ipv6, const weft__keys *keys)
{
    void *socket = make_socket(context, type, ipv6);
    return socket ? with_keys(socket, set_curve(socket, server, keys)) : NULL;
}

void *weft__zmq_rank_socket(void *context, int type, int peer, bool ipv6, const weft__keys *keys)
{
    void *socket = make_socket(context, type, ipv6);
    return socket ? with_keys(socket, set_rank_curve(socket, peer, keys)) : NULL;
}

int weft__zmq_rank_of(void *message)
{
    const char *user = zmq_msg_gets(message, "User-Id");
    return user && *user ? atoi(user) : -1;
}
