/* relay.c - see relay.h: what a relay knows of its clients, and what it makes of their words. */
#include "relay.h"
#include "bundle.h"
#include "clock.h"
#include "status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t relay_follows[] = {[WEFT__RELAY_SERVING] = WEFT__MAY_BECOME(WEFT__RELAY_OVER) |
                                                                WEFT__MAY_BECOME(WEFT__RELAY_LOST),
                                        [WEFT__RELAY_OVER] = 0,
                                        [WEFT__RELAY_LOST] = 0};

/* The one place that stores the phase.  It is the relay's thread's alone: no order of memory is needed. */
static void relay_to(weft__relay *relay, weft__relay_phase to)
{
    WEFT__ASSERT(WEFT__ALLOWS(relay_follows, relay->phase, to), relay->phase, to);
    relay->phase = to;
}

void weft__relay_lose(weft__relay *relay)
{
    if (relay->phase == WEFT__RELAY_SERVING) relay_to(relay, WEFT__RELAY_LOST);
}

/* ---- clients ---- */

static weft__relayed *find(weft__relay *relay, const uint8_t *id)
{
    int at = weft__index_find(&relay->by_id, relay->clients, id);
    return at < 0 ? NULL : &relay->clients[at];
}

/* NULL: no memory. */
static weft__relayed *add(weft__relay *relay, const weft__relayed *from)
{
    if (!relay->clients || relay->count == relay->room) {
        int room = relay->room ? 2 * relay->room : 16;
        weft__relayed *more = room > 0 ? realloc(relay->clients, (size_t)room * sizeof *more) : NULL;
        if (!more) return NULL;
        relay->clients = more;
        relay->room = room;
    }
    relay->by_id.key_bytes = WEFT__RENDEZVOUS_ID_BYTES;
    relay->by_id.stride = sizeof *relay->clients;
    relay->clients[relay->count] = *from;
    if (!weft__index_append(&relay->by_id, relay->clients, relay->count + 1)) return NULL;
    return &relay->clients[relay->count++];
}

static void drop_part(weft__relay *relay, weft__relayed *client)
{
    relay->parts -= client->part != NULL;
    free(client->part);
    client->part = NULL;
}

static void take_away(weft__relay *relay, weft__relayed *client)
{
    drop_part(relay, client);
    *client = relay->clients[--relay->count];
    (void)weft__index_build(&relay->by_id, relay->clients, relay->count); /* there has been room for more */
}

void weft__relay_forget(weft__relay *relay)
{
    for (int i = 0; i < relay->count; i++) free(relay->clients[i].part);
    free(relay->clients);
    weft__index_free(&relay->by_id);
    weft__words_drop(&relay->words);
}

/* ---- to the server ---- */

static void connect_upstream(weft__relay *relay)
{
    if (relay->phase == WEFT__RELAY_SERVING && !relay->upstream && !weft__relay_connect(relay))
        weft__relay_lose(relay);
}

static void send_now(weft__relay *relay, zmq_msg_t *frame)
{
    connect_upstream(relay);
    while (relay->phase != WEFT__RELAY_LOST && zmq_msg_send(frame, relay->upstream, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) weft__relay_lose(relay);
    zmq_msg_close(frame);
}

/* A list of one, too: the server knows by it that there is a relay. */
static void send_words(weft__relay *relay)
{
    const weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                       .version = WEFT__RENDEZVOUS_VERSION,
                                       .kind = WEFT__RENDEZVOUS_WORDS,
                                       .rank = -1,
                                       .world = -1};
    const weft__words *words = &relay->words;
    zmq_msg_t frame;
    if (!words->count) return;
    if (zmq_msg_init_size(&frame, sizeof h + words->bytes)) {
        weft__relay_lose(relay); /* no memory */
        return;
    }
    memcpy(zmq_msg_data(&frame), &h, sizeof h);
    memcpy((char *)zmq_msg_data(&frame) + sizeof h, words->list, words->bytes);
    weft__words_drop(&relay->words);
    send_now(relay, &frame);
}

