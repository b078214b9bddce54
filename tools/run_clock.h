/* run_clock.h - how far a host's CLOCK_MONOTONIC is ahead of weft-run's: asked and answered by RUN_PING and RUN_PONG.
 *
 * The answer that came back soonest counts: the clock there was read within that time (Cristian,
 * "Probabilistic clock synchronization", Distributed Computing 3, 1989). */
#ifndef WEFT_RUN_CLOCK_H
#define WEFT_RUN_CLOCK_H
#include "run_wire.h"

struct run_clock {
    uint32_t question; /* the last one that was asked; earlier ones are answered in vain */
    int64_t asked_ns;
    bool known;
    int64_t ahead_ns, within_ns; /* the truth is at most within_ns from ahead_ns */
};

int64_t run_clock_ns(void); /* CLOCK_MONOTONIC of this host */
void run_clock_ask(struct run_clock *clock, struct run_buffer *to, int64_t now_ns);
/* The numbers of the answer to a question, as run_frame_put takes them. */
enum { RUN_CLOCK_NUMBERS = 3 };
void run_clock_answer(struct run_frame *question, int64_t now_ns, uint32_t numbers[RUN_CLOCK_NUMBERS]);
/* False: it is no answer. */
bool run_clock_take(struct run_clock *clock, struct run_frame *answer, int64_t now_ns);
#endif
