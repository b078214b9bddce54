/* choices.c - reading and keeping what a rank wants of the choice among algorithms.  Pure; fails with a
 * sentence that tells the names that there are. */
#include "choices.h"

#include "check.h"
#include "status.h"

#include <stdio.h>
#include <string.h>

#define CODE_NEVER 1
#define CODE_LEAST 2 /* 2^WEFT__UPTO_LEAST_LOG2 bytes */
#define CODE_ANY   255

enum { NAME_BYTES = 64, LIST_BYTES = 512 };

/* Named after the transport that is commonest for each.  Tuning files have these words, so they stay. */
static const char *const medium_names[WEFT__MEDIA] = {
    [WEFT__MEDIUM_MEMORY] = "shm", [WEFT__MEDIUM_MESSAGES] = "tcp"};

const char *weft__medium_name(weft__medium medium)
{
    return medium_names[medium];
}

bool weft__medium_find(const char *name, weft__medium *medium)
{
    for (int i = 0; i < WEFT__MEDIA; i++)
        if (!strcmp(name, medium_names[i])) {
            *medium = (weft__medium)i;
            return true;
        }
    return false;
}

int weft__size_class(int size)
{
    int class = 0;
    while (class < WEFT__SIZES - 1 && size > weft__class_most(class)) class ++;
    return class;
}

int weft__class_most(int size_class)
{
    return size_class < WEFT__SIZES - 1 ? 2 << size_class : 0;
}

/* ---- algorithms asked for by name ---- */

/* WEFT__KINDS_CHOSEN: there is none of that name. */
static int find_kind(const char *name)
{
    int kind = 0;
    while (kind < WEFT__KINDS_CHOSEN && strcmp(weft__kind_name((weft__kind)kind), name) != 0) kind++;
    return kind;
}

/* Candidate number `place`, from 1, of a kind. */
static const weft__candidate *candidate_at(weft__kind kind, int place)
{
    for (int i = 0; i < WEFT__CANDIDATES; i++)
        if (weft__candidates[i].kind == kind && --place == 0) return &weft__candidates[i];
    return NULL;
}

static int find_place(weft__kind kind, const char *name)
{
    const weft__candidate *c;
    for (int place = 1; (c = candidate_at(kind, place)) != NULL; place++)
        if (!strcmp(c->name, name)) return place;
    return 0;
}

static void choices_append(char *list, size_t bytes, const char *word)
{
    size_t n = strlen(list);
    snprintf(list + n, bytes - n, "%s%s", n ? ", " : "", word);
}

static weft_status unknown_kind(const char *variable, const char *list, const char *name)
{
    char names[LIST_BYTES] = "";
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++)
        choices_append(names, sizeof names, weft__kind_name((weft__kind)kind));
    return weft__fail(WEFT_ERR_ARGUMENT, "%s is \"%.200s\": there is no operation \"%s\"; there are %s",
                      variable, list, name, names);
}

static weft_status unknown_algorithm(const char *variable, const char *list, weft__kind kind,
                                     const char *name)
{
    char names[LIST_BYTES] = "";
    const weft__candidate *c;
    for (int place = 1; (c = candidate_at(kind, place)) != NULL; place++)
        choices_append(names, sizeof names, c->name);
    return weft__fail(WEFT_ERR_ARGUMENT, "%s is \"%.200s\": %s has no algorithm \"%s\"; it has %s", variable,
                      list, weft__kind_name(kind), name, names);
}

/* Copies up to `end` or the end of the text.  What does not fit is cut, which leaves a name that no algorithm
 * has. */
static const char *word(const char *from, char end, char to[NAME_BYTES])
{
    size_t n = 0;
    while (from[n] && from[n] != end && from[n] != ',') n++;
    snprintf(to, NAME_BYTES, "%.*s", (int)(n < NAME_BYTES ? n : NAME_BYTES), from);
    return from + n;
}

