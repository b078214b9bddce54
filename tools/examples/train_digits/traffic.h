/* traffic.h - sums that travel while something is computed, and an account of what they cost it.
 *
 *   in flight  from the call that starts a sum until it has settled, or until who waits for it goes on
 *   exposed    the part of this in which the computation stands still: its thread is inside Weft's calls,
 *              starting or waiting, or its stream waits
 *   hidden     the rest: the sum went on while something was computed
 *
 * For a step as a whole in flight is the time in which at least one sum is. */
#ifndef TRAIN_TRAFFIC_H
#define TRAIN_TRAFFIC_H
#include "timeline.h"
#include "where.h"

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

enum pace {
    PACE_OVERLAPPED, /* wait when the result is needed */
    PACE_ONE_BY_ONE, /* wait at once */
    PACE_LEFT_OUT,   /* start nothing: shows what the computation alone takes; its results mean nothing */
    PACES
};

/* What is added up: outputs and input gradients over tp, weight gradients over dp. */
enum sum_kind { SUM_OUTPUTS, SUM_INPUT_GRADIENTS, SUM_GRADIENTS, SUM_KINDS };

struct sum {
    enum sum_kind kind;
    weft_request *request; /* until the end of the step */
    bool landed;
    size_t bytes;
    int64_t called, returned; /* marks of where.h */
    int64_t wait, woken;      /* marks; both 0: it had settled before anybody came for it */
    char label[SPAN_LABEL];
};

/* int64_t only: gathered as such. */
struct traffic_account {
    int64_t in_flight_ns, exposed_ns;
    struct {
        int64_t count, bytes, in_flight_ns, exposed_ns; /* here each sum by itself */
    } kind[SUM_KINDS];
};

enum { SUMS_IN_A_STEP = 64 };

struct traffic {
    enum pace pace;
    struct timeline *timeline; /* NULL: not drawn */
    struct traffic_account account[PACES];
    struct sum sum[SUMS_IN_A_STEP]; /* of this step, in the order of their calls */
    size_t sums;
};

/* Adds up n numbers, in place, over the group.  They are the library's until traffic_land.  NULL when there
 * is nothing to do: a group of this rank alone, no numbers, or PACE_LEFT_OUT. */
struct sum *traffic_start(struct traffic *t, enum sum_kind kind, int layer, weft_group *group, float *at,
                          size_t n);
/* What is computed from now on finds the sum.  NULL is allowed. */
void traffic_land(struct traffic *t, struct sum *sum);
/* Every sum of the step has landed: looks whether all went well, and puts them on the account. */
void traffic_end_step(struct traffic *t);
#endif
