/* slices.c - see slices.h. */
#include "slices.h"
#include "zap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

/* A message that several slices lie in. */
typedef struct whole {
    zmq_msg_t msg;
    _Atomic size_t users; /* its slices that ZeroMQ is not done with, or that are not made yet */
} whole;

static void leave(whole *w, size_t slices)
{
    if (atomic_fetch_sub_explicit(&w->users, slices, memory_order_acq_rel) != slices) return;
    zmq_msg_close(&w->msg);
    free(w);
}

static void leave_slice(void *data, void *hint)
{
    (void)data;
    leave(hint, 1);
}

static bool send_frame(void *socket, zmq_msg_t *msg, int flags)
{
    int rc;
    do rc = zmq_msg_send(msg, socket, flags | ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        const int reason = errno;
        zmq_msg_close(msg);
        errno = reason;
    }
    return rc >= 0;
}

/* Ends what has begun by a frame that is part of no message of ours, so that the next one is not taken for the rest of this one. */
static bool send_nothing(void *socket)
{
    zmq_msg_t empty;
    zmq_msg_init(&empty);
    (void)send_frame(socket, &empty, 0);
    errno = ENOMEM;
    return false;
}

static size_t slices_of(size_t bytes)
{
    return (bytes + WEFT__SLICE_BYTES - 1) / WEFT__SLICE_BYTES;
}

/* What comes after one that fails is dropped by ZeroMQ, up to the last one: without that it would drop the next message. */
static bool send_slices(void *socket, whole *w, size_t bytes)
{
    char *data = zmq_msg_data(&w->msg);
    bool good = true;
    for (size_t left = bytes, n; left; left -= n, data += n) {
        zmq_msg_t slice;
        n = left > WEFT__SLICE_BYTES ? WEFT__SLICE_BYTES : left;
        if (zmq_msg_init_data(&slice, data, n, leave_slice, w)) {
            leave(w, slices_of(left));
            return send_nothing(socket);
        }
        good = send_frame(socket, &slice, n < left ? ZMQ_SNDMORE : 0) && good;
    }
    return good;
}

bool weft__slices_send(void *socket, zmq_msg_t *msg)
{
    const size_t bytes = zmq_msg_size(msg);
    whole *w;
    if (bytes <= WEFT__SLICE_BYTES) return send_frame(socket, msg, 0);
    if (!(w = malloc(sizeof *w))) {
        zmq_msg_close(msg);
        return send_nothing(socket);
    }
    zmq_msg_init(&w->msg);
    zmq_msg_move(&w->msg, msg);
    zmq_msg_close(msg);
    atomic_init(&w->users, slices_of(bytes));
    return send_slices(socket, w, bytes);
}

/* ---- taking ---- */

/* What has come of a message. */
typedef struct gathered {
    char *bytes;
    size_t count, room;
    bool dropped; /* too long, or there is no memory */
} gathered;

bool weft__frame_take(void *socket, zmq_msg_t *msg)
{
    int rc;
    do rc = zmq_msg_recv(msg, socket, ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    return rc >= 0;
}

static void drop(gathered *g)
{
    free(g->bytes);
    *g = (gathered){.dropped = true};
}

static bool has_room(gathered *g, size_t bytes)
{
    const size_t needed = g->count + bytes;
    char *more;
    if (g->bytes && needed <= g->room) return true;
    if (!(more = realloc(g->bytes, 2 * needed + 1))) return false;
    g->bytes = more;
    g->room = 2 * needed + 1;
    return true;
}

static void append(gathered *g, zmq_msg_t *slice, size_t most)
{
    const size_t bytes = zmq_msg_size(slice);
    if (g->dropped) return;
    if (bytes > most - g->count || !has_room(g, bytes)) {
        drop(g);
        return;
    }
    if (bytes) memcpy(g->bytes + g->count, zmq_msg_data(slice), bytes);
    g->count += bytes;
}

static void free_bytes(void *data, void *hint)
{
    (void)hint;
    free(data);
}

static void make_message(gathered *g, zmq_msg_t *msg)
{
    zmq_msg_close(msg);
    if (!g->dropped && !zmq_msg_init_data(msg, g->bytes, g->count, free_bytes, NULL)) return;
    free(g->bytes);
    zmq_msg_init(msg);
}

bool weft__slices_take(void *socket, zmq_msg_t *msg, size_t most, int *fd)
{
    gathered g = {.bytes = NULL};
    if (!weft__frame_take(socket, msg)) return false;
    if (fd) *fd = zmq_msg_get(msg, ZMQ_SRCFD);
    if (!zmq_msg_more(msg) && zmq_msg_size(msg) <= most) return true;
    append(&g, msg, most);
    while (zmq_msg_more(msg) && weft__frame_take(socket, msg)) append(&g, msg, most);
    make_message(&g, msg);
    return true;
}
