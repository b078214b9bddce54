/* script.c - rules that are read once and then counted down by the calls that they name.
 *
 * Without a script a call costs one load.  What hangs waits under no lock but the script's own condition. */
#include "script.h"
#include "count.h"
#include "device.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum { RULE_ERROR, RULE_VALUE, RULE_DELAY, RULE_HANG, RULE_STUCK, RULE_DIE } rule_kind;
typedef enum { WHERE_ANY, WHERE_RANK, WHERE_DEVICE } rule_where;

typedef struct rule {
    struct rule *next;
    char name[64];
    rule_where where;
    int where_number;
    uint64_t first, step; /* the first call it applies to, and every step-th after that; 0: only the first */
    rule_kind kind;
    int number;   /* error, value or milliseconds; of a hang -1: for ever */
    bool stays;   /* an error */
    uint64_t met; /* calls seen so far */
    bool applied; /* to one of them at least */
} rule;

typedef struct { /* what a rule that applies asks for */
    rule_kind kind;
    int number;
    bool stays;
} deed;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static uint64_t releases;
static int hanging;         /* calls that wait for one */
static rule *rules;         /* under the lock */
static _Atomic bool active; /* there are rules */
static pthread_once_t once = PTHREAD_ONCE_INIT;

_Noreturn static void bad_rule(const char *text, const char *expected)
{
    fprintf(stderr, "emulation: CUDA_EMULATION_SCRIPT: \"%s\": expected %s\n", text, expected);
    fflush(NULL);
    _exit(EMU__SCRIPT_STATUS);
}

/* A number at *at, which then points behind it. */
static bool number_at(const char **at, int *number)
{
    char *end;

    if (!isdigit((unsigned char)**at)) return false;
    errno = 0;
    long value = strtol(*at, &end, 10);
    if (errno || value > INT_MAX) return false;
    *number = (int)value;
    *at = end;
    return true;
}

static bool word_at(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*at, word, length) != 0) return false;
    *at += length;
    return true;
}

static void read_where(rule *made, const char **at, const char *text)
{
    const char *start = *at;
    rule_where where = WHERE_ANY;

    if (word_at(at, "rank"))
        where = WHERE_RANK;
    else if (word_at(at, "dev"))
        where = WHERE_DEVICE;
    if (where == WHERE_ANY || !isdigit((unsigned char)**at)) { /* a name that begins so */
        *at = start;
        return;
    }
    if (!number_at(at, &made->where_number) || !word_at(at, ":"))
        bad_rule(text, "rankN: or devN: before the name");
    made->where = where;
}

static void read_when(rule *made, const char **at, const char *text)
{
    int number = 1;

    if (word_at(at, "*")) {
        if (isdigit((unsigned char)**at) && (!number_at(at, &number) || !number))
            bad_rule(text, "@*N with N from 1 on");
        made->first = made->step = (uint64_t)number;
        return;
    }
    if (!number_at(at, &number) || !number) bad_rule(text, "@N with N from 1 on, @N+ or @* before the =");
    made->first = (uint64_t)number;
    if (word_at(at, "+")) made->step = 1;
}

static void read_what(rule *made, const char **at, const char *text)
{
    bool needs = true;

    if (word_at(at, "error:")) {
        made->kind = RULE_ERROR;
    } else if (word_at(at, "value:")) {
        made->kind = RULE_VALUE;
    } else if (word_at(at, "delay:")) {
        made->kind = RULE_DELAY;
    } else if (word_at(at, "hang")) {
        made->kind = RULE_HANG;
        made->number = -1;
        needs = word_at(at, ":");
    } else if (word_at(at, "stuck")) {
        made->kind = RULE_STUCK;
        made->number = -1;
        needs = false;
    } else if (word_at(at, "die")) {
        made->kind = RULE_DIE;
        needs = false;
    } else {
        bad_rule(text, "error:N, value:N, delay:MS, hang, hang:MS, stuck or die after the =");
    }
    if (needs && !number_at(at, &made->number)) bad_rule(text, "a number after the colon");
    made->stays = made->kind == RULE_ERROR && word_at(at, "!");
    if (made->stays && strncmp(made->name, "cu", 2) != 0)
        bad_rule(text, "a function of CUDA, whose error can stay (error:N!)");
    if (made->kind == RULE_ERROR && !made->number) bad_rule(text, "an error other than 0, which is success");
    if (**at) bad_rule(text, "nothing after the rule");
}

static rule *read_rule(const char *text)
{
    const char *at = text;
    rule *made = calloc(1, sizeof *made);
    size_t length = 0;

    if (!made) bad_rule(text, "memory for it");
    read_where(made, &at, text);
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    if (!length || length >= sizeof made->name) bad_rule(text, "NAME@WHEN=WHAT with the name of a function");
    memcpy(made->name, at, length);
    at += length;
    if (!word_at(&at, "@")) bad_rule(text, "@ after the name");
    read_when(made, &at, text);
    if (!word_at(&at, "=")) bad_rule(text, "= after @WHEN");
    read_what(made, &at, text);
    return made;
}

