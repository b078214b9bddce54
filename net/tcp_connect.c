/* tcp_connect.c - a connection that this rank makes, from the first frame for a peer, or the end of the connection
 * before (tcp_mend.c), to its verdict.
 *
 *     GREETING  hello goes out as soon as the socket is connected
 *     ANSWER    the acceptor proves that it knows the secret
 *     PROVING   so do we
 *     VERDICT   one byte; TAKEN: frames flow.  CROSSED: both dialled, and the other's is kept
 *     PAUSED    the acceptor closed too early (it was flooded by strangers, or is short of memory): it is
 *               tried again soon
 *     AWAITING  the connection that the lower rank is making.  That rank may die before it has made it, and
 *               nothing is left then that would tell: so it is dialled again now and then, which is refused
 *               where it is gone, and answered with CROSSED as long as it is at it, however long: who answers lives
 *
 * One that was let go of and lives (ASTRAY) is tried for ever, each second or so, until the runtime drops it.
 *
 * A member listens from before it joins until it leaves, so a refused address means that it is gone.  One that
 * cannot be reached may be so for a moment: it is tried some times; a connection that broke is tried again until
 * WEFT_RECONNECT_MS are over, whatever goes wrong, or its host is lost (hearing.h).  A member may be slow: stopped,
 * without a processor, or without what it would accept a connection with.  Where its kernel takes one, the first or one
 * made anew, it is late and not lost, however long, and that connection is kept: it is reset where the rank goes, and ends
 * where its host does (keepalive), while one more now and then would fill the queue of a rank that accepts none. */
#include "clock.h"
#include "log.h"
#include "reserve.h"
#include "settings.h"
#include "status.h"
#include "tcp_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PAUSE_MIN_MS  10
#define PAUSE_MAX_MS  1000
#define PAUSE_MEND_MS 100 /* the longest, where a connection broke */
#define UNHEARD_MS \
    2000 /* of one attempt until the other's kernel has answered, where there was a connection: this kernel asks at once and after a second,
          * and then, before Linux 6.5, not for two and four more, while the way may be back */
#define HOPEFUL_MS \
    1000 /* without such an answer; then the other rank's own connection is as likely to be the one that comes */
#define AWAIT_MS 200 /* for the other's connection, before it is dialled again */
#define UNPROVEN_MOST \
    3 /* attempts at somebody who does not prove what a member can: bytes may change on their way */

static const char proves_not[] =
    "does not prove that it is that rank and knows the job's secret, or what it said was changed on its way";
static const char closes_early[] = "closes every connection before the handshake is done";

typedef enum dial_step { PAUSED, GREETING, ANSWER, PROVING, VERDICT, AWAITING } dial_step;

/* What may follow on each step.  A dial begins as PAUSED: nothing has been tried yet. */
static const uint8_t dial_follows[] = {[PAUSED] = WEFT__MAY_BECOME(PAUSED) | WEFT__MAY_BECOME(GREETING),
                                       [GREETING] = WEFT__MAY_BECOME(ANSWER) | WEFT__MAY_BECOME(PAUSED),
                                       [ANSWER] = WEFT__MAY_BECOME(PROVING) | WEFT__MAY_BECOME(PAUSED),
                                       [PROVING] = WEFT__MAY_BECOME(VERDICT) | WEFT__MAY_BECOME(PAUSED),
                                       [VERDICT] = WEFT__MAY_BECOME(AWAITING) | WEFT__MAY_BECOME(PAUSED),
                                       [AWAITING] = WEFT__MAY_BECOME(GREETING) | WEFT__MAY_BECOME(PAUSED)};

