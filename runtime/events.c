/* events.c - what the mail and the kernel report about peers, handed on to where it is dealt with. */
#include "events.h"
#include "breaking.h"
#include "comm.h"
#include "form.h"
#include "member.h"
#include "rows.h"
#include "shrink.h"

#include <stdio.h>

static weft_context *context_of(weft__mail_events *events)
{
    return WEFT__OWNER(events, weft_context, mail_events);
}

static bool on_collective(weft__mail_events *events, int peer, const weft__frame *frame)
{
    return weft__collective_judge(context_of(events), peer, frame);
}

static void on_control(weft__mail_events *events, int peer, int type, const void *bytes, size_t length)
{
    weft_context *ctx = context_of(events);
    weft__notice notice;
    switch ((enum weft__message)type) {
    case WEFT__MESSAGE_FORM_JOIN:
    case WEFT__MESSAGE_FORM_READY:
    case WEFT__MESSAGE_FORM_FAILED:
    case WEFT__MESSAGE_FORM_EXPIRED: weft__form_control(ctx, peer, type, bytes, length); break;
    case WEFT__MESSAGE_SHRINK_JOIN:
    case WEFT__MESSAGE_SHRINK_READY:
    case WEFT__MESSAGE_SHRINK_FAILED:
    case WEFT__MESSAGE_SHRINK_EXPIRED: weft__shrink_control(ctx, peer, type, bytes, length); break;
    case WEFT__MESSAGE_ROW: weft__rows_control(ctx, peer, bytes, length); break;
    case WEFT__MESSAGE_BROKEN:
        if (!weft__notice_read(ctx, peer, bytes, length, &notice)) break;
        if (notice.kind == WEFT__NOTICE_BROKEN)
            weft__break_told(ctx, &notice);
        else
            weft__member_refused(ctx, peer, "another notice in the place of a broken group");
        break;
    case WEFT__MESSAGE_COMM: weft__link_control(ctx, peer, bytes, length); break;
    case WEFT__MESSAGE_PROPOSE:
    case WEFT__MESSAGE_FINAL: weft__order_control(ctx, peer, type, bytes, length); break;
    case WEFT__MESSAGE_NONE: break;
    default: weft__member_refused(ctx, peer, "a control message of unknown type"); break;
    }
}

static void on_left(weft__mail_events *events, int peer, weft_status status, const char *why)
{
    char text[192];
    if (status == WEFT_OK) {
        weft__member_gone(context_of(events), peer, WEFT__LEFT, *why ? why : "has left");
        return;
    }
    snprintf(text, sizeof text, "has aborted: %.150s", why);
    weft__member_gone(context_of(events), peer, WEFT__DIED, text);
}

static void on_lost(weft__mail_events *events, int peer, const char *why)
{
    weft_context *ctx = context_of(events);
    char text[192];
    snprintf(text, sizeof text, "is lost: %.150s", why);
    /* A rank that leaves says goodbye where it knows of a connection; where nothing has come, it may not
     * know. */
    if (weft__mail_heard(ctx->mail, peer))
        weft__member_gone(ctx, peer, WEFT__DIED, text);
    else
        weft__member_suspect(ctx, peer, text);
}

void weft__events_init(weft_context *ctx)
{
    ctx->mail_events = (weft__mail_events){on_collective, on_control, on_left, on_lost};
}
