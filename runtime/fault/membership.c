/* membership.c - see membership.h. */
#include "membership.h"
#include "alarm.h"
#include "engine.h"
#include "log.h"
#include "peer.h"
#include "rank_set.h"
#include "settings.h"
#include "views.h"
#include "witness_asking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Made when the first rank is presumed dead that somebody wants to leave out, or the first word of another comes. */
typedef struct membership {
    weft__views *views;
    bool changed;   /* a view has been decided, and nothing has followed yet */
    bool too_large; /* is the job for the words that would decide one */
    int told_by; /* the rank whose word came last before this one was out, or said why first; that behind the last: the witness */
    char told_why[WEFT__SENTENCE_BYTES / 4]; /* this one was presumed dead; "": nobody has said so yet */
    char
        left_out[2]
                [WEFT__SENTENCE_BYTES]; /* that this rank is out: as it was told first, and with the reason */
    weft__witness_place place;          /* WEFT_QUORUM=witness */
    bool made;                          /* by this rank, which is not in the job yet */
    weft__witness_asking *witness;      /* NULL: not by that quorum, or this rank is not in the job */
} membership;

static membership *membership_of(const weft_context *ctx)
{
    return ctx->protocol_state[WEFT__PROTOCOL_MEMBERSHIP];
}

/* Behind the word for a rank that is presumed dead here, which may live all the same; what does not fit is cut.  Who is out
 * itself presumes nobody dead. */
static void add_why(const membership *by, const weft__peer *m, weft__notice *notice)
{
    const size_t room = sizeof notice->text - notice->number;
    if (atomic_load(&m->gone) != WEFT__PRESUMED_DEAD || weft__views_state_of(by->views) == WEFT__VIEWS_OUT)
        return;
    snprintf(notice->text + notice->number, room, "%s", m->why);
    notice->messages = (uint32_t)strlen(notice->text + notice->number);
}

static void send_word(void *arg, int to, const weft__view_message *message, size_t bytes)
{
    weft__notice notice = {.kind = WEFT__NOTICE_VIEW, .subject = to, .number = bytes};
    const weft_context *ctx = arg;
    membership *m = membership_of(ctx);
    if (bytes >= sizeof notice.text) { /* a job of thousands of ranks: its deadlines speak */
        m->too_large = true;
        return;
    }
    if (to == ctx->world_size) {
        if (m->witness) weft__witness_asking_ask(m->witness, message, bytes);
        return;
    }
    memcpy(notice.text, message, bytes);
    add_why(m, &ctx->peers[to], &notice);
    weft__alarm_tell(arg, to, &notice);
}

static void note_decided(void *arg)
{
    membership_of(arg)->changed = true;
}

/* What is known of all ranks. */
static void tell_deaths(weft_context *ctx, int64_t now_ns)
{
    weft__views *views = membership_of(ctx)->views;
    for (int i = 0; i < ctx->world_size; i++) {
        weft__gone gone = atomic_load(&ctx->peers[i].gone);
        if (gone == WEFT__PRESUMED_DEAD)
            weft__views_presume_dead(views, i, now_ns);
        else if (gone > WEFT__UNREACHABLE)
            weft__views_died(views, i, now_ns);
    }
}

/* NULL: not by agreement, or no memory. */
static weft__views *views_for(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    weft__views_events events = {send_word, note_decided, ctx};
    if (!weft__by_agreement(ctx) || m->views) return m->views;
    m->views = weft__views_new(ctx->rank, ctx->world_size, ctx->quorum,
                               (uint64_t)weft__now_ns() * (uint64_t)(ctx->rank + 1), events);
    if (m->views) tell_deaths(ctx, weft__now_ns());
    return m->views;
}

/* ---- what follows from a view ---- */

