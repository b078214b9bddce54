/* run_input.h - rank 0's stdin.  Files and pipes are handed over as they are.  A terminal cannot be: only its
 * foreground process group may read it, and that is weft-run's; so its input is copied through a pipe. */
#ifndef WEFT_RUN_INPUT_H
#define WEFT_RUN_INPUT_H
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

struct run_input {
    int give; /* what rank 0 gets as its stdin; -1 after run_input_given */
    int pipe; /* the writing end, or -1: nothing to copy */
    size_t begin, end;
    char bytes[4096];
};

bool run_input_open(struct run_input *in);
void run_input_given(struct run_input *in);
void run_input_close(struct run_input *in);
/* Fills two entries; returns how long poll may sleep at most, -1: any time. */
int run_input_fds(const struct run_input *in, struct pollfd fds[2]);
void run_input_step(struct run_input *in, const struct pollfd fds[2]);
#endif
