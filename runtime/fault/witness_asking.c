/* witness_asking.c - see witness_asking.h.  Nobody joins the thread: its file may never answer. */
#include "witness_asking.h"
#include "biased.h"
#include "clock.h"
#include "log.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS_NS  (1000 * WEFT__MS) /* for others who are always first */
#define SILENT_NS  (500 * WEFT__MS)  /* then it is said not to answer */
#define LEAVE_NS   (1000 * WEFT__MS)
#define LOOK_SHARE 4 /* looks for an answer after this part more of what it has taken so far, */
#define LOOK_LEAST (WEFT__MS)
#define LOOK_MOST  (100 * WEFT__MS)
#define BYTES_MOST WEFT__SENTENCE_BYTES /* of a word of the watchdogs */
#define VARIABLE   "WEFT_WITNESS=file:"
#define SHOWN      200 /* of a path in a sentence */
#define SECOND_NS  (1000 * WEFT__MS)

enum doing { NOT_STARTED, RESTS, ASKS, ENDS };

/* To the last question that asked for an answer. */
enum reply { NONE_YET, ANSWERED, NOTHING, FAILED, SILENT };

struct weft__witness_asking {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int holders; /* whoever made it, and the thread; the last of them frees it */
    enum doing doing;
    weft__witness_place place;
    int64_t asked_ns; /* the question that waits or is under way; 0: none */
    size_t question_bytes, begun_bytes, answer_bytes;
    bool leaves;      /* this rank */
    enum reply reply; /* SILENT: by the time alone */
    uint32_t view;    /* ANSWERED, NOTHING: in this one */
    uint64_t ballot;  /* likewise */
    char why[WEFT__SENTENCE_BYTES];
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES];
    _Alignas(weft__view_message) unsigned char question[BYTES_MOST], begun[BYTES_MOST], answer[BYTES_MOST];
};

static void let_go(weft__witness_asking *w)
{
    bool last = !--w->holders;
    pthread_mutex_unlock(&w->lock);
    if (!last) return;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

weft__witness_asking *weft__witness_asking_new(const weft__witness_place *place)
{
    weft__witness_asking *w = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    if (!w) return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->holders = 1;
    w->place = *place;
    return w;
}

static void asking_to(weft__witness_asking *w, enum doing to)
{
    WEFT__ASSERT(w->doing != ENDS && (to == RESTS || w->doing != NOT_STARTED), w->doing, to);
    w->doing = to;
}

/* ---- the thread ---- */

static const weft__view_message *word_in(const unsigned char *question)
{
    return (const void *)question;
}

/* What has no answer: it is told a view, in which nobody has asked it yet. */
static bool is_told(const unsigned char *question)
{
    return word_in(question)->word == WEFT__VIEW_IS;
}

/* Without the lock, on copies: the file may take long. */
static void ask(weft__witness_asking *w)
{
    _Alignas(weft__view_message) unsigned char question[BYTES_MOST], answer[BYTES_MOST];
    size_t bytes = w->question_bytes, answered = 0;
    weft__witness_place place = w->place;
    weft_status status;
    memcpy(question, w->question, sizeof question);
    memcpy(w->begun, w->question, bytes);
    w->begun_bytes = bytes;
    w->question_bytes = 0;
    pthread_mutex_unlock(&w->lock);
    place.until_ns = weft__now_ns() + OTHERS_NS;
    status = weft__witness_ask(&place, (const void *)question, bytes, (void *)answer, &answered);
    pthread_mutex_lock(&w->lock);
    w->place.generation = place.generation;
    w->begun_bytes = 0;
    w->view = word_in(question)->view;
    w->ballot = word_in(question)->ballot;
    w->reply = status != WEFT_OK ? FAILED : answered ? ANSWERED : is_told(question) ? NONE_YET : NOTHING;
    if (status != WEFT_OK) snprintf(w->why, sizeof w->why, "%s", weft_last_error());
    memcpy(w->answer, answer, answered);
    w->answer_bytes = answered;
    w->asked_ns = w->question_bytes ? weft__now_ns() : 0;
}

static void leave(weft__witness_asking *w)
{
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES];
    weft__witness_place place = w->place;
    weft_status status;
    memcpy(gone, w->gone, sizeof gone);
    pthread_mutex_unlock(&w->lock);
    place.until_ns = weft__now_ns() + OTHERS_NS;
    status = weft__witness_leave(&place, gone);
    if (status != WEFT_OK) weft__log(WEFT__WARN, "files of the witness may stay: %s", weft_last_error());
    pthread_mutex_lock(&w->lock);
    asking_to(w, ENDS);
    pthread_cond_signal(&w->changed);
}

