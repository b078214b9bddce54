/* zap.h - the process's one ZeroMQ context, and who may talk to its sockets.
 *
 * The context lives from the first take to the last give; with it a thread that answers ZAP requests: a
 * connection to a CURVE server socket gets in only if its domain (a job) was admitted and its key is that
 * job's client key. The thread sleeps in a receive; it costs nothing while nobody connects.  In a forked
 * child there is no context. */
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

/* A socket with what all of ours have: CURVE, no lingering, a limit on messages, a short handshake.  server:
 * accepts members of the job; else connects to one.  message_max: payload bytes, -1 for no limit.  ipv6:
 * whether its address is one.  NULL: the sentence is set. */
void *weft__zmq_socket(void *context, int type, bool server, bool ipv6, const weft__keys *keys,
                       int64_t message_max);
/* zmq_bind to an address; -1 and EMFILE where that would end the process. */
int weft__zmq_bind(void *socket, const char *endpoint);
#endif