bool weft__membership_is_out(const weft_context *ctx, char *text, size_t bytes)
{
    const membership *m = membership_of(ctx);
    char who[WEFT__SENTENCE_BYTES / 2];
    if (!m->views || weft__views_state_of(m->views) != WEFT__VIEWS_OUT) return false;
    if (m->told_by == ctx->world_size)
        snprintf(who, sizeof who, "the witness (WEFT_WITNESS=file:%.400s)", m->place.path);
    else
        snprintf(who, sizeof who, "rank %d", m->told_by);
    snprintf(text, bytes,
             "the job goes on without this rank (rank %d) since view %u, as %s tells, for this rank %s",
             ctx->rank, (unsigned)weft__views_number(m->views), who,
             m->told_why[0] ? m->told_why : "is presumed dead there");
    return true;
}

/* A view is asked for that leaves one of them out. */
static bool is_wanted_without(const weft_context *ctx, const int *ranks, int n)
{
    const weft__views *views = membership_of(ctx)->views;
    for (int i = 0; views && i < n; i++)
        if (atomic_load(&ctx->peers[ranks[i]].gone) == WEFT__PRESUMED_DEAD &&
            weft__views_has(views, ranks[i]))
            return true;
    return false;
}

bool weft__membership_is_stuck(const weft_context *ctx, const int *ranks, int n, char *text, size_t bytes)
{
    const membership *m = membership_of(ctx);
    char why[WEFT__SENTENCE_BYTES / 2] = "";
    bool witness;
    int members = 0, here = 0;
    if (!is_wanted_without(ctx, ranks, n)) return false;
    witness =
        m->witness && weft__witness_asking_answers(m->witness, weft__views_number(m->views), why, sizeof why);
    if (m->too_large) {
        snprintf(
            text, bytes,
            "a job of %d ranks is too large to agree on who goes on without ranks that are only presumed "
            "dead: WEFT_QUORUM=majority is for some 4,000 ranks at most, WEFT_QUORUM=any lets each rank "
            "believe what it sees",
            ctx->world_size);
        return true;
    }
    if (weft__views_state_of(m->views) == WEFT__VIEWS_OUT || weft__views_can_decide(m->views, witness))
        return false;
    for (int i = 0; i < ctx->world_size; i++) {
        members += weft__views_has(m->views, i);
        here += weft__views_has(m->views, i) && atomic_load(&ctx->peers[i].gone) == WEFT__LIVES;
    }
    snprintf(text, bytes,
             "rank %d reaches %d of the %d ranks of view %u, itself included%s%s, which are too few to go on "
             "without the others, "
             "who may do so themselves (WEFT_QUORUM=%s)",
             ctx->rank, here, members, (unsigned)weft__views_number(m->views),
             *why ? ", and not the witness: " : "", why, weft__quorum_name(ctx->quorum));
    return true;
}

/* What is asked for from now on ends in that sentence, or in the second one once the reason is known: other threads may read
 * the first one still. */
static void note_left_out(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    char *text = m->left_out[m->told_why[0] != 0];
    const char *before = atomic_load(&ctx->left_out);
    if (before == text || !weft__membership_is_out(ctx, text, sizeof m->left_out[0])) return;
    atomic_store(&ctx->left_out, text);
    weft__log(before ? WEFT__INFO : WEFT__WARN, "%s", text);
}

/* Who is not in the view is dead to this rank; whoever is left out counts all others as that. */
static void follow(weft_context *ctx)
{
    const membership *m = membership_of(ctx);
    char text[WEFT__SENTENCE_BYTES];
    unsigned number = (unsigned)weft__views_number(m->views);
    bool out = weft__membership_is_out(ctx, text, sizeof text);
    note_left_out(ctx);
    for (int i = 0; i < ctx->world_size; i++) {
        if (i == ctx->rank || (!out && weft__views_has(m->views, i))) continue;
        if (out)
            snprintf(text, sizeof text, "goes on without this rank (rank %d) since view %u: it %s", ctx->rank,
                     number, m->told_why[0] ? m->told_why : "is presumed dead there");
        else
            snprintf(text, sizeof text, "is presumed dead and not in view %u", number);
        weft__peer_gone(ctx, i, WEFT__PRESUMED_DEAD, true, text);
    }
    WEFT__EACH_PROTOCOL(ctx, p)
    {
        if (p->view_changed) p->view_changed(ctx);
    }
}