struct weft__tcp_dial {
    weft__polled polled; /* fd -1 while PAUSED or AWAITING */
    weft__list link;     /* in tcp->dials */
    weft__tcp_peer *peer;
    dial_step step;
    int attempts;
    int unanswered;        /* of these, since somebody there has proved that it knows the secret */
    bool wants;            /* the last one ended for want of something here */
    int64_t deadline_ns;   /* of this step: give up; PAUSED, AWAITING: try again */
    int64_t mend_until_ns; /* a connection broke: gives up then; 0: there was none */
    bool anew;             /* that time has begun anew */
    bool late;             /* this attempt has waited longer for the other rank than any step may take */
    int64_t began_ns;      /* this attempt */
    int64_t unheard_ns;    /* no kernel has answered since; 0: one has */
    size_t done;           /* bytes of this step */
    weft__tcp_looks looks;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    weft__tcp_judgement judgement;
    weft__tcp_handshake handshake; /* wiped with each attempt */
    weft__tcp_link *made;          /* what it becomes if it is taken; NULL: it has not come that far */
    char broke[WEFT__TCP_WHY];     /* what the connection broke with */
    char want[128];                /* the last thing that this process lacked */
};

/* The one place that stores a dial's step; each begins with its first byte. */
static void dial_to(weft__tcp_dial *dial, dial_step to)
{
    WEFT__ASSERT(WEFT__ALLOWS(dial_follows, dial->step, to), dial->peer->rank, dial->step, to);
    dial->step = to;
    dial->done = 0;
}

static int64_t patience_ns(void)
{
    return weft__now_ns() + WEFT__TCP_PATIENCE * weft__setting_int(WEFT__SET_HANDSHAKE_MS) * WEFT__MS;
}

static int64_t mend_until(void)
{
    return weft__now_ns() + weft__setting_int(WEFT__SET_RECONNECT_MS) * WEFT__MS;
}

static void limit(weft__tcp_dial *dial, int64_t deadline_ns)
{
    dial->deadline_ns = deadline_ns;
    weft__tcp_wake_at(dial->peer->tcp, deadline_ns);
}

static void close_attempt(weft__tcp_dial *dial)
{
    sodium_memzero(&dial->handshake, sizeof dial->handshake);
    if (dial->made) weft__list_append(&dial->peer->tcp->closed, &dial->made->queued);
    dial->made = NULL;
    if (dial->polled.fd < 0) return;
    weft__poller_remove(dial->peer->tcp->poller, &dial->polled);
    close(dial->polled.fd);
    dial->polled.fd = -1;
}

static void put_off_no_more(weft__tcp_peer *peer)
{
    if (peer->put_off) peer->tcp->put_off--;
    peer->put_off = false;
}

void weft__tcp_dial_end(weft__tcp_peer *peer)
{
    weft__tcp_dial *dial = peer->dial;
    put_off_no_more(peer);
    if (!dial) return;
    close_attempt(dial);
    weft__list_remove(&dial->link);
    peer->dial = NULL;
    weft__reserve_give(dial);
}

static void lose(weft__tcp_peer *peer, const char *what, int error)
{
    const weft__tcp_dial *dial = peer->dial;
    char text[WEFT__TCP_TEXT], why[128], early[160];
    weft__tcp_address_text(&peer->address, text);
    if (what == closes_early) {
        snprintf(early, sizeof early, "%s, where this rank says that it is rank %d", closes_early,
                 peer->tcp->me);
        what = early;
    }
    if (dial && peer->state == WEFT__TCP_ASTRAY && error == ECONNREFUSED)
        weft__tcp_lose(peer, "%s, and its host refuses connections to it", dial->broke);
    else if (dial && dial->mend_until_ns &&
             error == ECONNREFUSED) /* that it has died is said by how it broke */
        weft__tcp_lose(peer, "%s", dial->broke);
    else if (dial && dial->mend_until_ns)
        weft__tcp_lose(peer, "%s; at %s it %s%s%s", dial->broke, text, what, error ? ": " : "",
                       error ? strerror_r(error, why, sizeof why) : "");
    else if (error)
        weft__tcp_lose(peer, "rank %d at %s %s: %s", peer->rank, text, what,
                       strerror_r(error, why, sizeof why));
    else
        weft__tcp_lose(peer, "rank %d at %s %s", peer->rank, text, what);
}

