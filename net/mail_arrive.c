/* mail_arrive.c - the receiving half of the mail: what arrives meets its receive or waits for it, and what
 * peers tell.
 *
 * A frame from a peer can only name receives that flow from that peer; what does not fit anything is thrown
 * away. */
#include "log.h"
#include "mail_box.h"
#include "reserve.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static const char no_payload[1]; /* where a message of no bytes "lies" */

void weft__mail_free_want(weft__mail *mail, weft__want *want)
{
    weft__want_to(want, WEFT__WANT_FREE);
    weft__list_remove(&want->link);
    want->completion = NULL;
    if (want->from.meeting) want->from.meeting->want = NULL;
    weft__slab_put_locked(&mail->wants, want);
}

void weft__mail_finish_want(weft__mail *mail, weft__want *want, weft_status status)
{
    weft__completion *completion = want->completion;
    bool told = !want->abandoned;
    weft__mail_free_want(mail, want);
    if (told) weft__complete(completion, status);
}

static void tell_owed(weft__mail *mail, int peer)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__frame frame = {.kind = WEFT__FRAME_CREDIT, .bytes = box->owed};
    box->owed = 0;
    weft__mail_note(mail, peer, &frame, NULL, 0);
}

void weft__mail_owe(weft__mail *mail, int peer, size_t cost)
{
    weft__peer_box *box = &mail->peers[peer];
    if (peer == mail->me || box->gone) return;
    WEFT__ASSERT_HOT(box->owed < WEFT__CREDIT_BYTES / 2, box->owed);
    box->owed += cost;
    box->unanswered++;
    if (WEFT__UNLIKELY(box->owed >= WEFT__CREDIT_BYTES / 2)) tell_owed(mail, peer);
}

/* Tells the sender of an announced message to go on, or (bytes 0) that its message is not wanted. */
static void clear(weft__mail *mail, int peer, uint64_t letter_id, uint64_t want_id, size_t bytes)
{
    weft__frame frame = {.kind = WEFT__FRAME_CLEAR, .id = letter_id, .sequence = want_id, .bytes = bytes};
    if (peer == mail->me)
        weft__mail_arrived(&mail->sink, peer, &frame, NULL);
    else
        weft__mail_note(mail, peer, &frame, NULL, 0);
}

/* An announced message has met its receive.  head: its first bytes, if they have arrived elsewhere. */
static void start_flow(weft__mail *mail, weft__want *want, int peer, const weft__frame *frame,
                       const void *head)
{
    weft_status status = weft__mail_judge(want, peer, frame);
    weft__meeting *meeting = want->from.meeting;
    uint32_t index = want->item.index;
    weft__list_remove(&want->link);
    if (status != WEFT_OK || frame->bytes == 0) {
        clear(mail, peer, frame->id, 0, 0);
        weft__mail_finish_want(mail, want, status);
        return;
    }
    weft__want_to(want, WEFT__WANT_FLOWING);
    want->id = frame->id;
    want->head = frame->length;
    if (head) {
        if (!want->abandoned) memcpy(want->buf, head, frame->length);
        want->got->bytes = frame->length;
    } else if (frame->length) {
        mail->peers[peer].into = want;
    }
    weft__list_append(&mail->peers[peer].wants, &want->link);
    if (meeting) { /* which may end it */
        weft__letter *own = peer == mail->me ? weft__mail_letter(mail, frame->id) : NULL;
        meeting->other = own ? own->meeting : NULL;
        meeting->met(meeting);
    }
    clear(mail, peer, frame->id, index, frame->bytes);
}

static void take_out(weft__mail *mail, weft__early *early)
{
    WEFT__ASSERT(mail->early_count > 0 && !weft__list_empty(&early->link)); /* it waits somewhere */
    weft__list_remove(&early->link);
    mail->early_count--;
}

/* One that has been taken out. */
static void free_early(weft__mail *mail, weft__early *early)
{
    size_t cost = weft__mail_cost(&early->frame);
    int peer = early->peer;
    weft__reserve_give(early);
    weft__mail_owe(mail, peer, cost);
}

void weft__mail_drop_early(weft__mail *mail, weft__early *early)
{
    take_out(mail, early);
    free_early(mail, early);
}

/* A message has come that nobody waits for, and not even a note of it can be kept.  So no later receive from
 * that peer can be told whether it is for it. */
