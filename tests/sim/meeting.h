/* meeting.h - messages that have started at one side only, found by the other side in constant time. */
#ifndef WEFT_TESTS_SIM_MEETING_H
#define WEFT_TESTS_SIM_MEETING_H
#include <stddef.h>
#include <stdint.h>

/* All messages of a sender to a receiver with one tag, which meet in their order. */
typedef struct sim_message_key {
    int from, to;
    int apart; /* hosts between them, where only one host is played (sim.h); else 0 */
    uint32_t tag;
} sim_message_key;

typedef struct sim_meeting sim_meeting;

sim_meeting *sim_meeting_new(void);
void sim_meeting_free(sim_meeting *m);
size_t sim_meeting_left(const sim_meeting *m); /* keys of which somebody waits */

/* The oldest step that waits at the other side, which is then taken out; else this one waits, and -1. */
int sim_meet(sim_meeting *m, sim_message_key key, int sends, int step);
#endif