static bool is_last(const weft__tcp_dial *dial, int64_t now_ns)
{
    if (dial->peer->state == WEFT__TCP_ASTRAY) return false;
    return dial->mend_until_ns ? now_ns >= dial->mend_until_ns : dial->unanswered >= WEFT__TCP_DIALS;
}

/* An attempt that ends after most of that time has waited for a rank that stood still, or this rank did: what is left of it
 * says nothing of the next attempt, and it begins anew: once, or whenever the other one is known to have been late. */
static void begin_time_anew(weft__tcp_dial *dial, int64_t now_ns)
{
    const int64_t all_ns = weft__setting_int(WEFT__SET_RECONNECT_MS) * WEFT__MS;
    if (!dial->mend_until_ns || (dial->anew && !dial->late) || dial->step == PAUSED || dial->unheard_ns ||
        now_ns - dial->began_ns <= all_ns / 2)
        return;
    dial->anew = true;
    dial->mend_until_ns = now_ns + all_ns;
}

static int64_t longest_pause_ms(const weft__tcp_dial *dial)
{
    return dial->mend_until_ns && dial->peer->state != WEFT__TCP_ASTRAY ? PAUSE_MEND_MS : PAUSE_MAX_MS;
}

/* At most a quarter of the time that is left, so that some of it is for the attempt. */
static int64_t next_pause_ns(const weft__tcp_dial *dial, int64_t now_ns)
{
    const int64_t longest = longest_pause_ms(dial), left_ns = dial->mend_until_ns - now_ns;
    int64_t pause_ms = longest;
    if (dial->wants)
        pause_ms = PAUSE_MEND_MS;
    else if (dial->attempts < 8 && PAUSE_MIN_MS << (dial->attempts - 1) < longest)
        pause_ms = PAUSE_MIN_MS << (dial->attempts - 1);
    if (!dial->mend_until_ns || dial->peer->state == WEFT__TCP_ASTRAY || pause_ms * WEFT__MS <= left_ns / 4)
        return pause_ms * WEFT__MS;
    return left_ns / 4 > WEFT__MS ? left_ns / 4 : WEFT__MS;
}

static void pause_dial(weft__tcp_dial *dial, const char *what, int error)
{
    const int64_t now = weft__now_ns();
    close_attempt(dial);
    begin_time_anew(dial, now);
    if (is_last(dial, now)) {
        lose(dial->peer, what, error);
        return;
    }
    dial_to(dial, PAUSED);
    limit(dial, now + next_pause_ns(dial, now));
}

/* The attempt ends for want of something here.  That says nothing of the other rank: it is none of the attempts, nor does that
 * rank's silence begin with it, nor the time in which a connection that broke is to stand again.  What has a deadline is ended by
 * that. */
static void pause_in_want(weft__tcp_dial *dial, const char *what, int error)
{
    char why[128];
    const bool told = dial->want[0];
    snprintf(dial->want, sizeof dial->want, "%s", error ? strerror_r(error, why, sizeof why) : what);
    if (!told)
        weft__log(WEFT__WARN, "tcp: rank %d cannot connect to rank %d, and goes on trying: %s",
                  dial->peer->tcp->me, dial->peer->rank, dial->want);
    dial->wants = true;
    dial->attempts--;
    if (dial->unanswered) dial->unanswered--;
    dial->unheard_ns = 0;
    if (dial->mend_until_ns) dial->mend_until_ns = mend_until();
    pause_dial(dial, what, error);
}

/* What ends the peer, unless it was let go of and lives: that one is tried again. */
static void give_up(weft__tcp_dial *dial, const char *what, int error)
{
    if (dial->peer->state == WEFT__TCP_ASTRAY)
        pause_dial(dial, what, error);
    else
        lose(dial->peer, what, error);
}

/* A router may say so of a link that is down for a moment. */
static bool may_pass(const weft__tcp_dial *dial, int error)
{
    const int64_t most_ns = weft__setting_int(WEFT__SET_RECONNECT_MS) * WEFT__MS;
    if (error != ENETUNREACH && error != EHOSTUNREACH && error != ENETDOWN) return false;
    return dial->unheard_ns && weft__now_ns() < dial->unheard_ns + most_ns;
}

