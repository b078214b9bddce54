/* kv_link.h - a process's connection to the server of a store: one for all who use that server with that
 * secret, with a thread that sends their calls and hands out the answers.  The thread sleeps without a timer;
 * one caller's wait never holds another's call. */
#ifndef WEFT_NET_STORE_KV_LINK_H
#define WEFT_NET_STORE_KV_LINK_H
#include "address.h"
#include "auth.h"
#include "kv.h"

typedef struct weft__kv_link weft__kv_link;

/* An end of the connection that has been made, but carries nothing yet. */
typedef struct weft__kv_socket {
    void *context, *dealer, *monitor;
} weft__kv_socket;
void weft__kv_socket_close(weft__kv_socket *socket);

/* Makes the connection when this process has none; runs without a lock, so it may take its time. */
typedef weft_status weft__kv_connect_fn(void *arg, weft__kv_socket *socket);

/* The process's connection to that endpoint with these keys, counted: an open one, or one made now by
 * connect. While another thread makes it, waits for that, at most until the deadline. */
weft_status weft__kv_link_take(const char *endpoint, weft__keys *keys, int64_t deadline_ns,
                               weft__kv_connect_fn *connect, void *arg, weft__kv_link **out);
void weft__kv_link_give(weft__kv_link *link);

/* As weft__kv_ops.perform. */
weft_status weft__kv_link_perform(weft__kv_link *link, const weft__kv_call *call, weft__kv_result *result);
#endif
