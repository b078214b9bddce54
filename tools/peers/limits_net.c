/* limits_net.c - what this machine allows between two networks, as a peer of tools/compare: a thread that
 * does nothing but move messages on one bare socket while the rank computes; see measure.h for its arguments.
 *
 * RANK, and MASTER_ADDR, an address of rank 0's, are in the environment; two ranks, phase overlap, messages
 * only. Rank and thread share a processor, so that the other's work is disturbed by nobody's messages but its
 * own, and the thread is woken once in WAKE bytes: of what was tried this hides most. */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORT = 29555,
    WAKE = 256 << 10,
    TRIES = 500, /* to reach rank 0, 20 ms apart */
    VALUES = 32
};

static struct peer self = {.size = 2};
static int connection = -1;
static struct measure_call receiving, sending;
static int n_started;
static sem_t started, moved;

static void wait_for(sem_t *of)
{
    while (sem_wait(of) && errno == EINTR) continue;
}

static void wake_at(size_t left)
{
    int least = left < WAKE ? (int)left : WAKE;
    if (setsockopt(connection, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)))
        measure_fail("SO_RCVLOWAT: %s", strerror(errno));
}

static size_t progress(ssize_t k, const char *what)
{
    if (k < 0 && errno != EAGAIN && errno != EINTR) measure_fail("%s: %s", what, strerror(errno));
    return k > 0 ? (size_t)k : 0;
}

/* Sends and receives at once, as each goes on. */
static void exchange(const void *out, size_t n_out, void *in, size_t n_in)
{
    size_t gone = 0, here = 0;
    while (gone < n_out || here < n_in) {
        short events = (short)((gone < n_out ? POLLOUT : 0) | (here < n_in ? POLLIN : 0));
        struct pollfd at = {connection, events, 0};
        if (here < n_in) wake_at(n_in - here);
        if (poll(&at, 1, -1) < 0 && errno != EINTR) measure_fail("poll: %s", strerror(errno));
        if (at.revents & events & POLLOUT)
            gone += progress(send(connection, (const char *)out + gone, n_out - gone,
                                  MSG_DONTWAIT | MSG_NOSIGNAL),
                             "send");
        if (at.revents & events & POLLIN) {
            ssize_t k = recv(connection, (char *)in + here, n_in - here, MSG_DONTWAIT);
            if (k == 0) measure_fail("the other rank has left");
            here += progress(k, "recv");
        } else if (at.revents & (POLLERR | POLLHUP)) {
            measure_fail("the connection has failed");
        }
    }
}

static void *move(void *ignored)
{
    (void)ignored;
    for (;;) {
        wait_for(&started);
        exchange(sending.in, sending.count * sizeof(float), receiving.out, receiving.count * sizeof(float));
        sem_post(&moved);
    }
    return NULL;
}

static void start(const struct measure_call *call)
{
    if (call->action == MEASURE_SEND)
        sending = *call;
    else
        receiving = *call;
    if (++n_started == 2) sem_post(&started);
}

static void finish(void)
{
    wait_for(&moved);
    n_started = 0;
}

static void run(const struct measure_call *call)
{
    char own = 1, other = 0;
    if (call->action != MEASURE_BARRIER) measure_fail("messages in both directions are all there is");
    exchange(&own, 1, &other, 1);
}

static void maximum(double *values, int n)
{
    double theirs[VALUES];
    if (n > VALUES) measure_fail("%d values, for which there is no room", n);
    exchange(values, (size_t)n * sizeof(*values), theirs, (size_t)n * sizeof(*values));
    for (int i = 0; i < n; i++)
        if (theirs[i] > values[i]) values[i] = theirs[i];
}

static int accept_other(const struct sockaddr_in *at)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, end;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (const struct sockaddr *)at, sizeof(*at)) || listen(listener, 1) ||
        (end = accept(listener, NULL, NULL)) < 0)
        measure_fail("rank 1 cannot be accepted: %s", strerror(errno));
    close(listener);
    return end;
}

static int reach_other(const struct sockaddr_in *at)
{
    for (int i = 0; i < TRIES; i++) {
        int end = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(end, (const struct sockaddr *)at, sizeof(*at)) == 0) return end;
        close(end);
        usleep(20000);
    }
    measure_fail("rank 0 is not reached: %s", strerror(errno));
}

static void connect_ranks(void)
{
    const char *address = getenv("MASTER_ADDR");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int on = 1;
    if (!address || inet_pton(AF_INET, address, &at.sin_addr) != 1)
        measure_fail("MASTER_ADDR is \"%s\", not an IPv4 address", address ? address : "");
    connection = self.rank ? reach_other(&at) : accept_other(&at);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void pin(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)self.rank, &one);
    sched_setaffinity(0, sizeof(one), &one); /* where that is no processor of ours we stay where we are */
}

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK");
    pthread_t mover;
    measure_begin(argc, argv);
    if (strcmp(measure_phase(), "overlap")) measure_fail("has nothing but overlap");
    if (!rank || (strcmp(rank, "0") && strcmp(rank, "1"))) measure_fail("RANK must be 0 or 1");
    self.rank = rank[0] - '0';
    self.request = 1u << MEASURE_SEND | 1u << MEASURE_RECEIVE;
    self.run = run;
    self.start = start;
    self.finish = finish;
    self.maximum = maximum;
    connect_ranks();
    pin();
    sem_init(&started, 0, 0);
    sem_init(&moved, 0, 0);
    if (pthread_create(&mover, NULL, move, NULL)) measure_fail("no thread");
    measure(&self);
    return measure_end();
}
