/* slices.h - messages of ZeroMQ that are longer than what anybody may make a socket hold (WEFT__SLICE_BYTES, zap.h).
 *
 * libzmq judges the length of each frame as soon as it is said, also before the other end has proved anything, and keeps what
 * has come of it meanwhile.  So no socket takes long frames, and what is longer goes as several that are one message, which
 * ZeroMQ hands over whole or not at all.  Whoever has proved the job's secret can send as many of them as it likes, and ZeroMQ
 * holds what is not whole yet; who goes on without end is cut off (unfinished.h). */
#ifndef WEFT_NET_SLICES_H
#define WEFT_NET_SLICES_H
#include <stdbool.h>
#include <stddef.h>
#include <zmq.h>

/* Sends it, behind what has gone of the same message (ZMQ_SNDMORE) if anything has, without waiting and without a copy.  It
 * is used up, whatever comes of that.  False: errno tells why; ENOMEM: it has become an empty one. */
bool weft__slices_send(void *socket, zmq_msg_t *msg);
/* One frame that is here, as the route before a message is; false: none is. */
bool weft__frame_take(void *socket, zmq_msg_t *msg);
/* Takes all of a message that is here, or what is left of one whose first frames have been taken, into msg; what is longer than
 * `most`, or than there is memory, becomes an empty one.  fd: of the connection that it came by, or -1; may be NULL.  False: nothing
 * is here. */
bool weft__slices_take(void *socket, zmq_msg_t *msg, size_t most, int *fd);
#endif
