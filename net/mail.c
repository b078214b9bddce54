/* mail.c - the sending half of the mail, its life and its poll.
 *
 * A letter: EAGER (one frame, done when the transport let go of it), or ANNOUNCED -> FLOWING, one piece of
 * at most a frame under way at a time, so that several letters to one peer take turns.  The answer to an
 * announcement may come while its head is still going out.  A letter to this rank itself goes the same way
 * with a copy in place of the wire.
 * Failing: a peer that is gone ends its letters and receives in ERR_PEER; no memory is told at the call. */
#include "mail_box.h"
#include "reserve.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

typedef struct part { /* a small frame of the mail's own */
    weft__outgoing out;
    char payload[];
} part;

static void part_sent(weft__outgoing *out, weft_status status)
{
    (void)status;
    weft__reserve_give(WEFT__OWNER(out, part, out));
}

/* Told to nobody if there is no memory: the callers can only go on, and the peer's deadline will speak. */
static bool send_part(weft__mail *mail, int peer, const weft__frame *frame, const void *payload, bool lazy)
{
    weft__peer_box *box = &mail->peers[peer];
    part *p;
    WEFT__ASSERT(payload || !frame->length);
    if (!box->route) return false;
    p = weft__reserve_get(sizeof *p + frame->length);
    if (!p) return false;
    memset(&p->out, 0, sizeof p->out);
    p->out.frame = *frame;
    if (frame->length) memcpy(p->payload, payload, frame->length);
    p->out.payload = p->payload;
    p->out.sent = part_sent;
    p->out.lazy = lazy;
    p->out.stays = true;
    weft__list_init(&p->out.link);
    box->touched = true;
    box->route->send(box->route, peer, &p->out);
    return true;
}

void weft__mail_note(weft__mail *mail, int peer, const weft__frame *frame, const void *payload, size_t length)
{
    weft__frame copy = *frame;
    copy.length = (uint32_t)length;
    send_part(mail, peer, &copy, payload, false);
}

weft_status weft__mail_control(weft__mail *mail, int peer, int type, const void *bytes, size_t length)
{
    weft__frame frame = {.kind = WEFT__FRAME_CONTROL, .tag = type, .length = (uint32_t)length};
    WEFT__ASSERT(length <= WEFT__FRAME_PAYLOAD_MAX);
    if (peer == mail->me) {
        mail->events->control(mail->events, peer, type, bytes, length);
        return WEFT_OK;
    }
    if (mail->peers[peer].gone) return weft__fail(WEFT_ERR_PEER, "rank %d is gone", peer);
    if (!send_part(mail, peer, &frame, bytes, false)) return weft__fail_memory(length, "a control message");
    return WEFT_OK;
}

weft_status weft__mail_open(int me, int world, size_t eager_bytes, weft__mail_events *events,
                            weft__mail **out)
{
    weft__mail *mail = calloc(1, sizeof *mail);
    if (!mail) return weft__fail_memory(sizeof *mail, "the mail");
    mail->me = me;
    mail->world = world;
    mail->eager_by_route = eager_bytes == WEFT__EAGER_BY_ROUTE;
    mail->events = events;
    mail->sink.header = weft__mail_header;
    mail->sink.arrived = weft__mail_arrived;
    mail->sink.lost = weft__mail_lost;
    mail->peers = calloc((size_t)world, sizeof *mail->peers);
    if (!mail->peers || !weft__slab_init(&mail->letters, sizeof(weft__letter), WEFT__LETTERS_MAX) ||
        !weft__slab_init(&mail->wants, sizeof(weft__want), WEFT__LETTERS_MAX)) {
        weft__mail_close(mail);
        return weft__fail_memory((size_t)world * sizeof *mail->peers, "the mail");
    }
    weft__list_init(&mail->ready);
    for (int i = 0; i < WEFT__MAIL_BUCKETS; i++) {
        weft__list_init(&mail->wanted[i]);
        weft__list_init(&mail->early[i]);
    }
    for (int i = 0; i < world; i++) {
        mail->peers[i].route_name = i == me ? "self" : "none";
        mail->peers[i].credit = WEFT__CREDIT_BYTES;
        mail->peers[i].eager_bytes = mail->eager_by_route ? WEFT__EAGER_TO_SELF : eager_bytes;
        weft__list_init(&mail->peers[i].letters);
        weft__list_init(&mail->peers[i].wants);
    }
    *out = mail;
    return WEFT_OK;
}

