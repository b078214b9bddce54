/* run_clock.c - see run_clock.h. */
#include "run_clock.h"

#include <time.h>

int64_t run_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void run_clock_ask(struct run_clock *clock, struct run_buffer *to, int64_t now_ns)
{
    const uint32_t question = clock->question + 1;
    if (!run_frame_put(to, RUN_PING, &question, 1)) return;
    clock->question = question;
    clock->asked_ns = now_ns;
}

void run_clock_answer(struct run_frame *question, int64_t now_ns, uint32_t numbers[RUN_CLOCK_NUMBERS])
{
    numbers[0] = run_frame_read_number(question);
    numbers[1] = (uint32_t)((uint64_t)now_ns >> 32);
    numbers[2] = (uint32_t)now_ns;
}

bool run_clock_take(struct run_clock *clock, struct run_frame *answer, int64_t now_ns)
{
    uint32_t question = run_frame_read_number(answer);
    uint64_t high = run_frame_read_number(answer), low = run_frame_read_number(answer);
    int64_t there_ns = (int64_t)(high << 32 | low), within_ns = (now_ns - clock->asked_ns + 1) / 2;
    if (answer->wrong || answer->left || there_ns < 0) return false;
    if (question != clock->question || (clock->known && within_ns >= clock->within_ns)) return true;
    clock->known = true;
    clock->within_ns = within_ns;
    clock->ahead_ns = there_ns - (clock->asked_ns + within_ns);
    return true;
}
