/* rendezvous_gather.c - the gathers of a job that is complete: parts come in from ranks and from relays, and all
 * of them go out as one message. */
#include "bundle.h"
#include "rendezvous_server.h"

#include <stdlib.h>
#include <string.h>

/* The message of ZeroMQ takes over what the bundle was made in. */
static void free_bundle(void *data, void *hint)
{
    (void)hint;
    free(data);
}

/* All blocks as a message of two parts would save copying them behind a header; one frame is simpler.  False: no
 * memory. */
static bool make_answer(weft__rendezvous_server *s, zmq_msg_t *all)
{
    const weft__rendezvous_header header = weft__rendezvous_header_for(s, WEFT__RENDEZVOUS_GATHERED, -1);
    const void **blocks = malloc((size_t)s->world * sizeof *blocks);
    void *bundle = NULL;
    char *frame = NULL;
    size_t bytes = 0;
    for (int r = 0; blocks && r < s->world; r++) blocks[r] = s->members[r].block;
    if (blocks) bundle = weft__bundle_make(blocks, (uint32_t)s->world, s->block_bytes, s->alike, &bytes);
    if (bundle) frame = malloc(sizeof header + bytes);
    if (frame) {
        memcpy(frame, &header, sizeof header);
        memcpy(frame + sizeof header, bundle, bytes);
    }
    free(blocks);
    free(bundle);
    if (frame && zmq_msg_init_data(all, frame, sizeof header + bytes, free_bundle, NULL)) {
        free(frame);
        frame = NULL;
    }
    return frame != NULL;
}

void weft__rendezvous_drop_last(weft__rendezvous_server *s)
{
    if (s->has_last) zmq_msg_close(&s->last);
    s->has_last = false;
}

static void send_last(weft__rendezvous_server *s, const weft__rendezvous_member *to)
{
    zmq_msg_t one;
    zmq_msg_init(&one);
    if (zmq_msg_copy(&one, &s->last) == 0) weft__rendezvous_send(s, to, &one);
}

/* One for each connection: a relay hands it on. */
static void send_last_to_all(weft__rendezvous_server *s)
{
    int n;
    weft__rendezvous_member **members = weft__rendezvous_waiting(s, &n);
    for (int i = 0; i < n; i += weft__rendezvous_of_one_route(&members[i], n - i)) send_last(s, members[i]);
}

/* All get one message, of which ZeroMQ counts the users: rank 0 would not hold a copy for each of thousands. */
static void finish_gather(weft__rendezvous_server *s)
{
    weft__rendezvous_drop_last(s);
    s->has_last = make_answer(s, &s->last);
    for (int r = 0; r < s->world; r++) {
        free(s->members[r].block);
        s->members[r].block = NULL;
    }
    if (s->has_last)
        send_last_to_all(s);
    else
        weft__rendezvous_refuse(s, WEFT_ERR_MEMORY,
                                "the serving rank has no memory left to gather %zu bytes from each rank",
                                s->block_bytes);
    s->gathered = 0;
    s->step++;
}

/* What a rank brings to a step; alike: how much of it is the same on many. */
void weft__rendezvous_take_part(weft__rendezvous_server *s, weft__rendezvous_member *m, uint32_t step,
                                size_t alike, const void *block, size_t bytes)
{
    if (s->phase != WEFT__SERVER_COMPLETE) return;
    if (s->has_last && step + 1 == (uint32_t)s->step) { /* by another way: the answer may be lost */
        send_last(s, m);
        return;
    }
    if (m->block) return;
    if (step != (uint32_t)s->step || (s->gathered && bytes != s->block_bytes)) {
        weft__rendezvous_refuse(
            s, WEFT_ERR_MISMATCH,
            "rank %d gathers %zu bytes in step %u of joining, others %zu bytes in step %d", m->rank, bytes,
            step, s->block_bytes, s->step);
        return;
    }
    m->block = bytes <= WEFT__RENDEZVOUS_TOTAL_MAX / (size_t)s->world ? malloc(bytes + 1) : NULL;
    if (!m->block) {
        weft__rendezvous_refuse(s, WEFT_ERR_MEMORY,
                                "the serving rank has no memory left for %zu bytes of rank %d", bytes,
                                m->rank);
        return;
    }
    if (bytes) memcpy(m->block, block, bytes);
    if (alike > bytes) alike = bytes;
    if (!s->gathered || alike < s->alike) s->alike = alike;
    s->block_bytes = bytes;
    if (++s->gathered == s->world) finish_gather(s);
}

/* A relay's: in each block the client's id stands behind what is alike.  Who has come by another way meanwhile
 * brings its part itself. */
void weft__rendezvous_take_parts(weft__rendezvous_server *s, const weft__rendezvous_member *from,
                                 uint32_t step, const void *payload, size_t bytes)
{
    const size_t id_bytes = WEFT__RENDEZVOUS_ID_BYTES;
    weft__bundle_head head;
    size_t own, all;
    char *blocks;
    bool good;
    if (!weft__bundle_head_read(payload, bytes, WEFT__RENDEZVOUS_TOTAL_MAX, &head) ||
        head.block_bytes - head.alike < id_bytes)
        return;
    own = head.block_bytes - id_bytes;
    all = (size_t)head.blocks * head.block_bytes;
    blocks = malloc(all + weft__bundle_room(head.blocks, head.block_bytes));
    if (!blocks) {
        weft__rendezvous_refuse(s, WEFT_ERR_MEMORY,
                                "the serving rank has no memory left for %zu bytes of a relay", bytes);
        return;
    }
    good = weft__bundle_read(payload, bytes, &head, blocks + all, blocks);
    for (uint32_t i = 0; good && i < head.blocks; i++) {
        char *block = blocks + (size_t)i * head.block_bytes;
        weft__rendezvous_member *m = weft__rendezvous_find(s, (uint8_t *)block + head.alike);
        if (!m || weft__rendezvous_by_route(&m, &from) != 0) continue;
        memmove(block + head.alike, block + head.alike + id_bytes, own - head.alike);
        weft__rendezvous_take_part(s, m, step, head.alike, block, own);
    }
    free(blocks);
}