/* After what has waited. */
static void send_up(weft__relay *relay, zmq_msg_t *frame)
{
    send_words(relay);
    send_now(relay, frame);
}

/* With what others have to say meanwhile.  The connection that it will go by is made already. */
static void send_soon(weft__relay *relay, zmq_msg_t *frame)
{
    connect_upstream(relay);
    if (relay->phase != WEFT__RELAY_SERVING) {
        zmq_msg_close(frame);
        return;
    }
    if (!weft__words_add(&relay->words, zmq_msg_data(frame), zmq_msg_size(frame))) weft__relay_lose(relay);
    if (relay->words.count == 1) relay->words_ns = weft__now_ns();
    zmq_msg_close(frame);
}

static void say_up(weft__relay *relay, enum weft__rendezvous_kind kind, const uint8_t *client, uint32_t step,
                   const void *payload, size_t bytes)
{
    weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC,
                                 .version = WEFT__RENDEZVOUS_VERSION,
                                 .kind = (uint16_t)kind,
                                 .rank = -1,
                                 .world = -1};
    zmq_msg_t frame;
    h.step = step;
    if (client) memcpy(h.client, client, sizeof h.client);
    if (zmq_msg_init_size(&frame, sizeof h + bytes)) {
        weft__relay_lose(relay); /* no memory */
        return;
    }
    memcpy(zmq_msg_data(&frame), &h, sizeof h);
    if (bytes) memcpy((char *)zmq_msg_data(&frame) + sizeof h, payload, bytes);
    if (kind == WEFT__RENDEZVOUS_LEFT)
        send_soon(relay, &frame);
    else
        send_up(relay, &frame);
}

/* Whether that part can go up together with the other. */
static bool goes_with(const weft__relayed *one, const weft__relayed *other)
{
    return one->step == other->step && one->part_bytes == other->part_bytes && one->alike == other->alike;
}

/* The first part that is here, and all that go with it. */
static void send_some_parts(weft__relay *relay)
{
    const void **blocks = malloc((size_t)relay->count * sizeof *blocks);
    const weft__relayed *first = NULL;
    uint32_t n = 0;
    size_t bytes = 0;
    void *bundle;
    for (int i = 0; blocks && i < relay->count; i++) {
        const weft__relayed *client = &relay->clients[i];
        if (!client->part || (first && !goes_with(client, first))) continue;
        if (!first) first = client;
        blocks[n++] = client->part;
    }
    bundle = first ? weft__bundle_make(blocks, n, first->part_bytes, first->alike, &bytes) : NULL;
    free(blocks);
    if (!bundle) {
        weft__relay_lose(relay); /* no memory */
        return;
    }
    say_up(relay, WEFT__RENDEZVOUS_PARTS, NULL, first->step, bundle, bytes);
    free(bundle);
    const weft__relayed sent = *first;
    for (int i = 0; i < relay->count; i++)
        if (relay->clients[i].part && goes_with(&relay->clients[i], &sent))
            drop_part(relay, &relay->clients[i]);
}

static void send_parts(weft__relay *relay)
{
    while (relay->parts && relay->phase == WEFT__RELAY_SERVING) send_some_parts(relay);
}

/* Kept with its id behind what is alike, as it goes up. */
static void keep_part(weft__relay *relay, weft__relayed *client, const weft__rendezvous_header *h,
                      const char *block, size_t bytes)
{
    const size_t id_bytes = sizeof client->id;
    size_t alike = h->alike < bytes ? h->alike : bytes;
    char *part = bytes <= WEFT__RENDEZVOUS_BLOCK_MAX ? malloc(bytes + id_bytes) : NULL;
    if (!part) {
        weft__relay_lose(relay);
        return;
    }
    memcpy(part, block, alike);
    memcpy(part + alike, client->id, id_bytes);
    memcpy(part + alike + id_bytes, block + alike, bytes - alike);
    drop_part(relay, client);
    if (!relay->parts++) relay->parts_ns = weft__now_ns();
    client->part = part;
    client->part_bytes = bytes + id_bytes;
    client->alike = alike;
    client->step = h->step;
    for (int i = 0; i < relay->count; i++)
        if (relay->clients[i].welcomed && !relay->clients[i].part) return;
    send_parts(relay);
}