static void starve(weft__mail *mail, int peer)
{
    weft__peer_box *box = &mail->peers[peer];
    if (!box->starved)
        weft__log(WEFT__ERROR,
                  "rank %d has no memory to keep a message from rank %d: receives from there fail now",
                  mail->me, peer);
    box->starved = mail->starved = true;
}

/* An announced or whole message that nobody waits for yet.  Without memory for its payload its receive is
 * told of that: it is this rank's want, and no fault of its peer.  NULL: not even for that. */
static weft__early *keep(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__early *early = malloc(sizeof *early + frame->length);
    bool lost = !early && frame->length;
    if (!early) early = weft__reserve_get(sizeof *early);
    if (!early) {
        starve(mail, peer);
        return NULL;
    }
    weft__list_init(&early->link);
    early->peer = peer;
    early->frame = *frame;
    early->whole = false;
    early->lost = lost;
    early->want = NULL;
    early->ended = WEFT_OK;
    weft__list_append(weft__mail_bucket(mail->early, (weft__channel)frame->channel, frame->group,
                                        frame->sequence),
                      &early->link);
    mail->early_count++;
    return early;
}

/* One that meets no receive, and perhaps a probe (NULL: none).  Returns where its payload goes. */
static void *keep_for(weft__mail *mail, int peer, const weft__frame *frame, weft__want *probe)
{
    weft__early *early = mail->peers[peer].early = keep(mail, peer, frame);
    if (!early) return NULL;
    if (probe) {
        weft__list_remove(&probe->link);
        weft__mail_meet_early(mail, probe, early);
    }
    return early->lost ? NULL : early->payload;
}

/* A message of another operation than the receive it would meet, or that meets none yet: the runtime may
 * break the group over it, and with it this receive.  True: it is to be thrown away. */
static bool tell_of_foreign(weft__mail *mail, int peer, const weft__frame *frame, const weft__want *want)
{
    if (frame->channel != WEFT__CHANNEL_COLLECTIVE ||
        (want && want->from.signature[0] == frame->signature[0] &&
         want->from.signature[1] == frame->signature[1]))
        return false;
    if (mail->events->collective(mail->events, peer, frame) && !want) return true;
    if (want) weft__mail_owe(mail, peer, weft__mail_cost(frame));
    return want != NULL;
}

static void *eager_header(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__want *want = weft__mail_find_want(mail, peer, frame);
    weft_status status;
    if (tell_of_foreign(mail, peer, frame, want)) return NULL;
    if (want && !want->probes) {
        weft__mail_owe(mail, peer, weft__mail_cost(frame));
        status = weft__mail_judge(want, peer, frame);
        weft__list_remove(&want->link);
        if (status != WEFT_OK) {
            weft__mail_finish_want(mail, want, status);
            return NULL;
        }
        weft__want_to(want, WEFT__WANT_FLOWING);
        want->id = UINT64_MAX; /* no announcement: nothing can retract it */
        weft__list_append(&box->wants, &want->link);
        box->into = want;
        return frame->length ? want->buf : NULL;
    }
    return keep_for(mail, peer, frame, want);
}

/* Where its head goes, if it has one. */
static void *request_header(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__want *want = weft__mail_find_want(mail, peer, frame);
    void *where;
    if (tell_of_foreign(mail, peer, frame, want)) return NULL;
    if (want && !want->probes) {
        weft__mail_owe(mail, peer, weft__mail_cost(frame));
        start_flow(mail, want, peer, frame, NULL);
        return box->into && !box->into->abandoned ? box->into->buf : NULL;
    }
    where = keep_for(mail, peer, frame, want);
    if (!box->early) clear(mail, peer, frame->id, 0, 0); /* its sender is not to wait for nothing */
    return where;
}

static void *data_header(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__want *want = frame->id <= UINT32_MAX ? weft__slab_at(&mail->wants, (uint32_t)frame->id) : NULL;
    if (!want || !want->completion || want->state != WEFT__WANT_FLOWING || want->got->peer != peer ||
        want->from.meeting || want->probes || frame->bytes != want->got->bytes ||
        frame->length > want->got->offered - want->got->bytes)
        return NULL;
    mail->peers[peer].into = want;
    return want->abandoned ? NULL : want->buf + frame->bytes;
}

