/* What those who join say to the server at which ranks meet, in any order: the server counts right, answers,
 * and knows only ranks that there can be.
 *
 * An input is a list of frames, each of one of eight clients; an input that ends early goes on with zeros.
 * The server has no socket: what it answers goes nowhere. */
#include "fuzz.h"
#include "rendezvous_server.h"
#include "url.h"

#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 8, WORDS = 600, FRAME_MOST = 4096 };

size_t fuzz_reached; /* jobs that were complete, and gathers */

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static uint64_t take(input *in, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--) number |= (uint64_t)*in->at << 8 * i;
    return number;
}

/* One byte, -128 to 127. */
static int take_signed(input *in)
{
    const int number = (int)take(in, 1);
    return number < 128 ? number : number - 256;
}

static size_t take_over(input *in, void *to, size_t n)
{
    if (n > in->left) n = in->left;
    if (n) memcpy(to, in->at, n);
    in->at += n;
    in->left -= n;
    return n;
}

/* Its length and first bytes are given; a JOIN has that of one where none is. */
static void say(weft__rendezvous_server *s, input *in)
{
    weft__rendezvous_member from = {.rank = -1, .route_bytes = 5};
    unsigned char bytes[FRAME_MOST] = {0}, *frame;
    const unsigned bits = (unsigned)take(in, 1);
    weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC, .version = WEFT__RENDEZVOUS_VERSION};
    size_t length = sizeof h;
    h.kind = (uint16_t)take(in, 1);
    h.client[0] = (uint8_t)(bits % CLIENTS);
    h.rank = (int32_t)(bits & 8 ? take(in, 4) : take(in, 1) - 1);
    h.world = (int32_t)(bits & 8 ? take(in, 4) : take(in, 1) - 1);
    h.status = take_signed(in);
    h.step = (uint32_t)take(in, 1);
    memcpy(bytes, &h, sizeof h);
    if (h.kind == WEFT__RENDEZVOUS_JOIN) length += sizeof(weft__rendezvous_who);
    if (bits & 16) length = sizeof h + take(in, 2) % (FRAME_MOST - sizeof h);
    if (bits & 32) take_over(in, bytes + (bits & 64 ? 0 : sizeof h), take(in, 1));
    from.route[0] = (uint8_t)(bits & 128 ? take(in, 1) : h.client[0]);
    frame = malloc(length);
    if (!frame) abort();
    memcpy(frame, bytes, length);
    weft__rendezvous_take(s, &from, frame, length);
    free(frame);
}

static void check(const weft__rendezvous_server *s)
{
    char words[WORDS];
    int gathered = 0;
    if (s->world > WEFT__WORLD_MAX || s->count > s->room ||
        (s->phase == WEFT__SERVER_FAILED && !*s->sentence))
        abort();
    for (int i = 0; i < s->count; i++) {
        const weft__rendezvous_member *m = &s->members[i];
        if (m->given_rank >= WEFT__WORLD_MAX || !memchr(m->who.host, 0, sizeof m->who.host)) abort();
        if (s->phase == WEFT__SERVER_COMPLETE && m->rank != i) abort();
        gathered += m->block != NULL;
    }
    if (s->phase == WEFT__SERVER_COMPLETE && (s->count != s->world || gathered != s->gathered)) abort();
    if (s->phase == WEFT__SERVER_FAILED && (s->status >= 0 || s->status < WEFT_ERR_STATE)) abort();
    if (s->phase == WEFT__SERVER_JOINING && s->count == s->world && !weft__rendezvous_is_in_doubt(s)) abort();
    if (s->phase != WEFT__SERVER_JOINING && s->claim_count) abort();
    weft__rendezvous_missing(s, s->count ? &s->members[0] : NULL, words, sizeof words);
    if (!memchr(words, 0, sizeof words)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static weft__rendezvous_server s;
    input in = {data, bytes};
    memset(&s, 0, sizeof s);
    weft__rendezvous_begin(&s, &(weft__tree){2, 1});
    memset(s.nonce, 1, sizeof s.nonce);
    memcpy(s.host_id, "here", 5);
    for (int frames = 0; in.left && frames < 64; frames++) {
        const int step = s.step;
        say(&s, &in);
        fuzz_reached += s.step != step;
        check(&s);
        s.ask_count = 0; /* answered by the thread, once all is read */
    }
    weft__rendezvous_forget(&s);
    return 0;
}
