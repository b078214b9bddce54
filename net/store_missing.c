/* store_missing.c - who a server's members wait for, in the words of their timeouts. */
#include "clock.h"
#include "rank_list.h"
#include "store_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOMENT_MS 500 /* by which the deadlines of ranks that began together may differ */

typedef struct text {
    char *at;
    size_t left;
} text;

static void append(text *t, const char *format, ...) WEFT__PRINTF(2, 3);
static void append(text *t, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(t->at, t->left, format, args);
    va_end(args);
    if (n < 0) return;
    if ((size_t)n >= t->left) n = (int)t->left - 1;
    t->at += n;
    t->left -= (size_t)n;
}

/* Whose time ran out just now is not to blame, unless nobody else is.  Returns how many. */
static int excuse(const weft__store_server *s, bool *missing, int total)
{
    int64_t since_ns = weft__now_ns() - MOMENT_MS * WEFT__MS;
    int excused = 0;
    for (int i = 0; i < s->quitter_count; i++)
        excused += missing[s->quitters[i].rank] && s->quitters[i].at_ns >= since_ns;
    if (excused >= total) return 0;
    for (int i = 0; i < s->quitter_count; i++)
        if (s->quitters[i].at_ns >= since_ns) missing[s->quitters[i].rank] = false;
    return excused;
}

static void describe_missing(const weft__store_server *s, text *t)
{
    char list[WEFT__RANK_LIST_BYTES];
    bool *missing;
    int total = 0, unassigned = 0;
    if (s->world < 0) {
        append(t, "nobody was given the world size (%d joined)", s->count);
        return;
    }
    missing = malloc((size_t)s->world * sizeof *missing);
    if (!missing) return;
    for (int r = 0; r < s->world; r++) missing[r] = s->phase != WEFT__SERVER_COMPLETE || !s->members[r].block;
    if (s->phase == WEFT__SERVER_JOINING)
        for (int i = 0; i < s->count; i++) {
            if (s->members[i].given_rank < 0)
                unassigned++;
            else
                missing[s->members[i].given_rank] = false;
        }
    for (int r = 0; r < s->world; r++) total += missing[r];
    if (s->phase == WEFT__SERVER_JOINING) total -= excuse(s, missing, total - unassigned);
    if (unassigned)
        append(t, "%d of %d ranks", total - unassigned, s->world);
    else if (weft__rank_list(missing, s->world, list))
        append(t, "%s", list);
    append(t, total - unassigned == 1 ? " is missing" : " are missing");
    free(missing);
}

void weft__store_missing(const weft__store_server *s, char *words, size_t bytes)
{
    text t = {words, bytes};
    describe_missing(s, &t);
}

void weft__store_note_quitter(weft__store_server *s, int rank)
{
    struct weft__quitter *more;
    int i = 0;
    if (rank < 0 || rank >= s->world) return;
    while (i < s->quitter_count && s->quitters[i].rank != rank) i++;
    if (i == s->quitter_count) {
        more = realloc(s->quitters, (size_t)(i + 1) * sizeof *more);
        if (!more) return;
        s->quitters = more;
        s->quitter_count++;
    }
    s->quitters[i] = (struct weft__quitter){rank, weft__now_ns()};
}
