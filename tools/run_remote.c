/* run_remote.c - the life of a job over hosts:
 *
 *   RUNNING    until a rank fails, a host is lost, a signal comes, the time is up, or all have ended
 *   NOTICED    a rank has failed; a death by signal elsewhere that is told of in these milliseconds explains more
 *   STOPPING   every agent has been told to ask its ranks to end
 *   KILLING    to kill them; whoever does not obey has its launcher killed
 *
 * Each agent ends all its ranks by itself when one of them fails, and when its stdin ends or falls silent. */
#include "run_remote.h"
#include "run_agent.h"
#include "run_input.h"
#include "run_link.h"
#include "run_lost.h"
#include "run_meet.h"
#include "run_output.h"
#include "run_rank.h"
#include "run_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOTICE_MS 100
#define GRACE_MS  3000  /* more than an agent takes from asking to killing */
#define START_MS  60000 /* until a host has greeted */
#define DRAIN_MS  1000  /* between a launcher's end and that of what it has left in the pipe */
#define NEVER     INT64_MAX

static const char not_understood[] = "weft-run there says what this one does not understand";

enum phase { RUNNING, NOTICED, STOPPING, KILLING };

struct remote {
    const struct run_remote_options *options;
    struct run_launch launch;
    struct run_link *links;
    struct run_exit_frame *exits; /* of each rank; pid 0: it has not ended */
    struct run_output output;
    char secret[RUN_SECRET_BYTES], address[RUN_ADDRESS_BYTES]; /* where the ranks meet; "": not known yet */
    int port, signal_fd, n;                                    /* n: of hosts */
    enum phase phase;
    int64_t phase_ends_ms, time_up_ms, ping_ms;
    bool hurried; /* a second signal has come */
    int culprit, exit_code;
    size_t credit; /* bytes of input that may be sent on */
    bool input_ended, cut[2];
    struct pollfd *fds;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_over(const struct run_link *link)
{
    return link->state == RUN_LINK_ENDED || link->state == RUN_LINK_LOST;
}

/* Nothing of the job is left on any host; nor here, where launchers count. */
static bool all_over(const struct remote *r, bool launchers)
{
    bool over = true;
    for (int i = 0; i < r->n; i++) over = over && is_over(&r->links[i]) && !(launchers && r->links[i].pid);
    return over;
}

static void tell(struct run_link *link, enum run_kind kind, uint32_t word)
{
    if (link->in >= 0 && link->state == RUN_LINK_AT_WORK) run_frame_put(&link->to, kind, &word, 1);
}

static void tell_all(struct remote *r, enum run_kind kind, uint32_t word)
{
    for (int i = 0; i < r->n; i++) tell(&r->links[i], kind, word);
}

/* ---- from phase to phase ----------------------------------------------------------------------------- */

static void enter(struct remote *r, enum phase phase, int64_t ms)
{
    r->phase = phase;
    r->phase_ends_ms = now_ms() + ms;
}

static void give_up(struct run_link *link)
{
    if (link->pid) kill(-link->pid, SIGTERM);
    run_link_hang_up(link);
}

/* A host without orders has nothing to end. */
static void stop_all(struct remote *r, int signal)
{
    tell_all(r, RUN_SIGNAL, (uint32_t)signal);
    for (int i = 0; i < r->n; i++)
        if (r->links[i].state < RUN_LINK_AT_WORK) give_up(&r->links[i]);
    enter(r, STOPPING, GRACE_MS);
}

static void kill_all(struct remote *r)
{
    if (r->phase == KILLING) {
        for (int i = 0; i < r->n; i++)
            if (r->links[i].pid) kill(-r->links[i].pid, SIGKILL);
        run_output_abandon(&r->output);
    }
    tell_all(r, RUN_SIGNAL, SIGKILL);
    enter(r, KILLING, GRACE_MS);
}

static void blame(struct remote *r)
{
    const struct run_exit_frame *rank = &r->exits[r->culprit];
    const char *host = "";
    for (int i = 0; i < r->n && r->links[i].first <= rank->rank; i++) host = r->links[i].host->name;
    if (rank->signal)
        run_say(&r->output, "rank %d (host %s, pid %d) was killed by %s", rank->rank, host, rank->pid,
                run_signal_name(rank->signal));
    else
        run_say(&r->output, "rank %d (host %s, pid %d) exited with code %d", rank->rank, host, rank->pid,
                rank->code);
    r->exit_code = rank->signal ? 128 + rank->signal : rank->code;
}

static void note_end(struct remote *r, const struct run_exit_frame *how)
{
    bool failed = how->code || how->signal;
    r->exits[how->rank] = *how;
    if (!failed || r->phase > NOTICED) return;
    if (r->phase == RUNNING) enter(r, NOTICED, NOTICE_MS);
    if (r->culprit < 0 || (how->signal && !r->exits[r->culprit].signal)) r->culprit = how->rank;
}

static void time_is_up(struct remote *r)
{
    char who[256] = "";
    size_t used = 0;
    for (int i = 0; i < r->options->job->world && used < sizeof(who) - 32; i++)
        if (!r->exits[i].pid)
            used += (size_t)snprintf(who + used, sizeof(who) - used, "%s%d", used ? ", " : "", i);
    run_say(&r->output, "the job's %g s are over; still running: rank %s%s",
            (double)r->options->job->timeout_ms / 1000, who, used >= sizeof(who) - 32 ? ", ..." : "");
    r->exit_code = RUN_EXIT_TIMEOUT;
    r->time_up_ms = NEVER;
    stop_all(r, SIGTERM);
}

/* ---- a host that is lost ------------------------------------------------------------------------------- */

/* Ends the job, unless it is ending already. */
static void lose(struct remote *r, struct run_link *link, const char *why)
{
    char sentence[RUN_LOST_BYTES];
    run_lost_sentence(link, &r->launch, why, sentence, sizeof(sentence));
    give_up(link);
    link->state = RUN_LINK_LOST;
    if (r->phase > NOTICED) return;
    if (r->culprit >= 0) {
        blame(r);
        stop_all(r, SIGTERM);
        return;
    }
    run_say(&r->output, "%s", sentence);
    r->exit_code = why ? RUN_EXIT_CANNOT : run_lost_code(link);
    stop_all(r, SIGTERM);
}

static bool try_by_path(struct remote *r, struct run_link *link)
{
    if (!run_lost_is_missing(link, &r->launch) || link->by_path || link->state != RUN_LINK_STARTING ||
        r->phase != RUNNING)
        return false;
    run_link_close(link);
    return run_link_open(link, &r->launch, true, now_ms()) == 0;
}

/* ---- orders -------------------------------------------------------------------------------------------- */

static bool give_orders(struct remote *r, struct run_link *link)
{
    const struct run_remote_options *options = r->options;
    const struct run_style *style = &r->output.style;
    struct run_orders orders = {.world = options->job->world,
                                .first = link->first,
                                .ranks = link->host->ranks,
                                .devices = options->job->devices,
                                .bind = options->bind,
                                .whole_lines = style->whole_lines,
                                .rewrites = r->output.out->rewrites && !style->dir,
                                .terminal = r->output.out->is_terminal && !style->dir,
                                .verbose = options->verbose,
                                .address = r->address,
                                .port = r->port,
                                .dir = options->dir,
                                .secret = r->secret,
                                .program = (char **)(uintptr_t)options->job->program};
    bool done;
    orders.environment = run_meet_environment(options->exports, link->host);
    done = orders.environment && run_orders_put(&link->to, &orders);
    run_meet_environment_free(orders.environment);
    if (done) link->state = RUN_LINK_AT_WORK;
    return done;
}

static void choose_place(struct remote *r, const struct run_link *link, const struct run_hello *hello)
{
    char why[RUN_WHY_BYTES], **environment = run_meet_environment(r->options->exports, link->host);
    const char *interface = environment ? run_meet_variable(environment, "WEFT_SOCKET_IFNAME") : NULL;
    run_meet_address(hello, link->host, r->n == 1, interface, r->address, why);
    r->port = hello->port;
    run_meet_environment_free(environment);
    if (r->options->verbose)
        run_say(&r->output, "rank 0 is on host %s (%s), and the ranks meet at %s port %d: %s",
                link->host->name, hello->host, r->address, r->port, why);
}

static void take_hello(struct remote *r, struct run_link *link, struct run_frame *f)
{
    struct run_hello hello;
    char command[512];
    if (!run_hello_read(f, &hello)) {
        lose(r, link, not_understood);
        return;
    }
    if (!hello.port) {
        lose(r, link, "it has no free TCP port");
        return;
    }
    link->state = RUN_LINK_KNOWN;
    run_clock_ask(&link->part.clock, &link->to, run_clock_ns());
    run_link_command(link, &r->launch, command, sizeof(command));
    if (r->options->verbose)
        run_say(&r->output, "host %s: ranks %d to %d, by \"%s\", weft-run %s", link->host->name, link->first,
                link->first + link->host->ranks - 1, command, hello.version);
    if (link == r->links) choose_place(r, link, &hello);
    for (int i = 0; i < r->n && *r->address && r->phase == RUNNING; i++)
        if (r->links[i].state == RUN_LINK_KNOWN && !give_orders(r, &r->links[i]))
            lose(r, &r->links[i], "its orders are larger than 4 MiB, or have more than 65536 words");
}

/* ---- words of agents ---------------------------------------------------------------------------------- */

static bool pass_output(struct remote *r, const struct run_link *link, struct run_frame *f)
{
    int rank = run_frame_read_count(f, r->options->job->world - 1), which = run_frame_read_count(f, 1);
    if (f->wrong || rank < link->first || rank >= link->first + link->host->ranks) return false;
    run_output_pass(&r->output, rank, which, (const char *)f->at, f->left);
    return true;
}

static void take_end(struct remote *r, struct run_link *link, int code)
{
    link->state = RUN_LINK_ENDED;
    link->code = code;
    run_link_hang_up(link);
    if (!code || r->phase != RUNNING) return;
    r->exit_code = code; /* what it had to say of that it has said */
    stop_all(r, SIGTERM);
}

static bool take_word(struct remote *r, struct run_link *link, struct run_frame *f)
{
    struct run_exit_frame how;
    const char *text;
    switch (f->kind) {
    case RUN_HELLO:
        if (link->state != RUN_LINK_GREETED) return false;
        take_hello(r, link, f);
        return true;
    case RUN_OUTPUT: return pass_output(r, link, f);
    case RUN_SAY:
        text = run_frame_read_text(f);
        if (!f->wrong && r->phase <= NOTICED) run_say(&r->output, "host %s: %s", link->host->name, text);
        return !f->wrong;
    case RUN_DUMP: /* also once the job is ending: that is when there are any */
        text = run_frame_read_text(f);
        return !f->wrong && run_part_begin(&link->part, text);
    case RUN_DUMP_TEXT: return run_part_add(&link->part, f->at, f->left);
    case RUN_EXIT:
        if (!run_exit_read(f, r->options->job->world, &how)) return false;
        if (how.rank < link->first || how.rank >= link->first + link->host->ranks) return false;
        note_end(r, &how);
        return true;
    case RUN_TAKEN:
        r->credit += (size_t)run_frame_read_count(f, RUN_INPUT_WINDOW);
        return !f->wrong && r->credit <= RUN_INPUT_WINDOW;
    case RUN_PONG: return run_clock_take(&link->part.clock, f, run_clock_ns());
    case RUN_ENDED: take_end(r, link, run_frame_read_count(f, 255)); return !f->wrong;
    default: return false;
    }
}

static void look_at_words(struct remote *r, struct run_link *link)
{
    enum run_took took = RUN_TOOK_NOTHING;
    struct run_frame f;
    char line[1024];
    while (!run_output_full(&r->output) && (took = run_link_next(link, &f)) == RUN_TOOK_FRAME)
        if (!take_word(r, link, &f)) {
            lose(r, link, not_understood);
            return;
        }
    if (took == RUN_TOOK_NONSENSE)
        lose(r, link,
             link->state == RUN_LINK_STARTING ? "what it prints at first is not what weft-run says"
                                              : not_understood);
    while (run_link_line(link, line, sizeof(line)))
        if (link->state > RUN_LINK_STARTING && *line)
            run_say(&r->output, "host %s: %s", link->host->name, line);
}

/* What it has said comes first.  While that has to wait for a reader here nobody is late. */
static void look_at_link(struct remote *r, struct run_link *link)
{
    int64_t now = now_ms();
    look_at_words(r, link);
    if (run_output_full(&r->output)) link->heard_ms = link->reaped_ms = now;
    if (is_over(link) || run_output_full(&r->output)) return;
    if ((link->out < 0 && link->err < 0 && !link->pid) ||
        (link->out < 0 && now >= link->heard_ms + DRAIN_MS) || /* how it ended is worth a moment */
        (!link->pid && now >= link->reaped_ms + DRAIN_MS)) {
        if (!link->pid && try_by_path(r, link)) return;
        lose(r, link, NULL);
    } else if (link->state == RUN_LINK_STARTING && now >= link->heard_ms + START_MS) {
        lose(r, link,
             "weft-run has not answered there within 60 s; if it is asked for a password, let it in without");
    } else if (link->state == RUN_LINK_AT_WORK && now >= link->heard_ms + RUN_SILENT_MS) {
        lose(r, link, "it has not answered for 60 s");
    }
}

/* ---- input, signals, time ------------------------------------------------------------------------------ */

/* A terminal is read in the foreground only, and nothing before rank 0 can have it. */
static bool reads_input(const struct remote *r)
{
    return !r->input_ended && r->credit && r->links[0].state == RUN_LINK_AT_WORK && r->phase == RUNNING &&
           (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp());
}

static void pass_input(struct remote *r)
{
    static char bytes[RUN_INPUT_WINDOW];
    ssize_t n = read(STDIN_FILENO, bytes, r->credit);
    struct run_frame_out f;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    r->input_ended = n <= 0;
    f = run_frame_begin(&r->links[0].to, n > 0 ? RUN_INPUT : RUN_INPUT_END);
    if (n > 0) run_frame_raw(&f, bytes, (size_t)n);
    if (run_frame_end(&f) && n > 0) r->credit -= (size_t)n;
}

static void reap(struct remote *r)
{
    int how;
    for (int i = 0; i < r->n; i++) {
        struct run_link *link = &r->links[i];
        if (!link->pid || waitpid(link->pid, &how, WNOHANG) != link->pid) continue;
        link->pid = 0;
        link->how = how;
        link->reaped_ms = now_ms();
    }
}

/* What was asked to stop hears so before this process stops, and is not taken for silent afterwards. */
static void suspend(struct remote *r)
{
    tell_all(r, RUN_SIGNAL, SIGTSTP);
    for (int i = 0; i < r->n; i++)
        if (run_buffer_held(&r->links[i].to) && r->links[i].in >= 0) {
            struct pollfd fds[RUN_LINK_FDS];
            run_link_fds(&r->links[i], fds, true);
            if (poll(fds, 1, 100) > 0) run_link_step(&r->links[i], fds, now_ms());
        }
    raise(SIGSTOP);
    tell_all(r, RUN_SIGNAL, SIGCONT);
    for (int i = 0; i < r->n; i++) r->links[i].heard_ms = now_ms();
}

static void look_at_signals(struct remote *r)
{
    struct signalfd_siginfo s;
    while (read(r->signal_fd, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        int signal = (int)s.ssi_signo;
        if (signal == SIGCHLD) {
            reap(r);
        } else if (signal == SIGTSTP) {
            suspend(r);
        } else if (signal == SIGUSR1 || signal == SIGUSR2) {
            tell_all(r, RUN_SIGNAL, (uint32_t)signal);
        } else if (r->phase <= NOTICED) {
            run_say(&r->output, "got %s; ending the job", run_signal_name(signal));
            r->exit_code = 128 + signal;
            stop_all(r, signal);
        } else {
            r->hurried = true; /* whoever asks twice does not want to wait */
            kill_all(r);
        }
    }
}

static void look_at_clock(struct remote *r)
{
    int64_t now = now_ms();
    if (now >= r->ping_ms) {
        for (int i = 0; i < r->n; i++)
            if (r->links[i].state == RUN_LINK_AT_WORK || r->links[i].state == RUN_LINK_KNOWN)
                run_clock_ask(&r->links[i].part.clock, &r->links[i].to, run_clock_ns());
        r->ping_ms = now + RUN_PING_MS;
    }
    if (r->phase <= NOTICED && now >= r->time_up_ms) time_is_up(r);
    if (r->phase == RUNNING || now < r->phase_ends_ms || all_over(r, true)) return;
    if (r->phase == NOTICED) {
        blame(r);
        stop_all(r, SIGTERM);
    } else if (run_output_full(&r->output) && !r->hurried) {
        r->phase_ends_ms =
            now + GRACE_MS; /* nobody listens to the hosts meanwhile, who end their ranks by themselves */
    } else {
        kill_all(r);
    }
}

/* Nobody reads the ranks' output here: they are told as their own pipe would tell them. */
static void look_at_readers(struct remote *r)
{
    for (int which = 0; which < 2; which++)
        if (!r->cut[which] && run_output_broken(&r->output, which)) {
            tell_all(r, RUN_CUT, (uint32_t)which);
            r->cut[which] = true;
        }
}

/* Nobody would read what the ranks go on to print. */
static void look_at_output(struct remote *r)
{
    if (!run_output_lost(&r->output) || r->exit_code) return;
    r->exit_code = RUN_EXIT_CANNOT;
    if (r->phase <= NOTICED) stop_all(r, SIGTERM);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static int time_to_sleep(const struct remote *r)
{
    int64_t until = r->ping_ms, left;
    if (r->phase != RUNNING && r->phase_ends_ms < until && !all_over(r, true)) until = r->phase_ends_ms;
    if (r->phase <= NOTICED && r->time_up_ms < until) until = r->time_up_ms;
    left = until - now_ms();
    for (int i = 0; i < r->n; i++) /* its end is looked at again soon */
        if (!is_over(&r->links[i]) && (r->links[i].out < 0 || !r->links[i].pid) && left > 50) left = 50;
    if (!r->input_ended && isatty(STDIN_FILENO) && left > 500)
        left = 500; /* nobody tells of the foreground */
    return left < 0 ? 0 : (int)left;
}

static void turn(struct remote *r)
{
    struct pollfd *links = r->fds + 2, *output = links + (size_t)RUN_LINK_FDS * (size_t)r->n;
    bool full = run_output_full(&r->output);
    size_t n = run_output_fds(&r->output, output);
    r->fds[0] = (struct pollfd){.fd = r->signal_fd, .events = POLLIN};
    r->fds[1] = (struct pollfd){.fd = reads_input(r) ? STDIN_FILENO : -1, .events = POLLIN};
    for (int i = 0; i < r->n; i++) run_link_fds(&r->links[i], links + (size_t)RUN_LINK_FDS * (size_t)i, full);
    poll(r->fds, 2 + (size_t)RUN_LINK_FDS * (size_t)r->n + n, time_to_sleep(r));
    if (r->fds[1].fd >= 0 && r->fds[1].revents) pass_input(r);
    for (int i = 0; i < r->n; i++)
        run_link_step(&r->links[i], links + (size_t)RUN_LINK_FDS * (size_t)i, now_ms());
    run_output_step(&r->output, output);
    look_at_signals(r);
    for (int i = 0; i < r->n; i++) look_at_link(r, &r->links[i]);
    look_at_readers(r);
    look_at_output(r);
    look_at_clock(r);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static bool open_job(struct remote *r, const struct run_style *style, char *failed, size_t bytes)
{
    size_t world = (size_t)r->options->job->world;
    const size_t need = 3 * (size_t)r->n + (r->options->job->output_dir ? 2 * world : 0) + 64;
    if (!run_signals_descriptors(need)) {
        snprintf(failed, bytes, "%zu descriptors are needed for %zu ranks on %d hosts", need, world, r->n);
        errno = EMFILE;
        return false;
    }
    *failed = '\0';
    r->links = calloc((size_t)r->n, sizeof(*r->links));
    r->exits = calloc(world, sizeof(*r->exits));
    r->fds = calloc(4 * world + (size_t)RUN_LINK_FDS * (size_t)r->n + 4, sizeof(*r->fds));
    return r->links && r->exits && r->fds && run_output_init(&r->output, (int)world, style, failed, bytes) &&
           (r->signal_fd = run_signals_open(&r->launch.signals)) >= 0;
}

static void start_all(struct remote *r)
{
    int first = 0;
    for (int i = 0; i < r->n; i++) {
        struct run_link *link = &r->links[i];
        link->host = &r->options->hosts.host[i];
        link->first = first;
        link->part = (struct run_part){.host = link->host->name, .first = first, .ranks = link->host->ranks};
        link->in = link->out = link->err = -1;
        first += link->host->ranks;
    }
    for (int i = 0; i < r->n && r->phase == RUNNING; i++) {
        int error = run_link_open(&r->links[i], &r->launch, false, now_ms());
        if (error) lose(r, &r->links[i], strerror(error));
    }
    for (int i = 0; i < r->n; i++) /* those that were not started any more */
        if (!r->links[i].pid) r->links[i].state = RUN_LINK_LOST;
}

static void live(struct remote *r)
{
    if (r->options->job->timeout_ms) r->time_up_ms = now_ms() + r->options->job->timeout_ms;
    r->ping_ms = now_ms() + RUN_PING_MS;
    start_all(r);
    while (!all_over(r, true) || !run_output_ended(&r->output)) {
        turn(r);
        if (!all_over(r, false) || r->phase >= STOPPING) continue;
        if (r->phase == NOTICED) blame(r); /* all have ended before the others were asked to */
        enter(r, STOPPING, GRACE_MS);      /* for launchers that do not end by themselves once all is over */
    }
}

/* What each host has written down in one file; what is not in it is where its host has it. */
static void gather(const struct remote *r)
{
    const struct run_part **parts = calloc((size_t)r->n, sizeof(*parts));
    char path[PATH_MAX];
    bool all = false;
    for (int i = 0; parts && i < r->n; i++) parts[i] = &r->links[i].part;
    if (parts) all = run_gather_write(parts, r->n, path, sizeof(path));
    if (all)
        fprintf(stderr, "weft-run: what the ranks of all hosts did last is in %s\n", path);
    else if (parts && *path)
        fprintf(stderr, "weft-run: what the hosts' ranks did last cannot be put into one file: %s\n", path);
    for (int i = 0; i < r->n; i++)
        if (r->links[i].part.file && !(all && r->links[i].part.whole))
            fprintf(stderr, "weft-run: what the ranks of host %s did last is in %s, there\n",
                    r->links[i].host->name, r->links[i].part.file);
    free(parts);
}

int run_remote(const struct run_remote_options *options, const struct run_style *style)
{
    struct remote r = {.options = options,
                       .launch = {.command = options->launch, .path = options->path},
                       .n = options->hosts.n,
                       .signal_fd = -1,
                       .time_up_ms = NEVER,
                       .culprit = -1,
                       .credit = RUN_INPUT_WINDOW};
    char failed[RUN_NAME_BYTES];
    if (!run_secret_find(r.secret, failed, sizeof(failed))) {
        fprintf(stderr, "weft-run: %s\n", failed);
        return RUN_EXIT_USAGE;
    }
    if (open_job(&r, style, failed, sizeof(failed))) {
        live(&r);
        if (r.exit_code) gather(&r);
    } else {
        fprintf(stderr, "weft-run: cannot start: %s%s%s\n", failed, *failed ? ": " : "", strerror(errno));
        r.exit_code = RUN_EXIT_CANNOT;
    }
    for (int i = 0; r.links && i < r.n; i++) run_link_close(&r.links[i]);
    explicit_bzero(r.secret, sizeof(r.secret));
    if (!run_output_free(&r.output) && !r.exit_code) r.exit_code = RUN_EXIT_CANNOT;
    free(r.links);
    free(r.exits);
    free(r.fds);
    return r.exit_code;
}
