/* notice.c - what one rank's watchdog tells another's, taken from bytes: every field is checked before
 * anything uses it.  Pure but for the log. */
#include "notice.h"
#include "peer.h"
#include "status.h"

#include <inttypes.h>
#include <string.h>

static bool is_rank(const weft_context *ctx, int32_t rank)
{
    return rank >= 0 && rank < ctx->world_size;
}

static weft_status check_scope(const weft__notice *n)
{
    if (n->subject >= WEFT__LATE_MEMBER && n->subject <= WEFT__LATE_WHOLE) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER, "who is late of scope %" PRId32 ": expected %d to %d", n->subject,
                      WEFT__LATE_MEMBER, WEFT__LATE_WHOLE);
}

static weft_status check_here(const weft__notice *n)
{
    uint32_t most = n->subject == WEFT__LATE_MEMBER ? WEFT__LATE_KNOWS : WEFT__LATE_STILL;
    if (check_scope(n) != WEFT_OK) return WEFT_ERR_PEER;
    if (n->operation >= WEFT__OP_KINDS || n->phase > WEFT__PHASE_BEHIND || n->knows > most)
        return weft__fail(WEFT_ERR_PEER,
                          "how far it is: operation %" PRIu32 " in phase %" PRIu32
                          ", knows the group: %" PRIu32,
                          n->operation, n->phase, n->knows);
    return WEFT_OK;
}

static weft_status check_word(const weft__notice *n)
{
    if (n->operation > WEFT__BREAK_CANNOT)
        return weft__fail(WEFT_ERR_PEER, "what is passed on, by word %" PRIu32 ": expected 0 to %d",
                          n->operation, WEFT__BREAK_CANNOT);
    if (n->operation == WEFT__BREAK_PASSED && n->phase > WEFT__UNHEARD_MOST)
        return weft__fail(WEFT_ERR_PEER, "passed on but to %" PRIu32 " hosts: expected 0 to %zu", n->phase,
                          WEFT__UNHEARD_MOST);
    return WEFT_OK;
}

static weft_status check_broken(const weft_context *ctx, const weft__notice *n)
{
    if (!weft__is_failure(n->subject))
        return weft__fail(WEFT_ERR_PEER, "a group broken by status %" PRId32 ", which is no failure",
                          n->subject);
    if (check_word(n) != WEFT_OK) return WEFT_ERR_PEER;
    if (n->culprit != -1 && !is_rank(ctx, n->culprit))
        return weft__fail(WEFT_ERR_PEER, "a group broken by rank %" PRId32 ": expected -1 to %d", n->culprit,
                          ctx->world_size - 1);
    if (n->gone < WEFT__LIVES || n->gone > WEFT__DIED || (n->gone != WEFT__LIVES && n->culprit < 0))
        return weft__fail(WEFT_ERR_PEER,
                          "a group broken by rank %" PRId32 ", which is gone in way %" PRId32
                          ": expected %d to %d, and a rank",
                          n->culprit, n->gone, WEFT__LIVES, WEFT__DIED);
    return WEFT_OK;
}

/* That a rank has left is its own word, or passed on (`knows`). */
static weft_status check_gone(const weft_context *ctx, int from, const weft__notice *n)
{
    if (!is_rank(ctx, n->subject))
        return weft__fail(WEFT_ERR_PEER, "the end of rank %" PRId32 ": expected 0 to %d", n->subject,
                          ctx->world_size - 1);
    if (check_word(n) != WEFT_OK) return WEFT_ERR_PEER;
    if (n->number == WEFT__UNREACHABLE && is_rank(ctx, n->culprit) && n->culprit != n->subject)
        return WEFT_OK;
    if (n->number == WEFT__PRESUMED_DEAD && n->subject == ctx->rank &&
        (!is_rank(ctx, n->culprit) || n->culprit == ctx->rank))
        return weft__fail(WEFT_ERR_PEER,
                          "this rank (rank %d) is presumed dead by rank %" PRId32
                          ": expected 0 to %d, and another one",
                          ctx->rank, n->culprit, ctx->world_size - 1);
    if (n->number < WEFT__LEFT || n->number > WEFT__DIED ||
        (n->number == WEFT__LEFT && n->subject != from && !n->knows))
        return weft__fail(WEFT_ERR_PEER, "the end of rank %" PRId32 ", of kind %" PRIu64, n->subject,
                          n->number);
    return WEFT_OK;
}

static weft_status check_store(int from, const weft__notice *n)
{
    if (from != 0) return weft__fail(WEFT_ERR_PEER, "where the store is, which is rank 0's to tell");
    if (n->subject != WEFT_OK && !weft__is_failure(n->subject))
        return weft__fail(WEFT_ERR_PEER, "where the store is, with status %" PRId32, n->subject);
    if (n->subject == WEFT_OK && strncmp(n->fate, "tcp://", 6) != 0)
        return weft__fail(WEFT_ERR_PEER, "a store at \"%.100s\": expected tcp://ADDRESS:PORT", n->fate);
    return WEFT_OK;
}

/* What is in it is for views.c to check. */
static weft_status check_view(const weft__notice *n)
{
    if (n->number && n->number < sizeof n->text) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER, "a word about views of %" PRIu64 " bytes: expected 1 to %zu", n->number,
                      sizeof n->text - 1);
}

static weft_status check_heard(const weft_context *ctx, const weft__notice *n)
{
    if (is_rank(ctx, n->subject) && n->knows <= 1 && n->ago_ns >= 0) return WEFT_OK;
    return weft__fail(WEFT_ERR_PEER,
                      "whether the host of rank %" PRId32 " is heard: answer %" PRIu32 " within %" PRId64
                      " ns; expected rank 0 to %d, answer 0 or 1",
                      n->subject, n->knows, n->ago_ns, ctx->world_size - 1);
}

static weft_status notice_check(const weft_context *ctx, int from, const weft__notice *n)
{
    switch (n->kind) {
    case WEFT__NOTICE_STORE_WHERE:
    case WEFT__NOTICE_DUMP: return WEFT_OK;
    case WEFT__NOTICE_WHO: return check_scope(n);
    case WEFT__NOTICE_HERE: return check_here(n);
    case WEFT__NOTICE_BROKEN: return check_broken(ctx, n);
    case WEFT__NOTICE_GONE: return check_gone(ctx, from, n);
    case WEFT__NOTICE_STORE_HERE: return check_store(from, n);
    case WEFT__NOTICE_VIEW: return check_view(n);
    case WEFT__NOTICE_IS_HEARD:
    case WEFT__NOTICE_HEARD: return check_heard(ctx, n);
    default: return weft__fail(WEFT_ERR_PEER, "a notice of unknown kind %" PRIu32, n->kind);
    }
}

bool weft__notice_read(weft_context *ctx, int from, const void *bytes, size_t length, weft__notice *notice)
{
    weft_status status = WEFT_OK;
    WEFT__ASSERT(is_rank(ctx, from), from, ctx->world_size);
    memset(notice, 0, sizeof *notice);
    if (length <= sizeof *notice) memcpy(notice, bytes, length);
    if (length < offsetof(weft__notice, text) || length != weft__notice_bytes(notice))
        status = weft__fail(WEFT_ERR_PEER, "a notice of %zu bytes, expected %zu", length,
                            weft__notice_bytes(notice));
    if (status == WEFT_OK) {
        notice->text[sizeof notice->text - 1] = notice->fate[sizeof notice->fate - 1] = 0;
        status = notice_check(ctx, from, notice);
    }
    if (status != WEFT_OK) weft__peer_refused(ctx, from, weft_last_error());
    return status == WEFT_OK;
}
