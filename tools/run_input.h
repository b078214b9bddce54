/* run_input.h - rank 0's stdin.  Files and pipes are handed over as they are.  A terminal cannot be: only its
 * foreground process group may read it, and that is weft-run's; so its input is copied through a pipe.  So is what
 * comes from another host, in frames. */
#ifndef WEFT_RUN_INPUT_H
#define WEFT_RUN_INPUT_H
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

enum run_source { RUN_INPUT_OWN, RUN_INPUT_FED, RUN_INPUT_NONE };
enum { RUN_INPUT_WINDOW = 65536 }; /* bytes that may be on their way to rank 0 */

struct run_input {
    enum run_source source;
    int give;     /* what rank 0 gets as its stdin; -1 after run_input_given */
    int pipe;     /* the writing end, or -1: nothing to copy */
    bool ends;    /* once what is held is written */
    size_t taken; /* fed bytes that are gone since this was last asked */
    size_t begin, end;
    char bytes[RUN_INPUT_WINDOW];
};

bool run_input_open(struct run_input *in, enum run_source source);
/* Fed bytes; false: more than fit. */
bool run_input_feed(struct run_input *in, const void *bytes, size_t n);
void run_input_end(struct run_input *in);
void run_input_given(struct run_input *in);
void run_input_close(struct run_input *in);
/* Fills two entries; returns how long poll may sleep at most, -1: any time. */
int run_input_fds(const struct run_input *in, struct pollfd fds[2]);
void run_input_step(struct run_input *in, const struct pollfd fds[2]);
#endif