static void *control_room(weft__peer_box *box, size_t bytes)
{
    void *more = box->control_room < bytes ? weft__reserve_get(bytes) : box->control;
    if (!more || more == box->control) return more;
    weft__reserve_give(box->control);
    box->control = more;
    box->control_room = bytes;
    return more;
}

void *weft__mail_header(weft__sink *sink, int peer, const weft__frame *frame)
{
    weft__mail *mail = WEFT__OWNER(sink, weft__mail, sink);
    weft__peer_box *box = &mail->peers[peer];
    box->touched = box->heard = true;
    box->into = NULL;
    box->early = NULL;
    if (box->gone) return NULL;
    switch (frame->kind) {
    case WEFT__FRAME_EAGER: return eager_header(mail, peer, frame);
    case WEFT__FRAME_REQUEST: return request_header(mail, peer, frame);
    case WEFT__FRAME_DATA: return data_header(mail, peer, frame);
    case WEFT__FRAME_CONTROL:
    case WEFT__FRAME_BYE: return control_room(box, (size_t)frame->length + 1);
    default: return NULL;
    }
}

/* The whole message is there. */
static void fill(weft__want *want, const weft__frame *frame, const void *payload)
{
    if (frame->flags & WEFT__FRAME_SMALL)
        weft__copy_small(want->buf, frame->small, frame->bytes);
    else if (payload && frame->bytes)
        memcpy(want->buf, payload, frame->bytes);
    want->got->bytes = frame->bytes;
}

/* Its payload was thrown away: the receive that meets its note is told so. */
static void meet_lost(weft__mail *mail, weft__want *want, weft__early *early)
{
    weft_status status = weft__mail_judge(want, early->peer, &early->frame);
    if (early->frame.kind == WEFT__FRAME_REQUEST) clear(mail, early->peer, early->frame.id, 0, 0);
    free_early(mail, early);
    weft__mail_finish_want(mail, want, status == WEFT_OK ? WEFT_ERR_MEMORY : status);
}

/* What ends by it may free other early ones. */
static void receive_early(weft__mail *mail, weft__want *want, weft__early *early)
{
    const weft__frame *frame = &early->frame;
    weft_status status;
    take_out(mail, early);
    if (early->lost) {
        meet_lost(mail, want, early);
        return;
    }
    if (frame->kind == WEFT__FRAME_REQUEST) {
        start_flow(mail, want, early->peer, frame, frame->length ? early->payload : NULL);
        free_early(mail, early);
        return;
    }
    status = weft__mail_judge(want, early->peer, frame);
    if (status == WEFT_OK && !want->abandoned) fill(want, frame, early->payload);
    free_early(mail, early);
    weft__mail_finish_want(mail, want, status);
}

void weft__mail_meet_early(weft__mail *mail, weft__want *want, weft__early *early)
{
    if (early->whole && want->probes) {
        weft__mail_hold(mail, want, early);
        return;
    }
    if (early->whole) {
        receive_early(mail, want, early);
        return;
    }
    early->want = want; /* they meet when the rest of it is there */
    want->held = early;
    weft__want_to(want, WEFT__WANT_FLOWING);
    want->id = UINT64_MAX;
    want->got->peer = early->peer;
    weft__list_append(&mail->peers[early->peer].wants, &want->link);
}

/* All of its frame is there.  Without a receive it waits in its bucket. */
static void early_arrived(weft__mail *mail, weft__early *early)
{
    early->whole = true;
    if (!early->want) return;
    weft__list_remove(&early->want->link);
    weft__mail_meet_early(mail, early->want, early);
}

/* One whose payload, if it has any, is in its header: does it meet a receive? */
static bool small_meets(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__want *want = weft__mail_find_want(mail, peer, frame);
    weft_status status;
    if (!want || want->probes) return false;
    weft__mail_owe(mail, peer, weft__mail_cost(frame));
    status = weft__mail_judge(want, peer, frame);
    if (status == WEFT_OK) fill(want, frame, NULL);
    weft__mail_finish_want(mail, want, status);
    return true;
}

