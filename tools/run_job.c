/* run_job.c - the life of a job:
 *
 *   RUNNING    until a rank fails, a signal comes, the time is up, or all have ended
 *   NOTICED    a rank has failed; what its failure did to others arrives in these milliseconds too, and a death by
 *              signal is the better explanation than an exit code
 *   STOPPING   all groups have been asked to end
 *   KILLING    they have been killed
 *   CLEARING   all ranks have ended; what they left running has been asked to end
 *   EMPTYING   and was killed; the last output is read, however slow its reader is
 *
 * Ranks stay zombies until CLEARING: so their numbers, and those of their groups,
 * cannot mean somebody else. */
#include "run_job.h"
#include "run_adopted.h"
#include "run_agent.h"
#include "run_clock.h"
#include "run_input.h"
#include "run_output.h"
#include "run_rank.h"
#include "run_terminal.h"
#include "run_watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOTICE_MS 50   /* between the first failure and the choice of who is to blame */
#define GRACE_MS  2000 /* between asking and killing */
#define CLEAR_MS  20   /* between looks at groups whose last members are nobody's children here */
#define NEVER     INT64_MAX

#define RECORDED_BYTES 192

enum phase { RUNNING, NOTICED, STOPPING, KILLING, CLEARING, EMPTYING };