static int64_t with_the_witness(membership *m, int64_t next, int64_t now_ns)
{
    int64_t answer = m->witness ? weft__witness_asking_next(m->witness, now_ns) : WEFT__NEVER;
    return answer < next ? answer : next;
}

/* After each word to the views: what has been decided, and when they want to be called again. */
static void settle(weft_context *ctx, int64_t now_ns)
{
    membership *m = membership_of(ctx);
    int64_t next = weft__views_check(m->views, now_ns);
    WEFT__ASSERT(weft__holds_engine(ctx));
    while (m->changed) {
        m->changed = false;
        follow(ctx);
    }
    next = with_the_witness(m, next, now_ns);
    if (next != WEFT__NEVER) weft__alarm_check(ctx, next);
}

/* ---- what asks for one ---- */

bool weft__membership_agrees(weft_context *ctx, const int *ranks, int n)
{
    const weft__views *views = membership_of(ctx)->views;
    int64_t now = weft__now_ns();
    bool agrees = !views || weft__views_state_of(views) != WEFT__VIEWS_OUT;
    if (!weft__by_agreement(ctx)) return true;
    for (int i = 0; i < n && agrees; i++)
        if (atomic_load(&ctx->peers[ranks[i]].gone) == WEFT__PRESUMED_DEAD)
            agrees = views && !weft__views_has(views, ranks[i]);
    if (!agrees && views_for(ctx)) {
        weft__views_want(membership_of(ctx)->views, now);
        settle(ctx, now);
    }
    return agrees;
}

static void note_teller(membership *m, int from, const char *why)
{
    m->told_by = from;
    snprintf(m->told_why, sizeof m->told_why, "%.250s", why);
}

static void take_answer(weft_context *ctx, int64_t now_ns)
{
    _Alignas(weft__view_message) unsigned char answer[WEFT__SENTENCE_BYTES];
    membership *m = membership_of(ctx);
    size_t bytes = weft__witness_asking_answer(m->witness, (void *)answer);
    if (!bytes) return;
    if (weft__views_state_of(m->views) != WEFT__VIEWS_OUT) note_teller(m, ctx->world_size, "");
    if (!weft__views_take(m->views, ctx->world_size, (const void *)answer, bytes, now_ns))
        weft__log(WEFT__WARN, "the witness answers what no witness says (WEFT_WITNESS=file:%.400s)",
                  m->place.path);
}

int64_t weft__membership_check(weft_context *ctx, int64_t now_ns)
{
    membership *m = membership_of(ctx);
    if (!m->views) return WEFT__NEVER;
    if (m->witness) take_answer(ctx, now_ns);
    if (m->witness && weft__witness_asking_has_failed(m->witness)) weft__views_witness_fails(m->views);
    settle(ctx, now_ns);
    return with_the_witness(m, weft__views_check(m->views, now_ns), now_ns);
}

/* ---- the protocol ---- */

/* From a rank that is dead to this one, only what tells of a view, asks which this one has, or asks for one that is over. */
static bool is_heard(const weft_context *ctx, int from, const weft__view_message *word)
{
    const weft__views *views = membership_of(ctx)->views;
    return !weft__is_gone(&ctx->peers[from]) || word->word == WEFT__VIEW_IS ||
           word->word == WEFT__VIEW_WHICH || word->view != weft__views_number(views);
}

static void take_word(weft_context *ctx, int from, const weft__notice *notice)
{
    _Alignas(weft__view_message) unsigned char word[sizeof notice->text];
    membership *m = membership_of(ctx);
    int64_t now = weft__now_ns();
    if (from == ctx->rank || !views_for(ctx)) return;
    memcpy(word, notice->text, sizeof word);
    if (!is_heard(ctx, from, (const void *)word)) return;
    if (weft__views_state_of(m->views) != WEFT__VIEWS_OUT || (!m->told_why[0] && notice->messages))
        note_teller(m, from, notice->text + notice->number);
    note_left_out(ctx);
    if (!weft__views_take(m->views, from, (const void *)word, notice->number, now))
        weft__peer_refused(ctx, from, "a word about views that no rank says");
    settle(ctx, now);
}

