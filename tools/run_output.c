/* run_output.c - collecting lines from the ranks' pipes and writing them out.
 * Running out of memory loses no bytes: a line that cannot be kept whole is passed on in pieces. */
#include "run_output.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_NOBODY (-1)

/* ---- set-up ----------------------------------------------------------------------------------- */

static bool one_file(int a, int b)
{
    struct stat sa, sb;
    return !fstat(a, &sa) && !fstat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

bool run_output_init(struct run_output *o, int ranks, bool prefix)
{
    size_t n = 2 * (size_t)ranks;
    memset(o, 0, sizeof(*o));
    o->streams = calloc(n, sizeof(*o->streams));
    if (!o->streams) return false;
    o->n = n;
    o->prefix = prefix;
    o->whole_lines = prefix || ranks > 1;
    o->sinks[0] = (struct run_sink){.fd = STDOUT_FILENO, .last_rank = RUN_NOBODY};
    o->sinks[1] = (struct run_sink){.fd = STDERR_FILENO, .last_rank = RUN_NOBODY};
    for (int i = 0; i < 2; i++) {
        o->sinks[i].is_terminal = isatty(o->sinks[i].fd);
        o->sinks[i].rewrites = !prefix && o->sinks[i].is_terminal;
    }
    o->out = &o->sinks[0];
    o->err = one_file(STDOUT_FILENO, STDERR_FILENO) ? o->out : &o->sinks[1];
    for (size_t i = 0; i < o->n; i++) {
        o->streams[i].fd = -1;
        o->streams[i].rank = (int)(i / 2);
        o->streams[i].sink = i % 2 ? o->err : o->out;
    }
    return true;
}

static void end_stream(struct run_stream *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

void run_output_free(struct run_output *o)
{
    for (size_t i = 0; i < o->n; i++) {
        end_stream(&o->streams[i]);
        free(o->streams[i].unsent.bytes);
    }
    free(o->streams);
    free(o->sinks[0].waiting.bytes);
    free(o->sinks[1].waiting.bytes);
}

void run_output_add(struct run_output *o, int rank, int which, int fd)
{
    o->streams[2 * rank + which].fd = fd;
}

/* ---- from streams to sinks --------------------------------------------------------------------- */

/* A line of another writer never continues an open one, and a prefixed line is always ended. */
static bool put(struct run_output *o, struct run_sink *sink, int rank, const char *line, size_t n)
{
    char prefix[32];
    bool ends = line[n - 1] == '\n', continues = sink->line_open && sink->last_rank == rank;
    int prefix_bytes =
        o->prefix && rank != RUN_NOBODY && !continues ? snprintf(prefix, sizeof(prefix), "[%d] ", rank) : 0;
    if (!run_buffer_reserve(&sink->waiting, n + sizeof(prefix) + 2)) return false;
    if (sink->line_open && !continues) run_buffer_append(&sink->waiting, "\n", 1);
    run_buffer_append(&sink->waiting, prefix, (size_t)prefix_bytes);
    run_buffer_append(&sink->waiting, line, n);
    if (!ends && o->prefix) run_buffer_append(&sink->waiting, "\n", 1);
    sink->line_open = !ends && !o->prefix;
    sink->last_rank = rank;
    return true;
}

/* How many bytes at the front of the stream may move on now: a line, or what will not become one. */
static size_t ready_bytes(const struct run_output *o, struct run_stream *s)
{
    size_t n = run_buffer_held(&s->unsent);
    const char *from = s->unsent.bytes + s->unsent.begin, *newline;
    if (!n) return 0;
    newline = memchr(from + s->scanned, '\n', n - s->scanned);
    if (newline) return (size_t)(newline - from) + 1;
    s->scanned = n;
    if (s->sink->rewrites && from[n - 1] == '\r') return n;
    return s->fd < 0 || n >= RUN_LINE_BYTES || !o->whole_lines ? n : 0;
}

static void forward(struct run_output *o, struct run_stream *s)
{
    size_t n;
    while ((s->sink->broken || run_buffer_held(&s->sink->waiting) < RUN_SINK_BYTES) &&
           (n = ready_bytes(o, s)) > 0) {
        if (!s->sink->broken && !put(o, s->sink, s->rank, s->unsent.bytes + s->unsent.begin, n)) return;
        run_buffer_drop(&s->unsent, n);
        s->scanned = 0;
    }
}

/* Whoever was first comes last next time. */
static void forward_all(struct run_output *o)
{
    for (size_t i = 0; i < o->n; i++) forward(o, &o->streams[(o->first + i) % o->n]);
    o->first = o->n ? (o->first + 1) % o->n : 0;
}

static void receive(struct run_stream *s)
{
    size_t want = RUN_LINE_BYTES - run_buffer_held(&s->unsent);
    ssize_t got;
    if (want > 65536) want = 65536;
    if (!run_buffer_reserve(&s->unsent, want)) return;
    got = read(s->fd, s->unsent.bytes + s->unsent.end, want);
    if (got > 0)
        s->unsent.end += (size_t)got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        end_stream(s);
}

/* At most PIPE_BUF bytes: so much a pipe that is ready takes without blocking. */
static void write_some(struct run_output *o, struct run_sink *sink)
{
    size_t n = run_buffer_held(&sink->waiting);
    ssize_t put_bytes =
        write(sink->fd, sink->waiting.bytes + sink->waiting.begin, n < PIPE_BUF ? n : PIPE_BUF);
    if (put_bytes >= 0) {
        run_buffer_drop(&sink->waiting, (size_t)put_bytes);
        return;
    }
    if (errno == EINTR || errno == EAGAIN) return;
    /* Closing their ends tells the ranks as their own stdout would have: with SIGPIPE, or EIO from a
     * terminal. */
    sink->broken = true;
    run_buffer_drop(&sink->waiting, n);
    for (size_t i = 0; i < o->n; i++)
        if (o->streams[i].sink == sink) end_stream(&o->streams[i]);
}

/* ---- the loop's view ------------------------------------------------------------------------------ */

static bool takes_more(const struct run_stream *s)
{
    return s->fd >= 0 && run_buffer_held(&s->unsent) < RUN_LINE_BYTES &&
           run_buffer_held(&s->sink->waiting) < RUN_SINK_BYTES;
}

size_t run_output_fds(struct run_output *o, struct pollfd *fds)
{
    forward_all(o);
    for (size_t i = 0; i < 2; i++) {
        struct run_sink *sink = &o->sinks[i];
        fds[i] = (struct pollfd){.fd = run_buffer_held(&sink->waiting) ? sink->fd : -1, .events = POLLOUT};
    }
    for (size_t i = 0; i < o->n; i++)
        fds[2 + i] =
            (struct pollfd){.fd = takes_more(&o->streams[i]) ? o->streams[i].fd : -1, .events = POLLIN};
    return 2 + o->n;
}

void run_output_step(struct run_output *o, const struct pollfd *fds, size_t n)
{
    for (size_t i = 2; i < n; i++)
        if (fds[i].fd >= 0 && fds[i].revents) receive(&o->streams[i - 2]);
    for (size_t i = 0; i < 2; i++)
        if (fds[i].fd >= 0 && fds[i].revents) write_some(o, &o->sinks[i]);
    forward_all(o);
}

bool run_output_ended(const struct run_output *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->streams[i].fd >= 0 || run_buffer_held(&o->streams[i].unsent)) return false;
    return !run_buffer_held(&o->sinks[0].waiting) && !run_buffer_held(&o->sinks[1].waiting);
}

void run_output_cut(struct run_output *o)
{
    for (size_t i = 0; i < o->n; i++) {
        struct pollfd fd = {.fd = o->streams[i].fd, .events = POLLIN};
        if (takes_more(&o->streams[i]) && poll(&fd, 1, 0) == 0) end_stream(&o->streams[i]);
    }
}

void run_output_abandon(struct run_output *o)
{
    for (size_t i = 0; i < o->n; i++) end_stream(&o->streams[i]);
    for (size_t i = 0; i < 2; i++) {
        o->sinks[i].broken = true;
        run_buffer_drop(&o->sinks[i].waiting, run_buffer_held(&o->sinks[i].waiting));
    }
    forward_all(o);
}

void run_say(struct run_output *o, const char *format, ...)
{
    char line[1024] = "weft-run: ";
    size_t used = strlen(line);
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    if (n < 0) return;
    used = strlen(line);
    line[used++] = '\n';
    if (!o->err->broken) put(o, o->err, RUN_NOBODY, line, used);
}
