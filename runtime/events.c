/* events.c - what the mail and the kernel report about peers, handed on to where it is dealt with. */
#include "guardian.h"
#include "lifetime.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* The kernel's struct pidfd_info (Linux 6.13; exit codes since 6.15), here because Debian 12's headers are
 * older. */
struct pidfd_info_start {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_GET_INFO_  _IOWR(0xFF, 11, struct pidfd_info_start)
#define PIDFD_INFO_EXIT_ (UINT64_C(1) << 3)

void weft__death_text(int pid_fd, char *text, size_t bytes)
{
    struct pidfd_info_start info = {.mask = PIDFD_INFO_EXIT_};
    if (ioctl(pid_fd, PIDFD_GET_INFO_, &info) < 0 || !(info.mask & PIDFD_INFO_EXIT_))
        snprintf(text, bytes, "has died");
    else if (WIFSIGNALED(info.exit_code))
        snprintf(text, bytes, "has died (killed by SIG%s)",
                 sigabbrev_np(WTERMSIG(info.exit_code)) ? sigabbrev_np(WTERMSIG(info.exit_code)) : "?");
    else
        snprintf(text, bytes, "has exited with code %d without leaving the job", WEXITSTATUS(info.exit_code));
}

#define GOODBYE_GRACE_NS (100 * WEFT__MS) /* for the word of a rank whose connection ended unused */

static weft_context *context_of(weft__mail_events *events)
{
    return WEFT__OWNER(events, weft_context, mail_events);
}

static void on_collective(weft__mail_events *events, int peer, const weft__frame *frame)
{
    weft__collective_judge(context_of(events), peer, frame);
}

static void on_control(weft__mail_events *events, int peer, int type, const void *bytes, size_t length)
{
    weft__form_control(context_of(events), peer, type, bytes, length);
}

static void on_left(weft__mail_events *events, int peer, weft_status status, const char *why)
{
    char text[192];
    if (status == WEFT_OK) {
        weft__member_gone(context_of(events), peer, WEFT__LEFT, "has left");
        return;
    }
    snprintf(text, sizeof text, "has aborted: %.150s", why);
    weft__member_gone(context_of(events), peer, WEFT__DIED, text);
}

/* A rank that leaves says goodbye where it knows of a connection.  One that ends before anything came over it
 * may belong to a rank that left without knowing: its word is on the way through the guardians. */
static void on_lost(weft__mail_events *events, int peer, const char *why)
{
    weft_context *ctx = context_of(events);
    weft__member *m = &ctx->members[peer];
    char text[192];
    snprintf(text, sizeof text, "is lost: %.150s", why);
    if (weft__mail_heard(ctx->mail, peer)) {
        weft__member_gone(ctx, peer, WEFT__DIED, text);
    } else if (!m->suspect_ns) {
        snprintf(m->suspicion, sizeof m->suspicion, "%s", text);
        m->suspect_ns = weft__now_ns() + GOODBYE_GRACE_NS;
        weft__guardian_look(ctx, m->suspect_ns);
    }
}

int64_t weft__suspects_look(weft_context *ctx, int64_t now_ns)
{
    int64_t next = WEFT__NEVER;
    for (int i = 0; i < ctx->world_size; i++) {
        weft__member *m = &ctx->members[i];
        if (!m->suspect_ns || atomic_load(&m->gone)) continue;
        if (now_ns >= m->suspect_ns)
            weft__member_gone(ctx, i, WEFT__DIED, m->suspicion);
        else if (m->suspect_ns < next)
            next = m->suspect_ns;
    }
    return next;
}

void weft__events_init(weft_context *ctx)
{
    ctx->mail_events = (weft__mail_events){on_collective, on_control, on_left, on_lost};
}
