/* peer_process.c - the processes behind the other ranks of this host: whether one has ended, or has become another
 * program.  What follows from that is peer.c's.
 *
 * A pidfd tells of its end, which is proof.  Its pipe (net/shm_segment.h) ends as its process does, as it leaves the job,
 * and as it becomes another program: so its process is asked for soon after.  Where ranks of one host share no memory none
 * of the two is there until the rank is thought to be dead. */
#include "peer_process.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY_NS (4 * WEFT__MS)    /* who has called exec has a stack soon, and who ends has ended */
#define LOOK_NS       (2000 * WEFT__MS) /* and who has no stack by then ends: its pidfd tells */

/* ---- its end ---- */

/* The kernel's struct pidfd_info (Linux 6.13; exit codes since 6.15), here because Debian 12's headers are
 * older. */
struct pidfd_info_start {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_GET_INFO_  _IOWR(0xFF, 11, struct pidfd_info_start)
#define PIDFD_INFO_EXIT_ (UINT64_C(1) << 3)

bool weft__peer_death_text(int pid_fd, char *text, size_t bytes)
{
    struct pidfd_info_start info = {.mask = PIDFD_INFO_EXIT_};
    bool told = ioctl(pid_fd, PIDFD_GET_INFO_, &info) >= 0 && info.mask & PIDFD_INFO_EXIT_;
    if (!told)
        snprintf(text, bytes, "has died");
    else if (WIFSIGNALED(info.exit_code))
        snprintf(text, bytes, "has died (killed by SIG%s)",
                 sigabbrev_np(WTERMSIG(info.exit_code)) ? sigabbrev_np(WTERMSIG(info.exit_code)) : "?");
    else
        snprintf(text, bytes, "has exited with code %d without leaving the job", WEXITSTATUS(info.exit_code));
    return told && WIFSIGNALED(info.exit_code);
}

bool weft__peer_is_watched(const weft__peer *m)
{
    weft__gone gone = atomic_load(&m->gone);
    return m->death.fd >= 0 && gone != WEFT__LEFT && gone != WEFT__DIED;
}

void weft__peer_let_go_of_death(weft_context *ctx, weft__peer *m)
{
    weft__poller_remove(&ctx->poller, &m->death);
    if (m->death_is_own) close(m->death.fd);
    if (m->death_is_own) m->death.fd = -1;
    m->death_is_own = false;
}

bool weft__peer_has_ended(const weft__peer *m)
{
    struct pollfd at = {.fd = m->death.fd, .events = POLLIN};
    return m->death.fd >= 0 && poll(&at, 1, 0) == 1;
}

/* ---- exec ----
 * Its pipe ends as its process does, of which the pidfd tells; as it leaves the job; and as it becomes another program, which
 * has no stack yet in the moment in which the kernel closes what it had open. */

void weft__peer_look_no_more(weft_context *ctx, weft__peer *m)
{
    if (m->tie.fd >= 0) weft__poller_remove(&ctx->poller, &m->tie);
    m->tie.fd = -1;
    m->look_ns = 0;
}

bool weft__peer_is_another_program(weft__peer *m, int64_t now_ns)
{
    m->look_ns = 0;
    /* Where its process has ended, its number may be another's by now: the pidfd tells of it. */
    if (weft__has_left(m) || atomic_load(&m->gone) == WEFT__DIED || now_ns > m->look_until_ns ||
        weft__peer_has_ended(m) || !weft__process_is_seen(&m->process) || weft__process_is_same(&m->process))
        return false;
    m->is_another = weft__process_is_another(&m->process);
    if (!m->is_another) m->look_ns = now_ns + LOOK_EVERY_NS;
    return m->is_another;
}

void weft__peer_look_for_exec(weft_context *ctx, weft__peer *m, int64_t now_ns)
{
    weft__peer_look_no_more(ctx, m);
    if (weft__has_left(m) || atomic_load(&m->gone) == WEFT__DIED) return;
    m->look_ns = now_ns + LOOK_EVERY_NS;
    m->look_until_ns = now_ns + LOOK_NS;
}

void weft__peer_forget_process(weft_context *ctx, int rank)
{
    weft__peer *m = &ctx->peers[rank];
    if (weft__peer_is_watched(m) || m->death_is_own) weft__peer_let_go_of_death(ctx, m);
    weft__peer_look_no_more(ctx, m);
}

bool weft__peer_may_become_another(const weft__peer *m)
{
    return atomic_load(&m->gone) == WEFT__PRESUMED_DEAD && m->death_is_own;
}