static void membership_notice(weft_context *ctx, int from, const weft__notice *notice)
{
    weft__engine_take(ctx);
    take_word(ctx, from, notice);
    weft__engine_drop(ctx);
}

static void membership_peer_gone(weft_context *ctx, int rank, const char *why)
{
    int64_t now = weft__now_ns();
    (void)rank;
    (void)why;
    if (!membership_of(ctx)->views) return;
    tell_deaths(ctx, now);
    settle(ctx, now);
}

/* ---- the witness, from joining to leaving ---- */

weft_status weft__membership_make_witness(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    weft_status status;
    if (ctx->quorum != WEFT__QUORUM_WITNESS) return WEFT_OK;
    status = weft__witness_read(weft__setting_text(WEFT__SET_WITNESS), &m->place);
    if (status != WEFT_OK) return status;
    snprintf(m->place.run, sizeof m->place.run, "%s", weft__rendezvous_nonce(ctx->rendezvous));
    m->place.rank = ctx->rank;
    m->place.ranks = ctx->world_size;
    if (ctx->rank != 0) return WEFT_OK;
    status = weft__witness_make(&m->place);
    m->made = status == WEFT_OK;
    return status;
}

weft_status weft__membership_try_witness(weft_context *ctx)
{
    if (ctx->quorum != WEFT__QUORUM_WITNESS || ctx->peers[ctx->rank].first_on_host != ctx->rank)
        return WEFT_OK;
    return weft__witness_try(&membership_of(ctx)->place);
}

weft_status weft__membership_join(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    weft__witness_asking *witness;
    if (ctx->quorum != WEFT__QUORUM_WITNESS) return WEFT_OK;
    witness = weft__witness_asking_new(&m->place);
    if (!witness) return weft__fail_memory(sizeof *m, "asking the witness");
    weft__engine_take(ctx);
    m->witness = witness;
    m->made = false;
    weft__engine_drop(ctx);
    return WEFT_OK;
}

/* The engine is not held: its disk may take its time. */
static void leave_witness(const weft_context *ctx, weft__witness_asking *witness)
{
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES] = {0};
    if (!witness) return;
    for (int i = 0; i < ctx->world_size; i++) {
        weft__gone how = atomic_load(&ctx->peers[i].gone);
        if (how == WEFT__LEFT || how == WEFT__DIED) weft__set_add(gone, i);
    }
    weft__witness_asking_leave(witness, gone);
}

void weft__membership_leave_at_exit(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    weft__witness_asking *witness;
    weft__engine_take(ctx);
    witness = m->witness;
    m->witness = NULL;
    weft__engine_drop(ctx);
    leave_witness(ctx, witness);
}

static weft_status open_membership(weft_context *ctx)
{
    ctx->protocol_state[WEFT__PROTOCOL_MEMBERSHIP] = calloc(1, sizeof(membership));
    return membership_of(ctx) ? WEFT_OK : weft__fail_memory(sizeof(membership), "who is in the job");
}

static void close_membership(weft_context *ctx)
{
    membership *m = membership_of(ctx);
    if (!m) return;
    if (m->made) weft__witness_remove(&m->place);
    leave_witness(ctx, m->witness);
    weft__views_free(m->views);
    atomic_store(&ctx->left_out, NULL);
    free(m);
}

const weft__protocol weft__membership_protocol = {.name = "who is in the job",
                                                  .first_notice = WEFT__NOTICE_VIEW,
                                                  .last_notice = WEFT__NOTICE_VIEW,
                                                  .open = open_membership,
                                                  .close = close_membership,
                                                  .notice = membership_notice,
                                                  .peer_gone = membership_peer_gone,
                                                  .peer_certain = membership_peer_gone};