static void eager_arrived(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__early *early;
    weft__want *want;
    if (frame->length == 0) {
        if (frame->channel != WEFT__CHANNEL_COLLECTIVE && small_meets(mail, peer, frame)) return;
        eager_header(mail, peer, frame);
    }
    want = box->into;
    early = box->early;
    box->into = NULL;
    box->early = NULL;
    if (want) {
        fill(want, frame, NULL); /* but for a small one it lies where it should */
        weft__mail_finish_want(mail, want, WEFT_OK);
    } else if (early) {
        early_arrived(mail, early);
    }
}

static void data_arrived(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__want *want = mail->peers[peer].into;
    mail->peers[peer].into = NULL;
    if (!want) return;
    want->got->bytes += frame->length;
    WEFT__ASSERT(want->got->bytes <= want->got->offered, want->got->bytes, want->got->offered);
    if (want->got->bytes == want->got->offered) weft__mail_finish_want(mail, want, WEFT_OK);
}

static void request_arrived(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__early *early;
    weft__want *want;
    if (frame->length == 0) request_header(mail, peer, frame);
    want = box->into;
    early = box->early;
    box->into = NULL;
    box->early = NULL;
    if (want)
        want->got->bytes += frame->length;
    else if (early)
        early_arrived(mail, early);
}

static void retract_arrived(weft__mail *mail, int peer, const weft__frame *frame)
{
    for (int i = 0; i < WEFT__MAIL_BUCKETS; i++) WEFT__LIST_EACH(&mail->early[i], at)
        {
            weft__early *early = WEFT__LIST_ENTRY(at, weft__early, link);
            if (early->peer != peer || early->frame.kind != WEFT__FRAME_REQUEST ||
                early->frame.id != frame->id)
                continue;
            weft__mail_withdraw(mail, early, WEFT_ERR_CANCELLED);
            return;
        }
    WEFT__LIST_EACH(&mail->peers[peer].wants, at)
    {
        weft__want *want = WEFT__LIST_ENTRY(at, weft__want, link);
        if (want->id != frame->id) continue;
        if (want->got->bytes > want->head || want->abandoned) {
            weft__mail_finish_want(mail, want, WEFT_ERR_CANCELLED);
            return;
        }
        weft__list_remove(&want->link); /* no more than its head came */
        if (want->from.meeting && !want->from.meeting->parted(want->from.meeting)) return;
        if (want->only)
            weft__mail_finish_want(mail, want, WEFT_ERR_CANCELLED);
        else
            weft__mail_wait_for(mail, want, true);
        return;
    }
}

static void clear_arrived(weft__mail *mail, int peer, const weft__frame *frame)
{
    weft__letter *letter = weft__mail_letter(mail, frame->id);
    weft__want *own = peer == mail->me ? weft__slab_at(&mail->wants, (uint32_t)frame->sequence) : NULL;
    if (!letter || letter->peer != peer || letter->state != WEFT__LETTER_ANNOUNCED) return;
    if (frame->bytes == 0)
        weft__mail_refuse(mail, letter);
    else if (letter->meeting)
        weft__mail_meet_letter(mail, letter, own);
    else
        weft__mail_flow(mail, letter, frame->sequence, own);
}

static void bye_arrived(weft__mail *mail, int peer, const weft__frame *frame, const char *why)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__frame taken = {.kind = WEFT__FRAME_BYE_TAKEN};
    box->said_bye = true;
    weft__mail_note(mail, peer, &taken, NULL, 0);
    if (!box->leaving) mail->leaving++;
    box->leaving = true;
    mail->events->left(mail->events, peer, (weft_status)frame->tag, why);
}

void weft__mail_arrived(weft__sink *sink, int peer, const weft__frame *frame, void *where)
{
    weft__mail *mail = WEFT__OWNER(sink, weft__mail, sink);
    weft__peer_box *box = &mail->peers[peer];
    box->touched = box->heard = true;
    if (box->gone && frame->kind != WEFT__FRAME_BYE_TAKEN) return;
    switch (frame->kind) {
    case WEFT__FRAME_EAGER: eager_arrived(mail, peer, frame); break;
    case WEFT__FRAME_REQUEST: request_arrived(mail, peer, frame); break;
    case WEFT__FRAME_CLEAR: clear_arrived(mail, peer, frame); break;
    case WEFT__FRAME_DATA: data_arrived(mail, peer, frame); break;
    case WEFT__FRAME_RETRACT: retract_arrived(mail, peer, frame); break;
    case WEFT__FRAME_CREDIT: weft__mail_take_back(box, frame->bytes); break;
    case WEFT__FRAME_CONTROL:
        if (where || !frame->length)
            mail->events->control(mail->events, peer, frame->tag, where ? where : no_payload, frame->length);
        break;
    case WEFT__FRAME_BYE:
        if (where) ((char *)where)[frame->length] = 0;
        bye_arrived(mail, peer, frame, where ? where : "");
        break;
    case WEFT__FRAME_BYE_TAKEN: box->bye_taken = true; break;
    default: break;
    }
}