weft__sink *weft__mail_sink(weft__mail *mail)
{
    return &mail->sink;
}

void weft__mail_route(weft__mail *mail, int peer, weft__transport *transport)
{
    int i = 0;
    mail->peers[peer].route = transport;
    mail->peers[peer].route_name = transport->name;
    if (mail->eager_by_route) mail->peers[peer].eager_bytes = transport->eager_bytes;
    mail->peers[peer].head_bytes = transport->head_bytes < mail->peers[peer].eager_bytes
                                       ? transport->head_bytes
                                       : mail->peers[peer].eager_bytes;
    while (i < mail->route_count && mail->routes[i] != transport) i++;
    if (i < mail->route_count) return;
    WEFT__ASSERT(i < (int)WEFT__LENGTH(mail->routes));
    mail->routes[mail->route_count++] = transport;
}

const char *weft__mail_route_name(const weft__mail *mail, int peer)
{
    return mail->peers[peer].route_name;
}

void weft__mail_close(weft__mail *mail)
{
    for (int i = 0; i < WEFT__MAIL_BUCKETS && mail->early[i].next; i++)
        WEFT__LIST_EACH(&mail->early[i], at) weft__reserve_give(WEFT__LIST_ENTRY(at, weft__early, link));
    for (int i = 0; mail->peers && i < mail->world; i++) {
        weft__reserve_give(mail->peers[i].control);
    }
    weft__slab_destroy(&mail->letters);
    weft__slab_destroy(&mail->wants);
    free(mail->peers);
    free(mail);
}

uint64_t weft__mail_letter_id(const weft__letter *letter)
{
    return (uint64_t)letter->serial << 32 | letter->item.index;
}

weft__letter *weft__mail_letter(weft__mail *mail, uint64_t id)
{
    weft__letter *letter = weft__slab_at(&mail->letters, (uint32_t)id);
    return letter && letter->completion && letter->serial == (uint32_t)(id >> 32) ? letter : NULL;
}

/* What may follow on each state.  One that is refused while its announcement still goes out is eager from then
 * on: over when the transport lets go of it. */
static const uint8_t letter_follows[] = {[WEFT__LETTER_FREE] = WEFT__MAY_BECOME(WEFT__LETTER_EAGER) |
                                                               WEFT__MAY_BECOME(WEFT__LETTER_ANNOUNCED),
                                         [WEFT__LETTER_EAGER] = WEFT__MAY_BECOME(WEFT__LETTER_FREE),
                                         [WEFT__LETTER_ANNOUNCED] = WEFT__MAY_BECOME(WEFT__LETTER_FLOWING) |
                                                                    WEFT__MAY_BECOME(WEFT__LETTER_COPYING) |
                                                                    WEFT__MAY_BECOME(WEFT__LETTER_EAGER) |
                                                                    WEFT__MAY_BECOME(WEFT__LETTER_FREE),
                                         [WEFT__LETTER_FLOWING] = WEFT__MAY_BECOME(WEFT__LETTER_FREE),
                                         [WEFT__LETTER_COPYING] = WEFT__MAY_BECOME(WEFT__LETTER_FREE)};

/* The one place that stores a letter's state.  All of the mail is the engine's: no order of memory is needed. */
static void letter_to(weft__letter *letter, enum weft__letter_state to)
{
    WEFT__ASSERT(WEFT__ALLOWS(letter_follows, letter->state, to), letter->state, to);
    letter->state = to;
}

/* The record goes back; its id is not good any more. */
static void free_letter(weft__mail *mail, weft__letter *letter)
{
    letter_to(letter, WEFT__LETTER_FREE);
    weft__list_remove(&letter->link);
    weft__list_remove(&letter->ready);
    letter->serial++;
    letter->completion = NULL;
    if (letter->meeting) letter->meeting->letter = NULL;
    weft__slab_put_locked(&mail->letters, letter);
}

