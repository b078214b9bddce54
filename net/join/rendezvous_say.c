/* rendezvous_say.c - what the server (rendezvous_server.h) says to its clients, and to which of them at once. */
#include "rendezvous_server.h"
#include "slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

weft__rendezvous_header weft__rendezvous_header_for(const weft__rendezvous_server *s,
                                                    enum weft__rendezvous_kind kind, int rank)
{
    return (weft__rendezvous_header){WEFT__RENDEZVOUS_MAGIC,
                                     WEFT__RENDEZVOUS_VERSION,
                                     (uint16_t)kind,
                                     {0},
                                     rank,
                                     s->world,
                                     s->status,
                                     (uint32_t)s->step,
                                     0};
}

bool weft__rendezvous_send(weft__rendezvous_server *s, const weft__rendezvous_member *to, zmq_msg_t *msg)
{
    if (zmq_send(s->router, to->route, to->route_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        return weft__slices_send(s->router, msg) || errno != EHOSTUNREACH;
    zmq_msg_close(msg);
    return errno != EHOSTUNREACH;
}

bool weft__rendezvous_say(weft__rendezvous_server *s, const weft__rendezvous_member *to,
                          enum weft__rendezvous_kind kind, const void *payload, size_t bytes)
{
    weft__rendezvous_header header = weft__rendezvous_header_for(s, kind, to->rank);
    zmq_msg_t msg;
    memcpy(header.client, to->id, sizeof header.client);
    if (zmq_msg_init_size(&msg, sizeof header + bytes))
        return true; /* no memory: that client runs into its deadline */
    memcpy(zmq_msg_data(&msg), &header, sizeof header);
    if (bytes) memcpy((char *)zmq_msg_data(&msg) + sizeof header, payload, bytes);
    return weft__rendezvous_send(s, to, &msg);
}

int weft__rendezvous_by_route(const void *left, const void *right)
{
    const weft__rendezvous_member *a = *(const weft__rendezvous_member *const *)left,
                                  *b = *(const weft__rendezvous_member *const *)right;
    if (a->route_bytes != b->route_bytes) return a->route_bytes < b->route_bytes ? -1 : 1;
    return memcmp(a->route, b->route, a->route_bytes);
}

weft__rendezvous_member **weft__rendezvous_waiting(const weft__rendezvous_server *s, int *n)
{
    *n = 0;
    for (int i = 0; i < s->count; i++)
        if (!s->members[i].done) s->waiting[(*n)++] = &s->members[i];
    if (*n > 1) qsort(s->waiting, (size_t)*n, sizeof *s->waiting, weft__rendezvous_by_route);
    return s->waiting;
}

int weft__rendezvous_of_one_route(weft__rendezvous_member *const *members, int n)
{
    int i = 1;
    while (i < n && !weft__rendezvous_by_route(&members[0], &members[i])) i++;
    return i;
}

/* To those behind one relay, as one message, or where there is no memory for that as one each. */
static void send_to_relay(weft__rendezvous_server *s, weft__rendezvous_member *const *members, int n,
                          enum weft__rendezvous_kind kind, const void *payload, size_t bytes)
{
    char frame[sizeof(weft__rendezvous_header) + WEFT__SENTENCE_BYTES];
    weft__words words = {.list = NULL};
    int i = 0;
    for (; i < n; i++) {
        weft__rendezvous_header header = weft__rendezvous_header_for(s, kind, members[i]->rank);
        memcpy(header.client, members[i]->id, sizeof header.client);
        memcpy(frame, &header, sizeof header);
        memcpy(frame + sizeof header, payload, bytes);
        if (!weft__words_add(&words, frame, sizeof header + bytes)) break;
    }
    if (i) weft__rendezvous_say(s, members[0], WEFT__RENDEZVOUS_WORDS, words.list, words.bytes);
    for (; i < n; i++) weft__rendezvous_say(s, members[i], kind, payload, bytes);
    weft__words_drop(&words);
}

void weft__rendezvous_say_to_all(weft__rendezvous_server *s, enum weft__rendezvous_kind kind,
                                 const void *payload, size_t bytes)
{
    int n, together;
    weft__rendezvous_member **members = weft__rendezvous_waiting(s, &n);
    for (int i = 0; i < n; i += together) {
        together = weft__rendezvous_of_one_route(&members[i], n - i);
        if (together > 1)
            send_to_relay(s, &members[i], together, kind, payload, bytes);
        else
            weft__rendezvous_say(s, members[i], kind, payload, bytes);
    }
}
