/* turn.h - a place in the line of those who want to call NCCL with a communicator (communicator.h). */
#ifndef WEFT_NCCL_TURN_H
#define WEFT_NCCL_TURN_H
#include <stdbool.h>

/* One who wants the turn, or has it.  Lives with the asker. */
typedef struct weft__turn {
    struct weft__turn *next;
    bool taken; /* for the asker */
} weft__turn;
#endif