void weft__mail_finish_letter(weft__mail *mail, weft__letter *letter, weft_status status)
{
    weft__completion *completion = letter->completion;
    free_letter(mail, letter);
    weft__complete(completion, status);
}

void weft__mail_meet_letter(weft__mail *mail, weft__letter *letter, weft__want *own)
{
    weft__meeting *meeting = letter->meeting;
    meeting->other = own ? own->from.meeting : NULL;
    free_letter(mail, letter);
    meeting->met(meeting);
}

/* Given back by a transport that has lost its peer, before it is known what became of that: it may have left,
 * and said goodbye another way.  Then weft__mail_drop ends it, when what waits for that peer has heard why.
 */
static bool waits_for_fate(const weft__letter *letter, weft_status status)
{
    const weft__peer_box *box = &letter->mail->peers[letter->peer];
    return status == WEFT_ERR_PEER && !box->gone && !box->dropping;
}

/* Its transport had no memory to begin that frame: what it took of the credit was not used. */
static void take_back_credit(const weft__letter *letter, weft_status status)
{
    if (status == WEFT_ERR_MEMORY)
        weft__mail_take_back(&letter->mail->peers[letter->peer], weft__mail_cost(&letter->out.frame));
}

static void eager_sent(weft__outgoing *out, weft_status status)
{
    weft__letter *letter = WEFT__OWNER(out, weft__letter, out);
    letter->queued = false;
    take_back_credit(letter, status);
    if (!waits_for_fate(letter, status)) weft__mail_finish_letter(letter->mail, letter, status);
}

/* It waits for the answer now, or that has come meanwhile. */
static void announced(weft__outgoing *out, weft_status status)
{
    weft__letter *letter = WEFT__OWNER(out, weft__letter, out);
    letter->queued = false;
    take_back_credit(letter, status);
    if (waits_for_fate(letter, status)) return;
    if (status != WEFT_OK)
        weft__mail_finish_letter(letter->mail, letter, status);
    else if (letter->state == WEFT__LETTER_FLOWING)
        weft__list_append(&letter->mail->ready, &letter->ready);
}

/* The receiver waits for the rest of it. */
static void tell_retracted(const weft__letter *letter)
{
    weft__frame frame = {.kind = WEFT__FRAME_RETRACT, .id = weft__mail_letter_id(letter)};
    send_part(letter->mail, letter->peer, &frame, NULL, false);
}

static void piece_sent(weft__outgoing *out, weft_status status)
{
    weft__letter *letter = WEFT__OWNER(out, weft__letter, out);
    WEFT__ASSERT(letter->queued && letter->state == WEFT__LETTER_FLOWING, letter->queued, letter->state);
    letter->queued = false;
    if (waits_for_fate(letter, status)) return;
    if (status == WEFT_ERR_MEMORY) tell_retracted(letter);
    letter->offset += out->frame.length;
    WEFT__ASSERT(letter->offset <= letter->bytes, letter->offset, letter->bytes);
    if (status != WEFT_OK || letter->offset == letter->bytes)
        weft__mail_finish_letter(letter->mail, letter, status);
    else
        weft__list_append(&letter->mail->ready, &letter->ready);
}

/* One piece more.  Returns its length. */
static size_t push(weft__mail *mail, weft__letter *letter)
{
    size_t left = letter->bytes - letter->offset;
    size_t length = left < WEFT__FRAME_PAYLOAD_MAX ? left : WEFT__FRAME_PAYLOAD_MAX;
    weft__transport *route;

    WEFT__ASSERT(!letter->queued && letter->offset < letter->bytes, letter->offset, letter->bytes);
    weft__list_remove(&letter->ready);
    if (letter->state == WEFT__LETTER_COPYING) {
        weft__want *want = letter->want;
        if (!want->abandoned) memmove(want->buf + letter->offset, letter->buf + letter->offset, length);
        want->got->bytes += length;
        letter->offset += length;
        if (letter->offset < letter->bytes) {
            weft__list_append(&mail->ready, &letter->ready);
            return length;
        }
        weft__mail_finish_letter(mail, letter, WEFT_OK);
        weft__mail_finish_want(mail, want, WEFT_OK);
        return length;
    }
    letter->out.frame.kind = WEFT__FRAME_DATA;
    letter->out.frame.id = letter->want_id;
    letter->out.frame.bytes = letter->offset;
    letter->out.frame.length = (uint32_t)length;
    letter->out.payload = letter->buf + letter->offset;
    letter->out.bulk = letter->out.frame.channel != WEFT__CHANNEL_COLLECTIVE;
    letter->out.sent = piece_sent;
    letter->queued = true;
    route = mail->peers[letter->peer].route;
    route->send(route, letter->peer, &letter->out);
    return length;
}

