/* What the ranks of a host say to their relay, and the server to it, in any order: it hands on what is well formed,
 * what goes up together is what its ranks have brought, and nobody hears of a gather who is not in the job.
 *
 * An input is a list of things that happen, for eight clients of as many connections; an input that ends early
 * goes on with zeros.  The relay has no sockets: what it sends is looked at and dropped here. */
#include "bundle.h"
#include "clock.h"
#include "fuzz.h"
#include "relay.h"

#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 8, FRAME_MOST = 2048, HAPPENINGS = 64 };
enum happening { SAYS, HEARS, ENDS, TIME_PASSES, HAPPENING_KINDS };

size_t fuzz_reached; /* parts that went up, and gathers that came down */

static const uint8_t *at;
static size_t left;
static weft__relay relay;
static char router, upstream; /* only their addresses count */
static bool is_named;         /* the next message down has its route */

static uint64_t take(size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && left; i++, at++, left--) number |= (uint64_t)*at << 8 * i;
    return number;
}

static weft__relayed *client_of(const uint8_t *id)
{
    for (int i = 0; i < relay.count; i++)
        if (!memcmp(relay.clients[i].id, id, sizeof relay.clients[i].id)) return &relay.clients[i];
    return NULL;
}

/* Each has its client's id behind what is alike, and each client is there and has brought that. */
static void check_parts(const weft__rendezvous_header *h, const char *payload, size_t bytes)
{
    const size_t id_bytes = WEFT__RENDEZVOUS_ID_BYTES;
    weft__bundle_head head;
    char *blocks, *room;
    if (!weft__bundle_head_read(payload, bytes, WEFT__RENDEZVOUS_TOTAL_MAX, &head) || !head.blocks ||
        head.block_bytes < head.alike + id_bytes || (int)head.blocks > relay.parts)
        abort();
    blocks = malloc((size_t)head.blocks * head.block_bytes);
    room = malloc(weft__bundle_room(head.blocks, head.block_bytes));
    if (!blocks || !room || !weft__bundle_read(payload, bytes, &head, room, blocks)) abort();
    free(room);
    for (uint32_t i = 0; i < head.blocks; i++) {
        const char *block = blocks + (size_t)i * head.block_bytes;
        const weft__relayed *c = client_of((const uint8_t *)block + head.alike);
        if (!c || !c->part || c->step != h->step || c->part_bytes != head.block_bytes ||
            memcmp(c->part, block, head.block_bytes) != 0)
            abort();
    }
    free(blocks);
    fuzz_reached++;
}

int zmq_send(void *socket, const void *data, size_t bytes, int flags)
{
    (void)data;
    (void)flags;
    if (socket != &router || is_named || bytes > WEFT__RELAY_ROUTE_BYTES) abort();
    is_named = true;
    return (int)bytes;
}

int zmq_msg_send(zmq_msg_t *msg, void *socket, int flags)
{
    const size_t bytes = zmq_msg_size(msg);
    weft__rendezvous_header h;
    (void)flags;
    if (bytes < sizeof h || (socket == &router) != is_named) abort();
    memcpy(&h, zmq_msg_data(msg), sizeof h);
    if (h.magic != WEFT__RENDEZVOUS_MAGIC || h.version != WEFT__RENDEZVOUS_VERSION) abort();
    if (socket == &upstream && h.kind == WEFT__RENDEZVOUS_PARTS)
        check_parts(&h, (char *)zmq_msg_data(msg) + sizeof h, bytes - sizeof h);
    fuzz_reached += socket == &router && h.kind == WEFT__RENDEZVOUS_GATHERED;
    is_named = false;
    zmq_msg_close(msg);
    zmq_msg_init(msg);
    return (int)bytes;
}

/* A frame of its exact size, mostly with a header that is ours. */
static void make_frame(zmq_msg_t *msg, unsigned client)
{
    const unsigned bits = (unsigned)take(1);
    weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC, .version = WEFT__RENDEZVOUS_VERSION};
    char bytes[FRAME_MOST] = {0};
    size_t length, given;
    h.kind = (uint16_t)take(1);
    h.client[0] = (uint8_t)(bits & 1 ? take(1) : client);
    h.step = (uint32_t)take(1);
    h.alike = (uint32_t)(bits & 2 ? take(4) : take(1));
    length = bits & 4 ? take(2) % FRAME_MOST : sizeof h + take(1);
    memcpy(bytes, &h, sizeof h);
    given = bits & 8 ? take(1) : 0;
    for (size_t i = 0; i < given; i++) bytes[(bits & 16 ? 0 : sizeof h) + i] = (char)take(1);
    if (zmq_msg_init_size(msg, length)) abort();
    memcpy(zmq_msg_data(msg), bytes, length);
}

static void happen(void)
{
    const unsigned what = (unsigned)take(1), client = what / HAPPENING_KINDS % CLIENTS;
    weft__relayed from = {.route = {(uint8_t)client}, .route_bytes = 5, .fd = (int)client};
    zmq_msg_t msg;
    switch (what % HAPPENING_KINDS) {
    case SAYS:
        from.ended = what >= 128;
        make_frame(&msg, client);
        weft__relay_up(&relay, &from, &msg);
        break;
    case HEARS:
        make_frame(&msg, client);
        weft__relay_down(&relay, &msg);
        break;
    case ENDS: weft__relay_connection_ended(&relay, (int)client); break;
    default: weft__relay_settle(&relay, what < 128 ? 0 : WEFT__NEVER - 1); break;
    }
}

static void check(void)
{
    int parts = 0, asks = 0;
    if (relay.count < 0 || relay.count > relay.room) abort();
    for (int i = 0; i < relay.count; i++) {
        if (client_of(relay.clients[i].id) != &relay.clients[i]) abort();
        parts += relay.clients[i].part != NULL;
        asks += relay.clients[i].asked != 0;
    }
    if (parts != relay.parts || asks != relay.asks || is_named) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    at = data;
    left = bytes;
    memset(&relay, 0, sizeof relay);
    relay.router = &router;
    relay.upstream = &upstream;
    for (int i = 0; left && i < HAPPENINGS; i++) {
        happen();
        check();
    }
    weft__relay_forget(&relay);
    return 0;
}
