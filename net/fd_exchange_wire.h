/* fd_exchange_wire.h - what fd_exchange.c (members) and fd_exchange_lead.c (the leader) have in common: the
 * messages, and moving bytes and descriptors over a Unix socket. */
#ifndef WEFT_NET_FD_EXCHANGE_WIRE_H
#define WEFT_NET_FD_EXCHANGE_WIRE_H
#include "shm_segment.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define WEFT__COOKIE_BYTES 16
#define WEFT__HELLO_FDS    3  /* descriptors of a rank at most */
#define WEFT__BATCH_HELLOS 84 /* ranks per message: 253 descriptors are what one may carry */
#define WEFT__BATCH_FDS    (WEFT__HELLO_FDS * WEFT__BATCH_HELLOS + 1)
#define WEFT__REASON_BYTES 400
#define WEFT__RETRY_MS     5

/* Who a rank is.  Travels between processes of one host and one build of the wire (hello.version). */
typedef struct weft__fd_hello {
    int32_t pid;
    uint32_t has_pidfd;
    uint8_t cookie[WEFT__COOKIE_BYTES];
} weft__fd_hello;

typedef enum weft__fd_exchange_notice_kind {
    WEFT__FD_EXCHANGE_HELLOS = 1,
    WEFT__FD_EXCHANGE_GO,
    WEFT__FD_EXCHANGE_FAILED
} weft__fd_exchange_notice_kind;
typedef struct weft__fd_exchange_notice {
    uint32_t kind;
    int32_t status; /* of FAILED */
    uint32_t count; /* of hellos that follow */
    uint32_t first; /* local rank of the first of them */
} weft__fd_exchange_notice;
typedef struct weft__batch {
    weft__fd_exchange_notice head;
    union {
        weft__fd_hello fd_hellos[WEFT__BATCH_HELLOS];
        char reason[WEFT__REASON_BYTES];
    } body;
} weft__batch;

typedef struct weft__fd_message {
    void *bytes;
    size_t length, done;
    int *fds;
    int n_fds, max_fds;
} weft__fd_message;

typedef struct weft__credentials {
    weft__proof proof;
    weft__fd_hello fd_hello;
} weft__credentials;

/* Moves what can be moved.  1: all is there; 0: not yet; -1: the connection is over.  Never reads past
 * length, so descriptors that come with later bytes are not lost. */
int weft__fd_message_step(int fd, weft__fd_message *in);
/* Until it is there, the deadline (ERR_TIMEOUT) or the end of the connection (ERR_PEER). */
weft_status weft__fd_message_receive(int fd, weft__fd_message *in, int64_t deadline_ns);
/* deadline_ns 0: at once or not at all. */
weft_status weft__fd_message_send(int fd, const void *bytes, size_t length, const int *fds, int n_fds,
                                  int64_t deadline_ns);
void weft__close_fds(const int *fds, int n); /* those that are not -1 */

/* The abstract address of a job's segment; the length for bind and connect. */
socklen_t weft__fd_exchange_name(const char *name, struct sockaddr_un *address);
/* The kernel tells who holds the other end; nobody of another user is talked to. */
bool weft__same_user(int fd, unsigned *uid);
/* Likewise whether it can be the process of that local rank, where their numbers mean the same here. */
bool weft__is_process_of(const weft__segment_config *config, int local, int fd);

void weft__fd_hello_make(const weft__segment_peer *peer, const uint8_t cookie[WEFT__COOKIE_BYTES],
                         weft__fd_hello *out);
/* The descriptors that go with it, in their order; how many. */
int weft__fd_hello_fds(const weft__segment_peer *peer, int fds[WEFT__HELLO_FDS]);
/* Takes the descriptors of one rank off the list that came with its hello.  False: there are too few. */
bool weft__fd_hello_take(const weft__fd_hello *from, int **fds, int *n_fds, weft__segment_peer *peer);
/* Decides peer->same_process.  A thread of this process does not die alone: its pidfd and its pipe tell
 * nothing and are closed. */
void weft__same_process(weft__segment_peer *peer, const uint8_t peer_cookie[WEFT__COOKIE_BYTES],
                        const weft__segment_peer *own, const uint8_t own_cookie[WEFT__COOKIE_BYTES]);

/* A member's side once it has proven itself (fd_exchange.c): what the leader at the other end of fd hands
 * out. */
weft_status weft__fd_exchange_take(const weft__segment_config *config, int fd, int *memfd,
                                   weft__segment_peer *peers, const uint8_t own_cookie[WEFT__COOKIE_BYTES]);

static inline int64_t weft__soonest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The leader's side: seats everybody, delivers, and tells who sits if it fails. */
weft_status weft__fd_exchange_lead(const weft__segment_config *config, int memfd, weft__segment_peer *peers,
                                   const uint8_t own_cookie[WEFT__COOKIE_BYTES]);
#endif
