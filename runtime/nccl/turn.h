/* turn.h - a place in the line of those who want to call NCCL with a communicator (communicator.h). */
#ifndef WEFT_NCCL_TURN_H
#define WEFT_NCCL_TURN_H

/* One who wants the turn, or has it.  Lives with the asker. */
typedef struct weft__turn {
    struct weft__turn *next;
} weft__turn;
#endif
