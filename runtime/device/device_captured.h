/* device_captured.h - messages that graphs record: from submission to both sides' agreement.  Engine held throughout. */
#ifndef WEFT_RUNTIME_DEVICE_CAPTURED_H
#define WEFT_RUNTIME_DEVICE_CAPTURED_H
#include "device.h"

/* Before it has its number; its group's communicator is there.  Makes room for what is counted. */
weft_status weft__captured_prepare(const weft_request *req);
void weft__captured_start(weft_request *req);
/* The module has recorded it: it settles when it has met. */
void weft__captured_done(weft_request *req);
/* A message has met one of which only the other side, or only this one, is recorded: ends it, and breaks the group. */
void weft__captured_differs(weft_request *req);
#endif
