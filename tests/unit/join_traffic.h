/* join_traffic.h - what ranks that join say to the server and to relays, counted at the functions of ZeroMQ that this
 * program has in place of the library's: those of the server's thread, and those of relays' threads.
 *
 * They stand here, so one file of a program includes it; traffic_begin comes before anything else. */
#ifndef TESTS_UNIT_JOIN_TRAFFIC_H
#define TESTS_UNIT_JOIN_TRAFFIC_H
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zmq.h>

enum { MOST = 64, ROUTES = 512 };

/* What goes over the ROUTER of one thread. */
typedef struct traffic {
    int connections; /* that something has come over */
    int accepted;    /* those, and others that nothing came over */
    int in, out;     /* messages */
    size_t bytes_in, bytes_out;
    bool amid; /* more of a message is to come in */
    uint32_t routes[ROUTES];
} traffic;

typedef struct rank_traffic {
    traffic server, relay;
    bool met;
    char sentence[256];
} rank_traffic;

static rank_traffic *ranks; /* shared */
static rank_traffic *own;   /* of this process; NULL: nobody counts */

static traffic *counted(void)
{
    char name[16] = "";
    if (!own || pthread_getname_np(pthread_self(), name, sizeof name)) return NULL;
    if (!strcmp(name, "weft-rendezvous")) return &own->server;
    return strcmp(name, "weft-relay") ? NULL : &own->relay;
}

static void *original(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void note_route(traffic *t, zmq_msg_t *msg)
{
    uint32_t route = 0;
    memcpy(&route, (char *)zmq_msg_data(msg) + 1, sizeof route); /* behind a zero */
    for (int i = 0; i < t->connections; i++)
        if (t->routes[i] == route) return;
    if (t->connections < ROUTES) t->routes[t->connections++] = route;
}

/* The library's. */
static int (*receive)(zmq_msg_t *, void *, int), (*transmit)(zmq_msg_t *, void *, int);
static int (*receive_bytes)(void *, void *, size_t, int);

static int
    hold_ms; /* so long a relay's thread loses its processor where it has read all messages from below */

static void be_held(void *socket, int bytes)
{
    static _Thread_local const void *router; /* that something has come over since */
    char name[16] = "";
    if (!hold_ms || pthread_getname_np(pthread_self(), name, sizeof name) || strcmp(name, "weft-relay") != 0)
        return;
    if (bytes >= 0) {
        int type = 0;
        size_t type_bytes = sizeof type;
        if (!zmq_getsockopt(socket, ZMQ_TYPE, &type, &type_bytes) && type == ZMQ_ROUTER) router = socket;
        return;
    }
    if (router != socket) return;
    router = NULL;
    usleep((useconds_t)hold_ms * 1000);
}

int zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags)
{
    traffic *t = counted();
    int type, bytes, reason;
    size_t type_bytes = sizeof type;
    bytes = receive(msg, socket, flags);
    reason = zmq_errno();
    be_held(socket, bytes);
    errno = reason;
    if (!t || bytes < 0 || zmq_getsockopt(socket, ZMQ_TYPE, &type, &type_bytes) || type != ZMQ_ROUTER)
        return bytes;
    if (t->amid)
        t->bytes_in += (size_t)bytes;
    else
        note_route(t, msg);
    t->in += t->amid && !zmq_msg_more(msg);
    t->amid = zmq_msg_more(msg);
    return bytes;
}

/* The server's thread hears of its connections so, and of orders. */
int zmq_recv(void *socket, void *buffer, size_t room, int flags)
{
    traffic *t = counted();
    int bytes = receive_bytes(socket, buffer, room, flags);
    uint16_t event;
    if (!t || bytes != 6) return bytes;
    memcpy(&event, buffer, sizeof event);
    t->accepted += event == ZMQ_EVENT_ACCEPTED;
    return bytes;
}

int zmq_msg_send(zmq_msg_t *msg, void *socket, int flags)
{
    traffic *t = counted();
    int type;
    size_t bytes = zmq_msg_size(msg), type_bytes = sizeof type;
    if (t && !zmq_getsockopt(socket, ZMQ_TYPE, &type, &type_bytes) && type == ZMQ_ROUTER) {
        t->out += !(flags & ZMQ_SNDMORE);
        t->bytes_out += bytes;
    }
    return transmit(msg, socket, flags);
}

/* False: that is not possible. */
static bool traffic_begin(void)
{
    *(void **)&receive = original("zmq_msg_recv");
    *(void **)&receive_bytes = original("zmq_recv");
    *(void **)&transmit = original("zmq_msg_send");
    ranks = mmap(NULL, MOST * sizeof *ranks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return ranks != MAP_FAILED;
}
#endif
