/* relay_down.h - what a relay (relay.h) tells its clients.  Its thread's alone. */
#ifndef WEFT_NET_JOIN_RELAY_DOWN_H
#define WEFT_NET_JOIN_RELAY_DOWN_H
#include "relay.h"

/* What is told to one of them. */
typedef struct weft__told {
    const weft__relayed *to;
    const void *frame;
    size_t bytes;
} weft__told;

/* Who has gone meanwhile is told nothing.  The message is used up. */
void weft__relay_tell(weft__relay *relay, const weft__relayed *to, zmq_msg_t *frame);
/* All that are in the job, once a connection.  The message is used up. */
void weft__relay_tell_all(weft__relay *relay, zmq_msg_t *frame);
/* Room for n, and one more; the caller frees it.  NULL: no memory, and the relay is lost. */
weft__told *weft__relay_list(weft__relay *relay, size_t n);
/* To each relay below what its ranks are told in one message, and to others each alone.  Sorts the list. */
void weft__relay_tell_each(weft__relay *relay, weft__told *list, int n);
#endif
