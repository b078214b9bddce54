/* choices.h - what a rank wants of the choice among algorithms, beside the rules of candidates.h: algorithms
 * asked for by name (WEFT_ALGORITHM), and limits that were measured (a tuning file).  A group goes
 * by those of its lowest member, so this struct is sent to the others as it is; a value in it that means
 * nothing here counts as none. */
#ifndef WEFT_OPS_CHOICES_H
#define WEFT_OPS_CHOICES_H
#include "algorithms.h"

/* Over what the members of a group hear from each other: limits are told apart by it. */
typedef enum weft__medium {
    WEFT__MEDIUM_MEMORY,  /* memory that all of them share */
    WEFT__MEDIUM_MESSAGES /* messages, over whichever transports */
} weft__medium;

enum {
    WEFT__MEDIA = WEFT__MEDIUM_MESSAGES + 1,
    WEFT__SIZES = 5,           /* classes of group sizes: 2, to 4, to 8, to 16, more */
    WEFT__UPTO_LEAST_LOG2 = 6, /* limits are never, 64 bytes, 128, ... up to 1 GiB, or any size */
    WEFT__UPTO_MOST_LOG2 = 30
};
#define WEFT__UPTO_NEVER ((uint64_t)0)
#define WEFT__UPTO_ANY   UINT64_MAX

typedef struct weft__choices {
    uint8_t forced[WEFT__KINDS_CHOSEN]; /* by kind: its candidate of that number, from 1; 0: none */
    uint8_t upto[WEFT__MEDIA][WEFT__SIZES][WEFT__TUNABLES]; /* 0: as the rule says */
} weft__choices;

const char *weft__medium_name(weft__medium medium);             /* as tuning files have it: "shm", "tcp" */
bool weft__medium_find(const char *name, weft__medium *medium); /* false: there is none of that name */
int weft__size_class(int size);                                 /* of groups of two ranks and more */
int weft__class_most(int size_class);                           /* its largest size; 0: there is none */

/* "all_reduce:ring,broadcast:chain", from the variable of that name.  ERR_ARGUMENT names what is wrong in it
 * and what there is; *choices keeps what it was. */
weft_status weft__choices_force(weft__choices *choices, const char *variable, const char *list);
/* As weft__choices_force reads them; "" if nothing is forced. */
void weft__choices_forced_text(const weft__choices *choices, char *text, size_t bytes);
/* NULL: nothing is forced for this kind. */
const weft__candidate *weft__choices_forced(const weft__choices *choices, weft__kind kind);

/* The limit of tunable candidate number `tunable` (counted in the table); false: none was measured. */
bool weft__choices_limit(const weft__choices *choices, weft__medium medium, int size_class, int tunable,
                         uint64_t *upto);
/* Number of an algorithm among those that can be tuned; -1: there is none of that name for it. */
int weft__tunable_find(const char *operation, const char *algorithm);
const weft__candidate *weft__tunable_at(int tunable);
/* upto: never, a power of two within the bounds, or any.  False: another number. */
bool weft__choices_set_limit(weft__choices *choices, weft__medium medium, int size_class, int tunable,
                             uint64_t upto);
#endif