void weft__mail_lost(weft__sink *sink, int peer, const char *why)
{
    weft__mail *mail = WEFT__OWNER(sink, weft__mail, sink);
    weft__peer_box *box = &mail->peers[peer];
    if (box->gone) return;
    if (mail->leaving_all)
        weft__mail_drop(mail, peer);
    else
        mail->events->lost(mail->events, peer, why);
}

void weft__mail_peek(weft__mail *mail, uint64_t group, uint64_t sequence,
                     void (*fn)(void *arg, int peer, const weft__frame *frame), void *arg)
{
    weft__list *bucket;
    if (WEFT__LIKELY(!mail->early_count)) return;
    bucket = weft__mail_bucket(mail->early, WEFT__CHANNEL_COLLECTIVE, group, sequence);
    WEFT__LIST_EACH(bucket, at)
    {
        weft__early *early = WEFT__LIST_ENTRY(at, weft__early, link);
        if (early->frame.channel == WEFT__CHANNEL_COLLECTIVE && early->frame.group == group &&
            early->frame.sequence == sequence)
            fn(arg, early->peer, &early->frame);
    }
}

bool weft__mail_drop_token(weft__mail *mail, const weft__envelope *from)
{
    weft__early *early = weft__mail_find_early(mail, from);
    bool here = early && early->frame.flags & WEFT__FRAME_TOKEN;
    if (here) weft__mail_drop_early(mail, early);
    return here;
}

void weft__mail_forget_group(weft__mail *mail, uint64_t group)
{
    weft__list ended;
    weft__list_init(&ended);
    for (int i = 0; i < WEFT__MAIL_BUCKETS; i++) WEFT__LIST_EACH(&mail->early[i], at)
        {
            weft__early *early = WEFT__LIST_ENTRY(at, weft__early, link);
            if (early->frame.channel != WEFT__CHANNEL_COLLECTIVE || early->frame.group != group ||
                !early->whole)
                continue;
            weft__list_remove(at);
            weft__list_append(&ended, at);
        }
    /* What their sender is told may end others: always take the first. */
    while (!weft__list_empty(&ended))
        weft__mail_drop_early(mail, WEFT__LIST_ENTRY(ended.next, weft__early, link));
}

void weft__mail_drop(weft__mail *mail, int peer)
{
    weft__peer_box *box = &mail->peers[peer];
    weft__list ended;
    if (box->gone || box->dropping) return;
    box->dropping = true;
    /* What had arrived before the end still counts; the transport hands it over now. */
    if (box->route && !box->said_bye) box->route->drop(box->route, peer);
    box->gone = true;
    box->into = NULL;
    if (box->early) { /* its payload will not be complete any more */
        if (box->early->want) box->early->want->held = NULL;
        weft__mail_drop_early(mail, box->early);
        box->early = NULL;
    }
    weft__mail_withdraw_all(mail, peer);
    while (!weft__list_empty(&box->letters))
        weft__mail_end_letter(mail, WEFT__LIST_ENTRY(box->letters.next, weft__letter, link));
    while (!weft__list_empty(&box->wants))
        weft__mail_finish_want(mail, WEFT__LIST_ENTRY(box->wants.next, weft__want, link), WEFT_ERR_PEER);
    weft__list_init(&ended);
    for (int i = 0; i < WEFT__MAIL_BUCKETS; i++) WEFT__LIST_EACH(&mail->wanted[i], at)
        {
            if (WEFT__LIST_ENTRY(at, weft__want, link)->from.peer != peer) continue;
            weft__list_remove(at);
            weft__list_append(&ended, at);
        }
    /* A completion may cancel other receives, also of this list: always take the first. */
    while (!weft__list_empty(&ended))
        weft__mail_finish_want(mail, WEFT__LIST_ENTRY(ended.next, weft__want, link), WEFT_ERR_PEER);
}
