/* zap.h - the process's one ZeroMQ context, and who may talk to its sockets.
 *
 * The context lives from the first take to the last give; with it a thread that answers ZAP requests: a
 * connection to a CURVE server socket gets in only if its domain (a job, or a rank's own socket) was admitted and its key
 * is that job's client key, or that of a rank. The thread sleeps in a receive; it costs nothing while nobody connects.  In a forked
 * child there is no context.
 *
 * Out of descriptors or threads libzmq aborts the process, so both are asked for before (base/quota.h); the
 * threads' stacks then are memory enough for the context and its first sockets.
 *
 * Out of memory it aborts too, and from that it cannot be kept.  Of our own calls zmq_ctx_new and
 * zmq_msg_init_size fail as they should; zmq_socket, zmq_bind, zmq_connect, zmq_setsockopt with a key,
 * zmq_socket_monitor and zmq_msg_send (a queue grows by 256 messages at a time) write "FATAL ERROR: OUT OF
 * MEMORY" and abort, or throw what nobody catches.  So does its own thread for each connection that comes or
 * is made (engine, session, buffers) and for each message that it encrypts or decrypts, whoever sends it and
 * whenever; only the payload of a long message may fail, which ends its connection.
 *
 * There is no allocator to set and no way to hand such a failure up.  Memory of our own for it would mean
 * another malloc for the whole program, whose choice that is; to ask beforehand says nothing about its
 * thread. So it is off every path that can do without: data never goes by it, only joining, the watchdogs'
 * notices and stores do.  A rank that ends so is seen at once to have died by SIGABRT,
 * as any that is killed. */
#ifndef WEFT_NET_ZAP_H
#define WEFT_NET_ZAP_H
#include "auth.h"

#include <weft/weft.h>

/* Counted.  Sockets made from it are closed before the give. */
weft_status weft__zmq_take(void **context);
void weft__zmq_give(void);

/* Lets the members of this job in, until as many dismissals. */
weft_status weft__zap_admit(const weft__keys *keys);
void weft__zap_dismiss(const weft__keys *keys);
/* Likewise at the socket that this rank has of its own (weft__zmq_rank_socket): each rank of keys->ranks, by its own key and no
 * other.  Until they are told, whoever comes is to come again. */
weft_status weft__zap_admit_ranks(const weft__keys *keys);
void weft__zap_ranks_told(const weft__keys *keys);
void weft__zap_dismiss_ranks(const weft__keys *keys);

/* The longest frame that a socket of ours takes, from whom it may be: ZeroMQ holds what has come of one also of who has not
 * proved anything.  Longer messages are several of them (slices.h). */
#define WEFT__SLICE_BYTES (64u * 1024)

/* A socket with what all of ours have: CURVE, no lingering, that limit on frames, a short handshake.  server:
 * accepts members of the job; else connects to one.  ipv6: whether its address is one.  NULL: the sentence is set. */
void *weft__zmq_socket(void *context, int type, bool server, bool ipv6, const weft__keys *keys);
/* Likewise, by the ranks' own keys: peer < 0: accepts them, else connects to that one of keys->ranks, which is the
 * only one that can answer. */
void *weft__zmq_rank_socket(void *context, int type, int peer, bool ipv6, const weft__keys *keys);
/* Whose connection a message came by that such a socket has accepted, as its key has proved; -1: it is none of these. */
int weft__zmq_rank_of(void *message);
/* zmq_bind to an address; -1 and EMFILE where that would end the process. */
int weft__zmq_bind(void *socket, const char *endpoint);
/* As ZeroMQ's, which a signal to the program's thread interrupts before they have done anything: then once more.  inside:
 * "inproc://..." */
int weft__zmq_bind_inside(void *socket, const char *endpoint);
int weft__zmq_connect(void *socket, const char *endpoint);
int weft__zmq_monitor(void *socket, const char *endpoint, int events);
#endif