/* What would end a peer that there was no connection with yet. */
static void fail(weft__tcp_dial *dial, const char *what, int error)
{
    if ((dial->mend_until_ns && error != ECONNREFUSED) || may_pass(dial, error))
        pause_dial(dial, what, error);
    else
        lose(dial->peer, what, error);
}

static void unproven(weft__tcp_dial *dial)
{
    const bool again = weft__setting_int(WEFT__SET_RECONNECT_MS) > 0;
    if (dial->mend_until_ns || (again && dial->attempts < UNPROVEN_MOST))
        pause_dial(dial, proves_not, 0);
    else
        lose(dial->peer, proves_not, 0);
}

/* The two are at different courses: whoever is behind lets go of its own, and this end dials again.  It may itself have
 * gone on since it told where it stands. */
static void agree_on_course(weft__tcp_dial *dial, uint32_t theirs)
{
    weft__tcp_peer *peer = dial->peer;
    const bool follows = theirs > peer->course;
    const bool is_other = follows && peer->state != WEFT__TCP_ASTRAY; /* it is another dial by then */
    if (follows) (void)weft__tcp_follow(peer, theirs);
    if (!is_other) pause_dial(dial, "begins anew", 0);
}

static void judged(weft__tcp_dial *dial)
{
    weft__tcp_peer *peer = dial->peer;
    weft__tcp_link *link;
    weft__tcp_standing theirs;
    uint8_t verdict;
    if (!weft__tcp_verdict_take(&dial->handshake, &dial->judgement, &verdict, &theirs)) {
        unproven(dial);
    } else if (verdict == WEFT__TCP_BEHIND || (verdict == WEFT__TCP_TAKEN && theirs.course != peer->course)) {
        agree_on_course(dial, theirs.course);
    } else if (verdict == WEFT__TCP_TAKEN) {
        link = dial->made;
        dial->made = NULL;
        weft__tcp_link_take_keys(link, &dial->handshake);
        link->dialled = true;
        weft__tcp_keep_alive(dial->polled.fd, false);
        weft__tcp_link_take_over(link, &dial->polled);
        weft__tcp_link_start(link, &theirs); /* this dial is no more */
    } else if (verdict == WEFT__TCP_CROSSED && peer->rank < peer->tcp->me) {
        close_attempt(dial);
        dial_to(dial, AWAITING);
        limit(dial, weft__now_ns() + AWAIT_MS * WEFT__MS);
    } else if (verdict == WEFT__TCP_UNWANTED) {
        lose(peer, "refuses the connection: it counts this rank as gone", 0);
    } else {
        lose(peer, "broke the rules of the handshake", 0);
    }
}

static weft__tcp_step tcp_connect_advance(weft__tcp_dial *dial)
{
    const int fd = dial->polled.fd;
    switch (dial->step) {
    case GREETING: return weft__tcp_step_write(fd, &dial->hello, sizeof dial->hello, &dial->done);
    case ANSWER: return weft__tcp_step_read(fd, &dial->answer, sizeof dial->answer, &dial->done);
    case PROVING: return weft__tcp_step_write(fd, &dial->proof, sizeof dial->proof, &dial->done);
    case VERDICT: return weft__tcp_step_read(fd, &dial->judgement, sizeof dial->judgement, &dial->done);
    case PAUSED:
    case AWAITING: break;
    }
    return WEFT__STEP_WAIT;
}

/* Its kernel has taken the connection: a rank that is stopped is late, and not lost.  Its host may vanish meanwhile, which
 * ends the attempt. */
static void be_patient(weft__tcp_dial *dial)
{
    const int64_t until = patience_ns();
    weft__tcp_keep_alive(dial->polled.fd, true);
    if (dial->deadline_ns < until) limit(dial, until);
}