weft_status weft__choices_force(weft__choices *choices, const char *variable, const char *list)
{
    weft__choices read = *choices;
    memset(read.forced, 0, sizeof read.forced);
    for (const char *at = list; *at; at += *at == ',') {
        char operation[NAME_BYTES], algorithm[NAME_BYTES];
        int kind, place;
        at = word(at, ':', operation);
        if (*at != ':' || !*operation)
            return weft__fail(
                WEFT_ERR_ARGUMENT,
                "%s is \"%.200s\": expected OPERATION:ALGORITHM, or several with commas between them",
                variable, list);
        at = word(at + 1, ',', algorithm);
        kind = find_kind(operation);
        if (kind == WEFT__KINDS_CHOSEN) return unknown_kind(variable, list, operation);
        place = find_place((weft__kind)kind, algorithm);
        if (!place) return unknown_algorithm(variable, list, (weft__kind)kind, algorithm);
        if (read.forced[kind])
            return weft__fail(WEFT_ERR_ARGUMENT, "%s is \"%.200s\": %s is there twice", variable, list,
                              operation);
        read.forced[kind] = (uint8_t)place;
        if (*at == ',' && !at[1])
            return weft__fail(WEFT_ERR_ARGUMENT, "%s is \"%.200s\": expected another pair behind the comma",
                              variable, list);
    }
    *choices = read;
    return WEFT_OK;
}

const weft__candidate *weft__choices_forced(const weft__choices *choices, weft__kind kind)
{
    return (int)kind < WEFT__KINDS_CHOSEN && choices->forced[kind] ? candidate_at(kind, choices->forced[kind])
                                                                   : NULL;
}

void weft__choices_forced_text(const weft__choices *choices, char *text, size_t bytes)
{
    *text = 0;
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++) {
        const weft__candidate *c = weft__choices_forced(choices, (weft__kind)kind);
        size_t n = strlen(text);
        if (c)
            snprintf(text + n, bytes - n, "%s%s:%s", n ? "," : "", weft__kind_name((weft__kind)kind),
                     c->name);
    }
}

/* ---- limits ---- */

bool weft__choices_limit(const weft__choices *choices, weft__medium medium, int size_class, int tunable,
                         uint64_t *upto)
{
    uint8_t code = choices->upto[medium][size_class][tunable];
    const uint8_t most = CODE_LEAST + WEFT__UPTO_MOST_LOG2 - WEFT__UPTO_LEAST_LOG2;
    if (code == 0 || (code > most && code != CODE_ANY)) return false;
    if (code == CODE_NEVER)
        *upto = WEFT__UPTO_NEVER;
    else if (code == CODE_ANY)
        *upto = WEFT__UPTO_ANY;
    else
        *upto = UINT64_C(1) << (code - CODE_LEAST + WEFT__UPTO_LEAST_LOG2);
    return true;
}

bool weft__choices_set_limit(weft__choices *choices, weft__medium medium, int size_class, int tunable,
                             uint64_t upto)
{
    uint8_t *code = &choices->upto[medium][size_class][tunable];
    if (upto == WEFT__UPTO_NEVER || upto == WEFT__UPTO_ANY) {
        *code = upto ? CODE_ANY : CODE_NEVER;
        return true;
    }
    for (int power = WEFT__UPTO_LEAST_LOG2; power <= WEFT__UPTO_MOST_LOG2; power++) {
        if (upto != UINT64_C(1) << power) continue;
        *code = (uint8_t)(CODE_LEAST + power - WEFT__UPTO_LEAST_LOG2);
        return true;
    }
    return false;
}

const weft__candidate *weft__tunable_at(int tunable)
{
    for (int i = 0; i < WEFT__CANDIDATES; i++)
        if (weft__is_tunable(&weft__candidates[i]) && tunable-- == 0) return &weft__candidates[i];
    return NULL;
}

int weft__tunable_find(const char *operation, const char *algorithm)
{
    const weft__candidate *c;
    for (int i = 0; (c = weft__tunable_at(i)) != NULL; i++)
        if (!strcmp(weft__kind_name(c->kind), operation) && !strcmp(c->name, algorithm)) return i;
    return -1;
}
