/* select.h - which algorithm: a pure function of the operation and of what a group's members agreed on when
 * it was made.  The only place that chooses; what it chooses among is in candidates.h. */
#ifndef WEFT_OPS_SELECT_H
#define WEFT_OPS_SELECT_H
#include "choices.h"
#include "rounds.h"

/* What members agree on: rank_order if any of them asks for it, the choices of the lowest, of the other
 * fields the least of all members' values.  Travels as it is. */
typedef struct weft__group_params {
    uint32_t rounds;     /* 1: all members share memory and have slots for this group (rounds.h) */
    uint32_t slot_bytes; /* payload of one slot */
    uint32_t lowest;     /* world rank of the member that `choices` are of */
    uint32_t rank_order; /* 1: reductions go left to right over ranks (WEFT_REDUCE=rank_order) */
    uint64_t program;    /* 1: device memory: every rank issues as it submits (WEFT_DEVICE_ORDER=program) */
    uint32_t plain;      /* 1: no member goes on before all have come (plain.h) */
    uint32_t hosts;      /* that members are on; 0 while it travels: each finds it out.  0 and 1: one */
    uint64_t reserved;   /* 0 */
    weft__choices choices;
} weft__group_params;

void weft__group_params_merge(weft__group_params *mine, const weft__group_params *other);

/* Where a limit comes from. */
typedef enum weft__origin { WEFT__BY_RULE, WEFT__BY_FILE, WEFT__BY_VARIABLE } weft__origin;

/* The table worked out for one group, so that choosing is a comparison. */
typedef struct weft__selection {
    uint32_t by_messages;             /* bit k: kind k goes by messages, also where members share memory */
    weft__rounds_rule rounds;         /* in shared memory: which form of rounds */
    weft__cutting cutting;            /* of long schedules */
    uint64_t upto[WEFT__CANDIDATES];  /* bytes for which a candidate is chosen if no earlier one is */
    bool serves[WEFT__CANDIDATES];    /* it may be chosen at all */
    uint8_t origin[WEFT__CANDIDATES]; /* weft__origin */
} weft__selection;

/* shared: all members share memory, which is so for all of them alike. */
void weft__selection_make(weft__selection *s, const weft__group_params *params, int size, bool shared);

/* By messages.  What only agrees has no rows: a few numbers, whose largest is the same in any order, go by the fewest messages
 * one after another, whatever is asked for of the program's reductions. */
weft__algorithm weft__select(const weft__op *op, int size, const weft__selection *s);

/* For people: one algorithm's share of the sizes of a kind, from the smallest on. */
typedef struct weft__range {
    const char *algorithm;
    uint64_t upto; /* UINT64_MAX: whatever the size */
    weft__origin origin;
} weft__range;
/* Their number.  shared: as for making it. */
int weft__selection_ranges(const weft__selection *s, weft__kind kind, bool shared,
                           weft__range ranges[WEFT__CANDIDATES_MOST]);
#endif
