/* events.h - what the mail reports about peers. */
#ifndef WEFT_RUNTIME_EVENTS_H
#define WEFT_RUNTIME_EVENTS_H
#include "context.h"

/* The runtime's own messages between ranks (weft__mail_control). */
enum weft__message {
    WEFT__MESSAGE_NONE, /* says nothing: makes a connection */
    WEFT__MESSAGE_FORM_JOIN,
    WEFT__MESSAGE_FORM_READY,
    WEFT__MESSAGE_FORM_FAILED,
    WEFT__MESSAGE_FORM_EXPIRED,
    WEFT__MESSAGE_SHRINK_JOIN,
    WEFT__MESSAGE_SHRINK_READY,
    WEFT__MESSAGE_SHRINK_FAILED,
    WEFT__MESSAGE_SHRINK_EXPIRED,
    WEFT__MESSAGE_ROW,
    WEFT__MESSAGE_BROKEN,
    WEFT__MESSAGE_COMM,
    WEFT__MESSAGE_PROPOSE,
    WEFT__MESSAGE_FINAL
};

void weft__events_init(weft_context *ctx);
#endif
