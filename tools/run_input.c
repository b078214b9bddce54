/* run_input.c - see run_input.h.  When rank 0 stops reading, the rest of the input stays unread. */
#include "run_input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 500 /* nobody tells a process that it has come to the foreground */

bool run_input_open(struct run_input *in)
{
    int ends[2];
    in->give = STDIN_FILENO;
    in->pipe = -1;
    in->begin = in->end = 0;
    if (!isatty(STDIN_FILENO)) return true;
    if (pipe2(ends, O_CLOEXEC)) return false;
    in->give = ends[0];
    in->pipe = ends[1];
    return fcntl(in->pipe, F_SETFL, O_NONBLOCK) == 0;
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
}

int run_input_fds(const struct run_input *in, struct pollfd fds[2])
{
    bool empty = in->begin == in->end, foreground = in->pipe >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
    fds[0] = (struct pollfd){.fd = foreground && empty ? STDIN_FILENO : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = empty ? -1 : in->pipe, .events = POLLOUT};
    return in->pipe >= 0 && !foreground ? LOOK_AGAIN_MS : -1;
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
        if (n > 0) in->begin += (size_t)n;
        if (n < 0 && errno != EAGAIN && errno != EINTR) run_input_close(in);
    }
}