static void *asking_main(void *arg)
{
    weft__witness_asking *w = arg;
    pthread_setname_np(pthread_self(), "weft-witness");
    weft__thread_number = WEFT__KEEPS_NOTHING;
    pthread_mutex_lock(&w->lock);
    while (w->doing != ENDS) {
        asking_to(w, w->question_bytes || w->leaves ? ASKS : RESTS);
        if (w->doing == RESTS)
            pthread_cond_wait(&w->changed, &w->lock);
        else if (w->question_bytes)
            ask(w);
        else
            leave(w);
    }
    let_go(w);
    return NULL;
}

/* With the lock.  False: there is no thread, with a sentence. */
static bool start(weft__witness_asking *w)
{
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    int error;
    if (w->doing != NOT_STARTED) return true;
    error = pthread_attr_init(&detached);
    if (!error) {
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&thread, &detached, asking_main, w);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&detached);
    }
    if (error) {
        w->reply = FAILED;
        snprintf(w->why, sizeof w->why, "the thread that asks the witness cannot be started (error %d)",
                 error);
        return false;
    }
    w->holders++;
    asking_to(w, RESTS);
    return true;
}

/* ---- whoever asks ---- */

/* Said again while it is asked: it would take its time once more behind the answer, and the next question wait for that. */
static bool is_under_way(const weft__witness_asking *w, const weft__view_message *word, size_t bytes)
{
    return w->begun_bytes == bytes && !w->question_bytes && !memcmp(w->begun, word, bytes);
}

/* What it has said in another view or ballot says nothing about this one; why it could not be asked may last. */
static void reply_is_of(weft__witness_asking *w, uint32_t view, uint64_t ballot)
{
    if ((w->reply == ANSWERED || w->reply == NOTHING) && (w->view != view || w->ballot != ballot))
        w->reply = NONE_YET;
}

void weft__witness_asking_ask(weft__witness_asking *w, const weft__view_message *word, size_t bytes)
{
    WEFT__ASSERT(bytes <= BYTES_MOST, bytes);
    pthread_mutex_lock(&w->lock);
    if (!is_under_way(w, word, bytes) && start(w)) {
        memcpy(w->question, word, bytes);
        w->question_bytes = bytes;
        if (!w->asked_ns) w->asked_ns = weft__now_ns();
        reply_is_of(w, word->view, word->ballot);
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
}

size_t weft__witness_asking_answer(weft__witness_asking *w, weft__view_message *answer)
{
    size_t bytes;
    pthread_mutex_lock(&w->lock);
    bytes = w->answer_bytes;
    memcpy(answer, w->answer, bytes);
    w->answer_bytes = 0;
    pthread_mutex_unlock(&w->lock);
    return bytes;
}

int64_t weft__witness_asking_next(weft__witness_asking *w, int64_t now_ns)
{
    int64_t next = WEFT__NEVER, rest;
    pthread_mutex_lock(&w->lock);
    if (w->answer_bytes) {
        next = now_ns;
    } else if (w->asked_ns) {
        rest = (now_ns - w->asked_ns) / LOOK_SHARE;
        next = now_ns + (rest < LOOK_LEAST ? LOOK_LEAST : rest > LOOK_MOST ? LOOK_MOST : rest);
    }
    pthread_mutex_unlock(&w->lock);
    return next;
}

bool weft__witness_asking_answers(weft__witness_asking *w, uint32_t view, char *text, size_t bytes)
{
    int64_t silent_ns;
    enum reply reply;
    pthread_mutex_lock(&w->lock);
    silent_ns = w->asked_ns ? weft__now_ns() - w->asked_ns : 0;
    reply_is_of(w, view, w->ballot);
    reply = silent_ns >= SILENT_NS || (w->asked_ns && w->reply == NONE_YET) ? SILENT : w->reply;
    if (reply == FAILED)
        snprintf(text, bytes, "%s", w->why);
    else if (reply == SILENT)
        snprintf(text, bytes, VARIABLE "%.*s: it has not answered for %.1f s", SHOWN, w->place.path,
                 (double)silent_ns / 1e9);
    else if (reply != ANSWERED)
        snprintf(text, bytes, VARIABLE "%.*s: %s", SHOWN, w->place.path,
                 reply == NONE_YET ? "another rank was to ask it, and has told nothing"
                                   : "it knows other members of that view");
    pthread_mutex_unlock(&w->lock);
    return reply == ANSWERED;
}

bool weft__witness_asking_has_failed(weft__witness_asking *w)
{
    bool failed;
    pthread_mutex_lock(&w->lock);
    failed = w->reply == FAILED;
    pthread_mutex_unlock(&w->lock);
    return failed;
}

void weft__witness_asking_leave(weft__witness_asking *w, const unsigned char *gone)
{
    int64_t until = weft__now_ns() + LEAVE_NS;
    struct timespec at = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
    pthread_mutex_lock(&w->lock);
    if (start(w)) {
        memcpy(w->gone, gone, sizeof w->gone);
        w->leaves = true;
        w->question_bytes = 0;
        pthread_cond_signal(&w->changed);
        while (w->doing != ENDS && !pthread_cond_timedwait(&w->changed, &w->lock, &at)) {
        }
    }
    let_go(w);
}