/* It has answered, if only after it stood still for long: what goes wrong from here on is tried again, and
 * never too often, after pauses as long as they have become: once a second where its connections end without a verdict. */
static void lives_on(weft__tcp_dial *dial)
{
    dial->unanswered = 0;
    if (dial->mend_until_ns) dial->mend_until_ns = mend_until();
}

/* False: the dial is over. */
static bool next_step(weft__tcp_dial *dial)
{
    weft__tcp_peer *peer = dial->peer;
    if (dial->step == VERDICT) {
        judged(dial);
        return false;
    }
    if (dial->step == ANSWER) {
        const weft__tcp_standing mine = weft__tcp_stand(peer);
        if (!weft__tcp_answer_take(&dial->handshake, &dial->answer)) {
            unproven(dial);
            return false;
        }
        lives_on(dial);
        dial->made = weft__tcp_link_new(peer);
        if (!dial->made) { /* before the proof: a connection that is taken and ends counts as one that came to nothing there */
            pause_in_want(dial, "cannot be connected to", ENOMEM);
            return false;
        }
        weft__tcp_proof_make(&dial->handshake, &mine, &dial->proof);
    }
    if (dial->step == GREETING) be_patient(dial);
    dial->unheard_ns = 0;
    dial_to(dial, dial->step == GREETING ? ANSWER : dial->step == ANSWER ? PROVING : VERDICT);
    /* It came late, or was looked at late. */
    if (dial->deadline_ns <= weft__now_ns()) limit(dial, patience_ns());
    return true;
}

static void dial_ready(weft__polled *w, uint32_t events)
{
    weft__tcp_dial *dial = WEFT__OWNER(w, weft__tcp_dial, polled);
    weft__tcp_step step;
    int error = 0;
    socklen_t length = sizeof error;
    dial->looks.made++;
    if (dial->step == GREETING && (events & (EPOLLERR | EPOLLHUP))) {
        getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        /* Reset after it stood: that was the acceptor, which may have been flooded. */
        if (!error || error == ECONNRESET || error == EPIPE) {
            dial->unheard_ns = 0;
            pause_dial(dial, closes_early, error);
        } else
            fail(dial, "cannot be connected to", error);
        return;
    }
    do step = tcp_connect_advance(dial);
    while (step == WEFT__STEP_DONE && next_step(dial));
    if (step == WEFT__STEP_ENDED) pause_dial(dial, closes_early, errno);
}

/* An attempt that begins has so long until the kernel at the other end has answered. */
static int64_t asked_until(const weft__tcp_dial *dial)
{
    const int64_t most_ns = dial->began_ns + UNHEARD_MS * WEFT__MS;
    if (dial->peer->state == WEFT__TCP_ASTRAY) return most_ns;
    if (dial->mend_until_ns) return dial->mend_until_ns < most_ns ? dial->mend_until_ns : most_ns;
    return patience_ns();
}

static void attempt(weft__tcp_dial *dial)
{
    weft__tcp_peer *peer = dial->peer;
    struct sockaddr_storage name;
    socklen_t length = weft__tcp_name(&peer->address, &name);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    dial->wants = dial->late = false;
    dial->attempts++;
    dial->unanswered++;
    dial->began_ns = weft__now_ns();
    if (!dial->unheard_ns) dial->unheard_ns = dial->began_ns;
    if (fd < 0) {
        pause_in_want(dial, "cannot be connected to", errno);
        return;
    }
    weft__tcp_socket_options(fd);
    if (connect(fd, (struct sockaddr *)&name, length) && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        if (weft__tcp_is_own_want(error)) /* and not what the network says */
            pause_in_want(dial, "cannot be connected to", error);
        else
            fail(dial, "cannot be connected to", error);
        return;
    }
    dial->polled.fd = fd;
    if (weft__poller_add(peer->tcp->poller, &dial->polled, EPOLLIN | EPOLLOUT | EPOLLRDHUP)) {
        close(fd);
        dial->polled.fd = -1;
        pause_in_want(dial, weft_last_error(), 0);
        return;
    }
    dial_to(dial, GREETING);
    dial->looks.made++; /* it is another one */
    /* Fresh for every attempt: a key is used once. */
    if (!weft__tcp_hello_make(&dial->handshake, peer->tcp->keys, peer->tcp->me, peer->rank, peer->wire,
                              &dial->hello)) {
        fail(dial, "has told a key with which nothing can be proved", 0);
        return;
    }
    limit(dial, asked_until(dial));
}

