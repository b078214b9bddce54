/* run_link.c - see run_link.h.  The launcher is a command of a shell, which becomes it. */
#include "run_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PIECE = 65536, LINE_MOST = 4096 };

/* ---- the launcher ------------------------------------------------------------------------------------ */

void run_link_command(const struct run_link *link, const struct run_launch *launch, char *text, size_t bytes)
{
    static const char mark[] = "{host}";
    const char *at = launch->command, *next;
    size_t used = 0;
    *text = '\0';
    while ((next = strstr(at, mark)) && used < bytes) {
        used += (size_t)snprintf(text + used, bytes - used, "%.*s%s", (int)(next - at), at, link->host->name);
        at = next + sizeof(mark) - 1;
    }
    if (used < bytes) snprintf(text + used, bytes - used, "%s", at);
}

/* ssh and its like hand what follows to a shell of the other host.  Variables may be set before it. */
static bool asks_a_shell(const char *command)
{
    char first[256];
    const char *name;
    for (size_t n = 0;; command += n) {
        command += strspn(command, " \t");
        n = strcspn(command, " \t");
        if (!memchr(command, '=', n)) break;
    }
    snprintf(first, sizeof(first), "%s", command);
    first[strcspn(first, " \t")] = '\0';
    name = strrchr(first, '/') ? strrchr(first, '/') + 1 : first;
    return !strcmp(name, "ssh") || !strcmp(name, "rsh");
}

/* A path in quotes where a shell reads it and it has letters that mean something there. */
static void quote(const char *path, bool shell, char *text, size_t bytes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    size_t n = 0;
    if (!shell || path[strspn(path, plain)] == '\0') {
        snprintf(text, bytes, "%s", path);
        return;
    }
    text[n++] = '\'';
    for (; *path && n + 6 < bytes; path++) {
        if (*path == '\'') {
            memcpy(text + n, "'\\''", 4);
            n += 4;
        } else {
            text[n++] = *path;
        }
    }
    text[n++] = '\'';
    text[n] = '\0';
}

/* A session of its own: what is typed at the terminal does not reach it, and it cannot ask there either.  When
 * weft-run is killed the kernel asks it to end; if it has not become weft-run itself, its pipes end too. */
static _Noreturn void become(const int fds[3], pid_t parent, const char *text, const char *path,
                             const struct run_signals *signals)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(126);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(fds[fd], fd) < 0) _exit(126);
    run_signals_restore(signals);
    execl("/bin/sh", "sh", "-c", text, "sh", path, "--agent", (char *)NULL);
    _exit(127);
}

static void close_end(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

int run_link_open(struct run_link *link, const struct run_launch *launch, bool by_path, int64_t now_ms)
{
    char command[8192], text[8192 + 32], path[8192];
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, error = 0;
    pid_t parent = getpid();
    run_link_command(link, launch, command, sizeof(command));
    snprintf(text, sizeof(text), "exec env %s \"$@\"", command);
    quote(by_path ? "weft-run" : launch->path, asks_a_shell(command), path, sizeof(path));
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) error = errno;
    link->pid = error ? 0 : fork();
    if (!error && link->pid == 0) {
        const int fds[3] = {in[0], out[1], err[1]};
        become(fds, parent, text, path, &launch->signals);
    }
    if (link->pid < 0) {
        error = errno;
        link->pid = 0;
    }
    close_end(&in[0]);
    close_end(&out[1]);
    close_end(&err[1]);
    link->in = in[1];
    link->out = out[0];
    link->err = err[0];
    link->by_path = by_path;
    link->state = error ? RUN_LINK_LOST : RUN_LINK_STARTING;
    link->heard_ms = now_ms;
    if (error) run_link_close(link);
    for (int i = 0; i < RUN_LINK_FDS && !error; i++)
        fcntl(i == 0 ? link->in : i == 1 ? link->out : link->err, F_SETFL, O_NONBLOCK);
    return error;
}

void run_link_hang_up(struct run_link *link)
{
    close_end(&link->in);
}

void run_link_close(struct run_link *link)
{
    close_end(&link->in);
    close_end(&link->out);
    close_end(&link->err);
    run_buffer_free(&link->to);
    run_buffer_free(&link->from);
    run_buffer_free(&link->words);
    run_part_free(&link->part);
}

/* ---- what comes and goes ------------------------------------------------------------------------------ */

void run_link_fds(const struct run_link *link, struct pollfd *fds, bool full)
{
    bool waits = run_buffer_held(&link->from) > RUN_FRAME_MOST + RUN_FRAME_HEADER;
    fds[0] = (struct pollfd){.fd = run_buffer_held(&link->to) ? link->in : -1, .events = POLLOUT};
    fds[1] = (struct pollfd){.fd = full || waits ? -1 : link->out, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = link->err, .events = POLLIN};
}

static bool receive(int *fd, struct run_buffer *to)
{
    ssize_t n;
    if (!run_buffer_reserve(to, PIECE)) return false;
    n = read(*fd, to->bytes + to->end, PIECE);
    if (n > 0) to->end += (size_t)n;
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) close_end(fd);
    return n > 0;
}

static void send_some(struct run_link *link)
{
    ssize_t n = write(link->in, link->to.bytes + link->to.begin, run_buffer_held(&link->to));
    if (n > 0) run_buffer_drop(&link->to, (size_t)n);
    if (n < 0 && errno != EINTR && errno != EAGAIN) close_end(&link->in);
}

void run_link_step(struct run_link *link, const struct pollfd *fds, int64_t now_ms)
{
    if (fds[0].fd >= 0 && fds[0].revents) send_some(link);
    if (fds[1].fd >= 0 && fds[1].revents && (receive(&link->out, &link->from) || link->out < 0))
        link->heard_ms = now_ms;
    if (fds[2].fd >= 0 && fds[2].revents) receive(&link->err, &link->words);
}

enum run_took run_link_next(struct run_link *link, struct run_frame *f)
{
    if (link->state == RUN_LINK_STARTING) {
        enum run_took took = run_greeting_take(&link->from);
        if (took != RUN_TOOK_FRAME) return took;
        link->state = RUN_LINK_GREETED;
    }
    if (link->state == RUN_LINK_ENDED || link->state == RUN_LINK_LOST) return RUN_TOOK_NOTHING;
    return run_frame_take(&link->from, f);
}

const char *run_link_line(struct run_link *link, char *line, size_t bytes)
{
    size_t held = run_buffer_held(&link->words), n;
    const char *begin = link->words.bytes + link->words.begin, *newline;
    if (!held) return NULL;
    newline = memchr(begin, '\n', held);
    if (!newline && link->err >= 0 && held < LINE_MOST) return NULL;
    n = newline ? (size_t)(newline - begin) : held;
    snprintf(line, bytes, "%.*s", (int)n, begin);
    line[strcspn(line, "\r")] = '\0';
    run_buffer_drop(&link->words, newline ? n + 1 : n);
    if (*line) snprintf(link->last, sizeof(link->last), "%.*s", RUN_LINK_WORDS - 1, line);
    return line;
}
