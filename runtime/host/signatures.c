/* signatures.c - do all members mean the same collective?  What a message of a collective says of it is
 * compared with what was submitted here: as it comes, or once that is submitted. */
#include "signatures.h"
#include "deferred_agree.h"
#include "host.h"
#include "mismatch.h"
#include "peer.h"
#include "protocol.h"
#include "signing.h"

static bool signatures_judge(weft_context *ctx, int peer, const weft__frame *frame)
{
    weft_group *group = weft__group_find(ctx, frame->group);
    weft__signature theirs = {{frame->signature[0], frame->signature[1]}};
    const weft__signature *mine;
    bool awaited, same;
    int member;
    if (!group) return false; /* not made here yet, or long gone */
    member = weft__group_member(group, peer);
    mine = weft__token_awaited(group, member, frame->sequence);
    awaited = mine != NULL;
    /* What has not been started here is judged when it is. */
    if (!mine && member >= 0) mine = weft__signature_meant(group, frame->sequence);
    same = !mine || weft__same_signature(*mine, theirs);
    awaited = awaited && same && frame->flags & WEFT__FRAME_TOKEN;
    if (!same)
        weft__group_mismatch(group, frame->sequence, *mine, member, theirs);
    else if (awaited)
        weft__token_came(group, frame->sequence);
    weft__group_unref(group);
    return awaited;
}

typedef struct judged {
    weft_request *req; /* not to be touched once the group has broken over it */
    bool same;
} judged;

/* A message that was here first means something else? */
static void judge_early(void *arg, int peer, const weft__frame *frame)
{
    judged *j = arg;
    weft__signature theirs = {{frame->signature[0], frame->signature[1]}};
    int member = j->same ? weft__group_member(j->req->group, peer) : -1;
    if (member < 0 || weft__same_signature(j->req->signature, theirs)) return;
    j->same = false;
    weft__group_mismatch(j->req->group, j->req->sequence, j->req->signature, member, theirs);
}

bool weft__early_judge(weft_request *req)
{
    judged j = {req, true};
    if (WEFT__UNLIKELY(req->group->signing != NULL) && !weft__begun_untold(req->group, req->sequence))
        return false;
    weft__p2p_peek(req->ctx->p2p, req->group->id, req->sequence, judge_early, &j);
    return j.same;
}

static void signatures_group_ready(weft_group *group)
{
    weft__deferred_agree_init(&group->deferred);
}

const weft__protocol weft__signatures_protocol = {.name = "signatures",
                                                  .collective = signatures_judge,
                                                  .group_ready = signatures_group_ready,
                                                  .group_broken = weft__deferred_agree_drop,
                                                  .group_gone = weft__plans_free};