void weft__mail_flow(weft__mail *mail, weft__letter *letter, uint64_t want_id, weft__want *own)
{
    letter_to(letter, own ? WEFT__LETTER_COPYING : WEFT__LETTER_FLOWING);
    letter->want_id = want_id;
    letter->want = own;
    if (!letter->queued) weft__list_append(&mail->ready, &letter->ready);
}

void weft__mail_refuse(weft__mail *mail, weft__letter *letter)
{
    if (!letter->queued) {
        weft__mail_finish_letter(mail, letter, WEFT_OK);
        return;
    }
    letter_to(letter, WEFT__LETTER_EAGER);
    letter->out.sent = eager_sent;
}

/* To this rank itself: what a transport would do, at once. */
static void send_self(weft__mail *mail, weft__letter *letter)
{
    void *where;
    weft__frame *frame = &letter->out.frame;
    if (frame->kind == WEFT__FRAME_EAGER) {
        where = frame->length ? weft__mail_header(&mail->sink, mail->me, frame) : NULL;
        if (where) memmove(where, letter->buf, frame->length);
        weft__mail_arrived(&mail->sink, mail->me, frame, where);
        weft__mail_finish_letter(mail, letter, WEFT_OK);
    } else {
        weft__list_append(&mail->peers[mail->me].letters, &letter->link);
        weft__mail_arrived(&mail->sink, mail->me, frame, NULL);
    }
}

/* Takes the bytes from the credit of their receiver, if there is so much. */
static inline bool take_credit(weft__peer_box *box, size_t bytes)
{
    WEFT__ASSERT_HOT(box->credit <= WEFT__CREDIT_BYTES, box->credit);
    if (box->credit < bytes + sizeof(weft__frame)) return false;
    box->credit -= bytes + sizeof(weft__frame);
    return true;
}

/* Takes of the credit what it costs. */
static inline bool goes_eager(weft__mail *mail, const weft__envelope *to, size_t bytes)
{
    weft__peer_box *box = &mail->peers[to->peer];
    if (bytes > box->eager_bytes || to->meeting) return false;
    return to->peer == mail->me || !weft__mail_counted(to->channel, bytes) || take_credit(box, bytes);
}

/* How much of it its announcement brings along.  Takes of the credit what that costs. */
static size_t head_of(weft__mail *mail, const weft__envelope *to, size_t bytes)
{
    weft__peer_box *box = &mail->peers[to->peer];
    size_t head = box->head_bytes < bytes ? box->head_bytes : 0;
    return head && !to->meeting && take_credit(box, head) ? head : 0;
}

/* Does its frame hold its payload? */
static inline bool goes_in_frame(const weft__envelope *to, size_t bytes, bool eager)
{
    return eager && bytes && bytes <= WEFT__FRAME_SMALL_BYTES && to->channel != WEFT__CHANNEL_COLLECTIVE;
}

/* The frame of a whole message, or that announces one: its first 8 bytes are returned.  The rest is written
 * part by part and not read again: whoever read it now, in wider words, would wait for the parts. */
static inline uint64_t write_frame(weft__frame *frame, const weft__envelope *to, const void *buf,
                                   size_t bytes, bool eager, size_t head, uint64_t id)
{
    bool small = goes_in_frame(to, bytes, eager);
    uint32_t length = (uint32_t)(!eager ? head : small ? 0 : bytes);
    frame->tag = to->tag;
    frame->reserved = 0;
    frame->group = to->group;
    frame->sequence = to->sequence;
    frame->bytes = bytes;
    frame->id = id;
    frame->signature[0] = small ? 0 : to->signature[0];
    frame->signature[1] = small ? 0 : to->signature[1];
    if (small) weft__copy_small(frame->small, buf, bytes);
    return weft__frame_first(eager ? WEFT__FRAME_EAGER : WEFT__FRAME_REQUEST, to->channel, to->dtype,
                             to->meeting ? WEFT__FRAME_APART
                             : small     ? WEFT__FRAME_SMALL
                                         : 0,
                             length);
}

