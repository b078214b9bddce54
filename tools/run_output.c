/* run_output.c - collecting lines from the ranks' pipes and writing them out.
 * Running out of memory loses no bytes: a line that cannot be kept whole is passed on in pieces. */
#include "run_output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RUN_NOBODY (-1)

/* ---- set-up ----------------------------------------------------------------------------------- */

static bool one_file(int a, int b)
{
    struct stat sa, sb;
    return !fstat(a, &sa) && !fstat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* An agent's sink takes frames for a reader that may have a terminal. */
static void open_standard_sinks(struct run_output *o)
{
    const struct run_style *style = &o->style;
    bool plain = !style->prefix && !style->timestamps;
    o->sinks[0] = (struct run_sink){.fd = STDOUT_FILENO, .last_rank = RUN_NOBODY};
    o->sinks[1] = (struct run_sink){.fd = STDERR_FILENO, .last_rank = RUN_NOBODY};
    for (int i = 0; i < 2; i++) {
        o->sinks[i].is_terminal = style->framed ? style->terminal : isatty(o->sinks[i].fd);
        o->sinks[i].rewrites = style->framed ? style->rewrites : plain && o->sinks[i].is_terminal;
    }
    o->out = &o->sinks[0];
    o->err = style->framed || one_file(STDOUT_FILENO, STDERR_FILENO) ? o->out : &o->sinks[1];
}

/* "out/rank.3.err" */
static void name_of(const struct run_output *o, size_t sink, char *name, size_t bytes)
{
    if (sink < 2)
        snprintf(name, bytes, "standard %s", sink ? "error" : "output");
    else
        snprintf(name, bytes, "%s/rank.%d.%s", o->style.dir, o->style.first + (int)(sink - 2) / 2,
                 sink % 2 ? "err" : "out");
}

static bool open_files(struct run_output *o, char *failed, size_t bytes)
{
    if (mkdir(o->style.dir, 0777) && errno != EEXIST) {
        snprintf(failed, bytes, "%s", o->style.dir);
        return false;
    }
    for (size_t i = 2; i < o->sinks_n; i++) {
        name_of(o, i, failed, bytes);
        o->sinks[i] = (struct run_sink){.fd = open(failed, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
                                        .last_rank = RUN_NOBODY};
        if (o->sinks[i].fd < 0) return false;
    }
    return true;
}

bool run_output_init(struct run_output *o, int ranks, const struct run_style *style, char *failed,
                     size_t bytes)
{
    size_t n = 2 * (size_t)ranks;
    *o = (struct run_output){.style = *style, .sinks_n = style->dir ? n + 2 : 2};
    *failed = '\0';
    o->streams = calloc(n, sizeof(*o->streams));
    o->sinks = calloc(o->sinks_n, sizeof(*o->sinks));
    if (!o->streams || !o->sinks) return false;
    open_standard_sinks(o);
    for (size_t i = 2; i < o->sinks_n; i++) o->sinks[i].fd = -1;
    for (size_t i = 0; i < n; i++)
        o->streams[i] = (struct run_stream){.fd = -1,
                                            .rank = style->first + (int)(i / 2),
                                            .which = (int)(i % 2),
                                            .sink = style->dir ? &o->sinks[2 + i]
                                                    : i % 2    ? o->err
                                                               : o->out};
    o->n = n;
    return !style->dir || open_files(o, failed, bytes);
}

static void end_stream(struct run_stream *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

static void lose(struct run_output *o, size_t sink, int error)
{
    char name[RUN_NAME_BYTES];
    if (!o->lost) {
        name_of(o, sink, name, sizeof(name));
        run_say(o, "cannot write %s: %s", name, strerror(error));
    }
    o->lost = true;
}

bool run_output_free(struct run_output *o)
{
    bool kept = true;
    char name[RUN_NAME_BYTES];
    for (size_t i = 0; i < o->n; i++) {
        end_stream(&o->streams[i]);
        run_buffer_free(&o->streams[i].unsent);
    }
    for (size_t i = 0; o->sinks && i < o->sinks_n; i++) {
        run_buffer_free(&o->sinks[i].waiting);
        if (i < 2 || o->sinks[i].fd < 0 || !close(o->sinks[i].fd) || !kept) continue;
        name_of(o, i, name, sizeof(name));
        fprintf(stderr, "weft-run: cannot write %s: %s\n", name, strerror(errno));
        kept = false;
    }
    free(o->streams);
    free(o->sinks);
    return kept;
}

void run_output_add(struct run_output *o, int rank, int which, int fd)
{
    o->streams[2 * rank + which].fd = fd;
}

/* ---- from streams to sinks --------------------------------------------------------------------- */

static bool put_frame(struct run_output *o, int rank, int which, const char *line, size_t n)
{
    struct run_frame_out f = run_frame_begin(&o->out->waiting, RUN_OUTPUT);
    run_frame_number(&f, (uint32_t)rank);
    run_frame_number(&f, (uint32_t)which);
    run_frame_raw(&f, line, n);
    return run_frame_end(&f);
}

/* "2026-11-25 01:40:37.123 [2] " */
static size_t write_prefix(const struct run_style *style, int rank, char *prefix, size_t bytes)
{
    struct timespec t;
    struct tm when;
    size_t used = 0;
    *prefix = '\0';
    if (style->timestamps && !clock_gettime(CLOCK_REALTIME, &t) && localtime_r(&t.tv_sec, &when)) {
        used = strftime(prefix, bytes, "%F %T", &when);
        used += (size_t)snprintf(prefix + used, bytes - used, ".%03d ", (int)(t.tv_nsec / 1000000));
    }
    if (style->prefix) used += (size_t)snprintf(prefix + used, bytes - used, "[%d] ", rank);
    return used;
}

/* A line of another writer never continues an open one, and a line that was begun by us is always ended. */
static bool put(struct run_output *o, struct run_sink *sink, int rank, const char *line, size_t n)
{
    char prefix[64];
    bool ends = line[n - 1] == '\n', continues = sink->line_open && sink->last_rank == rank;
    size_t prefix_bytes = 0;
    if (rank != RUN_NOBODY && !continues)
        prefix_bytes = write_prefix(&o->style, rank, prefix, sizeof(prefix));
    if (!run_buffer_reserve(&sink->waiting, n + sizeof(prefix) + 2)) return false;
    if (sink->line_open && !continues) run_buffer_append(&sink->waiting, "\n", 1);
    run_buffer_append(&sink->waiting, prefix, prefix_bytes);
    run_buffer_append(&sink->waiting, line, n);
    sink->line_open = !ends && !prefix_bytes;
    if (!ends && prefix_bytes) run_buffer_append(&sink->waiting, "\n", 1);
    sink->last_rank = rank;
    return true;
}

static bool put_line(struct run_output *o, const struct run_stream *s, const char *line, size_t n)
{
    return o->style.framed ? put_frame(o, s->rank, s->which, line, n) : put(o, s->sink, s->rank, line, n);
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
    return s->fd < 0 || n >= RUN_LINE_BYTES || !o->style.whole_lines ? n : 0;
}

static void forward(struct run_output *o, struct run_stream *s)
{
    size_t n;
    while ((s->sink->broken || run_buffer_held(&s->sink->waiting) < RUN_SINK_BYTES) &&
           (n = ready_bytes(o, s)) > 0) {
        if (!s->sink->broken && !put_line(o, s, s->unsent.bytes + s->unsent.begin, n)) return;
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
    int error;
    ssize_t put_bytes =
        write(sink->fd, sink->waiting.bytes + sink->waiting.begin, n < PIPE_BUF ? n : PIPE_BUF);
    if (put_bytes >= 0) {
        run_buffer_drop(&sink->waiting, (size_t)put_bytes);
        return;
    }
    error = errno;
    if (error == EINTR || error == EAGAIN) return;
    /* Closing their ends tells the ranks as their own stdout would have: with SIGPIPE, or EIO from a
     * terminal. */
    sink->broken = true;
    run_buffer_drop(&sink->waiting, n);
    for (size_t i = 0; i < o->n; i++)
        if (o->streams[i].sink == sink) end_stream(&o->streams[i]);
    if (error != EPIPE && !(error == EIO && sink->is_terminal)) lose(o, (size_t)(sink - o->sinks), error);
}

/* ---- the loop's view ------------------------------------------------------------------------------ */

static bool takes_more(const struct run_stream *s)
{
    return s->fd >= 0 && run_buffer_held(&s->unsent) < RUN_LINE_BYTES &&
           run_buffer_held(&s->sink->waiting) < RUN_SINK_BYTES;
}

size_t run_output_fds(struct run_output *o, struct pollfd *fds)
{
    size_t n = 0;
    forward_all(o);
    for (size_t i = 0; i < o->sinks_n; i++) {
        struct run_sink *sink = &o->sinks[i];
        sink->polled = run_buffer_held(&sink->waiting) ? n : RUN_NOT_POLLED;
        if (sink->polled == n) fds[n++] = (struct pollfd){.fd = sink->fd, .events = POLLOUT};
    }
    for (size_t i = 0; i < o->n; i++) {
        struct run_stream *s = &o->streams[i];
        s->polled = takes_more(s) ? n : RUN_NOT_POLLED;
        if (s->polled == n) fds[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    }
    return n;
}

static bool has_news(const struct pollfd *fds, size_t polled)
{
    return polled != RUN_NOT_POLLED && fds[polled].revents;
}

void run_output_step(struct run_output *o, const struct pollfd *fds)
{
    for (size_t i = 0; i < o->n; i++)
        if (has_news(fds, o->streams[i].polled)) receive(&o->streams[i]);
    for (size_t i = 0; i < o->sinks_n; i++)
        if (has_news(fds, o->sinks[i].polled)) write_some(o, &o->sinks[i]);
    forward_all(o);
}

bool run_output_ended(const struct run_output *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->streams[i].fd >= 0 || run_buffer_held(&o->streams[i].unsent)) return false;
    for (size_t i = 0; i < o->sinks_n; i++)
        if (run_buffer_held(&o->sinks[i].waiting)) return false;
    return true;
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
    for (size_t i = 0; i < o->sinks_n; i++) {
        o->sinks[i].broken = true;
        run_buffer_drop(&o->sinks[i].waiting, run_buffer_held(&o->sinks[i].waiting));
    }
    forward_all(o);
}

void run_output_pass(struct run_output *o, int rank, int which, const char *line, size_t n)
{
    struct run_stream *s = &o->streams[2 * (rank - o->style.first) + which];
    if (n && !s->sink->broken) put(o, s->sink, rank, line, n);
}

bool run_output_broken(const struct run_output *o, int which)
{
    return !o->style.dir && (which ? o->err : o->out)->broken;
}

bool run_output_full(const struct run_output *o)
{
    for (size_t i = 0; i < o->sinks_n; i++)
        if (run_buffer_held(&o->sinks[i].waiting) >= RUN_SINK_BYTES) return true;
    return false;
}

bool run_output_lost(const struct run_output *o)
{
    return o->lost;
}

void run_output_close(struct run_output *o, int which)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->streams[i].which == which) end_stream(&o->streams[i]);
}

void run_output_frame(struct run_output *o, enum run_kind kind, const uint32_t *numbers, size_t n)
{
    if (o->style.framed && !o->out->broken) run_frame_put(&o->out->waiting, kind, numbers, n);
}

void run_say(struct run_output *o, const char *format, ...)
{
    char line[1024] = "weft-run: ";
    size_t begins = o->style.framed ? 0 : strlen(line), used;
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(line + begins, sizeof(line) - begins - 1, format, args);
    va_end(args);
    if (n < 0 || o->err->broken) return;
    used = strlen(line);
    if (o->style.framed) {
        struct run_frame_out f = run_frame_begin(&o->out->waiting, RUN_SAY);
        run_frame_text(&f, line);
        run_frame_end(&f);
        return;
    }
    line[used++] = '\n';
    put(o, o->err, RUN_NOBODY, line, used);
}