/* Neither malloc nor the reserve has memory for it, which says nothing of that rank: so it is tried for as long as that lasts. */
static void put_off(weft__tcp_peer *peer)
{
    WEFT__ASSERT(!peer->put_off && !peer->dial, peer->rank);
    peer->put_off = true;
    peer->tcp->put_off++;
    weft__tcp_wake_at(peer->tcp, weft__now_ns() + PAUSE_MEND_MS * WEFT__MS);
}

static void begin_put_off(weft__tcp *tcp)
{
    for (int i = 0; i < tcp->world && tcp->put_off; i++) {
        weft__tcp_peer *peer = &tcp->peer[i];
        if (!peer->put_off) continue;
        weft__tcp_dial_begin(peer, peer->state == WEFT__TCP_DIALLING ? NULL : "its connection was over");
    }
}

/* NULL: it is put off, or the peer is lost. */
static weft__tcp_dial *dial_new(weft__tcp_peer *peer, const char *why)
{
    weft__tcp_dial *dial;
    put_off_no_more(peer); /* a guest that came meanwhile may have gone again before the alarm */
    if ((peer->address.family != 4 && peer->address.family != 6) || !peer->address.port) {
        weft__tcp_lose(peer, "rank %d cannot be reached: it has no TCP address", peer->rank);
        return NULL;
    }
    WEFT__ASSERT(!peer->dial, peer->rank, peer->state);
    if (peer->state == WEFT__TCP_IDLE) weft__tcp_peer_to(peer, WEFT__TCP_DIALLING);
    dial = weft__reserve_zeroed(sizeof *dial);
    if (!dial) {
        put_off(peer);
        return NULL;
    }
    dial->polled = (weft__polled){.fd = -1, .ready = dial_ready};
    dial->peer = peer;
    peer->dial = dial;
    if (why) {
        dial->mend_until_ns = mend_until();
        snprintf(dial->broke, sizeof dial->broke, "%s", why);
    }
    weft__list_init(&dial->link);
    weft__list_append(&peer->tcp->dials, &dial->link);
    return dial;
}

void weft__tcp_dial_begin(weft__tcp_peer *peer, const char *why)
{
    weft__tcp_dial *dial = dial_new(peer, why);
    if (dial) attempt(dial);
}

void weft__tcp_dial_begin_in_want(weft__tcp_peer *peer, const char *why, int error)
{
    weft__tcp_dial *dial = dial_new(peer, why);
    if (!dial) return;
    dial->attempts = dial->unanswered = 1; /* the connection itself, which is none */
    pause_in_want(dial, "cannot be connected to", error);
}

static uint32_t dial_events(const weft__tcp_dial *dial)
{
    bool writes = dial->step == GREETING || dial->step == PROVING;
    return dial->polled.fd < 0 ? 0 : weft__tcp_ready(dial->polled.fd, writes ? POLLOUT : POLLIN);
}

static weft__tcp_dial *find_due(weft__tcp *tcp, int64_t now_ns)
{
    WEFT__LIST_EACH(&tcp->dials, at)
    {
        weft__tcp_dial *dial = WEFT__LIST_ENTRY(at, weft__tcp_dial, link);
        if (dial->deadline_ns <= now_ns) return dial;
    }
    return NULL;
}

/* So late does this rank come to what it was to try again: it was stopped, or had no processor.  Who was not run has not tried, and
 * what has come for it meanwhile has not been seen. */
static void leave_out(weft__tcp_dial *dial, int64_t late_ns)
{
    if (dial->mend_until_ns) dial->mend_until_ns += late_ns;
}

