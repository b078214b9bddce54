/* run_input.c - see run_input.h.  When rank 0 stops reading, the rest of the input stays unread. */
#include "run_input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 500 /* nobody tells a process that it has come to the foreground */

bool run_input_open(struct run_input *in, enum run_source source)
{
    int ends[2];
    in->source = source;
    in->give = source == RUN_INPUT_OWN ? STDIN_FILENO : -1;
    in->pipe = -1;
    in->ends = false;
    in->begin = in->end = in->taken = 0;
    if (source == RUN_INPUT_NONE || (source == RUN_INPUT_OWN && !isatty(STDIN_FILENO))) return true;
    if (pipe2(ends, O_CLOEXEC)) return false;
    in->give = ends[0];
    in->pipe = ends[1];
    return fcntl(in->pipe, F_SETFL, O_NONBLOCK) == 0;
}

bool run_input_feed(struct run_input *in, const void *bytes, size_t n)
{
    if (in->pipe < 0) { /* nobody reads it */
        in->taken += n;
        return true;
    }
    memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
    if (n > sizeof(in->bytes) - in->end) return false;
    memcpy(in->bytes + in->end, bytes, n);
    in->end += n;
    return true;
}

void run_input_end(struct run_input *in)
{
    in->ends = true;
    if (in->begin == in->end) run_input_close(in);
}

void run_input_given(struct run_input *in)
{
    if (in->give > STDIN_FILENO) close(in->give);
    in->give = -1;
}

void run_input_close(struct run_input *in)
{
    if (in->pipe >= 0) close(in->pipe);
    in->pipe = -1;
    in->taken += in->end - in->begin;
    in->begin = in->end;
}

int run_input_fds(const struct run_input *in, struct pollfd fds[2])
{
    bool empty = in->begin == in->end, copied = in->source == RUN_INPUT_OWN && in->pipe >= 0;
    bool foreground = copied && tcgetpgrp(STDIN_FILENO) == getpgrp();
    fds[0] = (struct pollfd){.fd = foreground && empty ? STDIN_FILENO : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = empty ? -1 : in->pipe, .events = POLLOUT};
    return copied && !foreground ? LOOK_AGAIN_MS : -1;
}

void run_input_step(struct run_input *in, const struct pollfd fds[2])
{
    ssize_t n;
    if (fds[0].fd >= 0 && fds[0].revents) {
        n = read(STDIN_FILENO, in->bytes, sizeof(in->bytes));
        in->begin = 0;
        in->end = n > 0 ? (size_t)n : 0;
        if (n == 0 || (n < 0 && errno != EINTR)) run_input_close(in);
    }
    if (fds[1].fd >= 0 && fds[1].revents) {
        n = write(in->pipe, in->bytes + in->begin, in->end - in->begin);
        if (n > 0) {
            in->begin += (size_t)n;
            in->taken += (size_t)n;
        }
        if (in->ends && in->begin == in->end) run_input_close(in);
        if (n < 0 && errno != EAGAIN && errno != EINTR) run_input_close(in);
    }
}
