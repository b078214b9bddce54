/* info_algorithms.c - see info_algorithms.h.  Asks what a group asks (ops/select.h), with what a rank brings
 * to it: WEFT_ALGORITHM, WEFT_REDUCE and the tuning file. */
#include "info_algorithms.h"
#include "select.h"
#include "settings.h"
#include "tuning.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SLOT_BYTES = 16384 }; /* the least that a slot has; all_read by default stays within it */

static void print_bytes(uint64_t below, const weft__range *range, char *text, size_t bytes)
{
    if (range->upto == UINT64_MAX)
        snprintf(text, bytes, below ? "above" : "any size");
    else
        snprintf(text, bytes, "to %llu", (unsigned long long)range->upto);
}

static const char *origin(const weft__range *range)
{
    switch (range->origin) {
    case WEFT__BY_FILE: return "tuning file";
    case WEFT__BY_VARIABLE: return "WEFT_ALGORITHM";
    default: return "default";
    }
}

static void print_kind(const weft__selection *s, weft__kind kind, bool shared)
{
    weft__range ranges[WEFT__CANDIDATES_MOST];
    int n = weft__selection_ranges(s, kind, shared, ranges);
    for (int i = 0; i < n; i++) {
        char bytes[40];
        print_bytes(i ? ranges[i - 1].upto : 0, &ranges[i], bytes, sizeof(bytes));
        printf("  %-17s %-14s %-19s %s\n", i ? "" : weft__kind_name(kind), bytes, ranges[i].algorithm,
               i && i == n - 1 && ranges[i].origin == WEFT__BY_RULE ? "" : origin(&ranges[i]));
    }
}

/* Asked for, but not what runs in such a group. */
static void print_unserved(const weft__selection *s, const weft__choices *choices, weft__kind kind,
                           bool shared)
{
    const weft__candidate *forced = weft__choices_forced(choices, kind);
    weft__range ranges[WEFT__CANDIDATES_MOST];
    int n = weft__selection_ranges(s, kind, shared, ranges);
    if (!forced || (n == 1 && !strcmp(ranges[0].algorithm, forced->name))) return;
    printf("  %s:%s cannot be had: %s\n", weft__kind_name(kind), forced->name,
           forced->way == WEFT__ROUNDS ? "its ranks would have to share memory"
                                       : "it does not add in rank order, which WEFT_REDUCE asks for");
}

bool info_algorithms(int ranks, weft__medium medium)
{
    bool shared = medium == WEFT__MEDIUM_MEMORY, good = true;
    weft__group_params table = {.slot_bytes = SLOT_BYTES};
    weft__selection selection;
    char path[WEFT__TUNING_PATH_BYTES];
    printf("algorithms of %d ranks over %s, by the bytes of the larger buffer (any other: weft-info "
           "--algorithms "
           "RANKS shm|tcp)\n",
           ranks, weft__medium_name(medium));
    table.rank_order = !strcmp(weft__setting_text(WEFT__SET_REDUCE), "rank_order");
    weft__tuning_path(path);
    if (weft__choices_force(&table.choices, "WEFT_ALGORITHM", weft__setting_text(WEFT__SET_ALGORITHM))) {
        printf("  refused: %s\n", weft_last_error());
        good = false;
    }
    if (*path && weft__tuning_read(path, &table.choices)) {
        printf("  %s\n", weft_last_error());
        good = false;
    }
    weft__selection_make(&selection, &table, ranks, shared);
    for (int kind = 0; kind < WEFT__KINDS_CHOSEN; kind++) {
        print_kind(&selection, (weft__kind)kind, shared);
        print_unserved(&selection, &table.choices, (weft__kind)kind, shared);
    }
    printf("  tuning file: %s\n", *path ? path : "none: HOME is not set");
    return good;
}
