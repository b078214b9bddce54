#include "rendezvous_answer.h"
#include "bundle.h"
#include "status.h"
#include "url.h"

#include <string.h>

bool weft__rendezvous_answer_read(const void *frame, size_t bytes, weft__rendezvous_answer *answer)
{
    if (bytes < sizeof answer->header) return false;
    memcpy(&answer->header, frame, sizeof answer->header);
    answer->payload = (const char *)frame + sizeof answer->header;
    answer->bytes = bytes - sizeof answer->header;
    return answer->header.magic == WEFT__RENDEZVOUS_MAGIC &&
           answer->header.version == WEFT__RENDEZVOUS_VERSION;
}

weft_status weft__rendezvous_answer_failure(const weft__rendezvous_answer *answer)
{
    int32_t told = answer->header.status;
    weft_status status = weft__is_failure(told) ? told : WEFT_ERR_SYSTEM;
    size_t bytes = answer->bytes < WEFT__SENTENCE_BYTES ? answer->bytes : WEFT__SENTENCE_BYTES;
    if (!bytes || !*(const char *)answer->payload)
        return weft__fail(status, "joining has failed with status %d, and the server does not tell why",
                          told);
    return weft__fail(status, "%.*s", (int)bytes, (const char *)answer->payload);
}

weft_status weft__rendezvous_answer_welcome(const weft__rendezvous_answer *answer, int rank, int world_size)
{
    const weft__rendezvous_header *h = &answer->header;
    if (h->world < 1 || h->world > WEFT__WORLD_MAX || h->rank < 0 || h->rank >= h->world)
        return weft__fail(WEFT_ERR_MISMATCH,
                          "the server's welcome gives rank %d in a world of %d: expected a world of 1 to %d, "
                          "and a rank of it",
                          h->rank, h->world, WEFT__WORLD_MAX);
    if ((rank >= 0 && h->rank != rank) || (world_size >= 0 && h->world != world_size))
        return weft__fail(WEFT_ERR_MISMATCH,
                          "the server's welcome gives rank %d in a world of %d: expected %d and %d, as this "
                          "rank was given (-1: it was not)",
                          h->rank, h->world, rank, world_size);
    if (answer->bytes != WEFT__RUN_NONCE_BYTES)
        return weft__fail(WEFT_ERR_MISMATCH, "the server's welcome has %zu bytes instead of %d",
                          answer->bytes, WEFT__RUN_NONCE_BYTES);
    return WEFT_OK;
}

weft_status weft__rendezvous_answer_blocks(const weft__rendezvous_answer *answer, size_t world,
                                           size_t bytes_each, void *room, void *blocks)
{
    weft__bundle_head head;
    if (!weft__bundle_head_read(answer->payload, answer->bytes, WEFT__RENDEZVOUS_TOTAL_MAX, &head))
        return weft__fail(WEFT_ERR_MISMATCH, "the server sent %zu bytes that are no bundle", answer->bytes);
    if (head.blocks != world || head.block_bytes != bytes_each)
        return weft__fail(WEFT_ERR_MISMATCH, "the server sent %u blocks of %u bytes instead of %zu of %zu",
                          head.blocks, head.block_bytes, world, bytes_each);
    if (weft__bundle_read(answer->payload, answer->bytes, &head, room, blocks)) return WEFT_OK;
    return weft__fail(WEFT_ERR_MISMATCH, "the server sent a bundle of %zu bytes that is damaged",
                      answer->bytes);
}
