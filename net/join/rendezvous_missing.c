/* rendezvous_missing.c - who a server's members wait for, in the words of their timeouts. */
#include "clock.h"
#include "rank_list.h"
#include "rendezvous_server.h"

#include <stdio.h>
#include <stdlib.h>

#define MOMENT_MS 500 /* by which the deadlines of ranks that began together may differ, at least */

/* Whose time ran out in the second half of the asking member's wait is not to blame, unless nobody else is:
 * it was there.  Returns how many those are. */
static int excuse(const weft__rendezvous_server *s, const weft__rendezvous_member *asks, bool *missing,
                  int total)
{
    int64_t now_ns = weft__now_ns(), since_ns = now_ns - MOMENT_MS * WEFT__MS;
    int excused = 0;
    if (asks && asks->joined_ns / 2 + now_ns / 2 < since_ns) since_ns = asks->joined_ns / 2 + now_ns / 2;
    for (int i = 0; i < s->quitter_count; i++)
        excused += missing[s->quitters[i].rank] && s->quitters[i].at_ns >= since_ns;
    if (excused >= total) return 0;
    for (int i = 0; i < s->quitter_count; i++)
        if (s->quitters[i].at_ns >= since_ns) missing[s->quitters[i].rank] = false;
    return excused;
}

/* In a job that is complete: for somebody else's part of the gather under way.  Between two gathers, or where
 * only the asking member's own part is not here yet, nobody is to blame. */
static bool some_wait_for_others(const weft__rendezvous_server *s, const weft__rendezvous_member *asks)
{
    int others = s->world - s->gathered - (asks && !asks->block);
    return s->gathered > 0 && others > 0;
}

void weft__rendezvous_missing(const weft__rendezvous_server *s, const weft__rendezvous_member *asks,
                              char *words, size_t bytes)
{
    char list[WEFT__RANK_LIST_BYTES];
    bool *missing;
    int total, unassigned = 0;
    *words = '\0';
    if (s->world < 0) {
        snprintf(words, bytes, "nobody was given the world size (%d joined)", s->count);
        return;
    }
    if (s->phase == WEFT__SERVER_COMPLETE && !some_wait_for_others(s, asks)) {
        snprintf(words, bytes, "all %d ranks came, too late to connect them", s->world);
        return;
    }
    missing = malloc((size_t)s->world * sizeof *missing);
    if (!missing) return;
    for (int r = 0; r < s->world; r++) missing[r] = s->phase != WEFT__SERVER_COMPLETE || !s->members[r].block;
    if (s->phase == WEFT__SERVER_COMPLETE && asks) missing[asks->rank] = false;
    if (s->phase == WEFT__SERVER_JOINING)
        for (int i = 0; i < s->count; i++) {
            if (s->members[i].given_rank < 0)
                unassigned++;
            else
                missing[s->members[i].given_rank] = false;
        }
    for (int i = 0; i < s->claim_count; i++) /* whoever is that rank has not answered */
        if (s->claims[i].rank >= 0 && s->claims[i].rank < s->world) missing[s->claims[i].rank] = true;
    total = weft__rank_list(missing, s->world, list);
    if (s->phase == WEFT__SERVER_JOINING && excuse(s, asks, missing, total - unassigned))
        total = weft__rank_list(missing, s->world, list);
    if (unassigned) snprintf(list, sizeof list, "%d of %d ranks", total - unassigned, s->world);
    snprintf(words, bytes, "%s %s missing", list, total - unassigned == 1 ? "is" : "are");
    free(missing);
}

void weft__rendezvous_note_quitter(weft__rendezvous_server *s, int rank)
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
