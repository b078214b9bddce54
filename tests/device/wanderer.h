/* wanderer.h - a thread of a rank that walks through a random program whatever befalls it: what ends badly is judged by what
 * was drawn, and its group is left alone from then on. */
#ifndef TESTS_DEVICE_WANDERER_H
#define TESTS_DEVICE_WANDERER_H
#include "device.h"
#include "mishap.h"
#include "recorded_ring.h"

enum { WANDERER_GROUPS = 3, WANDERER_WINDOW = 8 };

struct flight;

typedef struct wanderer {
    job_rank *me;
    const mishap *m;
    int thread;
    uint64_t common;                     /* random words on which all ranks agree */
    uint64_t own;                        /* and those of this rank alone */
    weft_group *groups[WANDERER_GROUPS]; /* NULL where this rank is no member; the first has all ranks */
    int sizes[WANDERER_GROUPS];
    bool has_victim[WANDERER_GROUPS];
    bool over[WANDERER_GROUPS]; /* something of it has ended badly here */
    struct flight *flights;
    recorded_ring ring; /* of the first group */
    int step;
    int messages; /* drawn so far */
} wanderer;

bool wanderer_may_use_devices(const wanderer *w);
void wanderer_make(wanderer *w, job_rank *me, const mishap *m, int thread);
void wanderer_walk(wanderer *w);
void wanderer_free(wanderer *w);

/* What this rank may be told of the group: fails the test where it may not, and else notes that it is over. */
void wanderer_judge(wanderer *w, int group, weft_status status, const char *text);
/* Waits no longer than the operation may take, judges and releases it.  True: it went well.  *held: as in
 * weft_request_info.buffers_held. */
bool wanderer_settle(wanderer *w, int group, weft_request *req, bool *held);

#endif