struct job {
    const struct run_options *options;
    struct run_rank *ranks;
    struct run_output output;
    struct run_input input;
    struct run_watchdog watchdog;
    struct run_signals signals;
    struct run_adopted adopted;
    int signal_fd;
    time_t begun;
    enum phase phase;
    int64_t phase_ends_ms, time_up_ms;
    int culprit; /* the rank that is to blame so far, or -1 */
    int kills;   /* how often what ranks had left behind was killed */
    int exit_code;
    struct pollfd *fds;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void signal_all(const struct job *job, int signal)
{
    for (int r = 0; r < job->options->ranks; r++) run_rank_signal(&job->ranks[r], signal);
}

static bool is_own(const void *arg, pid_t pid)
{
    const struct job *job = arg;
    bool own = pid == job->watchdog.pid;
    for (int r = 0; r < job->options->ranks && !own; r++)
        own = job->ranks[r].pid == pid && !job->ranks[r].gone;
    return own;
}

/* What has ended is reaped where the kernel does not list children too, but not before CLEARING.  True: some are left. */
static bool signal_adopted(struct job *job, int signal)
{
    if (job->phase >= CLEARING)
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    return run_adopted_signal(&job->adopted, signal, is_own, job);
}

/* ---- from phase to phase ----------------------------------------------------------------------------- */

static void enter(struct job *job, enum phase phase, int64_t ms)
{
    job->phase = phase;
    job->phase_ends_ms = ms < 0 ? NEVER : now_ms() + ms;
}

static void stop_all(struct job *job, int signal)
{
    signal_all(job, signal);
    signal_all(job, SIGCONT); /* a stopped process ends only when it goes on */
    enter(job, STOPPING, GRACE_MS);
}

static void kill_all(struct job *job)
{
    signal_all(job, SIGKILL);
    signal_adopted(job, SIGKILL);
    enter(job, KILLING, GRACE_MS);
}

/* Nothing can be asked of a rank that has become another user's, by sudo(8) say. */
static void give_up_foreign(struct job *job)
{
    for (int r = 0; r < job->options->ranks; r++) {
        struct run_rank *rank = &job->ranks[r];
        if (!rank->pid || rank->ended || !kill(rank->pid, 0) || errno != EPERM) continue;
        run_say(&job->output, "rank %d (pid %d) is another user's now, cannot be killed, and is left running",
                job->options->first + r, (int)rank->pid);
        if (!job->exit_code) job->exit_code = RUN_EXIT_CANNOT;
        run_watchdog_forget(&job->watchdog, rank->pid);
        rank->pid = 0;
    }
}

/* "; weft-inspect --post-mortem default-29500 tells what all did last", where they have recorded it. */
static const char *recorded(const struct job *job, char text[RECORDED_BYTES])
{
    char name[128];
    *text = '\0';
    if (run_job_recorded(job->options->port, job->begun, NULL, name, sizeof(name)))
        snprintf(text, RECORDED_BYTES, "; weft-inspect --post-mortem %s tells what all did last", name);
    return text;
}

/* An agent leaves the words to whoever hears of all hosts. */
static void blame(struct job *job)
{
    const struct run_rank *rank = &job->ranks[job->culprit];
    char where[RECORDED_BYTES];
    job->exit_code = rank->signal ? 128 + rank->signal : rank->code;
    if (job->options->agent) return;
    if (rank->signal)
        run_say(&job->output, "rank %d (pid %d) was killed by %s%s", job->culprit, (int)rank->pid,
                run_signal_name(rank->signal), recorded(job, where));
    else
        run_say(&job->output, "rank %d (pid %d) exited with code %d%s", job->culprit, (int)rank->pid,
                rank->code, recorded(job, where));
}

/* Groups that still have members after their ranks have been reaped are asked to end. */
static void clear(struct job *job)
{
    if (job->phase == NOTICED) blame(job);
    for (int r = 0; r < job->options->ranks; r++) {
        if (!job->ranks[r].pid) continue;
        waitpid(job->ranks[r].pid, NULL, 0);
        run_rank_signal(&job->ranks[r], SIGTERM);
        run_rank_signal(&job->ranks[r], SIGCONT);
    }
    enter(job, CLEARING, GRACE_MS);
    signal_adopted(job, SIGTERM);
}

static bool all_gone(struct job *job)
{
    bool gone = true;
    for (int r = 0; r < job->options->ranks; r++) {
        struct run_rank *rank = &job->ranks[r];
        if (rank->pid && !rank->gone && kill(-rank->pid, 0) &&
            (errno == ESRCH || (errno == EPERM && job->kills > 1))) {
            rank->gone = true;
            run_watchdog_forget(&job->watchdog, rank->pid);
        }
        gone = gone && (!rank->pid || rank->gone);
    }
    return gone;
}

static void tell_end(struct job *job, const struct run_rank *rank, int r)
{
    const uint32_t words[] = {(uint32_t)(job->options->first + r), (uint32_t)rank->pid, (uint32_t)rank->code,
                              (uint32_t)rank->signal};
    run_output_frame(&job->output, RUN_EXIT, words, sizeof(words) / sizeof(words[0]));
}

/* Whose parent ends only now is asked, or killed, as the others were. */
static int signal_of_phase(enum phase phase)
{
    return phase == EMPTYING ? SIGKILL : phase == CLEARING ? SIGTERM : 0;
}

static void look_at_ranks(struct job *job)
{
    bool alive = false;
    signal_adopted(job, signal_of_phase(job->phase));
    for (int r = 0; r < job->options->ranks; r++) {
        struct run_rank *rank = &job->ranks[r];
        bool news = run_rank_look(rank);
        alive = alive || (rank->pid && !rank->ended);
        if (news) rank->asked = job->phase > NOTICED;
        if (news && job->phase <= NOTICED) tell_end(job, rank, r); /* later ones were asked to end */
        if (!news || !run_rank_failed(rank) || job->phase > NOTICED) continue;
        if (job->phase == RUNNING) enter(job, NOTICED, NOTICE_MS);
        if (job->culprit < 0 || (rank->signal && !job->ranks[job->culprit].signal)) job->culprit = r;
    }
    if (!alive && job->phase < CLEARING) clear(job);
}

static void time_is_up(struct job *job)
{
    char who[256] = "", where[RECORDED_BYTES];
    size_t used = 0;
    for (int r = 0; r < job->options->ranks && used < sizeof(who) - 32; r++)
        if (!job->ranks[r].ended)
            used += (size_t)snprintf(who + used, sizeof(who) - used, "%s%d", used ? ", " : "", r);
    run_say(&job->output, "the job's %g s are over; still running: rank %s%s%s",
            (double)job->options->timeout_ms / 1000, who, used >= sizeof(who) - 32 ? ", ..." : "",
            recorded(job, where));
    job->exit_code = RUN_EXIT_TIMEOUT;
    job->time_up_ms = NEVER;
    stop_all(job, SIGTERM);
}

static void look_at_clock(struct job *job)
{
    int64_t now = now_ms();
    if (job->phase <= NOTICED && now >= job->time_up_ms) time_is_up(job);
    if (now < job->phase_ends_ms) return;
    switch (job->phase) {
    case NOTICED:
        blame(job);
        stop_all(job, SIGTERM);
        break;
    case STOPPING: kill_all(job); break;
    case EMPTYING:
    case CLEARING:
        if (job->phase == EMPTYING) run_output_cut(&job->output);
        signal_all(job, SIGKILL);
        signal_adopted(job, SIGKILL);
        job->kills++;
        enter(job, EMPTYING, GRACE_MS);
        break;
    case KILLING:
        give_up_foreign(job);
        enter(job, KILLING, GRACE_MS);
        look_at_ranks(job);
        break;
    case RUNNING: break;
    }
}

/* ---- signals to weft-run
 * -------------------------------------------------------------------------------- */

/* The terminal's ^Z reaches weft-run's group only. */
static void suspend(struct job *job)
{
    signal_all(job, SIGTSTP);
    raise(SIGSTOP);
    signal_all(job, SIGCONT);
}

static void look_at_signals(struct job *job)
{
    struct signalfd_siginfo s;
    while (read(job->signal_fd, &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        int signal = (int)s.ssi_signo;
        if (signal == SIGCHLD) {
            look_at_ranks(job);
        } else if (signal == SIGTSTP) {
            suspend(job);
        } else if (signal == SIGUSR1 || signal == SIGUSR2) {
            signal_all(job, signal);
        } else if (job->phase <= NOTICED) {
            run_say(&job->output, "got %s; ending the job", run_signal_name(signal));
            job->exit_code = 128 + signal;
            stop_all(job, signal);
        } else if (job->phase == STOPPING) {
            kill_all(job); /* whoever asks twice does not want to wait */
        } else if (job->phase >= CLEARING) {
            if (!job->exit_code && !run_output_ended(&job->output)) job->exit_code = 128 + signal;
            job->phase_ends_ms = now_ms();
            run_output_abandon(&job->output); /* nor for a slow reader */
        }
    }
}

/* Nobody would read what the ranks go on to print. */
static void look_at_output(struct job *job)
{
    if (!run_output_lost(&job->output) || job->exit_code) return;
    job->exit_code = RUN_EXIT_CANNOT;
    if (job->phase <= NOTICED) stop_all(job, SIGTERM);
}

/* ---- words of the weft-run that has sent for this one ------------------------------------------------- */

static void obey(struct job *job, int signal)
{
    job->options->agent->quiet = signal == SIGTSTP;
    if (signal == SIGKILL) {
        if (job->phase < CLEARING) kill_all(job);
    } else if (signal == SIGTSTP || signal == SIGCONT || signal == SIGUSR1 || signal == SIGUSR2) {
        signal_all(job, signal);
    } else if (job->phase <= NOTICED) {
        job->exit_code = 128 + signal;
        stop_all(job, signal);
    }
}

static void take_word(struct job *job, struct run_frame *f)
{
    struct run_agent *agent = job->options->agent;
    uint32_t pong[RUN_CLOCK_NUMBERS];
    switch (f->kind) {
    case RUN_INPUT:
        if (!run_input_feed(&job->input, f->at, f->left)) agent->lost = true;
        break;
    case RUN_INPUT_END: run_input_end(&job->input); break;
    case RUN_SIGNAL: obey(job, run_frame_read_count(f, NSIG - 1)); break;
    case RUN_CUT: run_output_close(&job->output, run_frame_read_count(f, 1)); break;
    case RUN_PING:
        run_clock_answer(f, run_clock_ns(), pong);
        run_output_frame(&job->output, RUN_PONG, pong, RUN_CLOCK_NUMBERS);
        break;
    default: agent->lost = true;
    }
}

/* Without it there is nobody to run the job for. */
static void look_at_head(struct job *job, const struct pollfd *fd)
{
    struct run_agent *agent = job->options->agent;
    struct run_frame f;
    uint32_t taken;
    if (!agent || agent->lost) return;
    if (fd->revents) run_agent_receive(agent, now_ms());
    while (run_agent_next(agent, &f)) take_word(job, &f);
    if (now_ms() >= run_agent_deadline(agent)) agent->lost = true;
    taken = (uint32_t)job->input.taken;
    job->input.taken = 0;
    if (taken) run_output_frame(&job->output, RUN_TAKEN, &taken, 1);
    if (!agent->lost) return;
    run_output_abandon(&job->output);
    job->exit_code = RUN_EXIT_CANNOT;
    if (job->phase < CLEARING) kill_all(job);
}

/* ---- starting
 * ---------------------------------------------------------------------------------------------- */

/* Where there are no more pseudo-terminals a pipe does. */
static bool open_stdout(const struct job *job, int ends[2])
{
    if (job->output.out->is_terminal && run_terminal_open(job->output.out->fd, ends)) return true;
    return !pipe2(ends, O_CLOEXEC);
}

static int start_rank(struct job *job, int r)
{
    int out[2], err[2], fds[3], error;
    bool reads = r == 0 && job->input.give >= 0;
    int null = reads ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!reads && null < 0) return errno;
    fds[0] = reads ? job->input.give : null;
    if (!open_stdout(job, out)) {
        error = errno;
        goto close_null;
    }
    if (pipe2(err, O_CLOEXEC)) {
        error = errno;
        close(out[0]);
        goto close_out;
    }
    fds[1] = out[1];
    fds[2] = err[1];
    error = run_rank_start(&job->ranks[r], job->options, r, fds, &job->signals, &job->watchdog);
    run_output_add(&job->output, r, 0, out[0]);
    run_output_add(&job->output, r, 1, err[0]);
    close(err[1]);
close_out:
    close(out[1]);
close_null:
    if (null >= 0) close(null);
    return error;
}

static void say_spot(struct job *job, int r)
{
    const struct run_options *options = job->options;
    const struct run_spot *spot = options->spots ? run_spots_of(options->spots, r, options->ranks) : NULL;
    if (options->verbose && spot)
        run_say(&job->output, "rank %d is bound to %s", options->first + r, spot->text);
}

/* A rank that cannot be started ends the job. */
static void start_all(struct job *job)
{
    const char *program = job->options->program[0];
    int error = 0, r;
    for (r = 0; r < job->options->ranks && !error; r++) error = start_rank(job, r);
    run_input_given(&job->input);
    for (int i = 0; i < job->options->ranks && !error; i++) say_spot(job, i);
    if (!error) return;
    if (r == 1)
        run_say(&job->output, "cannot run %s: %s", program, strerror(error));
    else
        run_say(&job->output, "cannot start rank %d of %s: %s", job->options->first + r - 1, program,
                strerror(error));
    job->exit_code = error == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_CANNOT;
    kill_all(job);
    look_at_ranks(job);
}

/* What the ranks started has ended too, but for what cannot be killed: it may be another user's. */
static bool is_clear(struct job *job)
{
    const bool gone = all_gone(job);
    return gone && (!signal_adopted(job, 0) || job->kills > 1);
}

/* Until when poll may sleep. */
static int64_t next_look(const struct job *job)
{
    int64_t until =
        job->phase <= NOTICED && job->time_up_ms < job->phase_ends_ms ? job->time_up_ms : job->phase_ends_ms;
    const struct run_agent *agent = job->options->agent;
    if (agent && !agent->lost && run_agent_deadline(agent) < until) until = run_agent_deadline(agent);
    return until;
}

static void turn(struct job *job)
{
    struct pollfd *signals = job->fds, *head = job->fds + 1, *input = job->fds + 2, *output = job->fds + 4;
    const struct run_agent *agent = job->options->agent;
    int64_t until = next_look(job), left = until == NEVER ? -1 : until - now_ms();
    int most = run_input_fds(&job->input, input);
    size_t n = run_output_fds(&job->output, output);
    *signals = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
    *head = (struct pollfd){.fd = agent && !agent->lost ? STDIN_FILENO : -1, .events = POLLIN};
    if (until != NEVER && left < 0) left = 0;
    if (left > INT32_MAX) left = INT32_MAX;
    if (job->phase >= CLEARING && !is_clear(job)) most = CLEAR_MS;
    if (most >= 0 && (left < 0 || left > most)) left = most;
    poll(job->fds, n + 4, (int)left);
    run_input_step(&job->input, input);
    run_output_step(&job->output, output);
    look_at_head(job, head);
    look_at_signals(job);
    look_at_output(job);
    look_at_clock(job);
}

static bool open_job(struct job *job, const struct run_style *style, char *failed, size_t bytes)
{
    const struct run_options *options = job->options;
    size_t ranks = (size_t)options->ranks;
    /* Two pipes a rank, or a pipe and a pseudo-terminal, and two files. */
    run_signals_descriptors((options->output_dir ? 4 : 2) * ranks + 64);
    job->ranks = calloc(ranks, sizeof(*job->ranks));
    job->fds = calloc(4 * ranks + 6, sizeof(*job->fds));
    *failed = '\0';
    return job->ranks && job->fds && run_output_init(&job->output, options->ranks, style, failed, bytes) &&
           (job->signal_fd = run_signals_open(&job->signals)) >= 0 &&
           /* The watchdog first: it must not hold the end of a pipe that rank 0 reads. */
           run_watchdog_start(&job->watchdog, options->ranks) &&
           run_input_open(&job->input, !options->agent  ? RUN_INPUT_OWN
                                       : options->first ? RUN_INPUT_NONE
                                                        : RUN_INPUT_FED);
}

static void live(struct job *job)
{
    run_adopted_open(&job->adopted);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    job->begun = time(NULL);
    if (job->options->timeout_ms) job->time_up_ms = now_ms() + job->options->timeout_ms;
    start_all(job);
    while (job->phase < CLEARING || !is_clear(job) || !run_output_ended(&job->output)) turn(job);
    run_watchdog_stop(&job->watchdog);
    run_adopted_close(&job->adopted);
}

/* For weft-inspect --post-mortem, beside what the ranks have recorded. */
static void record_exits(const struct job *job)
{
    const size_t line = 64, ranks = (size_t)job->options->ranks;
    char *text = malloc(ranks * line + 1);
    size_t used = 0;
    if (!text) return;
    *text = '\0';
    for (size_t r = 0; r < ranks; r++) {
        const struct run_rank *rank = &job->ranks[r];
        if (rank->ended)
            used += (size_t)snprintf(text + used, line, "%d %d %d %d\n", (int)rank->pid, rank->code,
                                     rank->signal, rank->asked);
    }
    run_job_record_exits(job->options->port, job->begun, text);
    free(text);
}

int run_job(const struct run_options *options, const struct run_style *style)
{
    struct job job = {.options = options, .culprit = -1, .phase_ends_ms = NEVER, .time_up_ms = NEVER};
    char failed[RUN_NAME_BYTES];
    job.input.give = job.input.pipe = -1;
    if (open_job(&job, style, failed, sizeof(failed))) {
        live(&job);
        if (job.exit_code) record_exits(&job);
    } else {
        fprintf(stderr, "weft-run: cannot start: %s%s%s\n", failed, *failed ? ": " : "", strerror(errno));
        job.exit_code = RUN_EXIT_CANNOT;
    }
    run_input_given(&job.input);
    run_input_close(&job.input);
    if (!run_output_free(&job.output) && !job.exit_code) job.exit_code = RUN_EXIT_CANNOT;
    free(job.ranks);
    free(job.fds);
    return job.exit_code;
}