/* Before it is judged: what it waits for may lie in its socket.  False: it does not, or a kernel without memory takes nothing from
 * here though it says that it would.  stands: the connection does. */
static bool take_what_has_come(weft__tcp_dial *dial, bool *stands)
{
    const weft__tcp_peer *peer = dial->peer;
    const dial_step step = dial->step;
    const size_t done = dial->done;
    const int64_t deadline_ns = dial->deadline_ns;
    const uint32_t events = dial_events(dial);
    if (events) dial_ready(&dial->polled, events);
    if (peer->dial != dial || dial->step != step || dial->done != done || dial->deadline_ns != deadline_ns)
        return true;
    *stands = events || step > GREETING;
    return false;
}

/* Its kernel took the connection, and tells by it if the rank goes. */
static void wait_for_the_silent(weft__tcp_dial *dial)
{
    dial->late = true;
    dial->unanswered = 0;
    if (dial->mend_until_ns) dial->mend_until_ns = mend_until();
    if (weft__tcp_is_acknowledged(dial->polled.fd))
        limit(dial, patience_ns());
    else
        pause_dial(dial, "takes too long over the handshake", 0);
}

/* From the start after each: what losing a peer calls may end any dial. */
void weft__tcp_dials_due(weft__tcp *tcp, int64_t now_ns)
{
    weft__tcp_dial *dial;
    begin_put_off(tcp);
    while ((dial = find_due(tcp, now_ns))) {
        const bool waits = dial->step == PAUSED || dial->step == AWAITING;
        bool stands;
        if (waits) leave_out(dial, now_ns - dial->deadline_ns);
        if (take_what_has_come(dial, &stands)) continue;
        if (stands && !waits) {
            wait_for_the_silent(dial);
        } else if (waits) {
            if (dial->step == AWAITING) dial->attempts = dial->unanswered = 0;
            attempt(dial);
        } else if (dial->mend_until_ns) { /* another one, if there is time left for it */
            pause_dial(dial, "cannot be connected to", ETIMEDOUT);
        } else {
            give_up(dial, "cannot be connected to", ETIMEDOUT);
        }
    }
    WEFT__LIST_EACH(&tcp->dials, at)
    weft__tcp_wake_at(tcp, WEFT__LIST_ENTRY(at, weft__tcp_dial, link)->deadline_ns);
}

int64_t weft__tcp_dial_unheard(const weft__tcp_peer *peer)
{
    return peer->dial ? peer->dial->unheard_ns : 0;
}

/* No guest is given longer, so after that it is turned away even where it comes to be heard. */
bool weft__tcp_dial_is_hopeful(const weft__tcp_peer *peer)
{
    const int64_t most_ns = weft__setting_int(WEFT__SET_HANDSHAKE_MS) * WEFT__MS, now = weft__now_ns();
    const weft__tcp_dial *dial = peer->dial;
    if (!dial || dial->polled.fd < 0) return false;
    if (dial->unheard_ns && now - dial->unheard_ns >= HOPEFUL_MS * WEFT__MS) return false;
    return now - dial->began_ns < most_ns;
}

const char *weft__tcp_dial_want(const weft__tcp_peer *peer)
{
    if (peer->put_off) return "there is no memory for it";
    return peer->dial && peer->dial->wants ? peer->dial->want : NULL;
}

void weft__tcp_dial_note(weft__tcp_peer *peer)
{
    if (peer->dial) weft__tcp_looks_note(&peer->dial->looks, dial_events(peer->dial));
}

void weft__tcp_dial_recheck(weft__tcp_peer *peer)
{
    weft__tcp_dial *dial = peer->dial;
    if (!dial || dial->polled.fd < 0 || !weft__tcp_looks_missed(&dial->looks)) return;
    weft__log(WEFT__WARN,
              "tcp: the handshake with rank %d could go on, and nothing told of that: it does now",
              peer->rank);
    dial_ready(&dial->polled, dial_events(dial));
}
