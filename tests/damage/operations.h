/* operations.h - what goes on while a damage is done: all ranks of the group do one at a time, and look at each byte. */
#ifndef TESTS_DAMAGE_OPERATIONS_H
#define TESTS_DAMAGE_OPERATIONS_H
#include "job.h"

typedef struct step step;
typedef struct operation {
    const char *name;
    void (*run)(step *s);
} operation;

extern const operation operations[];
extern const int operation_count;

/* How a request has ended. */
typedef struct ending {
    weft_status status;
    weft_status
        cause; /* of WEFT_ERR_BROKEN: what broke the group, which may be one that the operation has made */
    int peer;  /* in the world; -1: nobody */
    char text[1024];
} ending;

/* The step's number gives data and length.  What it ends in: WEFT_OK, or of what failed first; a request that does not settle
 * in time fails the test.  `room`: of operation_room bytes. */
ending operation_run(const operation *o, job_rank *me, weft_group *group, unsigned char *room,
                     uint64_t number);
size_t operation_room(int ranks);
/* Do all of the group say yes?  Each gets the same answer. */
ending operation_all_say(job_rank *me, weft_group *group, bool yes, bool *all);
#endif