/* ---- to clients ---- */

/* Who has gone meanwhile is told nothing.  The message is used up. */
static void send_down(weft__relay *relay, const weft__relayed *to, zmq_msg_t *frame)
{
    if (zmq_send(relay->router, to->route, to->route_bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        (void)zmq_msg_send(frame, relay->router, ZMQ_DONTWAIT);
    zmq_msg_close(frame);
}

static void send_to_all(weft__relay *relay, zmq_msg_t *frame)
{
    for (int i = 0; i < relay->count; i++) {
        zmq_msg_t one;
        if (!relay->clients[i].welcomed) continue;
        zmq_msg_init(&one);
        if (zmq_msg_copy(&one, frame) == 0) send_down(relay, &relay->clients[i], &one);
    }
    zmq_msg_close(frame);
}

/* ---- what comes ---- */

static bool read_header(zmq_msg_t *frame, weft__rendezvous_header *h)
{
    if (zmq_msg_size(frame) < sizeof *h) return false;
    memcpy(h, zmq_msg_data(frame), sizeof *h);
    return h->magic == WEFT__RENDEZVOUS_MAGIC && h->version == WEFT__RENDEZVOUS_VERSION;
}

/* Nobody is left whom it could stand for. */
static void end_if_over(weft__relay *relay)
{
    if (relay->count || !relay->some_in || relay->phase != WEFT__RELAY_SERVING) return;
    send_words(relay);
    if (relay->phase == WEFT__RELAY_SERVING) relay_to(relay, WEFT__RELAY_OVER);
}

/* Before somebody joins, in its place perhaps.  What they have said may still have to be read. */
static void tell_of_the_ended(weft__relay *relay)
{
    for (int i = relay->count - 1; i >= 0 && relay->some_ended; i--) {
        weft__relayed *client = &relay->clients[i];
        if (!client->ended || client->left) continue;
        say_up(relay, WEFT__RENDEZVOUS_LEFT, client->id, 0, NULL, 0);
        client->left = true;
    }
}

/* When all that they said has been read. */
static void take_the_ended_away(weft__relay *relay)
{
    if (!relay->some_ended) return;
    tell_of_the_ended(relay);
    relay->some_ended = false;
    for (int i = relay->count - 1; i >= 0; i--)
        if (relay->clients[i].ended) take_away(relay, &relay->clients[i]);
    end_if_over(relay);
}

void weft__relay_connection_ended(weft__relay *relay, int fd)
{
    for (int i = 0; i < relay->count; i++)
        if (relay->clients[i].fd == fd) relay->some_ended = relay->clients[i].ended = true;
}

/* Who is there after that; NULL: nobody of whom there would be something to say.  A descriptor that somebody else
 * had is free since that one has gone. */
static weft__relayed *meet(weft__relay *relay, const weft__relayed *from, const weft__rendezvous_header *h)
{
    weft__relayed *client;
    if (h->kind == WEFT__RENDEZVOUS_JOIN) {
        for (int i = 0; i < relay->count; i++)
            if (relay->clients[i].fd == from->fd &&
                memcmp(relay->clients[i].id, h->client, sizeof h->client) != 0)
                relay->some_ended = relay->clients[i].ended = true;
        tell_of_the_ended(relay);
        relay->some_ended = relay->some_ended || from->ended;
    }
    client = find(relay, h->client);
    if (h->kind != WEFT__RENDEZVOUS_JOIN) return client;
    if (!client) {
        weft__relayed fresh = *from;
        memcpy(fresh.id, h->client, sizeof fresh.id);
        if (!(client = add(relay, &fresh))) weft__relay_lose(relay);
        return client;
    }
    memcpy(client->route, from->route, sizeof client->route);
    client->route_bytes = from->route_bytes;
    client->fd = from->fd;
    client->ended = from->ended;
    client->left = false;
    return client;
}

void weft__relay_up(weft__relay *relay, const weft__relayed *from, zmq_msg_t *frame)
{
    weft__rendezvous_header h;
    weft__relayed *client = read_header(frame, &h) ? meet(relay, from, &h) : NULL;
    if (!client || relay->phase != WEFT__RELAY_SERVING) {
        zmq_msg_close(frame);
        return;
    }
    switch (h.kind) {
    case WEFT__RENDEZVOUS_STILL: send_down(relay, client, frame); return;
    case WEFT__RENDEZVOUS_GATHER:
        keep_part(relay, client, &h, (const char *)zmq_msg_data(frame) + sizeof h,
                  zmq_msg_size(frame) - sizeof h);
        zmq_msg_close(frame);
        return;
    case WEFT__RENDEZVOUS_ASK: send_parts(relay); break;
    case WEFT__RENDEZVOUS_FAIL: break;
    case WEFT__RENDEZVOUS_JOIN: send_soon(relay, frame); return;
    case WEFT__RENDEZVOUS_DONE:
        send_soon(relay, frame);
        take_away(relay, client);
        end_if_over(relay);
        return;
    default: zmq_msg_close(frame); return;
    }
    send_up(relay, frame);
}

/* One that is no list of them. */
static void hand_down(weft__relay *relay, zmq_msg_t *frame)
{
    weft__rendezvous_header h;
    weft__relayed *client = NULL;
    if (read_header(frame, &h)) {
        if (h.kind == WEFT__RENDEZVOUS_GATHERED) {
            send_to_all(relay, frame);
            return;
        }
        client = find(relay, h.client);
    }
    if (!client || h.kind == WEFT__RENDEZVOUS_STILL) {
        zmq_msg_close(frame);
        return;
    }
    if (h.kind == WEFT__RENDEZVOUS_JOINED) relay->some_in = client->welcomed = true;
    send_down(relay, client, frame);
}

void weft__relay_down(weft__relay *relay, zmq_msg_t *frame)
{
    weft__rendezvous_header h;
    const char *list;
    const void *one;
    size_t left, bytes;
    if (!read_header(frame, &h) || h.kind != WEFT__RENDEZVOUS_WORDS) {
        hand_down(relay, frame);
        return;
    }
    list = (const char *)zmq_msg_data(frame) + sizeof h;
    left = zmq_msg_size(frame) - sizeof h;
    while ((one = weft__words_next(&list, &left, &bytes))) {
        zmq_msg_t copy;
        if (zmq_msg_init_size(&copy, bytes)) {
            weft__relay_lose(relay); /* no memory */
            break;
        }
        memcpy(zmq_msg_data(&copy), one, bytes);
        hand_down(relay, &copy);
    }
    zmq_msg_close(frame);
}

int64_t weft__relay_settle(weft__relay *relay, int64_t now_ns)
{
    int64_t words_ns = WEFT__NEVER, parts_ns = WEFT__NEVER;
    take_the_ended_away(relay);
    if (relay->phase != WEFT__RELAY_SERVING) return WEFT__NEVER;
    if (relay->words.count) words_ns = weft__deadline(relay->words_ns, WEFT__RELAY_WORDS_MS);
    if (relay->parts) parts_ns = weft__deadline(relay->parts_ns, WEFT__RELAY_PARTS_MS);
    if (now_ns >= words_ns) send_words(relay);
    if (now_ns >= parts_ns) send_parts(relay);
    if (relay->words.count && words_ns < parts_ns) return words_ns;
    return relay->parts ? parts_ns : WEFT__NEVER;
}