static weft__frame frame_of(const weft__envelope *to, const void *buf, size_t bytes, bool eager, size_t head,
                            uint64_t id)
{
    weft__frame frame;
    uint64_t first = write_frame(&frame, to, buf, bytes, eager, head, id);
    memcpy(&frame, &first, sizeof first);
    return frame;
}

bool weft__mail_send_now(weft__mail *mail, const weft__envelope *to, const void *buf, size_t bytes)
{
    weft__peer_box *box = &mail->peers[to->peer];
    size_t credit = box->credit, length = goes_in_frame(to, bytes, true) ? 0 : bytes;
    weft__frame *frame;
    if (!box->route || !box->route->reserve || box->gone || !goes_eager(mail, to, bytes)) return false;
    box->touched = true;
    frame = box->route->reserve(box->route, to->peer, buf, length);
    if (!frame) {
        box->credit = credit;
        return false;
    }
    box->route->commit(box->route, to->peer, write_frame(frame, to, buf, bytes, true, 0, 0), length);
    box->unanswered = 0;
    return true;
}

uint32_t weft__mail_unanswered(const weft__mail *mail, int peer)
{
    return mail->peers[peer].unanswered;
}

weft__letter *weft__mail_send(weft__mail *mail, const weft__envelope *to, const void *buf, size_t bytes,
                              weft__completion *completion)
{
    weft__peer_box *box = &mail->peers[to->peer];
    weft__letter *letter = weft__slab_get_locked(&mail->letters);
    bool eager;
    if (!letter) {
        weft__fail(WEFT_ERR_MEMORY, "no memory for a message, or %u are under way", WEFT__LETTERS_MAX);
        return NULL;
    }
    letter->mail = mail;
    letter->buf = buf;
    letter->bytes = bytes;
    letter->peer = to->peer;
    letter->queued = false;
    letter->completion = completion;
    letter->meeting = to->meeting;
    if (letter->meeting) letter->meeting->letter = letter;
    weft__list_init(&letter->link);
    weft__list_init(&letter->ready);
    eager = !box->gone && goes_eager(mail, to, bytes);
    letter_to(letter, eager || box->gone ? WEFT__LETTER_EAGER : WEFT__LETTER_ANNOUNCED);
    if (box->gone) {
        weft__mail_finish_letter(mail, letter, WEFT_ERR_PEER);
        return letter;
    }
    letter->offset = eager ? 0 : head_of(mail, to, bytes);
    letter->out = (weft__outgoing){.frame = frame_of(to, buf, bytes, eager, letter->offset,
                                                     weft__mail_letter_id(letter)),
                                   .payload = buf,
                                   .sent = eager ? eager_sent : announced};
    weft__list_init(&letter->out.link);
    if (to->peer == mail->me) {
        send_self(mail, letter);
        return letter;
    }
    box->touched = true;
    letter->queued = true;
    weft__list_append(&box->letters, &letter->link);
    box->route->send(box->route, to->peer, &letter->out);
    return letter;
}

void weft__mail_send_token(weft__mail *mail, const weft__envelope *to)
{
    weft__frame frame = frame_of(to, NULL, 0, true, 0, 0);
    frame.flags = WEFT__FRAME_TOKEN;
    WEFT__ASSERT(to->channel == WEFT__CHANNEL_COLLECTIVE && to->peer != mail->me);
    if (!mail->peers[to->peer].gone) send_part(mail, to->peer, &frame, NULL, true);
}

