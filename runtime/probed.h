/* probed.h - messages of unknown size: found by a probe first, received afterwards. */
#ifndef WEFT_RUNTIME_PROBED_H
#define WEFT_RUNTIME_PROBED_H
#include "request.h"

/* What this probe holds, if it does, is free again.  Any thread; the engine held or not. */
void weft__probed_let_go(weft_request *probe);
#endif
