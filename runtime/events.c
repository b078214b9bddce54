/* events.c - what the mail and the kernel report about peers, handed on to where it is dealt with. */
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
        weft__member_gone(context_of(events), peer, true, "has left");
        return;
    }
    snprintf(text, sizeof text, "has aborted: %.150s", why);
    weft__member_gone(context_of(events), peer, false, text);
}

static void on_lost(weft__mail_events *events, int peer, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "is lost: %.150s", why);
    weft__member_gone(context_of(events), peer, false, text);
}

void weft__events_init(weft_context *ctx)
{
    ctx->mail_events = (weft__mail_events){on_collective, on_control, on_left, on_lost};
}
