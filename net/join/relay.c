/* relay.c - see relay.h: what a relay knows of its clients, and what it makes of their words. */
#include "bundle.h"
#include "clock.h"
#include "relay_down.h"
#include "slices.h"
#include "status.h"

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
    relay->asks -= client->asked != 0;
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

bool weft__relay_is_of_route(const weft__relayed *one, const weft__relayed *other)
{
    return one->route_bytes == other->route_bytes && !memcmp(one->route, other->route, one->route_bytes);
}

/* ---- up: to the server, or to the relay that it stands below ---- */

static void connect_upstream(weft__relay *relay)
{
    if (relay->phase != WEFT__RELAY_SERVING || relay->upstream || atomic_load(&relay->seeks)) return;
    if (!weft__relay_connect(relay)) weft__relay_lose(relay);
    relay->heard_ns = weft__now_ns();
}

static void send_now(weft__relay *relay, zmq_msg_t *frame)
{
    connect_upstream(relay);
    if (relay->phase == WEFT__RELAY_LOST)
        zmq_msg_close(frame);
    else if (!weft__slices_send(relay->upstream, frame))
        weft__relay_lose(relay);
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
    relay->at_once = false;
    send_now(relay, &frame);
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

/* That a client has gone, with all that is told of others meanwhile: who is started in its place may be there soon, by another way. */
static void send_last_word(weft__relay *relay, zmq_msg_t *frame)
{
    relay->at_once = true;
    send_soon(relay, frame);
}

/* After what has waited, or with it where it is not known yet whereto. */
static void send_up(weft__relay *relay, zmq_msg_t *frame)
{
    if (atomic_load(&relay->seeks)) {
        send_soon(relay, frame);
        return;
    }
    send_words(relay);
    send_now(relay, frame);
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
        send_last_word(relay, &frame);
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
    for (int i = 0; blocks && relay->clients && i < relay->count; i++) {
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

/* With its id behind what is alike, as it goes up.  Takes the part over; NULL: no memory. */
static void keep_part(weft__relay *relay, weft__relayed *client, char *part, size_t bytes, size_t alike,
                      uint32_t step)
{
    if (!part) {
        weft__relay_lose(relay);
        return;
    }
    drop_part(relay, client);
    if (!relay->parts++) relay->parts_ns = weft__now_ns();
    client->part = part;
    client->part_bytes = bytes;
    client->alike = alike;
    client->step = step;
}

/* Who has brought its part of that step before the others is not waited for again. */
static void send_parts_if_all_are_here(weft__relay *relay, uint32_t step)
{
    for (int i = 0; relay->clients && i < relay->count; i++)
        if (relay->clients[i].welcomed && relay->clients[i].step != step) return;
    send_parts(relay);
}

static void take_part(weft__relay *relay, weft__relayed *client, const weft__rendezvous_header *h,
                      const char *block, size_t bytes)
{
    const size_t id_bytes = sizeof client->id;
    size_t alike = h->alike < bytes ? h->alike : bytes;
    char *part = bytes <= WEFT__RENDEZVOUS_BLOCK_MAX ? malloc(bytes + id_bytes) : NULL;
    if (part) {
        memcpy(part, block, alike);
        memcpy(part + alike, client->id, id_bytes);
        memcpy(part + alike + id_bytes, block + alike, bytes - alike);
    }
    keep_part(relay, client, part, bytes + id_bytes, alike, h->step);
    send_parts_if_all_are_here(relay, h->step);
}

/* Another relay's, of those that still come by it. */
static void take_parts(weft__relay *relay, const weft__relayed *from, const weft__rendezvous_header *h,
                       const char *payload, size_t bytes)
{
    weft__bundle_head head;
    size_t all;
    char *blocks;
    bool good;
    if (!weft__bundle_head_read(payload, bytes, WEFT__RENDEZVOUS_TOTAL_MAX, &head) ||
        head.block_bytes - head.alike < WEFT__RENDEZVOUS_ID_BYTES)
        return;
    all = (size_t)head.blocks * head.block_bytes;
    blocks = malloc(all + weft__bundle_room(head.blocks, head.block_bytes));
    if (!blocks) {
        weft__relay_lose(relay); /* no memory */
        return;
    }
    good = weft__bundle_read(payload, bytes, &head, blocks + all, blocks);
    for (uint32_t i = 0; good && i < head.blocks && relay->phase == WEFT__RELAY_SERVING; i++) {
        const char *block = blocks + (size_t)i * head.block_bytes;
        weft__relayed *client = find(relay, (const uint8_t *)block + head.alike);
        char *part;
        if (!client || !weft__relay_is_of_route(client, from)) continue;
        if ((part = malloc(head.block_bytes))) memcpy(part, block, head.block_bytes);
        keep_part(relay, client, part, head.block_bytes, head.alike, h->step);
    }
    free(blocks);
    send_parts_if_all_are_here(relay, h->step);
}

/* ---- what comes ---- */

static bool read_header(const void *frame, size_t bytes, weft__rendezvous_header *h)
{
    if (bytes < sizeof *h) return false;
    memcpy(h, frame, sizeof *h);
    return h->magic == WEFT__RENDEZVOUS_MAGIC && h->version == WEFT__RENDEZVOUS_VERSION;
}

/* Nobody is left whom it could stand for. */
static void end_if_over(weft__relay *relay)
{
    if (relay->count || !relay->some_in || relay->phase != WEFT__RELAY_SERVING) return;
    send_words(relay);
    if (relay->phase == WEFT__RELAY_SERVING) relay_to(relay, WEFT__RELAY_OVER);
}

/* Before somebody joins, in its place perhaps, or when all that they said has been read.  For who is in the job nobody comes,
 * and a relay above takes nothing from it after this. */
static void tell_of_the_ended(weft__relay *relay, bool all_is_read)
{
    for (int i = relay->count - 1; i >= 0 && relay->some_ended; i--) {
        weft__relayed *client = &relay->clients[i];
        if (!client->ended || client->left || (client->welcomed && !all_is_read)) continue;
        say_up(relay, WEFT__RENDEZVOUS_LEFT, client->id, 0, NULL, 0);
        client->left = true;
    }
}

/* When all that they said has been read. */
static void take_the_ended_away(weft__relay *relay)
{
    if (!relay->some_ended) return;
    tell_of_the_ended(relay, true);
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
 * had, on another connection, is free since that one has gone. */
static weft__relayed *meet(weft__relay *relay, const weft__relayed *from, const weft__rendezvous_header *h)
{
    weft__relayed *client;
    if (h->kind == WEFT__RENDEZVOUS_JOIN) {
        for (int i = 0; i < relay->count; i++)
            if (relay->clients[i].fd == from->fd && !weft__relay_is_of_route(&relay->clients[i], from) &&
                memcmp(relay->clients[i].id, h->client, sizeof h->client) != 0)
                relay->some_ended = relay->clients[i].ended = true;
        tell_of_the_ended(relay, false);
        relay->some_ended = relay->some_ended || from->ended;
    }
    client = find(relay, h->client);
    if (h->kind != WEFT__RENDEZVOUS_JOIN) return client;
    if (!client) {
        weft__relayed fresh = *from;
        memcpy(fresh.id, h->client, sizeof fresh.id);
        fresh.attempt = h->step;
        if (!(client = add(relay, &fresh))) weft__relay_lose(relay);
        return client;
    }
    if (h->step < client->attempt) return NULL; /* overtaken by a newer connection's */
    memcpy(client->route, from->route, sizeof client->route);
    client->route_bytes = from->route_bytes;
    client->attempt = h->step;
    client->fd = from->fd;
    client->below = from->below;
    client->ended = from->ended;
    client->left = false;
    return client;
}

/* It says nothing more, in words that are used up. */
static void take_last_word(weft__relay *relay, weft__relayed *client, zmq_msg_t *frame)
{
    send_soon(relay, frame);
    take_away(relay, client);
    end_if_over(relay);
}

/* One that is no list of them. */
static void take_word(weft__relay *relay, const weft__relayed *from, const weft__rendezvous_header *h,
                      zmq_msg_t *frame)
{
    const char *payload = (const char *)zmq_msg_data(frame) + sizeof *h;
    const size_t bytes = zmq_msg_size(frame) - sizeof *h;
    weft__relayed *client = meet(relay, from, h);
    if (client && relay->phase == WEFT__RELAY_SERVING) {
        switch (h->kind) {
        case WEFT__RENDEZVOUS_GATHER: take_part(relay, client, h, payload, bytes); break;
        case WEFT__RENDEZVOUS_ASK:
            send_parts(relay);
            send_up(relay, frame);
            return;
        case WEFT__RENDEZVOUS_FAIL: send_up(relay, frame); return;
        case WEFT__RENDEZVOUS_JOIN: send_soon(relay, frame); return;
        case WEFT__RENDEZVOUS_DONE: take_last_word(relay, client, frame); return;
        case WEFT__RENDEZVOUS_LEFT: /* a relay below tells it of its own clients */
            if (!weft__relay_is_of_route(client, from)) break;
            relay->at_once = true;
            take_last_word(relay, client, frame);
            return;
        case WEFT__RENDEZVOUS_HERE: /* likewise */
            if (!weft__relay_is_of_route(client, from)) break;
            send_up(relay, frame);
            return;
        default: break;
        }
    }
    zmq_msg_close(frame);
}

/* A list of a relay below, whose words are taken one by one. */
static void take_words(weft__relay *relay, weft__relayed from, const zmq_msg_t *frame)
{
    const char *list = (const char *)zmq_msg_data((zmq_msg_t *)frame) + sizeof(weft__rendezvous_header);
    size_t left = zmq_msg_size(frame) - sizeof(weft__rendezvous_header), bytes;
    const void *one;
    from.below = true;
    while ((one = weft__words_next(&list, &left, &bytes))) {
        weft__rendezvous_header h;
        zmq_msg_t copy;
        if (!read_header(one, bytes, &h)) continue;
        if (zmq_msg_init_size(&copy, bytes)) {
            weft__relay_lose(relay); /* no memory */
            return;
        }
        memcpy(zmq_msg_data(&copy), one, bytes);
        take_word(relay, &from, &h, &copy);
    }
}

void weft__relay_up(weft__relay *relay, const weft__relayed *from, zmq_msg_t *frame)
{
    weft__rendezvous_header h;
    if (read_header(zmq_msg_data(frame), zmq_msg_size(frame), &h) && relay->phase == WEFT__RELAY_SERVING) {
        switch (h.kind) {
        case WEFT__RENDEZVOUS_STILL: weft__relay_tell(relay, from, frame); return;
        case WEFT__RENDEZVOUS_WORDS: take_words(relay, *from, frame); break;
        case WEFT__RENDEZVOUS_PARTS:
            take_parts(relay, from, &h, (const char *)zmq_msg_data(frame) + sizeof h,
                       zmq_msg_size(frame) - sizeof h);
            break;
        default: take_word(relay, from, &h, frame); return;
        }
    }
    zmq_msg_close(frame);
}

/* Whether that client, which is none of a relay below, is there. */
static void be_asked(weft__relay *relay, weft__relayed *client, const weft__rendezvous_header *h)
{
    if (!client) {
        say_up(relay, WEFT__RENDEZVOUS_LEFT, h->client, 0, NULL, 0);
        return;
    }
    relay->asks += (h->step != 0) - (client->asked != 0);
    client->asked = h->step;
    relay->asks_ns = weft__now_ns();
}

/* That others have ended has been told before. */
static void answer_for_clients(weft__relay *relay)
{
    for (int i = 0; i < relay->count && relay->asks; i++) {
        const weft__relayed *client = &relay->clients[i];
        if (!client->asked) continue;
        say_up(relay, WEFT__RENDEZVOUS_HERE, client->id, client->asked, NULL, 0);
        relay->clients[i].asked = 0;
        relay->asks--;
    }
}

/* Who is to hear that; NULL: nobody. */
static weft__relayed *hearer_of(weft__relay *relay, const weft__rendezvous_header *h)
{
    weft__relayed *client = h->kind == WEFT__RENDEZVOUS_STILL ? NULL : find(relay, h->client);
    if (h->kind == WEFT__RENDEZVOUS_HERE && !(client && client->below)) {
        be_asked(relay, client, h);
        return NULL;
    }
    if (client && h->kind == WEFT__RENDEZVOUS_JOINED) relay->some_in = client->welcomed = true;
    return client;
}

static void hand_words_down(weft__relay *relay, const char *words, size_t bytes)
{
    weft__told *list = weft__relay_list(relay, bytes / sizeof(weft__rendezvous_header));
    weft__rendezvous_header h;
    int n = 0;
    if (!list) return;
    while ((list[n].frame = weft__words_next(&words, &bytes, &list[n].bytes)))
        if (read_header(list[n].frame, list[n].bytes, &h) && (list[n].to = hearer_of(relay, &h))) n++;
    weft__relay_tell_each(relay, list, n);
    free(list);
}

void weft__relay_down(weft__relay *relay, zmq_msg_t *frame)
{
    const char *payload = (const char *)zmq_msg_data(frame) + sizeof(weft__rendezvous_header);
    const weft__relayed *client;
    weft__rendezvous_header h;
    relay->heard_ns = weft__now_ns();
    if (read_header(zmq_msg_data(frame), zmq_msg_size(frame), &h)) {
        if (h.kind == WEFT__RENDEZVOUS_GATHERED) {
            weft__relay_tell_all(relay, frame);
            return;
        }
        if (h.kind == WEFT__RENDEZVOUS_WORDS) {
            hand_words_down(relay, payload, zmq_msg_size(frame) - sizeof h);
        } else if ((client = hearer_of(relay, &h))) {
            weft__relay_tell(relay, client, frame);
            return;
        }
    }
    zmq_msg_close(frame);
}

/* Where it stands below another relay: leaves that when it does not answer; one that was not asked, for this thread had
 * no processor, is asked first.  Returns when to look again. */
static int64_t keep_in_touch(weft__relay *relay, int64_t now_ns)
{
    const int still_ms = relay->silent_ms / WEFT__RELAY_ASKED;
    if (!relay->silent_ms || !relay->upstream || relay->phase != WEFT__RELAY_SERVING) return WEFT__NEVER;
    if (relay->asked_ns <= relay->heard_ns) {
        const int64_t ask_ns = weft__deadline(relay->heard_ns, still_ms);
        if (now_ns < ask_ns) return ask_ns;
        say_up(relay, WEFT__RENDEZVOUS_STILL, NULL, 0, NULL, 0);
        relay->asked_ns = now_ns;
    }
    if (now_ns < weft__deadline(relay->asked_ns, relay->silent_ms - still_ms))
        return weft__deadline(relay->asked_ns, relay->silent_ms - still_ms);
    weft__relay_lose(relay);
    return WEFT__NEVER;
}

int64_t weft__relay_settle(weft__relay *relay, int64_t now_ns)
{
    int64_t words_ns = WEFT__NEVER, parts_ns = WEFT__NEVER, asks_ns = WEFT__NEVER, next_ns;
    take_the_ended_away(relay);
    if (relay->phase != WEFT__RELAY_SERVING || atomic_load(&relay->seeks)) return WEFT__NEVER;
    if (relay->words.count)
        words_ns = relay->at_once ? now_ns : weft__deadline(relay->words_ns, WEFT__RELAY_WORDS_MS);
    if (relay->parts) parts_ns = weft__deadline(relay->parts_ns, WEFT__RELAY_PARTS_MS);
    if (relay->asks) asks_ns = weft__deadline(relay->asks_ns, WEFT__RELAY_WORDS_MS);
    if (now_ns >= words_ns) send_words(relay);
    if (now_ns >= parts_ns) send_parts(relay);
    if (now_ns >= asks_ns) answer_for_clients(relay);
    next_ns = keep_in_touch(relay, now_ns);
    if (relay->words.count && words_ns < next_ns) next_ns = words_ns;
    if (relay->asks && asks_ns < next_ns) next_ns = asks_ns;
    return relay->parts && parts_ns < next_ns ? parts_ns : next_ns;
}
