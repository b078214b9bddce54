/* relay_down.c - see relay_down.h. */
#include "relay_down.h"
#include "check.h"
#include "slices.h"

#include <stdlib.h>
#include <string.h>

void weft__relay_tell(weft__relay *relay, const weft__relayed *to, zmq_msg_t *frame)
{
    WEFT__ASSERT(to);
    if (zmq_send(relay->router, to->route, to->route_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        (void)weft__slices_send(relay->router, frame);
    else
        zmq_msg_close(frame);
}

/* Those of one connection beside each other, and what is told to one in the order in which it came. */
static int by_route(const void *left, const void *right)
{
    const weft__told *a = left, *b = right;
    int order;
    if (a->to->route_bytes != b->to->route_bytes) return a->to->route_bytes < b->to->route_bytes ? -1 : 1;
    order = memcmp(a->to->route, b->to->route, a->to->route_bytes);
    if (order) return order;
    return (const char *)a->frame < (const char *)b->frame ? -1 : a->frame != b->frame;
}

static int of_one_route(const weft__told *list, int n)
{
    int i = 1;
    while (i < n && weft__relay_is_of_route(list[0].to, list[i].to)) i++;
    return i;
}

weft__told *weft__relay_list(weft__relay *relay, size_t n)
{
    weft__told *list = calloc(n + 1, sizeof *list);
    if (!list) weft__relay_lose(relay); /* no memory */
    return list;
}

void weft__relay_tell_all(weft__relay *relay, zmq_msg_t *frame)
{
    weft__told *list = weft__relay_list(relay, (size_t)relay->count);
    int n = 0;
    for (int i = 0; list && i < relay->count; i++)
        if (relay->clients[i].welcomed) list[n++].to = &relay->clients[i];
    if (n > 1) qsort(list, (size_t)n, sizeof *list, by_route);
    for (int i = 0; i < n; i += of_one_route(&list[i], n - i)) {
        zmq_msg_t one;
        zmq_msg_init(&one);
        if (zmq_msg_copy(&one, frame) == 0) weft__relay_tell(relay, list[i].to, &one);
    }
    free(list);
    zmq_msg_close(frame);
}

/* As one message to the relay that they are behind. */
static void send_words_down(weft__relay *relay, const weft__told *list, int n)
{
    const weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                       .version = WEFT__RENDEZVOUS_VERSION,
                                       .kind = WEFT__RENDEZVOUS_WORDS,
                                       .rank = -1,
                                       .world = -1};
    weft__words words = {.list = NULL};
    zmq_msg_t frame;
    bool good = true;
    for (int i = 0; i < n && good; i++) good = weft__words_add(&words, list[i].frame, list[i].bytes);
    good = good && words.list && !zmq_msg_init_size(&frame, sizeof h + words.bytes);
    if (good) {
        memcpy(zmq_msg_data(&frame), &h, sizeof h);
        memcpy((char *)zmq_msg_data(&frame) + sizeof h, words.list, words.bytes);
        weft__relay_tell(relay, list[0].to, &frame);
    } else {
        weft__relay_lose(relay); /* no memory */
    }
    weft__words_drop(&words);
}

static void send_one_down(weft__relay *relay, const weft__told *one)
{
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, one->bytes)) {
        weft__relay_lose(relay); /* no memory */
        return;
    }
    memcpy(zmq_msg_data(&frame), one->frame, one->bytes);
    weft__relay_tell(relay, one->to, &frame);
}

void weft__relay_tell_each(weft__relay *relay, weft__told *list, int n)
{
    if (n > 1) qsort(list, (size_t)n, sizeof *list, by_route);
    for (int i = 0, together; i < n; i += together) {
        together = list[i].to->below ? of_one_route(&list[i], n - i) : 1;
        if (together > 1)
            send_words_down(relay, &list[i], together);
        else
            send_one_down(relay, &list[i]);
    }
}