void weft__mail_cancel_send(weft__mail *mail, weft__letter *letter)
{
    weft__peer_box *box = &mail->peers[letter->peer];
    /* Will the peer hear of it, or has it? */
    bool known = !letter->queued || letter->state == WEFT__LETTER_FLOWING || letter->out.done;
    WEFT__ASSERT(letter->state != WEFT__LETTER_FREE);
    if (!known) weft__mail_take_back(box, weft__mail_cost(&letter->out.frame));
    if (letter->queued) box->route->retract(box->route, &letter->out);
    if (letter->state == WEFT__LETTER_COPYING) {
        weft__mail_finish_want(mail, letter->want, WEFT_ERR_CANCELLED);
    } else if (known && letter->state != WEFT__LETTER_EAGER) {
        weft__frame frame = {.kind = WEFT__FRAME_RETRACT, .id = weft__mail_letter_id(letter)};
        if (letter->peer == mail->me)
            weft__mail_arrived(&mail->sink, mail->me, &frame, NULL);
        else
            tell_retracted(letter);
    }
    free_letter(mail, letter);
}

void weft__mail_end_letter(weft__mail *mail, weft__letter *letter)
{
    /* One the transport still has will be told through `sent`; its drop has done so, or a leaver's queue runs
     * out. */
    if (letter->queued)
        weft__list_remove(&letter->link);
    else
        weft__mail_finish_letter(mail, letter, WEFT_ERR_PEER);
}

void weft__mail_bye(weft__mail *mail, weft_status status, const char *why)
{
    mail->leaving_all = true;
    for (int peer = 0; peer < mail->world; peer++) {
        weft__peer_box *box = &mail->peers[peer];
        weft__frame frame = {.kind = WEFT__FRAME_BYE,
                             .tag = (int32_t)status,
                             .length = (uint32_t)strlen(why)};
        /* Whoever shares the board watches this process, and would take its end for a death. */
        bool watched = box->route && box->route->traits & WEFT__TRANSPORT_LOCAL;
        if (!box->route || box->gone || (!watched && !box->touched)) continue;
        /* Where nothing ever went, nobody can be waiting for something to be taken. */
        box->bye_awaited = box->touched;
        if (!send_part(mail, peer, &frame, why, false)) box->bye_awaited = false;
    }
}

bool weft__mail_met(const weft__mail *mail, int peer)
{
    return mail->peers[peer].touched;
}

bool weft__mail_heard(const weft__mail *mail, int peer)
{
    return mail->peers[peer].heard;
}

int weft__mail_bye_awaited(const weft__mail *mail)
{
    for (int peer = 0; peer < mail->world; peer++) {
        const weft__peer_box *box = &mail->peers[peer];
        if (box->bye_awaited && !box->gone && !box->bye_taken && !box->said_bye) return peer;
    }
    return -1;
}

bool weft__mail_bye_taken(const weft__mail *mail)
{
    return weft__mail_bye_awaited(mail) < 0;
}

/* Routes of peers that have left go when our answer to their goodbye is out. */
static void drop_routes(weft__mail *mail)
{
    for (int peer = 0; peer < mail->world && mail->leaving; peer++) {
        weft__peer_box *box = &mail->peers[peer];
        if (!box->leaving || !box->route->flushed(box->route, peer)) continue;
        WEFT__ASSERT(mail->leaving > 0, mail->leaving);
        box->leaving = false;
        mail->leaving--;
        box->route->drop(box->route, peer);
    }
}

int weft__mail_poll(weft__mail *mail)
{
    int done = 0;
    size_t moved = 0;
    for (int i = 0; i < mail->route_count; i++) done += mail->routes[i]->poll(mail->routes[i], 64);
    while (!weft__list_empty(&mail->ready) && moved < WEFT__MAIL_TURN_BYTES) {
        moved += push(mail, WEFT__LIST_ENTRY(mail->ready.next, weft__letter, ready));
        done++;
    }
    if (WEFT__UNLIKELY(mail->leaving)) drop_routes(mail);
    return done;
}

void weft__mail_hurry(weft__mail *mail)
{
    for (int i = 0; i < mail->route_count; i++)
        if (mail->routes[i]->hurry) mail->routes[i]->hurry(mail->routes[i]);
}

void weft__mail_recheck(weft__mail *mail)
{
    for (int i = 0; i < mail->route_count; i++)
        if (mail->routes[i]->recheck) mail->routes[i]->recheck(mail->routes[i]);
}

bool weft__mail_busy(const weft__mail *mail)
{
    if (!weft__list_empty(&mail->ready)) return true;
    for (int i = 0; i < mail->route_count; i++)
        if (mail->routes[i]->busy(mail->routes[i])) return true;
    return false;
}