static char *trimmed(char *text)
{
    size_t length;

    while (isspace((unsigned char)*text)) text++;
    length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) text[--length] = 0;
    return text;
}

static void replace_rules(const char *script)
{
    char *copy = strdup(script ? script : "");
    char *rest = NULL;
    rule *first = NULL;
    rule **last = &first;

    if (!copy) bad_rule(script, "memory for it");
    for (char *part = strtok_r(copy, ";", &rest); part; part = strtok_r(NULL, ";", &rest)) {
        part = trimmed(part);
        if (!*part) continue;
        *last = read_rule(part);
        last = &(*last)->next;
    }
    free(copy);
    pthread_mutex_lock(&mutex);
    rule *old = rules;
    rules = first;
    atomic_store(&active, first != NULL);
    pthread_mutex_unlock(&mutex);
    while (old) {
        rule *next = old->next;
        free(old);
        old = next;
    }
}

static void read_environment(void)
{
    replace_rules(getenv("CUDA_EMULATION_SCRIPT"));
}

void emu_script(const char *script)
{
    pthread_once(&once, read_environment); /* so that it does not come later */
    replace_rules(script);
}

static bool is_here(const rule *asked)
{
    const char *rank;

    switch (asked->where) {
    case WHERE_ANY: return true;
    case WHERE_DEVICE: return emu__device_current() == asked->where_number;
    case WHERE_RANK: rank = getenv("RANK"); return rank && *rank && atoi(rank) == asked->where_number;
    }
    return false;
}

static bool applies(rule *asked)
{
    uint64_t call = ++asked->met;

    if (call == asked->first) return true;
    return asked->step && call > asked->first && (call - asked->first) % asked->step == 0;
}

/* Every rule that is about this call counts it; the first that applies is what happens. */
static bool look_up(const char *name, deed *found)
{
    bool any = false;

    pthread_once(&once, read_environment);
    if (!atomic_load_explicit(&active, memory_order_relaxed)) return false;
    pthread_mutex_lock(&mutex);
    for (rule *at = rules; at; at = at->next)
        if (!strcmp(at->name, name) && is_here(at) && applies(at) && !any) {
            *found = (deed){at->kind, at->number, at->stays};
            at->applied = true;
            any = true;
        }
    pthread_mutex_unlock(&mutex);
    return any;
}

/* Who asks whether it is over looks every few milliseconds; others are woken. */
static void hang(int ms, bool (*is_over)(void *), void *arg)
{
    enum { LOOK_MS = 2 };
    struct timespec until;
    int64_t left = ms < 0 ? INT64_MAX : ms;

    pthread_mutex_lock(&mutex);
    uint64_t at_start = releases;
    hanging++;
    while (releases == at_start && left > 0 && !(is_over && is_over(arg))) {
        int64_t step = is_over && left > LOOK_MS ? LOOK_MS : left;
        if (step == INT64_MAX) {
            pthread_cond_wait(&released, &mutex);
            continue;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += step / 1000;
        until.tv_nsec += (long)(step % 1000) * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        if (pthread_cond_timedwait(&released, &mutex, &until) == ETIMEDOUT) left -= step;
    }
    hanging--;
    pthread_mutex_unlock(&mutex);
}

void emu_release(void)
{
    pthread_mutex_lock(&mutex);
    releases++;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&mutex);
}

int emu_script_applied(void)
{
    int count = 0;

    pthread_mutex_lock(&mutex);
    for (const rule *at = rules; at; at = at->next) count += at->applied;
    pthread_mutex_unlock(&mutex);
    return count;
}

int emu_hanging(void)
{
    pthread_mutex_lock(&mutex);
    int now = hanging;
    pthread_mutex_unlock(&mutex);
    return now;
}

/* Delays, hangs and deaths; true: there is a number to return. */
static bool carry_out(const deed *what, bool (*is_over)(void *), void *arg)
{
    struct timespec wait = {what->number / 1000, (long)(what->number % 1000) * 1000000};

    switch (what->kind) {
    case RULE_ERROR:
        if (what->stays) emu__device_die((cudaError_t)what->number);
        return true;
    case RULE_VALUE: return true;
    case RULE_DELAY:
        while (nanosleep(&wait, &wait) && errno == EINTR) {
        }
        return false;
    case RULE_HANG: hang(what->number, is_over, arg); return false;
    case RULE_STUCK: hang(what->number, NULL, NULL); return false;
    case RULE_DIE: kill(getpid(), SIGKILL); return false;
    }
    return false;
}

static int call(const char *function, bool (*is_over)(void *), void *arg)
{
    deed what;

    return look_up(function, &what) && carry_out(&what, is_over, arg) ? what.number : 0;
}

int emu__script_call(const char *function)
{
    return call(function, NULL, NULL);
}

int emu_enter(const char *function)
{
    return emu_enter_until(function, NULL, NULL);
}

int emu_enter_until(const char *function, bool (*is_over)(void *), void *arg)
{
    emu__count(function);
    return call(function, is_over, arg);
}

int emu_event(const char *what)
{
    deed found;

    return look_up(what, &found) && carry_out(&found, NULL, NULL) ? found.number : -1;
}
