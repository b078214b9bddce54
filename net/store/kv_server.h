/* kv_server.h - the server of a store: a ZeroMQ ROUTER with a thread of its own, which keeps the values.
 * It sleeps without a timer while nobody asks. */
#ifndef WEFT_NET_STORE_KV_SERVER_H
#define WEFT_NET_STORE_KV_SERVER_H
#include "auth.h"

#include <weft/weft.h>

typedef struct weft__kv_server weft__kv_server;

/* Binds and starts to serve.  WEFT_PENDING, without a sentence: the address cannot be bound here, errno tells
 * why - taken, or another host's.  port 0: any that is free; *port gets it. */
weft_status weft__kv_serve(const char *address, int *port, weft__keys *keys, weft__kv_server **server);
/* Goes on for clients that are still busy - until they have all gone, nothing was asked for 200 ms, or 1 s
 * has passed - then ends: whoever still waits is told by the end of its connection.  Safe on NULL. */
void weft__kv_server_stop(weft__kv_server *server);
#endif
